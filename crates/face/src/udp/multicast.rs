//! UDP multicast: a face to the group on each suitable interface.
//!
//! Each interface has a socket of its own. It is bound to the interface and the group's address, joins there and sends
//! there, so that packets of one link are never taken for another's. If the system refuses to bind a socket to a
//! device, the interface index of each datagram tells whether it is of another interface.
//!
//! The system reports changes of interfaces or their addresses, and then all interfaces are checked again. When an
//! interface goes down, disappears or loses its address, its face stays and drops what it is to send. When the
//! interface is back under the same name, its face is up again. An interface that cannot be joined causes a warning,
//! and is tried again each [`RETRY_INTERVAL`].

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

use byname_forward::face_table::{LinkType, Persistency};
use byname_forward::{FaceId, Network, Outgoing, Ticks};
use mio::Interest;
use mio::unix::SourceFd;
use rustix::net::{bind, sockopt};

use super::face::{UdpFace, UdpTransport};
use super::interfaces::{Interface, Watch, interfaces};
use super::socket::{DATAGRAM_BYTES_MAX, DatagramSocket, Waiting};
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::handover::HandedFace;
use crate::link::{self, LinkConfig, LinkService, ReassemblyBudget};
use crate::peers::{PeerFace, Sent, changed_link_config, check_group_change};
use crate::port::{Port, PortContext, Readiness};
use crate::system::bind_to_device;
use crate::uri::FaceUri;

/// Receive buffers of each socket. A few are enough, because groups are quiet.
const BUFFERS: usize = 4;
/// Bytes that may wait for one face while the system takes none.
const QUEUE_BYTES_MAX: u64 = 1 << 20;
/// Time between a change and the check of the interfaces, because changes come together.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// Interval of attempts to join an interface that was refused.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of faces kept for absent interfaces, if all interfaces are used. Beyond it the oldest is removed.
const ABSENT_MAX: usize = 64;
const WATCH_KEY: u32 = 0;

/// Settings of multicast.
#[derive(Debug, Clone)]
pub struct MulticastConfig {
    /// The group and its port, such as 224.0.23.170:56363, or an IPv6 group.
    pub group: SocketAddr,
    /// Names of the interfaces to use. If absent, all suitable interfaces except loopback.
    pub interfaces: Option<Vec<String>>,
    /// Whether other forwarders on this host that listen to the same group hear us.
    pub loop_back: bool,
    /// Whether some members may not hear each other, as on some radio links.
    pub ad_hoc: bool,
    /// Longest datagram sent, in bytes.
    pub mtu: usize,
    /// Socket buffer size that the system is asked for, in bytes.
    pub socket_buffer_bytes: usize,
}

impl MulticastConfig {
    /// Default settings for this group.
    pub fn new(group: SocketAddr) -> Self {
        MulticastConfig {
            group,
            interfaces: None,
            loop_back: false,
            ad_hoc: false,
            mtu: byname_wire::PACKET_BYTES_MAX,
            socket_buffer_bytes: 1 << 20,
        }
    }
}

/// Socket and face of one interface.
struct Member {
    interface: String,
    index: u32,
    /// Address of the interface when the socket joined.
    address: IpAddr,
    networks: Vec<Network>,
    /// `None`: the interface is absent now.
    socket: Option<DatagramSocket>,
    /// Key of the socket's events.
    key: u32,
    id: FaceId,
    /// `None` after management destroyed it.
    face: Option<UdpFace>,
    readable: bool,
    blocked: bool,
}

/// Faces of one group.
pub struct MulticastPort {
    config: MulticastConfig,
    members: Vec<Member>,
    /// `None` if the system does not report changes.
    watch: Option<Watch>,
    /// Time of the next check of the interfaces.
    look_at: Option<Ticks>,
    /// Interfaces that could not be joined at the last attempt.
    refused: BTreeSet<String>,
    keys: u32,
    budget: ReassemblyBudget,
    /// Identifies members by their addresses, as each numbers its fragments independently.
    endpoint_hash: RandomState,
}

