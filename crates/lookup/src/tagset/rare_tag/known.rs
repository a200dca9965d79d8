//! Known tags, those of any descriptor, and which of them a filter holds.
//!
//! A filter's parts tell apart by position: tags lie in one of 27^3 buckets, by their positions in the
//! first three parts, with the other four positions beside their digests. A filter with b bits in each
//! part is asked b^3 buckets, a few hundred for packets of six tags, and each bucket's tags are checked
//! many at a time.

use std::sync::OnceLock;

use byname_wire::tagset::{FUNCTIONS, Filter, PART_BITS, TagDigest};

use super::arena::{Arena, BlockId, Chunks};
use super::processor::{COLUMN_MAX, Column, Lanes};
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;

/// Parts of the filter that choose a bucket.
const BUCKET_PARTS: usize = 3;
/// Buckets whose memory is asked for together.
const AHEAD: usize = 32;

/// The positions of a tag.
#[derive(Debug, Clone, Copy)]
struct Place {
    buckets: usize,
    bucket: usize,
    signature: u32,
}

impl Place {
    fn of(tag: TagDigest) -> Self {
        let all = Filter::positions(tag);
        let position = |part: usize| usize::from(all[part]) - part * PART_BITS;
        // One octet for each: the position, and five bits higher the part.
        let octet = |i: usize| ((position(BUCKET_PARTS + i) | i << 5) as u32) << (8 * i);
        Place {
            buckets: position(0),
            bucket: position(1) * PART_BITS + position(2),
            signature: (0..FUNCTIONS - BUCKET_PARTS).map(octet).sum(),
        }
    }
}

/// What readers and the writer share: for each position in the first part, if it has any tags, words
/// for the positions in the next two: how many tags, above their block. Signatures come first in it.
pub(super) struct Known([OnceLock<Lines>; PART_BITS]);

impl Known {
    pub(super) fn new() -> Self {
        Known(std::array::from_fn(|_| OnceLock::new()))
    }

    /// Adds a tag. This and what follows are the writer's.
    pub(super) fn add(&self, tag: TagDigest, arena: &mut Arena) {
        self.rewrite(Place::of(tag), arena, |tags| tags.push((Place::of(tag).signature, tag)));
    }

    /// Adds tags, all of which are new, with one block for each bucket.
    pub(super) fn add_all(&self, tags: impl Iterator<Item = TagDigest>, arena: &mut Arena) {
        let mut placed: Vec<_> = tags.map(|tag| (Place::of(tag), tag)).collect();
        placed.sort_unstable_by_key(|(place, tag)| (place.buckets, place.bucket, *tag));
        for group in placed.chunk_by(|(a, _), (b, _)| (a.buckets, a.bucket) == (b.buckets, b.bucket)) {
            let tags = group.iter().map(|(place, tag)| (place.signature, *tag));
            self.rewrite(group[0].0, arena, |all| all.extend(tags));
        }
    }

    /// Removes a tag.
    pub(super) fn remove(&self, tag: TagDigest, arena: &mut Arena) {
        self.rewrite(Place::of(tag), arena, |tags| tags.retain(|(_, other)| *other != tag));
    }

    fn rewrite(&self, place: Place, arena: &mut Arena, change: impl FnOnce(&mut Vec<(u32, TagDigest)>)) {
        let buckets = self.0[place.buckets].get_or_init(|| {
            Lines::zeroed((PART_BITS * PART_BITS).div_ceil(8), Pages::Small).expect("the heap has a few kilobytes")
        });
        let word = &buckets[place.bucket / 8].0[place.bucket % 8];
        let (count, old) = unpack(word.load(Ordering::Relaxed));
        let chunks = arena.chunks().clone();
        let block = chunks.block(old);
        let mut tags: Vec<_> = (0..count).map(|i| (block.half(i), TagDigest(block.half(count + i)))).collect();
        change(&mut tags);
        let id = if tags.is_empty() { BlockId(0) } else { arena.take(2 * tags.len()) };
        let block = chunks.block(id);
        for (i, (signature, tag)) in tags.iter().enumerate() {
            block.store(i, *signature);
            block.store(tags.len() + i, tag.0);
        }
        word.store((tags.len() as u64) << 32 | u64::from(id.0), Ordering::Release);
        if count > 0 {
            arena.retire(old, 2 * count);
        }
    }

