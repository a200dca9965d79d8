//! The numbers of a tree's nodes that a router hands out to its children.
//!
//! Labels are those of [Thorup and Zwick, "Compact routing schemes", SPAA 2001], section 2.1, as in [TagNet §3.3]: a
//! subtree is a range of numbers, the heavy child has the last part of its parent's range, and labels name the ports of
//! light children.
//!
//! Differs from the paper, and from `byname_lookup::locator::Labelling`: ranges have room. A router that comes takes
//! numbers that are free, and one that goes leaves a gap, so that no other label changes. What a child had stays its own
//! for a while after it left. The heavy child is the largest one when the numbers are planned, and need not be so
//! later. A router whose numbers run out asks its parent for more. If labels become too long, or the root has no more, the
//! root plans anew.
//!
//! Cost: labels have the numbers of a window of 2^22 instead of those of n nodes. If the heavy child is not the
//! largest, port lists may be longer than log2 n bits.

use super::message::{RouterKey, Span};

/// Light children have at least one part in so many of the numbers, and so has the heavy one.
const PART_MIN: u32 = 16;
/// The first light child gets one part in so many of those that are free, and each further one a smaller part.
const SHARE: u32 = 4;
/// A light child gets so many times the numbers that it wants, at least.
const ROOM: u32 = 2;

/// The port of the heavy child. Light children have the ports from 1.
pub(super) const HEAVY: u32 = 0;

/// Numbers that a child has or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) child: RouterKey,
    pub(super) port: u32,
    pub(super) span: Span,
    /// `None`: the child has it. Otherwise nobody else gets it before this.
    until_ms: Option<u64>,
}

/// A child, and what it says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Child {
    pub(super) key: RouterKey,
    /// How many numbers it wants, at least: one for each router in its part of the tree, or more.
    pub(super) wants: u32,
    /// Numbers that it has from an earlier run of this router, or from another one.
    pub(super) has: Option<Span>,
}

/// A router's numbers, and their parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) span: Span,
    /// So many numbers after the router's own are for light children, and the others for the heavy one.
    pub(super) light: u32,
    parts: Vec<Part>,
}

impl Block {
    /// Numbers of which no child has any yet. They are divided so that these children have enough.
    pub(super) fn new(span: Span, children: &[Child]) -> Self {
        let others = span.len - 1;
        let (heavy, all) = children.iter().fold((0, 0), |(heavy, all), child| {
            let wants = u64::from(child.wants);
            (wants.max(heavy), all + wants)
        });
        // Less than `others`, because heavy is at least 1 if there are any.
        let wanted = (u64::from(others) * (all - heavy)).checked_div(all).unwrap_or(0) as u32;
        let least = if others < 4 * PART_MIN { others / 4 } else { others / PART_MIN };
        let light = wanted.clamp(least, others - least);
        Block { span, light, parts: Vec::new() }
    }

    /// Parts of all children, also of those that have left lately.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The numbers of a child.
    pub(super) fn given(&self, child: RouterKey) -> Option<Span> {
        self.parts.iter().find(|part| part.child == child && part.until_ms.is_none()).map(|part| part.span)
    }

