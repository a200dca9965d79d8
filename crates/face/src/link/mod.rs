//! The link service of a face: NDNLPv2 between network packets and frames.
//!
//! Each face has one [`LinkService`], which does no I/O and has no clock of its own. Bare packets and unfragmented
//! LpPackets take a short path. Reassembly and reliability keep their state in boxes that a face gets when it first
//! needs them, so that thousands of plain faces stay small.
//!
//! Implements NDNLPv2 as NFD's GenericLinkService does. Fragments have consecutive Sequences, and only the first
//! carries link fields. TxSequence and Ack give reliability. Congestion marks follow CoDel. Differs: all state is
//! bounded, also across the faces of a port ([`ReassemblyBudget`]).

mod congestion;
mod conversation;
mod frame;
mod handover;
mod reassembly;
mod reliability;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use byname_wire::lp::is_bare;
use byname_wire::tlv::types;
use byname_wire::{LpPacket, NackReason, PACKET_BYTES_MAX, PitToken, tlv};

use crate::face::{LinkCounters, LinkFlags};
pub use congestion::CongestionMarker;
pub(crate) use conversation::Conversation;
pub use frame::Frame;
use frame::FrameSpec;
pub use reassembly::ReassemblyBudget;
use reassembly::{Outcome, Reassembler};
use reliability::Reliability;

/// Maximum number of fragments of a packet, sent or received, as in NFD.
pub const FRAGMENTS_MAX: u64 = 400;
/// Smallest MTU that a face may have, in bytes, as in NFD.
pub const MTU_MIN: u64 = 64;
/// Bytes around a packet that has no prefix announcement, at most.
const SHORT_HEADER_MAX: usize = 128;
/// NoCache, the only CachePolicyType.
const CACHE_POLICY_NO_CACHE: u64 = 1;

/// Settings of a link service.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Longest frame, in bytes, at least [`MTU_MIN`]. `None`: frames are never fragmented.
    pub mtu: Option<usize>,
    /// Features that are on.
    pub flags: LinkFlags,
    /// Shortest time between congestion marks under persistent congestion.
    pub base_congestion_marking_interval: Duration,
    /// Queue length, in bytes, from which packets get congestion marks.
    pub congestion_threshold_bytes: u64,
}

impl Default for LinkConfig {
    /// No MTU, and NFD's defaults for marking: on, 100 ms and 65,536 bytes.
    fn default() -> Self {
        LinkConfig {
            mtu: None,
            flags: LinkFlags { congestion_marking: true, ..LinkFlags::default() },
            base_congestion_marking_interval: Duration::from_millis(100),
            congestion_threshold_bytes: 65_536,
        }
    }
}

/// NDNLPv2 for one face.
pub struct LinkService {
    config: LinkConfig,
    /// Link-layer counters. The port adds what it drops itself.
    pub counters: LinkCounters,
    /// Tells whether the peer waits for answers.
    pub(crate) conversation: Conversation,
    next_sequence: u64,
    marker: CongestionMarker,
    budget: ReassemblyBudget,
    reassembler: Option<Box<Reassembler>>,
    reliability: Option<Box<Reliability>>,
    /// Buffer in which headers are written before they move into a frame.
    scratch: Vec<u8>,
}

impl LinkService {
    /// Creates a link service. Faces of one port share `budget`.
    pub fn new(config: LinkConfig, budget: ReassemblyBudget) -> Self {
        let reliability = config.flags.reliability.then(Box::default);
        LinkService {
            config,
            counters: LinkCounters::default(),
            conversation: Conversation::default(),
            next_sequence: 0,
            marker: CongestionMarker::default(),
            budget,
            reassembler: None,
            reliability,
            scratch: Vec::new(),
        }
    }

    /// Marks congestion from the first packet that meets a long queue; for a link with almost no delay.
    pub fn mark_early(&mut self) {
        self.marker.early = true;
    }

    /// Settings of the link service.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes the settings. Turning reliability off forgets the frames that wait for an Ack.
    pub fn set_config(&mut self, config: LinkConfig) {
        match (config.flags.reliability, self.reliability.is_some()) {
            (true, false) => self.reliability = Some(Box::default()),
            (false, true) => self.reliability = None,
            _ => {}
        }
        self.config = config;
    }

