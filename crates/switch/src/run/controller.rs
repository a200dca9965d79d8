//! The controller: threads for connections, and one thread that decides.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::control::admission::{Admission, HANDSHAKE_TIME, Origin};
use crate::control::message::{ToController, ToSwitch};
use crate::control::session::{Caller, Hello, Seals, Secret, Session, SessionError, Welcome, nonce, read_frame};
use crate::control::{Controller, Engine, SwitchNetwork};
use byname_face::socket_file::SocketFile;
use byname_wire::NameHashKey;

use super::RunError;
use super::stream::{Hurried, Listener, Stream};

/// Interval between two `Alive` messages.
const BEAT: Duration = Duration::from_secs(1);
/// Interval between two writes of the learned hosts.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Messages that wait for the deciding thread. When there are more, the threads that read wait.
const EVENTS_MAX: usize = 4096;
/// Bytes that may wait for a slow switch before its session is ended: two large tables.
const QUEUE_BYTES_MAX: usize = 1 << 29;
/// Pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// Input of the deciding thread.
enum Event {
    /// A switch has proven that it knows the secret.
    Connected(Box<Connected>),
    /// A message from the connection with this number.
    Message(u64, ToController),
    /// The connection with this number has ended.
    Ended(u64, String),
    /// A signal asks the process to end.
    End,
}

struct Connected {
    number: u64,
    hello: Hello,
    seals: Seals,
    table_key: NameHashKey,
    stream: Stream,
}

/// State that the threads of all connections share.
struct Shared {
    secret: Secret,
    engine: Engine,
    network: [u8; 16],
    events: SyncSender<Event>,
    /// Connections whose handshake is not complete.
    admission: Mutex<Admission<Stream>>,
}

impl Shared {
    fn admission(&self) -> MutexGuard<'_, Admission<Stream>> {
        // A poisoned lock is harmless: no method of `Admission` can panic halfway.
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An accepted switch and the connection to write to.
struct Live {
    switch: usize,
    seals: Seals,
    writer: Writer,
    stream: Stream,
}

/// Hands frames to a thread that writes them.
struct Writer {
    frames: Sender<Vec<u8>>,
    /// Bytes that are not yet written.
    queued: Arc<AtomicUsize>,
}

/// Ends a controller from another thread.
#[derive(Clone)]
pub struct Ending(SyncSender<Event>);

impl Ending {
    /// Asks [`ControllerProcess::run`] to return.
    pub fn end(&self) {
        // If the controller has ended, nobody listens.
        let _ = self.0.send(Event::End);
    }
}

/// A controller that listens.
pub struct ControllerProcess {
    task: Task,
    receiver: Receiver<Event>,
    ending: Ending,
    /// Dropping these deletes the files of Unix sockets.
    _files: Vec<Option<SocketFile>>,
}

impl ControllerProcess {
    /// Listens on the addresses of `network`, and starts threads that accept switches.
    ///
    /// # Errors
    /// If an address cannot be had, or the tables or the file of learned hosts cannot.
    pub fn start(network: SwitchNetwork, secret: Secret) -> Result<Self, RunError> {
        let random = |error| RunError::system("no random numbers")(error);
        let drawn = nonce().map_err(random)?;
        let [epoch, ..] = nonce().map_err(random)?;
        let (events, receiver) = mpsc::sync_channel(EVENTS_MAX);
        let ending = Ending(events.clone());
        let shared = Arc::new(Shared {
            engine: network.engine,
            network: drawn,
            events,
            admission: Mutex::new(Admission::new(network.switches.len(), &network.switch_addresses)),
            secret,
        });
        let listen = network.listen.clone();
        let memory = Memory { path: Some(network.folder.join(&network.hosts_file)).filter(|_| has_memory(&network)) };
        let names_key = shared.secret.names_key(&drawn);
        let mut controller = Controller::new(network, names_key, epoch).map_err(RunError::Tables)?;
        memory.recall(&mut controller)?;
        let listeners = listen.iter().map(Listener::open).collect::<Result<Vec<_>, _>>()?;
        let (listeners, files): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        for listener in listeners {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("byname-accept".into())
                .spawn(move || accept(&listener, &shared))
                .map_err(RunError::system("no thread to accept switches"))?;
        }
        let task = Task { controller, memory, lives: HashMap::new(), beat_at: Instant::now() };
        Ok(ControllerProcess { task, receiver, ending, _files: files })
    }

    /// Number of switches that it waits for.
    pub fn switches(&self) -> usize {
        self.task.controller.connected().1
    }

