//! Adds, removes and changes entries, and rebuilds parts: with another pair of hash functions, with
//! another size, or split in two.
//!
//! Differs from [Concise §4.3.2], where a cycle rebuilds the graph of all names. Here only the
//! names of one part, about ten thousand, get new hash functions, and only that part's memory is
//! rebuilt.

use std::collections::HashMap;

use byname_wire::Digest;

use super::batch::{Before, Undo};
use super::graph::{EDGES_MAX, Flip, Graph, NoGraph};
use super::network::{AHEAD, NamesOfPart, Network};
use super::place::Width;
use super::query::{Part, index};
use super::table::Blocks;
use super::{LOAD_PERCENT_MAX, LOAD_PERCENT_MIN, VERTICES_PERCENT};
use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::memory::Pages;
use crate::update::{BuildError, Update};

/// Maximum number of leading digest bits that may choose a part.
pub(super) const DEPTH_MAX: u32 = 24;
/// How many more bits than uniform digests need may choose a part. Names with a common prefix would
/// otherwise make the directory far larger than the number of parts.
const DEPTH_SPARE: u32 = 6;
/// Number of names for which a full part is rebuilt, in percent of those that it has.
const GROWTH_PERCENT: usize = 110;

/// A part that is built but not published yet.
struct Made {
    /// The leading bits that all its names' digests share.
    prefix: usize,
    depth: u32,
    graph: Graph,
    /// One for each table.
    values: Vec<Part>,
}

/// Names, with their entries in each table.
struct Names {
    names: Vec<Digest>,
    /// Indexed by table, then by name.
    entries: Vec<Vec<u32>>,
}

impl Network {
    pub(super) fn part_of(&self, name: Digest) -> u32 {
        self.directory[index(name, self.directory_bits())]
    }

    fn directory_bits(&self) -> u32 {
        self.directory.len().trailing_zeros()
    }

