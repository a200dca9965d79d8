//! Routers on one medium, which have no other links: each hears what all say to each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use byname_routing::status::{HelloState, LinkStatus};
use byname_routing::{Action, Config, Event, Router, Validity};
use byname_trust::{Moment, Rights, Signer};
use byname_wire::{Data, FaceId, Interest, Name};

const UNIX_SECONDS: u64 = 1_700_000_000;
/// The face to all others, at each router.
const GROUP: FaceId = FaceId(300);
const DELAY_MS: u64 = 2;

fn router_name(node: usize) -> Name {
    format!("/net/r{node}").parse().expect("a name")
}

struct Medium {
    routers: Vec<Router>,
    now_ms: u64,
    /// Packets on their way: when they arrive, from whom.
    packets: VecDeque<(u64, usize, Vec<u8>)>,
    /// Routers whose packets get lost, both ways.
    deaf: BTreeSet<usize>,
}

impl Medium {
    fn new(nodes: usize, configure: impl Fn(&mut Config)) -> Self {
        let now = Moment { ms: 0, unix_ms: UNIX_SECONDS * 1000 };
        let router = |node: usize| {
            let mut config = Config::new("/net".parse().expect("a name"), router_name(node), UNIX_SECONDS - 100);
            config.seed = node as u64;
            configure(&mut config);
            Router::new(config, Signer::digest(), now).expect("good settings")
        };
        let routers = (0..nodes).map(router).collect();
        let mut medium = Medium { routers, now_ms: 0, packets: VecDeque::new(), deaf: BTreeSet::new() };
        (0..nodes).for_each(|node| medium.tell(node, Event::MulticastFace { face: GROUP }));
        medium
    }

    fn moment(&self) -> Moment {
        Moment { ms: self.now_ms, unix_ms: UNIX_SECONDS * 1000 + self.now_ms }
    }

    fn tell(&mut self, node: usize, event: Event<'_>) {
        let now = self.moment();
        self.routers[node].handle(event, now);
        self.carry_out(node);
    }

    fn carry_out(&mut self, node: usize) {
        while let Some(action) = self.routers[node].next_action() {
            match action {
                Action::SendInterest { wire, .. } | Action::SendData { wire } => {
                    self.packets.push_back((self.now_ms + DELAY_MS, node, wire));
                }
                Action::Validate { id, .. } => {
                    let (validity, now) = (Validity::Trusted(Rights::default()), self.moment());
                    self.routers[node].handle(Event::Validated { id, validity }, now);
                }
                _ => {}
            }
        }
    }

    fn deliver(&mut self, from: usize, wire: &[u8]) {
        for node in (0..self.routers.len()).filter(|node| *node != from) {
            if self.deaf.contains(&node) || self.deaf.contains(&from) {
                continue;
            }
            if Interest::decode(wire).is_ok() {
                self.tell(node, Event::Interest { wire, face: GROUP });
            } else {
                assert!(Data::decode(wire).is_ok());
                self.tell(node, Event::Data { wire });
            }
        }
    }

    fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        loop {
            let packet = self.packets.front().map_or(u64::MAX, |(at, ..)| *at);
            let wake = self.routers.iter().map(Router::wake_at_ms).min().unwrap_or(u64::MAX);
            let next = packet.min(wake).max(self.now_ms);
            if next > until_ms {
                break;
            }
            self.now_ms = next;
            if packet <= next {
                let (_, from, wire) = self.packets.pop_front().expect("it was there");
                self.deliver(from, &wire);
                continue;
            }
            let now = self.moment();
            for node in 0..self.routers.len() {
                if self.routers[node].wake_at_ms() <= now.ms {
                    self.routers[node].poll(now);
                    self.carry_out(node);
                }
            }
        }
        self.now_ms = until_ms;
    }

    /// The links of a router, by neighbour.
    fn links(&self, node: usize) -> BTreeMap<Name, LinkStatus> {
        let neighbours = self.routers[node].status().neighbours;
        let link = |of: byname_routing::status::NeighbourStatus| Some((of.router, of.links.into_iter().next()?));
        neighbours.into_iter().filter_map(link).collect()
    }

    fn are_all_used(&self) -> bool {
        (0..self.routers.len()).all(|node| {
            let links = self.links(node);
            links.len() == self.routers.len() - 1
                && links.values().all(|link| link.is_used && link.hello == HelloState::Up)
        })
    }
}

#[test]
fn a_neighbour_that_is_lost_takes_no_other_link_down() {
    for nodes in [3, 6] {
        let mut medium = Medium::new(nodes, |_| {});
        medium.run(4_000);
        assert!(medium.are_all_used(), "{nodes}: {:?}", medium.links(0));
        let last = nodes - 1;
        for for_ms in [500, 1_000, 3_000] {
            medium.deaf.insert(last);
            medium.run(for_ms);
            assert!(!medium.links(0)[&router_name(last)].is_used);
            medium.deaf.clear();
            medium.run(10_000);
        }
        medium.run(60_000);
        assert!(medium.are_all_used(), "{nodes}: {:?}", medium.links(0));
        for node in 0..last {
            for (router, link) in medium.links(node) {
                let expected = if router == router_name(last) { 3 } else { 0 };
                assert_eq!(link.downs, expected, "{nodes}: at r{node}, {router}");
            }
        }
    }
}

#[test]
fn routers_that_start_one_after_the_other_take_no_link_down() {
    let mut medium = Medium::new(4, |_| {});
    medium.deaf = (1..4).collect();
    for node in 1..4 {
        medium.run(3_000);
        medium.deaf.remove(&node);
    }
    medium.run(5_000);
    assert!(medium.are_all_used(), "{:?}", medium.links(0));
    let downs = (0..4).flat_map(|node| medium.links(node).into_values()).map(|link| link.downs);
    assert_eq!(downs.sum::<u64>(), 0);
}
