//! A network of routers in one thread, in virtual time. Each router has a small forwarder: a FIB, pending Interests, a
//! content store, and links that delay and lose packets. Equal seeds give equal runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

use byname_routing::trees::Place;
use byname_routing::{Action, Config, Event, NeighbourSettings, Note, Router, Validity};
use byname_trust::{Moment, Signer};
use byname_wire::interest::Interest;
use byname_wire::{Component, Data, FaceId, Name, TreeId, digest};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub const SECOND: u64 = 1_000;
/// Seconds since the Unix epoch when a network begins.
const UNIX_START: u64 = 1_700_000_000;
/// How long an Interest is pending.
const PENDING_MS: u64 = 4_000;
const STORE_MAX: usize = 256;
/// Most pending Interests, and nonces of one generation.
const PENDING_MAX: usize = 2_000;

pub type Packet = Rc<[u8]>;

/// One end of a link.
#[derive(Debug, Clone, Copy)]
struct End {
    node: usize,
    link: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub ends: [usize; 2],
    pub delay_ms: u64,
    pub loss: f64,
    pub is_up: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive(usize, FaceId, Packet),
    Wake(usize),
}

/// A route's costs by face. `None` is the router's own face.
pub type Routes = BTreeMap<Option<FaceId>, u64>;

pub struct Node {
    pub router: Router,
    pub name: Name,
    pub fib: BTreeMap<Name, Routes>,
    /// Prefixes that applications of this node serve.
    pub served: BTreeSet<Name>,
    pub suspended: BTreeSet<FaceId>,
    /// Its place on each tree.
    pub places: BTreeMap<TreeId, Place>,
    pub notes: Vec<(u64, Note)>,
    /// Routers that it does not believe any more.
    pub revoked: BTreeSet<Name>,
    pub is_running: bool,
    /// Until then nothing runs on this node.
    pub stands_until_ms: u64,
    /// Until then its forwarder does not run. Packets wait, and the routing process hears nothing.
    pub deaf_until_ms: u64,
    ends: Vec<End>,
    multicast: BTreeSet<Name>,
    pending: HashMap<Name, (u64, BTreeSet<Option<FaceId>>)>,
    /// Nonces, of this generation and the one before.
    seen: [HashSet<(Name, u32)>; 2],
    store: HashMap<Name, (u64, Packet)>,
    order: std::collections::VecDeque<Name>,
    wake_ms: u64,
    /// What the node's clocks are ahead of the network's.
    pub ahead_ms: i64,
}

pub struct Net {
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub now_ms: u64,
    pub packets: u64,
    /// When a route of any node last came, went or changed.
    pub routes_changed_ms: u64,
    queue: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    random: StdRng,
    configure: Box<dyn Fn(&mut Config)>,
}

/// The face of a node for a link.
pub fn face(link: usize) -> FaceId {
    FaceId(1_000 + link as u64)
}

fn uri(link: usize) -> String {
    format!("sim://link{link}")
}

pub fn network() -> Name {
    "/net".parse().unwrap()
}

pub fn router_name(node: usize) -> Name {
    network().join(Component::generic(format!("r{node:04}").as_bytes()))
}

impl Net {
    /// Routers without links. `configure` changes their settings.
    pub fn new(nodes: usize, seed: u64, configure: impl Fn(&mut Config) + 'static) -> Self {
        let mut net = Net {
            nodes: Vec::new(),
            links: Vec::new(),
            now_ms: 0,
            packets: 0,
            routes_changed_ms: 0,
            queue: BinaryHeap::new(),
            count: 0,
            random: StdRng::seed_from_u64(seed),
            configure: Box::new(configure),
        };
        for node in 0..nodes {
            let router = net.router(node, UNIX_START);
            net.nodes.push(Node::new(router, router_name(node)));
        }
        for node in 0..nodes {
            net.carry_out(node);
        }
        net
    }

    fn router(&mut self, node: usize, boot: u64) -> Router {
        let mut config = Config::new(network(), router_name(node), boot);
        config.seed = self.random.random();
        (self.configure)(&mut config);
        Router::new(config, Signer::digest(), self.moment()).unwrap()
    }

    pub fn moment(&self) -> Moment {
        Moment { ms: 1_000_000 + self.now_ms, unix_ms: UNIX_START * 1000 + self.now_ms }
    }

    fn moment_of(&self, node: usize) -> Moment {
        let moment = self.moment();
        let ahead = self.nodes[node].ahead_ms;
        Moment { ms: moment.ms.saturating_add_signed(ahead), unix_ms: moment.unix_ms.saturating_add_signed(ahead) }
    }

