//! The query half, which readers walk.

use std::array;
use std::io;
use std::sync::{Arc, OnceLock};

use byname_wire::NameView;
use byname_wire::name_hash::DEPTHS;

use super::level::{Level, Slot};
use super::name_store::NameStore;
use super::search::{Count, Hit, Search, Tally};
use super::{Options, Prefetch, Strategy};
use crate::entry::EntryId;
use crate::prefix::level_pulling::CTrie;
use crate::prefix::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::sync::{AtomicU64, Ordering};

/// How often a lookup that changes disturb is tried. Then the last answer stands.
const TRIES_MAX: usize = 8;

/// State that all tables of an engine share, from the first to the newest.
pub(super) struct Shared {
    /// The rule `/`: its entry plus one, or zero. Markers do not inherit it, so it changes in one
    /// write.
    root: AtomicU64,
    /// The deepest length that has prefixes.
    deepest: AtomicU64,
    /// Two for each completed change, and one more during a change.
    changes: AtomicU64,
}

impl Shared {
    pub(super) fn root(&self) -> Option<PrefixMatch> {
        let entry = self.root.load(Ordering::Acquire).checked_sub(1)?;
        Some(PrefixMatch { entry: EntryId(entry as u32), depth: 0 })
    }

    /// For the writer.
    pub(super) fn set_root(&self, entry: Option<EntryId>) {
        self.root.store(entry.map_or(0, |entry| u64::from(entry.0) + 1), Ordering::Release);
    }

    pub(super) fn deepest(&self) -> usize {
        self.deepest.load(Ordering::Acquire) as usize
    }

    /// For the writer.
    pub(super) fn set_deepest(&self, deepest: usize) {
        self.deepest.store(deepest as u64, Ordering::Release);
    }

    /// Counts the beginning or the end of a change. For the writer.
    pub(super) fn count_change(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Whether at most one change went on since `before` was read. One change is harmless, because
    /// each single write leads from an answer before it to one after it.
    fn at_most_one_since(&self, before: u64) -> bool {
        // The walk's loads are acquire loads. If one had seen a later change, this one would see
        // its count.
        self.changes.load(Ordering::Relaxed).div_ceil(2) - before / 2 <= 1
    }
}

/// One table for each prefix length, and all names.
pub(super) struct Table {
    /// Indexed by length.
    levels: Box<[OnceLock<Arc<Level>>]>,
    pub(super) names: Arc<NameStore>,
    pub(super) shared: Arc<Shared>,
    /// The starting points of searches below popular prefixes [Yuan §4].
    pub(super) start: Option<Arc<CTrie>>,
    strategy: Strategy,
    prefetch: Prefetch,
    /// The table that replaces this one. Only that table is changed, so readers go there.
    next: OnceLock<Arc<Table>>,
    /// One after `next` was set. A separate atomic, which models follow.
    replaced: AtomicU64,
}

impl Table {
    pub(super) fn new(options: &Options, start: Option<Arc<CTrie>>) -> io::Result<Self> {
        let word = || AtomicU64::new(0);
        Ok(Table {
            levels: (0..DEPTHS).map(|_| OnceLock::new()).collect(),
            names: Arc::new(NameStore::new(options.pages)?),
            shared: Arc::new(Shared { root: word(), deepest: word(), changes: word() }),
            start,
            strategy: options.strategy,
            prefetch: options.prefetch,
            next: OnceLock::new(),
            replaced: AtomicU64::new(0),
        })
    }

    /// A copy that shares all parts.
    pub(super) fn fork(&self) -> Self {
        Table {
            levels: self.levels.clone(),
            names: self.names.clone(),
            shared: self.shared.clone(),
            start: self.start.clone(),
            strategy: self.strategy,
            prefetch: self.prefetch,
            next: OnceLock::new(),
            replaced: AtomicU64::new(0),
        }
    }

    /// Sends readers to `next`. For the writer, once.
    pub(super) fn replace_by(&self, next: Arc<Table>) {
        let fresh = self.next.set(next).is_ok();
        assert!(fresh, "a table is replaced once");
        self.replaced.store(1, Ordering::Release);
    }

