//! `byname run`: the forwarder itself, from the configuration to the last packet.

mod holder;
mod ports;
mod socket_path;
mod start_up;
mod trees;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::Context;
use byname_control::config::{
    Authorization, Config, ConfiguredPlace, InitialFace, Log, Reach, RightSigner, default_toml,
};
use byname_control::fib_writer::{FibEngine, TagFibEngine};
use byname_control::metrics::{MetricsServer, Snapshot};
use byname_control::mgmt::tlv::{origin, route_flags};
use byname_control::rib::Route;
use byname_control::security::RefusalCounters;
use byname_control::service::{self, ControlConfig, ControlHandle, Forwarder};
use byname_face::face::CreateFaceError;
use byname_face::{FaceUri, ForwarderHandle, IoConfig, Workers};
use byname_forward::tables::Tables;
use byname_forward::{FaceId, Worker};
use byname_wire::NameHashKey;
use clap::Args;
use ring::rand::{SecureRandom, SystemRandom};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing_subscriber::EnvFilter;

use crate::exit;
use socket_path::Surroundings;
use start_up::StartUp;

/// Most rules that the FIB is made for, whatever the configuration says.
const FIB_RULES_MAX: usize = 1 << 28;
/// Routes of the configuration have this origin, as static ones do in NFD.
const ORIGIN_STATIC: u64 = origin::STATIC;

/// Options of `byname run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file (TOML); without it, defaults hold [see: byname default-config]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of `byname check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `byname default-config`
pub fn print_default_config() -> anyhow::Result<u8> {
    std::io::stdout().write_all(default_toml().as_bytes())?;
    Ok(exit::OK)
}

/// `byname check`
pub fn check(args: CheckArgs) -> anyhow::Result<u8> {
    let config = load(Some(&args.file))?;
    rights(&config)?;
    places(&config)?;
    ports::check(&config)?;
    writeln!(std::io::stdout(), "{}: good", args.file.display())?;
    Ok(exit::OK)
}

/// `byname run`: returns when a signal has ended it.
pub fn run(args: RunArgs) -> anyhow::Result<u8> {
    let config = load(args.config.as_deref())?;
    start_log(&config.log)?;
    let authorizer = rights(&config)?;
    let refusals = authorizer.refusals();
    // Before anything listens: whoever sees it up may already want it to end.
    let signals = Signals::new([SIGTERM, SIGINT]).context("cannot watch for signals")?;

    ports::raise_descriptor_limit();
    let mut bound = ports::bind(&config, &Surroundings::of_process())?;
    let places = places(&config)?;
    let (engines, tables, workers) = data_plane(&config)?;
    let io_config = IoConfig {
        spin: config.general.spin,
        burst_max: config.general.burst_packets,
        internal_max: config.general.internal_queue_packets,
        events_max: config.general.face_events,
    };
    let running = byname_face::start(io_config, workers, Vec::new())?;
    let handle = running.handle.clone();
    handle.cs_config(None, Some(config.tables.cs_admit), Some(config.tables.cs_serve));
    let control_config = ControlConfig {
        authorizer,
        routes_max: config.rib.routes_max,
        strategies: config.tables.strategies.clone().into_iter().collect(),
        tag_limits: config.tag_limits(),
        readvertise: config.rib.readvertise.clone(),
    };
    let forwarder = Forwarder { handle: handle.clone(), internal: running.internal, events: running.events };
    let control =
        service::start(control_config, forwarder, engines, tables).context("cannot start the control thread")?;
    // Only now: whoever connects at once is to find management answering.
    let applications = bound.take_unix_port();
    handle.add_ports(std::mem::take(&mut bound.ports))?;
    let initial = set_up(&config, &handle, &control, &mut bound.notes);
    trees::join(&places, &handle, &control, &mut bound.notes)?;
    // Applications may advertise at once, too: on trees that are joined.
    handle.add_ports(applications.into_iter().collect())?;
    let metrics = start_metrics(&config, &handle, &control, refusals, &mut bound.notes);

    let table = StartUp {
        pid: std::process::id(),
        config: args.config,
        udp: bound.udp,
        multicast: bound.multicast,
        ethernet: bound.ethernet,
        memif: bound.memif,
        tcp: bound.tcp,
        websocket: bound.websocket,
        unix: bound.unix,
        management: describe_rights(&config),
        pit_entries: config.tables.pit_entries,
        cs_packets: config.tables.cs_packets,
        cs_bytes: config.tables.cs_bytes,
        routes_max: config.rib.routes_max,
        metrics: metrics.as_ref().map(MetricsServer::address),
        initial,
        notes: bound.notes,
    };
    // A closed standard output is no reason not to forward.
    let _ = std::io::stdout().write_all(table.render().as_bytes());

    let thread_ended = wait_for_end(signals, running.thread);
    tracing::info!("ending");
    drop(metrics);
    handle.shutdown();
    let packets = thread_ended.join();
    control.stop();
    match packets {
        Ok(()) => Ok(exit::OK),
        Err(error) => Err(error),
    }
}

