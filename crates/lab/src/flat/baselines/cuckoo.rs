//! (2,4)-cuckoo hashing with whole names, as in CuckooSwitch [CoNEXT 2013] and ScaleBricks [SIGCOMM 2015]: each name
//! is stored in one of four slots of one of its two buckets.
//!
//! A burst is looked up as in CuckooSwitch: first the buckets of all names are computed and prefetched, then the names
//! are compared.
//!
//! Differs: names move along the shortest path to a vacant slot. The path is found before anything moves, so an
//! addition that fails changes nothing. Buckets are packed to the bit for the least memory, while the published code
//! pads them. A bucket of 36 bytes (8-byte names, 8-bit actions) usually crosses a cache line. There are no version
//! counters, because readers are not concurrent here.
//!
//! Cost at load 0.95: (8 × bytes + action bits) / 0.95 bits a name. A query reads two buckets, which are two to four
//! cache lines if buckets are smaller than a line.

use std::marker::PhantomData;

use byname_lookup::{BuildError, EntryId};
use byname_wire::Digest;

use super::bytes::Bytes;
use super::slot::{Slot, Texts};
use super::{BURST_MAX, Baseline, Changes, FlatName, Population, below, check_action, lines_of};

/// Slots per bucket.
const SLOTS: usize = 4;

/// "High occupancy of up to 95 %" [CuckooSwitch §4.1]; (2,4) tables fail above 97.7 %.
const LOAD: f64 = 0.95;

/// Maximum number of buckets that an addition searches before the table counts as full. At load 0.95, an addition
/// searches about ten.
const SEARCH_MAX: usize = 4096;

/// Both halves of a table.
pub struct Cuckoo<S> {
    buckets: Buckets<S>,
    /// Digest of each slot's name. With it a name can move without being hashed again. Control half.
    digests: Vec<Digest>,
    /// One byte per bucket, with a bit for each occupied slot. Control half.
    taken: Vec<u8>,
}

/// The query half.
struct Buckets<S> {
    /// Each bucket holds its names, then its actions. Vacant slots are zero.
    bytes: Bytes,
    count: usize,
    /// Bytes per bucket.
    stride: usize,
    action_bits: u32,
    texts: Texts,
    /// Action of the name that is stored as zeros: its slot would look vacant.
    zero: Option<EntryId>,
    slot: PhantomData<S>,
}

/// A slot of a bucket.
#[derive(Clone, Copy)]
struct Place {
    bucket: usize,
    slot: usize,
}

/// A bucket that the search for a vacant slot has reached.
struct Step {
    bucket: usize,
    /// The previous step, and the slot there whose name can move to this bucket.
    from: Option<(usize, usize)>,
}

impl<S: Slot> Cuckoo<S> {
    /// Builds a table of `names`, which has load 0.95 when it holds the maximum number of names.
    pub fn construct(names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        let buckets = |load: f64| (names.names_max() as f64 / load / SLOTS as f64).ceil() as usize;
        match Self::construct_in(buckets(LOAD), names, action_bits) {
            // A small table may fail at a load that is safe for a large one.
            Err(BuildError::Full { .. }) => Self::construct_in(buckets(LOAD / 2.0), names, action_bits),
            done => done,
        }
    }

    fn construct_in(buckets: usize, names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        // With at least two buckets, the two buckets of a name differ.
        let buckets = buckets.max(2);
        let mut table = Cuckoo {
            buckets: Buckets::zeroed(buckets, action_bits)?,
            digests: vec![Digest::default(); buckets * SLOTS],
            taken: vec![0; buckets],
        };
        let mut result = Ok(());
        names.visit(&mut |name, action| {
            if result.is_ok() {
                result = check_action(action, action_bits).and_then(|()| table.add(&name, action));
            }
        });
        table.buckets.texts.shrink();
        result.map(|()| table)
    }

