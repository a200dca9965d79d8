//! The configuration file: TOML in which every setting is optional.
//!
//! [`default_toml`] documents it: the whole file with all defaults. An unknown key is an error, with a suggestion.
//! Every error names its place in the file and says what to do.

mod audit;
mod bulk;
mod changes;
mod contradictions;
mod dashboard;
mod error;
mod ethernet;
mod experiment;
mod faces;
mod finding;
mod flat;
mod fleet;
mod initial;
mod memif;
mod memory;
mod partition;
mod propagate;
mod queues;
mod rights;
mod routing;
mod secrets;
mod state;
mod tags;
mod threads;
mod tls;
mod trust;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use byname_forward::worker::{CsPolicy, WorkerConfig};
use byname_lookup::prefix::two_stage::StartDepth;
use byname_wire::{HashFunction, Name};
use serde::Deserialize;

use crate::fib_writer::{FibEngineKind, FibParameters};

pub use audit::{AuditDestination, AuditLog};
pub use changes::{Change, Changes, changes};
pub use dashboard::DashboardSettings;
pub use error::ConfigError;
pub use ethernet::{Dpdk, Ethernet, EthernetPort, EthernetUdp, XdpMode, ring_bytes};
pub use experiment::{Capture, Faults};
pub use faces::{Faces, Multicast, Quic, SecureWebSocket, Tcp, Udp, Unix, WebSocket};
pub use finding::{Finding, Source};
pub use flat::{FlatNamespace, Unknown};
pub use fleet::Fleet;
pub use initial::{InitialFace, InitialPersistency, InitialRoute, parse_remote};
pub use memif::{Memif, MemifFraming, MemifRole};
pub use memory::{FilledBy, Need, Room};
pub use partition::Partition;
pub use propagate::Propagate;
pub use queues::Queues;
pub use rights::{Authorization, Reach, RightSigner, RightsError};
pub use routing::{Routing, RoutingNeighbor, RoutingProtocol};
pub use secrets::exposure;
pub use state::State;
pub use tags::{ConfiguredNeighbor, ConfiguredPlace, Neighbor, PlacesError, TagEngineKind, Tags, Tree};
pub use threads::{Threads, thread_count};
pub use tls::{Acme, Tls};
pub use trust::{RuleKind, Trust};
pub use value::at_least_1;

/// All settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Polling, internal queues and state folder.
    pub general: General,
    /// Faces, routes and settings that survive a restart.
    pub state: State,
    /// Packet threads.
    pub threads: Threads,
    /// The table of earlier versions in place of `[threads]`. It is refused.
    #[serde(deserialize_with = "threads::refuse_workers")]
    pub workers: (),
    /// Transports.
    pub faces: Faces,
    /// PIT, CS and strategies.
    pub tables: Tables,
    /// Flat namespaces.
    pub flat: Vec<FlatNamespace>,
    /// Other machines of this router.
    pub partition: Partition,
    /// Tables of a fleet.
    pub fleet: Fleet,
    /// Position of this router in the network.
    pub network: Network,
    /// Time window for signed commands.
    pub security: Security,
    /// Trust anchors and rules.
    pub trust: Trust,
    /// Rights: which signer may send which commands.
    #[serde(rename = "authorization")]
    pub authorizations: Vec<Authorization>,
    /// Routes and their advertisement.
    pub rib: Rib,
    /// The routing protocol.
    pub routing: Routing,
    /// Descriptors and trees.
    pub tags: Tags,
    /// The certificate of encrypted faces.
    pub tls: Tls,
    /// Faces to create at startup.
    #[serde(rename = "face")]
    pub initial_faces: Vec<InitialFace>,
    /// Routes to add at startup.
    #[serde(rename = "route")]
    pub initial_routes: Vec<InitialRoute>,
    /// Logging.
    pub log: Log,
    /// Audit log.
    pub audit: AuditLog,
    /// Metrics.
    pub metrics: Metrics,
    /// Pages for people.
    pub dashboard: DashboardSettings,
    /// Packet capture.
    pub capture: Capture,
    /// Faults to inject.
    pub faults: Faults,
    /// The folder that file names in the configuration are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            general: General::default(),
            state: State::default(),
            threads: Threads::default(),
            workers: (),
            faces: Faces::default(),
            tables: Tables::default(),
            flat: Vec::new(),
            partition: Partition::default(),
            fleet: Fleet::default(),
            network: Network::default(),
            security: Security::default(),
            trust: Trust::default(),
            authorizations: vec![Authorization::default()],
            rib: Rib::default(),
            routing: Routing::default(),
            tags: Tags::default(),
            tls: Tls::default(),
            initial_faces: Vec::new(),
            initial_routes: Vec::new(),
            log: Log::default(),
            audit: AuditLog::default(),
            metrics: Metrics::default(),
            dashboard: DashboardSettings::default(),
            capture: Capture::default(),
            faults: Faults::default(),
            folder: PathBuf::new(),
        }
    }
}

