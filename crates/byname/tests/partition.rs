//! One router of four machines: rules are cut into a table for each, and every packet finds the right rule with one crossing at
//! most.

mod common;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest, LpPacket, Name};
use common::{Done, Router, finish};
use serde_json::Value;

const NODES: usize = 4;
const HOPS: u8 = 10;

fn byname(folder: &Path, line: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byname"));
    command.args(line.split_whitespace()).current_dir(folder);
    finish(command)
}

fn built(folder: &Path, options: &str) -> String {
    let nodes: Vec<_> = (1..=NODES).map(|node| format!("/r/{node}")).collect();
    let done = byname(folder, &format!("partition build --sort rules.txt parts --nodes {} {options}", nodes.join(",")));
    assert_eq!(done.code, 0, "{}", done.stderr);
    done.stdout
}

/// A host beyond the routers, which answers all Interests with its label and the hops that are left.
struct Upstream {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    fn start(label: String) -> Upstream {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let port = socket.local_addr().expect("bound").port();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = std::thread::spawn(move || {
            let mut frame = [0; 9000];
            while !ended.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut frame) else { continue };
                let packet = LpPacket::decode(&frame[..len]).expect("a frame");
                let Ok(interest) = Interest::decode(packet.fragment.expect("a packet")) else { continue };
                let content = format!("{label} {}", interest.hop_limit.expect("it had one").value);
                let data = DataBuilder::new(interest.name.to_name()).content(content.into()).encode();
                let mut reply = Vec::new();
                LpPacket { pit_token: packet.pit_token, fragment: Some(&data), ..LpPacket::default() }
                    .encode(&mut reply);
                socket.send_to(&reply, from).expect("sent");
            }
        });
        Upstream { port, ends, thread: Some(thread) }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Asks a router for names, some at a time.
struct Asker {
    socket: UdpSocket,
    waiting: HashMap<Name, Instant>,
    answers: HashMap<Name, (String, u8)>,
    nonce: u32,
}

impl Asker {
    fn of(router: &Router) -> Asker {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(("127.0.0.1", router.port)).expect("connected");
        Asker { socket, waiting: HashMap::new(), answers: HashMap::new(), nonce: 0 }
    }

    fn ask(&mut self, name: Name) {
        self.nonce += 1;
        self.socket.send(&InterestBuilder::new(name.clone(), self.nonce).hop_limit(HOPS).encode()).expect("sent");
        self.waiting.insert(name, Instant::now());
    }

