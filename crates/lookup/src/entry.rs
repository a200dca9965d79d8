//! What a lookup yields.

/// Id of a group of nexthops, shared by all rules that forward alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u32);
