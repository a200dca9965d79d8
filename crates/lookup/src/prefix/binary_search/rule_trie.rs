//! A bitwise Patricia trie over the names of all rules, which finds the rules below a prefix.
//!
//! When a rule is added, changed or removed, the markers below it inherit another match, and hash
//! tables cannot tell which these are. The trie takes twelve bytes a rule. A node holds the first
//! bit at which two groups of names differ, and the two links from there. Names stay in their
//! entries.
//!
//! Each byte counts as nine bits. The first tells whether the name has that byte at all. A rule and
//! the rules below it therefore differ first at the bit after its name, where the rule itself is on
//! side 0.
//!
//! Cost: a walk visits one node for each bit at which rules differ: at most nine for each byte of
//! the name, and for names without a common pattern about 1.4 log2 of the number of rules.

use super::name_store::{EntryRef, NameEntry, NameStore};

/// A link to a leaf or to an inner node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Rule(EntryRef),
    Inner(u32),
}

/// A bit of a name: `byte << 4 | bit`. Bit 0 tells whether the byte exists. The byte's own bits
/// follow, most significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position(u32);

impl Position {
    fn byte(self) -> usize {
        (self.0 >> 4) as usize
    }
    fn bit(self) -> u32 {
        self.0 & 15
    }
    /// The first bit after a name of `bytes` bytes.
    fn end(bytes: usize) -> Self {
        Position((bytes as u32) << 4)
    }
    /// The side of this bit that a name is on.
    fn side_of(self, name: &[u8]) -> usize {
        match (name.get(self.byte()), self.bit()) {
            (None, _) => 0,
            (Some(_), 0) => 1,
            (Some(byte), bit) => usize::from(byte >> (8 - bit) & 1),
        }
    }
    /// The first bit at which the names differ.
    fn of_difference(name: &[u8], other: NameEntry<'_>) -> Option<Self> {
        (0..=name.len()).find_map(|i| match (name.get(i), other.byte(i)) {
            (Some(a), Some(b)) if a == &b => None,
            (Some(a), Some(b)) => Some(Position((i as u32) << 4 | (1 + (a ^ b).leading_zeros()))),
            (None, None) => None,
            _ => Some(Position::end(i)),
        })
    }
}

#[derive(Clone, Copy)]
struct Node {
    /// The position. Its two highest bits tell which links lead to rules.
    position: u32,
    ways: [u32; 2],
}

const RULE_BITS: [u32; 2] = [1 << 30, 1 << 31];

impl Node {
    fn position(&self) -> Position {
        Position(self.position & !(RULE_BITS[0] | RULE_BITS[1]))
    }
    fn way(&self, side: usize) -> Link {
        let is_rule = self.position & RULE_BITS[side] != 0;
        if is_rule { Link::Rule(EntryRef(self.ways[side])) } else { Link::Inner(self.ways[side]) }
    }
    fn set_way(&mut self, side: usize, link: Link) {
        self.position &= !RULE_BITS[side];
        match link {
            Link::Rule(entry) => {
                self.position |= RULE_BITS[side];
                self.ways[side] = entry.0;
            }
            Link::Inner(node) => self.ways[side] = node,
        }
    }
}

/// The point at which a rule's name differs from those of other rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    /// After this many bytes, within or at the start of a component that no other rule shares.
    Sibling {
        /// Number of bytes that it shares with another rule.
        bytes: usize,
    },
    /// It is the first rule below the rule above it.
    OnlyBelow,
    /// Other rules are below it, or there is no other rule.
    Above,
}

/// All rules by their names.
#[derive(Default)]
pub(super) struct RuleTrie {
    root: Option<Link>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl RuleTrie {
    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * 4
    }

    /// Adds a rule, which must not be there yet.
    pub(super) fn insert(&mut self, names: &NameStore, name: &[u8], entry: EntryRef) -> Parting {
        let Some(nearest) = self.nearest(name) else {
            self.root = Some(Link::Rule(entry));
            return Parting::Above;
        };
        let position = Position::of_difference(name, names.entry(nearest)).expect("the rule was not there");
        let (above, link) = self.descend(name, |at| at < position);
        let side = position.side_of(name);
        let mut node = Node { position: position.0, ways: [0; 2] };
        node.set_way(side, Link::Rule(entry));
        node.set_way(1 - side, link.expect("the trie is not empty"));
        let node = self.add_node(node);
        self.set_link(above, Link::Inner(node));
        parting(position, side)
    }

