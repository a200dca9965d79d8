//! `byname run`: the forwarder, from its configuration to its end.

pub mod dashboard;
mod descriptor_store;
mod examine;
mod handover;
mod health;
mod holder;
mod initial;
mod machine;
mod ports;
mod push;
mod reload;
pub mod routing;
mod socket_path;
mod start_up;
pub mod state;
mod takeover;
mod trees;
mod watch;

use std::io::{IsTerminal, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use anyhow::Context;
use byname_control::config::{Authorization, Config, ConfigError, Log, Reach, RightSigner, Source, default_toml};
use byname_control::fib_writer::{FibEngine, Replica};
use byname_control::mgmt::audit::Audit;
use byname_control::readvertise::Destination;
use byname_control::security::{Authorizer, Signer};
use byname_control::service::{self, ControlConfig, ControlHandle, Engines, Forwarder};
use byname_face::handover::Inherited;
use byname_face::nodes::on_node;
use byname_face::pulse::Watched;
use byname_face::{ForwarderHandle, IoConfig, Port, Queue, StartError, Workers};
use byname_forward::Worker;
use byname_forward::tables::Tables;
use byname_forward::worker::{NoMemory, Table};
use byname_lookup::BuildError;
use byname_lookup::file::Checked;
use byname_web::WebServer;
use byname_wire::{Name, NameHashKey};
use clap::Args;
use ring::rand::{SecureRandom, SystemRandom};
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use crate::exit;
use crate::process::{self, Process};
use descriptor_store::DescriptorStore;
use examine::{Good, examine};
use handover::{Arrival, Program};
use health::{Health, Phase};
use initial::Initial;
use ports::Placed;
use reload::{Router, SECURE_THREAD, Setup, WEB_THREAD};
use routing::{Measures, Routing, RoutingArgs};
use socket_path::Surroundings;
use start_up::StartUp;
use state::Earlier;
use trees::Joining;
use watch::Watch;

/// Stack size of a thread.
const STACK_BYTES: usize = 2 << 20;
/// Threads besides the packet threads: control, web, metrics for a collector, routing, signals, audit log, pulses, and those
/// that watch the first ones.
const THREADS: usize = 14;
/// Address space for everything besides the tables. 64 MiB of it are for the first descriptors.
const SPARE_BYTES: usize = 160 << 20;
/// Upper limit on the rules that the FIB is sized for.
const FIB_RULES_MAX: usize = 1 << 28;

/// Options of `byname run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file (TOML); without one, byname uses its defaults [see: byname default-config]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take over from the process at the other end of standard input
    #[arg(long, hide = true)]
    takeover: bool,
    /// Forget faces, routes and settings at the end; see [state] in the configuration
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    routing: RoutingArgs,
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
    let (config, source) = load(Some(&args.file))?;
    let good = examine(&config, &source, &args.file, &Surroundings::of_process()).map_err(usage)?;
    let mut out = std::io::stdout().lock();
    for warning in &good.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let warnings = match good.warnings.len() {
        0 => String::new(),
        n => format!(", with {}", count(n, "warning")),
    };
    writeln!(out, "{}: good{warnings}", args.file.display())?;
    Ok(exit::OK)
}

/// `byname run`: returns after a signal has ended it.
pub fn run(args: RunArgs) -> anyhow::Result<u8> {
    process::end_on_panic();
    let base = Base { program: Program::of_process(), store: DescriptorStore::of_process() };
    if !args.takeover {
        let (parcel, inherited) = takeover::open_parcel();
        return serve(args, &base, parcel.as_ref(), inherited);
    }
    let (arrival, inherited) = Arrival::begin()?;
    serve(args, &base, Some(&arrival), inherited).inspect_err(|error| arrival.fail(error))
}

/// What a process was started with.
struct Base {
    program: Program,
    /// The service manager's descriptor store, if it offers one.
    store: Option<DescriptorStore>,
}

