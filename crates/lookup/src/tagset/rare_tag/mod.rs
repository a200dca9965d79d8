//! Subset match by the rarest tag. byname's own engine for tag sets, and its default.
//!
//! A descriptor is a subset of a packet's tags only if every one of its tags is among them. The
//! packet must therefore have the tag under which the descriptor is indexed. We index a descriptor
//! under its rarest tag, which few other descriptors and few packets have.
//!
//! **Nodes.** The descriptors with the same *index tag* form a node (`node`), to which a directory
//! leads (`directory`). In a small node, the descriptors' next rarest tags lie side by side in a
//! *column*. A search compares sixteen of them at a time with a bitmap of the packet's tags
//! (`processor`). For the few that match, it compares the row with the other tags and the entry. A
//! large node is *wide* (`wide`): descriptors with the same next rarest tag have a node of their
//! own, a *child*, to any depth. A hash table (`table`) leads to the children, and a bitmap tells
//! which of the packet's tags may have one.
//!
//! **A packet** asks the directory for each of its tags and walks the nodes found (`query`). The
//! lines of a burst's tags and nodes are fetched while others are examined. For the largest subset,
//! the members of a node are sorted by their number of tags. Members whose tags could not set as
//! many bits as the best match are skipped, and so are nodes without larger members below [TagNet
//! §3.1.4].
//!
//! **Packets with only a filter.** The tags that any descriptor has are *known*. The known tags
//! that a filter holds are found by their positions (`known`), and the packet is then walked as if
//! it had these tags. A descriptor's filter is a subset of the packet's if and only if the bits of
//! each of its tags are, and all its tags are known. The answer therefore equals that of comparing
//! filters, false positives included.
//!
//! **Changes** (`changes`). A small node that gains or loses a descriptor is written anew, and one
//! word makes readers find it instead of the old one. Replacing an entry, or giving a wide node a
//! child, is one store. The old block is reused after [`Control::reclaim`]. There is no second
//! layer and nothing to merge, and readers never wait. The writer pauses when a wide node, or one
//! of 256 parts of the directory, is full. The control half keeps the number of descriptors for
//! each tag, but no descriptors: it finds them as packets do. A tag that was rare when a descriptor
//! came need not stay rare; the descriptor is found all the same. A table built in one step
//! (`load`) knows all counts from the beginning.
//!
//! **Limits.** A step is one of five things. It is a tag looked up in the directory or in a wide node, an element of a
//! column, a row, a known tag that a filter holds, or up to sixteen tags tried (a packet's for a wide node, or known
//! ones for a filter). No packet takes more than [`Options::steps_max`]. A stranger's means are limited. The tables'
//! hash is keyed, so he cannot crowd a line. Descriptors that share a tag are in its node only if it was their rarest,
//! so a node is large only if each of a few tags is in at least as many descriptors. He can make tags with the same
//! first three positions, which makes one bucket of known tags long. Packets without tags whose filters have those bits
//! must try that bucket, which costs them steps. His descriptors count against [`Options::descriptors_max`].
//!
//! **Files** (`image`, `bulk`). A table can be a file, with a label for each set, below descriptors that change.
//!
//! Differs: [TagNet §3] walks a trie of the filters' bits. In tables of many tags, descriptors
//! share few bits, and the walk explodes. The paper rules out inverted indexes for filters, which
//! have only 192 elements [TagNet §2.4]; packets that carry digests bring the large universe back.
//! Set-containment joins index by rare elements: PRETTI+ in an inverted index, FreshJoin (2019) by
//! the two rarest. TagMatch partitions filters by common bits. Here the depth follows the data,
//! elements are compared instead of signatures, and descriptors change while packets are matched.
//!
//! Cost: 4 bytes for each tag of a descriptor, 4 for its entry, about 40 for each index tag, and 12
//! to 25 for each child of a wide node.

mod arena;
mod bulk;
mod changes;
mod counts;
mod directory;
mod draft;
mod image;
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
pub use self::bulk::{BulkTagError, BulkTagLoader, BulkTags};
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

/// How to build a table.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of descriptors.
    pub descriptors_max: usize,
    /// Maximum number of steps of the [`Effort`](super::Effort) for one packet.
    pub steps_max: u32,
    /// Pages of the query half.
    pub pages: Pages,
    /// Maximum number of members of a narrow node, at most 255. A larger node becomes wide, and
    /// members that share their rarest further tag become a child. A larger maximum takes less
    /// memory and more time.
    pub members_max: usize,
    /// Instructions for queries, if this processor has them. Tests use fewer.
    #[cfg(feature = "lab")]
    pub instructions: Instructions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            descriptors_max: 1 << 28,
            steps_max: 1 << 14,
            pages: Pages::default(),
            members_max: 16,
            #[cfg(feature = "lab")]
            instructions: Instructions::detect(),
        }
    }
}

impl Options {
    /// The instructions for queries, which this processor has.
    fn instructions(&self) -> Instructions {
        let most = Instructions::detect();
        #[cfg(feature = "lab")]
        let most = most.min(self.instructions);
        most
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
    /// The node that is being changed. Kept to reuse its memory.
    draft: Draft,
}

impl RareTag {
    /// An empty table for packets whose tags are mixed with `secret`.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    pub fn new(secret: u64, options: &Options) -> Result<Self, BuildError> {
        let mixer = Mixer::new(secret);
        Self::with_room(mixer, options, 0, Counts::new(mixer))
    }

    /// An empty table with room for `index_tags` index tags.
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
            instructions: options.instructions(),
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
