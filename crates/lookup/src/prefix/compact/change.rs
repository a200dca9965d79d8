//! One change of one rule: what is written, in which order.
//!
//! During a change, every lookup gives the answer from before or from after:
//!
//! - An answer is one word, changed in one step.
//! - A new node's entry is in the table before anything says that names go on below its parent.
//! - If a node's handle passes to another node, the entry changes in one step. The entry under the
//!   node's new handle is in the table before.
//! - The change counter rises before an entry is removed. A lookup that saw the old trie above the
//!   entry and then missed the entry is therefore repeated.

use byname_wire::{NameRef, NameView};

use super::part::tag_of;
use super::query::fattest;
use super::table::Key;
use super::trie::{ROOT, Spot, TrieFull};
use super::word::{Answer, Word};
use super::{Compact, NodeId};
use crate::entry::EntryId;
use crate::prefix::{PrefixFib as _, PrefixMatch};
use crate::update::BuildError;

/// Both halves of a prefix's hash.
#[derive(Clone, Copy)]
struct PrefixDigest {
    depth: usize,
    hash: u64,
    check: u64,
}

impl PrefixDigest {
    fn of(view: &NameView<'_>, depth: usize) -> Self {
        PrefixDigest { depth, hash: view.hash(depth), check: view.check(depth) }
    }
    /// The key of a node of this depth that has this handle.
    fn key(self, node_depth: usize) -> Key {
        Key { handle: self.depth, hash: self.hash, tag: tag_of(self.check), extent: node_depth - self.depth }
    }
}

impl From<TrieFull> for BuildError {
    fn from(_: TrieFull) -> Self {
        BuildError::Memory { reason: "the store of names is full".to_owned() }
    }
}

impl Compact {
    /// Sets or removes the rule of a name. Returns the entry that it had.
    pub(super) fn change(
        &mut self,
        view: &NameView<'_>,
        entry: Option<EntryId>,
    ) -> Result<Option<EntryId>, BuildError> {
        let spot = self.trie.find(view);
        let before = if let Spot::At(node) = spot { self.trie.rule(node) } else { None };
        match entry {
            _ if before == entry => {}
            Some(_) if before.is_none() && self.rules == self.rules_max => {
                return Err(BuildError::Full { rules: self.rules });
            }
            Some(entry) => self.set(view, spot, entry)?,
            None => self.remove(view, spot),
        }
        self.rules = self.rules + usize::from(entry.is_some()) - usize::from(before.is_some());
        Ok(before)
    }

    fn set(&mut self, view: &NameView<'_>, spot: Spot, entry: EntryId) -> Result<(), BuildError> {
        self.shared.begin_change(view);
        self.shared.deepen(view.len());
        self.collided = false;
        let node = match spot {
            Spot::At(ROOT) => {
                self.trie.set_rule(ROOT, Some(entry));
                self.shared.set_root(Some(entry));
                return Ok(());
            }
            Spot::At(node) => {
                let ruled = self.trie.rule(node).is_some();
                self.trie.set_rule(node, Some(entry));
                self.table.set_name_rule(node, Some(entry));
                self.refresh(node, view.check(view.len()));
                self.spread(node);
                // Only the answer changes, so no new collision is possible.
                if ruled {
                    return Ok(());
                }
                node
            }
            Spot::Below(parent) => self.add_leaf(view, parent, entry)?,
            Spot::Within { child, depth } if depth == view.len() => self.split(view, child, depth, Some(entry))?,
            Spot::Within { child, depth } => {
                let branch = self.split(view, child, depth, None)?;
                self.add_leaf(view, branch, entry)?
            }
        };
        let right = PrefixMatch { entry, depth: view.len() };
        if (self.collided && !self.exact) || self.table.query().longest_match(view) != Some(right) {
            self.remove(view, Spot::At(node));
            return Err(BuildError::Collision);
        }
        Ok(())
    }

