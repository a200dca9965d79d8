//! The walk through the vector: Algorithm 3 of [TagNet §3.2.3], for both algorithms.
//!
//! The stack holds lists of siblings; a list is gone through from its first node to its last, and the
//! children of those whose bit the packet has are pushed. So the list that was pushed last, of the
//! last such sibling, comes next: what sibling reverse order lays out beside it.
//!
//! Differs: what the paper's pseudocode checks when a node is taken from the stack is checked before
//! its children are pushed, as its text says, and once more when they are taken.

use std::ops::ControlFlow;

use byname_wire::Filter;

use super::node::{END, Node};
use super::order::Key;
use super::run::Run;
use super::{Descent, Options, Prunings, Ties};
use crate::entry::EntryId;
use crate::prefetch;

/// What a walk is for.
pub(super) trait Goal {
    /// Whether nothing is to be gained from a subtree whose descriptors weigh at most `weight_max`.
    fn is_hopeless(&self, weight_max: u32) -> bool;

    /// Which of a list's subtrees comes first.
    fn descent(&self) -> Descent;

    /// A descriptor is a subset; `None` ends the walk.
    fn found(&mut self, entry: EntryId, weight: u32, filter: impl FnOnce() -> Filter) -> Option<()>;
}

/// Find all subsets [TagNet §3.1.2].
pub(super) struct All<'a>(pub(super) &'a mut dyn FnMut(EntryId) -> ControlFlow<()>);

impl Goal for All<'_> {
    #[inline(always)]
    fn is_hopeless(&self, _weight_max: u32) -> bool {
        false
    }

    #[inline(always)]
    fn descent(&self) -> Descent {
        Descent::LastSibling
    }

    fn found(&mut self, entry: EntryId, _weight: u32, _filter: impl FnOnce() -> Filter) -> Option<()> {
        (self.0)(entry).is_continue().then_some(())
    }
}

/// Find largest subset [TagNet §3.1.3].
pub(super) struct Largest<'a> {
    accept: &'a mut dyn FnMut(EntryId) -> bool,
    ties: Ties,
    descent: Descent,
    best: Option<(u32, Filter, EntryId)>,
    /// What is lighter is no improvement.
    weight_min: u32,
}

impl<'a> Largest<'a> {
    pub(super) fn new(options: &Options, accept: &'a mut dyn FnMut(EntryId) -> bool) -> Self {
        Largest { accept, ties: options.ties, descent: options.descent, best: None, weight_min: 0 }
    }

    pub(super) fn entry(self) -> Option<EntryId> {
        self.best.map(|(.., entry)| entry)
    }
}

impl Goal for Largest<'_> {
    #[inline(always)]
    fn is_hopeless(&self, weight_max: u32) -> bool {
        weight_max < self.weight_min
    }

    #[inline(always)]
    fn descent(&self) -> Descent {
        self.descent
    }

    fn found(&mut self, entry: EntryId, weight: u32, filter: impl FnOnce() -> Filter) -> Option<()> {
        if weight < self.weight_min || !(self.accept)(entry) {
            return Some(());
        }
        let filter = filter();
        if self.best.is_none_or(|(best, other, _)| best < weight || filter < other) {
            self.best = Some((weight, filter, entry));
            self.weight_min = weight + u32::from(self.ties == Ties::First);
        }
        Some(())
    }
}

/// What one packet may still cost, and the stack.
pub(super) struct Search<'a> {
    prunings: Prunings,
    steps_max: u32,
    pub(super) steps: u32,
    pub(super) cut_off: bool,
    stack: &'a mut Vec<Siblings>,
}

/// A list of siblings that is to be gone through.
#[derive(Clone, Copy)]
pub(super) struct Siblings {
    /// The first of them.
    first: u32,
    /// Bits that lead here.
    depth: u8,
    /// The last of these bits.
    position: u8,
    /// Nothing below weighs more, as far as the packet can match it.
    weight_max: u8,
}

impl<'a> Search<'a> {
    pub(super) fn new(options: &Options, stack: &'a mut Vec<Siblings>) -> Self {
        Search { prunings: options.prunings, steps_max: options.steps_max, steps: 0, cut_off: false, stack }
    }

