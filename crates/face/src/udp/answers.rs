//! Answers that come to the thread which waits for them.
//!
//! Data and Nacks echo the PIT token of the Interest, which names the thread that has sent it
//! ([`byname_forward::dispatch`]). The system's program looks for such a token before it looks at the peer ([`program`]),
//! so an answer mostly comes to the socket of its thread. If that thread has borrowed the face, and the frame needs
//! nothing of the face's link service, the packet is received there. All else is handed over to the socket of the peer,
//! through a bounded queue: only there does a face come to exist, and only its owner keeps the state of fragments.
//!
//! A stranger can write any token that it has seen. It gains nothing: its datagram is handed over, or it is an answer
//! that nobody waits for. In a run of datagrams that the system joins, the first chooses the socket.

use std::net::{IpAddr, SocketAddr};

use byname_forward::Packet;
use byname_wire::lp::field;
use byname_wire::tlv::types;
use libc::sock_filter;

use super::UdpPort;
use super::face::UdpFace;
use super::faces::Faces;
use super::socket::Run;
use crate::link;
use crate::port::PortContext;
use crate::spread::instruction;

/// Datagrams of other sockets that are received in one call.
const HANDED_PER_CALL: usize = 64;
/// A datagram with a token and an answer has at least this many bytes, so that the program reads none behind its end.
const ANSWER_BYTES_MIN: u32 = 18;
/// The first byte of a TLV-LENGTH of three bytes. Longer ones do not fit into a datagram.
const LONG: u32 = 0xfd;
/// TLV-TYPE and TLV-LENGTH of a PIT token of this router.
const TOKEN_HEADER: u32 = (field::PIT_TOKEN as u32) << 8 | 6;

/// A datagram on its way to the socket of its peer.
pub(super) struct Handed {
    pub remote: SocketAddr,
    /// The address that it was sent to, if the system says so.
    pub local: Option<IpAddr>,
    pub datagram: Packet,
    /// Whether it has been handed over twice.
    pub again: bool,
}

/// The begin of a program of the system: returns the number of a socket if the datagram is an answer with a token of
/// this router, whose first bytes are `mark`. It reads an LpPacket that begins with the token, and goes on with the
/// answer, or with the reason of a Nack.
pub(super) fn program(mark: [u8; 4], sockets: usize) -> Vec<sock_filter> {
    const LEN: usize = 29;
    let load = |size: u32, mode: u32, at: u32| instruction(libc::BPF_LD | size | mode, at);
    let (byte, half, word) = (libc::BPF_B, libc::BPF_H, libc::BPF_W);
    let (at, behind) = (libc::BPF_ABS, libc::BPF_IND);
    let mut lines = Vec::with_capacity(LEN);
    // Jumps over these many lines. None: to the end, since the datagram is no answer.
    let jump = |lines: &mut Vec<sock_filter>, test: u32, k: u32, if_so: Option<usize>, if_not: Option<usize>| {
        let to_end = LEN - lines.len() - 1;
        let skipped = |lines: Option<usize>| lines.unwrap_or(to_end) as u8;
        let code = (libc::BPF_JMP | test | libc::BPF_K) as u16;
        lines.push(sock_filter { code, jt: skipped(if_so), jf: skipped(if_not), k });
    };
    let (is, reaches) = (libc::BPF_JEQ, libc::BPF_JGE);
    let must_be = |lines: &mut Vec<sock_filter>, k: u32| jump(lines, is, k, Some(0), None);
    lines.push(load(word, libc::BPF_LEN, 0));
    jump(&mut lines, reaches, ANSWER_BYTES_MIN, Some(0), None);
    lines.push(load(byte, at, 0));
    must_be(&mut lines, types::LP_PACKET as u32);
    // The index register gets the place of the token.
    lines.push(load(byte, at, 1));
    jump(&mut lines, reaches, LONG, Some(2), Some(0));
    lines.push(instruction(libc::BPF_LDX | libc::BPF_IMM, 2));
    lines.push(instruction(libc::BPF_JMP | libc::BPF_JA, 2));
    must_be(&mut lines, LONG);
    lines.push(instruction(libc::BPF_LDX | libc::BPF_IMM, 4));
    lines.push(load(half, behind, 0));
    must_be(&mut lines, TOKEN_HEADER);
    lines.push(load(word, behind, 2));
    must_be(&mut lines, u32::from_be_bytes(mark));
    // A fragment, or a Nack, whose TLV-TYPE has three bytes.
    lines.push(load(byte, behind, 8));
    jump(&mut lines, is, field::FRAGMENT as u32, Some(3), Some(0));
    must_be(&mut lines, LONG);
    lines.push(load(half, behind, 9));
    jump(&mut lines, is, field::NACK as u32, Some(7), None);
    // The type of the packet in the fragment.
    lines.push(load(byte, behind, 9));
    jump(&mut lines, reaches, LONG, Some(2), Some(0));
    lines.push(load(byte, behind, 10));
    lines.push(instruction(libc::BPF_JMP | libc::BPF_JA, 2));
    must_be(&mut lines, LONG);
    lines.push(load(byte, behind, 12));
    must_be(&mut lines, types::DATA as u32);
    lines.push(load(byte, behind, 7));
    jump(&mut lines, reaches, sockets as u32, None, Some(0));
    lines.push(instruction(libc::BPF_RET | libc::BPF_A, 0));
    assert_eq!(lines.len(), LEN, "jumps to the end are of this length");
    lines
}

