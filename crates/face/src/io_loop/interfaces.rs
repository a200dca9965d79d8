//! Ports that come and go while the packet threads run.
//!
//! A port keeps its number while it exists, because faces and descriptors refer to it. The place of a removed port gets
//! a port that does nothing, until another port takes the place.

use byname_forward::FaceId;

use super::{ForwarderHandle, IoLoop, StartError};
use crate::port::{Port, PortContext};
use crate::pulse::Doing;

impl ForwarderHandle {
    /// Starts ports on a running thread: all or none of them.
    ///
    /// # Errors
    /// If a port does not start.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn insert_ports(&self, thread: usize, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.line(thread).call(move |io_loop| io_loop.insert_ports(ports)).unwrap_or(Ok(()))
    }

    /// Ends all faces on this interface, and removes its ports ([`Port::interface`]) from all threads. Dropping them
    /// closes the interface.
    pub fn remove_ports(&self, interface: &str) -> Vec<Box<dyn Port>> {
        let interface = interface.to_owned();
        self.call_all(move |io_loop| io_loop.remove_ports(&interface)).into_iter().flatten().collect()
    }
}

/// What removed ports have counted, by reason.
#[derive(Default)]
pub(super) struct Removed {
    drops: Vec<(&'static str, u64)>,
    closed: Vec<(&'static str, u64)>,
}

impl Removed {
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.drops.iter().copied()
    }

    pub fn closed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.closed.iter().copied()
    }

    fn add(&mut self, port: &dyn Port) {
        for (sums, counts) in [(&mut self.drops, port.drops()), (&mut self.closed, port.closed())] {
            for (reason, count) in counts {
                match sums.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, sum)) => *sum += count,
                    None => sums.push((reason, count)),
                }
            }
        }
    }
}

impl IoLoop {
    fn insert_ports(&mut self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.now = self.clock.now();
        let mut places = Vec::new();
        for port in ports {
            let name = port.name().to_owned();
            let place = match self.ports.iter().position(|port| port.name() == NO_PORT) {
                Some(place) => {
                    self.pulse.rename_port(place, &name);
                    self.ports[place] = port;
                    place
                }
                None => {
                    self.pulse.add_port(&name);
                    self.ports.push(port);
                    self.ports.len() - 1
                }
            };
            places.push(place);
            if let Err(error) = self.with_port(Doing::Command, place, |port, cx| port.start(cx)) {
                self.apply_events();
                places.into_iter().for_each(|place| drop(self.remove_port(place)));
                return Err(StartError::Port { port: name, error });
            }
        }
        self.apply_events();
        Ok(())
    }

    fn remove_ports(&mut self, interface: &str) -> Vec<Box<dyn Port>> {
        self.now = self.clock.now();
        let is_there = |place: &usize| self.ports[*place].interface().as_deref() == Some(interface);
        let places: Vec<usize> = (0..self.ports.len()).filter(is_there).collect();
        places.into_iter().map(|place| self.remove_port(place)).collect()
    }

    fn remove_port(&mut self, place: usize) -> Box<dyn Port> {
        let faces: Vec<FaceId> = self.faces.iter().filter(|(_, port)| **port == place).map(|(id, _)| *id).collect();
        for face in faces {
            self.destroy_face(face);
        }
        self.pulse.rename_port(place, NO_PORT);
        let port = std::mem::replace(&mut self.ports[place], Box::new(NoPort));
        self.removed.add(&*port);
        port
    }
}

/// Name of a [`NoPort`].
const NO_PORT: &str = "none";

/// Stands in the place of a removed port.
struct NoPort;

impl Port for NoPort {
    fn name(&self) -> &str {
        NO_PORT
    }

    fn start(&mut self, _: &mut PortContext<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn has_input(&self) -> bool {
        false
    }

    fn receive(&mut self, _: &mut PortContext<'_>, _: usize) {}

    crate::port_without_faces!();
}
