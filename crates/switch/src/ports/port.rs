//! One interface of a switch.

use std::io::{self, ErrorKind};

use crate::switch::Reason;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use byname_face::frames::OpenError;
use byname_face::frames::interface::{Found, Interface};
use byname_face::frames::ring::{Frames, PacketSocket, RingConfig};
use byname_face::frames::socket::FrameSocket;
use byname_face::port::Pushed;

/// Settings of a port.
#[derive(Debug, Clone)]
pub struct SwitchPortConfig {
    /// Name of the interface.
    pub interface: String,
    /// Memory of the receive ring, in bytes.
    pub receive_ring_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_ring_bytes: usize,
}

impl SwitchPortConfig {
    fn ring(&self) -> RingConfig {
        RingConfig {
            frames: Frames::All,
            paths: Vec::new(),
            promiscuous: true,
            qdisc_bypass: false,
            receive_bytes: self.receive_ring_bytes,
            transmit_bytes: self.transmit_ring_bytes,
        }
    }
}

/// A port, which takes all frames of its interface.
pub struct SwitchPort {
    config: SwitchPortConfig,
    /// `None` while the interface is down or gone.
    pub(super) socket: Option<PacketSocket>,
    index: u32,
    carrier: bool,
}

impl SwitchPort {
    /// Opens the interface. If it is down, the port waits for it.
    ///
    /// # Errors
    /// If there is no such interface, or the process may not use it.
    pub fn open(config: SwitchPortConfig) -> Result<Self, OpenError> {
        let found = Interface::ethernet(&config.interface)?;
        // Opened only to learn whether this process may use the interface. A port begins down, and the first check
        // brings it up.
        PacketSocket::open(&found, &config.ring()).map_err(|error| OpenError::of_system(&found.name, error))?;
        Ok(SwitchPort { config, socket: None, index: found.index, carrier: false })
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        &self.config.interface
    }

    /// Longest payload of a frame, in bytes; `None` if the port is down.
    pub(super) fn mtu(&self) -> Option<usize> {
        self.socket.as_ref().map(PacketSocket::mtu)
    }

    pub(super) fn is_up(&self) -> bool {
        self.socket.is_some() && self.carrier
    }

    pub(super) fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(PacketSocket::has_input)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.socket.as_ref().is_some_and(PacketSocket::has_unsent)
    }

    /// Checks whether the interface exists and is up, and opens or closes it accordingly. Also checks whether it has a
    /// link. A missing link does not close the port, so that a newly connected station is heard from its first frame.
    pub(super) fn check(&mut self, registry: &Registry, token: Token) {
        let found = match Interface::find(&self.config.interface) {
            Ok(Found::Ethernet(found)) if found.up => found,
            _ => return self.close("it is down, or gone"),
        };
        self.carrier = found.carrier;
        if self.index != found.index {
            self.close("another has its name");
        }
        if self.socket.is_some() {
            return;
        }
        match self.reopen(&found, registry, token) {
            Ok(()) => tracing::info!(interface = found.name, "the port is up"),
            Err(error) => tracing::debug!(%error, interface = found.name, "not up yet"),
        }
    }

    fn reopen(&mut self, interface: &Interface, registry: &Registry, token: Token) -> io::Result<()> {
        let socket = PacketSocket::open(interface, &self.config.ring())?;
        registry.register(&mut SourceFd(&socket.descriptors()[0]), token, Interest::READABLE)?;
        (self.socket, self.index) = (Some(socket), interface.index);
        Ok(())
    }

    fn close(&mut self, why: &str) {
        if self.socket.take().is_some() {
            tracing::warn!(interface = self.config.interface, "the port is down: {why}");
        }
    }

    /// Closes the port if an error made the descriptor ready.
    pub(super) fn ready(&mut self) {
        if let Some(error) = self.socket.as_ref().and_then(PacketSocket::take_error) {
            self.close(&error.to_string());
        }
    }

    /// Puts a frame, in two parts, into the transmit ring.
    pub(super) fn push(&mut self, header: &[u8], rest: &[u8]) -> Result<(), Reason> {
        let Some(socket) = &mut self.socket else { return Err(Reason::Busy) };
        let mut pushed = socket.push(header, (rest, &[]));
        if pushed == Pushed::Full {
            // An error comes again when the burst ends.
            let _ = socket.send();
            pushed = socket.push(header, (rest, &[]));
        }
        match pushed {
            Pushed::Done => Ok(()),
            Pushed::Full => Err(Reason::Busy),
            Pushed::TooLong => Err(Reason::TooLong),
        }
    }

    /// Makes the system send the frames in the ring. Returns false if some must be tried again.
    pub(super) fn flush(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return true };
        match socket.send() {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::Interrupted => false,
            Err(error) => {
                self.close(&error.to_string());
                true
            }
        }
    }
}
