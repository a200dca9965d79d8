//! Sends frames to one peer of an Ethernet port.

use std::net::IpAddr;

use super::sharing::Claim;
use crate::frames::datagram::{DatagramPeer, Path};
use crate::frames::frame;
use crate::frames::neighbor::Whereabouts;
use crate::frames::socket::FrameSocket;
use crate::mac_address::MacAddress;
use crate::peers::{PeerFace, Sent, Transport};
use crate::port::Pushed;
use crate::uri::FaceUri;

/// Identifies a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Peer {
    /// A station or the group, with NDN's own EtherType.
    Station(MacAddress),
    /// A host, by UDP.
    Datagrams(Path),
}

impl Peer {
    /// Bytes of a frame's payload that do not belong to the link packet.
    pub(super) fn overhead(self) -> usize {
        match self {
            Peer::Station(_) => 0,
            Peer::Datagrams(path) => path.overhead(),
        }
    }
}

/// A peer, and the station that frames to it go to.
pub(super) struct EthernetTransport {
    pub(super) peer: Peer,
    interface: String,
    whereabouts: Whereabouts,
    /// Of several ports on the interface, this port's ownership of the station.
    _claim: Option<Claim>,
}

impl EthernetTransport {
    /// Transport to a station or a group.
    pub(super) fn to_station(station: MacAddress, interface: &str, claim: Option<Claim>) -> Self {
        EthernetTransport {
            peer: Peer::Station(station),
            interface: interface.to_owned(),
            whereabouts: Whereabouts::new(Some(station)),
            _claim: claim,
        }
    }

    /// Transport to a host by UDP.
    pub(super) fn by_datagrams(peer: DatagramPeer, interface: &str) -> Self {
        let DatagramPeer { path, station } = peer;
        EthernetTransport {
            peer: Peer::Datagrams(path),
            interface: interface.to_owned(),
            whereabouts: Whereabouts::new(station),
            _claim: None,
        }
    }

    /// Puts a link packet, in two parts, into the ring. Returns `None` if the peer's station is not known yet.
    #[inline]
    pub(super) fn push(
        &self,
        socket: &mut impl FrameSocket,
        source: MacAddress,
        packet: (&[u8], &[u8]),
    ) -> Option<Pushed> {
        let station = self.whereabouts.station()?;
        Some(match self.peer {
            Peer::Station(_) => socket.push(&frame::header(station, source), packet),
            Peer::Datagrams(path) => socket.push(&path.header(station, source, packet), packet),
        })
    }

    /// Records that an address belongs to a station.
    pub(super) fn learn_neighbor(&mut self, address: IpAddr, station: MacAddress) {
        if matches!(self.peer, Peer::Datagrams(path) if path.there.ip() == address) {
            self.learn(station);
        }
    }

    /// Records the station that a datagram came from.
    pub(super) fn learn(&mut self, station: MacAddress) {
        self.whereabouts.learn(station);
    }
}

impl Transport for EthernetTransport {
    type Address = Peer;
    /// Each station is its own group: no part of a MAC address is harder to forge than the rest.
    type Group = Peer;

    fn group(address: &Peer) -> Peer {
        *address
    }

    fn address(&self) -> Peer {
        self.peer
    }

    fn remote(&self) -> FaceUri {
        match self.peer {
            Peer::Station(station) => FaceUri::Ethernet(station),
            Peer::Datagrams(path) => FaceUri::Udp(path.there),
        }
    }

    fn local(&self) -> FaceUri {
        match self.peer {
            Peer::Station(_) => FaceUri::Dev(self.interface.clone()),
            Peer::Datagrams(path) => FaceUri::Udp(path.here),
        }
    }
}

impl PeerFace<EthernetTransport> {
    /// Moves queued frames into the ring while it has room.
    pub(super) fn send_queued(&mut self, socket: &mut impl FrameSocket, source: MacAddress) -> Sent {
        let mut done = 0;
        for frame in &self.queue {
            match self.transport.push(socket, source, frame.parts()) {
                Some(Pushed::Done) => {}
                Some(Pushed::Full) => break,
                Some(Pushed::TooLong) | None => self.link.counters.out_drops += 1,
            }
            done += 1;
        }
        self.dequeue(done)
    }
}
