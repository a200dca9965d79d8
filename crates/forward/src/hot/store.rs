//! A few Data that all workers see: a table of places, each with a version.
//!
//! The version of a place is odd while somebody writes it [Hasegawa, "Algorithm of CS"]. A reader
//! copies the Data out and looks whether the version is still what it was before, and even: readers
//! write nothing, so that a cache line of popular Data stays in the caches of all cores. That is why
//! Data is copied here: a count of shares would be one word that all cores write. A reader that comes
//! into a change does not try again: it finds nothing, and the Interest goes home.
//!
//! The version is the lock among writers, too: one word, taken by making it odd. Who finds it taken
//! does not wait. A name is put in only by its home, so that no name is in two places, and it stands
//! in one of the places of its set: the empty one, or that of the Data which came first (FIFO).
//!
//! Whoever holds a place's lock empties it or writes another name there. So its name's home, if it
//! finds the place locked, need not take its Data out: it is on its way out. (The lock may also be
//! held for a name with the same digest of 128 bits, of which none is known under a key that is
//! secret.) A reader compares whole names.

use byname_wire::name_hash::Digest;

use crate::packet_pool::Packet;
use crate::pit_cs::NameRange;
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::Ticks;

/// Octets of the largest packet that finds room: NDN's.
const OCTETS_MAX: usize = if cfg!(loom) { 16 } else { 8800 };
const WORD: usize = size_of::<u64>();
/// Places of a set.
const WAYS: usize = 7;

/// The places that a name may have: one cache line says whether it is there.
#[repr(align(64))]
struct Set {
    /// Digests' halves of the names there; 0: none.
    tags: [AtomicU64; WAYS],
    /// Data that came so far: a place's number in the queue.
    came: AtomicU64,
}

/// One place.
struct Place {
    /// Odd while it is written.
    version: AtomicU64,
    /// The other half of the name's digest.
    check: AtomicU64,
    fresh_until: AtomicU64,
    /// Where packet and name are, as [`Extent::word`] has it; 0: nowhere.
    extent: AtomicU64,
    /// When it came, as the set counts.
    came: AtomicU64,
    octets: Box<[AtomicU64]>,
}

/// How many octets a packet has, and which of them are its name.
#[derive(Clone, Copy)]
struct Extent {
    len: u16,
    name: NameRange,
}

impl Extent {
    fn word(self) -> u64 {
        u64::from(self.len) | u64::from(self.name.start) << 16 | u64::from(self.name.len) << 32
    }

    fn of(word: u64) -> Self {
        let part = |shift: u32| (word >> shift) as u16;
        Extent { len: part(0), name: NameRange { start: part(16), len: part(32) } }
    }
}

/// Data that all workers may read; see the module.
pub struct SharedStore {
    /// A power of two.
    sets: Box<[Set]>,
    /// [`WAYS`] for each set.
    places: Box<[Place]>,
    names: AtomicU64,
}

impl SharedStore {
    /// An empty store for at least so many Data.
    pub fn new(packets: usize) -> Self {
        let sets = packets.max(1).div_ceil(WAYS).next_power_of_two();
        let zero = || AtomicU64::new(0);
        let set = |_| Set { tags: std::array::from_fn(|_| zero()), came: zero() };
        let place = |_| Place {
            version: zero(),
            check: zero(),
            fresh_until: zero(),
            extent: zero(),
            came: zero(),
            octets: (0..OCTETS_MAX.div_ceil(WORD)).map(|_| zero()).collect(),
        };
        SharedStore { sets: (0..sets).map(set).collect(), places: (0..sets * WAYS).map(place).collect(), names: zero() }
    }

