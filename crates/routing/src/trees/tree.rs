//! One tree: the way to its root, the children, and labels.

use std::collections::BTreeMap;

use byname_wire::{FaceId, Label, Name, NameRef, TreeId};

use super::block::{Block, Child, HEAVY};
use super::generation::{Edges, Generations, Now};
use super::message::{Entry, RouterKey, Span, first_64_bits};
use super::peer::Peer;
use super::{HOPS_MAX, Place, PlaceGeneration, PlaceNeighbour, PlaceTable, ROOT_HOLD_MS, Settings};

/// A root has so many numbers for its tree.
const WINDOW_BITS: u32 = 22;
const WINDOWS: u64 = 1 << (u32::BITS - WINDOW_BITS);
/// Earlier numbers that are kept. More changes within the grace period drop the oldest.
const EARLIER_MAX: usize = 8;
/// Least time before a root plans anew. It doubles with each plan, up to 64 times.
const PLAN_MS: u64 = 10_000;
/// Cost of a way, at most. More is no way.
const COST_MAX: u64 = 1 << 32;

/// What roots are compared by. The lowest one wins.
type Rank = (u64, u64, RouterKey);

/// A router's numbers, and who gave them.
#[derive(Debug, Clone)]
struct Numbers {
    block: Block,
    /// The parent that gave them. `None`: this router is their root.
    giver: Option<RouterKey>,
    /// When they are not valid any more. `None`: they are in use.
    until_ms: Option<u64>,
}

/// One tree, as this router sees it.
#[derive(Debug)]
pub(super) struct Tree {
    id: TreeId,
    own_name: Name,
    priority: u64,
    root: (u64, Name),
    parent: Option<RouterKey>,
    cost: u64,
    path: Vec<RouterKey>,
    children: Vec<RouterKey>,
    nodes: u32,
    wants: u32,
    /// Whether this router is the root, and its numbers are not enough.
    wants_plan: bool,
    numbers: Option<Numbers>,
    /// Numbers that are valid for a while, the latest first.
    earlier: Vec<Numbers>,
    /// When this router became the root. `None`: it is not.
    root_since_ms: Option<u64>,
    planned_ms: u64,
    plans: u64,
    generations: Generations,
    edges: Vec<Edges>,
    due_ms: Option<u64>,
}

fn rank(tree: TreeId, priority: u64, root: NameRef<'_>) -> Rank {
    (priority, first_64_bits(&[b"byname tree", &tree.0.to_be_bytes(), root.value()]), RouterKey::of(root))
}

fn window_of(number: u32) -> u32 {
    number >> WINDOW_BITS
}

impl Tree {
    pub(super) fn new(id: TreeId, router: &Name, priority: u64, now_ms: u64) -> Self {
        Tree {
            id,
            own_name: router.clone(),
            priority,
            root: (priority, router.clone()),
            parent: None,
            cost: 0,
            path: vec![RouterKey::of(router.as_ref())],
            children: Vec::new(),
            nodes: 1,
            wants: 1,
            wants_plan: false,
            numbers: None,
            earlier: Vec::new(),
            root_since_ms: Some(now_ms),
            planned_ms: 0,
            plans: 0,
            generations: Generations::new(id, RouterKey::of(router.as_ref()), now_ms),
            edges: Vec::new(),
            due_ms: None,
        }
    }

    /// Another rank among the routers that may be the root. The next [`Tree::update`] heeds it.
    pub(super) fn set_priority(&mut self, priority: u64) {
        self.priority = priority;
    }

