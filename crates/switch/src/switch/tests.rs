//! One switch: hosts at ports 0 and 1, other switches at ports 2 (on the tree) and 3 (not on it).

use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{Change, Control};
use byname_wire::MacAddress;

use super::*;
use crate::key::Key;

const KEY: NameHashKey = NameHashKey::new([3, 4]);
const ALL: MacAddress = MacAddress([0xff; 6]);
/// Hosts and their ports: two local ports, and both trunks.
const HOSTS: [(u8, u8); 4] = [(10, 0), (11, 1), (12, 2), (13, 3)];
const UNREACHABLE: u8 = 14;
const EPOCH: u8 = 5;

fn host(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number])
}

fn plan() -> Plan {
    let roles = vec![Role::Host, Role::Host, Role::Trunk { floods: true }, Role::Trunk { floods: false }];
    Plan { epoch: EPOCH, hop_limit: 3, roles, ..Plan::default() }
}

fn set(number: u8, port: u8) -> Change<Digest> {
    let digest = KEY.digest_bytes(&host(number).0);
    Change::Set(digest, check().stored(digest, EntryId(port.into())).expect("eight bits"))
}

struct Bench {
    switch: Switch,
    control: Othello,
    now: Ticks,
    /// Ports that refuse all frames.
    busy: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let options = Options { entry_bits: check().bits(), ..Options::default() };
        let mut control = Othello::new(options).expect("a little memory");
        let changes = HOSTS.iter().copied().chain([(UNREACHABLE, NO_PORT)]).map(|(number, port)| set(number, port));
        control.apply(&changes.collect::<Vec<_>>()).expect("few names");
        let mut switch = Switch::new(4);
        switch.set_plan(plan());
        switch.set_table(KEY, control.query());
        Bench { switch, control, now: Ticks::from_ms(1000), busy: Vec::new() }
    }

    /// The frames that leave, with their ports.
    fn forward(&mut self, from: usize, frames: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        let arrived: Vec<_> = frames.iter().map(|bytes| Arrived { bytes, vlan: None }).collect();
        let (mut left, busy) = (Vec::new(), &self.busy);
        self.switch.forward(self.now, from, &arrived, &mut |port, header, rest| {
            if busy.contains(&port) {
                return Err(Reason::Busy);
            }
            left.push((port, [header, rest].concat()));
            Ok(Sent::Left)
        });
        left
    }

    fn retry(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut left = Vec::new();
        self.switch.retry_held(self.now, &mut |port, header, rest| {
            left.push((port, [header, rest].concat()));
            Ok(Sent::Left)
        });
        left
    }

    fn drops(&self, port: usize) -> Vec<(Reason, u64)> {
        self.switch.counters()[port].drops.iter().collect()
    }

    fn reports(&mut self) -> Vec<(usize, MacAddress)> {
        let mac = |report: Report| match report.source {
            Key::Mac(address) => (report.port, address),
            other => panic!("{other}"),
        };
        self.switch.take_reports().map(mac).collect()
    }
}

fn frame(destination: MacAddress, source: MacAddress) -> Vec<u8> {
    [&destination.0[..], &source.0, &[8, 0], &[0x45; 46]].concat()
}

fn tagged(epoch: u8, hop_limit: u8, destination: MacAddress, source: MacAddress) -> Vec<u8> {
    let mut bytes = frame(destination, source);
    bytes.splice(12..12, [0x88, 0xb5, epoch, hop_limit]);
    bytes
}

#[test]
fn frames_go_to_the_port_of_their_destination() {
    let mut bench = Bench::new();
    let frames: Vec<_> = [11, 12, 13].map(|number| frame(host(number), host(10))).into();
    let left = bench.forward(0, &frames);
    let expected =
        [(1, frames[0].clone()), (2, tagged(EPOCH, 3, host(12), host(10))), (3, tagged(EPOCH, 3, host(13), host(10)))];
    assert_eq!(left, expected);
    assert_eq!(bench.forward(2, &[tagged(0, 1, host(10), host(12))]), [(0, frame(host(10), host(12)))]);
    let counters = bench.switch.counters();
    assert_eq!((counters[0].frames_in, counters[0].bytes_in), (3, 180));
    assert_eq!((counters[3].frames_out, counters[3].bytes_out), (1, 64));
    assert!((0..4).all(|port| bench.drops(port).is_empty()));
    assert_eq!(bench.reports(), []);
}

