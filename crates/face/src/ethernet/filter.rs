//! The program that shows a packet socket its frames: those of NDN, and datagrams of the port's peers.

use std::net::IpAddr;

use libc::sock_filter;
use socket2::SockFilter;

use super::datagram::{FRAGMENT_BITS, IPV4_ETHER_TYPE, IPV4_PLAIN, IPV6_ETHER_TYPE, Path, UDP, UDP_BYTES};
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use crate::mac_address::MacAddress;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_OCTET: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// A program as it is written: one kind of frames after the other, each with jumps to the next.
#[derive(Default)]
struct Writer {
    lines: Vec<sock_filter>,
    /// Jumps to where the next kind begins, and whether they are taken where the comparison holds.
    open: Vec<(usize, bool)>,
}

impl Writer {
    fn line(&mut self, code: u32, k: u32) {
        self.lines.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    fn load(&mut self, size: u32, at: usize) {
        self.line(size, at as u32);
    }

    /// Goes on only where what was loaded does, or does not, compare so.
    fn leave(&mut self, comparison: u32, value: u32, if_it_holds: bool) {
        self.open.push((self.lines.len(), if_it_holds));
        self.line(comparison, value);
    }

    /// Goes on only where these octets, two or four at a time, stand at a place in the frame.
    fn expect(&mut self, at: usize, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<4>();
        for (n, word) in words.iter().enumerate() {
            self.load(LOAD_WORD, at + 4 * n);
            self.leave(IF_EQUAL, u32::from_be_bytes(*word), false);
        }
        if let &[a, b] = rest {
            self.load(LOAD_HALF, at + 4 * words.len());
            self.leave(IF_EQUAL, u32::from(u16::from_be_bytes([a, b])), false);
        }
    }

    /// Takes the frame; the next kind begins behind this.
    fn take(&mut self) {
        self.line(RETURN, u32::MAX);
        let here = self.lines.len();
        for (line, if_it_holds) in self.open.drain(..) {
            let distance = u8::try_from(here - line - 1).expect("a kind of frames takes far fewer lines");
            let line = &mut self.lines[line];
            *if if_it_holds { &mut line.jt } else { &mut line.jf } = distance;
        }
    }
}

/// Frames of NDN's EtherType from a station to `address` or to `group`, and plain datagrams to `address` that come on
/// one of these paths.
pub(super) fn filter(address: MacAddress, group: Option<MacAddress>, paths: &[Path]) -> Vec<SockFilter> {
    let mut program = Writer::default();
    for destination in [Some(address), group].into_iter().flatten() {
        program.expect(12, &ETHER_TYPE.to_be_bytes());
        program.load(LOAD_OCTET, 6);
        program.leave(IF_SET, 1, true);
        program.expect(0, &destination.0);
        program.take();
    }
    for path in paths {
        write_path(&mut program, address, path);
    }
    program.line(RETURN, 0);
    program.lines.iter().map(|line| SockFilter::new(line.code, line.jt, line.jf, line.k)).collect()
}

/// Takes datagrams that come on a path.
fn write_path(program: &mut Writer, address: MacAddress, path: &Path) {
    let ip = HEADER_BYTES;
    program.expect(0, &address.0);
    let protocol_at = match (path.there.ip(), path.here.ip()) {
        (IpAddr::V4(there), IpAddr::V4(here)) => {
            program.expect(12, &IPV4_ETHER_TYPE.to_be_bytes());
            program.load(LOAD_OCTET, ip);
            program.leave(IF_EQUAL, u32::from(IPV4_PLAIN), false);
            program.load(LOAD_HALF, ip + 6);
            program.leave(IF_SET, u32::from(FRAGMENT_BITS), true);
            program.expect(ip + 12, &there.octets());
            program.expect(ip + 16, &here.octets());
            ip + 9
        }
        (there, here) => {
            program.expect(12, &IPV6_ETHER_TYPE.to_be_bytes());
            for (at, address) in [(ip + 8, there), (ip + 24, here)] {
                let IpAddr::V6(address) = address else { unreachable!("both are of one family") };
                program.expect(at, &address.octets());
            }
            ip + 6
        }
    };
    program.load(LOAD_OCTET, protocol_at);
    program.leave(IF_EQUAL, u32::from(UDP), false);
    let ports = ip + path.overhead() - UDP_BYTES;
    program.expect(ports, &path.there.port().to_be_bytes());
    program.expect(ports + 2, &path.here.port().to_be_bytes());
    program.take();
}
