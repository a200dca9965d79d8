//! Faces, routes, strategies and settings that outlive the process.
//!
//! [`Durable`] collects the changes that commands and events make, as records for the store. `service` hands them to the
//! writing thread, and sends the answers of commands when their changes are on the disk.
//!
//! - Only what can come back is kept: faces that are not on demand, their routes, and the descriptors that applications
//!   behind them advertise. A face that a command made
//!   is kept when it is made. A face of the configuration or of a port is kept with its first route, to name it.
//! - Routes from prefix announcements are not kept: an announcement is a lease that its holder renews.
//! - Routes of the configuration are not kept: the file brings them.
//!
//! At the start, [`Management::restore`] makes the faces again, and gives the RIB their routes. Routes of administrators
//! (origin `static`), of a fleet's agent (`fleet`) and of `byname gribi serve` (`gribi`) are as before. All others are stale:
//! used at once, and removed unless they are registered again in time.

mod advertised;

use std::collections::{BTreeMap, HashSet};

use byname_face::face::Creation;
use byname_face::{FaceRequest, FaceStatus, FaceUri, LinkFlags};
use byname_forward::FaceId;
use byname_forward::face_table::{FaceMap, Persistency};
use byname_wire::{Name, NameRef};
use crossbeam_channel::{Receiver, Sender, unbounded};

use self::advertised::Stale;
use super::faces::{persistency, persistency_number};
use super::tlv::{ControlParameters, StrategyName, origin};
use super::{Management, Moment};
use crate::rib::{JournalEntry, Returning, Rib, Route};
use crate::state::Change;
use crate::state::records::{
    AdvertisementRecord, ContentStoreRecord, FaceRecord, FlatRecord, RouteRecord, Snapshot, StrategyRecord, layer,
    maker,
};

/// A face that is not on demand.
struct Lasting {
    record: FaceRecord,
    /// Whether the store has it, with the number in the record.
    is_kept: bool,
}

/// Collects changes for the store.
pub(super) struct Durable {
    /// Whether there is a store.
    keeps: bool,
    faces: FaceMap<Lasting>,
    next_number: u64,
    content_store: ContentStoreRecord,
    changes: Vec<Change>,
    /// Whether the command that is being handled is about something that the store has.
    touched: bool,
    /// Faces whose connections are being made again, by their numbers.
    waiting: BTreeMap<u64, (FaceRecord, OfFace)>,
    stale: Stale,
    sender: Sender<Returned>,
    receiver: Receiver<Returned>,
}

/// What the store has for a face.
#[derive(Default)]
struct OfFace {
    routes: Vec<RouteRecord>,
    advertisements: Vec<AdvertisementRecord>,
}

impl OfFace {
    fn len(&self) -> usize {
        self.routes.len() + self.advertisements.len()
    }
}

/// The outcome for a face whose connection had to be made again.
pub struct Returned {
    number: u64,
    outcome: Creation,
}

/// What came back from the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Faces.
    pub faces: usize,
    /// Faces whose connections are being made.
    pub faces_waiting: usize,
    /// Routes, without those of the faces that wait.
    pub routes: usize,
    /// Descriptors of applications, without those of the faces that wait.
    pub descriptors: usize,
    /// Records that did not come back: their faces did not, they have expired, or the configuration has others.
    pub dropped: usize,
}

impl Default for Durable {
    fn default() -> Self {
        // Bounded: one outcome for each face in the store.
        let (sender, receiver) = unbounded();
        Durable {
            keeps: false,
            faces: FaceMap::default(),
            next_number: 1,
            content_store: ContentStoreRecord::default(),
            changes: Vec::new(),
            touched: false,
            waiting: BTreeMap::new(),
            stale: Stale::default(),
            sender,
            receiver,
        }
    }
}

impl Durable {
    fn push(&mut self, change: Change) {
        if self.keeps {
            self.touched = true;
            self.changes.push(change);
        }
    }

    /// Notes a face that exists.
    pub fn face_exists(&mut self, status: &FaceStatus) {
        if status.persistency != Persistency::OnDemand && status.id >= FaceId::FIRST {
            let made = || Lasting { record: record_of(status, maker::ROUTER), is_kept: false };
            self.faces.entry(status.id).or_insert_with(made);
        }
    }