fn load(path: Option<&Path>) -> anyhow::Result<Config> {
    let Some(path) = path else { return Ok(Config::default()) };
    Ok(Config::load(path).map_err(|error| exit::Failure::new(exit::USAGE, error.to_string()))?)
}

fn rights(config: &Config) -> anyhow::Result<byname_control::security::Authorizer> {
    Ok(config.authorizer().map_err(|error| exit::Failure::new(exit::USAGE, error.to_string()))?)
}

/// Where the configuration puts this router on its trees.
fn places(config: &Config) -> anyhow::Result<Vec<ConfiguredPlace>> {
    Ok(config.places().map_err(|error| exit::Failure::new(exit::USAGE, format!("[tags] {error}")))?)
}

/// Writes the log to standard error, as much as the configuration says, or `RUST_LOG`.
pub fn start_log(log: &Log) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(filter).context("the variable RUST_LOG")?,
        _ => EnvFilter::try_new(log.filter()).context("[log] modules")?,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// The FIBs, what publishes them, and the workers that read them; all under one secret key.
fn data_plane(config: &Config) -> anyhow::Result<((FibEngine, TagFibEngine), Arc<Tables>, Workers)> {
    let mut secret = [0; 40];
    SystemRandom::new().fill(&mut secret).map_err(|_| anyhow::anyhow!("the system gives no randomness"))?;
    let word = |i: usize| u64::from_ne_bytes(secret[8 * i..8 * i + 8].try_into().expect("eight of 40 octets"));
    let key = NameHashKey::with_function(config.tables.name_hash, [word(0), word(1)]);
    let engine = config.tables.fib.build(key, config.rib.routes_max.min(FIB_RULES_MAX)).context("the FIB")?;
    let tag_engine = config.tags.engine(word(3)).context("the descriptors' FIB")?;
    let tables = Arc::new(Tables::new(engine.query()));
    tables.replace_tag_fib(tag_engine.query());
    let workers = config.workers(key, word(4) as u32, |number| {
        let seed = word(2).wrapping_add(number as u64);
        Worker::new(config.worker(number), key, Arc::clone(&tables), seed)
    });
    Ok(((engine, tag_engine), tables, workers))
}

/// Makes the faces and routes of the configuration; what fails is noted. Returns how many there are.
fn set_up(
    config: &Config,
    handle: &ForwarderHandle,
    control: &ControlHandle,
    notes: &mut Vec<String>,
) -> (usize, usize) {
    let mut faces: Vec<(FaceUri, FaceId)> = Vec::new();
    for face in &config.initial_faces {
        match create(handle, face) {
            Ok(id) => faces.push((face.remote.clone(), id)),
            Err(problem) => notes.push(format!("no face to {}: {problem}", face.remote)),
        }
    }
    let mut routes = 0;
    for route in &config.initial_routes {
        let known = faces.iter().find(|(remote, _)| *remote == route.face).map(|(_, id)| *id);
        let face = match known.map_or_else(|| create(handle, &InitialFace::new(route.face.clone())), Ok) {
            Ok(face) => face,
            Err(problem) => {
                notes.push(format!("no route {}: no face to {}: {problem}", route.prefix, route.face));
                continue;
            }
        };
        if known.is_none() {
            faces.push((route.face.clone(), face));
        }
        let inherit = if route.child_inherit { route_flags::CHILD_INHERIT } else { 0 };
        let capture = if route.capture { route_flags::CAPTURE } else { 0 };
        let added = control.add_route(
            route.prefix.clone(),
            Route { face, origin: ORIGIN_STATIC, cost: route.cost, flags: inherit | capture, expires_at_ms: None },
        );
        match added {
            Ok(()) => routes += 1,
            Err(problem) => notes.push(format!("no route {}: {problem}", route.prefix)),
        }
    }
    (faces.len(), routes)
}

