//! The control side's hold on a forwarder: what it asks of the packet thread and of workers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byname_forward::dispatch::part_of;
use byname_forward::face_table::FaceCounters;
use byname_forward::stages::StageTimes;
use byname_forward::strategy::StrategyChoice;
use byname_forward::worker::{CsInfo, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Packet, Worker};
use byname_wire::Name;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{IoLoop, StartError, WorkerStatus};
use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};
use crate::port::Port;
use crate::waker::LoopWaker;

/// Commands that wait; senders wait then.
pub(super) const COMMANDS_MAX: usize = 256;
/// Faces whose status is read in one command.
const STATUSES_PER_COMMAND: usize = 256;
/// Data erased from one content store in one command.
const ERASED_PER_COMMAND: usize = 1024;

pub(super) type Command = Box<dyn FnOnce(&mut IoLoop) + Send>;

/// The control side's hold on the packet thread: each call is carried out between two bursts.
///
/// After [`ForwarderHandle::shutdown`], or if the thread is gone, calls answer as a forwarder
/// without faces would.
#[derive(Clone)]
pub struct ForwarderHandle {
    commands: Sender<Command>,
    waker: LoopWaker,
    workers: usize,
}

impl ForwarderHandle {
    pub(super) fn new(commands: Sender<Command>, waker: LoopWaker, workers: usize) -> Self {
        ForwarderHandle { commands, waker, workers }
    }

