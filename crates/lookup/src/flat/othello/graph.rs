//! The bipartite graph of one part: a vertex for each value, an edge for each name, and no cycle
//! [Concise §4.2].
//!
//! Only the edges store names, and only the lists of edges at each vertex lead to them. Only the
//! values of its two vertices determine a name's entry, so one graph serves the tables of many
//! switches [Concise §5.1].

use byname_wire::Digest;

use super::journal::WORDS_MAX;
use super::place::{Shape, Width};
use crate::prefetch;

/// No edge.
const NONE: u16 = u16::MAX;
/// Maximum number of edges of a graph. One number more than the last is left for counting.
pub(super) const EDGES_MAX: usize = NONE as usize - 1;
/// Maximum number of vertices that change at once, because each value may lie in two words.
const FLIPPED_MAX: usize = WORDS_MAX / 2;

/// A name, in 20 bytes.
#[derive(Debug, Clone, Copy)]
struct Edge {
    /// The digest as four 32-bit words. Larger words would cost four bytes of padding.
    name: [u32; 4],
    /// The next edge at each of its two vertices.
    next: [u16; 2],
}

impl Edge {
    fn new(name: Digest) -> Self {
        let (hash, check) = (name.hash, name.check);
        Edge { name: [hash as u32, (hash >> 32) as u32, check as u32, (check >> 32) as u32], next: [NONE; 2] }
    }

    #[inline(always)]
    fn name(&self) -> Digest {
        let [a, b, c, d] = self.name.map(u64::from);
        Digest { hash: a | b << 32, check: c | d << 32 }
    }
}

/// The graph of one part.
pub(super) struct Graph {
    shape: Shape,
    width: Width,
    edges: Vec<Edge>,
    /// The first edge at each vertex: vertices of the first side, then those of the second.
    heads: Box<[u16]>,
}

/// A part of a connected component, explored vertex by vertex.
#[derive(Default)]
struct Exploration {
    /// The vertices that were reached, and the edge that led to each.
    reached: Vec<(u32, u16)>,
    explored: usize,
}

/// Memory for exploring both sides of an edge.
#[derive(Default)]
pub(super) struct Walks([Exploration; 2]);

/// How a new or changed edge gets its value.
pub(super) enum Flip<'a> {
    /// Change the values of these vertices alike. No other name's entry changes.
    Vertices(&'a [(u32, u16)]),
    /// The edge closes a cycle, or too many vertices would change at once. The graph must be
    /// rebuilt.
    Rebuild,
}

impl Graph {
    /// Without edges.
    pub(super) fn new(shape: Shape, width: Width) -> Self {
        Graph { shape, width, edges: Vec::new(), heads: vec![NONE; 2 * shape.side(width) as usize].into() }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// All names, by number.
    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = Digest> + '_ {
        self.edges.iter().map(Edge::name)
    }

    /// Names per hundred vertices of a side: the paper's c, in percent.
    pub(super) fn load_percent(&self) -> usize {
        self.edges.len() * 100 / self.shape.side(self.width) as usize
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.edges.capacity() * size_of::<Edge>() + size_of_val(&*self.heads)
    }

    /// The vertices of a name.
    #[inline(always)]
    pub(super) fn ends(&self, name: Digest) -> [u32; 2] {
        self.shape.places(self.width, name).map(|place| place.vertex(self.width))
    }

    /// Prefetches the numbers of the first edges at a name's vertices.
    pub(super) fn prefetch(&self, ends: [u32; 2]) {
        ends.iter().for_each(|&end| prefetch::read(&self.heads[end as usize]));
    }

    /// Prefetches the first edges at a name's vertices.
    pub(super) fn prefetch_edges(&self, ends: [u32; 2]) {
        for end in ends {
            if let Some(edge) = self.edges.get(usize::from(self.heads[end as usize])) {
                prefetch::read(edge);
            }
        }
    }