    /// Takes one frame from the peer, and appends the network packet that it holds or completes. Copies the payload
    /// once.
    pub fn receive(&mut self, now: Ticks, face: FaceId, frame: &[u8], out: &mut Vec<Received>) {
        self.receive_from(now, face, 0, frame, out);
    }

    /// Like [`LinkService::receive`], on a face that hears several peers. Each peer numbers its fragments
    /// independently, and `endpoint` distinguishes the peers.
    pub fn receive_from(&mut self, now: Ticks, face: FaceId, endpoint: u64, frame: &[u8], out: &mut Vec<Received>) {
        if let Some(place) = self.open(now, (face, endpoint), frame, out)
            && let Some(received) = out.last_mut()
        {
            received.packet.fill(Packet::copy_from(&frame[place]));
        }
    }

    /// Like [`LinkService::receive`], for a frame in a buffer of its own. The network packet takes over the buffer, and
    /// nothing is copied.
    pub fn receive_owned(&mut self, now: Ticks, face: FaceId, frame: Packet, out: &mut Vec<Received>) {
        if let Some(place) = self.open(now, (face, 0), &frame, out)
            && let Some(received) = out.last_mut()
        {
            received.packet.fill(frame.slice(place));
        }
    }

    /// Takes a frame with whole Data or a Nack, as [`LinkService::receive`] does. Returns false, and does nothing, if it is
    /// another frame, or needs more of this link service than counters.
    pub(crate) fn receive_answer(&mut self, face: FaceId, frame: &[u8], out: &mut Vec<Received>) -> bool {
        let is_data = |packet: &[u8]| packet.first() == Some(&(types::DATA as u8)) && is_network_packet(packet);
        let plain = match is_data(frame) {
            true => Some((PitToken::NONE, frame)),
            false => LpPacket::decode_token(frame).filter(|(_, packet)| is_data(packet)),
        };
        if let Some((token, packet)) = plain {
            let received = Received::append(out);
            received.face = face;
            received.fields.pit_token = token;
            received.packet.fill(Packet::copy_from(packet));
        } else {
            let Ok(lp) = LpPacket::decode(frame) else { return false };
            let is_whole = lp.frag_count == 1 && lp.frag_index == 0 && lp.sequence.is_none();
            let is_plain = is_whole && lp.tx_sequence.is_none() && lp.acks.is_empty();
            let Some(packet) = lp.fragment.filter(|_| is_plain) else { return false };
            let is_nack = lp.nack.is_some() && is_network_packet(packet) && may_have(packet, lp.nack);
            if !is_nack && (lp.nack.is_some() || !is_data(packet)) {
                return false;
            }
            let received = Received::append(out);
            received.face = face;
            self.read_fields(&lp, &mut received.fields);
            received.packet.fill(Packet::copy_from(packet));
        }
        self.counters.in_bytes += frame.len() as u64;
        true
    }

    /// Takes a frame from a peer. If the frame holds a whole network packet, appends the packet without its bytes, and
    /// returns their range in the frame. A packet that a fragment completes is appended with its bytes.
    fn open(
        &mut self,
        now: Ticks,
        (face, endpoint): (FaceId, u64),
        frame: &[u8],
        out: &mut Vec<Received>,
    ) -> Option<Range<usize>> {
        self.counters.in_bytes += frame.len() as u64;
        if is_bare(frame) {
            if !is_network_packet(frame) {
                self.counters.in_malformed += 1;
                return None;
            }
            self.conversation.count_received(frame, false);
            Received::append(out).face = face;
            return Some(0..frame.len());
        }
        if self.reliability.is_none()
            && let Some((token, packet)) = LpPacket::decode_token(frame)
            && is_network_packet(packet)
        {
            self.conversation.count_received(packet, false);
            let received = Received::append(out);
            received.face = face;
            received.fields.pit_token = token;
            return Some(frame.len() - packet.len()..frame.len());
        }
        let Ok(lp) = LpPacket::decode(frame) else {
            self.counters.in_malformed += 1;
            return None;
        };
        if let Some(reliability) = &mut self.reliability {
            reliability.on_acks(now, &lp.acks);
            if lp.fragment.is_some()
                && let Some(tx_sequence) = lp.tx_sequence
                && !reliability.accept(now, tx_sequence, lp.sequence)
            {
                return None;
            }
        }
        let fragment = lp.fragment?;
        if lp.frag_count > 1 || lp.frag_index > 0 {
            self.receive_fragment(now, (face, endpoint), &lp, fragment, out);
            return None;
        }
        if !is_network_packet(fragment) || !may_have(fragment, lp.nack) {
            self.counters.in_malformed += 1;
            return None;
        }
        self.conversation.count_received(fragment, lp.nack.is_some());
        // The fragment is the end of the frame.
        let start = frame.len() - fragment.len();
        debug_assert!(std::ptr::eq(fragment, &frame[start..]));
        let received = Received::append(out);
        received.face = face;
        self.read_fields(&lp, &mut received.fields);
        Some(start..frame.len())
    }

