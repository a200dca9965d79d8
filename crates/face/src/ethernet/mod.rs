//! NDN on Ethernet: frames of EtherType 0x8624. They pass through one of the sockets in [`frames`](crate::frames).
//!
//! A port is one interface. It has a face to the group of all NDN stations on the link, and faces to single stations
//! that management creates. It creates faces on demand to stations that it hears, in bounded number (`peers`).
//! Configured peers may be reached by UDP instead (`frames::datagram`). URIs are those of NFD:
//! `ether://[08:00:27:01:02:03]` from `dev://eth0`.
//!
//! An interface may go down or disappear, and come back as another device with its name. Faces stay meanwhile, and
//! packets to send are dropped and counted. The port looks for the name each [`RETRY_INTERVAL`].
//!
//! With several packet threads, an interface can have a port on each (`sharing`). Each peer then has its face on one of
//! them.

mod arrival;
mod config;
mod life;
mod sharing;
mod silence;
#[cfg(test)]
mod tests;
mod transport;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::face_table::{LinkType, Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Ticks};
use mio::Interest;
use mio::unix::SourceFd;

use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};
use crate::frames::OpenError;
use crate::frames::interface::Interface;
use crate::frames::neighbor::Answer;
use crate::frames::socket::{FrameSocket, while_taken};
use crate::link::{self, LinkConfig};
use crate::mac_address::MacAddress;
use crate::peers::{PeerFace, Peers, Sent, requested_link_config};
use crate::port::{Port, PortContext, Readiness};
use crate::uri::FaceUri;
use arrival::Way;
pub use config::{DATAGRAM_PEERS_MAX, EthernetConfig};
use life::register;
use sharing::{Claim, Part};
use silence::Silence;
use transport::{EthernetTransport, Peer};

/// Interval at which the port looks for an interface that is down or gone.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a sleeping loop ignores a socket that must be polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Time after which the system is asked again to send frames that it could not take.
const SEND_AGAIN: Duration = Duration::from_millis(1);
const SOCKET_KEY: u32 = 0;

/// Counters of frames that belong to no face.
#[derive(Debug, Default)]
struct Drops {
    malformed: u64,
    not_ours: u64,
    not_ndn: u64,
    /// A `Cell`: `drops` takes `&self`, and reading resets the kernel's counter.
    ring_full: Cell<u64>,
}

/// An interface and the faces on it, or one of several parts of an interface.
pub struct EthernetPort<S: FrameSocket> {
    config: EthernetConfig,
    /// Settings that only this kind of socket has.
    own: S::Config,
    /// Address of the interface. It changes when another device takes the name.
    address: MacAddress,
    /// `None` while the interface is down or gone.
    socket: Option<S>,
    /// `None` for the only port of an interface.
    part: Option<Part<S>>,
    /// Longest payload of a frame, in bytes.
    mtu: usize,
    peers: Peers<EthernetTransport>,
    group: Option<FaceId>,
    blocked: bool,
    /// Time to look for the interface again, or to ask the system again to send.
    retry_at: Option<Ticks>,
    /// Time at which the loop must wake to poll a socket that does not announce input.
    look_at: Option<Ticks>,
    /// Answers to stations that asked for our address.
    answers: Vec<Answer>,
    silence: Silence,
    drops: Drops,
}

impl<S: FrameSocket> EthernetPort<S> {
    /// Opens the interface. One that is down is waited for.
    ///
    /// # Errors
    /// There is no such interface, or the process may not use it.
    pub fn open(config: EthernetConfig, own: S::Config) -> Result<Self, OpenError> {
        let found = S::find(&config.interface, &own)?;
        // Down or not: to learn now whether this process may.
        let socket = S::wait_for(&found, &config.socket(), &own)?;
        let mtu = socket.mtu();
        Ok(EthernetPort::with(config, own, &found, mtu, Some(socket).filter(|_| found.up), None))
    }