/// `[general]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct General {
    /// How long a packet thread polls for input before it sleeps.
    #[serde(deserialize_with = "value::duration")]
    pub spin: Duration,
    /// Most packets taken from one port before the next port is served.
    #[serde(deserialize_with = "value::at_least_1")]
    pub burst_packets: usize,
    /// Capacity of the queue between the first packet thread and management, in packets per direction.
    #[serde(deserialize_with = "value::at_least_1")]
    pub internal_queue_packets: usize,
    /// Most face events that wait for management. Beyond that, they are condensed.
    #[serde(deserialize_with = "value::at_least_1")]
    pub face_events: usize,
    /// Folder of the state that survives a restart. Empty: the system's folder for such state.
    pub state_folder: PathBuf,
    /// How long a new process may take to take over from this one.
    #[serde(deserialize_with = "value::duration")]
    pub takeover_time: Duration,
}

impl Default for General {
    fn default() -> Self {
        General {
            spin: Duration::from_micros(50),
            burst_packets: 64,
            internal_queue_packets: 4096,
            face_events: 4096,
            state_folder: PathBuf::new(),
            takeover_time: Duration::from_secs(10),
        }
    }
}

/// `[tables]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tables {
    /// Most PIT entries.
    #[serde(deserialize_with = "value::at_least_1")]
    pub pit_entries: usize,
    /// Most nonces of finished Interests to remember, for loop detection.
    #[serde(deserialize_with = "value::at_least_1")]
    pub dead_nonces: usize,
    /// Most packets in the CS.
    pub cs_packets: usize,
    /// Most memory of the CS, in bytes.
    #[serde(deserialize_with = "value::bytes")]
    pub cs_bytes: usize,
    /// Replacement policy.
    #[serde(deserialize_with = "value::cs_policy")]
    pub cs_policy: CsPolicy,
    /// Engine for longest prefix match.
    pub fib: FibEngineKind,
    /// M of the engine "two-stage".
    #[serde(deserialize_with = "value::start_depth")]
    pub fib_start_depth: StartDepth,
    /// T of the engine "level-pulling".
    #[serde(deserialize_with = "value::children")]
    pub fib_children: u32,
    /// A file of rules below the routes. Empty: none.
    pub bulk: PathBuf,
    /// Number of changes beside that file that belong to the table.
    pub bulk_changes: u64,
    /// Hash function for names, the same in every table.
    #[serde(deserialize_with = "value::name_hash")]
    pub name_hash: HashFunction,
    /// Whether Data is admitted to the CS.
    pub cs_admit: bool,
    /// Whether the CS answers Interests.
    pub cs_serve: bool,
    /// Whether Data is accepted from a face that its Interest was not sent to.
    pub accept_unasked_data: bool,
    /// Strategy instance by prefix. `/` is always among the keys.
    #[serde(deserialize_with = "value::strategies")]
    pub strategies: BTreeMap<Name, Name>,
}

impl Default for Tables {
    fn default() -> Self {
        let worker = WorkerConfig::default();
        Tables {
            pit_entries: worker.pit_entries_max,
            dead_nonces: worker.dead_nonces_max,
            cs_packets: worker.cs_packets_max,
            cs_bytes: worker.cs_bytes_max,
            cs_policy: worker.cs_policy,
            fib: FibEngineKind::default(),
            fib_start_depth: FibParameters::default().start_depth,
            fib_children: FibParameters::default().children,
            bulk: PathBuf::new(),
            bulk_changes: 0,
            name_hash: HashFunction::default(),
            cs_admit: true,
            cs_serve: true,
            accept_unasked_data: worker.accept_unasked_data,
            strategies: value::default_strategies(),
        }
    }
}