    /// Builds all parts and returns those of each table. `bits` leading bits of a digest choose its
    /// part.
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
            if members.len() > EDGES_MAX {
                // A few names that are given many times are not too many.
                keep_last(&mut members, names);
            }
            let graph = loop {
                let lines = lines_for(self.width, members.len());
                let seed = || next_seed(&mut self.seed);
                let digests = members.iter().map(|&number| names[number as usize]);
                match self.builder.graph(digests, self.width, lines, seed) {
                    Ok(graph) => break graph,
                    Err(NoGraph::Duplicate) => keep_last(&mut members, names),
                    Err(NoGraph::Skewed) => return Err(BuildError::Skewed { names: members.len() }),
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

    /// Refuses changes that would, at any time, make too many names, or too many with a common
    /// prefix. The flag is `true` for additions.
    pub(super) fn prepare(&mut self, changes: impl Iterator<Item = (Digest, bool)> + Clone) -> Result<(), BuildError> {
        self.check_room(changes.clone())?;
        let set = changes.filter(|&(_, is_set)| is_set).map(|(name, _)| name);
        let added = set.clone().count();
        let parts = (self.names + added) / self.options.part_names + 1;
        let needed = parts.ilog2() + 1 + DEPTH_SPARE;
        self.depth_limit = needed.min(DEPTH_MAX).max(self.directory_bits());
        let may_crowd = |name| self.parts[self.part_of(name) as usize].graph.len() + added > EDGES_MAX;
        if set.clone().any(may_crowd) { self.check_crowds(set) } else { Ok(()) }
    }

    /// Refuses names if too many for one part would agree in all bits that may choose a part.
    /// Removals that come first do not help; digests of a keyed hash never get here.
    fn check_crowds(&self, set: impl Iterator<Item = Digest> + Clone) -> Result<(), BuildError> {
        let mut added = vec![0; self.parts.len()];
        set.clone().for_each(|name| added[self.part_of(name) as usize] += 1);
        let may_crowd = |part: usize| self.parts[part].graph.len() + added[part] > EDGES_MAX;
        let mut names: Vec<_> = set.filter(|&name| may_crowd(self.part_of(name) as usize)).collect();
        let crowded = (0..self.parts.len()).filter(|&part| may_crowd(part));
        names.extend(crowded.flat_map(|part| self.parts[part].graph.names()));
        names.sort_unstable();
        names.dedup();
        let alike = names.chunk_by(|a, b| index(*a, self.depth_limit) == index(*b, self.depth_limit));
        match alike.map(<[Digest]>::len).max() {
            Some(names) if names > EDGES_MAX => Err(BuildError::Skewed { names }),
            _ => Ok(()),
        }
    }

    /// Refuses changes that would make too many names at any time.
    fn check_room(&self, changes: impl Iterator<Item = (Digest, bool)> + Clone) -> Result<(), BuildError> {
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

    /// Prefetches what changes of these names will read, as far as their trees are usually walked.
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
        let asked = &asked[..len];
        asked.iter().for_each(|&(part, ends)| self.parts[part as usize].graph.prefetch_edges(ends));
        asked.iter().for_each(|&(part, ends)| self.parts[part as usize].graph.prefetch_beyond(ends));
    }

    /// Adds a name or replaces its entries, one for each table. On failure nothing changes.
    pub(super) fn set(&mut self, name: Digest, entries: &[EntryId], undo: &mut Undo) -> Result<(), BuildError> {
        let number = self.part_of(name);
        let NamesOfPart { graph, depth } = &mut self.parts[number as usize];
        let ends = graph.ends(name);
        let found = graph.find(name, ends);
        let flip = match found {
            Some(at) => graph.flip_to_alter(at, ends, &mut self.walks),
            None => {
                let names = graph.len() + 1;
                let is_to_split = names > self.options.names_of_part_max() && *depth < self.depth_limit;
                if graph.load_percent() >= LOAD_PERCENT_MAX || is_to_split || names > EDGES_MAX {
                    let lines = lines_for(self.width, names * GROWTH_PERCENT / 100);
                    undo.made(self.rebuild(number, Some((name, entries)), lines)?);
                    self.names += 1;
                    return Ok(());
                }
                graph.flip_to_add(ends, &mut self.walks)
            }
        };
        let Flip::Vertices(vertices) = flip else {
            let lines = graph.shape().lines;
            undo.made(self.rebuild(number, Some((name, entries)), lines)?);
            self.names += usize::from(found.is_none());
            return Ok(());
        };
        let deltas = self.tables.iter().zip(entries).map(|(table, entry)| table.entry(number, ends) ^ entry.0);
        undo.flipped(number, vertices, deltas, found.is_none().then_some(name));
        for (table, &delta) in self.tables.iter_mut().zip(undo.last_deltas(entries.len())) {
            table.flip(number, vertices, delta);
        }
        if found.is_none() {
            graph.add(name, ends);
            self.names += 1;
        }
        Ok(())
    }

    /// Replaces a name's entry in one table. On failure nothing changes.
    pub(super) fn alter(
        &mut self,
        name: Digest,
        table: usize,
        entry: EntryId,
        undo: &mut Undo,
    ) -> Result<(), BuildError> {
        let part = self.part_of(name);
        let graph = &self.parts[part as usize].graph;
        let ends = graph.ends(name);
        if graph.find(name, ends).is_none() {
            return Ok(());
        }
        let mut entries: Vec<_> = self.tables.iter().map(|table| EntryId(table.entry(part, ends))).collect();
        entries[table] = entry;
        self.set(name, &entries, undo)
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
            // On failure the part stays larger than it needs to be.
            let _ = self.rebuild(number, None, lines);
        }
    }

    /// The effect of the changes since the last call on a table.
    pub(super) fn publish(&mut self, table: usize) -> Update<dyn FlatFib> {
        match self.tables[table].publish(&self.directory) {
            true => Update::Replace(self.query(table)),
            false => Update::Patched,
        }
    }

    /// Rebuilds a part with one more name, or with other entries for one. Returns the earlier part.
    /// On failure nothing changes.
    fn rebuild(&mut self, number: u32, set: Option<(Digest, &[EntryId])>, lines: u32) -> Result<Before, BuildError> {
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
        let (depth, mut made) = (*depth, Vec::new());
        // A part without names is not split. It stays where it is.
        let prefix = names.first().map_or(0, |&name| index(name, depth));
        self.make(prefix, depth, Names { names, entries }, lines, &mut made)?;
        let is_split = made.len() > 1;
        let parts = self.parts.len();
        let mut before = None;
        for (at, Made { prefix, depth, graph, values }) in made.into_iter().enumerate() {
            let number = if at == 0 { number } else { self.parts.len() as u32 };
            if is_split {
                self.direct(prefix, depth, number);
            }
            let old = self.tables.iter_mut().zip(values).filter_map(|(table, part)| table.set_part(number, part));
            let values = old.collect();
            let part = NamesOfPart { graph, depth };
            match self.parts.get_mut(number as usize) {
                Some(place) => {
                    let part = std::mem::replace(place, part);
                    before = Some(Before { number, part, values, parts, names: self.names });
                }
                None => self.parts.push(part),
            }
        }
        Ok(before.expect("the first takes the old one's place"))
    }

    /// Builds a part with these names, or several if they are too many for one.
    fn make(
        &mut self,
        prefix: usize,
        depth: u32,
        names: Names,
        lines: u32,
        made: &mut Vec<Made>,
    ) -> Result<(), BuildError> {
        if names.names.len() > self.options.names_of_part_max() && depth < self.depth_limit {
            for (side, half) in names.split(depth).into_iter().enumerate() {
                let lines = lines_for(self.width, half.names.len() * GROWTH_PERCENT / 100);
                self.make(2 * prefix + side, depth + 1, half, lines, made)?;
            }
            return Ok(());
        }
        let Names { names, entries } = names;
        let skewed = BuildError::Skewed { names: names.len() };
        let graph = self.builder.graph(names, self.width, lines, || next_seed(&mut self.seed)).map_err(|_| skewed)?;
        let mut values = Vec::with_capacity(entries.len());
        for entries in &entries {
            let mut memory = Blocks::new(Pages::Small, 0)?;
            values.push(memory.part(&mut self.builder, &graph, entries, self.width)?);
        }
        made.push(Made { prefix, depth, graph, values });
        Ok(())
    }

    /// Makes the directory lead names with this prefix to this part.
    pub(super) fn direct(&mut self, prefix: usize, depth: u32, number: u32) {
        while self.directory_bits() < depth {
            self.directory = self.directory.iter().flat_map(|&part| [part; 2]).collect();
        }
        let share = 1 << (self.directory_bits() - depth);
        self.directory[prefix * share..][..share].fill(number);
    }
}

impl Names {
    /// Splits by the first bit after the first `depth` bits of the digests.
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

/// Number of cache lines of each side for `names` names.
fn lines_for(width: Width, names: usize) -> u32 {
    let vertices = names.min(EDGES_MAX) * VERTICES_PERCENT / 100;
    (vertices as u32).div_ceil(width.per_line()).max(1)
}

/// Keeps the last of equal names.
fn keep_last(members: &mut Vec<u32>, names: &[Digest]) {
    members.sort_unstable_by_key(|&number| (names[number as usize], std::cmp::Reverse(number)));
    members.dedup_by_key(|number| names[*number as usize]);
}

/// SplitMix64. Seeds only need to differ, because the hashed digests are already uniform.
pub(super) fn next_seed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
