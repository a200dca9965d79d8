//! The configuration file: TOML, in which every setting may be left out.
//!
//! [`default_toml`] is its documentation: the whole file with all defaults. Keys that are not
//! known are errors, with a suggestion; every error says where it is and what to do.

mod error;
mod ethernet;
mod experiment;
mod faces;
mod initial;
mod memif;
mod rights;
mod switch;
mod tags;
mod value;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use byname_forward::worker::{CsPolicy, WorkerConfig};
use byname_wire::{HashFunction, Name};
use serde::Deserialize;

use crate::fib_writer::FibEngineKind;

pub use error::ConfigError;
pub use ethernet::{Dpdk, Ethernet, EthernetPort, EthernetUdp, XdpMode};
pub use experiment::{Capture, Faults};
pub use faces::{Faces, Multicast, Tcp, Udp, Unix, WebSocket};
pub use initial::{InitialFace, InitialPersistency, InitialRoute};
pub use memif::{Memif, MemifFraming, MemifRole};
pub use rights::{Authorization, Reach, RightSigner, RightsError};
pub use switch::{ControllerAddress, PortName, SwitchConfig, SwitchHost, SwitchLink, SwitchNetwork};
pub use tags::{ConfiguredPlace, Neighbor, Tags, Tree};
pub use workers::Workers;

/// All settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The packet thread.
    pub general: General,
    /// Threads that forward.
    pub workers: Workers,
    /// Transports.
    pub faces: Faces,
    /// PIT, CS and strategies.
    pub tables: Tables,
    /// Where this router is.
    pub network: Network,
    /// Clocks.
    pub security: Security,
    /// Who may command what.
    #[serde(rename = "authorization")]
    pub authorizations: Vec<Authorization>,
    /// Routes.
    pub rib: Rib,
    /// Descriptors and trees.
    pub tags: Tags,
    /// Faces to create at the start.
    #[serde(rename = "face")]
    pub initial_faces: Vec<InitialFace>,
    /// Routes to add at the start.
    #[serde(rename = "route")]
    pub initial_routes: Vec<InitialRoute>,
    /// Logging.
    pub log: Log,
    /// Metrics.
    pub metrics: Metrics,
    /// A capture of what passes.
    pub capture: Capture,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// The folder that file names in the configuration are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            general: General::default(),
            workers: Workers::default(),
            faces: Faces::default(),
            tables: Tables::default(),
            network: Network::default(),
            security: Security::default(),
            authorizations: vec![Authorization::default()],
            rib: Rib::default(),
            tags: Tags::default(),
            initial_faces: Vec::new(),
            initial_routes: Vec::new(),
            log: Log::default(),
            metrics: Metrics::default(),
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
    /// How long the packet thread looks for input before it sleeps.
    #[serde(deserialize_with = "value::duration")]
    pub spin: Duration,
    /// Packets taken from one port before the others have their turn.
    #[serde(deserialize_with = "value::at_least_1")]
    pub burst_packets: usize,
    /// Packets that wait between the packet thread and management, each way.
    #[serde(deserialize_with = "value::at_least_1")]
    pub internal_queue_packets: usize,
    /// Face events that wait for management before they are condensed.
    #[serde(deserialize_with = "value::at_least_1")]
    pub face_events: usize,
}

impl Default for General {
    fn default() -> Self {
        General { spin: Duration::from_micros(50), burst_packets: 64, internal_queue_packets: 4096, face_events: 4096 }
    }
}

/// `[tables]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tables {
    /// Most PIT entries.
    #[serde(deserialize_with = "value::at_least_1")]
    pub pit_entries: usize,
    /// Most nonces remembered of Interests whose PIT entry is gone.
    #[serde(deserialize_with = "value::at_least_1")]
    pub dead_nonces: usize,
    /// Most packets in the CS.
    pub cs_packets: usize,
    /// Most memory of the CS.
    #[serde(deserialize_with = "value::bytes")]
    pub cs_bytes: usize,
    /// Replacement policy.
    #[serde(deserialize_with = "value::cs_policy")]
    pub cs_policy: CsPolicy,
    /// The engine that finds the longest prefix of a name.
    #[serde(deserialize_with = "value::fib")]
    pub fib: FibEngineKind,
    /// What names are hashed with, in every table.
    #[serde(deserialize_with = "value::name_hash")]
    pub name_hash: HashFunction,
    /// Whether Data is stored.
    pub cs_admit: bool,
    /// Whether stored Data answers.
    pub cs_serve: bool,
    /// Strategy instance names, by prefix; `/` is among them.
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
            name_hash: HashFunction::default(),
            cs_admit: true,
            cs_serve: true,
            strategies: value::default_strategies(),
        }
    }
}

/// `[network]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Names that end a forwarding hint.
    #[serde(deserialize_with = "value::names")]
    pub producer_regions: Vec<Name>,
}