    /// Takes answers until at most `waiting` names wait that are younger than `patience`.
    fn take(&mut self, waiting: usize, patience: Duration) {
        let mut frame = [0; 9000];
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
        while self.waiting.values().filter(|since| since.elapsed() < patience).count() > waiting {
            let Ok(len) = self.socket.recv(&mut frame) else { continue };
            let packet = LpPacket::decode(&frame[..len]).expect("a frame");
            let Some(Ok(data)) = packet.fragment.filter(|_| packet.nack.is_none()).map(Data::decode) else { continue };
            let text = String::from_utf8(data.content.to_vec()).expect("text");
            let (label, hops) = text.split_once(' ').expect("two words");
            self.waiting.remove(&data.name.to_name());
            self.answers.insert(data.name.to_name(), (label.to_owned(), hops.parse().expect("a number")));
        }
    }
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// Rules of several depths with labels of four upstreams, and names below them with the right label.
fn rules(folder: &Path) -> Vec<(String, usize)> {
    let mut rules = vec![("/com".to_owned(), 0)];
    for i in 0..150 {
        rules.push((format!("/com/d{i}"), i % NODES));
        rules.push((format!("/com/d{i}/video"), (i / 7) % NODES));
        rules.push((format!("/n{i}/a/b"), (i / 3) % NODES));
    }
    let text: String = rules.iter().map(|(rule, up)| format!("{rule} /up/{up}\n")).collect();
    std::fs::write(folder.join("rules.txt"), text).expect("written");
    rules
}

/// Starts the nodes, and connects each with the others. `replaces`: the node after each one has its rules.
fn start(folder: &Path, replaces: bool) -> Vec<Router> {
    let configured = |node: usize| {
        let text = std::fs::read_to_string(folder.join(format!("parts/node-{}.toml", node + 1))).expect("made");
        // The test's configuration is in another folder.
        let parts = folder.join("parts");
        text.replace("bulk = \"", &format!("bulk = \"{}/", parts.display()))
            .replace("table = \"", &format!("table = \"{}/", parts.display()))
    };
    let routers: Vec<_> = (0..NODES).map(|node| Router::start_with(&configured(node))).collect();
    for here in 0..NODES {
        for there in (0..NODES).filter(|there| *there != here) {
            let face = face_to(&routers, here, there);
            routers[here].ok(&format!("route add /r/{} {face}", there + 1));
            let replaced = (there + NODES - 1) % NODES;
            if replaces && replaced != here {
                routers[here].ok(&format!("route add /r/{} {face} cost 10", replaced + 1));
            }
        }
    }
    routers
}

/// The face of one node to another: both use one connection, which the first of them has made.
fn face_to(routers: &[Router], here: usize, there: usize) -> u64 {
    let (first, second) = (&routers[here.min(there)], &routers[here.max(there)]);
    first.run(&format!("face create tcp4://127.0.0.1:{}", second.port));
    let faces = first.json("face list");
    let ends_there = |face: &&Value| face["remote_uri"] == format!("tcp4://127.0.0.1:{}", second.port);
    let of_first = faces.as_array().expect("a list").iter().find(ends_there).expect("it was made");
    if here < there {
        return of_first["face_id"].as_u64().expect("a number");
    }
    let faces = second.json("face list");
    let begins_there = |face: &&Value| face["remote_uri"] == of_first["local_uri"];
    let accepted = faces.as_array().expect("a list").iter().find(begins_there).expect("it was accepted");
    accepted["face_id"].as_u64().expect("a number")
}

#[test]
fn four_routers_are_one_and_a_killed_one_loses_what_is_in_flight() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let rules = rules(folder);
    let told = built(folder, "--copies 2 --cut-max 20");
    assert!(told.contains("451 rules at") && told.contains("1 rules are shorter"), "{told}");
    let upstreams: Vec<_> = (0..NODES).map(|up| Upstream::start(format!("/up/{up}"))).collect();
    let mut routers = start(folder, true);
    for router in &routers {
        assert!(router.log().contains("spreads rules over 4 nodes"), "{}", router.log());
        for (up, upstream) in upstreams.iter().enumerate() {
            router.ok(&format!("route add /up/{up} udp4://127.0.0.1:{}", upstream.port));
        }
    }
    let asked: Vec<(Name, usize)> =
        rules.iter().enumerate().map(|(i, (rule, up))| (name(&format!("{rule}/x{i}")), *up)).collect();
    let mut crossed = 0;
    for (at, router) in routers.iter().enumerate() {
        let mut asker = Asker::of(router);
        for (asked, _) in &asked {
            asker.take(16, Duration::from_secs(10));
            asker.ask(asked.join_name(name(&format!("/from/{at}")).as_ref()));
        }
        // Names that no rule but the shortest covers.
        (0..50).for_each(|i| asker.ask(name(&format!("/com/stranger{i}/from/{at}"))));
        asker.take(0, Duration::from_secs(10));
        assert_eq!(asker.answers.len(), asked.len() + 50, "router {at} answers all");
        for (asked, up) in &asked {
            let (label, hops) = &asker.answers[&asked.join_name(name(&format!("/from/{at}")).as_ref())];
            assert_eq!(*label, format!("/up/{up}"), "{asked} at router {at}");
            assert!([HOPS - 1, HOPS - 2].contains(hops), "{asked} crosses once at most: {hops} hops are left");
            crossed += usize::from(*hops == HOPS - 2);
        }
        let strangers = (0..50).map(|i| &asker.answers[&name(&format!("/com/stranger{i}/from/{at}"))]);
        let in_vain = strangers.filter(|(label, hops)| *label == "/up/0" && *hops == HOPS - 2).count();
        assert!(in_vain < 15, "a sixteenth crosses in vain, not {in_vain} of 50");
    }
    // With two copies, half of the names are at home.
    let all = asked.len() * NODES;
    assert!((all / 3..all * 2 / 3).contains(&crossed), "{crossed} of {all} cross");
    // A name that belongs elsewhere: the router says to whom.
    let foreign = (0..150).map(|i| format!("/n{i}/a/b")).find(|name| {
        let found = byname(folder, &format!("partition find parts/names.partition {name}")).stdout;
        found.ends_with(" /r/3\n")
    });
    let foreign = foreign.expect("a quarter is there");
    let text = routers[0].ok(&format!("route get {foreign}"));
    assert!(text.contains("it forwards as /r/3 does"), "{text}");
    // A node dies while names are asked for.
    let mut asker = Asker::of(&routers[0]);
    let (window, count) = (24, 2000);
    for i in 0..count {
        if i == count / 2 {
            routers[2].kill();
        }
        asker.take(window, Duration::from_millis(500));
        let (asked, _) = &asked[i % asked.len()];
        asker.ask(asked.join_name(name(&format!("/killed/{i}")).as_ref()));
    }
    asker.take(0, Duration::from_secs(1));
    let lost = asker.waiting.len();
    assert!(lost <= 2 * window, "{lost} of {count} are lost, more than were on their way");
    for (i, (asked, up)) in (0..count).map(|i| (i, &asked[i % asked.len()])) {
        if let Some((label, _)) = asker.answers.get(&asked.join_name(name(&format!("/killed/{i}")).as_ref())) {
            assert_eq!(*label, format!("/up/{up}"), "{asked}");
        }
    }
}

