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
        let mixer = Mixer::new(secret);
        let (mut staged, mut counts, mut empty) = (Staged::default(), Counts::new(mixer), None);
        for (descriptor, entry) in descriptors {
            if staged.begins.len() == u32::MAX as usize {
                return Err(BuildError::Full { rules: staged.begins.len() });
            }
            if descriptor.tags().is_empty() {
                empty = Some(entry);
                continue;
            }
            for tag in descriptor.tags() {
                counts.add(*tag);
            }
            staged.push(descriptor.tags(), entry);
        }
        staged.sort_rarest_first(&counts);
        let table = Self::build(mixer, options, &staged, counts, empty)?;
        match table.len <= options.descriptors_max {
            true => Ok(table),
            false => Err(BuildError::Full { rules: options.descriptors_max }),
        }
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
        shared.known.add_all(table.counts.tags(), &mut table.arena);
        shared.blocks_bytes.store(table.arena.memory_bytes() as u64, Ordering::Relaxed);
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