    /// Opens the interface with a port for each of up to `threads` threads, as many as its queues allow. The ports share
    /// the memory for rings and the maximum of on-demand faces. An interface that is down is waited for.
    ///
    /// # Errors
    /// As [`EthernetPort::open`].
    pub fn open_for_threads(config: EthernetConfig, own: S::Config, threads: usize) -> Result<Vec<Self>, OpenError> {
        let found = S::find(&config.interface, &own)?;
        let ports = S::count(&found, &own, threads);
        if ports <= 1 {
            return Ok(vec![EthernetPort::open(config, own)?]);
        }
        let settings = config.socket();
        let (mtu, sockets) = if found.up {
            let sockets = while_taken(|| S::for_threads(&found, &settings, &own, ports))?;
            (sockets.first().map_or(found.mtu, S::mtu), Some(sockets))
        } else {
            // To learn now whether this process may.
            (S::wait_for(&found, &settings, &own)?.mtu(), None)
        };
        let port = |(config, part, socket)| EthernetPort::with(config, own.clone(), &found, mtu, socket, Some(part));
        Ok(Part::of_all(&config, &own, &found, ports, sockets).into_iter().map(port).collect())
    }

    fn with(
        config: EthernetConfig,
        own: S::Config,
        found: &Interface,
        mtu: usize,
        socket: Option<S>,
        part: Option<Part<S>>,
    ) -> Self {
        EthernetPort {
            address: found.address,
            mtu: mtu.min(config.mtu),
            socket,
            part,
            peers: Peers::new(config.on_demand_faces_max, config.idle_timeout),
            group: None,
            blocked: false,
            retry_at: None,
            look_at: None,
            answers: Vec::new(),
            silence: Silence::default(),
            drops: Drops::default(),
            config,
            own,
        }
    }

    /// MAC address of the interface.
    pub fn address(&self) -> MacAddress {
        self.address
    }

    fn transport(&self, station: MacAddress, claim: Option<Claim>) -> EthernetTransport {
        EthernetTransport::to_station(station, &self.config.interface, claim)
    }

    /// Longest link packet to a peer, in bytes.
    fn mtu_to(&self, peer: Peer) -> usize {
        self.mtu.saturating_sub(peer.overhead()).max(link::MTU_MIN as usize)
    }

    fn link_config(&self, peer: Peer) -> LinkConfig {
        let mut link = LinkConfig { mtu: Some(self.mtu_to(peer)), ..LinkConfig::default() };
        link.flags.congestion_marking = self.config.congestion_marking;
        link
    }

    fn create_unicast(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: MacAddress,
        request: &FaceRequest,
    ) -> Result<FaceStatus, CreateFaceError> {
        if remote.is_group() || remote.is_zero() || remote == self.address {
            return Err(CreateFaceError::Unacceptable(format!("{remote} is no address of a peer on this link")));
        }
        let claim = self.part.as_ref().map_or(Ok(None), |part| part.claim(remote));
        let claim = claim.map_err(|_| CreateFaceError::Failed("it has just got a face; ask again".into()))?;
        self.create_requested(cx, self.transport(remote, claim), request)
    }

    /// Creates a face to a configured peer again after management destroyed it. Returns `None` for other peers, whose
    /// datagrams do not come here.
    fn create_by_datagrams(
        &mut self,
        cx: &mut PortContext<'_>,
        there: SocketAddr,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let is_local = |here| request.local.as_ref().is_none_or(|local| *local == FaceUri::Udp(here));
        let mut configured = self.config.datagrams.iter();
        let peer = *configured.find(|peer| peer.path.there == there && is_local(peer.path.here))?;
        if let Some(exists) = self.existing(cx, Peer::Datagrams(peer.path)) {
            return Some(Err(exists));
        }
        let transport = EthernetTransport::by_datagrams(peer, &self.config.interface);
        Some(self.create_requested(cx, transport, request))
    }

    /// The error against a second face to this peer, if one exists.
    fn existing(&self, cx: &PortContext<'_>, peer: Peer) -> Option<CreateFaceError> {
        let status = self.peers.find(&peer).and_then(|id| self.status(cx.now(), id))?;
        Some(CreateFaceError::Exists(Box::new(status)))
    }

