//! The control side's handle of a forwarder: requests to the packet threads and to workers.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byname_forward::dispatch::part_of;
use byname_forward::face_table::FaceCounters;
use byname_forward::seat::Owners;
use byname_forward::strategy::StrategyChoice;
use byname_forward::worker::{CsInfo, WorkerCounters};
use byname_forward::{FaceId, Worker};
use byname_wire::Name;
use crossbeam_channel::{Sender, bounded};

use super::moving::GoneFaces;
use super::{Asked, Ending, IoLoop, Registration, StartError, ThreadStatus};
use crate::face::{CreateFaceError, Creation, FaceChange, FaceRequest, FaceStatus, LinkCounters, UpdateFaceError};
use crate::port::Port;
use crate::uri::FaceUri;
use crate::waker::LoopWaker;

/// Maximum number of waiting commands. A full channel makes senders wait.
pub(super) const COMMANDS_MAX: usize = 256;
/// Faces whose status is read in one command.
const STATUSES_PER_COMMAND: usize = 256;
/// Loads of threads that differ by less than one of these steps are taken as equal.
const LOAD_STEPS: f64 = 10.0;
/// Data erased from one content store in one command.
const ERASED_PER_COMMAND: usize = 1024;

/// Receives the outcome of a request for a face.
pub(super) type CreationReply = Box<dyn FnOnce(Creation) + Send>;

pub(super) type Command = Box<dyn FnOnce(&mut IoLoop) + Send>;

/// The control side's line to one packet thread.
#[derive(Clone)]
pub(super) struct Line {
    commands: SyncSender<Command>,
    pub(super) registrations: Sender<Registration>,
    waker: LoopWaker,
}

impl Line {
    pub fn new(commands: SyncSender<Command>, registrations: Sender<Registration>, waker: LoopWaker) -> Self {
        Line { commands, registrations, waker }
    }

