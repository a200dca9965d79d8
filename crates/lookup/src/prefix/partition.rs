//! One router of several machines: a few bits a name say which *node* has the rules below it.
//!
//! [Concise §2]'s flat table in front of sharded tables, as [So §2.4] and ScaleBricks spread a FIB. Names are
//! *cut* at the depth that decides: all rules below a cut are at one node. The table has the digest of each cut, and the
//! number of its node's label. Prefixes of cuts are in it, too, with the number [`DEEPER`]. Rules as short as these
//! are at all nodes.
//!
//! A lookup asks for the first component, and goes on while the answer is [`DEEPER`], so most names cost one cache
//! line. What is cut at this node, or at nodes whose rules it *holds* as well, is looked up in the engine behind. What is
//! cut elsewhere gets the entry of that node's label, at the depth of the cut. An unknown name is looked up here:
//! no node has more rules for it than this one. The checksum misses it with odds of 2^-c for c bits. Then
//! it goes to another node, which has the same short rules, and answers as this one would. A packet crosses once: the
//! forwarder looks up what comes from another node in the engine behind ([`Here`]).
//!
//! Longer rules win, as everywhere: while the engine has rules from changes that are as deep as a cut of another node, it
//! is asked as well.
//!
//! The file is that of [`labelled`](crate::flat::labelled), with the digests of prefixes under the key of the rules, so
//! a router hashes nothing twice. The text of label 0 is the largest depth of a cut, in decimal digits. The others are
//! names of nodes. With 15 nodes or fewer, a cut has 4 bits of node, and with 4 bits of checksum it takes
//! about 1.14 bytes.
//!
//! Cost: one line of the table for each depth up to the cut; then the engine's, or that of another machine.

pub mod plan;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::name_hash::DepthSet;
use byname_wire::{Digest, Name, NameHashKey, NameView, PrefixHashes};
use smallvec::SmallVec;
use thiserror::Error;

use super::compact::Translation;
use super::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::entry::EntryId;
use crate::file::{FileError, Opening};
use crate::flat::FlatFib;
use crate::flat::labelled::LabelledTable;
use crate::update::{BuildError, Change, Control, Update};

/// The number of prefixes of cuts.
pub const DEEPER: EntryId = EntryId(0);
/// Maximum number of nodes.
pub const NODES_MAX: usize = 255;

/// Where the rules of each name are.
pub struct Partition {
    table: Arc<dyn FlatFib>,
    key: NameHashKey,
    /// Their names. Label n + 1 is node n.
    nodes: Vec<Name>,
    depth_max: usize,
    cuts: u64,
    check_bits: u32,
}

/// A file that has no partition.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// It cannot be read, or has no such table.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its labels are not those of a partition.
    #[error("its labels are not those of a partition, but {label:?}: it may be a table of flat names")]
    Label {
        /// The first wrong one.
        label: String,
    },
    /// It has no checksums.
    #[error("the partition has no checksums, so unknown names go to any node: make it again")]
    NoChecksum,
    /// There is no such node.
    #[error("the partition has no node {node}; it has {}", nodes.join(", "))]
    NoNode {
        /// The node.
        node: String,
        /// Those that it has.
        nodes: Vec<String>,
    },
}