    pub(super) fn level(&self, depth: usize) -> Option<&Arc<Level>> {
        self.levels[depth].get()
    }

    /// The table of this length, made for its first prefix. For the writer.
    pub(super) fn level_or(&self, depth: usize, make: impl FnOnce() -> Level) -> &Arc<Level> {
        self.levels[depth].get_or_init(|| Arc::new(make()))
    }

    /// For a table that no reader uses yet.
    pub(super) fn set_level(&mut self, depth: usize, level: Level) {
        self.levels[depth] = OnceLock::from(Arc::new(level));
    }

    /// The slot of the first `depth` components, after comparing the name.
    pub(super) fn find(&self, name: &NameView<'_>, depth: usize) -> Option<Slot> {
        self.probe(self.level(depth)?, name, depth, Strategy::Always, &())
    }

    /// The deepest rule of 1 to `hi` components that covers `name`.
    pub(super) fn match_up_to(&self, name: &NameView<'_>, hi: usize) -> Option<PrefixMatch> {
        self.covered_by(self.search(name, Search::up_to(hi), Strategy::Always, &()).hit()?)
    }

    /// Counts the cost of a lookup of `name`.
    pub(super) fn count(&self, name: &NameView<'_>) -> Count {
        let count = Count::default();
        self.longest(name, &count);
        count
    }

    fn longest(&self, name: &NameView<'_>, tally: &impl Tally) -> Option<PrefixMatch> {
        let search = self.begin(name, tally);
        match self.prefetch {
            Prefetch::None | Prefetch::Burst => {}
            Prefetch::First => self.prefetch_bucket(name, &search),
            Prefetch::All => self.prefetch_all(name),
        }
        let search = self.search(name, search, self.strategy, tally);
        self.conclude(name, &search, tally)
    }

    /// Chooses where the search begins.
    #[inline]
    fn begin(&self, name: &NameView<'_>, tally: &impl Tally) -> Search {
        let hi = self.shared.deepest().min(name.len());
        let mut search = Search::up_to(hi);
        if let Some(start) = &self.start
            && let Some(hit) = start.deepest(name)
            && (self.strategy == Strategy::AtEnd || self.is(name, hit, tally))
        {
            search = Search::below(hit, hi.max(hit.depth));
        }
        self.skip_absent(&mut search);
        search
    }

    /// Skips lengths without a table.
    #[inline]
    fn skip_absent(&self, search: &mut Search) {
        while search.next().is_some_and(|at| self.level(at).is_none()) {
            search.take(None);
        }
    }

    fn search(&self, name: &NameView<'_>, mut search: Search, strategy: Strategy, tally: &impl Tally) -> Search {
        while let Some(at) = search.next() {
            search.take(self.level(at).and_then(|level| self.probe(level, name, at, strategy, tally)));
        }
        search
    }

    #[inline]
    fn probe(
        &self,
        level: &Level,
        name: &NameView<'_>,
        depth: usize,
        strategy: Strategy,
        tally: &impl Tally,
    ) -> Option<Slot> {
        tally.lookup();
        level.matches(name.hash(depth), tally).find(|slot| {
            let believed = strategy == Strategy::AtEnd && !slot.is_collided();
            believed || self.is(name, Hit { entry: slot.entry(), depth }, tally)
        })
    }

    /// Whether a hit is real: compares the bytes.
    #[inline]
    fn is(&self, name: &NameView<'_>, hit: Hit, tally: &impl Tally) -> bool {
        self.names.entry(hit.entry).starts_with(name.prefix(hit.depth).value(), tally)
    }

    /// The answer of a finished search. Compares names now if that was not done before.
    #[inline]
    fn conclude(&self, name: &NameView<'_>, search: &Search, tally: &impl Tally) -> Option<PrefixMatch> {
        let mut hit = search.hit();
        if self.strategy == Strategy::AtEnd && hit.is_some_and(|hit| !self.is(name, hit, tally)) {
            let again = Search::up_to(self.shared.deepest().min(name.len()));
            hit = self.search(name, again, Strategy::Always, tally).hit();
        }
        hit.and_then(|hit| self.covered_by(hit)).or_else(|| self.shared.root())
    }