/// Runs the forwarder. With an `arrival` it takes over from another process, which has given the `inherited` sockets.
fn serve(args: RunArgs, base: &Base, arrival: Option<&Arrival>, mut inherited: Inherited) -> anyhow::Result<u8> {
    let (mut config, source) = load(args.config.as_deref())?;
    args.routing.override_in(&mut config, &source).map_err(usage)?;
    let levels = start_log(&config.log)?;
    let arrival = takeover::usable(arrival, config.threads.count, &mut inherited)?;
    let surroundings = Surroundings::of_process();
    let file = args.config.clone();
    let good = examine(&config, &source, file.as_deref().unwrap_or(Path::new("")), &surroundings).map_err(usage)?;
    let Good { mut authorizer, propagate_signer, places, warnings } = good;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    reserve(&config)?;
    // Before anything listens: a client that sees the router running may already send it a signal.
    let mut process = Process::begin()?;
    process.heed_restarts()?;

    ports::raise_descriptor_limit();
    let started = SystemTime::now();
    if arrival.is_none() {
        takeover::release(base.store);
    }
    let mut bound = ports::bind(&config, &surroundings, &mut inherited)?;
    let mut http = inherited.take(takeover::HTTP, |socket| socket.local == config.metrics.listen.to_string()).pop();
    drop(inherited);
    if arrival.is_some_and(Arrival::is_late) {
        takeover::empty(base.store);
    }
    let mut earlier = Earlier::default();
    let has_marks = authorizer.knows_keys();
    if arrival.is_none() {
        bound.add_exclusive(ports::open_exclusive(&config)?);
        let marks = state::marks(&authorizer, &config, started, &mut bound.notes)?;
        marks.into_iter().for_each(|marks| authorizer.keep_marks(marks));
        earlier = Earlier::open(&config, args.ephemeral, &mut bound.notes);
    }
    let capture = ports::capture(&config, arrival.is_some())?;
    bound.capture(capture.as_ref());
    let strategies = earlier.strategies(&config, &source);
    let destinations = destinations(&config, propagate_signer);
    let running = start_forwarder(&config, authorizer, destinations, strategies)?;
    let RunningForwarder { handle, thread, mut control, pulses, secrets, checked } = running;
    earlier.set_content_store(&source, &handle);
    let health = Arc::<Health>::default();
    process.watch("packet thread", thread)?;
    if let Some(thread) = control.take_thread() {
        process.watch("control thread", thread)?;
    }
    // Before the ports: a supervisor may ask whether the router is ready while they start. But while another process is
    // ready, it answers.
    let (mut web, mut routing) = (None, Routing::default());
    if arrival.is_none() {
        web = start_web(&config, http.take(), &control, (&health, routing.measures()), &mut bound);
    }
    let watch = Watch::start(pulses, control.take_pulse(), Arc::clone(&health), watch::INTERVAL)?;
    let configured = config.tables.strategies.clone().into_iter().collect();
    control.with_management(|management| management.set_configured_strategies(configured))?;
    let mut taken = match arrival {
        Some(arrival) => {
            let taken = takeover::take_over(arrival, &config, &handle, &control, &mut bound)?;
            takeover::take_rest(arrival, &config, &handle, &control, (&taken, capture.as_ref()), &mut bound);
            // The other process has closed it.
            earlier = Earlier::open(&config, args.ephemeral, &mut bound.notes);
            Some(taken)
        }
        None => {
            add_ports(&handle, std::mem::take(&mut bound.ports))?;
            None
        }
    };
    let mut initial = Initial::set_up(&config, &handle, &control, &mut bound.notes);
    if let Some(taken) = &taken {
        initial.follow(&taken.configured, &handle, &control)?;
    }
    let state = earlier.path();
    let passed = taken.as_ref().map(|_| initial.routes.clone());
    earlier.take_over(&config, &control, passed, &mut bound.notes)?;
    let tree_faces = Joining::prepare(&places, &handle, &mut bound.notes).join(&control)?;
    takeover::advertise_tags(taken.as_mut(), &control)?;
    // The Unix socket comes last: a client that connects at once must find management running. It may advertise routes
    // at once, too, so the trees must be joined before.
    add_ports(&handle, std::mem::take(&mut bound.applications))?;
    if arrival.is_some() {
        web = start_web(&config, http.take(), &control, (&health, routing.measures()), &mut bound);
    }
    // As other applications: when management runs.
    if let Some(thread) = routing.start(&config, &handle)? {
        process.watch(routing::THREAD, thread)?;
    }
    if let Some(thread) = web.as_mut().and_then(WebServer::take_thread) {
        process.watch(WEB_THREAD, thread)?;
    }

    bound
        .notes
        .extend(capture.as_ref().map(|_| format!("all packets are captured in {}", config.capture.file.display())));
    let mut secure = bound.secure.take();
    if let Some(thread) = secure.as_mut().and_then(byname_secure::Secure::take_thread) {
        process.watch(SECURE_THREAD, thread)?;
    }
    // Another process that had its sockets has ended.
    secure.iter().for_each(byname_secure::Secure::serve);
    let certificate = secure.as_ref().map(|secure| secure.summary().fingerprint.base64());
    let table =
        StartUp { taken, state, certificate, ..start_up(&config, args.config, bound, initial.counts(), web.as_ref()) };
    let push = push::start(&config, &control, routing.measures(), secure.as_ref())?;
    let setup = Setup {
        config,
        source,
        file,
        initial,
        web,
        secure,
        push,
        health: Arc::clone(&health),
        levels,
        has_marks,
        secrets,
        checked,
        capture,
        places,
        tree_faces,
        store: base.store,
        routing,
        options: args.routing,
    };
    let mut router = Router::new(handle, control, setup);
    router.take_requests(&process)?;
    // A closed standard output must not stop forwarding.
    let _ = std::io::stdout().write_all(table.render().as_bytes());
    health.set(Phase::Ready);
    watch::tell_manager(&[NotifyState::Ready, NotifyState::Status("forwarding")]);

    router.keep_sockets();
    router.serve(&mut process, &base.program)?;
    tracing::info!("ending");
    health.set(Phase::Ending);
    watch::tell_manager(&[NotifyState::Stopping, NotifyState::Status("ending")]);
    drop(watch);
    router.leave_to_manager();
    router.end(&mut process)?;
    process.join();
    Ok(exit::OK)
}

