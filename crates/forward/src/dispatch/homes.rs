//! The homes of names that are in use, if a name is at home where it is first asked for.
//!
//! A keyed hash of a name can select its home. Then packets cross to another thread by chance: with N workers, all but
//! one in N. But most names are asked for once, or again by consumers of the same thread. So a worker *claims* a name
//! that no worker has, and keeps it as long as it has an entry for it in its PIT or content store. All workers see the
//! claims in one table, and give Interests for a claimed name to the worker that has it. So entries of one name still
//! meet in one place, as with a hash.
//!
//! The table has lines of 64 bytes: a head and seven claims. A name's digest selects the line, and a claim has 34 further
//! bits of it. Two names that agree in all of these have one home, which does no harm. A claim counts the entries of its
//! name. It is free while the count is 0. Anybody may take a free claim, by compare-and-swap. Only its worker changes a
//! claim that is taken, by plain stores.
//!
//! Two workers could take two claims of a line for the same name. So the head has a version. A worker reads it before
//! it looks for the name, and raises it by compare-and-swap after it has taken a claim. If that fails, somebody else took
//! a claim of this line meanwhile. Then the worker frees its own, and looks again. Others may have seen that claim, and
//! give the worker a packet for it. So a worker that is given an Interest looks again, too.
//!
//! If a line is full, a name without a claim is at home where its hash says. The head counts the entries of such names.
//! While there are any, nobody claims anything in this line. If the tables are full and no two entries have the same name,
//! about one name in 180 finds its line full.
//!
//! Cost for an Interest: one cache line, which it waits for together with others of its burst, and two locked
//! instructions. An entry that ends writes to that line once more.

use std::sync::Arc;

use byname_lookup::memory::{self, Refused};
use byname_lookup::prefetch;
use byname_wire::NameRef;

use super::rule::Rule;
use crate::sync::{AtomicU64, Ordering};

/// Claims in a line.
const CLAIMS: usize = if cfg!(loom) { 2 } else { 7 };
/// Entries for which there is a line.
const ENTRIES_PER_LINE: usize = 3;
/// Maximum of lines.
const LINES_MAX: usize = 1 << 26;

/// Bits of a claim that count entries.
const COUNT: u64 = (1 << 24) - 1;
/// A claim does not count beyond this.
const COUNT_MAX: u64 = COUNT;
/// The worker is in the bits from here on.
const WORKER_SHIFT: u32 = 24;
/// Bits of a claim that are those of the name's digest.
const TAG: u64 = !0 << 30;

/// Bits of a head that count entries of names without a claim.
const UNCLAIMED: u64 = (1 << 32) - 1;
/// One version of a head.
const VERSION: u64 = 1 << 32;

/// Where the entries of a name are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// They are not counted.
    pub const NONE: Place = Place(u32::MAX);
}

impl Default for Place {
    fn default() -> Self {
        Place::NONE
    }
}

/// What a worker knows of a name that is at home in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub check: u64,
    pub place: Place,
}

/// The home of a name that a worker has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The worker that asked, which has entries for it. Its claim counts these only.
    Here(Place),
    /// The worker that asked, which has just claimed it. The claim counts one entry more until somebody leaves the place.
    New(Place),
    /// Another worker.
    At(usize),
}

/// The claims of all workers.
pub(super) struct Homes {
    /// A power of two.
    lines: Vec<Line>,
}

#[repr(align(64))]
struct Line {
    head: AtomicU64,
    claims: [AtomicU64; CLAIMS],
}

#[derive(Clone, Copy)]
struct Claim(u64);

impl Claim {
    fn new(check: u64, worker: usize) -> Claim {
        Claim((check & TAG) | ((worker as u64) << WORKER_SHIFT) | 1)
    }

    #[inline]
    fn count(self) -> u64 {
        self.0 & COUNT
    }

    #[inline]
    fn is_of(self, check: u64) -> bool {
        (self.0 ^ check) & TAG == 0 && self.count() > 0
    }

    #[inline]
    fn worker(self) -> usize {
        ((self.0 & !TAG) >> WORKER_SHIFT) as usize
    }
}

