//! Labels of sets of tags that are in a file: each follows the route of its name.
//!
//! A face on the way leads to an application or to a neighbour. A neighbour gets packets of the trees that it is a neighbour on, and an
//! application those of all trees. Neighbours are told nothing: the other routers have the file, too.

use std::collections::BTreeMap;

use byname_forward::FaceId;
use byname_forward::tables::TreeFace;
use byname_lookup::prefix::compact::Translation;
use byname_lookup::{BuildError, EntryId};
use byname_wire::{Name, TreeId};

use super::bulk::TagFib;
use super::{OwnTree, TagRouting};
use crate::fib_writer::{FibWriter, TagSets};

/// The labels of a file.
pub struct Labels {
    translation: Translation,
    by_name: BTreeMap<Name, Label>,
}

#[derive(Default)]
struct Label {
    /// Its numbers in the file.
    ids: Vec<EntryId>,
    /// Where its route leads.
    faces: Vec<FaceId>,
    group: Option<EntryId>,
}

impl Default for Labels {
    fn default() -> Self {
        Labels::new(Translation::new(&[]), Vec::new())
    }
}

impl Labels {
    /// The labels of a file, by number, none of which leads anywhere yet.
    pub fn new(translation: Translation, names: Vec<Name>) -> Self {
        let mut by_name: BTreeMap<Name, Label> = BTreeMap::new();
        for (name, id) in names.into_iter().zip(0..) {
            by_name.entry(name).or_default().ids.push(EntryId(id));
        }
        Labels { translation, by_name }
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.by_name.keys()
    }
}

impl TagRouting {
    /// Tag routing whose engine has a file with these labels.
    pub fn with_labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// The labels of the file of tags.
    pub fn labels(&self) -> impl Iterator<Item = &Name> {
        self.labels.names()
    }

    /// The route of a label leads to these faces from now on.
    pub fn lead(&mut self, label: &Name, faces: Vec<FaceId>) {
        let Some(label) = self.labels.by_name.get_mut(label) else { return };
        label.faces = faces;
        let nexthops = nexthops(&label.faces, &self.trees);
        label.use_nexthops(&self.labels.translation, &mut self.fib, &nexthops);
    }

    /// Leads all labels again, since trees are others.
    pub(super) fn lead_again(&mut self) {
        for label in self.labels.by_name.values_mut() {
            let nexthops = nexthops(&label.faces, &self.trees);
            label.use_nexthops(&self.labels.translation, &mut self.fib, &nexthops);
        }
    }

    /// Replaces the engine of the FIB while workers read it; see [`FibWriter::rebuild`]. `faces_of` tells where the route of a
    /// label leads.
    ///
    /// # Errors
    /// The new engine refuses a descriptor. The old one then goes on.
    pub fn rebuild_fib(&mut self, new: TagFib, faces_of: impl Fn(&Name) -> Vec<FaceId>) -> Result<(), BuildError> {
        let TagFib { engine, mut labels } = new;
        for (name, label) in &mut labels.by_name {
            label.faces = faces_of(name);
        }
        // Before any packet meets them.
        let before = std::mem::replace(&mut self.labels, labels);
        self.lead_again();
        let rules = self.rules.iter().filter_map(|(descriptor, rule)| Some(((**descriptor).clone(), rule.group?)));
        let mut engine = Some(engine);
        let rebuilt = self.fib.rebuild(|_| Ok(engine.take().expect("it has no replicas")), rules);
        let unused = if rebuilt.is_ok() { before } else { std::mem::replace(&mut self.labels, before) };
        for mut label in unused.by_name.into_values() {
            label.use_nexthops(&unused.translation, &mut self.fib, &[]);
        }
        rebuilt
    }
}

impl Label {
    fn use_nexthops(&mut self, translation: &Translation, fib: &mut FibWriter<TagSets>, nexthops: &[TreeFace]) {
        if fib.hold(&mut self.group, nexthops) {
            self.ids.iter().for_each(|id| translation.set(*id, self.group));
        }
    }
}

/// In the order of a group, each once.
fn nexthops(faces: &[FaceId], trees: &[OwnTree]) -> Vec<TreeFace> {
    let has_edge = |tree: &OwnTree, face: FaceId| tree.neighbors.iter().any(|neighbor| neighbor.face == face);
    let on = |face: FaceId| -> Vec<TreeId> {
        let edges: Vec<TreeId> = trees.iter().filter(|tree| has_edge(tree, face)).map(|tree| tree.id).collect();
        if edges.is_empty() { trees.iter().map(|tree| tree.id).collect() } else { edges }
    };
    let pairs = faces.iter().flat_map(|face| on(*face).into_iter().map(|tree| TreeFace { tree, face: *face }));
    let mut nexthops: Vec<TreeFace> = pairs.collect();
    nexthops.sort_unstable();
    nexthops.dedup();
    nexthops
}