    /// Prefetches what follows the first edges at a name's vertices: the next edges, and those at
    /// their other ends. The first edges have arrived.
    pub(super) fn prefetch_beyond(&self, ends: [u32; 2]) {
        for (side, end) in ends.into_iter().enumerate() {
            let Some(edge) = self.edges.get(usize::from(self.heads[end as usize])) else { continue };
            let other = self.ends(edge.name())[1 - side];
            prefetch::read(&self.heads[other as usize]);
            if let Some(next) = self.edges.get(usize::from(edge.next[side])) {
                prefetch::read(next);
            }
        }
    }

    /// The number of a name.
    pub(super) fn find(&self, name: Digest, ends: [u32; 2]) -> Option<u16> {
        let mut at = self.heads[ends[0] as usize];
        while at != NONE {
            let edge = &self.edges[usize::from(at)];
            if edge.name() == name {
                return Some(at);
            }
            at = edge.next[0];
        }
        None
    }

    /// Adds a name whose vertices no path connects.
    pub(super) fn add(&mut self, name: Digest, ends: [u32; 2]) {
        if self.edges.len() == self.edges.capacity() {
            self.edges.reserve_exact((self.edges.len() / 8).max(8));
        }
        self.edges.push(Edge::new(name));
        self.link((self.edges.len() - 1) as u16, ends);
    }

    fn link(&mut self, at: u16, ends: [u32; 2]) {
        self.edges[usize::from(at)].next = ends.map(|end| self.heads[end as usize]);
        ends.iter().for_each(|&end| self.heads[end as usize] = at);
    }

    /// Removes a name. The values stay as they are [Concise §4.3.4].
    pub(super) fn remove(&mut self, at: u16, ends: [u32; 2]) {
        let next = self.edges[usize::from(at)].next;
        self.redirect(0, ends[0], at, next[0]);
        self.redirect(1, ends[1], at, next[1]);
        // The last edge takes its place and its number.
        let last = (self.edges.len() - 1) as u16;
        if last != at {
            let ends = self.ends(self.edges[usize::from(last)].name());
            self.redirect(0, ends[0], last, at);
            self.redirect(1, ends[1], last, at);
        }
        self.edges.swap_remove(usize::from(at));
    }

    /// Removes a name by its digest, if it is there.
    pub(super) fn forget(&mut self, name: Digest) {
        let ends = self.ends(name);
        if let Some(at) = self.find(name, ends) {
            self.remove(at, ends);
        }
    }

    /// Makes what leads to edge `from` at a vertex lead to `to`.
    fn redirect(&mut self, side: usize, vertex: u32, from: u16, to: u16) {
        let head = &mut self.heads[vertex as usize];
        if *head == from {
            *head = to;
            return;
        }
        let mut at = usize::from(*head);
        while self.edges[at].next[side] != from {
            at = usize::from(self.edges[at].next[side]);
        }
        self.edges[at].next[side] = to;
    }

    /// The changes that give a new name between these vertices its value [Concise §4.3.2].
    pub(super) fn flip_to_add<'a>(&self, ends: [u32; 2], walks: &'a mut Walks) -> Flip<'a> {
        walks.smaller_side(self, ends, NONE)
    }

    /// The changes that give an edge another value [Concise §4.3.3].
    pub(super) fn flip_to_alter<'a>(&self, at: u16, ends: [u32; 2], walks: &'a mut Walks) -> Flip<'a> {
        walks.smaller_side(self, ends, at)
    }

    fn side_of(&self, vertex: u32) -> usize {
        usize::from(vertex >= self.shape.side(self.width))
    }
}

impl Exploration {
    /// Continues from the next vertex that was reached. Returns whether this reached `other`.
    fn explore(&mut self, graph: &Graph, other: u32) -> bool {
        let (vertex, from) = self.reached[self.explored];
        self.explored += 1;
        let side = graph.side_of(vertex);
        let mut at = graph.heads[vertex as usize];
        while at != NONE {
            let edge = &graph.edges[usize::from(at)];
            if at != from {
                let end = graph.ends(edge.name())[1 - side];
                if end == other {
                    return true;
                }
                self.reached.push((end, at));
            }
            at = edge.next[side];
        }
        false
    }
}

