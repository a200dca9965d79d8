//! UDP multicast: a face to the group on each interface that can.
//!
//! Each interface has a socket of its own, bound to the group's address, joined there and sending
//! there, so that what one link says is never taken for another's. Who may bind sockets to
//! devices is served by the system; where it refuses that, datagrams of other interfaces are told
//! apart by the index that comes with them.
//!
//! Interfaces are looked at once, at the start. One that cannot be joined is a warning.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use byname_forward::face_table::{LinkType, Persistency};
use byname_forward::{FaceId, Outgoing, Ticks};
use mio::Interest;
use mio::unix::SourceFd;
use nix::net::if_::InterfaceFlags;
use socket2::{InterfaceIndexOrAddress, Socket};

use super::face::{UdpFace, UdpTransport};
use super::socket::{DATAGRAM_BYTES_MAX, DatagramSocket, Waiting};
use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::{self, LinkConfig, LinkService, ReassemblyBudget};
use crate::peers::{PeerFace, Sent, changed_link_config, check_group_change};
use crate::port::{Port, PortContext, Readiness};
use crate::uri::FaceUri;

/// Receive buffers of each socket: groups are quiet.
const BUFFERS: usize = 4;
/// Bytes that wait for one face while the system takes none.
const QUEUE_BYTES_MAX: u64 = 1 << 20;

/// Settings of multicast.
#[derive(Debug, Clone)]
pub struct MulticastConfig {
    /// The group and its port: 224.0.23.170:56363, or an IPv6 group.
    pub group: SocketAddr,
    /// Names of the interfaces to use; all that can, but loopback, when absent.
    pub interfaces: Option<Vec<String>>,
    /// Whether other forwarders on this very host, listening to the same group, hear us.
    pub loop_back: bool,
    /// Not all members hear each other, as on some radio links.
    pub ad_hoc: bool,
    /// Longest datagram sent, in octets.
    pub mtu: usize,
    /// Buffers that the system is asked for, in bytes.
    pub socket_buffer_bytes: usize,
}

impl MulticastConfig {
    /// The defaults, for this group.
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

/// One interface's socket and face.
struct Member {
    interface: String,
    index: u32,
    socket: DatagramSocket,
    id: FaceId,
    /// Gone when management destroyed it.
    face: Option<UdpFace>,
    readable: bool,
    blocked: bool,
}

/// The faces of one group.
pub struct MulticastPort {
    config: MulticastConfig,
    members: Vec<Member>,
    budget: ReassemblyBudget,
    /// Members fragment with Sequences of their own: tells them apart.
    endpoint_hash: RandomState,
}

/// An interface as the system lists it.
struct Interface {
    name: String,
    index: u32,
    address: IpAddr,
}

impl MulticastPort {
    /// Joins the group wherever that is possible.
    ///
    /// # Errors
    /// When the system does not list its interfaces, or the address is no group.
    pub fn join(config: MulticastConfig) -> io::Result<Self> {
        if !config.group.ip().is_multicast() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no multicast group", config.group)));
        }
        let mut members = Vec::new();
        for interface in interfaces(&config)? {
            match open(&config, &interface).and_then(|s| DatagramSocket::new(s, BUFFERS, config.socket_buffer_bytes)) {
                Ok(socket) => members.push(Member {
                    interface: interface.name,
                    index: interface.index,
                    id: FaceId::NONE,
                    face: Some(new_face(&config, interface.address, interface.index)),
                    socket,
                    readable: true,
                    blocked: false,
                }),
                Err(error) => {
                    tracing::warn!(group = %config.group, interface = interface.name, %error, "cannot join multicast");
                }
            }
        }
        Ok(MulticastPort { config, members, budget: ReassemblyBudget::new(4 << 20), endpoint_hash: RandomState::new() })
    }

    /// Names of the interfaces where it has joined.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|m| m.interface.as_str())
    }

    fn member(&mut self, id: FaceId) -> Option<(&mut Member, usize)> {
        self.members.iter_mut().zip(0..).find(|(m, _)| m.id == id && m.face.is_some())
    }

    fn describe(&self, member: &Member, now: Ticks) -> Option<FaceStatus> {
        member.face.as_ref().map(|face| face.status(member.id, now, std::time::Duration::ZERO))
    }
}

