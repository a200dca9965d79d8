//! Deals peers out to the sockets of several threads, by a hash that programs in the kernel compute as we do.
//!
//! So a face for a peer can be created on the thread where the peer's packets will come.

use libc::sock_filter;

/// Odd, with its bits evenly spread [Knuth, volume 3, §6.4].
const FACTOR: u32 = 0x9e37_79b1;
/// Bits of the product that are not used: the lower bits of a product depend on few bits of the factors.
const UNUSED_BITS: u32 = 16;

/// The number of the socket, of so many, for a word that stands for a peer.
pub(crate) fn socket_of(word: u32, sockets: usize) -> usize {
    (word.wrapping_mul(FACTOR) >> UNUSED_BITS) as usize % sockets
}

/// The end of a program: returns [`socket_of`] the word in the accumulator.
pub(crate) fn return_socket(sockets: usize) -> [sock_filter; 4] {
    [
        instruction(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, FACTOR),
        instruction(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, UNUSED_BITS),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets as u32),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

/// An instruction that does not jump.
pub(crate) const fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
