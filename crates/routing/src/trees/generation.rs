//! Generations of a tree: edges that do not change while packets with tags are on them.
//!
//! The ways to the root that [`super::tree`] finds change whenever a link or a root does. Packets with tags carry no nonce,
//! so they must stay on the edges of one tree from their first hop to their last. A root therefore begins a *generation*
//! when the ways below it have changed and come to rest. A router adopts it after its parent has, and keeps that parent in
//! it for good. Each router adopts a generation after its parent, so the edges of a generation make a tree. They carry
//! descriptors under an id of their own, beside those of the generation before. A generation is settled at a router when
//! all neighbours have adopted it: then no edge is added any more except to routers that come. `byname_control::tags` finds
//! out when descriptors have been told along all edges, and only then begins packets there.
//!
//! A link or a router that fails takes its edges from a generation. The other edges go on to work, and the root begins a
//! new one.
//!
//! Cost: while there are two generations, a router knows each descriptor twice, and tells it to its neighbours again.

use std::collections::BTreeMap;

use byname_wire::TreeId;

use super::message::{GenerationKey, RouterKey, Told, first_64_bits};
use super::peer::Peer;
use super::{Settings, TREES_MAX};

/// Most generations of a tree that a router has at a time. One more takes the place of the oldest.
pub const GENERATIONS_MAX: usize = 4;
/// So many generations of one tree have different ids.
const IDS: u64 = 30;
/// A way to the root that has not changed for so long is at rest.
const STEADY_MS: u64 = 100;
/// Least time between two generations of a root. It doubles with each further one within [`CALM_MS`].
const PACE_MS: u64 = 250;
const PACE_DOUBLINGS_MAX: u32 = 6;
const CALM_MS: u64 = 30_000;
/// How long to wait for a neighbour that follows another root.
const PATIENCE_MS: u64 = 5_000;
/// Roots of which the last generation is remembered.
const ROOTS_MAX: usize = 16;

/// The id of a generation of a tree. Ids of trees, and those of all their generations, take one byte in a packet, so that a
/// router can write one over the other.
fn id_of(tree: TreeId, drawn: u64) -> TreeId {
    // At most 31 * 8 + 8.
    TreeId((1 + drawn % IDS) as u32 * TREES_MAX as u32 + tree.0)
}

/// One generation, as this router has adopted it.
#[derive(Debug, Clone)]
struct Generation {
    key: GenerationKey,
    id: TreeId,
    /// The parent and its start. `None`: this router is the root.
    parent: Option<(RouterKey, u64)>,
    adopted_ms: u64,
    is_settled: bool,
    /// When it is over. `None`: no later one is settled here.
    until_ms: Option<u64>,
}

/// What decides about generations now.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) own: RouterKey,
    pub(super) boot: u64,
    pub(super) root: RouterKey,
    pub(super) parent: Option<RouterKey>,
    pub(super) children: &'a [RouterKey],
    pub(super) peers: &'a BTreeMap<RouterKey, Peer>,
    pub(super) settings: &'a Settings,
    pub(super) ms: u64,
}

/// The edges of a generation at this router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edges {
    pub(super) id: TreeId,
    pub(super) is_settled: bool,
    /// The parent first, if there is one.
    pub(super) peers: Vec<RouterKey>,
    pub(super) has_parent: bool,
}

/// The generations of one tree.
#[derive(Debug)]
pub(super) struct Generations {
    tree: TreeId,
    /// The latest first.
    kept: Vec<Generation>,
    /// The last one of each root that was adopted, the latest first.
    last: Vec<GenerationKey>,
    /// Root and parent, with its start, and since when they are what they are.
    way: (RouterKey, Option<(RouterKey, u64)>),
    way_since_ms: u64,
    /// The generation that ought to be replaced, as the parent is told.
    stale: Option<u64>,
    /// Number of generations that this router began in the last time, and when it may begin one.
    begun: u32,
    begun_ms: u64,
    due_ms: Option<u64>,
}

impl Generations {
    pub(super) fn new(tree: TreeId, own: RouterKey, now_ms: u64) -> Self {
        Generations {
            tree,
            kept: Vec::new(),
            last: Vec::new(),
            way: (own, None),
            way_since_ms: now_ms,
            stale: None,
            begun: 0,
            begun_ms: 0,
            due_ms: None,
        }
    }