    /// A command has made this face, with these parameters.
    pub fn face_made(&mut self, status: &FaceStatus, asked: &ControlParameters) {
        let record = FaceRecord {
            mtu: asked.mtu,
            base_congestion_marking_interval_ns: asked.base_congestion_marking_interval_ns,
            default_congestion_threshold_bytes: asked.default_congestion_threshold_bytes,
            ..record_of(status, maker::COMMAND)
        };
        self.faces.insert(status.id, Lasting { record, is_kept: false });
        if self.keeps {
            self.number(status.id);
        }
    }

    /// A command has changed this face. Returns whether the store did not know it before.
    pub fn face_changed(&mut self, status: &FaceStatus, asked: &ControlParameters) -> bool {
        if status.persistency == Persistency::OnDemand {
            self.face_gone(status.id);
            return false;
        }
        let Some(face) = self.faces.get_mut(&status.id) else {
            self.face_made(status, asked);
            return true;
        };
        if face.record.maker != maker::COMMAND {
            return false;
        }
        let record = &mut face.record;
        record.persistency = persistency_number(status.persistency);
        record.flags = status.flags.bits();
        record.mtu = asked.mtu.or(record.mtu);
        let interval = asked.base_congestion_marking_interval_ns;
        record.base_congestion_marking_interval_ns = interval.or(record.base_congestion_marking_interval_ns);
        let threshold = asked.default_congestion_threshold_bytes;
        record.default_congestion_threshold_bytes = threshold.or(record.default_congestion_threshold_bytes);
        let change = Change::Face(record.clone());
        self.push(change);
        false
    }

    /// The face does not exist any more, or is on demand now.
    pub fn face_gone(&mut self, face: FaceId) {
        self.forget_stale(face);
        if let Some(Lasting { record, is_kept: true }) = self.faces.remove(&face) {
            self.push(Change::ForgetFace(record.number));
        }
    }

    /// The number of a face in the store. `None` if the face is on demand.
    fn number(&mut self, face: FaceId) -> Option<u64> {
        let next = self.next_number;
        let lasting = self.faces.get_mut(&face)?;
        if !lasting.is_kept {
            (lasting.is_kept, lasting.record.number) = (true, next);
            self.next_number += 1;
            let change = Change::Face(lasting.record.clone());
            self.push(change);
        }
        self.faces.get(&face).map(|lasting| lasting.record.number)
    }

    /// The command that is being handled is about a route of this face.
    pub fn concerns(&mut self, face: FaceId) {
        self.touched |= self.keeps && self.faces.contains_key(&face);
    }

    /// The command that is being handled is about something that the store has, even if it changes nothing.
    pub fn touch(&mut self) {
        self.touched |= self.keeps;
    }

    /// Notes a strategy choice.
    pub fn strategy(&mut self, prefix: &Name, strategy: Option<&Name>) {
        self.touch();
        let set = |name: &Name| StrategyRecord { prefix: prefix.clone(), strategy: StrategyName(name.clone()) };
        self.push(match strategy {
            Some(name) => Change::Strategy(set(name)),
            None => Change::ForgetStrategy(prefix.clone()),
        });
    }

    /// Notes a change of a flat name. `None`: it is as in its file again.
    pub fn flat(&mut self, name: &Name, to: Option<&Option<Name>>) {
        self.touch();
        self.push(match to {
            Some(label) => Change::Flat(FlatRecord { name: name.clone(), label: label.clone() }),
            None => Change::ForgetFlat(name.clone()),
        });
    }

    /// Notes settings of the content store that a command has changed.
    pub fn content_store(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>) {
        let kept = &mut self.content_store;
        kept.capacity_packets = capacity.or(kept.capacity_packets);
        kept.admit = admit.map(u64::from).or(kept.admit);
        kept.serve = serve.map(u64::from).or(kept.serve);
        if capacity.is_some() || admit.is_some() || serve.is_some() {
            let change = Change::ContentStore(kept.clone());
            self.push(change);
        }
    }

