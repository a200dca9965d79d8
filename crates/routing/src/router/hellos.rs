//! Hellos: sent and received.

use byname_wire::FaceId;
use byname_wire::Name;
use byname_wire::interest::Interest;
use rand::RngExt;

use crate::ids::RouterId;
use crate::link::hello::Hello;
use crate::names;
use crate::status::HelloState;

use super::checks::Check;
use super::{NEIGHBOURS, Router};

/// Lifetime of the Interests that carry hellos, which nobody answers.
const LIFETIME_MS: u64 = 250;

impl Router {
    pub(super) fn on_hello(&mut self, interest: &Interest<'_>, face: FaceId) {
        let Some(data) = self.inner_data(interest, face, NEIGHBOURS) else { return };
        let Some((router, hello)) = names::sender_of_hello(data.name).zip(Hello::decode(data.content).ok()) else {
            return self.malformed();
        };
        if !self.config.hello.enabled || router == self.config.router {
            return;
        }
        // Only sync Interests make links. On a link that many share, most hellos are for others.
        let link = self.routers.find(router.as_ref()).and_then(|id| self.neighbours.get(&id)?.link(face));
        let Some(link) = link.filter(|link| !link.is_at_rest) else { return };
        if !link.session.may_take(&hello) {
            self.counters.replayed += u64::from(hello.your_discriminator == 0);
            return;
        }
        self.check(Check::Hello { router, face, hello }, &data, Some(face), NEIGHBOURS);
    }

    pub(super) fn on_trusted_hello(&mut self, router: &Name, face: FaceId, hello: &Hello) {
        let now_ms = self.now_ms();
        let Some(id) = self.routers.find(router.as_ref()) else { return };
        let Some(link) = self.neighbours.get_mut(&id).and_then(|neighbour| neighbour.link_mut(face)) else { return };
        let before = link.session.state();
        if !link.session.receive(hello, &self.config.hello, now_ms) {
            self.counters.replayed += 1;
            return;
        }
        if link.session.state() == HelloState::Up && before != HelloState::Up {
            // No sync Interest arrived while it was down. That is no second reason to take it for dead.
            link.synced_ms = now_ms;
        }
        self.counters.hellos_in += 1;
        self.routers.get_mut(id).greeted = Some((hello.boot, hello.number));
        if self.multicast.contains(&face) {
            self.find_peer(hello);
        }
    }

    /// Sends the hellos that are due.
    pub(super) fn send_hellos(&mut self) {
        if !self.config.hello.enabled {
            return;
        }
        let now_ms = self.now_ms();
        let mut hellos: Vec<(FaceId, Hello)> = Vec::new();
        for neighbour in self.neighbours.values_mut() {
            for link in neighbour.links.iter_mut().filter(|link| !link.is_at_rest) {
                let number = self.hello_number + 1;
                let jitter = self.random.random();
                let sent = link.session.send(&self.config.hello, (self.config.boot, number), jitter, now_ms);
                let Some(mut hello) = sent else { continue };
                self.hello_number = number;
                if self.multicast.contains(&link.face) {
                    hello.uris = self.config.uris.clone();
                }
                hellos.push((link.face, hello));
            }
        }
        for (face, hello) in hellos {
            self.send_hello(face, &hello);
        }
    }

    fn send_hello(&mut self, face: FaceId, hello: &Hello) {
        if let Some(data) = self.sign(self.names.own_hello_data(), hello.encode()) {
            self.counters.hellos_out += 1;
            self.send_to_neighbours(self.names.hello.clone(), &data, face, LIFETIME_MS);
        }
    }

    /// Tells neighbours that this router stops.
    pub(super) fn send_last_hellos(&mut self) {
        let now_ms = self.now_ms();
        let ids: Vec<RouterId> = self.neighbours.keys().copied().collect();
        for id in ids {
            let Some(neighbour) = self.neighbours.get_mut(&id) else { continue };
            for link in &mut neighbour.links {
                // The state is told with the discriminator that the neighbour expects.
                link.session.stop(now_ms);
            }
        }
        self.send_hellos();
    }
}
