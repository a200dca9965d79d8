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
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ip_recvtos, set_ipv6_mtu_discover,
    set_ipv6_recvtclass,
};
use smallvec::SmallVec;
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
/// Datagrams in a run that systems take today; those that take fewer are found out.
const RUN_MAX: usize = 128;

/// What is left in a socket's queue after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// More than fitted.
    More,
    /// What has come since.
    Perhaps,
    /// Nothing; the system will tell of what comes.
    Nothing,
}

/// Datagrams from one peer, one after the other: all of one length, but for the last, which may be shorter. There is
/// one at least, for an empty datagram is one, too.
#[derive(Clone)]
pub(super) struct Run<'a> {
    rest: Option<&'a [u8]>,
    stride: usize,
}

impl<'a> Run<'a> {
    /// The one that is next.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        self.rest.map(|rest| &rest[..rest.len().min(self.stride)])
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.rest.map_or(0, |rest| rest.len().div_ceil(self.stride).max(1))
    }
}

impl<'a> Iterator for Run<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let datagram = self.peek()?;
        self.rest = self.rest.map(|rest| &rest[datagram.len()..]).filter(|rest| !rest.is_empty());
        Some(datagram)
    }
}

/// A non-blocking UDP socket with its buffers.
pub(super) struct DatagramSocket {
    socket: Socket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<u8>,
    meta: Vec<RecvMeta>,
    /// Where frames are put one after the other, to be sent.
    pub(super) run: Vec<u8>,
    gso_credit: u32,
    /// Most datagrams in a run that the system takes, unless it has just refused one.
    run_max: usize,
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
        let run_max = match state.max_gso_segments() {
            segments @ 2..RUN_MAX if !takes_runs_of(RUN_MAX) => segments,
            segments @ 2.. => segments.max(RUN_MAX),
            _ => 1,
        };
        let socket = DatagramSocket {
            socket,
            state,
            local,
            buffers: vec![0; buffers * BUFFER_STRIDE],
            meta: vec![RecvMeta::default(); buffers],
            run: Vec::new(),
            gso_credit: GSO_CREDIT_MAX,
            run_max,
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

    /// Receives what one system call yields, and shows each run of datagrams from one peer to `visit`.
    pub(super) fn receive(&mut self, mut visit: impl FnMut(&RecvMeta, Run<'_>)) -> io::Result<Waiting> {
        let count = self.meta.len();
        let mut slices: SmallVec<[IoSliceMut<'_>; BUFFERS_BUSY]> =
            self.buffers.chunks_exact_mut(BUFFER_STRIDE).map(IoSliceMut::new).collect();
        let filled = match self.state.recv((&self.socket).into(), &mut slices, &mut self.meta) {
            Ok(filled) => filled,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Waiting::Nothing),
            Err(error) => return Err(error),
        };
        for (meta, buffer) in self.meta[..filled].iter().zip(&slices) {
            visit(meta, Run { rest: Some(&buffer[..meta.len]), stride: meta.stride.max(1) });
        }
        Ok(if filled == count { Waiting::More } else { Waiting::Perhaps })
    }

    /// Most datagrams in a run; 1 when the system cannot segment.
    pub(super) fn run_max(&self) -> usize {
        // The library says 1 after a refusal.
        if self.state.max_gso_segments() > 1 { self.run_max } else { 1 }
    }

    /// Sends a run: datagrams of `segment` octets each, of which the last may be shorter.
    pub(super) fn send_run(
        &mut self,
        to: SocketAddr,
        from: Option<IpAddr>,
        contents: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let segment_size = (segment < contents.len()).then_some(segment);
        let transmit = Transmit { destination: to, ecn: None, contents, segment_size, src_ip: from };
        let sent = self.state.try_send((&self.socket).into(), &transmit);
        self.gso_credit = (self.gso_credit + u32::from(sent.is_ok())).min(GSO_CREDIT_MAX);
        if self.run_max() < self.run_max && self.gso_credit >= GSO_RESTORE_COST {
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
    /// of arrival and the classes of traffic, which cost on every datagram.
    fn adjust(&self) -> io::Result<()> {
        let _ = setsockopt(&self.socket, sockopt::ReceiveTimestampns, &false);
        let _ = match self.local {
            SocketAddr::V4(_) => set_ip_recvtos(&self.socket, false),
            SocketAddr::V6(_) => set_ipv6_recvtclass(&self.socket, false),
        };
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

/// Whether the system takes runs of so many datagrams: sends one from a socket to itself.
fn takes_runs_of(datagrams: usize) -> bool {
    let send = || -> io::Result<()> {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let (destination, contents) = (socket.local_addr()?, vec![0; datagrams]);
        let transmit = Transmit { destination, ecn: None, contents: &contents, segment_size: Some(1), src_ip: None };
        UdpSocketState::new((&socket).into())?.try_send((&socket).into(), &transmit)
    };
    send().is_ok()
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
