//! Settings of a router.

use std::time::Duration;

use byname_trust::Rights;
use byname_wire::Name;
use thiserror::Error;

use crate::policy::Policy;
use crate::trees;

/// Which nexthops are installed beside the best ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alternatives {
    /// Only those of the lowest cost.
    None,
    /// Also those that cannot lead back to this router [RFC 5286].
    #[default]
    LoopFree,
    /// Every neighbour that has a way, as ndn-dv has it for the second-best. Interests may circle until their nonce
    /// stops them.
    All,
}

/// The version of ndn-dv that a network speaks; see [`version`](crate::version).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolVersion {
    /// The branch `main` of ndnd.
    #[default]
    Main,
    /// The names and messages of the branch `dv2`.
    Dv2,
}

/// Settings of a router.
#[derive(Debug, Clone)]
pub struct Config {
    /// The version of the protocol.
    pub version: ProtocolVersion,
    /// The network. All of its routers have the same.
    pub network: Name,
    /// This router: the network's name and one component.
    pub router: Name,
    /// When this router started, in seconds since the Unix epoch. It must grow from run to run.
    pub boot: u64,
    /// Start of the random numbers. Equal seeds and events give equal actions.
    pub seed: u64,
    /// Version that the status dataset tells.
    pub software: String,
    /// URIs under which neighbours on a multicast link reach this router directly. Hellos tell them.
    pub uris: Vec<String>,
    /// Intervals of ndn-dv.
    pub timing: Timing,
    /// Hellos.
    pub hello: Hello,
    /// Links that flap.
    pub damping: Damping,
    /// Bounds.
    pub limits: Limits,
    /// What is announced, accepted and preferred.
    pub policy: Policy,
    /// What this router may announce, by its own certificate. Others refuse the rest, so it is not told to them.
    pub rights: Rights,
    /// Nexthops beside the best.
    pub alternatives: Alternatives,
    /// Trees for tags and locators.
    pub trees: trees::Settings,
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum ConfigError {
    #[error("a network's name has 1 to 3 components, and {0} has not")]
    Network(Name),
    #[error("the router {router} is not the network {network} and one component")]
    Router { network: Name, router: Name },
    #[error("the advertisement interval must be at least 1 s")]
    Interval,
    #[error("the dead interval must be at least twice the advertisement interval")]
    DeadInterval,
    #[error("hellos need an interval of at least 10 ms, and a multiplier of 2 to 255")]
    Hello,
    #[error("the penalty at which a link is used again must be below that at which it is suppressed, and above 0")]
    Damping,
    #[error("the limit {0} must be above 0")]
    Limit(&'static str),
}

/// Intervals of ndn-dv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Interval between advertisement sync Interests.
    pub advertise: Duration,
    /// A neighbour is dead if no sync Interest arrived for so long.
    pub dead: Duration,
    /// Interval between prefix sync Interests.
    pub prefix_sync: Duration,
    /// Time during which answers to an outdated prefix sync Interest are suppressed.
    pub suppression: Duration,
    /// Changes of the routes within this time go into one advertisement.
    pub advertise_delay: Duration,
    /// Changes of local prefixes within this time go into one publication.
    pub publish_delay: Duration,
    /// Routes and prefixes of a router that has restarted are kept so long unless it announces others.
    pub stale_for: Duration,
    /// State of a router that is not reachable is kept so long.
    pub forget_after: Duration,
    /// A packet is asked for again after this time.
    pub fetch_timeout: Duration,
    /// Publications between two snapshots.
    pub snapshot_every: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            advertise: Duration::from_secs(5),
            dead: Duration::from_secs(30),
            prefix_sync: Duration::from_secs(30),
            suppression: Duration::from_millis(200),
            advertise_delay: Duration::from_millis(5),
            publish_delay: Duration::from_millis(20),
            stale_for: Duration::from_secs(30),
            forget_after: Duration::from_secs(3600),
            fetch_timeout: Duration::from_millis(500),
            snapshot_every: 50,
        }
    }
}

/// Hellos find dead links, in the manner of BFD [RFC 5880].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Whether hellos are sent.
    pub enabled: bool,
    /// Interval between hellos on a link that is up. The slower of both sides counts.
    pub interval: Duration,
    /// Interval while the neighbour does not answer. It may not speak hellos at all.
    pub slow_interval: Duration,
    /// A link is left alone if so many hellos in a row are missing, and down if 5/3 as many are missing. If hellos came
    /// late recently, up to twice as many.
    pub multiplier: u8,
    /// A link that was down must be up for so long before it is used. Until then, it costs 4 more.
    pub hold_down: Duration,
}

impl Default for Hello {
    fn default() -> Self {
        Hello {
            enabled: true,
            interval: Duration::from_millis(80),
            slow_interval: Duration::from_secs(1),
            multiplier: 3,
            hold_down: Duration::from_millis(500),
        }
    }
}

