//! The router: events in, actions out.
//!
//! [`Router::handle`] takes an [`Event`], [`Router::poll`] lets time pass, and [`Router::next_action`] gives what is to
//! be done. [`Router::wake_at_ms`] says when time matters next.
//!
//! After each event, the router settles: changed links change ways, changed ways change nexthops, and changed nexthops
//! become routes.
//!
//! # What the caller serves
//! Interests for the router's certificates arrive at its face, too, with a forwarding hint below its prefixes. The
//! caller answers them; this crate has no certificates.

mod advertisements;
mod checks;
mod hellos;
mod links;
mod management;
mod packets;
mod peers;
mod prefix_sync;
mod publications;
mod report;
mod routes;
mod trees;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::RandomState;

use byname_trust::{Moment, Signer};
use byname_wire::{FaceId, Name};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::action::Action;
use crate::clock::Clock;
use crate::config::{Config, ConfigError, ProtocolVersion};
use crate::event::{Command, Event, Validity};
use crate::fetcher::{Bounds, Fetcher};
use crate::ids::{PrefixId, RouterId, SELF};
use crate::link::bucket::Buckets;
use crate::local::LocalPrefixes;
use crate::names::Names;
use crate::neighbours::Neighbour;
use crate::note::Note;
use crate::objects::Objects;
use crate::policy::Policy;
use crate::prefixes::Prefixes;
use crate::routers::Routers;
use crate::status::Counters;
use crate::sync::SyncTimer;
use crate::trees::Trees;
use crate::version::{Dv2, Main, Version};

use self::checks::Checks;
use self::peers::Peer;

/// Interval at which what is not used any more is forgotten.
const TIDY_MS: u64 = 10_000;
/// A router that cannot answer in this time is asked by nobody.
const MS_MAX: u64 = u64::MAX;

/// Packets that neighbours send to neighbours, and packets that pass through the network, have bounds of their own, so
/// that a flood of one kind does not take links down.
const NEIGHBOURS: usize = 0;
const NETWORK: usize = 1;

/// A router that speaks ndn-dv.
pub struct Router {
    config: Config,
    version: Box<dyn Version>,
    names: Names,
    signer: Signer,
    clock: Clock,
    random: StdRng,
    due_ms: u64,
    is_stopped: bool,

    peers: BTreeMap<String, Peer>,
    multicast: BTreeSet<FaceId>,
    neighbours: BTreeMap<RouterId, Neighbour>,
    routers: Routers,
    prefixes: Prefixes,
    local: LocalPrefixes,
    objects: Objects,
    fetcher: Fetcher,
    checks: Checks,
    buckets: [Buckets; 2],

    advertisement_seq: u64,
    advertise_ms: u64,
    heartbeat_ms: u64,
    publication_seq: u64,
    snapshot_seq: u64,
    publish_ms: u64,
    sync_timer: SyncTimer,
    /// The routers of entries of state vectors that tell what is known, by hash. Most entries tell nothing new.
    heard: HashMap<u64, RouterId>,
    hasher: RandomState,
    /// Starts that a vector lacked, while somebody else may tell its sender.
    lacking: BTreeSet<(RouterId, u64)>,
    /// Where the next part of a vector begins that does not fit into a packet.
    part_from: Option<Name>,
    hello_number: u64,
    trees: Trees,
    /// The face and the cost of the link to each neighbour, as trees know them.
    tree_links: BTreeMap<RouterId, (FaceId, u64)>,

    dirty_routers: BTreeSet<RouterId>,
    dirty_prefixes: BTreeSet<PrefixId>,
    /// When something is due for a router. It may be due no more.
    alarms: BTreeSet<(u64, RouterId)>,
    tidy_ms: u64,
    /// Routes of an earlier run.
    leftover: BTreeMap<Name, BTreeMap<FaceId, u64>>,
    leftover_until_ms: u64,

    actions: VecDeque<Action>,
    counters: Counters,
}