    /// When [`Generations::update`] finds something new by itself.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// The generation that ought to be replaced.
    pub(super) fn stale(&self) -> Option<u64> {
        self.stale
    }

    pub(super) fn update(&mut self, now: Now<'_>) {
        let way = (now.root, now.parent.map(|parent| (parent, boot_of(now.peers, parent))));
        if self.way != way {
            (self.way, self.way_since_ms) = (way, now.ms);
        }
        self.kept.retain(|of| of.until_ms.is_none_or(|until| until > now.ms));
        let steady_ms = self.way_since_ms + STEADY_MS;
        let is_steady = steady_ms <= now.ms;
        let mut due = Vec::new();
        self.stale = None;
        let wants = match way.1 {
            None => self.wants_own(now).then(|| self.next_ms(now.ms).max(steady_ms)),
            Some(_) => self.offered(now).is_some().then_some(steady_ms),
        };
        match (wants, way.1) {
            (Some(at), _) if at > now.ms => due.push(at),
            (Some(_), None) => self.begin(now),
            (Some(_), Some(parent)) => {
                if let Some(told) = self.offered(now) {
                    self.adopt(told.key, told.id, Some(parent), now.ms);
                }
            }
            (None, _) => {}
        }
        if let Some(parent) = way.1 {
            let is_other = |of: &Generation| of.key.root == now.root && of.parent != Some(parent);
            let own = self.kept.first().filter(|of| is_other(of)).map(|of| of.key.number);
            let refused = self.refused(now);
            if (own.is_some() || refused.is_some()) && !is_steady {
                due.push(steady_ms);
            }
            let own = own.max(refused).filter(|_| is_steady);
            self.stale = own.max(self.stale_below(now));
        }
        self.settle(now, &mut due);
        due.extend(self.kept.iter().filter_map(|of| of.until_ms));
        self.due_ms = due.into_iter().min();
    }

    /// What the parent offers and this router has not had.
    fn offered(&self, now: Now<'_>) -> Option<Told> {
        let told = told_latest(self.tree, now)?;
        let is_id = (0..IDS).any(|drawn| id_of(self.tree, drawn) == told.id);
        (is_id && self.is_new(told.key) && !self.kept.iter().any(|of| of.id == told.id)).then_some(told)
    }

    /// The number of what the parent offers and this router cannot adopt: it has left it for that of another root, or has
    /// another one with its id.
    fn refused(&self, now: Now<'_>) -> Option<u64> {
        let told = told_latest(self.tree, now)?;
        let is_on_it = |of: &Generation| of.key.root == told.key.root && of.key.number >= told.key.number;
        (!self.kept.first().is_some_and(is_on_it) && self.offered(now).is_none()).then_some(told.key.number)
    }

    fn is_new(&self, key: GenerationKey) -> bool {
        !self.last.iter().any(|last| last.root == key.root && last.number >= key.number)
    }

    fn stale_below(&self, now: Now<'_>) -> Option<u64> {
        let entries = now.children.iter().filter_map(|child| now.peers.get(child)?.entry(self.tree));
        entries.filter_map(|entry| entry.stale).max()
    }

    /// Whether this router, as the root, ought to begin a generation.
    fn wants_own(&self, now: Now<'_>) -> bool {
        match self.kept.first() {
            Some(latest) if latest.key.root == now.own => self.stale_below(now) == Some(latest.key.number),
            _ => true,
        }
    }

    fn next_ms(&self, now_ms: u64) -> u64 {
        if self.begun == 0 || self.begun_ms + CALM_MS <= now_ms {
            return now_ms;
        }
        self.begun_ms + (PACE_MS << (self.begun - 1).min(PACE_DOUBLINGS_MAX))
    }

    fn begin(&mut self, now: Now<'_>) {
        let first = now.boot << 16;
        let last = self.last.iter().find(|last| last.root == now.own).map_or(first, |last| last.number);
        let key = GenerationKey { root: now.own, number: last + 1 };
        let told = now.peers.values().filter_map(|peer| peer.entry(self.tree)).flat_map(|entry| &entry.generations);
        let taken: Vec<TreeId> = told.map(|told| told.id).chain(self.kept.iter().map(|of| of.id)).collect();
        let drawn = first_64_bits(&[&key.root.0.to_be_bytes(), &key.number.to_be_bytes()]) % IDS;
        let ids = (0..IDS).map(|more| id_of(self.tree, drawn + more));
        // Too many neighbours with too many: those who cannot adopt it say so.
        let id = ids.clone().find(|id| !taken.contains(id)).unwrap_or_else(|| id_of(self.tree, drawn));
        self.begun = if self.begun_ms + CALM_MS <= now.ms { 1 } else { self.begun + 1 };
        self.begun_ms = now.ms;
        self.adopt(key, id, None, now.ms);
    }