#[test]
fn unknown_destinations_go_nowhere() {
    let mut bench = Bench::new();
    let strangers: Vec<_> = (0..100).map(|n| frame(MacAddress([2, 9, 9, 9, 9, n]), host(10))).collect();
    assert_eq!(bench.forward(0, &strangers), []);
    assert_eq!(bench.drops(0), [(Reason::UnknownDestination, 84)], "16 wait for the table");
    bench.now = bench.switch.next_deadline().expect("they wait for some time");
    assert_eq!(bench.retry(), []);
    assert_eq!(bench.drops(0), [(Reason::UnknownDestination, 100)]);
    assert_eq!(bench.switch.next_deadline(), None);
    // Frames from another switch do not wait: that switch has already held them.
    assert_eq!(bench.forward(2, &[tagged(EPOCH, 3, MacAddress([2, 9, 9, 9, 9, 1]), host(12))]), []);
    assert_eq!(bench.drops(2), [(Reason::UnknownDestination, 1)]);
    assert_eq!(bench.forward(0, &[frame(host(UNREACHABLE), host(10)), frame(host(10), host(10))]), []);
    assert_eq!(bench.switch.counters()[0].drops[Reason::Unreachable], 1);
    assert_eq!(bench.switch.counters()[0].drops[Reason::SamePort], 1);
}

#[test]
fn an_answer_waits_until_the_table_knows_whom_it_is_for() {
    let mut bench = Bench::new();
    let answer = frame(host(20), host(11));
    assert_eq!(bench.forward(1, std::slice::from_ref(&answer)), []);
    assert_eq!(bench.retry(), []);
    bench.control.apply(&[set(20, 0)]).expect("few names");
    bench.switch.set_table(KEY, bench.control.query());
    assert_eq!(bench.retry(), [(0, answer)]);
    assert!(bench.drops(1).is_empty() && bench.switch.next_deadline().is_none());
}

#[test]
fn groups_are_flooded_along_the_tree_of_their_epoch() {
    let mut bench = Bench::new();
    let plain = frame(ALL, host(10));
    let left = bench.forward(0, std::slice::from_ref(&plain));
    assert_eq!(left, [(1, plain), (2, tagged(EPOCH, 3, ALL, host(10)))]);
    let left = bench.forward(2, &[tagged(EPOCH, 2, ALL, host(12))]);
    assert_eq!(left, [(0, frame(ALL, host(12))), (1, frame(ALL, host(12)))]);
    assert_eq!(bench.forward(2, &[tagged(EPOCH - 1, 2, ALL, host(12))]), []);
    assert_eq!(bench.forward(3, &[tagged(EPOCH, 2, ALL, host(13))]), []);
    for port in [2, 3] {
        assert_eq!(bench.drops(port), [(Reason::OtherTree, 1)]);
    }
    // Frames of neighbor protocols stay on their link.
    assert_eq!(bench.forward(0, &[frame(MacAddress([1, 0x80, 0xc2, 0, 0, 0x0e]), host(10))]), []);
    assert_eq!(bench.drops(0), [(Reason::OfLink, 1)]);
}

#[test]
fn a_hop_limit_ends_what_strays() {
    let mut bench = Bench::new();
    // The frame goes on to the trunk at port 3.
    let pass = |bench: &mut Bench, hop_limit| bench.forward(2, &[tagged(EPOCH, hop_limit, host(13), host(12))]);
    assert_eq!(pass(&mut bench, 2), [(3, tagged(EPOCH, 1, host(13), host(12)))]);
    assert_eq!(pass(&mut bench, 1), []);
    assert_eq!(pass(&mut bench, 0), []);
    assert_eq!(bench.drops(2), [(Reason::HopLimit, 2)]);
    // A frame for a group still reaches the hosts of this switch.
    let mut plan = plan();
    plan.roles[3] = Role::Trunk { floods: true };
    bench.switch.set_plan(plan);
    let left = bench.forward(2, &[tagged(EPOCH, 1, ALL, host(12))]);
    assert_eq!(left.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bench.drops(2), [(Reason::HopLimit, 3)]);
}

