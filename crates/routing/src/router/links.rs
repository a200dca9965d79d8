//! The links to neighbours: they come with sync Interests, and go when they are silent.

use byname_wire::{FaceId, Name};
use rand::RngExt;

use crate::action::Action;
use crate::ids::RouterId;
use crate::link::hello::Session;
use crate::link::{Change, Link, Standing};
use crate::names;
use crate::neighbours::Neighbour;
use crate::note::{DownReason, Note};

use super::{MS_MAX, Router};

/// The network is told what this router knows so long after a link is used. Links that come together share that.
const SYNC_AFTER_LINK_MS: u64 = 1_000;

impl Router {
    /// A sync Interest arrived whose signature is right.
    pub(super) fn on_trusted_sync(&mut self, router: &Name, face: FaceId, is_active: bool, claimed: (u64, u64)) {
        self.counters.advertisement_syncs_in += 1;
        let Some(id) = self.admit_router(router.as_ref(), None) else { return };
        let before = self.routers.get(id).claimed;
        if claimed < before {
            // Somebody repeats what the neighbour said earlier. It does not show that the neighbour is alive.
            self.counters.replayed += 1;
            return;
        }
        if !self.neighbours.contains_key(&id) {
            if self.neighbours.len() >= self.config.limits.neighbours {
                self.counters.over_limit += 1;
                return self.note(Note::LimitReached { limit: "neighbours" });
            }
            self.neighbours.insert(id, Neighbour::new());
        }
        self.routers.get_mut(id).claimed = claimed;
        if !self.touch_link(id, face, is_active) {
            return;
        }
        let now_ms = self.now_ms();
        let neighbour = self.neighbours.get_mut(&id).expect("inserted above");
        if neighbour.claimed == claimed {
            return;
        }
        neighbour.claimed = claimed;
        neighbour.fetch_ms = Some(now_ms);
        let is_restart = before.0 != 0 && claimed.0 != before.0;
        if is_restart {
            neighbour.links.iter_mut().for_each(|link| link.session.begin_anew(now_ms));
            self.note(Note::RouterRestarted { router: router.clone(), boot: claimed.0 });
            // It has forgotten this router, and shall not wait for the next regular time.
            self.send_advertisement_syncs(Some(face));
        }
        self.poll_neighbours();
    }

    /// A neighbour was heard on a face. Returns whether it counts.
    fn touch_link(&mut self, id: RouterId, face: FaceId, is_active: bool) -> bool {
        let now_ms = self.now_ms();
        let links_max = self.config.limits.links_per_neighbour;
        let neighbour = self.neighbours.get_mut(&id).expect("the caller inserted it");
        if let Some(link) = neighbour.link_mut(face) {
            if link.is_active && !is_active {
                // If its active sync Interests stop, the link counts as silent, as in ndn-dv.
                return true;
            }
            link.is_active = is_active;
            link.synced_ms = now_ms;
            return true;
        }
        if neighbour.links.len() >= links_max {
            let unused = neighbour.links.iter().filter(|link| link.standing < Standing::Used);
            let unused = unused.min_by_key(|link| link.standing).map(|link| link.face);
            let Some(unused) = unused else {
                self.counters.over_limit += 1;
                return false;
            };
            self.remove_link(id, unused, DownReason::Removed);
        }
        let mut link = Link::new(face, self.new_session(id), now_ms);
        (link.is_active, link.is_group) = (is_active, self.multicast.contains(&face));
        if let Some((uri, cost)) = self.peer_of_face(face) {
            (link.uri, link.cost) = (Some(uri), cost);
        }
        if let Some(neighbour) = self.neighbours.get_mut(&id) {
            neighbour.links.push(link);
        }
        self.register_link(id, face);
        // The neighbour shall not wait for the next regular time.
        self.send_advertisement_syncs(Some(face));
        true
    }

    fn new_session(&mut self, id: RouterId) -> Session {
        let (discriminator, now_ms) = (self.random.random(), self.now_ms());
        let known = self.routers.get(id);
        // Sync Interests can be repeated by others, and hellos cannot.
        match known.greeted.filter(|greeted| self.config.hello.enabled && greeted.0 == known.claimed.0) {
            Some(last) => Session::with_speaker(discriminator, last, now_ms),
            None => Session::new(discriminator, now_ms),
        }
    }