impl Tables {
    /// Parameters of single engines of the FIB.
    pub fn fib_parameters(&self) -> FibParameters {
        FibParameters { start_depth: self.fib_start_depth, children: self.fib_children }
    }
}

/// `[network]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Names that consume a forwarding hint: the Interest has arrived in the producer's region.
    #[serde(deserialize_with = "value::names")]
    pub producer_regions: Vec<Name>,
}

/// `[security]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Largest accepted age of a command.
    #[serde(deserialize_with = "value::duration")]
    pub time_window: Duration,
    /// How far a command's timestamp may lie in the future.
    #[serde(deserialize_with = "value::duration")]
    pub time_ahead: Duration,
}

impl Default for Security {
    fn default() -> Self {
        let window = crate::security::TimeWindow::default();
        Security { time_window: window.past, time_ahead: window.ahead }
    }
}

/// `[rib]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rib {
    /// Most routes.
    #[serde(deserialize_with = "value::at_least_1")]
    pub routes_max: usize,
    /// Most prefix announcements to keep. The same limit holds for routes learned from Data.
    #[serde(deserialize_with = "value::at_least_1")]
    pub announcements_max: usize,
    /// Certificates whose holders, and those whose keys they sign, may register prefixes from other hosts.
    pub localhop_anchors: Vec<PathBuf>,
    /// Readvertisement to a routing daemon.
    pub readvertise: Readvertise,
    /// Propagation of local prefixes to the hub.
    pub propagate: Propagate,
}

impl Default for Rib {
    fn default() -> Self {
        Rib {
            routes_max: 4_000_000,
            announcements_max: crate::mgmt::ANNOUNCEMENTS_MAX,
            localhop_anchors: Vec::new(),
            readvertise: Readvertise::default(),
            propagate: Propagate::default(),
        }
    }
}

/// `[rib.readvertise]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Readvertise {
    /// Whether to readvertise.
    pub enabled: bool,
    /// Management prefix of the daemon.
    #[serde(deserialize_with = "value::name")]
    pub prefix: Name,
    /// How long to wait for an answer.
    #[serde(deserialize_with = "value::duration")]
    pub timeout: Duration,
    /// Interval between repetitions of a registration.
    #[serde(deserialize_with = "value::duration")]
    pub refresh: Duration,
}

impl Default for Readvertise {
    fn default() -> Self {
        Readvertise {
            enabled: true,
            prefix: value::name_of(&["localhost", "nlsr"]),
            timeout: Duration::from_secs(10),
            refresh: Duration::from_secs(3600),
        }
    }
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Default level.
    pub level: LogLevel,
    /// Levels of single modules, which override the default.
    pub modules: BTreeMap<String, LogLevel>,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: LogLevel::Info, modules: BTreeMap::new() }
    }
}

impl Log {
    /// The levels as a filter in the syntax of `RUST_LOG`.
    pub fn filter(&self) -> String {
        let modules = self.modules.iter().map(|(module, level)| format!(",{module}={}", level.name()));
        std::iter::once(self.level.name().to_owned()).chain(modules).collect()
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level as written in the file.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Whether to serve metrics.
    pub enabled: bool,
    /// Address and port to listen on.
    #[serde(deserialize_with = "value::socket_address")]
    pub listen: SocketAddr,
    /// Most faces that have series of their own. 0: only sums.
    pub faces: usize,
    /// The collector of OpenTelemetry that gets the metrics, too, such as `http://127.0.0.1:4318`. Empty: none.
    #[serde(deserialize_with = "value::collector")]
    pub otlp: String,
    /// Time from one message to the collector to the next.
    #[serde(deserialize_with = "value::push_interval")]
    pub otlp_interval: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            enabled: true,
            listen: SocketAddr::from(([127, 0, 0, 1], 9626)),
            faces: 256,
            otlp: String::new(),
            otlp_interval: Duration::from_secs(15),
        }
    }
}

/// The whole configuration with all defaults, commented.
pub fn default_toml() -> &'static str {
    include_str!("default.toml")
}

impl Config {
    /// Parses a configuration. `path` appears in messages. File names in the configuration are relative to its folder.
    ///
    /// # Errors
    /// As [`Source::config`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        Source::new(text, path).config()
    }
}