#[test]
fn hosts_write_no_tags_and_switches_do() {
    let mut bench = Bench::new();
    assert_eq!(bench.forward(0, &[tagged(EPOCH, 9, host(11), host(10)), vec![0; 13]]), []);
    assert_eq!(bench.drops(0), [(Reason::Malformed, 1), (Reason::TaggedByHost, 1)]);
    assert_eq!(bench.forward(2, &[frame(host(11), host(12))]), []);
    assert_eq!(bench.drops(2), [(Reason::Untagged, 1)]);
    assert_eq!(bench.reports(), []);
}

#[test]
fn sources_are_reported_where_the_table_does_not_have_them() {
    let mut bench = Bench::new();
    let moved = frame(host(10), host(11));
    assert_eq!(bench.forward(0, &[frame(host(11), host(10)), frame(host(11), host(30))]).len(), 2);
    bench.forward(0, &vec![moved.clone(); 10]);
    assert_eq!(bench.reports(), [(0, host(30)), (0, host(11))], "each once");
    bench.forward(0, std::slice::from_ref(&moved));
    assert_eq!(bench.reports(), []);
    bench.now = bench.now + std::time::Duration::from_millis(200);
    bench.forward(0, &[moved]);
    assert_eq!(bench.reports(), [(0, host(11))], "again, until somebody has heard it");
    // Sources on trunks are reported by other switches.
    bench.forward(2, &[tagged(EPOCH, 3, host(10), host(31))]);
    assert_eq!(bench.reports(), []);
}

#[test]
fn a_host_that_invents_sources_is_reported_within_bounds() {
    let mut bench = Bench::new();
    let mut reports = 0;
    for n in 0..40u8 {
        let burst: Vec<_> = (0..100).map(|m| frame(host(11), MacAddress([2, 1, n, m, 0, 0]))).collect();
        assert_eq!(bench.forward(0, &burst).len(), 100, "they are forwarded all the same");
        reports += bench.reports().len();
    }
    assert!((150..300).contains(&reports), "{reports} at once");
    assert_eq!(bench.switch.counters()[0].reports_suppressed, 4000 - reports as u64);
    bench.forward(1, &[frame(host(10), host(40))]);
    assert_eq!(bench.reports(), [(1, host(40))], "another port has a share of its own");
}

#[test]
fn nothing_is_forwarded_before_the_controller_says_how() {
    let mut switch = Switch::new(2);
    let bytes = frame(ALL, host(1));
    let arrived = [Arrived { bytes: &bytes, vlan: None }];
    let forward = |switch: &mut Switch| {
        let mut left = 0;
        switch.forward(Ticks(0), 0, &arrived, &mut |_, _, _| {
            left += 1;
            Ok(Sent::Left)
        });
        left
    };
    assert_eq!(forward(&mut switch), 0);
    assert_eq!(switch.counters()[0].drops[Reason::Closed], 1);
    // A plan for fewer ports than the switch has, and one for more.
    switch.set_plan(Plan { epoch: 1, hop_limit: 1, roles: vec![Role::Host], ..Plan::default() });
    assert_eq!((switch.roles().len(), forward(&mut switch)), (2, 0));
    switch.set_plan(Plan { epoch: 1, hop_limit: 1, roles: vec![Role::Host; 9], ..Plan::default() });
    assert_eq!((switch.roles().len(), forward(&mut switch)), (2, 1));
    assert_eq!(switch.take_reports().count(), 0, "without a table everybody is unknown");
}

#[test]
fn what_a_port_does_not_take_is_counted_there() {
    let mut bench = Bench::new();
    bench.busy = vec![1];
    assert_eq!(bench.forward(0, &[frame(host(11), host(10)), frame(host(12), host(10))]).len(), 1);
    assert_eq!(bench.drops(1), [(Reason::Busy, 1)]);
    assert_eq!(bench.switch.counters()[1].frames_out, 0);
    bench.switch.count_drops(1, Reason::RingFull, 7);
    assert_eq!(bench.switch.counters()[1].drops[Reason::RingFull], 7);
}