impl MulticastPort {
    /// Joins the group on all suitable interfaces.
    ///
    /// # Errors
    /// If the system does not list its interfaces, or the address is not a multicast group.
    pub fn join(config: MulticastConfig) -> io::Result<Self> {
        if !config.group.ip().is_multicast() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no multicast group", config.group)));
        }
        // Opened first, so that no change is missed.
        let watch = Watch::open().inspect_err(|error| {
            tracing::warn!(group = %config.group, %error, "interfaces that come later will not join multicast");
        });
        let mut port = MulticastPort {
            watch: watch.ok(),
            members: Vec::new(),
            look_at: None,
            refused: BTreeSet::new(),
            keys: WATCH_KEY,
            budget: ReassemblyBudget::new(4 << 20),
            endpoint_hash: RandomState::new(),
            config,
        };
        for interface in interfaces(&port.config)? {
            if let Some(socket) = port.open(&interface) {
                let face = new_face(&port.config, &port.budget, &interface);
                port.members.push(Member::new(interface, Some(socket), face));
            }
        }
        Ok(port)
    }

    /// Names of the interfaces on which it has joined.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter(|m| m.socket.is_some()).map(|m| m.interface.as_str())
    }

    /// Opens a socket that has joined on an interface.
    fn open(&mut self, interface: &Interface) -> Option<DatagramSocket> {
        let joined = join_on(&self.config, interface);
        match joined.and_then(|s| DatagramSocket::new(s, BUFFERS, self.config.socket_buffer_bytes)) {
            Ok(socket) => {
                self.refused.remove(&interface.name);
                Some(socket)
            }
            Err(error) => {
                if self.refused.insert(interface.name.clone()) {
                    let group = self.config.group;
                    tracing::warn!(%group, interface = interface.name, %error, "cannot join multicast");
                }
                None
            }
        }
    }

    /// Checks the interfaces again.
    fn look(&mut self, cx: &mut PortContext<'_>) {
        let found = match interfaces(&self.config) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the system does not list its interfaces");
                self.look_at = Some(cx.now() + RETRY_INTERVAL);
                return;
            }
        };
        self.refused.retain(|name| found.iter().any(|interface| interface.name == *name));
        for member in self.members.iter_mut().filter(|m| m.socket.is_some()) {
            if !found.iter().any(|interface| member.is_on(interface)) {
                tracing::info!(interface = member.interface, "the interface cannot be used for multicast now");
                member.leave(cx);
            }
        }
        for interface in found {
            if !self.members.iter().any(|m| m.socket.is_some() && m.is_on(&interface)) {
                self.enter(cx, interface);
            }
        }
        if !self.refused.is_empty() {
            self.look_at = Some(cx.now() + RETRY_INTERVAL);
        }
        self.forget_oldest(cx);
    }

    /// Joins on an interface that has come or come back.
    fn enter(&mut self, cx: &mut PortContext<'_>, interface: Interface) {
        let Some(socket) = self.open(&interface) else { return };
        tracing::info!(interface = interface.name, group = %self.config.group, "joins multicast");
        match self.members.iter_mut().find(|m| m.interface == interface.name) {
            Some(member) => {
                if let Some(face) = &mut member.face {
                    (face.up, face.transport.local) = (true, local_address(&self.config, &interface));
                    face.transport.networks = Some(interface.networks.as_slice().into());
                }
                (member.index, member.address, member.socket) = (interface.index, interface.address, Some(socket));
                member.networks = interface.networks;
                member.report(cx, FaceEvent::Up);
                self.keys = member.register(cx, self.keys);
            }
            None => {
                let face = new_face(&self.config, &self.budget, &interface);
                let mut member = Member::new(interface, Some(socket), face);
                member.id = cx.create_face_id();
                member.report(cx, FaceEvent::Created);
                self.keys = member.register(cx, self.keys);
                self.members.push(member);
            }
        }
    }

    /// Removes the oldest absent interfaces if there are too many, because their names may never come back.
    fn forget_oldest(&mut self, cx: &mut PortContext<'_>) {
        let absent = self.members.iter().filter(|m| m.socket.is_none()).count();
        for _ in ABSENT_MAX..absent {
            let Some(oldest) = self.members.iter().position(|m| m.socket.is_none()) else { return };
            self.members.remove(oldest).report(cx, FaceEvent::Destroyed);
        }
    }

    fn member(&mut self, id: FaceId) -> Option<(&mut Member, usize)> {
        self.members.iter_mut().zip(0..).find(|(m, _)| m.id == id && m.face.is_some())
    }
}

