//! What becomes of frames that arrive: packets of the face that they are for, which may be made for them; or answers.

use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_wire::tlv::element_len;

use super::datagram::{Datagram, Path};
use super::frame::{self, EthernetFrame};
use super::neighbor::{ANSWERS_MAX, Question};
use super::socket::FrameSocket;
use super::transport::Peer;
use super::{EthernetPort, link};
use crate::mac_address::MacAddress;
use crate::port::PortContext;

impl<S: FrameSocket> EthernetPort<S> {
    /// Takes one frame.
    pub(super) fn take(&mut self, cx: &mut PortContext<'_>, octets: &[u8], last: &mut Option<(Peer, FaceId)>) {
        let Some(frame) = EthernetFrame::parse(octets) else {
            match Datagram::parse(octets) {
                Some(datagram) if octets.starts_with(&self.address.0) => self.take_datagram(cx, datagram, last),
                None if frame::is_ndn(octets) || !S::HEARS_ALL => self.drops.malformed += 1,
                _ => self.take_question(octets),
            }
            return;
        };
        let to_group = self.config.group == Some(frame.destination);
        // The kernel's filter lets no other destination pass; a switch may send back our own.
        if !(to_group || frame.destination == self.address) || frame.source == self.address {
            self.drops.not_ours += 1;
            return;
        }
        let known = match *last {
            _ if to_group => self.group,
            Some((peer, id)) if peer == Peer::Station(frame.source) => Some(id),
            _ => self.peers.find(&Peer::Station(frame.source)),
        };
        if !link::is_plausible(frame.payload) {
            self.drops.not_ndn += 1;
            return;
        }
        let Some(id) = known.or_else(|| self.create_on_demand(cx, frame.source, to_group)) else { return };
        let Some(face) = self.peers.get_mut(id) else { return };
        if !to_group {
            *last = Some((Peer::Station(frame.source), id));
        }
        let [a, b, c, d, e, f] = frame.source.0;
        let endpoint = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        face.heard = cx.now();
        face.link.receive_from(cx.now(), id, endpoint, frame.payload, cx.received());
        if face.has_earlier_deadline() {
            self.peers.schedule(id);
        }
    }

    /// Takes one datagram, which only configured peers send.
    fn take_datagram(&mut self, cx: &mut PortContext<'_>, datagram: Datagram<'_>, last: &mut Option<(Peer, FaceId)>) {
        let peer = Peer::Datagrams(Path { here: datagram.destination, there: datagram.source });
        let known = match *last {
            Some((last, id)) if last == peer => Some(id),
            _ => self.peers.find(&peer),
        };
        let Some((id, face)) = known.and_then(|id| Some((id, self.peers.get_mut(id)?))) else {
            self.drops.not_ours += 1;
            return;
        };
        *last = Some((peer, id));
        face.transport.learn(datagram.station);
        face.heard = cx.now();
        // A sender on this host leaves it to its network card to cut a run of datagrams, of which each has a packet.
        let mut rest = datagram.payload;
        loop {
            let len = match element_len(rest, rest.len()) {
                Ok(Some(len)) => len,
                _ => rest.len(),
            };
            let (packet, behind) = rest.split_at(len);
            if link::is_plausible(packet) {
                face.link.receive(cx.now(), id, packet, cx.received());
            } else {
                self.drops.not_ndn += 1;
            }
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        if face.has_earlier_deadline() {
            self.peers.schedule(id);
        }
    }

    /// Takes what may be a question for an address of ours, where no kernel answers.
    fn take_question(&mut self, octets: &[u8]) {
        let question = Question::parse(octets).filter(|question| {
            let mut peers = self.config.datagrams.iter();
            question.station != self.address && peers.any(|peer| peer.path.here.ip() == question.wanted)
        });
        let Some(question) = question else {
            self.drops.not_ours += 1;
            return;
        };
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push(question.answer(self.address));
        }
        for (_, face) in self.peers.iter_mut() {
            face.transport.learn_neighbor(question.asker, question.station);
        }
    }

    fn create_on_demand(&mut self, cx: &mut PortContext<'_>, source: MacAddress, to_group: bool) -> Option<FaceId> {
        // Management took the group's face away.
        if !self.config.on_demand || to_group {
            self.peers.refused += 1;
            return None;
        }
        if !self.peers.make_room(cx) {
            return None;
        }
        let transport = self.transport(source);
        let link = self.link_config(transport.peer);
        Some(self.peers.insert(cx, transport, Persistency::OnDemand, link, |_| {}))
    }
}