    /// Counts a step; `None` if it is one too many.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Option<()> {
        if self.steps == self.steps_max {
            self.cut_off = true;
            return None;
        }
        self.steps += 1;
        Some(())
    }

    /// Walks through a trie, and tells `visited` of each node.
    #[inline(always)]
    pub(super) fn walk(
        &mut self,
        run: &Run,
        filter: Filter,
        goal: &mut impl Goal,
        visited: &mut impl FnMut(u32),
    ) -> Option<()> {
        let packet = Packet::new(run.order.key(filter));
        let root = run.node(0);
        let mut path = [0; END as usize];
        self.stack.clear();
        if run.descriptors > 0
            && let Some(weight_max) = self.bound(root, 0, &packet, goal)
        {
            self.stack.push(Siblings { first: root.place(), depth: 0, position: END, weight_max });
        }
        while let Some(siblings) = self.stack.pop() {
            if goal.is_hopeless(u32::from(siblings.weight_max)) {
                continue;
            }
            let depth = usize::from(siblings.depth);
            if let Some(last) = depth.checked_sub(1) {
                path[last] = siblings.position;
            }
            let (mut at, list) = (siblings.first, self.stack.len());
            loop {
                self.step()?;
                visited(at);
                let node = run.node(at);
                let position = node.position();
                if packet.has(position)
                    && let Some(weight_max) = self.bound(node, depth + 1, &packet, goal)
                {
                    if node.is_terminator() {
                        end(run, node, &path[..depth], &packet, goal)?;
                    } else {
                        let first = node.place();
                        prefetch::read(run.line(first));
                        self.stack.push(Siblings { first, depth: siblings.depth + 1, position, weight_max });
                    }
                }
                if node.is_last() {
                    break;
                }
                at += 1;
            }
            if goal.descent() == Descent::FirstSibling {
                self.stack[list..].reverse();
            }
        }
        Some(())
    }

    /// What the largest descriptor below a node may weigh, if there may be one that is looked for
    /// [TagNet §3.1.4]; `depth` bits lead to the node, its own among them.
    #[inline(always)]
    fn bound(&self, node: Node, depth: usize, packet: &Packet, goal: &impl Goal) -> Option<u8> {
        let matched_max = depth as u32 + packet.rest(node.position());
        let weight_max = if self.prunings.by_best { node.max().min(matched_max) } else { node.max() };
        let is_worth_it = (!self.prunings.by_weight || node.min() <= packet.weight)
            && (!self.prunings.by_rest || node.min() <= matched_max)
            && !goal.is_hopeless(weight_max);
        is_worth_it.then_some(weight_max as u8)
    }
}

/// Compares the chain that ends in a terminator whose own bit the packet has.
#[inline(always)]
fn end(run: &Run, node: Node, path: &[u8], packet: &Packet, goal: &mut impl Goal) -> Option<()> {
    let own = Some(node.position()).filter(|&position| position != END);
    let chain = node.max() as usize - path.len() - usize::from(own.is_some());
    let place = node.place();
    let half = |i: usize| run.half(place + 1 + i as u32).to_le_bytes();
    // What fills up the last half is what every packet has.
    if !(0..chain.div_ceil(4)).all(|i| half(i).into_iter().all(|position| packet.has(position))) {
        return Some(());
    }
    let Some(entry) = run.entry(place) else { return Some(()) };
    let positions = || path.iter().copied().chain(own).chain((0..chain.div_ceil(4)).flat_map(half).take(chain));
    goal.found(entry, node.max(), || run.order.filter(positions()))
}

/// A packet's filter in a trie's order.
struct Packet {
    /// With the bit of [`END`].
    words: [u64; 4],
    /// Bits set behind each position that is; no bound for [`END`], behind which a chain may come.
    rest: [u8; 256],
    weight: u32,
}

impl Packet {
    fn new(key: Key) -> Self {
        let [a, b, c] = key.words();
        let weight = key.weight();
        let mut rest = [0; 256];
        for (position, behind) in key.rest(0).zip((0..weight).rev()) {
            rest[usize::from(position)] = behind;
        }
        rest[usize::from(END)] = END;
        Packet { words: [a, b, c, 1 << 63], rest, weight: u32::from(weight) }
    }

    #[inline(always)]
    fn has(&self, position: u8) -> bool {
        self.words[usize::from(position / 64)] << (position % 64) >> 63 == 1
    }

    #[inline(always)]
    fn rest(&self, position: u8) -> u32 {
        u32::from(self.rest[usize::from(position)])
    }
}