    /// Removes a rule, which must be there. Returns its entry, too.
    pub(super) fn remove(&mut self, name: &[u8]) -> (EntryRef, Parting) {
        let (mut above, mut last) = (None, None);
        let mut link = self.root.expect("the rule is there");
        let entry = loop {
            match link {
                Link::Rule(entry) => break entry,
                Link::Inner(at) => {
                    let node = &self.nodes[at as usize];
                    let side = node.position().side_of(name);
                    above = last;
                    last = Some((at, side));
                    link = node.way(side);
                }
            }
        };
        let Some((at, side)) = last else {
            self.root = None;
            return (entry, Parting::Above);
        };
        let node = self.nodes[at as usize];
        self.set_link(above, node.way(1 - side));
        self.free.push(at);
        (entry, parting(node.position(), side))
    }

    /// The rules that have `name` as a proper prefix.
    pub(super) fn below(&self, names: &NameStore, name: &[u8]) -> RulesBelow {
        let mut walk = RulesBelow { open: Vec::new() };
        let (_, link) = self.descend(name, |at| at < Position::end(name.len()));
        let Some(link) = link else { return walk };
        if !names.entry(self.any_rule(link)).starts_with(name, &()) {
            return walk;
        }
        match link {
            Link::Inner(node) if self.nodes[node as usize].position() == Position::end(name.len()) => {
                walk.open.push(self.nodes[node as usize].way(1));
            }
            Link::Rule(entry) if names.entry(entry).byte(name.len()).is_none() => {}
            link => walk.open.push(link),
        }
        walk
    }

    /// The leaf that the bits of `name` lead to.
    fn nearest(&self, name: &[u8]) -> Option<EntryRef> {
        match self.descend(name, |_| true).1? {
            Link::Rule(entry) => Some(entry),
            Link::Inner(_) => unreachable!("the way down ends at a leaf"),
        }
    }

    /// Follows `name` as long as `go_on` allows. Returns the last link taken, and what it leads to.
    fn descend(&self, name: &[u8], go_on: impl Fn(Position) -> bool) -> (Option<(u32, usize)>, Option<Link>) {
        let (mut above, mut link) = (None, self.root);
        while let Some(Link::Inner(at)) = link {
            let node = &self.nodes[at as usize];
            if !go_on(node.position()) {
                break;
            }
            let side = node.position().side_of(name);
            above = Some((at, side));
            link = Some(node.way(side));
        }
        (above, link)
    }

    fn any_rule(&self, mut link: Link) -> EntryRef {
        loop {
            match link {
                Link::Rule(entry) => return entry,
                Link::Inner(node) => link = self.nodes[node as usize].way(0),
            }
        }
    }

    fn set_link(&mut self, above: Option<(u32, usize)>, link: Link) {
        match above {
            Some((node, side)) => self.nodes[node as usize].set_way(side, link),
            None => self.root = Some(link),
        }
    }

    fn add_node(&mut self, node: Node) -> u32 {
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("rules have entries, of which there are less than 2^32")
    }
}

fn parting(position: Position, side: usize) -> Parting {
    match (position.bit(), side) {
        (0, 0) => Parting::Above,
        (0, _) => Parting::OnlyBelow,
        _ => Parting::Sibling { bytes: position.byte() },
    }
}

/// Rules below a prefix that were not visited yet. The trie must not change meanwhile.
pub(super) struct RulesBelow {
    open: Vec<Link>,
}

impl RulesBelow {
    /// The next of these rules, in the order of names.
    pub(super) fn next(&mut self, trie: &RuleTrie) -> Option<EntryRef> {
        self.step(trie, |_| true)
    }

    /// The next of these rules that is not below another of them.
    pub(super) fn next_uncovered(&mut self, trie: &RuleTrie) -> Option<EntryRef> {
        // Side 1 of such a bit is below the rule on side 0.
        self.step(trie, |position| position.bit() != 0)
    }

    fn step(&mut self, trie: &RuleTrie, both: impl Fn(Position) -> bool) -> Option<EntryRef> {
        loop {
            match self.open.pop()? {
                Link::Rule(entry) => return Some(entry),
                Link::Inner(node) => {
                    let node = &trie.nodes[node as usize];
                    if both(node.position()) {
                        self.open.push(node.way(1));
                    }
                    self.open.push(node.way(0));
                }
            }
        }
    }
}
