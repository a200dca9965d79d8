//! The control half of a table that is in a file: it has the names, and says what a change writes into the file.
//!
//! A [`BulkLoader`](super::BulkLoader) makes the file without keeping names. A [`LiveLoader`] takes the same rules once more, and
//! finds for each node of their trie the entry that the file has for it. Each entry must be there, word for word, and no other, so the
//! file is known to be of these rules. Afterwards the two are a [`Compact`] whose only part is the image, and changes are those of
//! that engine. The part records the lines that a change writes.
//!
//! The part never grows, because that would be another file. A change that finds no room is refused, and so is all that a file
//! of this length cannot say. The file must be made anew then.
//!
//! Cost: about 85 bytes a rule, of which 11.4 are the image, and names of 30 bytes. Loading hashes each name twice.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Name, NameRef, NameView, PrefixHashes};

use super::image::{FILTERS, Image, LINES, SHAPE, Shape};
use super::query::{Query, fattest};
use super::table::Table;
use super::trie::{ROOT, Spot, Trie};
use super::word::Word;
use super::{AHEAD, Compact, DEPTH_MAX, NodeId, Options};
use crate::entry::EntryId;
use crate::file::{Edit, EditedFile, Kind, LiveError, Opening, Place, TableFile};
use crate::update::{BuildError, Change};

/// Takes the rules of a file.
pub struct LiveLoader {
    compact: Compact,
    file: EditedFile,
    labels: Vec<Box<[u8]>>,
    /// Rules that the file says it has.
    rules: usize,
    /// Scratch space for hashing names.
    hashes: Box<PrefixHashes>,
}

/// A table in a file, with the names of its rules.
pub struct LiveTable {
    compact: Compact,
    file: EditedFile,
    labels: Vec<Box<[u8]>>,
}

impl LiveLoader {
    /// Copies the table of a file into memory. The file is not needed afterwards.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or has changes beside its table.
    pub fn open(path: &Path, options: &Options) -> Result<Self, LiveError> {
        let opening = Opening { place: Place::Copied(options.pages), checked: true };
        let (image, extras) = Image::open(path.into(), opening)?;
        if !extras.changes.is_empty() {
            return Err(LiveError::OtherRules);
        }
        let file = EditedFile::new(Kind::Compact, &TableFile::open(path, Kind::Compact, opening)?);
        let Image { key, query, rules } = image;
        let Query { shared, parts, .. } = Arc::into_inner(query).expect("nobody else has it yet");
        let part = parts.into_vec().pop().and_then(Arc::into_inner);
        let mut part = part.expect("a file has one part, and nobody else has it yet");
        part.record();
        let compact = Compact {
            key,
            rules_max: options.rules_max,
            rules: 0,
            exact: false,
            collided: false,
            trie: Trie::new(),
            table: Table::of_file(Query { shared: shared.clone(), parts: Box::new([Arc::new(part)]), exact: None }),
            shared,
            scratch: Box::default(),
            ahead: vec![PrefixHashes::default(); AHEAD],
        };
        Ok(LiveLoader { compact, file, labels: extras.labels, rules, hashes: Box::default() })
    }

    /// Adds a rule. Rules may come in any order.
    ///
    /// # Errors
    /// If no file has such a rule, or there is no memory. The loader is useless afterwards.
    pub fn push(&mut self, name: NameRef<'_>, entry: EntryId) -> Result<(), LiveError> {
        if name.len() > DEPTH_MAX {
            return Err(BuildError::TooDeep { depth: name.len() }.into());
        }
        Ok(self.compact.plant(&NameView::new(&self.compact.key, name, &mut self.hashes), entry)?)
    }

    /// Memory of all that is kept so far, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.compact.memory_bytes()
    }

    /// The table, if the file is of these rules.
    ///
    /// # Errors
    /// If it is of others: [`LiveError::OtherRules`].
    pub fn finish(mut self) -> Result<LiveTable, LiveError> {
        let compact = &mut self.compact;
        let levels = |compact: &Compact| (compact.shared.levels.words(), compact.shared.levels.filters());
        let before = levels(compact);
        let root = compact.trie.rule(ROOT);
        let fits = compact.own_all()
            && compact.table.is_all_owned()
            && compact.shared.root() == root
            && compact.rules == self.rules
            && levels(compact) == before;
        match fits {
            true => Ok(LiveTable { compact: self.compact, file: self.file, labels: self.labels }),
            false => Err(LiveError::OtherRules),
        }
    }
}

impl LiveTable {
    /// Number of rules.
    pub fn len(&self) -> usize {
        self.compact.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.compact.is_empty()
    }

    /// Meanings of entries, as the file has them.
    pub fn labels(&self) -> &[Box<[u8]>] {
        &self.labels
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.compact.memory_bytes()
    }

    /// Applies changes, and returns what to write into the file for it to be that of the changed table.
    ///
    /// # Errors
    /// If a file of this length cannot have these changes, or two names look alike. The table is useless afterwards.
    pub fn apply(&mut self, changes: &[Change<Name>]) -> Result<Vec<Edit>, LiveError> {
        Compact::check(changes)?;
        let entries_max = self.labels.len() as u32;
        for change in changes {
            let (name, entry) = change.parts();
            if let Some(entry) = entry.filter(|entry| entry.0 >= entries_max) {
                return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max }.into());
            }
            self.compact.change_named(name.as_ref(), entry)?;
        }
        self.compact.table.refresh_filters();
        let query = self.compact.table.query();
        self.file.bytes(SHAPE, &Shape::of(query, self.compact.rules).encode())?;
        self.file.bytes(FILTERS, &query.shared.levels.filters())?;
        self.file.lines(LINES, query.parts[0].take_rewritten().into_iter())?;
        Ok(self.file.take())
    }
}

impl Compact {
    /// Adds a rule to the trie alone.
    fn plant(&mut self, view: &NameView<'_>, entry: EntryId) -> Result<(), BuildError> {
        match self.trie.find(view) {
            Spot::At(node) => {
                self.rules += usize::from(self.trie.rule(node).is_none());
                self.trie.set_rule(node, Some(entry));
                return Ok(());
            }
            Spot::Below(parent) => self.plant_leaf(view, parent, entry)?,
            Spot::Within { child, depth } => {
                let parent = self.trie.parent(child);
                let rule = (depth == view.len()).then_some(entry);
                let middle = self.trie.add(view.prefix(depth), depth, parent, rule)?;
                let lower = self.hash_of(child, depth + 1);
                self.trie.split(child, middle, view.hash(self.trie.depth(parent) + 1), lower);
                if rule.is_none() {
                    self.plant_leaf(view, middle, entry)?;
                }
            }
        }
        self.rules += 1;
        Ok(())
    }

    fn plant_leaf(&mut self, view: &NameView<'_>, parent: NodeId, entry: EntryId) -> Result<(), BuildError> {
        let leaf = self.trie.add(view.name(), view.len(), parent, Some(entry))?;
        self.trie.attach(leaf, view.hash(self.trie.depth(parent) + 1));
        Ok(())
    }

    /// Finds the entries of all nodes. Returns whether all are there.
    fn own_all(&mut self) -> bool {
        (1..self.trie.ids() as u32).map(NodeId).all(|node| {
            let depth = self.trie.depth(node);
            let handle = fattest(self.trie.depth(self.trie.parent(node)), depth);
            let (key, check) = self.key_of(node, handle);
            let word = Word::new(self.trie.answer(node), depth - handle, check);
            self.trie.set_key(node, key);
            // What is kept of the hash must be enough.
            self.table.own(self.trie.key(node), word, node)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