    fn add(&mut self, name: &FlatName<'_>, action: EntryId) -> Result<(), BuildError> {
        if S::is_zero(name) {
            self.buckets.zero = Some(action);
            return Ok(());
        }
        let place = self.vacate(name.digest)?;
        let buckets = &mut self.buckets;
        let at = buckets.slot_at(place);
        S::write(&mut buckets.bytes.get_mut()[at..at + S::BYTES], name, &mut buckets.texts);
        buckets.set_action(place, action);
        self.digests[place.bucket * SLOTS + place.slot] = name.digest;
        self.taken[place.bucket] |= 1 << place.slot;
        Ok(())
    }

    fn delete(&mut self, place: Place) {
        let buckets = &mut self.buckets;
        let at = buckets.slot_at(place);
        let slot = &mut buckets.bytes.get_mut()[at..at + S::BYTES];
        S::free(slot, &mut buckets.texts);
        slot.fill(0);
        self.taken[place.bucket] &= !(1 << place.slot);
    }

    /// Makes a slot vacant in one of the two buckets of `digest`.
    fn vacate(&mut self, digest: Digest) -> Result<Place, BuildError> {
        let mut steps: Vec<_> = self.buckets.of(digest).map(|bucket| Step { bucket, from: None }).into();
        let mut i = 0;
        while i < steps.len() {
            let bucket = steps[i].bucket;
            if self.taken[bucket] != (1 << SLOTS) - 1 {
                let slot = self.taken[bucket].trailing_ones() as usize;
                return Ok(self.move_along(&steps, i, Place { bucket, slot }));
            }
            if steps.len() < SEARCH_MAX {
                for slot in 0..SLOTS {
                    let [one, other] = self.buckets.of(self.digests[bucket * SLOTS + slot]);
                    let bucket = if one == bucket { other } else { one };
                    steps.push(Step { bucket, from: Some((i, slot)) });
                }
            }
            i += 1;
        }
        let rules = self.taken.iter().map(|taken| taken.count_ones() as usize).sum();
        Err(BuildError::Full { rules })
    }

    /// Moves the names of a path by one step each, the last one into `vacant`, the free slot of step `last`. Returns
    /// the slot that is then vacant in the first bucket.
    fn move_along(&mut self, steps: &[Step], last: usize, mut vacant: Place) -> Place {
        let mut step = &steps[last];
        while let Some((before, slot)) = step.from {
            step = &steps[before];
            let from = Place { bucket: step.bucket, slot };
            let buckets = &mut self.buckets;
            let (source, target) = (buckets.slot_at(from), buckets.slot_at(vacant));
            buckets.bytes.get_mut().copy_within(source..source + S::BYTES, target);
            buckets.set_action(vacant, buckets.action(from));
            buckets.bytes.get_mut()[source..source + S::BYTES].fill(0);
            self.digests[vacant.bucket * SLOTS + vacant.slot] = self.digests[from.bucket * SLOTS + from.slot];
            self.taken[vacant.bucket] |= 1 << vacant.slot;
            self.taken[from.bucket] &= !(1 << from.slot);
            vacant = from;
        }
        vacant
    }
}

impl<S: Slot> Buckets<S> {
    fn zeroed(count: usize, action_bits: u32) -> Result<Self, BuildError> {
        let stride = SLOTS * S::BYTES + (SLOTS * action_bits as usize).div_ceil(8);
        let bytes = Bytes::zeroed(count * stride)?;
        let texts = Texts::default();
        Ok(Buckets { bytes, count, stride, action_bits, texts, zero: None, slot: PhantomData })
    }

    /// The two buckets of a name.
    #[inline(always)]
    fn of(&self, digest: Digest) -> [usize; 2] {
        let (one, other) = (below(digest.hash, self.count), below(digest.check, self.count));
        match one == other {
            false => [one, other],
            true => [one, if one + 1 == self.count { 0 } else { one + 1 }],
        }
    }

    #[inline(always)]
    fn slot_at(&self, place: Place) -> usize {
        place.bucket * self.stride + place.slot * S::BYTES
    }

