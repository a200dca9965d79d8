//! A UDP socket with GRO and GSO: many datagrams in one system call.
//!
//! The kernel delivers runs of equally long datagrams from one peer as one buffer, and takes a run to one peer as one
//! buffer. Measurements show six times the rate of single datagrams; `recvmmsg` and `sendmmsg` alone gain almost
//! nothing.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{SocketFlags, SocketType};
use smallvec::SmallVec;

use crate::system::{ip_socket, set_option};

/// Bytes of the longest datagram over IPv4, and of the longest run.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Distance between receive buffers. Single datagrams use only the start of a buffer. The distance is not a power of
/// two, so that these starts do not fall into the same cache sets.
const BUFFER_STRIDE: usize = 65_536 + 1_088;
/// Buffers filled by one system call on a busy socket.
pub(super) const BUFFERS_BUSY: usize = 32;
/// Credits that it costs to switch GSO on again after the system refused a run. Each successful send earns one credit. A
/// refusal for one peer's route must not slow all other peers. A refusal for the whole machine must cost almost nothing.
const GSO_RESTORE_COST: u32 = 256;
/// Maximum number of credits, which is also the number at the start.
const GSO_CREDIT_MAX: u32 = 64 * GSO_RESTORE_COST;
/// Maximum number of datagrams in a run on today's systems. Systems that take fewer are detected.
const RUN_MAX: usize = 128;

/// State of a socket's queue after a receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// More datagrams waited than fitted.
    More,
    /// Datagrams may have come since.
    Perhaps,
    /// Nothing. New datagrams will raise an event.
    Nothing,
}

/// Consecutive datagrams from one peer. All have one length, except that the last may be shorter. There is at least
/// one, because an empty datagram counts too.
#[derive(Clone)]
pub(super) struct Run<'a> {
    rest: Option<&'a [u8]>,
    stride: usize,
}

impl<'a> Run<'a> {
    /// The next datagram.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        self.rest.map(|rest| &rest[..rest.len().min(self.stride)])
    }

    /// Number of datagrams.
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
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    buffers: Vec<u8>,
    meta: Vec<RecvMeta>,
    /// Buffer in which frames are joined to be sent.
    pub(super) run: Vec<u8>,
    gso_credit: u32,
    /// Maximum number of datagrams in a run that the system takes, unless it has just refused one.
    run_max: usize,
}

impl DatagramSocket {
    /// Creates an unbound socket of the address' family.
    pub(super) fn create(address: &SocketAddr) -> io::Result<OwnedFd> {
        ip_socket(address, SocketType::DGRAM, SocketFlags::empty())
    }

    /// Wraps a bound socket. One receive call fills at most `buffers` buffers of 64 KiB.
    pub(super) fn new(socket: OwnedFd, buffers: usize, socket_buffer_bytes: usize) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into())?;
        let local = socket.local_addr()?;
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

    /// Local address.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Bytes of the buffer of received datagrams.
    pub(super) fn buffer_bytes(&self) -> u64 {
        sockopt::socket_recv_buffer_size(&self.socket).map_or(0, |bytes| bytes as u64)
    }

    /// Another descriptor of the socket, for another process. `None` if the system gives none.
    pub(super) fn share(&self) -> Option<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned().ok()
    }

    /// Descriptor, for registration.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Receives with one system call, and passes each run of datagrams from one peer to `visit`.
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

    /// Maximum number of datagrams in a run; 1 if the system cannot segment.
    pub(super) fn run_max(&self) -> usize {
        // The library says 1 after a refusal.
        if self.state.max_gso_segments() > 1 { self.run_max } else { 1 }
    }

    /// Sends a run of datagrams of `segment` bytes each. The last may be shorter.
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

    /// The library takes any refusal as one of GSO, and switches GSO off. Here only the refused peer loses it.
    fn restore_gso(&mut self) {
        if let Ok(state) = UdpSocketState::new((&self.socket).into()) {
            self.state = state;
            if let Err(error) = self.adjust() {
                tracing::warn!(%error, "cannot allow IP fragmentation again");
            }
        }
    }

    /// Undoes settings that the library makes for QUIC. NDN packets of up to 8,800 bytes are longer than the MTU of
    /// most links, so IP must fragment them, as with other forwarders. Arrival times and traffic classes cost time on
    /// every datagram, and nobody reads them.
    fn adjust(&self) -> io::Result<()> {
        let socket = &self.socket;
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &0);
        let _ = match self.local {
            SocketAddr::V4(_) => sockopt::set_ip_recvtos(socket, false),
            SocketAddr::V6(_) => sockopt::set_ipv6_recvtclass(socket, false),
        };
        match self.local {
            SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?,
            SocketAddr::V6(_) => {
                sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT)?;
                set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, &0)?;
            }
        }
        Ok(())
    }
}

/// Whether the system takes runs of this many datagrams. Tries it by sending one from a socket to itself.
fn takes_runs_of(datagrams: usize) -> bool {
    let send = || -> io::Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (destination, contents) = (socket.local_addr()?, vec![0; datagrams]);
        let transmit = Transmit { destination, ecn: None, contents: &contents, segment_size: Some(1), src_ip: None };
        UdpSocketState::new((&socket).into())?.try_send((&socket).into(), &transmit)
    };
    send().is_ok()
}

/// Sets both buffers of a socket to this many bytes, above the system's limit if the process may do so. Failures only cost
/// packets in bursts.
pub fn set_buffer_sizes(socket: &UdpSocket, bytes: usize) {
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, bytes);
    }
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(socket, bytes);
    }
}

/// The system's route to `remote`.
pub(super) struct Route {
    /// Address from which the system would send.
    pub(super) local: IpAddr,
    /// Bytes of the longest datagram that leaves in one piece.
    pub(super) datagram_bytes: usize,
}

/// Asks the routing table, with a socket that is connected and never used.
pub(super) fn route_to(remote: SocketAddr) -> io::Result<Route> {
    let any: SocketAddr = match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    let (mtu, headers) = match remote {
        SocketAddr::V4(_) => (sockopt::ip_mtu(&socket)?, 28),
        SocketAddr::V6(_) => (sockopt::ipv6_mtu(&socket)?, 48),
    };
    Ok(Route { local: socket.local_addr()?.ip(), datagram_bytes: (mtu as usize).saturating_sub(headers) })
}
