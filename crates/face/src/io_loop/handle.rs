//! The control side's handle of a forwarder: requests to the packet thread and to workers.

use std::ops::Range;
use std::sync::mpsc::SyncSender;

use byname_forward::dispatch::part_of;
use byname_forward::face_table::FaceCounters;
use byname_forward::stages::StageTimes;
use byname_forward::strategy::StrategyChoice;
use byname_forward::worker::{CsInfo, WorkerCounters};
use byname_forward::{FaceId, Worker};
use byname_wire::Name;
use crossbeam_channel::{Sender, bounded};

use super::{IoLoop, Registration, StartError, WorkerStatus};
use crate::face::{CreateFaceError, Creation, FaceChange, FaceRequest, FaceStatus, LinkCounters, UpdateFaceError};
use crate::port::Port;
use crate::waker::LoopWaker;

/// Maximum number of waiting commands. A full channel makes senders wait.
pub(super) const COMMANDS_MAX: usize = 256;
/// Faces whose status is read in one command.
const STATUSES_PER_COMMAND: usize = 256;
/// Data erased from one content store in one command.
const ERASED_PER_COMMAND: usize = 1024;

/// Receives the outcome of a request for a face.
pub(super) type CreationReply = Box<dyn FnOnce(Creation) + Send>;

pub(super) type Command = Box<dyn FnOnce(&mut IoLoop) + Send>;

/// The control side's handle of the packet thread. The thread carries out each call between two bursts.
///
/// After [`ForwarderHandle::shutdown`], or if the thread is gone, calls answer as a forwarder without faces would.
#[derive(Clone)]
pub struct ForwarderHandle {
    commands: SyncSender<Command>,
    registrations: Sender<Registration>,
    waker: LoopWaker,
    workers: usize,
}

impl ForwarderHandle {
    pub(super) fn new(
        commands: SyncSender<Command>,
        registrations: Sender<Registration>,
        waker: LoopWaker,
        workers: usize,
    ) -> Self {
        ForwarderHandle { commands, registrations, waker, workers }
    }

