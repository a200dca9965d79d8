//! The query half: the walk over the nodes of each packet's tags.

use std::ops::ControlFlow;
use std::sync::Arc;

use byname_wire::tagset::{FUNCTIONS, Filter, TAGS_MAX, TagDigest};

use super::arena::{BlockId, Chunks};
use super::directory::Directory;
use super::known::Known;
use super::node::{Row, RowPlace, View};
use super::packet::Packet;
use super::processor::{self, COLUMN_MAX, Column, Lanes};
use crate::entry::EntryId;
use crate::instructions::Instructions;
use crate::sync::{AtomicU64, Ordering};
use crate::tagset::{BURST_MAX, Effort, TagQuery, TagsetFib};

/// Maximum number of tags, nodes, children and rows, each, that a round examines.
///
/// A round prefetches everything it found at its end. An address on a page that the processor has
/// not seen lately delays all that follows, except for other such addresses.
const ROUND_MAX: usize = 64;
/// Number of lines of a node that are prefetched before its kind is known: a wide node's bitmap,
/// and most rows of a narrow one.
const NODE_LINES: usize = 2;
/// Number of tags tried for a wide node in one step.
const TRIED_IN_STEP: usize = 16;

/// State that all query halves of one table share with its writer.
pub(super) struct Shared {
    pub(super) chunks: Arc<Chunks>,
    pub(super) directory: Directory,
    pub(super) known: Known,
    /// The entry of the descriptor without tags, above a bit that tells whether it exists.
    pub(super) empty: AtomicU64,
    /// Memory of all blocks in bytes.
    pub(super) blocks_bytes: AtomicU64,
}

impl Shared {
    pub(super) fn empty(&self) -> Option<EntryId> {
        let word = self.empty.load(Ordering::Acquire);
        (word & 1 == 1).then_some(EntryId((word >> 1) as u32))
    }
}

/// The table that readers see.
pub(super) struct Query {
    pub(super) shared: Arc<Shared>,
    pub(super) steps_max: u32,
    /// At most what this processor has.
    pub(super) instructions: Instructions,
}

/// The purpose of a walk.
pub(super) trait Goal {
    /// The minimum number of tags of a descriptor that is still useful for a packet.
    fn tags_min(&self, packet: usize) -> usize;
    /// Called for each descriptor that is a subset of a packet's tags. `None` is the descriptor
    /// without tags. A break ends the packet's walk.
    fn found(&mut self, packet: usize, descriptor: Option<Row<'_>>, entry: EntryId) -> ControlFlow<()>;
}

/// All subsets, in the order in which they are found.
pub(super) struct All<'a>(pub(super) &'a mut dyn FnMut(usize, EntryId) -> ControlFlow<()>);

impl Goal for All<'_> {
    #[inline(always)]
    fn tags_min(&self, _: usize) -> usize {
        0
    }

    #[inline(always)]
    fn found(&mut self, packet: usize, _: Option<Row<'_>>, entry: EntryId) -> ControlFlow<()> {
        (self.0)(packet, entry)
    }
}

/// The largest subset of one packet so far.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub(super) entry: Option<EntryId>,
    weight: u32,
    filter: Filter,
    len: usize,
    tags: [TagDigest; TAGS_MAX],
}

impl Best {
    pub(super) const NONE: Best =
        Best { entry: None, weight: 0, filter: Filter::EMPTY, len: 0, tags: [TagDigest(0); TAGS_MAX] };

    /// Whether `other` is larger, in the order of [`tagset`](crate::tagset).
    fn is_below(&self, other: &Best) -> bool {
        let order = other.weight.cmp(&self.weight).reverse().then(other.filter.cmp(&self.filter));
        order.then_with(|| other.tags[..other.len].cmp(&self.tags[..self.len])).is_lt()
    }
}

/// The largest of the subsets that are accepted.
pub(super) struct Largest<'a> {
    pub(super) accept: &'a mut dyn FnMut(usize, EntryId) -> bool,
    pub(super) best: &'a mut [Best],
}

impl Goal for Largest<'_> {
    #[inline(always)]
    fn tags_min(&self, packet: usize) -> usize {
        // A tag has one bit in each part.
        (self.best[packet].weight as usize).div_ceil(FUNCTIONS)
    }

    #[inline]
    fn found(&mut self, packet: usize, descriptor: Option<Row<'_>>, entry: EntryId) -> ControlFlow<()> {
        let mut other = Best { entry: Some(entry), ..Best::NONE };
        if let Some(row) = descriptor {
            for (tag, own) in row.tags().zip(&mut other.tags) {
                *own = tag;
                other.len += 1;
            }
            other.tags[..other.len].sort_unstable();
            other.filter = Filter::of(&other.tags[..other.len]);
            other.weight = other.filter.weight();
        }
        let best = &mut self.best[packet];
        if (best.entry.is_none() || best.is_below(&other)) && (self.accept)(packet, entry) {
            *best = other;
        }
        ControlFlow::Continue(())
    }
}