    fn route(&mut self, entry: &JournalEntry, now: Moment) {
        if entry.route.origin == origin::PREFIX_ANNOUNCEMENT && !entry.is_nexthop {
            return;
        }
        let name = NameRef::new(&entry.name).expect("the RIB's keys are names").to_name();
        let Some(record) = self.record_of_route(name, &entry.route, entry.is_nexthop, now) else { return };
        self.push(if entry.is_removed { Change::ForgetRoute(record) } else { Change::Route(record) });
    }

    /// `None`: its face is gone, and has taken its routes along, or is on demand.
    fn record_of_route(&mut self, name: Name, route: &Route, is_nexthop: bool, now: Moment) -> Option<RouteRecord> {
        let &Route { face, origin, cost, flags, expires_at_ms } = route;
        Some(RouteRecord {
            name,
            face: self.number(face)?,
            layer: if is_nexthop { layer::FIB } else { layer::RIB },
            origin,
            cost,
            flags,
            expires_unix_ms: expires_at_ms.map(|at| now.unix_ms_at(at)),
            stale_until_unix_ms: None,
        })
    }
}

impl Management {
    /// Takes over the records of an earlier process. From now on, changes are kept for [`Management::take_changes`].
    /// Call this when the faces and routes of the configuration exist.
    pub fn restore(&mut self, records: Snapshot, stale_for_ms: u64, now: Moment) -> Restored {
        let mut restored = Restored::default();
        self.durable.keeps = true;
        self.durable.next_number = records.faces.iter().map(|face| face.number).max().unwrap_or(0).saturating_add(1);
        self.durable.content_store = records.content_store.into_iter().next().unwrap_or_default();
        self.rib.remove_stale_at(now.ms.saturating_add(stale_for_ms));
        self.durable.withdraw_stale_at(now.ms.saturating_add(stale_for_ms));
        let mut kept: BTreeMap<u64, OfFace> = BTreeMap::new();
        for route in records.routes {
            kept.entry(route.face).or_default().routes.push(route);
        }
        for advertisement in records.advertisements {
            kept.entry(advertisement.face).or_default().advertisements.push(advertisement);
        }
        let there = self.forwarder.faces();
        there.iter().for_each(|status| self.durable.face_exists(status));
        let mut returning = Vec::new();
        for face in records.faces {
            let of_face = kept.remove(&face.number).unwrap_or_default();
            match self.find_or_make(&face, &there) {
                Some(Ok(id)) => {
                    restored.faces += 1;
                    returning.append(&mut self.face_is_back(id, face, of_face, now, &mut restored));
                }
                Some(Err(why)) => {
                    self.face_is_lost(&face, &why);
                    restored.dropped += 1 + of_face.len();
                }
                None => {
                    restored.faces_waiting += 1;
                    self.durable.waiting.insert(face.number, (face, of_face));
                }
            }
        }
        self.routes_are_back(returning, now, &mut restored);
        // Without a face: only a store that somebody has changed has any.
        for (number, of_face) in kept {
            restored.dropped += of_face.len();
            self.durable.push(Change::ForgetFace(number));
        }
        restored.dropped += self.restore_flat(records.flat);
        self.rib.keep_journal(true);
        restored
    }

    /// The face of a record. `None`: the outcome comes later.
    fn find_or_make(&mut self, record: &FaceRecord, there: &[FaceStatus]) -> Option<Result<FaceId, String>> {
        if record.maker != maker::COMMAND {
            let is_it = |status: &&FaceStatus| {
                status.persistency != Persistency::OnDemand
                    && status.remote.to_string() == record.remote
                    && record.local.as_ref().is_none_or(|local| status.local.to_string() == *local)
            };
            let found = there.iter().find(is_it).map(|status| status.id);
            return Some(found.ok_or_else(|| "the router does not make it any more".to_owned()));
        }
        let request = match request_of(record) {
            Ok(request) => request,
            Err(why) => return Some(Err(why)),
        };
        let (sender, number) = (self.durable.sender.clone(), record.number);
        let later = move |outcome| {
            // Fails if management has ended.
            let _ = sender.send(Returned { number, outcome });
        };
        Some(face_of_outcome(self.forwarder.begin_face(request, later)?))
    }

