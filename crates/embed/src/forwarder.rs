//! One forwarder: faces, routes, and packets in and out.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use byname_forward::face_table::{FaceCounters, LinkType, Scope};
use byname_forward::learning::Notice;
use byname_forward::strategy::{self, StrategyChoice, StrategyError};
use byname_forward::tables::{Announcements, Nexthop, Tables};
use byname_forward::worker::{CsPolicy, WorkerConfig, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks, Worker};
use byname_mgmt::ControlResponse;
use byname_wire::lp::LpPacket;
use byname_wire::{DecodeError, Interest, Name, NameHashKey, PACKET_BYTES_MAX, tlv};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use thiserror::Error;

use crate::registrations::{self, Registration};
use crate::routes::{RouteError, Routes};

/// Notices about routes that wait for [`Forwarder::notices`]. Further ones are lost.
const NOTICES_MAX: usize = 1024;

/// Why a forwarder was not made.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system refuses memory for the tables.
    #[error("there is no memory for the forwarder's tables: {0}; choose smaller ones")]
    Memory(String),
}

/// Why a packet was not taken. Nothing of it has reached the forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PacketError {
    /// There is no such face.
    #[error("there is no face {}", .0.0)]
    NoFace(FaceId),
    /// The packet has more bytes than NDN allows.
    #[error("a packet of {0} bytes; the most is {PACKET_BYTES_MAX}")]
    TooLarge(usize),
    /// It is no Interest, Data or packet addressed by tags or locator, or has bytes behind its end.
    #[error("no network packet: {0}")]
    Malformed(#[from] DecodeError),
    /// The frame holds a part of a packet. Memory ports carry whole packets.
    #[error("a fragment: memory ports carry whole packets")]
    Fragment,
}

/// Settings of a [`Forwarder`]. See [`Forwarder::builder`].
#[derive(Debug, Clone, Default)]
pub struct Builder {
    config: WorkerConfig,
    seed: Option<u64>,
    registrations: bool,
}

impl Builder {
    /// Maximum of Interests that wait for an answer; 65,536 by default.
    pub fn pit_entries_max(mut self, entries: usize) -> Self {
        self.config.pit_entries_max = entries;
        self
    }

    /// Maximum of Data packets in the content store; 65,536 by default. 0: nothing is cached.
    pub fn cs_packets_max(mut self, packets: usize) -> Self {
        self.config.cs_packets_max = packets;
        self
    }

    /// Maximum memory of the content store, in bytes of packet buffers; 128 MiB by default.
    pub fn cs_bytes_max(mut self, bytes: usize) -> Self {
        self.config.cs_bytes_max = bytes;
        self
    }

    /// Which Data leaves a full content store: the least recently used by default.
    pub fn cs_policy(mut self, policy: CsPolicy) -> Self {
        self.config.cs_policy = policy;
        self
    }

    /// All settings of the data plane at once.
    pub fn config(mut self, config: WorkerConfig) -> Self {
        self.config = config;
        self
    }

    /// Chooses the key that names are hashed with, nonces, and the random choices of strategies. The same input at the
    /// same times then gives the same output. Without it, the system's random numbers do that: use this only where no
    /// stranger sends packets.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Answers `rib/register` and `rib/unregister` of local faces, so that applications can produce as at any router.
    /// There are no other management commands, and a route has no lifetime. Not answered by default.
    pub fn registrations(mut self) -> Self {
        self.registrations = true;
        self
    }

