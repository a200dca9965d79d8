//! The thread that moves a switch's frames: packet sockets with rings, and a [`Switch`] between them.
//!
//! In a round the thread takes a burst from each port that has input, and writes each frame to the rings of its output
//! ports. Then it notifies the kernel once for each ring. A frame is copied once, from ring to ring. Without work the
//! thread sleeps until a descriptor is ready or a command comes.
//!
//! Tables come from another thread, which changes them in place while this thread looks frames up ([`SwitchHandle`]).

mod port;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::frame::{Arrived, TAG_BYTES};
use crate::switch::{Plan, PortCounters, Reason, Report, Role, Switch};
use byname_forward::Ticks;
use byname_lookup::FlatFib;
use byname_wire::NameHashKey;
use crossbeam_channel::{Receiver, Sender, bounded};
use mio::{Events, Poll, Token};
use smallvec::SmallVec;

use byname_face::frames::ring::PacketSocket;
use byname_face::frames::socket::FrameSocket;
use byname_face::waker::LoopWaker;
pub use port::{SwitchPort, SwitchPortConfig};

/// Frames taken from a port before others have their turn.
const BURST_FRAMES: usize = 64;
/// Interval at which interfaces are checked, as they may have gone down or come up.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which the system is asked again to send frames that it could not take.
const SEND_AGAIN: Duration = Duration::from_millis(1);
const COMMANDS_MAX: usize = 64;
const WAKER_TOKEN: Token = Token(usize::MAX);

/// Events for the control side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchEvent {
    /// A source was heard that the table has elsewhere or not at all.
    Heard(Report),
    /// A port went up or down. Sent for each port at the start.
    Link {
        /// Number of the port.
        port: usize,
        /// Whether frames can be moved.
        up: bool,
    },
}

/// Status of a port.
#[derive(Debug, Clone)]
pub struct SwitchPortStatus {
    /// Name of the interface.
    pub interface: String,
    /// Role of the port.
    pub role: Role,
    /// Whether frames can be moved.
    pub up: bool,
    /// Longest payload of a frame, in bytes; `None` if the port is down.
    pub mtu: Option<usize>,
    /// Counters of the port.
    pub counters: PortCounters,
}

enum Command {
    Table(Box<NameHashKey>, Arc<dyn FlatFib>, Sender<()>),
    Changed,
    Plan(Plan),
    Status(Sender<Vec<SwitchPortStatus>>),
    Shutdown,
}

/// Commands to a switch's thread.
#[derive(Clone)]
pub struct SwitchHandle {
    commands: Sender<Command>,
    waker: LoopWaker,
}