/// Damping of links that flap, in the manner of BGP [RFC 2439].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damping {
    /// Whether links are damped.
    pub enabled: bool,
    /// Penalty of a link that goes down.
    pub penalty: u32,
    /// A link with this penalty costs 4 more.
    pub suppress: u32,
    /// It is used again below this penalty.
    pub reuse: u32,
    /// The penalty halves in this time.
    pub half_life: Duration,
    /// No link is suppressed for longer.
    pub longest: Duration,
}

impl Default for Damping {
    fn default() -> Self {
        Damping {
            enabled: true,
            penalty: 1000,
            suppress: 3500,
            reuse: 1500,
            half_life: Duration::from_secs(15),
            longest: Duration::from_secs(60),
        }
    }
}

/// Bounds. The router refuses and counts everything above them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours.
    pub neighbours: usize,
    /// Faces to one neighbour.
    pub links_per_neighbour: usize,
    /// Routers of the network.
    pub routers: usize,
    /// Prefixes of one router.
    pub prefixes_per_router: usize,
    /// Prefixes of all routers.
    pub prefixes: usize,
    /// Prefixes of this host.
    pub local_prefixes: usize,
    /// Starts of one router that are remembered.
    pub boots_per_router: usize,
    /// Bytes of one advertisement.
    pub advertisement_bytes: usize,
    /// Bytes of one publication or snapshot.
    pub publication_bytes: usize,
    /// Bytes of all packets of objects that are not whole yet.
    pub fetched_bytes: usize,
    /// Interests without an answer, for all objects.
    pub fetches: usize,
    /// Signatures that are being checked. One face may have a quarter.
    pub validations: usize,
    /// Sync Interests and hellos of one face, in one second.
    pub packets_per_second: u32,
    /// Sync Interests and hellos of one face, in a burst.
    pub packets_per_burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            neighbours: 256,
            links_per_neighbour: 4,
            routers: 4096,
            prefixes_per_router: 131_072,
            prefixes: 1_048_576,
            local_prefixes: 131_072,
            boots_per_router: 8,
            advertisement_bytes: 1 << 20,
            publication_bytes: 32 << 20,
            fetched_bytes: 256 << 20,
            fetches: 256,
            validations: 512,
            packets_per_second: 100,
            packets_per_burst: 200,
        }
    }
}

impl Config {
    /// Settings with defaults.
    pub fn new(network: Name, router: Name, boot: u64) -> Self {
        Config {
            version: ProtocolVersion::default(),
            network,
            router,
            boot,
            seed: boot,
            software: concat!("byname ", env!("CARGO_PKG_VERSION")).to_owned(),
            uris: Vec::new(),
            timing: Timing::default(),
            hello: Hello::default(),
            damping: Damping::default(),
            limits: Limits::default(),
            policy: Policy::default(),
            rights: Rights::default(),
            alternatives: Alternatives::default(),
            trees: trees::Settings::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the first setting that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        let network = self.network.as_ref();
        // The trust schema of ndn-dv has these.
        if !(1..=3).contains(&network.len()) {
            return Err(ConfigError::Network(self.network.clone()));
        }
        if !is_router_of(network, self.router.as_ref()) {
            return Err(ConfigError::Router { network: self.network.clone(), router: self.router.clone() });
        }
        if self.timing.advertise < Duration::from_secs(1) {
            return Err(ConfigError::Interval);
        }
        if self.timing.dead < 2 * self.timing.advertise {
            return Err(ConfigError::DeadInterval);
        }
        let Hello { interval, multiplier, .. } = self.hello;
        if interval < Duration::from_millis(10) || multiplier < 2 {
            return Err(ConfigError::Hello);
        }
        if self.damping.reuse == 0 || self.damping.reuse >= self.damping.suppress || self.damping.half_life.is_zero() {
            return Err(ConfigError::Damping);
        }
        self.limits.check()
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let positive = [
            ("neighbours", self.neighbours),
            ("links_per_neighbour", self.links_per_neighbour),
            ("routers", self.routers),
            ("prefixes_per_router", self.prefixes_per_router),
            ("prefixes", self.prefixes),
            ("local_prefixes", self.local_prefixes),
            ("boots_per_router", self.boots_per_router),
            ("advertisement_bytes", self.advertisement_bytes),
            ("publication_bytes", self.publication_bytes),
            ("fetched_bytes", self.fetched_bytes),
            ("fetches", self.fetches),
            ("validations", self.validations),
            ("packets_per_second", self.packets_per_second as usize),
            ("packets_per_burst", self.packets_per_burst as usize),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(ConfigError::Limit(name)),
            None => Ok(()),
        }
    }
}

/// Whether a name is that of a router of a network: the network's name and one component.
pub(crate) fn is_router_of(network: byname_wire::NameRef<'_>, router: byname_wire::NameRef<'_>) -> bool {
    network.is_prefix_of(&router) && router.len() == network.len() + 1
}
