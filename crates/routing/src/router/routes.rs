//! From ways to routes: which neighbours lead to a router, and which faces to a prefix.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::{FaceId, Name, NameRef};

use crate::action::Action;
use crate::config::is_router_of;
use crate::ids::{Group, PrefixId, RouterId, SELF};
use crate::note::Note;
use crate::policy::Verdict;
use crate::prefixes::{Exit, Installed};
use crate::rib::{INFINITY, Way, is_alternative};
use crate::routers::{Best, Known};

use super::Router;

/// The cost of a prefix that is not reachable, as in ndn-dv.
pub(super) const PREFIX_INFINITY: u64 = 0xffff_ffff;
/// Most prefixes whose routes are computed before the next event is looked at.
const PREFIXES_AT_ONCE: usize = 16_384;

/// A router that was told of so recently is not forgotten for another.
const JUST_NOW_MS: u64 = 1_000;

/// A way to a prefix, through a neighbour to a router that announces it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixWay {
    pub(super) exit: Exit,
    pub(super) way: Way,
    pub(super) is_permitted: bool,
    pub(super) rule: Option<usize>,
}

impl PrefixWay {
    pub(super) fn cost(&self) -> u64 {
        self.way.cost().saturating_add(self.exit.cost)
    }

    pub(super) fn told(&self) -> u64 {
        self.way.told.saturating_add(self.exit.cost)
    }
}

impl Router {
    /// The number of a router of the network. A new one is taken if there is room.
    pub(super) fn admit_router(&mut self, name: NameRef<'_>, told_by: Option<RouterId>) -> Option<RouterId> {
        if let Some(id) = self.routers.find(name) {
            return Some(id);
        }
        if !is_router_of(self.config.network.as_ref(), name) {
            self.malformed();
            return None;
        }
        if self.routers.len() > self.config.limits.routers && !self.make_room(told_by) {
            self.counters.over_limit += 1;
            return None;
        }
        let now_ms = self.now_ms();
        Some(self.routers.insert(name, told_by, now_ms))
    }

    /// How many more routers a neighbour may tell of. If the table is full, each neighbour has its share.
    pub(super) fn room_for_routers(&self, neighbour: RouterId) -> usize {
        let max = self.config.limits.routers;
        let free = (max + 1).saturating_sub(self.routers.len());
        let told = self.routers.iter().filter(|(_, known)| known.told_by == Some(neighbour)).count();
        free.max((max / self.neighbours.len().max(1)).saturating_sub(told))
    }

    /// Forgets a router: one that is not reachable, or one of the neighbour that told of the most.
    fn make_room(&mut self, told_by: Option<RouterId>) -> bool {
        let now_ms = self.now_ms();
        // One that was told of just now will be reachable once its ways are computed.
        let is_free = |(id, known): &(RouterId, &Known)| {
            let is_old = now_ms.saturating_sub(known.unreachable_since_ms) > JUST_NOW_MS;
            *id != SELF && !self.neighbours.contains_key(id) && known.best.is_none() && is_old
        };
        let unreachable = self.routers.iter().filter(is_free).min_by_key(|(_, known)| known.unreachable_since_ms);
        if let Some((id, _)) = unreachable {
            self.forget_router(id);
            return true;
        }
        let mut counts: BTreeMap<RouterId, usize> = BTreeMap::new();
        for (_, known) in self.routers.iter() {
            known.told_by.into_iter().for_each(|teller| *counts.entry(teller).or_default() += 1);
        }
        let own = told_by.and_then(|teller| counts.get(&teller).copied()).unwrap_or(0);
        let Some((heaviest, most)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return false };
        if most <= own + 1 {
            return false;
        }
        // Those that have never published anything may not exist.
        let candidates = self
            .routers
            .iter()
            .filter(|(id, known)| known.told_by == Some(heaviest) && !self.neighbours.contains_key(id));
        let is_proven = |known: &Known| known.publisher.current().is_some_and(|(.., applied)| applied > 0);
        let victim = candidates.min_by_key(|(id, known)| (is_proven(known), std::cmp::Reverse(*id))).map(|(id, _)| id);
        victim.into_iter().for_each(|id| self.forget_router(id));
        victim.is_some()
    }