impl Homes {
    /// No claims, with room for those of `entries` entries.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(entries: usize) -> Result<Self, Refused> {
        let len = lines_for(entries);
        let mut lines = memory::with_large_pages(len)?;
        let line = || Line { head: AtomicU64::new(0), claims: std::array::from_fn(|_| AtomicU64::new(0)) };
        lines.extend(std::iter::repeat_with(line).take(len));
        Ok(Homes { lines })
    }

    fn number(&self, check: u64) -> usize {
        check as usize & (self.lines.len() - 1)
    }

    /// The worker that has a name. `by_hash` has it if there is no room for a claim; `None`: anybody may claim it.
    #[inline]
    fn find(&self, check: u64, by_hash: usize) -> Option<usize> {
        let line = &self.lines[self.number(check)];
        let mut has_room = false;
        // A worker that is given the packet looks again, so what is seen may be old.
        for claim in line.claims.iter().map(|claim| Claim(claim.load(Ordering::Relaxed))) {
            if claim.is_of(check) {
                return Some(claim.worker());
            }
            has_room |= claim.count() == 0;
        }
        let is_full = !has_room || line.head.load(Ordering::Relaxed) & UNCLAIMED != 0;
        is_full.then_some(by_hash)
    }

    /// Holds a name for worker `here`, or says who has it. `by_hash` is its home if there is no room for a claim, or if it
    /// has none and `claims` is not set.
    #[inline]
    fn hold(&self, check: u64, here: usize, by_hash: usize, claims: bool) -> Held {
        let number = self.number(check);
        let line = &self.lines[number];
        let place = |at: usize| Place((number * (CLAIMS + 1) + at) as u32);
        loop {
            // Acquire: the claims that were taken before this version are seen.
            let head = line.head.load(Ordering::Acquire);
            let mut free = None;
            for (at, word) in line.claims.iter().enumerate() {
                let claim = Claim(word.load(Ordering::Relaxed));
                if !claim.is_of(check) {
                    free = free.or((claim.count() == 0).then_some((at, claim)));
                } else if claim.worker() != here {
                    return Held::At(claim.worker());
                } else {
                    return Held::Here(place(at));
                }
            }
            let raised = head.wrapping_add(VERSION);
            if !claims && by_hash != here {
                return Held::At(by_hash);
            }
            match free.filter(|_| head & UNCLAIMED == 0) {
                Some((at, Claim(free))) => {
                    let (word, Claim(own)) = (&line.claims[at], Claim::new(check, here));
                    if word.compare_exchange(free, own, Ordering::Acquire, Ordering::Relaxed).is_err() {
                        continue;
                    }
                    // Release: who sees the version sees the claim.
                    if line.head.compare_exchange(head, raised, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                        return Held::New(place(at));
                    }
                    word.store(0, Ordering::Release);
                }
                None if by_hash != here => return Held::At(by_hash),
                None => {
                    if line.head.compare_exchange(head, raised + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                        return Held::New(place(CLAIMS));
                    }
                }
            }
        }
    }

    /// The counter of a place: a claim of the caller, or a head.
    #[inline]
    fn counter(&self, place: Place) -> Option<Counter<'_>> {
        let line = self.lines.get(place.0 as usize / (CLAIMS + 1))?;
        let at = place.0 as usize % (CLAIMS + 1);
        Some(line.claims.get(at).map_or(Counter::Head(&line.head), Counter::Claim))
    }

    /// Counts one more entry of a name that worker `here` has. Returns false if it has it no more, or if the claim counts
    /// no further.
    #[inline]
    fn enter(&self, check: u64, place: Place, here: usize) -> bool {
        match self.counter(place) {
            Some(Counter::Claim(word)) => {
                let claim = Claim(word.load(Ordering::Relaxed));
                let is_ours = claim.is_of(check) && claim.worker() == here && claim.count() < COUNT_MAX;
                if is_ours {
                    // Nobody else writes a claim that is taken.
                    word.store(claim.0 + 1, Ordering::Relaxed);
                }
                is_ours
            }
            Some(Counter::Head(head)) => {
                head.fetch_add(1, Ordering::Relaxed);
                true
            }
            None => false,
        }
    }

    /// Counts one entry less.
    #[inline]
    fn leave(&self, place: Place) {
        match self.counter(place) {
            Some(Counter::Claim(word)) => {
                let claim = Claim(word.load(Ordering::Relaxed));
                debug_assert!(claim.count() > 0);
                // Release: who claims the name next sees what was done for it here.
                word.store(if claim.count() == 1 { 0 } else { claim.0 - 1 }, Ordering::Release);
            }
            Some(Counter::Head(head)) => _ = head.fetch_sub(1, Ordering::Release),
            None => {}
        }
    }
}

/// Number of lines for the claims of `entries` entries.
fn lines_for(entries: usize) -> usize {
    (entries / ENTRIES_PER_LINE).clamp(1, LINES_MAX).next_power_of_two()
}

/// Memory of the claims of `entries` entries, in bytes.
pub fn claims_bytes(entries: usize) -> usize {
    lines_for(entries) * size_of::<Line>()
}

