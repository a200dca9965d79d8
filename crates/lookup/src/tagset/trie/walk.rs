//! The walk through the vector: Algorithm 3 of [TagNet §3.2.3], for both algorithms.
//!
//! The stack holds lists of siblings. The walk goes through a list from its first node to its last,
//! and pushes the children of each node whose bit the packet has. The list pushed last, which
//! belongs to the last such sibling, comes next. Sibling reverse order places it beside its
//! parents.
//!
//! Differs: the paper's pseudocode checks a node when it leaves the stack. Here the check comes
//! before its children are pushed, as the paper's text says, and again when they leave the stack.

use std::ops::ControlFlow;

use byname_wire::Filter;

use super::node::{END, Node};
use super::order::Key;
use super::run::Run;
use super::{Descent, Options, Prunings, Ties};
use crate::entry::EntryId;
use crate::prefetch;

/// The purpose of a walk.
pub(super) trait Goal {
    /// Whether a subtree whose descriptors weigh at most `weight_max` cannot improve the result.
    fn is_hopeless(&self, weight_max: u32) -> bool;

    /// The subtree of a list that comes first.
    fn descent(&self) -> Descent;

    /// Called for each descriptor that is a subset. `None` ends the walk.
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
    /// A lighter descriptor is no improvement.
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

/// The remaining steps of one packet, and the stack.
pub(super) struct Search<'a> {
    prunings: Prunings,
    steps_max: u32,
    pub(super) steps: u32,
    pub(super) cut_off: bool,
    stack: &'a mut Vec<Siblings>,
}

/// A list of siblings to go through.
#[derive(Clone, Copy)]
pub(super) struct Siblings {
    /// The first of them.
    first: u32,
    /// Number of bits that lead here.
    depth: u8,
    /// The last of these bits.
    position: u8,
    /// Maximum weight below that the packet can match.
    weight_max: u8,
}

impl<'a> Search<'a> {
    pub(super) fn new(options: &Options, stack: &'a mut Vec<Siblings>) -> Self {
        Search { prunings: options.prunings, steps_max: options.steps_max, steps: 0, cut_off: false, stack }
    }

    /// Counts a step. `None` if there are too many.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Option<()> {
        if self.steps == self.steps_max {
            self.cut_off = true;
            return None;
        }
        self.steps += 1;
        Some(())
    }

    /// Walks through a trie, and calls `visited` with each node.
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

    /// Maximum weight of a descriptor below a node, if it may be one that is searched for [TagNet
    /// §3.1.4]. `depth` bits lead to the node, including its own.
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

/// Compares the chain of a terminator whose own bit the packet has.
#[inline(always)]
fn end(run: &Run, node: Node, path: &[u8], packet: &Packet, goal: &mut impl Goal) -> Option<()> {
    let own = Some(node.position()).filter(|&position| position != END);
    let chain = node.max() as usize - path.len() - usize::from(own.is_some());
    let place = node.place();
    let half = |i: usize| run.half(place + 1 + i as u32).to_le_bytes();
    // Every packet has the padding of the last half word.
    if !(0..chain.div_ceil(4)).all(|i| half(i).into_iter().all(|position| packet.has(position))) {
        return Some(());
    }
    let Some(entry) = run.entry(place) else { return Some(()) };
    let positions = || path.iter().copied().chain(own).chain((0..chain.div_ceil(4)).flat_map(half).take(chain));
    goal.found(entry, node.max(), || run.order.filter(positions()))
}

/// A packet's filter in a trie's order.
struct Packet {
    /// Includes the bit of [`END`].
    words: [u64; 4],
    /// Number of bits set after each position. No bound for [`END`], after which a chain may
    /// follow.
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
