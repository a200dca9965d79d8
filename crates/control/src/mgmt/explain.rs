//! The dataset `explain/route/<Name>`: where an Interest for a name would go now, and why.
//!
//! The component after the verb is a Name element. The name's home thread answers between two bursts.

use std::time::Duration;

use byname_face::Explained;
use byname_forward::explain::PendingInterest;
use byname_forward::strategy::{Preferred, Turn};
use byname_wire::tlv::{self as wire_tlv, types::NAME};
use byname_wire::{DecodeError, Name, NameRef};

use super::tlv::explain::{self, RouteExplanation, selectors, turn};
use super::tlv::{ControlResponse, StrategyName};
use super::{Management, Moment};

/// The name in the component after the verb.
fn asked(component: &[u8]) -> Result<Name, DecodeError> {
    Ok(NameRef::new(wire_tlv::decode_only(component, NAME)?)?.to_name())
}

impl Management {
    /// The content of the dataset.
    pub(super) fn explain_route(&self, component: &[u8], now: Moment) -> Result<RouteExplanation, ControlResponse> {
        let name = asked(component).map_err(|error| ControlResponse::new(400, format!("Malformed name: {error}")))?;
        let explained = self.forwarder.explain(&name);
        let Explained { home, explanation: known } =
            explained.ok_or_else(|| ControlResponse::new(503, "The forwarder is shutting down"))?;
        let prefix = known.rule_depth.map(|depth| name.as_ref().prefix(depth));
        let label = known.label.as_ref().map(Name::as_ref);
        let routes = label.or(prefix).map(|prefix| self.rib.behind(prefix)).unwrap_or_default();
        let route = |behind: crate::rib::RouteBehind| explain::RouteBehind {
            face_id: behind.route.face.0,
            origin: behind.route.origin,
            cost: behind.route.cost,
            flags: behind.route.flags,
            expiration_period_ms: behind.route.expires_at_ms.map(|at| at.saturating_sub(now.ms)),
            is_stale: behind.is_stale.then_some(1),
            is_nexthop: behind.is_nexthop.then_some(1),
            is_used: behind.is_used.into(),
            name: behind.name,
        };
        let parameter = |(name, value): (&str, String)| explain::Parameter { name: name.to_owned(), value };
        Ok(RouteExplanation {
            home: home as u64,
            threads: self.forwarder.threads() as u64,
            rule: prefix.map(|prefix| prefix.to_name()),
            label: known.label.clone(),
            routes: routes.into_iter().map(route).collect(),
            strategy_prefix: self.strategies.covering(name.as_ref()),
            strategy: StrategyName(known.strategy),
            parameters: known.parameters.into_iter().map(parameter).collect(),
            nexthops: known.nexthops.iter().map(preferred).collect(),
            stored_bytes: known.stored.map(|data| data.bytes as u64),
            stored_fresh_for_ms: known.stored.map(|data| ms(data.fresh_for)),
            stored_below: known.stored_below.map(u64::from),
            serves: known.serves.into(),
            pending: known.pending.iter().map(pending).collect(),
            name,
        })
    }
}

fn preferred(nexthop: &Preferred) -> explain::Preferred {
    explain::Preferred {
        face_id: nexthop.face.0,
        cost: nexthop.cost,
        turn: match nexthop.turn {
            Turn::First => turn::FIRST,
            Turn::AtRandom => turn::AT_RANDOM,
            Turn::Later => turn::LATER,
            Turn::Never => turn::NEVER,
        },
        rtt_us: nexthop.rtt.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
        silent: (nexthop.silent > 0).then_some(nexthop.silent.into()),
    }
}

fn pending(interest: &PendingInterest) -> explain::Pending {
    let flags =
        [(interest.can_be_prefix, selectors::CAN_BE_PREFIX), (interest.must_be_fresh, selectors::MUST_BE_FRESH)];
    explain::Pending {
        selectors: flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum(),
        expires_in_ms: ms(interest.expires_in),
        downstreams: interest
            .downstreams
            .iter()
            .map(|(face, left)| explain::Downstream { face_id: face.0, expires_in_ms: ms(*left) })
            .collect(),
        further: interest.further_downstreams as u64,
        upstreams: interest
            .upstreams
            .iter()
            .map(|asked| explain::Upstream {
                face_id: asked.face.0,
                since_ms: ms(asked.since),
                nack: asked.nacked.map(|reason| reason.number()),
            })
            .collect(),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
