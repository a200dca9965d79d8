//! Runs into which datagrams are copied when they are handed over.
//!
//! Some packets for a face have one length and need no link header. Each of these is copied at once to the buffer that
//! will be sent, and waits in no queue. When full runs leave and input will be looked for again at once, a run with
//! room waits for one more burst. The system call is most of the cost of a short run. If no run is full, nothing waits,
//! because peers may be idle until these packets come.

use byname_forward::{FaceId, Packet};

use super::face::{UdpFace, UdpTransport};
use super::socket::DatagramSocket;
use crate::link::Frame;
use crate::peers::{Peers, Sent};
use crate::port::Pushed;

/// Maximum number of open runs, each of one face. Packets without a run are queued.
const OPEN_MAX: usize = 4;

/// Datagrams for one face, all of one length.
#[derive(Default)]
struct OpenRun {
    face: Option<FaceId>,
    segment: usize,
    bytes: Vec<u8>,
    /// Bytes of a full run.
    bytes_max: usize,
    /// Whether it has waited for a burst.
    held: bool,
}

/// Runs of one socket.
#[derive(Default)]
pub(super) struct OpenRuns {
    runs: [OpenRun; OPEN_MAX],
    /// Whether a full run has left since the last flush.
    filled: bool,
}

impl OpenRuns {
    /// Returns the run of this face for datagrams of `segment` bytes. Opens one if possible.
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
        (run.face, run.segment, run.bytes_max) = (Some(id), segment, run_max * segment);
        Some(at)
    }

    /// Adds a datagram to the run at `at`, which [`OpenRuns::find`] returned.
    #[inline]
    pub(super) fn push(&mut self, at: usize, datagram: &[u8]) -> Pushed {
        self.runs[at].bytes.extend_from_slice(datagram);
        Pushed::Done
    }

    /// Sends the run if it is full.
    #[inline]
    pub(super) fn send_if_full(&mut self, at: usize, face: &mut UdpFace, socket: &mut DatagramSocket) -> Sent {
        let run = &mut self.runs[at];
        if run.bytes.len() < run.bytes_max {
            return Sent::All;
        }
        self.filled = true;
        run.send(face, socket)
    }

    /// Sends the open runs. If full runs have left and more packets `may_follow`, runs that have not waited yet wait
    /// instead.
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
                // The face is gone.
                run.close();
                continue;
            };
            if run.send(face, socket) == Sent::Blocked {
                return Sent::Blocked;
            }
        }
        Sent::All
    }

    /// Closes the run of a face, if there is one. Returns its datagrams.
    pub(super) fn take(&mut self, id: FaceId) -> Vec<Frame> {
        let Some(run) = self.runs.iter_mut().find(|run| run.face == Some(id)) else { return Vec::new() };
        let datagrams = run.bytes.chunks(run.segment.max(1));
        let frames = datagrams.map(|datagram| Frame::bare(Packet::copy_from(datagram))).collect();
        run.close();
        frames
    }

    /// Whether no run is open.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.iter().all(|run| run.face.is_none())
    }
}

impl OpenRun {
    /// Sends the run, or as much of it as the system takes.
    fn send(&mut self, face: &mut UdpFace, socket: &mut DatagramSocket) -> Sent {
        let sent = face.send_run(socket, &self.bytes, self.segment);
        face.settle_account();
        if sent < self.bytes.len() {
            self.bytes.drain(..sent);
            return Sent::Blocked;
        }
        self.close();
        Sent::All
    }

    fn close(&mut self) {
        (self.face, self.held) = (None, false);
        self.bytes.clear();
    }
}