/// A number from the environment, for runs that are larger than those of CI.
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Many rules in canonical order: made-up ones with two depths, and real ones.
struct Many {
    made: u64,
    real: Vec<Name>,
}

impl Many {
    /// Made-up rules below each prefix, that of the prefix included.
    const BELOW: u64 = 40;

    fn new(made: u64) -> Many {
        Many { made, real: domains() }
    }

    fn count(&self) -> u64 {
        self.made + self.real.len() as u64
    }

    fn uri(&self, i: u64) -> String {
        let Some(real) = i.checked_sub(self.made) else {
            let (prefix, below) = (i / Self::BELOW, i % Self::BELOW);
            return if below == 0 { format!("/m/{prefix:08x}") } else { format!("/m/{prefix:08x}/{below:02x}") };
        };
        self.real[real as usize].to_string()
    }

    /// The number of its upstream: the high bits of a product are as good as random.
    fn up(i: u64) -> usize {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as usize
    }

    fn write(&self, path: &Path) {
        let mut file = BufWriter::new(File::create(path).expect("a file"));
        writeln!(file, "/m /up/0").expect("written");
        (0..self.count()).for_each(|i| writeln!(file, "{} /up/{}", self.uri(i), Self::up(i)).expect("written"));
        file.flush().expect("written");
    }
}

/// The domain names of the data beside the project, as names with the top level first.
fn domains() -> Vec<Name> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/domains_tb0hdan.txt.xz");
    let Ok(output) = Command::new("xz").arg("-dc").arg(&path).output() else { return Vec::new() };
    let named = |line: &str| {
        let uri: String = line.split('.').rev().map(|label| format!("/{label}")).collect();
        line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)).then(|| uri.parse().ok())?
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let long = |name: &Name| name.as_ref().component(0).is_some_and(|first| first.value.len() > 1);
    let mut names: Vec<Name> = text.lines().filter_map(named).filter(long).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// `BYNAME_TEST_RULES=200000000 BYNAME_TEST_PACKETS=2000000` takes an hour, 24 GB of disk and a release build.