    /// Turns a network packet into frames, and appends them to `frames`. `queue_bytes` is what the port has queued for
    /// this face already, by which congestion is judged.
    pub fn send(&mut self, now: Ticks, outgoing: &mut Outgoing, queue_bytes: u64, frames: &mut Vec<Frame>) {
        if self.send_bare(now, outgoing, queue_bytes) {
            frames.push(Frame::bare(std::mem::take(&mut outgoing.packet)));
        } else {
            self.send_lp(now, outgoing, frames);
        }
    }

    /// The first half of [`LinkService::send`]. Returns whether the packet is a frame as it is; it then counts as sent.
    /// If not, its fields are ready to be sent, and [`LinkService::send_lp`] must follow.
    #[inline]
    pub(crate) fn send_bare(&mut self, now: Ticks, outgoing: &mut Outgoing, queue_bytes: u64) -> bool {
        let Outgoing { fields, packet, .. } = outgoing;
        self.conversation.count_sent(packet, fields.nack.is_some());
        if !self.config.flags.local_fields {
            fields.incoming_face_id = None;
        }
        // These fields are only received. Sending one would give the peer orders.
        fields.next_hop_face_id = None;
        fields.no_cache = false;
        if self.config.flags.congestion_marking
            && self.marker.mark(
                now,
                queue_bytes,
                self.config.congestion_threshold_bytes,
                self.config.base_congestion_marking_interval,
            )
        {
            fields.congestion_mark = fields.congestion_mark.max(1);
            self.counters.congestion_marks += 1;
        }
        let bare = self.reliability.is_none()
            && has_no_fields(fields)
            && self.config.mtu.is_none_or(|mtu| packet.len() <= mtu);
        if bare {
            self.counters.out_bytes += packet.len() as u64;
        }
        bare
    }

    /// Whether a packet leaves as one frame, in a link service without reliability.
    #[inline]
    pub(crate) fn sends_whole(&self, outgoing: &Outgoing) -> bool {
        let (fields, len) = (&outgoing.fields, outgoing.packet.len());
        self.config.mtu.is_none_or(|mtu| {
            let fits = fields.prefix_announcement.is_none() && len + SHORT_HEADER_MAX <= mtu;
            fits || whole_len(fields, false, len) <= mtu
        })
    }

    /// Time at which [`LinkService::on_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Ticks> {
        let reassembly = self.reassembler.as_ref().and_then(|r| r.next_deadline());
        let reliability = self.reliability.as_ref().and_then(|r| r.next_deadline());
        match (reassembly, reliability) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Gives up old reassemblies, and sends lost frames and Acks that no frame has carried.
    pub fn on_deadline(&mut self, now: Ticks, frames: &mut Vec<Frame>) {
        if let Some(reassembler) = &mut self.reassembler {
            self.counters.in_reassembly_timeouts += reassembler.expire(now);
        }
        self.flush_reliability(now, frames);
    }

