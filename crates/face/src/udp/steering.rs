//! Steers the datagrams of each peer to one of several sockets that share an address, one for each thread.
//!
//! The system would choose a socket by a hash that only it knows. A program in the system computes our own hash of the
//! peer's address and port instead, so that a face for a peer can be created where the peer's datagrams will come.
//!
//! Only the first socket's bind fails if another process has the address: the others share it with the first.
//!
//! Limit: in a packet with IP options or extension headers, the program reads other bytes than the port. Such a packet
//! reaches any of the sockets, and gets a face there.

use std::net::SocketAddr;

use libc::sock_filter;

use crate::spread;

/// Where a program finds the sender's address and port, counted from the start of the IP header.
struct Layout {
    address: usize,
    address_words: usize,
    port: usize,
}

const IPV4: Layout = Layout { address: 12, address_words: 1, port: 20 };
const IPV6: Layout = Layout { address: 8, address_words: 4, port: 40 };

/// One of several sockets that share an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steering {
    pub number: usize,
    pub sockets: usize,
}

impl Steering {
    /// Whether this socket gets the datagrams of a peer.
    pub fn leads_here(self, remote: &SocketAddr) -> bool {
        self.sockets == 1 || socket_of(remote, self.sockets) == self.number
    }
}

/// The number of the socket that gets a peer's datagrams.
fn socket_of(remote: &SocketAddr, sockets: usize) -> usize {
    let words = match remote {
        SocketAddr::V4(v4) => u32::from(*v4.ip()),
        SocketAddr::V6(v6) => {
            let octets = v6.ip().octets();
            octets.as_chunks().0.iter().fold(0, |all, word| all ^ u32::from_be_bytes(*word))
        }
    };
    spread::socket_of(words ^ u32::from(remote.port()), sockets)
}

/// The same for the system.
pub(super) fn program(local: &SocketAddr, sockets: usize) -> Vec<sock_filter> {
    let Layout { address, address_words, port } = if local.is_ipv4() { IPV4 } else { IPV6 };
    let mut lines = Vec::new();
    let mut line = |code: u32, k: u32| lines.push(spread::instruction(code, k));
    let at = |offset: usize| (libc::SKF_NET_OFF + offset as i32) as u32;
    let word = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    line(word, at(address));
    for n in 1..address_words {
        line(libc::BPF_MISC | libc::BPF_TAX, 0);
        line(word, at(address + 4 * n));
        line(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    }
    line(libc::BPF_MISC | libc::BPF_TAX, 0);
    line(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, at(port));
    line(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    lines.extend(spread::return_socket(sockets));
    lines
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    use super::*;
    use crate::system::steer;
    use crate::udp::{bind_another, bind_first};

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
            steer(&sockets[0], &program(&local, SOCKETS)).expect("the system takes the program");
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
}
