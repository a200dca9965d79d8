//! Differences between two configurations: what a running router can take over, and what needs a restart.
//!
//! Every setting is classified here. A new field of a configuration struct does not compile before it is classified.

use std::fmt::Display;

use super::{
    Acme, AuditLog, Capture, Config, DashboardSettings, Ethernet, EthernetPort, Faces, Faults, Fleet, General,
    InitialFace, InitialRoute, Log, Memif, Metrics, Multicast, Network, Partition, Quic, Rib, Routing, SecureWebSocket,
    Security, Source, State, Tables, Tags, Tcp, Threads, Tls, Trust, Udp, Unix, WebSocket, default_toml,
};
use crate::config::faces::Stream;

/// Longest value in a text, in characters.
const VALUE_CHARS_MAX: usize = 80;

const THREADS: &str = "threads and the queues between them are made at the start";
const SOCKETS: &str = "its sockets are opened at the start, and have connections";
const AUDIT: &str = "the audit log is opened at the start";
const WRAPPED: &str = "ports are wrapped at the start";
const AUTHORITY: &str = "the authority for certificates is asked from the start on";
const STATE: &str = "the files of the state are opened at the start";
const DPDK: &str = "DPDK is started once";
const DATAGRAMS: &str = "peers by UDP in Ethernet frames are told apart from those of the UDP port at the start";

/// One difference between two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The setting, such as `tables.fib` or `[[route]] /ndn to udp4://192.0.2.1:6363`.
    pub setting: String,
    /// The change in words: `"compact" -> "two-stage"`, or `added`.
    pub text: String,
    /// Why the change needs a restart. `None`: a running router can take it over.
    pub restart: Option<&'static str>,
}

/// All differences between two configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The differences, in the order of the file.
    pub list: Vec<Change>,
    /// The new configuration with the old values of all settings that need a restart.
    pub applicable: Config,
}

impl Changes {
    /// The differences that need a restart.
    pub fn needing_restart(&self) -> impl Iterator<Item = &Change> {
        self.list.iter().filter(|change| change.restart.is_some())
    }
}

/// Notes a difference in each of these fields of a struct. The fields must be all that the struct has. A field that needs
/// a restart gets its old value in `applicable`.
macro_rules! compare {
    (
        $notes:expr, $prefix:literal, ($old:expr, $new:expr, $applicable:expr),
        $Type:ident { $($field:ident => $when:expr,)* } and $($apart:ident)*
    ) => {{
        let $Type { $($field: _,)* $($apart: _,)* } = $old;
        $(
            if $old.$field != $new.$field {
                let restart: Option<&'static str> = $when;
                $notes.value(concat!($prefix, stringify!($field)), restart);
                if restart.is_some() {
                    $applicable.$field = $old.$field.clone();
                }
            }
        )*
    }};
}

