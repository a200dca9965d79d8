//! Faults occur as often as configured, and the same seed gives the same faults.

use byname_forward::LinkFields;

use super::*;
use crate::memory;
use crate::port::tests::Bench;

fn packet(number: u32) -> Packet {
    let mut bytes = vec![5, 8, 7, 6, 8, 4];
    bytes.extend_from_slice(&number.to_be_bytes());
    Packet::copy_from(&bytes)
}

fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[6..10].try_into().expect("four bytes"))
}

fn run(faults: Faults, seed: u64) -> (Vec<Vec<u8>>, FaultCounters) {
    let mut link = FaultyLink::new(faults, seed);
    let mut arrived = Vec::new();
    for n in 0..10_000 {
        let now = Ticks::from_ms(u64::from(n));
        link.enter(now, packet(n));
        while let Some(packet) = link.leave(now) {
            arrived.push(packet.to_vec());
        }
    }
    let before_end = link.counters();
    assert_eq!(before_end.entered + before_end.duplicated, before_end.left + before_end.lost + link.under_way() as u64);
    while let Some(at) = link.next_arrival() {
        arrived.extend(link.leave(at).map(|p| p.to_vec()));
    }
    assert_eq!(link.counters().left, arrived.len() as u64);
    (arrived, link.counters())
}

#[test]
fn without_faults_everything_arrives_in_order_at_once() {
    let (arrived, counters) = run(Faults::default(), 1);
    assert!(arrived.iter().map(|p| number(p)).eq(0..10_000));
    assert_eq!(counters, FaultCounters { entered: 10_000, left: 10_000, ..FaultCounters::default() });
}

#[test]
fn each_fault_happens_as_often_as_asked() {
    let near = |count: u64| (800..1_200).contains(&count);
    let (arrived, c) = run(Faults { loss: 0.1, ..Faults::default() }, 2);
    assert!(near(c.lost) && arrived.len() as u64 == 10_000 - c.lost);
    let (arrived, c) = run(Faults { duplication: 0.1, ..Faults::default() }, 3);
    assert!(near(c.duplicated) && arrived.len() as u64 == 10_000 + c.duplicated);
    let (arrived, c) = run(Faults { reordering: 0.1, ..Faults::default() }, 4);
    let overtakings = arrived.windows(2).filter(|w| number(&w[0]) > number(&w[1])).count() as u64;
    assert!(near(c.reordered) && overtakings > c.reordered / 2 && arrived.len() == 10_000);
    let (arrived, c) = run(Faults { corruption: 0.1, ..Faults::default() }, 5);
    assert!(near(c.corrupted) && arrived.len() as u64 == 10_000 - c.lost);
    let whole = |p: &&Vec<u8>| p[..6] == [5, 8, 7, 6, 8, 4];
    assert!(arrived.iter().filter(|p| !whole(p)).count() > 100, "headers of names are hit as well");
    assert!(arrived.iter().all(|p| is_network_packet(p)));
}

#[test]
fn delays_stay_within_bounds_and_keep_the_order() {
    let faults =
        Faults { delay_min: Duration::from_millis(20), delay_max: Duration::from_millis(30), ..Faults::default() };
    let mut link = FaultyLink::new(faults, 6);
    for n in 0..100 {
        link.enter(Ticks::from_ms(0), packet(n));
    }
    assert!(link.leave(Ticks(19_999_999)).is_none());
    let mut arrived = Vec::new();
    while let Some(p) = link.leave(Ticks::from_ms(30)) {
        arrived.push(number(&p));
    }
    assert!(arrived.into_iter().eq(0..100));
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let faults = Faults { loss: 0.2, duplication: 0.2, corruption: 0.2, reordering: 0.2, ..Faults::default() };
    assert_eq!(run(faults.clone(), 7), run(faults.clone(), 7));
    assert_ne!(run(faults.clone(), 7).0, run(faults, 8).0);
}

#[test]
fn what_is_under_way_is_bounded() {
    let faults = Faults { delay_min: Duration::from_secs(1), packets_max: 10, ..Faults::default() };
    let mut link = FaultyLink::new(faults, 9);
    for n in 0..100 {
        link.enter(Ticks(0), packet(n));
    }
    assert_eq!((link.under_way(), link.counters().lost), (10, 90));
}

#[test]
fn a_port_passes_what_the_links_let_through() {
    let (near, mut far) = memory::pair(64);
    let delay =
        Faults { delay_min: Duration::from_millis(5), delay_max: Duration::from_millis(5), ..Faults::default() };
    let mut port = FaultPort::new(Box::new(near), delay.clone(), delay, 10);
    let (mut bench, mut far_bench) = (Bench::new(), Bench::new());
    port.start(&mut bench.cx()).expect("it starts");
    far.start(&mut far_bench.cx()).expect("it starts");
    let face = FaceId::FIRST;
    let outgoing = |n| Outgoing { face, fields: LinkFields::default(), packet: packet(n) };

    port.transmit(&mut bench.cx(), &mut [outgoing(1)]);
    assert!(!far.has_input() && port.has_output());
    assert_eq!(port.next_deadline(), Some(Ticks::from_ms(5)));
    bench.now = Ticks::from_ms(5);
    port.on_deadline(&mut bench.cx());
    far.receive(&mut far_bench.cx(), 64);
    assert_eq!(number(&far_bench.received[0].packet), 1);

    far.transmit(&mut far_bench.cx(), &mut [outgoing(2), outgoing(3)]);
    port.receive(&mut bench.cx(), 64);
    assert!(bench.received.is_empty());
    bench.now = Ticks::from_ms(10);
    port.on_deadline(&mut bench.cx());
    assert_eq!(bench.received.iter().map(|r| number(&r.packet)).collect::<Vec<_>>(), [2, 3]);

    // Packets in flight to a face that ends are lost.
    far.transmit(&mut far_bench.cx(), &mut [outgoing(4)]);
    port.receive(&mut bench.cx(), 64);
    assert!(port.destroy_face(&mut bench.cx(), face));
    assert_eq!((port.inward.counters().lost, port.next_deadline()), (1, None));
}