    /// Ends [`ControllerProcess::run`].
    pub fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Decides until [`Ending::end`] is called, then writes the learned hosts.
    ///
    /// # Errors
    /// If the learned hosts cannot be written.
    pub fn run(mut self) -> Result<(), RunError> {
        self.task.run(&self.receiver);
        self.task.memory.write(&self.task.controller)
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let begun = listener.accept().and_then(|(stream, origin)| begin(stream, origin, shared));
        if let Err(error) = begun {
            tracing::debug!(%error, "a connection has failed");
            // A likely cause is that no descriptors are free. Ending a handshake frees one.
            if let Some(stranger) = shared.admission().shed() {
                stranger.close();
            }
            std::thread::sleep(ACCEPT_AGAIN);
        }
    }
}

/// Starts a thread for a connection. If there are too many handshakes, this ends the oldest one.
fn begin(stream: Stream, origin: Origin, shared: &Arc<Shared>) -> io::Result<()> {
    let (number, yields) = shared.admission().begin(origin, stream.clone());
    if let Some(yields) = yields {
        tracing::debug!("too many handshakes: the oldest one is closed");
        yields.close();
    }
    let of_thread = shared.clone();
    let serve = move || {
        let Err(error) = serve(number, stream, &of_thread);
        of_thread.admission().end(number);
        let _ = of_thread.events.send(Event::Ended(number, error.to_string()));
    };
    let started = std::thread::Builder::new().name("byname-session".into()).spawn(serve);
    if let Err(error) = started {
        shared.admission().end(number);
        return Err(error);
    }
    Ok(())
}

/// Serves one connection from its first byte to its end.
fn serve(number: u64, mut stream: Stream, shared: &Shared) -> Result<std::convert::Infallible, SessionError> {
    let (hello, session, first) = shake_hands(&mut stream, shared)?;
    shared.admission().complete(number);
    let Session { to_switch, mut to_controller, table_key } = session;
    let writer = stream.clone();
    let connected = Connected { number, hello, seals: to_switch, table_key, stream: writer };
    let over = |_| SessionError::Connection(io::Error::other("the controller ends"));
    shared.events.send(Event::Connected(Box::new(connected))).map_err(over)?;
    shared.events.send(Event::Message(number, first)).map_err(over)?;
    loop {
        shared.events.send(Event::Message(number, next(&mut stream, &mut to_controller)?)).map_err(over)?;
    }
}

/// Receives the hello and the first message. The first message proves that the hello is not a replay.
fn shake_hands(stream: &mut Stream, shared: &Shared) -> Result<(Hello, Session, ToController), SessionError> {
    let mut stream = Hurried::new(stream, HANDSHAKE_TIME);
    let (caller, hello) = Caller::hear(&shared.secret, &read_frame(&mut stream)?)?;
    let (mut session, framed) = caller.welcome(&Welcome { engine: shared.engine, network: shared.network })?;
    stream.write_all(&framed)?;
    let first = next(&mut stream, &mut session.to_controller)?;
    Ok((hello, session, first))
}

fn next(stream: &mut impl io::Read, seals: &mut Seals) -> Result<ToController, SessionError> {
    let sealed = read_frame(stream)?;
    ToController::decode(&seals.open(&sealed)?).ok_or(SessionError::Protocol)
}

/// The file that keeps the learned hosts for the next start.
struct Memory {
    path: Option<PathBuf>,
}

fn has_memory(network: &SwitchNetwork) -> bool {
    !network.hosts_file.as_os_str().is_empty()
}

impl Memory {
    fn recall(&self, controller: &mut Controller) -> Result<(), RunError> {
        let Some(path) = &self.path else { return Ok(()) };
        match std::fs::read_to_string(path) {
            Ok(learned) => {
                let hosts = controller.remember(&learned).map_err(RunError::Hosts)?;
                tracing::info!("{hosts} hosts are remembered");
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(RunError::system(format!("cannot read hosts_file {}", path.display()))(error)),
        }
    }

    /// Replaces the file in one step, so that a reader never sees half of it.
    fn write(&self, controller: &Controller) -> Result<(), RunError> {
        let Some(path) = &self.path else { return Ok(()) };
        let new = path.with_extension("new");
        let written = std::fs::write(&new, controller.learned()).and_then(|()| std::fs::rename(&new, path));
        written.map_err(RunError::system(format!("cannot write hosts_file {}", path.display())))
    }
}

/// State of the deciding thread.
struct Task {
    controller: Controller,
    memory: Memory,
    /// Keyed by the connection's number.
    lives: HashMap<u64, Live>,
    beat_at: Instant,
}

impl Task {
    fn run(&mut self, events: &Receiver<Event>) {
        let (mut written, mut write_at) = (self.controller.counters(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= write_at && written != self.controller.counters() {
                if let Err(error) = self.memory.write(&self.controller) {
                    tracing::error!("{error}");
                }
                (written, write_at) = (self.controller.counters(), now + WRITE_INTERVAL);
            }
            let mut messages = Vec::new();
            if now >= self.beat_at {
                self.controller.beat(&mut |switch, message| messages.push((switch, message)));
                self.beat_at = now + BEAT;
                self.send(messages);
            }
            let first = match events.recv_timeout(self.beat_at.saturating_duration_since(now)) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Handle all waiting events, then send the changes as one batch.
            for event in std::iter::once(first).chain(events.try_iter().take(EVENTS_MAX)) {
                match event {
                    Event::Connected(connected) => self.connect(*connected),
                    Event::Message(number, message) => {
                        if let Some(live) = self.lives.get(&number) {
                            self.controller.receive(live.switch, message);
                        }
                    }
                    Event::Ended(number, why) => self.end(number, &why),
                    Event::End => return,
                }
            }
            let mut messages = Vec::new();
            if let Err(error) = self.controller.flush(&mut |switch, message| messages.push((switch, message))) {
                tracing::error!(%error, "cannot update the tables");
            }
            self.send(messages);
        }
    }

    fn connect(&mut self, connected: Connected) {
        let Connected { number, hello, mut seals, table_key, mut stream } = connected;
        let name = hello.name;
        let known = self.controller.number_of(&name);
        let before = known.and_then(|switch| self.number_live(switch));
        let accepted = known.ok_or_else(|| format!("there is no \"{name}\" among its `switches`"));
        let accepted = accepted.and_then(|switch| {
            let writer = Writer::start(&stream).map_err(|error| error.to_string())?;
            self.controller.connect(switch, hello.key, hello.ports, table_key).map(|()| (switch, writer))
        });
        match accepted {
            Ok((switch, writer)) => {
                let live = Live { switch, seals, writer, stream };
                if let Some(before) = before.and_then(|before| self.lives.remove(&before)) {
                    before.stream.close();
                }
                self.lives.insert(number, live);
                let (there, all) = self.controller.connected();
                tracing::info!("switch {name} is connected ({there} of {all})");
            }
            Err(why) => {
                tracing::warn!("switch {name} is refused: {why}");
                let _ = stream.write_all(&seals.seal(&ToSwitch::Refused(why).encode()));
                stream.close();
            }
        }
    }

    fn number_live(&self, switch: usize) -> Option<u64> {
        self.lives.iter().find(|(_, live)| live.switch == switch).map(|(number, _)| *number)
    }

    fn end(&mut self, number: u64, why: &str) {
        let Some(live) = self.lives.remove(&number) else {
            tracing::debug!("a connection has ended: {why}");
            return;
        };
        live.stream.close();
        self.controller.disconnect(live.switch);
        let (there, all) = self.controller.connected();
        tracing::warn!("a switch has disconnected ({there} of {all} are connected): {why}");
    }

    /// Hands messages to the writing threads.
    fn send(&mut self, messages: Vec<(usize, ToSwitch)>) {
        for (switch, message) in messages {
            let Some(number) = self.number_live(switch) else { continue };
            let Some(live) = self.lives.get_mut(&number) else { continue };
            let framed = live.seals.seal(&message.encode());
            let queued = live.writer.queued.fetch_add(framed.len(), Ordering::Relaxed);
            if queued > QUEUE_BYTES_MAX || live.writer.frames.send(framed).is_err() {
                self.end(number, "it does not read its messages");
            }
        }
    }
}

impl Writer {
    /// Starts a thread that writes to the switch.
    fn start(stream: &Stream) -> io::Result<Self> {
        let (frames, receiver) = mpsc::channel::<Vec<u8>>();
        let queued = Arc::new(AtomicUsize::new(0));
        let (of_thread, mut writer) = (queued.clone(), stream.clone());
        let write = move || {
            for framed in receiver {
                of_thread.fetch_sub(framed.len(), Ordering::Relaxed);
                if writer.write_all(&framed).is_err() {
                    // The reading thread notices this and reports the end.
                    writer.close();
                    return;
                }
            }
        };
        std::thread::Builder::new().name("byname-updates".into()).spawn(write)?;
        Ok(Writer { frames, queued })
    }
}
