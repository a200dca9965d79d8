//! Access: for last hops over lossy links, where few of the nexthops have the requested Data.
//!
//! The first Interest below a name goes to all nexthops. The nexthop whose Data arrives first becomes the last working
//! nexthop of the Data's parent name. Later Interests go to it alone. If it does not answer within its retransmission
//! timeout, or a consumer asks again, all nexthops get the Interest.
//!
//! Differs from NFD's: when an upstream refuses, the nexthops not asked yet are tried at once. Downstreams get a Nack
//! when no nexthop is left.

use std::time::Duration;

use byname_wire::{NackReason, NameHashKey, NameView, PrefixHashes, name_hash::hash_name};

use crate::pit_cs::PitEntry;
use crate::strategy::measurements::Upstream;
use crate::strategy::name::Parameters;
use crate::strategy::suppression::{Verdict, verdict};
use crate::strategy::{
    Answer, Decision, Lesson, Preferred, Situation, Strategy, StrategyError, Turn, Why, preference, refuse_if_all_have,
};
use crate::ticks::Ticks;

/// How long a nexthop is remembered as working.
const LIFETIME: Duration = Duration::from_secs(8);
/// A consumer that asks again sooner is ignored.
const SUPPRESSED_FOR: Duration = Duration::from_millis(100);

/// The strategy. The strategy word of a PIT entry is the time when its retransmission timeout ends, or 0.
pub struct Access {
    key: NameHashKey,
    hashes: Box<PrefixHashes>,
}

impl Access {
    /// The strategy, which takes no parameters.
    pub fn new(parameters: &Parameters<'_>, key: NameHashKey) -> Result<Self, StrategyError> {
        parameters.none()?;
        Ok(Access { key, hashes: Box::default() })
    }

    /// The last working nexthop of the longest prefix that has one, and how long to wait for it.
    fn last_working(&mut self, situation: &mut Situation<'_>) -> Option<Upstream> {
        let name = NameView::new(&self.key, situation.name, &mut self.hashes);
        let known = (0..=name.len()).rev().find_map(|depth| {
            situation.measurements.known(name.hash(depth), situation.now, LIFETIME)?.last_answered().copied()
        })?;
        let is_nexthop = situation.nexthops.iter().any(|n| n.face == known.face);
        is_nexthop.then_some(known)
    }
}

fn send_to_all(situation: &Situation<'_>, decision: &mut Decision) {
    decision.forward.extend(situation.nexthops.iter().map(|n| n.face));
    decision.why = Why::All;
}

fn send_to_unasked(situation: &Situation<'_>, pit: &PitEntry, decision: &mut Decision) {
    let unasked = situation.nexthops.iter().filter(|n| pit.out_record(n.face).is_none());
    decision.forward.extend(unasked.map(|n| n.face));
    decision.why = if decision.forward.is_empty() { Why::Waits } else { Why::Unasked };
}

impl Strategy for Access {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        match verdict(situation.now, pit, SUPPRESSED_FOR) {
            Verdict::Suppress => {
                decision.why = Why::Suppressed;
                decision.wake_at = Some(Ticks(pit.strategy_word)).filter(|wake_at| wake_at.0 > 0);
            }
            Verdict::New => {
                if let Some(known) = self.last_working(situation) {
                    let wake_at = situation.now + known.rto();
                    decision.forward.push(known.face);
                    decision.why = Why::LastWorking;
                    (pit.strategy_word, decision.wake_at) = (wake_at.0, Some(wake_at));
                } else {
                    pit.strategy_word = 0;
                    send_to_all(situation, decision);
                }
                if decision.forward.is_empty() {
                    (decision.refuse, decision.why) = (Some(NackReason::NoRoute), Why::NoNexthop);
                }
            }
            Verdict::Again => {
                pit.strategy_word = 0;
                send_to_all(situation, decision);
            }
        }
    }

    fn after_wait(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        match Ticks(pit.strategy_word) {
            Ticks(0) => {}
            wake_at if wake_at > situation.now => decision.wake_at = Some(wake_at),
            _ => {
                pit.strategy_word = 0;
                send_to_unasked(situation, pit, decision);
            }
        }
    }

    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        send_to_unasked(situation, pit, decision);
        if decision.forward.is_empty() {
            refuse_if_all_have(pit, decision);
        }
    }

    fn before_satisfy(&mut self, situation: &mut Situation<'_>, pit: &PitEntry, answer: &Answer<'_>) -> Lesson {
        if let Some(record) = pit.out_record(answer.face) {
            let parent = answer.name.prefix(answer.name.len().saturating_sub(1));
            let (now, rtt) = (situation.now, situation.now.since(record.sent));
            let prefix = situation.measurements.prefix(hash_name(&self.key, parent), now, LIFETIME);
            prefix.answered(answer.face, rtt, now);
        }
        Lesson::default()
    }

    fn measures(&self) -> bool {
        true
    }

    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        let Some(known) = self.last_working(situation) else { return preference::all(situation, Turn::First) };
        let mut order = preference::all(situation, Turn::Later);
        for preferred in order.iter_mut().filter(|preferred| preferred.face == known.face) {
            (preferred.turn, preferred.rtt) = (Turn::First, Some(known.srtt));
        }
        order.sort_by_key(|preferred| preferred.turn == Turn::Later);
        order
    }
}
