//! Decides which peers get a face on a UDP socket.

use std::net::{IpAddr, SocketAddr};

use byname_forward::FaceId;
use byname_forward::face_table::{Persistency, Scope};

use super::face::UdpTransport;
use super::moving::Expected;
use super::steering::Steering;
use super::{DATAGRAM_BYTES_MAX, UdpConfig, route_to};
use crate::face::{CreateFaceError, FaceRequest, FaceStatus};
use crate::handover::FaceRecord;
use crate::link::LinkConfig;
use crate::peers::{Peers, requested_link_config};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// Faces of one UDP socket.
pub(super) struct Faces {
    config: UdpConfig,
    /// The socket's local address.
    pub(super) local: SocketAddr,
    pub(super) steering: Steering,
    pub(super) peers: Peers<UdpTransport>,
    /// The peer whose face is about to come from another thread.
    pub(super) expected: Option<Expected>,
    /// Datagrams of peers whose faces have moved, which came too late or found no room.
    pub(super) late: u64,
    /// Datagrams of strangers that did not look like NDN.
    pub(super) not_ndn: u64,
    /// Datagrams of other sockets' peers that found no room on their way there.
    pub(super) lost: u64,
}

impl Faces {
    pub(super) fn new(config: UdpConfig, local: SocketAddr, steering: Steering) -> Self {
        let peers = Peers::new(config.on_demand_faces_max, config.idle_timeout);
        Faces { peers, config, local, steering, expected: None, late: 0, not_ndn: 0, lost: 0 }
    }

    /// Number of the packet thread that reads the socket.
    pub(super) fn thread(&self) -> usize {
        self.steering.number
    }

    /// Creates a face that management requested. Returns `None` if the request is not for this socket.
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
        if !self.steering.leads_here(&remote) {
            return None;
        }
        match &request.local {
            None => {}
            Some(FaceUri::Udp(local)) if local.port() == self.local.port() && self.may_send_from(local.ip()) => {}
            Some(_) => return None,
        }
        if self.expected.as_ref().is_some_and(|expected| expected.remote == remote) {
            return Some(Err(CreateFaceError::Failed(format!("the face to {remote} is on its way to this thread"))));
        }
        if let Some(status) = self.peers.find(&remote).and_then(|id| self.peers.status(cx.now(), id)) {
            return Some(Err(CreateFaceError::Exists(Box::new(status))));
        }
        Some(self.create_checked(cx, remote, request))
    }

    /// Creates a face for a peer that has none. Returns `None` if the peer may not have one.
    pub(super) fn create_on_demand(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<FaceId> {
        if self.steering.has_left(&remote) {
            self.late += 1;
            return None;
        }
        if !self.config.on_demand || !is_usable(&remote) {
            self.peers.refused += 1;
            return None;
        }
        let local = local.filter(|ip| !ip.is_multicast() && !ip.is_unspecified());
        if !self.peers.make_room(cx, &remote) {
            return None;
        }
        let local = local.unwrap_or_else(|| self.local.ip());
        let config = self.link_config();
        Some(self.insert(cx, remote, local, Persistency::OnDemand, config))
    }

    /// Goes on with a face of another process. Returns false if the face makes no sense here.
    pub(super) fn take_over(&mut self, cx: &mut PortContext<'_>, record: &FaceRecord) -> bool {
        let (Ok(FaceUri::Udp(remote)), Ok(FaceUri::Udp(local))) = (record.remote.parse(), record.local.parse()) else {
            return false;
        };
        let mut transport = UdpTransport::new(remote, local);
        if self.steering.is_of_several() && !self.steering.leads_here(&remote) {
            // The face had moved in the other process, or its peer's packets have IP options.
            match self.steering.take_over(remote) {
                Ok(detour) => transport.detour = detour,
                Err(error) => {
                    tracing::warn!(%error, %remote, "a peer's datagrams come to another thread than its face")
                }
            }
        }
        is_usable(&remote) && self.peers.take_over(cx, transport, record)
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
        let (scope, local) = (self.scope(&remote), SocketAddr::new(local, self.local.port()));
        self.peers.insert(cx, UdpTransport::new(remote, local), persistency, link, |face| face.scope = scope)
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
        let scope = self.scope(&remote);
        let config = requested_link_config(&self.link_config(), request, scope, DATAGRAM_BYTES_MAX)?;
        let local = match request.local {
            Some(FaceUri::Udp(local)) => local.ip(),
            _ if !self.local.ip().is_unspecified() => self.local.ip(),
            _ => match route_to(remote) {
                Ok(route) => route.local,
                // There is no route now, but there may be one later.
                Err(_) => self.local.ip(),
            },
        };
        let id = self.insert(cx, remote, local, request.persistency, config);
        self.peers.status(cx.now(), id).ok_or_else(|| CreateFaceError::Failed("the face is gone".into()))
    }
}

/// Whether datagrams can be sent to this address.
fn is_usable(remote: &SocketAddr) -> bool {
    let broadcast = matches!(remote.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    remote.port() != 0 && !remote.ip().is_unspecified() && !remote.ip().is_multicast() && !broadcast
}

/// Removes the IPv6 flow: one peer is one address, for all its flows.
pub(super) fn without_flow(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}
