//! The faces of one UDP socket: found by peer, bounded, each with its timer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use byname_forward::face_table::{FaceMap, Persistency, Scope};
use byname_forward::{FaceId, Ticks};

use super::face::UdpFace;
use super::{DATAGRAM_BYTES_MAX, EVICT_IDLE, UdpConfig, route_to};
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::{LinkConfig, LinkService, MTU_MIN, ReassemblyBudget};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// Faces looked at to find one to evict.
const EVICT_STEPS: usize = 16;

/// Faces by id and by peer.
pub(super) struct Faces {
    config: UdpConfig,
    /// The socket's own address.
    local: SocketAddr,
    /// Peers choose their addresses, so this map's hash is keyed.
    peers: HashMap<SocketAddr, FaceId>,
    faces: FaceMap<UdpFace>,
    /// Faces in the order in which eviction looks at them.
    on_demand: VecDeque<FaceId>,
    on_demand_count: usize,
    timers: BTreeSet<(Ticks, FaceId)>,
    budget: ReassemblyBudget,
    /// Datagrams of strangers that got no face.
    pub(super) refused: u64,
}

impl Faces {
    pub(super) fn new(config: UdpConfig, local: SocketAddr) -> Self {
        Faces {
            config,
            local,
            peers: HashMap::new(),
            faces: FaceMap::default(),
            on_demand: VecDeque::new(),
            on_demand_count: 0,
            timers: BTreeSet::new(),
            budget: ReassemblyBudget::default(),
            refused: 0,
        }
    }

    pub(super) fn find(&self, remote: &SocketAddr) -> Option<FaceId> {
        self.peers.get(remote).copied()
    }

    pub(super) fn get_mut(&mut self, id: FaceId) -> Option<&mut UdpFace> {
        self.faces.get_mut(&id)
    }

