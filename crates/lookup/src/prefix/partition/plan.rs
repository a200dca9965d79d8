//! Where rules are cut, and which node gets what is below each cut.
//!
//! Rules come in NDN's canonical order, twice. The first pass ([`Survey`]) finds the prefixes that must not be cut, because
//! more rules are below them than a cut may have, or because these leave by different nodes. The second pass
//! ([`Plan::place_and_cut`]) says for each rule where it goes.
//!
//! A rule whose *egress* is known goes to that node: its packets have to cross to there anyway, as in ScaleBricks. All
//! others go to the node with the largest hash of cut and node, so a node that joins takes its share from all others, one
//! that leaves gives each of them a share, and nothing else moves.
//!
//! Memory: 16 bytes for each prefix that is not cut.

use std::collections::HashSet;
use std::path::Path;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Digest, Name, NameHashKey, NameRef, NameView, PrefixHashes};

use super::{DEEPER, NODES_MAX};
use crate::entry::EntryId;
use crate::flat::labelled::{self, Labels};
use crate::flat::line::BulkSaveError;
use crate::update::BuildError;

/// The first pass.
pub struct Survey {
    key: NameHashKey,
    cut_max: u64,
    open: Vec<Group>,
    last: Option<Name>,
    deeper: HashSet<Digest>,
    rules: u64,
}

/// Rules with one prefix so far.
struct Group {
    rules: u64,
    egress: Egress,
}

/// By which node packets leave.
#[derive(Clone, Copy, PartialEq)]
enum Egress {
    Is(Option<usize>),
    Differs,
}

impl Egress {
    fn and(self, other: Egress) -> Egress {
        if self == other { self } else { Egress::Differs }
    }
}

impl Survey {
    /// A survey of no rules. Prefixes with more than `cut_max` rules below them are not cut.
    pub fn new(key: NameHashKey, cut_max: u64) -> Self {
        Survey { key, cut_max, open: Vec::new(), last: None, deeper: HashSet::new(), rules: 0 }
    }

    /// Adds a rule, and the node by which its packets leave, if that is decided.
    ///
    /// # Errors
    /// If it does not follow the rule before it.
    pub fn push(&mut self, name: NameRef<'_>, egress: Option<usize>) -> Result<(), BuildError> {
        let mut shared = 0;
        if let Some(last) = &self.last {
            if last.as_ref() >= name {
                return Err(BuildError::Unsorted);
            }
            shared = last.as_ref().components().zip(name.components()).take_while(|(a, b)| a == b).count();
        }
        self.close_to(shared);
        let egress = Egress::Is(egress);
        while self.open.len() < name.len() {
            self.open.push(Group { rules: 0, egress });
        }
        if let Some(group) = self.open.last_mut() {
            *group = Group { rules: group.rules + 1, egress: group.egress.and(egress) };
        }
        self.last = Some(name.to_name());
        self.rules += 1;
        Ok(())
    }

    /// Closes the groups of prefixes of more than `depth` components of the last rule.
    fn close_to(&mut self, depth: usize) {
        if self.open.len() <= depth {
            return;
        }
        let last = self.last.take().expect("it opened the groups");
        let mut hashes = Box::<PrefixHashes>::default();
        let view = NameView::new(&self.key, last.as_ref(), &mut hashes);
        while self.open.len() > depth {
            let at = self.open.len();
            let group = self.open.pop().expect("there are more than `depth`");
            if group.rules > self.cut_max || group.egress == Egress::Differs {
                self.deeper.insert(view.digest(at));
            }
            if let Some(outer) = self.open.last_mut() {
                *outer = Group { rules: outer.rules + group.rules, egress: outer.egress.and(group.egress) };
            }
        }
        self.last = Some(last);
    }

    /// Ends the survey. `nodes` are their names, which decide where cuts without an egress go.
    ///
    /// # Panics
    /// If there are no nodes, or more than [`NODES_MAX`].
    pub fn finish(mut self, nodes: Vec<Name>) -> Plan {
        assert!((1..=NODES_MAX).contains(&nodes.len()), "the caller checks their number");
        self.close_to(0);
        let digests = nodes.iter().map(|node| self.key.digest_bytes(node.as_ref().value())).collect();
        Plan { key: self.key, nodes, digests, deeper: self.deeper, hashes: Box::default() }
    }