    #[inline(always)]
    fn action_at(&self, place: Place) -> usize {
        (place.bucket * self.stride + SLOTS * S::BYTES) * 8 + place.slot * self.action_bits as usize
    }

    #[inline(always)]
    fn action(&self, place: Place) -> EntryId {
        EntryId(self.bytes.field(self.action_at(place), self.action_bits))
    }

    fn set_action(&mut self, place: Place, action: EntryId) {
        self.bytes.set_field(self.action_at(place), self.action_bits, action.0);
    }

    /// The slots of a bucket.
    #[inline(always)]
    fn slots(&self, bucket: usize) -> impl Iterator<Item = &[u8]> {
        let slots = &self.bytes.get()[bucket * self.stride..][..SLOTS * S::BYTES];
        (0..SLOTS).map(|slot| &slots[slot * S::BYTES..][..S::BYTES])
    }

    #[inline(always)]
    fn find(&self, name: &FlatName<'_>, buckets: [usize; 2]) -> Option<Place> {
        // All slots of both buckets are compared. The processor cannot predict which bucket holds the name, and a
        // misprediction costs more than four comparisons.
        let found = buckets.map(|bucket| {
            let holding = |(i, slot)| u32::from(S::holds(slot, name, &self.texts)) << i;
            self.slots(bucket).enumerate().map(holding).fold(0, |all, slot| all | slot)
        });
        let found = found[0] | found[1] << SLOTS;
        let i = found.trailing_zeros() as usize;
        (found != 0).then(|| Place { bucket: buckets[i / SLOTS], slot: i % SLOTS })
    }
}

impl<S: Slot> Baseline for Cuckoo<S> {
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        let table = &self.buckets;
        let mut buckets = [[0; 2]; BURST_MAX];
        let buckets = &mut buckets[..names.len()];
        for (name, buckets) in names.iter().zip(&mut *buckets) {
            *buckets = table.of(name.digest);
            for bucket in *buckets {
                table.bytes.prefetch(bucket * table.stride, table.stride);
            }
        }
        if S::REFERS {
            for (name, buckets) in names.iter().zip(&*buckets) {
                let slots = buckets.iter().flat_map(|&bucket| table.slots(bucket));
                slots.filter(|slot| S::may_hold(slot, name)).for_each(|slot| S::prefetch(slot, &table.texts));
            }
        }
        for ((name, &mut buckets), out) in names.iter().zip(buckets).zip(out) {
            *out = match S::is_zero(name) {
                true => table.zero,
                false => table.find(name, buckets).map(|place| table.action(place)),
            };
        }
    }

    fn lines_read(&self, name: &FlatName<'_>) -> usize {
        let table = &self.buckets;
        let lines = table.of(name.digest).map(|bucket| {
            let read = table.slots(bucket).filter(|slot| S::may_hold(slot, name));
            lines_of(bucket * table.stride, table.stride) + read.map(|slot| S::lines(slot, &table.texts)).sum::<usize>()
        });
        lines.iter().sum()
    }

    fn memory_bytes(&self) -> usize {
        self.buckets.bytes.len() + self.buckets.texts.memory_bytes()
    }

    fn control_bytes(&self) -> usize {
        self.digests.len() * size_of::<Digest>() + self.taken.len()
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }
}

impl<S: Slot> Changes for Cuckoo<S> {
    fn change(
        &mut self,
        name: FlatName<'_>,
        _before: Option<EntryId>,
        after: Option<EntryId>,
    ) -> Result<(), BuildError> {
        after.map_or(Ok(()), |action| check_action(action, self.buckets.action_bits))?;
        if S::is_zero(&name) {
            self.buckets.zero = after;
            return Ok(());
        }
        // The table itself checks whether the name is present: a name stored twice would remain after one deletion.
        let place = self.buckets.find(&name, self.buckets.of(name.digest));
        match (place, after) {
            (Some(place), Some(action)) => self.buckets.set_action(place, action),
            (Some(place), None) => self.delete(place),
            (None, Some(action)) => self.add(&name, action)?,
            (None, None) => {}
        }
        Ok(())
    }
}
