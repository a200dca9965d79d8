//! Which nexthops a name has of its own, and which it inherits.
//!
//! As NFD's RIB: a name with routes inherits, for each face that has no route of its own there,
//! the route of the nearest shorter prefix that has one with the child-inherit flag, up to and
//! including the nearest prefix with a capture route; a name with a capture route inherits
//! nothing. Of several routes through one face the cheapest counts.

use byname_forward::tables::Nexthop;
use smallvec::SmallVec;

use super::routes::{Entry, Kinds, Layer, RouteKind};

/// Nexthops, each face once.
pub(super) type Nexthops = SmallVec<[Nexthop; 4]>;

/// Where a nexthop comes from; the first wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Fib,
    Own,
    Above,
}

/// For each face the nexthop of the first source, and of that the cheapest. By face.
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

/// What the nearest longer prefixes of an entry inherit, if the entry itself inherits `above`.
/// By face.
pub(super) fn passed_down(kinds: &Kinds, entry: &Entry, above: &Nexthops) -> Nexthops {
    let captures = kinds_of(kinds, entry).any(RouteKind::captures);
    let own = kinds_of(kinds, entry).filter(|kind| kind.inherits()).map(|kind| (Source::Own, nexthop(kind)));
    let above = above.iter().filter(|_| !captures).map(|nexthop| (Source::Above, *nexthop));
    first_of_each_face(own.chain(above).collect())
}

/// The nexthops of an entry that inherits `above`: by cost, then face.
pub(super) fn nexthops(kinds: &Kinds, entry: &Entry, above: &Nexthops) -> Nexthops {
    // Names that only `fib` commands know are not in the RIB, and inherit nothing.
    let inherits =
        kinds_of(kinds, entry).any(|kind| kind.layer == Layer::Rib) && !kinds_of(kinds, entry).any(RouteKind::captures);
    let own = kinds_of(kinds, entry).map(|kind| match kind.layer {
        Layer::Fib => (Source::Fib, nexthop(kind)),
        Layer::Rib => (Source::Own, nexthop(kind)),
    });
    let above = above.iter().filter(|_| inherits).map(|nexthop| (Source::Above, *nexthop));
    let mut nexthops = first_of_each_face(own.chain(above).collect());
    nexthops.sort_unstable_by_key(|n| (n.cost, n.face));
    nexthops
}