/// The state of one packet's walk, which may go on in another table.
#[derive(Clone, Copy)]
pub(super) struct State {
    steps_left: u32,
    cut_off: bool,
    /// Its visitor broke.
    has_broken: bool,
}

impl State {
    /// Before the first of at most `steps_max` steps.
    pub(super) fn new(steps_max: u32) -> Self {
        State { steps_left: steps_max, cut_off: false, has_broken: false }
    }

    /// The effort of a walk of at most `steps_max` steps.
    pub(super) fn effort(&self, steps_max: u32) -> Effort {
        Effort { steps: steps_max - self.steps_left, cut_off: self.cut_off }
    }

    /// Takes up to `steps` steps.
    #[inline(always)]
    fn take(&mut self, steps: usize) -> usize {
        let taken = steps.min(self.steps_left as usize);
        self.steps_left -= taken as u32;
        self.cut_off |= taken < steps;
        taken
    }
}

/// A packet and a node to examine.
type NodeAt = (usize, BlockId);
/// A child of a wide node, by its tag.
type ChildAt = (usize, BlockId, TagDigest);
/// A row of a narrow node.
type RowAt = (usize, BlockId, RowPlace);

/// Prefetched items, last in, first out. It holds at most as many nodes as packets have tags, for each tag of a path,
/// plus one round's.
#[derive(Default)]
struct Pending {
    nodes: Vec<NodeAt>,
    children: Vec<ChildAt>,
    rows: Vec<RowAt>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.children.is_empty() && self.rows.is_empty()
    }

    /// Moves the items that the next round examines.
    #[inline(always)]
    fn take_round(&mut self, round: &mut Pending) {
        take_last(&mut self.nodes, &mut round.nodes);
        take_last(&mut self.children, &mut round.children);
        take_last(&mut self.rows, &mut round.rows);
    }
}

#[inline(always)]
fn take_last<T>(from: &mut Vec<T>, into: &mut Vec<T>) {
    into.clear();
    into.extend(from.drain(from.len().saturating_sub(ROUND_MAX)..));
}

/// The walk of a burst.
struct Walker<'a, G> {
    chunks: &'a Chunks,
    directory: &'a Directory,
    packets: &'a [Packet<'a>],
    states: [State; BURST_MAX],
    goal: &'a mut G,
    pending: Pending,
}