impl Member {
    fn new(interface: Interface, socket: Option<DatagramSocket>, face: UdpFace) -> Self {
        Member {
            interface: interface.name,
            index: interface.index,
            address: interface.address,
            networks: interface.networks,
            socket,
            key: WATCH_KEY,
            id: FaceId::NONE,
            face: Some(face),
            readable: true,
            blocked: false,
        }
    }

    /// Whether the interface is the same as when the socket joined.
    fn is_on(&self, interface: &Interface) -> bool {
        self.interface == interface.name
            && self.index == interface.index
            && self.address == interface.address
            && self.networks == interface.networks
    }

    /// Registers the socket's events under the key after `last_key`. Returns the new key.
    fn register(&mut self, cx: &PortContext<'_>, last_key: u32) -> u32 {
        self.key = last_key.wrapping_add(1).max(WATCH_KEY + 1);
        // Datagrams that came before the registration raise no edge.
        self.readable = true;
        if let Some(socket) = &self.socket
            && let Err(error) = cx.register(&mut SourceFd(&socket.raw_fd()), self.key, Interest::READABLE)
        {
            tracing::error!(%error, interface = self.interface, "cannot wait for multicast");
        }
        self.key
    }

    /// Closes the socket of an absent interface, and drops queued frames.
    fn leave(&mut self, cx: &mut PortContext<'_>) {
        (self.socket, self.readable, self.blocked) = (None, false, false);
        if let Some(face) = &mut self.face {
            face.up = false;
            let frames = face.queue.len();
            face.link.counters.out_drops += frames as u64;
            face.dequeue(frames);
        }
        self.report(cx, FaceEvent::Down);
    }

    fn report(&self, cx: &mut PortContext<'_>, event: fn(FaceStatus) -> FaceEvent) {
        if let Some(status) = self.describe(cx.now()) {
            cx.report(event(status));
        }
    }

    fn describe(&self, now: Ticks) -> Option<FaceStatus> {
        self.face.as_ref().map(|face| face.status(self.id, now, Duration::ZERO))
    }
}

impl MulticastPort {
    /// What another process needs to go on with a face, and the socket of its interface.
    fn give(&self, now: Ticks, id: FaceId) -> Option<HandedFace> {
        let member = self.members.iter().find(|member| member.id == id)?;
        let mut record = member.face.as_ref()?.hand_over(now, id, self.name());
        if let Some(peer) = &mut record.peer {
            peer.interface = Some(member.interface.clone());
        }
        Some(HandedFace {
            record: Box::new(record),
            descriptor: member.socket.as_ref().and_then(DatagramSocket::share),
        })
    }

    /// Goes on with a face of another process. Gives it back if the face is of another group or interface.
    fn take(&mut self, cx: &mut PortContext<'_>, handed: HandedFace) -> Result<(), HandedFace> {
        let record = &handed.record;
        let is_ours = record.port == self.name() && record.remote == FaceUri::Udp(self.config.group).to_string();
        let interface = record.peer.as_ref().and_then(|peer| peer.interface.as_ref());
        let is_on = |member: &&mut Member| Some(&member.interface) == interface && member.id == FaceId::NONE;
        let member = self.members.iter_mut().find(is_on).filter(|_| is_ours);
        let Some(Member { id, socket, face: Some(face), .. }) = member else { return Err(handed) };
        *id = FaceId(record.id);
        face.link = LinkService::taken_over(cx.now(), &record.link, self.budget.clone());
        // The other process may have left packets there. Those on our own socket, it has received, too.
        let inherited = handed
            .descriptor
            .and_then(|descriptor| DatagramSocket::new(descriptor, BUFFERS, self.config.socket_buffer_bytes).ok());
        if inherited.is_some() {
            *socket = inherited;
        }
        cx.report(FaceEvent::Created(face.status(*id, cx.now(), Duration::ZERO)));
        Ok(())
    }
}

