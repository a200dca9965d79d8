//! The controller's process: connections, and one thread that decides.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_control::config::SwitchNetwork;
use byname_control::switch::message::{ToController, ToSwitch};
use byname_control::switch::session::{
    Hello, Seals, Secret, Session, SessionError, Welcome, nonce, read_frame, refusal_frame,
};
use byname_control::switch::{Controller, Engine};
use byname_wire::NameHashKey;
use signal_hook::iterator::Signals;

use super::stream::{Listener, Stream};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// Between two times that what was learned is written down.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Messages of switches that wait; beyond these, they do.
const EVENTS_MAX: usize = 4096;
/// Octets that wait for a switch that reads too slowly, before its session is ended: two large tables.
const QUEUE_OCTETS_MAX: usize = 1 << 29;
/// Connections beyond two for each switch, such as those of strangers.
const CONNECTIONS_SPARE: usize = 16;

/// What the deciding thread waits for.
enum Event {
    /// A switch has shown that it has the secret.
    Connected(Box<Connected>),
    /// A message of the connection of this number.
    Message(u64, ToController),
    /// That connection has ended.
    Ended(u64, String),
    /// A signal asks to end.
    End,
}

struct Connected {
    number: u64,
    hello: Hello,
    seals: Seals,
    table_key: NameHashKey,
    stream: Stream,
}

/// What the threads of all connections share.
struct Shared {
    secret: Secret,
    engine: Engine,
    network: [u8; 16],
    events: SyncSender<Event>,
    connections: AtomicUsize,
    connections_max: usize,
    numbers: AtomicUsize,
}

/// A switch's connection, to write to.
struct Live {
    switch: usize,
    seals: Seals,
    frames: Sender<Vec<u8>>,
    /// Octets that wait to be written.
    queued: Arc<AtomicUsize>,
    stream: Stream,
}

