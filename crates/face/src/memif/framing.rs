//! Headers around link packets in buffers: none, an Ethernet header, or headers of Ethernet, IP and UDP.

use std::net::IpAddr;

use byname_forward::Packet;
use smallvec::SmallVec;

use super::MemifConfig;
use super::breach::Breach;
use super::config::Framing;
use super::rings::{Pushed, Rings};
use crate::frames::datagram::DatagramPeer;
use crate::frames::datagram::{Datagram, Path};
use crate::frames::frame::GROUP;
use crate::frames::frame::{EthernetFrame, HEADER_BYTES, header};
use crate::frames::neighbor::{ANSWERS_MAX, Answer, Question, Whereabouts};
use crate::link;
use crate::mac_address::MacAddress;

/// Source address of our Ethernet frames: the one that NDN-DPDK gives its interfaces.
pub(super) const STATION: MacAddress = MacAddress([0xf2, b'm', b'e', b'm', b'i', b'f']);

/// Content of a received buffer.
pub(super) enum Arrived {
    /// A link packet.
    Packet(Packet),
    /// A question for our address, which will be answered.
    Question,
    /// Something else.
    Other,
}

/// Wraps and unwraps the packets of an interface.
pub(super) struct Wrapping {
    framing: Framing,
    /// If present, packets are in datagrams to and from this peer, in Ethernet frames.
    datagrams: Option<Datagrams>,
}

struct Datagrams {
    path: Path,
    whereabouts: Whereabouts,
    answers: SmallVec<[Answer; 1]>,
}

impl Wrapping {
    pub fn new(config: &MemifConfig) -> Self {
        let datagrams = config.datagrams.map(|DatagramPeer { path, station }| Datagrams {
            path,
            whereabouts: Whereabouts::new(station),
            answers: SmallVec::new(),
        });
        Wrapping { framing: config.framing, datagrams }
    }

    /// Takes the link packet out of a buffer's bytes.
    #[inline]
    pub fn unwrap(&mut self, frame: Packet) -> Arrived {
        let packet = match (&mut self.datagrams, self.framing) {
            (Some(datagrams), _) => return datagrams.unwrap(frame),
            (None, Framing::Packets) => frame,
            (None, Framing::Ethernet) => {
                let Some(parsed) = EthernetFrame::parse(&frame) else { return Arrived::Other };
                let len = parsed.payload.len();
                frame.slice(HEADER_BYTES..HEADER_BYTES + len)
            }
        };
        plausible(packet)
    }

    /// Puts a link packet, in two parts, into the transmit ring. Returns `None` if the peer's station is not known yet.
    #[inline]
    pub fn push(&self, rings: &mut Rings, packet: (&[u8], &[u8])) -> Result<Option<Pushed>, Breach> {
        let (link_header, payload) = packet;
        let pushed = match (&self.datagrams, self.framing) {
            (Some(Datagrams { path, whereabouts, .. }), _) => {
                let Some(station) = whereabouts.station() else { return Ok(None) };
                rings.push([&path.header(station, STATION, packet), link_header, payload])
            }
            (None, Framing::Packets) => rings.push([&[], link_header, payload]),
            (None, Framing::Ethernet) => rings.push([&header(GROUP, STATION), link_header, payload]),
        };
        pushed.map(Some)
    }

    /// Answers the questions, as far as the ring has room.
    pub fn answer(&mut self, rings: &mut Rings) -> Result<(), Breach> {
        let Some(datagrams) = self.datagrams.as_mut().filter(|datagrams| !datagrams.answers.is_empty()) else {
            return Ok(());
        };
        for answer in datagrams.answers.drain(..) {
            rings.push([&answer, &[], &[]])?;
        }
        rings.send();
        Ok(())
    }
}

impl Datagrams {
    fn unwrap(&mut self, frame: Packet) -> Arrived {
        let Path { here, there } = self.path;
        match Datagram::parse(&frame) {
            Some(datagram) if frame.starts_with(&STATION.0) => {
                if (datagram.source, datagram.destination) != (there, here) {
                    return Arrived::Other;
                }
                let (len, station) = (datagram.payload.len(), datagram.station);
                self.whereabouts.learn(station);
                let start = HEADER_BYTES + self.path.overhead();
                plausible(frame.slice(start..start + len))
            }
            _ => self.ask(&frame),
        }
    }

    /// Handles a possible question for our address, because no kernel answers here.
    fn ask(&mut self, frame: &[u8]) -> Arrived {
        let ours = |address: IpAddr| address == self.path.here.ip();
        let Some(question) = Question::parse(frame).filter(|question| ours(question.wanted)) else {
            return Arrived::Other;
        };
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push(question.answer(STATION));
        }
        if question.asker == self.path.there.ip() {
            self.whereabouts.learn(question.station);
        }
        Arrived::Question
    }
}

fn plausible(packet: Packet) -> Arrived {
    if link::is_plausible(&packet) { Arrived::Packet(packet) } else { Arrived::Other }
}
