//! The result of a lookup.

/// Id of a group of nexthops. All rules that forward alike share one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u32);
