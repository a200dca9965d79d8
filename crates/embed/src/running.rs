//! A forwarder on a thread of its own, in real time.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::{FaceId, Ticks};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use std::collections::HashMap;
use thiserror::Error;

use crate::forwarder::{Forwarder, frame};

/// Frames that may wait for the forwarder, of all ports together.
const INPUT_MAX: usize = 4096;
/// Frames that may wait for the owner of a port. Further ones are lost.
const OUTPUT_MAX: usize = 1024;
/// How often a waiting caller looks whether the thread has ended.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// How long a new connection waits for its face.
const OPENS_WITHIN: Duration = Duration::from_secs(5);
/// Most inputs that are taken before the forwarder is polled.
const BURST_MAX: usize = 64;

/// The forwarder's thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the forwarder has stopped")]
pub struct Stopped;

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The forwarder has stopped, or this face was removed.
    #[error("the forwarder has stopped")]
    Stopped,
    /// The forwarder is behind: as many frames wait as fit. Try again later, or count it as lost.
    #[error("{INPUT_MAX} frames wait for the forwarder already")]
    Full,
}

type Task = Box<dyn FnOnce(&mut Forwarder) + Send>;

pub(crate) enum Input {
    Frame(FaceId, Box<[u8]>),
    Do(Task),
    /// The face and where its frames go.
    Open(Scope, Sender<Vec<u8>>, Sender<FaceId>),
    Close(FaceId),
    Stop,
}

/// A [`Forwarder`] on a thread of its own. Dropping it ends the thread.
///
/// ```
/// use std::time::Duration;
///
/// use byname_embed::{Forwarder, Running, Scope};
/// use byname_wire::data::DataBuilder;
/// use byname_wire::interest::InterestBuilder;
/// use byname_wire::lp::LpPacket;
///
/// let running = Running::start(Forwarder::builder().build()?)?;
/// let (consumer, producer) = (running.open(Scope::Local)?, running.open(Scope::Local)?);
/// let face = producer.face();
/// running.with(move |forwarder| forwarder.set_route(&"/demo".parse().expect("a name"), &[(face, 0)]))??;
///
/// consumer.send(&InterestBuilder::new("/demo/song".parse()?, 1).encode())?;
/// // The Interest comes with a PIT token, which the answer repeats.
/// let frame = producer.receive(Duration::from_secs(5))?.ok_or("no Interest")?;
/// let interest = LpPacket::decode(&frame)?;
/// let data = DataBuilder::new("/demo/song".parse()?).content(b"la la".to_vec()).encode();
/// let mut answer = Vec::new();
/// LpPacket { fragment: Some(&data), pit_token: interest.pit_token, ..LpPacket::default() }.encode(&mut answer);
/// producer.send(&answer)?;
/// assert_eq!(consumer.receive(Duration::from_secs(5))?.as_deref(), Some(&data[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Running {
    input: Sender<Input>,
    thread: Option<JoinHandle<()>>,
}

/// A memory port: a face whose peer is this program. Dropping it removes the face and the routes to it.
pub struct Port {
    face: FaceId,
    input: Sender<Input>,
    output: Receiver<Vec<u8>>,
}

impl Running {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(forwarder: Forwarder) -> io::Result<Running> {
        let (input, inputs) = bounded(INPUT_MAX);
        let run = move || Loop { forwarder, ports: HashMap::new(), started: Instant::now() }.run(&inputs);
        let thread = std::thread::Builder::new().name("byname".into()).spawn(run)?;
        Ok(Running { input, thread: Some(thread) })
    }

