//! A small store of Data that all workers see: a table of places, each with a version.
//!
//! The version of a place is odd while a thread writes it [Hasegawa, "Algorithm of CS"]. A reader copies the Data out.
//! Then it checks that the version is even and the same as before. Readers write nothing, so a cache line of popular
//! Data stays in the caches of all cores. For the same reason the Data is copied: a reference count would be one word
//! that all cores write. A reader that meets a change does not try again: it finds nothing, and the Interest goes home.
//!
//! Each thread keeps its copies ([`SharedReader`]), and shares their buffers with the packets that it sends. While the
//! version of a place is that of the copy, so is the Data. So a thread copies Data once, not for each Interest.
//!
//! The version is also the lock among writers: a writer takes it by making it odd. A writer that finds it taken does
//! not wait. Only the home of a name inserts it, so no name is in two places. A name takes a place of its set: an empty
//! one, or that of the oldest Data (FIFO).
//!
//! The holder of a place's lock either empties the place or writes another name there. So if a home finds the place of
//! its name locked, it need not remove the Data: the Data is already being removed. (The lock may also be held for
//! another name with the same digest of 128 bits. No such name is known while the key is secret.) A reader compares
//! whole names.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use byname_wire::name_hash::Digest;

use super::PLACES_PER_INTEREST;
use crate::packet::NameRange;
use crate::packet_pool::{MAX_BUFFER_BYTES, Packet};
use crate::settings::TableMemory;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::ticks::Ticks;

/// Maximum bytes of a packet in the store: NDN's limit.
const BYTES_MAX: usize = if cfg!(loom) { 16 } else { 8800 };
const WORD: usize = size_of::<u64>();
/// Number of places in a set.
const WAYS: usize = 7;
/// Maximum of copies that a thread keeps: at most 18 MB.
const COPIES_MAX: usize = 2048;

/// The places that a name may have. One cache line says whether the name is there.
#[repr(align(64))]
struct Set {
    /// One half of the digest of each name in the set; 0 means none.
    tags: [AtomicU64; WAYS],
    /// Number of Data packets inserted so far, which orders the places by age.
    came: AtomicU64,
}

/// One place: one cache line, and the packet.
#[repr(align(64))]
struct Place {
    /// Odd while the place is written.
    version: AtomicU64,
    /// The other half of the name's digest.
    check: AtomicU64,
    fresh_until: AtomicU64,
    /// The place of packet and name, as an [`Extent::word`]; 0 means that this place is empty.
    extent: AtomicU64,
    /// Its set's count of insertions when this Data came.
    came: AtomicU64,
    /// Memory for the packet, from the first one on.
    bytes: OnceLock<Box<[AtomicU64]>>,
}

const _: () = assert!(cfg!(loom) || size_of::<Place>() == 64);

/// The length of a packet, and the place of its name.
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
    /// The number of sets is a power of two.
    sets: Box<[Set]>,
    /// [`WAYS`] places for each set.
    places: Box<[Place]>,
    /// See [`SharedStore::interests_away`].
    interests_away: AtomicU32,
    names: Names,
}

/// Number of names, on cache lines of its own: all threads read the fields before it for each Interest.
#[repr(align(128))]
struct Names(AtomicU64);

impl SharedStore {
    /// An empty store for at least this many Data packets.
    pub fn new(packets: usize) -> Self {
        let sets = sets_for(packets);
        let zero = || AtomicU64::new(0);
        let set = |_| Set { tags: std::array::from_fn(|_| zero()), came: zero() };
        let place = |_| Place {
            version: zero(),
            check: zero(),
            fresh_until: zero(),
            extent: zero(),
            came: zero(),
            bytes: OnceLock::new(),
        };
        SharedStore {
            sets: (0..sets).map(set).collect(),
            places: (0..sets * WAYS).map(place).collect(),
            interests_away: AtomicU32::new(0),
            names: Names(zero()),
        }
    }

    /// Memory of a store for at least this many Data packets, and of the copies that this many threads keep.
    pub fn memory(packets: usize, threads: usize) -> TableMemory {
        let (sets, places) = (sets_for(packets), sets_for(packets) * WAYS);
        let start = sets * size_of::<Set>() + places * size_of::<Place>();
        let copies = threads * places.min(COPIES_MAX) * MAX_BUFFER_BYTES;
        TableMemory { full: start + places * BYTES_MAX + copies, start }
    }

    /// A home has room for `packets` Data packets, so it may replace Data after as many Interests.
    pub fn expect_turnover(&self, packets: usize) {
        let interests = u32::try_from(packets / PLACES_PER_INTEREST).unwrap_or(u32::MAX);
        let known = self.interests_away();
        // Homes differ a little, and all threads read this.
        if interests.abs_diff(known) > known / 8 {
            self.interests_away.store(interests, Ordering::Relaxed);
        }
    }

