//! Faces on which all threads of an address send, each by its own socket. All of these sockets have the same port, so a
//! peer sees no difference.

use std::sync::Arc;

use byname_forward::FaceId;

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
    pub(super) fn borrow(&mut self, id: FaceId, lent: &Lent) -> bool {
        let Lent { listen, remote, local, config, accounts } = lent;
        if *listen != self.local {
            return false;
        }
        let thread = self.steering.number;
        self.peers.borrow(id, config.clone(), accounts, thread, || UdpTransport::new(*remote, *local));
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use byname_forward::{LinkFields, Outgoing, Packet};
    use byname_wire::{LpPacket, PitToken};

    use super::super::{UdpConfig, UdpPort};
    use crate::face::{FaceChange, FaceEvent};
    use crate::port::Port;
    use crate::port::tests::{Bench, packet};

    const INTEREST: u8 = 5;
    const DATA: u8 = 6;

    struct Thread {
        bench: Bench,
        port: UdpPort,
    }

    impl Thread {
        fn send(&mut self, face: byname_forward::FaceId, packet: Packet) {
            let mut burst = [Outgoing { face, fields: LinkFields::default(), packet }];
            self.port.transmit(&mut self.bench.cx(), &mut burst);
            self.port.flush(&mut self.bench.cx());
        }

        fn receive(&mut self) {
            self.port.readable = true;
            while self.port.has_input() {
                self.port.receive(&mut self.bench.cx(), 64);
            }
            if self.port.next_deadline().is_some_and(|at| at <= self.bench.now) {
                self.port.on_deadline(&mut self.bench.cx());
            }
        }
    }

    #[test]
    fn a_borrowed_face_sends_what_needs_no_owner_until_it_ends_and_all_is_counted() {
        let ports = UdpPort::bind_for_threads(UdpConfig::new((Ipv4Addr::LOCALHOST, 0).into()), 2).expect("sockets");
        let mut threads: Vec<Thread> = ports.into_iter().map(|port| Thread { bench: Bench::new(), port }).collect();
        threads.iter_mut().for_each(|thread| thread.port.start(&mut thread.bench.cx()).expect("it starts"));
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        peer.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
        let (local, mut buffer) = (threads[0].port.local_addr(), [0; 9000]);
        peer.send_to(&packet(INTEREST, 30, 1), local).expect("sent");
        threads.iter_mut().for_each(Thread::receive);
        let at = threads.iter().position(|thread| !thread.bench.received.is_empty()).expect("one has it");
        let [first, second] = &mut threads[..] else { unreachable!("two threads") };
        let (owner, other) = if at == 0 { (first, second) } else { (second, first) };
        let face = owner.bench.received[0].face;
        let lent = owner.port.lend_face(face).expect("it can be lent");
        assert!(other.port.borrow_face(&mut other.bench.cx(), face, &lent));
        // One frame leaves by the other socket, with the same address.
        other.send(face, packet(DATA, 100, 2));
        assert_eq!(peer.recv_from(&mut buffer).expect("Data"), (100, local));
        // Fragments need the owner.
        let change = FaceChange { mtu: Some(200), ..FaceChange::default() };
        owner.port.update_face(&mut owner.bench.cx(), face, &change).expect("it can be changed");
        let lent = owner.port.lend_face(face).expect("it can be lent");
        assert!(other.port.borrow_face(&mut other.bench.cx(), face, &lent));
        other.send(face, packet(DATA, 1000, 3));
        assert_eq!(other.bench.left.pop().expect("it is left").packet.len(), 1000);
        // Answers are received by any thread, and other packets by the owner.
        let fields = LpPacket { pit_token: PitToken::new(&[1; 6]).expect("six bytes"), ..LpPacket::default() };
        let mut answer = Vec::new();
        LpPacket { fragment: Some(&packet(DATA, 50, 4)), ..fields }.encode(&mut answer);
        let remote = peer.local_addr().expect("bound");
        let faces = &mut other.port.faces;
        let (id, borrowed) = (faces.peers.find_borrowed(&remote).expect("borrowed"), &mut faces.peers);
        let borrowed = borrowed.get_mut(id).expect("borrowed");
        let (now, received) = (other.bench.now, &mut other.bench.received);
        assert!(borrowed.receive_answer(now, id, &answer, received));
        assert!(!borrowed.receive_answer(now, id, &packet(INTEREST, 30, 1), received));
        assert!(!borrowed.receive_answer(now, id, &answer[..20], received));
        borrowed.settle_account();
        assert_eq!((received.len(), received[0].face, received[0].packet.len()), (1, face, 50));
        let link = owner.port.status(owner.bench.now, face).expect("it lives").link;
        assert_eq!((link.in_bytes, link.out_bytes, link.out_drops), (30 + answer.len() as u64, 100, 0));
        // When it ends, nothing more leaves.
        assert!(owner.port.destroy_face(&mut owner.bench.cx(), face));
        let Some((_, FaceEvent::Destroyed(last))) = owner.bench.events.last() else { panic!("its end is reported") };
        assert_eq!(last.link, link);
        other.send(face, packet(DATA, 100, 5));
        assert_eq!(other.bench.left.len(), 1);
        other.port.give_back_face(face);
        assert!(other.port.faces.peers.find_borrowed(&remote).is_none());
        assert_eq!(lent.accounts.after_end(), crate::face::LinkCounters::default());
    }
}
