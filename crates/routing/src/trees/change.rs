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
        let parent =
            |place: &Place| place.neighbours.first().filter(|first| first.is_parent).map(|of| of.router.clone());
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

#[cfg(test)]
mod tests {
    use byname_wire::{FaceId, TreeId};

    use super::super::PlaceNeighbour;
    use super::*;

    fn place(root: &str, parent: Option<&str>, label: Option<u32>) -> Place {
        let neighbour = |router: &str, is_parent| PlaceNeighbour {
            router: router.parse().expect("a name"),
            face: FaceId(300),
            is_parent,
            secret: None,
        };
        let parent = parent.map(|parent| neighbour(parent, true));
        Place {
            tree: TreeId(1),
            root: root.parse().expect("a name"),
            cost: 1,
            nodes: 1,
            label: label.map(Label::new),
            neighbours: parent.into_iter().chain([neighbour("/net/child", false)]).collect(),
            generations: Vec::new(),
            tables: Vec::new(),
        }
    }

    #[test]
    fn what_differs_is_told_once() {
        let name = |uri: &str| uri.parse::<Name>().expect("a name");
        let mut changes = Changes::default();
        let alone = place("/net/me", None, None);
        assert_eq!(changes.compare(None, &alone), []);
        // Another root is no repair, although there is a parent now.
        let below = place("/net/a", Some("/net/b"), Some(5));
        let label = |number, is_first| Change::Label { label: Label::new(number), is_first };
        assert_eq!(changes.compare(Some(&alone), &below), [Change::Root(name("/net/a")), label(5, true)]);
        assert_eq!(changes.compare(Some(&below), &below), []);
        let repaired = place("/net/a", Some("/net/c"), Some(9));
        assert_eq!(changes.compare(Some(&below), &repaired), [Change::Parent(name("/net/c")), label(9, false)]);
        // A label that is lost for a while is no news; the next one is.
        let without = place("/net/a", Some("/net/c"), None);
        assert_eq!(changes.compare(Some(&repaired), &without), []);
        assert_eq!(changes.compare(Some(&without), &repaired), [label(9, false)]);
        assert_eq!(changes, Changes { roots: 1, parents: 1, labels: 3 });
    }
}
