//! Answers questions for addresses on this link, of ARP [RFC 826] and IPv6 [RFC 4861], on interfaces where no kernel
//! answers. Also remembers the stations of peers, as far as they were heard.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

use super::datagram::{HOPS_OF_LINK, IPV4_ETHER_TYPE, IPV6_BYTES, IPV6_ETHER_TYPE, add, pseudo_header};
use super::frame::HEADER_BYTES;
use super::offload::sum;
use crate::mac_address::MacAddress;

const ARP_ETHER_TYPE: u16 = 0x0806;
/// Ethernet and IPv4, whose addresses have 6 and 4 bytes; the operation follows.
const ARP_HEADER: [u8; 6] = [0, 1, (IPV4_ETHER_TYPE >> 8) as u8, IPV4_ETHER_TYPE as u8, 6, 4];
const ARP_QUESTION: [u8; 2] = [0, 1];
const ARP_ANSWER: [u8; 2] = [0, 2];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Bytes of type, code, checksum, flags and the address. An answer also has an option with our address.
const SOLICITATION_BYTES: usize = 24;
const ADVERTISEMENT_BYTES: usize = SOLICITATION_BYTES + 8;
/// Flags of an answer that replaces earlier knowledge.
const SOLICITED_OVERRIDE: u8 = 0x60;
const TARGET_STATION: [u8; 2] = [2, 1];

/// Maximum number of answers in one burst.
pub(crate) const ANSWERS_MAX: usize = 16;

/// The station to which frames for a peer go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whereabouts {
    station: Option<MacAddress>,
    /// Whether frames go to the station that the latest packet came from.
    learns: bool,
}

impl Whereabouts {
    /// Uses this station always. `None`: learns the station from the peer's packets.
    pub fn new(station: Option<MacAddress>) -> Self {
        Whereabouts { station, learns: station.is_none() }
    }

    /// The station; `None` if the peer was not heard yet.
    #[inline]
    pub fn station(&self) -> Option<MacAddress> {
        self.station
    }

    /// Records the station from which a datagram or a question of the peer came.
    pub fn learn(&mut self, station: MacAddress) {
        if self.learns && !station.is_group() {
            self.station = Some(station);
        }
    }
}

/// A question for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Station that asks.
    pub station: MacAddress,
    /// Address of the asking station.
    pub asker: IpAddr,
    /// Address that it asks for.
    pub wanted: IpAddr,
}

/// A frame with an answer.
pub type Answer = SmallVec<[u8; HEADER_BYTES + IPV6_BYTES + ADVERTISEMENT_BYTES]>;

impl Question {
    /// Parses a frame. Returns `None` if it is not a question of a single station that tells its address.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, packet) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let station = MacAddress(header[6..12].try_into().ok()?);
        let (asker, wanted) = match u16::from_be_bytes([header[12], header[13]]) {
            ARP_ETHER_TYPE => arp(packet)?,
            IPV6_ETHER_TYPE => solicitation(packet)?,
            _ => return None,
        };
        let is_usable = !station.is_group() && !station.is_zero() && !asker.is_unspecified() && !asker.is_multicast();
        is_usable.then_some(Question { station, asker, wanted })
    }

    /// The frame that answers that the address is at `here`.
    pub fn answer(&self, here: MacAddress) -> Answer {
        let mut frame = Answer::new();
        frame.extend_from_slice(&self.station.0);
        frame.extend_from_slice(&here.0);
        match (self.wanted, self.asker) {
            (IpAddr::V4(wanted), IpAddr::V4(asker)) => {
                frame.extend_from_slice(&ARP_ETHER_TYPE.to_be_bytes());
                frame.extend_from_slice(&ARP_HEADER);
                frame.extend_from_slice(&ARP_ANSWER);
                for (station, address) in [(here, wanted), (self.station, asker)] {
                    frame.extend_from_slice(&station.0);
                    frame.extend_from_slice(&address.octets());
                }
            }
            (wanted, asker) => {
                let (IpAddr::V6(from), IpAddr::V6(to)) = (wanted, asker) else { unreachable!("of one family") };
                frame.extend_from_slice(&IPV6_ETHER_TYPE.to_be_bytes());
                frame.extend_from_slice(&[0x60, 0, 0, 0, 0, ADVERTISEMENT_BYTES as u8, ICMPV6, HOPS_OF_LINK]);
                frame.extend_from_slice(&from.octets());
                frame.extend_from_slice(&to.octets());
                let start = frame.len();
                frame.extend_from_slice(&[ADVERTISEMENT, 0, 0, 0, SOLICITED_OVERRIDE, 0, 0, 0]);
                frame.extend_from_slice(&from.octets());
                frame.extend_from_slice(&TARGET_STATION);
                frame.extend_from_slice(&here.0);
                let pseudo = pseudo_header(wanted, asker, ADVERTISEMENT_BYTES as u16, ICMPV6);
                let checksum = !add(pseudo, sum(&frame[start..]));
                frame[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        frame
    }
}

/// The asking and the wanted address of an ARP question.
fn arp(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (packet, _) = packet.split_first_chunk::<28>()?;
    let address = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]).into();
    let is_question = packet[..6] == ARP_HEADER && packet[6..8] == ARP_QUESTION;
    is_question.then(|| (address(14), address(24)))
}

