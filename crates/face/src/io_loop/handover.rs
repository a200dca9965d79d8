//! The packet threads' part of a handover to another process, and from one.
//!
//! [`ForwarderHandle::freeze`] first lets the threads handle all packets that they have received, without receiving
//! more. Then it stops them between two rounds. A frozen thread only carries out commands. What peers send stays in the
//! system's buffers.

use std::time::{Duration, Instant};

use byname_forward::face_table::FaceCounters;
use byname_forward::{FaceId, LinkFields, Packet, Received, Worker};

use super::{ForwarderHandle, IoLoop, StartError};
use crate::handover::{FaceRecord, FormerFace, HandedFace, SharedSocket};
use crate::port::Port;
use crate::pulse::Doing;

/// Time that packets between threads may take to arrive.
const SETTLE_TIME: Duration = Duration::from_millis(20);
/// Passes over all threads, in which none has anything to do, before they are frozen.
const QUIET_PASSES: u32 = 2;
/// Interval in which a frozen thread looks for commands.
pub(super) const FROZEN_PAUSE: Duration = Duration::from_micros(50);

/// How much a loop does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Running {
    /// Everything.
    #[default]
    Wholly,
    /// It receives no more from ports.
    Settles,
    /// It only carries out commands.
    Frozen,
}

impl ForwarderHandle {
    /// Stops all packet threads between two rounds, until [`ForwarderHandle::thaw`] or the end of the process. Packets
    /// that they have received are handled before. Commands are carried out as ever.
    pub fn freeze(&self) {
        self.call_all(|io_loop| io_loop.running = Running::Settles);
        let (end, mut quiet) = (Instant::now() + SETTLE_TIME, 0);
        while quiet < QUIET_PASSES && Instant::now() < end {
            let busy = self.call_all(|io_loop| io_loop.seat.has_input() || !io_loop.outgoing.is_empty());
            quiet = if busy.contains(&true) { 0 } else { quiet + 1 };
        }
        self.call_all(|io_loop| io_loop.running = Running::Frozen);
    }

    /// Lets frozen threads go on.
    pub fn thaw(&self) {
        self.call_all(|io_loop| {
            io_loop.ports.iter_mut().for_each(|port| port.go_on(true));
            io_loop.running = Running::Wholly;
        });
    }

    /// Leaves the files of the ports to the process that goes on with their faces.
    pub fn leave(&self) {
        self.call_all(|io_loop| io_loop.ports.iter_mut().for_each(|port| port.go_on(false)));
    }

    /// Descriptors of the sockets that belong to no single face.
    pub fn shared_sockets(&self) -> Vec<SharedSocket> {
        let of_thread =
            |io_loop: &mut IoLoop| io_loop.ports.iter().flat_map(|p| p.shared_sockets()).collect::<Vec<_>>();
        self.call_all(of_thread).into_iter().flatten().collect()
    }

    /// The numbers of all faces.
    pub fn face_ids(&self) -> Vec<FaceId> {
        self.call_all(|io_loop| io_loop.faces.keys().copied().collect::<Vec<_>>()).into_iter().flatten().collect()
    }

    /// What another process needs to go on with these faces. The record of a face that cannot pass to another process
    /// says no more than what is needed to make the face anew ([`FaceRecord::is_made_anew`]).
    pub fn hand_over(&self, faces: &[FaceId]) -> Vec<HandedFace> {
        let ids = faces.to_vec();
        let mut handed: Vec<HandedFace> =
            self.call_all(move |io_loop| io_loop.hand_over(&ids)).into_iter().flatten().collect();
        let ids: Vec<FaceId> = handed.iter().map(|face| FaceId(face.record.id)).collect();
        let ask = move |_, worker: &mut Worker| -> Vec<_> {
            ids.iter().map(|id| (worker.face_counters(*id).unwrap_or_default(), worker.is_endpoint(*id))).collect()
        };
        let mut known = vec![(FaceCounters::default(), false); handed.len()];
        for answers in self.ask_all(ask) {
            for ((sum, is_endpoint), answer) in known.iter_mut().zip(answers) {
                sum.add(&answer.0);
                *is_endpoint |= answer.1;
            }
        }
        for (HandedFace { record, .. }, (sum, is_endpoint)) in handed.iter_mut().zip(known) {
            (record.counters, record.is_endpoint) = (sum.to_array(), is_endpoint);
        }
        handed
    }

