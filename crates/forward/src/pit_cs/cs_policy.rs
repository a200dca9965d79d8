//! Replacement: which Data leaves a full content store.

use byname_lookup::memory::{self, Refused};

use crate::pit_cs::list::{Links, List};
use crate::settings::CsPolicy;

/// Maximum of uses that S3-FIFO counts.
const USES_MAX: u8 = 3;
/// Bit of `marks` that says that the slot is in the main queue.
const MAIN: u8 = 0x80;

/// The replacement order of the Data in the content store.
pub struct Replacement {
    kind: CsPolicy,
    /// LRU: all Data. S3-FIFO: Data that has been used again.
    main: List,
    /// S3-FIFO: new Data.
    small: List,
    /// S3-FIFO, by slot: the number of uses since the Data came, and its queue.
    marks: Vec<u8>,
    /// S3-FIFO: hashes of Data recently evicted from `small`, each at the place that its hash selects.
    ghosts: Box<[u64]>,
}

impl Replacement {
    /// An empty order for about `packets` Data packets.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(kind: CsPolicy, packets: usize) -> Result<Self, Refused> {
        let len = match kind {
            CsPolicy::Lru => 0,
            CsPolicy::S3Fifo => packets.next_power_of_two(),
        };
        let mut ghosts = memory::with_room(len)?;
        ghosts.resize(len, 0);
        Ok(Replacement {
            kind,
            main: List::default(),
            small: List::default(),
            marks: Vec::new(),
            ghosts: ghosts.into(),
        })
    }

    /// Number of Data packets in the order.
    pub fn len(&self) -> usize {
        self.main.len() + self.small.len()
    }

    /// Adds Data with this name hash, which was put into `slot`.
    pub fn insert(&mut self, links: &mut Links, slot: u32, hash: u64) {
        match self.kind {
            CsPolicy::Lru => self.main.push_front(links, slot),
            CsPolicy::S3Fifo => {
                if self.marks.len() <= slot as usize {
                    self.marks.resize(slot as usize + 1, 0);
                }
                let place = self.ghost_place(hash);
                if self.ghosts[place] == hash {
                    self.ghosts[place] = 0;
                    self.marks[slot as usize] = MAIN;
                    self.main.push_front(links, slot);
                } else {
                    self.marks[slot as usize] = 0;
                    self.small.push_front(links, slot);
                }
            }
        }
    }

    /// Adds Data that another order had, as the oldest. `in_main`: in the queue of Data that was used again.
    pub fn insert_oldest(&mut self, links: &mut Links, slot: u32, in_main: bool) {
        if self.kind == CsPolicy::Lru {
            return self.main.push_back(links, slot);
        }
        if self.marks.len() <= slot as usize {
            self.marks.resize(slot as usize + 1, 0);
        }
        self.marks[slot as usize] = if in_main { MAIN } else { 0 };
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.push_back(links, slot);
    }

    /// The Data that another order should get first, and whether it is in the main queue. The rest follows in the order
    /// of its value.
    pub fn most_valuable(&self) -> Option<(u32, bool)> {
        let in_main = self.main.front().map(|slot| (slot, true));
        in_main.or_else(|| self.small.front().map(|slot| (slot, false)))
    }

    /// Whether the Data in `slot` is in the main queue.
    pub fn is_in_main(&self, slot: u32) -> bool {
        self.kind == CsPolicy::Lru || self.marks[slot as usize] & MAIN != 0
    }

    /// Notes that the Data in `slot` answered an Interest.
    pub fn used(&mut self, links: &mut Links, slot: u32) {
        match self.kind {
            CsPolicy::Lru => {
                self.main.remove(links, slot);
                self.main.push_front(links, slot);
            }
            CsPolicy::S3Fifo => {
                let mark = &mut self.marks[slot as usize];
                if *mark & !MAIN < USES_MAX {
                    *mark += 1;
                }
            }
        }
    }

    /// Removes the Data in `slot` from the order.
    pub fn remove(&mut self, links: &mut Links, slot: u32) {
        if self.is_in_main(slot) {
            self.main.remove(links, slot);
        } else {
            self.small.remove(links, slot);
        }
    }

    /// The Data to evict. The caller reports it to [`Replacement::evicted`] and removes it with
    /// [`Replacement::remove`].
    pub fn victim(&mut self, links: &mut Links) -> Option<u32> {
        if self.kind == CsPolicy::Lru {
            return self.main.back();
        }
        // The loop ends, because each turn moves a slot from small to main or lowers a count.
        loop {
            let from_small = self.small.len() * 10 >= self.len() || self.main.len() == 0;
            if let (true, Some(slot)) = (from_small, self.small.back()) {
                if self.marks[slot as usize] == 0 {
                    return Some(slot);
                }
                self.small.remove(links, slot);
                self.marks[slot as usize] = MAIN;
                self.main.push_front(links, slot);
            } else {
                let slot = self.main.back()?;
                if self.marks[slot as usize] == MAIN {
                    return Some(slot);
                }
                self.marks[slot as usize] -= 1;
                self.main.remove(links, slot);
                self.main.push_front(links, slot);
            }
        }
    }

    /// All Data, those last that leave first, as far as the uses of each are left aside.
    pub fn slots<'a>(&self, links: &'a Links) -> impl Iterator<Item = u32> + 'a {
        self.main.slots(links).chain(self.small.slots(links))
    }

    /// The number of uses that count for the Data in `slot`, from its first on. Data in the main queue was used before it
    /// came there. Always 0 where the order itself has all.
    pub fn uses(&self, slot: u32) -> u8 {
        let mark = self.marks.get(slot as usize).copied().unwrap_or(0);
        (mark & !MAIN).saturating_add(u8::from(mark & MAIN != 0)).min(USES_MAX)
    }

    /// Notes that the victim in `slot`, with this name hash, is about to be removed to make room.
    pub fn evicted(&mut self, slot: u32, hash: u64) {
        if self.kind == CsPolicy::S3Fifo && self.marks[slot as usize] & MAIN == 0 {
            let place = self.ghost_place(hash);
            self.ghosts[place] = hash;
        }
    }

    fn ghost_place(&self, hash: u64) -> usize {
        hash as usize & (self.ghosts.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Runs requests through a cache of `capacity` and returns the number of hits.
    fn hits(kind: CsPolicy, capacity: usize, requests: impl Iterator<Item = u64>) -> usize {
        let mut order = Replacement::new(kind, capacity).expect("a few kilobytes");
        let mut links = Links::default();
        let mut slot_of: HashMap<u64, u32> = HashMap::new();
        let mut key_in: Vec<u64> = Vec::new();
        let mut hits = 0;
        for key in requests {
            if let Some(&slot) = slot_of.get(&key) {
                order.used(&mut links, slot);
                hits += 1;
                continue;
            }
            let slot = if order.len() == capacity {
                let slot = order.victim(&mut links).expect("the cache is full");
                order.evicted(slot, key_in[slot as usize]);
                order.remove(&mut links, slot);
                slot_of.remove(&key_in[slot as usize]);
                key_in[slot as usize] = key;
                slot
            } else {
                key_in.push(key);
                key_in.len() as u32 - 1
            };
            slot_of.insert(key, slot);
            order.insert(&mut links, slot, key);
        }
        hits
    }

    #[test]
    fn lru_keeps_the_most_recent() {
        // 1, 2, 3 fill the cache; 1 is used; 4 evicts 2.
        assert_eq!(hits(CsPolicy::Lru, 3, [1, 2, 3, 1, 4, 1, 3, 4, 2].into_iter()), 4);
    }

    #[test]
    fn s3_fifo_resists_a_scan_that_ruins_lru() {
        // 50 names that are requested all the time, and a scan of names that are requested once.
        let requests = || (0..100_000u64).map(|i| if i % 3 == 0 { 1 + i / 3 % 50 } else { 1000 + i });
        let lru = hits(CsPolicy::Lru, 100, requests());
        let s3 = hits(CsPolicy::S3Fifo, 100, requests());
        assert_eq!(lru, 0);
        assert!(s3 > 30_000, "{s3} of at most 33,284");
    }
}
