//! Workers joined by links with faults, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::learning::{Notice, Taught};
use byname_forward::strategy::StrategyChoice;
use byname_forward::tables::{Announcements, Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_lookup::prefix::LongestFirst;
use byname_lookup::{Change, Control, EntryId, Update};
use byname_wire::{Name, NameHashKey, NameRef};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::apps::App;
use crate::ledger::Ledger;

/// Faults of a link, the same in both directions.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub loss: f64,
    pub duplicates: f64,
    /// Probability that one bit of the packet flips.
    pub corruption: f64,
    pub delay_ms: u64,
    /// Maximum of the random extra delay, which lets packets overtake each other.
    pub jitter_ms: u64,
}

impl Faults {
    pub const NONE: Faults = Faults { loss: 0.0, duplicates: 0.0, corruption: 0.0, delay_ms: 5, jitter_ms: 0 };
}

#[derive(Clone, Copy)]
enum Peer {
    Node(usize, FaceId),
    App(usize),
    /// All other members of a shared medium.
    Medium(usize),
}

struct Node {
    worker: Worker,
    control: LongestFirst,
    tables: Arc<Tables>,
    groups: u32,
    faces: HashMap<FaceId, (Peer, Faults)>,
    ledger: Ledger,
    /// The worker's notices about routes that Data taught.
    notices: Receiver<Notice>,
    /// The time of the timer event that is already scheduled.
    timer: Option<Ticks>,
}

enum Event {
    ToNode(usize, Received),
    ToApp(usize, LinkFields, Packet),
    NodeTimer(usize),
    AppTimer(usize),
}

/// The network, its clock and its source of randomness.
pub struct Network {
    pub now: Ticks,
    pub random: SmallRng,
    nodes: Vec<Node>,
    apps: Vec<(Box<dyn App>, usize, FaceId)>,
    /// The members of each shared medium.
    media: Vec<Vec<(usize, FaceId)>>,
    /// Keys of `events`, ordered by time and then by number.
    order: BinaryHeap<Reverse<(Ticks, u64)>>,
    events: HashMap<u64, Event>,
    event_count: u64,
}

impl Network {
    pub fn new(seed: u64) -> Self {
        Network {
            now: Ticks::from_ms(1_000_000),
            random: SmallRng::seed_from_u64(seed),
            nodes: Vec::new(),
            apps: Vec::new(),
            media: Vec::new(),
            order: BinaryHeap::new(),
            events: HashMap::new(),
            event_count: 0,
        }
    }

    /// Adds a router and returns its number.
    pub fn router(&mut self, config: WorkerConfig) -> usize {
        let key = NameHashKey::new([self.random.random(), self.random.random()]);
        let control = LongestFirst::new(key, 1000);
        let tables = Arc::new(Tables::new(control.query()));
        let mut worker = Worker::new(config.clone(), key, tables.clone(), self.random.random());
        let (tell, notices) = channel();
        worker.tell_routes(Box::new(move |notice| tell.send(notice).is_ok()));
        let ledger = Ledger::new(config);
        let faces = HashMap::new();
        self.nodes.push(Node { worker, control, tables, groups: 0, faces, ledger, notices, timer: None });
        self.nodes.len() - 1
    }

    /// Joins two routers and returns the face of each.
    pub fn link(&mut self, a: usize, b: usize, faults: Faults) -> (FaceId, FaceId) {
        let (face_a, face_b) = (self.next_face(a), self.next_face(b));
        self.face_up(a, face_a, Scope::NonLocal, Peer::Node(b, face_b), faults);
        self.face_up(b, face_b, Scope::NonLocal, Peer::Node(a, face_a), faults);
        (face_a, face_b)
    }

    /// Joins routers by a medium on which all hear each other, and returns their faces.
    pub fn medium(&mut self, nodes: &[usize], faults: Faults) -> Vec<FaceId> {
        let faces: Vec<FaceId> = nodes.iter().map(|&node| self.next_face(node)).collect();
        for (&node, &face) in nodes.iter().zip(&faces) {
            self.nodes[node].worker.face_up(face, Scope::NonLocal, LinkType::MultiAccess);
            self.nodes[node].faces.insert(face, (Peer::Medium(self.media.len()), faults));
        }
        self.media.push(nodes.iter().copied().zip(faces.iter().copied()).collect());
        faces
    }

    /// Attaches an application by a link without faults. Returns its number and its face.
    pub fn app(&mut self, node: usize, app: impl App + 'static) -> (usize, FaceId) {
        let face = self.next_face(node);
        self.apps.push((Box::new(app), node, face));
        let number = self.apps.len() - 1;
        let faults = Faults { delay_ms: 0, ..Faults::NONE };
        self.face_up(node, face, Scope::Local, Peer::App(number), faults);
        self.schedule(self.now, Event::AppTimer(number));
        (number, face)
    }

