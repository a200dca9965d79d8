//! The query half of the engines of [So §2.3]: a compact-array hash table of rules [So §2.2],
//! walked in one stage or in two (Algorithm 1 of [So §2.3]).
//!
//! The first stage probes from the start depth M down. The second probes from the maximum depth MD
//! that the rule found at M gives. If no name exceeds the start depth, the first stage is the whole
//! walk: that is *longest-first*. Both engines share this table and differ in what their control
//! halves store in it.
//!
//! Differs:
//! - The query half keeps no names. The paper compares strings after equal 64-bit hashes. This table instead compares
//!   the keyed 64-bit hash, the depth, and 15 bits of the other half. That is all that fits beside the entry, so the
//!   comparison costs no cache line. A name that no rule covers at a depth is mistaken for one of n rules with
//!   probability n / 2^79: with a million rules, 1.7e-18 a probe. The key is secret, so nobody can search for such a
//!   name. Two *rules* are never confused. The control half keeps the full 128 bits of each, and refuses a name that
//!   the query half could not tell from another ([`BuildError::Collision`](crate::BuildError::Collision)).
//! - Depths without rules are not probed. The feature `lab` has a baseline that probes them.
//! - The root `/` may be a rule. It is the last probe.
//! - Rules change in place while readers look up. A lookup that overlaps at most one change gives
//!   the answer from before or after it. A lookup that overlaps more is repeated, because its
//!   probes could combine into an answer that was never right. The fourth try stands, which takes a
//!   writer that never pauses for the length of a lookup.

use std::sync::Arc;

use byname_wire::NameView;
use byname_wire::name_hash::DepthSet;

use super::depth_set::SharedDepthSet;
use super::rule_array::{Rule, RuleArray, RuleKey};
use super::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::bucket::BucketArray;
use crate::count::{Count, Counts};
use crate::sync::{AtomicU64, Ordering};

/// How often a lookup that changes disturb is tried. Then the last answer stands.
const TRIES_MAX: usize = 4;
/// How many names ahead buckets are prefetched.
const PREFETCH_AHEAD: usize = 4;
/// Maximum number of buckets to prefetch for one name, because a processor has few line-fill
/// buffers.
const PREFETCH_DEPTHS_MAX: usize = 12;

/// The buckets of the first stage that are prefetched [So §2.2]. The feature `lab` adds the
/// alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// None.
    #[cfg(feature = "lab")]
    None,
    /// Each bucket during the probe before its own.
    #[cfg(feature = "lab")]
    Cascade,
    /// All buckets of a name before its first probe.
    #[cfg(feature = "lab")]
    AllAtOnce,
    /// All buckets of a name while earlier names of the burst are looked up.
    #[default]
    AcrossBurst,
}

impl Prefetch {
    /// Whether lines are prefetched several probes ahead.
    fn is_ahead(self) -> bool {
        match self {
            #[cfg(feature = "lab")]
            Prefetch::None | Prefetch::Cascade => false,
            #[cfg(feature = "lab")]
            Prefetch::AllAtOnce => true,
            Prefetch::AcrossBurst => true,
        }
    }
}

/// Rules by the digest of their names. One writer, any number of readers.
pub(crate) struct RuleTable {
    pub(crate) buckets: BucketArray,
    pub(crate) rules: Arc<RuleArray>,
    pub(crate) depths: SharedDepthSet,
    /// M, the depth at which the first stage starts.
    start_depth: AtomicU64,
    /// Number of changes of rules begun on this table. Counted before each change, so that readers
    /// notice it.
    changes: AtomicU64,
    prefetch: Prefetch,
}

/// The depths at which a walk may find rules, read at one moment.
#[derive(Clone, Copy)]
struct Bounds {
    start_depth: usize,
    depths: DepthSet,
}

impl RuleTable {
    pub(crate) fn new(
        buckets: BucketArray,
        rules: Arc<RuleArray>,
        depths: DepthSet,
        start_depth: usize,
        prefetch: Prefetch,
    ) -> Self {
        RuleTable {
            buckets,
            rules,
            depths: SharedDepthSet::new(depths),
            start_depth: AtomicU64::new(start_depth as u64),
            changes: AtomicU64::new(0),
            prefetch,
        }
    }

    /// The same settings with other buckets.
    pub(crate) fn over(&self, buckets: BucketArray) -> Self {
        Self::new(buckets, self.rules.clone(), self.depths.load(), self.start_depth(), self.prefetch)
    }

    pub(crate) fn start_depth(&self) -> usize {
        self.start_depth.load(Ordering::Relaxed) as usize
    }

    /// Publishes a start depth. All virtual rules and maximum depths for it are in the table. This
    /// is not a change, because each walk keeps the start depth that it began with. For the writer.
    pub(crate) fn set_start_depth(&self, depth: usize) {
        self.start_depth.store(depth as u64, Ordering::Release);
    }

