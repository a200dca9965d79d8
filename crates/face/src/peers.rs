//! The faces of a port that has one socket for many peers: found by the peer's address, bounded,
//! each with its link service, its queue and its timer.
//!
//! What comes from a peer that has no face may make one, on demand. Their number is bounded: when
//! all are taken, the one that has been idle longest (found by a second chance scan, in constant
//! time) makes room, if it has been idle for [`EVICT_IDLE`]; else the newcomer is refused and
//! counted. So forged source addresses cost neither memory nor the faces of peers that are talking.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, FaceMap, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Ticks};

use crate::ethernet::socket::Pushed;
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::{Frame, LinkConfig, LinkService, MTU_MIN, ReassemblyBudget};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// An on-demand face that heard nothing for this long may make room for another.
pub const EVICT_IDLE: Duration = Duration::from_secs(10);
/// Faces looked at to find one to evict.
const EVICT_STEPS: usize = 16;
/// Bytes that wait for one face while the system takes no more.
const QUEUE_BYTES_MAX: u64 = 1 << 20;

/// Where a face's frames go.
pub(crate) trait Transport {
    /// What tells peers apart.
    type Address: Copy + Eq + Hash;

    /// The peer's.
    fn address(&self) -> Self::Address;
    /// The peer.
    fn remote(&self) -> FaceUri;
    /// The local end.
    fn local(&self) -> FaceUri;
}

/// How far sending got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The queue is empty.
    All,
    /// The system takes no more now.
    Blocked,
}

/// One peer, or one group: its link service, and what is queued for it.
pub(crate) struct PeerFace<T> {
    pub(crate) transport: T,
    pub(crate) scope: Scope,
    pub(crate) link_type: LinkType,
    pub(crate) persistency: Persistency,
    pub(crate) link: LinkService,
    /// When the peer was heard last.
    pub(crate) heard: Ticks,
    pub(crate) queue: Vec<Frame>,
    pub(crate) queue_bytes: u64,
    /// Whether frames can leave now.
    pub(crate) up: bool,
    /// The timer that is set.
    timer: Option<Ticks>,
    /// It is among those to flush.
    dirty: bool,
}

impl<T: Transport> PeerFace<T> {
    /// A face of non-local scope to one peer.
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
            timer: None,
            dirty: false,
        }
    }

    /// Whether the link service is due before the timer that is set.
    pub(crate) fn has_earlier_deadline(&self) -> bool {
        self.link.next_deadline().is_some_and(|at| self.timer.is_none_or(|timer| at < timer))
    }

    /// Queues a packet.
    pub(crate) fn send(&mut self, now: Ticks, outgoing: &mut Outgoing, congested_bytes: u64) {
        let before = self.queue.len();
        self.link.send(now, outgoing, congested_bytes, &mut self.queue);
        self.count_queued(before);
    }

    /// Sends a packet that needs no link header, and before which nothing waits, by `push`, at once; queues others.
    /// Where `push` yields nothing, it is dropped.
    #[inline]
    pub(crate) fn send_at_once(
        &mut self,
        now: Ticks,
        outgoing: &mut Outgoing,
        push: impl FnOnce(&T, &[u8]) -> Option<Pushed>,
    ) {
        // What is queued only until the end of the burst is no congestion.
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
            let Outgoing { fields, packet, .. } = outgoing.take();
            self.link.send_lp(now, fields, packet, &mut self.queue);
        }
        self.count_queued(0);
    }

    /// Queues what timers of the link yield.
    pub(crate) fn on_deadline(&mut self, now: Ticks) {
        let before = self.queue.len();
        self.link.on_deadline(now, &mut self.queue);
        self.count_queued(before);
    }

    /// Takes the first `done` frames, which were sent or dropped, from the queue.
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
            remote: self.transport.remote(),
            local: self.transport.local(),
            scope: self.scope,
            link_type: self.link_type,
            persistency: self.persistency,
            mtu: config.mtu.map(|mtu| mtu as u64),
            flags: config.flags,
            base_congestion_marking_interval_ns: config.base_congestion_marking_interval.as_nanos() as u64,
            default_congestion_threshold_bytes: config.congestion_threshold_bytes,
            expires_in_ms: on_demand.then(|| (self.heard + idle_timeout).since(now).as_millis() as u64),
            up: self.up,
            counters: FaceCounters::default(),
            link: self.link.counters,
        }
    }

    fn count_queued(&mut self, before: usize) {
        self.queue_bytes += self.queue[before..].iter().map(|f| f.len() as u64).sum::<u64>();
    }
}