    /// Starts ports that must wait until the control side is ready for their peers.
    pub fn add_ports(&self, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.call(move |io_loop| io_loop.add_ports(ports)).unwrap_or(Ok(()))
    }
    /// Makes Interests below a prefix wait on their way to the face that registers it, until the answer to the command
    /// is on its way there. Must be called before the route works.
    pub fn answer_before_interests(&self, registration: Registration) {
        // After the end there is nothing to wait for.
        let _ = self.registrations.send(registration);
    }
    /// Creates a face, or returns the existing one as an error. Waits for the connection of a persistent stream face,
    /// which takes seconds if the peer is silent.
    pub fn create_face(&self, request: FaceRequest) -> Creation {
        let (reply, outcome) = bounded(1);
        let decided = self.begin_face(request, move |outcome| {
            let _ = reply.send(outcome);
        });
        decided.or_else(|| outcome.recv().ok()).unwrap_or_else(shutting_down)
    }
    /// Like [`ForwarderHandle::create_face`], but does not wait for a connection. Returns `None` if `later` will get
    /// the outcome. `later` runs on the packet thread, and must not block it.
    pub fn begin_face(&self, request: FaceRequest, later: impl FnOnce(Creation) + Send + 'static) -> Option<Creation> {
        self.call(move |io_loop| io_loop.create_face(&request, Box::new(later)))
            .unwrap_or_else(|| Some(shutting_down()))
    }
    /// Changes a face.
    pub fn update_face(&self, face: FaceId, change: FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let changed = self.call(move |io_loop| io_loop.update_face(face, &change));
        Ok(self.with_counters(vec![changed.unwrap_or(Err(UpdateFaceError::NotFound))?]).remove(0))
    }
    /// Destroys a face. Returns false if it does not exist.
    pub fn destroy_face(&self, face: FaceId) -> bool {
        self.call(move |io_loop| io_loop.destroy_face(face)).unwrap_or(false)
    }
    /// Tells ports which faces have routes now, and which have lost all; see [`Port::set_routed`]. Does not wait until
    /// the ports know.
    pub fn set_routed(&self, faces: Vec<(FaceId, bool)>) {
        self.tell(Box::new(move |io_loop| {
            for (face, routed) in faces {
                io_loop.set_routed(face, routed);
            }
        }));
    }
    /// Lets locator-addressed packets for the application behind this face reach it. Returns false if the face does not
    /// exist.
    pub fn set_endpoint(&self, face: FaceId) -> bool {
        self.ask_all(move |_, worker| worker.set_endpoint(face)).contains(&true)
    }
    /// All faces, ordered by id.
    pub fn faces(&self) -> Vec<FaceStatus> {
        let mut ids = self.call(|io_loop| io_loop.faces.keys().copied().collect::<Vec<_>>()).unwrap_or_default();
        ids.sort_unstable();
        let mut faces = Vec::with_capacity(ids.len());
        // Read in parts, so that traffic goes on meanwhile.
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
    /// State of all content stores together.
    pub fn cs_info(&self) -> CsInfo {
        CsInfo::sum(self.ask_all(|_, worker| worker.cs_info()))
    }
    /// Changes the content stores, each of which gets its part of the packets. Returns their new state.
    pub fn cs_config(&self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) -> CsInfo {
        let workers = self.workers;
        CsInfo::sum(self.ask_all(move |number, worker| {
            worker.cs_config(packets_max.map(|all| part_of(all, number, workers)), admit, serve);
            worker.cs_info()
        }))
    }
    /// Erases Data under a prefix. Returns how many were erased, and whether more are left.
    pub fn cs_erase(&self, prefix: Name, count_max: usize) -> (usize, bool) {
        let mut erased = 0;
        for worker in 0..self.workers {
            loop {
                // Erase in parts, so that traffic goes on meanwhile.
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
    /// Counters of all workers together. Drops include those of ports and rings.
    pub fn counters(&self) -> WorkerCounters {
        let mut all = WorkerCounters::default();
        for worker in self.ask_all(|_, worker| worker.counters()) {
            all.add(&worker);
        }
        all.add_drops(&self.call(|io_loop| io_loop.drops()).unwrap_or_default());
        all
    }
    /// Link counters of all faces since the start. `faces` are the existing faces.
    pub fn link_totals(&self, faces: &[FaceStatus]) -> LinkTotals {
        let mut live = LinkCounters::default();
        faces.iter().for_each(|face| live.add(&face.link));
        self.call(move |io_loop| io_loop.link_totals(live)).unwrap_or_default()
    }
    /// State of each worker.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        let counters = self.ask_all(|_, worker| worker.counters());
        let rings = self.call(|io_loop| io_loop.workers.rings()).unwrap_or_default();
        counters.into_iter().zip(rings).map(|(counters, rings)| WorkerStatus { counters, rings }).collect()
    }
    /// Time that the packet thread spends in each stage, in the rounds that are timed. For a worker on the packet
    /// thread, see [`WorkerStatus`].
    pub fn stages(&self) -> StageTimes {
        self.call(|io_loop| *io_loop.stopwatch.times()).unwrap_or_default()
    }
    /// Sends queued output, closes all faces and ends the thread.
    pub fn shutdown(&self) {
        self.call(|io_loop| io_loop.stopping = true);
    }

    /// Adds the workers' counters to the status of each face.
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

    /// Runs `question` on every worker, with its number. Returns the answers by number.
    fn ask_all<R: Send + 'static>(
        &self,
        question: impl Fn(usize, &mut Worker) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        self.ask(0..self.workers, question)
    }

    /// Asks these workers through the packet thread, so that they already know everything it told them about faces
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
                    // The channel has room, and the asking thread may be gone.
                    let _ = reply.send((number, question(number, worker)));
                })
            });
        });
        // Ends when no worker has the question any more.
        let mut answers: Vec<(usize, R)> = answers.into_iter().collect();
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut IoLoop) -> R + Send + 'static) -> Option<R> {
        let (reply, answer) = bounded(1);
        let command: Command = Box::new(move |io_loop| {
            let _ = reply.send(job(io_loop));
        });
        self.tell(command);
        answer.recv().ok()
    }

    /// Sends a command to the packet thread, and does not wait until it is done.
    fn tell(&self, command: Command) {
        // A thread that has ended drops the command, and with it the sender of the answer.
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// Link counters of all faces, including those that are gone.
#[derive(Debug, Clone, Default)]
pub struct LinkTotals {
    /// Sum over all faces.
    pub counters: LinkCounters,
    /// Number of faces that ports closed although their peers had not left, by reason.
    pub closed: Vec<(&'static str, u64)>,
}

fn shutting_down() -> Creation {
    Err(CreateFaceError::Failed("the forwarder is shutting down".into()))
}
