//! Faces created and changed by management.

use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::FaceId;
use byname_forward::face_table::{Persistency, Scope};

use super::connection::{Connection, End, Phase};
use super::{Kind, StreamPort};
use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, LinkFlags, UpdateFaceError};
use crate::link::{LinkConfig, LinkService};
use crate::port::PortContext;
use crate::uri::FaceUri;

const NO_MTU: &str = "a stream has no MTU";
/// Longest frame to a peer that this side connects to over QUIC, in bytes: as in ndnd. Each path that QUIC can use has
/// room for it.
const QUIC_MTU: usize = 1000;
const NOT_LOCAL: &str = "local fields need a peer on this host";

impl StreamPort {
    pub(super) fn create_by_request(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        match (&request.remote, self.kind) {
            (FaceUri::Tcp(addr), Kind::Tcp)
            | (FaceUri::WebSocket(addr), Kind::WebSocket)
            | (FaceUri::SecureWebSocket(addr), Kind::SecureWebSocket)
            | (FaceUri::Quic(addr), Kind::Quic) => Some(self.create_outgoing(cx, *addr, request)),
            (FaceUri::Unix(_) | FaceUri::Fd(_), Kind::Unix) | (FaceUri::WebSocketClient(_), Kind::WebSocket) => {
                Some(Err(CreateFaceError::Unacceptable("faces of this kind are made by their clients only".into())))
            }
            _ => None,
        }
    }

    fn create_outgoing(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        request: &FaceRequest,
    ) -> Result<FaceStatus, CreateFaceError> {
        if let Some(existing) = self.slots.iter().flatten().find(|c| c.remote == request.remote) {
            if existing.face == FaceId::NONE {
                return Ok(existing.status());
            }
            return Err(CreateFaceError::Exists(Box::new(existing.status())));
        }
        if matches!(self.kind, Kind::SecureWebSocket | Kind::Quic) && self.caller.is_none() {
            return Err(CreateFaceError::Unacceptable("this port connects to nobody".into()));
        }
        let scope = if remote.ip().to_canonical().is_loopback() { Scope::Local } else { Scope::NonLocal };
        check_request(request, scope).map_err(|reason| CreateFaceError::Unacceptable(reason.into()))?;
        if remote.port() == 0 || remote.ip().is_unspecified() || remote.ip().is_multicast() {
            return Err(CreateFaceError::Unacceptable(format!("nobody can listen on {}", request.remote)));
        }
        if self.connections() >= self.config.connections_max {
            return Err(CreateFaceError::Failed("there are too many connections already".into()));
        }
        let link = changed(
            LinkConfig::default(),
            Some(request.flags),
            request.base_congestion_marking_interval_ns,
            request.default_congestion_threshold_bytes,
        );
        let mtu = (self.kind == Kind::Quic).then_some(QUIC_MTU);
        let link = LinkService::new(LinkConfig { mtu, ..link }, self.budget.clone());
        let local = unspecified_like(&request.remote);
        let mut connection = Connection::new(self.take_serial(), request.remote.clone(), local, link, self.new_codec());
        (connection.scope, connection.persistency) = (scope, request.persistency);
        connection.phase = Phase::Waiting(cx.now());
        let slot = self.insert(connection);
        let is_permanent = request.persistency == Persistency::Permanent;
        if is_permanent {
            // The peer may come later.
            self.create_face_of(cx, slot);
        }
        let within = request.connect_within.unwrap_or(Duration::MAX);
        if let Err(end) = self.connect(cx, slot, within) {
            if !is_permanent {
                self.remove(slot);
                return Err(end.into());
            }
            self.wait_to_reconnect(cx, slot);
        }
        match self.connection(slot) {
            Some(connection) => Ok(connection.status()),
            None => Err(CreateFaceError::Failed("the connection ended at once".into())),
        }
    }

    pub(super) fn update(
        &mut self,
        cx: &mut PortContext<'_>,
        face: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        let slot = *self.faces.get(&face).ok_or(UpdateFaceError::NotFound)?;
        let kind = self.kind;
        let connection = self.connection(slot).ok_or(UpdateFaceError::NotFound)?;
        let refuse = |reason: &str| Err(UpdateFaceError::Unacceptable(reason.into()));
        if change.mtu.is_some() {
            return refuse(NO_MTU);
        }
        if change.flags.is_some_and(|f| f.local_fields) && connection.scope != Scope::Local {
            return refuse(NOT_LOCAL);
        }
        let accepted = kind == Kind::Unix || connection.remote_addr().is_none();
        if accepted && change.persistency.is_some_and(|p| p != Persistency::OnDemand) {
            return refuse("this face is its client's, and goes when that leaves");
        }
        let link = changed(
            connection.link.config().clone(),
            change.flags,
            change.base_congestion_marking_interval_ns,
            change.default_congestion_threshold_bytes,
        );
        connection.link.set_config(link);
        connection.persistency = change.persistency.unwrap_or(connection.persistency);
        let (status, down) = (connection.status(), matches!(connection.phase, Phase::Waiting(_)));
        if down && status.persistency != Persistency::Permanent {
            // It has no connection, and will not make one.
            self.end(cx, slot, End::Closed);
        }
        // It may now be on-demand and idle.
        self.note_silent(slot);
        Ok(status)
    }
}

impl From<End> for CreateFaceError {
    fn from(end: End) -> Self {
        CreateFaceError::Failed(match end {
            End::TimedOut => "Connection timed out".into(),
            other => format!("Connection failed: {other}"),
        })
    }
}

fn check_request(request: &FaceRequest, scope: Scope) -> Result<(), &'static str> {
    match request {
        FaceRequest { persistency: Persistency::OnDemand, .. } => Err("only peers make on-demand faces"),
        FaceRequest { local: Some(_), .. } => Err("the local end of a stream cannot be chosen"),
        FaceRequest { mtu: Some(_), .. } => Err(NO_MTU),
        FaceRequest { flags: LinkFlags { local_fields: true, .. }, .. } if scope != Scope::Local => Err(NOT_LOCAL),
        _ => Ok(()),
    }
}

fn changed(
    mut config: LinkConfig,
    flags: Option<LinkFlags>,
    interval_ns: Option<u64>,
    threshold_bytes: Option<u64>,
) -> LinkConfig {
    config.flags = flags.unwrap_or(config.flags);
    if let Some(ns) = interval_ns {
        config.base_congestion_marking_interval = Duration::from_nanos(ns);
    }
    config.congestion_threshold_bytes = threshold_bytes.unwrap_or(config.congestion_threshold_bytes);
    config
}

/// Local end of a face that has not connected yet.
fn unspecified_like(remote: &FaceUri) -> FaceUri {
    match remote {
        FaceUri::WebSocket(addr) | FaceUri::SecureWebSocket(addr) => FaceUri::WebSocketClient(unspecified(addr)),
        FaceUri::Quic(addr) => FaceUri::Quic(unspecified(addr)),
        FaceUri::Tcp(addr) => FaceUri::Tcp(unspecified(addr)),
        other => other.clone(),
    }
}

fn unspecified(like: &SocketAddr) -> SocketAddr {
    let ip: std::net::IpAddr =
        if like.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}