/// Faces by id and by peer.
pub(crate) struct Peers<T: Transport> {
    on_demand_faces_max: usize,
    idle_timeout: Duration,
    /// Peers choose their addresses, so this map's hash is keyed.
    by_address: HashMap<T::Address, FaceId>,
    faces: FaceMap<PeerFace<T>>,
    /// Faces in the order in which eviction looks at them.
    on_demand: VecDeque<FaceId>,
    on_demand_count: usize,
    timers: BTreeSet<(Ticks, FaceId)>,
    /// Faces with something queued.
    dirty: Vec<FaceId>,
    budget: ReassemblyBudget,
    /// Frames of strangers that got no face.
    pub(crate) refused: u64,
}

impl<T: Transport> Peers<T> {
    pub(crate) fn new(on_demand_faces_max: usize, idle_timeout: Duration) -> Self {
        Peers {
            on_demand_faces_max,
            idle_timeout,
            by_address: HashMap::new(),
            faces: FaceMap::default(),
            on_demand: VecDeque::new(),
            on_demand_count: 0,
            timers: BTreeSet::new(),
            dirty: Vec::new(),
            budget: ReassemblyBudget::default(),
            refused: 0,
        }
    }

    pub(crate) fn find(&self, address: &T::Address) -> Option<FaceId> {
        self.by_address.get(address).copied()
    }

    pub(crate) fn get_mut(&mut self, id: FaceId) -> Option<&mut PeerFace<T>> {
        self.faces.get_mut(&id)
    }