/// Finds all differences. The texts of values come from the files.
pub fn changes((old, old_source): (&Config, &Source), (new, new_source): (&Config, &Source)) -> Changes {
    let defaults = Source::new(default_toml(), std::path::Path::new(""));
    let mut notes = Notes { list: Vec::new(), sources: [old_source, new_source], defaults: &defaults };
    let mut applicable = new.clone();
    let Config {
        general: _,
        threads: _,
        workers: (),
        faces: _,
        tables: _,
        flat: _,
        partition: _,
        fleet: _,
        network: _,
        security: _,
        trust: _,
        authorizations: _,
        rib: _,
        routing: _,
        tags: _,
        tls: _,
        initial_faces: _,
        initial_routes: _,
        log: _,
        metrics: _,
        dashboard: _,
        state: _,
        audit: _,
        capture: _,
        faults: _,
        folder: _,
    } = old;
    of_threads(&mut notes, old, new, &mut applicable);
    of_faces(&mut notes, &old.faces, &new.faces, &mut applicable.faces);
    of_tables(&mut notes, old, new, &mut applicable);
    of_rights(&mut notes, old, new, &mut applicable);
    of_routing(&mut notes, &old.routing, &new.routing, &mut applicable.routing);
    of_tags(&mut notes, &old.tags, &new.tags, &mut applicable.tags);
    let may_start = old.has_encrypted_faces() || new.tls.peers.is_empty();
    compare!(notes, "tls.", (old.tls, new.tls, applicable.tls), Tls {
        certificate => None, key => None, names => Some(SOCKETS), peers => (!may_start).then_some(SOCKETS),
    } and acme);
    compare!(notes, "tls.acme.", (old.tls.acme, new.tls.acme, applicable.tls.acme), Acme {
        directory => Some(AUTHORITY), contact => Some(AUTHORITY), listen => Some(AUTHORITY), folder => Some(AUTHORITY),
        roots => Some(AUTHORITY),
    } and);
    notes.items("[[flat]]", &old.flat, &new.flat, |flat| flat.prefix.to_string(), |_| None);
    compare!(notes, "partition.", (old.partition, new.partition, applicable.partition), Partition {
        table => None, holds => None,
    } and);
    compare!(notes, "fleet.", (old.fleet, new.fleet, applicable.fleet), Fleet { tables => None, } and);
    notes.items("[[face]]", &old.initial_faces, &new.initial_faces, face_key, |_| None);
    notes.items("[[route]]", &old.initial_routes, &new.initial_routes, route_key, |_| None);
    compare!(notes, "log.", (old.log, new.log, applicable.log), Log { level => None, modules => None, } and);
    compare!(notes, "metrics.", (old.metrics, new.metrics, applicable.metrics), Metrics {
        enabled => None, listen => None, faces => None, otlp => None, otlp_interval => None,
    } and);
    compare!(notes, "dashboard.", (old.dashboard, new.dashboard, applicable.dashboard), DashboardSettings {
        enabled => None, remote => None, hosts => None, token_file => None,
    } and);
    compare!(notes, "state.", (old.state, new.state, applicable.state), State {
        enabled => Some(STATE), file => Some(STATE), stale_for => None,
    } and);
    compare!(notes, "audit.", (old.audit, new.audit, applicable.audit), AuditLog {
        to => Some(AUDIT), file_max => Some(AUDIT), old_files => Some(AUDIT), queue => Some(AUDIT),
    } and);
    compare!(notes, "capture.", (old.capture, new.capture, applicable.capture), Capture {
        file => Some(WRAPPED), max => Some(WRAPPED),
    } and);
    compare!(notes, "faults.", (old.faults, new.faults, applicable.faults), Faults {
        loss => Some(WRAPPED), duplication => Some(WRAPPED), corruption => Some(WRAPPED),
        reordering => Some(WRAPPED), delay => Some(WRAPPED), seed => Some(WRAPPED),
    } and);
    Changes { list: notes.list, applicable }
}

fn of_threads(notes: &mut Notes<'_>, old: &Config, new: &Config, applicable: &mut Config) {
    compare!(notes, "general.", (old.general, new.general, applicable.general), General {
        spin => None, burst_packets => None,
        internal_queue_packets => Some(THREADS), face_events => Some(THREADS),
        state_folder => Some(STATE), takeover_time => None,
    } and);
    compare!(notes, "threads.", (old.threads, new.threads, applicable.threads), Threads {
        count => Some(THREADS), dispatch_components => Some(THREADS), first_come => Some(THREADS),
        heavy_hitters => Some(THREADS), shared_pit => Some(THREADS), ring_packets => Some(THREADS),
        pin => Some(THREADS), rest => Some(THREADS), balance => None,
    } and);
}