/// `[security]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// Age of the oldest command that is accepted.
    #[serde(deserialize_with = "value::duration")]
    pub time_window: Duration,
    /// How far a command's time may lie ahead.
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
    /// Certificates whose holders may register from other hosts.
    pub localhop_anchors: Vec<PathBuf>,
    /// Readvertisement to a routing daemon.
    pub readvertise: Readvertise,
}

impl Default for Rib {
    fn default() -> Self {
        Rib { routes_max: 4_000_000, localhop_anchors: Vec::new(), readvertise: Readvertise::default() }
    }
}

/// `[rib.readvertise]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Readvertise {
    /// Whether to do it.
    pub enabled: bool,
    /// The daemon's management prefix.
    #[serde(deserialize_with = "value::name")]
    pub prefix: Name,
    /// How long to wait for an answer.
    #[serde(deserialize_with = "value::duration")]
    pub timeout: Duration,
    /// How often to tell the daemon again.
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
    /// What is logged.
    pub level: LogLevel,
    /// Levels of single modules.
    pub modules: BTreeMap<String, LogLevel>,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: LogLevel::Info, modules: BTreeMap::new() }
    }
}

impl Log {
    /// The same as a filter in the syntax of `RUST_LOG`.
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
    /// As written in the file.
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
    /// Whether to serve them.
    pub enabled: bool,
    /// Where.
    #[serde(deserialize_with = "value::socket_address")]
    pub listen: SocketAddr,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { enabled: true, listen: SocketAddr::from(([127, 0, 0, 1], 9626)) }
    }
}

/// The whole configuration with all defaults and what they mean.
pub fn default_toml() -> &'static str {
    include_str!("default.toml")
}

impl Config {
    /// Reads a configuration; `path` is for messages, and for the folder that file names in it
    /// are relative to.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and what to do.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text).map_err(|e| ConfigError::from_toml(&e, text, path))?;
        config.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        config.check().map_err(|problem| ConfigError::of_file(problem, path))?;
        Ok(config)
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// It cannot be read, or as [`Config::parse`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError::of_file(format!("cannot read the file: {e}"), path))?;
        Config::parse(&text, path)
    }

    /// What no single value can show to be wrong.
    fn check(&self) -> Result<(), String> {
        let unix = self.faces.unix.listen;
        let any = unix || self.faces.udp.listen || self.faces.tcp.listen || self.faces.websocket.listen;
        let any = any || self.faces.ethernet.iter().any(|e| e.listen || e.multicast || !e.udp.is_empty());
        let any = any || !self.faces.memif.is_empty();
        if !any && self.initial_faces.is_empty() {
            return Err("no transport listens and there is no [[face]]: \
                        nobody could reach this router; set `listen = true` under [faces.unix]"
                .to_owned());
        }
        for (transport, listen, v4, v6) in [
            ("udp", self.faces.udp.listen, self.faces.udp.ipv4, self.faces.udp.ipv6),
            ("tcp", self.faces.tcp.listen, self.faces.tcp.ipv4, self.faces.tcp.ipv6),
            ("websocket", self.faces.websocket.listen, self.faces.websocket.ipv4, self.faces.websocket.ipv6),
        ] {
            if listen && !v4 && !v6 {
                return Err(format!(
                    "[faces.{transport}] listens, but neither on ipv4 nor on ipv6: set `listen = false`, \
                     or one of `ipv4` and `ipv6` to true"
                ));
            }
        }
        let mut interfaces: Vec<&str> = self.faces.ethernet.iter().map(|e| e.interface.as_str()).collect();
        interfaces.sort_unstable();
        if let Some(twice) = interfaces.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{} has two [[faces.ethernet]]: leave one out", twice[0]));
        }
        self.faces.ethernet.iter().try_for_each(Ethernet::check)?;
        self.faces.memif.iter().try_for_each(Memif::check)?;
        let memif = self.faces.memif.iter();
        let mut sockets: Vec<_> = memif.map(|m| (&m.socket, (m.role == MemifRole::Client).then_some(m.id))).collect();
        sockets.sort_unstable();
        if let Some(twice) = sockets.windows(2).find(|pair| pair[0] == pair[1]) {
            let socket = twice[0].0.display();
            return Err(match twice[0].1 {
                None => format!("two [[faces.memif]] listen on {socket}: give each server a `socket` of its own"),
                Some(id) => format!("two [[faces.memif]] are client {id} of {socket}: give each its own `id`"),
            });
        }
        self.check_tags()?;
        let (tcp, websocket) = (&self.faces.tcp, &self.faces.websocket);
        if tcp.listen && websocket.listen && tcp.port == websocket.port && tcp.port != 0 {
            return Err(format!(
                "[faces.tcp] and [faces.websocket] both want TCP port {}: change one `port`",
                tcp.port
            ));
        }
        Ok(())
    }
}
