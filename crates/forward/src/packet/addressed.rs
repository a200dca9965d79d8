//! Parsed packets that are addressed by tags or by locator [TagNet §2.2, §3.3].

use std::ops::Range;

use byname_lookup::tagset::TagQuery;
use byname_wire::interest::HopLimit;
use byname_wire::tagnet::{Address, FanOut, LocatorPacket, TagPacket, TagSet, types};
use byname_wire::{DecodeError, Filter, TagDigest, TreeId};

use crate::port::Received;

/// Tag-addressed and locator-addressed packets of a burst.
#[derive(Default)]
pub(crate) struct Addressed {
    pub by_tags: Vec<(Received, TagInfo)>,
    pub by_locator: Vec<(Received, LocatorInfo)>,
    /// Digests of the tags of all packets in `by_tags`.
    pub digests: Vec<TagDigest>,
    /// Number of the burst, which `Reached` compares.
    pub burst: u64,
}

/// Fields of a tag-addressed packet that forwarding needs.
pub(crate) struct TagInfo {
    pub hop_limit: HopLimit,
    pub tree: TreeId,
    pub tree_offset: usize,
    pub filter: Filter,
    /// The packet's part of the burst's digests; `None` if it carries only a filter.
    pub digests: Option<Range<usize>>,
    pub fan_out: Option<FanOut>,
}

/// Fields of a locator-addressed packet that forwarding needs.
pub(crate) struct LocatorInfo {
    pub hop_limit: HopLimit,
    pub destination: Address,
}

impl Addressed {
    /// Whether the burst has no such packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of such packets in the burst.
    pub fn len(&self) -> usize {
        self.by_tags.len() + self.by_locator.len()
    }

    /// Parses a packet and keeps it for the pipeline.
    pub fn stage(&mut self, received: Received) -> Result<(), DecodeError> {
        if received.packet.first() == Some(&(types::LOCATOR_PACKET as u8)) {
            let LocatorPacket { hop_limit, destination, .. } = LocatorPacket::decode(&received.packet)?;
            self.by_locator.push((received, LocatorInfo { hop_limit, destination }));
            return Ok(());
        }
        let TagPacket { hop_limit, tree, tree_offset, tags, fan_out, .. } = TagPacket::decode(&received.packet)?;
        let (filter, digests) = match tags {
            TagSet::Tags(tags) => {
                let first = self.digests.len();
                self.digests.extend(tags.iter());
                (Filter::of(&self.digests[first..]), Some(first..self.digests.len()))
            }
            TagSet::Filter(filter) => (filter, None),
        };
        self.by_tags.push((received, TagInfo { hop_limit, tree, tree_offset, filter, digests, fan_out }));
        Ok(())
    }
}

impl TagInfo {
    pub fn query<'a>(&self, digests: &'a [TagDigest]) -> TagQuery<'a> {
        TagQuery { tags: self.digests.clone().map(|range| &digests[range]), filter: self.filter }
    }

    pub fn is_anycast(&self) -> bool {
        self.fan_out.is_some_and(|fan_out| fan_out.limit.get() == 1)
    }

    /// Maximum of faces that copies may go to.
    pub fn faces_max(&self) -> usize {
        self.fan_out.map_or(usize::MAX, |fan_out| fan_out.limit.get().into())
    }
}