impl Router {
    /// A router that has just started. `signer` signs what it tells others; its key's certificate should permit names
    /// below `/localhop/<router>/32=DV/32=ADV` and `/<network>/32=DV/32=PFS/<router>`. Its first actions register its
    /// prefixes.
    ///
    /// # Errors
    /// A [`ConfigError`].
    pub fn new(config: Config, signer: Signer, now: Moment) -> Result<Self, ConfigError> {
        config.check()?;
        let version: Box<dyn Version> = match config.version {
            ProtocolVersion::Main => Box::new(Main),
            ProtocolVersion::Dv2 => Box::new(Dv2),
        };
        let clock = Clock::new(now);
        let now_ms = clock.now_ms();
        let limits = &config.limits;
        let bucket = || Buckets::new(limits.packets_per_second, limits.packets_per_burst);
        let bounds = Bounds {
            in_flight: limits.fetches,
            bytes: limits.fetched_bytes,
            timeout_ms: (config.timing.fetch_timeout.as_millis() as u64).max(1),
        };
        let mut router = Router {
            names: Names::new(&config.network, &config.router, &*version),
            version,
            signer,
            random: StdRng::seed_from_u64(config.seed),
            due_ms: now_ms,
            is_stopped: false,
            peers: BTreeMap::new(),
            multicast: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            routers: Routers::new(&config.router),
            prefixes: Prefixes::default(),
            local: LocalPrefixes::default(),
            objects: Objects::default(),
            fetcher: Fetcher::new(bounds),
            checks: Checks::default(),
            buckets: [bucket(), bucket()],
            advertisement_seq: 0,
            advertise_ms: now_ms,
            heartbeat_ms: now_ms + config.timing.advertise.as_millis() as u64,
            publication_seq: 0,
            snapshot_seq: 0,
            publish_ms: now_ms,
            sync_timer: SyncTimer::new(now_ms),
            heard: HashMap::new(),
            hasher: RandomState::new(),
            lacking: BTreeSet::new(),
            part_from: None,
            hello_number: 0,
            trees: Trees::new(config.trees.clone(), &config.router, config.boot, now_ms),
            tree_links: BTreeMap::new(),
            dirty_routers: BTreeSet::new(),
            dirty_prefixes: BTreeSet::new(),
            alarms: BTreeSet::new(),
            tidy_ms: now_ms + TIDY_MS,
            leftover: BTreeMap::new(),
            leftover_until_ms: now_ms + config.timing.stale_for.as_millis() as u64,
            actions: VecDeque::new(),
            counters: Counters::default(),
            clock,
            config,
        };
        router.register_own_prefixes();
        router.publish_start();
        router.settle();
        Ok(router)
    }

    fn register_own_prefixes(&mut self) {
        let names = &self.names;
        let own = [
            names.sync.clone(),
            names.own_advertisements.clone(),
            names.prefix_sync.clone(),
            names.publications(self.config.router.as_ref()),
            names.management.clone(),
        ];
        let strategies = [names.sync.clone(), names.prefix_sync.clone()];
        self.actions.extend(own.into_iter().map(|prefix| Action::Register { prefix, face: None, cost: 0 }));
        self.actions.extend(strategies.into_iter().map(|prefix| Action::SetMulticastStrategy { prefix }));
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event<'_>, now: Moment) {
        self.advance(now);
        if self.is_stopped {
            return;
        }
        match event {
            Event::Interest { wire, face } => self.on_interest(wire, face),
            Event::Data { wire } => self.on_data(wire),
            Event::Nack { name } => {
                let now_ms = self.now_ms();
                self.fetcher.on_nack(name, now_ms);
            }
            Event::Validated { id, validity } => self.on_checked(id, validity),
            Event::NeighbourConfigured(settings) => self.configure_peer(settings),
            Event::NeighbourRemoved { uri } => self.remove_peer(uri),
            Event::MulticastFace { face } => self.add_multicast(face),
            Event::FaceCreated { uri, face, is_new } => self.on_face_created(uri, face, is_new),
            Event::FaceFailed { uri, why } => self.on_face_failed(uri, why),
            Event::FaceUp { face } => self.on_face_state(face, true),
            Event::FaceDown { face } => self.on_face_state(face, false),
            Event::FaceDestroyed { face } => self.on_face_destroyed(face),
            Event::Announced { prefix, face, cost } => drop(self.announce(&prefix, face, cost)),
            Event::Withdrawn { prefix, face } => self.withdraw(&prefix, face),
            Event::Installed { prefix, face, cost } => self.note_leftover(prefix, face, cost),
            Event::Command(command) => self.command(command),
        }
        // Links of a router that has stopped are not down: only it left.
        if !self.is_stopped {
            self.settle();
        }
    }

