//! The types that `--json` prints, and their form as text. `docs/json.md` documents the field names.

use std::time::Duration;

use serde::Serialize;

use super::text::{self, Items};
use super::threads::{Closed, Drops, Thread};

/// The forwarder as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct General {
    pub version: String,
    pub start_time_ms: u64,
    pub current_time_ms: u64,
    pub uptime_ms: u64,
    pub name_tree_entries: u64,
    pub fib_entries: u64,
    pub pit_entries: u64,
    pub measurements_entries: u64,
    pub cs_entries: u64,
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub out_interests: u64,
    pub out_data: u64,
    pub out_nacks: u64,
    pub satisfied_interests: u64,
    pub unsatisfied_interests: u64,
    pub descriptors: u64,
    pub in_tag_packets: u64,
    pub in_locator_packets: u64,
    pub out_tag_packets: u64,
    pub out_locator_packets: u64,
    pub hot_names: u64,
    pub shared_pit_entries: u64,
    pub in_malformed: u64,
    pub reassembly_timeouts: u64,
    pub out_drops: u64,
    pub congestion_marks: u64,
    pub retransmissions: u64,
    /// Where state is kept that survives a restart, or why it is not.
    pub state: Option<String>,
    pub closed: Vec<Closed>,
    pub drops: Vec<Drops>,
    pub imbalance: Option<f64>,
    pub threads: Vec<Thread>,
}

impl General {
    /// Items as in `nfdc status show`.
    pub fn items(&self) -> Items {
        let mut items: Items = vec![
            ("version", self.version.clone()),
            ("startTime", text::timestamp(self.start_time_ms)),
            ("currentTime", text::timestamp(self.current_time_ms)),
            ("uptime", text::duration(Duration::from_millis(self.uptime_ms))),
        ];
        let numbers = [
            ("nNameTreeEntries", self.name_tree_entries),
            ("nFibEntries", self.fib_entries),
            ("nPitEntries", self.pit_entries),
            ("nMeasurementsEntries", self.measurements_entries),
            ("nCsEntries", self.cs_entries),
            ("nInInterests", self.in_interests),
            ("nOutInterests", self.out_interests),
            ("nInData", self.in_data),
            ("nOutData", self.out_data),
            ("nInNacks", self.in_nacks),
            ("nOutNacks", self.out_nacks),
            ("nSatisfiedInterests", self.satisfied_interests),
            ("nUnsatisfiedInterests", self.unsatisfied_interests),
            ("nDescriptors", self.descriptors),
            ("nInTagPackets", self.in_tag_packets),
            ("nOutTagPackets", self.out_tag_packets),
            ("nInLocatorPackets", self.in_locator_packets),
            ("nOutLocatorPackets", self.out_locator_packets),
            ("nInMalformed", self.in_malformed),
            ("nReassemblyTimeouts", self.reassembly_timeouts),
            ("nOutDrops", self.out_drops),
            ("nCongestionMarks", self.congestion_marks),
            ("nRetransmissions", self.retransmissions),
        ];
        items.extend(numbers.map(|(key, number)| (key, number.to_string())));
        items.extend(self.state.clone().map(|state| ("state", state)));
        items
    }
}

/// An address on which the forwarder listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Channel {
    /// Its URI.
    pub local_uri: String,
}

/// Lifetime of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Persistency {
    /// Until its socket fails.
    Persistent,
    /// Created by a peer, and removed when the peer is silent.
    #[value(skip)]
    OnDemand,
    /// Until it is destroyed; it reconnects after failures.
    Permanent,
}

impl Persistency {
    /// From the number in the protocol.
    pub fn from_number(n: u64) -> Self {
        match n {
            1 => Persistency::OnDemand,
            2 => Persistency::Permanent,
            _ => Persistency::Persistent,
        }
    }

    /// The number in the protocol.
    pub fn number(self) -> u64 {
        match self {
            Persistency::Persistent => 0,
            Persistency::OnDemand => 1,
            Persistency::Permanent => 2,
        }
    }