    /// Outcomes for faces that waited. Pass them to [`Management::face_returned`].
    pub fn returned(&self) -> &Receiver<Returned> {
        &self.durable.receiver
    }

    /// A face that waited for its connection has it now, or does not come back.
    pub fn face_returned(&mut self, Returned { number, outcome }: Returned, now: Moment) {
        let Some((record, of_face)) = self.durable.waiting.remove(&number) else { return };
        match face_of_outcome(outcome) {
            Ok(id) => {
                self.collect(now);
                self.rib.keep_journal(false);
                let returning = self.face_is_back(id, record, of_face, now, &mut Restored::default());
                self.routes_are_back(returning, now, &mut Restored::default());
                self.rib.keep_journal(self.durable.keeps);
            }
            Err(why) => self.face_is_lost(&record, &why),
        }
    }

    /// Takes over the record of a face. Returns those of its routes that come back.
    fn face_is_back(
        &mut self,
        id: FaceId,
        record: FaceRecord,
        OfFace { routes, mut advertisements }: OfFace,
        now: Moment,
        restored: &mut Restored,
    ) -> Vec<Returning> {
        let number_before = match self.durable.faces.get(&id) {
            // The configuration, or another record, has made the same face: its settings rule.
            Some(Lasting { record: other, is_kept: true }) if other.number != record.number => Some(other.number),
            _ => None,
        };
        let number = number_before.unwrap_or(record.number);
        if number_before.is_some() {
            self.durable.push(Change::ForgetFace(record.number));
            let moved = |route: &RouteRecord| Change::Route(RouteRecord { face: number, ..route.clone() });
            routes.iter().for_each(|route| self.durable.push(moved(route)));
            advertisements.iter_mut().for_each(|one| one.face = number);
            advertisements.iter().for_each(|one| self.durable.push(Change::Advertisement(one.clone())));
        } else {
            self.durable.faces.insert(id, Lasting { record, is_kept: true });
        }
        self.advertisements_are_back(id, advertisements, restored);
        let mut returning = Vec::with_capacity(routes.len());
        for record in routes {
            let left_ms = record.expires_unix_ms.map(|at| at.saturating_sub(now.unix_ms));
            let is_nexthop = record.layer != layer::RIB;
            // The store may be older than a rule about names of management.
            let is_allowed = self.rib.own_prefix_of(record.name.as_ref()).is_none()
                || !is_nexthop && self.is_hub_route(&record.name, id);
            if is_allowed && left_ms != Some(0) {
                let RouteRecord { name, origin, cost, flags, .. } = record;
                let expires_at_ms = left_ms.map(|left| now.ms.saturating_add(left));
                let is_stale = is_nexthop || !matches!(origin, origin::STATIC | origin::FLEET | origin::GRIBI);
                let route = Route { face: id, origin, cost, flags, expires_at_ms };
                returning.push(Returning { name, route, is_nexthop, is_stale });
            } else {
                restored.dropped += 1;
                self.durable.push(Change::ForgetRoute(RouteRecord { face: number, ..record }));
            }
        }
        returning
    }

    fn routes_are_back(&mut self, returning: Vec<Returning>, now: Moment, restored: &mut Restored) {
        let count = returning.len();
        let refused = self.rib.load(&mut self.fib, returning);
        restored.routes += count - refused.len();
        restored.dropped += refused.len();
        for Returning { name, route, is_nexthop, .. } in refused {
            // The configuration may have the same route. Then the store has none.
            if let Some(record) = self.durable.record_of_route(name, &route, is_nexthop, now) {
                self.durable.push(Change::ForgetRoute(record));
            }
        }
    }

    fn face_is_lost(&mut self, record: &FaceRecord, why: &str) {
        tracing::warn!(remote = %record.remote, "a face does not come back, nor do its routes: {why}");
        self.durable.push(Change::ForgetFace(record.number));
    }