    /// When [`Block::settle`] has something to forget.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.parts.iter().filter_map(|part| part.until_ms).min()
    }

    /// Gives numbers to these children. What others have stays reserved for `keep_ms`. Returns whether all children have
    /// enough.
    pub(super) fn settle(&mut self, children: &[Child], now_ms: u64, keep_ms: u64) -> bool {
        self.parts.retain(|part| part.until_ms.is_none_or(|until| until > now_ms));
        let until_ms = Some(now_ms.saturating_add(keep_ms));
        for part in self.parts.iter_mut().filter(|part| part.until_ms.is_none()) {
            if !children.iter().any(|child| child.key == part.child) {
                part.until_ms = until_ms;
            }
        }
        let mut children = children.to_vec();
        // The first one that gets numbers is the heavy one.
        children.sort_unstable_by_key(|child| (std::cmp::Reverse(child.wants), child.key));
        // Not all at once: none may take what another one claims.
        for child in &children {
            self.restore(child, until_ms);
        }
        let mut is_enough = true;
        for child in &children {
            is_enough &= self.serve(child, until_ms);
        }
        is_enough
    }

    /// Gives a child what it had, if that is free.
    fn restore(&mut self, child: &Child, until_ms: Option<u64>) {
        if self.has_enough(child) {
            return;
        }
        let is_earlier =
            |part: &Part| part.child == child.key && part.until_ms.is_some() && part.span.len >= child.wants;
        if let Some(place) = self.parts.iter().position(is_earlier) {
            self.leave(child.key, until_ms);
            self.parts[place].until_ms = None;
        } else if let Some(port) = child.has.filter(|has| has.len >= child.wants).and_then(|has| self.port_of(&has)) {
            self.leave(child.key, until_ms);
            // `port_of` has looked at it.
            let Some(span) = child.has else { return };
            self.parts.push(Part { child: child.key, port, span, until_ms: None });
        }
    }

    fn serve(&mut self, child: &Child, until_ms: Option<u64>) -> bool {
        if self.has_enough(child) {
            return true;
        }
        let Some((port, span)) = self.find_room(child.wants) else { return false };
        self.leave(child.key, until_ms);
        self.parts.push(Part { child: child.key, port, span, until_ms: None });
        true
    }

    fn has_enough(&self, child: &Child) -> bool {
        self.given(child.key).is_some_and(|span| span.len >= child.wants)
    }

    fn leave(&mut self, child: RouterKey, until_ms: Option<u64>) {
        let given = self.parts.iter_mut().find(|part| part.child == child && part.until_ms.is_none());
        if let Some(part) = given {
            part.until_ms = until_ms;
        }
    }

    /// The first number of the heavy child.
    fn heavy_first(&self) -> u32 {
        // If there are no numbers for it, this may be one beyond 32 bits.
        self.span.first().wrapping_add(self.light).wrapping_add(1)
    }

    fn is_port_free(&self, port: u32) -> bool {
        !self.parts.iter().any(|part| part.port == port)
    }

    fn find_room(&self, wants: u32) -> Option<(u32, Span)> {
        let own = self.span.label;
        let heavy_len = (self.span.len - 1) - self.light;
        if self.is_port_free(HEAVY) && heavy_len > 0 && heavy_len >= wants {
            let label = own.heavy_child(self.heavy_first());
            return Some((HEAVY, Span { label, len: heavy_len }));
        }
        let port = (1..).find(|port| self.is_port_free(*port))?;
        let gaps = self.light_gaps();
        let free: u32 = gaps.iter().map(|(_, len)| len).sum();
        // The more there are, the less each gets: so there is room for many.
        let share = free / (SHARE + self.parts.len() as u32);
        let wanted = wants.saturating_mul(ROOM).max(share);
        let fits = gaps.iter().find(|(_, len)| *len >= wanted);
        let (first, len) =
            *fits.or_else(|| gaps.iter().max_by_key(|(_, len)| *len)).filter(|(_, len)| *len >= wants)?;
        Some((port, Span { label: own.light_child(first, port)?, len: len.min(wanted) }))
    }

    /// Numbers for light children that nobody has: first number and length of each gap.
    fn light_gaps(&self) -> Vec<(u32, u32)> {
        if self.light == 0 {
            return Vec::new();
        }
        let mut taken: Vec<Span> = self.parts.iter().filter(|part| part.port != HEAVY).map(|part| part.span).collect();
        taken.sort_unstable_by_key(Span::first);
        let mut gaps = Vec::new();
        let mut next = self.span.first() + 1;
        for span in taken {
            if span.first() > next {
                gaps.push((next, span.first() - next));
            }
            next = span.last() + 1;
        }
        let end = self.span.first() + self.light;
        if end >= next {
            gaps.push((next, end - next + 1));
        }
        gaps
    }

    /// The port by which numbers that somebody has lead to it, if they can be its.
    fn port_of(&self, span: &Span) -> Option<u32> {
        let own = self.span.label;
        if span.label == own.heavy_child(span.first()) {
            let is_whole = span.first() == self.heavy_first() && span.last() == self.span.last();
            return (self.light + 1 < self.span.len && is_whole && self.is_port_free(HEAVY)).then_some(HEAVY);
        }
        let port = span.label.light_port(own.port_bits());
        let is_label = port != u32::MAX && own.light_child(span.first(), port) == Some(span.label);
        let is_free =
            self.light_gaps().iter().any(|(first, len)| *first <= span.first() && span.last() <= *first + (*len - 1));
        (is_label && is_free && self.is_port_free(port)).then_some(port)
    }
}

#[cfg(test)]
mod tests {
    use byname_wire::Label;

    use super::*;

