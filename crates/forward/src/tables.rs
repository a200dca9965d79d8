//! What the worker reads and the control side writes, without locks: the FIB and the groups of
//! nexthops that its entries name.

use byname_lookup::{EntryId, PrefixFib};
use byname_wire::FaceId;
use std::sync::Arc;

/// One way to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nexthop {
    /// Where to.
    pub face: FaceId,
    /// The route's cost; lower is better.
    pub cost: u64,
}

/// The nexthops of all rules that forward alike, by rising cost, then face id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NexthopGroup {
    /// At most one for each face.
    pub nexthops: Box<[Nexthop]>,
}

/// The tables that one control side shares with its workers.
pub struct Tables {
    fib: arc_swap::ArcSwap<FibHolder>,
    groups: arc_swap::ArcSwap<Vec<Option<Arc<NexthopGroup>>>>,
}

/// `ArcSwap` wants a sized type.
struct FibHolder(Arc<dyn PrefixFib>);

impl Tables {
    /// Tables with this FIB and no groups.
    pub fn new(fib: Arc<dyn PrefixFib>) -> Self {
        Tables { fib: arc_swap::ArcSwap::from_pointee(FibHolder(fib)), groups: arc_swap::ArcSwap::default() }
    }
    /// Publishes a new query half.
    pub fn replace_fib(&self, fib: Arc<dyn PrefixFib>) {
        self.fib.store(Arc::new(FibHolder(fib)));
    }
    /// The query half as it is now.
    pub fn fib(&self) -> Arc<dyn PrefixFib> {
        self.fib.load().0.clone()
    }
    /// Sets or clears the group of an entry. A group is set before a rule names it, and cleared
    /// after the last rule that named it is gone.
    pub fn set_group(&self, entry: EntryId, group: Option<NexthopGroup>) {
        let mut groups = Vec::clone(&self.groups.load());
        let i = entry.0 as usize;
        if groups.len() <= i {
            groups.resize(i + 1, None);
        }
        groups[i] = group.map(Arc::new);
        self.groups.store(Arc::new(groups));
    }
    /// The group of an entry.
    pub fn group(&self, entry: EntryId) -> Option<Arc<NexthopGroup>> {
        self.groups.load().get(entry.0 as usize)?.clone()
    }
}
