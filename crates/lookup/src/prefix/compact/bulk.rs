//! Builds a table in one pass over sorted rules, without keeping their names.

use std::collections::VecDeque;
use std::sync::Arc;

use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};

use super::image::Image;
use super::levels::{Levels, LevelsWriter};
use super::part::{Part, Probe, SLOTS, tag_of};
use super::query::{Query, Shared, fattest};
use super::trie::shared_depth;
use super::word::{Answer, Word};
use super::{DEPTH_MAX, ENTRIES_MAX, Options};
use crate::entry::EntryId;
use crate::prefix::PrefixFib;
use crate::update::BuildError;

/// Number of entries whose lines are prefetched.
const AHEAD: usize = 48;

/// Maximum number of nodes of a table without filters. Its lines stay in a processor's caches, where
/// a probe costs no more than a filter saves.
const UNFILTERED_MAX: usize = 1 << 14;

/// A prefix of the last rule at which there is, or may be, a node.
struct Open {
    depth: usize,
    rule: Option<EntryId>,
    has_children: bool,
}

/// Counts the nodes that a [`BulkLoader`] needs for sorted rules.
#[derive(Default)]
pub struct NodeCounter {
    /// Depths at which there is, or may be, a node on the path to the last rule.
    open: Vec<usize>,
    last: Vec<u8>,
    nodes: usize,
    started: bool,
}

impl NodeCounter {
    /// Adds a rule.
    ///
    /// # Errors
    /// If the rule does not follow the one before in canonical order, or is deeper than
    /// [`DEPTH_MAX`].
    pub fn push(&mut self, name: NameRef<'_>) -> Result<(), BuildError> {
        let depth = name.len();
        if depth > DEPTH_MAX {
            return Err(BuildError::TooDeep { depth });
        }
        let last = NameRef::new_checked_before(&self.last);
        if self.started && name <= last {
            return Err(BuildError::Unsorted);
        }
        let shared = last.components().zip(name.components()).take_while(|(last, name)| last == name).count();
        let mut left = None;
        while let Some(open) = self.open.pop_if(|open| *open > shared) {
            left = Some(open);
        }
        // The rule leaves the edge to that node at a depth without a node, so there is a branch.
        if left.is_some() && shared > 0 && self.open.last() != Some(&shared) {
            self.open.push(shared);
            self.nodes += 1;
        }
        if depth > 0 {
            self.open.push(depth);
            self.nodes += 1;
        }
        self.last.clear();
        self.last.extend_from_slice(name.value());
        self.started = true;
        Ok(())
    }

    /// Number of nodes so far.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// A few more, by less than a sixteenth: tables of slightly different rules have room for the same number. Their entries
    /// then lie in the same places, except for those of rules that differ.
    pub fn nodes_rounded(&self) -> usize {
        let step = 1 << self.nodes.max(1).ilog2().saturating_sub(4);
        self.nodes.next_multiple_of(step)
    }
}

/// An entry that waits for its bucket's line.
struct Waiting {
    hash: u64,
    tag: u16,
    word: Word,
}

/// Builds a query half from rules in NDN's canonical order.
///
/// Neighbours in that order share their prefixes. One pass therefore determines the trie, and only
/// a rule's entry must be kept: a billion rules take 11.4 GB in total. The result of
/// [`BulkLoader::finish`] cannot be changed; that of [`BulkLoader::finish_table`] takes changes
/// beside the loaded rules, and can be saved.
pub struct BulkLoader {
    key: NameHashKey,
    shared: Arc<Shared>,
    part: Part,
    /// The path from `/` to the last rule.
    open: Vec<Open>,
    last: Vec<u8>,
    hashes: Box<PrefixHashes>,
    waiting: VecDeque<Waiting>,
    levels: LevelsWriter,
    nodes: usize,
    rules: usize,
}