/// Hands ports to their threads.
fn add_ports(handle: &ForwarderHandle, ports: Vec<Placed>) -> Result<(), StartError> {
    let mut by_thread: Vec<Vec<Box<dyn Port>>> = (0..handle.threads()).map(|_| Vec::new()).collect();
    for (thread, port) in ports {
        by_thread[thread].push(port);
    }
    by_thread.into_iter().enumerate().try_for_each(|(thread, ports)| handle.add_ports(thread, ports))
}

/// The contents of the start-up table.
fn start_up(
    config: &Config,
    file: Option<PathBuf>,
    bound: ports::Bound,
    initial: (usize, usize),
    web: Option<&WebServer>,
) -> StartUp {
    StartUp {
        pid: std::process::id(),
        config: file,
        udp: bound.udp,
        multicast: bound.multicast,
        ethernet: bound.ethernet,
        memif: bound.memif,
        tcp: bound.tcp,
        websocket: bound.websocket,
        wss: bound.wss,
        quic: bound.quic,
        certificate: None,
        unix: bound.unix,
        management: describe_rights(config),
        pit_entries: config.tables.pit_entries,
        cs_packets: config.tables.cs_packets,
        cs_bytes: config.tables.cs_bytes,
        routes_max: config.rib.routes_max,
        metrics: web.map(WebServer::address),
        dashboard: config.dashboard.enabled,
        initial,
        taken: None,
        routing: config.routing.is_on().then(|| config.routing.name.to_string()),
        notes: bound.notes,
        state: None,
    }
}

/// A running forwarder with management but without ports.
pub struct RunningForwarder {
    /// Sends commands to the packet thread.
    pub handle: ForwarderHandle,
    /// The first packet thread, which ends last.
    pub thread: JoinHandle<()>,
    /// Management.
    pub control: ControlHandle,
    /// What the packet threads do.
    pub pulses: Vec<Watched>,
    /// Secrets of the tables.
    pub secrets: Secrets,
    /// Files of tables that were read.
    pub checked: Checked,
}

/// Random numbers with which the tables hash, so that strangers cannot find names that collide.
#[derive(Clone, Copy)]
pub struct Secrets {
    /// What the key of names is made of, unless a file has one.
    names: [u64; 2],
    /// The key that names are hashed with now.
    key: NameHashKey,
    tags: u64,
}

/// Makes a FIB without routes, for a memory node.
fn build_fib(
    config: &Config,
    key: NameHashKey,
    (node, checked): (Option<u32>, &Checked),
) -> Result<FibEngine, BuildError> {
    config.build_fib(key, config.rib.routes_max.min(FIB_RULES_MAX), (node, checked))
}