impl Port for MulticastPort {
    fn name(&self) -> &str {
        "multicast"
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> io::Result<()> {
        for member in &mut self.members {
            self.keys = member.register(cx, self.keys);
            // A face of another process has its number, and was reported.
            if member.id == FaceId::NONE {
                member.id = cx.create_face_id();
                member.report(cx, FaceEvent::Created);
            }
        }
        match &self.watch {
            Some(watch) => cx.register(&mut SourceFd(&watch.raw_fd()), WATCH_KEY, Interest::READABLE),
            None => Ok(()),
        }
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
        if key == WATCH_KEY {
            if self.watch.as_ref().is_some_and(Watch::has_changed) {
                self.look_at = Some(cx.now() + SETTLE_TIME);
            }
            return;
        }
        let Some(member) = self.members.iter_mut().find(|m| m.key == key) else { return };
        let Some(socket) = &member.socket else { return };
        member.readable |= readiness.readable;
        if readiness.writable && member.blocked {
            member.blocked = false;
            let _ = cx.reregister(&mut SourceFd(&socket.raw_fd()), key, Interest::READABLE);
        }
    }

    fn hand_over(&self, now: Ticks, face: FaceId) -> Option<HandedFace> {
        self.give(now, face)
    }

    fn take_over(&mut self, cx: &mut PortContext<'_>, face: HandedFace) -> Result<(), HandedFace> {
        self.take(cx, face)
    }

    fn has_input(&self) -> bool {
        self.members.iter().any(|m| m.readable)
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        let (now, hash) = (cx.now(), &self.endpoint_hash);
        for member in self.members.iter_mut().filter(|m| m.readable) {
            let Member { socket, face, id, index, readable, .. } = member;
            let Some(socket) = socket else { continue };
            let mut datagrams = 0;
            while *readable && datagrams < packets_max {
                let waiting = socket.receive(|meta, run| {
                    datagrams += run.len();
                    let elsewhere = meta.interface_index.is_some_and(|i| i != *index);
                    let Some(face) = face.as_mut().filter(|_| !elsewhere) else { return };
                    for datagram in run.filter(|datagram| link::is_plausible(datagram)) {
                        face.heard = now;
                        face.link.receive_from(now, *id, hash.hash_one(meta.addr), datagram, cx.received());
                    }
                });
                *readable = waiting.map_or_else(
                    |error| {
                        tracing::debug!(%error, interface = member.interface, "receive");
                        false
                    },
                    |waiting| waiting == Waiting::More,
                );
            }
        }
    }

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for outgoing in burst {
            let Some((member, _)) = self.member(outgoing.face) else { continue };
            let Some(face) = &mut member.face else { continue };
            if member.socket.is_none() || (member.blocked && face.queue_bytes > QUEUE_BYTES_MAX) {
                face.link.counters.out_drops += 1;
                continue;
            }
            let congested = if member.blocked { face.queue_bytes } else { 0 };
            face.send(cx.now(), outgoing, congested);
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        for member in &mut self.members {
            let Some(face) = member.face.as_mut().filter(|f| !f.queue.is_empty() && !member.blocked) else { continue };
            let Some(socket) = &mut member.socket else { continue };
            if face.send_queued(socket) == Sent::Blocked {
                member.blocked = true;
                let both = Interest::READABLE | Interest::WRITABLE;
                let _ = cx.reregister(&mut SourceFd(&socket.raw_fd()), member.key, both);
            }
        }
    }

    fn has_output(&self) -> bool {
        self.members.iter().any(|m| m.face.as_ref().is_some_and(|f| !f.queue.is_empty()))
    }

    fn next_deadline(&self) -> Option<Ticks> {
        let faces = self.members.iter().filter_map(|m| m.face.as_ref()?.link.next_deadline());
        faces.chain(self.look_at).min()
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        for face in self.members.iter_mut().filter_map(|m| m.face.as_mut()) {
            face.on_deadline(cx.now());
        }
        if self.look_at.take_if(|at| *at <= cx.now()).is_some() {
            self.look(cx);
        }
    }

    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        if request.remote != FaceUri::Udp(self.config.group) {
            return None;
        }
        let wanted = |s: &FaceStatus| request.local.as_ref().is_none_or(|local| *local == s.local);
        Some(Err(match self.members.iter().filter_map(|m| m.describe(cx.now())).find(wanted) {
            Some(status) => CreateFaceError::Exists(Box::new(status)),
            None => CreateFaceError::Unacceptable(
                "multicast faces are made by configuration, one for each interface".into(),
            ),
        }))
    }

    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        id: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        let (member, i) = self.member(id).ok_or(UpdateFaceError::NotFound)?;
        let face = member.face.as_mut().ok_or(UpdateFaceError::NotFound)?;
        check_group_change(change)?;
        let config = changed_link_config(face.link.config(), change, face.scope, DATAGRAM_BYTES_MAX)
            .map_err(UpdateFaceError::Unacceptable)?;
        face.link.set_config(config);
        self.members[i].describe(cx.now()).ok_or(UpdateFaceError::NotFound)
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, id: FaceId) -> bool {
        let Some((_, i)) = self.member(id) else { return false };
        self.members[i].report(cx, FaceEvent::Destroyed);
        self.members[i].face = None;
        true
    }

    fn status(&self, now: Ticks, id: FaceId) -> Option<FaceStatus> {
        self.members.iter().find(|m| m.id == id).and_then(|m| m.describe(now))
    }

    fn channels(&self) -> Vec<String> {
        Vec::new()
    }
}

