//! `[routing]`: the routing protocol in this router.

use std::path::PathBuf;
use std::time::Duration;

use byname_face::FaceUri;
use byname_wire::Name;
use serde::Deserialize;

use super::{Config, Finding, initial, value};

/// Most components of a network's name, as in ndn-dv: its trust schema knows no longer ones.
const NETWORK_COMPONENTS_MAX: usize = 3;
/// ndn-dv's least interval between advertisements.
const ADVERTISE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The largest cost of a link: 16 is infinity.
const LINK_COST_MAX: u64 = 15;
/// Most trees that routers make.
const TREES_MAX: usize = 8;
/// Shortest interval between hellos.
const HELLO_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// `[routing]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// Name of the network. Empty: no routing.
    #[serde(deserialize_with = "value::name_or_none")]
    pub network: Name,
    /// Name of this router: that of the network, and one component.
    #[serde(deserialize_with = "value::name_or_none")]
    pub name: Name,
    /// The version of the protocol, the same on all routers.
    pub protocol: RoutingProtocol,
    /// Folder with the network's anchor, and this router's key and certificate. Empty: that of `byname key`.
    pub keys: PathBuf,
    /// File with the trust schema, in LightVerSec. Empty: that of ndn-dv.
    pub schema: PathBuf,
    /// Whether nothing is signed with keys, and everything is believed.
    pub insecure: bool,
    /// Whether neighbours are found on multicast links.
    pub multicast: bool,
    /// Interval between advertisements without news.
    #[serde(deserialize_with = "value::duration")]
    pub advertise_interval: Duration,
    /// Silence after which a neighbour without hellos is dead.
    #[serde(deserialize_with = "value::duration")]
    pub dead_interval: Duration,
    /// Interval between hellos. Zero: none.
    #[serde(deserialize_with = "value::duration")]
    pub hello_interval: Duration,
    /// Hellos in a row whose absence means that a link is doubted. After 5/3 as many, it is down.
    #[serde(deserialize_with = "value::at_least_1")]
    pub hello_misses: usize,
    /// How long a link that was down must be up before it costs no more than others.
    #[serde(deserialize_with = "value::duration")]
    pub hold_down: Duration,
    /// Whether links that flap cost more for a while.
    pub damping: bool,
    /// Whether alternatives without loops are kept beside the best nexthops.
    pub alternatives: bool,
    /// Rules for what is announced, accepted and preferred.
    pub policy: Vec<String>,
    /// Number of trees for tags and locators that routers make, the same on all routers. 0: trees are static.
    pub trees: usize,
    /// The router with the lowest number is the root of all of these trees.
    pub tree_priority: u64,
    /// Most neighbours.
    #[serde(deserialize_with = "value::at_least_1")]
    pub neighbors_max: usize,
    /// Most routers of the network.
    #[serde(deserialize_with = "value::at_least_1")]
    pub routers_max: usize,
    /// Most prefixes of one router.
    #[serde(deserialize_with = "value::at_least_1")]
    pub prefixes_per_router_max: usize,
    /// Most prefixes of all routers.
    #[serde(deserialize_with = "value::at_least_1")]
    pub prefixes_max: usize,
    /// Neighbours to which this router makes faces.
    #[serde(rename = "neighbor")]
    pub neighbors: Vec<RoutingNeighbor>,
}

/// The version of ndn-dv that a network speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingProtocol {
    /// The branch `main` of ndnd.
    #[default]
    Main,
    /// The names and messages of the branch `dv2`.
    Dv2,
}

/// `[[routing.neighbor]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingNeighbor {
    /// URI of the face to it.
    #[serde(deserialize_with = "initial::remote")]
    pub face: FaceUri,
    /// Cost of the link.
    #[serde(default = "one")]
    pub cost: u64,
    /// Largest frame to send, in bytes.
    #[serde(default, deserialize_with = "value::mtu_option")]
    pub mtu: Option<u64>,
}

fn one() -> u64 {
    1
}

impl Default for Routing {
    fn default() -> Self {
        Routing {
            network: Name::default(),
            name: Name::default(),
            protocol: RoutingProtocol::default(),
            keys: PathBuf::new(),
            schema: PathBuf::new(),
            insecure: false,
            multicast: true,
            advertise_interval: Duration::from_secs(5),
            dead_interval: Duration::from_secs(30),
            hello_interval: Duration::from_millis(80),
            hello_misses: 3,
            hold_down: Duration::from_millis(500),
            damping: true,
            alternatives: true,
            policy: Vec::new(),
            trees: 0,
            tree_priority: 100,
            neighbors_max: 256,
            routers_max: 4096,
            prefixes_per_router_max: 1 << 17,
            prefixes_max: 1 << 20,
            neighbors: Vec::new(),
        }
    }
}

impl Routing {
    /// Whether this router takes part in routing.
    pub fn is_on(&self) -> bool {
        !self.network.as_ref().is_empty()
    }
}

