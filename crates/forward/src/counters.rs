//! Counts of a worker: dropped packets by reason, the content store, and all together.

use crate::face_table::FaceCounters;
use crate::stages::StageTimes;

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It is not of a type that is forwarded.
    Malformed,
    /// Its name has more components than byname accepts.
    TooManyComponents,
    /// Its face has gone in the meantime.
    UnknownFace,
    /// It has a `/localhost` name and a face that is not local.
    Scope,
    /// Its HopLimit is used up, or would be before the packet reached any nexthop.
    HopLimit,
    /// An Interest that was here before: it loops.
    Loop,
    /// Data that no Interest waits for.
    UnsolicitedData,
    /// Data that an Interest waits for, from a face that the Interest was not sent to.
    UnaskedData,
    /// A Nack for an Interest that was not sent.
    UnsolicitedNack,
    /// A pending Interest that was removed to make room in a full PIT.
    PitFull,
    /// An Interest for a name with more downstreams than an entry records: either the new Interest or one that waited.
    TooManyDownstreams,
    /// An Interest whose NextHopFaceId is not the id of a face.
    NextHopFaceId,
    /// A notice about a learned route that the control side has no room for.
    NoticesFull,
    /// A tag-addressed packet without a subset that was advertised by another face than its own.
    NoSubset,
    /// A tag-addressed packet whose search for subsets reached its limit. Some subsets may have been missed; the packet
    /// still goes to those found.
    SubsetsCutOff,
    /// A packet of a tree that this router does not belong to.
    NoSuchTree,
    /// A locator-addressed packet whose label leads nowhere.
    Label,
    /// A locator-addressed packet for an application that is not here.
    NoSuchEndpoint,
}

/// Labels for metrics, in the order of [`DropReason`].
const REASONS: [(DropReason, &str); 18] = [
    (DropReason::Malformed, "malformed"),
    (DropReason::TooManyComponents, "too-many-components"),
    (DropReason::UnknownFace, "unknown-face"),
    (DropReason::Scope, "scope"),
    (DropReason::HopLimit, "hop-limit"),
    (DropReason::Loop, "loop"),
    (DropReason::UnsolicitedData, "unsolicited-data"),
    (DropReason::UnaskedData, "unasked-data"),
    (DropReason::UnsolicitedNack, "unsolicited-nack"),
    (DropReason::PitFull, "pit-full"),
    (DropReason::TooManyDownstreams, "too-many-downstreams"),
    (DropReason::NextHopFaceId, "next-hop-face-id"),
    (DropReason::NoticesFull, "notices-full"),
    (DropReason::NoSubset, "no-subset"),
    (DropReason::SubsetsCutOff, "subsets-cut-off"),
    (DropReason::NoSuchTree, "no-such-tree"),
    (DropReason::Label, "label"),
    (DropReason::NoSuchEndpoint, "no-such-endpoint"),
];

impl DropReason {
    /// A label for metrics and traces.
    pub fn label(self) -> &'static str {
        REASONS[self as usize].1
    }
}

/// Number of drops for each reason.
#[derive(Debug, Clone, Default)]
pub struct Drops([u64; REASONS.len()]);

impl Drops {
    /// Counts one drop.
    pub fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Number of drops for one reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// All reasons: their labels and numbers of drops.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        REASONS.iter().map(|(reason, word)| (*word, self.of(*reason))).collect()
    }
}

/// Contents, settings and hit counts of the CS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CsInfo {
    pub packets_max: u64,
    pub admit: bool,
    pub serve: bool,
    pub packets: u64,
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

impl CsInfo {
    /// Sum over several content stores with the same settings.
    pub fn sum(of: impl IntoIterator<Item = CsInfo>) -> CsInfo {
        let add = |a: CsInfo, b: CsInfo| CsInfo {
            packets_max: a.packets_max.saturating_add(b.packets_max),
            admit: a.admit,
            serve: a.serve,
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
            hits: a.hits + b.hits,
            misses: a.misses + b.misses,
        };
        of.into_iter().reduce(add).unwrap_or_default()
    }
}

/// Counts of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WorkerCounters {
    pub faces: FaceCounters,
    pub satisfied_interests: u64,
    pub unsatisfied_interests: u64,
    pub pit_entries: u64,
    pub cs: CsInfo,
    pub strategy_choices: u64,
    pub measurements: u64,
    /// Names whose Data all workers share (`hot`).
    pub hot_names: u64,
    /// Interests for such names that this worker was given, wherever their home is.
    pub spread_interests: u64,
    /// Those of them that this worker answered.
    pub spread_hits: u64,
    /// Those of them that this worker joined to a shared PIT entry; the others went home.
    pub spread_joins: u64,
    /// How often the lock of a shared PIT entry was taken when this worker wanted it.
    pub spread_busy: u64,
    /// Shared PIT entries, of all workers (`hot`).
    pub shared_pit_entries: u64,
    /// Drops by reason. The reason is a label for metrics.
    pub drops: Vec<(&'static str, u64)>,
    /// Time by stage, in the bursts that are timed.
    pub stages: StageTimes,
    /// Cache lines that the FIB read in these bursts.
    pub fib_lines: FibLines,
}

/// Cache lines of the FIB that the counted lookups read. Both are 0 if the FIB's engine does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FibLines {
    /// Number of lookups that were counted.
    pub lookups: u64,
    /// Number of cache lines that they read.
    pub lines: u64,
}

impl WorkerCounters {
    /// Adds another worker's counts.
    pub fn add(&mut self, other: &WorkerCounters) {
        self.faces.add(&other.faces);
        self.satisfied_interests += other.satisfied_interests;
        self.unsatisfied_interests += other.unsatisfied_interests;
        self.pit_entries += other.pit_entries;
        self.cs = CsInfo::sum([other.cs, self.cs]);
        // All workers have the same choices.
        self.strategy_choices = self.strategy_choices.max(other.strategy_choices);
        self.measurements += other.measurements;
        self.hot_names = self.hot_names.max(other.hot_names);
        self.spread_interests += other.spread_interests;
        self.spread_hits += other.spread_hits;
        self.spread_joins += other.spread_joins;
        self.spread_busy += other.spread_busy;
        self.shared_pit_entries = self.shared_pit_entries.max(other.shared_pit_entries);
        self.add_drops(&other.drops);
        self.stages.add(&other.stages);
        self.fib_lines.lookups += other.fib_lines.lookups;
        self.fib_lines.lines += other.fib_lines.lines;
    }

    /// Adds drops, including those for reasons that are not listed yet.
    pub fn add_drops(&mut self, drops: &[(&'static str, u64)]) {
        for &(reason, count) in drops {
            match self.drops.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, known)) => *known += count,
                None => self.drops.push((reason, count)),
            }
        }
    }
}

/// Counts that only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Counts of faces that have gone.
    pub gone_faces: FaceCounters,
    pub satisfied: u64,
    pub unsatisfied: u64,
    pub cs_hits: u64,
    pub cs_misses: u64,
    /// Interests for hot names that came to this worker although their home may be another.
    pub spread: u64,
    /// Those that this worker answered.
    pub spread_hits: u64,
    /// Those that this worker joined to a shared PIT entry.
    pub spread_joins: u64,
    /// How often the lock of a shared PIT entry was taken.
    pub spread_busy: u64,
    pub fib_lines: FibLines,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_numbers() {
        for (i, (reason, _)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
    }
}