    /// Connects two routers. Both configure each other, or only the first.
    pub fn connect(&mut self, a: usize, b: usize, both: bool) -> usize {
        let link = self.links.len();
        self.links.push(Link { ends: [a, b], delay_ms: 2, loss: 0.0, is_up: true });
        for (node, configures) in [(a, true), (b, both)] {
            self.nodes[node].ends.push(End { node: if node == a { b } else { a }, link });
            if configures {
                let settings = NeighbourSettings { uri: uri(link), cost: 1, mtu: None };
                self.tell(node, Event::NeighbourConfigured(settings));
            }
        }
        link
    }

    /// Gives a router an event.
    pub fn tell(&mut self, node: usize, event: Event<'_>) {
        if !self.nodes[node].is_running {
            return;
        }
        let moment = self.moment_of(node);
        self.nodes[node].router.handle(event, moment);
        self.carry_out(node);
    }

    pub fn announce(&mut self, node: usize, prefix: &str) {
        let prefix: Name = prefix.parse().unwrap();
        self.nodes[node].served.insert(prefix.clone());
        self.tell(node, Event::Announced { prefix, face: FaceId(500), cost: 0 });
    }

    pub fn withdraw(&mut self, node: usize, prefix: &str) {
        let prefix: Name = prefix.parse().unwrap();
        self.nodes[node].served.remove(&prefix);
        self.tell(node, Event::Withdrawn { prefix, face: FaceId(500) });
    }

    pub fn set_up(&mut self, link: usize, is_up: bool) {
        self.links[link].is_up = is_up;
    }

