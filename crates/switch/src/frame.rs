//! Ethernet frames as a switch sees them, and the tag that they have between switches.
//!
//! ```text
//! from and to hosts    destination (6)  source (6)                              EtherType (2)  payload
//! between switches     destination (6)  source (6)  88-B5  epoch (1)  hops (1)  EtherType (2)  payload
//!   key vlan-mac       destination (6)  source (6)  88-B5  epoch (1)  hops (1)  81-00  VLAN (2)  EtherType (2)  payload
//!   key vxlan          station (6)  station (6)  88-B5  epoch (1)  hops (1)  08-00  IPv4 (20)  UDP (8)  VXLAN (8)
//!                      destination (6)  source (6)  EtherType (2)  payload
//! ```
//!
//! 0x88B5 is one of the two EtherTypes that IEEE 802 leaves to experiments. The tag takes four bytes, like a VLAN tag,
//! so links between switches need an MTU that is larger than that of hosts ([`trunk_bytes`]).

use std::net::IpAddr;
use std::ops::Deref;

use byname_wire::MacAddress;

use crate::counters::Reason;
use crate::key::{Key, KeyKind, VLAN_MAX, is_unicast};
use crate::packet::{self, Malformed, UDP, UDP_HEADER_BYTES, Udp};
use crate::role::Role;
use crate::segments::{Outer, PortSegments};

/// The EtherType that announces a [`Tag`].
pub const TAG_ETHER_TYPE: u16 = 0x88b5;
/// Bytes of a tag, including its EtherType.
pub const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;
const FRAME_BYTES_MIN: usize = ADDRESSES_BYTES + 2;
/// A VLAN tag of a customer, whose last bytes are the VLAN.
const VLAN_TAG: [u8; 4] = [0x81, 0, 0, 0];
/// UDP port of VXLAN [RFC 7348 §5].
const VXLAN_PORT: u16 = 4789;
const VXLAN_BYTES: usize = 8;
/// The flag of a VXLAN header that has a network.
const VXLAN_HAS_NETWORK: u8 = 0x08;
/// UDP port of GTP-U [3GPP TS 29.281 §4.4.2].
const GTP_PORT: u16 = 2152;
const GTP_BYTES: usize = 8;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
/// Links that a VXLAN packet may cross between a switch and the other end.
const TIME_TO_LIVE: u8 = 64;

/// Bytes that frames of hosts grow by between switches, at most: what the MTU of such links must be larger.
pub fn trunk_bytes(kind: KeyKind) -> usize {
    match kind {
        KeyKind::Mac | KeyKind::Ipv6 | KeyKind::Gtp => TAG_BYTES,
        KeyKind::VlanMac => TAG_BYTES + VLAN_TAG.len(),
        KeyKind::Vxlan => TAG_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES + VXLAN_BYTES + FRAME_BYTES_MIN,
    }
}

/// The tag of frames between switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Epoch of the tree that the frame is flooded along, if it is for a group.
    pub epoch: u8,
    /// Number of links between switches that it may still cross, including this one.
    pub hop_limit: u8,
}

/// A frame as a port delivers it.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The frame's bytes, without a VLAN tag that the system has removed.
    pub bytes: &'a [u8],
    /// The VLAN tag that was removed.
    pub vlan: Option<[u8; 4]>,
}

/// A parsed frame, which borrows its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The receiver: a station or a group.
    pub destination: MacAddress,
    /// The station that sent it.
    pub source: MacAddress,
    /// The tag of a frame from another switch.
    pub tag: Option<Tag>,
    vlan: Option<[u8; 4]>,
    /// The EtherType and everything after it. With the key `vlan-mac`, behind the tag of its VLAN. With the key `vxlan`,
    /// this and both addresses are those of the frame inside.
    pub rest: &'a [u8],
    /// Its VLAN or VXLAN network; 0 for other keys.
    segment: u32,
    inside: Inside,
}

/// Keys that are not in the Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Ipv6 { source: std::net::Ipv6Addr, destination: std::net::Ipv6Addr },
    Tunnel { tunnel: u32, address: IpAddr },
}

