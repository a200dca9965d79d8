//! Parses lines about routes without clap, which takes longer for a line than the router for the command.
//!
//! This parser understands only usual lines. It leaves all others to clap, which explains what is wrong with them.

use byname_control::mgmt::json::parse_origin;
use byname_control::mgmt::tlv::{ControlParameters, origin};
use byname_wire::Name;

use crate::in_flight::Request;
use crate::manage::face_uri::{FaceSelector, parse_selector};
use crate::manage::route::{AddArgs, RemoveArgs};
use crate::tools::parse_name;

/// A change of one route.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// `route add`.
    Add(AddArgs),
    /// `route remove`.
    Remove(RemoveArgs),
}

impl Change {
    /// Prefix and origin of the route.
    pub fn route(&self) -> (&Name, u64) {
        match self {
            Change::Add(args) => (&args.prefix, args.origin),
            Change::Remove(args) => (&args.prefix, args.origin),
        }
    }

    /// Id or remote URI of the route's face.
    pub fn nexthop(&self) -> &FaceSelector {
        match self {
            Change::Add(args) => &args.nexthop,
            Change::Remove(args) => &args.nexthop,
        }
    }
}

/// A change of a route through one face.
pub struct OfFace {
    /// The change.
    pub change: Change,
    /// Id of the face.
    pub face_id: u64,
}

impl Request for OfFace {
    /// Face, prefix and origin of the route.
    type About = (u64, Name, u64);

    fn about(&self) -> Self::About {
        let (prefix, origin) = self.change.route();
        (self.face_id, prefix.clone(), origin)
    }

    fn name(&self) -> &Name {
        self.change.route().0
    }

    fn command(&self) -> (&'static str, &'static str) {
        match self.change {
            Change::Add(_) => ("rib", "register"),
            Change::Remove(_) => ("rib", "unregister"),
        }
    }

    fn parameters(&self) -> ControlParameters {
        match &self.change {
            Change::Add(args) => args.parameters(self.face_id),
            Change::Remove(args) => args.parameters(self.face_id),
        }
    }
}

/// The change that these words ask for, in byname's syntax or nfdc's. `None` leaves the words to clap.
pub fn route_change(words: &[&str]) -> Option<Change> {
    let ["route", verb @ ("add" | "remove"), words @ ..] = words else { return None };
    let adds = *verb == "add";
    let (mut prefix, mut nexthop, mut unnamed) = (None, None, Vec::new());
    let (mut cost, mut source, mut expires) = (None, None, None);
    let (mut no_inherit, mut capture) = (false, false);
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "prefix" if prefix.is_none() => prefix = Some(words.next()?),
            "nexthop" if nexthop.is_none() => nexthop = Some(words.next()?),
            "origin" | "--origin" if source.is_none() => source = Some(parse_origin(words.next()?).ok()?),
            "cost" | "--cost" if adds && cost.is_none() => cost = Some(words.next()?.parse().ok()?),
            "expires" | "--expires" if adds && expires.is_none() => expires = Some(words.next()?.parse().ok()?),
            "no-inherit" | "--no-inherit" if adds && !no_inherit => no_inherit = true,
            "capture" | "--capture" if adds && !capture => capture = true,
            word if word.starts_with('-') => return None,
            word => unnamed.push(word),
        }
    }
    let mut unnamed = unnamed.into_iter();
    let prefix = parse_name(prefix.or_else(|| unnamed.next())?).ok()?;
    let nexthop = parse_selector(nexthop.or_else(|| unnamed.next())?).ok()?;
    if unnamed.next().is_some() {
        return None;
    }
    let (origin, json) = (source.unwrap_or(origin::STATIC), false);
    Some(if adds {
        Change::Add(AddArgs { prefix, nexthop, cost: cost.unwrap_or(0), origin, no_inherit, capture, expires, json })
    } else {
        Change::Remove(RemoveArgs { prefix, nexthop, origin, json })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::parsed_by_clap;
    use crate::manage::{Command, route};

    fn by_clap(words: &[&str]) -> Option<Change> {
        let Command::Route(args) = parsed_by_clap(words).ok()? else { return None };
        match args.command? {
            route::Command::Add(args) => Some(Change::Add(args)),
            route::Command::Remove(args) => Some(Change::Remove(args)),
            _ => None,
        }
    }

    #[test]
    fn what_it_understands_means_the_same_to_clap() {
        for line in [
            "route add /a 300",
            "route add prefix /a nexthop 300 cost 5",
            "route add nexthop 300 prefix /a",
            "route add nexthop 300 /a",
            "route add /a nexthop udp://192.0.2.1 origin nlsr",
            "route add /a 300 --cost 7 --origin 65 --expires 1000 --no-inherit --capture",
            "route add /a no-inherit 300 capture",
            "route add --capture /%00%2F 300",
            "route remove /a 300",
            "route remove prefix /a nexthop udp4://192.0.2.1:6363 origin app",
            "route remove --origin static ndn:/a 300",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let direct = route_change(&words);
            assert!(direct.is_some(), "{line}");
            assert_eq!(direct, by_clap(&words), "{line}");
        }
    }

    #[test]
    fn it_leaves_other_lines_to_clap() {
        for line in [
            "route add /a",
            "route add a 300",
            "route add /a 300 400",
            "route add /a 300 cost",
            "route add /a 300 cost x",
            "route add /a 300 cost 1 cost 2",
            "route add /a 300 --json",
            "route remove /a 300 cost 5",
            "route list",
            "face list",
            "",
        ] {
            assert_eq!(route_change(&line.split(' ').collect::<Vec<_>>()), None, "{line}");
        }
    }
}