    fn adopt(&mut self, key: GenerationKey, id: TreeId, parent: Option<(RouterKey, u64)>, now_ms: u64) {
        self.kept.insert(0, Generation { key, id, parent, adopted_ms: now_ms, is_settled: false, until_ms: None });
        self.kept.truncate(GENERATIONS_MAX);
        self.last.retain(|last| last.root != key.root);
        self.last.insert(0, key);
        self.last.truncate(ROOTS_MAX);
    }

    fn settle(&mut self, now: Now<'_>, due: &mut Vec<u64>) {
        for place in 0..self.kept.len() {
            if !self.kept[place].is_settled {
                let of = &self.kept[place];
                let patience_ms = of.adopted_ms + PATIENCE_MS;
                let has_come = |peer: &Peer| {
                    let Some(entry) = peer.entry(self.tree) else { return true };
                    let has = |key: GenerationKey| entry.generations.iter().any(|told| told.key == key);
                    let follows = RouterKey::of(entry.root.as_ref()) == of.key.root;
                    has(of.key) || patience_ms <= now.ms && !follows
                };
                let has_secrets = self.peers_of(of, now).iter().all(|key| now.peers[key].exchange.secret().is_some());
                let is_settled = has_secrets && now.peers.values().all(has_come);
                if !is_settled && patience_ms > now.ms {
                    due.push(patience_ms);
                }
                self.kept[place].is_settled = is_settled;
            }
            if self.kept[place].is_settled {
                let until_ms = now.ms.saturating_add(now.settings.grace_ms);
                for older in &mut self.kept[place + 1..] {
                    older.until_ms.get_or_insert(until_ms);
                }
            }
        }
    }

    /// The neighbours on the edges of a generation, the parent first.
    fn peers_of(&self, of: &Generation, now: Now<'_>) -> Vec<RouterKey> {
        let told = |peer: &Peer| {
            let told = peer.entry(self.tree)?.generations.iter().find(|told| told.key == of.key)?;
            Some(told.parent_boot)
        };
        let parent = of
            .parent
            .filter(|(key, boot)| now.peers.get(key).is_some_and(|peer| peer.boot() == *boot && told(peer).is_some()));
        let parent = parent.map(|(key, _)| key);
        let is_child =
            |(key, peer): &(&RouterKey, &Peer)| Some(**key) != parent && told(peer).flatten() == Some(now.boot);
        parent.into_iter().chain(now.peers.iter().filter(is_child).map(|(key, _)| *key)).collect()
    }

    /// The edges of all generations, the latest first.
    pub(super) fn edges(&self, now: Now<'_>) -> Vec<Edges> {
        let edges = |of: &Generation| {
            let peers = self.peers_of(of, now);
            let has_parent = of.parent.is_some_and(|(parent, _)| peers.first() == Some(&parent));
            Edges { id: of.id, is_settled: of.is_settled, peers, has_parent }
        };
        self.kept.iter().map(edges).collect()
    }

    /// What a neighbour is told.
    pub(super) fn told(&self, peer: RouterKey) -> Vec<Told> {
        let told = |of: &Generation| Told {
            key: of.key,
            id: of.id,
            parent_boot: of.parent.filter(|(parent, _)| *parent == peer).map(|(_, boot)| boot),
        };
        self.kept.iter().map(told).collect()
    }
}

fn boot_of(peers: &BTreeMap<RouterKey, Peer>, key: RouterKey) -> u64 {
    peers.get(&key).map_or(0, Peer::boot)
}

/// The latest generation of the root that the parent has.
fn told_latest(tree: TreeId, now: Now<'_>) -> Option<Told> {
    let entry = now.peers.get(&now.parent?)?.entry(tree)?;
    entry.generations.iter().filter(|told| told.key.root == now.root).max_by_key(|told| told.key.number).copied()
}
