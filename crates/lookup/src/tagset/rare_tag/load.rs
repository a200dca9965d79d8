//! Builds a table in one step.

use std::sync::Arc;

use byname_wire::tagset::{Descriptor, TagDigest};

use super::counts::Counts;
use super::draft::Draft;
use super::table::{Mixed, Mixer};
use super::{Options, RareTag};
use crate::entry::EntryId;
use crate::sync::Ordering;
use crate::update::BuildError;

/// Descriptors one after the other: the entry, then the tags.
#[derive(Default)]
struct Staged {
    words: Vec<u32>,
    /// Where each descriptor begins.
    begins: Vec<usize>,
}

impl Staged {
    fn push(&mut self, tags: &[TagDigest], entry: EntryId) {
        self.begins.push(self.words.len());
        self.words.push(entry.0);
        self.words.extend(tags.iter().map(|tag| tag.0));
    }

    /// Sorts the tags of each descriptor.
    fn sort_rarest_first(&mut self, counts: &Counts) {
        let mut tags = Vec::new();
        for at in 0..self.begins.len() as u32 {
            tags.clear();
            tags.extend(self.tags(at));
            counts.sort_rarest_first(&mut tags);
            let own = self.words[self.begins[at as usize] + 1..].iter_mut();
            own.zip(&tags).for_each(|(word, tag)| *word = tag.0);
        }
    }

    fn words(&self, at: u32) -> &[u32] {
        let until = self.begins.get(at as usize + 1).copied().unwrap_or(self.words.len());
        &self.words[self.begins[at as usize]..until]
    }

    fn tags(&self, at: u32) -> impl Iterator<Item = TagDigest> {
        self.words(at)[1..].iter().map(|tag| TagDigest(*tag))
    }

    fn entry(&self, at: u32) -> EntryId {
        EntryId(self.words(at)[0])
    }
}

/// Descriptors that will be a table.
pub(super) struct Loading {
    mixer: Mixer,
    staged: Staged,
    counts: Counts,
    /// The entry of the descriptor without tags.
    empty: Option<EntryId>,
}

impl Loading {
    pub(super) fn new(mixer: Mixer) -> Self {
        Loading { mixer, staged: Staged::default(), counts: Counts::new(mixer), empty: None }
    }

    /// Adds a descriptor.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn push(&mut self, tags: &[TagDigest], entry: EntryId) -> Result<(), BuildError> {
        if self.staged.begins.len() == u32::MAX as usize {
            return Err(BuildError::Full { rules: self.staged.begins.len() });
        }
        if tags.is_empty() {
            self.empty = Some(entry);
            return Ok(());
        }
        for tag in tags {
            self.counts.add(*tag);
        }
        self.staged.push(tags, entry);
        Ok(())
    }

    /// The table, which does not know its tags yet: see [`RareTag::know_tags`].
    pub(super) fn build(mut self, options: &Options) -> Result<RareTag, BuildError> {
        self.staged.sort_rarest_first(&self.counts);
        let table = RareTag::build(self.mixer, options, &self.staged, self.counts, self.empty)?;
        match table.len <= options.descriptors_max {
            true => Ok(table),
            false => Err(BuildError::Full { rules: options.descriptors_max }),
        }
    }
}

impl RareTag {
    /// A table of these descriptors, for packets whose tags are mixed with `secret`. If a
    /// descriptor comes twice, the last one counts.
    ///
    /// Needs four bytes for each tag and 20 for each descriptor, in addition to the table, until it
    /// returns.
    ///
    /// # Errors
    /// If there are too many, or if the kernel refuses memory on such pages.
    pub fn load(
        secret: u64,
        options: &Options,
        descriptors: impl IntoIterator<Item = (Descriptor, EntryId)>,
    ) -> Result<Self, BuildError> {
        let mut loading = Loading::new(Mixer::new(secret));
        for (descriptor, entry) in descriptors {
            loading.push(descriptor.tags(), entry)?;
        }
        let mut table = loading.build(options)?;
        table.know_tags();
        Ok(table)
    }

    /// Makes the tags of all descriptors known, for packets with only a filter. Once, when none is known.
    pub(super) fn know_tags(&mut self) {
        self.shared.known.add_all(self.counts.tags(), &mut self.arena);
        self.shared.blocks_bytes.store(self.arena.memory_bytes() as u64, Ordering::Relaxed);
    }

    fn build(
        mixer: Mixer,
        options: &Options,
        staged: &Staged,
        counts: Counts,
        empty: Option<EntryId>,
    ) -> Result<Self, BuildError> {
        // Descriptors with the same index tag side by side, also in the order of the directory.
        let index_tag = |at| staged.tags(at).next().map_or(Mixed(0), |tag| mixer.mix(tag));
        let mut order: Vec<(Mixed, u32)> = (0..staged.begins.len() as u32).map(|at| (index_tag(at), at)).collect();
        order.sort_unstable();
        let groups = || order.chunk_by(|(a, _), (b, _)| a == b);
        let mut table = Self::with_room(mixer, options, groups().count(), counts)?;
        empty.into_iter().for_each(|entry| table.set(&[], entry));
        let shared = Arc::clone(&table.shared);
        let mut numbers = Vec::new();
        let mut draft = Draft::default();
        for same in groups() {
            numbers.clear();
            numbers.extend(same.iter().map(|(_, at)| *at));
            table.keep_last(staged, &mut numbers);
            draft.reset(staged.tags(numbers[0]).take(1));
            for &at in &numbers {
                draft.add(staged.tags(at).skip(1), staged.entry(at));
            }
            let node = draft.write(table.plan, &mut table.arena);
            let tag = TagDigest(staged.words(numbers[0])[1]);
            table.growth.set(&shared.directory, tag, node, &mut table.arena);
            table.len += numbers.len();
        }
        Ok(table)
    }

    /// Leaves the last of equal descriptors.
    fn keep_last(&mut self, staged: &Staged, numbers: &mut Vec<u32>) {
        let tags = |at: u32| &staged.words(at)[1..];
        numbers.sort_unstable_by(|a, b| tags(*a).cmp(tags(*b)).then(b.cmp(a)));
        numbers.dedup_by(|earlier, last| {
            let is_same = tags(*earlier) == tags(*last);
            if is_same {
                staged.tags(*earlier).for_each(|tag| {
                    self.counts.remove(tag);
                });
            }
            is_same
        });
    }
}