    /// Data in it.
    pub fn len(&self) -> u64 {
        self.names.load(Ordering::Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Data of this name seems to be there.
    #[inline]
    pub fn contains(&self, name: Digest) -> bool {
        self.place_of(name).is_some()
    }

    /// The Data of just this name, a copy; only if it is fresh where it must be. Nothing also where
    /// it is changed at this moment.
    pub fn get(&self, digest: Digest, name: &[u8], must_be_fresh: bool, now: Ticks) -> Option<Packet> {
        self.places[self.place_of(digest)?.1].read(digest, name, must_be_fresh, now)
    }

    /// Puts Data in, where none of this name is; whether it found room. To be called by the name's
    /// home only.
    pub fn insert(&self, digest: Digest, packet: &[u8], name: NameRange, fresh_until: Ticks) -> bool {
        if packet.is_empty() || packet.len() > OCTETS_MAX {
            return false;
        }
        let set_at = self.set_of(digest);
        let (set, places) = (&self.sets[set_at], &self.places[set_at * WAYS..(set_at + 1) * WAYS]);
        let is_empty = |way: &usize| set.tags[*way].load(Ordering::Relaxed) == 0;
        let age = |way: &usize| places[*way].came.load(Ordering::Relaxed);
        let way = (0..WAYS).find(is_empty).or_else(|| (0..WAYS).min_by_key(age)).expect("a set has places");
        let place = &places[way];
        let Some(version) = place.try_lock() else { return false };
        // Another writer may have been here since.
        if set.tags[way].load(Ordering::Relaxed) == 0 {
            self.names.fetch_add(1, Ordering::Relaxed);
        }
        set.tags[way].store(tag(digest), Ordering::Release);
        place.came.store(set.came.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place.write(digest, packet, name, fresh_until);
        place.unlock(version);
        true
    }

    /// Takes Data out; whether it was there. To be called by the name's home only.
    pub fn remove(&self, name: Digest) -> bool {
        let Some((tag, place)) = self.place_of(name) else { return false };
        let place = &self.places[place];
        // Whoever has the lock takes it out.
        let Some(version) = place.try_lock() else { return false };
        let is_there = place.check.load(Ordering::Relaxed) == name.check;
        if is_there {
            tag.store(0, Ordering::Release);
            place.extent.store(0, Ordering::Release);
            self.names.fetch_sub(1, Ordering::Relaxed);
        }
        place.unlock(version);
        is_there
    }

    fn set_of(&self, name: Digest) -> usize {
        name.check as usize & (self.sets.len() - 1)
    }

    /// Where a name seems to be: its tag, and the place's number.
    #[inline]
    fn place_of(&self, name: Digest) -> Option<(&AtomicU64, usize)> {
        let set_at = self.set_of(name);
        let set = &self.sets[set_at];
        let is_its = |way: &usize| {
            set.tags[*way].load(Ordering::Acquire) == tag(name)
                && self.places[set_at * WAYS + way].check.load(Ordering::Relaxed) == name.check
        };
        (0..WAYS).find(is_its).map(|way| (&set.tags[way], set_at * WAYS + way))
    }
}

/// What stands for a name in its set: not 0.
fn tag(name: Digest) -> u64 {
    name.hash.max(1)
}

impl Place {
    fn try_lock(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        let even = version.is_multiple_of(2);
        // Acquire: what the writer before did is done.
        let taken = || self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed);
        (even && taken().is_ok()).then_some(version)
    }

    fn unlock(&self, version: u64) {
        // Release: who sees this version sees all that was written before it.
        self.version.store(version + 2, Ordering::Release);
    }

    fn read(&self, digest: Digest, name: &[u8], must_be_fresh: bool, now: Ticks) -> Option<Packet> {
        let version = self.version.load(Ordering::Acquire);
        // What a writer stores meanwhile, it stores with release after it made the version odd. So if
        // one of these loads sees it, the load of the version at the end sees an odd or a later one.
        let is_its = version.is_multiple_of(2) && self.check.load(Ordering::Acquire) == digest.check;
        let is_fresh = || now.0 < self.fresh_until.load(Ordering::Acquire);
        if !is_its || must_be_fresh && !is_fresh() {
            return None;
        }
        let Extent { len, name: range } = Extent::of(self.extent.load(Ordering::Acquire));
        if usize::from(range.len) != name.len() || len == 0 {
            return None;
        }
        let packet = Packet::build(usize::from(len), |octets| self.copy_to(octets));
        if self.version.load(Ordering::Relaxed) != version {
            return None;
        }
        let start = usize::from(range.start);
        (packet.get(start..start + name.len()) == Some(name)).then_some(packet)
    }

    fn copy_to(&self, octets: &mut [u8]) {
        let (whole, rest) = octets.as_chunks_mut::<WORD>();
        for (octets, word) in whole.iter_mut().zip(&self.octets) {
            *octets = word.load(Ordering::Acquire).to_ne_bytes();
        }
        if let Some(word) = self.octets.get(whole.len()) {
            rest.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes()[..rest.len()]);
        }
    }

    /// The place is locked.
    fn write(&self, digest: Digest, packet: &[u8], name: NameRange, fresh_until: Ticks) {
        self.check.store(digest.check, Ordering::Release);
        self.fresh_until.store(fresh_until.0, Ordering::Release);
        self.extent.store(Extent { len: packet.len() as u16, name }.word(), Ordering::Release);
        for (word, octets) in self.octets.iter().zip(packet.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..octets.len()].copy_from_slice(octets);
            word.store(u64::from_ne_bytes(whole), Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LATER: Ticks = Ticks(u64::MAX);

    fn digest(set: u64, name: u64) -> Digest {
        Digest { hash: name << 20, check: name << 32 | set }
    }

    /// A packet that begins with its name and tells its version in all octets behind.
    fn packet(name: &[u8], version: u8, len: usize) -> (Vec<u8>, NameRange) {
        let mut packet = vec![version; len];
        packet[..name.len()].copy_from_slice(name);
        (packet, NameRange { start: 0, len: name.len() as u16 })
    }

    fn insert(store: &SharedStore, digest: Digest, name: &[u8], version: u8, len: usize) -> bool {
        let (packet, range) = packet(name, version, len);
        store.insert(digest, &packet, range, Ticks::from_ms(10))
    }

    #[test]
    fn what_is_put_in_comes_out_until_it_is_taken_out() {
        let store = SharedStore::new(100);
        // Every length of the last word, the largest packet, and what is larger.
        for (n, len) in [(1, 3), (2, 8), (3, 9), (4, 100), (5, OCTETS_MAX)] {
            let name = [n as u8; 3];
            assert!(insert(&store, digest(n, n), &name, 9, len));
            let found = store.get(digest(n, n), &name, false, LATER).expect("it was put in");
            assert_eq!(*found, *packet(&name, 9, len).0);
        }
        assert!(!insert(&store, digest(6, 6), b"abc", 1, OCTETS_MAX + 1));
        assert_eq!(store.len(), 5);
        assert!(store.remove(digest(3, 3)) && !store.remove(digest(3, 3)));
        assert!(!store.contains(digest(3, 3)) && store.get(digest(3, 3), &[3; 3], false, LATER).is_none());
        assert_eq!(store.len(), 4);
    }

    #[test]
    fn freshness_and_whole_names_decide() {
        let store = SharedStore::new(1);
        assert!(insert(&store, digest(0, 1), b"name", 1, 20));
        let get = |name: &[u8], fresh, at| store.get(digest(0, 1), name, fresh, Ticks::from_ms(at)).is_some();
        assert!(get(b"name", true, 9) && get(b"name", false, 11));
        assert!(!get(b"name", true, 10));
        assert!(!get(b"nams", false, 0) && !get(b"nam", false, 0) && !get(b"", false, 0));
    }

    #[test]
    fn a_full_set_loses_what_came_first() {
        let store = SharedStore::new(1);
        for n in 1..=7 {
            assert!(insert(&store, digest(0, n), b"n", 1, 10));
        }
        // A hole is filled before anything is driven out.
        assert!(store.remove(digest(0, 1)));
        for (n, out) in [(8, 1), (9, 2), (10, 3), (11, 4)] {
            assert!(insert(&store, digest(0, n), b"n", 1, 10));
            assert!(!store.contains(digest(0, out)) && store.contains(digest(0, out + 1)), "{n}");
            assert_eq!(store.len(), 7);
        }
    }

    /// Homes of their own put in and take out in few places, readers copy: each copy is of one moment.
    #[test]
    fn threads_read_whole_packets() {
        let store = SharedStore::new(1);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let name = |n: u64| [n as u8; 4];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2u64)
                .map(|home| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut put_in = 0;
                        for round in 0..20_000u64 {
                            let n = home * 8 + round % 8;
                            store.remove(digest(0, n));
                            put_in += usize::from(insert(store, digest(0, n), &name(n), round as u8, 900));
                        }
                        put_in
                    })
                })
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut hits, mut n) = (0, 0);
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            n = (n + 1) % 16;
                            if let Some(packet) = store.get(digest(0, n), &name(n), false, LATER) {
                                assert!(packet[4..].iter().all(|octet| *octet == packet[4]), "{n}: {packet:?}");
                                hits += 1;
                            }
                        }
                        hits
                    })
                })
                .collect();
            let put_in: usize = writers.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let hits: usize = readers.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            assert!(put_in >= 20_000 && hits > 0, "{put_in} put in, {hits} hits");
        });
        let there = (0..16).filter(|n| store.contains(digest(0, *n))).count();
        assert_eq!(there as u64, store.len());
    }
}

