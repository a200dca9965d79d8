//! How tables that compare names hold them: inside, or by reference.

use std::collections::HashMap;
use std::marker::PhantomData;

use byname_lookup::prefetch;

use super::{FlatName, lines_of};

/// A way to hold a name in a slot of a fixed size.
pub trait Slot: Send + Sync + 'static {
    /// Octets of a slot.
    const OCTETS: usize;
    /// Whether a slot refers to a text elsewhere.
    const REFERS: bool;

    /// Fills a slot for `name`, whose octets may go to `texts`.
    ///
    /// # Panics
    /// If the table holds no names of this length.
    fn write(slot: &mut [u8], name: &FlatName<'_>, texts: &mut Texts);
    /// Frees what the slot's name has in `texts`.
    fn free(slot: &[u8], texts: &mut Texts);
    /// Whether `name` would be written as zeros, as vacant slots are.
    fn is_zero(name: &FlatName<'_>) -> bool;
    /// Whether the slot holds `name`.
    fn holds(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool;
    /// The name in the slot.
    fn octets<'a>(slot: &'a [u8], texts: &'a Texts) -> &'a [u8];
    /// Whether [`Slot::holds`] reads what the slot refers to.
    fn may_hold(slot: &[u8], name: &FlatName<'_>) -> bool;
    /// Asks the memory for the first line of what the slot refers to.
    fn prefetch(slot: &[u8], texts: &Texts);
    /// Cache lines of what the slot refers to.
    fn lines(slot: &[u8], texts: &Texts) -> usize;
    /// Whether the slot's name is before `name` in the order of octets.
    fn is_before(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool;
}

/// Names of exactly `N` octets, in the slot.
pub struct Inline<const N: usize>(PhantomData<[u8; N]>);

impl<const N: usize> Inline<N> {
    #[inline(always)]
    fn array(octets: &[u8]) -> Option<&[u8; N]> {
        octets.first_chunk().filter(|_| octets.len() == N)
    }
}

impl<const N: usize> Slot for Inline<N> {
    const OCTETS: usize = N;
    const REFERS: bool = false;

    fn write(slot: &mut [u8], name: &FlatName<'_>, _: &mut Texts) {
        slot.copy_from_slice(name.octets);
    }

    fn free(_: &[u8], _: &mut Texts) {}

    #[inline(always)]
    fn is_zero(name: &FlatName<'_>) -> bool {
        Self::array(name.octets) == Some(&[0; N])
    }

    #[inline(always)]
    fn holds(slot: &[u8], name: &FlatName<'_>, _: &Texts) -> bool {
        // Arrays: their comparison is a few instructions, that of slices is a call.
        slot.first_chunk::<N>() == Self::array(name.octets)
    }

    fn octets<'a>(slot: &'a [u8], _: &'a Texts) -> &'a [u8] {
        slot
    }

    #[inline(always)]
    fn may_hold(_: &[u8], _: &FlatName<'_>) -> bool {
        false // it refers to nothing
    }

    #[inline(always)]
    fn prefetch(_: &[u8], _: &Texts) {}

    fn lines(_: &[u8], _: &Texts) -> usize {
        0
    }

    #[inline(always)]
    fn is_before(slot: &[u8], name: &FlatName<'_>, _: &Texts) -> bool {
        slot.first_chunk::<N>() < Self::array(name.octets)
    }
}

/// Names of any length: three octets of the digest, and five that say where the name's text is.
pub struct Reference;

const TAG_BITS: u32 = 24;

impl Reference {
    #[inline(always)]
    fn parts(slot: &[u8]) -> (u64, usize) {
        let word = u64::from_le_bytes(*slot.first_chunk().expect("a slot of eight octets"));
        (word & ((1 << TAG_BITS) - 1), (word >> TAG_BITS) as usize)
    }

    /// Bits of the digest that tables take no places from.
    #[inline(always)]
    fn tag(name: &FlatName<'_>) -> u64 {
        (name.digest.hash ^ name.digest.check) & ((1 << TAG_BITS) - 1)
    }
}

impl Slot for Reference {
    const OCTETS: usize = 8;
    const REFERS: bool = true;

    fn write(slot: &mut [u8], name: &FlatName<'_>, texts: &mut Texts) {
        let at = texts.add(name.octets) as u64;
        slot.copy_from_slice(&(Self::tag(name) | at << TAG_BITS).to_le_bytes());
    }

    fn free(slot: &[u8], texts: &mut Texts) {
        texts.free(Self::parts(slot).1);
    }

    #[inline(always)]
    fn is_zero(_: &FlatName<'_>) -> bool {
        false // no text is at 0
    }

    #[inline(always)]
    fn holds(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool {
        Self::may_hold(slot, name) && Self::octets(slot, texts) == name.octets
    }

    fn octets<'a>(slot: &'a [u8], texts: &'a Texts) -> &'a [u8] {
        texts.get(Self::parts(slot).1)
    }

    #[inline(always)]
    fn may_hold(slot: &[u8], name: &FlatName<'_>) -> bool {
        let (tag, at) = Self::parts(slot);
        tag == Self::tag(name) && at != 0
    }

    #[inline(always)]
    fn prefetch(slot: &[u8], texts: &Texts) {
        texts.prefetch(Self::parts(slot).1);
    }

    fn lines(slot: &[u8], texts: &Texts) -> usize {
        let at = Self::parts(slot).1;
        lines_of(at, 2 + texts.get(at).len())
    }

    fn is_before(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool {
        Self::octets(slot, texts) < name.octets
    }
}

/// Texts of names, one after the other, each behind its length in two octets.
pub struct Texts {
    octets: Vec<u8>,
    /// Where texts were freed, by their length.
    free: HashMap<usize, Vec<usize>>,
}

impl Default for Texts {
    fn default() -> Self {
        // So that no text is at 0.
        Texts { octets: vec![0], free: HashMap::new() }
    }
}

impl Texts {
    fn add(&mut self, text: &[u8]) -> usize {
        let length = u16::try_from(text.len()).expect("names are shorter than packets");
        if let Some(at) = self.free.get_mut(&text.len()).and_then(Vec::pop) {
            self.octets[at + 2..][..text.len()].copy_from_slice(text);
            return at;
        }
        let at = self.octets.len();
        self.octets.extend(length.to_le_bytes());
        self.octets.extend(text);
        at
    }

    fn free(&mut self, at: usize) {
        self.free.entry(self.get(at).len()).or_default().push(at);
    }

    #[inline(always)]
    fn get(&self, at: usize) -> &[u8] {
        let length = u16::from_le_bytes([self.octets[at], self.octets[at + 1]]);
        &self.octets[at + 2..][..usize::from(length)]
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        prefetch::read(&self.octets[at]);
    }

    /// Gives back what was reserved for more names than came.
    pub fn shrink(&mut self) {
        self.octets.shrink_to_fit();
    }

    /// What a query can read, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self.octets.len() {
            1 => 0,
            _ => self.octets.capacity(),
        }
    }
}