/// Starts the packet threads and the control thread.
pub fn start_forwarder(
    config: &Config,
    authorizer: Authorizer,
    destinations: Vec<Destination>,
    strategies: Vec<(Name, Name)>,
) -> anyhow::Result<RunningForwarder> {
    let checked = Checked::default();
    let (engines, tables, workers, secrets) = data_plane(config, &checked)?;
    let io_config = IoConfig {
        spin: config.general.spin,
        burst_max: config.general.burst_packets,
        internal_max: config.general.internal_queue_packets,
        events_max: config.general.face_events,
        rests: config.threads.rest,
    };
    let running = byname_face::start(io_config, workers, Vec::new()).map_err(no_room_for_queue)?;
    let handle = running.handle.clone();
    handle.cs_config(None, Some(config.tables.cs_admit), Some(config.tables.cs_serve));
    let control_config = ControlConfig {
        authorizer,
        routes_max: config.rib.routes_max,
        announcements_max: config.rib.announcements_max,
        balance_period: config.threads.balance,
        strategies,
        tag_limits: config.tag_limits(),
        destinations,
        audit: start_audit(config)?,
    };
    let forwarder = Forwarder {
        handle: handle.clone(),
        internal: running.internal,
        events: running.events,
        notices: running.notices,
    };
    let control =
        service::start(control_config, forwarder, engines, tables).context("cannot start the control thread")?;
    Ok(RunningForwarder { handle, thread: running.thread, control, pulses: running.pulses, secrets, checked })
}

/// The audit log of the configuration.
fn start_audit(config: &Config) -> anyhow::Result<Audit> {
    let Some(destination) = config.audit.destination(&config.folder) else { return Ok(Audit::off()) };
    let started = Audit::start(destination, config.audit.queue);
    Ok(started.map_err(|error| exit::Failure::new(exit::USAGE, format!("[audit] {error}")))?)
}

/// Reads a configuration file, or takes the defaults.
pub fn load(path: Option<&Path>) -> anyhow::Result<(Config, Source)> {
    let source = path.map_or_else(|| Ok(Source::default()), Source::load).map_err(usage)?;
    Ok((source.config().map_err(usage)?, source))
}

fn usage(error: ConfigError) -> exit::Failure {
    exit::Failure::new(exit::USAGE, error.to_string())
}

/// The receivers of route announcements: a routing daemon, and the hub if there is a signer for it.
fn destinations(config: &Config, signer: Option<Signer>) -> Vec<Destination> {
    let hub = signer.map(|signer| Destination::hub(&config.rib.propagate, signer));
    let readvertise = &config.rib.readvertise;
    let daemon = readvertise.enabled.then(|| Destination::daemon(readvertise.clone()));
    daemon.into_iter().chain(hub).collect()
}

/// Checks that the system gives this process the memory that its tables reserve at start, and some more. Later
/// allocations may abort the process instead of returning an error.
fn reserve(config: &Config) -> anyhow::Result<()> {
    let tables = config.memory().iter().fold(0usize, |sum, need| sum.saturating_add(need.memory.start));
    let stacks = STACK_BYTES * (config.threads.count + THREADS);
    let bytes = tables.saturating_add(stacks + SPARE_BYTES);
    let mut room = Vec::<u8>::new();
    let reserved = room.try_reserve_exact(bytes);
    // Keeps the compiler from removing the unused allocation.
    std::hint::black_box(&room);
    reserved.map_err(|_| {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        anyhow::anyhow!(
            "the system refuses this process {} MiB of address space, {} MiB of which are for tables: make \
             `pit_entries` and other settings in [tables] and [threads] smaller, or see `ulimit -v` and \
             vm.overcommit_memory",
            mib(bytes),
            mib(tables)
        )
    })
}