impl Walks {
    /// Explores from both ends of an edge in turn, without crossing it. The side that is exhausted
    /// first is the smaller one, and the search has cost at most twice its size.
    fn smaller_side(&mut self, graph: &Graph, ends: [u32; 2], edge: u16) -> Flip<'_> {
        for (walk, end) in self.0.iter_mut().zip(ends) {
            walk.reached.clear();
            walk.reached.push((end, edge));
            walk.explored = 0;
        }
        for which in (0..2).cycle() {
            let walk = &mut self.0[which];
            if walk.explored == walk.reached.len() {
                break;
            }
            if walk.explore(graph, ends[1 - which]) || walk.reached.len() > FLIPPED_MAX {
                return Flip::Rebuild;
            }
        }
        let exhausted = self.0.iter().find(|walk| walk.explored == walk.reached.len());
        Flip::Vertices(&exhausted.expect("one was").reached)
    }
}

/// A step from a vertex that has its value to one that gets it.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    to: u32,
    edge: u16,
}

/// Builds graphs, and keeps what the values of the last one need.
#[derive(Default)]
pub(super) struct Builder {
    ends: Vec<[u32; 2]>,
    seen: Vec<bool>,
    stack: Vec<(u32, u16)>,
    /// The order in which vertices get their values.
    order: Vec<Step>,
    values: Vec<u32>,
}

/// Why some names have no graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoGraph {
    /// Two names are equal.
    Duplicate,
    /// There are more than [`EDGES_MAX`] names, or they close a cycle with every pair of hash
    /// functions that was tried. Their digests do not come from a keyed hash.
    Skewed,
}

/// The result of one attempt.
enum Attempt {
    Acyclic,
    Cyclic,
    Duplicate,
}

/// Number of attempts with one size before a larger one is tried. Each succeeds with probability of
/// about one half [Concise, Theorem 1], and less if there are few names.
const ATTEMPTS: usize = 16;
/// Number of sizes tried, each an eighth larger than the one before. The last has 15 times the
/// vertices. A part then has one name for each 17 vertices of a side, and uniform digests close a
/// cycle with probability of about 1 in 600 at each attempt.
const SIZES: usize = 24;

impl Builder {
    /// Finds a graph without cycles by drawing hash functions, within bounds. `lines` is the size
    /// of each side; the graph is larger only if no smaller one was found.
    ///
    /// The names get new numbers: those of a tree are consecutive, and each follows a name that
    /// shares a vertex with it.
    pub(super) fn graph(
        &mut self,
        names: impl IntoIterator<Item = Digest>,
        width: Width,
        lines: u32,
        mut seed: impl FnMut() -> u64,
    ) -> Result<Graph, NoGraph> {
        let mut graph = Graph::new(Shape { seed: seed(), lines }, width);
        graph.edges = names.into_iter().map(Edge::new).collect();
        if graph.edges.len() > EDGES_MAX {
            return Err(NoGraph::Skewed);
        }
        for attempt in 1.. {
            match self.attempt(&mut graph) {
                Attempt::Acyclic => break,
                Attempt::Duplicate => return Err(NoGraph::Duplicate),
                Attempt::Cyclic if attempt == ATTEMPTS * SIZES => return Err(NoGraph::Skewed),
                Attempt::Cyclic => graph.shape.seed = seed(),
            }
            if attempt % ATTEMPTS == 0 {
                graph.shape.lines += graph.shape.lines / 8 + 1;
                graph.heads = vec![NONE; 2 * graph.shape.side(width) as usize].into();
            }
        }
        graph.edges = self.order.iter().map(|step| graph.edges[usize::from(step.edge)]).collect();
        graph.heads.fill(NONE);
        for (at, step) in (0..).zip(&self.order) {
            graph.link(at, self.ends[usize::from(step.edge)]);
        }
        Ok(graph)
    }