    /// nfdc's word.
    pub fn word(self) -> &'static str {
        match self {
            Persistency::Persistent => "persistent",
            Persistency::OnDemand => "on-demand",
            Persistency::Permanent => "permanent",
        }
    }
}

/// A face.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Face {
    pub face_id: u64,
    pub remote_uri: String,
    pub local_uri: String,
    /// `local` or `non-local`.
    pub scope: String,
    pub persistency: Persistency,
    /// `point-to-point`, `multi-access` or `adhoc`.
    pub link_type: String,
    pub mtu: Option<u64>,
    pub expires_in_ms: Option<u64>,
    pub local_fields: bool,
    pub reliability: bool,
    pub congestion_marking: bool,
    pub base_congestion_marking_interval_ns: Option<u64>,
    pub default_congestion_threshold_bytes: Option<u64>,
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub in_bytes: u64,
    pub out_interests: u64,
    pub out_data: u64,
    pub out_nacks: u64,
    pub out_bytes: u64,
    pub in_malformed: Option<u64>,
    pub reassembly_timeouts: Option<u64>,
    pub out_drops: Option<u64>,
    pub congestion_marks: Option<u64>,
    pub retransmissions: Option<u64>,
    pub thread: Option<u64>,
}

impl Face {
    /// Items as in `nfdc face list`.
    pub fn items(&self) -> Items {
        let mut items: Items = vec![
            ("faceid", self.face_id.to_string()),
            ("remote", self.remote_uri.clone()),
            ("local", self.local_uri.clone()),
        ];
        if let Some(ms) = self.expires_in_ms {
            items.push(("expires", format!("{}s", ms / 1000)));
        }
        let congestion: Vec<String> = [
            self.base_congestion_marking_interval_ns.map(|ns| format!("base-marking-interval={}ms", ns / 1_000_000)),
            self.default_congestion_threshold_bytes.map(|bytes| format!("default-threshold={bytes}B")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !congestion.is_empty() {
            items.push(("congestion", format!("{{{}}}", congestion.join(" "))));
        }
        if let Some(mtu) = self.mtu {
            items.push(("mtu", mtu.to_string()));
        }
        items.push((
            "counters",
            format!(
                "{{in={{{}i {}d {}n {}B}} out={{{}i {}d {}n {}B}}}}",
                self.in_interests,
                self.in_data,
                self.in_nacks,
                self.in_bytes,
                self.out_interests,
                self.out_data,
                self.out_nacks,
                self.out_bytes
            ),
        ));
        items.push(("flags", format!("{{{}}}", self.flag_words().join(" "))));
        items.extend(self.thread.map(|thread| ("thread", thread.to_string())));
        items
    }

    fn flag_words(&self) -> Vec<&str> {
        let mut words = vec![self.scope.as_str(), self.persistency.word(), &self.link_type];
        let flags = [
            (self.local_fields, "local-fields"),
            (self.reliability, "lp-reliability"),
            (self.congestion_marking, "congestion-marking"),
        ];
        words.extend(flags.into_iter().filter_map(|(on, word)| on.then_some(word)));
        words
    }
}

/// A prefix in the FIB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct FibEntry {
    pub prefix: String,
    pub nexthops: Vec<Nexthop>,
}

/// One nexthop of a FIB entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Nexthop {
    pub face_id: u64,
    pub cost: u64,
}

impl FibEntry {
    /// A line as in `nfdc fib list`.
    pub fn line(&self) -> String {
        let nexthops: Vec<String> =
            self.nexthops.iter().map(|n| format!("faceid={} (cost={})", n.face_id, n.cost)).collect();
        format!("{} nexthops={{{}}}\n", self.prefix, nexthops.join(", "))
    }
}

/// A route in the RIB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Route {
    pub prefix: String,
    pub face_id: u64,
    /// `app`, `client`, `static` and so on, or a number.
    pub origin: String,
    pub cost: u64,
    pub child_inherit: bool,
    pub capture: bool,
    pub expires_in_ms: Option<u64>,
    /// Whether nobody has registered it again since a restart.
    pub stale: bool,
}

