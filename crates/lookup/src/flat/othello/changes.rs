//! Additions, removals and changes of entries, and what they make of the parts they fall on: parts
//! with another pair of hash functions, other sizes, or split in two.
//!
//! Differs from [Concise §4.3.2], where a cycle costs a graph of all names: only the names of one
//! part, some ten thousand, get other hash functions, and only its memory is made anew.

use std::collections::HashMap;

use byname_wire::Digest;

use super::graph::{Duplicate, EDGES_MAX, Flip, Graph};
use super::network::{AHEAD, NamesOfPart, Network};
use super::place::{Shape, Width};
use super::query::{Part, index};
use super::table::Blocks;
use super::{LOAD_PERCENT_MAX, LOAD_PERCENT_MIN, VERTICES_PERCENT};
use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::memory::Pages;
use crate::update::{BuildError, Update};

/// First bits of a digest that may choose a part.
pub(super) const DEPTH_MAX: u32 = 24;
/// Names for which a part that is full is made anew, in percent of those it has.
const GROWTH_PERCENT: usize = 110;

/// Names, with their entries in each table.
struct Names {
    names: Vec<Digest>,
    /// By table, then by name.
    entries: Vec<Vec<u32>>,
}

impl Network {
    pub(super) fn part_of(&self, name: Digest) -> u32 {
        self.directory[index(name, self.directory_bits())]
    }

    fn directory_bits(&self) -> u32 {
        self.directory.len().trailing_zeros()
    }

    /// Builds all parts, and returns those of each table. `bits` of a digest choose its part.
    pub(super) fn build_all(
        &mut self,
        names: &[Digest],
        entries: &[&[EntryId]],
        bits: u32,
    ) -> Result<Vec<Vec<Part>>, BuildError> {
        let mut starts = vec![0; (1 << bits) + 1];
        names.iter().for_each(|&name| starts[index(name, bits) + 1] += 1);
        let lines = starts[1..].iter().map(|&names| 2 * lines_for(self.width, names) as usize).sum();
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let (mut order, mut next) = (vec![0u32; names.len()], starts.clone());
        for (number, &name) in (0..).zip(names) {
            let next = &mut next[index(name, bits)];
            order[*next] = number;
            *next += 1;
        }
        let mut made: Vec<_> = entries.iter().map(|_| Vec::with_capacity(1 << bits)).collect();
        let blocks = entries.iter().map(|_| Blocks::new(self.options.pages, lines));
        let mut blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        for range in starts.windows(2) {
            let mut members = order[range[0]..range[1]].to_vec();
            let graph = loop {
                let lines = lines_for(self.width, members.len());
                let seed = || next_seed(&mut self.seed);
                let digests = members.iter().map(|&number| names[number as usize]);
                match self.builder.graph(digests, self.width, lines, seed) {
                    Ok(graph) => break graph,
                    Err(Duplicate) => keep_last(&mut members, names),
                }
            };
            for ((parts, blocks), entries) in made.iter_mut().zip(&mut blocks).zip(entries) {
                let entries: Vec<_> = members.iter().map(|&number| entries[number as usize].0).collect();
                parts.push(blocks.part(&mut self.builder, &graph, &entries, self.width)?);
            }
            self.names += graph.len();
            self.parts.push(NamesOfPart { graph, depth: bits });
        }
        Ok(made)
    }

    /// Refuses changes that would make too many names at any time: additions (`true`) and removals.
    pub(super) fn check_room(&self, changes: impl Iterator<Item = (Digest, bool)> + Clone) -> Result<(), BuildError> {
        let added = changes.clone().filter(|&(_, is_set)| is_set).count();
        if self.names + added <= self.options.names_max {
            return Ok(());
        }
        let (mut known, mut names) = (HashMap::new(), self.names);
        for (name, is_set) in changes {
            let known = known.entry(name).or_insert_with(|| self.entry(0, name).is_some());
            names = names + usize::from(is_set) - usize::from(*known);
            *known = is_set;
            if names > self.options.names_max {
                return Err(BuildError::Full { rules: self.options.names_max });
            }
        }
        Ok(())
    }

    /// Asks for what changes of these names will read.
    pub(super) fn prefetch(&self, names: impl Iterator<Item = Digest>) {
        let mut asked = [(0, [0; 2]); AHEAD];
        let mut len = 0;
        for (asked, name) in asked.iter_mut().zip(names) {
            let part = self.part_of(name);
            let ends = self.parts[part as usize].graph.ends(name);
            self.parts[part as usize].graph.prefetch(ends);
            self.tables.iter().for_each(|table| table.prefetch(part, ends));
            *asked = (part, ends);
            len += 1;
        }
        for &(part, ends) in &asked[..len] {
            self.parts[part as usize].graph.prefetch_edges(ends);
        }
    }

    /// Adds a name, or replaces its entries; one for each table.
    pub(super) fn set(&mut self, name: Digest, entries: &[EntryId]) {
        let number = self.part_of(name);
        let graph = &mut self.parts[number as usize].graph;
        let ends = graph.ends(name);
        let found = graph.find(name, ends);
        let flip = match found {
            Some(at) => graph.flip_to_alter(at, ends, &mut self.walks),
            None => {
                self.names += 1;
                let names = graph.len() + 1;
                if graph.load_percent() >= LOAD_PERCENT_MAX || names > self.options.names_of_part_max() {
                    let lines = lines_for(self.width, names * GROWTH_PERCENT / 100);
                    return self.rebuild(number, Some((name, entries)), lines);
                }
                graph.flip_to_add(ends, &mut self.walks)
            }
        };
        let Flip::Vertices(vertices) = flip else {
            let lines = graph.shape().lines;
            return self.rebuild(number, Some((name, entries)), lines);
        };
        for (table, entry) in self.tables.iter_mut().zip(entries) {
            let delta = table.entry(number, ends) ^ entry.0;
            if delta != 0 {
                table.flip(number, vertices, delta);
            }
        }
        if found.is_none() {
            graph.add(name, ends);
        }
    }

