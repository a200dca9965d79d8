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
use crate::tagset::{BURST_MAX, TagQuery, TagsetFib, Walk};

/// Tags whose directory lines are on their way.
const TAGS_AHEAD: usize = 24;
/// Nodes whose first lines are on their way.
const NODES_AHEAD: usize = 16;
/// Children whose lines of wide nodes' tables are on their way.
const CHILDREN_AHEAD: usize = 16;
/// Rows whose lines are on their way.
const ROWS_AHEAD: usize = 8;
/// Tags, nodes, children or rows that wait.
const WAITING_MAX: usize = 64;
/// Lines of a node that are asked for before it is known what it is: a wide one's bitmap, most rows of
/// a narrow one.
const NODE_LINES: usize = 2;
/// Tags that are tried for a wide node in a step.
const TRIED_IN_STEP: usize = 16;

/// What all query halves of one table, and its writer, share.
pub(super) struct Shared {
    pub(super) chunks: Arc<Chunks>,
    pub(super) directory: Directory,
    pub(super) known: Known,
    /// The entry of the descriptor without tags, above a bit that says that there is one.
    pub(super) empty: AtomicU64,
    /// Memory of all blocks.
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
    /// No more than this processor has.
    pub(super) instructions: Instructions,
}

/// What the walk is for.
pub(super) trait Goal {
    /// How many tags a descriptor needs at least to be of use to a packet.
    fn tags_min(&self, packet: usize) -> usize;
    /// A descriptor is a subset of a packet's; `None` is the one without tags. The packet's walk ends
    /// if it breaks.
    fn found(&mut self, packet: usize, descriptor: Option<Row<'_>>, entry: EntryId) -> ControlFlow<()>;
}

/// All subsets, as they come.
struct All<'a>(&'a mut dyn FnMut(usize, EntryId) -> ControlFlow<()>);

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

/// The largest subset so far of one packet.
#[derive(Clone, Copy)]
struct Best {
    entry: Option<EntryId>,
    weight: u32,
    filter: Filter,
    len: usize,
    tags: [TagDigest; TAGS_MAX],
}

impl Best {
    const NONE: Best = Best { entry: None, weight: 0, filter: Filter::EMPTY, len: 0, tags: [TagDigest(0); TAGS_MAX] };

    /// Whether another is larger, by the order of [`tagset`](crate::tagset).
    fn is_below(&self, other: &Best) -> bool {
        let order = other.weight.cmp(&self.weight).reverse().then(other.filter.cmp(&self.filter));
        order.then_with(|| other.tags[..other.len].cmp(&self.tags[..self.len])).is_lt()
    }
}

/// The largest of the subsets that are accepted.
struct Largest<'a> {
    accept: &'a mut dyn FnMut(usize, EntryId) -> bool,
    best: &'a mut [Best],
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

/// How far the walk of one packet is.
#[derive(Clone, Copy)]
struct State {
    steps_left: u32,
    cut_off: bool,
    /// Its visitor has heard enough.
    has_broken: bool,
}

impl State {
    /// Takes up to so many steps.
    #[inline(always)]
    fn take(&mut self, steps: usize) -> usize {
        let taken = steps.min(self.steps_left as usize);
        self.steps_left -= taken as u32;
        self.cut_off |= taken < steps;
        taken
    }
}

/// What is on its way, first in, first out.
struct Waiting<T> {
    items: [T; WAITING_MAX],
    first: usize,
    len: usize,
}

impl<T: Copy> Waiting<T> {
    fn new(item: T) -> Self {
        Waiting { items: [item; WAITING_MAX], first: 0, len: 0 }
    }

    /// Adds one; whether there was room.
    #[inline(always)]
    fn push(&mut self, item: T) -> bool {
        let has_room = self.len < WAITING_MAX;
        if has_room {
            self.items[(self.first + self.len) % WAITING_MAX] = item;
            self.len += 1;
        }
        has_room
    }