    /// A forwarder without faces and routes, except those for registrations.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn build(self) -> Result<Forwarder, StartError> {
        let mut random = self.seed.map_or_else(rand::make_rng, SmallRng::seed_from_u64);
        let key = NameHashKey::new([random.random(), random.random()]);
        let routes = Routes::new(key).map_err(|error| StartError::Memory(error.to_string()))?;
        let tables = routes.tables().clone();
        let mut worker = Worker::try_new(self.config, key, tables, random.random())
            .map_err(|error| StartError::Memory(error.to_string()))?;
        let (tell, notices) = sync_channel(NOTICES_MAX);
        worker.tell_routes(Box::new(move |notice| tell.try_send(notice).is_ok()));
        let next_face = FaceId::FIRST.0;
        let strategies = BTreeMap::new();
        let (input, output, local) = (Vec::new(), Vec::new(), HashSet::new());
        let mut forwarder = Forwarder { worker, routes, strategies, notices, next_face, local, input, output };
        if self.registrations {
            forwarder.worker.face_up(FaceId::INTERNAL, Scope::Local, LinkType::PointToPoint);
            for prefix in registrations::prefixes() {
                let route = forwarder.set_route(&prefix, &[(FaceId::INTERNAL, 0)]);
                route.map_err(|error| StartError::Memory(error.to_string()))?;
            }
        }
        Ok(forwarder)
    }
}

/// A forwarder without I/O: the caller gives it packets and the time, and gets the packets to send.
///
/// ```
/// use byname_embed::{Forwarder, LinkType, Scope, Ticks};
/// use byname_wire::interest::InterestBuilder;
///
/// let mut forwarder = Forwarder::builder().pit_entries_max(1000).build()?;
/// let consumer = forwarder.add_face(Scope::Local, LinkType::PointToPoint);
/// let producer = forwarder.add_face(Scope::Local, LinkType::PointToPoint);
/// forwarder.set_route(&"/demo".parse()?, &[(producer, 0)])?;
///
/// let interest = InterestBuilder::new("/demo/song".parse()?, 0x5eed).encode();
/// forwarder.receive(consumer, &interest)?;
/// let sent: Vec<_> = forwarder.poll(Ticks::from_ms(0)).collect();
/// assert_eq!((sent.len(), sent[0].face), (1, producer));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Forwarder {
    worker: Worker,
    routes: Routes,
    strategies: BTreeMap<Name, Name>,
    notices: Receiver<Notice>,
    next_face: u64,
    /// Faces of local scope.
    local: HashSet<FaceId>,
    /// Packets that wait for the next poll.
    input: Vec<Received>,
    output: Vec<Outgoing>,
}

impl Forwarder {
    /// Settings of a new forwarder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Adds a face and returns its id.
    pub fn add_face(&mut self, scope: Scope, link_type: LinkType) -> FaceId {
        let face = FaceId(self.next_face);
        self.next_face += 1;
        if scope == Scope::Local {
            self.local.insert(face);
        }
        self.worker.face_up(face, scope, link_type);
        face
    }

    /// Removes a face and the routes to it. Returns false if there is no such face.
    pub fn remove_face(&mut self, face: FaceId) -> bool {
        if face == FaceId::INTERNAL || !self.has_face(face) {
            return false;
        }
        self.routes.forget(face);
        self.local.remove(&face);
        self.worker.face_down(face);
        self.input.retain(|received| received.face != face);
        true
    }

    /// Whether there is such a face.
    pub fn has_face(&self, face: FaceId) -> bool {
        self.worker.face_counters(face).is_some()
    }

    /// Counts of a face since it was added.
    pub fn face_counters(&self, face: FaceId) -> Option<FaceCounters> {
        self.worker.face_counters(face)
    }

    /// Sets the nexthops of a prefix: faces with their costs, where lower is better. Without any, removes the route.
    ///
    /// # Errors
    /// If a face is unknown or a table is full.
    pub fn set_route(&mut self, prefix: &Name, nexthops: &[(FaceId, u64)]) -> Result<(), RouteError> {
        if let Some((face, _)) = nexthops.iter().find(|(face, _)| !self.has_face(*face)) {
            return Err(RouteError::NoFace(*face));
        }
        self.routes.set(prefix, nexthops.iter().map(|&(face, cost)| Nexthop { face, cost }).collect())
    }

