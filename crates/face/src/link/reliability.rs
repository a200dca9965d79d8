//! Reliability of a link: sends frames again that are not acknowledged.
//!
//! Implements NDNLPv2's reliability as NFD's LpReliability does. Each frame has a TxSequence, which is new with each
//! transmission. Frames in the other direction carry Acks; an Ack leaves alone after 5 ms. A frame is lost when three
//! frames with greater TxSequences are acknowledged, or after the RTO of [RFC 6298].
//!
//! Differs: NFD counts for each frame the Acks that overtook it. We keep the three greatest acknowledged TxSequences,
//! and a frame below the third is lost. That is the same rule, in constant time. All queues are bounded: a frame that
//! falls out of them is not sent again.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use byname_forward::{Packet, Ticks};
use byname_wire::LpPacket;

use super::frame::{self, Frame, FrameSpec};
use crate::handover::ReliabilityRecord;

/// Maximum number of retransmissions of a frame.
const RETRANSMISSIONS_MAX: u8 = 3;
/// Time that an Ack waits for a frame to carry it.
const IDLE_ACK_DELAY: Duration = Duration::from_millis(5);
/// Maximum number of frames that wait for an Ack.
const UNACKED_MAX: usize = 4096;
/// Maximum number of Acks to send, and of remembered Sequences.
const QUEUE_MAX: usize = 4096;
/// Bytes of one Ack field.
const ACK_BYTES: usize = 12;
/// Maximum number of Acks on one frame, if no MTU bounds it.
const ACKS_MAX: usize = 64;
/// Maximum bytes that TLV-LENGTHs grow by when Acks are added.
const LENGTH_SLACK: usize = 2;
const RTO_INITIAL: Duration = Duration::from_secs(1);
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(4);

struct Unacked {
    spec: FrameSpec,
    sent: Ticks,
    retransmissions: u8,
}

/// State of one face, in both directions.
pub(super) struct Reliability {
    next_tx_sequence: u64,
    /// Frames by TxSequence, and so also by time.
    unacked: BTreeMap<u64, Unacked>,
    /// The three greatest acknowledged TxSequences, in falling order.
    acked: [Option<u64>; 3],
    rtt: RttEstimate,
    acks_due: VecDeque<u64>,
    acks_deadline: Option<Ticks>,
    recent: HashSet<u64>,
    recent_order: VecDeque<(u64, Ticks)>,
}

impl Default for Reliability {
    fn default() -> Self {
        Reliability {
            next_tx_sequence: 0,
            unacked: BTreeMap::new(),
            acked: [None; 3],
            rtt: RttEstimate { srtt: None, rttvar: Duration::ZERO, rto: RTO_INITIAL },
            acks_due: VecDeque::new(),
            acks_deadline: None,
            recent: HashSet::new(),
            recent_order: VecDeque::new(),
        }
    }
}

impl Reliability {
    /// What another process needs to go on with the face.
    pub(super) fn hand_over(&self) -> ReliabilityRecord {
        ReliabilityRecord {
            next_tx_sequence: self.next_tx_sequence,
            acks_due: self.acks_due.iter().copied().collect(),
            recent: self.recent_order.iter().map(|(sequence, _)| *sequence).collect(),
        }
    }

    /// The state of another process's face.
    pub(super) fn taken_over(now: Ticks, record: &ReliabilityRecord) -> Self {
        let acks_due: VecDeque<u64> = record.acks_due.iter().copied().take(QUEUE_MAX).collect();
        let recent_order: VecDeque<_> = record.recent.iter().take(QUEUE_MAX).map(|sequence| (*sequence, now)).collect();
        Reliability {
            next_tx_sequence: record.next_tx_sequence,
            acks_deadline: (!acks_due.is_empty()).then_some(now + IDLE_ACK_DELAY),
            acks_due,
            recent: recent_order.iter().map(|(sequence, _)| *sequence).collect(),
            recent_order,
            ..Reliability::default()
        }
    }

    /// Sends a frame with as many Acks as fit, and keeps it until it is acknowledged.
    pub(super) fn send(
        &mut self,
        now: Ticks,
        spec: FrameSpec,
        mtu: Option<usize>,
        scratch: &mut Vec<u8>,
        frames: &mut Vec<Frame>,
    ) {
        self.send_again(now, Unacked { spec, sent: now, retransmissions: 0 }, mtu, scratch, frames);
    }

    /// Handles Acks of the peer.
    pub(super) fn on_acks(&mut self, now: Ticks, acks: &[u64]) {
        for &ack in acks {
            let Some(frame) = self.unacked.remove(&ack) else { continue };
            if frame.retransmissions == 0 {
                self.rtt.measure(now.since(frame.sent));
            }
            let mut greater = Some(ack);
            for place in &mut self.acked {
                if greater > *place {
                    std::mem::swap(place, &mut greater);
                }
            }
        }
    }

