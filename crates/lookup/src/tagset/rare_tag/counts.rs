//! Counts the descriptors of each tag, which tells how rare the tag is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};

use byname_wire::tagset::{TAGS_MAX, TagDigest};

use super::table::{Mixed, Mixer};

/// Number of maps, each of which grows by itself. With a single map, the writer would pause for a
/// large part of a second.
const MAPS: usize = if cfg!(loom) { 1 } else { 256 };

/// Number of descriptors of each tag that occurs.
pub(super) struct Counts {
    mixer: Mixer,
    maps: Vec<HashMap<Mixed, (TagDigest, u32), Spread>>,
}

impl Counts {
    pub(super) fn new(mixer: Mixer) -> Self {
        Counts { mixer, maps: vec![HashMap::default(); MAPS] }
    }

    /// Counts one more descriptor for a tag. Returns whether it is the first.
    pub(super) fn add(&mut self, tag: TagDigest) -> bool {
        let place = self.mixer.mix(tag);
        let (_, count) = self.maps[map_of(place)].entry(place).or_insert((tag, 0));
        *count += 1;
        *count == 1
    }

    /// Counts one descriptor less for a tag. Returns whether it was the last.
    pub(super) fn remove(&mut self, tag: TagDigest) -> bool {
        let place = self.mixer.mix(tag);
        let Entry::Occupied(mut counted) = self.maps[map_of(place)].entry(place) else { return false };
        let (_, count) = counted.get_mut();
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counted.remove();
        }
        is_last
    }

    /// Sorts a descriptor's tags, rarest first.
    pub(super) fn sort_rarest_first(&self, tags: &mut [TagDigest]) {
        let mut ranked = [(0, TagDigest(0)); TAGS_MAX];
        let ranked = &mut ranked[..tags.len()];
        for (ranked, tag) in ranked.iter_mut().zip(&*tags) {
            *ranked = (self.count(*tag), *tag);
        }
        ranked.sort_unstable();
        for (tag, (_, next)) in tags.iter_mut().zip(ranked) {
            *tag = *next;
        }
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = TagDigest> {
        self.maps.iter().flat_map(HashMap::values).map(|(tag, _)| *tag)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // One byte for each place of the map.
        self.maps.iter().map(HashMap::capacity).sum::<usize>() * (size_of::<(Mixed, TagDigest, u32)>() + 1)
    }

    fn count(&self, tag: TagDigest) -> u32 {
        let place = self.mixer.mix(tag);
        self.maps[map_of(place)].get(&place).map_or(0, |(_, count)| *count)
    }
}

/// The map of a tag. Chosen by the top bits, because maps use the lowest ones themselves.
fn map_of(place: Mixed) -> usize {
    ((u64::from(place.0) * MAPS as u64) >> 32) as usize
}

/// Hashes values that are already mixed with a secret. A product spreads them over 64 bits.
#[derive(Clone, Copy, Default)]
struct Spread(u64);

impl BuildHasher for Spread {
    type Hasher = Spread;

    fn build_hasher(&self) -> Spread {
        Spread::default()
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