    /// Adds a face, and returns the port at its other end.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn open(&self, scope: Scope) -> Result<Port, Stopped> {
        let (frames, output) = bounded(OUTPUT_MAX);
        let (tell, face) = bounded(1);
        self.input.send(Input::Open(scope, frames, tell)).map_err(|_| Stopped)?;
        Ok(Port { face: self.wait(&face)?, input: self.input.clone(), output })
    }

    /// Opens ports from other threads.
    pub(crate) fn opener(&self) -> Opener {
        Opener(self.input.clone())
    }

    /// Does something with the forwarder between two bursts: sets routes, reads counts. Waits for the result.
    ///
    /// # Errors
    /// If the thread has ended, or `task` panics, which ends it.
    pub fn with<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Forwarder) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (tell, result) = bounded(1);
        let task = move |forwarder: &mut Forwarder| {
            // Nobody may wait any more.
            let _ = tell.send(task(forwarder));
        };
        self.input.send(Input::Do(Box::new(task))).map_err(|_| Stopped)?;
        self.wait(&result)
    }

    /// Waits for an answer of the thread. A request may reach the channel just when the thread ends, and stay there.
    fn wait<T>(&self, answer: &Receiver<T>) -> Result<T, Stopped> {
        loop {
            let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            match answer.recv_timeout(LOOKS_EVERY) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if !has_ended => {}
                Err(_) => return Err(Stopped),
            }
        }
    }
}

/// Opens ports from other threads.
pub(crate) struct Opener(Sender<Input>);

impl Opener {
    pub fn open(&self, scope: Scope) -> Result<Port, Stopped> {
        let (frames, output) = bounded(OUTPUT_MAX);
        let (tell, face) = bounded(1);
        self.0.send(Input::Open(scope, frames, tell)).map_err(|_| Stopped)?;
        let face = face.recv_timeout(OPENS_WITHIN).map_err(|_| Stopped)?;
        Ok(Port { face, input: self.0.clone(), output })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.input.send(Input::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Port {
    /// The forwarder's face for this port.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// Gives the forwarder a frame: a network packet, or an LpPacket with one. The forwarder drops what is neither.
    ///
    /// # Errors
    /// If the forwarder is behind, or its thread has ended.
    pub fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.input.try_send(Input::Frame(self.face, frame.into())).map_err(|error| match error {
            TrySendError::Full(_) => SendError::Full,
            TrySendError::Disconnected(_) => SendError::Stopped,
        })
    }

    /// Waits at most `wait` for a frame from the forwarder. `None`: none came.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn receive(&self, wait: Duration) -> Result<Option<Vec<u8>>, Stopped> {
        match self.output.recv_timeout(wait) {
            Ok(frame) => Ok(Some(frame)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // If the thread has ended, there is nothing to remove.
        let _ = self.input.send(Input::Close(self.face));
    }
}

/// What the thread runs.
struct Loop {
    forwarder: Forwarder,
    ports: HashMap<FaceId, Sender<Vec<u8>>>,
    started: Instant,
}

impl Loop {
    fn run(mut self, inputs: &Receiver<Input>) {
        loop {
            let first = match self.forwarder.next_deadline() {
                Some(deadline) => inputs.recv_timeout(deadline.since(self.now())),
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if matches!(first, Err(RecvTimeoutError::Disconnected)) {
                return;
            }
            for input in first.ok().into_iter().chain(inputs.try_iter()).take(BURST_MAX) {
                if !self.take(input) {
                    return;
                }
            }
            let now = self.now();
            for sent in self.forwarder.poll(now) {
                if let Some(port) = self.ports.get(&sent.face) {
                    // Its owner is behind: the frame is lost, as on a link.
                    let _ = port.try_send(frame(&sent));
                }
            }
        }
    }

    /// Returns false at the end.
    fn take(&mut self, input: Input) -> bool {
        match input {
            Input::Frame(face, frame) => {
                // What is no packet is dropped, as a link does.
                let _ = self.forwarder.receive_frame(face, &frame);
            }
            Input::Do(task) => task(&mut self.forwarder),
            Input::Open(scope, frames, tell) => {
                let face = self.forwarder.add_face(scope, LinkType::PointToPoint);
                self.ports.insert(face, frames);
                // If nobody waits for the port any more, its face leads nowhere.
                if tell.send(face).is_err() {
                    self.close(face);
                }
            }
            Input::Close(face) => self.close(face),
            Input::Stop => return false,
        }
        true
    }

    fn close(&mut self, face: FaceId) {
        self.ports.remove(&face);
        self.forwarder.remove_face(face);
    }

    fn now(&self) -> Ticks {
        Ticks(self.started.elapsed().as_nanos() as u64)
    }
}