fn of_faces(notes: &mut Notes<'_>, old: &Faces, new: &Faces, applicable: &mut Faces) {
    compare!(notes, "faces.", (old, new, applicable), Faces {
        on_demand_max => Some(SOCKETS), connections_per_address_max => Some(SOCKETS),
        congestion_marking => Some(SOCKETS),
    } and udp tcp unix websocket wss quic stream ethernet dpdk memif);
    compare!(notes, "faces.udp.", (old.udp, new.udp, applicable.udp), Udp {
        listen => Some(SOCKETS), port => Some(SOCKETS), ipv4 => Some(SOCKETS), ipv6 => Some(SOCKETS),
        idle_timeout => Some(SOCKETS), mtu => Some(SOCKETS), loopback_is_local => Some(SOCKETS),
    } and multicast);
    let multicast = (&old.udp.multicast, &new.udp.multicast, &mut applicable.udp.multicast);
    compare!(notes, "faces.udp.multicast.", (multicast.0, multicast.1, multicast.2), Multicast {
        enabled => Some(SOCKETS), interfaces => Some(SOCKETS), group_ipv4 => Some(SOCKETS),
        group_ipv6 => Some(SOCKETS), ad_hoc => Some(SOCKETS),
    } and);
    compare!(notes, "faces.tcp.", (old.tcp, new.tcp, applicable.tcp), Tcp {
        listen => Some(SOCKETS), port => Some(SOCKETS), ipv4 => Some(SOCKETS), ipv6 => Some(SOCKETS),
    } and);
    compare!(notes, "faces.unix.", (old.unix, new.unix, applicable.unix), Unix {
        listen => Some(SOCKETS), path => Some(SOCKETS),
    } and);
    compare!(notes, "faces.websocket.", (old.websocket, new.websocket, applicable.websocket), WebSocket {
        listen => Some(SOCKETS), port => Some(SOCKETS), ipv4 => Some(SOCKETS), ipv6 => Some(SOCKETS),
        local_origins => Some(SOCKETS),
    } and);
    compare!(notes, "faces.wss.", (old.wss, new.wss, applicable.wss), SecureWebSocket {
        listen => Some(SOCKETS), port => Some(SOCKETS), ipv4 => Some(SOCKETS), ipv6 => Some(SOCKETS),
    } and);
    compare!(notes, "faces.quic.", (old.quic, new.quic, applicable.quic), Quic {
        listen => Some(SOCKETS), port => Some(SOCKETS), ipv4 => Some(SOCKETS), ipv6 => Some(SOCKETS),
        strangers => Some(SOCKETS),
    } and);
    compare!(notes, "faces.stream.", (old.stream, new.stream, applicable.stream), Stream {
        queue_max => Some(SOCKETS), local_queue_max => Some(SOCKETS), queues_max => Some(SOCKETS),
        stall_timeout => Some(SOCKETS),
    } and);
    if old.dpdk != new.dpdk {
        notes.value("faces.dpdk.eal", Some(DPDK));
        applicable.dpdk = old.dpdk.clone();
    }
    let (key, bound) = (Ethernet::key, |ethernet: &Ethernet| match ethernet {
        Ethernet { port: EthernetPort::Dpdk, .. } => Some(DPDK),
        Ethernet { udp, .. } if !udp.is_empty() => Some(DATAGRAMS),
        _ => None,
    });
    applicable.ethernet = notes.items("[[faces.ethernet]]", &old.ethernet, &new.ethernet, key, bound);
    let (key, bound) = (Memif::key, |memif: &Memif| (!memif.udp.is_empty()).then_some(DATAGRAMS));
    applicable.memif = notes.items("[[faces.memif]]", &old.memif, &new.memif, key, bound);
}

fn of_tables(notes: &mut Notes<'_>, old: &Config, new: &Config, applicable: &mut Config) {
    compare!(notes, "tables.", (old.tables, new.tables, applicable.tables), Tables {
        pit_entries => None, dead_nonces => None, cs_packets => None, cs_bytes => None, cs_policy => None,
        fib => None, bulk => None, bulk_changes => None,
        fib_start_depth => None, fib_children => None, name_hash => None,
        cs_admit => None, cs_serve => None, accept_unasked_data => None,
    } and strategies);
    let prefixes = old.tables.strategies.keys().chain(new.tables.strategies.keys());
    for prefix in prefixes.collect::<std::collections::BTreeSet<_>>() {
        let [before, after] = [old, new].map(|config| config.tables.strategies.get(prefix));
        if before != after {
            notes.note(format!("[tables.strategies] {}", prefix.as_ref()), words(before, after), None);
        }
    }
    compare!(notes, "network.", (old.network, new.network, applicable.network), Network {
        producer_regions => None,
    } and);
}