    #[inline]
    fn covered_by(&self, hit: Hit) -> Option<PrefixMatch> {
        self.names.entry(hit.entry).forwarding(hit.depth).covered_by
    }

    #[inline]
    fn prefetch_bucket(&self, name: &NameView<'_>, search: &Search) {
        if let Some(at) = search.next()
            && let Some(level) = self.level(at)
        {
            level.prefetch(name.hash(at));
        }
    }

    /// Prefetches the bucket of each prefix; the search will read a few of them [Yuan §3.3.3].
    fn prefetch_all(&self, name: &NameView<'_>) {
        for depth in 1..=self.shared.deepest().min(name.len()) {
            if let Some(level) = self.level(depth) {
                level.prefetch(name.hash(depth));
            }
        }
    }

    /// Advances all names in turn, step by step. Each step reads what the round before prefetched.
    fn longest_pipelined(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        let mut steps: [Step; BURST_MAX] = array::from_fn(|_| Step { search: Search::up_to(0), name_asked: false });
        let mut open: [u8; BURST_MAX] = array::from_fn(|i| i as u8);
        for (name, step) in names.iter().zip(&mut steps) {
            step.search = self.begin(name, &());
            self.prefetch_bucket(name, &step.search);
        }
        let mut left = names.len();
        while left > 0 {
            let mut kept = 0;
            for i in 0..left {
                let at = open[i];
                if self.advance(&names[usize::from(at)], &mut steps[usize::from(at)]) {
                    open[kept] = at;
                    kept += 1;
                }
            }
            left = kept;
        }
        for ((name, step), found) in names.iter().zip(&steps).zip(out) {
            *found = self.conclude(name, &step.search, &());
        }
    }

    /// Reads what was prefetched, and prefetches what comes next. Returns false if the search has
    /// ended.
    #[inline]
    fn advance(&self, name: &NameView<'_>, step: &mut Step) -> bool {
        let Some(at) = step.search.next() else { return false };
        let Some(level) = self.level(at) else { return false };
        if self.strategy == Strategy::Always
            && !step.name_asked
            && let Some(slot) = level.matches(name.hash(at), &()).next()
        {
            self.names.prefetch(slot.entry());
            step.name_asked = true;
            return true;
        }
        step.search.take(self.probe(level, name, at, self.strategy, &()));
        step.name_asked = false;
        self.skip_absent(&mut step.search);
        if step.search.next().is_some() {
            self.prefetch_bucket(name, &step.search);
            return true;
        }
        if let Some(hit) = step.search.hit() {
            self.names.prefetch(hit.entry);
        }
        false
    }

    /// The newest table. Rules change only there.
    #[inline]
    fn newest(&self) -> &Table {
        let mut table = self;
        while table.replaced.load(Ordering::Acquire) != 0 {
            table = table.next.get().expect("set before");
        }
        table
    }
}

/// One name of a burst.
struct Step {
    search: Search,
    /// The name entry is being fetched for comparison.
    name_asked: bool,
}

impl PrefixFib for Table {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let mut tries = 0;
        loop {
            // Acquire: the walk sees the changes counted here.
            let before = self.shared.changes.load(Ordering::Acquire);
            let found = self.newest().longest(name, &());
            tries += 1;
            if tries == TRIES_MAX || self.shared.at_most_one_since(before) {
                return found;
            }
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let overtaken = self.prefetch == Prefetch::Burst && {
            let before = self.shared.changes.load(Ordering::Acquire);
            self.newest().longest_pipelined(names, out);
            !self.shared.at_most_one_since(before)
        };
        if overtaken || self.prefetch != Prefetch::Burst {
            for (name, found) in names.iter().zip(out) {
                *found = self.longest_match(name);
            }
        }
    }

    fn depth_max(&self) -> usize {
        self.shared.deepest()
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        Some(self.newest().count(name).lines.get())
    }

    fn memory_bytes(&self) -> usize {
        let levels = self.levels.iter().filter_map(OnceLock::get).map(|level| level.memory_bytes());
        let start = self.start.as_ref().map_or(0, |start| start.memory_bytes());
        size_of::<Self>() + size_of_val(&*self.levels) + levels.sum::<usize>() + self.names.memory_bytes() + start
    }
}
