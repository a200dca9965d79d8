//! Faces on which all threads of an address send, each by its own socket. All of these sockets have the same port, so a
//! peer sees no difference.

use std::sync::Arc;

use byname_forward::{FaceId, Ticks};

use super::UdpPort;
use super::face::UdpTransport;
use super::faces::Faces;
use crate::lent::Lent;
use crate::peers::Sent;

impl Faces {
    /// Lends a face to the other sockets of this address.
    pub(super) fn lend(&mut self, id: FaceId) -> Option<Arc<Lent>> {
        let threads = self.steering.sockets()?;
        let (UdpTransport { remote, local, .. }, config, accounts) = self.peers.lend(id, threads)?;
        Some(Arc::new(Lent { listen: self.local, remote: *remote, local: *local, config: config.clone(), accounts }))
    }

    /// Sends on a face of another socket from now on. Returns false if that socket has another address.
    pub(super) fn borrow(&mut self, now: Ticks, id: FaceId, lent: &Lent) -> bool {
        let Lent { listen, remote, local, config, accounts } = lent;
        if *listen != self.local {
            return false;
        }
        let thread = self.steering.number;
        self.peers.borrow(now, id, config.clone(), accounts, thread, || UdpTransport::new(*remote, *local));
        true
    }
}

impl UdpPort {
    /// Sends what waits for a borrowed face, and forgets the face. Datagrams that the system does not take now are
    /// dropped and counted.
    pub(super) fn give_back(&mut self, id: FaceId) {
        let Some(mut face) = self.faces.peers.give_back(id) else { return };
        face.put_before_queue(self.open_runs.take(id).into_iter());
        if self.blocked || face.send_queued(&mut self.socket) == Sent::Blocked {
            face.link.counters.out_drops += face.queue.len() as u64;
        }
        face.settle_account();
    }
}