    /// Number of Interests of a thread after which one for each hot name must go home.
    #[inline]
    pub fn interests_away(&self) -> u32 {
        self.interests_away.load(Ordering::Relaxed)
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Number of Data packets in the store.
    pub fn len(&self) -> u64 {
        self.names.0.load(Ordering::Relaxed)
    }

    /// Whether Data of this name seems to be in the store.
    #[inline]
    pub fn contains(&self, name: Digest) -> bool {
        self.place_of(name).is_some()
    }

    /// The number of the place where Data of this name seems to be.
    #[inline]
    pub fn place(&self, name: Digest) -> Option<usize> {
        self.place_of(name).map(|(_, place)| place)
    }

    /// Inserts Data whose name must not be in the store. Returns whether it found a place. Only the name's home may
    /// call this.
    pub fn insert(&self, digest: Digest, packet: &[u8], name: NameRange, fresh_until: Ticks) -> bool {
        if packet.is_empty() || packet.len() > BYTES_MAX {
            return false;
        }
        let set_at = self.set_of(digest);
        let (set, places) = (&self.sets[set_at], &self.places[set_at * WAYS..(set_at + 1) * WAYS]);
        let is_empty = |way: &usize| set.tags[*way].load(Ordering::Relaxed) == 0;
        let age = |way: &usize| places[*way].came.load(Ordering::Relaxed);
        let way = (0..WAYS).find(is_empty).or_else(|| (0..WAYS).min_by_key(age)).expect("a set has places");
        let place = &places[way];
        let Some(version) = place.try_lock() else { return false };
        // Another writer may have used the place in the meantime.
        if set.tags[way].load(Ordering::Relaxed) == 0 {
            self.names.0.fetch_add(1, Ordering::Relaxed);
        }
        set.tags[way].store(tag(digest), Ordering::Release);
        place.came.store(set.came.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place.write(digest, packet, name, fresh_until);
        place.unlock(version);
        true
    }

    /// Removes Data. Returns whether it was there. Only the name's home may call this.
    pub fn remove(&self, name: Digest) -> bool {
        let Some((tag, place)) = self.place_of(name) else { return false };
        let place = &self.places[place];
        // If the lock is taken, its holder removes the Data.
        let Some(version) = place.try_lock() else { return false };
        let is_there = place.check.load(Ordering::Relaxed) == name.check;
        if is_there {
            tag.store(0, Ordering::Release);
            place.extent.store(0, Ordering::Release);
            self.names.0.fetch_sub(1, Ordering::Relaxed);
        }
        place.unlock(version);
        is_there
    }

    fn set_of(&self, name: Digest) -> usize {
        name.check as usize & (self.sets.len() - 1)
    }

    /// The place where a name seems to be: its tag and its number.
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

/// Number of sets with places for at least this many Data packets.
fn sets_for(packets: usize) -> usize {
    packets.max(1).div_ceil(WAYS).next_power_of_two()
}

/// The tag of a name in its set, never 0.
fn tag(name: Digest) -> u64 {
    name.hash.max(1)
}

impl Place {
    fn try_lock(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        let even = version.is_multiple_of(2);
        // Acquire: the previous writer is done.
        let taken = || self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed);
        (even && taken().is_ok()).then_some(version)
    }

    fn unlock(&self, version: u64) {
        // Release: a thread that sees this version sees all earlier writes.
        self.version.store(version + 2, Ordering::Release);
    }

    /// Copies the Data, if this is that of a name with this digest, and is not being changed.
    fn read(&self, digest: Digest) -> Option<Copied> {
        let version = self.version.load(Ordering::Acquire);
        // A writer makes the version odd first, and does all later stores with release. So if one of these loads sees
        // such a store, the final load of the version sees an odd or a later version.
        if !version.is_multiple_of(2) || self.check.load(Ordering::Acquire) != digest.check {
            return None;
        }
        let fresh_until = Ticks(self.fresh_until.load(Ordering::Acquire));
        let Extent { len, name } = Extent::of(self.extent.load(Ordering::Acquire));
        if len == 0 {
            return None;
        }
        let words = self.bytes.get()?;
        let packet = Packet::build(usize::from(len), |bytes| copy(words, bytes));
        (self.version.load(Ordering::Relaxed) == version).then_some(Copied { version, packet, name, fresh_until })
    }

    /// The caller must hold the lock.
    fn write(&self, digest: Digest, packet: &[u8], name: NameRange, fresh_until: Ticks) {
        self.check.store(digest.check, Ordering::Release);
        self.fresh_until.store(fresh_until.0, Ordering::Release);
        self.extent.store(Extent { len: packet.len() as u16, name }.word(), Ordering::Release);
        let words = self.bytes.get_or_init(|| (0..BYTES_MAX.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect());
        for (word, bytes) in words.iter().zip(packet.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Release);
        }
    }
}

/// Copies words to bytes, as many as these are.
fn copy(words: &[AtomicU64], to: &mut [u8]) {
    let (whole, rest) = to.as_chunks_mut::<WORD>();
    for (bytes, word) in whole.iter_mut().zip(words) {
        *bytes = word.load(Ordering::Acquire).to_ne_bytes();
    }
    if let Some(word) = words.get(whole.len()) {
        rest.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes()[..rest.len()]);
    }
}

/// A thread's copy of what a place had at one version.
#[derive(Clone)]
struct Copied {
    version: u64,
    packet: Packet,
    name: NameRange,
    fresh_until: Ticks,
}

/// One thread's access to a store, with its copies of the Data that it read.
#[derive(Clone)]
pub struct SharedReader {
    store: Arc<SharedStore>,
    /// By the number of their place. Places share them if there are too many.
    copies: Box<[Option<(usize, Copied)>]>,
}

impl SharedReader {
    /// Without copies.
    pub fn new(store: Arc<SharedStore>) -> Self {
        let copies = store.places.len().min(COPIES_MAX);
        SharedReader { store, copies: (0..copies).map(|_| None).collect() }
    }

