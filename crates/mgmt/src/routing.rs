//! Elements about the RIB, the FIB and strategies.

use byname_wire::tlv;
use byname_wire::{Descriptor, Name, tagnet};

use crate::{StrategyName, element, types};

/// Well-known origins of routes.
pub mod origin {
    /// An application that registers its own prefix.
    pub const APP: u64 = 0;
    /// A prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: u64 = 129;
    /// A client's automatic registration.
    pub const CLIENT: u64 = 65;
    /// Automatic prefix propagation or registration.
    pub const AUTOREG: u64 = 64;
    /// ndn-autoconf.
    pub const AUTOCONF: u64 = 66;
    /// NLSR and ndn-dv.
    pub const NLSR: u64 = 128;
    /// The intent of a fleet, through its agent. byname's own.
    pub const FLEET: u64 = 200;
    /// A client of `byname gribi serve`. byname's own.
    pub const GRIBI: u64 = 201;
    /// An administrator.
    pub const STATIC: u64 = 255;
}

/// Bits of a route's flags.
pub mod route_flags {
    /// Longer prefixes inherit the route.
    pub const CHILD_INHERIT: u64 = 1;
    /// This name and longer ones inherit nothing from shorter prefixes.
    pub const CAPTURE: u64 = 2;
}

element! {
    /// A nexthop of a [`FibEntry`].
    NextHopRecord = types::NEXT_HOP_RECORD, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// Cost; lower is better.
        cost: u64 = types::COST,
    }
}

element! {
    /// An entry of the dataset `fib/list`.
    FibEntry = types::FIB_ENTRY, {
        /// Its prefix.
        name: Name = tlv::types::NAME,
        /// Its nexthops.
        next_hop_records: Vec<NextHopRecord> = types::NEXT_HOP_RECORD,
    }
}

element! {
    /// A route of a [`RibEntry`].
    Route = types::ROUTE, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// Origin; see [`origin`].
        origin: u64 = types::ORIGIN,
        /// Cost; lower is better.
        cost: u64 = types::COST,
        /// See [`route_flags`].
        flags: u64 = types::FLAGS,
        /// Remaining lifetime in ms. `None`: forever.
        expiration_period_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// 1 if an earlier process of the router had the route, and nobody has confirmed it since. Absent in other
        /// forwarders.
        is_stale: Option<u64> = types::IS_STALE,
    }
}

element! {
    /// An entry of the dataset `rib/list`.
    RibEntry = types::RIB_ENTRY, {
        /// Its prefix.
        name: Name = tlv::types::NAME,
        /// Routes for it.
        routes: Vec<Route> = types::ROUTE,
    }
}

element! {
    /// An entry of the dataset `flat/list`: a flat name that commands have changed.
    FlatChange = types::FLAT_CHANGE, {
        /// The namespace's prefix and the flat name.
        name: Name = tlv::types::NAME,
        /// The name whose route it follows. `None`: it counts as unknown.
        label: Option<Name> = types::ROUTE_LABEL,
    }
}

element! {
    /// An entry of the dataset `tags/list`: packets whose tags include these leave by a face. Those that neighbours on a tree
    /// have told are not listed.
    TagsEntry = types::TAGS_ENTRY, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// The tags.
        descriptor: Descriptor = tagnet::types::TAGS,
        /// 1 if an earlier process of the router had this, and nobody has confirmed it since. The router withdraws it then.
        is_stale: Option<u64> = types::IS_STALE,
    }
}

element! {
    /// An entry of the dataset `strategy-choice/list`.
    StrategyChoice = types::STRATEGY_CHOICE, {
        /// The namespace.
        name: Name = tlv::types::NAME,
        /// The strategy's instance name.
        strategy: StrategyName = types::STRATEGY,
    }
}
