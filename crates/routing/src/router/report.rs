//! Status and explanations.

use byname_wire::{FaceId, Name, NameRef};

use crate::explain::{ExitReason, Explanation, LocalExit, WayReason, WayUse};
use crate::ids::{PrefixId, RouterId, SELF};
use crate::link::{Link, Standing};
use crate::neighbours::Neighbour;
use crate::policy::{PolicyRule, Ruling, Verdict};
use crate::prefixes::{Installed, Prefix};
use crate::rib::{cannot_lead_back, is_alternative};
use crate::routers::Known;
use crate::status::{LinkStatus, NeighbourStatus, NexthopStatus, PrefixStatus, RouterStatus, Status};

use crate::trees::Changes;

use super::Router;
use super::publications::may_announce;
use super::routes::PrefixWay;

impl Router {
    /// What this router knows, without prefixes.
    pub fn status(&self) -> Status {
        let mut counters = self.counters;
        counters.retries = self.fetcher.retries;
        let mut neighbours: Vec<NeighbourStatus> =
            self.neighbours.iter().map(|(id, neighbour)| self.neighbour_status(*id, neighbour)).collect();
        neighbours.sort_by(|a, b| a.router.cmp(&b.router));
        let tree_changes = self.tree_changes().iter().fold(Changes::default(), |sum, of| Changes {
            roots: sum.roots + of.roots,
            parents: sum.parents + of.parents,
            labels: sum.labels + of.labels,
        });
        let others = self.routers.iter().filter(|(id, _)| *id != SELF);
        Status {
            network: self.config.network.clone(),
            router: self.config.router.clone(),
            boot: self.config.boot,
            advertisement: self.advertisement_seq,
            publication: self.publication_seq,
            neighbours,
            routers: others.map(|(_, known)| self.router_status(known)).collect(),
            local_prefixes: self.local.told(),
            prefixes: self.prefixes.len(),
            fib_entries: self.prefixes.installed(),
            tree_changes,
            trees: self.places().iter().filter(|place| place.label.is_some()).count(),
            counters,
        }
    }

    fn neighbour_status(&self, id: RouterId, neighbour: &Neighbour) -> NeighbourStatus {
        NeighbourStatus {
            router: self.routers.name(id).to_name(),
            advertisement: neighbour.claimed,
            entries: neighbour.used.map(|_| neighbour.told.len()),
            // One at rest only serves to find neighbours.
            links: neighbour
                .links
                .iter()
                .filter(|link| !link.is_at_rest)
                .map(|link| self.link_status(id, link))
                .collect(),
            reaches: self.reaches(neighbour),
        }
    }

    /// The routers that a neighbour says to reach by links of its own.
    fn reaches(&self, neighbour: &Neighbour) -> Vec<(Name, u64)> {
        let linked = neighbour.told.iter().filter(|(_, told)| told.is_linked);
        let mut reaches: Vec<(Name, u64)> =
            linked.map(|(router, told)| (self.routers.name(router).to_name(), u64::from(told.cost))).collect();
        reaches.sort();
        reaches
    }

    fn link_status(&self, id: RouterId, link: &Link) -> LinkStatus {
        let now_ms = self.now_ms();
        let name = self.routers.name(id);
        let added = match self.config.policy.added_cost(name, name).verdict {
            Verdict::Cost(cost) => cost,
            Verdict::Permit | Verdict::Deny => 0,
        };
        LinkStatus {
            face: link.face,
            uri: link.uri.clone(),
            is_active: link.is_active,
            cost: link.cost + added,
            hello: link.session.state(),
            is_used: link.standing == Standing::Used,
            damped_ms: link.damped_ms(&self.config, now_ms),
            downs: link.downs,
            last_down: link.last_down,
            heard_ms: link.heard_ms(now_ms),
        }
    }

    fn router_status(&self, known: &Known) -> RouterStatus {
        let best = known.best.map(|best| best.cost);
        let mut nexthops = Vec::new();
        for way in &known.ways {
            let is_best = Some(way.cost()) == best;
            if !is_best && !best.is_some_and(|best| is_alternative(self.config.alternatives, way.told, best)) {
                continue;
            }
            let neighbour = self.routers.name(way.neighbour).to_name();
            for face in self.faces(way.neighbour) {
                nexthops.push(NexthopStatus { neighbour: neighbour.clone(), face, cost: way.cost(), is_best });
            }
        }
        nexthops.sort_by_key(|nexthop| (nexthop.cost, nexthop.face));
        RouterStatus {
            router: Name::clone(&known.name),
            cost: best,
            nexthops,
            publications: known.publisher.current().unwrap_or((0, 0, 0)),
            prefixes: known.prefixes.len() + known.stale.len(),
            outside_rights: known.outside.len(),
            is_stale: !known.stale.is_empty(),
        }
    }

    fn faces(&self, neighbour: RouterId) -> Vec<FaceId> {
        self.neighbours.get(&neighbour).into_iter().flat_map(|state| state.used_links()).map(|link| link.face).collect()
    }

    /// The prefixes after `after`, in order, at most `max`.
    pub fn prefixes(&self, after: Option<NameRef<'_>>, max: usize) -> Vec<PrefixStatus> {
        let is_announced = |(id, prefix): &(PrefixId, &Prefix)| !self.is_control(*id, prefix);
        self.prefixes
            .after(after)
            .filter(is_announced)
            .take(max)
            .map(|(_, prefix)| self.prefix_status(prefix))
            .collect()
    }

