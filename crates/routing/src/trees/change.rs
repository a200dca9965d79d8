//! What has changed of a tree, for operators.

use byname_wire::{Label, Name};

use super::Place;

/// Something of a tree that is not as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Another router is the root.
    Root(Name),
    /// Under the same root, the way there leads through another router.
    Parent(Name),
    /// This router has another label.
    Label {
        /// The label.
        label: Label,
        /// Whether it is the first one on this tree since the start.
        is_first: bool,
    },
}

/// How often a tree has changed since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Times that another router became the root.
    pub roots: u64,
    /// Times that the way to the same root led through another router.
    pub parents: u64,
    /// Times that this router got another label, its first one included.
    pub labels: u64,
}

impl Changes {
    /// Compares two places on one tree, counts the differences, and returns them.
    pub(super) fn compare(&mut self, before: Option<&Place>, now: &Place) -> Vec<Change> {
        let mut changes = Vec::new();
        let parent = |place: &Place| place.neighbours.first().filter(|first| first.is_parent).map(|of| of.router.clone());
        if let Some(before) = before {
            if before.root != now.root {
                self.roots += 1;
                changes.push(Change::Root(now.root.clone()));
            } else if let Some(other) = parent(now).filter(|other| parent(before).as_ref() != Some(other)) {
                self.parents += 1;
                changes.push(Change::Parent(other));
            }
        }
        if let Some(label) = now.label.filter(|label| before.and_then(|before| before.label) != Some(*label)) {
            changes.push(Change::Label { label, is_first: self.labels == 0 });
            self.labels += 1;
        }
        changes
    }
}