impl<G: Goal> Walker<'_, G> {
    /// Finds the node of one of a packet's tags.
    #[inline(always)]
    fn look_up(&mut self, packet: usize, tag: TagDigest) {
        if !self.states[packet].has_broken
            && self.states[packet].take(1) == 1
            && let Some(node) = self.directory.find(tag, self.chunks)
        {
            self.push(packet, node);
        }
    }

    #[inline(always)]
    fn push(&mut self, packet: usize, node: BlockId) {
        self.pending.nodes.push((packet, node));
    }

    /// Examines one node.
    #[inline(always)]
    fn scan<L: Lanes>(&mut self, packet: usize, node: BlockId) {
        let view = View::of(self.chunks.block(node));
        let further_min = self.goal.tags_min(packet).saturating_sub(view.path);
        if self.states[packet].has_broken || further_min > view.further_max {
            return;
        }
        if view.is_bare && further_min == 0 && self.states[packet].take(1) == 1 {
            self.push_row(packet, node, view.bare());
        }
        match view.is_wide {
            true => self.scan_children(packet, node, view),
            false => self.scan_column::<L>(packet, node, view, further_min),
        }
    }

    /// Examines the members of a narrow node.
    #[inline(always)]
    fn scan_column<L: Lanes>(&mut self, packet: usize, node: BlockId, view: View<'_>, further_min: usize) {
        let members = self.states[packet].take(view.members_with(further_min));
        for from in (0..members).step_by(COLUMN_MAX) {
            let column = Column::of(view.block, view.column() + from, (members - from).min(COLUMN_MAX));
            let mut like = L::screen(column, &self.packets[packet].bitmap);
            while like != 0 {
                let member = from + like.trailing_zeros() as usize;
                like &= like - 1;
                if self.packets[packet].has_surely(view.tag(member)) && self.states[packet].take(1) == 1 {
                    self.push_row(packet, node, view.row(member));
                }
            }
        }
    }

    /// Looks for children of a wide node: by the packet's tags, or by the children's tags if these
    /// are fewer.
    #[inline(always)]
    fn scan_children(&mut self, packet: usize, node: BlockId, view: View<'_>) {
        let tags = self.packets[packet].tags;
        if tags.len() > TAGS_MAX {
            return self.scan_table(packet, view);
        }
        if self.states[packet].take(tags.len().div_ceil(TRIED_IN_STEP)) == 0 {
            return;
        }
        for tag in tags.iter().copied().filter(|tag| view.may_have_child(*tag)) {
            if self.states[packet].take(1) == 1 {
                self.pending.children.push((packet, node, tag));
            }
        }
    }

    /// Examines all children of a wide node.
    fn scan_table(&mut self, packet: usize, view: View<'_>) {
        for (tag, child) in view.table().iter() {
            if self.states[packet].take(1) == 0 {
                break;
            }
            if self.packets[packet].has(tag) {
                self.push(packet, child);
            }
        }
    }

    /// Finds a child.
    #[inline(always)]
    fn find_child(&mut self, (packet, node, tag): ChildAt) {
        let view = View::of(self.chunks.block(node));
        if let Some(child) = view.child(tag, self.directory.mixer()) {
            self.push(packet, child);
        }
    }

    /// Compares a row whose first further tag, if it has one, is the packet's. Now, or when its
    /// line has arrived.
    #[inline(always)]
    fn push_row(&mut self, packet: usize, node: BlockId, row: Row<'_>) {
        match row.is_within(NODE_LINES) {
            true => self.compare(packet, row),
            false => self.pending.rows.push((packet, node, row.place)),
        }
    }

    #[inline(always)]
    fn compare(&mut self, packet: usize, row: Row<'_>) {
        if self.states[packet].has_broken || row.len() < self.goal.tags_min(packet) {
            return;
        }
        if row.rest().all(|tag| self.packets[packet].has(tag)) {
            self.states[packet].has_broken = self.goal.found(packet, Some(row), row.entry()).is_break();
        }
    }

    /// Examines what was prefetched, and prefetches what it leads to.
    #[inline(always)]
    fn look_at<L: Lanes>(&mut self, tags: &[(usize, TagDigest)], round: &Pending) {
        let (nodes, children, rows) = (self.pending.nodes.len(), self.pending.children.len(), self.pending.rows.len());
        tags.iter().for_each(|&(packet, tag)| self.look_up(packet, tag));
        round.children.iter().for_each(|child| self.find_child(*child));
        round.nodes.iter().for_each(|&(packet, node)| self.scan::<L>(packet, node));
        for &(packet, node, place) in &round.rows {
            self.compare(packet, View::of(self.chunks.block(node)).row_at(place));
        }
        for &(_, node) in &self.pending.nodes[nodes..] {
            self.chunks.block(node).prefetch(0, NODE_LINES);
        }
        for &(_, node, tag) in &self.pending.children[children..] {
            View::of(self.chunks.block(node)).table().prefetch(self.directory.mixer().mix(tag));
        }
        for &(_, node, place) in &self.pending.rows[rows..] {
            View::of(self.chunks.block(node)).row_at(place).prefetch();
        }
    }
}

impl Query {
    /// Walks for a burst, from these states on.
    #[inline(always)]
    pub(super) fn burst<L: Lanes, G: Goal>(&self, queries: &[TagQuery<'_>], goal: &mut G, states: &mut [State]) {
        let mut held = Vec::new();
        for (query, state) in queries.iter().zip(&mut *states) {
            let asks_known = query.tags.is_none() && !state.has_broken;
            held.push(if asks_known { self.held::<L>(&query.filter, state) } else { Vec::new() });
        }
        let packets: [Packet<'_>; BURST_MAX] = std::array::from_fn(|i| {
            let tags = queries.get(i).map_or(&[][..], |query| query.tags.unwrap_or(&held[i]));
            Packet::of(tags)
        });
        let packets = &packets[..queries.len()];
        let mut walker = Walker {
            chunks: &self.shared.chunks,
            directory: &self.shared.directory,
            packets,
            states: std::array::from_fn(|i| states.get(i).copied().unwrap_or(State::new(0))),
            goal,
            pending: Pending::default(),
        };
        if let Some(entry) = self.shared.empty() {
            let states = walker.states[..packets.len()].iter_mut().enumerate();
            for (packet, state) in states.filter(|(_, state)| !state.has_broken) {
                state.has_broken = walker.goal.found(packet, None, entry).is_break();
            }
        }
        self.walk::<L, G>(&mut walker);
        states.copy_from_slice(&walker.states[..states.len()]);
    }

