//! The routes of one forwarder. Prefixes that forward alike share a group of nexthops.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::tables::{GROUPS_MAX, Nexthop, NexthopGroup, Tables};
use byname_lookup::prefix::compact::{Compact, Options};
use byname_lookup::{BuildError, Change, Control, EntryId, Update};
use byname_wire::{Name, NameHashKey};
use thiserror::Error;

/// Why a route was refused. The routes are as before.
#[derive(Debug, Error)]
pub enum RouteError {
    /// A nexthop is no face of this forwarder.
    #[error("there is no face {}", .0.0)]
    NoFace(FaceId),
    /// The FIB refuses the rule.
    #[error("the FIB refuses the route: {0}")]
    Fib(#[from] BuildError),
    /// There are as many different sets of nexthops as fit.
    #[error("{0} sets of nexthops are the most")]
    TooManyGroups(usize),
}

/// Sorted by cost, then by face, with at most one for each face.
type Nexthops = Box<[Nexthop]>;

/// A group, and how many prefixes use it.
struct Shared {
    entry: EntryId,
    prefixes: usize,
}

/// The control half of the FIB, and what its entries stand for.
pub(crate) struct Routes {
    fib: Compact,
    tables: Arc<Tables>,
    prefixes: BTreeMap<Name, Nexthops>,
    groups: HashMap<Nexthops, Shared>,
    /// Ids below `next_entry` that no group has.
    free: Vec<EntryId>,
    next_entry: u32,
}

impl Routes {
    pub fn new(key: NameHashKey) -> Result<Self, BuildError> {
        let fib = Compact::new(key, &Options::default())?;
        let tables = Arc::new(Tables::new(fib.query()));
        let (prefixes, groups) = (BTreeMap::new(), HashMap::new());
        Ok(Routes { fib, tables, prefixes, groups, free: Vec::new(), next_entry: 0 })
    }

    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    pub fn get(&self, prefix: &Name) -> &[Nexthop] {
        self.prefixes.get(prefix).map_or(&[], |nexthops| nexthops)
    }

    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Sets the nexthops of a prefix, or removes it if there are none. On an error, all is as before.
    pub fn set(&mut self, prefix: &Name, mut nexthops: Vec<Nexthop>) -> Result<(), RouteError> {
        // Of several routes to a face, the cheapest counts.
        nexthops.sort_unstable_by_key(|nexthop| (nexthop.face, nexthop.cost));
        nexthops.dedup_by_key(|nexthop| nexthop.face);
        nexthops.sort_unstable_by_key(|nexthop| (nexthop.cost, nexthop.face));
        let nexthops: Nexthops = nexthops.into();
        if self.get(prefix) == &*nexthops {
            return Ok(());
        }
        if nexthops.is_empty() {
            self.write(Change::Remove(prefix.clone()))?;
        } else {
            let entry = self.share(&nexthops)?;
            if let Err(error) = self.write(Change::Set(prefix.clone(), entry)) {
                self.release(&nexthops);
                return Err(error.into());
            }
        }
        let before = if nexthops.is_empty() {
            self.prefixes.remove(prefix)
        } else {
            self.prefixes.insert(prefix.clone(), nexthops)
        };
        if let Some(before) = before {
            self.release(&before);
        }
        Ok(())
    }

    /// Takes a face out of all routes.
    pub fn forget(&mut self, face: FaceId) {
        let uses = |nexthops: &Nexthops| nexthops.iter().any(|nexthop| nexthop.face == face);
        let affected: Vec<Name> =
            self.prefixes.iter().filter(|(_, nexthops)| uses(nexthops)).map(|(prefix, _)| prefix.clone()).collect();
        for prefix in affected {
            let left = self.get(&prefix).iter().copied().filter(|nexthop| nexthop.face != face).collect();
            // Without room for one more group, names below have no route. That is better than one to nowhere.
            if self.set(&prefix, left).is_err() {
                let _ = self.set(&prefix, Vec::new());
            }
        }
    }

    /// The entry of these nexthops, for one prefix more.
    fn share(&mut self, nexthops: &Nexthops) -> Result<EntryId, RouteError> {
        if let Some(group) = self.groups.get_mut(nexthops) {
            group.prefixes += 1;
            return Ok(group.entry);
        }
        let entry = match self.free.pop() {
            Some(entry) => entry,
            None if self.next_entry == GROUPS_MAX => return Err(RouteError::TooManyGroups(GROUPS_MAX as usize)),
            None => {
                self.next_entry += 1;
                EntryId(self.next_entry - 1)
            }
        };
        self.tables.set_group(entry, Some(NexthopGroup { nexthops: nexthops.clone() }));
        self.groups.insert(nexthops.clone(), Shared { entry, prefixes: 1 });
        Ok(entry)
    }

    /// One prefix uses these nexthops no more.
    fn release(&mut self, nexthops: &Nexthops) {
        let Some(group) = self.groups.get_mut(nexthops) else { return };
        group.prefixes -= 1;
        if group.prefixes == 0 {
            let entry = group.entry;
            self.groups.remove(nexthops);
            self.tables.set_group(entry, None);
            self.free.push(entry);
        }
    }

    fn write(&mut self, change: Change<Name>) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.fib.apply(&[change])? {
            self.tables.replace_fib(fib);
        }
        // The only reader is this forwarder's worker, which is between two bursts.
        self.tables.grace().wait();
        self.fib.reclaim();
        Ok(())
    }
}