impl SwitchHandle {
    fn send(&self, command: Command) {
        // Fails only if the thread has ended; its owner learns that by joining it.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Makes the thread forward with another query half. Returns when the thread uses the old one no more, so that it
    /// may be changed again.
    pub fn set_table(&self, key: NameHashKey, fib: Arc<dyn FlatFib>) {
        let (done, taken) = bounded(1);
        self.send(Command::Table(Box::new(key), fib, done));
        let _ = taken.recv();
    }

    /// Tells the thread that the table has changed in place. Waiting frames are looked up again.
    pub fn table_changed(&self) {
        self.send(Command::Changed);
    }

    /// Tells the thread how the controller wants ports to be used.
    pub fn set_plan(&self, plan: Plan) {
        self.send(Command::Plan(plan));
    }

    /// Status of all ports; `None` if the thread has ended.
    pub fn status(&self) -> Option<Vec<SwitchPortStatus>> {
        let (reply, status) = bounded(1);
        self.send(Command::Status(reply));
        status.recv().ok()
    }

    /// Ends the thread.
    pub fn shutdown(&self) {
        self.send(Command::Shutdown);
    }
}

/// Starts the thread. `events` must not block, and returns false if there is no room now.
///
/// # Errors
/// If the system gives no event queue or thread.
///
/// # Panics
/// If there are more than [`PORTS_MAX`](crate::switch::PORTS_MAX) ports.
pub fn start(
    ports: Vec<SwitchPort>,
    events: impl FnMut(SwitchEvent) -> bool + Send + 'static,
) -> io::Result<(SwitchHandle, JoinHandle<()>)> {
    let poll = Poll::new()?;
    let waker = LoopWaker::new(poll.registry(), WAKER_TOKEN)?;
    let (commands, receiver) = bounded(COMMANDS_MAX);
    let switch_loop = SwitchLoop {
        poll,
        waker: waker.clone(),
        switch: Switch::new(ports.len()),
        told: vec![None; ports.len()],
        ports,
        commands: receiver,
        events,
        epoch: Instant::now(),
        check_at: Ticks(0),
    };
    let thread = std::thread::Builder::new().name("byname-switch".into()).spawn(move || switch_loop.run())?;
    Ok((SwitchHandle { commands, waker }, thread))
}

struct SwitchLoop<E> {
    poll: Poll,
    waker: LoopWaker,
    switch: Switch,
    ports: Vec<SwitchPort>,
    /// Link state of each port that the control side knows.
    told: Vec<Option<bool>>,
    commands: Receiver<Command>,
    events: E,
    epoch: Instant,
    check_at: Ticks,
}

impl<E: FnMut(SwitchEvent) -> bool> SwitchLoop<E> {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            let now = self.now();
            if now >= self.check_at {
                self.check_ports();
                self.check_at = now + CHECK_INTERVAL;
            }
            let mut busy = false;
            while let Ok(command) = self.commands.try_recv() {
                busy = true;
                if !self.carry_out(command, now) {
                    return;
                }
            }
            for port in 0..self.ports.len() {
                busy |= self.ports[port].has_input();
                self.receive(port, now);
            }
            if self.switch.next_deadline().is_some_and(|at| at <= now) {
                self.retry_held(now);
            }
            // Flush all ports, even if the first fails.
            let unsent = self.ports.iter_mut().filter_map(|port| (!port.flush()).then_some(())).count();
            self.tell();
            if !busy {
                self.sleep(&mut events, unsent == 0);
            }
        }
    }

    fn now(&self) -> Ticks {
        Ticks(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn receive(&mut self, from: usize, now: Ticks) {
        // The socket is taken out while the other ports take its frames: no frame goes back to its port.
        let Some(mut socket) = self.ports[from].socket.take() else { return };
        let (switch, ports) = (&mut self.switch, &mut self.ports);
        socket.receive(BURST_FRAMES, |arrivals| {
            let whole = arrivals.iter().filter(|arrival| !arrival.cut && !arrival.offloaded);
            let frames: SmallVec<[Arrived<'_>; BURST_FRAMES]> =
                whole.map(|arrival| Arrived { bytes: arrival.bytes, vlan: arrival.vlan }).collect();
            switch.count_drops(from, Reason::Offloaded, (arrivals.len() - frames.len()) as u64);
            switch.forward(now, from, &frames, &mut |to, header, rest| ports[to].push(header, rest));
        });
        self.ports[from].socket = Some(socket);
    }

    fn retry_held(&mut self, now: Ticks) {
        let ports = &mut self.ports;
        self.switch.retry_held(now, &mut |to, header, rest| ports[to].push(header, rest));
    }

    /// Runs a command. Returns false to end the thread.
    fn carry_out(&mut self, command: Command, now: Ticks) -> bool {
        match command {
            Command::Table(key, fib, done) => {
                self.switch.set_table(*key, fib);
                // The asking thread may have gone.
                let _ = done.send(());
                self.retry_held(now);
            }
            Command::Changed => self.retry_held(now),
            Command::Plan(plan) => {
                self.switch.set_plan(plan);
                self.warn_of_mtus();
                self.retry_held(now);
            }
            Command::Status(reply) => {
                let status = self.status();
                let _ = reply.send(status);
            }
            Command::Shutdown => return false,
        }
        true
    }

    fn check_ports(&mut self) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            // Count drops before the check, because a closed socket takes its counter with it.
            self.switch.count_drops(number, Reason::RingFull, port.socket.as_ref().map_or(0, PacketSocket::take_drops));
            port.check(self.poll.registry(), Token(number));
        }
    }

    /// Warns if a link between switches cannot take the longest frames of hosts with a tag.
    fn warn_of_mtus(&self) {
        let ports = || self.ports.iter().zip(self.switch.roles());
        let hosts = ports().filter(|(_, role)| **role == Role::Host).filter_map(|(port, _)| port.mtu()).max();
        let Some(hosts) = hosts else { return };
        for (port, _) in ports().filter(|(_, role)| matches!(role, Role::Trunk { .. })) {
            if port.mtu().is_some_and(|mtu| mtu < hosts + TAG_BYTES) {
                tracing::warn!(
                    "{} leads to another switch, and its MTU is not {TAG_BYTES} above that of hosts' ports: the longest \
                     frames are dropped; `ip link set {} mtu {}` at both ends helps",
                    port.interface(),
                    port.interface(),
                    hosts + TAG_BYTES
                );
            }
        }
    }

    fn status(&mut self) -> Vec<SwitchPortStatus> {
        for (number, port) in self.ports.iter().enumerate() {
            self.switch.count_drops(number, Reason::RingFull, port.socket.as_ref().map_or(0, PacketSocket::take_drops));
        }
        let ports = self.ports.iter().zip(self.switch.roles()).zip(self.switch.counters());
        let status = ports.map(|((port, role), counters)| SwitchPortStatus {
            interface: port.interface().to_owned(),
            role: *role,
            up: port.is_up(),
            mtu: port.mtu(),
            counters: *counters,
        });
        status.collect()
    }

    /// Reports changes to the control side.
    fn tell(&mut self) {
        for (number, (port, told)) in self.ports.iter().zip(&mut self.told).enumerate() {
            let up = port.is_up();
            if *told != Some(up) && (self.events)(SwitchEvent::Link { port: number, up }) {
                *told = Some(up);
            }
        }
        for report in self.switch.take_reports() {
            // Lost if there is no room. A source that is still unknown is reported again.
            (self.events)(SwitchEvent::Heard(report));
        }
    }

    fn sleep(&mut self, events: &mut Events, sent: bool) {
        self.waker.fall_asleep();
        let now = self.now();
        let mut until = self.switch.next_deadline().map_or(self.check_at, |at| at.min(self.check_at));
        if !sent || self.ports.iter().any(SwitchPort::has_unsent) {
            until = until.min(now + SEND_AGAIN);
        }
        let at_hand = self.ports.iter().any(SwitchPort::has_input) || !self.commands.is_empty();
        let wait = if at_hand { Duration::ZERO } else { until.since(now) };
        let polled = self.poll.poll(events, Some(wait));
        self.waker.awake();
        if let Err(error) = polled {
            if error.kind() != io::ErrorKind::Interrupted {
                tracing::error!(%error, "cannot wait for frames");
                std::thread::sleep(CHECK_INTERVAL);
            }
            return;
        }
        for event in events.iter().filter(|event| event.is_error() || event.is_read_closed()) {
            if let Some(port) = self.ports.get_mut(event.token().0) {
                port.ready();
            }
        }
    }
}