    fn child(key: u64, wants: u32) -> Child {
        Child { key: RouterKey(key), wants, has: None }
    }

    fn block() -> Block {
        Block::new(Span { label: Label::new(0x40_0000), len: 1 << 22 }, &[])
    }

    fn are_apart(block: &Block) {
        let own = block.span;
        for (place, part) in block.parts.iter().enumerate() {
            assert!(own.first() < part.span.first() && part.span.last() <= own.last(), "{part:?}");
            let is_heavy = part.span.first() > own.first() + block.light;
            assert_eq!(is_heavy, part.port == HEAVY);
            for other in &block.parts[..place] {
                assert!(other.span.last() < part.span.first() || part.span.last() < other.span.first());
                assert_ne!(other.port, part.port);
            }
        }
    }

    #[test]
    fn labels_stay_while_others_come_and_go() {
        let mut block = block();
        assert!(block.settle(&[child(1, 1), child(2, 30)], 0, 100));
        assert_eq!(block.parts[0].child, RouterKey(2), "the largest one is heavy");
        let before = [1, 2].map(|key| block.given(RouterKey(key)).unwrap());
        let many: Vec<Child> = (1..200).map(|key| child(key, if key == 2 { 30 } else { 1 })).collect();
        assert!(block.settle(&many, 1, 100));
        are_apart(&block);
        assert!(block.settle(&many[..2], 2, 100));
        assert_eq!([1, 2].map(|key| block.given(RouterKey(key)).unwrap()), before);
        assert_eq!(block.parts.len(), 199, "what others had is reserved");
        assert!(block.settle(&many[..2], 102, 100));
        assert_eq!(block.parts.len(), 2);
    }

    #[test]
    fn a_child_that_returns_gets_what_it_had() {
        let mut block = block();
        assert!(block.settle(&[child(1, 1), child(2, 1)], 0, 100));
        let before = block.given(RouterKey(2));
        assert!(block.settle(&[child(1, 1)], 1, 100));
        assert!(block.settle(&[child(1, 1), child(3, 1)], 2, 100));
        assert_eq!(block.given(RouterKey(2)), None);
        assert!(block.settle(&[child(1, 1), child(3, 1), child(2, 1)], 3, 100));
        assert_eq!(block.given(RouterKey(2)), before);
        are_apart(&block);
    }

    #[test]
    fn children_keep_what_an_earlier_run_gave_them() {
        let mut earlier = block();
        let children: Vec<Child> = (1..9).map(|key| child(key, key as u32)).collect();
        assert!(earlier.settle(&children, 0, 100));
        let claims: Vec<Child> =
            children.iter().rev().map(|one| Child { has: earlier.given(one.key), ..*one }).collect();
        let mut later = block();
        assert!(later.settle(&claims, 0, 100));
        for one in &children {
            assert_eq!(later.given(one.key), earlier.given(one.key));
        }
        // Somebody else's numbers, and those of other routers, are not given.
        let mut one_more = claims.clone();
        one_more.push(Child { has: earlier.given(RouterKey(3)), ..child(20, 1) });
        let beyond = Span { label: Label::new(7), len: 3 };
        one_more.push(Child { has: Some(beyond), ..child(21, 1) });
        assert!(later.settle(&one_more, 0, 100));
        are_apart(&later);
        assert_ne!(later.given(RouterKey(21)), Some(beyond));
    }

    #[test]
    fn a_child_that_grows_gets_more_and_what_has_no_room_is_told() {
        let mut block = Block::new(Span { label: Label::new(0), len: 200 }, &[]);
        assert!(block.settle(&[child(1, 1), child(2, 1)], 0, 10));
        let small = block.given(RouterKey(2)).unwrap();
        assert!(block.settle(&[child(1, 1), child(2, small.len + 1)], 1, 10));
        let more = block.given(RouterKey(2)).unwrap();
        assert!(more.len > small.len && more.first() != small.first());
        are_apart(&block);
        assert!(!block.settle(&[child(1, 1), child(2, 190)], 2, 10));
        assert_eq!(block.given(RouterKey(2)), Some(more), "it keeps what it has");
        let mut alone = Block::new(Span { label: Label::new(5), len: 1 }, &[]);
        assert!(!alone.settle(&[child(1, 1)], 0, 10));
        let mut last = Block::new(Span { label: Label::new(u32::MAX), len: 1 }, &[]);
        assert!(!last.settle(&[child(1, 1)], 0, 10));
    }
}