impl Faces {
    /// Receives datagrams of a peer without a face here, if the peer belongs to another socket or its face is borrowed.
    /// Returns false if it is a stranger who may get a face here.
    pub(super) fn receive_foreign(
        &mut self,
        cx: &mut PortContext<'_>,
        remote: SocketAddr,
        local: Option<IpAddr>,
        run: Run<'_>,
    ) -> bool {
        let borrowed = self.peers.find_borrowed(&remote);
        let to = self.steering.socket_for(&remote);
        if borrowed.is_none() && to == self.steering.number {
            return false;
        }
        let (now, mut face) = (cx.now(), borrowed.and_then(|id| Some((id, self.peers.get_mut(id)?))));
        let mut others: Vec<&[u8]> = Vec::new();
        for datagram in run {
            let receive = |(id, face): &mut (_, &mut UdpFace)| face.receive_answer(now, *id, datagram, cx.received());
            if !face.as_mut().is_some_and(receive) {
                others.push(datagram);
            }
        }
        face.inspect(|(_, face)| face.settle_account());
        if self.expects(&remote) {
            self.keep(others.into_iter());
            return true;
        }
        for datagram in others {
            if to == self.steering.number {
                self.receive_one(cx, remote, local, datagram);
            } else {
                let handed = Handed { remote, local, datagram: Packet::copy_from(datagram), again: false };
                self.lost += u64::from(!self.steering.hand_over(to, handed));
            }
        }
        true
    }

    /// Receives what other sockets have handed over.
    fn receive_handed(&mut self, cx: &mut PortContext<'_>) {
        for _ in 0..HANDED_PER_CALL {
            let Some(handed) = self.steering.take_handed() else { return };
            let Handed { remote, local, ref datagram, again } = handed;
            let to = self.steering.socket_for(&remote);
            if !again && to != self.steering.number && self.peers.find(&remote).is_none() {
                // Its face has moved meanwhile.
                self.lost += u64::from(!self.steering.hand_over(to, Handed { again: true, ..handed }));
            } else if self.expects(&remote) {
                self.keep([&**datagram].into_iter());
            } else {
                self.receive_one(cx, remote, local, datagram);
            }
        }
    }

    /// Receives one datagram, for which a stranger may get a face.
    fn receive_one(&mut self, cx: &mut PortContext<'_>, remote: SocketAddr, local: Option<IpAddr>, datagram: &[u8]) {
        let id = self.peers.find(&remote).or_else(|| match link::is_plausible(datagram) {
            true => self.create_on_demand(cx, remote, local),
            false => {
                self.not_ndn += 1;
                None
            }
        });
        let Some((id, face)) = id.and_then(|id| Some((id, self.peers.get_mut(id)?))) else { return };
        let now = cx.now();
        face.begin_row(now);
        face.link.receive(now, id, datagram, cx.received());
        face.end_row(id, now, cx.received());
        if face.has_earlier_deadline() {
            self.peers.schedule(id);
        }
    }
}

