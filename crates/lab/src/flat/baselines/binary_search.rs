//! Binary search over sorted names, "Binary" in [Concise §6.4.1].
//!
//! The sorted names lie in the order in which searches reach them [Khuong and Morin, "Array layouts for
//! comparison-based searching", 2017]. The children of name `i` are 2i and 2i + 1, so that the first steps share cache
//! lines. Each step is a comparison without a branch. All names of a burst take each step together, and each step
//! prefetches the next.
//!
//! Cost per name: 8 × bytes + action bits of memory; log2 n steps per lookup, and the first of these hit the caches.

use std::marker::PhantomData;

use byname_lookup::{BuildError, EntryId};

use super::bytes::Bytes;
use super::slot::{Slot, Texts};
use super::{BURST_MAX, Baseline, FlatName, Population, check_action, lines_of};

/// A table. It never changes.
pub struct BinarySearch<S> {
    /// Slot `i` for `i` from 1 on: the root first, then each level from left to right.
    slots: Bytes,
    /// The actions in the same order.
    actions: Bytes,
    count: usize,
    action_bits: u32,
    texts: Texts,
    slot: PhantomData<S>,
}

impl<S: Slot> BinarySearch<S> {
    /// Builds a table of `names`.
    pub fn construct(names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        let count = names.len();
        let mut texts = Texts::default();
        let (mut slots, mut actions) = (vec![0; count * S::BYTES], Vec::with_capacity(count));
        let mut result = Ok(());
        names.visit(&mut |name, action| match check_action(action, action_bits) {
            Ok(()) if result.is_ok() => {
                S::write(&mut slots[actions.len() * S::BYTES..][..S::BYTES], &name, &mut texts);
                actions.push(action.0);
            }
            Ok(()) => {}
            refused => result = refused,
        });
        result?;
        texts.shrink();
        let slot = |i: &u32| &slots[*i as usize * S::BYTES..][..S::BYTES];
        let mut sorted: Vec<u32> = (0..u32::try_from(count).map_err(|_| BuildError::Full { rules: count })?).collect();
        sorted.sort_unstable_by(|a, b| S::bytes(slot(a), &texts).cmp(S::bytes(slot(b), &texts)));

        let mut table = BinarySearch {
            slots: Bytes::zeroed((count + 1) * S::BYTES)?,
            actions: Bytes::zeroed(((count + 1) * action_bits as usize).div_ceil(8))?,
            count,
            action_bits,
            texts,
            slot: PhantomData,
        };
        for (i, place) in sorted.iter().zip(in_order(count)) {
            table.slots.get_mut()[place * S::BYTES..][..S::BYTES].copy_from_slice(slot(i));
            table.actions.set_field(place * action_bits as usize, action_bits, actions[*i as usize]);
        }
        Ok(table)
    }

    #[inline(always)]
    fn slot(&self, place: usize) -> &[u8] {
        &self.slots.get()[place * S::BYTES..][..S::BYTES]
    }

    /// The child of `place` at which the search for `name` continues.
    #[inline(always)]
    fn child(&self, place: usize, name: &FlatName<'_>) -> usize {
        2 * place + usize::from(S::is_before(self.slot(place), name, &self.texts))
    }

    /// The place of the first name that is not before the wanted one; 0 if there is none. `left_at` is the place below
    /// the tree at which the search ended.
    #[inline(always)]
    fn candidate(left_at: usize) -> usize {
        // The candidate is where the search last turned left.
        left_at >> (left_at.trailing_ones() + 1)
    }

    /// The action at `place`, if `place` holds `name`.
    #[inline(always)]
    fn action(&self, place: usize, name: &FlatName<'_>) -> Option<EntryId> {
        let found = place != 0 && S::bytes(self.slot(place), &self.texts) == name.bytes;
        found.then(|| EntryId(self.actions.field(place * self.action_bits as usize, self.action_bits)))
    }
}

/// The places 1 to `count` of a search tree, from the smallest name to the greatest.
fn in_order(count: usize) -> impl Iterator<Item = usize> {
    let leftmost = move |mut place: usize| {
        while 2 * place <= count {
            place *= 2;
        }
        place
    };
    let first = (count > 0).then(|| leftmost(1));
    std::iter::successors(first, move |&place| match 2 * place < count {
        true => Some(leftmost(2 * place + 1)),
        // The next place is the first ancestor whose left subtree holds this place. Above the root is 0.
        false => Some(place >> (place.trailing_ones() + 1)).filter(|&place| place != 0),
    })
}

impl<S: Slot> Baseline for BinarySearch<S> {
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        let mut places = [1; BURST_MAX];
        let places = &mut places[..names.len()];
        // All levels but the last are full, so each of their places has a name.
        for _ in 1..usize::BITS - self.count.leading_zeros() {
            if S::REFERS {
                places.iter().for_each(|&place| S::prefetch(self.slot(place), &self.texts));
            }
            for (name, place) in names.iter().zip(&mut *places) {
                *place = self.child(*place, name);
                if *place <= self.count {
                    self.slots.prefetch(*place * S::BYTES, S::BYTES);
                }
            }
        }
        for (name, place) in names.iter().zip(&mut *places) {
            if *place <= self.count && self.count > 0 {
                *place = self.child(*place, name);
            }
            *place = Self::candidate(*place);
            self.actions.prefetch_line(*place * self.action_bits as usize / 8);
        }
        for ((name, &mut place), out) in names.iter().zip(places).zip(out) {
            *out = self.action(place, name);
        }
    }

    fn lines_read(&self, name: &FlatName<'_>) -> usize {
        let (mut place, mut lines) = (1, 0);
        while place <= self.count {
            lines += lines_of(place * S::BYTES, S::BYTES) + S::lines(self.slot(place), &self.texts);
            place = self.child(place, name);
        }
        lines + usize::from(self.action(Self::candidate(place), name).is_some())
    }

    fn memory_bytes(&self) -> usize {
        self.slots.len() + self.actions.len() + self.texts.memory_bytes()
    }
}
