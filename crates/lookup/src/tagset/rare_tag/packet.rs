//! The tags of a packet.

use byname_wire::tagset::{TAGS_MAX, TagDigest};

/// The place of a tag's bit in a bitmap: the word and the bit, from the tag's lowest nine bits.
#[inline(always)]
pub(super) fn bit_of(tag: TagDigest) -> (usize, u32) {
    (tag.0 as usize / 32 % 16, 1 << (tag.0 % 32))
}

/// One bit for each tag, at the place that [`bit_of`] gives.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bitmap(pub(super) [u32; 16]);

impl Bitmap {
    #[inline(always)]
    fn of(tags: &[TagDigest]) -> Self {
        let mut words = [0; 16];
        tags.iter().map(|tag| bit_of(*tag)).for_each(|(word, bit)| words[word] |= bit);
        Bitmap(words)
    }

    #[inline(always)]
    pub(super) fn may_have(&self, tag: TagDigest) -> bool {
        let (word, bit) = bit_of(tag);
        self.0[word] & bit != 0
    }
}

/// The tags by which a packet is matched.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    /// Ascending and distinct.
    pub(super) tags: &'a [TagDigest],
    pub(super) bitmap: Bitmap,
}

impl<'a> Packet<'a> {
    #[inline(always)]
    pub(super) fn of(tags: &'a [TagDigest]) -> Self {
        Packet { tags, bitmap: Bitmap::of(tags) }
    }

    /// Whether a tag is one of the packet's.
    #[inline(always)]
    pub(super) fn has(&self, tag: TagDigest) -> bool {
        self.bitmap.may_have(tag) && self.has_surely(tag)
    }

    /// The same, for a tag that the bitmap may have.
    #[inline(always)]
    pub(super) fn has_surely(&self, tag: TagDigest) -> bool {
        match self.tags.len() {
            // Compares with all of them, which takes no branches.
            0..=TAGS_MAX => self.tags.iter().fold(false, |has, own| has | (*own == tag)),
            _ => self.tags.binary_search(&tag).is_ok(),
        }
    }
}
