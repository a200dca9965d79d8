//! Connections with a face that move to the port of another thread, or come from there.
//!
//! A connection takes everything along: its socket, what its peer has sent in part, its link service and its queued
//! output. Fragments of packets that are not complete count for the budget of the port that received them.

use byname_forward::FaceId;

use super::StreamPort;
use super::connection::Connection;
use crate::port::PortContext;

impl StreamPort {
    /// Takes a face's connection out of this port.
    pub(super) fn detach(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> Option<Box<Connection>> {
        let slot = self.faces.remove(&face)?;
        let mut connection = self.remove(slot)?;
        if let Some(socket) = &mut connection.socket {
            // This fails only if it is not registered.
            let _ = cx.deregister(socket);
        }
        self.queued_bytes -= connection.queued_bytes();
        self.waiting.set(slot, std::mem::take(&mut connection.waiting), 0);
        (connection.ready, connection.dirty, connection.timer) = (false, false, None);
        Some(connection)
    }

    /// Goes on with the connection of a face that the port of another thread had.
    pub(super) fn attach(&mut self, cx: &mut PortContext<'_>, face: FaceId, mut connection: Connection) {
        connection.serial = self.take_serial();
        self.queued_bytes += connection.queued_bytes();
        let slot = self.insert(connection);
        self.faces.insert(face, slot);
        self.note_admitted(slot);
        if let Some(Err(error)) = self.connection(slot).map(|connection| connection.resume(cx, slot)) {
            return self.end(cx, slot, error.into());
        }
        self.note_waiting(slot);
        self.mark_ready(slot);
        self.mark_dirty(slot);
        self.schedule(slot);
    }
}
