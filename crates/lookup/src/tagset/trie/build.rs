//! Builds the vector of nodes from sorted filters, in one pass.
//!
//! It builds no trie of pointers. The children of a node are a range of the sorted filters. A first
//! pass over neighbours counts the sizes of both vectors, so that each is allocated once.

use std::cmp::Reverse;

use byname_wire::Filter;
use byname_wire::tagset::FILTER_BITS;

use super::node::{END, Node};
use super::order::{Key, Order, Popularity, count};
use super::run::{Leaf, Leaves, Run};
use super::{Chains, Layout, NO_ENTRY, Options};
use crate::memory::Lines;
use crate::sync::{AtomicU64, Ordering};
use crate::update::BuildError;

/// One descriptor.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) filter: Filter,
    pub(super) leaf: Leaf,
}

/// The same, with its key instead of its filter.
struct Sorted {
    key: Key,
    leaf: Leaf,
}

/// Makes a run of these descriptors. If one comes twice, the last one counts.
///
/// # Errors
/// If two have the same filter, if there are more than a run can number, or if the kernel refuses
/// memory.
pub(super) fn build(options: &Options, items: Vec<Item>) -> Result<(Run, Leaves), BuildError> {
    let mut popularity: Popularity = [0; FILTER_BITS];
    if options.permute {
        items.iter().for_each(|item| count(&mut popularity, item.filter));
    }
    let order = Order::by_popularity(&popularity);
    let mut sorted: Vec<_> =
        items.into_iter().map(|item| Sorted { key: order.key(item.filter), leaf: item.leaf }).collect();
    // The sort is stable, so the last of equal descriptors stays last.
    sorted.sort_by_key(|item| Reverse(item.key));
    dedup(&mut sorted)?;
    let size = Size::of(options.chains, &sorted).ok_or(BuildError::Full { rules: sorted.len() })?;
    let mut builder = Builder {
        options,
        nodes: Lines::zeroed(size.nodes.div_ceil(8), options.pages)?,
        tails: Lines::zeroed(size.halves.div_ceil(16), options.pages)?,
        nodes_used: 0,
        halves_used: 0,
        places: Vec::with_capacity(sorted.len()),
        prints: Vec::with_capacity(sorted.len()),
        groups: Vec::new(),
        sorted: &sorted,
    };
    builder.root();
    assert_eq!((builder.nodes_used, builder.halves_used), (size.nodes, size.halves));
    let Builder { nodes, tails, places, prints, .. } = builder;
    let run = Run { order, layout: options.layout, nodes, tails, nodes_used: size.nodes, descriptors: sorted.len() };
    Ok((run, Leaves { places, prints: prints.into_iter().map(AtomicU64::new).collect() }))
}

/// Removes descriptors that later ones replace.
fn dedup(sorted: &mut Vec<Sorted>) -> Result<(), BuildError> {
    let mut collided = false;
    sorted.dedup_by(|later, kept| {
        let is_same = later.key == kept.key;
        if is_same {
            collided |= later.leaf.print != kept.leaf.print;
            kept.leaf = later.leaf;
        }
        is_same
    });
    if collided { Err(BuildError::Collision) } else { Ok(()) }
}

/// Sizes of the vectors, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    nodes: usize,
    halves: usize,
}

impl Size {
    /// The size of the trie of these descriptors. `None` if a place has too few bits for it.
    fn of(chains: Chains, sorted: &[Sorted]) -> Option<Self> {
        let (mut nodes, mut halves, mut before) = (1, 0, 0);
        for (i, item) in sorted.iter().enumerate() {
            // Number of its nodes that it shares with its neighbours.
            let after = sorted.get(i + 1).map_or(0, |next| usize::from(item.key.common(next.key)));
            let (weight, shared) = (usize::from(item.key.weight()), before.max(after));
            let has_head = weight > shared;
            // Number of positions of a chain without its head.
            let rest = weight.saturating_sub(shared + 1);
            nodes += shared - before
                + match chains {
                    Chains::Kept => weight - shared + 1,
                    Chains::Removed => 1 + usize::from(has_head),
                    Chains::Folded => 1,
                };
            halves += 1 + if chains == Chains::Kept { 0 } else { rest.div_ceil(4) };
            before = after;
        }
        let fits = |size: usize| u32::try_from(size).is_ok();
        (fits(nodes) && fits(halves)).then_some(Size { nodes, halves })
    }
}