fn of_rights(notes: &mut Notes<'_>, old: &Config, new: &Config, applicable: &mut Config) {
    compare!(notes, "security.", (old.security, new.security, applicable.security), Security {
        time_window => None, time_ahead => None,
    } and);
    compare!(notes, "trust.", (old.trust, new.trust, applicable.trust), Trust {
        anchors => None, rule => None, schema => None, revoked => None, certificates => None, key_types => None,
        chain_max => None, fetch_timeout => None, waiting_max => None, certificates_max => None,
        packet_name_as_hint => None,
    } and);
    if old.authorizations != new.authorizations {
        let text = words(Some(old.authorizations.len()), Some(new.authorizations.len()));
        notes.note("[[authorization]]".to_owned(), format!("changed ({text})"), None);
    }
    compare!(notes, "rib.", (old.rib, new.rib, applicable.rib), Rib {
        routes_max => None, announcements_max => None, localhop_anchors => None,
    } and readvertise propagate);
    if old.rib.readvertise != new.rib.readvertise {
        notes.note("[rib.readvertise]".to_owned(), "changed".to_owned(), None);
    }
    if old.rib.propagate != new.rib.propagate {
        notes.note("[rib.propagate]".to_owned(), "changed".to_owned(), None);
    }
}

fn of_routing(notes: &mut Notes<'_>, old: &Routing, new: &Routing, applicable: &mut Routing) {
    compare!(notes, "routing.", (old, new, applicable), Routing {
        network => None, name => None, protocol => None, keys => None, schema => None, insecure => None, multicast => None,
        advertise_interval => None,
        dead_interval => None, hello_interval => None, hello_misses => None, hold_down => None,
        damping => None, alternatives => None, policy => None, trees => None, tree_priority => None, neighbors_max => None,
        routers_max => None,
        prefixes_per_router_max => None, prefixes_max => None,
    } and neighbors);
    notes.items("[[routing.neighbor]]", &old.neighbors, &new.neighbors, |neighbor| neighbor.face.to_string(), |_| None);
}

fn of_tags(notes: &mut Notes<'_>, old: &Tags, new: &Tags, applicable: &mut Tags) {
    compare!(notes, "tags.", (old, new, applicable), Tags {
        descriptors_max => None, descriptors_per_face_max => None, descriptors_per_neighbor_max => None,
        aggregate => None, engine => None, bulk => None, steps_max => None,
        graph => None, node => None, key_name => None, key_file => None, allow_unsigned_neighbors => None,
    } and trees neighbors);
    if old.trees != new.trees || old.neighbors != new.neighbors {
        notes.note("[[tags.tree]] and [[tags.neighbor]]".to_owned(), "changed".to_owned(), None);
    }
}

fn face_key(face: &InitialFace) -> String {
    match &face.local {
        Some(local) => format!("{} from {local}", face.remote),
        None => face.remote.to_string(),
    }
}

fn route_key(route: &InitialRoute) -> String {
    format!("{} to {}", route.prefix.as_ref(), route.face)
}

/// `1 -> 2`, `added: 2` or `removed`.
fn words(old: Option<impl Display>, new: Option<impl Display>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("{old} -> {new}"),
        (None, Some(new)) => format!("added: {new}"),
        (_, None) => "removed".to_owned(),
    }
}

/// The differences so far, and the files with the texts of values.
struct Notes<'a> {
    list: Vec<Change>,
    /// The old file and the new one.
    sources: [&'a Source; 2],
    defaults: &'a Source,
}

