//! Forwarders joined by links with faults, in virtual time.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::apps::{App, Sent};
use crate::forwarder::{Builder, Forwarder, StartError, check_packet};

/// The time at which a network begins. It is not zero, so that times before it exist.
const BEGINNING: Ticks = Ticks::from_ms(1_000_000);

/// What happens to packets on a link or medium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Probability that a packet is lost, 0 to 1. With 1, the link is cut.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplicates: f64,
    /// Probability that one bit of a packet flips. What is then no network packet is lost.
    pub corruption: f64,
    /// Time that every packet needs.
    pub delay: Duration,
    /// Maximum of the random extra delay, which lets packets overtake each other.
    pub jitter: Duration,
}

impl Faults {
    /// A link that delivers every packet once, after 5 ms.
    pub const NONE: Faults =
        Faults { loss: 0.0, duplicates: 0.0, corruption: 0.0, delay: Duration::from_millis(5), jitter: Duration::ZERO };
    /// A link that delivers nothing.
    pub const CUT: Faults = Faults { loss: 1.0, ..Faults::NONE };
    /// Between a router and its application: no time passes.
    const APP: Faults = Faults { delay: Duration::ZERO, ..Faults::NONE };
}

/// A forwarder of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// An application of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(pub usize);

/// Sees what passes through one forwarder of a network.
pub trait Observer {
    /// A packet is about to enter. The observer may change it, which is a fault of the link.
    fn enters(&mut self, now: Ticks, received: &mut Received) {
        let _ = (now, received);
    }

    /// A packet leaves.
    fn leaves(&mut self, now: Ticks, sent: &Outgoing) {
        let _ = (now, sent);
    }

    /// The forwarder has handled its packets and timers. The observer may act as its control side: set routes, say, for
    /// the notices that it takes.
    fn polled(&mut self, now: Ticks, forwarder: &mut Forwarder) {
        let _ = (now, forwarder);
    }
}

#[derive(Clone, Copy)]
enum Peer {
    Node(NodeId, FaceId),
    App(AppId),
    /// All other members of a shared medium.
    Medium(usize),
}

struct Node {
    forwarder: Forwarder,
    faces: HashMap<FaceId, (Peer, Faults)>,
    observer: Option<Box<dyn Observer>>,
    /// The time of the timer event that is already scheduled.
    timer: Option<Ticks>,
}

/// An application and its place.
struct Attached {
    app: Box<dyn App>,
    node: NodeId,
    face: FaceId,
    /// The time of its next tick, which is scheduled.
    tick: Option<Ticks>,
}

enum Event {
    ToNode(NodeId, Received),
    ToApp(AppId, LinkFields, Packet),
    NodeTimer(NodeId),
    AppTimer(AppId),
}

/// Forwarders, links and applications, with one clock. Two networks that were made with the same seed and the same calls
/// do the same.
///
/// A packet takes only the fields along that the link protocol carries. Packets that arrive at one moment form a burst.
///
/// ```
/// use std::time::Duration;
///
/// use byname_embed::{Consumer, Faults, Forwarder, Network, Producer};
///
/// let mut net = Network::new(1);
/// let [near, far] = [net.add(Forwarder::builder())?, net.add(Forwarder::builder())?];
/// let (to_far, _) = net.link(near, far, Faults { loss: 0.1, ..Faults::NONE });
/// net.forwarder(near).set_route(&"/demo".parse()?, &[(to_far, 0)])?;
///
/// let (_, face) = net.attach(far, Producer::new(|name| name.to_string().into_bytes()));
/// net.forwarder(far).set_route(&"/demo".parse()?, &[(face, 0)])?;
/// let names = (0..100).map(|i| format!("/demo/{i}").parse()).collect::<Result<Vec<_>, _>>()?;
/// let (consumer, _) = net.attach(near, Consumer::new(names, 2));
///
/// net.run_for(Duration::from_secs(60));
/// assert_eq!(net.app::<Consumer>(consumer).fetched().names, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Network {
    now: Ticks,
    random: SmallRng,
    nodes: Vec<Node>,
    apps: Vec<Attached>,
    /// The members of each shared medium.
    media: Vec<Vec<(NodeId, FaceId)>>,
    /// Keys of `events`, ordered by time and then by number.
    order: BinaryHeap<Reverse<(Ticks, u64)>>,
    events: HashMap<u64, Event>,
    event_count: u64,
}