#[test]
fn names_of_all_kinds_are_answered_by_the_right_rule_also_while_a_node_dies() {
    let (made, packets) = (number("BYNAME_TEST_RULES", 20_000), number("BYNAME_TEST_PACKETS", 8_000));
    let folder = tempfile::tempdir_in(std::env::var("BYNAME_TEST_FOLDER").unwrap_or_else(|_| "/tmp".to_owned()));
    let folder = folder.expect("a folder");
    let folder = folder.path();
    let mut many = Many::new(made);
    if many.real.is_empty() {
        println!("skipped: real names are not looked up in a partition: ../shared/data is not there");
    }
    // Real names are at most as many as made-up ones: every so many of them.
    let step = (many.real.len() as u64).div_ceil(made).max(1) as usize;
    many.real = std::mem::take(&mut many.real).into_iter().step_by(step).collect();
    many.write(&folder.join("rules.txt"));
    let nodes: Vec<_> = (1..=NODES).map(|node| format!("/r/{node}")).collect();
    let begun = Instant::now();
    let done = byname(
        folder,
        &format!("partition build rules.txt parts --nodes {} --copies 2 --cut-max 1000", nodes.join(",")),
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    std::fs::remove_file(folder.join("rules.txt")).expect("removed");
    let build = begun.elapsed();
    let upstreams: Vec<_> = (0..NODES).map(|up| Upstream::start(format!("/up/{up}"))).collect();
    let mut routers = start(folder, true);
    for router in &routers {
        for (up, upstream) in upstreams.iter().enumerate() {
            router.ok(&format!("route add /up/{up} udp4://127.0.0.1:{}", upstream.port));
        }
    }
    let mut random = 0u64;
    let mut draw = |below: u64| {
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ (random >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((u128::from(mixed ^ (mixed >> 29)) * u128::from(below)) >> 64) as u64
    };
    let (window, half) = (64, packets / 2);
    let mut askers: Vec<_> = routers.iter().map(Asker::of).collect();
    let mut asked: HashMap<Name, usize> = HashMap::new();
    let (mut crossed, mut took) = (0, Duration::ZERO);
    for packet in 0..packets {
        if packet == half {
            for asker in &mut askers {
                asker.take(0, Duration::from_secs(10));
                assert!(asker.waiting.is_empty(), "nothing is lost before a node dies");
            }
        }
        if packet == half + half / 2 {
            routers[2].kill();
        }
        // The node that dies is not asked any more: its neighbours do not know that, and hand it what is its own.
        let at = if packet < half { packet as usize % NODES } else { [0, 1, 3][packet as usize % 3] };
        let rule = draw(many.count());
        let asks = name(&format!("{}/x/{packet}", many.uri(rule)));
        asked.insert(asks.clone(), Many::up(rule));
        let begun = Instant::now();
        askers[at].take(window, Duration::from_millis(2000));
        askers[at].ask(asks);
        took += begun.elapsed();
        // What is right is forgotten: there may be many.
        if askers[at].answers.len() > 4096 || packet + 1 == half || packet + 1 == packets {
            if packet + 1 == packets {
                askers.iter_mut().for_each(|asker| asker.take(0, Duration::from_secs(2)));
            }
            for asker in &mut askers {
                for (answered, (label, hops)) in asker.answers.drain() {
                    let up = asked.remove(&answered).expect("it was asked for");
                    assert_eq!(label, format!("/up/{up}"), "{answered}");
                    assert!(
                        [HOPS - 1, HOPS - 2].contains(&hops),
                        "{answered} crosses once at most: {hops} hops are left"
                    );
                    crossed += u64::from(hops == HOPS - 2);
                }
            }
        }
    }
    let lost = asked.len();
    assert!(lost <= 2 * window * 3, "{lost} of {packets} are lost, more than were on their way");
    let mut strangers = Asker::of(&routers[0]);
    let unknown = (packets / 8).max(400);
    for i in 0..unknown {
        strangers.take(window, Duration::from_secs(10));
        strangers.ask(name(&format!("/m/stranger{i}/x")));
    }
    strangers.take(0, Duration::from_secs(10));
    assert_eq!(strangers.answers.len() as u64, unknown);
    let in_vain = strangers.answers.values().filter(|(label, hops)| label == "/up/0" && *hops == HOPS - 2).count();
    // Four bits of check let a sixteenth through. Half of these are at home, since there are two copies.
    let expected = unknown as f64 / 16.0;
    assert!((in_vain as f64) < expected + 5.0 * expected.sqrt(), "{in_vain} of {unknown} cross in vain");
    println!(
        "{} rules, {} of them real, built in {:.0} s: {packets} packets, {:.0} a second, {:.1} % crossed, {lost} lost when a \
         node died, {:.2} % of {unknown} unknown names crossed in vain",
        many.count(),
        many.real.len(),
        build.as_secs_f64(),
        packets as f64 / took.as_secs_f64(),
        100.0 * crossed as f64 / packets as f64,
        100.0 * in_vain as f64 / unknown as f64,
    );
}

/// Processor time of a process so far, in seconds.
fn processor_s(router: &Router) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", router.pid())).expect("it runs");
    let of_task = |task: std::fs::DirEntry| {
        // A thread may have ended by now.
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.map(|task| of_task(task.expect("a thread"))).sum::<f64>() / 1e9
}

/// Microseconds of all routers for each packet, while nodes in turn are asked, and the share of packets that cross.
fn cost(routers: &[Router], many: &Many, packets: u64) -> (f64, f64) {
    let mut askers: Vec<_> = routers.iter().map(Asker::of).collect();
    let (mut begun, mut crossed) = (0.0, 0);
    // As many before time is taken, so that all connections are there.
    for packet in 0..2 * packets {
        let (at, rule) = (packet as usize % NODES, packet.wrapping_mul(0x9e37_79b9_7f4a_7c15) % many.count());
        if packet == packets {
            askers.iter_mut().for_each(|asker| asker.take(0, Duration::from_secs(10)));
            begun = routers.iter().map(processor_s).sum();
        }
        askers[at].take(16, Duration::from_secs(10));
        askers[at].ask(name(&format!("{}/x/{packet}", many.uri(rule))));
        let is_last = packet + 1 == 2 * packets;
        if is_last {
            askers.iter_mut().for_each(|asker| asker.take(0, Duration::from_secs(10)));
        }
        for asker in askers.iter_mut().filter(|asker| is_last || asker.answers.len() > 1024) {
            for (_, (_, hops)) in asker.answers.drain() {
                crossed += u64::from(hops < HOPS - 1);
            }
        }
    }
    let took: f64 = routers.iter().map(processor_s).sum::<f64>() - begun;
    (took * 1e6 / packets as f64, crossed as f64 / (2 * packets) as f64)
}

/// Four nodes of which each has a quarter of the rules, beside four that have all. Packets leave where they arrive, or by a node that
/// depends on their rule.
#[test]
fn a_packet_costs_as_many_nodes_as_it_crosses() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (made, packets) = (number("BYNAME_TEST_RULES", 4_000), number("BYNAME_TEST_PACKETS", 20_000));
    let many = Many { made, real: Vec::new() };
    many.write(&folder.join("rules.txt"));
    let done = byname(folder, "table build rules.txt all.table");
    assert_eq!(done.code, 0, "{}", done.stderr);
    let all = format!("[tables]\nbulk = \"{}\"\n", folder.join("all.table").display());
    let upstreams: Vec<_> = (0..NODES).map(|up| Upstream::start(format!("/up/{up}"))).collect();
    let egress: String = (0..NODES).map(|up| format!(" --egress /up/{up}=/r/{}", up + 1)).collect();
    let mut costs = Vec::new();
    for (options, leaves_anywhere) in [("", true), (&egress[..], false)] {
        built(folder, options);
        let parts = start(folder, false);
        let whole: Vec<_> = (0..NODES).map(|_| Router::start_with(&all)).collect();
        for routers in [&parts, &whole] {
            for (here, router) in routers.iter().enumerate() {
                for (up, upstream) in upstreams.iter().enumerate() {
                    match leaves_anywhere || up == here {
                        true => router.ok(&format!("route add /up/{up} udp4://127.0.0.1:{}", upstream.port)),
                        false => router.ok(&format!("route add /up/{up} {}", face_to(routers, here, up))),
                    };
                }
            }
        }
        costs.extend([cost(&parts, &many, packets), cost(&whole, &many, packets)]);
    }
    let [(parts, crossing), (whole, none), (by_egress, crossing_by_egress), (whole_by_egress, needed)] = costs[..]
    else {
        unreachable!("four kinds of nodes")
    };
    println!(
        "{{\"experiment\": \"partition-packets\", \"rules\": {}, \"nodes\": {NODES}, \"packets\": {packets}, \
         \"owner_us\": {parts:.2}, \"owner_crossing\": {crossing:.4}, \"all_us\": {whole:.2}, \"all_crossing\": {none:.4}, \
         \"egress_us\": {by_egress:.2}, \"egress_crossing\": {crossing_by_egress:.4}, \"all_egress_us\": {whole_by_egress:.2}, \
         \"all_egress_crossing\": {needed:.4}}}",
        many.count(),
    );
    // With one copy of each rule, a quarter is at home: 2 - 1/4 nodes handle a packet.
    assert!((crossing - 0.75).abs() < 0.05 && (needed - 0.75).abs() < 0.05 && none == 0.0, "{costs:?}");
    assert!((crossing_by_egress - 0.75).abs() < 0.08, "{costs:?}");
    assert!(parts > whole, "nodes that hand packets over take longer: {costs:?}");
    assert!(by_egress < 1.5 * whole_by_egress, "a packet that had to cross anyway costs no more: {costs:?}");
}

#[test]
fn rules_are_where_their_packets_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let rules = rules(folder);
    let egress: String = (0..NODES).map(|up| format!(" --egress /up/{up}=/r/{}", up + 1)).collect();
    built(folder, &egress);
    let upstreams: Vec<_> = (0..NODES).map(|up| Upstream::start(format!("/up/{up}"))).collect();
    let routers = start(folder, false);
    for (here, router) in routers.iter().enumerate() {
        for (up, upstream) in upstreams.iter().enumerate() {
            // Rules that all nodes have forward by the node of their upstream, too.
            if up == here {
                router.ok(&format!("route add /up/{up} udp4://127.0.0.1:{}", upstream.port));
            } else {
                router.ok(&format!("route add /up/{up} {}", face_to(&routers, here, up)));
            }
        }
    }
    let mut in_vain = 0;
    for (at, router) in routers.iter().enumerate() {
        let mut asker = Asker::of(router);
        let asked = |rule: &str| name(&format!("{rule}/x/from/{at}"));
        for (rule, _) in &rules {
            asker.take(16, Duration::from_secs(10));
            asker.ask(asked(rule));
        }
        asker.take(0, Duration::from_secs(10));
        for (rule, up) in &rules {
            let (label, hops) = asker.answers.get(&asked(rule)).unwrap_or_else(|| panic!("{rule} at router {at}"));
            let crossings = usize::from(HOPS - 1 - hops);
            assert_eq!(*label, format!("/up/{up}"), "{rule}");
            // Where rules below a rule leave by several nodes, what no longer rule covers may go to a wrong node first.
            let is_cut =
                byname(folder, &format!("partition find parts/names.partition {rule}")).stdout.contains(" /r/");
            let most = usize::from(*up != at) + usize::from(!is_cut);
            assert!(crossings <= most, "{rule} at router {at} crosses {crossings} times");
            in_vain += usize::from(crossings > usize::from(*up != at));
        }
    }
    assert!(in_vain < 100, "the checksum misses few: {in_vain} of {}", rules.len() * NODES);
}

