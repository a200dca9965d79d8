//! Chooses the length to probe next: the tree of [Yuan, Figure 1], for any number of lengths.
//!
//! The open lengths are `lo < length <= hi`. The next one is the length that is divisible by the
//! largest power of two. For rules of up to seven components this is the paper's tree: 4, then 2 or
//! 6, then 1, 3, 5 or 7. A rule is found through markers at the leading sums of its length's binary
//! digits: 7 = 4 + 2 + 1 has markers at 4 and 6. This does not depend on the maximum length. A
//! deeper rule adds a level at the top of the tree and moves no marker.
//!
//! The same markers serve a search that begins anywhere, which [Yuan §4] needs. If a length is
//! chosen from an interval, every deeper length of that interval has it among its leading sums,
//! because no other multiple of that power of two is open.

use std::cell::Cell;

use super::level::Slot;
use super::name_store::EntryRef;

/// The length from `lo + 1` to `hi` that is divisible by the largest power of two.
///
/// Requires `lo < hi`.
#[inline]
fn most_even(lo: usize, hi: usize) -> usize {
    hi & (usize::MAX << (lo ^ hi).ilog2())
}

/// The lengths at which a rule of `depth` components has markers, and `depth` itself, shortest
/// first.
pub(super) fn leading_sums(depth: usize) -> impl Iterator<Item = usize> {
    let next = move |sum: usize| (sum < depth).then(|| sum | 1 << (sum ^ depth).ilog2());
    std::iter::successors(next(0), move |&sum| next(sum))
}

/// A prefix of the name that a table has, unless the fingerprint is a false positive.
#[derive(Debug, Clone, Copy)]
pub(in crate::prefix) struct Hit {
    pub(in crate::prefix) entry: EntryRef,
    pub(in crate::prefix) depth: usize,
}

/// The state of one search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// Length of the deepest prefix found; zero if none was found yet.
    lo: usize,
    /// The maximum length that is still possible.
    hi: usize,
    /// The length to probe next.
    at: usize,
    /// The entry of the deepest prefix found.
    entry: EntryRef,
}

impl Search {
    /// A search over the lengths from 1 to `hi`.
    #[inline]
    pub(super) fn up_to(hi: usize) -> Self {
        Search { lo: 0, hi, at: if hi > 0 { most_even(0, hi) } else { 0 }, entry: EntryRef(0) }
    }

    /// A search below a prefix that is known to exist. All its children have their prefix in the
    /// next table, so that table is probed first [Yuan §4].
    #[inline]
    pub(super) fn below(hit: Hit, hi: usize) -> Self {
        Search { lo: hit.depth, hi, at: hit.depth + 1, entry: hit.entry }
    }

    /// The length to probe next. `None` if the search has ended.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        (self.lo < self.hi).then_some(self.at)
    }

    /// Records what the table of the current length had.
    #[inline]
    pub(super) fn take(&mut self, found: Option<Slot>) {
        match found {
            Some(slot) => {
                self.lo = self.at;
                self.entry = slot.entry();
                if slot.is_leaf() {
                    self.hi = self.lo;
                }
            }
            None => self.hi = self.at - 1,
        }
        if self.lo < self.hi {
            self.at = most_even(self.lo, self.hi);
        }
    }

    /// The deepest prefix found.
    #[inline]
    pub(super) fn hit(&self) -> Option<Hit> {
        (self.lo > 0).then_some(Hit { entry: self.entry, depth: self.lo })
    }
}

/// Counts what a lookup does. The implementation for real lookups counts nothing.
pub(super) trait Tally {
    /// The lookup probes a table.
    fn lookup(&self);
    /// The lookup reads cache lines.
    fn lines(&self, lines: usize);
}

impl Tally for () {
    #[inline]
    fn lookup(&self) {}
    #[inline]
    fn lines(&self, _: usize) {}
}

/// The cost of one lookup.
#[derive(Default)]
pub(super) struct Count {
    pub(super) lookups: Cell<usize>,
    pub(super) lines: Cell<usize>,
}

impl Tally for Count {
    fn lookup(&self) {
        self.lookups.set(self.lookups.get() + 1);
    }
    fn lines(&self, lines: usize) {
        self.lines.set(self.lines.get() + lines);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// [Yuan Figure 1]: up to seven components, at most three tables.
    #[test]
    fn visits_the_tables_of_the_figure() {
        let path = |present: usize| {
            let (mut search, mut path) = (Search::up_to(7), Vec::new());
            while let Some(at) = search.next() {
                path.push(at);
                search.take((at <= present).then(|| Slot::of_test(EntryRef(0))));
            }
            path
        };
        assert_eq!(path(7), [4, 6, 7]);
        assert_eq!(path(6), [4, 6, 7]);
        assert_eq!(path(5), [4, 6, 5]);
        assert_eq!(path(4), [4, 6, 5]);
        assert_eq!(path(3), [4, 2, 3]);
        assert_eq!(path(1), [4, 2, 1]);
    }

    #[test]
    fn markers_are_where_any_search_comes_by() {
        assert!(leading_sums(7).eq([4, 6, 7]));
        assert!(leading_sums(128).eq([128]));
        assert!(leading_sums(0).eq([]));
        for depth in 1..=128 {
            let sums: Vec<_> = leading_sums(depth).collect();
            for lo in 0..depth {
                for hi in depth..=128 {
                    let (mut lo, mut hi) = (lo, hi);
                    while lo < hi {
                        let at = most_even(lo, hi);
                        assert!(at > depth || sums.contains(&at));
                        (lo, hi) = if at <= depth { (at, hi) } else { (lo, at - 1) };
                    }
                    assert_eq!(lo, depth);
                }
            }
        }
    }
}
