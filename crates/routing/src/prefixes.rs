//! Prefixes of the network, the routers that announce them, and the routes that the forwarder has.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::{FaceId, Name, NameRef};

use crate::ids::{Group, PrefixId, RouterId};

/// A router that announces a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) router: RouterId,
    pub(crate) cost: u64,
}

/// Routes in the forwarder: a group, and a cost that each nexthop has in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) group: Group,
    pub(crate) added: u64,
}

impl Installed {
    pub(crate) fn routes(&self) -> impl Iterator<Item = (FaceId, u64)> + '_ {
        self.group.iter().map(|(face, cost)| (*face, cost.saturating_add(self.added)))
    }
}

/// A prefix.
#[derive(Debug)]
pub(crate) struct Prefix {
    pub(crate) name: Arc<Name>,
    pub(crate) exits: Vec<Exit>,
    pub(crate) installed: Option<Installed>,
}

/// All prefixes.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    index: BTreeMap<Arc<Name>, PrefixId>,
    slots: Vec<Option<Prefix>>,
    free: Vec<PrefixId>,
    installed: usize,
}

impl Prefixes {
    pub(crate) fn find(&self, name: &Name) -> Option<PrefixId> {
        self.index.get(name).copied()
    }

    /// The prefix of this name, new if there was none.
    pub(crate) fn insert(&mut self, name: &Name) -> PrefixId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let name = Arc::new(name.clone());
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            PrefixId(self.slots.len() as u32 - 1)
        });
        self.slots[id.0 as usize] = Some(Prefix { name: Arc::clone(&name), exits: Vec::new(), installed: None });
        self.index.insert(name, id);
        id
    }

    /// Drops a prefix that no router announces and that has no routes.
    pub(crate) fn remove_if_unused(&mut self, id: PrefixId) {
        let Some(prefix) = &self.slots[id.0 as usize] else { return };
        if prefix.exits.is_empty() && prefix.installed.is_none() {
            self.index.remove(&prefix.name);
            self.slots[id.0 as usize] = None;
            self.free.push(id);
        }
    }

    pub(crate) fn contains(&self, id: PrefixId) -> bool {
        self.slots.get(id.0 as usize).is_some_and(Option::is_some)
    }

    /// A prefix. Numbers are kept only as long as their prefixes.
    pub(crate) fn get(&self, id: PrefixId) -> &Prefix {
        self.slots[id.0 as usize].as_ref().expect("numbers of forgotten prefixes are not kept")
    }

    fn get_mut(&mut self, id: PrefixId) -> &mut Prefix {
        self.slots[id.0 as usize].as_mut().expect("numbers of forgotten prefixes are not kept")
    }

    /// A router announces a prefix. Returns whether that is news.
    pub(crate) fn set_exit(&mut self, id: PrefixId, router: RouterId, cost: u64) -> bool {
        let exits = &mut self.get_mut(id).exits;
        match exits.iter_mut().find(|exit| exit.router == router) {
            Some(exit) => std::mem::replace(&mut exit.cost, cost) != cost,
            None => {
                exits.push(Exit { router, cost });
                true
            }
        }
    }

    /// A router announces a prefix no more. Returns whether it did.
    pub(crate) fn remove_exit(&mut self, id: PrefixId, router: RouterId) -> bool {
        let exits = &mut self.get_mut(id).exits;
        let before = exits.len();
        exits.retain(|exit| exit.router != router);
        exits.len() != before
    }

    /// Notes what the forwarder has from now on. Returns what it had.
    pub(crate) fn set_installed(&mut self, id: PrefixId, installed: Option<Installed>) -> Option<Installed> {
        self.installed += usize::from(installed.is_some());
        let before = std::mem::replace(&mut self.get_mut(id).installed, installed);
        self.installed -= usize::from(before.is_some());
        before
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Number of prefixes that have routes.
    pub(crate) fn installed(&self) -> usize {
        self.installed
    }

    /// Prefixes after a name, in order.
    pub(crate) fn after(&self, name: Option<NameRef<'_>>) -> impl Iterator<Item = (PrefixId, &Prefix)> {
        let from = match name {
            Some(name) => std::ops::Bound::Excluded(name.to_name()),
            None => std::ops::Bound::Unbounded,
        };
        self.index.range::<Name, _>((from, std::ops::Bound::Unbounded)).map(|(_, id)| (*id, self.get(*id)))
    }

    pub(crate) fn ids(&self) -> Vec<PrefixId> {
        self.index.values().copied().collect()
    }
}
