//! The faces of a port that has one socket for many peers. Faces are found by the peer's address, and their number is
//! bounded. Each has its link service, its queue and its timer.
//!
//! A packet from a peer without a face may create one, on demand. When all places are taken, a face with little to lose
//! makes room, or the newcomer is refused and counted (`places`). So forged source addresses cost no memory, and do not
//! cost peers that wait for Data their faces.

mod lending;
mod moving;
mod places;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, FaceMap, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Network, Outgoing, Packet, Received, Ticks};

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::handover::{FaceRecord, LinkRecord, PeerRecord, persistency_number};
use crate::link::{Frame, LinkConfig, LinkService, MTU_MIN, ReassemblyBudget};
use crate::port::{PortContext, Pushed};
use crate::uri::FaceUri;
use lending::Share;
pub use places::EVICT_IDLE;
use places::{Places, Stake, Standing};

/// Bytes that may wait for one face while the system takes no more.
const QUEUE_BYTES_MAX: u64 = 1 << 20;

/// The destination of a face's frames.
pub(crate) trait Transport {
    /// Distinguishes peers.
    type Address: Copy + Eq + Hash;
    /// Addresses that one sender may forge, which share places.
    type Group: Copy + Eq + Hash + Ord;

    /// The group of an address.
    fn group(address: &Self::Address) -> Self::Group;
    /// Address of the peer.
    fn address(&self) -> Self::Address;
    /// URI of the peer.
    fn remote(&self) -> FaceUri;
    /// URI of the local end.
    fn local(&self) -> FaceUri;

    /// Networks of a group's members, if known.
    fn networks(&self) -> Option<Arc<[Network]>> {
        None
    }
}

/// Result of sending a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The queue is empty.
    All,
    /// The system takes no more now.
    Blocked,
}

/// One peer or group, with its link service and its queue.
pub(crate) struct PeerFace<T> {
    pub(crate) transport: T,
    pub(crate) scope: Scope,
    pub(crate) link_type: LinkType,
    pub(crate) persistency: Persistency,
    pub(crate) link: LinkService,
    /// Time at which the peer was last heard.
    pub(crate) heard: Ticks,
    pub(crate) queue: Vec<Frame>,
    pub(crate) queue_bytes: u64,
    /// Whether frames can leave now.
    pub(crate) up: bool,
    /// Whether routes lead to it.
    is_routed: bool,
    /// Time of the timer that is set.
    timer: Option<Ticks>,
    /// Whether it is in the list of faces to flush.
    dirty: bool,
    share: Share,
}

impl<T: Transport> PeerFace<T> {
    /// Creates a face of non-local scope to one peer.
    pub(crate) fn new(transport: T, persistency: Persistency, link: LinkService, now: Ticks) -> Self {
        PeerFace {
            transport,
            scope: Scope::NonLocal,
            link_type: LinkType::PointToPoint,
            persistency,
            link,
            heard: now,
            queue: Vec::new(),
            queue_bytes: 0,
            up: true,
            is_routed: false,
            timer: None,
            dirty: false,
            share: Share::Alone,
        }
    }

    /// Whether the link service is due before the present timer.
    pub(crate) fn has_earlier_deadline(&self) -> bool {
        self.link.next_deadline().is_some_and(|at| self.timer.is_none_or(|timer| at < timer))
    }

    /// Begins a run of consecutive packets from the peer.
    pub(crate) fn begin_row(&mut self, now: Ticks) {
        self.heard = now;
        self.hear_of_answers(now);
        self.link.conversation.begin_row(now);
    }

    /// Ends the run. Its packets are the last of `received`.
    pub(crate) fn end_row(&mut self, id: FaceId, now: Ticks, received: &[Received]) {
        if let Some(last) = received.last().filter(|last| last.face == id) {
            self.link.conversation.end_row(now, last);
        }
    }

