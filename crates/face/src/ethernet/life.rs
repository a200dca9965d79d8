//! The interface of a port goes down and comes back.

use std::io::{self, ErrorKind};

use mio::Interest;
use mio::unix::SourceFd;

use super::sharing::Part;
use super::{EthernetPort, RETRY_INTERVAL, SEND_AGAIN, SOCKET_KEY};
use crate::frames::OpenError;
use crate::frames::interface::Interface;
use crate::frames::socket::FrameSocket;
use crate::link;
use crate::port::PortContext;

impl<S: FrameSocket> EthernetPort<S> {
    /// Closes the socket, because the interface is down or gone.
    pub(super) fn fail(&mut self, cx: &mut PortContext<'_>, error: &io::Error) {
        let Some(socket) = self.socket.take() else { return };
        tracing::warn!(%error, interface = self.config.interface, "the interface cannot be used now");
        *self.drops.ring_full.get_mut() += socket.take_drops();
        (self.blocked, self.look_at) = (false, None);
        self.retry_at = Some(cx.now() + RETRY_INTERVAL);
        self.peers.take_down(cx);
        if let Some(part) = &mut self.part {
            part.close(socket);
        }
    }

    /// Does what the other ports of the interface have done: closes the socket after theirs, or takes a new one.
    pub(super) fn follow(&mut self, cx: &mut PortContext<'_>) {
        if !self.part.as_ref().is_some_and(Part::has_changed) {
            return;
        }
        if self.socket.is_some() {
            self.fail(cx, &ErrorKind::NetworkDown.into());
        } else {
            self.look(cx);
        }
    }

    /// Opens the interface again if it is up, and otherwise later.
    pub(super) fn look(&mut self, cx: &mut PortContext<'_>) {
        if let Err(error) = self.recover(cx) {
            tracing::debug!(%error, interface = self.config.interface, "not up yet");
            self.retry_at = Some(cx.now() + RETRY_INTERVAL);
        }
    }

    /// Waits for a queue of the interface, which has fewer than ports now.
    fn wait_for_queue(&mut self, cx: &mut PortContext<'_>) {
        tracing::warn!(
            interface = self.config.interface,
            "the interface has no queue for one of the packet threads now"
        );
        self.retry_at = None;
        // Their stations' frames come to another port, which must be able to make faces for them.
        self.peers.remove_on_demand(cx);
    }

    /// The interface and a new socket of its only port, if it exists and is up.
    fn reopened(&self) -> Result<(Interface, S), OpenError> {
        let interface = S::find(&self.config.interface, &self.own)?;
        if !interface.up {
            return Err(OpenError::of_system(&interface.name, ErrorKind::NetworkDown.into()));
        }
        let socket = S::for_port(&interface, &self.config.socket(), &self.own)?;
        Ok((interface, socket))
    }

    /// Opens the interface again, if it exists and is up.
    fn recover(&mut self, cx: &mut PortContext<'_>) -> Result<(), OpenError> {
        let (interface, socket) = match &mut self.part {
            None => self.reopened()?,
            Some(part) => match part.recover()? {
                Some(recovered) => recovered,
                None => {
                    self.wait_for_queue(cx);
                    return Ok(());
                }
            },
        };
        if let Err(error) = register(cx, &socket) {
            if let Some(part) = &mut self.part {
                part.close(socket);
            }
            return Err(OpenError::of_system(&interface.name, error));
        }
        tracing::info!(interface = interface.name, "the interface is up");
        self.address = interface.address;
        let mtu = socket.mtu().min(self.config.mtu);
        (self.socket, self.mtu) = (Some(socket), mtu);
        let again = S::POLLED || !self.keep_silent();
        self.retry_at = again.then(|| cx.now() + RETRY_INTERVAL);
        for (_, face) in self.peers.iter_mut() {
            let most = mtu.saturating_sub(face.transport.peer.overhead()).max(link::MTU_MIN as usize);
            let mut link = face.link.config().clone();
            link.mtu = link.mtu.map(|old| old.min(most));
            face.link.set_config(link);
        }
        self.peers.take_up(cx);
        Ok(())
    }

    /// Whether the group's face belongs to this port.
    pub(super) fn has_group(&self) -> bool {
        self.part.as_ref().is_none_or(Part::has_group)
    }

    /// Stops the kernel from answering peers by UDP whose datagrams it hears too. Returns whether all are stopped.
    pub(super) fn keep_silent(&mut self) -> bool {
        !S::KERNEL_HEARS || self.silence.keep(self.config.datagrams.iter().map(|peer| peer.path))
    }

    /// Makes the system send the frames in the ring.
    pub(super) fn send(&mut self, cx: &mut PortContext<'_>) {
        let Some(socket) = &mut self.socket else { return };
        match socket.send() {
            Ok(true) => {}
            Ok(false) => self.retry_at = Some(cx.now() + SEND_AGAIN),
            Err(error) => self.fail(cx, &error),
        }
    }
}

/// Registers a socket's frames and errors with the loop.
pub(super) fn register(cx: &PortContext<'_>, socket: &impl FrameSocket) -> io::Result<()> {
    let descriptors = socket.descriptors();
    descriptors.iter().try_for_each(|fd| cx.register(&mut SourceFd(fd), SOCKET_KEY, Interest::READABLE))
}