impl Network {
    /// A network without forwarders. The seed chooses all that is random: faults, keys and nonces.
    pub fn new(seed: u64) -> Self {
        Network {
            now: BEGINNING,
            random: SmallRng::seed_from_u64(seed),
            nodes: Vec::new(),
            apps: Vec::new(),
            media: Vec::new(),
            order: BinaryHeap::new(),
            events: HashMap::new(),
            event_count: 0,
        }
    }

    /// The time.
    pub fn now(&self) -> Ticks {
        self.now
    }

    /// The network's random numbers, for choices of the caller that its seed should repeat.
    pub fn random(&mut self) -> &mut SmallRng {
        &mut self.random
    }

    /// Adds a forwarder. The network chooses its seed.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn add(&mut self, builder: Builder) -> Result<NodeId, StartError> {
        let forwarder = builder.seed(self.random.random()).build()?;
        self.nodes.push(Node { forwarder, faces: HashMap::new(), observer: None, timer: None });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// A forwarder, to set its routes and to read its counts. Faces that the caller adds there lead nowhere.
    ///
    /// # Panics
    /// If the id is of another network. This holds for all ids.
    pub fn forwarder(&mut self, node: NodeId) -> &mut Forwarder {
        &mut self.nodes[node.0].forwarder
    }

    /// Lets an observer see all that passes through a forwarder, in place of an earlier one.
    pub fn observe(&mut self, node: NodeId, observer: impl Observer + 'static) {
        self.nodes[node.0].observer = Some(Box::new(observer));
    }

    /// Joins two forwarders and returns the face of each.
    pub fn link(&mut self, a: NodeId, b: NodeId, faults: Faults) -> (FaceId, FaceId) {
        let add = |node: &mut Node| node.forwarder.add_face(Scope::NonLocal, LinkType::PointToPoint);
        let (face_a, face_b) = (add(&mut self.nodes[a.0]), add(&mut self.nodes[b.0]));
        self.nodes[a.0].faces.insert(face_a, (Peer::Node(b, face_b), faults));
        self.nodes[b.0].faces.insert(face_b, (Peer::Node(a, face_a), faults));
        (face_a, face_b)
    }

    /// Joins forwarders by a medium on which all hear each other, and returns their faces.
    pub fn medium(&mut self, nodes: &[NodeId], faults: Faults) -> Vec<FaceId> {
        let number = self.media.len();
        let members = nodes.iter().map(|&node| {
            let at = &mut self.nodes[node.0];
            let face = at.forwarder.add_face(Scope::NonLocal, LinkType::MultiAccess);
            at.faces.insert(face, (Peer::Medium(number), faults));
            (node, face)
        });
        let members: Vec<_> = members.collect();
        self.media.push(members.clone());
        members.into_iter().map(|(_, face)| face).collect()
    }

    /// Attaches an application to a forwarder, by a face that loses nothing and takes no time. Its first
    /// [`App::tick`] comes when the network runs.
    pub fn attach(&mut self, node: NodeId, app: impl App) -> (AppId, FaceId) {
        let at = &mut self.nodes[node.0];
        let face = at.forwarder.add_face(Scope::Local, LinkType::PointToPoint);
        let number = AppId(self.apps.len());
        at.faces.insert(face, (Peer::App(number), Faults::APP));
        self.apps.push(Attached { app: Box::new(app), node, face, tick: Some(self.now) });
        self.schedule(self.now, Event::AppTimer(number));
        (number, face)
    }

    /// Changes the faults of what a forwarder sends on a face. The other direction stays as it is. Returns false if there
    /// is no such face.
    pub fn set_faults(&mut self, node: NodeId, face: FaceId, faults: Faults) -> bool {
        self.nodes[node.0].faces.get_mut(&face).map(|(_, current)| *current = faults).is_some()
    }

    /// An application.
    ///
    /// # Panics
    /// If it is of another type.
    pub fn app<T: App>(&self, app: AppId) -> &T {
        let app: &dyn Any = &*self.apps[app.0].app;
        app.downcast_ref().expect("the type of application that was attached")
    }