/// Writes the log to standard error. The level comes from `RUST_LOG`, or else from the configuration.
pub fn start_log(log: &Log) -> anyhow::Result<LogLevels> {
    let of_environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = match &of_environment {
        Some(filter) => EnvFilter::try_new(filter).context("the variable RUST_LOG")?,
        None => EnvFilter::try_new(log.filter()).context("[log] modules")?,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // By default, a failed write is reported on standard error, which panics if standard error is closed.
        .log_internal_errors(false)
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.init();
    let set = move |filter| {
        if let Err(error) = handle.reload(filter) {
            tracing::error!(%error, "the log keeps its levels");
        }
    };
    Ok(LogLevels { set: of_environment.is_none().then(|| Box::new(set) as Box<dyn Fn(EnvFilter)>) })
}

/// Changes how much is logged.
pub struct LogLevels {
    /// `None` if the environment decides.
    set: Option<Box<dyn Fn(EnvFilter)>>,
}

impl LogLevels {
    /// Takes over levels that `examine` has checked.
    fn set(&self, log: &Log) {
        if let (Some(set), Ok(filter)) = (&self.set, EnvFilter::try_new(log.filter())) {
            set(filter);
        }
    }
}

/// Builds the FIBs, their publisher and the workers that read them, all with one secret hash key.
fn data_plane(config: &Config, checked: &Checked) -> anyhow::Result<(Engines, Arc<Tables>, Workers, Secrets)> {
    let mut secret = [0; 40];
    SystemRandom::new().fill(&mut secret).map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    let word = |i: usize| u64::from_ne_bytes(secret[8 * i..8 * i + 8].try_into().expect("eight of 40 bytes"));
    let words = [word(0), word(1)];
    let key = config.name_key(words)?;
    let secrets = Secrets { names: words, key, tags: word(3) };
    let placement = config.placement();
    let build = |node| {
        let engine = on_node(node, || build_fib(config, key, (node, checked))).context("the FIB")?;
        Ok(Replica { engine, node })
    };
    let replicas = placement.replicas().into_iter().map(build).collect::<anyhow::Result<Vec<_>>>()?;
    let tag_fib = config.build_tag_fib(secrets.tags).context("the descriptors' FIB")?;
    let tables = Arc::new(Tables::replicated(replicas.iter().map(|replica| replica.engine.query()).collect()));
    tables.replace_tag_fib(tag_fib.engine.query());
    let workers = config.workers(key, word(4) as u32, &placement, |number| {
        let seed = word(2).wrapping_add(number as u64);
        Worker::try_new(config.worker(number), key, Arc::clone(&tables), seed)
    });
    let workers = workers.map_err(no_room_for_table)?;
    Ok(((replicas, tag_fib), tables, workers, secrets))
}

fn no_room_for_table(NoMemory { table, bytes }: NoMemory) -> anyhow::Error {
    no_memory(
        bytes,
        match table {
            Table::PitCs => "pending Interests and Data: make `[tables] pit_entries` or `cs_packets` smaller",
            Table::DeadNonces => "nonces: make `[tables] dead_nonces` smaller",
        },
    )
}

/// An error about memory that the system refused. `advice` names its purpose and the settings that lower it.
fn no_memory(bytes: usize, advice: &str) -> anyhow::Error {
    anyhow::anyhow!("the system refuses {bytes} bytes of memory for {advice}")
}

fn no_room_for_queue(error: StartError) -> anyhow::Error {
    let StartError::Memory { queue, bytes } = error else { return error.into() };
    no_memory(
        bytes,
        match queue {
            Queue::Rings => "the rings between threads: make `[threads] ring_packets` smaller",
            Queue::Internal => "packets to management: make `[general] internal_queue_packets` smaller",
            Queue::Events => "face events: make `[general] face_events` smaller",
        },
    )
}

fn start_web(
    config: &Config,
    listener: Option<OwnedFd>,
    control: &ControlHandle,
    (health, routing): (&Arc<Health>, Measures),
    bound: &mut ports::Bound,
) -> Option<WebServer> {
    if !config.metrics.enabled {
        return None;
    }
    let snapshots = control.snapshots(config.metrics.faces);
    let listener = listener.map(TcpListener::from);
    let dashboard = dashboard::wanted(config, control, routing.map(), &mut bound.notes);
    let ask = routing.added_to(move |tell| snapshots.ask(tell));
    let ask = ports::adds_certificate(bound.secure.as_ref(), ask);
    let mut probes = health.probes();
    probes.certificate = bound.secure.as_ref().map(ports::tells_certificate);
    match WebServer::start_on(config.metrics.listen, listener, ask, probes, dashboard) {
        Ok(server) => Some(server),
        Err(error) => {
            tracing::warn!("{error}");
            bound.notes.push(format!("no metrics: {error}; see [metrics] in the configuration"));
            None
        }
    }
}

fn describe_rights(config: &Config) -> String {
    if config.authorizations == [Authorization::default()] && config.rib.localhop_anchors.is_empty() {
        return "this host only".to_owned();
    }
    let any = config.authorizations.iter().any(|right| right.signer == RightSigner::Any);
    let is_trusted = |right: &&Authorization| matches!(right.signer, RightSigner::Trusted { .. });
    let trusted = config.authorizations.iter().filter(is_trusted).count();
    let named = |right: &&Authorization| right.signer != RightSigner::Any && !is_trusted(right);
    let keys = config.authorizations.iter().filter(named).count();
    let remote = config.authorizations.iter().filter(|right| right.from == Reach::Network && named(right)).count()
        + config.rib.localhop_anchors.len();
    let mut parts = Vec::new();
    if any {
        parts.push("anyone on this host".to_owned());
    }
    if keys > 0 {
        parts.push(count(keys, "key"));
    }
    if trusted > 0 {
        parts.push(format!("keys below {}", count(config.trust.anchors.len(), "trust anchor")));
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
