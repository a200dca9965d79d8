//! Steers the datagrams of each peer to one of several sockets that share an address, one for each thread.
//!
//! The system would choose a socket by a hash that only it knows. A program in the system computes our own hash of the
//! peer's address and port instead, so that a face for a peer can be created where the peer's datagrams will come.
//!
//! A face can move to another thread. Its peer's datagrams then take a *detour* ([`Detour`]): the program compares the
//! peer with those that have moved before it uses the hash. The system exchanges the program as a whole, so each
//! datagram finds the old one or the new one. A comparison takes about a nanosecond of each datagram, so at most
//! [`DETOURS_MAX`] faces can be on detours. Threads do not share the list: each has a copy, and looks at a count of
//! changes.
//!
//! Only the first socket's bind fails if another process has the address: the others share it with the first.
//!
//! Limit: in a packet with IP options or extension headers, the program reads other bytes than the port. Such a packet
//! reaches any of the sockets, and gets a face there.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::sock_filter;

use super::answers::{self, Handed};
use crate::desk::Desk;
use crate::spread;
use crate::system::steer;
use crate::waker::LoopWaker;

/// Maximum number of peers of one address whose datagrams come to another socket than the hash says.
pub(super) const DETOURS_MAX: usize = 64;

/// Where a program finds the sender's address and port, counted from the start of the IP header.
struct Layout {
    address: usize,
    address_words: usize,
    port: usize,
}

const IPV4: Layout = Layout { address: 12, address_words: 1, port: 20 };
const IPV6: Layout = Layout { address: 8, address_words: 4, port: 40 };

/// One of several sockets that share an address.
pub(super) struct Steering {
    pub number: usize,
    /// What the sockets share; `None` for the only socket of an address.
    group: Option<Arc<Group>>,
    /// Count of changes of the group that this side has seen, and the detours then.
    seen: u64,
    detours: Vec<(SocketAddr, usize)>,
}

/// Sockets that share an address.
pub(super) struct Group {
    /// Another descriptor of one of the sockets: a program is of all of them.
    socket: OwnedFd,
    local: SocketAddr,
    sockets: usize,
    /// Whether another process had them before.
    are_inherited: bool,
    changes: AtomicU64,
    routes: Mutex<Routes>,
    /// Where each socket's port gets what came to other sockets.
    desks: Vec<Desk<Handed>>,
}

#[derive(Default)]
struct Routes {
    detours: Vec<(SocketAddr, Lead)>,
    /// Number of the last detour.
    serial: u64,
    /// The first bytes of PIT tokens, once they are known.
    mark: Option<[u8; 4]>,
    /// The sockets are another process's, and so is their program.
    are_gone: bool,
}

/// Where a detour leads.
#[derive(Clone, Copy)]
struct Lead {
    to: usize,
    serial: u64,
}

/// The datagrams of a peer come to another socket than the hash says, until this is dropped.
pub(super) struct Detour {
    group: Arc<Group>,
    remote: SocketAddr,
    serial: u64,
}

impl Drop for Detour {
    fn drop(&mut self) {
        let mut routes = self.group.routes();
        let before = routes.detours.len();
        routes.detours.retain(|(_, lead)| lead.serial != self.serial);
        if routes.detours.len() == before {
            // The peer is on a later detour by now.
            return;
        }
        self.group.changes.fetch_add(1, Ordering::Release);
        if let Err(error) = self.group.publish(&routes) {
            tracing::warn!(%error, remote = %self.remote, "datagrams still come to the thread of a face that is gone");
        }
    }
}

impl Group {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the system a program with these detours.
    fn publish(&self, routes: &Routes) -> std::io::Result<()> {
        if routes.are_gone {
            return Ok(());
        }
        let detours: Vec<(SocketAddr, usize)> =
            routes.detours.iter().map(|(remote, lead)| (*remote, lead.to)).collect();
        steer(&self.socket, &program(&self.local, self.sockets, routes.mark, &detours))
    }
}