    /// Does what is due. Call it at [`Router::wake_at_ms`], and after events.
    pub fn poll(&mut self, now: Moment) {
        self.advance(now);
        if self.is_stopped {
            return;
        }
        let now_ms = self.now_ms();
        self.poll_peers();
        self.poll_links();
        for (purpose, content) in self.fetcher.expire(now_ms) {
            self.on_fetched(purpose, content);
        }
        self.poll_neighbours();
        self.poll_alarms();
        if now_ms >= self.publish_ms {
            self.publish_changes();
        }
        if now_ms >= self.advertise_ms {
            self.advertise();
        }
        if now_ms >= self.heartbeat_ms {
            self.send_advertisement_syncs(None);
        }
        self.poll_prefix_sync();
        if now_ms >= self.leftover_until_ms {
            self.remove_leftovers();
        }
        self.poll_trees();
        if now_ms >= self.tidy_ms {
            self.tidy();
        }
        self.settle();
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Router::poll`] has something to do, in milliseconds of the monotonic clock.
    pub fn wake_at_ms(&self) -> u64 {
        if self.is_stopped { MS_MAX } else { self.clock.monotonic_ms(self.due_ms) }
    }

    /// Whether the routes are those that follow from what is known. If not, [`Router::poll`] computes some more at once.
    pub fn is_settled(&self) -> bool {
        !self.has_changes() && self.actions.is_empty()
    }

    fn has_changes(&self) -> bool {
        !self.dirty_routers.is_empty() || !self.dirty_prefixes.is_empty()
    }

    /// Signs with another key from now on.
    pub fn set_signer(&mut self, signer: Signer) {
        self.signer = signer;
        self.objects.forget_signatures();
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn advance(&mut self, now: Moment) {
        self.counters.stalls += u64::from(self.clock.advance(now, self.due_ms));
    }

    fn nonce(&mut self) -> u32 {
        self.random.random()
    }

    fn act(&mut self, action: Action) {
        match &action {
            Action::Register { prefix, face, .. } => {
                self.counters.routes_registered += 1;
                self.confirm_leftover(prefix, *face);
            }
            Action::Unregister { .. } => self.counters.routes_unregistered += 1,
            Action::SendInterest { .. } => self.counters.interests_out += 1,
            _ => {}
        }
        self.actions.push_back(action);
    }

    fn note(&mut self, note: Note) {
        self.actions.push_back(Action::Note(note));
    }

    /// Lets changes have their effects, and finds out when something is due next.
    fn settle(&mut self) {
        // The forwarder hears of a dead link first, and of routes afterwards: there may be many.
        let is_cut = self.update_links();
        if !is_cut {
            self.update_routes();
        }
        self.update_trees();
        self.send_fetches();
        self.due_ms = self.find_due();
    }

    fn find_due(&self) -> u64 {
        let now_ms = self.now_ms();
        if self.has_changes() || !self.fetcher.is_idle() {
            return now_ms;
        }
        let timers = [
            self.fetcher.due_ms(),
            self.advertise_ms,
            self.heartbeat_ms,
            self.publish_ms,
            self.sync_timer.due_ms(),
            self.tidy_ms,
            self.alarms.first().map_or(MS_MAX, |(at, _)| *at),
            if self.leftover.is_empty() { MS_MAX } else { self.leftover_until_ms },
            self.links_due(),
            self.trees.due_ms().unwrap_or(MS_MAX),
            self.neighbours.values().filter_map(|neighbour| neighbour.fetch_ms).min().unwrap_or(MS_MAX),
            self.peers.values().filter_map(|peer| peer.ask_ms).min().unwrap_or(MS_MAX),
        ];
        timers.into_iter().min().unwrap_or(MS_MAX).max(now_ms)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::SetPolicy(policy) => self.set_policy(policy),
            Command::SetTreePriority(priority) => {
                let now_ms = self.now_ms();
                self.trees.set_priority(priority, now_ms);
            }
            Command::ClearDamping => {
                for neighbour in self.neighbours.values_mut() {
                    neighbour.links.iter_mut().for_each(|link| link.clear_damping());
                }
            }
            Command::Resync => {
                self.send_advertisement_syncs(None);
                let now_ms = self.now_ms();
                self.sync_timer.hasten(now_ms);
            }
            Command::Recheck => self.recheck_publications(),
            Command::Stop => self.stop(),
        }
    }

    fn set_policy(&mut self, policy: Policy) {
        self.config.policy = policy;
        self.local.reconsider();
        self.publish_soon();
        self.dirty_routers.extend(self.routers.ids().into_iter().filter(|id| *id != SELF));
        self.dirty_prefixes.extend(self.prefixes.ids());
    }

    /// Forgets what has not been used for long.
    fn tidy(&mut self) {
        let now_ms = self.now_ms();
        self.tidy_ms = now_ms + TIDY_MS;
        let forget_ms = self.config.timing.forget_after.as_millis() as u64;
        let is_old = |(id, known): &(RouterId, &crate::routers::Known)| {
            *id != SELF
                && known.best.is_none()
                && !self.neighbours.contains_key(id)
                && now_ms.saturating_sub(known.unreachable_since_ms) > forget_ms
        };
        let old: Vec<RouterId> = self.routers.iter().filter(is_old).map(|(id, _)| id).collect();
        old.into_iter().for_each(|id| self.forget_router(id));
        for segment in self.checks.expire(now_ms) {
            self.fetcher.checked(segment, false, now_ms);
        }
        self.tidy_peers();
    }

    /// A packet cannot be decoded, or says what it may not.
    fn malformed(&mut self) {
        self.counters.malformed += 1;
    }

    fn refused(&mut self, name: Name, validity: Validity) {
        if let Validity::Refused(why) = validity {
            self.counters.untrusted += 1;
            self.note(Note::PacketRefused { name, why });
        }
    }
}