    fn next_face(&self, node: usize) -> FaceId {
        FaceId(256 + self.nodes[node].faces.len() as u64)
    }

    fn face_up(&mut self, node: usize, face: FaceId, scope: Scope, peer: Peer, faults: Faults) {
        self.nodes[node].worker.face_up(face, scope, LinkType::PointToPoint);
        self.nodes[node].faces.insert(face, (peer, faults));
    }

    /// Removes a face. Packets on their way to it are lost.
    pub fn face_down(&mut self, node: usize, face: FaceId) {
        self.nodes[node].worker.face_down(face);
    }

    /// Sets the route of a prefix. Without faces, removes it.
    pub fn route(&mut self, node: usize, prefix: &str, faces: &[FaceId]) {
        let node = &mut self.nodes[node];
        let prefix: Name = prefix.parse().expect("a literal name");
        let change = if faces.is_empty() {
            Change::Remove(prefix)
        } else {
            let nexthops = faces.iter().zip(0..).map(|(&face, cost)| Nexthop { face, cost }).collect();
            let entry = EntryId(node.groups);
            node.groups += 1;
            node.tables.set_group(entry, Some(NexthopGroup { nexthops }));
            Change::Set(prefix, entry)
        };
        if let Update::Replace(fib) = node.control.apply(&[change]).expect("few routes") {
            node.tables.replace_fib(fib);
        }
        assert!(node.tables.grace().passed(), "the worker is between two bursts");
        node.control.reclaim();
    }

    /// Lets a router send an announcement of this prefix along with Data below it.
    pub fn announce(&mut self, node: usize, prefix: &str) {
        let prefix: Name = prefix.parse().expect("a literal name");
        let announcements = Announcements::new([(prefix.clone(), prefix.value().into())]);
        self.nodes[node].tables.replace_announcements(announcements);
    }

    /// Acts as the control side: it adds routes that were announced and removes routes that were refused. In this
    /// network, an announcement is the encoded prefix, and every announcement is trusted.
    fn heed_notices(&mut self, node: usize) {
        while let Ok(notice) = self.nodes[node].notices.try_recv() {
            let prefix = match (notice.taught, &notice.announcement) {
                (Taught::Announced, Some(announcement)) => {
                    Name::from_components(NameRef::new(announcement).expect("a prefix").components())
                }
                (Taught::Refused, _) => notice.name.as_ref().prefix(1).to_name(),
                _ => continue,
            };
            assert!(prefix.as_ref().is_prefix_of(&notice.name.as_ref()));
            let faces = [notice.face];
            self.route(node, &prefix.to_string(), if notice.taught == Taught::Refused { &[] } else { &faces });
            if notice.taught == Taught::Announced {
                self.announce(node, &prefix.to_string());
            }
        }
    }

    pub fn strategy(&mut self, node: usize, prefix: &str, strategy: &str) {
        let name: Name = format!("/localhost/nfd/strategy/{strategy}").parse().expect("a literal name");
        let strategy = byname_forward::strategy::instance_name(name.as_ref()).expect("a known strategy");
        let prefix = prefix.parse().expect("a literal name");
        self.nodes[node].worker.set_strategy_choices(&[StrategyChoice { prefix, strategy }]);
    }