/// The asking and the wanted address of an IPv6 question.
fn solicitation(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (header, rest) = packet.split_first_chunk::<IPV6_BYTES>()?;
    let len = u16::from_be_bytes([header[4], header[5]]);
    let message = rest.get(..usize::from(len)).filter(|message| message.len() >= SOLICITATION_BYTES)?;
    let address = |bytes: &[u8]| -> Option<IpAddr> { Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()) };
    let (source, destination) = (address(&header[8..24])?, address(&header[24..40])?);
    // The hop limit shows that it comes from this link, because every router decreases it.
    let is_question = header[0] >> 4 == 6
        && (header[6], header[7]) == (ICMPV6, HOPS_OF_LINK)
        && message[..2] == [SOLICITATION, 0]
        && add(pseudo_header(source, destination, len, ICMPV6), sum(message)) == 0xffff;
    Some((source, address(&message[8..24])?)).filter(|_| is_question)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    /// From 192.0.2.2, for 192.0.2.1, broadcast.
    const ARP: [u8; 42] = [
        255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 192, 0, 2, 2,
        0, 0, 0, 0, 0, 0, 192, 0, 2, 1,
    ];

    /// From 2001:db8::2, for 2001:db8::1, to its group, with a checksum that was computed independently.
    fn solicited() -> Vec<u8> {
        let mut frame = vec![0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
        frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
        frame.extend([135, 0, 0x1c, 0x27, 0, 0, 0, 0]);
        frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([1, 1, 2, 0, 0, 0, 0, 2]);
        frame
    }

    fn question(asker: &str, wanted: &str) -> Question {
        let address = |text: &str| text.parse().expect("an address");
        Question { station: THERE, asker: address(asker), wanted: address(wanted) }
    }

    #[test]
    fn questions_are_read() {
        assert_eq!(Question::parse(&ARP), Some(question("192.0.2.2", "192.0.2.1")));
        assert_eq!(Question::parse(&solicited()), Some(question("2001:db8::2", "2001:db8::1")));
        let padded = [&ARP[..], &[0; 18]].concat();
        assert_eq!(Question::parse(&padded), Question::parse(&ARP));
    }

    #[test]
    fn answers_are_what_rfcs_say() {
        let answer = question("192.0.2.2", "192.0.2.1").answer(HERE);
        let expected = [&THERE.0[..], &HERE.0, &[8, 6], &ARP_HEADER, &[0, 2], &HERE.0, &[192, 0, 2, 1], &THERE.0];
        assert_eq!(answer[..], [&expected.concat()[..], &[192, 0, 2, 2]].concat());
        let answer = question("2001:db8::2", "2001:db8::1").answer(HERE);
        assert_eq!((answer.len(), answer[54], answer[58]), (86, 136, 0x60));
        let covered = [&answer[22..54], &[0, 0, 0, 32, 0, 0, 0, 58], &answer[54..]].concat();
        assert_eq!(sum(&covered), 0xffff, "what receivers check");
        assert_eq!(Question::parse(&answer), None);
    }

    #[test]
    fn what_is_no_question_is_none() {
        // Answers, other protocols, a group that asks, and an asker without address.
        for (at, byte) in [(13, 0), (15, 6), (19, 16), (21, 2), (6, 3)] {
            let mut bad = ARP;
            bad[at] = byte;
            assert_eq!(Question::parse(&bad), None, "{at}");
        }
        let mut probe = ARP;
        probe[28..32].fill(0);
        assert_eq!(Question::parse(&probe), None);
        // From behind a router, with a wrong checksum, and with false lengths.
        for (at, byte) in [(21, 64), (60, 1), (19, 23), (19, 100), (54, 136)] {
            let mut bad = solicited();
            bad[at] = byte;
            assert_eq!(Question::parse(&bad), None, "{at}");
        }
        assert_eq!(Question::parse(&ARP[..41]), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_panic(bytes in vec(any::<u8>(), 0..120), v6: bool) {
            let mut bytes = bytes;
            if bytes.len() > 21 {
                let start: &[u8] = if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 6, 0] };
                bytes[12..15].copy_from_slice(start);
                (bytes[20], bytes[21]) = if v6 { (ICMPV6, 255) } else { (0, 1) };
            }
            if let Some(question) = Question::parse(&bytes) {
                prop_assert!(Question::parse(&question.answer(HERE)).is_none());
            }
        }
    }
}