    /// The oldest, if there are more than so many.
    #[inline(always)]
    fn pop_above(&mut self, len: usize) -> Option<T> {
        if self.len <= len {
            return None;
        }
        let item = self.items[self.first];
        self.first = (self.first + 1) % WAITING_MAX;
        self.len -= 1;
        Some(item)
    }
}

/// The walk of a burst.
struct Walker<'a, G> {
    chunks: &'a Chunks,
    directory: &'a Directory,
    packets: &'a [Packet<'a>],
    states: [State; BURST_MAX],
    goal: &'a mut G,
    nodes: Waiting<(usize, BlockId)>,
    /// Nodes for which there was no room: last in, first out, so that there are at most as many as
    /// packets have tags, for each tag of a path.
    crowd: Vec<(usize, BlockId)>,
    children: Waiting<(usize, BlockId, TagDigest)>,
    rows: Waiting<(usize, BlockId, RowPlace)>,
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

    /// Asks for a node's first lines, and has it wait.
    #[inline(always)]
    fn push(&mut self, packet: usize, node: BlockId) {
        self.chunks.block(node).prefetch(0, NODE_LINES);
        if !self.nodes.push((packet, node)) {
            self.crowd.push((packet, node));
        }
    }

    /// The node to be walked next, if more than so many wait.
    #[inline(always)]
    fn pop_above(&mut self, len: usize) -> Option<(usize, BlockId)> {
        self.crowd.pop().or_else(|| self.nodes.pop_above(len))
    }

    /// Looks at one node.
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

    /// Looks for members of a narrow node.
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

    /// Looks for children of a wide node: by the packet's tags, or, where these are more, by theirs.
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
                view.table().prefetch(self.directory.mixer().mix(tag));
                self.find_children_above(WAITING_MAX - 1);
                // There is room: one went if there was none.
                self.children.push((packet, node, tag));
            }
        }
    }

    /// Looks at all children of a wide node.
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

    /// Finds the oldest children, as long as more than so many wait.
    #[inline(always)]
    fn find_children_above(&mut self, len: usize) {
        while let Some((packet, node, tag)) = self.children.pop_above(len) {
            let view = View::of(self.chunks.block(node));
            if let Some(child) = view.child(tag, self.directory.mixer()) {
                self.push(packet, child);
            }
        }
    }

    /// Compares a row whose first further tag, if any, is the packet's, now or when its line has come.
    #[inline(always)]
    fn push_row(&mut self, packet: usize, node: BlockId, row: Row<'_>) {
        if row.is_within(NODE_LINES) {
            return self.compare(packet, row);
        }
        row.prefetch();
        self.compare_above(WAITING_MAX - 1);
        self.rows.push((packet, node, row.place));
    }

    /// Compares the oldest rows, as long as more than so many wait.
    #[inline(always)]
    fn compare_above(&mut self, len: usize) {
        while let Some((packet, node, place)) = self.rows.pop_above(len) {
            self.compare(packet, View::of(self.chunks.block(node)).row_at(place));
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
}

impl Query {
    /// Walks for a burst.
    #[inline(always)]
    pub(super) fn burst<L: Lanes, G: Goal>(&self, queries: &[TagQuery<'_>], goal: &mut G, walks: &mut [Walk]) {
        let mut states = [State { steps_left: self.steps_max, cut_off: false, has_broken: false }; BURST_MAX];
        let mut held = Vec::new();
        for (query, state) in queries.iter().zip(&mut states) {
            let tags = if query.tags.is_none() { self.held::<L>(&query.filter, state) } else { Vec::new() };
            held.push(tags);
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
            states,
            goal,
            nodes: Waiting::new((0, BlockId(0))),
            crowd: Vec::new(),
            children: Waiting::new((0, BlockId(0), TagDigest(0))),
            rows: Waiting::new((0, BlockId(0), RowPlace::default())),
        };
        if let Some(entry) = self.shared.empty() {
            for (packet, state) in walker.states[..packets.len()].iter_mut().enumerate() {
                state.has_broken = walker.goal.found(packet, None, entry).is_break();
            }
        }
        self.walk::<L, G>(&mut walker);
        for (walk, state) in walks.iter_mut().zip(&walker.states) {
            *walk = Walk { steps: self.steps_max - state.steps_left, cut_off: state.cut_off };
        }
    }

    /// The known tags that a filter holds.
    #[inline(always)]
    fn held<L: Lanes>(&self, filter: &Filter, state: &mut State) -> Vec<TagDigest> {
        let mut held = Vec::new();
        let (steps, cut_off) =
            self.shared.known.held::<L>(filter, &self.shared.chunks, state.steps_left as usize, &mut held);
        state.steps_left -= steps as u32;
        state.cut_off = cut_off;
        held
    }

    /// Tag by tag of all packets: while one's line is on its way, others' nodes are walked.
    #[inline(always)]
    fn walk<L: Lanes, G: Goal>(&self, walker: &mut Walker<'_, G>) {
        let packets = walker.packets;
        let mut coming =
            packets.iter().enumerate().flat_map(|(i, packet)| packet.tags.iter().map(move |tag| (i, *tag)));
        let mut tags = Waiting::new((0, TagDigest(0)));
        loop {
            let next = coming.next();
            if let Some((packet, tag)) = next {
                walker.directory.prefetch(tag, walker.chunks);
                // There is room: one goes for each that comes.
                tags.push((packet, tag));
            }
            if let Some((packet, tag)) = tags.pop_above(if next.is_some() { TAGS_AHEAD } else { 0 }) {
                walker.look_up(packet, tag);
            }
            let is_last = next.is_none() && tags.len == 0;
            walker.find_children_above(if is_last { 0 } else { CHILDREN_AHEAD });
            while let Some((packet, node)) = walker.pop_above(if is_last { 0 } else { NODES_AHEAD }) {
                walker.scan::<L>(packet, node);
                if is_last && walker.nodes.len == 0 {
                    walker.find_children_above(0);
                }
            }
            walker.compare_above(if is_last { 0 } else { ROWS_AHEAD });
            if is_last {
                break;
            }
        }
    }
}

impl TagsetFib for Query {
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Walk {
        let mut walk = [Walk::default()];
        self.all_subsets_burst(std::slice::from_ref(query), &mut |_, entry| visit(entry), &mut walk);
        walk[0]
    }

    fn largest_subset(&self, query: &TagQuery<'_>, accept: &mut dyn FnMut(EntryId) -> bool) -> (Option<EntryId>, Walk) {
        let mut out = [(None, Walk::default())];
        self.largest_subset_burst(std::slice::from_ref(query), &mut |_, entry| accept(entry), &mut out);
        out[0]
    }

    fn all_subsets_burst(
        &self,
        queries: &[TagQuery<'_>],
        visit: &mut dyn FnMut(usize, EntryId) -> ControlFlow<()>,
        walks: &mut [Walk],
    ) {
        assert_eq!(queries.len(), walks.len());
        assert!(queries.len() <= BURST_MAX);
        processor::burst(self, queries, &mut All(visit), walks);
    }

    fn largest_subset_burst(
        &self,
        queries: &[TagQuery<'_>],
        accept: &mut dyn FnMut(usize, EntryId) -> bool,
        out: &mut [(Option<EntryId>, Walk)],
    ) {
        assert_eq!(queries.len(), out.len());
        assert!(queries.len() <= BURST_MAX);
        let mut best = [Best::NONE; BURST_MAX];
        let mut walks = [Walk::default(); BURST_MAX];
        let mut goal = Largest { accept, best: &mut best };
        processor::burst(self, queries, &mut goal, &mut walks[..queries.len()]);
        for ((found, best), walk) in out.iter_mut().zip(best).zip(walks) {
            *found = (best.entry, walk);
        }
    }

    fn memory_bytes(&self) -> usize {
        let shared = size_of::<Shared>() + self.shared.known.memory_bytes();
        shared + self.shared.blocks_bytes.load(Ordering::Relaxed) as usize
    }
}