#[test]
fn a_node_that_joins_gets_its_share_and_no_other_rule_moves() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let rules = rules(folder);
    built(folder, "--cut-max 20");
    let five = "/r/1,/r/2,/r/3,/r/4,/r/5";
    let old = "--key-of parts/node-1.table";
    let done = byname(folder, &format!("partition build --sort rules.txt five --nodes {five} --cut-max 20 {old}"));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let keep = "--keep parts/names.partition";
    let done =
        byname(folder, &format!("partition build --sort rules.txt both --nodes {five} --cut-max 20 {old} {keep}"));
    assert_eq!(done.code, 0, "{}", done.stderr);
    let node = |parts: &str, rule: &str| {
        let found = byname(folder, &format!("partition find {parts}/names.partition {rule}")).stdout;
        found.trim().rsplit_once("/r/").map(|(_, node)| node.to_owned())
    };
    let mut moved = 0;
    for (rule, up) in rules.iter().step_by(4) {
        let (Some(before), Some(after)) = (node("parts", rule), node("five", rule)) else { continue };
        moved += usize::from(before != after);
        assert!(before == after || after == "5", "{rule} moves from {before} to {after}");
        // Whoever uses the old partition, and whoever uses the new one, finds the rule where it expects it.
        for at in [&before, &after] {
            let found = byname(folder, &format!("table find both/node-{at}.table {rule}")).stdout;
            assert_eq!(found, format!("{rule} /up/{up}\n"));
        }
    }
    assert!((8..50).contains(&moved), "a fifth of 112 moves: {moved}");
    let other = byname(folder, "partition build --sort rules.txt other --nodes /r/1");
    assert_eq!(other.code, 0, "{}", other.stderr);
    let refused = byname(
        folder,
        &format!("partition build --sort rules.txt x --nodes {five} --key-of other/node-1.table {keep}"),
    );
    assert!(refused.code == 1 && refused.stderr.contains("another hash key"), "{}", refused.stderr);
}