fn create(handle: &ForwarderHandle, face: &InitialFace) -> Result<FaceId, CreateFaceError> {
    match handle.create_face(face.request()) {
        Ok(status) => Ok(status.id),
        Err(CreateFaceError::Exists(status)) => Ok(status.id),
        Err(error) => Err(error),
    }
}

fn start_metrics(
    config: &Config,
    handle: &ForwarderHandle,
    control: &ControlHandle,
    refusals: Arc<RefusalCounters>,
    notes: &mut Vec<String>,
) -> Option<MetricsServer> {
    if !config.metrics.enabled {
        return None;
    }
    let (handle, gauges) = (handle.clone(), control.gauges());
    let snapshot = move || Snapshot::take(&handle, &gauges, &refusals);
    match MetricsServer::start(config.metrics.listen, snapshot) {
        Ok(server) => Some(server),
        Err(error) => {
            tracing::warn!("{error}");
            notes.push(format!("{error}; see [metrics] in the configuration"));
            None
        }
    }
}

fn describe_rights(config: &Config) -> String {
    if config.authorizations == [Authorization::default()] && config.rib.localhop_anchors.is_empty() {
        return "this host only".to_owned();
    }
    let any = config.authorizations.iter().any(|right| right.signer == RightSigner::Any);
    let keys = config.authorizations.iter().filter(|right| right.signer != RightSigner::Any).count();
    let remote = config.authorizations.iter().filter(|right| right.from == Reach::Network).count()
        + config.rib.localhop_anchors.len();
    let mut parts = Vec::new();
    if any {
        parts.push("anyone on this host".to_owned());
    }
    if keys > 0 {
        parts.push(count(keys, "key"));
    }
    if remote > 0 {
        parts.push(format!("{} from the network", count(remote, "key")));
    }
    if parts.is_empty() { "nobody".to_owned() } else { parts.join(", ") }
}

/// `1 key`, `2 keys`.
fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The packet thread, watched.
pub struct Watched {
    ended: mpsc::Receiver<Event>,
    first: Event,
}

enum Event {
    Signal,
    PacketThread(std::thread::Result<()>),
}

impl Watched {
    /// Waits for the packet thread, which was told to end.
    pub fn join(self) -> anyhow::Result<()> {
        let failed = || anyhow::anyhow!("the packet thread has failed; the log says where");
        let asked = matches!(self.first, Event::Signal);
        let mut event = self.first;
        loop {
            match event {
                Event::PacketThread(Ok(())) if asked => return Ok(()),
                Event::PacketThread(_) => return Err(failed()),
                Event::Signal => event = self.ended.recv().map_err(|_| failed())?,
            }
        }
    }
}

/// Waits until a signal comes or the packet thread ends by itself. A second signal ends the
/// process at once.
pub fn wait_for_end(mut signals: Signals, packets: std::thread::JoinHandle<()>) -> Watched {
    let (events, ended) = mpsc::channel();
    let signal_events = events.clone();
    std::thread::spawn(move || {
        for (i, _) in signals.forever().enumerate() {
            if i > 0 {
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            let _ = signal_events.send(Event::Signal);
        }
    });
    std::thread::spawn(move || {
        let _ = events.send(Event::PacketThread(packets.join()));
    });
    // The thread that watches for signals keeps its sender for ever.
    let first = ended.recv().unwrap_or(Event::Signal);
    Watched { ended, first }
}