    /// A face was changed by a command. If the store did not know it, its routes must be kept now.
    pub(super) fn keep_face(&mut self, status: &FaceStatus, asked: &ControlParameters, now: Moment) {
        if self.durable.keeps && self.durable.face_changed(status, asked) {
            let routes = Rib::routes_of(&self.rib, status.id);
            routes.iter().for_each(|entry| self.durable.route(entry, now));
            let advertised = self.tags.advertised_by(status.id);
            self.keep_advertised(status.id, &[], advertised);
        }
    }

    /// Makes sure that a face is known before it gets a route: its event may not have been handled yet.
    pub(super) fn know_face(&mut self, face: FaceId) {
        if self.durable.keeps {
            if !self.scopes.contains_key(&face)
                && let Some(status) = self.forwarder.face(face)
            {
                self.durable.face_exists(&status);
            }
            self.durable.concerns(face);
        }
    }

    /// Whether the command that was just handled is about something durable. Its answer must then wait for the changes
    /// so far.
    pub fn take_touched(&mut self, now: Moment) -> bool {
        self.collect(now);
        std::mem::take(&mut self.durable.touched)
    }

    /// Changes since the last call.
    pub fn take_changes(&mut self, now: Moment) -> Vec<Change> {
        self.collect(now);
        self.durable.touched = false;
        std::mem::take(&mut self.durable.changes)
    }

    /// Keeps no changes from now on: the process ends, and its faces with it.
    pub fn keep_no_more(&mut self) {
        self.durable.keeps = false;
        self.durable.changes = Vec::new();
        self.rib.keep_journal(false);
    }

    /// Keeps changes again, after [`Management::keep_no_more`], for the store that has all that was kept before.
    pub fn keep_again(&mut self) {
        self.durable.keeps = true;
        self.rib.keep_journal(true);
    }

    /// Keeps all routes of lasting faces: they came from another process, and not by commands. Those of the configuration
    /// are not kept.
    pub fn keep_all_routes(&mut self, configured: &[(Name, Route)], now: Moment) {
        if !self.durable.keeps {
            return;
        }
        let configured: HashSet<(&[u8], FaceId, u64)> =
            configured.iter().map(|(name, route)| (name.value(), route.face, route.origin)).collect();
        for face in self.rib.faces() {
            let routes = self.rib.routes_of(face);
            let of_file = |entry: &JournalEntry| {
                !entry.is_nexthop && configured.contains(&(&*entry.name, entry.route.face, entry.route.origin))
            };
            routes.iter().filter(|entry| !of_file(entry)).for_each(|entry| self.durable.route(entry, now));
        }
    }

    fn collect(&mut self, now: Moment) {
        for entry in self.rib.take_journal() {
            self.durable.route(&entry, now);
        }
    }
}

fn face_of_outcome(outcome: Creation) -> Result<FaceId, String> {
    use byname_face::face::CreateFaceError::Exists;
    match outcome {
        Ok(status) => Ok(status.id),
        Err(Exists(status)) if status.persistency != Persistency::OnDemand => Ok(status.id),
        Err(error) => Err(error.to_string()),
    }
}

fn record_of(status: &FaceStatus, maker: u64) -> FaceRecord {
    // The local URI of a face that a command made is the port's affair, unless it names an interface.
    let is_named = maker == maker::ROUTER || matches!(status.local, FaceUri::Dev(_));
    FaceRecord {
        number: 0,
        maker,
        remote: status.remote.to_string(),
        local: is_named.then(|| status.local.to_string()),
        persistency: persistency_number(status.persistency),
        flags: status.flags.bits(),
        mtu: None,
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold_bytes: None,
    }
}

fn request_of(record: &FaceRecord) -> Result<FaceRequest, String> {
    let parse = |uri: &String| uri.parse::<FaceUri>().map_err(|error| format!("{uri}: {error}"));
    Ok(FaceRequest {
        local: record.local.as_ref().map(parse).transpose()?,
        persistency: persistency(record.persistency),
        mtu: record.mtu,
        flags: LinkFlags::default().masked(record.flags, u64::MAX),
        base_congestion_marking_interval_ns: record.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: record.default_congestion_threshold_bytes,
        ..FaceRequest::to(parse(&record.remote)?)
    })
}
