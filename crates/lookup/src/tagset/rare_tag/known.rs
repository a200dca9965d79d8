//! Known tags, which are those of any descriptor, and the search for those that a filter holds.
//!
//! A tag's positions in the first three parts of the filter choose one of 27^3 buckets. The bucket
//! stores the other four positions beside the digest. A filter with b bits in each part needs b^3
//! buckets, a few hundred for packets of six tags. The tags of each bucket are checked many at a
//! time.

use std::sync::OnceLock;

use byname_wire::tagset::{FUNCTIONS, Filter, PART_BITS, TagDigest};

use super::arena::{Arena, BlockId, Chunks};
use super::processor::{COLUMN_MAX, Column, Lanes};
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;

/// Number of parts that choose a bucket.
const BUCKET_PARTS: usize = 3;
/// Number of buckets that are prefetched together.
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
        // One byte for each position, with the part in its top bits.
        let byte = |i: usize| ((position(BUCKET_PARTS + i) | i << 5) as u32) << (8 * i);
        Place {
            buckets: position(0),
            bucket: position(1) * PART_BITS + position(2),
            signature: (0..FUNCTIONS - BUCKET_PARTS).map(byte).sum(),
        }
    }
}

/// State that readers and the writer share. For each position in the first part that has tags,
/// there are words for the positions in the next two: the number of tags, above their block. A
/// block begins with the signatures.
pub(super) struct Known([OnceLock<Lines>; PART_BITS]);

impl Known {
    pub(super) fn new() -> Self {
        Known(std::array::from_fn(|_| OnceLock::new()))
    }

    /// Adds a tag. This method and all below are for the writer.
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

    /// Finds the known tags that a filter holds and puts them into `found`, ascending. Returns the
    /// number of steps, one for each column of tags tried and one for each tag found. Also returns
    /// whether the limit of steps was too low; then nothing is found.
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

/// The positions of the bits that are set.
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
    /// For each possible byte of a signature: 255 if the filter has the bit, otherwise 0.
    pub(super) bytes: [u8; 128],
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
        let mut bytes = [0; 128];
        for (part, mask) in masks[BUCKET_PARTS..].iter().enumerate() {
            ones(*mask).for_each(|position| bytes[part << 5 | position] = 255);
        }
        Parts { masks, bytes }
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
    /// Checks the tags of buckets. Returns whether the search ends here.
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