#[test]
fn a_node_takes_over_another_partition_without_a_restart_and_what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("rules.txt"), "/a/b /up/0\n/c /up/0\n").expect("written");
    built(folder, "--cut-max 1");
    let shown = byname(folder, "partition show parts/names.partition");
    for line in ["prefixes     2\n", "check bits   4\n", "nodes        4\n", "\n  /r/4\n"] {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
    for (arguments, complaint) in [
        ("--nodes /r/1 --copies 2", "need as many nodes"),
        ("--nodes /r/1,/r/1", "/r/1 twice"),
        ("--nodes /r/1 --egress /up/0=/r/9", "not one of --nodes"),
        ("--nodes r1", "begins with '/'"),
    ] {
        let refused = byname(folder, &format!("partition build --sort rules.txt other {arguments}"));
        assert!(refused.code != 0 && refused.stderr.contains(complaint), "{}", refused.stderr);
    }
    std::fs::write(folder.join("flat.txt"), "a /up/0\n").expect("written");
    assert_eq!(byname(folder, "flat build flat.txt x.flat").code, 0);
    for (settings, complaint) in [
        ("table = \"x.flat\"", "may be a table of flat names"),
        ("table = \"none\"", "none"),
        ("table = \"parts/names.partition\"\nholds = [\"/r/9\"]", "the partition has no node /r/9"),
        ("holds = [\"/r/1\"]", "there is no partition"),
    ] {
        std::fs::write(folder.join("byname.toml"), format!("[partition]\n{settings}\n")).expect("written");
        let refused = byname(folder, "check byname.toml");
        assert!(refused.code == 2 && refused.stderr.contains(complaint), "{}", refused.stderr);
    }
    // A router becomes node 1, of a partition with another key than the router has drawn, and then holds all nodes.
    let upstream = Upstream::start("/up/0".to_owned());
    let router = Router::start_with("");
    router.ok(&format!("route add /up/0 udp4://127.0.0.1:{}", upstream.port));
    let path = router.path("byname.toml");
    let before = std::fs::read_to_string(&path).expect("the configuration");
    let parts = folder.join("parts");
    let use_parts = |holds: &str| {
        let settings = format!(
            "{before}\n[tables]\nbulk = {:?}\n[partition]\ntable = {:?}\nholds = [{holds}]\n",
            parts.join("node-1.table"),
            parts.join("names.partition")
        );
        std::fs::write(&path, settings).expect("written");
        router.run("reload")
    };
    let reloaded = use_parts("\"/r/1\", \"/r/2\", \"/r/3\", \"/r/4\"");
    assert_eq!(reloaded.code, 0, "{}", reloaded.stderr);
    let refused = use_parts("\"/r/7\"");
    assert!(refused.code != 0 && refused.stderr.contains("no node /r/7"), "{}", refused.stderr);
    let answered = |asked: &str| {
        let mut asker = Asker::of(&router);
        asker.ask(name(asked));
        asker.take(0, Duration::from_millis(500));
        !asker.answers.is_empty()
    };
    let here = |rule: &str| byname(folder, &format!("table find parts/node-1.table {rule}")).code == 0;
    for (rule, asked) in [("/a/b", "/a/b/x"), ("/c", "/c/x")] {
        assert_eq!(answered(asked), here(rule), "{rule}");
    }
}
