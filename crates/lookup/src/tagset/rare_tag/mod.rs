//! Subset match by the rarest tag. byname's own engine for tag sets, and its default.
//!
//! A descriptor can be a subset of a packet's tags only if each of its tags is one of them: so is any
//! one that it is indexed under. We take its rarest, for that is in few other descriptors, and in few
//! packets.
//!
//! **Nodes.** The descriptors with the same *index tag* are a node (`node`), to which a directory leads
//! (`directory`). Where they are few, their next rarest tags lie side by side, a *column*, and are looked
//! at sixteen at a time against a bitmap of the packet's tags (`processor`). Of the few that are among
//! them the row, with the other tags and the entry, is compared. Where they are many, the node is *wide*
//! (`wide`): those with the same next rarest tag have a node of their own, a *child*, to any depth, and a
//! hash table (`table`) leads to it. A bitmap says which of the packet's tags are worth a look.
//!
//! **A packet** asks the directory for each of its tags and walks the nodes found (`query`). The lines
//! of a burst's tags and nodes are on their way while others are looked at. For the largest subset,
//! members of a node are ordered by their number of tags, and those whose tags could not set as many
//! bits as the best has are left out, as are nodes that have no larger ones below [TagNet §3.1.4].
//!
//! **Filters alone.** The tags that any descriptor has are *known*, and those that a filter holds are
//! found by their positions (`known`); then the packet is walked as if it had these. A descriptor's
//! filter is a subset of the packet's if and only if the bits of each of its tags are, and all its tags
//! are known: so the answer is that of comparing filters, false positives included.
//!
//! **Changes** (`changes`). A node of few that gains or loses a descriptor is written anew, and one word
//! makes readers find it in place of the old; replacing an entry, and giving a wide node a child, are one
//! store. The old block is used again after [`Control::reclaim`]. So there is no second layer and nothing
//! to merge, and readers never wait. The writer pauses where a wide node or a part of the directory, one
//! of 256, is full. The control half keeps how many descriptors each tag has, and no descriptors: they are
//! found again as packets find them. What was rare when a descriptor came need not be later; it is found
//! all the same, and a table made at once (`load`) knows all counts from the beginning.
//!
//! **Limits.** A step is a tag looked up, among those of the directory or of a wide node, an element of a
//! column, a row, a known tag that a filter holds, or up to sixteen tags tried: of a packet for a wide node, or
//! known ones for a filter. No packet takes more than [`Options::steps_max`]. What a stranger can do: the tables' hash is keyed, so he
//! cannot crowd a line. Descriptors that share a tag are in its node only if it was their rarest, so
//! that a node is large only where each of few tags is in at least as many descriptors. He can make
//! tags that share their first three positions, and the bucket of known tags long that packets with
//! those bits in their filters, and no tags, have to try: that costs them steps, and his descriptors
//! count against [`Options::descriptors_max`].
//!
//! Differs: [TagNet §3] walks a trie of the filters' bits. Tables of many tags share few bits, and the
//! walk explodes; its paper rules out inverted indexes for filters, which have but 192 elements
//! [TagNet §2.4], and packets that carry digests bring the large universe back. Set-containment joins
//! index by rare elements: PRETTI+ in an inverted index, FreshJoin (2019) by the two rarest; TagMatch
//! partitions filters by common bits. Here the depth follows the data, elements are compared and not
//! signatures, and descriptors change while packets are matched.
//!
//! Cost: 4 bytes for each tag of a descriptor, 4 for its entry, some 40 for each index tag, and 12 to 25
//! for each child of a wide node.

mod arena;
mod changes;
mod counts;
mod directory;
mod draft;
mod known;
mod load;
mod node;
mod packet;
mod processor;
mod query;
mod table;
mod wide;

use std::sync::Arc;

use byname_wire::tagset::Descriptor;

use self::arena::Arena;
use self::counts::Counts;
use self::directory::Growth;
use self::draft::{Draft, Plan};
use self::known::Known;
use self::query::{Query, Shared};
use self::table::Mixer;
use crate::instructions::Instructions;
use crate::memory::Pages;
use crate::sync::{AtomicU64, Ordering};
use crate::tagset::TagsetFib;
use crate::update::{self, BuildError, Change, Control, Update};

/// How a table is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most descriptors.
    pub descriptors_max: usize,
    /// Most steps of the [`Walk`](super::Walk) for one packet.
    pub steps_max: u32,
    /// Pages of the query half.
    pub pages: Pages,
    /// Members of a node, at most 255, above which it is made wide: those that share their rarest
    /// further tag become a child. More take less memory and more time.
    pub members_max: usize,
    /// What queries are computed with, if this processor has it: less is for tests.
    pub instructions: Instructions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            descriptors_max: 1 << 28,
            steps_max: 1 << 14,
            pages: Pages::default(),
            members_max: 16,
            instructions: Instructions::detect(),
        }
    }
}

/// The control half: one writer.
pub struct RareTag {
    options: Options,
    plan: Plan,
    counts: Counts,
    len: usize,
    arena: Arena,
    growth: Growth,
    shared: Arc<Shared>,
    query: Arc<Query>,
    /// The node that is being changed: kept for its memory.
    draft: Draft,
}

impl RareTag {
    /// An empty table for packets whose tags are mixed under `secret`.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    pub fn new(secret: u64, options: &Options) -> Result<Self, BuildError> {
        let mixer = Mixer::new(secret);
        Self::with_room(mixer, options, 0, Counts::new(mixer))
    }

    /// An empty table with room for so many index tags.
    fn with_room(mixer: Mixer, options: &Options, index_tags: usize, counts: Counts) -> Result<Self, BuildError> {
        let mut arena = Arena::new(options.pages)?;
        let (growth, directory) = Growth::new(index_tags, mixer, &mut arena);
        let shared = Arc::new(Shared {
            chunks: arena.chunks().clone(),
            directory,
            known: Known::new(),
            empty: AtomicU64::new(0),
            blocks_bytes: AtomicU64::new(0),
        });
        let query = Arc::new(Query {
            shared: shared.clone(),
            steps_max: options.steps_max,
            instructions: options.instructions.min(Instructions::detect()),
        });
        let plan = Plan::new(options.members_max, mixer);
        let (options, draft) = (options.clone(), Draft::default());
        Ok(RareTag { options, plan, counts, len: 0, arena, growth, shared, query, draft })
    }

    /// Descriptors in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of the control half alone, in bytes.
    pub fn control_bytes(&self) -> usize {
        size_of::<Self>() + self.counts.memory_bytes()
    }
}

impl Control<Descriptor> for RareTag {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<Self::Query> {
        self.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<Update<Self::Query>, BuildError> {
        update::check_room(changes, self.len, self.options.descriptors_max, |descriptor| {
            self.contains(descriptor.tags())
        })?;
        self.arena.reserve(self.len)?;
        for change in changes {
            match change {
                Change::Set(descriptor, entry) => self.set(descriptor.tags(), *entry),
                Change::Remove(descriptor) => self.remove(descriptor.tags()),
            }
        }
        self.shared.blocks_bytes.store(self.arena.memory_bytes() as u64, Ordering::Relaxed);
        Ok(Update::Patched)
    }

    fn reclaim(&mut self) {
        self.arena.reclaim();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
