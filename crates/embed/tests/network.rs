//! Networks in virtual time: the same seed gives the same run, links are cut and heal, and what passes can be seen.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use byname_embed::{AppId, Consumer, FaceId, Faults, Forwarder, Network, NodeId, Observer, Outgoing, Producer, Ticks};
use byname_wire::Name;

fn names(count: usize) -> Vec<Name> {
    (0..count).map(|i| format!("/p/{i}").parse().expect("a name")).collect()
}

/// A consumer and a producer, with two routers between them.
fn line(seed: u64, faults: Faults) -> (Network, [NodeId; 2], [FaceId; 2], AppId) {
    let mut net = Network::new(seed);
    let builder = Forwarder::builder().pit_entries_max(500).cs_packets_max(50);
    let [near, far] = [builder.clone(), builder].map(|builder| net.add(builder).expect("memory"));
    let (up, down) = net.link(near, far, faults);
    net.forwarder(near).set_route(&"/p".parse().expect("a name"), &[(up, 0)]).expect("one route");
    let (_, face) = net.attach(far, Producer::new(|name| name.to_string().into_bytes()));
    net.forwarder(far).set_route(&"/p".parse().expect("a name"), &[(face, 0)]).expect("one route");
    let (consumer, _) = net.attach(near, Consumer::new(names(300), seed));
    (net, [near, far], [up, down], consumer)
}

/// A packet that a router sends: when, on which face, and its bytes.
type Sent = (Ticks, FaceId, Vec<u8>);

/// All packets that a router sends.
struct Tape(Rc<RefCell<Vec<Sent>>>);

impl Observer for Tape {
    fn leaves(&mut self, now: Ticks, sent: &Outgoing) {
        self.0.borrow_mut().push((now, sent.face, sent.packet.to_vec()));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let faults =
        Faults { loss: 0.1, duplicates: 0.1, corruption: 0.05, jitter: Duration::from_millis(20), ..Faults::NONE };
    let run = |seed| {
        let (mut net, [near, _], _, _) = line(seed, faults);
        let tape = Rc::new(RefCell::new(Vec::new()));
        net.observe(near, Tape(tape.clone()));
        net.run_for(Duration::from_secs(60));
        tape.take()
    };
    let first = run(1);
    assert!(first.len() > 600);
    assert!(first == run(1), "two runs with one seed differ");
    assert!(first != run(2), "two seeds give one run");
}

#[test]
fn a_link_that_was_cut_heals() {
    let (mut net, [near, far], [up, down], consumer) = line(3, Faults::NONE);
    net.run_for(Duration::from_millis(100));
    let before = net.app::<Consumer>(consumer).fetched().names;
    assert!((1..300).contains(&before), "{before}");
    assert!(net.set_faults(near, up, Faults::CUT));
    assert!(net.set_faults(far, down, Faults::CUT));
    assert!(!net.set_faults(near, FaceId(9), Faults::CUT), "there is no such face");
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.app::<Consumer>(consumer).fetched().names, before, "nothing passes");
    net.set_faults(near, up, Faults::NONE);
    net.set_faults(far, down, Faults::NONE);
    net.settle();
    assert_eq!(net.app::<Consumer>(consumer).fetched().names, 300);
}

#[test]
fn time_passes_when_nothing_happens() {
    let mut net = Network::new(1);
    let start = net.now();
    net.run_for(Duration::from_secs(3600));
    assert_eq!(net.now().since(start), Duration::from_secs(3600));
    net.settle();
}
