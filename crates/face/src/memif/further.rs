//! Ports of the rings after the first, and how the first port serves them; see [`sharing`](super::sharing).

use std::os::fd::AsRawFd;

use byname_forward::face_table::Persistency;
use mio::Interest;
use mio::unix::SourceFd;

use super::breach::Ended;
use super::connection::Connection;
use super::rings::Rings;
use super::{INTERRUPT_KEY, MemifPort};
use crate::port::PortContext;

impl MemifPort {
    /// Whether the port has a ring after the first, and so no control socket.
    pub(super) fn is_further(&self) -> bool {
        self.part.as_ref().is_some_and(|part| !part.is_first())
    }

    /// Does what other ports have asked for: takes rings or leaves them, or ends the connection.
    pub(super) fn follow(&mut self, cx: &mut PortContext<'_>) {
        let Some(part) = self.part.as_mut().filter(|part| part.has_changed()) else { return };
        if part.is_first() {
            if let Some(ended) = part.take_accusation() {
                self.end(cx, ended);
            }
            return;
        }
        let rings = part.take();
        self.leave_rings(cx);
        if let Some(rings) = rings {
            self.use_rings(cx, rings);
        }
    }

    /// Begins to use rings of a new connection. The first rings make the face.
    fn use_rings(&mut self, cx: &mut PortContext<'_>, rings: Rings) {
        let interrupt = rings.interrupt().as_raw_fd();
        if let Err(error) = cx.register(&mut SourceFd(&interrupt), INTERRUPT_KEY, Interest::READABLE) {
            if let Some(part) = &mut self.part {
                part.accuse(Ended::System(error));
            }
            return;
        }
        self.lent = Some(rings);
        if self.face.is_none() && !self.is_unwanted {
            let link = self.link_config();
            self.add_face(cx, Persistency::Permanent, link);
        }
        self.bring_up(cx);
    }

    /// Lets packets flow by the rings that were given, if there is a face.
    pub(super) fn bring_up(&mut self, cx: &mut PortContext<'_>) {
        if self.lent.is_none() || self.face.is_none() {
            return;
        }
        self.up = true;
        (self.asked, self.heard, self.blocked) = (false, true, false);
        self.peers.take_up(cx);
    }

    /// Stops using the rings that were given.
    pub(super) fn leave_rings(&mut self, cx: &mut PortContext<'_>) {
        let Some(rings) = self.lent.take() else { return };
        (self.look_at, self.send_at) = (None, None);
        self.drops.too_long += rings.too_long;
        let interrupt = rings.interrupt().as_raw_fd();
        let _ = cx.deregister(&mut SourceFd(&interrupt));
        if std::mem::take(&mut self.up) {
            self.peers.take_down(cx);
        }
    }

    /// Ends the connection from a port without its control socket.
    pub(super) fn ask_for_end(&mut self, cx: &mut PortContext<'_>, ended: Ended) {
        self.leave_rings(cx);
        if let Some(part) = &mut self.part {
            part.accuse(ended);
        }
    }
}

/// The rings that a port uses: those that it was given, or the first of its connection.
#[inline]
pub(super) fn rings_of<'a>(
    connection: &'a mut Option<Connection>,
    lent: &'a mut Option<Rings>,
) -> Option<&'a mut Rings> {
    match lent {
        Some(rings) => Some(rings),
        None => connection.as_mut().and_then(Connection::rings),
    }
}
