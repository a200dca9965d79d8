//! The tags of a packet.

use byname_wire::tagset::{TAGS_MAX, TagDigest};

/// One bit for each tag, by its lowest nine: word `tag / 32 % 16`, bit `tag % 32`.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bitmap(pub(super) [u32; 16]);

impl Bitmap {
    #[inline(always)]
    fn of(tags: &[TagDigest]) -> Self {
        let mut words = [0; 16];
        tags.iter().for_each(|tag| words[tag.0 as usize / 32 % 16] |= 1 << (tag.0 % 32));
        Bitmap(words)
    }

    #[inline(always)]
    pub(super) fn may_have(&self, tag: u32) -> bool {
        self.0[tag as usize / 32 % 16] >> (tag % 32) & 1 == 1
    }
}

/// What a packet is matched by.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    /// Ascending, each once.
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
        self.bitmap.may_have(tag.0) && self.has_surely(tag)
    }

    /// The same, for a tag that the bitmap may have.
    #[inline(always)]
    pub(super) fn has_surely(&self, tag: TagDigest) -> bool {
        match self.tags.len() {
            // All of them, as that takes no branches.
            0..=TAGS_MAX => self.tags.iter().fold(false, |has, own| has | (*own == tag)),
            _ => self.tags.binary_search(&tag).is_ok(),
        }
    }
}