    fn standing(&self, now: Ticks) -> Standing {
        let conversation = &self.link.conversation;
        let stake = if conversation.is_waiting(now, self.answers_elsewhere()) {
            Stake::Pending
        } else if conversation.is_established() && now.since(self.last_heard()) < EVICT_IDLE {
            Stake::Conversation
        } else {
            Stake::Nothing
        };
        Standing { stake, heard: self.last_heard() }
    }

    /// Queues a packet.
    pub(crate) fn send(&mut self, now: Ticks, outgoing: &mut Outgoing, congested_bytes: u64) {
        let before = self.queue.len();
        self.link.send(now, outgoing, congested_bytes, &mut self.queue);
        self.count_queued(before);
    }

    /// Sends a packet at once with `push` if it needs no link header and nothing waits before it. Queues other packets.
    /// Drops the packet if `push` returns `None`.
    #[inline]
    pub(crate) fn send_at_once(
        &mut self,
        now: Ticks,
        outgoing: &mut Outgoing,
        push: impl FnOnce(&T, &[u8]) -> Option<Pushed>,
    ) {
        // Frames that only wait for the end of the burst are no congestion.
        if !self.queue.is_empty() {
            return self.send(now, outgoing, 0);
        }
        if self.link.send_bare(now, outgoing, 0) {
            match push(&self.transport, &outgoing.packet) {
                Some(Pushed::Done) => return,
                Some(Pushed::Full) => self.queue.push(Frame::bare(std::mem::take(&mut outgoing.packet))),
                Some(Pushed::TooLong) | None => self.link.counters.out_drops += 1,
            }
        } else {
            self.link.send_lp(now, outgoing, &mut self.queue);
        }
        self.count_queued(0);
    }

    /// Queues frames that are due in the link service.
    pub(crate) fn on_deadline(&mut self, now: Ticks) {
        let before = self.queue.len();
        self.link.on_deadline(now, &mut self.queue);
        self.count_queued(before);
    }

    /// Removes the first `done` frames, which were sent or dropped, from the queue.
    pub(crate) fn dequeue(&mut self, done: usize) -> Sent {
        if done == self.queue.len() {
            self.queue.clear();
            self.queue_bytes = 0;
            return Sent::All;
        }
        self.queue_bytes -= self.queue.drain(..done).map(|f| f.len() as u64).sum::<u64>();
        Sent::Blocked
    }

    pub(crate) fn status(&self, id: FaceId, now: Ticks, idle_timeout: Duration) -> FaceStatus {
        let config = self.link.config();
        let on_demand = self.persistency == Persistency::OnDemand;
        FaceStatus {
            id,
            thread: 0,
            remote: self.transport.remote(),
            local: self.transport.local(),
            scope: self.scope,
            link_type: self.link_type,
            networks: self.transport.networks(),
            persistency: self.persistency,
            mtu: config.mtu.map(|mtu| mtu as u64),
            flags: config.flags,
            base_congestion_marking_interval_ns: config.base_congestion_marking_interval.as_nanos() as u64,
            default_congestion_threshold_bytes: config.congestion_threshold_bytes,
            expires_in_ms: on_demand.then(|| (self.last_heard() + idle_timeout).since(now).as_millis() as u64),
            up: self.up,
            counters: FaceCounters::default(),
            link: self.link_counters(),
        }
    }

    /// What another process needs to go on with this face.
    pub(crate) fn hand_over(&self, now: Ticks, id: FaceId, port: &str) -> FaceRecord {
        let bytes_of = |frame: &Frame| {
            let mut bytes = Vec::with_capacity(frame.len());
            frame.write_to(&mut bytes);
            bytes.into()
        };
        FaceRecord {
            id: id.0,
            thread: 0,
            port: port.to_owned(),
            remote: self.transport.remote().to_string(),
            local: self.transport.local().to_string(),
            is_local: self.scope == Scope::Local,
            persistency: persistency_number(self.persistency),
            counters: [0; 10],
            is_endpoint: false,
            link: LinkRecord {
                counters: self.link_counters().to_array(),
                unanswered: self.link.conversation.unanswered_beside(self.answers_elsewhere()),
                ..self.link.hand_over()
            },
            stream: None,
            peer: Some(PeerRecord {
                silent_ms: u64::try_from(now.since(self.last_heard()).as_millis()).unwrap_or(u64::MAX),
                queue: self.queue.iter().map(bytes_of).collect(),
                interface: None,
            }),
        }
    }