    /// An application, to change it. Packets that this makes it send leave at its next [`App::tick`].
    ///
    /// # Panics
    /// If it is of another type.
    pub fn app_mut<T: App>(&mut self, app: AppId) -> &mut T {
        let app: &mut dyn Any = &mut *self.apps[app.0].app;
        app.downcast_mut().expect("the type of application that was attached")
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

    /// Runs until nothing is left to do: no packet is on its way, no timer is due, and no application waits.
    pub fn settle(&mut self) {
        while !self.order.is_empty() {
            self.step();
        }
    }

    fn schedule(&mut self, at: Ticks, event: Event) {
        self.order.push(Reverse((at, self.event_count)));
        self.events.insert(self.event_count, event);
        self.event_count += 1;
    }

    fn pop(&mut self) -> Option<Event> {
        let Reverse((at, number)) = self.order.pop()?;
        debug_assert!(at >= self.now);
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
                self.nodes[node.0].timer = None;
                self.poll(node, Vec::new());
            }
            Some(Event::ToApp(app, fields, packet)) => {
                let (mut sent, at) = (Vec::new(), &mut self.apps[app.0]);
                at.app.receive(self.now, &fields, &packet, &mut sent);
                if let Some(sooner) = at.app.wants_tick().filter(|sooner| at.tick.is_none_or(|tick| *sooner < tick)) {
                    self.schedule_tick(app, sooner);
                }
                self.send_from_app(app, sent);
            }
            // A sooner tick may have taken the place of this one.
            Some(Event::AppTimer(app)) if self.apps[app.0].tick == Some(self.now) => {
                let (mut sent, at) = (Vec::new(), &mut self.apps[app.0]);
                at.tick = None;
                if let Some(next) = at.app.tick(self.now, &mut sent) {
                    self.schedule_tick(app, next);
                }
                self.send_from_app(app, sent);
            }
            Some(Event::AppTimer(_)) | None => {}
        }
    }

    fn schedule_tick(&mut self, app: AppId, at: Ticks) {
        // Otherwise an application that asks for the present stops the clock.
        let at = at.max(self.now + Duration::from_nanos(1));
        self.apps[app.0].tick = Some(at);
        self.schedule(at, Event::AppTimer(app));
    }

    /// Packets that arrive at the same moment form one burst.
    fn take_more_for(&mut self, node: NodeId, input: &mut Vec<Received>) {
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

    fn poll(&mut self, number: NodeId, mut input: Vec<Received>) {
        let node = &mut self.nodes[number.0];
        if let Some(observer) = &mut node.observer {
            input.iter_mut().for_each(|received| observer.enters(self.now, received));
        }
        node.forwarder.receive_all(&mut input);
        let output: Vec<Outgoing> = node.forwarder.poll(self.now).collect();
        if let Some(observer) = &mut node.observer {
            output.iter().for_each(|sent| observer.leaves(self.now, sent));
            observer.polled(self.now, &mut node.forwarder);
        }
        if let Some(deadline) = node.forwarder.next_deadline() {
            let at = deadline.max(self.now + Duration::from_nanos(1));
            if node.timer.is_none_or(|due| at < due) {
                node.timer = Some(at);
                self.schedule(at, Event::NodeTimer(number));
            }
        }
        for sent in output {
            self.transmit(number, sent);
        }
    }

    fn transmit(&mut self, node: NodeId, sent: Outgoing) {
        let Some(&(peer, faults)) = self.nodes[node.0].faces.get(&sent.face) else { return };
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

    fn send_from_app(&mut self, app: AppId, sent: Sent) {
        let Attached { node, face, .. } = self.apps[app.0];
        for (fields, packet) in sent {
            self.carry(Peer::Node(node, face), Faults::APP, fields, packet);
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.random.random_bool(probability.clamp(0.0, 1.0))
    }

    fn carry(&mut self, peer: Peer, faults: Faults, fields: LinkFields, packet: Packet) {
        if self.happens(faults.loss) {
            return;
        }
        let copies = if self.happens(faults.duplicates) { 2 } else { 1 };
        for _ in 0..copies {
            let mut packet = Packet::copy_from(&packet);
            if self.happens(faults.corruption) {
                let bit = self.random.random_range(0..packet.len() * 8);
                packet.unshared_mut().expect("a copy of our own")[bit / 8] ^= 1 << (bit % 8);
            }
            // A port drops what is no packet.
            if check_packet(&packet).is_err() {
                continue;
            }
            let jitter_us = faults.jitter.as_micros() as u64;
            let jitter_us = if jitter_us == 0 { 0 } else { self.random.random_range(0..jitter_us) };
            let at = self.now + faults.delay + Duration::from_micros(jitter_us);
            let event = match peer {
                Peer::Node(node, face) => Event::ToNode(node, Received { face, fields: fields.clone(), packet }),
                Peer::App(app) => Event::ToApp(app, fields.clone(), packet),
                Peer::Medium(_) => unreachable!("`transmit` goes through its members"),
            };
            self.schedule(at, event);
        }
    }
}
