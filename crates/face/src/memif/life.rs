//! The connection of a port: how it begins, advances and ends.

use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::Interest;
use mio::unix::SourceFd;

use super::breach::Ended;
use super::connection::Connection;
use super::{ACCEPTS_PER_ROUND, CONTROL_KEY, HANDSHAKE_TIME, INTERRUPT_KEY, MemifPort, RETRY_INTERVAL};
use crate::port::PortContext;

impl MemifPort {
    /// Connects, or accepts clients again.
    pub(super) fn begin(&mut self, cx: &mut PortContext<'_>) {
        self.retry_at = None;
        if self.listener.is_some() {
            self.accept(cx);
            return;
        }
        match Connection::connect(&self.config.socket, self.terms()) {
            Ok(connection) => self.adopt(cx, connection),
            Err(error) => {
                tracing::debug!(%error, socket = %self.config.socket.display(), "cannot connect yet");
                self.retry_at = Some(cx.now() + RETRY_INTERVAL);
            }
        }
    }

    /// Accepts waiting clients. Keeps the first if there is none yet, and sends others away.
    pub(super) fn accept(&mut self, cx: &mut PortContext<'_>) {
        for _ in 0..ACCEPTS_PER_ROUND {
            if self.retry_at.is_some() || self.face.is_none() {
                return;
            }
            let Some(listener) = &self.listener else { return };
            match listener.accept(self.terms()) {
                Ok(None) => return,
                Ok(Some(connection)) => {
                    // The present client may have ended, to come back as this one.
                    self.advance(cx);
                    if self.connection.is_some() {
                        self.drops.busy += 1;
                        connection.say_goodbye("there is a client already");
                    } else {
                        self.adopt(cx, connection);
                    }
                }
                Err(Ended::System(error)) => {
                    tracing::warn!(%error, socket = %self.config.socket.display(), "cannot accept a client");
                    self.retry_at = Some(cx.now() + RETRY_INTERVAL);
                }
                Err(_) => {}
            }
        }
        // The listener announces clients only once, so the rest needs another round.
        self.retry_at = Some(cx.now());
    }

    fn adopt(&mut self, cx: &mut PortContext<'_>, connection: Connection) {
        let fd = connection.raw_fd();
        self.connection = Some(connection);
        self.up_until = Some(cx.now() + HANDSHAKE_TIME);
        if let Err(error) = cx.register(&mut SourceFd(&fd), CONTROL_KEY, Interest::READABLE) {
            self.end(cx, Ended::System(error));
        }
    }

    /// Handles the peer's messages on the control socket.
    pub(super) fn advance(&mut self, cx: &mut PortContext<'_>) {
        let Some(connection) = &mut self.connection else { return };
        let advanced = connection.advance();
        if !self.up
            && let Some(rings) = connection.rings_ref()
        {
            let interrupt = rings.interrupt().as_raw_fd();
            if let Err(error) = cx.register(&mut SourceFd(&interrupt), INTERRUPT_KEY, Interest::READABLE) {
                self.end(cx, Ended::System(error));
                return;
            }
            if let Some(part) = &mut self.part {
                part.give(connection.take_others());
            }
            tracing::info!(interface = %self.uri(), "the peer has connected");
            (self.up, self.up_until) = (true, None);
            (self.asked, self.heard, self.blocked) = (false, true, false);
            self.peers.take_up(cx);
        }
        if let Err(ended) = advanced {
            self.end(cx, ended);
        }
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, cx: &mut PortContext<'_>, ended: Ended) {
        if self.is_further() {
            return self.ask_for_end(cx, ended);
        }
        let Some(connection) = self.connection.take() else { return };
        if let Some(part) = &mut self.part {
            part.give(Vec::new());
        }
        (self.up_until, self.look_at, self.send_at) = (None, None, None);
        if let Ended::Breach(breach) = &ended {
            tracing::warn!(reason = %breach, interface = %self.uri(), "the peer breaks the rules of memif");
            self.drops.breaches.count(breach);
            connection.say_goodbye(&breach.to_string());
        } else {
            tracing::info!(reason = %ended, interface = %self.uri(), "the peer has disconnected");
        }
        // Deregister explicitly: the peer may hold the same files, and then closing our descriptors would not end the
        // registration.
        let _ = cx.deregister(&mut SourceFd(&connection.raw_fd()));
        if let Some(rings) = connection.rings_ref() {
            self.drops.too_long += rings.too_long;
            if self.up {
                let interrupt = rings.interrupt().as_raw_fd();
                let _ = cx.deregister(&mut SourceFd(&interrupt));
            }
        }
        drop(connection);
        if std::mem::take(&mut self.up) {
            self.peers.take_down(cx);
        }
        // Another client may wait already, if this one kept the rules.
        let wait =
            if self.listener.is_some() && !matches!(ended, Ended::Breach(_)) { Duration::ZERO } else { RETRY_INTERVAL };
        self.retry_at = Some(cx.now() + wait);
    }
}