    /// Goes on with a face of another process.
    pub(crate) fn taken_over(now: Ticks, transport: T, link: LinkService, record: &FaceRecord) -> Self {
        let mut face = PeerFace::new(transport, record.persistency(), link, now);
        face.scope = if record.is_local { Scope::Local } else { Scope::NonLocal };
        for frame in record.peer.iter().flat_map(|peer| &peer.queue) {
            face.queue.push(Frame::bare(Packet::copy_from(frame)));
        }
        face.count_queued(0);
        face
    }

    fn count_queued(&mut self, before: usize) {
        self.queue_bytes += self.queue[before..].iter().map(|f| f.len() as u64).sum::<u64>();
    }
}

/// Faces by id and by address of the peer.
pub(crate) struct Peers<T: Transport> {
    idle_timeout: Duration,
    /// Peers choose their addresses, so this map's hash is keyed.
    by_address: HashMap<T::Address, FaceId>,
    faces: FaceMap<PeerFace<T>>,
    /// Faces of other threads on which this one may send.
    borrowed: FaceMap<PeerFace<T>>,
    borrowed_by_address: HashMap<T::Address, FaceId>,
    /// Places of on-demand faces.
    places: Places<T::Group>,
    timers: BTreeSet<(Ticks, FaceId)>,
    /// Faces with queued frames.
    dirty: Vec<FaceId>,
    budget: ReassemblyBudget,
    /// Frames of strangers that got no face.
    pub(crate) refused: u64,
}

impl<T: Transport> Peers<T> {
    pub(crate) fn new(on_demand_faces_max: usize, idle_timeout: Duration) -> Self {
        Peers {
            idle_timeout,
            by_address: HashMap::new(),
            faces: FaceMap::default(),
            borrowed: FaceMap::default(),
            borrowed_by_address: HashMap::new(),
            places: Places::new(on_demand_faces_max),
            timers: BTreeSet::new(),
            dirty: Vec::new(),
            budget: ReassemblyBudget::default(),
            refused: 0,
        }
    }

    pub(crate) fn find(&self, address: &T::Address) -> Option<FaceId> {
        self.by_address.get(address).copied()
    }

    /// A face that is here, or is borrowed.
    pub(crate) fn get_mut(&mut self, id: FaceId) -> Option<&mut PeerFace<T>> {
        match self.faces.get_mut(&id) {
            Some(face) => Some(face),
            None => self.borrowed.get_mut(&id),
        }
    }

