//! The network of byname-embed, with a ledger for each forwarder.

use std::cell::{Ref, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use byname_embed::{Forwarder, NodeId, Observer};
use byname_forward::learning::Taught;
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, Outgoing, Received, Ticks};
use byname_wire::{Name, NameRef};

use crate::ledger::Ledger;

pub struct Network {
    net: byname_embed::Network,
    ledgers: Vec<Rc<RefCell<Ledger>>>,
}

impl Network {
    pub fn new(seed: u64) -> Self {
        Network { net: byname_embed::Network::new(seed), ledgers: Vec::new() }
    }

    /// Adds a router.
    pub fn router(&mut self, config: WorkerConfig) -> NodeId {
        let node = self.net.add(Forwarder::builder().config(config.clone())).expect("memory for small tables");
        let ledger = Rc::new(RefCell::new(Ledger::new(config)));
        self.net.observe(node, Control(ledger.clone()));
        self.ledgers.push(ledger);
        node
    }

    /// Sets the route of a prefix, with the cheapest face first. Without faces, removes it.
    pub fn route(&mut self, node: NodeId, prefix: &str, faces: &[FaceId]) {
        route(self.net.forwarder(node), prefix, faces);
    }

    /// Lets a router send an announcement of this prefix along with Data below it.
    pub fn announce(&mut self, node: NodeId, prefix: &str) {
        announce(self.net.forwarder(node), prefix);
    }

    pub fn strategy(&mut self, node: NodeId, prefix: &str, strategy: &str) {
        let prefix = prefix.parse().expect("a literal name");
        self.net.forwarder(node).set_strategy(&prefix, strategy).expect("a known strategy");
    }

    /// Runs until no event is left, then checks every router's ledger.
    pub fn settle(&mut self) {
        self.net.settle();
        let now = self.net.now();
        for (number, ledger) in self.ledgers.iter().enumerate() {
            ledger.borrow().check_settled(now, self.net.forwarder(NodeId(number)).worker());
        }
    }

    pub fn ledger(&self, node: NodeId) -> Ref<'_, Ledger> {
        self.ledgers[node.0].borrow()
    }
}

impl Deref for Network {
    type Target = byname_embed::Network;
    fn deref(&self) -> &byname_embed::Network {
        &self.net
    }
}

impl DerefMut for Network {
    fn deref_mut(&mut self) -> &mut byname_embed::Network {
        &mut self.net
    }
}

fn route(forwarder: &mut Forwarder, prefix: &str, faces: &[FaceId]) {
    let prefix = prefix.parse().expect("a literal name");
    let nexthops: Vec<_> = faces.iter().copied().zip(0..).collect();
    forwarder.set_route(&prefix, &nexthops).expect("few routes");
}

fn announce(forwarder: &mut Forwarder, prefix: &str) {
    let prefix: Name = prefix.parse().expect("a literal name");
    let value = prefix.value().into();
    forwarder.announce([(prefix, value)]);
}

/// The ledger of a router, which is also its control side: it adds routes that were announced and removes routes that
/// were refused. An announcement is the encoded prefix, and every announcement is trusted.
struct Control(Rc<RefCell<Ledger>>);

impl Observer for Control {
    fn enters(&mut self, now: Ticks, received: &mut Received) {
        self.0.borrow_mut().enters(now, received);
    }

    fn leaves(&mut self, now: Ticks, sent: &Outgoing) {
        self.0.borrow_mut().leaves(now, sent);
    }

    fn polled(&mut self, _: Ticks, forwarder: &mut Forwarder) {
        self.0.borrow().check_bounds(forwarder.worker());
        let notices: Vec<_> = forwarder.notices().collect();
        for notice in notices {
            let prefix = match (notice.taught, &notice.announcement) {
                (Taught::Announced, Some(announcement)) => {
                    Name::from_components(NameRef::new(announcement).expect("a prefix").components())
                }
                (Taught::Refused, _) => notice.name.as_ref().prefix(1).to_name(),
                _ => continue,
            };
            assert!(prefix.as_ref().is_prefix_of(&notice.name.as_ref()));
            let is_refused = notice.taught == Taught::Refused;
            route(forwarder, &prefix.to_string(), if is_refused { &[] } else { std::slice::from_ref(&notice.face) });
            if !is_refused {
                announce(forwarder, &prefix.to_string());
            }
        }
    }
}
