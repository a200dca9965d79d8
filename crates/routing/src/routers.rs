//! The routers of the network that are known, by small numbers.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use byname_trust::Rights;
use byname_wire::{Name, NameRef};

use crate::ids::{Group, PrefixId, RouterId, SELF};
use crate::publisher::Publisher;
use crate::rib::Way;

/// The best way to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) cost: u64,
    pub(crate) nexthop: RouterId,
    /// Cost through the second-best neighbour, at most infinity.
    pub(crate) other_cost: u64,
}

/// A router of the network.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: Arc<Name>,
    /// `None`: it is not reachable.
    pub(crate) best: Option<Best>,
    pub(crate) group: Group,
    /// All ways to it, by neighbour.
    pub(crate) ways: Vec<Way>,
    /// What it may announce: by the certificate of what it published last. Whoever has several may use any of them.
    pub(crate) rights: Rights,
    /// Prefixes that it announces now and may not: the first ones.
    pub(crate) outside: BTreeSet<Name>,
    /// What it publishes.
    pub(crate) publisher: Publisher,
    /// Prefixes that it announces, without those that policy refuses.
    pub(crate) prefixes: BTreeSet<PrefixId>,
    /// Those of an earlier start that the present one has not announced.
    pub(crate) stale: BTreeSet<PrefixId>,
    /// When the stale ones are dropped.
    pub(crate) stale_until_ms: u64,
    /// Prefixes that lead to it although it does not announce them: that of its publications and, with some versions of the
    /// protocol, its name.
    pub(crate) control: Vec<PrefixId>,
    /// If it is or was a neighbour: the start and number of the last advertisement that it said to exist.
    pub(crate) claimed: (u64, u64),
    /// If it is or was a neighbour that speaks hellos: the start and number of its last hello.
    pub(crate) greeted: Option<(u64, u64)>,
    /// Hash of an entry of a state vector that tells what is known of it, no more and no less.
    pub(crate) heard: Option<u64>,
    /// The neighbour that told of it first.
    pub(crate) told_by: Option<RouterId>,
    pub(crate) unreachable_since_ms: u64,
}

/// A name that is looked up by its bytes, so that names in packets need no copy.
#[derive(Debug, PartialEq, Eq)]
struct ByBytes(Arc<Name>);

impl Borrow<[u8]> for ByBytes {
    fn borrow(&self) -> &[u8] {
        self.0.value()
    }
}

impl Hash for ByBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.value().hash(state);
    }
}

/// All known routers. Number 0 is this router.
#[derive(Debug)]
pub(crate) struct Routers {
    /// In order of their names.
    ordered: BTreeMap<Arc<Name>, RouterId>,
    index: HashMap<ByBytes, RouterId>,
    slots: Vec<Option<Known>>,
    free: Vec<RouterId>,
}

impl Routers {
    pub(crate) fn new(own: &Name) -> Self {
        let (ordered, index) = (BTreeMap::new(), HashMap::new());
        let mut routers = Routers { ordered, index, slots: Vec::new(), free: Vec::new() };
        let id = routers.insert(own.as_ref(), None, 0);
        assert_eq!(id, SELF, "the table was empty");
        routers.get_mut(SELF).best = Some(Best { cost: 0, nexthop: SELF, other_cost: crate::rib::INFINITY });
        routers
    }

    pub(crate) fn find(&self, name: NameRef<'_>) -> Option<RouterId> {
        self.index.get(name.value()).copied()
    }

    pub(crate) fn insert(&mut self, name: NameRef<'_>, told_by: Option<RouterId>, now_ms: u64) -> RouterId {
        let name = Arc::new(name.to_name());
        let known = Known {
            name: Arc::clone(&name),
            best: None,
            group: Arc::from([]),
            ways: Vec::new(),
            rights: Rights::default(),
            outside: BTreeSet::new(),
            publisher: Publisher::default(),
            prefixes: BTreeSet::new(),
            stale: BTreeSet::new(),
            stale_until_ms: 0,
            control: Vec::new(),
            claimed: (0, 0),
            greeted: None,
            heard: None,
            told_by,
            unreachable_since_ms: now_ms,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            RouterId(self.slots.len() as u32 - 1)
        });
        self.slots[id.0 as usize] = Some(known);
        self.index.insert(ByBytes(Arc::clone(&name)), id);
        self.ordered.insert(name, id);
        id
    }

    pub(crate) fn remove(&mut self, id: RouterId) {
        if let Some(known) = self.slots[id.0 as usize].take() {
            self.index.remove(known.name.value());
            self.ordered.remove(&known.name);
            self.free.push(id);
        }
    }

    /// A router. Numbers are kept only as long as their routers.
    pub(crate) fn get(&self, id: RouterId) -> &Known {
        self.slots[id.0 as usize].as_ref().expect("numbers of forgotten routers are not kept")
    }

    pub(crate) fn get_mut(&mut self, id: RouterId) -> &mut Known {
        self.slots[id.0 as usize].as_mut().expect("numbers of forgotten routers are not kept")
    }

    pub(crate) fn name(&self, id: RouterId) -> NameRef<'_> {
        self.get(id).name.as_ref().as_ref()
    }

    /// Number of routers, with this one.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// All routers, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RouterId, &Known)> {
        self.ordered.values().map(|id| (*id, self.get(*id)))
    }

    pub(crate) fn ids(&self) -> Vec<RouterId> {
        self.ordered.values().copied().collect()
    }
}
