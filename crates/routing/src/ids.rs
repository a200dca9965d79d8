//! Numbers of routers and prefixes.

use std::sync::Arc;

use byname_wire::FaceId;

/// Number of a router. A number is used again after its router is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouterId(pub(crate) u32);

/// This router.
pub(crate) const SELF: RouterId = RouterId(0);

/// Number of a prefix. A number is used again after its prefix is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PrefixId(pub(crate) u32);

/// Nexthops with the cost of each, best first. Many prefixes share one.
pub(crate) type Group = Arc<[(FaceId, u64)]>;
