//! Tracks which peer waits for answers on a face, as its link service sees it.
//!
//! A port asks this when it has to close one of many faces, and when a peer has ended its sending. The counters cost an
//! addition or two for each packet. A lifetime is read only once for each run of consecutive packets from one peer:
//! that of the last packet. So an Interest in the middle of a run is assumed to live as long as the last one.

use byname_forward::{Packet, Received, Ticks};
use byname_wire::interest::peek_lifetime_ms;
use byname_wire::tlv::types;
use std::time::Duration;

/// A peer that was heard again after this many answers has no forged address, unless the forger hears the answers or
/// sends as often as a peer would.
const TURNS_ESTABLISHED: u8 = 2;

/// Interests of a peer, and the answers to them.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Approximate number of the peer's Interests that have no answer yet.
    unanswered: u64,
    /// Data and Nacks to the peer.
    answered: u64,
    /// Interests that had expired before the peer was heard again. Nobody will answer them.
    written_off: u64,
    /// Time at which the last of the peer's Interests expires.
    waits_until: Ticks,
    /// `answered` when the peer was last heard.
    answered_before: u64,
    /// Number of times that the peer was heard after it had got an answer.
    turns: u8,
    /// Answers by other threads, as far as they are counted above.
    elsewhere: u64,
}

impl Conversation {
    /// The conversation with a peer that waits for this many answers already.
    pub(super) fn with_unanswered(unanswered: u64) -> Self {
        Conversation { unanswered, ..Conversation::default() }
    }

    /// Counts a network packet from the peer.
    #[inline]
    pub(super) fn count_received(&mut self, packet: &[u8], is_nack: bool) {
        self.unanswered += u64::from(packet[0] == types::INTEREST as u8 && !is_nack);
    }

    /// Counts a network packet to the peer.
    #[inline]
    pub(super) fn count_sent(&mut self, packet: &Packet, is_nack: bool) {
        let is_data = packet.first() == Some(&(types::DATA as u8));
        let answers = u64::from(is_data || is_nack);
        self.answered += answers;
        self.unanswered = self.unanswered.saturating_sub(answers);
    }

    /// Begins a run of packets from the peer.
    pub(crate) fn begin_row(&mut self, now: Ticks) {
        if self.answered != self.answered_before {
            self.answered_before = self.answered;
            self.turns = self.turns.saturating_add(1);
        }
        if self.waits_until <= now {
            self.written_off = self.unanswered;
        }
    }

    /// Ends the run with this packet.
    pub(crate) fn end_row(&mut self, now: Ticks, last: &Received) {
        if last.fields.nack.is_none()
            && let Some(lifetime_ms) = peek_lifetime_ms(&last.packet)
        {
            self.waits_until = self.waits_until.max(now + Duration::from_millis(lifetime_ms));
        }
    }

    /// Data and Nacks to the peer.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether answers by other threads can change what is known when the peer is heard.
    pub(crate) fn may_change(&self, now: Ticks) -> bool {
        !self.is_established() || self.waits_until <= now
    }

    /// Counts answers by other threads, which have sent so many so far.
    pub(crate) fn note_answers_elsewhere(&mut self, answers: u64) {
        let new = answers.saturating_sub(self.elsewhere);
        self.elsewhere += new;
        self.answered += new;
        self.unanswered = self.unanswered.saturating_sub(new);
    }

    /// Whether an Interest of the peer is pending, as far as can be told without the PIT. Other threads have sent so many
    /// answers.
    pub(crate) fn is_waiting(&self, now: Ticks, elsewhere: u64) -> bool {
        now < self.waits_until && self.unanswered_beside(elsewhere) > self.written_off
    }

    /// Whether the peer was heard again after answers.
    pub(crate) fn is_established(&self) -> bool {
        self.turns >= TURNS_ESTABLISHED
    }

    /// Approximate number of the peer's Interests that have no answer yet.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// The same, if other threads have sent so many answers.
    pub(crate) fn unanswered_beside(&self, elsewhere: u64) -> u64 {
        self.unanswered.saturating_sub(elsewhere.saturating_sub(self.elsewhere))
    }
}