    /// The nexthops of exactly this prefix, the best ones first.
    pub fn route(&self, prefix: &Name) -> &[Nexthop] {
        self.routes.get(prefix)
    }

    /// Number of prefixes with a route.
    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Chooses the strategy for names below a prefix: one of [`strategy::WORDS`], or a whole name of a strategy with
    /// version and parameters, as `/localhost/nfd/strategy/asf/v=5/probing-interval~30000`.
    ///
    /// # Errors
    /// If there is no such strategy, or a parameter is wrong.
    pub fn set_strategy(&mut self, prefix: &Name, strategy: &str) -> Result<(), StrategyError> {
        let whole =
            if strategy.starts_with('/') { strategy.into() } else { format!("/localhost/nfd/strategy/{strategy}") };
        let name: Name = whole.parse().map_err(|_| StrategyError::Unknown)?;
        self.strategies.insert(prefix.clone(), strategy::instance_name(name.as_ref())?);
        let choice =
            |(prefix, strategy): (&Name, &Name)| StrategyChoice { prefix: prefix.clone(), strategy: strategy.clone() };
        let choices: Vec<_> = self.strategies.iter().map(choice).collect();
        self.worker.set_strategy_choices(&choices);
        Ok(())
    }

    /// Sends these announcements along with Data below their prefixes, to routers that learn routes. An announcement is
    /// an encoded Data packet; the forwarder does not look at it.
    pub fn announce(&mut self, announcements: impl IntoIterator<Item = (Name, Arc<[u8]>)>) {
        self.routes.tables().replace_announcements(Announcements::new(announcements));
    }

    /// What packets taught about routes, since the last call. The strategy `self-learning` makes such notices. Whoever
    /// takes them decides whom to believe, and sets routes.
    pub fn notices(&mut self) -> impl Iterator<Item = Notice> {
        self.notices.try_iter()
    }

    /// Takes a whole network packet from a face. It is handled at the next [`Forwarder::poll`].
    ///
    /// # Errors
    /// If there is no such face, or the bytes are no network packet.
    pub fn receive(&mut self, face: FaceId, packet: &[u8]) -> Result<(), PacketError> {
        self.receive_with(face, LinkFields::default(), packet)
    }

    /// As [`Forwarder::receive`], with fields of the link: a PIT token, or the reason of a Nack.
    ///
    /// # Errors
    /// As [`Forwarder::receive`].
    pub fn receive_with(&mut self, face: FaceId, fields: LinkFields, packet: &[u8]) -> Result<(), PacketError> {
        if !self.has_face(face) {
            return Err(PacketError::NoFace(face));
        }
        check_packet(packet)?;
        self.input.push(Received { face, fields, packet: Packet::copy_from(packet) });
        Ok(())
    }

    /// Takes a frame of the link protocol (NDNLPv2), as clients send it: an LpPacket with a whole packet, or a bare
    /// packet. Acknowledgements and empty frames have no effect.
    ///
    /// # Errors
    /// As [`Forwarder::receive`]; and for a fragment.
    pub fn receive_frame(&mut self, face: FaceId, frame: &[u8]) -> Result<(), PacketError> {
        let lp = LpPacket::decode(frame)?;
        if lp.frag_count > 1 {
            return Err(PacketError::Fragment);
        }
        let Some(packet) = lp.fragment else { return Ok(()) };
        if let Some(announcement) = lp.prefix_announcement {
            check_packet(announcement)?;
        }
        let fields = LinkFields {
            pit_token: lp.pit_token,
            nack: lp.nack,
            next_hop_face_id: lp.next_hop_face_id,
            no_cache: lp.cache_policy.is_some(),
            congestion_mark: lp.congestion_mark,
            non_discovery: lp.non_discovery,
            prefix_announcement: lp.prefix_announcement.map(Packet::copy_from),
            ..LinkFields::default()
        };
        self.receive_with(face, fields, packet)
    }