    /// The number from which each thread numbers its next faces.
    pub fn next_face_ids(&self) -> Vec<u64> {
        self.call_all(|io_loop| io_loop.next_face_id)
    }

    /// Starts ports on a frozen thread, which go on with faces of another process. New faces get numbers from `next_id`
    /// on. Returns the faces that none of the ports takes.
    ///
    /// # Errors
    /// If a port does not start.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn take_over(
        &self,
        thread: usize,
        ports: Vec<Box<dyn Port>>,
        faces: Vec<HandedFace>,
        next_id: u64,
    ) -> Result<Vec<HandedFace>, StartError> {
        let mut owners = self.owners();
        let ids = faces.iter().map(|face| FaceId(face.record.id));
        let moved: Vec<FaceId> = ids.filter(|face| owners.of(*face) != thread).collect();
        if !moved.is_empty() {
            moved.iter().for_each(|face| owners.set(*face, thread));
            self.call_all(move |io_loop| moved.iter().for_each(|face| io_loop.owners.set(*face, thread)));
        }
        self.line(thread).call(move |io_loop| io_loop.take_over(ports, faces, next_id)).unwrap_or(Ok(Vec::new()))
    }

    /// Gives faces that ports make from now on the numbers that they had in another process, on the same thread.
    pub fn expect_faces(&self, records: &[FaceRecord]) {
        for thread in 0..self.threads() {
            let here = records.iter().filter(|record| record.thread == thread);
            let former: Vec<FormerFace> = here.filter_map(FaceRecord::former).collect();
            self.line(thread).call(move |io_loop| io_loop.former = former);
        }
    }

    /// Lets a packet come once more from a face, as if its peer had sent it.
    pub fn receive_again(&self, face: FaceId, fields: LinkFields, packet: Packet) {
        let thread = self.owners().of(face);
        self.line(thread).call(move |io_loop| {
            if io_loop.faces.contains_key(&face) {
                io_loop.received.push(Received { face, fields, packet });
            }
        });
    }
}

impl IoLoop {
    fn hand_over(&self, faces: &[FaceId]) -> Vec<HandedFace> {
        let now = self.clock.now();
        let give = |face: &FaceId| {
            let port = &self.ports[*self.faces.get(face)?];
            let anew = || {
                let status = port.status(now, *face).filter(|status| status.id >= FaceId::FIRST)?;
                Some(HandedFace { record: Box::new(FaceRecord::of(&status, port.name())), descriptor: None })
            };
            let mut handed = port.hand_over(now, *face).or_else(anew)?;
            handed.record.thread = self.seat.number();
            Some(handed)
        };
        faces.iter().filter_map(give).collect()
    }

    fn take_over(
        &mut self,
        ports: Vec<Box<dyn Port>>,
        faces: Vec<HandedFace>,
        next_id: u64,
    ) -> Result<Vec<HandedFace>, StartError> {
        self.now = self.clock.now();
        let first = self.ports.len();
        self.ports.extend(ports);
        self.next_face_id = self.next_face_id.max(next_id);
        let of_worker = |face: &HandedFace| (FaceId(face.record.id), face.record.counters, face.record.is_endpoint);
        let known: Vec<_> = faces.iter().map(of_worker).collect();
        let mut left = Vec::new();
        for face in faces {
            let mut handed = Some(face);
            for port in first..self.ports.len() {
                let Some(face) = handed.take() else { break };
                handed = self.with_port(Doing::Command, port, |port, cx| port.take_over(cx, face)).err();
            }
            left.extend(handed);
        }
        self.start_ports(first)?;
        // The sum over all workers counts, so one of them goes on.
        for (face, counters, is_endpoint) in known {
            self.seat.worker.add_face_counters(face, &FaceCounters::of_array(counters));
            if is_endpoint {
                self.seat.tell_all(move |worker| _ = worker.set_endpoint(face));
            }
        }
        Ok(left)
    }
}
