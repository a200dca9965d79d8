//! A hashed timer wheel: one timer for each slot of a table, set and cleared in constant time.
//!
//! Timers are links in doubly linked lists, one list for each bucket of about a millisecond. A deadline beyond the
//! length of the wheel stays in its bucket for another round.

use byname_lookup::{memory, prefetch};

use crate::ticks::Ticks;

/// No slot.
const NONE: u32 = u32::MAX;
/// A bucket spans 2^20 ns.
const BUCKET_SHIFT: u32 = 20;
/// Number of buckets in the wheel, which spans about 8.6 s.
const BUCKETS: usize = 8192;

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
    /// Determines the bucket of the link. `NEVER` when the timer is not set.
    deadline: Ticks,
}

/// No deadline.
const NEVER: Ticks = Ticks(u64::MAX);
const UNSET: Link = Link { prev: NONE, next: NONE, deadline: NEVER };

// Four links fill a cache line, and none crosses two.
const _: () = assert!(size_of::<Link>() == 16);

impl Link {
    fn bucket(&self) -> usize {
        ((self.deadline.0 >> BUCKET_SHIFT) % BUCKETS as u64) as usize
    }
}

/// A set of buckets: a bit for each bucket, and a bit for each word of these that is not zero. The next deadline is
/// mostly seconds away, so a burst's search for it passes 4,096 buckets per step.
struct Occupied {
    words: Box<[u64; BUCKETS / 64]>,
    filled: [u64; BUCKETS / 64 / 64],
}

impl Default for Occupied {
    fn default() -> Self {
        Occupied { words: Box::new([0; _]), filled: [0; _] }
    }
}

impl Occupied {
    fn insert(&mut self, bucket: usize) {
        let word = bucket / 64;
        self.words[word] |= 1 << (bucket % 64);
        self.filled[word / 64] |= 1 << (word % 64);
    }

