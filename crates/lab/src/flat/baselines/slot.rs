//! Storage of names in tables that compare them: inline, or by reference.

use std::collections::HashMap;
use std::marker::PhantomData;

use byname_lookup::prefetch;

use super::{FlatName, lines_of};

/// A way to store a name in a slot of fixed size.
pub trait Slot: Send + Sync + 'static {
    /// Bytes per slot.
    const BYTES: usize;
    /// Whether a slot refers to a text outside the table.
    const REFERS: bool;

    /// Stores `name` in a slot. Its bytes may go to `texts`.
    ///
    /// # Panics
    /// If the table holds no names of this length.
    fn write(slot: &mut [u8], name: &FlatName<'_>, texts: &mut Texts);
    /// Frees the memory of the slot's name in `texts`.
    fn free(slot: &[u8], texts: &mut Texts);
    /// Whether `name` would be stored as zeros, like a vacant slot.
    fn is_zero(name: &FlatName<'_>) -> bool;
    /// Whether the slot holds `name`.
    fn holds(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool;
    /// The name in the slot.
    fn bytes<'a>(slot: &'a [u8], texts: &'a Texts) -> &'a [u8];
    /// Whether [`Slot::holds`] reads the text that the slot refers to.
    fn may_hold(slot: &[u8], name: &FlatName<'_>) -> bool;
    /// Prefetches the first line of the text that the slot refers to.
    fn prefetch(slot: &[u8], texts: &Texts);
    /// Number of cache lines of the text that the slot refers to.
    fn lines(slot: &[u8], texts: &Texts) -> usize;
    /// Whether the slot's name sorts before `name` in byte order.
    fn is_before(slot: &[u8], name: &FlatName<'_>, texts: &Texts) -> bool;
}

/// Stores names of exactly `N` bytes inline.
pub struct Inline<const N: usize>(PhantomData<[u8; N]>);

impl<const N: usize> Inline<N> {
    #[inline(always)]
    fn array(bytes: &[u8]) -> Option<&[u8; N]> {
        bytes.first_chunk().filter(|_| bytes.len() == N)
    }
}

impl<const N: usize> Slot for Inline<N> {
    const BYTES: usize = N;
    const REFERS: bool = false;

    fn write(slot: &mut [u8], name: &FlatName<'_>, _: &mut Texts) {
        slot.copy_from_slice(name.bytes);
    }

    fn free(_: &[u8], _: &mut Texts) {}

    #[inline(always)]
    fn is_zero(name: &FlatName<'_>) -> bool {
        Self::array(name.bytes) == Some(&[0; N])
    }

    #[inline(always)]
    fn holds(slot: &[u8], name: &FlatName<'_>, _: &Texts) -> bool {
        // Arrays are compared with a few instructions, slices with a call.
        slot.first_chunk::<N>() == Self::array(name.bytes)
    }

    fn bytes<'a>(slot: &'a [u8], _: &'a Texts) -> &'a [u8] {
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
        slot.first_chunk::<N>() < Self::array(name.bytes)
    }
}

/// Stores names of any length by reference: three bytes of the digest, and five bytes with the offset of the text.
pub struct Reference;

const TAG_BITS: u32 = 24;

impl Reference {
    #[inline(always)]
    fn parts(slot: &[u8]) -> (u64, usize) {
        let word = u64::from_le_bytes(*slot.first_chunk().expect("a slot of eight bytes"));
        (word & ((1 << TAG_BITS) - 1), (word >> TAG_BITS) as usize)
    }

    /// Digest bits that are independent of the name's place in the table.
    #[inline(always)]
    fn tag(name: &FlatName<'_>) -> u64 {
        (name.digest.hash ^ name.digest.check) & ((1 << TAG_BITS) - 1)
    }
}

impl Slot for Reference {
    const BYTES: usize = 8;
    const REFERS: bool = true;

    fn write(slot: &mut [u8], name: &FlatName<'_>, texts: &mut Texts) {
        let at = texts.add(name.bytes) as u64;
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
        Self::may_hold(slot, name) && Self::bytes(slot, texts) == name.bytes
    }

    fn bytes<'a>(slot: &'a [u8], texts: &'a Texts) -> &'a [u8] {
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
        Self::bytes(slot, texts) < name.bytes
    }
}

/// Texts of names, one after the other. Each follows its length in two bytes.
pub struct Texts {
    bytes: Vec<u8>,
    /// Offsets of freed texts, by their length.
    free: HashMap<usize, Vec<usize>>,
}

impl Default for Texts {
    fn default() -> Self {
        // One byte is used up, so that no text has offset 0.
        Texts { bytes: vec![0], free: HashMap::new() }
    }
}

impl Texts {
    fn add(&mut self, text: &[u8]) -> usize {
        let length = u16::try_from(text.len()).expect("names are shorter than packets");
        if let Some(at) = self.free.get_mut(&text.len()).and_then(Vec::pop) {
            self.bytes[at + 2..][..text.len()].copy_from_slice(text);
            return at;
        }
        let at = self.bytes.len();
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(text);
        at
    }

    fn free(&mut self, at: usize) {
        self.free.entry(self.get(at).len()).or_default().push(at);
    }

    #[inline(always)]
    fn get(&self, at: usize) -> &[u8] {
        let length = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]);
        &self.bytes[at + 2..][..usize::from(length)]
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        prefetch::read(&self.bytes[at]);
    }

    /// Frees memory that was reserved for more names than came.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Memory that queries can read, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self.bytes.len() {
            1 => 0,
            _ => self.bytes.capacity(),
        }
    }
}