    /// The routing process ends. The forwarder keeps its routes.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].is_running = false;
        for routes in self.nodes[node].fib.values_mut() {
            routes.remove(&None);
        }
        self.nodes[node].served.clear();
    }

    /// The routing process starts again. It is told of the routes that the forwarder kept.
    pub fn start(&mut self, node: usize) {
        let boot = UNIX_START + self.now_ms / 1000 + 1;
        let router = self.router(node, boot);
        let state = &mut self.nodes[node];
        (state.router, state.is_running, state.wake_ms) = (router, true, u64::MAX);
        let links: Vec<usize> = state.ends.iter().map(|end| end.link).collect();
        let installed: Vec<(Name, FaceId, u64)> = state
            .fib
            .iter()
            .flat_map(|(prefix, routes)| {
                routes.iter().filter_map(|(face, cost)| face.map(|face| (prefix.clone(), face, *cost)))
            })
            .collect();
        for (prefix, face, cost) in installed {
            self.tell(node, Event::Installed { prefix, face, cost });
        }
        for link in links {
            let settings = NeighbourSettings { uri: uri(link), cost: 1, mtu: None };
            self.tell(node, Event::NeighbourConfigured(settings));
        }
        self.carry_out(node);
    }

    fn push(&mut self, at_ms: u64, what: What) {
        self.count += 1;
        self.queue.push(Reverse((at_ms, self.count, what)));
    }

    /// Lets time pass.
    pub fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= until_ms) {
            let Some(Reverse((at, _, what))) = self.queue.pop() else { break };
            self.now_ms = self.now_ms.max(at);
            let node = match &what {
                What::Arrive(node, ..) | What::Wake(node) => *node,
            };
            let deaf_until_ms = if matches!(what, What::Arrive(..)) { self.nodes[node].deaf_until_ms } else { 0 };
            let stands_until_ms = self.nodes[node].stands_until_ms.max(deaf_until_ms);
            if stands_until_ms > self.now_ms {
                self.push(stands_until_ms, what);
                continue;
            }
            match what {
                What::Arrive(node, face, packet) => self.arrive(node, face, &packet),
                What::Wake(node) => self.wake(node, at),
            }
        }
        self.now_ms = until_ms;
    }

    fn wake(&mut self, node: usize, at: u64) {
        let moment = self.moment_of(node);
        let state = &mut self.nodes[node];
        if state.wake_ms != at && state.stands_until_ms != at || !state.is_running {
            return;
        }
        state.wake_ms = u64::MAX;
        state.router.poll(moment);
        self.carry_out(node);
    }

    fn arrive(&mut self, node: usize, face: FaceId, packet: &Packet) {
        match packet.first() {
            Some(5) => self.forward_interest(node, Some(face), packet, None),
            _ => self.forward_data(node, packet),
        }
    }

    /// Does what a router wants done.
    fn carry_out(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].router.next_action() {
            self.act(node, action);
        }
        let ahead = self.nodes[node].ahead_ms;
        let wake = self.nodes[node].router.wake_at_ms().saturating_add_signed(-ahead).saturating_sub(1_000_000);
        let wake = wake.max(self.now_ms);
        if wake < self.nodes[node].wake_ms {
            self.nodes[node].wake_ms = wake;
            self.push(wake, What::Wake(node));
        }
    }

    fn act(&mut self, node: usize, action: Action) {
        let state = &mut self.nodes[node];
        match action {
            Action::SendInterest { wire, face } => self.forward_interest(node, None, &wire.into(), face),
            Action::SendData { wire } => self.forward_data(node, &wire.into()),
            Action::Validate { id, wire, .. } => {
                let data = Data::decode(&wire).unwrap();
                let is_revoked = |router: &Name| {
                    let last = router.as_ref().component(-1).unwrap();
                    data.name.components().any(|component| component == last)
                };
                let is_right = data.signature.value == digest::sha256(&data.signature.signed)
                    && !state.revoked.iter().any(is_revoked);
                let validity = if is_right { Validity::Trusted } else { Validity::Refused("forged".to_owned()) };
                let moment = self.moment_of(node);
                self.nodes[node].router.handle(Event::Validated { id, validity }, moment);
            }
            Action::Register { prefix, face, cost } => {
                assert!(cost < 0xffff_ffff);
                if state.fib.entry(prefix).or_default().insert(face, cost) != Some(cost) {
                    self.routes_changed_ms = self.now_ms;
                }
            }
            Action::Unregister { prefix, face } => {
                if let Some(routes) = state.fib.get_mut(&prefix) {
                    if routes.remove(&face).is_some() {
                        self.routes_changed_ms = self.now_ms;
                    }
                    if routes.is_empty() {
                        state.fib.remove(&prefix);
                    }
                }
            }
            Action::SetMulticastStrategy { prefix } => drop(state.multicast.insert(prefix)),
            Action::CreateFace { uri, .. } => {
                let link: usize = uri.strip_prefix("sim://link").and_then(|n| n.parse().ok()).unwrap();
                let moment = self.moment_of(node);
                let event = Event::FaceCreated { uri: &uri, face: face(link), is_new: true };
                self.nodes[node].router.handle(event, moment);
            }
            Action::DestroyFace { .. } => {}
            Action::SetPlace(place) => drop(state.places.insert(place.tree, *place)),
            Action::Suspend { face } => drop(state.suspended.insert(face)),
            Action::Resume { face } => drop(state.suspended.remove(&face)),
            Action::Note(note) => {
                let now_ms = self.now_ms;
                state.notes.push((now_ms, note));
            }
        }
    }

    fn transmit(&mut self, node: usize, out: FaceId, packet: &Packet) {
        let Some(end) = self.nodes[node].ends.iter().find(|end| face(end.link) == out).copied() else { return };
        let link = self.links[end.link];
        self.packets += 1;
        if !link.is_up || (link.loss > 0.0 && self.random.random::<f64>() < link.loss) {
            return;
        }
        self.push(self.now_ms + link.delay_ms, What::Arrive(end.node, out, Rc::clone(packet)));
    }

    fn forward_interest(&mut self, node: usize, from: Option<FaceId>, packet: &Packet, next: Option<FaceId>) {
        let Ok(interest) = Interest::decode(packet) else {
            // Only an attacker sends such packets. The router must bear them, too.
            if let Some(face) = from {
                self.tell(node, Event::Interest { wire: packet, face });
            }
            return;
        };
        let name = interest.name.to_name();
        let state = &mut self.nodes[node];
        let nonce = (name.clone(), interest.nonce.unwrap_or(0));
        if state.seen[1].contains(&nonce) || !state.seen[0].insert(nonce) {
            return;
        }
        if state.seen[0].len() > PENDING_MAX {
            state.seen.swap(0, 1);
            state.seen[0].clear();
        }
        if let Some(data) = state.stored(&name, &interest, self.now_ms) {
            return match from {
                Some(face) => self.transmit(node, face, &data),
                None => self.tell(node, Event::Data { wire: &data }),
            };
        }
        let now_ms = self.now_ms;
        let (until, downstream) = state.pending.entry(name.clone()).or_insert((0, BTreeSet::new()));
        if *until < now_ms {
            downstream.clear();
        }
        *until = now_ms + PENDING_MS;
        downstream.insert(from);
        if state.pending.len() > PENDING_MAX {
            state.pending.retain(|_, (until, _)| *until >= now_ms);
        }
        // Two hops: out of a forwarder, and into the next.
        let is_local =
            interest.hop_limit.is_some() || interest.name.component(0) == Some(Component::generic(b"localhop"));
        let mut outs = match next {
            Some(face) => vec![Some(face)],
            None => state.next_hops(&name, from),
        };
        // What only neighbours may hear goes no further.
        outs.retain(|out| !(is_local && from.is_some() && out.is_some()));
        if outs.is_empty() && from.is_none() {
            self.tell(node, Event::Nack { name: name.as_ref() });
        }
        for out in outs {
            match (out, from) {
                (Some(face), _) => self.transmit(node, face, packet),
                (None, Some(face)) => self.tell(node, Event::Interest { wire: packet, face }),
                (None, None) => {}
            }
        }
    }

    fn forward_data(&mut self, node: usize, packet: &Packet) {
        let Ok(data) = Data::decode(packet) else { return };
        let state = &mut self.nodes[node];
        let mut downstream = BTreeSet::new();
        for depth in 0..=data.name.len() {
            let prefix = data.name.prefix(depth).to_name();
            if let Some((until, faces)) = state.pending.remove(&prefix)
                && until >= self.now_ms
            {
                downstream.extend(faces);
            }
        }
        if downstream.is_empty() {
            return;
        }
        state.keep(&data, self.now_ms + data.freshness_ms, packet);
        for face in downstream {
            match face {
                Some(face) => self.transmit(node, face, packet),
                None => self.tell(node, Event::Data { wire: packet }),
            }
        }
    }
}