impl Partition {
    /// Opens a file of [`plan::save`].
    ///
    /// # Errors
    /// If the file cannot be read or is no partition.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, PartitionError> {
        let table = LabelledTable::open(path, opening)?;
        let labels = table.labels();
        let wrong = |label: &[u8]| PartitionError::Label { label: String::from_utf8_lossy(label).into_owned() };
        let (first, rest) = labels.texts.split_first().expect("a table has labels");
        let depth = std::str::from_utf8(first).ok().and_then(|text| text.parse().ok());
        let depth_max = depth.filter(|depth| (1..=COMPONENTS_MAX).contains(depth)).ok_or_else(|| wrong(first))?;
        let name = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with('/'));
            text.and_then(|text| text.parse().ok())
        };
        let nodes: Result<Vec<Name>, _> = rest.iter().map(|text| name(text).ok_or_else(|| wrong(text))).collect();
        let nodes = nodes?;
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            return Err(wrong(first));
        }
        if labels.check_bits == 0 {
            return Err(PartitionError::NoChecksum);
        }
        Ok(Partition {
            table: table.query().clone(),
            key: *table.key(),
            nodes,
            depth_max,
            cuts: table.names(),
            check_bits: labels.check_bits,
        })
    }

    /// The key that names are hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// The nodes' names.
    pub fn nodes(&self) -> &[Name] {
        &self.nodes
    }

    /// Number of cuts and of prefixes of cuts.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Bits of a cut's checksum.
    pub fn check_bits(&self) -> u32 {
        self.check_bits
    }

    /// The largest depth of a cut.
    pub fn depth_max(&self) -> usize {
        self.depth_max
    }

    /// Resident memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// The node that has the rules below this name, and the depth of the cut. `None`: every node has all rules for it.
    pub fn node(&self, name: &NameView<'_>) -> Option<(usize, usize)> {
        for depth in 1..=self.depth_max.min(name.len()) {
            match self.table.entry(name.digest(depth))? {
                DEEPER => {}
                label => return self.cut(label, depth),
            }
        }
        None
    }

    /// A cut, unless the file is damaged.
    #[inline]
    fn cut(&self, label: EntryId, depth: usize) -> Option<(usize, usize)> {
        let node = label.0 as usize - 1;
        (node < self.nodes.len()).then_some((node, depth))
    }

    /// As [`Partition::node`], for the names of a burst at once.
    fn node_burst(&self, names: &[NameView<'_>], out: &mut [Option<(usize, usize)>]) {
        out.fill(None);
        let mut places: SmallVec<[u8; BURST_MAX]> = (0..names.len() as u8).collect();
        let (mut digests, mut labels) = ([Digest::default(); BURST_MAX], [None; BURST_MAX]);
        for depth in 1..=self.depth_max {
            places.retain(|place| names[usize::from(*place)].len() >= depth);
            if places.is_empty() {
                return;
            }
            let (digests, labels) = (&mut digests[..places.len()], &mut labels[..places.len()]);
            for (digest, place) in digests.iter_mut().zip(&places) {
                *digest = names[usize::from(*place)].digest(depth);
            }
            self.table.entry_burst(digests, labels);
            let mut labels = labels.iter();
            places.retain(|place| match *labels.next().expect("one for each place") {
                Some(DEEPER) => true,
                Some(label) => {
                    out[usize::from(*place)] = self.cut(label, depth);
                    false
                }
                None => false,
            });
        }
    }
}

/// The control half: an engine with the rules of this node, behind a partition.
pub struct Partitioned<C> {
    engine: C,
    shared: Arc<Shared>,
    /// The engine's rules that are at least as deep as their cut, which is elsewhere.
    covering: HashSet<Name>,
}

/// What readers see.
struct Shared {
    partition: Partition,
    /// Whether this node has the rules of each node.
    holds: Box<[bool]>,
    /// The entries of nodes.
    entries: Translation,
    has_covering: AtomicBool,
}

struct Query {
    shared: Arc<Shared>,
    engine: Arc<dyn PrefixFib>,
}

impl<C: Control<Name, Query = dyn PrefixFib>> Partitioned<C> {
    /// Puts a partition in front of an engine with the rules of the nodes `holds`, and those that all nodes have. Also
    /// returns the entries of nodes, which are none at first: names of a node without one are looked up in the
    /// engine.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn new(engine: C, partition: Partition, holds: &[Name]) -> Result<(Self, Translation), PartitionError> {
        let entries = Translation::new(&vec![None; partition.nodes.len()]);
        if let Some(unknown) = holds.iter().find(|node| !partition.nodes.contains(node)) {
            let nodes = partition.nodes.iter().map(Name::to_string).collect();
            return Err(PartitionError::NoNode { node: unknown.to_string(), nodes });
        }
        let holds = partition.nodes.iter().map(|node| holds.contains(node)).collect();
        let shared = Shared { partition, holds, entries: entries.clone(), has_covering: AtomicBool::new(false) };
        Ok((Partitioned { engine, shared: Arc::new(shared), covering: HashSet::new() }, entries))
    }

    /// The partition.
    pub fn partition(&self) -> &Partition {
        &self.shared.partition
    }

    fn wrapped(&self, engine: Arc<dyn PrefixFib>) -> Arc<dyn PrefixFib> {
        Arc::new(Query { shared: self.shared.clone(), engine })
    }

    /// Notes rules that cover names of other nodes: additions before readers can see them.
    fn note(&mut self, changes: &[Change<Name>]) {
        let mut hashes = Box::<PrefixHashes>::default();
        for change in changes {
            let (name, entry) = change.parts();
            let view = NameView::new(&self.shared.partition.key, name.as_ref(), &mut hashes);
            if self.shared.elsewhere(self.shared.partition.node(&view)).is_some() {
                match entry {
                    Some(_) => self.covering.insert(name.clone()),
                    None => self.covering.remove(name),
                };
            }
        }
    }

    fn publish(&self, keeps: bool) {
        let has = &self.shared.has_covering;
        has.store(!self.covering.is_empty() || (keeps && has.load(Ordering::Relaxed)), Ordering::Release);
    }
}