    /// Replaces a name's entry in one table.
    pub(super) fn alter(&mut self, name: Digest, table: usize, entry: EntryId) {
        let part = self.part_of(name);
        let graph = &self.parts[part as usize].graph;
        let ends = graph.ends(name);
        if graph.find(name, ends).is_some() {
            let mut entries: Vec<_> = self.tables.iter().map(|table| EntryId(table.entry(part, ends))).collect();
            entries[table] = entry;
            self.set(name, &entries);
        }
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, name: Digest) {
        let number = self.part_of(name);
        let graph = &mut self.parts[number as usize].graph;
        let ends = graph.ends(name);
        let Some(at) = graph.find(name, ends) else { return };
        graph.remove(at, ends);
        self.names -= 1;
        let lines = lines_for(self.width, graph.len() * GROWTH_PERCENT / 100);
        if graph.load_percent() < LOAD_PERCENT_MIN && lines < graph.shape().lines {
            self.rebuild(number, None, lines);
        }
    }

    /// What the changes since the last call did to a table.
    pub(super) fn publish(&mut self, table: usize) -> Update<dyn FlatFib> {
        match self.tables[table].publish(&self.directory) {
            true => Update::Replace(self.query(table)),
            false => Update::Patched,
        }
    }

    /// Makes a part anew, with one more name, or other entries for one.
    fn rebuild(&mut self, number: u32, set: Option<(Digest, &[EntryId])>, lines: u32) {
        let NamesOfPart { graph, depth } = &self.parts[number as usize];
        let mut names: Vec<_> = graph.names().collect();
        let mut entries: Vec<_> = self.tables.iter().map(|table| table.entries(number, graph)).collect();
        if let Some((name, new)) = set {
            let at = names.iter().position(|&known| known == name).unwrap_or(names.len());
            if at == names.len() {
                names.push(name);
                entries.iter_mut().for_each(|entries| entries.push(0));
            }
            entries.iter_mut().zip(new).for_each(|(entries, new)| entries[at] = new.0);
        }
        self.put(number, *depth, Names { names, entries }, lines);
    }

    /// Builds a part with these names, or several if they are too many for one.
    fn put(&mut self, number: u32, depth: u32, names: Names, lines: u32) {
        // A directory far larger than the parts are many: the digests are not uniform.
        let may_split = depth < DEPTH_MAX && self.directory.len() <= 64 * self.parts.len();
        if names.names.len() > self.options.names_of_part_max() && may_split {
            let halves = names.split(depth);
            let second = self.split_directory(number, depth, halves[0].names.first().or(halves[1].names.first()));
            for (number, half) in [number, second].into_iter().zip(halves) {
                let lines = lines_for(self.width, half.names.len() * GROWTH_PERCENT / 100);
                self.put(number, depth + 1, half, lines);
            }
            return;
        }
        let Names { names, entries } = names;
        let graph = self.builder.graph(names, self.width, lines, || next_seed(&mut self.seed));
        let graph = graph.expect("no name is in a graph twice");
        for (table, entries) in self.tables.iter_mut().zip(entries) {
            let part = Blocks::new(Pages::Small, 0)
                .and_then(|mut blocks| blocks.part(&mut self.builder, &graph, &entries, self.width))
                .expect("a part is too small for pages of its own: it lies on the heap");
            table.set_part(number, part);
        }
        self.parts[number as usize] = NamesOfPart { graph, depth };
    }

    /// Lets a new part have the second half of what the directory gives to one. `name` is of that.
    fn split_directory(&mut self, number: u32, depth: u32, name: Option<&Digest>) -> u32 {
        if depth == self.directory_bits() {
            self.directory = self.directory.iter().flat_map(|&part| [part; 2]).collect();
        }
        let second = self.parts.len() as u32;
        let name = *name.expect("only full parts are split");
        let half = 1 << (self.directory_bits() - depth - 1);
        let begin = index(name, depth) * 2 * half;
        self.directory[begin + half..begin + 2 * half].fill(second);
        // Both are built right after this.
        let shape = Shape { seed: 0, lines: 1 };
        self.parts.push(NamesOfPart { graph: Graph::new(shape, self.width), depth: depth + 1 });
        self.tables.iter_mut().for_each(|table| table.set_part(second, table.part(number).clone()));
        second
    }
}

impl Names {
    /// By the first bit behind the first `depth` of their digests.
    fn split(self, depth: u32) -> [Names; 2] {
        let side = |name: Digest| index(name, depth + 1) & 1;
        [0, 1].map(|which| {
            let keep = |at: &usize| side(self.names[*at]) == which;
            let kept: Vec<_> = (0..self.names.len()).filter(keep).collect();
            let entries = self.entries.iter().map(|entries| kept.iter().map(|&at| entries[at]).collect());
            Names { names: kept.iter().map(|&at| self.names[at]).collect(), entries: entries.collect() }
        })
    }
}

/// Cache lines of each side for so many names.
fn lines_for(width: Width, names: usize) -> u32 {
    let vertices = names.min(EDGES_MAX) * VERTICES_PERCENT / 100;
    (vertices as u32).div_ceil(width.per_line()).max(1)
}

/// Of equal names keeps the last.
fn keep_last(members: &mut Vec<u32>, names: &[Digest]) {
    members.sort_unstable_by_key(|&number| (names[number as usize], std::cmp::Reverse(number)));
    members.dedup_by_key(|number| names[*number as usize]);
}

/// SplitMix64: seeds need to differ, no more; what is hashed is uniform already.
fn next_seed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