impl UdpPort {
    /// Does what is due: see [`crate::port::Port::on_deadline`].
    pub(super) fn do_due(&mut self, cx: &mut PortContext<'_>) {
        self.faces.receive_handed(cx);
        self.faces.peers.on_deadline(cx);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    use byname_wire::data::DataBuilder;
    use byname_wire::interest::InterestBuilder;
    use byname_wire::{LpPacket, NackReason, PitToken};

    use super::super::{bind_all, steering};
    use crate::system::steer;

    const MARK: [u8; 4] = [9, 8, 7, 6];
    const SOCKETS: usize = 3;

    fn frame(token: &[u8], nack: Option<NackReason>, sequence: Option<u64>, packet: &[u8]) -> Vec<u8> {
        let pit_token = PitToken::new(token).expect("few bytes");
        let mut bytes = Vec::new();
        LpPacket { pit_token, nack, sequence, fragment: Some(packet), ..LpPacket::default() }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn answers_come_to_the_socket_that_their_token_names_and_nothing_else_does() {
        let name = || "/a".parse().expect("a name");
        let data = |len| DataBuilder::new(name()).content(vec![1; len]).encode();
        let interest = InterestBuilder::new(name(), 1).encode();
        let token = |worker: u8| [9, 8, 7, 6, 0, worker];
        for ip in [std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let Ok(sockets) = bind_all((ip, 0).into(), SOCKETS) else {
                println!("skipped: this machine has no {ip}");
                continue;
            };
            let sockets: Vec<UdpSocket> = sockets.into_iter().map(UdpSocket::from).collect();
            let local = sockets[0].local_addr().expect("bound");
            steer(&sockets[0], &steering::program(&local, SOCKETS, Some(MARK), &[])).expect("the system takes it");
            let receive = |number: usize| {
                sockets[number].set_read_timeout(Some(Duration::from_secs(5))).expect("set");
                sockets[number].recv_from(&mut [0; 9000]).expect("it comes here");
            };
            for _ in 0..10 {
                let peer = UdpSocket::bind((ip, 0)).expect("a socket");
                // An empty datagram shows where the peer belongs.
                peer.send_to(b"", local).expect("sent");
                let by_peer = (0..SOCKETS).find(|number| {
                    sockets[*number].set_read_timeout(Some(Duration::from_millis(30))).expect("set");
                    sockets[*number].recv_from(&mut [0; 9]).is_ok()
                });
                let by_peer = by_peer.expect("it has come");
                for worker in 0..SOCKETS as u8 {
                    let token = token(worker);
                    for answer in [
                        frame(&token, None, None, &data(0)),
                        // Lengths of three bytes inside, and then also outside.
                        frame(&token, None, None, &data(225)),
                        frame(&token, None, None, &data(300)),
                        frame(&token, None, None, &data(8000)),
                        frame(&token, Some(NackReason::NoRoute), None, &interest),
                    ] {
                        peer.send_to(&answer, local).expect("sent");
                        receive(worker.into());
                    }
                }
                let mut cut = frame(&token(0), None, None, &data(0));
                cut.truncate(17);
                for other in [
                    data(100),
                    interest.clone(),
                    frame(&token(1), None, None, &interest),
                    frame(&token(SOCKETS as u8), None, None, &data(100)),
                    frame(&token(255), None, None, &data(100)),
                    frame(&[9, 8, 7, 5, 0, 0], None, None, &data(100)),
                    frame(&[9, 8, 7, 6, 0], None, None, &data(100)),
                    frame(&[9, 8, 7, 6, 0, 0, 0], None, None, &data(100)),
                    frame(&token(0), None, Some(5), &data(100)),
                    cut,
                    vec![100],
                    vec![0; 100],
                ] {
                    peer.send_to(&other, local).expect("sent");
                    receive(by_peer);
                }
            }
        }
    }
}