    /// The known tags that a filter holds.
    #[inline(always)]
    fn held<L: Lanes>(&self, filter: &Filter, state: &mut State) -> Vec<TagDigest> {
        let mut held = Vec::new();
        let (steps, cut_off) =
            self.shared.known.held::<L>(filter, &self.shared.chunks, state.steps_left as usize, &mut held);
        state.steps_left -= steps as u32;
        state.cut_off |= cut_off;
        held
    }

    /// Walks in rounds: each examines what the one before prefetched.
    #[inline(always)]
    fn walk<L: Lanes, G: Goal>(&self, walker: &mut Walker<'_, G>) {
        let packets = walker.packets;
        let mut coming =
            packets.iter().enumerate().flat_map(|(i, packet)| packet.tags.iter().map(move |tag| (i, *tag)));
        let (mut tags, mut asked) = (Vec::with_capacity(ROUND_MAX), Vec::with_capacity(ROUND_MAX));
        let mut round = Pending::default();
        loop {
            std::mem::swap(&mut tags, &mut asked);
            tags.clear();
            tags.extend(coming.by_ref().take(ROUND_MAX));
            tags.iter().for_each(|(_, tag)| walker.directory.prefetch(*tag, walker.chunks));
            walker.pending.take_round(&mut round);
            walker.look_at::<L>(&asked, &round);
            if tags.is_empty() && walker.pending.is_empty() {
                break;
            }
        }
    }
}

/// What answers by a walk with the tags of many packets.
pub(super) trait Walk: Send + Sync {
    /// Walks with as many packets as there are efforts, at most [`BURST_MAX`].
    fn walk(&self, queries: &[TagQuery<'_>], goal: &mut impl Goal, efforts: &mut [Effort]);
    /// Resident memory, in bytes.
    fn bytes(&self) -> usize;
}

impl Walk for Query {
    fn walk(&self, queries: &[TagQuery<'_>], goal: &mut impl Goal, efforts: &mut [Effort]) {
        let mut states = [State::new(self.steps_max); BURST_MAX];
        processor::burst(self, queries, goal, &mut states[..queries.len()]);
        efforts.iter_mut().zip(states).for_each(|(effort, state)| *effort = state.effort(self.steps_max));
    }

    fn bytes(&self) -> usize {
        let shared = size_of::<Shared>() + self.shared.known.memory_bytes();
        shared + self.shared.blocks_bytes.load(Ordering::Relaxed) as usize
    }
}

impl<W: Walk> TagsetFib for W {
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Effort {
        let mut effort = [Effort::default()];
        self.all_subsets_burst(std::slice::from_ref(query), &mut |_, entry| visit(entry), &mut effort);
        effort[0]
    }

    fn largest_subset(
        &self,
        query: &TagQuery<'_>,
        accept: &mut dyn FnMut(EntryId) -> bool,
    ) -> (Option<EntryId>, Effort) {
        let mut out = [(None, Effort::default())];
        self.largest_subset_burst(std::slice::from_ref(query), &mut |_, entry| accept(entry), &mut out);
        out[0]
    }

    fn all_subsets_burst(
        &self,
        queries: &[TagQuery<'_>],
        visit: &mut dyn FnMut(usize, EntryId) -> ControlFlow<()>,
        efforts: &mut [Effort],
    ) {
        assert_eq!(queries.len(), efforts.len());
        assert!(queries.len() <= BURST_MAX);
        self.walk(queries, &mut All(visit), efforts);
    }

    fn largest_subset_burst(
        &self,
        queries: &[TagQuery<'_>],
        accept: &mut dyn FnMut(usize, EntryId) -> bool,
        out: &mut [(Option<EntryId>, Effort)],
    ) {
        assert_eq!(queries.len(), out.len());
        assert!(queries.len() <= BURST_MAX);
        let (mut best, mut efforts) = ([Best::NONE; BURST_MAX], [Effort::default(); BURST_MAX]);
        self.walk(queries, &mut Largest { accept, best: &mut best }, &mut efforts[..queries.len()]);
        for ((found, best), effort) in out.iter_mut().zip(best).zip(efforts) {
            *found = (best.entry, effort);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.bytes()
    }
}