    /// Runs all events that are due within `time`.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(&Reverse((at, _))) = self.order.peek()
            && at <= end
        {
            self.step();
        }
        self.now = end;
    }

    /// Runs until no event is left, then checks every router's ledger.
    pub fn settle(&mut self) {
        while !self.order.is_empty() {
            self.step();
        }
        for node in &self.nodes {
            node.ledger.check_settled(self.now, &node.worker);
        }
    }

    pub fn ledger(&self, node: usize) -> &Ledger {
        &self.nodes[node].ledger
    }

    pub fn worker(&self, node: usize) -> &Worker {
        &self.nodes[node].worker
    }

    pub fn stop(&mut self, app: usize) {
        self.apps[app].0.stop();
    }

    pub fn app_as<T: 'static>(&self, app: usize) -> &T {
        self.apps[app].0.as_any().downcast_ref().expect("the kind of application that was attached")
    }

    fn schedule(&mut self, at: Ticks, event: Event) {
        self.order.push(Reverse((at, self.event_count)));
        self.events.insert(self.event_count, event);
        self.event_count += 1;
    }

    fn pop(&mut self) -> Option<Event> {
        let Reverse((at, number)) = self.order.pop()?;
        assert!(at >= self.now);
        self.now = at;
        self.events.remove(&number)
    }

    fn step(&mut self) {
        match self.pop() {
            Some(Event::ToNode(node, received)) => {
                let mut input = vec![received];
                self.take_more_for(node, &mut input);
                self.poll(node, input);
            }
            Some(Event::NodeTimer(node)) => {
                self.nodes[node].timer = None;
                self.poll(node, Vec::new());
            }
            Some(Event::ToApp(app, fields, packet)) => {
                let mut sent = Vec::new();
                self.apps[app].0.receive(self.now, &fields, &packet, &mut sent);
                self.send_from_app(app, sent);
            }
            Some(Event::AppTimer(app)) => {
                let mut sent = Vec::new();
                let next = self.apps[app].0.tick(self.now, &mut sent);
                if let Some(at) = next {
                    assert!(at > self.now);
                    self.schedule(at, Event::AppTimer(app));
                }
                self.send_from_app(app, sent);
            }
            None => {}
        }
    }

    /// Packets that arrive at the same moment form one burst.
    fn take_more_for(&mut self, node: usize, input: &mut Vec<Received>) {
        while let Some(&Reverse((at, number))) = self.order.peek() {
            if at != self.now || !matches!(&self.events[&number], Event::ToNode(n, _) if *n == node) {
                return;
            }
            self.order.pop();
            if let Some(Event::ToNode(_, received)) = self.events.remove(&number) {
                input.push(received);
            }
        }
    }

    fn poll(&mut self, number: usize, mut input: Vec<Received>) {
        let node = &mut self.nodes[number];
        for received in &mut input {
            node.ledger.enters(self.now, received);
        }
        let mut output = Vec::new();
        node.worker.poll(self.now, &mut input, &mut output);
        assert!(input.is_empty(), "poll drains its input");
        for sent in &output {
            node.ledger.leaves(self.now, sent);
        }
        node.ledger.check_bounds(&node.worker);
        if let Some(deadline) = node.worker.next_deadline() {
            let at = deadline.max(self.now + Duration::from_nanos(1));
            if node.timer.is_none_or(|due| at < due) {
                node.timer = Some(at);
                self.schedule(at, Event::NodeTimer(number));
            }
        }
        for sent in output {
            self.transmit(number, sent);
        }
        self.heed_notices(number);
    }

    fn transmit(&mut self, node: usize, sent: Outgoing) {
        let (peer, faults) = self.nodes[node].faces[&sent.face];
        // A link transports only the fields that the link protocol carries.
        let fields = LinkFields {
            pit_token: sent.fields.pit_token,
            nack: sent.fields.nack,
            congestion_mark: sent.fields.congestion_mark,
            non_discovery: sent.fields.non_discovery,
            prefix_announcement: sent.fields.prefix_announcement,
            ..Default::default()
        };
        let Peer::Medium(medium) = peer else { return self.carry(peer, faults, fields, sent.packet) };
        for (other, face) in self.media[medium].clone() {
            if other != node {
                self.carry(Peer::Node(other, face), faults, fields.clone(), sent.packet.clone());
            }
        }
    }

    fn send_from_app(&mut self, app: usize, sent: Vec<(LinkFields, Packet)>) {
        let (node, face) = (self.apps[app].1, self.apps[app].2);
        for (fields, packet) in sent {
            self.carry(Peer::Node(node, face), Faults { delay_ms: 0, ..Faults::NONE }, fields, packet);
        }
    }

    fn carry(&mut self, peer: Peer, faults: Faults, fields: LinkFields, packet: Packet) {
        if self.random.random_bool(faults.loss) {
            return;
        }
        let copies = if self.random.random_bool(faults.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            let mut packet = Packet::copy_from(&packet);
            if self.random.random_bool(faults.corruption) {
                let bit = self.random.random_range(0..packet.len() * 8);
                packet.unshared_mut().expect("a copy of our own")[bit / 8] ^= 1 << (bit % 8);
            }
            let jitter_us =
                if faults.jitter_ms == 0 { 0 } else { self.random.random_range(0..faults.jitter_ms * 1000) };
            let at = self.now + Duration::from_millis(faults.delay_ms) + Duration::from_micros(jitter_us);
            let event = match peer {
                Peer::Node(node, face) => Event::ToNode(node, Received { face, fields: fields.clone(), packet }),
                Peer::App(app) => Event::ToApp(app, fields.clone(), packet),
                Peer::Medium(_) => unreachable!("`transmit` goes through its members"),
            };
            self.schedule(at, event);
        }
    }
}