impl Route {
    /// Items as in `nfdc route list`.
    pub fn items(&self) -> Items {
        let flags = match (self.child_inherit, self.capture) {
            (true, true) => "child-inherit|capture",
            (true, false) => "child-inherit",
            (false, true) => "capture",
            (false, false) => "none",
        };
        let mut items = vec![
            ("prefix", self.prefix.clone()),
            ("nexthop", self.face_id.to_string()),
            ("origin", self.origin.clone()),
            ("cost", self.cost.to_string()),
            ("flags", flags.to_owned()),
            ("expires", self.expires_in_ms.map_or("never".to_owned(), |ms| format!("{}s", ms / 1000))),
        ];
        items.extend(self.stale.then(|| ("stale", "yes".to_owned())));
        items
    }
}

/// The content store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Cs {
    pub capacity: u64,
    pub admit: bool,
    pub serve: bool,
    pub entries: u64,
    pub hits: u64,
    pub misses: u64,
}

impl Cs {
    /// Items as in `nfdc cs info`.
    pub fn items(&self) -> Items {
        vec![
            ("capacity", self.capacity.to_string()),
            ("admit", text::on_off(self.admit)),
            ("serve", text::on_off(self.serve)),
            ("nEntries", self.entries.to_string()),
            ("nHits", self.hits.to_string()),
            ("nMisses", self.misses.to_string()),
        ]
    }
}

/// The strategy of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct StrategyChoice {
    pub prefix: String,
    pub strategy: String,
}

impl StrategyChoice {
    /// Items as in `nfdc strategy list`.
    pub fn items(&self) -> Items {
        vec![("prefix", self.prefix.clone()), ("strategy", self.strategy.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_in_nfdcs_shape() {
        let face = Face {
            face_id: 300,
            remote_uri: "udp4://192.0.2.1:6363".into(),
            local_uri: "udp4://192.0.2.2:6363".into(),
            scope: "non-local".into(),
            persistency: Persistency::OnDemand,
            link_type: "point-to-point".into(),
            mtu: Some(1400),
            expires_in_ms: Some(12_500),
            local_fields: false,
            reliability: true,
            congestion_marking: true,
            base_congestion_marking_interval_ns: Some(100_000_000),
            default_congestion_threshold_bytes: Some(65536),
            in_interests: 1,
            in_data: 2,
            in_nacks: 3,
            in_bytes: 4,
            out_interests: 5,
            out_data: 6,
            out_nacks: 7,
            out_bytes: 8,
            in_malformed: None,
            reassembly_timeouts: None,
            out_drops: Some(9),
            congestion_marks: None,
            retransmissions: None,
            thread: Some(1),
        };
        assert_eq!(
            text::line(&face.items()),
            "faceid=300 remote=udp4://192.0.2.1:6363 local=udp4://192.0.2.2:6363 expires=12s \
             congestion={base-marking-interval=100ms default-threshold=65536B} mtu=1400 \
             counters={in={1i 2d 3n 4B} out={5i 6d 7n 8B}} \
             flags={non-local on-demand point-to-point lp-reliability congestion-marking} thread=1"
        );
    }

    #[test]
    fn a_route_and_a_fib_entry() {
        let route = Route {
            prefix: "/a".into(),
            face_id: 5,
            origin: "static".into(),
            cost: 9,
            child_inherit: true,
            capture: true,
            expires_in_ms: None,
            stale: false,
        };
        assert_eq!(
            text::line(&route.items()),
            "prefix=/a nexthop=5 origin=static cost=9 flags=child-inherit|capture expires=never"
        );
        let entry = FibEntry {
            prefix: "/".into(),
            nexthops: vec![Nexthop { face_id: 1, cost: 0 }, Nexthop { face_id: 2, cost: 5 }],
        };
        assert_eq!(entry.line(), "/ nexthops={faceid=1 (cost=0), faceid=2 (cost=5)}\n");
    }
}