    /// Forgets all of a router.
    pub(super) fn forget_router(&mut self, id: RouterId) {
        self.fetcher.cancel(|purpose| purpose.router() == id);
        for neighbour in self.neighbours.values_mut() {
            neighbour.told.remove(id);
            neighbour.stale.remove(&id);
        }
        let known = self.routers.get_mut(id);
        let had_best = known.best.take().is_some();
        let mut prefixes = std::mem::take(&mut known.prefixes);
        prefixes.append(&mut known.stale);
        prefixes.extend(std::mem::take(&mut known.control));
        for prefix in prefixes {
            self.prefixes.remove_exit(prefix, id);
            self.dirty_prefixes.insert(prefix);
        }
        self.forget_heard(id);
        self.lacking.retain(|(router, _)| *router != id);
        self.alarms.retain(|(_, router)| *router != id);
        self.dirty_routers.remove(&id);
        self.routers.remove(id);
        if had_best {
            self.advertise_soon();
        }
    }

    /// All ways to a router, by neighbour.
    fn ways(&self, id: RouterId) -> Vec<Way> {
        let origin = self.routers.name(id);
        let way = |(neighbour, state): (&RouterId, &crate::neighbours::Neighbour)| {
            let told = state.told_cost(id)?;
            let added = match self.config.policy.added_cost(origin, self.routers.name(*neighbour)).verdict {
                Verdict::Cost(cost) => cost,
                Verdict::Permit | Verdict::Deny => 0,
            };
            let link = state.link_cost(told.saturating_add(added))?;
            Some(Way { neighbour: *neighbour, told, link, added }).filter(|way| way.cost() < INFINITY)
        };
        self.neighbours.iter().filter_map(way).collect()
    }

    fn best(&self, ways: &[Way]) -> Option<Best> {
        // Ties are broken by name, and always in the same way.
        let key = |way: &&Way| (way.cost(), self.routers.name(way.neighbour));
        let best = ways.iter().min_by_key(key)?;
        let others = ways.iter().filter(|way| way.neighbour != best.neighbour);
        let other_cost = others.map(Way::cost).min().unwrap_or(INFINITY);
        Some(Best { cost: best.cost(), nexthop: best.neighbour, other_cost })
    }

    /// The faces of some neighbours, each with its lowest cost, best first.
    fn group(&self, ways: impl IntoIterator<Item = (RouterId, u64)>) -> Group {
        let mut faces: BTreeMap<FaceId, u64> = BTreeMap::new();
        for (neighbour, cost) in ways {
            for link in self.neighbours.get(&neighbour).into_iter().flat_map(|state| state.used_links()) {
                let known = faces.entry(link.face).or_insert(cost);
                *known = cost.min(*known);
            }
        }
        let mut group: Vec<(FaceId, u64)> = faces.into_iter().collect();
        group.sort_by_key(|(face, cost)| (*cost, *face));
        group.into()
    }

    /// Computes ways and routes anew where something has changed.
    pub(super) fn update_routes(&mut self) {
        for id in std::mem::take(&mut self.dirty_routers) {
            self.update_router(id);
        }
        for _ in 0..PREFIXES_AT_ONCE {
            let Some(id) = self.dirty_prefixes.pop_first() else { break };
            if self.prefixes.contains(id) {
                self.update_prefix(id);
            }
        }
    }

    fn update_router(&mut self, id: RouterId) {
        let ways = self.ways(id);
        let best = self.best(&ways);
        let cost = best.map_or(0, |best| best.cost);
        let is_used = |way: &&Way| way.cost() == cost || is_alternative(self.config.alternatives, way.told, cost);
        let group = self.group(ways.iter().filter(is_used).map(|way| (way.neighbour, way.cost())));
        let now_ms = self.now_ms();
        let known = self.routers.get_mut(id);
        let are_new_ways = known.ways != ways;
        let is_new_group = known.group != group;
        let before = std::mem::replace(&mut known.best, best);
        known.ways = ways;
        if is_new_group {
            known.group = group;
        }
        if is_new_group || before.is_some() != best.is_some() {
            self.dirty_prefixes.extend(known.prefixes.iter().chain(&known.stale).chain(&known.control));
        } else if are_new_ways {
            let prefixes = &self.prefixes;
            let may_differ = self.config.policy.has_rules_for_ways();
            let differs = |prefix: &&PrefixId| may_differ || prefixes.get(**prefix).exits.len() > 1;
            let all = known.prefixes.iter().chain(&known.stale).chain(&known.control);
            self.dirty_prefixes.extend(all.filter(differs));
        }
        if before != best {
            self.advertise_soon();
        }
        match (before, best) {
            (None, Some(_)) => self.on_reachable(id),
            (Some(_), None) => {
                self.routers.get_mut(id).unreachable_since_ms = now_ms;
                self.on_unreachable(id);
            }
            _ => {}
        }
    }

