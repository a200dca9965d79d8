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

/// Odd, with its bits evenly spread [Knuth, volume 3, §6.4].
const FACTOR: u32 = 0x9e37_79b1;
/// Bits of the product that are not used: the lower bits of a product depend on few bits of the factors.
const UNUSED_BITS: u32 = 16;

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
    ((words ^ u32::from(remote.port())).wrapping_mul(FACTOR) >> UNUSED_BITS) as usize % sockets
}

/// The same for the system.
pub(super) fn program(local: &SocketAddr, sockets: usize) -> Vec<sock_filter> {
    let Layout { address, address_words, port } = if local.is_ipv4() { IPV4 } else { IPV6 };
    let mut lines = Vec::new();
    let mut line = |code: u32, k: u32| lines.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
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
    line(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, FACTOR);
    line(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, UNUSED_BITS);
    line(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets as u32);
    line(libc::BPF_RET | libc::BPF_A, 0);
    lines
}