/// Runs until a signal comes.
pub fn run(network: SwitchNetwork, secret: Secret, mut signals: Signals) -> anyhow::Result<()> {
    let drawn = nonce()?;
    let (events, receiver) = mpsc::sync_channel(EVENTS_MAX);
    let shared = Arc::new(Shared {
        engine: network.engine,
        network: drawn,
        events: events.clone(),
        connections: AtomicUsize::new(0),
        connections_max: 2 * network.switches.len() + CONNECTIONS_SPARE,
        numbers: AtomicUsize::new(0),
        secret,
    });
    let listen = network.listen.clone();
    let [epoch, ..] = nonce()?;
    let memory = Memory { path: Some(network.folder.join(&network.hosts_file)).filter(|_| has_memory(&network)) };
    let mut controller = Controller::new(network, shared.secret.names_key(&drawn), epoch).context("empty tables")?;
    memory.recall(&mut controller)?;
    // Files of sockets go when this returns.
    let listeners = listen.iter().map(Listener::open).collect::<anyhow::Result<Vec<_>>>()?;
    let (listeners, _files): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
    for listener in listeners {
        let shared = shared.clone();
        std::thread::Builder::new().name("byname-accept".into()).spawn(move || accept(&listener, &shared))?;
    }
    std::thread::spawn(move || {
        signals.forever().next();
        let _ = events.send(Event::End);
    });
    let addresses: Vec<_> = listen.iter().map(ToString::to_string).collect();
    // A closed standard output is no reason to end.
    let _ = writeln!(
        io::stdout(),
        "byname switch-controller, process {}: listens on {}; waits for {} switches",
        std::process::id(),
        addresses.join(", "),
        controller.connected().1
    );
    let mut task = Task { controller, memory, lives: HashMap::new(), beat_at: Instant::now() };
    task.run(&receiver);
    task.memory.write(&task.controller)
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection has failed");
                // Out of descriptors, perhaps: there will be some again.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= shared.connections_max {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("too many connections, one is closed");
            continue;
        }
        let of_thread = shared.clone();
        let serve = move || {
            let number = of_thread.numbers.fetch_add(1, Ordering::Relaxed) as u64;
            let Err(error) = serve(number, stream, &of_thread);
            let _ = of_thread.events.send(Event::Ended(number, error.to_string()));
            of_thread.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("byname-session".into()).spawn(serve) {
            tracing::error!(%error, "no thread for a connection");
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// One connection, from its first octet to its end.
fn serve(number: u64, mut stream: Stream, shared: &Shared) -> Result<std::convert::Infallible, SessionError> {
    let octets = read_frame(&mut stream)?;
    let hello = Hello::decode(&octets).ok_or(SessionError::Protocol)?;
    let welcome = Welcome::new(shared.engine, shared.network)?;
    let (session, framed) = Session::welcome(&shared.secret, &octets, &welcome);
    stream.write_all(&framed)?;
    let Session { to_switch, mut to_controller, table_key } = session;
    // Until now anybody could have said what was said.
    let first = next(&mut stream, &mut to_controller);
    let first = first.inspect_err(|error| tracing::warn!("who says to be switch {:?} is not: {error}", hello.name))?;
    let writer = stream.try_clone()?;
    let connected = Connected { number, hello, seals: to_switch, table_key, stream: writer };
    let over = |_| SessionError::Connection(io::Error::other("the controller ends"));
    shared.events.send(Event::Connected(Box::new(connected))).map_err(over)?;
    shared.events.send(Event::Message(number, first)).map_err(over)?;
    loop {
        shared.events.send(Event::Message(number, next(&mut stream, &mut to_controller)?)).map_err(over)?;
    }
}

fn next(stream: &mut Stream, seals: &mut Seals) -> Result<ToController, SessionError> {
    let sealed = read_frame(stream)?;
    ToController::decode(seals.open(&sealed)?).ok_or(SessionError::Protocol)
}

/// What was learned, in a file for the next start.
struct Memory {
    path: Option<PathBuf>,
}

fn has_memory(network: &SwitchNetwork) -> bool {
    !network.hosts_file.as_os_str().is_empty()
}

impl Memory {
    fn recall(&self, controller: &mut Controller) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        match std::fs::read_to_string(path) {
            Ok(learned) => {
                let hosts = controller.remember(&learned).context("the hosts of hosts_file")?;
                tracing::info!("{hosts} hosts are remembered");
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot read hosts_file {}", path.display())),
        }
    }

    /// Writes it in one step, as a reader sees it.
    fn write(&self, controller: &Controller) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let new = path.with_extension("new");
        let written = std::fs::write(&new, controller.learned()).and_then(|()| std::fs::rename(&new, path));
        written.with_context(|| format!("cannot write hosts_file {}", path.display()))
    }
}

/// The deciding thread's own.
struct Task {
    controller: Controller,
    memory: Memory,
    /// By the connection's number.
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
                    tracing::error!("{error:#}");
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
            // All that has come since the last batch makes one.
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
                tracing::error!(%error, "tables do not take what has changed");
            }
            self.send(messages);
        }
    }

    fn connect(&mut self, connected: Connected) {
        let Connected { number, hello, seals, table_key, stream } = connected;
        let name = hello.name;
        let known = self.controller.number_of(&name);
        let before = known.and_then(|switch| self.number_live(switch));
        let accepted = known.ok_or_else(|| format!("there is no \"{name}\" among its `switches`"));
        let accepted = accepted.and_then(|switch| {
            let live = Live::start(switch, seals, &stream).map_err(|error| error.to_string())?;
            self.controller.connect(switch, hello.ports, table_key).map(|()| live)
        });
        match accepted {
            Ok(live) => {
                if let Some(before) = before.and_then(|before| self.lives.remove(&before)) {
                    before.stream.close();
                }
                self.lives.insert(number, live);
                let (there, all) = self.controller.connected();
                tracing::info!("switch {name} is connected ({there} of {all})");
            }
            Err(why) => {
                tracing::warn!("switch {name} is refused: {why}");
                let mut stream = stream;
                let _ = stream.write_all(&refusal_frame(&why));
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
        tracing::warn!("a switch has gone ({there} of {all} are connected): {why}");
    }

    /// Hands messages to the threads that write.
    fn send(&mut self, messages: Vec<(usize, ToSwitch)>) {
        for (switch, message) in messages {
            let Some(number) = self.number_live(switch) else { continue };
            let Some(live) = self.lives.get_mut(&number) else { continue };
            let framed = live.seals.seal(&message.encode());
            let queued = live.queued.fetch_add(framed.len(), Ordering::Relaxed);
            if queued > QUEUE_OCTETS_MAX || live.frames.send(framed).is_err() {
                self.end(number, "it does not read what it is sent");
            }
        }
    }
}

impl Live {
    /// Starts a thread that writes to the switch.
    fn start(switch: usize, seals: Seals, stream: &Stream) -> io::Result<Self> {
        let (frames, receiver) = mpsc::channel::<Vec<u8>>();
        let queued = Arc::new(AtomicUsize::new(0));
        let (of_thread, mut writer) = (queued.clone(), stream.try_clone()?);
        let write = move || {
            for framed in receiver {
                of_thread.fetch_sub(framed.len(), Ordering::Relaxed);
                if writer.write_all(&framed).is_err() {
                    // Its reader tells of the end.
                    writer.close();
                    return;
                }
            }
        };
        std::thread::Builder::new().name("byname-updates".into()).spawn(write)?;
        Ok(Live { switch, seals, frames, queued, stream: stream.try_clone()? })
    }
}