enum Counter<'a> {
    Claim(&'a AtomicU64),
    Head(&'a AtomicU64),
}

/// One worker's access to the homes of names.
///
/// Entries that end, and claims that have got no entry, are counted at the end of a round ([`Residence::settle`]). So a
/// name that was at home here when a packet came is so until the packet is handled, and the lines of all of them are
/// waited for together.
pub(crate) struct Residence {
    homes: Arc<Homes>,
    rule: Rule,
    here: usize,
    /// Where entries have ended in this round, or claims count one entry more.
    leaving: Vec<Place>,
}

impl Residence {
    pub(super) fn new(homes: Arc<Homes>, rule: Rule, here: usize) -> Self {
        Residence { homes, rule, here, leaving: Vec::new() }
    }

    /// That of another worker.
    pub(super) fn of_another(&self, here: usize) -> Self {
        Residence::new(Arc::clone(&self.homes), self.rule, here)
    }

    /// The rule for names without a claim. Names must be hashed at its deciding depth.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The worker that has a name, whose digest at the deciding depth has this check; `None`: anybody may claim it.
    #[inline]
    pub(super) fn find(&self, check: u64) -> Option<usize> {
        self.homes.find(check, self.rule.worker_of(check))
    }

    /// The other worker that may have a name, which is not hashed, if there is one.
    pub fn elsewhere(&self, name: NameRef<'_>) -> Option<usize> {
        self.find(self.rule.check_of(name)).filter(|worker| *worker != self.here)
    }

    /// Prefetches what [`Residence::hold`] reads.
    #[inline]
    pub fn prefetch(&self, check: u64) {
        // Not for writing: that would take lines of names in use away from other workers, which may only be read here.
        prefetch::read(&self.homes.lines[self.homes.number(check)]);
    }

    /// Makes this worker the home of a name with this check, if nobody is.
    #[inline]
    pub fn hold(&self, check: u64) -> Held {
        self.homes.hold(check, self.here, self.rule.worker_of(check), true)
    }

    /// As [`Residence::hold`], but claims only what a hash gives to this worker.
    pub(super) fn hold_claimed(&self, check: u64) -> Held {
        self.homes.hold(check, self.here, self.rule.worker_of(check), false)
    }

    /// Counts an entry of a name that is not hashed. Returns where: [`Place::NONE`] if another worker has the name.
    pub fn enter_name(&self, name: NameRef<'_>) -> Place {
        let check = self.rule.check_of(name);
        match self.hold(check) {
            Held::New(place) => place,
            Held::Here(place) if self.homes.enter(check, place, self.here) => place,
            Held::Here(_) | Held::At(_) => Place::NONE,
        }
    }

    /// Counts an entry of a name that was at home here when its packet came. Returns where.
    #[inline]
    pub fn enter(&self, home: Home) -> Place {
        match self.homes.enter(home.check, home.place, self.here) {
            true => home.place,
            // The claim counts no further.
            false => Place::NONE,
        }
    }

    /// Notes that an entry has ended, or that a claim was made in this round.
    #[inline]
    pub fn leave(&mut self, place: Place) {
        if place != Place::NONE {
            self.leaving.push(place);
        }
    }

    /// Counts what has ended in this round.
    pub fn settle(&mut self) {
        for place in &self.leaving {
            prefetch::read(&self.homes.lines[place.0 as usize / (CLAIMS + 1)]);
        }
        self.leaving.drain(..).for_each(|place| self.homes.leave(place));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const WORKERS: usize = 3;

    fn by_hash(check: u64) -> usize {
        (((check >> 32) * WORKERS as u64) >> 32) as usize
    }

    /// All workers hold and leave names, more than the table has claims for. A model says who has what.
    #[test]
    fn a_name_has_one_home_while_it_is_held() {
        let mut rng = SmallRng::seed_from_u64(5);
        let homes = Homes::new(16 * ENTRIES_PER_LINE).expect("a few lines");
        let checks: Vec<u64> = (0..100).map(|_| rng.random()).collect();
        let mut held: HashMap<u64, (usize, Vec<Place>)> = HashMap::new();
        let (mut claimed, mut unclaimed) = (0, 0);
        for round in 0..200_000 {
            let check = checks[rng.random_range(0..checks.len())];
            // The table fills and empties.
            if rng.random_bool(if round / 20_000 % 2 == 0 { 0.6 } else { 0.4 }) {
                let worker = rng.random_range(0..WORKERS);
                let known = held.get(&check).map(|(home, _)| *home);
                match homes.hold(check, worker, by_hash(check), true) {
                    Held::At(home) => {
                        assert!(home != worker && known.unwrap_or(by_hash(check)) == home);
                    }
                    Held::Here(place) => {
                        assert_eq!(known, Some(worker));
                        assert!(homes.enter(check, place, worker));
                        held.get_mut(&check).expect("it is known").1.push(place);
                    }
                    Held::New(place) => {
                        let is_claim = matches!(homes.counter(place), Some(Counter::Claim(_)));
                        assert!(known.is_none_or(|home| !is_claim && home == worker), "of {known:?}");
                        assert!(is_claim || worker == by_hash(check));
                        *(if is_claim { &mut claimed } else { &mut unclaimed }) += 1;
                        assert_eq!(homes.find(check, by_hash(check)), Some(worker));
                        assert!(homes.enter(check, place, worker));
                        homes.leave(place);
                        held.entry(check).or_insert((worker, Vec::new())).1.push(place);
                    }
                }
            } else if let Some((_, places)) = held.get_mut(&check) {
                homes.leave(places.pop().expect("empty ones are removed"));
                if places.is_empty() {
                    held.remove(&check);
                    assert!(homes.find(check, by_hash(check)).is_none_or(|home| home == by_hash(check)));
                }
            }
        }
        assert!(claimed > 5_000 && unclaimed > 5_000, "{claimed} {unclaimed}");
        held.into_values().for_each(|(_, places)| places.into_iter().for_each(|place| homes.leave(place)));
        let is_empty = |line: &Line| {
            line.head.load(Ordering::Relaxed) & UNCLAIMED == 0
                && line.claims.iter().all(|claim| claim.load(Ordering::Relaxed) == 0)
        };
        assert!(homes.lines.iter().all(is_empty));
    }

    #[test]
    fn a_claim_counts_only_entries_of_its_name_and_worker_and_not_without_end() {
        let homes = Homes::new(1).expect("a line");
        let Held::New(place) = homes.hold(7 << 40, 2, 0, true) else { panic!("nobody has it") };
        assert_eq!(homes.hold(7 << 40, 2, 0, true), Held::Here(place));
        assert_eq!(homes.hold(7 << 40, 1, 0, true), Held::At(2));
        assert_eq!(homes.hold(8 << 40, 1, 0, false), Held::At(0));
        assert!(!homes.enter(8 << 40, place, 2) && !homes.enter(7 << 40, place, 1));
        let Some(Counter::Claim(word)) = homes.counter(place) else { panic!("there is room") };
        word.fetch_add(COUNT_MAX - 1, Ordering::Relaxed);
        assert!(!homes.enter(7 << 40, place, 2) && !homes.enter(7 << 40, Place::NONE, 2));
        homes.leave(place);
        assert!(homes.enter(7 << 40, place, 2));
        word.fetch_sub(COUNT_MAX - 1, Ordering::Relaxed);
        homes.leave(place);
        assert!(!homes.enter(7 << 40, place, 2));
        homes.leave(Place::NONE);
    }

    /// Threads claim the same names at once. A thread that has a name marks it, and nobody else may have marked it.
    #[test]
    fn threads_never_have_a_name_at_once() {
        let homes = Homes::new(4 * ENTRIES_PER_LINE).expect("a few lines");
        let checks: Vec<u64> = (0..40u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let owners: Vec<AtomicU64> = checks.iter().map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (homes, checks, owners) = (&homes, &checks, &owners);
                scope.spawn(move || {
                    let mut rng = SmallRng::seed_from_u64(worker as u64);
                    for _ in 0..100_000 {
                        let name = rng.random_range(0..checks.len());
                        if let Held::New(place) = homes.hold(checks[name], worker, by_hash(checks[name]), true) {
                            assert_eq!(owners[name].swap(worker as u64 + 1, Ordering::Relaxed), 0);
                            owners[name].store(0, Ordering::Relaxed);
                            homes.leave(place);
                        }
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// Two threads claim one name, while a third takes and leaves claims of the same line.
    #[test]
    fn two_threads_never_have_a_name_at_once() {
        loom::model(|| {
            let homes = Arc::new(Homes::new(1).expect("a line"));
            let has = Arc::new(AtomicU64::new(0));
            let other = Claim::new(9 << 40, 1).0;
            homes.lines[0].claims[0].store(other, Ordering::Relaxed);
            let claiming: Vec<_> = (0..2)
                .map(|worker| {
                    let (homes, has) = (Arc::clone(&homes), Arc::clone(&has));
                    loom::thread::spawn(move || {
                        if worker == 1 {
                            // Its own claim of another name ends, so the claims that are free change.
                            homes.leave(Place(0));
                        }
                        if let Held::New(place) = homes.hold(7 << 40, worker, 0, true) {
                            assert_eq!(has.fetch_add(1, Ordering::Relaxed), 0);
                            has.fetch_sub(1, Ordering::Relaxed);
                            homes.leave(place);
                        }
                    })
                })
                .collect();
            claiming.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
            assert_eq!(homes.find(7 << 40, 0), None);
        });
    }
}