    /// A link on a medium rests while the neighbour has a working link of its own, and is used again without one.
    fn settle_groups(&mut self) {
        let mut changes = Vec::new();
        for (id, neighbour) in &self.neighbours {
            let has_own = neighbour.links.iter().any(|link| !link.is_group && link.standing > Standing::Down);
            let to_change = neighbour.links.iter().filter(|link| link.is_group && link.is_at_rest != has_own);
            changes.extend(to_change.map(|link| (*id, link.face, has_own)));
        }
        for (id, face, rests) in changes {
            let session = self.new_session(id);
            let link = self.neighbours.get_mut(&id).and_then(|neighbour| neighbour.link_mut(face));
            let Some(link) = link else { continue };
            if rests {
                link.rest(session);
                self.unregister_link(id, face);
                self.mark_neighbour(id);
            } else {
                link.is_at_rest = false;
                self.register_link(id, face);
            }
        }
    }

    /// Routes that lead to the neighbour itself.
    fn register_link(&mut self, id: RouterId, face: FaceId) {
        let prefix = names::neighbour_control(self.routers.name(id));
        self.act(Action::Register { prefix, face: Some(face), cost: 0 });
        let prefix = self.names.prefix_sync.clone();
        self.act(Action::Register { prefix, face: Some(face), cost: 0 });
    }

    fn unregister_link(&mut self, id: RouterId, face: FaceId) {
        let prefix = names::neighbour_control(self.routers.name(id));
        self.act(Action::Unregister { prefix, face: Some(face) });
        let is_needed = |link: &Link| !link.is_at_rest;
        if !self.neighbours.values().any(|neighbour| neighbour.link(face).is_some_and(is_needed)) {
            let prefix = self.names.prefix_sync.clone();
            self.act(Action::Unregister { prefix, face: Some(face) });
        }
    }

    /// Looks at all links: what went down, and what may be used again. Returns whether one that was used went down.
    pub(super) fn update_links(&mut self) -> bool {
        let now_ms = self.now_ms();
        let mut changes = Vec::new();
        let mut silent = Vec::new();
        for (id, neighbour) in &mut self.neighbours {
            for link in &mut neighbour.links {
                if let Some(change) = link.update(&self.config, now_ms) {
                    changes.push((*id, link.face, change));
                }
                if now_ms >= link.silent_at_ms(&self.config) {
                    silent.push((*id, link.face));
                }
            }
        }
        let is_cut = changes.iter().any(|(.., change)| matches!(change, Change::Down(_)));
        for (id, face, change) in changes {
            self.on_link_changed(id, face, change);
        }
        for (id, face) in silent {
            self.remove_link(id, face, DownReason::Silent);
        }
        self.settle_groups();
        is_cut
    }

    fn on_link_changed(&mut self, id: RouterId, face: FaceId, change: Change) {
        let router = self.routers.name(id).to_name();
        match change {
            Change::Down(why) => {
                self.counters.links_down += 1;
                self.suspend(face);
                self.note(Note::LinkDown { router, face, why });
                self.mark_neighbour(id);
            }
            Change::Doubted => self.suspend(face),
            Change::Trusted => self.act(Action::Resume { face }),
            Change::Held { damped_ms } => {
                if let Some(for_ms) = damped_ms {
                    self.counters.links_damped += 1;
                    self.note(Note::LinkDamped { router, face, for_ms });
                }
                self.act(Action::Resume { face });
                self.mark_neighbour(id);
                self.send_advertisement_syncs(Some(face));
            }
            Change::Used => {
                let downs =
                    self.neighbours.get(&id).and_then(|neighbour| neighbour.link(face)).map_or(0, |link| link.downs);
                self.act(Action::Resume { face });
                self.note(match downs {
                    0 => Note::LinkUp { router, face },
                    _ => Note::LinkReleased { router, face },
                });
                self.mark_neighbour(id);
                self.send_advertisement_syncs(Some(face));
                self.send_prefix_sync(Some(face));
                let at = self.now_ms() + SYNC_AFTER_LINK_MS;
                self.sync_timer.send_by(at);
            }
        }
    }