impl BulkLoader {
    /// Room for `nodes` nodes: one for each rule except `/`, and one for each other prefix below
    /// which rules branch. There are at most twice as many nodes as rules, and hardly more than
    /// rules if these share no first components.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    pub fn new(key: NameHashKey, nodes: usize, options: &Options) -> Result<Self, BuildError> {
        let slots = nodes as u128 * 100 / u128::from(options.fill_percent.clamp(1, 99));
        let buckets = u32::try_from(slots / SLOTS as u128 + 2)
            .map_err(|_| BuildError::Memory { reason: format!("{nodes} nodes need more than 2^32 buckets") })?;
        let levels = if nodes <= UNFILTERED_MAX { Levels::unfiltered() } else { Levels::new() };
        let root = Open { depth: 0, rule: None, has_children: false };
        Ok(BulkLoader {
            key,
            shared: Arc::new(Shared::new(options.fingerprint_mask(), 1, levels)),
            part: Part::new(buckets, options.pages)?,
            open: vec![root],
            last: Vec::new(),
            hashes: Box::default(),
            waiting: VecDeque::with_capacity(AHEAD),
            levels: LevelsWriter::new(),
            nodes: 0,
            rules: 0,
        })
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// If the rule does not follow the one before in canonical order, is deeper than [`DEPTH_MAX`],
    /// has an entry of [`ENTRIES_MAX`] or more, or finds no room. The loader is useless afterwards.
    pub fn push(&mut self, name: NameRef<'_>, entry: EntryId) -> Result<(), BuildError> {
        let depth = name.len();
        if depth > DEPTH_MAX {
            return Err(BuildError::TooDeep { depth });
        }
        if entry.0 >= ENTRIES_MAX {
            return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: ENTRIES_MAX });
        }
        if depth == 0 && self.open.len() == 1 && self.open[0].rule.is_none() && self.nodes == 0 {
            self.open[0].rule = Some(entry);
            self.shared.set_root(Some(entry));
            self.rules += 1;
            return Ok(());
        }
        if name <= NameRef::new_checked_before(&self.last) {
            return Err(BuildError::Unsorted);
        }
        let last = NameView::from_filled(NameRef::new_checked_before(&self.last), &self.hashes);
        let shared = shared_depth(name.value(), &last, 0, depth);
        self.close_below(shared)?;
        self.open.push(Open { depth, rule: Some(entry), has_children: false });
        self.shared.deepen(depth);
        self.last.clear();
        self.last.extend_from_slice(name.value());
        self.hashes.fill(&self.key, name);
        self.rules += 1;
        Ok(())
    }

    /// The query half.
    ///
    /// # Errors
    /// If the last entries find no room.
    pub fn finish(self) -> Result<Arc<dyn PrefixFib>, BuildError> {
        Ok(self.finish_image()?.query)
    }

    pub(super) fn finish_image(mut self) -> Result<Image, BuildError> {
        self.close_below(0)?;
        while !self.waiting.is_empty() {
            self.place_first()?;
        }
        let query = Query { shared: self.shared, parts: Box::new([Arc::new(self.part)]), exact: None };
        Ok(Image { key: self.key, query: Arc::new(query), rules: self.rules })
    }

    /// Writes the entries of the open nodes deeper than `depth`, because no rule follows below
    /// them.
    fn close_below(&mut self, depth: usize) -> Result<(), BuildError> {
        while let Some(node) = self.open.pop_if(|node| node.depth > depth) {
            let above = self.open.last_mut().expect("`/` stays open");
            if above.depth < depth {
                // The next rule leaves the edge to this node at `depth`, so there is a branch.
                self.open.push(Open { depth, rule: None, has_children: true });
            } else {
                above.has_children = true;
            }
            self.write(&node)?;
        }
        Ok(())
    }

    /// Prefetches the bucket of a node whose parent is the last one open, and queues its entry.
    fn write(&mut self, node: &Open) -> Result<(), BuildError> {
        let last = NameView::from_filled(NameRef::new_checked_before(&self.last), &self.hashes);
        let above = self.open.last().expect("`/` stays open").depth;
        let ruled = self.open[1..].iter().rev().find_map(|open| Some((open.rule?, open.depth)));
        let answer = match (node.rule, ruled) {
            (Some(rule), _) if node.has_children => Answer::Ruled(rule),
            (Some(rule), _) => Answer::Leaf(rule),
            (None, Some((rule, depth))) => Answer::Inherited(rule, depth),
            (None, None) => Answer::Bare,
        };
        let handle = fattest(above, node.depth);
        let hash = last.hash(handle);
        let word = Word::new(answer, node.depth - handle, last.check(node.depth));
        self.shared.note_depths(handle, node.depth);
        self.levels.add(&self.shared.levels, handle, hash);
        self.part.prefetch(self.part.primary(hash));
        self.waiting.push_back(Waiting { hash, tag: tag_of(last.check(handle)), word });
        if self.waiting.len() == AHEAD { self.place_first() } else { Ok(()) }
    }

    fn place_first(&mut self) -> Result<(), BuildError> {
        let Some(Waiting { hash, tag, word }) = self.waiting.pop_front() else { return Ok(()) };
        let alike = |other: Word| other.looks_like(word, self.shared.fingerprint_mask);
        let primary = self.part.primary(hash);
        let found = match self.part.probe(primary, tag, alike) {
            Probe::Overflowed(version) => self.part.probe_other(primary, tag, version, alike),
            found => found,
        };
        if let Probe::Found(_) = found {
            return Err(BuildError::Collision);
        }
        self.nodes += 1;
        let placed = self.part.insert(hash, tag, word, &mut |_, _| {});
        placed.map(|_| ()).ok_or(BuildError::Full { rules: self.nodes - 1 })
    }
}