    pub fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut IoLoop) -> R + Send + 'static) -> Option<R> {
        let (reply, answer) = bounded(1);
        let command: Command = Box::new(move |io_loop| {
            let _ = reply.send(job(io_loop));
        });
        self.tell(command);
        answer.recv().ok()
    }

    /// Sends a command to the thread, and does not wait until it is done.
    fn tell(&self, command: Command) {
        // A thread that has ended drops the command, and with it the sender of the answer.
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// The control side's handle of the packet threads. A thread carries out each call between two bursts.
///
/// After [`ForwarderHandle::shutdown`], or if the threads are gone, calls answer as a forwarder without faces would.
#[derive(Clone)]
pub struct ForwarderHandle {
    lines: Arc<[Line]>,
    ending: Arc<Ending>,
    /// The greatest sum of link counters that was told. The sum never falls.
    links_told: Arc<Mutex<LinkCounters>>,
    /// The threads that own the faces. Locked while a face moves.
    owners: Arc<Mutex<Owners>>,
    pub(super) gone_faces: GoneFaces,
}

impl ForwarderHandle {
    pub(super) fn new(lines: Vec<Line>, ending: Arc<Ending>, gone_faces: GoneFaces) -> Self {
        let owners = Arc::new(Mutex::new(Owners::new(lines.len())));
        ForwarderHandle { lines: lines.into(), ending, links_told: Arc::default(), owners, gone_faces }
    }

    /// Number of packet threads.
    pub fn threads(&self) -> usize {
        self.lines.len()
    }

    /// Starts ports on a thread: ports that must wait until the control side is ready for their peers.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn add_ports(&self, thread: usize, ports: Vec<Box<dyn Port>>) -> Result<(), StartError> {
        self.lines[thread].call(move |io_loop| io_loop.add_ports(ports)).unwrap_or(Ok(()))
    }
    /// Sets how long the threads look for input before they sleep, and about how many packets they take from one port.
    pub fn set_pace(&self, spin: Duration, burst_max: usize) {
        self.call_all(move |io_loop| (io_loop.config.spin, io_loop.config.burst_max) = (spin, burst_max));
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
        let (request, mut later): (_, CreationReply) = (Arc::new(request), Box::new(later));
        for thread in self.candidates(&request.remote) {
            let request = Arc::clone(&request);
            match self.lines[thread].call(move |io_loop| io_loop.create_face(&request, later)) {
                Some(Asked::Decided(creation)) => return Some(*creation),
                Some(Asked::Later) => return None,
                Some(Asked::NoPort(back)) => later = back,
                None => return Some(shutting_down()),
            }
        }
        Some(no_port(&request))
    }
    /// Changes a face.
    pub fn update_face(&self, face: FaceId, change: FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        let changed = self.call_owner(face, move |io_loop| io_loop.update_face(face, &change));
        Ok(self.with_counters(vec![changed.unwrap_or(Err(UpdateFaceError::NotFound))?]).remove(0))
    }
    /// Destroys a face. Returns false if it does not exist.
    pub fn destroy_face(&self, face: FaceId) -> bool {
        self.call_owner(face, move |io_loop| io_loop.destroy_face(face)).unwrap_or(false)
    }
    /// Tells ports which faces have routes now, and which have lost all; see [`Port::set_routed`]. Does not wait until
    /// the ports know.
    pub fn set_routed(&self, faces: Vec<(FaceId, bool)>) {
        let mut by_owner: Vec<Vec<(FaceId, bool)>> = vec![Vec::new(); self.lines.len()];
        let owners = self.owners();
        for (face, routed) in faces {
            by_owner[owners.of(face)].push((face, routed));
        }
        for (line, faces) in self.lines.iter().zip(by_owner).filter(|(_, faces)| !faces.is_empty()) {
            line.tell(Box::new(move |io_loop| {
                for (face, routed) in faces {
                    io_loop.set_routed(face, routed);
                }
            }));
        }
    }
    /// Lets locator-addressed packets for the application behind this face reach it. Returns false if the face does not
    /// exist.
    pub fn set_endpoint(&self, face: FaceId) -> bool {
        self.ask_all(move |_, worker| worker.set_endpoint(face)).contains(&true)
    }
    /// All faces, ordered by id.
    pub fn faces(&self) -> Vec<FaceStatus> {
        let ids = self.call_all(|io_loop| io_loop.faces.keys().copied().collect::<Vec<_>>());
        let mut faces = Vec::with_capacity(ids.iter().map(Vec::len).sum());
        // Read in parts, so that traffic goes on meanwhile.
        for (line, ids) in self.lines.iter().zip(ids) {
            for part in ids.chunks(STATUSES_PER_COMMAND) {
                let part = part.to_vec();
                let statuses = line.call(move |io_loop| part.into_iter().filter_map(|id| io_loop.status(id)).collect());
                faces.extend(self.with_counters(statuses.unwrap_or_default()));
            }
        }
        faces.sort_unstable_by_key(|face| face.id);
        faces
    }
    /// One face.
    pub fn face(&self, face: FaceId) -> Option<FaceStatus> {
        let status = self.call_owner(face, move |io_loop| io_loop.status(face)).flatten()?;
        self.with_counters(vec![status]).pop()
    }
    /// Local URIs of all channels (listeners).
    pub fn channels(&self) -> Vec<String> {
        let of_thread = |io_loop: &mut IoLoop| io_loop.ports.iter().flat_map(|p| p.channels()).collect::<Vec<_>>();
        let mut channels: Vec<String> = Vec::new();
        // Several threads may share a channel.
        for channel in self.call_all(of_thread).into_iter().flatten() {
            if !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        channels
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
        let workers = self.lines.len();
        CsInfo::sum(self.ask_all(move |number, worker| {
            worker.cs_config(packets_max.map(|all| part_of(all, number, workers)), admit, serve);
            worker.cs_info()
        }))
    }
    /// Erases Data under a prefix. Returns how many were erased, and whether more are left.
    pub fn cs_erase(&self, prefix: Name, count_max: usize) -> (usize, bool) {
        let mut erased = 0;
        for worker in 0..self.lines.len() {
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
        self.call_all(|io_loop| io_loop.drops()).iter().for_each(|drops| all.add_drops(drops));
        all
    }
    /// Link counters of all faces since the start. `faces` are the existing faces.
    pub fn link_totals(&self, faces: &[FaceStatus]) -> LinkTotals {
        let mut sum = LinkTotals::default();
        faces.iter().for_each(|face| sum.counters.add(&face.link));
        for gone in self.call_all(|io_loop| io_loop.gone_links()) {
            sum.counters.add(&gone.counters);
            for (reason, count) in gone.closed {
                match sum.closed.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, all)) => *all += count,
                    None => sum.closed.push((reason, count)),
                }
            }
        }
        // A face may have ended since `faces` were read: its counts are then in both sums. The result stays at that
        // value until other faces have counted as much.
        let mut told = self.links_told.lock().unwrap_or_else(PoisonError::into_inner);
        told.raise(&sum.counters);
        sum.counters = *told;
        sum
    }
    /// State of each thread.
    pub fn thread_statuses(&self) -> Vec<ThreadStatus> {
        self.call_all(IoLoop::thread_status)
    }
    /// Sends queued output, closes all faces and ends the threads.
    pub fn shutdown(&self) {
        self.ending.wanted.store(1, Ordering::SeqCst);
        self.call_all(|io_loop| io_loop.stopping = true);
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
    pub(super) fn ask_all<R: Send + 'static>(
        &self,
        question: impl Fn(usize, &mut Worker) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        self.ask(0..self.lines.len(), question)
    }

    /// Asks these workers. Each knows everything about faces that the control side has been told before.
    fn ask<R: Send + 'static>(
        &self,
        whom: Range<usize>,
        question: impl Fn(usize, &mut Worker) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        self.call_each(whom, move |number, io_loop| {
            let (question, mut answer) = (question.clone(), None);
            io_loop.seat.ask(|worker| answer = Some(question(number, worker)));
            answer
        })
        .into_iter()
        .flatten()
        .collect()
    }

    /// Runs `job` on each thread, with its number. Returns the answers by number.
    pub(super) fn call_all<R: Send + 'static>(
        &self,
        job: impl Fn(&mut IoLoop) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        self.call_each(0..self.lines.len(), move |_, io_loop| job(io_loop))
    }

    pub(super) fn call_each<R: Send + 'static>(
        &self,
        whom: Range<usize>,
        job: impl Fn(usize, &mut IoLoop) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        let (reply, answers) = bounded(whom.len());
        for number in whom {
            let (job, reply) = (job.clone(), reply.clone());
            self.lines[number].tell(Box::new(move |io_loop| {
                // The channel has room, and the asking thread may be gone.
                let _ = reply.send((number, job(number, io_loop)));
            }));
        }
        drop(reply);
        // Ends when no thread has the job any more.
        let mut answers: Vec<(usize, R)> = answers.into_iter().collect();
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Has the thread that owns a face do something with it. The face does not move meanwhile.
    fn call_owner<R: Send + 'static>(
        &self,
        face: FaceId,
        job: impl FnOnce(&mut IoLoop) -> R + Send + 'static,
    ) -> Option<R> {
        let owners = self.owners();
        self.lines[owners.of(face)].call(job)
    }

    /// The line to a thread.
    pub(super) fn line(&self, thread: usize) -> &Line {
        &self.lines[thread]
    }

    /// The owners of faces. No face moves while they are locked.
    pub(super) fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads in the order in which they are asked for a new face to `remote`: one that knows the peer first, then
    /// those with the least load, in tenths, and the fewest faces.
    fn candidates(&self, remote: &FaceUri) -> Vec<usize> {
        if self.lines.len() == 1 {
            return vec![0];
        }
        let remote = remote.clone();
        let loads = self.call_all(move |io_loop| {
            let load = io_loop.work_time.activity(io_loop.clock.now()).load;
            (!io_loop.knows(&remote), (LOAD_STEPS * load).round() as u64, io_loop.faces.len())
        });
        let mut order: Vec<usize> = (0..loads.len()).collect();
        order.sort_by_key(|thread| loads[*thread]);
        order
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

/// The answer if no port can create a face.
fn no_port(FaceRequest { remote, local, .. }: &FaceRequest) -> Creation {
    Err(if remote.is_group() {
        CreateFaceError::Unacceptable("multicast faces are made at the start, by configuration".into())
    } else if matches!((remote, local), (FaceUri::Ethernet(_), None)) {
        CreateFaceError::Unacceptable(
            "a face to a station needs the interface as its LocalUri, dev://eth0 or so".into(),
        )
    } else if matches!(remote, FaceUri::SecureWebSocket(_) | FaceUri::Quic(_)) {
        CreateFaceError::Unacceptable(format!(
            "this router knows no router over TLS or QUIC: write the fingerprint of the certificate of {remote} into \
             `peers` under [tls], and start the router again"
        ))
    } else {
        let from = local.as_ref().map(|local| format!(" from {local}")).unwrap_or_default();
        CreateFaceError::Failed(format!("No channel here can connect to {remote}{from}"))
    })
}