    /// Sends frames again that Acks showed to be lost, and Acks that are due. Called before a flush; cheap if
    /// reliability is off.
    pub fn flush_reliability(&mut self, now: Ticks, frames: &mut Vec<Frame>) {
        let Some(reliability) = &mut self.reliability else { return };
        let before = frames.len();
        self.counters.retransmissions += reliability.retransmit(now, self.config.mtu, &mut self.scratch, frames);
        reliability.send_idle_acks(now, self.config.mtu, &mut self.scratch, frames);
        self.counters.out_bytes += frames[before..].iter().map(|f| f.len() as u64).sum::<u64>();
    }

    fn receive_fragment(
        &mut self,
        now: Ticks,
        (face, endpoint): (FaceId, u64),
        lp: &LpPacket<'_>,
        fragment: &[u8],
        out: &mut Vec<Received>,
    ) {
        let fields = (lp.frag_index == 0).then(|| {
            let mut fields = LinkFields::default();
            self.read_fields(lp, &mut fields);
            fields
        });
        let budget = &self.budget;
        let reassembler = self.reassembler.get_or_insert_with(|| Box::new(Reassembler::new(budget.clone())));
        match reassembler.add(now, endpoint, lp, fields, fragment) {
            Outcome::Incomplete => {}
            Outcome::Refused => self.counters.in_malformed += 1,
            Outcome::Evicted => self.counters.in_reassembly_timeouts += 1,
            Outcome::Complete(fields, packet) if is_network_packet(&packet) && may_have(&packet, fields.nack) => {
                self.conversation.count_received(&packet, fields.nack.is_some());
                out.push(Received { face, fields, packet });
            }
            Outcome::Complete(..) => self.counters.in_malformed += 1,
        }
    }

    /// Reads the link header's fields for forwarding, as far as this face's peer may set them.
    fn read_fields(&self, lp: &LpPacket<'_>, fields: &mut LinkFields) {
        let local = self.config.flags.local_fields;
        fields.pit_token = lp.pit_token;
        fields.nack = lp.nack;
        fields.next_hop_face_id = lp.next_hop_face_id.filter(|_| local);
        fields.no_cache = local && lp.cache_policy == Some(CACHE_POLICY_NO_CACHE);
        fields.congestion_mark = lp.congestion_mark;
        fields.non_discovery = lp.non_discovery;
        fields.prefix_announcement = lp.prefix_announcement.filter(|a| is_network_packet(a)).map(Packet::copy_from);
    }

    /// Sends a packet with a link header, in fragments if it is too long. Its fields must be ready to be sent.
    pub(crate) fn send_lp(&mut self, now: Ticks, outgoing: &mut Outgoing, frames: &mut Vec<Frame>) {
        if self.reliability.is_none()
            && let Some(token) = only_token(&outgoing.fields)
            && self.sends_whole(outgoing)
        {
            let frame = Frame::with_token(token, std::mem::take(&mut outgoing.packet));
            self.counters.out_bytes += frame.len() as u64;
            frames.push(frame);
        } else {
            let Outgoing { fields, packet, .. } = outgoing.take();
            self.send_fields(now, fields, packet, frames);
        }
    }

    /// As [`LinkService::send_lp`], for any fields.
    fn send_fields(&mut self, now: Ticks, mut fields: LinkFields, packet: Packet, frames: &mut Vec<Frame>) {
        let reliable = self.reliability.is_some();
        let mut specs = [const { None }; 1];
        let mut many = Vec::new();
        match self.config.mtu {
            Some(mtu) if whole_len(&fields, reliable, packet.len()) > mtu => {
                if fields.prefix_announcement.is_some() && overhead(&fields, reliable) + 1 > mtu {
                    // The announcement may be lost, but not the Data that carries it.
                    fields.prefix_announcement = None;
                }
                let Some(fragments) = cut(&fields, reliable, mtu, packet, &mut self.next_sequence) else {
                    self.counters.out_drops += 1;
                    return;
                };
                many = fragments;
            }
            _ => {
                let sequence = reliable.then(|| take_sequence(&mut self.next_sequence));
                specs[0] = Some(FrameSpec { sequence, index: 0, count: 1, fields, payload: packet });
            }
        }
        let before = frames.len();
        for spec in specs.into_iter().flatten().chain(many) {
            match &mut self.reliability {
                Some(reliability) => reliability.send(now, spec, self.config.mtu, &mut self.scratch, frames),
                None => frames.push(spec.encode(None, &[], &mut self.scratch)),
            }
        }
        self.counters.out_bytes += frames[before..].iter().map(|f| f.len() as u64).sum::<u64>();
    }
}