impl<'a> Frame<'a> {
    /// Parses a frame with or without a tag; `None` if it is too short or its source is not a single station.
    pub fn parse(arrived: Arrived<'a>) -> Option<Self> {
        let mut frame = Frame::without_tag(arrived)?;
        // After a VLAN tag, the same bytes are a host's own.
        if arrived.vlan.is_none() && frame.rest.starts_with(&TAG_ETHER_TYPE.to_be_bytes()) {
            let (&[_, _, epoch, hop_limit], rest) = frame.rest.split_first_chunk::<TAG_BYTES>()?;
            (frame.tag, frame.rest) = (Some(Tag { epoch, hop_limit }), rest);
            // The frame's own EtherType must follow.
            if rest.len() < 2 {
                return None;
            }
        }
        Some(frame)
    }

    fn without_tag(Arrived { bytes, vlan }: Arrived<'a>) -> Option<Self> {
        let (addresses, rest) = bytes.split_first_chunk::<ADDRESSES_BYTES>()?;
        if bytes.len() < FRAME_BYTES_MIN {
            return None;
        }
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
        let source = MacAddress([s0, s1, s2, s3, s4, s5]);
        let destination = MacAddress([d0, d1, d2, d3, d4, d5]);
        let is_station = !source.is_group() && !source.is_zero();
        is_station.then_some(Frame { destination, source, tag: None, vlan, rest, segment: 0, inside: Inside::Nothing })
    }

    /// Parses a frame that a port received, if the port may receive it. Its addresses are then those that the switch
    /// forwards by.
    ///
    /// # Errors
    /// Why the frame must be dropped.
    pub fn accept(kind: KeyKind, role: Role, segments: &PortSegments, arrived: Arrived<'a>) -> Result<Self, Reason> {
        let frame = Frame::parse(arrived).ok_or(Reason::Malformed)?;
        match (role, frame.tag) {
            (Role::Closed, _) => return Err(Reason::Closed),
            (Role::Trunk { .. }, None) => return Err(Reason::Untagged),
            (Role::Host, Some(_)) => return Err(Reason::TaggedByHost),
            (Role::Host, None) | (Role::Trunk { .. }, Some(_)) => {}
        }
        let frame = match kind {
            KeyKind::Mac => frame,
            KeyKind::VlanMac => frame.in_vlan(role, segments)?,
            KeyKind::Vxlan => frame.in_network(role, segments)?,
            KeyKind::Ipv6 | KeyKind::Gtp => frame.look_inside(kind)?,
        };
        if role == Role::Host && is_of_link(frame.destination) { Err(Reason::OfLink) } else { Ok(frame) }
    }

    /// Takes the tag of its VLAN off. Frames between switches have one; frames of hosts may.
    fn in_vlan(mut self, role: Role, segments: &PortSegments) -> Result<Self, Reason> {
        if self.vlan.is_none() && packet::is_vlan_tag(self.rest) {
            let (tag, rest) = self.rest.split_first_chunk().ok_or(Reason::Malformed)?;
            if rest.len() < 2 {
                return Err(Reason::Malformed);
            }
            (self.vlan, self.rest) = (Some(*tag), rest);
        }
        let tag = self.vlan.unwrap_or(VLAN_TAG);
        let vlan = u16::from_be_bytes([tag[2], tag[3]]) & 0xfff;
        let segment = match (vlan, role) {
            // Only a priority, or no tag.
            (0, Role::Host) => segments.plain.ok_or(Reason::WrongSegment)?,
            (1..=VLAN_MAX, _) => vlan.into(),
            _ => return Err(Reason::Malformed),
        };
        if role == Role::Host && !segments.carry(segment) {
            return Err(Reason::WrongSegment);
        }
        let [high, low] = (segment as u16).to_be_bytes();
        self.vlan = Some([tag[0], tag[1], tag[2] & 0xf0 | high, low]);
        self.segment = segment;
        Ok(self)
    }