    /// Whether nothing is left of any face.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.faces.is_empty() && self.peers.is_empty() && self.timers.is_empty() && self.on_demand_count == 0
    }

    pub(super) fn status(&self, now: Ticks, id: FaceId) -> Option<FaceStatus> {
        self.faces.get(&id).map(|f| f.status(id, now, self.config.idle_timeout))
    }

    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does what is due for one face, which may have frames to send then; `None` when no face has
    /// anything due.
    pub(super) fn pop_due(&mut self, cx: &mut PortContext<'_>) -> Option<FaceId> {
        let now = cx.now();
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(face) = self.faces.get_mut(&id) else { continue };
            face.timer = None;
            if face.persistency == Persistency::OnDemand && now.since(face.heard) >= self.config.idle_timeout {
                self.remove(cx, id);
                continue;
            }
            face.on_deadline(now);
            self.schedule(id);
            return Some(id);
        }
        None
    }

    /// Makes a face that management asked for; `None` when it is not for this socket.
    pub(super) fn create_by_request(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let FaceUri::Udp(remote) = request.remote else { return None };
        if remote.is_ipv4() != self.local.is_ipv4() || remote.ip().is_multicast() {
            return None;
        }
        let remote = without_flow(remote);
        match &request.local {
            None => {}
            Some(FaceUri::Udp(local)) if local.port() == self.local.port() && self.may_send_from(local.ip()) => {}
            Some(_) => return None,
        }
        if let Some(status) = self.find(&remote).and_then(|id| self.status(cx.now(), id)) {
            return Some(Err(CreateFaceError::Exists(Box::new(status))));
        }
        Some(self.create_checked(cx, remote, request))
    }

    pub(super) fn update(
        &mut self,
        now: Ticks,
        id: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        let face = self.faces.get_mut(&id).ok_or(UpdateFaceError::NotFound)?;
        let config =
            changed_link_config(face.link.config(), change, face.scope).map_err(UpdateFaceError::Unacceptable)?;
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

    fn link_config(&self) -> LinkConfig {
        let mut link = LinkConfig { mtu: Some(self.config.mtu), ..LinkConfig::default() };
        link.flags.congestion_marking = self.config.congestion_marking;
        link
    }

    fn scope(&self, remote: &SocketAddr) -> Scope {
        if self.config.loopback_is_local && remote.ip().is_loopback() { Scope::Local } else { Scope::NonLocal }
    }

    fn insert(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        local: IpAddr,
        persistency: Persistency,
        link: LinkConfig,
    ) -> FaceId {
        let id = cx.create_face_id();
        let local = SocketAddr::new(local, self.local.port());
        let link = LinkService::new(link, self.budget.clone());
        let face = UdpFace::new(remote, local, self.scope(&remote), persistency, link, cx.now());
        if persistency == Persistency::OnDemand {
            self.on_demand_count += 1;
            self.on_demand.push_back(id);
        }
        self.peers.insert(remote, id);
        self.faces.insert(id, face);
        self.schedule(id);
        cx.report(FaceEvent::Created(self.faces[&id].status(id, cx.now(), self.config.idle_timeout)));
        id
    }

    pub(super) fn remove(&mut self, cx: &mut PortContext<'_>, id: FaceId) -> bool {
        let Some(face) = self.faces.remove(&id) else { return false };
        if let Some(at) = face.timer {
            self.timers.remove(&(at, id));
        }
        self.peers.remove(&face.remote);
        if face.persistency == Persistency::OnDemand {
            self.on_demand_count -= 1;
        }
        // Names in `on_demand` and `dirty` that mean nothing any more are skipped there.
        if self.on_demand.len() > 2 * self.on_demand_count + 64 {
            self.on_demand.retain(|id| self.faces.contains_key(id));
        }
        cx.report(FaceEvent::Destroyed(face.status(id, cx.now(), self.config.idle_timeout)));
        true
    }

    /// A face for a peer that has none; `None` when it may not have one.
    pub(super) fn create_on_demand(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<FaceId> {
        if !self.config.on_demand || !is_usable(&remote) {
            self.refused += 1;
            return None;
        }
        let local = local.filter(|ip| !ip.is_multicast() && !ip.is_unspecified());
        if self.on_demand_count >= self.config.on_demand_faces_max && !self.evict(cx) {
            self.refused += 1;
            return None;
        }
        let local = local.unwrap_or_else(|| self.local.ip());
        let config = self.link_config();
        Some(self.insert(cx, remote, local, Persistency::OnDemand, config))
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

    /// Sets the timer of a face to what is due first.
    pub(super) fn schedule(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let idle = (face.persistency == Persistency::OnDemand).then(|| face.heard + self.config.idle_timeout);
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

    fn may_send_from(&self, ip: IpAddr) -> bool {
        self.local.ip().is_unspecified() || self.local.ip() == ip
    }

    fn create_checked(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        request: &FaceRequest,
    ) -> Result<FaceStatus, CreateFaceError> {
        if !is_usable(&remote) {
            return Err(CreateFaceError::Unacceptable(format!("{remote} is no address of a peer")));
        }
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
        let config = changed_link_config(&self.link_config(), &change, self.scope(&remote))
            .map_err(CreateFaceError::Unacceptable)?;
        let local = match request.local {
            Some(FaceUri::Udp(local)) => local.ip(),
            _ if !self.local.ip().is_unspecified() => self.local.ip(),
            _ => match route_to(remote) {
                Ok(route) => route.local,
                // No route now; there may be one later.
                Err(_) => self.local.ip(),
            },
        };
        let id = self.insert(cx, remote, local, request.persistency, config);
        Ok(self.faces[&id].status(id, cx.now(), self.config.idle_timeout))
    }
}

/// The settings of a datagram face after a change; what is wrong with them otherwise.
pub(super) fn changed_link_config(old: &LinkConfig, change: &FaceChange, scope: Scope) -> Result<LinkConfig, String> {
    let mut config = old.clone();
    if let Some(mtu) = change.mtu {
        if mtu < MTU_MIN {
            return Err(format!("the MTU must be at least {MTU_MIN}"));
        }
        config.mtu = Some(usize::try_from(mtu).unwrap_or(usize::MAX).min(DATAGRAM_BYTES_MAX));
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

/// Whether datagrams can be sent there.
fn is_usable(remote: &SocketAddr) -> bool {
    let broadcast = matches!(remote.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    remote.port() != 0 && !remote.ip().is_unspecified() && !remote.ip().is_multicast() && !broadcast
}

/// One peer is one address, whatever IPv6 flow its datagrams belong to.
pub(super) fn without_flow(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}
