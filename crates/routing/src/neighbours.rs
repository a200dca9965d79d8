//! Neighbours: what they advertise, and the links to them.

use std::collections::BTreeMap;

use byname_wire::FaceId;

use crate::ids::RouterId;
use crate::link::{HELD_COST, Link, Standing};
use crate::rib::INFINITY;

/// What a neighbour tells of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// Less than infinity.
    pub(crate) cost: u8,
    /// Whether the neighbour has a link of its own to that router, and uses it.
    pub(crate) is_linked: bool,
}

/// What a neighbour tells of all routers. It takes two bytes for each router that this one knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tale {
    /// By number of the router.
    entries: Vec<Option<Told>>,
}

impl Tale {
    /// Room for all of this many routers.
    pub(crate) fn of(routers: usize) -> Self {
        Tale { entries: Vec::with_capacity(routers) }
    }

    pub(crate) fn get(&self, router: RouterId) -> Option<Told> {
        self.entries.get(router.0 as usize).copied().flatten()
    }

    pub(crate) fn insert(&mut self, router: RouterId, told: Told) {
        let at = router.0 as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, None);
        }
        self.entries[at] = Some(told);
    }

    pub(crate) fn remove(&mut self, router: RouterId) {
        if let Some(entry) = self.entries.get_mut(router.0 as usize) {
            *entry = None;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RouterId, Told)> + '_ {
        let numbered = self.entries.iter().zip(0..);
        numbered.filter_map(|(told, number)| told.map(|told| (RouterId(number), told)))
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// The routers of which this and another tale differ.
    pub(crate) fn differences<'a>(&'a self, other: &'a Tale) -> impl Iterator<Item = RouterId> + 'a {
        let length = self.entries.len().max(other.entries.len()) as u32;
        (0..length).map(RouterId).filter(|router| self.get(*router) != other.get(*router))
    }
}

/// A neighbour.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// The start and number of the last advertisement that it said to exist.
    pub(crate) claimed: (u64, u64),
    /// Those of the one that is used. `None`: none has been fetched.
    pub(crate) used: Option<(u64, u64)>,
    /// What its advertisement tells.
    pub(crate) told: Tale,
    /// What it told before it restarted, for routers that it has not told of since.
    pub(crate) stale: BTreeMap<RouterId, Told>,
    pub(crate) stale_until_ms: u64,
    /// When the last advertisement is fetched (again).
    pub(crate) fetch_ms: Option<u64>,
    pub(crate) links: Vec<Link>,
}

impl Neighbour {
    pub(crate) fn new() -> Self {
        Neighbour {
            claimed: (0, 0),
            used: None,
            told: Tale::default(),
            stale: BTreeMap::new(),
            stale_until_ms: 0,
            fetch_ms: None,
            links: Vec::new(),
        }
    }

    /// The cost that it tells for a router.
    pub(crate) fn told_cost(&self, router: RouterId) -> Option<u64> {
        self.told.get(router).or_else(|| self.stale.get(&router).copied()).map(|told| u64::from(told.cost))
    }

    /// The highest standing of its links.
    pub(crate) fn standing(&self) -> Standing {
        self.links.iter().map(|link| link.standing).max().unwrap_or(Standing::Down)
    }

    /// The links that routes may go through: those of the highest standing, with the lowest cost. Those by which the
    /// neighbour has configured this router, if there are any.
    pub(crate) fn used_links(&self) -> impl Iterator<Item = &Link> {
        let standing = self.standing();
        let stands = move |link: &Link| link.standing == standing && standing > Standing::Down;
        let has_active = self.links.iter().any(|link| stands(link) && link.is_active);
        let fits = move |link: &&Link| stands(link) && (link.is_active || !has_active);
        let cost = self.links.iter().filter(fits).map(|link| link.cost).min();
        self.links.iter().filter(fits).filter(move |link| Some(link.cost) == cost)
    }

    /// Cost of these links, for a way that costs `further` from the neighbour on. `None`: there are none.
    pub(crate) fn link_cost(&self, further: u64) -> Option<u64> {
        let link = self.used_links().next()?;
        let more = match link.standing {
            // Nothing becomes unreachable by that.
            Standing::Held => HELD_COST.min((INFINITY - 1).saturating_sub(further.saturating_add(link.cost))),
            Standing::Used | Standing::Down => 0,
        };
        Some(link.cost + more)
    }

    /// The face for its advertisements: one that is used, or else the one that was heard last.
    pub(crate) fn face(&self) -> Option<FaceId> {
        let used = self.used_links().next();
        used.or_else(|| self.links.iter().max_by_key(|link| link.synced_ms)).map(|link| link.face)
    }

    pub(crate) fn link(&self, face: FaceId) -> Option<&Link> {
        self.links.iter().find(|link| link.face == face)
    }

    pub(crate) fn link_mut(&mut self, face: FaceId) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.face == face)
    }

    /// All routers that it tells of.
    pub(crate) fn routers(&self) -> impl Iterator<Item = RouterId> + '_ {
        self.told.iter().map(|(router, _)| router).chain(self.stale.keys().copied())
    }
}