#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    fn digest(name: u64) -> Digest {
        Digest { hash: name, check: name << 32 }
    }

    fn put(store: &SharedStore, name: u8, version: u8) -> bool {
        let mut packet = [version; 9];
        packet[0] = name;
        store.insert(digest(u64::from(name)), &packet, NameRange { start: 0, len: 1 }, Ticks(u64::MAX))
    }

    /// Fills the set, so that whoever comes next drives out the first.
    fn full() -> Arc<SharedStore> {
        let store = SharedStore::new(1);
        for name in 1..=WAYS as u8 {
            assert!(put(&store, name, 1));
        }
        Arc::new(store)
    }

    /// Its home replaces Data while another worker reads it: it reads one or the other, or nothing.
    #[test]
    fn a_copy_is_of_one_moment() {
        loom::model(|| {
            let store = full();
            let home = loom::thread::spawn({
                let store = Arc::clone(&store);
                move || store.remove(digest(1)) && put(&store, 1, 2)
            });
            if let Some(packet) = store.get(digest(1), &[1], false, Ticks(0)) {
                assert!(packet[1..] == [1; 8] || packet[1..] == [2; 8], "{packet:?}");
            }
            assert!(home.join().expect("no panic"));
            assert_eq!(&store.get(digest(1), &[1], false, Ticks(0)).expect("it is there")[1..], [2; 8]);
        });
    }

    /// Two homes want the place that a third worker reads: no copy is of both, and what is there in the
    /// end is whole.
    #[test]
    fn writers_never_share_a_place() {
        loom::model(|| {
            let store = full();
            let homes = [8, 9].map(|name| {
                let store = Arc::clone(&store);
                loom::thread::spawn(move || put(&store, name, name))
            });
            let put_in = homes.map(|home| home.join().expect("no panic"));
            assert!(put_in.contains(&true));
            for (name, put_in) in [8, 9].into_iter().zip(put_in) {
                let found = store.get(digest(name), &[name as u8], false, Ticks(0));
                if let Some(packet) = &found {
                    assert_eq!(packet[1..], [name as u8; 8]);
                }
                assert!(put_in || found.is_none());
            }
            assert_eq!(store.len(), WAYS as u64);
        });
    }

    /// A home takes out what another drives out: when both are done it is gone, whoever was first.
    #[test]
    fn what_its_home_takes_out_is_gone() {
        loom::model(|| {
            let store = full();
            let other = loom::thread::spawn({
                let store = Arc::clone(&store);
                move || put(&store, 8, 8)
            });
            store.remove(digest(1));
            let put_in = other.join().expect("no panic");
            assert!(store.get(digest(1), &[1], false, Ticks(0)).is_none());
            let there = (1..=8).filter(|name| store.contains(digest(*name))).count();
            assert_eq!(there as u64, store.len());
            assert!(there == WAYS - 1 || put_in);
        });
    }
}