impl<C: Control<Name, Query = dyn PrefixFib>> Control<Name> for Partitioned<C> {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.wrapped(self.engine.query())
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.engine.apply(changes)?;
        self.note(changes);
        match update {
            Update::Patched => {
                self.publish(false);
                Ok(Update::Patched)
            }
            Update::Replace(engine) => {
                // Readers may have the old query half until the next change.
                self.publish(true);
                Ok(Update::Replace(self.wrapped(engine)))
            }
        }
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        self.engine.expect(rules)
    }

    fn reclaim(&mut self) {
        self.publish(false);
        self.engine.reclaim();
    }
}

impl Shared {
    /// A cut whose rules are not here.
    #[inline]
    fn elsewhere(&self, cut: Option<(usize, usize)>) -> Option<(usize, usize)> {
        cut.filter(|(node, _)| !self.holds[*node])
    }

    /// The way to the node of a cut that is elsewhere, if there is one.
    #[inline]
    fn way(&self, cut: Option<(usize, usize)>) -> Option<PrefixMatch> {
        let (node, depth) = self.elsewhere(cut)?;
        Some(PrefixMatch { entry: self.entries.get(EntryId(node as u32))?, depth })
    }
}

/// What a node has itself.
pub struct Here<'a> {
    /// The engine behind the partition, which has the node's rules.
    pub engine: &'a dyn PrefixFib,
    /// The entries of other nodes.
    pub ways: &'a Translation,
}

/// The deeper one of two matches. A rule of the engine covers a cut of its depth.
fn deeper(way: PrefixMatch, rule: Option<PrefixMatch>) -> PrefixMatch {
    rule.filter(|rule| rule.depth >= way.depth).unwrap_or(way)
}

impl PrefixFib for Query {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        match self.shared.way(self.shared.partition.node(name)) {
            Some(way) if !self.shared.has_covering.load(Ordering::Acquire) => Some(way),
            Some(way) => Some(deeper(way, self.engine.longest_match(name))),
            None => self.engine.longest_match(name),
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        let mut cuts = [None; BURST_MAX];
        self.shared.partition.node_burst(names, &mut cuts[..names.len()]);
        let asks_all = self.shared.has_covering.load(Ordering::Acquire);
        let mut asked: SmallVec<[NameView<'_>; BURST_MAX]> = SmallVec::new();
        let mut places: SmallVec<[u8; BURST_MAX]> = SmallVec::new();
        for (place, (cut, out)) in cuts.iter().zip(&mut *out).enumerate() {
            *out = self.shared.way(*cut);
            if asks_all || out.is_none() {
                asked.push(names[place]);
                places.push(place as u8);
            }
        }
        if asked.is_empty() {
            return;
        }
        let mut rules = [None; BURST_MAX];
        self.engine.longest_match_burst(&asked, &mut rules[..asked.len()]);
        for (place, rule) in places.iter().zip(rules) {
            let out = &mut out[usize::from(*place)];
            *out = out.map_or(rule, |way| Some(deeper(way, rule)));
        }
    }

    fn depth_max(&self) -> usize {
        self.engine.depth_max().max(self.shared.partition.depth_max)
    }

    fn depths(&self) -> DepthSet {
        (1..=self.shared.partition.depth_max).fold(self.engine.depths(), |mut depths, depth| {
            depths.insert(depth);
            depths
        })
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let Partition { table, depth_max, .. } = &self.shared.partition;
        let mut lines = 0;
        for depth in 1..=(*depth_max).min(name.len()) {
            lines += table.lines_read(name.digest(depth))?;
            if table.entry(name.digest(depth)) != Some(DEEPER) {
                break;
            }
        }
        let way = self.shared.way(self.shared.partition.node(name));
        if way.is_some() && !self.shared.has_covering.load(Ordering::Acquire) {
            return Some(lines);
        }
        Some(lines + self.engine.lines_read(name)?)
    }

    /// The node that a name goes to.
    fn label(&self, name: &NameView<'_>) -> Option<&Name> {
        let cut = self.shared.partition.node(name);
        let Some(way) = self.shared.way(cut) else { return self.engine.label(name) };
        let is_covered = self.longest_match(name) != Some(way);
        if is_covered { None } else { Some(&self.shared.partition.nodes[cut?.0]) }
    }

    fn here(&self) -> Option<Here<'_>> {
        Some(Here { engine: &*self.engine, ways: &self.shared.entries })
    }

    fn flat_changes(
        &self,
        prefix: byname_wire::NameRef<'_>,
    ) -> Option<(&NameHashKey, &Arc<super::namespaces::changes::Changes>)> {
        self.engine.flat_changes(prefix)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.shared.partition.memory_bytes() + self.engine.memory_bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