    /// Takes the VXLAN header off. Frames between switches have one, and those of hosts where the port says so.
    fn in_network(self, role: Role, segments: &PortSegments) -> Result<Self, Reason> {
        let outer = segments.outer.filter(|_| role == Role::Host);
        if role == Role::Host && outer.is_none() {
            return Ok(Frame { segment: segments.plain.ok_or(Reason::WrongSegment)?, ..self });
        }
        if self.vlan.is_some() || packet::is_vlan_tag(self.rest) {
            return Err(Reason::NoKey);
        }
        let udp = Udp::of_frame(self.rest)?.filter(|udp| udp.port == VXLAN_PORT).ok_or(Reason::NoKey)?;
        if outer.is_some_and(|outer| udp.destination != outer.source) {
            return Err(Reason::NoKey);
        }
        let payload = &udp.datagram.ok_or(Reason::Fragment)?[UDP_HEADER_BYTES..];
        if !udp.is_intact() {
            return Err(Reason::Malformed);
        }
        let (&[flags, _, _, _, high, middle, low, _], bytes) =
            payload.split_first_chunk::<VXLAN_BYTES>().ok_or(Reason::Malformed)?;
        // Receivers ignore all other bits [RFC 7348 §5].
        if flags & VXLAN_HAS_NETWORK == 0 {
            return Err(Reason::Malformed);
        }
        let network = u32::from_be_bytes([0, high, middle, low]);
        if outer.is_some() && !segments.tagged.contains(network) {
            return Err(Reason::WrongSegment);
        }
        let inside = Frame::without_tag(Arrived { bytes, vlan: None }).ok_or(Reason::Malformed)?;
        Ok(Frame { tag: self.tag, segment: network, ..inside })
    }

    /// Finds a key behind the Ethernet header.
    fn look_inside(mut self, kind: KeyKind) -> Result<Self, Reason> {
        // A tag that the system has removed counts: the next switch gets it in front of the others.
        if self.vlan.is_some() && packet::has_most_vlan_tags(self.rest) {
            return Ok(self);
        }
        if kind == KeyKind::Gtp {
            self.inside = tunnel(self.rest)?;
        } else if let Some([source, destination]) = packet::ipv6_addresses(self.rest)? {
            // Loopback and group addresses are no senders. The unspecified one looks for an address.
            if !is_unicast(source.into()) && !source.is_unspecified() {
                return Err(Reason::Malformed);
            }
            self.inside = Inside::Ipv6 { source, destination };
        }
        Ok(self)
    }

    /// The frame for this kind of key when it has waited. `bytes` are the addresses and the rest that it had.
    pub(super) fn again(kind: KeyKind, arrived: Arrived<'a>, segment: u32) -> Option<Self> {
        let frame = Frame { segment, ..Frame::without_tag(arrived)? };
        if matches!(kind, KeyKind::Ipv6 | KeyKind::Gtp) { frame.look_inside(kind).ok() } else { Some(frame) }
    }

    /// Whether it is for many hosts, along the tree.
    #[inline]
    pub(super) fn is_for_all(&self) -> bool {
        match self.inside {
            Inside::Nothing => self.destination.is_group(),
            Inside::Ipv6 { destination, .. } => destination.is_multicast(),
            Inside::Tunnel { .. } => false,
        }
    }

    /// The key of the host that it is for. Of no use if the frame is for many.
    #[inline]
    pub fn to(&self, kind: KeyKind) -> Key {
        match self.inside {
            Inside::Nothing => self.station(kind, self.destination),
            Inside::Ipv6 { destination, .. } => Key::Ipv6(destination),
            Inside::Tunnel { tunnel, address } => Key::Gtp { tunnel, address },
        }
    }

    /// The key of its sender. `None` if it does not tell. A packet of a tunnel tells the sender's station only: the
    /// tunnel's number is the receiver's.
    #[inline]
    pub fn from(&self, kind: KeyKind) -> Option<Key> {
        match self.inside {
            Inside::Ipv6 { source, .. } => (!source.is_unspecified()).then_some(Key::Ipv6(source)),
            Inside::Nothing | Inside::Tunnel { .. } => Some(self.station(kind, self.source)),
        }
    }

    #[inline]
    fn station(&self, kind: KeyKind, address: MacAddress) -> Key {
        match kind {
            KeyKind::Mac | KeyKind::Ipv6 | KeyKind::Gtp => Key::Mac(address),
            KeyKind::VlanMac => Key::VlanMac { vlan: self.segment as u16, address },
            KeyKind::Vxlan => Key::Vxlan { network: self.segment, address },
        }
    }

    /// Its VLAN or VXLAN network; 0 for other keys.
    pub(super) fn segment(&self) -> u32 {
        self.segment
    }

