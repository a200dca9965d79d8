//! The publications of a router: those that are known to exist, and those that have been fetched.
//!
//! A router numbers its publications from 1, anew at each start. Now and then it makes a snapshot, which stands for all
//! publications until then. A router that knows nothing of a start, or is far behind, fetches the snapshot first
//! (ndnd: SnapshotNodeLatest).
//!
//! State vectors of others say which publications exist, and any router of the network may lie about that. So a start
//! counts only once something of it has been fetched, which its router has signed. Until then, publications of the
//! start before are fetched, too. A fetch that failed is repeated ever less often.

use std::collections::{BTreeMap, BTreeSet};

use crate::tlv::SeqNoEntry;

/// Publications of one start that are fetched at once.
const WINDOW: u64 = 8;
/// First interval after a failure.
const BACKOFF_MIN_MS: u64 = 2_000;
const BACKOFF_MAX_MS: u64 = 128_000;

/// The next thing to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Find out which snapshot is the last.
    FindSnapshot { boot: u64 },
    /// Fetch a publication.
    Fetch { boot: u64, seq: u64 },
}

/// Something that was fetched, to be applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) boot: u64,
    pub(crate) content: Vec<u8>,
    /// Whether it stands for all before.
    pub(crate) is_snapshot: bool,
    /// Whether it is the first of its start.
    pub(crate) is_new_start: bool,
}

/// One start of a router.
#[derive(Debug, Clone)]
struct Start {
    boot: u64,
    /// The last that exists, as others say.
    latest: u64,
    /// All until here have been applied.
    applied: u64,
    /// When `latest` last grew.
    grown_ms: u64,
    is_finding_snapshot: bool,
    asked: BTreeSet<u64>,
    arrived: BTreeMap<u64, Vec<u8>>,
    failures: u32,
    retry_ms: u64,
}

/// The publications of a router.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    /// By boot.
    starts: Vec<Start>,
}