    /// Whether a prefix is known because of its router only, which does not announce it.
    fn is_control(&self, id: PrefixId, prefix: &Prefix) -> bool {
        let is_silent =
            |known: &Known| known.control.contains(&id) && !known.prefixes.contains(&id) && !known.stale.contains(&id);
        matches!(prefix.exits[..], [exit] if is_silent(self.routers.get(exit.router)))
    }

    fn prefix_status(&self, prefix: &Prefix) -> PrefixStatus {
        let exit = |exit: &crate::prefixes::Exit| (self.routers.name(exit.router).to_name(), exit.cost);
        PrefixStatus {
            prefix: Name::clone(&prefix.name),
            exits: prefix.exits.iter().map(exit).collect(),
            nexthops: prefix.installed.iter().flat_map(Installed::routes).collect(),
        }
    }

    /// Why a name goes where it goes.
    pub fn explain(&self, name: NameRef<'_>) -> Explanation {
        let mut explanation = Explanation {
            name: name.to_name(),
            prefix: None,
            local: None,
            exits: Vec::new(),
            outside_rights: self.outside_rights(name),
            ways: Vec::new(),
            installed: Vec::new(),
        };
        let announced = |depth: usize| {
            let prefix = name.prefix(depth).to_name();
            let id = self.prefixes.find(&prefix)?;
            (!self.is_control(id, self.prefixes.get(id))).then_some((prefix, id))
        };
        let Some((prefix, id)) = (0..=name.len()).rev().find_map(announced) else { return explanation };
        explanation.local = self.local_exit(&prefix);
        let entry = self.prefixes.get(id);
        let others = entry.exits.iter().filter(|exit| exit.router != SELF);
        explanation.exits = others.map(|exit| self.exit_reason(id, &prefix, exit)).collect();
        let ways = self.prefix_ways(id);
        let cost = self.prefix_cost(id, &ways);
        explanation.ways = ways.iter().map(|way| self.way_reason(way, cost)).collect();
        explanation.ways.sort_by(|a, b| (a.cost, &a.neighbour).cmp(&(b.cost, &b.neighbour)));
        explanation.installed = entry.installed.iter().flat_map(Installed::routes).collect();
        explanation.prefix = Some(prefix);
        explanation
    }

    /// The routers that announce a prefix of this name and may not, each with the longest such prefix.
    fn outside_rights(&self, name: NameRef<'_>) -> Vec<(Name, Name)> {
        let longest = |known: &Known| {
            let outside = known.outside.iter().filter(|prefix| prefix.as_ref().is_prefix_of(&name));
            outside.max_by_key(|prefix| prefix.as_ref().len()).cloned()
        };
        let of = |(_, known): (RouterId, &Known)| Some((Name::clone(&known.name), longest(known)?));
        self.routers.iter().filter_map(of).collect()
    }

    fn rule(&self, ruling: Ruling) -> Option<PolicyRule> {
        ruling.rule.and_then(|place| self.config.policy.rules().get(place).cloned())
    }

    fn local_exit(&self, prefix: &Name) -> Option<LocalExit> {
        let local = self.local.find(prefix)?;
        let ruling = self.config.policy.announces(prefix.as_ref());
        let is_within_rights = may_announce(&self.config.rights, self.config.router.as_ref(), prefix.as_ref());
        Some(LocalExit {
            faces: local.faces.clone(),
            is_announced: ruling.permits() && is_within_rights,
            is_within_rights,
            rule: self.rule(ruling),
        })
    }

    fn exit_reason(&self, id: PrefixId, prefix: &Name, exit: &crate::prefixes::Exit) -> ExitReason {
        let known = self.routers.get(exit.router);
        let ruling = self.config.policy.accepts(prefix.as_ref(), known.name.as_ref().as_ref());
        ExitReason {
            router: Name::clone(&known.name),
            announced_cost: exit.cost,
            router_cost: known.best.map(|best| best.cost),
            is_stale: known.stale.contains(&id),
            is_accepted: ruling.permits(),
            rule: self.rule(ruling),
        }
    }

    fn way_reason(&self, way: &PrefixWay, best: u64) -> WayReason {
        let neighbour = self.routers.name(way.way.neighbour);
        let exit = self.routers.name(way.exit.router);
        let added = self.config.policy.added_cost(exit, neighbour);
        let denial = Ruling { verdict: Verdict::Deny, rule: way.rule };
        let used = match way.is_permitted {
            false => WayUse::Denied,
            true if way.cost() == best => WayUse::Best,
            true if is_alternative(self.config.alternatives, way.told(), best) => WayUse::Alternative,
            true if !cannot_lead_back(way.told(), best) => WayUse::MayLoop,
            true => WayUse::NotWanted,
        };
        WayReason {
            faces: self.faces(way.way.neighbour),
            neighbour: neighbour.to_name(),
            exit: exit.to_name(),
            told_cost: way.way.told,
            link_cost: way.way.link,
            added_cost: way.way.added,
            cost: way.cost(),
            used,
            rule: self.rule(if way.is_permitted { added } else { denial }),
        }
    }
}