    /// All faces.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (FaceId, &mut PeerFace<T>)> {
        self.faces.iter_mut().map(|(id, face)| (*id, face))
    }

    /// Whether nothing is left of any face.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.faces.is_empty() && self.by_address.is_empty() && self.timers.is_empty() && self.on_demand_count == 0
    }

    pub(crate) fn status(&self, now: Ticks, id: FaceId) -> Option<FaceStatus> {
        self.faces.get(&id).map(|f| f.status(id, now, self.idle_timeout))
    }

    pub(crate) fn next_deadline(&self) -> Option<Ticks> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now`, which may queue frames: those of links, and the end of faces
    /// that are idle.
    pub(crate) fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        let now = cx.now();
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(face) = self.faces.get_mut(&id) else { continue };
            face.timer = None;
            if face.persistency == Persistency::OnDemand && now.since(face.heard) >= self.idle_timeout {
                self.remove(cx, id);
                continue;
            }
            face.on_deadline(now);
            self.schedule(id);
            self.mark_dirty(id);
        }
    }

    /// Changes a face; its frames can have up to `mtu_max` octets.
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
                self.on_demand_count += 1;
                if !self.on_demand.contains(&id) {
                    self.on_demand.push_back(id);
                }
                face.heard = now;
            } else if face.persistency == Persistency::OnDemand {
                self.on_demand_count -= 1;
            }
            face.persistency = persistency;
        }
        self.schedule(id);
        self.status(now, id).ok_or(UpdateFaceError::NotFound)
    }

    /// Adds a face, with a link service of these settings, and reports it.
    pub(crate) fn insert(
        &mut self,
        cx: &mut PortContext<'_>,
        transport: T,
        persistency: Persistency,
        link: LinkConfig,
        adjust: impl FnOnce(&mut PeerFace<T>),
    ) -> FaceId {
        let id = cx.create_face_id();
        let link = LinkService::new(link, self.budget.clone());
        let mut face = PeerFace::new(transport, persistency, link, cx.now());
        adjust(&mut face);
        if persistency == Persistency::OnDemand {
            self.on_demand_count += 1;
            self.on_demand.push_back(id);
        }
        self.by_address.insert(face.transport.address(), id);
        cx.report(FaceEvent::Created(face.status(id, cx.now(), self.idle_timeout)));
        self.faces.insert(id, face);
        self.schedule(id);
        id
    }

    /// Removes a face and reports that; false if there is none such.
    pub(crate) fn remove(&mut self, cx: &mut PortContext<'_>, id: FaceId) -> bool {
        let Some(face) = self.faces.remove(&id) else { return false };
        if let Some(at) = face.timer {
            self.timers.remove(&(at, id));
        }
        self.by_address.remove(&face.transport.address());
        if face.persistency == Persistency::OnDemand {
            self.on_demand_count -= 1;
        }
        // Names in `on_demand` and `dirty` that mean nothing any more are skipped there.
        if self.on_demand.len() > 2 * self.on_demand_count + 64 {
            self.on_demand.retain(|id| self.faces.contains_key(id));
        }
        cx.report(FaceEvent::Destroyed(face.status(id, cx.now(), self.idle_timeout)));
        true
    }

    /// Whether there is room for one more on-demand face, or one that was idle made room; counts
    /// the frame of the newcomer as refused otherwise.
    pub(crate) fn make_room(&mut self, cx: &mut PortContext<'_>) -> bool {
        let room = self.on_demand_count < self.on_demand_faces_max || self.evict(cx);
        self.refused += u64::from(!room);
        room
    }

    /// Sends a packet on one of the faces: by `push`, if it need not wait for others.
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

    /// Queues a packet for one of the faces while the system takes none; drops and counts it where the interface is
    /// down, or where too much waits already.
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

    /// No frame can leave any more: drops what is queued, and tells of the faces that outlive this. Those
    /// that peers made may go when they are idle.
    pub(crate) fn take_down(&mut self, cx: &mut PortContext<'_>) {
        for face in self.faces.values_mut() {
            face.up = false;
            let frames = face.queue.len();
            face.link.counters.out_drops += frames as u64;
            face.dequeue(frames);
        }
        self.report_lasting(cx, FaceEvent::Down);
    }

    /// Frames can leave again.
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

    /// Sets the timer of a face to what is due first.
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

    /// Notes that a face has frames queued.
    pub(crate) fn mark_dirty(&mut self, id: FaceId) {
        if let Some(face) = self.faces.get_mut(&id)
            && !face.dirty
            && !face.queue.is_empty()
        {
            face.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Whether any face has frames queued.
    pub(crate) fn has_queued(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Has `send` empty the queue of each face that has frames, until the system takes no more.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&mut PeerFace<T>) -> Sent) -> Sent {
        let (mut dirty, mut sent) = (std::mem::take(&mut self.dirty), Sent::All);
        dirty.retain(|id| {
            let Some(face) = self.faces.get_mut(id) else { return false };
            if sent == Sent::All {
                sent = send(face);
            }
            face.dirty = !face.queue.is_empty();
            face.dirty
        });
        self.dirty = dirty;
        sent
    }

    /// Removes an on-demand face that has been idle.
    fn evict(&mut self, cx: &mut PortContext<'_>) -> bool {
        for _ in 0..EVICT_STEPS.min(self.on_demand.len()) {
            let Some(id) = self.on_demand.pop_front() else { return false };
            match self.faces.get(&id) {
                Some(face) if face.persistency != Persistency::OnDemand => {}
                Some(face) if cx.now().since(face.heard) >= EVICT_IDLE => return self.remove(cx, id),
                Some(_) => self.on_demand.push_back(id),
                None => {}
            }
        }
        false
    }
}

/// What a group cannot have, in face commands.
pub(crate) fn check_group_change(change: &FaceChange) -> Result<(), UpdateFaceError> {
    if change.persistency.is_some_and(|p| p != Persistency::Permanent) {
        return Err(UpdateFaceError::Unacceptable("multicast faces are permanent".into()));
    }
    if change.flags.is_some_and(|f| f.reliability) {
        return Err(UpdateFaceError::Unacceptable("a group does not acknowledge".into()));
    }
    Ok(())
}

/// The settings of a datagram face that management asks for; why it cannot be had otherwise.
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

/// The settings of a datagram face after a change; what is wrong with them otherwise.
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