impl Notes<'_> {
    fn note(&mut self, setting: String, text: String, restart: Option<&'static str>) {
        self.list.push(Change { setting, text, restart });
    }

    /// Notes that the value of a key has changed.
    fn value(&mut self, key: &str, restart: Option<&'static str>) {
        let text = |source: &Source| source.value(key).or_else(|| self.defaults.value(key)).map(short);
        let [old, new] = self.sources.map(text);
        let text = match (old, new) {
            (Some(old), Some(new)) if old != new => format!("{old} -> {new}"),
            _ => "changed".to_owned(),
        };
        self.note(key.to_owned(), text, restart);
    }

    /// Notes differences between two lists, whose items have keys. `restart` says why an item cannot come or go while the
    /// router runs. Returns the new list with the old items in place of those.
    fn items<T: PartialEq + Clone>(
        &mut self,
        table: &str,
        old: &[T],
        new: &[T],
        key: impl Fn(&T) -> String,
        restart: impl Fn(&T) -> Option<&'static str>,
    ) -> Vec<T> {
        let find = |list: &[T], wanted: &str| list.iter().position(|item| key(item) == wanted);
        let mut applicable = new.to_vec();
        for item in old {
            let at = find(new, &key(item));
            let (text, why) = match at {
                None => ("removed", restart(item)),
                Some(at) if new[at] != *item => ("changed", restart(item).or_else(|| restart(&new[at]))),
                Some(_) => continue,
            };
            self.note(format!("{table} {}", key(item)), text.to_owned(), why);
            match at {
                Some(at) if why.is_some() => applicable[at] = item.clone(),
                None if why.is_some() => applicable.push(item.clone()),
                _ => {}
            }
        }
        for item in new.iter().filter(|item| find(old, &key(item)).is_none()) {
            self.note(format!("{table} {}", key(item)), "added".to_owned(), restart(item));
        }
        applicable.retain(|item| find(old, &key(item)).is_some() || restart(item).is_none());
        applicable
    }
}