    fn attempt(&mut self, graph: &mut Graph) -> Attempt {
        graph.heads.fill(NONE);
        self.ends.clear();
        for at in 0..graph.edges.len() {
            let name = graph.edges[at].name();
            let ends = graph.ends(name);
            self.ends.push(ends);
            let mut other = graph.heads[ends[0] as usize];
            while other != NONE {
                let edge = &graph.edges[usize::from(other)];
                if self.ends[usize::from(other)][1] == ends[1] {
                    return if edge.name() == name { Attempt::Duplicate } else { Attempt::Cyclic };
                }
                other = edge.next[0];
            }
            graph.link(at as u16, ends);
        }
        if self.traverse(graph) { Attempt::Acyclic } else { Attempt::Cyclic }
    }

    /// Finds an order in which each vertex gets its value from an earlier one. Returns false if
    /// there is a cycle.
    fn traverse(&mut self, graph: &Graph) -> bool {
        let side = graph.shape.side(graph.width);
        self.seen.clear();
        self.seen.resize(2 * side as usize, false);
        self.order.clear();
        for root in 0..side {
            if self.seen[root as usize] || graph.heads[root as usize] == NONE {
                continue;
            }
            self.seen[root as usize] = true;
            self.stack.clear();
            self.stack.push((root, NONE));
            while let Some((vertex, from)) = self.stack.pop() {
                let of = usize::from(vertex >= side);
                let mut at = graph.heads[vertex as usize];
                while at != NONE {
                    if at != from {
                        let to = self.ends[usize::from(at)][1 - of];
                        if std::mem::replace(&mut self.seen[to as usize], true) {
                            return false;
                        }
                        self.order.push(Step { from: vertex, to, edge: at });
                        self.stack.push((to, at));
                    }
                    at = graph.edges[usize::from(at)].next[of];
                }
            }
        }
        true
    }

    /// The order for a graph that was built earlier.
    pub(super) fn resume(&mut self, graph: &Graph) {
        self.ends.clear();
        self.ends.extend(graph.names().map(|name| graph.ends(name)));
        if !self.follow_numbers(graph) {
            let is_acyclic = self.traverse(graph);
            assert!(is_acyclic, "edges that close cycles are never added");
        }
    }

    /// Takes the names in the order of their numbers. Returns false if changes have destroyed that
    /// order.
    fn follow_numbers(&mut self, graph: &Graph) -> bool {
        self.seen.clear();
        self.seen.resize(2 * graph.shape.side(graph.width) as usize, false);
        self.order.clear();
        for (edge, &[a, b]) in (0..).zip(&self.ends) {
            let seen = [a, b].map(|end| std::mem::replace(&mut self.seen[end as usize], true));
            if seen == [true; 2] {
                return false;
            }
            let (from, to) = if seen[0] { (a, b) } else { (b, a) };
            self.order.push(Step { from, to, edge });
        }
        true
    }

    /// The values of all vertices of the last graph, computed from its names' entries [Concise
    /// §4.3.1]. Entries come in the order in which the names were given, or by number if the graph
    /// was resumed.
    pub(super) fn values(&mut self, graph: &Graph, entries: &[u32]) -> &[u32] {
        self.values.clear();
        self.values.resize(2 * graph.shape.side(graph.width) as usize, 0);
        for step in &self.order {
            self.values[step.to as usize] = self.values[step.from as usize] ^ entries[usize::from(step.edge)];
        }
        &self.values
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<[u32; 2]>()
            + self.seen.capacity()
            + self.stack.capacity() * size_of::<(u32, u16)>()
            + self.order.capacity() * size_of::<Step>()
            + self.values.capacity() * size_of::<u32>()
    }
}
