//! A UDP socket with GRO and GSO: many datagrams in one system call.
//!
//! The kernel hands over runs of equal datagrams from one peer as one buffer, and takes a run to
//! one peer as one buffer. Measured, that is six times what single datagrams give; `recvmmsg` and
//! `sendmmsg` alone gain next to nothing.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// The longest datagram over IPv4; a run is no longer either.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Distance between receive buffers. Not a power of two, so that their beginnings, which is all of
/// them that single datagrams use, do not fall into the same cache sets.
const BUFFER_STRIDE: usize = 65_536 + 1_088;
/// Buffers filled by one system call on a busy socket.
pub(super) const BUFFERS_BUSY: usize = 32;
/// What it costs, in successful sends, to switch GSO on again after the system refused a run. A
/// refusal that concerns one peer's route must not slow all others; one that concerns the machine
/// must cost next to nothing.
const GSO_RESTORE_COST: u32 = 256;
/// Successful sends that count towards that, at most.
const GSO_CREDIT_MAX: u32 = 64 * GSO_RESTORE_COST;

/// A non-blocking UDP socket with its buffers.
pub(super) struct DatagramSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<u8>,
    meta: Vec<RecvMeta>,
    run: Vec<u8>,
    gso_credit: u32,
    gso_segments: usize,
}

impl DatagramSocket {
    /// A socket of the address' family, not yet bound.
    pub(super) fn create(address: &SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        Ok(socket)
    }

    /// Wraps a bound socket; `buffers` of 64 KiB are filled by one receive call at most.
    pub(super) fn new(socket: Socket, buffers: usize, socket_buffer_bytes: usize) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        let local = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no IP address"))?;
        set_buffer_sizes(&socket, socket_buffer_bytes);
        let gso_segments = state.max_gso_segments();
        let socket = DatagramSocket {
            socket,
            state,
            local,
            buffers: vec![0; buffers * BUFFER_STRIDE],
            meta: vec![RecvMeta::default(); buffers],
            run: Vec::with_capacity(DATAGRAM_BYTES_MAX),
            gso_credit: GSO_CREDIT_MAX,
            gso_segments,
        };
        socket.adjust()?;
        Ok(socket)
    }

    /// Its own address.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Its descriptor, for registration.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Receives what one system call yields, and shows each datagram to `visit`. True when more
    /// may be waiting, false when the system had no more.
    pub(super) fn receive(&mut self, mut visit: impl FnMut(&RecvMeta, &[u8])) -> io::Result<bool> {
        let count = self.meta.len();
        let mut slices: smallvec::SmallVec<[IoSliceMut<'_>; BUFFERS_BUSY]> =
            self.buffers.chunks_exact_mut(BUFFER_STRIDE).map(IoSliceMut::new).collect();
        let filled = match self.state.recv((&self.socket).into(), &mut slices, &mut self.meta) {
            Ok(filled) => filled,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (meta, buffer) in self.meta[..filled].iter().zip(&slices) {
            if meta.len == 0 {
                // Shown too, or a flood of empty datagrams would never count as a burst.
                visit(meta, &[]);
            }
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                visit(meta, datagram);
            }
        }
        Ok(filled == count)
    }

    /// Most datagrams in a run; 1 when the system cannot segment.
    pub(super) fn run_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Starts a run.
    pub(super) fn run(&mut self) -> &mut Vec<u8> {
        self.run.clear();
        &mut self.run
    }

    /// Sends the run: datagrams of `segment` octets each, of which the last may be shorter.
    pub(super) fn send_run(&mut self, to: SocketAddr, from: Option<IpAddr>, segment: usize) -> io::Result<()> {
        let segment_size = (segment < self.run.len()).then_some(segment);
        let transmit = Transmit { destination: to, ecn: None, contents: &self.run, segment_size, src_ip: from };
        let sent = self.state.try_send((&self.socket).into(), &transmit);
        self.gso_credit = (self.gso_credit + u32::from(sent.is_ok())).min(GSO_CREDIT_MAX);
        if self.state.max_gso_segments() < self.gso_segments && self.gso_credit >= GSO_RESTORE_COST {
            self.gso_credit -= GSO_RESTORE_COST;
            self.restore_gso();
        }
        sent
    }

    /// The library takes any refusal for one of GSO as such; here only the caller's peer loses it.
    fn restore_gso(&mut self) {
        if let Ok(state) = UdpSocketState::new((&self.socket).into()) {
            self.state = state;
            if let Err(error) = self.adjust() {
                tracing::warn!(%error, "cannot allow IP fragmentation again");
            }
        }
    }

    /// Undoes what the library sets for QUIC. NDN packets of up to 8,800 octets are longer than
    /// most links' MTU: let IP fragment them, as other forwarders do. And nobody reads the times
    /// of arrival, which cost on every datagram.
    fn adjust(&self) -> io::Result<()> {
        let _ = setsockopt(&self.socket, sockopt::ReceiveTimestampns, &false);
        match self.local {
            SocketAddr::V4(_) => set_ip_mtu_discover(&self.socket, Ipv4PathMtuDiscovery::DONT)?,
            SocketAddr::V6(_) => {
                set_ipv6_mtu_discover(&self.socket, Ipv6PathMtuDiscovery::DONT)?;
                setsockopt(&self.socket, sockopt::Ipv6DontFrag, &false)?;
            }
        }
        Ok(())
    }
}

/// Sets both buffers, past the system's limit where the process may.
fn set_buffer_sizes(socket: &Socket, bytes: usize) {
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if setsockopt(socket, sockopt::SndBufForce, &bytes).is_err() {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// What the system knows of the way to `remote`.
pub(super) struct Route {
    /// The address that it would send from.
    pub(super) local: IpAddr,
    /// The longest datagram that leaves in one piece.
    pub(super) datagram_bytes: usize,
}

/// Asks the routing table, by way of a socket that is connected and never used.
pub(super) fn route_to(remote: SocketAddr) -> io::Result<Route> {
    let any: SocketAddr = match remote {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    SockRef::from(&socket).connect(&remote.into())?;
    let (mtu, headers) = match remote {
        SocketAddr::V4(_) => (rustix::net::sockopt::ip_mtu(&socket)?, 28),
        SocketAddr::V6(_) => (rustix::net::sockopt::ipv6_mtu(&socket)?, 48),
    };
    Ok(Route { local: socket.local_addr()?.ip(), datagram_bytes: (mtu as usize).saturating_sub(headers) })
}
