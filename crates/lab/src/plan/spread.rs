//! A table on its way from the builder to all routers, in virtual time.
//!
//! Each router has an agent, which asks its router for blocks, some at a time and all in the same order. A router passes an
//! Interest on along a shortest path to the builder, unless it waits for that block already, or its content store or
//! its agent has it. Links and routers handle one block after the other. An agent checks a block and writes it to its disk.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use anyhow::ensure;
use byname_lookup::locator::{Graph, SpanningTree};

use super::Options;
use super::costs::Costs;
use crate::workload::Random;

/// Most blocks of a simulated table: those of a larger one are larger.
const BLOCKS_MAX: u64 = 4096;
/// Stands for the agent of a router, as the one who asks.
const AGENT: u32 = u32::MAX;

/// A table, and the network that it crosses.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Bytes of the table.
    pub bytes: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Time of a byte on a link, in nanoseconds.
    pub link_ns: f64,
    /// Time from one end of a link to the other, in nanoseconds.
    pub hop_ns: u64,
    /// Time of a router to send a byte, in nanoseconds.
    pub router_ns: f64,
    /// Time of an agent to check and to write a byte, in nanoseconds.
    pub agent_ns: f64,
    /// Blocks that an agent asks for at once.
    pub window: u32,
    /// Agents begin within this time, in nanoseconds.
    pub begin_ns: u64,
    /// Only the builder answers: routers have no content store, Interests do not join, and agents do not serve.
    pub from_builder_only: bool,
    /// Seed of the times at which agents begin.
    pub seed: u64,
}

