//! Where an Interest for a name would go now, and what the tables know of the name.
//!
//! The question reads the tables between two bursts and changes nothing, so that asking does not change the answer. It
//! supposes an Interest from an application on this host, without a forwarding hint and without a chosen nexthop.

use std::time::Duration;

use byname_wire::{FaceId, NackReason, Name, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::face_table::Scope;
use crate::packet::LOCALHOST;
use crate::pit_cs::{Kind, PitEntry};
use crate::shard::Shard;
use crate::strategy::{Preferred, Situation, Turn};
use crate::tables::Nexthop;
use crate::ticks::Ticks;
use crate::worker::Worker;

/// Most downstreams and upstreams of a pending Interest that are told.
const RECORDS_MAX: usize = 32;

/// What a worker knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Number of components of the FIB rule that matches. `None`: no rule does.
    pub rule_depth: Option<usize>,
    /// The label that a flat namespace has for the name, if that is what matches.
    pub label: Option<Name>,
    /// Full name of the strategy.
    pub strategy: Name,
    /// The parameters in effect, by their names in the strategy's name.
    pub parameters: Vec<(&'static str, String)>,
    /// The nexthops of the rule, in the order in which the strategy would use them.
    pub nexthops: Vec<Preferred>,
    /// Data of exactly this name in the content store.
    pub stored: Option<Stored>,
    /// Whether there is Data of this name or below. `None`: nobody has asked by prefix lately, so that is not indexed.
    pub stored_below: Option<bool>,
    /// Whether the content store answers Interests.
    pub serves: bool,
    /// The pending Interests of exactly this name: one for each pair of selectors.
    pub pending: Vec<PendingInterest>,
}

/// Data in the content store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// How long it stays fresh. Zero: it is stale.
    pub fresh_for: Duration,
    /// Its size in bytes.
    pub bytes: usize,
}

/// A pending Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingInterest {
    /// Its selector.
    pub can_be_prefix: bool,
    /// Its selector.
    pub must_be_fresh: bool,
    /// When it leaves the PIT.
    pub expires_in: Duration,
    /// Faces that wait, and how long.
    pub downstreams: Vec<(FaceId, Duration)>,
    /// Number of downstreams that are not listed.
    pub further_downstreams: usize,
    /// Faces that were asked.
    pub upstreams: Vec<Asked>,
}

/// An upstream of a pending Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The face.
    pub face: FaceId,
    /// Time since it was asked last.
    pub since: Duration,
    /// Its refusal.
    pub nacked: Option<NackReason>,
}

impl Worker {
    /// What the tables of this worker know of a name. It must be asked between two bursts.
    pub fn explain(&mut self, now: Ticks, name: NameRef<'_>) -> Explanation {
        self.shard.explain(now, name)
    }
}

impl Shard {
    fn explain(&mut self, now: Ticks, name: NameRef<'_>) -> Explanation {
        let mut hashes = Box::<PrefixHashes>::default();
        let view = NameView::new(&self.key, name, &mut hashes);
        self.tables.begin_burst();
        let rule = self.tables.fib().longest_match(&view);
        let label = self.tables.fib().label(&view).cloned();
        let mut nexthops = Vec::new();
        if let Some(rule) = rule {
            self.tables.nexthops(rule.entry, &mut nexthops);
        }
        self.tables.end_burst();
        let (usable, unusable): (Vec<Nexthop>, Vec<Nexthop>) =
            nexthops.into_iter().partition(|nexthop| self.may_leave_by(name, nexthop.face));
        let number = self.strategies.choose(&view);
        let mut situation = Situation {
            now,
            name,
            nexthops: &usable,
            is_routed: rule.is_some(),
            prefix_hash: rule.map_or(0, |rule| view.hash(rule.depth)),
            measurements: &mut self.measurements,
        };
        let mut preferred = self.strategies.strategy(number).preference(&mut situation);
        preferred.extend(unusable.iter().map(|nexthop| Preferred::unmeasured(nexthop, Turn::Never)));
        let parameters = self.strategies.strategy(number).parameters();
        let (stored, stored_below) = self.stored(now, &view);
        Explanation {
            rule_depth: rule.map(|rule| rule.depth),
            label,
            strategy: self.strategies.name(number).clone(),
            parameters,
            nexthops: preferred,
            stored,
            stored_below,
            serves: self.table.cs_info().serve,
            pending: self.pending_of(now, &view),
        }
    }

    /// Whether an Interest of an application on this host may be sent to a face.
    fn may_leave_by(&self, name: NameRef<'_>, face: FaceId) -> bool {
        let stays = name.value().starts_with(LOCALHOST);
        self.faces.get(&face).is_some_and(|face| !stays || face.scope == Scope::Local)
    }

    fn stored(&self, now: Ticks, name: &NameView<'_>) -> (Option<Stored>, Option<bool>) {
        let exact = self.table.find(name, false, false, now).data;
        let stored = exact.and_then(|slot| match &self.table.slot(slot).kind {
            Kind::Cs(cs) => {
                let bytes = self.table.slot(slot).packet.len();
                Some(Stored { fresh_for: cs.fresh_until.since(now), bytes })
            }
            _ => None,
        });
        let is_indexed = self.table.has_prefix_index();
        let below = is_indexed.then(|| self.table.find(name, true, false, now).data.is_some());
        (stored, if stored.is_some() { Some(true) } else { below })
    }

    fn pending_of(&self, now: Ticks, name: &NameView<'_>) -> Vec<PendingInterest> {
        let mut pending = Vec::new();
        for (can_be_prefix, must_be_fresh) in [(false, false), (false, true), (true, false), (true, true)] {
            let slot = self.table.find_pit(name, can_be_prefix, must_be_fresh);
            pending.extend(slot.and_then(|slot| self.table.slot(slot).pit()).map(|pit| pending_interest(now, pit)));
        }
        pending
    }
}

fn pending_interest(now: Ticks, pit: &PitEntry) -> PendingInterest {
    let waiting: SmallVec<[_; 4]> = pit.in_records.iter().filter(|record| record.expiry > now).collect();
    let told = waiting.iter().take(RECORDS_MAX);
    let asked = pit.out_records.iter().take(RECORDS_MAX);
    PendingInterest {
        can_be_prefix: pit.can_be_prefix,
        must_be_fresh: pit.must_be_fresh,
        expires_in: pit.expiry.since(now),
        downstreams: told.map(|record| (record.face, record.expiry.since(now))).collect(),
        further_downstreams: waiting.len().saturating_sub(RECORDS_MAX),
        upstreams: asked.map(|r| Asked { face: r.face, since: now.since(r.sent), nacked: r.nacked }).collect(),
    }
}