impl Publisher {
    /// All starts, as a state vector has them.
    pub(crate) fn starts(&self) -> impl Iterator<Item = SeqNoEntry> + '_ {
        self.starts
            .iter()
            .filter(|start| start.latest > 0)
            .map(|start| SeqNoEntry { boot: start.boot, seq: start.latest })
    }

    /// The last sequence number of a start; 0 if it is unknown.
    pub(crate) fn latest(&self, boot: u64) -> u64 {
        self.find(boot).map_or(0, |start| start.latest)
    }

    /// When a start was last heard to have grown.
    pub(crate) fn grown_ms(&self, boot: u64) -> u64 {
        self.find(boot).map_or(0, |start| start.grown_ms)
    }

    /// The start that counts: its boot, last known and last applied sequence number.
    pub(crate) fn current(&self) -> Option<(u64, u64, u64)> {
        let counting = self.starts.iter().rev().find(|start| start.applied > 0).or(self.starts.last());
        counting.map(|start| (start.boot, start.latest, start.applied))
    }

    /// Whether nothing of a start has been fetched yet: others may have made it up.
    pub(crate) fn is_claim(&self, boot: u64) -> bool {
        self.find(boot).is_none_or(|start| start.applied == 0)
    }

    fn find(&self, boot: u64) -> Option<&Start> {
        self.starts.iter().find(|start| start.boot == boot)
    }

    fn find_mut(&mut self, boot: u64) -> Option<&mut Start> {
        self.starts.iter_mut().find(|start| start.boot == boot)
    }

    /// Others say that a publication exists. `max` is how many starts are remembered. Returns whether that is news.
    pub(crate) fn learn(&mut self, boot: u64, seq: u64, max: usize, now_ms: u64) -> bool {
        if let Some(start) = self.find_mut(boot) {
            let is_news = seq > start.latest;
            if is_news {
                start.latest = seq;
                start.grown_ms = now_ms;
                start.retry_ms = start.retry_ms.min(now_ms.saturating_add(BACKOFF_MAX_MS / 8));
            }
            return is_news;
        }
        if seq == 0 {
            return false;
        }
        if self.starts.len() >= max {
            // The oldest makes room, but not one that counts for a claim.
            let counts = self.current().map(|(boot, _, _)| boot);
            let may_go = |start: &Start| Some(start.boot) != counts && start.boot < boot && !start.is_finding_snapshot;
            match self.starts.iter().position(may_go) {
                Some(oldest) => drop(self.starts.remove(oldest)),
                None => return false,
            }
        }
        let start = Start {
            boot,
            latest: seq,
            applied: 0,
            grown_ms: now_ms,
            is_finding_snapshot: false,
            asked: BTreeSet::new(),
            arrived: BTreeMap::new(),
            failures: 0,
            retry_ms: 0,
        };
        let place = self.starts.partition_point(|other| other.boot < boot);
        self.starts.insert(place, start);
        true
    }

    /// What to fetch now. Each step is given once, and ends by `found`, `arrived` or `failed`.
    pub(crate) fn steps(&mut self, snapshot_every: u64, now_ms: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        // One claim after the other.
        let mut is_trying_claim = self.starts.iter().any(|start| start.applied == 0 && start.is_finding_snapshot);
        for start in self.starts.iter_mut().rev() {
            if start.applied == 0 && is_trying_claim {
                continue;
            }
            start.plan(snapshot_every, now_ms, &mut steps);
            is_trying_claim |= start.applied == 0 && start.is_finding_snapshot;
            if start.applied > 0 {
                // Earlier starts do not count any more.
                break;
            }
        }
        steps
    }

    /// When [`Publisher::steps`] has something after a failure.
    pub(crate) fn retry_ms(&self, now_ms: u64) -> Option<u64> {
        let waits = |start: &&Start| start.retry_ms > now_ms && start.applied < start.latest;
        self.starts.iter().filter(waits).map(|start| start.retry_ms).min()
    }

    /// A snapshot of this version exists and is being fetched. Returns whether it is wanted.
    pub(crate) fn found(&mut self, boot: u64, version: u64) -> bool {
        let Some(start) = self.find_mut(boot) else { return false };
        let is_wanted = start.is_finding_snapshot && version > start.applied;
        if !is_wanted {
            start.is_finding_snapshot = false;
        }
        is_wanted
    }

    /// A snapshot is there.
    pub(crate) fn snapshot_arrived(&mut self, boot: u64, version: u64, content: Vec<u8>) -> Option<Applied> {
        let is_new_start = self.counts_for_new(boot);
        let start = self.find_mut(boot)?;
        start.is_finding_snapshot = false;
        if version <= start.applied || is_new_start.is_none() {
            return None;
        }
        start.applied = version;
        start.latest = start.latest.max(version);
        start.failures = 0;
        start.arrived.retain(|seq, _| *seq > version);
        Some(Applied { boot, content, is_snapshot: true, is_new_start: is_new_start == Some(true) })
    }

    /// A publication is there. Returns all that can be applied now, in order.
    pub(crate) fn arrived(&mut self, boot: u64, seq: u64, content: Vec<u8>) -> Vec<Applied> {
        let is_new_start = self.counts_for_new(boot);
        let Some(start) = self.find_mut(boot) else { return Vec::new() };
        start.asked.remove(&seq);
        if is_new_start.is_none() || seq <= start.applied {
            return Vec::new();
        }
        start.failures = 0;
        start.arrived.insert(seq, content);
        let mut applied = Vec::new();
        while let Some(content) = start.arrived.remove(&(start.applied + 1)) {
            start.applied += 1;
            let is_new_start = is_new_start == Some(true) && applied.is_empty();
            applied.push(Applied { boot, content, is_snapshot: false, is_new_start });
        }
        applied
    }

    /// Whether a start begins to count with what has arrived. `None`: a later one counts.
    fn counts_for_new(&self, boot: u64) -> Option<bool> {
        match self.starts.iter().rev().find(|start| start.applied > 0) {
            Some(counting) if counting.boot > boot => None,
            Some(counting) => Some(counting.boot < boot),
            None => Some(true),
        }
    }

    /// Something could not be fetched.
    pub(crate) fn failed(&mut self, boot: u64, seq: Option<u64>, now_ms: u64) {
        let Some(start) = self.find_mut(boot) else { return };
        match seq {
            Some(seq) => drop(start.asked.remove(&seq)),
            None => start.is_finding_snapshot = false,
        }
        let backoff_ms = BACKOFF_MIN_MS.saturating_mul(1 << start.failures.min(10)).min(BACKOFF_MAX_MS);
        start.failures += 1;
        start.retry_ms = now_ms.saturating_add(backoff_ms);
    }

    /// All that was fetched must be fetched again.
    pub(crate) fn begin_anew(&mut self) {
        self.stop();
        self.starts.iter_mut().for_each(|start| start.applied = 0);
    }

    /// Nothing is being fetched any more.
    pub(crate) fn stop(&mut self) {
        for start in &mut self.starts {
            start.is_finding_snapshot = false;
            start.asked.clear();
            start.arrived.clear();
            (start.failures, start.retry_ms) = (0, 0);
        }
    }
}