impl Node {
    fn new(router: Router, name: Name) -> Self {
        Node {
            router,
            name,
            fib: BTreeMap::new(),
            served: BTreeSet::new(),
            suspended: BTreeSet::new(),
            places: BTreeMap::new(),
            notes: Vec::new(),
            revoked: BTreeSet::new(),
            is_running: true,
            stands_until_ms: 0,
            deaf_until_ms: 0,
            ends: Vec::new(),
            multicast: BTreeSet::new(),
            pending: HashMap::new(),
            seen: [HashSet::new(), HashSet::new()],
            store: HashMap::new(),
            order: std::collections::VecDeque::new(),
            wake_ms: u64::MAX,
            ahead_ms: 0,
        }
    }

    /// The node at the other end of a face.
    pub fn peer(&self, out: FaceId) -> Option<usize> {
        self.ends.iter().find(|end| face(end.link) == out).map(|end| end.node)
    }

    /// Where it would send an Interest that came from a face.
    pub fn next_hops(&self, name: &Name, from: Option<FaceId>) -> Vec<Option<FaceId>> {
        let prefixes = (0..=name.as_ref().len()).rev().map(|depth| name.as_ref().prefix(depth).to_name());
        let Some(prefix) = prefixes.into_iter().find(|prefix| self.fib.contains_key(prefix)) else {
            return Vec::new();
        };
        let is_suspended = |face: &Option<FaceId>| face.is_some_and(|face| self.suspended.contains(&face));
        // A suspended face is used only where there is no other.
        let has_others = self.fib[&prefix].keys().any(|face| !is_suspended(face));
        let usable = |face: &Option<FaceId>| *face != from && !(has_others && is_suspended(face));
        let routes = self.fib[&prefix].iter().filter(|(face, _)| usable(face));
        if self.multicast.iter().any(|multicast| multicast.as_ref().is_prefix_of(&name.as_ref())) {
            return routes.map(|(face, _)| *face).collect();
        }
        routes.min_by_key(|(face, cost)| (**cost, **face)).map(|(face, _)| *face).into_iter().collect()
    }

    fn stored(&self, name: &Name, interest: &Interest<'_>, now_ms: u64) -> Option<Packet> {
        let (fresh_until, packet) = self.store.get(name)?;
        (!interest.must_be_fresh || *fresh_until > now_ms).then(|| Rc::clone(packet))
    }

    fn keep(&mut self, data: &Data<'_>, fresh_until: u64, packet: &Packet) {
        // Metadata is asked for by prefix.
        let metadata = data.name.component(-3).is_some_and(|c| c.value == b"metadata");
        let name = if metadata { data.name.prefix(data.name.len() - 2) } else { data.name }.to_name();
        if self.store.insert(name.clone(), (fresh_until, Rc::clone(packet))).is_none() {
            self.order.push_back(name);
        }
        if self.order.len() > STORE_MAX {
            self.order.pop_front().map(|oldest| self.store.remove(&oldest));
        }
    }
}
