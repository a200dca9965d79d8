//! Neighbours that are configured, or found on a link that many share: the faces to them.

use byname_wire::FaceId;

use crate::action::Action;
use crate::event::NeighbourSettings;
use crate::link::hello::Hello;
use crate::note::{DownReason, Note};

use super::{MS_MAX, Router};

const RETRY_MIN_MS: u64 = 1_000;
const RETRY_MAX_MS: u64 = 60_000;
/// If the caller does not answer at all.
const ANSWER_MS: u64 = 30_000;

/// A neighbour's URI, and the face to it.
#[derive(Debug)]
pub(super) struct Peer {
    settings: NeighbourSettings,
    face: Option<FaceId>,
    /// Whether the router created the face, and destroys it.
    is_own: bool,
    /// Whether it was found and not configured.
    is_found: bool,
    /// When a face is asked for (again).
    pub(super) ask_ms: Option<u64>,
    retry_ms: u64,
    /// When it was found, or last had a link.
    used_ms: u64,
}

impl Peer {
    fn new(settings: NeighbourSettings, is_found: bool, now_ms: u64) -> Self {
        Peer {
            settings,
            face: None,
            is_own: false,
            is_found,
            ask_ms: Some(now_ms),
            retry_ms: RETRY_MIN_MS,
            used_ms: now_ms,
        }
    }
}

impl Router {
    pub(super) fn configure_peer(&mut self, mut settings: NeighbourSettings) {
        settings.cost = settings.cost.max(1);
        let now_ms = self.now_ms();
        if let Some(peer) = self.peers.get_mut(&settings.uri) {
            let (face, cost) = (peer.face, settings.cost);
            peer.is_found = false;
            peer.settings = settings;
            face.into_iter().for_each(|face| self.set_link_cost(face, cost));
            return;
        }
        if self.peers.len() >= self.config.limits.neighbours {
            self.counters.over_limit += 1;
            return self.note(Note::LimitReached { limit: "neighbours" });
        }
        self.peers.insert(settings.uri.clone(), Peer::new(settings, false, now_ms));
        self.poll_peers();
    }

    /// A neighbour on a link that many share told its own URIs.
    pub(super) fn find_peer(&mut self, hello: &Hello) {
        let now_ms = self.now_ms();
        let is_known = hello.uris.iter().any(|uri| self.peers.contains_key(uri));
        let Some(uri) = hello.uris.first().filter(|_| !is_known) else { return };
        if self.peers.len() >= self.config.limits.neighbours {
            self.counters.over_limit += 1;
            return;
        }
        let settings = NeighbourSettings { uri: uri.clone(), cost: 1, mtu: None };
        self.peers.insert(uri.clone(), Peer::new(settings, true, now_ms));
        self.poll_peers();
    }

    pub(super) fn remove_peer(&mut self, uri: &str) {
        let Some(peer) = self.peers.remove(uri) else { return };
        let Some(face) = peer.face else { return };
        self.remove_links_of(face, DownReason::Removed);
        if peer.is_own {
            self.act(Action::DestroyFace { face });
        }
    }

    pub(super) fn add_multicast(&mut self, face: FaceId) {
        if self.multicast.len() >= self.config.limits.neighbours {
            self.counters.over_limit += 1;
            return self.note(Note::LimitReached { limit: "neighbours" });
        }
        if self.multicast.insert(face) {
            let links = self.neighbours.values_mut().filter_map(|neighbour| neighbour.link_mut(face));
            links.for_each(|link| link.is_group = true);
            self.send_advertisement_syncs(Some(face));
        }
    }

    pub(super) fn on_face_created(&mut self, uri: &str, face: FaceId, is_new: bool) {
        let Some(peer) = self.peers.get_mut(uri) else {
            // It was removed meanwhile.
            if is_new {
                self.act(Action::DestroyFace { face });
            }
            return;
        };
        peer.face = Some(face);
        peer.is_own |= is_new;
        peer.ask_ms = None;
        peer.retry_ms = RETRY_MIN_MS;
        let cost = peer.settings.cost;
        self.set_link_cost(face, cost);
        self.send_advertisement_syncs(Some(face));
    }

    pub(super) fn on_face_failed(&mut self, uri: &str, why: &str) {
        let now_ms = self.now_ms();
        let Some(peer) = self.peers.get_mut(uri) else { return };
        peer.ask_ms = Some(now_ms + peer.retry_ms);
        peer.retry_ms = (peer.retry_ms * 2).min(RETRY_MAX_MS);
        self.note(Note::FaceFailed { uri: uri.to_owned(), why: why.to_owned() });
    }

    /// A peer's face is gone: it is asked for again.
    pub(super) fn forget_face_of_peer(&mut self, face: FaceId) {
        let now_ms = self.now_ms();
        for peer in self.peers.values_mut().filter(|peer| peer.face == Some(face)) {
            (peer.face, peer.is_own) = (None, false);
            peer.ask_ms = Some(now_ms + peer.retry_ms);
        }
    }

    /// Asks for the faces that are missing.
    pub(super) fn poll_peers(&mut self) {
        let now_ms = self.now_ms();
        let mut asked = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| peer.ask_ms.is_some_and(|at| at <= now_ms)) {
            peer.ask_ms = Some(now_ms + ANSWER_MS);
            asked.push(Action::CreateFace { uri: peer.settings.uri.clone(), mtu: peer.settings.mtu });
        }
        asked.into_iter().for_each(|action| self.act(action));
    }

    /// Drops peers that were found and are not there any more.
    pub(super) fn tidy_peers(&mut self) {
        let now_ms = self.now_ms();
        let dead_ms = self.config.timing.dead.as_millis() as u64;
        let has_link = |face: FaceId| self.neighbours.values().any(|neighbour| neighbour.link(face).is_some());
        let mut gone = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| peer.is_found) {
            if peer.face.is_some_and(has_link) {
                peer.used_ms = now_ms;
            } else if now_ms.saturating_sub(peer.used_ms) > dead_ms {
                gone.push(peer.settings.uri.clone());
            }
        }
        gone.iter().for_each(|uri| self.remove_peer(uri));
    }

    /// The faces on which this router looks for neighbours by itself.
    pub(super) fn active_faces(&self) -> Vec<FaceId> {
        let mut faces: Vec<FaceId> = self.peers.values().filter_map(|peer| peer.face).collect();
        faces.extend(self.multicast.iter().copied());
        faces.sort_unstable();
        faces.dedup();
        faces
    }

    /// The URI and cost of a face, if it is a peer's.
    pub(super) fn peer_of_face(&self, face: FaceId) -> Option<(String, u64)> {
        let peer = self.peers.values().find(|peer| peer.face == Some(face))?;
        Some((peer.settings.uri.clone(), peer.settings.cost))
    }

    /// Destroys all faces that this router created.
    pub(super) fn destroy_own_faces(&mut self) {
        let own: Vec<FaceId> = self.peers.values().filter(|peer| peer.is_own).filter_map(|peer| peer.face).collect();
        own.into_iter().for_each(|face| self.act(Action::DestroyFace { face }));
        self.peers.clear();
        self.due_ms = MS_MAX;
    }
}