    fn remove(&mut self, view: &NameView<'_>, spot: Spot) {
        let Spot::At(node) = spot else { unreachable!("the rule is in the trie") };
        self.shared.begin_change(view);
        self.trie.set_rule(node, None);
        if node == ROOT {
            self.shared.set_root(None);
            return;
        }
        self.table.set_name_rule(node, None);
        match self.trie.children(node) {
            0 => self.remove_leaf(view, node),
            1 => {
                self.spread(node);
                self.merge(view, node);
            }
            _ => {
                self.refresh(node, view.check(view.len()));
                self.spread(node);
            }
        }
    }

    /// Adds a rule where nothing is below `parent` yet.
    fn add_leaf(&mut self, view: &NameView<'_>, parent: NodeId, entry: EntryId) -> Result<NodeId, BuildError> {
        let above = self.trie.depth(parent);
        let leaf = self.add_node(view, view.len(), parent, Some(entry))?;
        self.put(view, leaf, Answer::Leaf(entry))?;
        self.trie.attach(leaf, view.hash(above + 1));
        // The rule's first child: lookups must continue below it from now on.
        if parent != ROOT && self.trie.children(parent) == 1 {
            self.rewrite(parent, Word::no_leaf);
        }
        Ok(leaf)
    }

    /// Adds a node at `depth` on the edge to `child`, on the way to `view`.
    fn split(
        &mut self,
        view: &NameView<'_>,
        child: NodeId,
        depth: usize,
        rule: Option<EntryId>,
    ) -> Result<NodeId, BuildError> {
        let (parent, child_depth) = (self.trie.parent(child), self.trie.depth(child));
        let above = self.trie.depth(parent);
        let answer = rule.map_or_else(|| self.trie.inherited(parent), Answer::Ruled);
        let middle = self.add_node(view, depth, parent, rule)?;
        let handle = fattest(above, depth);
        let below = fattest(depth, child_depth);
        let [lower, moved] = self.digests(child, [depth + 1, below]);
        if handle == self.trie.key(child).handle {
            // The new node takes over the handle. First the child is stored under another one.
            let (key, moved) = (self.trie.key(child), moved.key(child_depth));
            let word = self.table.word(key, child).with_extent(moved.extent);
            self.table.put(moved, word, child, |node| self.trie.key(node).hash)?;
            self.table.hand_over(key, child, middle, Word::new(answer, depth - handle, view.check(depth)));
            self.trie.set_key(child, moved);
            self.trie.set_key(middle, Key { extent: depth - handle, ..key });
            self.note_collisions(child);
            self.note_collisions(middle);
        } else {
            self.put(view, middle, answer)?;
        }
        self.trie.split(child, middle, view.hash(above + 1), lower.hash);
        if rule.is_some() {
            self.spread(middle);
        }
        Ok(middle)
    }

    fn remove_leaf(&mut self, view: &NameView<'_>, leaf: NodeId) {
        let (parent, key) = (self.trie.parent(leaf), self.trie.key(leaf));
        let above = self.trie.depth(parent);
        self.table.remove(key, leaf);
        self.table.remove_name(leaf);
        self.trie.detach(leaf, view.hash(above + 1));
        match (self.trie.rule(parent), self.trie.children(parent)) {
            _ if parent == ROOT => {}
            (Some(rule), 0) => self.rewrite(parent, |word| word.with_answer(Answer::Leaf(rule), view.check(above))),
            (None, 1) => self.merge(view, parent),
            _ => {}
        }
    }

    /// Removes a node without a rule that has one child. `view` is the node's name or continues
    /// below it.
    fn merge(&mut self, view: &NameView<'_>, middle: NodeId) {
        let child = self.trie.only_child(middle);
        let (depth, child_depth) = (self.trie.depth(middle), self.trie.depth(child));
        let above = self.trie.depth(self.trie.parent(middle));
        let [lower] = self.digests(child, [depth + 1]);
        let (key, child_key) = (self.trie.key(middle), self.trie.key(child));
        let handle = fattest(above, child_depth);
        if handle == self.trie.key(middle).handle {
            // The child takes over the handle.
            let moved = Key { extent: child_depth - handle, ..key };
            let word = self.table.word(child_key, child).with_extent(moved.extent);
            self.table.hand_over(key, middle, child, word);
            self.shared.begin_change(view);
            self.table.remove(child_key, child);
            self.trie.set_key(child, moved);
        } else {
            self.shared.begin_change(view);
            self.table.remove(key, middle);
        }
        self.table.remove_name(middle);
        self.trie.merge(middle, view.hash(above + 1), lower.hash);
    }