impl Start {
    fn plan(&mut self, snapshot_every: u64, now_ms: u64, steps: &mut Vec<Step>) {
        if now_ms < self.retry_ms || self.is_finding_snapshot || self.applied >= self.latest {
            return;
        }
        let is_far_behind = self.latest - self.applied >= snapshot_every.saturating_mul(2);
        // Publications that a snapshot covers may be gone. After a failure, the other way is tried.
        if self.asked.is_empty() && (self.applied == 0 || is_far_behind || self.failures % 2 == 1) {
            self.is_finding_snapshot = true;
            steps.push(Step::FindSnapshot { boot: self.boot });
            return;
        }
        if self.applied == 0 {
            return;
        }
        for seq in (self.applied + 1..=self.latest).take(WINDOW as usize) {
            if !self.arrived.contains_key(&seq) && self.asked.insert(seq) {
                steps.push(Step::Fetch { boot: self.boot, seq });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 50;

    fn fetch(boot: u64, seqs: impl IntoIterator<Item = u64>) -> Vec<Step> {
        seqs.into_iter().map(|seq| Step::Fetch { boot, seq }).collect()
    }

    #[test]
    fn a_snapshot_comes_first_and_then_what_follows_it() {
        let mut publisher = Publisher::default();
        assert!(publisher.learn(100, 20, 8, 0));
        assert_eq!(publisher.steps(EVERY, 0), [Step::FindSnapshot { boot: 100 }]);
        assert_eq!(publisher.steps(EVERY, 0), []);
        assert!(publisher.found(100, 17));
        let applied = publisher.snapshot_arrived(100, 17, vec![1]).unwrap();
        assert!(applied.is_snapshot && applied.is_new_start);
        assert_eq!(publisher.steps(EVERY, 0), fetch(100, 18..=20));
        assert_eq!(publisher.arrived(100, 19, vec![19]), []);
        let applied = publisher.arrived(100, 18, vec![18]);
        assert_eq!(applied.iter().map(|applied| applied.content[0]).collect::<Vec<_>>(), [18, 19]);
        assert!(!applied[0].is_new_start);
        publisher.arrived(100, 20, vec![20]);
        assert_eq!(publisher.current(), Some((100, 20, 20)));
        publisher.learn(100, 120, 8, 0);
        assert_eq!(publisher.steps(EVERY, 0), [Step::FindSnapshot { boot: 100 }]);
    }

    #[test]
    fn a_claimed_start_does_not_stop_the_real_one() {
        let mut publisher = Publisher::default();
        publisher.learn(100, 1, 8, 0);
        publisher.steps(EVERY, 0);
        publisher.snapshot_arrived(100, 1, vec![]);
        // Somebody claims that the router has restarted.
        publisher.learn(500, 7, 8, 0);
        assert_eq!(publisher.steps(EVERY, 0), [Step::FindSnapshot { boot: 500 }]);
        publisher.learn(100, 2, 8, 0);
        assert_eq!(publisher.steps(EVERY, 0), fetch(100, [2]));
        publisher.failed(500, None, 0);
        assert_eq!(publisher.steps(EVERY, 1999), []);
        assert_eq!(publisher.arrived(100, 2, vec![]).len(), 1);
        assert_eq!(publisher.current(), Some((100, 2, 2)));
        // Once the restart is real, the start before does not count.
        assert_eq!(publisher.steps(EVERY, 2000), [Step::FindSnapshot { boot: 500 }]);
        assert!(publisher.snapshot_arrived(500, 7, vec![]).unwrap().is_new_start);
        publisher.learn(100, 3, 8, 0);
        assert_eq!(publisher.steps(EVERY, 2000), []);
        assert_eq!(publisher.arrived(100, 3, vec![]), []);
    }

    #[test]
    fn claimed_starts_are_bounded() {
        let mut publisher = Publisher::default();
        publisher.learn(100, 1, 4, 0);
        publisher.steps(EVERY, 0);
        publisher.snapshot_arrived(100, 1, vec![]);
        for boot in 101..1000 {
            publisher.learn(boot, u64::MAX, 4, 0);
        }
        assert_eq!(publisher.starts().count(), 4);
        assert_eq!(publisher.current(), Some((100, 1, 1)));
        assert_eq!(publisher.steps(EVERY, 0), [Step::FindSnapshot { boot: 999 }]);
        publisher.learn(2000, 1, 4, 0);
        assert_eq!(publisher.steps(EVERY, 0), []);
    }

    #[test]
    fn failures_are_tried_again_less_and_less_often() {
        let mut publisher = Publisher::default();
        publisher.learn(100, 5, 8, 0);
        let mut now_ms = 0;
        let mut tries = 0;
        while now_ms < 1_000_000 {
            tries += publisher.steps(EVERY, now_ms).len();
            publisher.failed(100, None, now_ms);
            now_ms = publisher.retry_ms(now_ms).unwrap();
        }
        assert!((10..20).contains(&tries), "{tries}");
    }
}
