//! Faces that move to the socket of another thread.
//!
//! The system's program leads the peer's datagrams to the other socket first. Datagrams that had come before are then
//! received here, before the face is taken out. Datagrams that reach the other socket before the face does are kept
//! there. So the peer's packets keep their order, and none is lost. A thread keeps at most [`KEPT_BYTES_MAX`]; further
//! datagrams are dropped and counted.

use std::net::SocketAddr;

use byname_forward::{FaceId, Packet};

use super::UdpPort;
use super::face::UdpFace;
use super::faces::{Faces, without_flow};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// Bytes of datagrams that wait for a face, each with [`KEPT_BYTES_EACH`].
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Bytes that a waiting datagram takes beside its own.
const KEPT_BYTES_EACH: usize = 64;
/// A datagram with a packet takes at least this much of a socket's buffer, also in a run.
const BUFFER_BYTES_EACH: u64 = 32;

/// A peer whose face is about to come, and what it has sent.
pub(super) struct Expected {
    pub remote: SocketAddr,
    datagrams: Vec<Packet>,
    bytes: usize,
}

impl Faces {
    /// A face to this peer is about to come.
    pub(super) fn expect(&mut self, remote: Option<&FaceUri>) -> Result<(), String> {
        // What has come for a face that does not come is lost.
        let before = self.expected.take();
        self.late += before.map_or(0, |expected| expected.datagrams.len() as u64);
        let Some(remote) = remote else { return Ok(()) };
        let FaceUri::Udp(remote) = remote else { return Err(format!("{remote} is no UDP peer")) };
        let remote = without_flow(*remote);
        if self.peers.find(&remote).is_some() {
            return Err(format!("the other thread has a face to {remote}"));
        }
        self.expected = Some(Expected { remote, datagrams: Vec::new(), bytes: 0 });
        Ok(())
    }

    /// Whether a face to this peer is about to come.
    pub(super) fn expects(&self, remote: &SocketAddr) -> bool {
        self.expected.as_ref().is_some_and(|expected| expected.remote == *remote)
    }

    /// Keeps datagrams of the peer whose face is about to come.
    pub(super) fn keep<'a>(&mut self, datagrams: impl Iterator<Item = &'a [u8]>) {
        let Some(expected) = &mut self.expected else { return };
        for datagram in datagrams {
            if expected.bytes >= KEPT_BYTES_MAX {
                self.late += 1;
                continue;
            }
            expected.bytes += datagram.len() + KEPT_BYTES_EACH;
            expected.datagrams.push(Packet::copy_from(datagram));
        }
    }

    /// Goes on with a face of another thread, and with what its peer has sent meanwhile.
    pub(super) fn attach(&mut self, cx: &mut PortContext<'_>, id: FaceId, face: UdpFace) {
        let expected = self.expected.take();
        self.peers.attach(id, face);
        let (Some(expected), Some(face)) = (expected, self.peers.get_mut(id)) else { return };
        if expected.datagrams.is_empty() {
            return;
        }
        let now = cx.now();
        face.begin_row(now);
        for datagram in &expected.datagrams {
            face.link.receive(now, id, datagram, cx.received());
        }
        face.end_row(id, now, cx.received());
        self.peers.schedule(id);
    }
}

impl UdpPort {
    /// Leads the datagrams of a face's peer to the socket of another thread.
    pub(super) fn lead_face_to(&mut self, id: FaceId, thread: usize) -> Result<(), String> {
        let face = self.faces.peers.get_mut(id).ok_or("the face has ended")?;
        face.transport.detour = self.faces.steering.lead(face.transport.remote, thread)?;
        // Its buffer can hold no more datagrams. Mostly, an empty socket shows earlier that all have come.
        self.before_lead = self.socket.buffer_bytes().div_ceil(BUFFER_BYTES_EACH).max(1);
        self.readable = true;
        Ok(())
    }

    /// Takes out a face with all that waits to be sent to its peer.
    pub(super) fn detach(&mut self, id: FaceId) -> Option<UdpFace> {
        let mut face = self.faces.peers.detach(id)?;
        face.put_before_queue(self.open_runs.take(id).into_iter());
        if !self.blocked {
            // This thread may go on sending to the peer by itself. What it has sent earlier leaves before that.
            face.send_queued(&mut self.socket);
        }
        Some(face)
    }
}