    fn create_requested(
        &mut self,
        cx: &mut PortContext<'_>,
        transport: EthernetTransport,
        request: &FaceRequest,
    ) -> Result<FaceStatus, CreateFaceError> {
        let default = self.link_config(transport.peer);
        let link = requested_link_config(&default, request, Scope::NonLocal, self.mtu_to(transport.peer))?;
        let up = self.socket.is_some();
        let id = self.peers.insert(cx, transport, request.persistency, link, |face| face.up = up);
        self.status(cx.now(), id).ok_or_else(|| CreateFaceError::Failed("the face is gone".into()))
    }
}

impl<S: FrameSocket> Port for EthernetPort<S> {
    fn name(&self) -> &str {
        "ethernet"
    }

    fn interface(&self) -> Option<String> {
        Some(self.config.interface.clone())
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> io::Result<()> {
        if let Some(socket) = &self.socket {
            register(cx, socket)?;
        }
        if let Some(part) = &self.part {
            part.start(cx.waker);
        }
        if S::POLLED || self.socket.is_none() || !self.keep_silent() {
            self.retry_at = Some(cx.now() + RETRY_INTERVAL);
        }
        if let Some(group) = self.config.group.filter(|_| self.has_group()) {
            let transport = self.transport(group, None);
            let link = self.link_config(transport.peer);
            let link_type = if self.config.ad_hoc { LinkType::AdHoc } else { LinkType::MultiAccess };
            let up = self.socket.is_some();
            let adjust = |face: &mut PeerFace<_>| (face.link_type, face.up) = (link_type, up);
            self.group = Some(self.peers.insert(cx, transport, Persistency::Permanent, link, adjust));
        }
        for datagrams in self.config.datagrams.clone() {
            let transport = EthernetTransport::by_datagrams(datagrams, &self.config.interface);
            let (link, up) = (self.link_config(transport.peer), self.socket.is_some());
            self.peers.insert(cx, transport, Persistency::Permanent, link, |face| face.up = up);
        }
        Ok(())
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, _key: u32, readiness: Readiness) {
        let Some(socket) = &self.socket else { return };
        if readiness.closed
            && let Some(error) = socket.take_error()
        {
            self.fail(cx, &error);
            return;
        }
        if readiness.writable && self.blocked {
            self.blocked = false;
            let _ = cx.reregister(&mut SourceFd(&socket.descriptors()[0]), SOCKET_KEY, Interest::READABLE);
        }
    }

    fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(S::has_input) || self.part.as_ref().is_some_and(Part::has_news)
    }

    fn fall_asleep(&mut self, now: Ticks) {
        self.look_at = (S::POLLED && self.socket.is_some()).then(|| now + LOOK_INTERVAL);
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        self.follow(cx);
        let mut last = None;
        if let Some(mut socket) = self.socket.take() {
            socket.receive(packets_max, |arrivals| {
                for arrival in arrivals {
                    if arrival.cut {
                        self.drops.malformed += 1;
                    } else if arrival.elsewhere {
                        self.drops.not_ours += 1;
                    } else {
                        self.take(cx, arrival.bytes, &mut last, Way::Socket);
                    }
                }
            });
            for answer in self.answers.drain(..) {
                // A station that gets no answer asks again.
                socket.push(&answer, (&[], &[]));
                let _ = socket.send();
            }
            self.socket = Some(socket);
        }
        if self.part.is_some() {
            self.take_handed_over(cx, packets_max, &mut last);
        }
        self.end_row(cx, last);
    }

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        let (now, source) = (cx.now(), self.address);
        let Some(socket) = self.socket.as_mut().filter(|_| !self.blocked) else {
            return burst.iter_mut().for_each(|outgoing| self.peers.hold(now, outgoing));
        };
        for outgoing in burst {
            let push = |to: &EthernetTransport, packet: &[u8]| to.push(socket, source, (&[], packet));
            self.peers.send_at_once(now, outgoing, push);
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        if S::POLLED && self.blocked {
            self.blocked = !self.socket.as_mut().is_some_and(S::has_room);
        }
        while !self.blocked {
            let Some(socket) = &mut self.socket else { return };
            let address = self.address;
            let sent = self.peers.flush(|face| face.send_queued(socket, address));
            self.send(cx);
            let Some(socket) = &mut self.socket else { return };
            if sent == Sent::All {
                return;
            }
            if !socket.has_room() {
                self.blocked = true;
                if S::POLLED {
                    self.retry_at = Some(cx.now() + SEND_AGAIN);
                    return;
                }
                // Not registered earlier: each frame that leaves would raise an event.
                let both = Interest::READABLE | Interest::WRITABLE;
                if let Err(error) = cx.reregister(&mut SourceFd(&socket.descriptors()[0]), SOCKET_KEY, both) {
                    self.fail(cx, &error);
                }
            }
        }
    }

