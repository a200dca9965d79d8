//! Tables in files. A table is written as if its descriptors had just been loaded: without leftovers, and with the
//! counts of today.
//!
//! ```text
//! section 1   units of blocks (8)  descriptors (8)  the descriptor without tags: entry above a bit (8)
//! section 2   blocks
//! section 3   words of the directory's parts (8 each)
//! section 4   labels of entries: length (4), bytes
//! ```
//!
//! The header's key is the secret that tags are mixed with, and zero.
//!
//! Numbers in blocks lead to other blocks. So opening a file walks over all nodes, whatever [`Opening::checked`] says:
//! each block must lie within the file, and no two may overlap. A forged file therefore gives wrong answers and nothing
//! worse. The walk also counts the tags, for changes. If another process writes into a mapped file afterwards, lookups
//! may panic, too.

use std::path::Path;
use std::sync::Arc;

use byname_wire::NameHashKey;
use byname_wire::tagset::{TAGS_MAX, TagDigest};

use super::arena::{Arena, BlockId, CHUNK_LINES, Chunks, Claims, LINE_UNITS};
use super::counts::Counts;
use super::directory::Growth;
use super::draft::{Draft, Plan};
use super::known::Known;
use super::load::Loading;
use super::node::View;
use super::query::{Query, Shared};
use super::table::Mixer;
use super::{Options, RareTag};
use crate::entry::EntryId;
use crate::file::{Fields, FileError, Kind, Opening, TableFile, TableWriter, labels_of, put_bytes};
use crate::sync::{AtomicU64, Ordering};
use crate::update::BuildError;

const SHAPE: u32 = 1;
const BLOCKS: u32 = 2;
const DIRECTORY: u32 = 3;
const LABELS: u32 = 4;

/// A table from a file.
pub(crate) struct Opened {
    pub(crate) table: RareTag,
    /// The secret that tags are mixed with.
    pub(crate) secret: u64,
    /// By entry. No descriptor has another entry.
    pub(crate) labels: Vec<Box<[u8]>>,
    /// Number of descriptors of each entry.
    pub(crate) uses: Vec<u32>,
}

impl RareTag {
    /// Writes the table into a file, with a label for each entry.
    ///
    /// # Errors
    /// If there is no memory for a copy of the table.
    pub(crate) fn save(
        &self,
        path: &Path,
        secret: u64,
        labels: &[Box<[u8]>],
    ) -> Result<Result<(), FileError>, BuildError> {
        let mut loading = Loading::new(self.plan.mixer);
        let mut refused = Ok(());
        self.for_each(&mut |tags, entry| {
            if refused.is_ok() {
                refused = loading.push(tags, entry);
            }
        });
        refused?;
        Ok(loading.build(&self.options)?.write(path, secret, labels))
    }