impl Setting {
    /// What the options and the costs say.
    pub fn of(options: &Options, costs: &Costs, bytes: u64, from_builder_only: bool) -> Self {
        Setting {
            bytes,
            block: options.block.max(bytes.div_ceil(BLOCKS_MAX)),
            link_ns: 8.0 / options.link_gbps,
            hop_ns: (options.link_ms * 1e6) as u64,
            router_ns: 8.0 / options.router_gbps,
            agent_ns: costs.check_ns + costs.disk_ns,
            window: options.window as u32,
            begin_ns: (options.begin_s * 1e9) as u64,
            from_builder_only,
            seed: options.seed,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.bytes.div_ceil(self.block) as u32
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When each router had the table, in seconds, in ascending order.
    pub done_s: Vec<f64>,
    /// Blocks that the builder's router sent.
    pub builder_blocks: u64,
    /// Blocks on the busiest link.
    pub link_blocks_max: u64,
    /// Blocks on all links.
    pub link_blocks: u64,
    /// Links from the builder to the farthest router.
    pub depth: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin { at: u32 },
    Interest { at: u32, block: u32, from: u32 },
    Data { at: u32, block: u32 },
    Written { at: u32, block: u32 },
}

#[derive(Default)]
struct Node {
    parent: Option<u32>,
    has: Vec<bool>,
    /// Who waits for a block here.
    waiting: HashMap<u32, Vec<u32>>,
    /// Blocks that came over the link from the parent.
    received: u64,
    link_free: u64,
    router_free: u64,
    agent_free: u64,
    next: u32,
    written: u32,
    sent: u64,
    done: Option<u64>,
}

struct Simulation<'a> {
    setting: &'a Setting,
    nodes: Vec<Node>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    now: u64,
}

/// Simulates one table until all routers have it. The builder is at the router with most links.
///
/// # Errors
/// Routers cannot reach the builder.
pub fn simulate(setting: &Setting, graph: &Graph) -> anyhow::Result<Outcome> {
    let degree = |node: usize| graph.neighbors(node).len();
    let builder = (0..graph.nodes()).max_by_key(|node| (degree(*node), Reverse(*node))).unwrap_or(0);
    let tree = SpanningTree::breadth_first(graph, builder);
    ensure!(tree.nodes().len() == graph.nodes(), "not all routers can reach the builder: the graph has several parts");
    let blocks = setting.blocks();
    let nodes = (0..graph.nodes()).map(|node| Node {
        parent: tree.parent(node).map(|parent| parent as u32),
        has: vec![node == builder; blocks as usize],
        ..Node::default()
    });
    let mut simulation = Simulation { setting, nodes: nodes.collect(), events: BinaryHeap::new(), count: 0, now: 0 };
    let mut random = Random::new(setting.seed);
    for at in (0..graph.nodes()).filter(|at| *at != builder) {
        simulation.at(random.below(setting.begin_ns + 1), Event::Begin { at: at as u32 });
    }
    while let Some(Reverse((now, _, event))) = simulation.events.pop() {
        simulation.now = now;
        simulation.handle(event);
    }
    let mut done_s = Vec::with_capacity(graph.nodes());
    for (at, node) in simulation.nodes.iter().enumerate().filter(|(at, _)| *at != builder) {
        ensure!(node.written == blocks, "router {at} has {} of {blocks} blocks", node.written);
        done_s.push(node.done.unwrap_or(0) as f64 / 1e9);
    }
    done_s.sort_by(f64::total_cmp);
    let depth = |node: usize| std::iter::successors(tree.parent(node), |node| tree.parent(*node)).count() as u32;
    Ok(Outcome {
        done_s,
        builder_blocks: simulation.nodes[builder].sent,
        link_blocks_max: simulation.nodes.iter().map(|node| node.received).max().unwrap_or(0),
        link_blocks: simulation.nodes.iter().map(|node| node.received).sum(),
        depth: (0..graph.nodes()).map(depth).max().unwrap_or(0),
    })
}

impl Simulation<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin { at } => (0..self.setting.window).for_each(|_| self.ask(at)),
            Event::Interest { at, block, from } => self.interest(at, block, from),
            Event::Data { at, block } => self.data(at, block),
            Event::Written { at, block } => {
                let node = &mut self.nodes[at as usize];
                node.has[block as usize] |= !self.setting.from_builder_only;
                node.written += 1;
                node.done = Some(self.now);
                self.ask(at);
            }
        }
    }

    /// An agent asks for its next block.
    fn ask(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let block = node.next;
        if block < self.setting.blocks() {
            node.next += 1;
            self.interest(at, block, AGENT);
        }
    }

    fn interest(&mut self, at: u32, block: u32, from: u32) {
        let node = &mut self.nodes[at as usize];
        if node.has[block as usize] {
            return self.send(at, block, from);
        }
        let waiting = node.waiting.entry(block).or_default();
        waiting.push(from);
        // Without help, each Interest goes to the builder, and each answer has one to go to.
        if (waiting.len() == 1 || self.setting.from_builder_only)
            && let Some(parent) = node.parent
        {
            self.at(self.now + self.setting.hop_ns, Event::Interest { at: parent, block, from: at });
        }
    }

    /// A block has come over the link from the parent.
    fn data(&mut self, at: u32, block: u32) {
        let node = &mut self.nodes[at as usize];
        node.received += 1;
        if self.setting.from_builder_only {
            let from =
                node.waiting.get_mut(&block).and_then(|waiting| (!waiting.is_empty()).then(|| waiting.remove(0)));
            if let Some(from) = from {
                self.send(at, block, from);
            }
            return;
        }
        node.has[block as usize] = true;
        for from in node.waiting.remove(&block).unwrap_or_default() {
            self.send(at, block, from);
        }
    }

    /// A router sends a block: over a link, or to its agent.
    fn send(&mut self, at: u32, block: u32, to: u32) {
        let bytes = self.setting.block as f64;
        let router = &mut self.nodes[at as usize];
        router.router_free = router.router_free.max(self.now) + (bytes * self.setting.router_ns) as u64;
        let ready = router.router_free;
        if to == AGENT {
            router.agent_free = router.agent_free.max(ready) + (bytes * self.setting.agent_ns) as u64;
            let written = router.agent_free;
            return self.at(written, Event::Written { at, block });
        }
        router.sent += 1;
        // The link is the child's.
        let child = &mut self.nodes[to as usize];
        child.link_free = child.link_free.max(ready) + (bytes * self.setting.link_ns) as u64;
        let arrives = child.link_free + self.setting.hop_ns;
        self.at(arrives, Event::Data { at: to, block });
    }
}