    /// Records a frame that wants an Ack. Returns false if its packet came before.
    pub(super) fn accept(&mut self, now: Ticks, tx_sequence: u64, sequence: Option<u64>) -> bool {
        if self.acks_due.len() == QUEUE_MAX {
            self.acks_due.pop_front();
        }
        self.acks_due.push_back(tx_sequence);
        self.acks_deadline.get_or_insert(now + IDLE_ACK_DELAY);
        let Some(sequence) = sequence else { return true };
        // The peer gives up after its own RTOs. Our RTO is the best estimate of them.
        let memory = self.rtt.rto * u32::from(RETRANSMISSIONS_MAX + 1);
        while let Some((old, at)) = self.recent_order.front()
            && (self.recent_order.len() >= QUEUE_MAX || now.since(*at) > memory)
        {
            self.recent.remove(old);
            self.recent_order.pop_front();
        }
        let new = self.recent.insert(sequence);
        if new {
            self.recent_order.push_back((sequence, now));
        }
        new
    }

    /// Time of the next action. It is now if Acks have shown a loss, so that a lost frame need not wait for its RTO.
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        let due = |(tx_sequence, frame): (&u64, &Unacked)| match self.is_overtaken(*tx_sequence) {
            true => Ticks(0),
            false => frame.sent + self.rtt.rto,
        };
        let rto = self.unacked.first_key_value().map(due);
        match (rto, self.acks_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sends lost frames again. Returns their number.
    pub(super) fn retransmit(
        &mut self,
        now: Ticks,
        mtu: Option<usize>,
        scratch: &mut Vec<u8>,
        frames: &mut Vec<Frame>,
    ) -> u64 {
        let (mut sent, mut timed_out) = (0, false);
        // A frame that is sent again goes to the end and is not lost there, so the loop ends.
        while let Some((&tx_sequence, first)) = self.unacked.first_key_value() {
            let overtaken = self.is_overtaken(tx_sequence);
            let late = now.since(first.sent) >= self.rtt.rto;
            if !overtaken && !late {
                break;
            }
            timed_out |= late && !overtaken;
            let Some((_, mut frame)) = self.unacked.pop_first() else { break };
            if frame.retransmissions >= RETRANSMISSIONS_MAX {
                self.forget_packet(&frame.spec);
                continue;
            }
            frame.retransmissions += 1;
            frame.sent = now;
            self.send_again(now, frame, mtu, scratch, frames);
            sent += 1;
        }
        if timed_out {
            self.rtt.back_off();
        }
        sent
    }

    /// Sends Acks alone that have waited long enough.
    pub(super) fn send_idle_acks(
        &mut self,
        now: Ticks,
        mtu: Option<usize>,
        scratch: &mut Vec<u8>,
        frames: &mut Vec<Frame>,
    ) {
        if self.acks_deadline.is_none_or(|at| at > now) {
            return;
        }
        while !self.acks_due.is_empty() {
            let mut lp = LpPacket { frag_count: 1, ..LpPacket::default() };
            let n = self.acks_that_fit(mtu, 4).max(1);
            lp.acks.extend(self.acks_due.drain(..n.min(self.acks_due.len())));
            frames.push(frame::encode(&lp, Packet::default(), scratch));
        }
        self.acks_deadline = None;
    }

    fn send_again(
        &mut self,
        now: Ticks,
        frame: Unacked,
        mtu: Option<usize>,
        scratch: &mut Vec<u8>,
        frames: &mut Vec<Frame>,
    ) {
        debug_assert_eq!(frame.sent, now);
        let tx_sequence = self.next_tx_sequence;
        self.next_tx_sequence += 1;
        let payload_len = frame.spec.payload.len();
        let mut lp = frame.spec.header();
        lp.tx_sequence = Some(tx_sequence);
        let acks = self.acks_that_fit(mtu, lp.header_len(payload_len) + payload_len);
        lp.acks.extend(self.acks_due.drain(..acks));
        if self.acks_due.is_empty() {
            self.acks_deadline = None;
        }
        frames.push(frame::encode(&lp, frame.spec.payload.clone(), scratch));
        if self.unacked.len() == UNACKED_MAX {
            self.unacked.pop_first();
        }
        self.unacked.insert(tx_sequence, frame);
    }

    fn is_overtaken(&self, tx_sequence: u64) -> bool {
        self.acked[2].is_some_and(|third| tx_sequence < third)
    }

    fn acks_that_fit(&self, mtu: Option<usize>, used: usize) -> usize {
        let room = mtu.map_or(ACKS_MAX, |mtu| mtu.saturating_sub(used + LENGTH_SLACK) / ACK_BYTES);
        self.acks_due.len().min(room).min(ACKS_MAX)
    }

    /// Forgets the other fragments of a packet when one fragment is given up, as they are useless.
    fn forget_packet(&mut self, spec: &FrameSpec) {
        if spec.count <= 1 {
            return;
        }
        let base = |s: &FrameSpec| s.sequence.map(|sequence| sequence.wrapping_sub(s.index));
        self.unacked.retain(|_, other| base(&other.spec) != base(spec));
    }
}

/// RTT estimate of [RFC 6298].
struct RttEstimate {
    srtt: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
}

impl RttEstimate {
    fn measure(&mut self, rtt: Duration) {
        let srtt = match self.srtt {
            None => {
                self.rttvar = rtt / 2;
                rtt
            }
            Some(srtt) => {
                self.rttvar = self.rttvar * 3 / 4 + srtt.abs_diff(rtt) / 4;
                srtt * 7 / 8 + rtt / 8
            }
        };
        self.srtt = Some(srtt);
        self.rto = (srtt + self.rttvar * 4).clamp(RTO_MIN, RTO_MAX);
    }

    fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(RTO_MAX);
    }
}
