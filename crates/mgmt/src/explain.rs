//! Elements of the module `explain`, which other forwarders do not have.

use byname_wire::Name;
use byname_wire::tlv::types::NAME;

use crate::{StrategyName, element, types};

// Our own types. They are even, so that clients of other forwarders skip them.
const ROUTE_EXPLANATION: u64 = 400;
const HOME: u64 = 402;
const THREADS: u64 = 404;
const ROUTE_BEHIND: u64 = 406;
const IS_NEXTHOP: u64 = 408;
const IS_USED: u64 = 410;
const PARAMETER: u64 = 412;
const VALUE: u64 = 414;
const PREFERRED: u64 = 416;
const TURN: u64 = 418;
const RTT_US: u64 = 420;
const SILENT: u64 = 422;
const STORED_FRESH_FOR_MS: u64 = 426;
const STORED_BYTES: u64 = 428;
const STORED_BELOW: u64 = 430;
const SERVES: u64 = 432;
const PENDING: u64 = 434;
const SELECTORS: u64 = 436;
const EXPIRES_IN_MS: u64 = 438;
const DOWNSTREAM: u64 = 440;
const FURTHER: u64 = 442;
const UPSTREAM: u64 = 444;
const SINCE_MS: u64 = 446;
const NACK_REASON: u64 = 448;
const STRATEGY_PREFIX: u64 = 450;
const RULE: u64 = 452;
const RULE_LABEL: u64 = 454;

/// Values of [`Preferred::turn`].
pub mod turn {
    /// A new Interest goes there at once.
    pub const FIRST: u64 = 0;
    /// A new Interest goes to one of these by chance.
    pub const AT_RANDOM: u64 = 1;
    /// It is used after others.
    pub const LATER: u64 = 2;
    /// It is not used.
    pub const NEVER: u64 = 3;
}

/// Bits of [`Pending::selectors`].
pub mod selectors {
    /// CanBePrefix.
    pub const CAN_BE_PREFIX: u64 = 1;
    /// MustBeFresh.
    pub const MUST_BE_FRESH: u64 = 2;
}

element! {
    /// The dataset `explain/route/<Name>`: where an Interest would go now.
    RouteExplanation = ROUTE_EXPLANATION, {
        /// The name.
        name: Name = NAME,
        /// Number of the packet thread that is the name's home.
        home: u64 = HOME,
        /// Number of packet threads.
        threads: u64 = THREADS,
        /// Prefix of the FIB rule that matches. Absent: no rule does.
        rule: Option<Name> = RULE,
        /// The label, if the rule is a name of a flat namespace, or of another node of a partition: it forwards as the
        /// route of this name does.
        label: Option<Name> = RULE_LABEL,
        /// The routes behind the rule, or behind its label.
        routes: Vec<RouteBehind> = ROUTE_BEHIND,
        /// The prefix that chose the strategy.
        strategy_prefix: Name = STRATEGY_PREFIX,
        /// Full name of the strategy.
        strategy: StrategyName = types::STRATEGY,
        /// The strategy's parameters.
        parameters: Vec<Parameter> = PARAMETER,
        /// The nexthops, in the order of the strategy.
        nexthops: Vec<Preferred> = PREFERRED,
        /// Size of the Data of this name in the content store. Absent: there is none.
        stored_bytes: Option<u64> = STORED_BYTES,
        /// How long this Data stays fresh; 0 if it is stale.
        stored_fresh_for_ms: Option<u64> = STORED_FRESH_FOR_MS,
        /// 1 if there is Data of this name or below, 0 if not. Absent: unknown.
        stored_below: Option<u64> = STORED_BELOW,
        /// 1 if the content store answers Interests.
        serves: u64 = SERVES,
        /// Pending Interests of this name.
        pending: Vec<Pending> = PENDING,
    }
}

element! {
    /// A route behind the rule.
    RouteBehind = ROUTE_BEHIND, {
        /// Its own prefix: that of the rule, or a shorter one from which the rule inherits.
        name: Name = NAME,
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// Origin; see [`crate::origin`].
        origin: u64 = types::ORIGIN,
        /// Cost.
        cost: u64 = types::COST,
        /// See [`crate::route_flags`].
        flags: u64 = types::FLAGS,
        /// Remaining lifetime in ms. Absent: forever.
        expiration_period_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// 1 if nobody has confirmed it since a restart.
        is_stale: Option<u64> = types::IS_STALE,
        /// 1 if a `fib` command set it; it has no origin then.
        is_nexthop: Option<u64> = IS_NEXTHOP,
        /// 1 if the rule has its nexthop from this route, and not from another one to the same face.
        is_used: u64 = IS_USED,
    }
}

element! {
    /// A parameter of a strategy.
    Parameter = PARAMETER, {
        /// Its name.
        name: String = types::LABEL,
        /// Its value.
        value: String = VALUE,
    }
}

element! {
    /// A nexthop as its strategy sees it.
    Preferred = PREFERRED, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// Cost.
        cost: u64 = types::COST,
        /// See [`turn`].
        turn: u64 = TURN,
        /// Smoothed round-trip time in µs, if measured.
        rtt_us: Option<u64> = RTT_US,
        /// Interests in a row that it left unanswered, if counted.
        silent: Option<u64> = SILENT,
    }
}

element! {
    /// A pending Interest.
    Pending = PENDING, {
        /// See [`selectors`].
        selectors: u64 = SELECTORS,
        /// When it leaves the PIT.
        expires_in_ms: u64 = EXPIRES_IN_MS,
        /// Faces that wait.
        downstreams: Vec<Downstream> = DOWNSTREAM,
        /// Number of downstreams that are not listed.
        further: u64 = FURTHER,
        /// Faces that were asked.
        upstreams: Vec<Upstream> = UPSTREAM,
    }
}

element! {
    /// A face that waits for Data.
    Downstream = DOWNSTREAM, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// How long it still waits.
        expires_in_ms: u64 = EXPIRES_IN_MS,
    }
}

element! {
    /// A face that was asked.
    Upstream = UPSTREAM, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// Time since it was asked last.
        since_ms: u64 = SINCE_MS,
        /// Reason of its Nack, as in NDNLPv2, if it refused.
        nack: Option<u64> = NACK_REASON,
    }
}
