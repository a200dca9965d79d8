//! Handles frames that arrive. They become packets of an existing or new face, are answered, or are handed over to
//! another port of the interface.

use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_wire::tlv::element_len;

use super::sharing::{Claim, Part};
use super::transport::Peer;
use super::{EthernetPort, link};
use crate::frames::datagram::{Datagram, Path};
use crate::frames::frame::{self, EthernetFrame};
use crate::frames::neighbor::{ANSWERS_MAX, Question};
use crate::frames::socket::FrameSocket;
use crate::mac_address::MacAddress;
use crate::port::PortContext;

/// Way on which a frame came to this port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the port's socket.
    Socket,
    /// From another port, which must not get it back.
    HandedOver,
}

impl<S: FrameSocket> EthernetPort<S> {
    /// Handles one frame, which came by `way`.
    pub(super) fn take(&mut self, cx: &mut PortContext<'_>, bytes: &[u8], last: &mut Option<(Peer, FaceId)>, way: Way) {
        let Some(frame) = EthernetFrame::parse(bytes) else {
            match Datagram::parse(bytes) {
                Some(datagram) if bytes.starts_with(&self.address.0) => {
                    self.take_datagram(cx, datagram, last, (bytes, way))
                }
                None if frame::is_ndn(bytes) || !S::HEARS_ALL => self.drops.malformed += 1,
                _ => self.take_question(bytes, way),
            }
            return;
        };
        let to_group = self.config.group == Some(frame.destination);
        // The kernel's filter passes no other destination. A switch may send our own frames back.
        if !(to_group || frame.destination == self.address) || frame.source == self.address {
            self.drops.not_ours += 1;
            return;
        }
        let peer = Peer::Station(if to_group { frame.destination } else { frame.source });
        let known = match *last {
            Some((last, id)) if last == peer => Some(id),
            _ if to_group => self.group,
            _ => self.peers.find(&peer),
        };
        if !link::is_plausible(frame.payload) {
            self.drops.not_ndn += 1;
            return;
        }
        let Some(id) = known.or_else(|| self.admit(cx, frame.source, to_group, (bytes, way))) else { return };
        if last.is_none_or(|(_, row)| row != id) {
            self.begin_row(cx, last, (peer, id));
        }
        let Some(face) = self.peers.get_mut(id) else { return };
        let [a, b, c, d, e, f] = frame.source.0;
        let endpoint = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        face.link.receive_from(cx.now(), id, endpoint, frame.payload, cx.received());
        if face.has_earlier_deadline() {
            self.peers.schedule(id);
        }
    }

    /// Handles frames that other ports have handed over, and ends the burst of frames for other ports.
    pub(super) fn take_handed_over(
        &mut self,
        cx: &mut PortContext<'_>,
        frames_max: usize,
        last: &mut Option<(Peer, FaceId)>,
    ) {
        for _ in 0..frames_max {
            let Some(frame) = self.part.as_ref().and_then(Part::take) else { break };
            self.take(cx, &frame, last, Way::HandedOver);
        }
        if let Some(part) = &mut self.part {
            part.end_burst();
        }
    }

    /// Handles one datagram. Only configured peers have a face for it.
    fn take_datagram(
        &mut self,
        cx: &mut PortContext<'_>,
        datagram: Datagram<'_>,
        last: &mut Option<(Peer, FaceId)>,
        (bytes, way): (&[u8], Way),
    ) {
        let path = Path { here: datagram.destination, there: datagram.source };
        let peer = Peer::Datagrams(path);
        let known = match *last {
            Some((last, id)) if last == peer => Some(id),
            _ => self.peers.find(&peer),
        };
        let Some(id) = known else {
            match self.part.as_mut().and_then(|part| Some((part.other_of_path(&path)?, part))) {
                Some((owner, part)) if way == Way::Socket => part.hand_over(owner, bytes),
                _ => self.drops.not_ours += 1,
            }
            return;
        };
        if last.is_none_or(|(_, row)| row != id) {
            self.begin_row(cx, last, (peer, id));
        }
        let Some(face) = self.peers.get_mut(id) else { return };
        face.transport.learn(datagram.station);
        // A sender on this host leaves the cutting of a run of datagrams to its network card. Each datagram of the run
        // holds a packet.
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

    /// Handles a possible question for one of our addresses, on interfaces where no kernel answers. The port that hears
    /// it answers, for peers of all ports. Each port learns where its own peers are.
    fn take_question(&mut self, bytes: &[u8], way: Way) {
        let is_ours = |question: &Question| {
            let own = self.config.datagrams.iter().any(|peer| peer.path.here.ip() == question.wanted);
            own || self.part.as_ref().is_some_and(|part| part.has_address(question.wanted))
        };
        let question = Question::parse(bytes).filter(|q| q.station != self.address && is_ours(q));
        let Some(question) = question else {
            self.drops.not_ours += 1;
            return;
        };
        if way == Way::Socket {
            if self.answers.len() < ANSWERS_MAX {
                self.answers.push(question.answer(self.address));
            }
            if let Some(part) = &mut self.part {
                part.hand_over_to_peers_of(question.asker, bytes);
            }
        }
        for (_, face) in self.peers.iter_mut() {
            face.transport.learn_neighbor(question.asker, question.station);
        }
    }

    /// Begins a run of frames for this face.
    fn begin_row(&mut self, cx: &mut PortContext<'_>, last: &mut Option<(Peer, FaceId)>, row: (Peer, FaceId)) {
        self.end_row(cx, last.replace(row));
        if let Some(face) = self.peers.get_mut(row.1) {
            face.begin_row(cx.now());
        }
    }

    /// Ends the run of frames for a face.
    pub(super) fn end_row(&mut self, cx: &mut PortContext<'_>, last: Option<(Peer, FaceId)>) {
        if let Some((_, id)) = last
            && let Some(face) = self.peers.get_mut(id)
        {
            face.end_row(id, cx.now(), cx.received());
        }
    }

    /// Creates a face for a station that has none here. Hands the frame over if it belongs to another port.
    fn admit(
        &mut self,
        cx: &mut PortContext<'_>,
        source: MacAddress,
        to_group: bool,
        (bytes, way): (&[u8], Way),
    ) -> Option<FaceId> {
        let claim = match &self.part {
            Some(part) if to_group && !part.has_group() => Err(0),
            Some(part) if !to_group => part.claim(source),
            _ => Ok(None),
        };
        match (claim, &mut self.part) {
            (Ok(claim), _) => self.create_on_demand(cx, source, to_group, claim),
            (Err(owner), Some(part)) if way == Way::Socket => {
                part.hand_over(owner, bytes);
                None
            }
            // It has been handed over already; its peer has just got a face elsewhere.
            _ => {
                self.peers.refused += 1;
                None
            }
        }
    }

    fn create_on_demand(
        &mut self,
        cx: &mut PortContext<'_>,
        source: MacAddress,
        to_group: bool,
        claim: Option<Claim>,
    ) -> Option<FaceId> {
        // Management has destroyed the group's face.
        if !self.config.on_demand || to_group {
            self.peers.refused += 1;
            return None;
        }
        if !self.peers.make_room(cx, &Peer::Station(source)) {
            return None;
        }
        let transport = self.transport(source, claim);
        let link = self.link_config(transport.peer);
        Some(self.peers.insert(cx, transport, Persistency::OnDemand, link, |_| {}))
    }
}
