//! Ways to a router, and which of them are used [SPEC.md §4].
//!
//! A neighbour tells its cost to each router, the neighbour through which it has that cost, and the cost of its
//! second-best way. If it goes through this router, only the second-best counts: the first would lead back.
//!
//! A way that is not the best is an *alternative* if it cannot lead back. A neighbour N tells the cost `t`, along a way
//! that does not begin at this router S. The next router on it, X, has a cost of at most `t - 1`. If `t` is at most S's
//! own cost plus 1, then X's cost is at most S's, and no shortest way from X leads through S, because that would cost at
//! least 1 more [RFC 5286 §3.2]. N itself sends no Interest back to the face that it came from.

use crate::config::Alternatives;
use crate::ids::RouterId;

/// The cost of what is not reachable, as in ndn-dv.
pub(crate) const INFINITY: u64 = 16;

/// A way through a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) neighbour: RouterId,
    /// The cost that the neighbour tells.
    pub(crate) told: u64,
    /// Cost of the link.
    pub(crate) link: u64,
    /// The cost that policy adds.
    pub(crate) added: u64,
}

impl Way {
    pub(crate) fn cost(&self) -> u64 {
        self.told.saturating_add(self.link).saturating_add(self.added)
    }
}

/// The cost that a neighbour's advertisement tells this router: its own, or that of its second-best way if its best one
/// leads here. `None`: there is no way.
pub(crate) fn told_cost(is_next_hop: bool, cost: u64, other_cost: u64) -> Option<u64> {
    Some(if is_next_hop { other_cost } else { cost }).filter(|cost| *cost < INFINITY)
}

/// Whether a way of this told cost is installed beside the best, whose cost is `best`.
pub(crate) fn is_alternative(alternatives: Alternatives, told: u64, best: u64) -> bool {
    match alternatives {
        Alternatives::None => false,
        Alternatives::LoopFree => cannot_lead_back(told, best),
        Alternatives::All => true,
    }
}

/// Whether a neighbour's way of this told cost leads past this router, whose best cost is `best`.
pub(crate) fn cannot_lead_back(told: u64, best: u64) -> bool {
    told <= best.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_that_leads_back_is_not_taken() {
        assert_eq!(told_cost(false, 3, 5), Some(3));
        assert_eq!(told_cost(true, 3, 5), Some(5));
        assert_eq!(told_cost(true, 3, 16), None);
        assert_eq!(told_cost(false, u64::MAX, 1), None);
    }

    #[test]
    fn alternatives_cannot_lead_back() {
        use Alternatives::{All, LoopFree, None};
        for (told, best, is_free) in [(1, 1, true), (2, 1, true), (3, 1, false), (0, 0, true), (9, u64::MAX, true)] {
            assert_eq!(is_alternative(LoopFree, told, best), is_free, "{told} {best}");
            assert!(is_alternative(All, told, best) && !is_alternative(None, told, best));
        }
    }
}