    /// All faces.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (FaceId, &mut PeerFace<T>)> {
        self.faces.iter_mut().map(|(id, face)| (*id, face))
    }

    /// Whether no trace of any face is left.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.faces.is_empty() && self.by_address.is_empty() && self.timers.is_empty() && self.places.is_empty()
    }

    pub(crate) fn status(&self, now: Ticks, id: FaceId) -> Option<FaceStatus> {
        self.faces.get(&id).map(|f| f.status(id, now, self.idle_timeout))
    }

    pub(crate) fn next_deadline(&self) -> Option<Ticks> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now`: timers of links, which may queue frames, and the end of idle faces.
    pub(crate) fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        let now = cx.now();
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(face) = self.faces.get_mut(&id) else { continue };
            face.timer = None;
            face.heard = face.last_heard();
            if face.persistency == Persistency::OnDemand && now.since(face.heard) >= self.idle_timeout {
                self.remove(cx, id);
                continue;
            }
            face.on_deadline(now);
            self.schedule(id);
            self.mark_dirty(id);
        }
    }

    /// Changes a face. Its frames can have up to `mtu_max` bytes.
    pub(crate) fn update(
        &mut self,
        now: Ticks,
        id: FaceId,
        change: &FaceChange,
        mtu_max: usize,
    ) -> Result<FaceStatus, UpdateFaceError> {
        let face = self.faces.get_mut(&id).ok_or(UpdateFaceError::NotFound)?;
        let config = changed_link_config(face.link.config(), change, face.scope, mtu_max)
            .map_err(UpdateFaceError::Unacceptable)?;
        if face.link_type != LinkType::PointToPoint {
            check_group_change(change)?;
        }
        face.link.set_config(config);
        if let Some(persistency) = change.persistency
            && persistency != face.persistency
        {
            if persistency == Persistency::OnDemand {
                face.heard = now;
            }
            self.leave_place(id);
            if let Some(face) = self.faces.get_mut(&id) {
                face.persistency = persistency;
            }
            self.take_place(id);
        }
        self.schedule(id);
        self.status(now, id).ok_or(UpdateFaceError::NotFound)
    }

    /// Adds a face with a link service of these settings, and reports it.
    pub(crate) fn insert(
        &mut self,
        cx: &mut PortContext<'_>,
        transport: T,
        persistency: Persistency,
        link: LinkConfig,
        adjust: impl FnOnce(&mut PeerFace<T>),
    ) -> FaceId {
        let id = cx.face_id_between(&transport.remote(), &transport.local());
        let link = LinkService::new(link, self.budget.clone());
        let mut face = PeerFace::new(transport, persistency, link, cx.now());
        adjust(&mut face);
        self.add(cx, id, face);
        id
    }

    fn add(&mut self, cx: &mut PortContext<'_>, id: FaceId, face: PeerFace<T>) {
        self.by_address.insert(face.transport.address(), id);
        cx.report(FaceEvent::Created(face.status(id, cx.now(), self.idle_timeout)));
        self.faces.insert(id, face);
        self.take_place(id);
        self.schedule(id);
        self.mark_dirty(id);
    }

    /// What another process needs to go on with a face.
    pub(crate) fn hand_over(&self, now: Ticks, id: FaceId, port: &str) -> Option<FaceRecord> {
        self.faces.get(&id).map(|face| face.hand_over(now, id, port))
    }

    /// Goes on with a face of another process. Returns false if there is a face to this peer.
    pub(crate) fn take_over(&mut self, cx: &mut PortContext<'_>, transport: T, record: &FaceRecord) -> bool {
        if self.by_address.contains_key(&transport.address()) {
            return false;
        }
        let link = LinkService::taken_over(cx.now(), &record.link, self.budget.clone());
        let face = PeerFace::taken_over(cx.now(), transport, link, record);
        self.add(cx, FaceId(record.id), face);
        true
    }

    /// Removes a face and reports that. Returns false if the face does not exist.
    pub(crate) fn remove(&mut self, cx: &mut PortContext<'_>, id: FaceId) -> bool {
        self.leave_place(id);
        let Some(face) = self.faces.remove(&id) else { return false };
        if let Some(at) = face.timer {
            self.timers.remove(&(at, id));
        }
        self.by_address.remove(&face.transport.address());
        face.end();
        // Its id may stay in `dirty`, where it is skipped.
        cx.report(FaceEvent::Destroyed(face.status(id, cx.now(), self.idle_timeout)));
        true
    }

    /// Removes all on-demand faces.
    pub(crate) fn remove_on_demand(&mut self, cx: &mut PortContext<'_>) {
        let on_demand = self.faces.iter().filter(|(_, face)| face.persistency == Persistency::OnDemand);
        let ids: Vec<FaceId> = on_demand.map(|(id, _)| *id).collect();
        for id in ids {
            self.remove(cx, id);
        }
    }

    /// Makes room for an on-demand face to this address, if necessary by evicting a face with little to lose. Otherwise
    /// counts the newcomer's frame as refused, and returns false.
    pub(crate) fn make_room(&mut self, cx: &mut PortContext<'_>, newcomer: &T::Address) -> bool {
        let room = !self.places.is_full() || self.evict(cx, newcomer);
        self.refused += u64::from(!room);
        room
    }

    /// Records whether routes lead to a face. Faces with routes are never evicted.
    pub(crate) fn set_routed(&mut self, id: FaceId, is_routed: bool) {
        self.leave_place(id);
        if let Some(face) = self.faces.get_mut(&id) {
            face.is_routed = is_routed;
        }
        self.take_place(id);
    }

    /// Sends a packet on one of the faces; with `push` if it need not wait for other packets.
    #[inline]
    pub(crate) fn send_at_once(
        &mut self,
        now: Ticks,
        outgoing: &mut Outgoing,
        push: impl FnOnce(&T, &[u8]) -> Option<Pushed>,
    ) {
        let id = outgoing.face;
        let Some(face) = self.faces.get_mut(&id) else { return };
        face.send_at_once(now, outgoing, push);
        if face.queue.is_empty() {
            return;
        }
        if face.has_earlier_deadline() {
            self.schedule(id);
        }
        self.mark_dirty(id);
    }

    /// Queues a packet for one of the faces while the system takes none. Drops and counts it if the interface is down
    /// or too much waits already.
    pub(crate) fn hold(&mut self, now: Ticks, outgoing: &mut Outgoing) {
        let id = outgoing.face;
        let Some(face) = self.faces.get_mut(&id) else { return };
        if !face.up || face.queue_bytes > QUEUE_BYTES_MAX {
            face.link.counters.out_drops += 1;
            return;
        }
        face.send(now, outgoing, face.queue_bytes);
        if face.has_earlier_deadline() {
            self.schedule(id);
        }
        self.mark_dirty(id);
    }

    /// Marks the faces as down, because no frame can leave any more. Drops queued frames, and reports the faces that
    /// stay. On-demand faces may end when they are idle.
    pub(crate) fn take_down(&mut self, cx: &mut PortContext<'_>) {
        for face in self.faces.values_mut() {
            face.up = false;
            let frames = face.queue.len();
            face.link.counters.out_drops += frames as u64;
            face.dequeue(frames);
        }
        self.report_lasting(cx, FaceEvent::Down);
    }

    /// Marks the faces as up, because frames can leave again.
    pub(crate) fn take_up(&mut self, cx: &mut PortContext<'_>) {
        self.faces.values_mut().for_each(|face| face.up = true);
        self.report_lasting(cx, FaceEvent::Up);
    }

    fn report_lasting(&mut self, cx: &mut PortContext<'_>, event: fn(FaceStatus) -> FaceEvent) {
        let lasting = self.faces.iter().filter(|(_, face)| face.persistency != Persistency::OnDemand);
        for (id, face) in lasting {
            cx.report(event(face.status(*id, cx.now(), self.idle_timeout)));
        }
    }

    /// Sets the timer of a face to its earliest deadline.
    pub(crate) fn schedule(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let idle = (face.persistency == Persistency::OnDemand).then(|| face.heard + self.idle_timeout);
        let link = face.link.next_deadline();
        let next = match (idle, link) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if next == face.timer {
            return;
        }
        if let Some(at) = face.timer {
            self.timers.remove(&(at, id));
        }
        if let Some(at) = next {
            self.timers.insert((at, id));
        }
        face.timer = next;
    }

    /// Records that a face has queued frames.
    pub(crate) fn mark_dirty(&mut self, id: FaceId) {
        if let Some(face) = self.get_mut(id)
            && !face.dirty
            && !face.queue.is_empty()
        {
            face.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Whether any face has queued frames.
    pub(crate) fn has_queued(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Calls `send` to empty the queue of each face with frames, until the system takes no more.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&mut PeerFace<T>) -> Sent) -> Sent {
        let (mut dirty, mut sent) = (std::mem::take(&mut self.dirty), Sent::All);
        dirty.retain(|id| {
            let Some(face) = self.get_mut(*id) else { return false };
            if sent == Sent::All {
                sent = send(face);
                face.settle_account();
            }
            face.dirty = !face.queue.is_empty();
            face.dirty
        });
        self.dirty = dirty;
        sent
    }

    /// Removes an on-demand face that has little to lose.
    fn evict(&mut self, cx: &mut PortContext<'_>, newcomer: &T::Address) -> bool {
        let (now, faces) = (cx.now(), &self.faces);
        let standing = |id| {
            let face: &PeerFace<T> = &faces[&id];
            face.standing(now)
        };
        let victim = self.places.choose(now, T::group(newcomer), standing);
        victim.is_some_and(|id| self.remove(cx, id))
    }

    /// Adds an on-demand face to those that may be evicted, or to the count of those with routes.
    fn take_place(&mut self, id: FaceId) {
        let Some(face) = self.faces.get(&id).filter(|face| face.persistency == Persistency::OnDemand) else { return };
        match face.is_routed {
            true => self.places.count_routed(true),
            false => self.places.add(id, T::group(&face.transport.address())),
        }
    }

    /// Undoes [`Peers::take_place`]. The face must not have changed in between.
    fn leave_place(&mut self, id: FaceId) {
        let Some(face) = self.faces.get(&id).filter(|face| face.persistency == Persistency::OnDemand) else { return };
        match face.is_routed {
            true => self.places.count_routed(false),
            false => drop(self.places.remove(id)),
        }
    }
}

/// Refuses changes that a group cannot have.
pub(crate) fn check_group_change(change: &FaceChange) -> Result<(), UpdateFaceError> {
    if change.persistency.is_some_and(|p| p != Persistency::Permanent) {
        return Err(UpdateFaceError::Unacceptable("multicast faces are permanent".into()));
    }
    if change.flags.is_some_and(|f| f.reliability) {
        return Err(UpdateFaceError::Unacceptable("a group does not acknowledge".into()));
    }
    Ok(())
}

/// Link settings that management requests for a datagram face. The error tells why they are refused.
pub(crate) fn requested_link_config(
    default: &LinkConfig,
    request: &FaceRequest,
    scope: Scope,
    mtu_max: usize,
) -> Result<LinkConfig, CreateFaceError> {
    if request.persistency == Persistency::OnDemand {
        return Err(CreateFaceError::Unacceptable("on-demand faces are made by their peers only".into()));
    }
    let change = FaceChange {
        mtu: request.mtu,
        flags: Some(request.flags),
        base_congestion_marking_interval_ns: request.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: request.default_congestion_threshold_bytes,
        ..FaceChange::default()
    };
    changed_link_config(default, &change, scope, mtu_max).map_err(CreateFaceError::Unacceptable)
}

/// Link settings of a datagram face after a change. The error tells what is wrong with them.
pub(crate) fn changed_link_config(
    old: &LinkConfig,
    change: &FaceChange,
    scope: Scope,
    mtu_max: usize,
) -> Result<LinkConfig, String> {
    let mut config = old.clone();
    if let Some(mtu) = change.mtu {
        if mtu < MTU_MIN {
            return Err(format!("the MTU must be at least {MTU_MIN}"));
        }
        config.mtu = Some(usize::try_from(mtu).unwrap_or(usize::MAX).min(mtu_max));
    }
    if let Some(flags) = change.flags {
        if flags.local_fields && scope != Scope::Local {
            return Err("local fields can only be enabled on faces with local scope".into());
        }
        config.flags = flags;
    }
    if let Some(ns) = change.base_congestion_marking_interval_ns {
        config.base_congestion_marking_interval = Duration::from_nanos(ns);
    }
    if let Some(bytes) = change.default_congestion_threshold_bytes {
        config.congestion_threshold_bytes = bytes;
    }
    Ok(config)
}