struct Builder<'a> {
    options: &'a Options,
    nodes: Lines,
    tails: Lines,
    nodes_used: usize,
    halves_used: usize,
    /// Places of the leaves, in the order of their tails.
    places: Vec<u32>,
    prints: Vec<u64>,
    /// The children of the lists in progress: a position, and where its range ends.
    groups: Vec<(u8, usize)>,
    sorted: &'a [Sorted],
}

impl Builder<'_> {
    fn root(&mut self) {
        self.push(Node::inner(END, 1, (0, 0)).as_last());
        let depths = if self.sorted.is_empty() { (0, 0) } else { self.list(0, self.sorted.len(), 0) };
        self.write(0, Node::inner(END, 1, depths).as_last());
    }

    /// Lays out the children of a range of descriptors, and everything below. `from` is the first
    /// position that they do not share. Returns the smallest and the largest weight.
    fn list(&mut self, first: usize, end: usize, from: u8) -> (u8, u8) {
        let (list, groups) = (self.nodes_used, self.groups.len());
        let mut depths = (u8::MAX, 0);
        let mut start = first;
        while start < end {
            let position = self.sorted[start].key.next(from);
            let same = |item: &Sorted| item.key.next(from) == position;
            let group_end = start + self.sorted[start..end].iter().take_while(|item| same(item)).count();
            self.groups.push((position, group_end));
            let is_leaf = position == END || self.options.chains == Chains::Folded && group_end == start + 1;
            let node = if is_leaf {
                depths = widest(depths, (self.sorted[start].key.weight(), self.sorted[start].key.weight()));
                self.terminator(position, start, if position == END { END } else { position + 1 })
            } else {
                Node::inner(position, 0, (0, 0))
            };
            self.push(if group_end == end { node.as_last() } else { node });
            start = group_end;
        }
        let children = self.groups.len() - groups;
        for turn in 0..children {
            let child = if self.options.layout == Layout::SiblingOrder { turn } else { children - 1 - turn };
            let node = self.node(list + child);
            if !node.is_terminator() {
                let start = if child == 0 { first } else { self.groups[groups + child - 1].1 };
                let place = self.nodes_used as u32;
                let below = self.below(start, self.groups[groups + child].1, node.position() + 1);
                self.write(list + child, node.with_children(place, below));
                depths = widest(depths, below);
            }
        }
        self.groups.truncate(groups);
        depths
    }

    /// Lays out what is below a node.
    fn below(&mut self, start: usize, end: usize, from: u8) -> (u8, u8) {
        if self.options.chains != Chains::Removed || end - start > 1 {
            return self.list(start, end, from);
        }
        let terminator = self.terminator(END, start, from);
        self.push(terminator.as_last());
        let weight = self.sorted[start].key.weight();
        (weight, weight)
    }

    /// A node that ends a descriptor. The tail holds its positions from `from` on.
    fn terminator(&mut self, position: u8, number: usize, from: u8) -> Node {
        let Sorted { key, leaf } = self.sorted[number];
        let place = self.halves_used;
        self.push_half(leaf.entry.map_or(NO_ENTRY, |entry| entry.0));
        let mut rest = key.rest(from).peekable();
        while rest.peek().is_some() {
            self.push_half(u32::from_le_bytes(std::array::from_fn(|_| rest.next().unwrap_or(END))));
        }
        self.places.push(place as u32);
        self.prints.push(leaf.print);
        Node::terminator(position, place as u32, key.weight())
    }

    fn push(&mut self, node: Node) {
        self.write(self.nodes_used, node);
        self.nodes_used += 1;
    }

    fn push_half(&mut self, half: u32) {
        let word = &self.tails[self.halves_used / 16].0[self.halves_used / 2 % 8];
        // No reader uses it yet.
        let other = word.load(Ordering::Relaxed);
        word.store(other | u64::from(half) << (32 * (self.halves_used % 2)), Ordering::Relaxed);
        self.halves_used += 1;
    }

    fn node(&self, at: usize) -> Node {
        Node::from_word(self.nodes[at / 8].0[at % 8].load(Ordering::Relaxed))
    }

    fn write(&mut self, at: usize, node: Node) {
        self.nodes[at / 8].0[at % 8].store(node.word(), Ordering::Relaxed);
    }
}

fn widest(a: (u8, u8), b: (u8, u8)) -> (u8, u8) {
    (a.0.min(b.0), a.1.max(b.1))
}