impl Steering {
    /// The only socket of an address.
    pub fn alone() -> Self {
        Steering { number: 0, group: None, seen: 0, detours: Vec::new() }
    }

    /// One for each of these sockets, in the order of their binding. The program is in place already.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub fn of_all(sockets: &[OwnedFd], local: SocketAddr, are_inherited: bool) -> std::io::Result<Vec<Self>> {
        let (Some(first), count @ 2..) = (sockets.first(), sockets.len()) else { return Ok(vec![Steering::alone()]) };
        let group = Arc::new(Group {
            socket: first.try_clone()?,
            local,
            sockets: count,
            are_inherited,
            changes: AtomicU64::new(0),
            routes: Mutex::default(),
            desks: (0..count).map(|_| Desk::new()).collect(),
        });
        let of = |number| Steering { number, group: Some(Arc::clone(&group)), seen: 0, detours: Vec::new() };
        Ok((0..count).map(of).collect())
    }

    /// Whether there are other sockets, to which faces can move.
    pub fn is_of_several(&self) -> bool {
        self.group.is_some()
    }

    /// Number of sockets that share the address, if there are several.
    pub fn sockets(&self) -> Option<usize> {
        self.group.as_ref().map(|group| group.sockets)
    }

    /// Whether this socket gets the datagrams of a peer.
    pub fn leads_here(&mut self, remote: &SocketAddr) -> bool {
        self.socket_for(remote) == self.number
    }

    /// The socket that gets the datagrams of a peer, except for answers with a token.
    pub fn socket_for(&mut self, remote: &SocketAddr) -> usize {
        let Some(sockets) = self.sockets() else { return self.number };
        self.detour_of(remote).unwrap_or_else(|| socket_of(remote, sockets))
    }

    /// The port of this socket starts. Answers come to the sockets that their tokens name from now on.
    pub fn open(&self, waker: LoopWaker, mark: Option<[u8; 4]>) {
        let Some(group) = &self.group else { return };
        group.desks[self.number].open(&waker);
        let mut routes = group.routes();
        if mark.is_some() && routes.mark != mark {
            routes.mark = mark;
            self.publish_or_warn(group, &routes);
        }
    }

    /// After an attempt to give the sockets to another process, which may have changed their program.
    pub fn go_on_here(&self) {
        if let Some(group) = self.group.as_ref().filter(|_| self.number == 0) {
            self.publish_or_warn(group, &group.routes());
        }
    }

    fn publish_or_warn(&self, group: &Group, routes: &Routes) {
        if let Err(error) = group.publish(routes) {
            tracing::warn!(%error, local = %group.local, "answers do not come to the threads that wait for them");
        }
    }

    /// Gives a datagram to the port of another socket. Returns false if that has too many already.
    pub fn hand_over(&self, to: usize, handed: Handed) -> bool {
        let Some(group) = &self.group else { return false };
        let is_given = group.desks[to].give(handed);
        group.desks[to].wake();
        is_given
    }

    /// A datagram that came to another socket.
    pub fn take_handed(&self) -> Option<Handed> {
        self.group.as_ref()?.desks[self.number].take()
    }

    /// Whether there is such a datagram.
    pub fn has_handed(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.desks[self.number].is_empty())
    }

    /// Whether the face of this peer has moved to another socket.
    pub fn has_left(&mut self, remote: &SocketAddr) -> bool {
        self.detour_of(remote).is_some_and(|to| to != self.number)
    }

    /// The socket to which this peer takes a detour.
    fn detour_of(&mut self, remote: &SocketAddr) -> Option<usize> {
        let group = self.group.as_ref()?;
        let changes = group.changes.load(Ordering::Acquire);
        if changes != self.seen {
            let routes = group.routes();
            self.detours = routes.detours.iter().map(|(remote, lead)| (*remote, lead.to)).collect();
            self.seen = changes;
        }
        self.detours.iter().find(|(known, _)| known == remote).map(|(_, to)| *to)
    }

    /// Leads what a peer sends to socket `to` from now on. The detour lasts until it is dropped; `None` if there is no
    /// need for one. An earlier detour of the peer has no effect any more.
    ///
    /// # Errors
    /// The reason why it is impossible. Nothing has changed then.
    pub fn lead(&self, remote: SocketAddr, to: usize) -> Result<Option<Detour>, String> {
        self.set(remote, to, true)
    }

    /// Goes on with a peer whose face another process had here. If the sockets are inherited, so is their program,
    /// which leads the peer here already.
    ///
    /// # Errors
    /// As [`Steering::lead`].
    pub fn take_over(&self, remote: SocketAddr) -> Result<Option<Detour>, String> {
        // A program of this process replaces that of the other one.
        let is_known = self.group.as_ref().is_some_and(|group| group.are_inherited && group.routes().mark.is_none());
        self.set(remote, self.number, !is_known)
    }

    fn set(&self, remote: SocketAddr, to: usize, publish: bool) -> Result<Option<Detour>, String> {
        let Some(group) = &self.group else { return Err("there is no other socket".to_owned()) };
        if matches!(remote, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            return Err("programs of the system cannot tell the interface of a link-local peer".to_owned());
        }
        let mut routes = group.routes();
        let before = routes.detours.clone();
        routes.detours.retain(|(known, _)| *known != remote);
        routes.serial += 1;
        let serial = routes.serial;
        let is_detour = socket_of(&remote, group.sockets) != to;
        if is_detour {
            if routes.detours.len() >= DETOURS_MAX {
                routes.detours = before;
                return Err(format!("{DETOURS_MAX} UDP faces have moved already"));
            }
            routes.detours.push((remote, Lead { to, serial }));
        }
        let published = if publish { group.publish(&routes) } else { Ok(()) };
        group.changes.fetch_add(1, Ordering::Release);
        if let Err(error) = published {
            routes.detours = before;
            return Err(format!("the system takes no program: {error}"));
        }
        Ok(is_detour.then(|| Detour { group: Arc::clone(group), remote, serial }))
    }

    /// The sockets are another process's now. Detours that end here change nothing there.
    pub fn leave_to_another_process(&self) {
        if let Some(group) = &self.group {
            group.routes().are_gone = true;
        }
    }
}

