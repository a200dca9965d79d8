//! Runs that datagrams are copied into as they are handed over.
//!
//! Where packets for a face are of one length and need no link header, each is copied at once to where it will leave
//! from, and waits in no queue. And where full runs leave, one that has room yet waits for one more burst, if input is
//! looked for again at once: most of what a short run costs is the call to the system. Where none is full, nothing waits,
//! for peers may have nothing else to do than to answer what would.

use byname_forward::FaceId;

use super::face::{UdpFace, UdpTransport};
use super::socket::DatagramSocket;
use crate::ethernet::socket::Pushed;
use crate::peers::{Peers, Sent};

/// Runs that are open at once, each of one face. What has no run is queued.
const OPEN_MAX: usize = 4;

/// Datagrams for one face, all of one length.
#[derive(Default)]
struct OpenRun {
    face: Option<FaceId>,
    segment: usize,
    octets: Vec<u8>,
    /// So many make it full.
    octets_max: usize,
    /// It has waited for a burst.
    held: bool,
}

/// The runs of one socket.
#[derive(Default)]
pub(super) struct OpenRuns {
    runs: [OpenRun; OPEN_MAX],
    /// A full one has left since the last flush.
    filled: bool,
}

impl OpenRuns {
    /// The run of this face for datagrams of `segment` octets, which is opened if it may be.
    pub(super) fn find(
        &mut self,
        (id, transport): (FaceId, &mut UdpTransport),
        segment: usize,
        run_max: usize,
    ) -> Option<usize> {
        if let Some(at) = self.runs.iter().position(|run| run.face == Some(id)) {
            return (self.runs[at].segment == segment).then_some(at);
        }
        let at = self.runs.iter().position(|run| run.face.is_none())?;
        let run_max = transport.run_max(segment, run_max);
        if run_max < 2 {
            return None;
        }
        let run = &mut self.runs[at];
        (run.face, run.segment, run.octets_max) = (Some(id), segment, run_max * segment);
        Some(at)
    }

    /// Adds a datagram to the run that [`OpenRuns::find`] gave for it.
    #[inline]
    pub(super) fn push(&mut self, at: usize, datagram: &[u8]) -> Pushed {
        self.runs[at].octets.extend_from_slice(datagram);
        Pushed::Done
    }

    /// Sends the run if it is full.
    #[inline]
    pub(super) fn send_if_full(&mut self, at: usize, face: &mut UdpFace, socket: &mut DatagramSocket) -> Sent {
        let run = &mut self.runs[at];
        if run.octets.len() < run.octets_max {
            return Sent::All;
        }
        self.filled = true;
        run.send(face, socket)
    }

    /// Sends what is open; but where more `may_follow`, and full ones have left, what has not waited yet waits.
    pub(super) fn flush(
        &mut self,
        peers: &mut Peers<UdpTransport>,
        socket: &mut DatagramSocket,
        may_follow: bool,
    ) -> Sent {
        let may_wait = std::mem::take(&mut self.filled) && may_follow;
        for run in &mut self.runs {
            let Some(id) = run.face else { continue };
            if may_wait && !run.held {
                run.held = true;
                continue;
            }
            let Some(face) = peers.get_mut(id) else {
                // The face has gone.
                run.close();
                continue;
            };
            if run.send(face, socket) == Sent::Blocked {
                return Sent::Blocked;
            }
        }
        Sent::All
    }

    /// Whether all has left.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.iter().all(|run| run.face.is_none())
    }
}

impl OpenRun {
    /// Sends all, or what the system takes.
    fn send(&mut self, face: &mut UdpFace, socket: &mut DatagramSocket) -> Sent {
        let sent = face.send_run(socket, &self.octets, self.segment);
        if sent < self.octets.len() {
            self.octets.drain(..sent);
            return Sent::Blocked;
        }
        self.close();
        Sent::All
    }

    fn close(&mut self) {
        (self.face, self.held) = (None, false);
        self.octets.clear();
    }
}