    fn remove(&mut self, bucket: usize) {
        let word = bucket / 64;
        self.words[word] &= !(1 << (bucket % 64));
        if self.words[word] == 0 {
            self.filled[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The first bucket in the set at or after this one.
    fn first_from(&self, bucket: usize) -> Option<usize> {
        let word = bucket / 64;
        let bits = self.words[word] & (!0 << (bucket % 64));
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        // Nothing is left in this word: search the words after it.
        let next = word + 1;
        let word = (next / 64..self.filled.len()).find_map(|i| {
            let filled = self.filled[i] & if i == next / 64 { !0 << (next % 64) } else { !0 };
            (filled != 0).then(|| i * 64 + filled.trailing_zeros() as usize)
        })?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

/// Deadlines of the slots of a table.
pub struct TimerWheel {
    heads: Box<[u32]>,
    /// Buckets that have a timer.
    occupied: Occupied,
    links: Vec<Link>,
    /// The first bucket that was not passed yet, counted from time zero.
    current: u64,
    /// A time and a slot: at that time, the timers before this slot in the current bucket are not due.
    resume: Option<(Ticks, u32)>,
    set: usize,
}

impl TimerWheel {
    /// A wheel without timers, at time `now`.
    pub fn new(now: Ticks) -> Self {
        TimerWheel {
            heads: vec![NONE; BUCKETS].into(),
            occupied: Occupied::default(),
            links: Vec::new(),
            current: now.0 >> BUCKET_SHIFT,
            resume: None,
            set: 0,
        }
    }

    /// Sets the timer of `slot` and replaces an earlier deadline.
    pub fn set(&mut self, slot: u32, deadline: Ticks) {
        self.clear(slot);
        self.start(slot, deadline);
    }

    /// Sets the timer of `slot`, which must not be set. Waits for none of the memory that it writes.
    pub fn start(&mut self, slot: u32, deadline: Ticks) {
        let i = slot as usize;
        self.make_room(i + 1);
        debug_assert_eq!(self.links[i].deadline, NEVER);
        // A timer whose bucket has passed goes into the first bucket, so that it is due next.
        let first = Ticks(self.current << BUCKET_SHIFT);
        let mut link = Link { prev: NONE, next: NONE, deadline: deadline.clamp(first, Ticks(NEVER.0 - 1)) };
        let bucket = link.bucket();
        let head = self.heads[bucket];
        link.next = head;
        self.links[i] = link;
        if head != NONE {
            self.links[head as usize].prev = slot;
        }
        self.heads[bucket] = slot;
        self.occupied.insert(bucket);
        self.resume = None;
        self.set += 1;
    }

    /// The deadline of `slot`, if its timer is set.
    pub fn deadline(&self, slot: u32) -> Option<Ticks> {
        self.links.get(slot as usize).map(|link| link.deadline).filter(|deadline| *deadline != NEVER)
    }

    /// Makes room for the timers of this many slots.
    pub fn make_room(&mut self, slots: usize) {
        if self.links.len() < slots {
            memory::reserve(&mut self.links, slots);
            self.links.resize(slots, UNSET);
        }
    }

    /// Clears the timer of `slot`, if it is set.
    pub fn clear(&mut self, slot: u32) {
        let Some(&link) = self.links.get(slot as usize) else { return };
        let Link { prev, next, deadline } = link;
        if deadline == NEVER {
            return;
        }
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
        if prev != NONE {
            self.links[prev as usize].next = next;
        } else {
            let bucket = link.bucket();
            self.heads[bucket] = next;
            if next == NONE {
                self.occupied.remove(bucket);
            }
        }
        self.links[slot as usize] = UNSET;
        self.resume = None;
        self.set -= 1;
    }

    /// Prefetches the timer of `slot`.
    pub fn prefetch(&self, slot: u32) {
        if let Some(link) = self.links.get(slot as usize) {
            prefetch::read_soon(link);
        }
    }

    /// Prefetches the links beside the timer of `slot`, which clearing it changes.
    pub fn prefetch_neighbors(&self, slot: u32) {
        if let Some(link) = self.links.get(slot as usize) {
            self.prefetch(link.prev);
            self.prefetch(link.next);
        }
    }

    /// Clears one timer that is due at `now` and returns its slot. Callers repeat this until it returns `None`.
    pub fn pop_due(&mut self, now: Ticks) -> Option<u32> {
        let last = now.0 >> BUCKET_SHIFT;
        // After a long sleep, one round passes every bucket.
        self.current = self.current.max(last.saturating_sub(BUCKETS as u64 - 1));
        let mut resume = self.resume.take().filter(|(at, _)| *at == now).map(|(_, slot)| slot);
        loop {
            let mut slot = resume.take().unwrap_or(self.heads[(self.current % BUCKETS as u64) as usize]);
            while slot != NONE {
                let link = self.links[slot as usize];
                if link.deadline <= now {
                    self.clear(slot);
                    self.resume = Some((now, link.next));
                    return Some(slot);
                }
                slot = link.next;
            }
            if self.current >= last {
                return None;
            }
            self.current = self.next_occupied(self.current + 1).map_or(last, |b| b.min(last));
        }
    }

    /// When to look for due timers next; `None` when no timer is set. This is at most one bucket after the earliest
    /// deadline, and earlier when that deadline lies in a later round.
    pub fn next_deadline(&self) -> Option<Ticks> {
        let bucket = self.next_occupied(self.current)?;
        // The end of the bucket: a timer fires at most one bucket late, and the caller never spins within a bucket.
        Some(Ticks((bucket + 1) << BUCKET_SHIFT))
    }

    /// The first occupied bucket at or after `from`, within one round.
    fn next_occupied(&self, from: u64) -> Option<u64> {
        if self.set == 0 {
            return None;
        }
        let start = (from % BUCKETS as u64) as usize;
        let bucket = self.occupied.first_from(start).or_else(|| self.occupied.first_from(0))?;
        Some(from + ((bucket + BUCKETS - start) % BUCKETS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    fn due(wheel: &mut TimerWheel, now: Ticks) -> Vec<u32> {
        let mut slots: Vec<u32> = std::iter::from_fn(|| wheel.pop_due(now)).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn timers_fire_at_their_deadline_and_not_before() {
        let mut wheel = TimerWheel::new(Ticks(0));
        wheel.set(3, Ticks::from_ms(10));
        wheel.set(5, Ticks::from_ms(20_000));
        wheel.set(7, Ticks::from_ms(10));
        wheel.clear(7);
        assert_eq!(due(&mut wheel, Ticks::from_ms(9)), []);
        assert_eq!(due(&mut wheel, Ticks::from_ms(12)), [3]);
        assert_eq!(due(&mut wheel, Ticks::from_ms(19_999)), []);
        assert_eq!(due(&mut wheel, Ticks::from_ms(20_001)), [5]);
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn the_first_bucket_that_has_a_timer_is_found_from_anywhere() {
        let mut rng = SmallRng::seed_from_u64(3);
        for buckets in [0, 1, 3, 100, 8000] {
            let (mut occupied, mut model) = (Occupied::default(), std::collections::BTreeSet::new());
            for _ in 0..2 * buckets {
                let bucket = rng.random_range(0..BUCKETS);
                if model.len() < buckets && rng.random_bool(0.7) {
                    occupied.insert(bucket);
                    model.insert(bucket);
                } else if let Some(&bucket) = model.range(bucket..).next() {
                    occupied.remove(bucket);
                    model.remove(&bucket);
                }
            }
            for bucket in 0..BUCKETS {
                assert_eq!(occupied.first_from(bucket), model.range(bucket..).next().copied());
            }
        }
    }

    #[test]
    fn the_next_deadline_is_never_missed() {
        let mut wheel = TimerWheel::new(Ticks(0));
        wheel.set(0, Ticks::from_ms(100));
        let next = wheel.next_deadline().expect("a timer is set");
        assert!(next >= Ticks::from_ms(100) && next <= Ticks::from_ms(102));
        assert_eq!(due(&mut wheel, next), [0]);
    }

    #[test]
    fn later_rounds_in_the_bucket_are_passed_over_once() {
        let mut wheel = TimerWheel::new(Ticks(0));
        let soon = Ticks(5 << BUCKET_SHIFT);
        let later = Ticks(soon.0 + ((BUCKETS as u64) << BUCKET_SHIFT));
        // Strangers choose lifetimes and so the buckets. Scanning the bucket anew for each due timer would take 10^10
        // steps.
        for slot in 0..200_000 {
            wheel.set(slot, if slot < 100_000 { soon } else { later });
        }
        let start = std::time::Instant::now();
        assert_eq!(due(&mut wheel, soon), (0..100_000).collect::<Vec<_>>());
        assert!(start.elapsed() < Duration::from_secs(5));
        wheel.set(3, soon);
        assert_eq!(due(&mut wheel, soon), [3], "set after the bucket was seen");
        assert_eq!(due(&mut wheel, later).len(), 100_000);
    }

    #[test]
    fn random_timers_agree_with_a_sorted_list() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut wheel = TimerWheel::new(Ticks(0));
        let mut model = std::collections::BTreeMap::new();
        let mut now = Ticks(0);
        for _ in 0..20_000 {
            let slot = rng.random_range(0..200u32);
            match rng.random_range(0..4) {
                0 | 1 => {
                    let deadline = now + Duration::from_micros(rng.random_range(0..30_000_000));
                    wheel.set(slot, deadline);
                    model.insert(slot, deadline);
                }
                2 => {
                    wheel.clear(slot);
                    model.remove(&slot);
                }
                _ => {
                    now = now + Duration::from_micros(rng.random_range(0..500_000));
                    let expected: Vec<u32> = model.iter().filter(|(_, d)| **d <= now).map(|(s, _)| *s).collect();
                    model.retain(|_, d| *d > now);
                    assert_eq!(due(&mut wheel, now), expected);
                }
            }
        }
    }
}