    pub(super) fn write(&self, path: &Path, secret: u64, labels: &[Box<[u8]>]) -> Result<(), FileError> {
        let (units, blocks) = self.arena.used();
        let empty = self.shared.empty.load(Ordering::Relaxed);
        let mut file = TableWriter::create(path, Kind::Tags, &NameHashKey::new([secret, 0]))?;
        file.bytes(SHAPE, [units as u64, self.len as u64, empty].map(u64::to_le_bytes).as_flattened())?;
        file.lines(BLOCKS, blocks)?;
        file.bytes(DIRECTORY, &self.shared.directory.words().flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
        let mut bytes = Vec::new();
        labels.iter().for_each(|label| put_bytes(&mut bytes, label));
        file.bytes(LABELS, &bytes)?;
        file.finish()
    }

    /// Calls `each` for each descriptor, whose tags are in no order.
    fn for_each(&self, each: &mut dyn FnMut(&[TagDigest], EntryId)) {
        if let Some(entry) = self.shared.empty() {
            each(&[], entry);
        }
        let chunks = &self.shared.chunks;
        self.shared.directory.nodes(chunks).for_each(|(_, node)| below(chunks, node, each));
    }

    /// Opens a file that [`RareTag::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or has no such table.
    pub(crate) fn open(path: &Path, opening: Opening, options: &Options) -> Result<Opened, FileError> {
        let file = TableFile::open(path, Kind::Tags, opening)?;
        let [secret, 0] = file.key().secret() else { return Err(malformed("its key is none of a table of tags")) };
        let bytes = file.bytes(SHAPE)?;
        let mut fields = Fields(&bytes);
        let (units, len, empty) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let lines = file.lines_len(BLOCKS)?;
        let units = usize::try_from(units).ok().filter(|units| units.div_ceil(LINE_UNITS) == lines);
        let units = units.ok_or_else(|| malformed("its blocks have another size"))?;
        let words = file.bytes(DIRECTORY)?;
        let (words, []) = words.as_chunks::<8>() else { return Err(malformed("its directory is incomplete")) };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let labels = labels_of(&file.bytes(LABELS)?)?;
        let arena = Arena::of_lines(file.lines_in_runs(BLOCKS, CHUNK_LINES)?, units, options.pages);
        let arena = arena.map_err(|_| malformed("it is larger than any table"))?;

        let (mixer, mut claims) = (Mixer::new(secret), Claims::new(units));
        let chunks = arena.chunks().clone();
        let parts = Growth::from_words(&words, mixer, &chunks, &mut claims);
        let (growth, directory) = parts.ok_or_else(|| malformed("its directory contradicts itself"))?;
        let (counts, uses) = (Counts::new(mixer), vec![0; labels.len()]);
        let mut walk = Walk { chunks: &chunks, mixer, claims, counts, uses, path: Vec::new(), len: 0 };
        let empty_entry = (empty & 1 == 1).then_some(EntryId((empty >> 1) as u32));
        let fits =
            empty >> 33 == 0 && (empty & 1 == 1 || empty == 0) && empty_entry.is_none_or(|entry| walk.use_of(entry));
        let all = directory.nodes(&chunks).all(|(tag, node)| walk.below(tag, node).is_some());
        let Walk { counts, uses, len: walked, .. } = walk;
        let found = walked + u64::from(empty_entry.is_some());
        if !(fits && all && found == len && fields.is_empty()) {
            return Err(malformed("its sets contradict each other"));
        }
        if len > options.descriptors_max as u64 {
            return Err(malformed("it has more sets than this program lets a table have"));
        }

        let (known, empty) = (Known::new(), AtomicU64::new(empty));
        let shared = Arc::new(Shared { chunks, directory, known, empty, blocks_bytes: AtomicU64::new(0) });
        let (steps_max, instructions) = (options.steps_max, options.instructions());
        let query = Arc::new(Query { shared: shared.clone(), steps_max, instructions });
        let (plan, options, draft) = (Plan::new(options.members_max, mixer), options.clone(), Draft::default());
        let mut table = RareTag { options, plan, counts, len: len as usize, arena, growth, shared, query, draft };
        table.know_tags();
        Ok(Opened { table, secret, labels, uses })
    }
}

/// Calls `each` for each descriptor of a node, and of those below.
fn below(chunks: &Chunks, node: BlockId, each: &mut dyn FnMut(&[TagDigest], EntryId)) {
    let view = View::of(chunks.block(node));
    view.rows().for_each(|row| each(&row.tags().collect::<Vec<_>>(), row.entry()));
    if view.is_wide {
        view.table().iter().for_each(|(_, child)| below(chunks, child, each));
    }
}

/// The walk over the nodes of a file.
struct Walk<'a> {
    chunks: &'a Chunks,
    mixer: Mixer,
    claims: Claims,
    counts: Counts,
    uses: Vec<u32>,
    /// Tags of the node that is visited.
    path: Vec<TagDigest>,
    /// Number of descriptors found.
    len: u64,
}

impl Walk<'_> {
    /// Visits the node that a tag leads to, and those below. `None` if one of them is impossible.
    fn below(&mut self, tag: TagDigest, node: BlockId) -> Option<()> {
        if self.path.contains(&tag) || self.path.len() == TAGS_MAX {
            return None;
        }
        self.path.push(tag);
        self.node(node)?;
        self.path.pop();
        Some(())
    }

    fn node(&mut self, node: BlockId) -> Option<()> {
        // The head and what it says about sizes lie in the block's first kilobytes, if it lies in one chunk at all.
        let view = self.claims.has(node).then(|| View::of_checked(self.chunks.block(node))).flatten()?;
        match view.is_wide {
            true => self.claims.take_lines(node, view.size())?,
            false => self.claims.take(node, view.size())?,
        }
        if !view.path_tags().eq(self.path.iter().copied()) {
            return None;
        }
        for row in view.rows() {
            self.len += 1;
            let is_right = row.len() <= TAGS_MAX && self.use_of(row.entry());
            is_right.then_some(())?;
            row.tags().for_each(|tag| {
                self.counts.add(tag);
            });
        }
        if view.is_wide {
            let (table, mixer) = (view.table(), self.mixer);
            let used = table.check(|tag| view.may_have_child(tag).then(|| mixer.mix(tag)))?;
            view.has_counts(used, used).then_some(())?;
            for (tag, child) in table.iter() {
                self.below(tag, child)?;
                let further = View::of(self.chunks.block(child)).further_max;
                (view.further_max > further).then_some(())?;
            }
        }
        Some(())
    }

    /// Counts a use of an entry. Returns whether it has a label.
    fn use_of(&mut self, entry: EntryId) -> bool {
        let uses = self.uses.get_mut(entry.0 as usize);
        uses.map(|uses| *uses += 1).is_some()
    }
}

fn malformed(what: &str) -> FileError {
    FileError::Malformed { what: what.to_owned() }
}

#[cfg(all(test, not(loom)))]
mod tests;