    /// Starts more ports: those whose peers may find the control side ready.
    pub fn add_ports(&self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.call(move |io_loop| io_loop.add_ports(ports)).unwrap_or(Ok(()))
    }
    /// Creates a face, or says that it exists.
    pub fn create_face(&self, request: FaceRequest) -> Result<FaceStatus, CreateFaceError> {
        self.call(move |io_loop| io_loop.create_face(&request))
            .unwrap_or_else(|| Err(CreateFaceError::Failed("the forwarder is shutting down".into())))
    }
    /// Changes a face.
    pub fn update_face(&self, face: FaceId, change: FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let changed = self.call(move |io_loop| io_loop.update_face(face, &change));
        Ok(self.with_counters(vec![changed.unwrap_or(Err(UpdateFaceError::NotFound))?]).remove(0))
    }
    /// Destroys a face; false if there is none such.
    pub fn destroy_face(&self, face: FaceId) -> bool {
        self.call(move |io_loop| io_loop.destroy_face(face)).unwrap_or(false)
    }
    /// Lets locator-addressed packets to this face's application reach it; false if there is none
    /// such.
    pub fn set_endpoint(&self, face: FaceId) -> bool {
        self.ask_all(move |_, worker| worker.set_endpoint(face)).contains(&true)
    }
    /// All faces, by id.
    pub fn faces(&self) -> Vec<FaceStatus> {
        let mut ids = self.call(|io_loop| io_loop.faces.keys().copied().collect::<Vec<_>>()).unwrap_or_default();
        ids.sort_unstable();
        let mut faces = Vec::with_capacity(ids.len());
        // In parts, so that traffic goes on meanwhile.
        for part in ids.chunks(STATUSES_PER_COMMAND) {
            let part = part.to_vec();
            let statuses = self.call(move |io_loop| part.into_iter().filter_map(|id| io_loop.status(id)).collect());
            faces.extend(self.with_counters(statuses.unwrap_or_default()));
        }
        faces
    }
    /// One face.
    pub fn face(&self, face: FaceId) -> Option<FaceStatus> {
        let status = self.call(move |io_loop| io_loop.status(face)).flatten()?;
        self.with_counters(vec![status]).pop()
    }
    /// Local URIs of all channels (listeners).
    pub fn channels(&self) -> Vec<String> {
        self.call(|io_loop| io_loop.ports.iter().flat_map(|p| p.channels()).collect()).unwrap_or_default()
    }
    /// Replaces all strategy choices.
    pub fn set_strategy_choices(&self, choices: Vec<StrategyChoice>) {
        self.ask_all(move |_, worker| worker.set_strategy_choices(&choices));
    }
    /// State of the content stores, in all.
    pub fn cs_info(&self) -> CsInfo {
        CsInfo::sum(self.ask_all(|_, worker| worker.cs_info()))
    }
    /// Changes the content stores, each of which gets its part of the packets; returns how they are
    /// now.
    pub fn cs_config(&self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) -> CsInfo {
        let workers = self.workers;
        CsInfo::sum(self.ask_all(move |number, worker| {
            worker.cs_config(packets_max.map(|all| part_of(all, number, workers)), admit, serve);
            worker.cs_info()
        }))
    }
    /// Erases Data under a prefix: how many went, and whether more are left.
    pub fn cs_erase(&self, prefix: Name, count_max: usize) -> (usize, bool) {
        let mut erased = 0;
        for worker in 0..self.workers {
            loop {
                // In parts, so that traffic goes on meanwhile.
                let (prefix, part) = (prefix.clone(), (count_max - erased).min(ERASED_PER_COMMAND));
                let done = self.ask(worker..worker + 1, move |_, worker| worker.cs_erase(prefix.as_ref(), part)).pop();
                let (n, more) = done.unwrap_or_default();
                erased += n;
                match more {
                    false => break,
                    true if n == 0 || erased >= count_max => return (erased, true),
                    true => {}
                }
            }
        }
        (erased, false)
    }
    /// Counts of all workers together; among the drops are those of ports and rings.
    pub fn counters(&self) -> WorkerCounters {
        let mut all = WorkerCounters::default();
        for worker in self.ask_all(|_, worker| worker.counters()) {
            all.add(&worker);
        }
        all.add_drops(&self.call(|io_loop| io_loop.drops()).unwrap_or_default());
        all
    }
    /// How each worker does.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        let counters = self.ask_all(|_, worker| worker.counters());
        let rings = self.call(|io_loop| io_loop.workers.rings()).unwrap_or_default();
        counters.into_iter().zip(rings).map(|(counters, rings)| WorkerStatus { counters, rings }).collect()
    }
    /// Where the packet thread's time goes, in the rounds that are timed; of a worker on it, see
    /// [`WorkerStatus`].
    pub fn stages(&self) -> StageTimes {
        self.call(|io_loop| *io_loop.stopwatch.times()).unwrap_or_default()
    }
    /// Sends what is queued, closes all faces and ends the thread.
    pub fn shutdown(&self) {
        self.call(|io_loop| io_loop.stopping = true);
    }

    /// Adds to each face's status what workers have counted.
    fn with_counters(&self, mut statuses: Vec<FaceStatus>) -> Vec<FaceStatus> {
        let faces: Vec<FaceId> = statuses.iter().map(|status| status.id).collect();
        let count = move |_, worker: &mut Worker| -> Vec<Option<FaceCounters>> {
            faces.iter().map(|face| worker.face_counters(*face)).collect()
        };
        for counted in self.ask_all(count) {
            for (status, counters) in statuses.iter_mut().zip(counted) {
                status.counters.add(&counters.unwrap_or_default());
            }
        }
        statuses
    }

    /// Asks every worker, which is told its number; the answers by number.
    fn ask_all<R: Send + 'static>(
        &self,
        question: impl Fn(usize, &mut Worker) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        self.ask(0..self.workers, question)
    }

    /// Asks these workers, by way of the packet thread: what they know of faces is what it told them
    /// before.
    fn ask<R: Send + 'static>(
        &self,
        whom: Range<usize>,
        question: impl Fn(usize, &mut Worker) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        let (reply, answers) = bounded(whom.len());
        self.call(move |io_loop| {
            io_loop.workers.each(whom, |number| {
                let (question, reply) = (question.clone(), reply.clone());
                Box::new(move |worker| {
                    // There is room, and whoever asked may be gone.
                    let _ = reply.send((number, question(number, worker)));
                })
            });
        });
        // Until no worker has the question any more.
        let mut answers: Vec<(usize, R)> = answers.into_iter().collect();
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut IoLoop) -> R + Send + 'static) -> Option<R> {
        let (reply, answer) = bounded(1);
        let command: Command = Box::new(move |io_loop| {
            let _ = reply.send(job(io_loop));
        });
        self.commands.send(command).ok()?;
        self.waker.wake();
        answer.recv().ok()
    }
}

/// The control side's end of [`FaceId::INTERNAL`].
///
/// What the worker forwards to that face arrives in `from_worker`, with `incoming_face_id` set in
/// its fields; what is sent to `to_worker` arrives at the worker as if from that face. Both are
/// bounded: when full, the packet is dropped and counted.
pub struct InternalFace {
    /// Interests for management, and Data for Interests that the control side sent.
    pub from_worker: Receiver<(LinkFields, Packet)>,
    to_worker: Sender<(LinkFields, Packet)>,
    waker: LoopWaker,
    dropped: Arc<AtomicU64>,
}

impl InternalFace {
    pub(crate) fn new(
        from_worker: Receiver<(LinkFields, Packet)>,
        to_worker: Sender<(LinkFields, Packet)>,
        waker: LoopWaker,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        InternalFace { from_worker, to_worker, waker, dropped }
    }

    /// Sends a packet to the worker; false if the queue was full.
    pub fn send(&self, fields: LinkFields, packet: Packet) -> bool {
        let sent = self.to_worker.try_send((fields, packet)).is_ok();
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.wake();
        sent
    }
}
