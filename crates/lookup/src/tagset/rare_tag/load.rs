//! A table made at once.

use std::ops::Range;

use byname_wire::tagset::{Descriptor, TagDigest};

use super::counts::Counts;
use super::directory::{DirectoryWriter, Mixed};
use super::node::Node;
use super::{Options, RareTag};
use crate::entry::EntryId;
use crate::sync::Ordering;
use crate::update::BuildError;

/// Descriptors one after the other: the entry, then the tags.
#[derive(Default)]
struct Staged {
    words: Vec<u32>,
    /// Where each begins, and where the last one ends.
    begins: Vec<usize>,
}

impl Staged {
    fn push(&mut self, tags: &[TagDigest], entry: EntryId) {
        self.begins.push(self.words.len());
        self.words.push(entry.0);
        self.words.extend(tags.iter().map(|tag| tag.0));
    }

    fn tags(&self, at: u32) -> impl Iterator<Item = TagDigest> {
        let until = self.begins.get(at as usize + 1).copied().unwrap_or(self.words.len());
        self.words[self.begins[at as usize] + 1..until].iter().map(|tag| TagDigest(*tag))
    }

    fn entry(&self, at: u32) -> EntryId {
        EntryId(self.words[self.begins[at as usize]])
    }
}

impl RareTag {
    /// A table of these descriptors, for packets whose tags are mixed under `secret`; of one that comes
    /// twice the last counts.
    ///
    /// Takes four bytes for each tag beside the table, and 20 for each descriptor, until it returns.
    ///
    /// # Errors
    /// If there are too many, or the kernel refuses memory on such pages.
    pub fn load(
        secret: u64,
        options: &Options,
        descriptors: impl IntoIterator<Item = (Descriptor, EntryId)>,
    ) -> Result<Self, BuildError> {
        let mut table = RareTag::new(secret, options)?;
        let mut staged = Staged::default();
        for (descriptor, entry) in descriptors {
            if staged.begins.len() == u32::MAX as usize {
                return Err(BuildError::Full { rules: staged.begins.len() });
            }
            if descriptor.tags().is_empty() {
                table.set(&[], entry);
                continue;
            }
            for tag in descriptor.tags() {
                table.counts.add(*tag);
            }
            staged.push(descriptor.tags(), entry);
        }
        table.build(&staged)?;
        match table.len <= options.descriptors_max {
            true => Ok(table),
            false => Err(BuildError::Full { rules: options.descriptors_max }),
        }
    }

    /// Makes the nodes of an empty table whose tags are counted.
    fn build(&mut self, staged: &Staged) -> Result<(), BuildError> {
        let mut tags = Vec::new();
        let mut index_tag = |at| {
            tags.clear();
            tags.extend(staged.tags(at));
            self.counts.rarest(&tags).map(|tag| self.shared.mixer.mix(tag))
        };
        let mut order: Vec<(Option<Mixed>, u32)> =
            (0..staged.begins.len() as u32).map(|at| (index_tag(at), at)).collect();
        order.sort_unstable();
        let groups = || order.chunk_by(|(a, _), (b, _)| a == b);
        self.directory = DirectoryWriter::new(groups().count(), self.options.pages)?;
        let mut group = Group { staged, tags, members: Vec::new(), again: Vec::new() };
        let mut node = Node::default();
        for same in groups() {
            group.fill(&self.counts, same.iter().map(|(_, at)| *at));
            node.reset(&group.tags[..1]);
            for (tags, entry) in group.descriptors() {
                node.add(tags[1..].iter().copied(), entry);
                self.len += 1;
            }
            node.split(&mut self.arena, self.limits);
            let block = node.write(&mut self.arena);
            let tag = self.shared.mixer.mix(group.tags[0]);
            self.directory.make_room(tag);
            self.directory.set(tag, block);
        }
        for tag in group.again.iter().flat_map(|at| staged.tags(*at)) {
            self.counts.remove(tag);
        }
        self.shared.known.add_all(self.counts.tags(), &mut self.arena);
        self.shared.blocks_bytes.store(self.arena.memory_bytes() as u64, Ordering::Relaxed);
        self.publish();
        Ok(())
    }
}

/// Descriptors with the same index tag.
struct Group<'a> {
    staged: &'a Staged,
    /// Of all of them, those of each rarest first.
    tags: Vec<TagDigest>,
    /// Which of `tags` are a descriptor's, and its number.
    members: Vec<(Range<usize>, u32)>,
    /// Numbers of those that came again.
    again: Vec<u32>,
}

impl Group<'_> {
    /// Takes the descriptors of these numbers, which ascend.
    fn fill(&mut self, counts: &Counts, numbers: impl Iterator<Item = u32>) {
        self.tags.clear();
        self.members.clear();
        for at in numbers {
            let begin = self.tags.len();
            self.tags.extend(self.staged.tags(at));
            counts.sort_rarest_first(&mut self.tags[begin..]);
            self.members.push((begin..self.tags.len(), at));
        }
        let tags = &self.tags;
        self.members.sort_unstable_by(|(a, i), (b, j)| tags[a.clone()].cmp(&tags[b.clone()]).then(i.cmp(j)));
        for (earlier, later) in self.members.iter().zip(self.members.iter().skip(1)) {
            if tags[earlier.0.clone()] == tags[later.0.clone()] {
                self.again.push(earlier.1);
            }
        }
        self.members.dedup_by(|later, earlier| {
            let is_same = tags[earlier.0.clone()] == tags[later.0.clone()];
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
    }

    fn descriptors(&self) -> impl Iterator<Item = (&[TagDigest], EntryId)> {
        self.members.iter().map(|(tags, at)| (&self.tags[tags.clone()], self.staged.entry(*at)))
    }
}