    /// Takes a packet as another forwarder sent it. The caller knows that it is one.
    pub(crate) fn receive_all(&mut self, received: &mut Vec<Received>) {
        self.input.append(received);
    }

    /// Handles the packets that were received since the last poll, and the timers that are due. Returns the packets to
    /// send.
    ///
    /// The time must not go back. If nothing is received, the next poll is due at [`Forwarder::next_deadline`].
    pub fn poll(&mut self, now: Ticks) -> impl ExactSizeIterator<Item = Outgoing> {
        self.worker.poll(now, &mut self.input, &mut self.output);
        while self.output.iter().any(|sent| sent.face == FaceId::INTERNAL) {
            self.answer_commands();
            self.worker.poll(now, &mut self.input, &mut self.output);
        }
        self.output.drain(..)
    }

    fn answer_commands(&mut self) {
        let commands: Vec<_> = self.output.extract_if(.., |sent| sent.face == FaceId::INTERNAL).collect();
        for sent in commands.iter().filter(|sent| sent.fields.nack.is_none()) {
            let Ok(interest) = Interest::decode(&sent.packet) else { continue };
            let incoming = sent.fields.incoming_face_id.unwrap_or(FaceId::NONE);
            let outcome = Registration::of(&interest, incoming).and_then(|registration| {
                self.carry_out(&registration, incoming)?;
                Ok(registration.done())
            });
            let response = outcome.unwrap_or_else(|refusal| refusal);
            self.input.push(registrations::packet(sent, &interest, &response));
        }
    }

    fn carry_out(&mut self, registration: &Registration, incoming: FaceId) -> Result<(), ControlResponse> {
        let Registration { is_register, prefix, face, cost, .. } = registration;
        if !self.local.contains(&incoming) {
            return Err(registrations::unauthorized());
        }
        if *is_register && !self.has_face(*face) {
            return Err(ControlResponse::new(410, "Face not found"));
        }
        let mut nexthops: Vec<_> = self.route(prefix).iter().map(|nexthop| (nexthop.face, nexthop.cost)).collect();
        nexthops.retain(|(other, _)| other != face);
        if *is_register {
            nexthops.push((*face, *cost));
        }
        self.set_route(prefix, &nexthops).map_err(|error| ControlResponse::new(500, error.to_string()))
    }

    /// When timers need the next [`Forwarder::poll`], if nothing is received earlier.
    pub fn next_deadline(&self) -> Option<Ticks> {
        self.worker.next_deadline()
    }

    /// Counts of the data plane: PIT, content store, drops by reason.
    pub fn counters(&self) -> WorkerCounters {
        self.worker.counters()
    }

    /// The data plane itself, for what has no method here: tracing, popular prefixes, the order of the content store.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// The tables that the data plane reads: trees and descriptors are set there.
    pub fn tables(&self) -> &Arc<Tables> {
        self.routes.tables()
    }
}

/// The frame of the link protocol for a packet to send. Like a link without local fields, it does not tell the face that
/// the packet came from.
pub fn frame(sent: &Outgoing) -> Vec<u8> {
    let header = sent.fields.header();
    let lp = LpPacket { fragment: Some(&sent.packet), next_hop_face_id: None, incoming_face_id: None, ..header };
    let mut frame = Vec::with_capacity(sent.packet.len() + 64);
    lp.encode(&mut frame);
    frame
}

/// Workers trust that a packet is filled by one element of a type that they know.
pub(crate) fn check_packet(packet: &[u8]) -> Result<(), PacketError> {
    if packet.len() > PACKET_BYTES_MAX {
        return Err(PacketError::TooLarge(packet.len()));
    }
    let typ = match packet.first() {
        None => return Err(DecodeError::Truncated.into()),
        Some(&first) if byname_wire::lp::is_bare(packet) => u64::from(first),
        Some(_) => return Err(DecodeError::UnexpectedCritical(tlv::decode_number(packet)?.0).into()),
    };
    tlv::decode_only(packet, typ)?;
    Ok(())
}
