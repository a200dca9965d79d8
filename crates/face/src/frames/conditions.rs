//! The frames that a port takes, as conditions of a program that sees all frames of an interface. The program is a
//! filter of packet sockets (`filter`), or a program of XDP (`xdp::program`).

use std::net::IpAddr;

use super::datagram::{FRAGMENT_BITS, IPV4_ETHER_TYPE, IPV4_PLAIN, IPV6_ETHER_TYPE, Path, UDP, UDP_BYTES};
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use crate::mac_address::MacAddress;

/// Writes a program for some machine, one kind of frames after the other. A frame that fails a condition of one kind is
/// tried as the next kind.
pub(super) trait Conditions {
    /// Begins a kind. Frames with fewer than `bytes` bytes are not of this kind.
    fn begin(&mut self, bytes: usize);
    /// Requires these bytes, compared two or four at a time, at an offset.
    fn expect(&mut self, at: usize, bytes: &[u8]);
    /// Requires this byte at an offset.
    fn expect_byte(&mut self, at: usize, byte: u8);
    /// Requires that none of these bits is set in the byte at an offset.
    fn refuse_bits(&mut self, at: usize, bits: u8);
    /// Requires that none of these bits is set in the two bytes at an offset.
    fn refuse_bits_of_two(&mut self, at: usize, bits: u16);
    /// Takes the frames that meet all conditions of this kind.
    fn take(&mut self);
}

/// Takes NDN frames from a station to `address` or to `group`, and plain datagrams to `address` on one of these paths.
pub(super) fn write(
    program: &mut impl Conditions,
    address: MacAddress,
    group: Option<MacAddress>,
    paths: impl Iterator<Item = Path>,
) {
    for destination in [Some(address), group].into_iter().flatten() {
        program.begin(HEADER_BYTES);
        program.expect(12, &ETHER_TYPE.to_be_bytes());
        program.refuse_bits(6, 1);
        program.expect(0, &destination.0);
        program.take();
    }
    for path in paths {
        write_path(program, address, path);
    }
}

/// Takes datagrams on a path.
pub(super) fn write_path(program: &mut impl Conditions, address: MacAddress, path: Path) {
    let ip = HEADER_BYTES;
    program.begin(ip + path.overhead());
    program.expect(0, &address.0);
    let protocol_at = match (path.there.ip(), path.here.ip()) {
        (IpAddr::V4(there), IpAddr::V4(here)) => {
            program.expect(12, &IPV4_ETHER_TYPE.to_be_bytes());
            program.expect_byte(ip, IPV4_PLAIN);
            program.refuse_bits_of_two(ip + 6, FRAGMENT_BITS);
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
    program.expect_byte(protocol_at, UDP);
    let ports = ip + path.overhead() - UDP_BYTES;
    program.expect(ports, &path.there.port().to_be_bytes());
    program.expect(ports + 2, &path.here.port().to_be_bytes());
    program.take();
}