/// The word whose hash chooses a socket.
fn word_of(remote: &SocketAddr) -> u32 {
    let port = u32::from(remote.port());
    match remote {
        SocketAddr::V4(v4) => port ^ u32::from(*v4.ip()),
        SocketAddr::V6(v6) => {
            let octets = v6.ip().octets();
            octets.as_chunks().0.iter().fold(port, |all, word| all ^ u32::from_be_bytes(*word))
        }
    }
}

/// A peer's address, in words.
fn words_of(remote: &SocketAddr) -> Vec<u32> {
    match remote {
        SocketAddr::V4(v4) => vec![u32::from(*v4.ip())],
        SocketAddr::V6(v6) => {
            let octets = v6.ip().octets();
            octets.as_chunks().0.iter().map(|word| u32::from_be_bytes(*word)).collect()
        }
    }
}

/// The number of the socket that gets the datagrams of a peer without a detour.
fn socket_of(remote: &SocketAddr, sockets: usize) -> usize {
    spread::socket_of(word_of(remote), sockets)
}

/// The same for the system, with peers whose datagrams go to other sockets. With `mark`, answers go to the sockets that
/// their tokens name.
pub(super) fn program(
    local: &SocketAddr,
    sockets: usize,
    mark: Option<[u8; 4]>,
    detours: &[(SocketAddr, usize)],
) -> Vec<sock_filter> {
    let layout = if local.is_ipv4() { IPV4 } else { IPV6 };
    let mut lines = mark.map_or_else(Vec::new, |mark| answers::program(mark, sockets));
    let mut line = |code: u32, k: u32| lines.push(spread::instruction(code, k));
    let at = |offset: usize| (libc::SKF_NET_OFF + offset as i32) as u32;
    let word = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    line(word, at(layout.address));
    for n in 1..layout.address_words {
        line(libc::BPF_MISC | libc::BPF_TAX, 0);
        line(word, at(layout.address + 4 * n));
        line(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    }
    line(libc::BPF_MISC | libc::BPF_TAX, 0);
    line(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, at(layout.port));
    line(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    if !detours.is_empty() {
        line(libc::BPF_ST, KEPT_WORD);
    }
    for (remote, to) in detours {
        lines.extend(detour(&layout, remote, *to));
    }
    lines.extend(spread::return_socket(sockets));
    lines
}

/// The cell of a program's memory that keeps the word which stands for the peer.
const KEPT_WORD: u32 = 0;

/// Returns `to` if the packet is of this peer. Otherwise, the accumulator has the word that it had before.
fn detour(layout: &Layout, remote: &SocketAddr, to: usize) -> Vec<sock_filter> {
    let at = |offset: usize| (libc::SKF_NET_OFF + offset as i32) as u32;
    let (load, load_half) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_LD | libc::BPF_H | libc::BPF_ABS);
    let words = words_of(remote);
    let loads = words.iter().enumerate().map(|(n, word)| (load, layout.address + 4 * n, *word));
    let loads: Vec<_> = loads.chain([(load_half, layout.port, u32::from(remote.port()))]).collect();
    // Different peers may have one word, so all is compared: a load and a jump for each part, the return, and the
    // restored word.
    let len = 2 * loads.len() + 2;
    let unless = |value: u32, skipped: usize| sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: skipped as u8,
        k: value,
    };
    let mut lines = vec![unless(word_of(remote), len)];
    for (n, (code, offset, value)) in loads.into_iter().enumerate() {
        lines.push(spread::instruction(code, at(offset)));
        // To the last line.
        lines.push(unless(value, len - 1 - (2 * n + 2)));
    }
    lines.push(spread::instruction(libc::BPF_RET | libc::BPF_K, to as u32));
    lines.push(spread::instruction(libc::BPF_LD | libc::BPF_MEM, KEPT_WORD));
    lines
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    use super::*;
    use crate::system::steer;
    use crate::udp::{bind_all, bind_another, bind_first};

    #[test]
    fn the_system_steers_each_peer_to_the_socket_that_we_compute() {
        const SOCKETS: usize = 3;
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let Ok(first) = bind_first(&(ip, 0).into()) else {
                println!("skipped: this machine has no {ip}");
                continue;
            };
            let first = UdpSocket::from(first);
            let local = first.local_addr().expect("bound");
            let others = (1..SOCKETS).map(|_| UdpSocket::from(bind_another(&local).expect("shared")));
            let sockets: Vec<UdpSocket> = std::iter::once(first).chain(others).collect();
            steer(&sockets[0], &program(&local, SOCKETS, None, &[])).expect("the system takes the program");
            let mut seen = [0; SOCKETS];
            for _ in 0..60 {
                let peer = UdpSocket::bind((ip, 0)).expect("a socket");
                let from = peer.local_addr().expect("bound");
                peer.send_to(b"x", local).expect("sent");
                let number = socket_of(&from, SOCKETS);
                seen[number] += 1;
                sockets[number].set_read_timeout(Some(Duration::from_secs(5))).expect("set");
                assert_eq!(sockets[number].recv_from(&mut [0; 8]).expect("it comes here").1, from);
            }
            assert!(seen.iter().all(|peers| *peers > 0), "{seen:?}");
        }
    }
    /// Receives from the socket with this number.
    fn receive(sockets: &[UdpSocket], number: usize) -> SocketAddr {
        sockets[number].set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        sockets[number].recv_from(&mut [0; 8]).expect("it comes here").1
    }

    #[test]
    fn detours_lead_single_peers_to_any_socket_until_they_end() {
        const SOCKETS: usize = 3;
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let Ok(sockets) = bind_all((ip, 0).into(), SOCKETS) else {
                println!("skipped: this machine has no {ip}");
                continue;
            };
            let peers: Vec<UdpSocket> = (0..DETOURS_MAX + 1).map(|_| UdpSocket::bind((ip, 0)).expect("one")).collect();
            let from: Vec<SocketAddr> = peers.iter().map(|peer| peer.local_addr().expect("bound")).collect();
            let descriptors = sockets.iter().map(|socket| socket.try_clone().expect("a descriptor"));
            let sockets: Vec<UdpSocket> = descriptors.map(UdpSocket::from).collect();
            let local = sockets[0].local_addr().expect("bound");
            let owned: Vec<OwnedFd> = sockets.iter().map(|socket| socket.try_clone().expect("one").into()).collect();
            let mut steerings = Steering::of_all(&owned, local, false).expect("descriptors");
            let check = |to: &dyn Fn(usize) -> usize| {
                for (n, peer) in peers.iter().enumerate() {
                    peer.send_to(b"x", local).expect("sent");
                    assert_eq!(receive(&sockets, to(n)), from[n]);
                }
            };
            let home = |n: usize| socket_of(&from[n], SOCKETS);
            let other = |n: usize| (home(n) + 1) % SOCKETS;
            let lead = |n: usize, to: usize| steerings[0].lead(from[n], to);
            let detours: Vec<Option<Detour>> = (0..DETOURS_MAX).map(|n| lead(n, other(n)).expect("room")).collect();
            assert!(lead(DETOURS_MAX, other(DETOURS_MAX)).is_err(), "there is no room for more");
            assert!(lead(DETOURS_MAX, home(DETOURS_MAX)).expect("no detour").is_none());
            check(&|n| if n < DETOURS_MAX { other(n) } else { home(n) });
            // A second detour replaces the first, whose end changes nothing.
            let third = lead(0, (home(0) + 2) % SOCKETS).expect("one is replaced");
            drop(detours);
            check(&|n| if n == 0 { (home(0) + 2) % SOCKETS } else { home(n) });
            let last = &mut steerings[home(0)];
            assert!(last.has_left(&from[0]) && !last.leads_here(&from[0]) && !last.has_left(&from[1]));
            drop(third);
            check(&home);
            let first = &mut steerings[home(0)];
            assert!(first.leads_here(&from[0]) && !first.has_left(&from[0]));
            // Peers with one word are told apart: only the higher address bits and the port differ.
            if let SocketAddr::V4(v4) = from[0] {
                let twin = SocketAddr::from((Ipv4Addr::from(u32::from(*v4.ip()) ^ 1), v4.port() ^ 1));
                assert_eq!(word_of(&twin), word_of(&from[0]));
                let _detour = steerings[0].lead(twin, other(0)).expect("room");
                check(&home);
            }
        }
    }

    #[test]
    fn detours_of_sockets_that_another_process_has_change_nothing_there() {
        let sockets = bind_all((Ipv4Addr::LOCALHOST, 0).into(), 2).expect("sockets");
        let local = rustix::net::getsockname(&sockets[0]).and_then(SocketAddr::try_from).expect("bound");
        let steering = Steering::of_all(&sockets, local, false).expect("a descriptor").remove(0);
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let from = peer.local_addr().expect("bound");
        let other = 1 - socket_of(&from, 2);
        let detour = steering.lead(from, other).expect("room");
        steering.leave_to_another_process();
        drop(detour);
        // The other process goes on with the program. It need not change it for that.
        let other_process = Steering::of_all(&sockets, local, true).expect("a descriptor").remove(other);
        let taken_over = other_process.take_over(from).expect("room");
        assert!(taken_over.is_some());
        peer.send_to(b"x", local).expect("sent");
        let sockets: Vec<UdpSocket> = sockets.into_iter().map(UdpSocket::from).collect();
        assert_eq!(receive(&sockets, other), from);
        drop(taken_over);
        peer.send_to(b"x", local).expect("sent");
        assert_eq!(receive(&sockets, 1 - other), from);
    }
}