    /// The forwarder uses other nexthops where it has some, unless another neighbour on this face is heard.
    fn suspend(&mut self, face: FaceId) {
        let is_heard = |link: &Link| link.standing > Standing::Down && !link.is_doubted;
        if !self.neighbours.values().any(|neighbour| neighbour.link(face).is_some_and(is_heard)) {
            self.act(Action::Suspend { face });
        }
    }

    /// Whether hellos are late somewhere, so that faces are suspended whose routes stay.
    pub fn has_doubts(&self) -> bool {
        self.neighbours.values().flat_map(|neighbour| &neighbour.links).any(|link| link.is_doubted)
    }

    /// The ways through a neighbour may have changed.
    pub(super) fn mark_neighbour(&mut self, id: RouterId) {
        if let Some(neighbour) = self.neighbours.get(&id) {
            self.dirty_routers.extend(neighbour.routers());
        }
    }

    fn remove_link(&mut self, id: RouterId, face: FaceId, why: DownReason) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let Some(place) = neighbour.links.iter().position(|link| link.face == face) else { return };
        let link = neighbour.links.remove(place);
        match link.standing {
            Standing::Used | Standing::Held => self.on_link_changed(id, face, Change::Down(why)),
            Standing::Down => {}
        }
        self.unregister_link(id, face);
        if self.neighbours.get(&id).is_some_and(|neighbour| neighbour.links.is_empty()) {
            self.mark_neighbour(id);
            self.neighbours.remove(&id);
            self.fetcher.cancel(
                |purpose| matches!(purpose, crate::fetcher::Purpose::Advertisement { router, .. } if *router == id),
            );
        }
    }

    pub(super) fn remove_links_of(&mut self, face: FaceId, why: DownReason) {
        let ids: Vec<RouterId> = self.neighbours.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_link(id, face, why));
    }

    pub(super) fn on_face_state(&mut self, face: FaceId, is_up: bool) {
        let now_ms = self.now_ms();
        for neighbour in self.neighbours.values_mut() {
            if let Some(link) = neighbour.link_mut(face) {
                link.set_face(is_up);
                if !is_up {
                    link.session.down(DownReason::Face, now_ms);
                }
            }
        }
        if is_up {
            self.send_advertisement_syncs(Some(face));
        }
    }

    pub(super) fn on_face_destroyed(&mut self, face: FaceId) {
        self.remove_links_of(face, DownReason::Face);
        self.forget_face_of_peer(face);
        self.multicast.remove(&face);
        self.buckets.iter_mut().for_each(|buckets| buckets.forget(face));
        for prefix in self.local.withdraw_face(face) {
            self.on_local_changed(&prefix);
        }
    }

    pub(super) fn set_link_cost(&mut self, face: FaceId, cost: u64) {
        let uri = self.peer_of_face(face).map(|(uri, _)| uri);
        let ids: Vec<RouterId> = self.neighbours.keys().copied().collect();
        for id in ids {
            let link = self.neighbours.get_mut(&id).and_then(|neighbour| neighbour.link_mut(face));
            if let Some(link) = link {
                link.cost = cost;
                link.uri.clone_from(&uri);
                self.mark_neighbour(id);
            }
        }
    }

    /// Hellos: what is missing, and what is due.
    pub(super) fn poll_links(&mut self) {
        let now_ms = self.now_ms();
        for neighbour in self.neighbours.values_mut() {
            for link in neighbour.links.iter_mut().filter(|link| !link.is_at_rest) {
                link.session.expire(&self.config.hello, now_ms);
            }
        }
        self.send_hellos();
    }

    pub(super) fn links_due(&self) -> u64 {
        let now_ms = self.now_ms();
        let links = self.neighbours.values().flat_map(|neighbour| &neighbour.links);
        let due = links.map(|link| {
            let settings = &self.config.hello;
            let speaks = settings.enabled && !link.is_at_rest;
            let hello = if speaks { link.session.due_ms(settings, now_ms) } else { MS_MAX };
            hello.min(link.due_ms(&self.config, now_ms))
        });
        due.min().unwrap_or(MS_MAX)
    }
}