    /// The Data with exactly this name. `None` if the Data is being changed, or must be fresh and is not.
    pub fn get(&mut self, digest: Digest, name: &[u8], must_be_fresh: bool, now: Ticks) -> Option<Packet> {
        let (_, at) = self.store.place_of(digest)?;
        let place = &self.store.places[at];
        let copy = &mut self.copies[at % COPIES_MAX];
        // Relaxed: nothing else of the place is read.
        let version = place.version.load(Ordering::Relaxed);
        if !matches!(copy, Some((of, copied)) if *of == at && copied.version == version) {
            *copy = place.read(digest).map(|copied| (at, copied));
        }
        let (_, Copied { packet, name: NameRange { start, len }, fresh_until, .. }) = copy.as_ref()?;
        let (start, end) = (usize::from(*start), usize::from(*start) + usize::from(*len));
        let answers = packet.get(start..end) == Some(name) && (!must_be_fresh || now < *fresh_until);
        answers.then(|| packet.clone())
    }
}

impl Deref for SharedReader {
    type Target = SharedStore;
    fn deref(&self) -> &SharedStore {
        &self.store
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const LATER: Ticks = Ticks(u64::MAX);

    fn digest(set: u64, name: u64) -> Digest {
        Digest { hash: name << 20, check: name << 32 | set }
    }

    /// A packet that begins with its name; all other bytes are its version.
    fn packet(name: &[u8], version: u8, len: usize) -> (Vec<u8>, NameRange) {
        let mut packet = vec![version; len];
        packet[..name.len()].copy_from_slice(name);
        (packet, NameRange { start: 0, len: name.len() as u16 })
    }

    fn insert(store: &SharedStore, digest: Digest, name: &[u8], version: u8, len: usize) -> bool {
        let (packet, range) = packet(name, version, len);
        store.insert(digest, &packet, range, Ticks::from_ms(10))
    }

    fn reader(packets: usize) -> SharedReader {
        SharedReader::new(Arc::new(SharedStore::new(packets)))
    }

    /// Two readers, whose copies are of different ages. There are more places than copies.
    #[test]
    fn a_copy_is_used_while_its_place_is_not_changed() {
        let first = reader(2 * COPIES_MAX);
        let mut readers = [first.clone(), first];
        let sets = readers[0].sets.len() as u64;
        assert!(readers[0].places.len() > COPIES_MAX && readers[0].copies.len() == COPIES_MAX);
        let mut random = SmallRng::seed_from_u64(3);
        let mut there = HashMap::new();
        let (mut hits, mut shared) = (0, 0);
        for round in 0..20_000_u32 {
            let n = random.random_range(0..3 * sets);
            let (digest, name) = (digest(n % sets, n + 1), n.to_le_bytes());
            match random.random_range(0..8) {
                0 => {
                    readers[0].remove(digest);
                    there.remove(&n);
                }
                1 if !there.contains_key(&n) => {
                    assert!(insert(&readers[0], digest, &name, round as u8, 50));
                    there.insert(n, round as u8);
                }
                _ => {
                    let found = readers[round as usize % 2].get(digest, &name, false, LATER);
                    let again = readers[round as usize % 2].get(digest, &name, false, LATER);
                    assert_eq!(found.as_ref().map(|packet| packet[49]), there.get(&n).copied());
                    assert_eq!(found.as_deref(), again.as_deref());
                    hits += u32::from(found.is_some());
                    shared += u32::from(found.zip(again).is_some_and(|(one, other)| one.as_ptr() == other.as_ptr()));
                }
            }
        }
        assert!(hits > 1000 && shared == hits, "{shared} of {hits}");
    }

    #[test]
    fn what_is_put_in_comes_out_until_it_is_taken_out() {
        let mut store = reader(100);
        // Every length of the last word, the largest packet, and a larger one.
        for (n, len) in [(1, 3), (2, 8), (3, 9), (4, 100), (5, BYTES_MAX)] {
            let name = [n as u8; 3];
            assert!(insert(&store, digest(n, n), &name, 9, len));
            let found = store.get(digest(n, n), &name, false, LATER).expect("it was put in");
            assert_eq!(*found, *packet(&name, 9, len).0);
        }
        assert!(!insert(&store, digest(6, 6), b"abc", 1, BYTES_MAX + 1));
        assert_eq!(store.len(), 5);
        assert!(store.remove(digest(3, 3)) && !store.remove(digest(3, 3)));
        assert!(!store.contains(digest(3, 3)) && store.get(digest(3, 3), &[3; 3], false, LATER).is_none());
        assert_eq!(store.len(), 4);
    }

    #[test]
    fn homes_that_differ_a_little_say_the_same() {
        let store = SharedStore::new(1);
        let expect = |interests| {
            store.expect_turnover(interests * PLACES_PER_INTEREST);
            store.interests_away()
        };
        assert_eq!([1000, 1100, 1130, 2000, 1, 0].map(expect), [1000, 1000, 1130, 2000, 1, 0]);
        store.expect_turnover(usize::MAX);
        assert_eq!(store.interests_away(), u32::MAX);
    }

    #[test]
    fn freshness_and_whole_names_decide() {
        let mut store = reader(1);
        assert!(insert(&store, digest(0, 1), b"name", 1, 20));
        let mut get = |name: &[u8], fresh, at| store.get(digest(0, 1), name, fresh, Ticks::from_ms(at)).is_some();
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
        // An empty place is filled before any Data is evicted.
        assert!(store.remove(digest(0, 1)));
        for (n, out) in [(8, 1), (9, 2), (10, 3), (11, 4)] {
            assert!(insert(&store, digest(0, n), b"n", 1, 10));
            assert!(!store.contains(digest(0, out)) && store.contains(digest(0, out + 1)), "{n}");
            assert_eq!(store.len(), 7);
        }
    }

    /// Two homes insert and remove in few places while readers copy: each copy is of one moment.
    #[test]
    fn threads_read_whole_packets() {
        let store = Arc::new(SharedStore::new(1));
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
                    let mut store = SharedReader::new(Arc::clone(&store));
                    let stop = &stop;
                    scope.spawn(move || {
                        let (mut hits, mut n) = (0, 0);
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            n = (n + 1) % 16;
                            if let Some(packet) = store.get(digest(0, n), &name(n), false, LATER) {
                                assert!(packet[4..].iter().all(|byte| *byte == packet[4]), "{n}: {packet:?}");
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

    /// Fills the set, so that the next insertion evicts the first Data.
    fn full() -> Arc<SharedStore> {
        let store = SharedStore::new(1);
        for name in 1..=WAYS as u8 {
            assert!(put(&store, name, 1));
        }
        Arc::new(store)
    }

    fn reader(store: &Arc<SharedStore>) -> SharedReader {
        SharedReader::new(Arc::clone(store))
    }

    /// A home replaces its Data while another worker reads it, twice. The reader gets one of them, or nothing.
    #[test]
    fn a_copy_is_of_one_moment() {
        loom::model(|| {
            let store = full();
            let home = loom::thread::spawn({
                let store = Arc::clone(&store);
                move || store.remove(digest(1)) && put(&store, 1, 2)
            });
            let mut reader = reader(&store);
            for _ in 0..2 {
                if let Some(packet) = reader.get(digest(1), &[1], false, Ticks(0)) {
                    assert!(packet[1..] == [1; 8] || packet[1..] == [2; 8], "{packet:?}");
                }
            }
            assert!(home.join().expect("no panic"));
            assert_eq!(&reader.get(digest(1), &[1], false, Ticks(0)).expect("it is there")[1..], [2; 8]);
        });
    }

    /// Two homes want the place that a third worker reads. No copy mixes both, and the final content is whole.
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
                let found = reader(&store).get(digest(name), &[name as u8], false, Ticks(0));
                if let Some(packet) = &found {
                    assert_eq!(packet[1..], [name as u8; 8]);
                }
                assert!(put_in || found.is_none());
            }
            assert_eq!(store.len(), WAYS as u64);
        });
    }

    /// One home removes the Data that another evicts. When both are done it is gone, whichever was first.
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
            assert!(reader(&store).get(digest(1), &[1], false, Ticks(0)).is_none());
            let there = (1..=8).filter(|name| store.contains(digest(*name))).count();
            assert_eq!(there as u64, store.len());
            assert!(there == WAYS - 1 || put_in);
        });
    }
}
