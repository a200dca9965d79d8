//! Which frames a port takes, as conditions of a program that meets all frames of an interface: a filter of packet
//! sockets (`filter`), or a program of XDP (`xdp::program`).

use std::net::IpAddr;

use super::datagram::{FRAGMENT_BITS, IPV4_ETHER_TYPE, IPV4_PLAIN, IPV6_ETHER_TYPE, Path, UDP, UDP_BYTES};
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use crate::mac_address::MacAddress;

/// A program as it is written, for some machine: one kind of frames after the other. A frame that does not meet one
/// condition of a kind goes on at the next kind.
pub(super) trait Conditions {
    /// A kind begins, of which the first `octets` must be there.
    fn begin(&mut self, octets: usize);
    /// These octets, two or four at a time, stand at a place.
    fn expect(&mut self, at: usize, octets: &[u8]);
    /// This octet stands at a place.
    fn expect_octet(&mut self, at: usize, octet: u8);
    /// The octet at a place has none of these bits.
    fn refuse_bits(&mut self, at: usize, bits: u8);
    /// The two octets at a place have none of these bits.
    fn refuse_bits_of_two(&mut self, at: usize, bits: u16);
    /// The frame is taken that meets all conditions of this kind.
    fn take(&mut self);
}

/// Takes frames of NDN's EtherType from a station to `address` or to `group`, and plain datagrams to `address` that
/// come on one of these paths.
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

/// Takes datagrams that come on a path.
fn write_path(program: &mut impl Conditions, address: MacAddress, path: Path) {
    let ip = HEADER_BYTES;
    program.begin(ip + path.overhead());
    program.expect(0, &address.0);
    let protocol_at = match (path.there.ip(), path.here.ip()) {
        (IpAddr::V4(there), IpAddr::V4(here)) => {
            program.expect(12, &IPV4_ETHER_TYPE.to_be_bytes());
            program.expect_octet(ip, IPV4_PLAIN);
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
    program.expect_octet(protocol_at, UDP);
    let ports = ip + path.overhead() - UDP_BYTES;
    program.expect(ports, &path.there.port().to_be_bytes());
    program.expect(ports + 2, &path.here.port().to_be_bytes());
    program.take();
}