    fn has_output(&self) -> bool {
        self.peers.has_queued() || self.socket.as_ref().is_some_and(S::has_unsent)
    }

    fn next_deadline(&self) -> Option<Ticks> {
        [self.peers.next_deadline(), self.retry_at, self.look_at].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        self.peers.on_deadline(cx);
        // This deadline only wakes the loop; every round receives.
        self.look_at = self.look_at.filter(|at| *at > cx.now());
        if self.retry_at.is_none_or(|at| at > cx.now()) {
            return;
        }
        let again = S::POLLED || !self.keep_silent();
        self.retry_at = again.then(|| cx.now() + RETRY_INTERVAL);
        if let Some(socket) = &self.socket {
            match S::POLLED.then(|| socket.take_error()).flatten() {
                Some(error) => self.fail(cx, &error),
                None => self.send(cx),
            }
        } else {
            self.look(cx);
        }
    }

    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let remote = match request.remote {
            FaceUri::Ethernet(remote) => remote,
            FaceUri::Udp(there) => return self.create_by_datagrams(cx, there, request),
            _ => return None,
        };
        match &request.local {
            Some(FaceUri::Dev(name)) if *name == self.config.interface => {}
            // Without a local URI this port answers, although other interfaces may have the group too.
            None if self.config.group == Some(remote) => {}
            None => {
                let asked = "a face to a station needs the interface as its local URI, dev://eth0 or the like";
                return Some(Err(CreateFaceError::Unacceptable(asked.into())));
            }
            Some(_) => return None,
        }
        if let Some(exists) = self.existing(cx, Peer::Station(remote)) {
            return Some(Err(exists));
        }
        if self.part.as_ref().is_some_and(|part| !part.is_for(&Peer::Station(remote))) {
            return None;
        }
        Some(self.create_unicast(cx, remote, request))
    }

    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        id: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        let peer = self.peers.get_mut(id).ok_or(UpdateFaceError::NotFound)?.transport.peer;
        self.peers.update(cx.now(), id, change, self.mtu_to(peer))
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
        self.group = self.group.filter(|group| *group != face);
        self.peers.remove(cx, face)
    }

    fn set_routed(&mut self, face: FaceId, routed: bool) {
        self.peers.set_routed(face, routed);
    }

    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus> {
        self.peers.status(now, face)
    }

    fn channels(&self) -> Vec<String> {
        vec![FaceUri::Dev(self.config.interface.clone()).to_string()]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let Drops { malformed, not_ours, not_ndn, ring_full } = &self.drops;
        ring_full.set(ring_full.get() + self.socket.as_ref().map_or(0, S::take_drops));
        let lost = self.part.as_ref().map(|part| ("ethernet_hand_over_full", part.lost));
        let always = [
            ("ethernet_malformed", *malformed),
            ("ethernet_not_ours", *not_ours),
            ("ethernet_not_ndn", *not_ndn),
            ("ethernet_no_face", self.peers.refused),
            ("ethernet_ring_full", ring_full.get()),
        ];
        always.into_iter().chain(lost).collect()
    }
}