impl Config {
    /// Checks `[routing]`, without reading files.
    pub(super) fn check_routing(&self, findings: &mut Vec<Finding>) {
        let routing = &self.routing;
        let (network, name) = (routing.network.as_ref(), routing.name.as_ref());
        let mut fatal = |setting: &str, text: &str| {
            findings.push(Finding::fatal(format!("routing.{setting}"), text));
        };
        if !routing.is_on() {
            if !name.is_empty() {
                fatal("name", "[routing] has a name, but no network: write network = \"/example\"");
            }
            return;
        }
        if network.len() > NETWORK_COMPONENTS_MAX {
            fatal(
                "network",
                "the name of a network has at most three components: ndn-dv's trust schema knows no longer ones",
            );
        }
        if name.len() != network.len() + 1 || !network.is_prefix_of(&name) {
            fatal(
                "name",
                "the name of a router is that of its network and one component: with network = \"/example\", \
                 write for example name = \"/example/r1\"",
            );
        }
        if routing.advertise_interval < ADVERTISE_INTERVAL_MIN {
            fatal(
                "advertise_interval",
                "advertisements every second are the most that ndn-dv permits: write \"1 s\" or more",
            );
        }
        if routing.dead_interval < routing.advertise_interval.saturating_mul(2) {
            fatal("dead_interval", "a neighbor may lose one advertisement: write at least twice advertise_interval");
        }
        if !routing.hello_interval.is_zero() && routing.hello_interval < HELLO_INTERVAL_MIN {
            fatal("hello_interval", "write at least \"10 ms\", or \"0 s\" for no hellos");
        }
        if !(2..=255).contains(&routing.hello_misses) {
            fatal("hello_misses", "write 2 to 255: one lost hello is no sign of a dead link");
        }
        if routing.neighbors.iter().any(|neighbor| !(1..=LINK_COST_MAX).contains(&neighbor.cost)) {
            fatal("neighbor", "the cost of a link is from 1 to 15: a way of cost 16 leads nowhere");
        }
        if routing.insecure && !routing.schema.as_os_str().is_empty() {
            fatal("schema", "with insecure = true nothing is checked: write a schema, or insecure = true");
        }
        if routing.trees > TREES_MAX {
            fatal("trees", "write at most 8: each costs messages, and the descriptors of all trees share one table");
        }
        if routing.trees > 0 && !self.tags.graph.as_os_str().is_empty() {
            fatal("trees", "[tags] has a graph with static trees: write trees = 0 here, or no graph there");
        }
        if !self.rib.readvertise.enabled {
            findings.push(Finding::warning(
                "rib.readvertise.enabled",
                "[routing] hears of this host's prefixes by readvertisement, which is off: set `enabled = true`",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn findings(text: &str) -> Vec<(String, String)> {
        let config = Config::parse(text, Path::new("byname.toml"));
        match config {
            Ok(config) => {
                let mut findings = Vec::new();
                config.check_routing(&mut findings);
                findings.into_iter().map(|finding| (finding.key, finding.text)).collect()
            }
            Err(error) => vec![("parse".to_owned(), error.to_string())],
        }
    }

    #[test]
    fn names_and_intervals_are_checked() {
        let on = "[routing]\nnetwork = \"/example\"\nname = \"/example/r1\"\n";
        assert_eq!(findings(on), []);
        assert_eq!(findings(""), []);
        for (text, problem) in [
            ("[routing]\nname = \"/example/r1\"", "no network"),
            ("[routing]\nnetwork = \"/example\"", "with network"),
            ("[routing]\nnetwork = \"/example\"\nname = \"/other/r1\"", "with network"),
            ("[routing]\nnetwork = \"/example\"\nname = \"/example/site/r1\"", "with network"),
            ("[routing]\nnetwork = \"/a/b/c/d\"\nname = \"/a/b/c/d/r1\"", "at most three"),
            (&format!("{on}advertise_interval = \"100 ms\""), "\"1 s\" or more"),
            (&format!("{on}dead_interval = \"6 s\""), "twice"),
            (&format!("{on}hello_interval = \"1 ms\""), "10 ms"),
            (&format!("{on}hello_misses = 1"), "2 to 255"),
            (&format!("{on}[[routing.neighbor]]\nface = \"unix:///x\""), "cannot be connected to"),
            (&format!("{on}[[routing.neighbor]]\nface = \"udp4://192.0.2.1:6363\"\ncost = 16"), "1 to 15"),
            (&format!("{on}insecure = true\nschema = \"a\""), "nothing is checked"),
            (&format!("{on}protocol = \"dv3\""), "dv2"),
            (&format!("{on}trees = 9"), "at most 8"),
            (&format!("{on}trees = 1\n[tags]\ngraph = \"a.gml\""), "static trees"),
            (&format!("{on}[rib.readvertise]\nenabled = false"), "readvertisement"),
        ] {
            let found = findings(text);
            assert!(found.len() == 1 && found[0].1.contains(problem), "{text}: {found:?}");
        }
        assert_eq!(findings(&format!("{on}hello_interval = \"0 s\"")), []);
    }
}
