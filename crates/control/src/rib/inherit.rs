//! Computes the nexthops of a name: its own and the inherited ones.
//!
//! The rules are those of NFD's RIB. A name with routes inherits from shorter prefixes, for each face without a route
//! of its own. It inherits the route of the nearest shorter prefix that has one with the child-inherit flag. The search
//! ends at the nearest prefix with a capture route, which is included. A name with a capture route inherits nothing. If
//! a name has several routes through one face, the cheapest counts.
//!
//! A name that leads to the forwarder's own management inherits nothing, either. If it has another nexthop, the one to
//! management comes last: only Interests that may not leave this host use it.

use byname_forward::FaceId;
use byname_forward::tables::Nexthop;
use smallvec::SmallVec;

use super::routes::{Entry, Kinds, Layer, RouteKind};

/// Nexthops, each face once.
pub(super) type Nexthops = SmallVec<[Nexthop; 4]>;

/// Source of a nexthop. For each face, the first source wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Fib,
    Own,
    Above,
}

/// Keeps, for each face, the cheapest nexthop of its first source. Sorted by face.
fn first_of_each_face(mut candidates: SmallVec<[(Source, Nexthop); 4]>) -> Nexthops {
    candidates.sort_unstable_by_key(|(source, nexthop)| (nexthop.face, *source, nexthop.cost));
    candidates.dedup_by_key(|(_, nexthop)| nexthop.face);
    candidates.into_iter().map(|(_, nexthop)| nexthop).collect()
}

fn kinds_of<'a>(kinds: &'a Kinds, entry: &'a Entry) -> impl Iterator<Item = &'a RouteKind> {
    entry.routes.as_slice().iter().map(|route| kinds.get(route.kind))
}

fn nexthop(kind: &RouteKind) -> Nexthop {
    Nexthop { face: kind.face, cost: kind.cost }
}

/// The nexthops that the next longer prefixes inherit from an entry that itself inherits `above`. Sorted by face.
pub(super) fn passed_down(kinds: &Kinds, entry: &Entry, above: &Nexthops) -> Nexthops {
    let captures = kinds_of(kinds, entry).any(RouteKind::captures);
    let own = kinds_of(kinds, entry).filter(|kind| kind.inherits()).map(|kind| (Source::Own, nexthop(kind)));
    let above = above.iter().filter(|_| !captures).map(|nexthop| (Source::Above, *nexthop));
    first_of_each_face(own.chain(above).collect())
}

/// Whether an entry inherits anything from shorter prefixes.
pub(super) fn inherits_from_above(kinds: &Kinds, entry: &Entry) -> bool {
    // Names with nexthops from `fib` commands only are not in the RIB, and inherit nothing.
    kinds_of(kinds, entry).any(|kind| kind.layer == Layer::Rib)
        && !kinds_of(kinds, entry).any(|kind| kind.captures() || kind.face == FaceId::INTERNAL)
}

/// The nexthops of an entry that inherits `above`, sorted by cost, then by face.
pub(super) fn nexthops(kinds: &Kinds, entry: &Entry, above: &Nexthops) -> Nexthops {
    let inherits = inherits_from_above(kinds, entry);
    let own = kinds_of(kinds, entry).map(|kind| match kind.layer {
        Layer::Fib => (Source::Fib, nexthop(kind)),
        Layer::Rib => (Source::Own, nexthop(kind)),
    });
    let above = above.iter().filter(|_| inherits).map(|nexthop| (Source::Above, *nexthop));
    let mut nexthops = first_of_each_face(own.chain(above).collect());
    // `nexthops` is sorted by face, so the internal face is first.
    if nexthops.len() > 1 && nexthops[0].face == FaceId::INTERNAL {
        nexthops[0].cost = u64::MAX;
    }
    nexthops.sort_unstable_by_key(|n| (n.cost, n.face));
    nexthops
}
