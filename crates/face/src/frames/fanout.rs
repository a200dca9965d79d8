//! Several packet sockets that share the frames of an interface, one for each packet thread.
//!
//! The kernel gives each frame to one socket of a *fanout* group. A program in the kernel chooses it: frames of one
//! station always come to the same socket, so that one thread owns the station's face. Frames to a group come to the
//! first socket. Datagrams of peers by UDP come to the sockets in turn, path by path, because peers behind a router
//! have the same station.
//!
//! The program returns the place of a socket in the group, so all sockets of a group are opened together, and closed
//! together.

use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;

use libc::sock_filter;

use super::datagram::Path;
use super::filter::Writer;
use crate::mac_address::MacAddress;
use crate::{spread, system};

/// A program chooses, and outgoing frames do not come. Linux before 5.10 ignores the latter.
const TYPE: u32 = libc::PACKET_FANOUT_CBPF | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
const TYPE_AT: u32 = 16;

/// The number of the socket that gets the frames of a station.
pub fn socket_of(station: MacAddress, sockets: usize) -> usize {
    let [a, b, c, d, e, f] = station.0;
    let word = u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes([0, 0, e, f]);
    spread::socket_of(word, sockets)
}

/// The number of the socket that gets the datagrams of the path with this number.
pub fn socket_of_path(path: usize, sockets: usize) -> usize {
    path % sockets
}

/// Joins sockets, which are bound to the same interface and EtherType, to a new group.
///
/// # Errors
/// If the interface is down, or the system refuses.
pub(super) fn join(sockets: &[&OwnedFd], address: MacAddress, paths: &[Path]) -> io::Result<()> {
    let Some((first, others)) = sockets.split_first() else { return Ok(()) };
    // The kernel chooses an unused number for the group, and tells it.
    let new = TYPE | libc::PACKET_FANOUT_FLAG_UNIQUEID;
    system::set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &(new << TYPE_AT))?;
    let known: c_int = system::option(first, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    let group = known as u32 & 0xffff;
    for other in others {
        let joined = TYPE << TYPE_AT | group;
        system::set_option(other, libc::SOL_PACKET, libc::PACKET_FANOUT, &joined)?;
    }
    system::steer_frames(first, &program(address, paths, sockets.len()))
}

/// The program that chooses a socket.
fn program(address: MacAddress, paths: &[Path], sockets: usize) -> Vec<sock_filter> {
    // Offsets from the frame's first byte.
    let mut program = Writer::at(libc::SKF_LL_OFF as u32);
    for (number, path) in paths.iter().enumerate() {
        program.take_path(address, *path, socket_of_path(number, sockets) as u32);
    }
    program.take_groups(0);
    let mut lines = program.lines();
    let mut line = |code: u32, k: u32| lines.push(spread::instruction(code, k));
    let at = |offset: i32| (libc::SKF_LL_OFF + offset) as u32;
    line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at(6));
    line(libc::BPF_MISC | libc::BPF_TAX, 0);
    line(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, at(10));
    line(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    lines.extend(spread::return_socket(sockets));
    lines
}