    /// Makes a node for the first `depth` components of `view`. Nothing leads to it yet.
    fn add_node(
        &mut self,
        view: &NameView<'_>,
        depth: usize,
        parent: NodeId,
        rule: Option<EntryId>,
    ) -> Result<NodeId, BuildError> {
        let node = self.trie.add(view.prefix(depth), depth, parent, rule)?;
        let hash_of = |node| self.trie.key(node).hash;
        self.table.add_name(node, view.hash(depth), view.prefix(depth), rule, hash_of)?;
        Ok(node)
    }

    /// Writes the entry of a new node whose name is a prefix of `view`.
    fn put(&mut self, view: &NameView<'_>, node: NodeId, answer: Answer) -> Result<(), BuildError> {
        let depth = self.trie.depth(node);
        let handle = fattest(self.trie.depth(self.trie.parent(node)), depth);
        let key = PrefixDigest::of(view, handle).key(depth);
        let word = Word::new(answer, key.extent, view.check(depth));
        self.trie.set_key(node, key);
        self.table.put(key, word, node, |node| self.trie.key(node).hash)?;
        self.note_collisions(node);
        Ok(())
    }

    fn rewrite(&mut self, node: NodeId, change: impl FnOnce(Word) -> Word) {
        self.table.rewrite(self.trie.key(node), node, change);
    }

    /// Writes the answer of a node whose rule has changed.
    fn refresh(&mut self, node: NodeId, check: u64) {
        let answer = self.trie.answer(node);
        self.rewrite(node, |word| word.with_answer(answer, check));
    }

    /// Writes the answers of all nodes that inherit from this one.
    fn spread(&mut self, from: NodeId) {
        let mut heirs: Vec<_> = self.trie.unruled_children(from).collect();
        while let Some(node) = heirs.pop() {
            let [own] = self.digests(node, [self.trie.depth(node)]);
            self.refresh(node, own.check);
            heirs.extend(self.trie.unruled_children(node));
        }
    }

    /// The hash of a node's prefix of this depth.
    pub(super) fn hash_of(&mut self, node: NodeId, depth: usize) -> u64 {
        let [prefix] = self.digests(node, [depth]);
        prefix.hash
    }

    /// The key of a node that has this handle, and its name's check half.
    pub(super) fn key_of(&mut self, node: NodeId, handle: usize) -> (Key, u64) {
        let depth = self.trie.depth(node);
        let [handle, own] = self.digests(node, [handle, depth]);
        (handle.key(depth), own.check)
    }

    /// Hashes of a node's prefixes, computed from the name in the trie.
    fn digests<const N: usize>(&mut self, node: NodeId, depths: [usize; N]) -> [PrefixDigest; N] {
        let name = NameRef::new_checked_before(self.trie.name(node));
        let view = NameView::new(&self.key, name, &mut self.scratch);
        depths.map(|depth| PrefixDigest::of(&view, depth))
    }

    /// Looks for entries that a lookup of this node's name would mistake for its own, or the
    /// reverse.
    fn note_collisions(&mut self, node: NodeId) {
        let key = self.trie.key(node);
        let alike: Vec<_> = self.table.look_alikes(key, node).collect();
        for (other, word) in alike {
            let own = self.table.word(key, node);
            self.collided |= self.is_taken_for(node, word) || self.is_taken_for(other, own);
        }
    }

    /// Whether a lookup of `node`'s name would mistake `word`, which stands under its handle, for
    /// its own.
    fn is_taken_for(&mut self, node: NodeId, word: Word) -> bool {
        let depth = self.trie.key(node).handle + word.extent();
        if depth > self.trie.depth(node) {
            return false;
        }
        let [digest] = self.digests(node, [depth]);
        word.is_of(digest.check, self.shared.fingerprint_mask)
    }
}