    /// When [`Tree::update`] finds something new by itself.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    pub(super) fn update(
        &mut self,
        own: RouterKey,
        peers: &BTreeMap<RouterKey, Peer>,
        boot: u64,
        settings: &Settings,
        now_ms: u64,
    ) {
        self.choose_parent(own, peers, now_ms);
        let children: Vec<Child> = self.find_children(peers);
        self.children = children.iter().map(|child| child.key).collect();
        let nodes = self.children.iter().filter_map(|child| self.entry_of(peers, *child)).map(|entry| entry.nodes);
        self.nodes = nodes.fold(1, u32::saturating_add);
        self.earlier.retain(|numbers| numbers.until_ms.is_some_and(|until| until > now_ms));
        self.take_numbers(peers, boot, settings, now_ms, &children);
        // A child that another router has given numbers to needs its time, too.
        let keep_ms = settings.grace_ms.saturating_mul(2);
        let is_enough = match &mut self.numbers {
            // Numbers of an earlier parent stay as they are: among the children may be that parent.
            Some(numbers) if numbers.until_ms.is_none() => numbers.block.settle(&children, now_ms, keep_ms),
            _ => true,
        };
        self.wants_plan = !is_enough && self.parent.is_none();
        let has = self.numbers.as_ref().map_or(0, |numbers| numbers.block.span.len);
        self.wants = match is_enough {
            true => self.nodes,
            false => self.nodes.max(has).saturating_mul(2).min(1 << WINDOW_BITS),
        };
        let now = Now {
            own,
            boot,
            root: RouterKey::of(self.root.1.as_ref()),
            parent: self.parent,
            children: &self.children,
            peers,
            settings,
            ms: now_ms,
        };
        self.generations.update(now);
        self.edges = self.generations.edges(now);
        self.due_ms = self.find_due().into_iter().chain(self.generations.due_ms()).min();
    }

    fn entry_of<'a>(&self, peers: &'a BTreeMap<RouterKey, Peer>, peer: RouterKey) -> Option<&'a Entry> {
        peers.get(&peer)?.entry(self.id)
    }

    fn choose_parent(&mut self, own: RouterKey, peers: &BTreeMap<RouterKey, Peer>, now_ms: u64) {
        let own_rank = rank(self.id, self.priority, self.own_name.as_ref());
        let ways = peers.iter().filter_map(|(key, peer)| {
            let (entry, (_, link_cost)) = (peer.entry(self.id)?, peer.link?);
            let is_way = entry.path.first() == Some(key)
                && entry.path.last() == Some(&RouterKey::of(entry.root.as_ref()))
                && !entry.path.contains(&own)
                && entry.path.len() < HOPS_MAX;
            let cost = entry.cost.checked_add(link_cost).filter(|cost| is_way && *cost < COST_MAX)?;
            // Equal ways: the present one changes nothing.
            let is_other = self.parent != Some(*key);
            Some(((rank(self.id, entry.priority, entry.root.as_ref()), cost, is_other, *key), entry))
        });
        let best = ways.min_by_key(|(order, _)| *order).filter(|((of_root, ..), _)| *of_root < own_rank);
        match best {
            Some(((_, cost, _, parent), entry)) => {
                self.parent = Some(parent);
                self.root = (entry.priority, entry.root.clone());
                self.cost = cost;
                self.path = [own].into_iter().chain(entry.path.iter().copied()).collect();
                self.root_since_ms = None;
            }
            None => {
                self.parent = None;
                self.root = (self.priority, self.own_name.clone());
                self.cost = 0;
                self.path = vec![own];
                self.root_since_ms.get_or_insert(now_ms);
            }
        }
    }

    fn find_children(&self, peers: &BTreeMap<RouterKey, Peer>) -> Vec<Child> {
        let of_peer = |(key, peer): (&RouterKey, &Peer)| {
            let entry = peer.entry(self.id).filter(|entry| entry.is_child && self.parent != Some(*key))?;
            Some(Child { key: *key, wants: entry.wants, has: entry.has })
        };
        peers.iter().filter_map(of_peer).collect()
    }

    /// Decides which numbers this router has.
    fn take_numbers(
        &mut self,
        peers: &BTreeMap<RouterKey, Peer>,
        boot: u64,
        settings: &Settings,
        now_ms: u64,
        children: &[Child],
    ) {
        let given = match self.parent {
            Some(parent) => self.entry_of(peers, parent).and_then(|entry| entry.gives).map(|span| (span, Some(parent))),
            None => self.own_span(boot, now_ms).map(|span| (span, None)),
        };
        match given {
            Some((span, giver)) => {
                let is_same = |numbers: &Numbers| numbers.block.span == span;
                if !self.numbers.as_ref().is_some_and(is_same) {
                    let block = match self.earlier.iter().position(is_same) {
                        Some(place) => self.earlier.remove(place).block,
                        None => Block::new(span, children),
                    };
                    self.retire(settings, now_ms);
                    self.numbers = Some(Numbers { block, giver, until_ms: None });
                } else if let Some(numbers) = &mut self.numbers {
                    (numbers.giver, numbers.until_ms) = (giver, None);
                }
            }
            // Until there are others, those from before are as good as they were.
            None => {
                if let Some(numbers) = &mut self.numbers {
                    let until = *numbers.until_ms.get_or_insert(now_ms.saturating_add(settings.grace_ms));
                    if until <= now_ms {
                        self.numbers = None;
                    }
                }
            }
        }
    }

    fn retire(&mut self, settings: &Settings, now_ms: u64) {
        let Some(mut numbers) = self.numbers.take() else { return };
        numbers.until_ms = Some(now_ms.saturating_add(settings.grace_ms));
        self.earlier.insert(0, numbers);
        self.earlier.truncate(EARLIER_MAX);
    }

    /// The numbers of a root. `None`: it is not sure yet that it is the root.
    fn own_span(&mut self, boot: u64, now_ms: u64) -> Option<Span> {
        let is_own = |numbers: &&Numbers| numbers.giver.is_none();
        let present = self.numbers.as_ref().filter(is_own).map(|numbers| numbers.block.span);
        if present.is_some() && !(self.wants_plan && now_ms >= self.next_plan_ms()) {
            return present;
        }
        if self.root_since_ms? + self.hold_ms() > now_ms {
            return None;
        }
        let all = self.numbers.iter().chain(&self.earlier);
        let seen: Vec<u32> = all.map(|numbers| window_of(numbers.block.span.first())).collect();
        let window = loop {
            self.plans += 1;
            let (id, plan) = (self.id.0.to_be_bytes(), self.plans.to_be_bytes());
            let drawn = first_64_bits(&[&id, &boot.to_be_bytes(), &plan, self.own_name.value()]);
            // Less than 2^10.
            let window = (drawn % WINDOWS) as u32;
            if !seen.contains(&window) {
                break window;
            }
        };
        self.planned_ms = now_ms;
        Some(Span { label: Label::new(window << WINDOW_BITS), len: 1 << WINDOW_BITS })
    }

    /// When the root may plan anew. If plans do not help, they become seldom.
    fn next_plan_ms(&self) -> u64 {
        self.planned_ms.saturating_add(PLAN_MS << self.plans.min(6))
    }

    /// A router without neighbours on the tree has nobody to wait for.
    fn hold_ms(&self) -> u64 {
        if self.children.is_empty() && self.numbers.is_none() { 0 } else { ROOT_HOLD_MS }
    }

    fn find_due(&self) -> Option<u64> {
        let in_use = self.numbers.iter().filter(|numbers| numbers.until_ms.is_none());
        let blocks = in_use.filter_map(|numbers| numbers.block.due_ms());
        let ends = self.numbers.iter().chain(&self.earlier).filter_map(|numbers| numbers.until_ms);
        let is_root = self.numbers.as_ref().is_some_and(|numbers| numbers.giver.is_none());
        let root = self.root_since_ms.filter(|_| !is_root).map(|since| since + self.hold_ms());
        let plan = Some(self.next_plan_ms()).filter(|_| self.wants_plan && is_root);
        blocks.chain(ends).chain(root).chain(plan).min()
    }

    /// What a neighbour is told.
    pub(super) fn entry(&self, peer: RouterKey) -> Entry {
        let numbers = self.numbers.as_ref();
        let is_child = self.parent == Some(peer);
        Entry {
            tree: self.id,
            priority: self.root.0,
            root: self.root.1.clone(),
            cost: self.cost,
            path: self.path.clone(),
            is_child,
            nodes: self.nodes,
            wants: self.wants,
            has: numbers.map(|numbers| numbers.block.span).filter(|_| is_child),
            gives: numbers.filter(|_| self.children.contains(&peer)).and_then(|numbers| numbers.block.given(peer)),
            generations: self.generations.told(peer),
            stale: self.generations.stale().filter(|_| is_child),
        }
    }

    /// This router's place.
    pub(super) fn place(&self, peers: &BTreeMap<RouterKey, Peer>) -> Place {
        let face = |key: &RouterKey| peers.get(key).and_then(|peer| peer.link).map(|(face, _)| face);
        let neighbour = |key: &RouterKey, is_parent| {
            let peer = peers.get(key)?;
            Some(PlaceNeighbour {
                router: peer.name.clone(),
                face: peer.link?.0,
                is_parent,
                secret: peer.exchange.secret().cloned(),
            })
        };
        let generation = |edges: &Edges| PlaceGeneration {
            id: edges.id,
            is_settled: edges.is_settled,
            neighbours: (edges.peers.iter().enumerate())
                .filter_map(|(place, key)| neighbour(key, edges.has_parent && place == 0))
                .collect(),
        };
        let neighbours = self.parent.iter().chain(&self.children);
        let neighbours = neighbours.filter_map(|key| neighbour(key, self.parent == Some(*key))).collect();
        Place {
            tree: self.id,
            root: self.root.1.clone(),
            cost: self.cost,
            nodes: self.nodes,
            label: self.numbers.as_ref().map(|numbers| numbers.block.span.label),
            neighbours,
            generations: self.edges.iter().map(generation).collect(),
            tables: self.tables(face),
        }
    }

    /// Earlier numbers of this router's own part come first, then those of earlier roots, and then those that are valid
    /// now.
    fn tables(&self, face: impl Fn(&RouterKey) -> Option<FaceId>) -> Vec<PlaceTable> {
        let parent = self.parent.as_ref().and_then(&face);
        let table = |numbers: &Numbers, claim| {
            let block = &numbers.block;
            let port = |port| block.parts().iter().find(|part| part.port == port).and_then(|part| face(&part.child));
            let light = block.parts().iter().filter(|part| part.port != HEAVY);
            PlaceTable {
                claim,
                label: block.span.label,
                descendants: block.span.len - 1,
                light_descendants: block.light,
                // The giver knows where these numbers are, as long as it can be reached.
                up: numbers.giver.and_then(|giver| face(&giver).or(parent)),
                heavy: port(HEAVY),
                light: light.filter_map(|part| Some((part.port, face(&part.child)?))).collect(),
            }
        };
        let mut tables = Vec::new();
        for numbers in &self.earlier {
            let span = numbers.block.span;
            tables.push(table(numbers, Some((span.first(), span.last()))));
        }
        let present = self.numbers.as_ref().map(|numbers| window_of(numbers.block.span.first()));
        let mut windows = Vec::new();
        for numbers in &self.earlier {
            let window = window_of(numbers.block.span.first());
            if present != Some(window) && !windows.contains(&window) {
                windows.push(window);
                let first = window << WINDOW_BITS;
                tables.push(table(numbers, Some((first, first + ((1 << WINDOW_BITS) - 1)))));
            }
        }
        tables.extend(self.numbers.iter().map(|numbers| table(numbers, None)));
        tables
    }
}