    /// Number of rules so far.
    pub fn rules(&self) -> u64 {
        self.rules
    }
}

/// Where each rule goes.
pub struct Plan {
    key: NameHashKey,
    nodes: Vec<Name>,
    digests: Vec<Digest>,
    deeper: HashSet<Digest>,
    hashes: Box<PrefixHashes>,
}

/// Where a rule goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// To this node, as all rules with its prefix of `depth` components.
    At {
        /// The node's number.
        node: usize,
        /// Depth of the cut.
        depth: usize,
    },
    /// To all nodes: it is shorter than each cut.
    Everywhere,
}

impl Plan {
    /// The key that names are hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// The nodes' names.
    pub fn nodes(&self) -> &[Name] {
        &self.nodes
    }

    /// Where a rule goes, with the egress that the survey was told.
    pub fn place(&mut self, name: NameRef<'_>, egress: Option<usize>) -> Placement {
        self.find(name, egress, |_, _, _| ())
    }

    /// As [`Plan::place`]. Also adds the rule's cut, and prefixes of that, to `cuts`, if the rule before it has not.
    pub fn place_and_cut(&mut self, name: NameRef<'_>, egress: Option<usize>, cuts: &mut Cuts) -> Placement {
        self.find(name, egress, |depth, digest, label| cuts.add(depth, digest, label))
    }

    #[inline]
    fn find(
        &mut self,
        name: NameRef<'_>,
        egress: Option<usize>,
        mut add: impl FnMut(usize, Digest, EntryId),
    ) -> Placement {
        let view = NameView::new(&self.key, name, &mut self.hashes);
        for depth in 1..=view.len() {
            let digest = view.digest(depth);
            if self.deeper.contains(&digest) {
                add(depth, digest, DEEPER);
                continue;
            }
            let weight = |node: &usize| mixed(digest, self.digests[*node]);
            let node = egress.unwrap_or_else(|| (0..self.nodes.len()).max_by_key(weight).expect("there is one"));
            add(depth, digest, EntryId(node as u32 + 1));
            return Placement::At { node, depth };
        }
        Placement::Everywhere
    }
}

/// How much a node wants a cut.
fn mixed(cut: Digest, node: Digest) -> u64 {
    let mut x = (cut.hash ^ node.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ cut.check.rotate_left(17) ^ node.check;
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// The cuts of a plan, in the order of rules.
#[derive(Default)]
pub struct Cuts {
    names: Vec<(Digest, EntryId)>,
    /// The last one at each depth.
    last: Vec<Option<Digest>>,
    depth_max: usize,
}

impl Cuts {
    fn add(&mut self, depth: usize, digest: Digest, label: EntryId) {
        if self.last.len() < depth {
            self.last.resize(depth, None);
        }
        if self.last[depth - 1] != Some(digest) {
            self.last[depth - 1] = Some(digest);
            self.names.push((digest, label));
            self.depth_max = self.depth_max.max(depth);
        }
    }

    /// Number of cuts and of prefixes of cuts.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Writes the partition of a plan. `progress` is called with the number of cuts that are in the table.
///
/// # Errors
/// If there is no memory, `check_bits` are none or more than 16, or the system refuses to write.
pub fn save(
    path: &Path,
    plan: &Plan,
    cuts: &Cuts,
    check_bits: u32,
    progress: &mut dyn FnMut(usize),
) -> Result<(), BulkSaveError> {
    let depth = cuts.depth_max.clamp(1, COMPONENTS_MAX).to_string();
    let texts = std::iter::once(depth).chain(plan.nodes.iter().map(Name::to_string));
    let labels = Labels { texts: texts.map(|text| text.into_bytes().into()).collect(), check_bits };
    labelled::save((path, &plan.key), &labels, &cuts.names, progress)
}