/// A value in one line of bounded length.
fn short(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn found(old: &str, new: &str) -> (Vec<(String, String, bool)>, Config) {
        let [old, new] = [old, new].map(|text| Source::new(text, Path::new("byname.toml")));
        let [of_old, of_new] = [&old, &new].map(|source| source.config().expect("good"));
        let found = changes((&of_old, &old), (&of_new, &new));
        let flat = found.list.into_iter().map(|change| (change.setting, change.text, change.restart.is_some()));
        (flat.collect(), found.applicable)
    }

    fn one(old: &str, new: &str) -> (String, String, bool) {
        let (mut list, _) = found(old, new);
        assert_eq!(list.len(), 1, "{list:?}");
        list.remove(0)
    }

    #[test]
    fn equal_configurations_do_not_differ_however_they_are_written() {
        assert_eq!(found("", default_toml()).0, []);
        assert_eq!(found("[general]\nspin = \"1 ms\"", "[general]\nspin = \"1000 us\"").0, []);
        let faces = "[[face]]\nremote = \"udp4://192.0.2.1:1\"\n[[face]]\nremote = \"udp4://192.0.2.2:1\"\n";
        let swapped = "[[face]]\nremote = \"udp4://192.0.2.2:1\"\n[[face]]\nremote = \"udp4://192.0.2.1:1\"\n";
        assert_eq!(found(faces, swapped).0, []);
    }

    #[test]
    fn values_are_told_as_the_files_have_them() {
        for (old, new, setting, text, restart) in [
            ("", "[tables]\nfib = \"two-stage\"", "tables.fib", "\"compact\" -> \"two-stage\"", false),
            ("[tables]\ncs_packets = 7", "", "tables.cs_packets", "7 -> 65536", false),
            ("", "[tables]\npit_entries = 9", "tables.pit_entries", "65536 -> 9", false),
            ("", "[tables]\nname_hash = \"aes\"", "tables.name_hash", "\"siphash13\" -> \"aes\"", false),
            ("", "[general]\nspin = \"1 ms\"", "general.spin", "\"50 us\" -> \"1 ms\"", false),
            ("", "[threads]\ncount = 2", "threads.count", "1 -> 2", true),
            ("", "[faces.udp]\nport = 7", "faces.udp.port", "6363 -> 7", true),
            ("", "[faces.stream]\nqueue_max = 70000", "faces.stream.queue_max", "\"1 MiB\" -> 70000", true),
            ("", "[rib]\nroutes_max = 5", "rib.routes_max", "4000000 -> 5", false),
            ("", "[rib.readvertise]\nenabled = false", "[rib.readvertise]", "changed", false),
            ("", "[security]\ntime_window = \"1 s\"", "security.time_window", "\"2 min\" -> \"1 s\"", false),
            ("", "[tags]\nengine = \"trie\"", "tags.engine", "\"rare-tag\" -> \"trie\"", false),
            ("", "[log.modules]\nx = \"debug\"", "log.modules", "changed", false),
            ("", "[metrics]\nenabled = false", "metrics.enabled", "true -> false", false),
            ("", "[metrics]\nfaces = 0", "metrics.faces", "256 -> 0", false),
            ("", "[metrics]\notlp = \"http://c:1\"", "metrics.otlp", "\"\" -> \"http://c:1\"", false),
            ("", "[faults]\nseed = 2", "faults.seed", "1 -> 2", true),
            ("", "[network]\nproducer_regions = [\"/a\"]", "network.producer_regions", "[] -> [\"/a\"]", false),
            ("", "[[face]]\nremote = \"udp4://192.0.2.1:1\"", "[[face]] udp4://192.0.2.1:1", "added", false),
            (
                "[[flat]]\nprefix = \"/o\"\ntable = \"x.flat\"",
                "[[flat]]\nprefix = \"/o\"\ntable = \"y.flat\"",
                "[[flat]] /o",
                "changed",
                false,
            ),
            (
                "[[route]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:1\"",
                "[[route]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:1\"\ncost = 2",
                "[[route]] /a to udp4://192.0.2.1:1",
                "changed",
                false,
            ),
            ("[[faces.memif]]\nsocket = \"/tmp/m\"", "", "[[faces.memif]] /tmp/m, id 0", "removed", false),
        ] {
            assert_eq!(one(old, new), (setting.to_owned(), text.to_owned(), restart), "{old} {new}");
        }
        let right = "[[authorization]]\nsigner = \"any\"\nmodules = [\"cs\"]\n";
        assert_eq!(one("", right), ("[[authorization]]".to_owned(), "changed (1 -> 1)".to_owned(), false));
        let (setting, text, restart) = one(
            "",
            "[tables.strategies]\n\"/\" = \"multicast\"\n\"/localhost\" = \"multicast\"\n\"/localhost/nfd\" = \
                     \"best-route\"\n\"/ndn/broadcast\" = \"multicast\"",
        );
        assert!(setting == "[tables.strategies] /" && text.contains(" -> ") && !restart, "{setting} {text}");
    }

    #[test]
    fn long_values_are_cut() {
        let long = format!("[general]\nstate_folder = \"/{}\"", "x".repeat(500));
        let (_, text, _) = one("", &long);
        assert!(text.len() < 120 && text.ends_with("..."), "{text}");
    }

    #[test]
    fn what_needs_a_restart_keeps_its_old_value() {
        let new = "[tables]\nfib = \"trie\"\n".replace("trie", "learned")
            + "[general]\nface_events = 9\n[[faces.memif]]\nsocket = \"/tmp/m\"\nframing = \"ethernet\"\n[[faces.memif.udp]]\nlocal = \
               \"192.0.2.1:6363\"\nremote = \"192.0.2.2:6363\"\nstation = \"02:00:00:00:00:01\"\n[threads]\ncount = 2\nbalance = \"3 s\"\n";
        let (list, applicable) = found("", &new);
        assert_eq!(list.iter().filter(|(.., restart)| *restart).count(), 3, "{list:?}");
        let source =
            Source::new("[tables]\nfib = \"learned\"\n[threads]\nbalance = \"3 s\"\n", Path::new("byname.toml"));
        assert_eq!(applicable, source.config().expect("good"));
    }
}