fn local_address(config: &MulticastConfig, interface: &Interface) -> SocketAddr {
    match interface.address {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, config.group.port(), 0, interface.index).into()
        }
        ip => SocketAddr::new(ip, config.group.port()),
    }
}

fn new_face(config: &MulticastConfig, budget: &ReassemblyBudget, interface: &Interface) -> UdpFace {
    let link = LinkConfig { mtu: Some(config.mtu), ..LinkConfig::default() };
    let link = LinkService::new(link, budget.clone());
    let mut transport = UdpTransport::new(config.group, local_address(config, interface));
    // The socket's options choose the interface, and so the source address.
    transport.source = None;
    transport.networks = Some(interface.networks.as_slice().into());
    let mut face = PeerFace::new(transport, Persistency::Permanent, link, Ticks(0));
    face.link_type = if config.ad_hoc { LinkType::AdHoc } else { LinkType::MultiAccess };
    face
}

/// A socket of the group on one interface.
fn join_on(config: &MulticastConfig, interface: &Interface) -> io::Result<OwnedFd> {
    let socket = DatagramSocket::create(&config.group)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Needs a capability on older systems. Without it, indices distinguish interfaces.
    if let Err(error) = bind_to_device(&socket, &interface.name) {
        tracing::debug!(%error, interface = interface.name, "cannot bind a socket to the device");
    }
    match config.group {
        SocketAddr::V4(group) => {
            bind(&socket, &group)?;
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(&socket, group.ip(), &any, interface.index)?;
            if let IpAddr::V4(address) = interface.address {
                sockopt::set_ip_multicast_if(&socket, &address)?;
            }
            sockopt::set_ip_multicast_loop(&socket, config.loop_back)?;
            sockopt::set_ip_multicast_ttl(&socket, 1)?;
        }
        SocketAddr::V6(group) => {
            let scoped = SocketAddrV6::new(*group.ip(), group.port(), 0, interface.index);
            bind(&socket, &scoped)?;
            sockopt::set_ipv6_add_membership(&socket, group.ip(), interface.index)?;
            sockopt::set_ipv6_multicast_if(&socket, interface.index)?;
            sockopt::set_ipv6_multicast_loop(&socket, config.loop_back)?;
            sockopt::set_ipv6_multicast_hops(&socket, 1)?;
        }
    }
    Ok(socket)
}