    fn on_reachable(&mut self, id: RouterId) {
        let router = self.routers.name(id).to_name();
        // Its publications have a route of their own.
        if self.routers.get(id).control.is_empty() {
            let publications = self.names.publications(router.as_ref());
            let own_name = self.names.routes_to_routers.then(|| router.clone());
            for name in [publications].into_iter().chain(own_name) {
                let control = self.prefixes.insert(&name);
                self.prefixes.set_exit(control, id, 0);
                self.routers.get_mut(id).control.push(control);
                self.dirty_prefixes.insert(control);
            }
        }
        self.note(Note::RouterReachable { router });
        self.fetch_publications(id);
    }

    fn on_unreachable(&mut self, id: RouterId) {
        let router = self.routers.name(id).to_name();
        self.note(Note::RouterUnreachable { router });
        self.fetcher.cancel(|purpose| {
            purpose.router() == id && !matches!(purpose, crate::fetcher::Purpose::Advertisement { .. })
        });
        self.routers.get_mut(id).publisher.stop();
    }

    /// A router announces a prefix no more.
    pub(super) fn withdraw_exit(&mut self, prefix: PrefixId, id: RouterId) {
        if self.routers.get(id).control.contains(&prefix) {
            self.prefixes.set_exit(prefix, id, 0);
        } else {
            self.prefixes.remove_exit(prefix, id);
        }
        self.dirty_prefixes.insert(prefix);
    }

    /// All ways to a prefix.
    pub(super) fn prefix_ways(&self, id: PrefixId) -> Vec<PrefixWay> {
        let prefix = self.prefixes.get(id);
        let mut ways = Vec::new();
        for exit in prefix.exits.iter().filter(|exit| exit.router != SELF) {
            let known = self.routers.get(exit.router);
            let origin = known.name.as_ref().as_ref();
            if exit.cost >= PREFIX_INFINITY
                || !self.config.policy.accepts(prefix.name.as_ref().as_ref(), origin).permits()
            {
                continue;
            }
            for way in &known.ways {
                let neighbour = self.routers.name(way.neighbour);
                let ruling = self.config.policy.accepts_through(prefix.name.as_ref().as_ref(), origin, neighbour);
                ways.push(PrefixWay { exit: *exit, way: *way, is_permitted: ruling.permits(), rule: ruling.rule });
            }
        }
        ways
    }

    /// The lowest cost of a prefix, with this host's applications. What others are told of its exits follows from it, so
    /// ways that are not permitted count, too.
    pub(super) fn prefix_cost(&self, id: PrefixId, ways: &[PrefixWay]) -> u64 {
        let local = self.prefixes.get(id).exits.iter().find(|exit| exit.router == SELF).map(|exit| exit.cost);
        ways.iter().map(PrefixWay::cost).chain(local).min().unwrap_or(u64::MAX)
    }

    /// The routes that a prefix should have.
    fn wanted(&self, id: PrefixId) -> Option<Installed> {
        let prefix = self.prefixes.get(id);
        if let [exit] = prefix.exits[..]
            && exit.router != SELF
            && !self.config.policy.has_rules_for_ways()
        {
            // Most prefixes share the nexthops of their router.
            let known = self.routers.get(exit.router);
            let is_control = known.control.contains(&id);
            let accepts =
                || self.config.policy.accepts(prefix.name.as_ref().as_ref(), known.name.as_ref().as_ref()).permits();
            let is_used = !known.group.is_empty() && exit.cost < PREFIX_INFINITY && (is_control || accepts());
            return is_used.then(|| Installed { group: Arc::clone(&known.group), added: exit.cost });
        }
        let ways = self.prefix_ways(id);
        let cost = self.prefix_cost(id, &ways);
        let is_used = |way: &&PrefixWay| {
            let is_best = way.cost() == cost;
            way.is_permitted && (is_best || is_alternative(self.config.alternatives, way.told(), cost))
        };
        let group = self.group(ways.iter().filter(is_used).map(|way| (way.way.neighbour, way.cost())));
        (!group.is_empty()).then_some(Installed { group, added: 0 })
    }