impl Port for MulticastPort {
    fn name(&self) -> &str {
        "multicast"
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> io::Result<()> {
        for i in 0..self.members.len() {
            let member = &mut self.members[i];
            cx.register(&mut SourceFd(&member.socket.raw_fd()), i as u32, Interest::READABLE)?;
            member.id = cx.create_face_id();
            if let Some(face) = &mut member.face {
                let config = face.link.config().clone();
                face.link = LinkService::new(config, self.budget.clone());
            }
            if let Some(status) = self.describe(&self.members[i], cx.now()) {
                cx.report(FaceEvent::Created(status));
            }
        }
        Ok(())
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
        let Some(member) = self.members.get_mut(key as usize) else { return };
        member.readable |= readiness.readable;
        if readiness.writable && member.blocked {
            member.blocked = false;
            let _ = cx.reregister(&mut SourceFd(&member.socket.raw_fd()), key, Interest::READABLE);
        }
    }

    fn has_input(&self) -> bool {
        self.members.iter().any(|m| m.readable)
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        let (now, hash) = (cx.now(), &self.endpoint_hash);
        for member in self.members.iter_mut().filter(|m| m.readable) {
            let Member { socket, face, id, index, readable, .. } = member;
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
            if member.blocked && face.queue_bytes > QUEUE_BYTES_MAX {
                face.link.counters.out_drops += 1;
                continue;
            }
            let congested = if member.blocked { face.queue_bytes } else { 0 };
            face.send(cx.now(), outgoing, congested);
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        for (member, key) in self.members.iter_mut().zip(0..) {
            let Some(face) = member.face.as_mut().filter(|f| !f.queue.is_empty() && !member.blocked) else { continue };
            if face.send_queued(&mut member.socket) == Sent::Blocked {
                member.blocked = true;
                let both = Interest::READABLE | Interest::WRITABLE;
                let _ = cx.reregister(&mut SourceFd(&member.socket.raw_fd()), key, both);
            }
        }
    }

    fn has_output(&self) -> bool {
        self.members.iter().any(|m| m.face.as_ref().is_some_and(|f| !f.queue.is_empty()))
    }

    fn next_deadline(&self) -> Option<Ticks> {
        self.members.iter().filter_map(|m| m.face.as_ref()?.link.next_deadline()).min()
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        for face in self.members.iter_mut().filter_map(|m| m.face.as_mut()) {
            face.on_deadline(cx.now());
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
        Some(Err(match self.members.iter().filter_map(|m| self.describe(m, cx.now())).find(wanted) {
            Some(status) => CreateFaceError::Exists(Box::new(status)),
            None => CreateFaceError::Unacceptable("multicast faces are made at the start, by configuration".into()),
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
        self.describe(&self.members[i], cx.now()).ok_or(UpdateFaceError::NotFound)
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, id: FaceId) -> bool {
        let Some((_, i)) = self.member(id) else { return false };
        if let Some(status) = self.describe(&self.members[i], cx.now()) {
            cx.report(FaceEvent::Destroyed(status));
        }
        self.members[i].face = None;
        true
    }

    fn status(&self, now: Ticks, id: FaceId) -> Option<FaceStatus> {
        self.members.iter().find(|m| m.id == id).and_then(|m| self.describe(m, now))
    }

    fn channels(&self) -> Vec<String> {
        Vec::new()
    }
}

fn new_face(config: &MulticastConfig, address: IpAddr, index: u32) -> UdpFace {
    let local = match address {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, config.group.port(), 0, index).into(),
        ip => SocketAddr::new(ip, config.group.port()),
    };
    let link = LinkConfig { mtu: Some(config.mtu), ..LinkConfig::default() };
    let link = LinkService::new(link, ReassemblyBudget::default());
    let mut transport = UdpTransport::new(config.group, local);
    // The socket's options choose the interface, and with it the address.
    transport.source = None;
    let mut face = PeerFace::new(transport, Persistency::Permanent, link, Ticks(0));
    face.link_type = if config.ad_hoc { LinkType::AdHoc } else { LinkType::MultiAccess };
    face
}

/// Interfaces that are up, can multicast, and have an address of the group's family.
fn interfaces(config: &MulticastConfig) -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    for entry in nix::ifaddrs::getifaddrs()? {
        let able = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_MULTICAST);
        let wanted = match &config.interfaces {
            Some(names) => names.contains(&entry.interface_name),
            None => able && !entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
        };
        let Some(address) = entry.address.as_ref().and_then(|a| {
            let v4 = a.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| a.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        }) else {
            continue;
        };
        if !wanted || address.is_ipv4() != config.group.is_ipv4() {
            continue;
        }
        let index = nix::net::if_::if_nametoindex(entry.interface_name.as_str())?;
        match found.iter_mut().find(|i| i.index == index) {
            // Link-local addresses are what others on the link know us by.
            Some(known) if is_link_local_v6(&address) => known.address = address,
            Some(_) => {}
            None => found.push(Interface { name: entry.interface_name, index, address }),
        }
    }
    Ok(found)
}

fn is_link_local_v6(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn open(config: &MulticastConfig, interface: &Interface) -> io::Result<Socket> {
    let socket = DatagramSocket::create(&config.group)?;
    socket.set_reuse_address(true)?;
    // Needs a capability on older systems; without it, indices tell interfaces apart.
    if let Err(error) = socket.bind_device(Some(interface.name.as_bytes())) {
        tracing::debug!(%error, interface = interface.name, "cannot bind a socket to the device");
    }
    match config.group {
        SocketAddr::V4(group) => {
            socket.bind(&config.group.into())?;
            socket.join_multicast_v4_n(group.ip(), &InterfaceIndexOrAddress::Index(interface.index))?;
            if let IpAddr::V4(address) = interface.address {
                socket.set_multicast_if_v4(&address)?;
            }
            socket.set_multicast_loop_v4(config.loop_back)?;
            socket.set_multicast_ttl_v4(1)?;
        }
        SocketAddr::V6(group) => {
            let scoped = SocketAddrV6::new(*group.ip(), group.port(), 0, interface.index);
            socket.bind(&SocketAddr::V6(scoped).into())?;
            socket.join_multicast_v6(group.ip(), interface.index)?;
            socket.set_multicast_if_v6(interface.index)?;
            socket.set_multicast_loop_v6(config.loop_back)?;
            socket.set_multicast_hops_v6(1)?;
        }
    }
    Ok(socket)
}