/// Whether `bytes` is exactly one network packet.
pub(crate) fn is_network_packet(bytes: &[u8]) -> bool {
    is_bare(bytes)
        && bytes.len() <= PACKET_BYTES_MAX
        && tlv::decode_number(&bytes[1..])
            .is_ok_and(|(len, used)| usize::try_from(len).is_ok_and(|len| len == bytes.len() - 1 - used))
}

/// Whether a network packet may carry this Nack: only an Interest can be refused.
fn may_have(packet: &[u8], nack: Option<NackReason>) -> bool {
    nack.is_none() || packet[0] == types::INTEREST as u8
}

/// Whether a datagram may be meant for a forwarder: it begins like a network packet or an LpPacket.
pub(crate) fn is_plausible(bytes: &[u8]) -> bool {
    const LP_PACKET: u8 = types::LP_PACKET as u8;
    (is_bare(bytes) || bytes.first() == Some(&LP_PACKET)) && bytes.len() >= 2
}

/// Whether a packet with these fields needs no link header.
pub(crate) fn has_no_fields(fields: &LinkFields) -> bool {
    fields.pit_token.is_empty() && has_token_at_most(fields)
}

/// The PIT token of a packet whose link header needs no more than that, if the token is short.
fn only_token(fields: &LinkFields) -> Option<(u64, u8)> {
    fields.pit_token.to_word().filter(|(_, bytes)| *bytes > 0 && has_token_at_most(fields))
}

/// Whether a packet with these fields needs no link header, but for its PIT token.
#[inline]
fn has_token_at_most(fields: &LinkFields) -> bool {
    fields.nack.is_none()
        && fields.incoming_face_id.is_none()
        && fields.congestion_mark == 0
        && !fields.non_discovery
        && fields.prefix_announcement.is_none()
}

fn take_sequence(next: &mut u64) -> u64 {
    let sequence = *next;
    *next = next.wrapping_add(1);
    sequence
}

/// Length of the frame that would hold the whole packet.
fn whole_len(fields: &LinkFields, reliable: bool, packet_len: usize) -> usize {
    if !reliable && has_no_fields(fields) {
        return packet_len;
    }
    let mut lp = fields.header();
    if reliable {
        (lp.sequence, lp.tx_sequence) = (Some(u64::MAX), Some(u64::MAX));
    }
    lp.header_len(packet_len) + packet_len
}

/// Maximum header bytes of a fragment with these fields.
fn overhead(fields: &LinkFields, reliable: bool) -> usize {
    let mut lp = fields.header();
    (lp.frag_index, lp.frag_count) = (FRAGMENTS_MAX, FRAGMENTS_MAX);
    lp.sequence = Some(u64::MAX);
    lp.tx_sequence = reliable.then_some(u64::MAX);
    lp.header_len(PACKET_BYTES_MAX)
}

/// Cuts a packet into fragments. Returns `None` if the MTU leaves no room, or there would be too many fragments.
fn cut(
    fields: &LinkFields,
    reliable: bool,
    mtu: usize,
    packet: Packet,
    next_sequence: &mut u64,
) -> Option<Vec<FrameSpec>> {
    let first = mtu.checked_sub(overhead(fields, reliable)).filter(|room| *room > 0)?;
    let other = mtu.checked_sub(overhead(&LinkFields::default(), reliable)).filter(|room| *room > 0)?;
    let count = 1 + (packet.len().saturating_sub(first)).div_ceil(other) as u64;
    if count > FRAGMENTS_MAX {
        return None;
    }
    let mut specs = Vec::with_capacity(count as usize);
    let (mut start, mut end) = (0, first.min(packet.len()));
    for index in 0..count {
        specs.push(FrameSpec {
            sequence: Some(take_sequence(next_sequence)),
            index,
            count,
            fields: if index == 0 { fields.clone() } else { LinkFields::default() },
            payload: packet.clone().slice(start..end),
        });
        (start, end) = (end, (end + other).min(packet.len()));
    }
    Some(specs)
}