    /// The bytes before [`Frame::rest`] when the frame leaves with a tag or without, as a frame of the key `mac`.
    pub fn header(&self, tag: Option<Tag>) -> Header {
        let mut header = Header { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        self.push_addresses(&mut header, tag);
        header.push(self.vlan.as_ref().map_or(&[][..], |vlan| vlan));
        header
    }

    fn push_addresses(&self, header: &mut Header, tag: Option<Tag>) {
        header.push(&self.destination.0);
        header.push(&self.source.0);
        push_tag(header, tag);
    }

    /// The bytes before [`Frame::rest`] when the frame leaves by a port to another switch, with a tag, or to a host.
    /// `None` if it is too long for a VXLAN packet.
    #[inline]
    pub(super) fn header_at(&self, kind: KeyKind, tag: Option<Tag>, segments: &PortSegments) -> Option<Header> {
        match (kind, &segments.outer) {
            (KeyKind::VlanMac, _) if tag.is_none() && self.leaves_plain(segments) => {
                Some(Frame { vlan: None, ..*self }.header(None))
            }
            (KeyKind::Vxlan, Some(outer)) => self.vxlan_header(tag, outer),
            _ => Some(self.header(tag)),
        }
    }

    /// Whether its VLAN has no tag at this port. A frame whose next tag would then take the place of the first keeps
    /// both, so that no host sends into the VLAN of another by writing two tags.
    fn leaves_plain(&self, segments: &PortSegments) -> bool {
        segments.plain == Some(self.segment) && !packet::is_vlan_tag(self.rest)
    }

    fn vxlan_header(&self, tag: Option<Tag>, outer: &Outer) -> Option<Header> {
        let mut inner = Header { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        let [_, high, middle, low] = self.segment.to_be_bytes();
        inner.push(&[VXLAN_HAS_NETWORK, 0, 0, 0, high, middle, low, 0]);
        self.push_addresses(&mut inner, None);
        inner.push(self.vlan.as_ref().map_or(&[][..], |vlan| vlan));
        let len = u16::try_from(UDP_HEADER_BYTES + inner.len() + self.rest.len()).ok()?;
        let [len_high, len_low] = len.to_be_bytes();
        let mut header = Header { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        header.push(&outer.station.0);
        header.push(&outer.source_station.0);
        push_tag(&mut header, tag);
        match (outer.source, outer.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let [total_high, total_low] = len.checked_add(IPV4_HEADER_BYTES as u16)?.to_be_bytes();
                let mut ip =
                    [0x45, 0, total_high, total_low, 0, 0, 0x40, 0, TIME_TO_LIVE, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                ip[12..16].copy_from_slice(&source.octets());
                ip[16..].copy_from_slice(&destination.octets());
                let sum = packet::checksum(&[&ip]);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                header.push(&[0x08, 0]);
                header.push(&ip);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                header.push(&[0x86, 0xdd, 0x60, 0, 0, 0, len_high, len_low, UDP, TIME_TO_LIVE]);
                header.push(&source.octets());
                header.push(&destination.octets());
            }
            _ => return None,
        }
        let [port_high, port_low] = VXLAN_PORT.to_be_bytes();
        let [source_high, source_low] = self.source_port().to_be_bytes();
        let mut udp = [source_high, source_low, port_high, port_low, len_high, len_low, 0, 0];
        // Over IPv4 tunnels leave it out [RFC 7348 §5]. Over IPv6, systems drop datagrams without one.
        if outer.source.is_ipv6() {
            let sum = packet::udp_checksum(outer.source, outer.destination, &[&udp, &inner, self.rest]);
            udp[6..].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        }
        header.push(&udp);
        header.push(&inner);
        Some(header)
    }

    /// The UDP port that a VXLAN packet comes from: one for each pair of stations, so that routers spread pairs over
    /// paths, and keep the order of each [RFC 7348 §5].
    fn source_port(&self) -> u16 {
        let bytes = self.destination.0.iter().chain(&self.source.0);
        let hash = bytes.fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        0xc000 | (hash >> 16) as u16 & 0x3fff
    }

    /// The VLAN tag as it arrived.
    pub(super) fn vlan(&self) -> Option<[u8; 4]> {
        self.vlan
    }
}

impl From<Malformed> for Reason {
    fn from(Malformed: Malformed) -> Self {
        Reason::Malformed
    }
}

/// The tunnel of a GTP-U packet. `rest` begins with the frame's EtherType. All other frames, and messages about paths,
/// which are of no tunnel, have none.
fn tunnel(rest: &[u8]) -> Result<Inside, Reason> {
    let Some(udp) = Udp::of_frame(rest)?.filter(|udp| udp.port == GTP_PORT) else { return Ok(Inside::Nothing) };
    let datagram = udp.datagram.ok_or(Reason::Fragment)?;
    let (&[flags, _, len_high, len_low, t0, t1, t2, t3], message) =
        datagram[UDP_HEADER_BYTES..].split_first_chunk::<GTP_BYTES>().ok_or(Reason::Malformed)?;
    // Version 1 of GTP, and not its charging variant.
    let is_gtp = flags & 0xf0 == 0x30;
    if !is_gtp || usize::from(u16::from_be_bytes([len_high, len_low])) > message.len() {
        return Err(Reason::Malformed);
    }
    let (tunnel, address) = (u32::from_be_bytes([t0, t1, t2, t3]), udp.destination.to_canonical());
    Ok(if tunnel == 0 { Inside::Nothing } else { Inside::Tunnel { tunnel, address } })
}

fn push_tag(header: &mut Header, tag: Option<Tag>) {
    if let Some(Tag { epoch, hop_limit }) = tag {
        let [high, low] = TAG_ETHER_TYPE.to_be_bytes();
        header.push(&[high, low, epoch, hop_limit]);
    }
}

/// A VXLAN packet over IPv6 with a tag, and the addresses and a VLAN tag of the frame inside.
pub const HEADER_BYTES_MAX: usize = ADDRESSES_BYTES
    + TAG_BYTES
    + 2
    + IPV6_HEADER_BYTES
    + UDP_HEADER_BYTES
    + VXLAN_BYTES
    + ADDRESSES_BYTES
    + VLAN_TAG.len();

/// The bytes before the EtherType of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl Header {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Whether frames to this group must stay on one link: spanning tree, pause and neighbor protocols.
pub(super) fn is_of_link(destination: MacAddress) -> bool {
    matches!(destination.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::packet::tests::{Written, any_written};
    use crate::segments::Numbers;

    const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn parse(bytes: &[u8]) -> Option<Frame<'_>> {
        Frame::parse(Arrived { bytes, vlan: None })
    }

    #[test]
    fn tags_are_taken_off_and_put_on() {
        let plain = [&ADDRESSES[..], &[8, 0, 0x45]].concat();
        let frame = parse(&plain).expect("a frame");
        assert_eq!((frame.tag, frame.rest), (None, &[8, 0, 0x45][..]));
        let tag = Tag { epoch: 7, hop_limit: 16 };
        let tagged = [&frame.header(Some(tag)), frame.rest].concat();
        assert_eq!(tagged[12..], [0x88, 0xb5, 7, 16, 8, 0, 0x45]);
        let frame = parse(&tagged).expect("a frame");
        assert_eq!((frame.tag, frame.rest), (Some(tag), &[8, 0, 0x45][..]));
        assert_eq!([&frame.header(None), frame.rest].concat(), plain);
    }

    #[test]
    fn the_tag_of_a_vlan_goes_inside_ours() {
        let bytes = [&ADDRESSES[..], &[8, 0, 0x45]].concat();
        let vlan = Some([0x81, 0, 0, 7]);
        let frame = Frame::parse(Arrived { bytes: &bytes, vlan }).expect("a frame");
        let tagged = [&frame.header(Some(Tag { epoch: 1, hop_limit: 2 })), frame.rest].concat();
        let frame = parse(&tagged).expect("a frame");
        assert_eq!([&frame.header(None), frame.rest].concat()[12..], [0x81, 0, 0, 7, 8, 0, 0x45]);
        // A host cannot hide one of our tags behind a VLAN tag.
        let inside = [&ADDRESSES[..], &[0x88, 0xb5, 1, 2, 8, 0]].concat();
        assert_eq!(Frame::parse(Arrived { bytes: &inside, vlan }).map(|frame| frame.tag), Some(None));
    }

    #[test]
    fn what_is_no_frame_is_none() {
        let good = [&ADDRESSES[..], &[8, 0]].concat();
        assert!(parse(&good).is_some() && parse(&good[..13]).is_none());
        for source in [[3, 0, 0, 0, 0, 2], [0; 6]] {
            assert_eq!(parse(&[&ADDRESSES[..6], &source, &[8, 0]].concat()), None);
        }
        for cut in [&[0x88, 0xb5][..], &[0x88, 0xb5, 1, 2], &[0x88, 0xb5, 1, 2, 8]] {
            assert_eq!(parse(&[&ADDRESSES, cut].concat()), None, "{cut:?}");
        }
    }

    fn any_role() -> impl Strategy<Value = Role> {
        prop_oneof![
            Just(Role::Host),
            Just(Role::Trunk { floods: true }),
            Just(Role::Trunk { floods: false }),
            Just(Role::Closed)
        ]
    }

    fn outer(source: &str, destination: &str) -> Outer {
        let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
        let [source_station, station] = [3, 4].map(|n| MacAddress([2, 0, 0, 0, 0, n]));
        Outer { source, destination, source_station, station }
    }

    fn any_segments() -> impl Strategy<Value = PortSegments> {
        let outer = prop_oneof![
            Just(None),
            Just(Some(outer("192.0.2.1", "192.0.2.2"))),
            Just(Some(outer("2001:db8::1", "2001:db8::2")))
        ];
        let tagged = prop_oneof![Just(Numbers::All), Just(Numbers::Only(vec![7, 5000])), Just(Numbers::default())];
        (proptest::option::of(Just(7)), tagged, outer).prop_map(|(plain, tagged, outer)| PortSegments {
            plain,
            tagged,
            outer,
        })
    }

    /// What frames may begin with, so that parsers come to see what follows.
    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        let inside = prop_oneof![
            vec(any::<u8>(), 0..80),
            any_written().prop_map(|written| written.rest()),
            (any_written(), any::<bool>(), vec(any::<u8>(), 0..40)).prop_map(|(mut written, gtp, bytes)| {
                written.port = if gtp { GTP_PORT } else { VXLAN_PORT };
                let start = if gtp { vec![0x30, 255, 0, 4, 0, 0, 0, 9] } else { vec![8, 0, 0, 0, 0, 0, 7, 0] };
                written.payload = [start, ADDRESSES.into(), bytes].concat();
                written.rest()
            }),
        ];
        let tag = prop_oneof![Just(vec![]), Just(vec![0x88, 0xb5, 1, 5]), Just(vec![0x81, 0, 0xe0, 7])];
        (tag.clone(), tag, inside).prop_map(|(one, two, inside)| [&ADDRESSES[..], &one, &two, &inside].concat())
    }

    #[test]
    fn a_removed_tag_counts_as_those_that_are_there() {
        let tunnelled = |tags: usize| {
            let mut written = Written::new("192.0.2.1", "192.0.2.2", GTP_PORT, &[0x30, 255, 0, 0, 0, 0, 0, 9]);
            written.vlan_tags = vec![7; tags];
            [&ADDRESSES[..], &written.rest()].concat()
        };
        let to = |bytes: &[u8], vlan| {
            let arrived = Arrived { bytes, vlan };
            let frame = Frame::accept(KeyKind::Gtp, Role::Host, &PortSegments::default(), arrived).expect("a frame");
            matches!(frame.to(KeyKind::Gtp), Key::Gtp { .. })
        };
        for tags in 0..4 {
            let is_found = to(&tunnelled(tags), None);
            assert_eq!(is_found, tags <= 2, "{tags}");
            if tags > 0 {
                assert_eq!(to(&tunnelled(tags - 1), Some([0x81, 0, 0, 7])), is_found, "{tags}, one of them removed");
            }
        }
    }

    proptest! {
        /// Whatever a port accepts can leave by any port, and the next switch reads the same in it.
        #[test]
        fn what_one_switch_sends_the_next_one_reads(
            bytes in any_frame(), kind in prop::sample::select(&KeyKind::ALL[..]), role in any_role(),
            segments in any_segments(), vlan in proptest::option::of(Just([0x81, 0, 0, 7])),
        ) {
            let accepted = Frame::accept(kind, role, &segments, Arrived { bytes: &bytes, vlan });
            prop_assert!(role != Role::Closed || accepted.is_err());
            let Ok(frame) = accepted else { return Ok(()) };
            let tag = Some(Tag { epoch: 3, hop_limit: 4 });
            let outer = (kind == KeyKind::Vxlan).then(|| outer("192.0.2.1", "192.0.2.2"));
            let link = PortSegments { outer, ..PortSegments::default() };
            let sent = [&frame.header_at(kind, tag, &link).expect("short"), frame.rest].concat();
            let trunk = Role::Trunk { floods: true };
            let read = Frame::accept(kind, trunk, &link, Arrived { bytes: &sent, vlan: None });
            let read = read.expect("a switch has sent it");
            prop_assert_eq!(read.tag, tag);
            prop_assert_eq!((read.to(kind), read.from(kind)), (frame.to(kind), frame.from(kind)));
            prop_assert_eq!((read.is_for_all(), read.segment()), (frame.is_for_all(), frame.segment()));
            // A host gets the frame of the first one's host.
            for plain in [None, Some(frame.segment())] {
                let port = PortSegments { plain, ..PortSegments::default() };
                let [first, last] = [frame, read].map(|frame| {
                    [&frame.header_at(kind, None, &port).expect("short"), frame.rest].concat()
                });
                prop_assert_eq!(&first, &last);
                prop_assert_eq!(first.len(), last.len());
            }
            // It may have waited.
            let kept = [&frame.destination.0[..], &frame.source.0, frame.rest].concat();
            let again = Frame::again(kind, Arrived { bytes: &kept, vlan: frame.vlan() }, frame.segment());
            prop_assert_eq!(again.map(|again| again.to(kind)), Some(frame.to(kind)));
        }

        #[test]
        fn vxlan_packets_are_right_over_both_kinds_of_ip(
            network in 0..=0xff_ffffu32, payload in vec(any::<u8>(), 2..200), v6: bool, vlan: bool,
        ) {
            let outer = if v6 { outer("2001:db8::1", "2001:db8::2") } else { outer("192.0.2.1", "192.0.2.2") };
            let inside = [&ADDRESSES[..], &payload].concat();
            let plain = PortSegments { plain: Some(network), ..PortSegments::default() };
            let vlan = vlan.then_some([0x81, 0, 0, 9]);
            // A host of this network writes no tag of ours.
            prop_assume!(!payload.starts_with(&[0x88, 0xb5]));
            let frame = Frame::accept(KeyKind::Vxlan, Role::Host, &plain, Arrived { bytes: &inside, vlan });
            let frame = frame.expect("any frame");
            let port = PortSegments { outer: Some(outer), ..PortSegments::default() };
            let packet = [&frame.header_at(KeyKind::Vxlan, None, &port).expect("short"), frame.rest].concat();
            prop_assert_eq!(&packet[..6], &outer.station.0);
            prop_assert_eq!(&packet[6..12], &outer.source_station.0);
            let udp = Udp::of_frame(&packet[12..]).expect("well-formed").expect("UDP");
            prop_assert!(udp.is_intact());
            prop_assert_eq!((udp.source, udp.destination, udp.port), (outer.source, outer.destination, 4789));
            let datagram = udp.datagram.expect("whole");
            prop_assert_eq!(v6, datagram[6..8] != [0, 0]);
            let [_, a, b, c] = network.to_be_bytes();
            prop_assert_eq!(&datagram[8..16], &[8, 0, 0, 0, a, b, c, 0]);
            let with_vlan = [&ADDRESSES[..], vlan.as_ref().map_or(&[][..], |vlan| vlan), &payload].concat();
            prop_assert_eq!(&datagram[16..], &with_vlan);
            prop_assert!(packet.len() - inside.len() <= HEADER_BYTES_MAX);
        }

        #[test]
        fn what_fits_into_no_packet_is_told(len in 65_400usize..65_560) {
            let inside = [&ADDRESSES[..], &vec![9; len]].concat();
            let plain = PortSegments { plain: Some(7), ..PortSegments::default() };
            let arrived = Arrived { bytes: &inside, vlan: None };
            let frame = Frame::accept(KeyKind::Vxlan, Role::Host, &plain, arrived).expect("any frame");
            let port = PortSegments { outer: Some(outer("192.0.2.1", "192.0.2.2")), ..PortSegments::default() };
            let header = frame.header_at(KeyKind::Vxlan, None, &port);
            prop_assert_eq!(header.is_some(), 20 + 8 + 8 + inside.len() <= 65_535);
        }

        #[test]
        fn whatever_comes_leaves_as_it_came(bytes in vec(any::<u8>(), 0..80), tagged: bool) {
            let mut bytes = bytes;
            if tagged && bytes.len() >= FRAME_BYTES_MIN {
                bytes[12..14].copy_from_slice(&TAG_ETHER_TYPE.to_be_bytes());
            }
            if let Some(frame) = parse(&bytes) {
                prop_assert_eq!([&frame.header(frame.tag), frame.rest].concat(), bytes);
            }
        }
    }
}