    /// Finds the known tags that a filter holds, and puts them into `found`, ascending. Returns the
    /// steps taken, one for each column of tags tried and for each tag found, and whether these were too few:
    /// then none is left to walk with, and nothing is found.
    #[inline(always)]
    pub(super) fn held<L: Lanes>(
        &self,
        filter: &Filter,
        chunks: &Chunks,
        steps_max: usize,
        found: &mut Vec<TagDigest>,
    ) -> (usize, bool) {
        let parts = Parts::of(filter);
        let mut search = Search { parts: &parts, chunks, steps_max, steps: 0, found };
        let (mut waiting, mut len) = ([0; AHEAD], 0);
        for buckets in ones(parts.masks[0]).filter_map(|at| self.0[at].get()) {
            for first in ones(parts.masks[1]) {
                for second in ones(parts.masks[2]) {
                    let at = first * PART_BITS + second;
                    let word = buckets[at / 8].0[at % 8].load(Ordering::Acquire);
                    let (count, block) = unpack(word);
                    if count == 0 {
                        continue;
                    }
                    chunks.block(block).prefetch(0, count / COLUMN_MAX + 1);
                    waiting[len] = word;
                    len += 1;
                    if len == AHEAD {
                        len = 0;
                        if search.all::<L>(&waiting) {
                            return search.end(true);
                        }
                    }
                }
            }
        }
        let is_cut_off = search.all::<L>(&waiting[..len]);
        search.end(is_cut_off)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.iter().flat_map(OnceLock::get).map(|lines| size_of_val(&**lines)).sum::<usize>()
    }
}

fn unpack(word: u64) -> (usize, BlockId) {
    ((word >> 32) as usize, BlockId(word as u32))
}

/// The positions of the bits set.
#[inline(always)]
fn ones(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let one = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            one
        })
    })
}

/// The parts of a filter.
pub(super) struct Parts {
    pub(super) masks: [u32; FUNCTIONS],
    /// For each octet that a signature may have, 255 if the filter has the bit, or else 0.
    pub(super) octets: [u8; 128],
}

impl Parts {
    fn of(filter: &Filter) -> Self {
        let [low, middle, high] = filter.words();
        let low = u128::from(middle) << 64 | u128::from(low);
        let high = u128::from(high) << 64 | u128::from(middle);
        let mask = |part: usize| match part * PART_BITS {
            at @ ..=100 => (low >> at) as u32,
            at => (high >> (at - 64)) as u32,
        };
        let masks = std::array::from_fn(|part| mask(part) & ((1 << PART_BITS) - 1));
        let mut octets = [0; 128];
        for (part, mask) in masks[BUCKET_PARTS..].iter().enumerate() {
            ones(*mask).for_each(|position| octets[part << 5 | position] = 255);
        }
        Parts { masks, octets }
    }
}

/// The search for one packet.
struct Search<'a> {
    parts: &'a Parts,
    chunks: &'a Chunks,
    steps_max: usize,
    steps: usize,
    found: &'a mut Vec<TagDigest>,
}

impl Search<'_> {
    /// Tries the tags of buckets; whether the search ends here.
    #[inline(always)]
    fn all<L: Lanes>(&mut self, buckets: &[u64]) -> bool {
        for (count, block) in buckets.iter().map(|word| unpack(*word)) {
            let block = self.chunks.block(block);
            for from in (0..count).step_by(COLUMN_MAX) {
                let mut held = L::held(Column::of(block, from, (count - from).min(COLUMN_MAX)), self.parts);
                self.steps += 1 + held.count_ones() as usize;
                if self.steps > self.steps_max {
                    return true;
                }
                while held != 0 {
                    self.found.push(TagDigest(block.half(count + from + held.trailing_zeros() as usize)));
                    held &= held - 1;
                }
            }
        }
        false
    }

    fn end(self, is_cut_off: bool) -> (usize, bool) {
        match is_cut_off {
            true => self.found.clear(),
            false => self.found.sort_unstable(),
        }
        (self.steps.min(self.steps_max), is_cut_off)
    }
}