    /// Notes that a change of one rule is about to become visible. For the writer.
    pub(crate) fn begin_change(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes + 1, Ordering::Release);
    }

    /// The rule that readers take for this key's, with its index.
    #[inline(always)]
    pub(crate) fn find(&self, key: &RuleKey, count: &mut impl Count) -> Option<(u32, Rule)> {
        self.buckets.find(key.hash, count, |index, count| {
            count.line();
            self.rules.rule(index, key).map(|rule| (index, rule))
        })
    }

    /// The cost of one lookup.
    pub(crate) fn counts(&self, name: &NameView<'_>) -> Counts {
        let mut counts = Counts::default();
        self.walk(self.bounds(), name, &mut counts);
        counts
    }

    #[inline]
    fn bounds(&self) -> Bounds {
        // Acquire: a reader that sees a start depth sees what was stored for it.
        Bounds { start_depth: self.start_depth.load(Ordering::Acquire) as usize, depths: self.depths.load() }
    }

    #[inline(always)]
    fn walk(&self, bounds: Bounds, name: &NameView<'_>, count: &mut impl Count) -> Option<PrefixMatch> {
        self.stage::<false>(bounds, name.len().min(bounds.start_depth), None, name, count)
    }

    /// Probes from depth `top` down. In the second stage, `at_start` is what the first found at the
    /// start depth.
    // One loop for both stages. Always inlined: a call makes it slower by half.
    #[inline(always)]
    fn stage<const SECOND: bool>(
        &self,
        bounds: Bounds,
        top: usize,
        at_start: Option<Rule>,
        name: &NameView<'_>,
        count: &mut impl Count,
    ) -> Option<PrefixMatch> {
        let mut depths = bounds.depths.down_from(top);
        let mut next = depths.next();
        while let Some(depth) = next {
            next = depths.next();
            #[cfg(feature = "lab")]
            if self.prefetch == Prefetch::Cascade
                && let Some(next) = next
            {
                self.buckets.prefetch(name.hash(next));
            }
            let rule = match at_start {
                Some(rule) if SECOND && depth == bounds.start_depth => rule,
                _ => {
                    count.probe();
                    let Some((_, rule)) = self.find(&RuleKey::of_prefix(name, depth), count) else {
                        if SECOND && depth == top && self.prefetch.is_ahead() {
                            // Most names end at the first probe. Others may be garbage that is
                            // meant to walk all the way, so their lines are fetched together.
                            self.prefetch(bounds, name, depth - 1);
                        }
                        continue;
                    };
                    rule
                }
            };
            // Maximum depths at other depths belong to an earlier or later start depth.
            let goes_deeper = depth == bounds.start_depth && rule.depth_max > depth && name.len() > depth;
            if goes_deeper && !SECOND {
                return self.second_stage(bounds, rule, name, count);
            }
            if let Some(entry) = rule.entry {
                return Some(PrefixMatch { entry, depth });
            }
        }
        None
    }

    // Out of line, because most lookups end in the first stage.
    #[inline(never)]
    fn second_stage(
        &self,
        bounds: Bounds,
        at_start: Rule,
        name: &NameView<'_>,
        count: &mut impl Count,
    ) -> Option<PrefixMatch> {
        self.stage::<true>(bounds, name.len().min(at_start.depth_max), Some(at_start), name, count)
    }

    /// Prefetches the buckets that the first stage will probe.
    #[inline(always)]
    fn prefetch_first(&self, bounds: Bounds, name: &NameView<'_>) {
        self.prefetch(bounds, name, name.len().min(bounds.start_depth));
    }

    #[inline(always)]
    fn prefetch(&self, bounds: Bounds, name: &NameView<'_>, top: usize) {
        for depth in bounds.depths.down_from(top).take(PREFETCH_DEPTHS_MAX) {
            self.buckets.prefetch(name.hash(depth));
        }
    }
}

impl PrefixFib for RuleTable {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut tries = 0;
        loop {
            // Acquire: the probes below see all changes before the one counted here.
            let changes = self.changes.load(Ordering::Acquire);
            let bounds = self.bounds();
            #[cfg(feature = "lab")]
            if self.prefetch == Prefetch::AllAtOnce {
                self.prefetch_first(bounds, name);
            }
            let found = self.walk(bounds, name, &mut ());
            tries += 1;
            // Probes are acquire loads. If one had seen a later change, this load would see its
            // count.
            if self.changes.load(Ordering::Relaxed) == changes || tries == TRIES_MAX {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let ahead = match self.prefetch {
            #[cfg(feature = "lab")]
            Prefetch::None | Prefetch::Cascade => names.len(),
            #[cfg(feature = "lab")]
            Prefetch::AllAtOnce => 0,
            Prefetch::AcrossBurst => PREFETCH_AHEAD,
        };
        let changes = self.changes.load(Ordering::Acquire);
        let bounds = self.bounds();
        if self.prefetch == Prefetch::AcrossBurst {
            for name in names.iter().take(ahead) {
                self.prefetch_first(bounds, name);
            }
        }
        for (i, (name, found)) in names.iter().zip(&mut *out).enumerate() {
            if let Some(later) = names.get(i + ahead) {
                self.prefetch_first(bounds, later);
            }
            *found = self.walk(bounds, name, &mut ());
        }
        if self.changes.load(Ordering::Relaxed) != changes {
            for (name, found) in names.iter().zip(out) {
                *found = self.longest_match(name);
            }
        }
    }

    fn depth_max(&self) -> usize {
        self.bounds().depths.deepest()
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        Some(self.counts(name).lines)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.memory_bytes() + self.rules.memory_bytes()
    }
}