    /// Tells the forwarder what has changed for a prefix: first what is new, then what is gone.
    fn update_prefix(&mut self, id: PrefixId) {
        let wanted = self.wanted(id);
        let name = Name::clone(&self.prefixes.get(id).name);
        let before = self.prefixes.set_installed(id, wanted.clone());
        if before != wanted {
            let had: Vec<(FaceId, u64)> = before.iter().flat_map(Installed::routes).collect();
            let has: Vec<(FaceId, u64)> = wanted.iter().flat_map(Installed::routes).collect();
            for (face, cost) in has.iter().filter(|route| !had.contains(route)) {
                self.act(Action::Register { prefix: name.clone(), face: Some(*face), cost: *cost });
            }
            for (face, _) in had.iter().filter(|(face, _)| !has.iter().any(|(other, _)| other == face)) {
                self.act(Action::Unregister { prefix: name.clone(), face: Some(*face) });
            }
        }
        if let Some(leftover) = wanted.as_ref().and_then(|_| self.leftover.remove(&name)) {
            let is_kept = |face: &FaceId| wanted.iter().flat_map(Installed::routes).any(|(other, _)| other == *face);
            for face in leftover.into_keys().filter(|face| !is_kept(face)) {
                self.act(Action::Unregister { prefix: name.clone(), face: Some(face) });
            }
        }
        self.prefixes.remove_if_unused(id);
    }

    /// A route of an earlier run.
    pub(super) fn note_leftover(&mut self, prefix: Name, face: FaceId, cost: u64) {
        let installed = self.prefixes.find(&prefix).and_then(|id| self.prefixes.get(id).installed.as_ref());
        if installed.into_iter().flat_map(Installed::routes).any(|(used, _)| used == face) {
            return;
        }
        let is_known = self.leftover.contains_key(&prefix);
        if !is_known && self.leftover.len() >= self.config.limits.prefixes {
            self.counters.over_limit += 1;
            return self.act(Action::Unregister { prefix, face: Some(face) });
        }
        self.leftover.entry(prefix).or_default().insert(face, cost);
    }

    /// A route of an earlier run is one of this run, too.
    pub(super) fn confirm_leftover(&mut self, prefix: &Name, face: Option<FaceId>) {
        if let Some((face, faces)) = face.zip(self.leftover.get_mut(prefix)) {
            faces.remove(&face);
        }
    }

    /// Removes the routes of an earlier run that nothing has confirmed.
    pub(super) fn remove_leftovers(&mut self) {
        for (prefix, faces) in std::mem::take(&mut self.leftover) {
            for face in faces.into_keys() {
                self.act(Action::Unregister { prefix: prefix.clone(), face: Some(face) });
            }
        }
    }

    /// Removes all routes: the router stops.
    pub(super) fn remove_all_routes(&mut self) {
        for id in self.prefixes.ids() {
            let name = Name::clone(&self.prefixes.get(id).name);
            let before = self.prefixes.set_installed(id, None);
            for (face, _) in before.iter().flat_map(Installed::routes) {
                self.act(Action::Unregister { prefix: name.clone(), face: Some(face) });
            }
        }
        self.remove_leftovers();
        let links: Vec<(RouterId, FaceId)> = self
            .neighbours
            .iter()
            .flat_map(|(id, neighbour)| neighbour.links.iter().map(|link| (*id, link.face)))
            .collect();
        for (id, face) in links {
            let prefix = crate::names::neighbour_control(self.routers.name(id));
            self.act(Action::Unregister { prefix, face: Some(face) });
            self.act(Action::Unregister { prefix: self.names.prefix_sync.clone(), face: Some(face) });
        }
    }
}
