//! Hostile packets: each is made to cost much.

use byname_face::link::{LinkConfig, LinkService, ReassemblyBudget};
use byname_forward::{FaceId, Packet, Received, Ticks};
use byname_wire::name_hash::hash_name;
use byname_wire::{LpPacket, NameHashKey};
use clap::ValueEnum;
use serde::Serialize;

use crate::forward::{self, Frames, LIFETIME_MS, OTHERS_FROM, Packets, Run, key_of, step};
use crate::workload::NameChoice;

/// The face from which the attack comes to a thread: behind those of its consumer and its producer.
pub fn attacker(thread: usize, threads: usize) -> FaceId {
    forward::face(thread, threads, 2)
}

/// Number of names that an attacker prepares. Each packet also gets a number.
const DRAWS: u64 = 1 << 18;
/// The key that an attacker assumes without knowing the real one.
const PUBLIC: [u64; 2] = [0, 0];
/// Low hash bits that forged names share: some of those that choose a bucket. Matching all of them would take the
/// attacker, and us, minutes.
const FORGED_BITS: u32 = 12;
/// Number of forged names. They are sent again and again, each time after the previous Interest has expired.
const FORGED: usize = 8192;
/// Bytes of a fragment: the first of two.
const FRAGMENT: usize = 1000;

/// Kinds of attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// Interests for new names below rules, which nobody answers.
    Unanswerable,
    /// Interests for new names that no rule covers.
    Unroutable,
    /// Interests whose names continue below the deepest rules with garbage, up to 32 components.
    Garbage,
    /// Interests whose names would collide in the index under a guessed key.
    Forged,
    /// Interests whose names collide under the real key: shows the attack that the key prevents.
    ForgedWithKey,
    /// Data that nobody asked for.
    Unsolicited,
    /// First fragments of packets whose second fragment never comes.
    Fragments,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Attack; 7] = [
        Attack::Unanswerable,
        Attack::Unroutable,
        Attack::Garbage,
        Attack::Forged,
        Attack::ForgedWithKey,
        Attack::Unsolicited,
        Attack::Fragments,
    ];
}

/// The attacker of one thread.
pub struct Attacker {
    attack: Attack,
    face: FaceId,
    /// Number of the thread, and of all threads: no two attackers send the same.
    thread: u64,
    threads: u64,
    packets: Packets,
    /// Numbers of packets with colliding names, for the forging attacks.
    forged: Vec<u64>,
    sent: u64,
    link: LinkService,
    /// Packets that the port will receive.
    frames: Frames,
}

impl Attacker {
    /// Makes an attacker on a face of this thread, against the workers of `run`.
    pub fn new(attack: Attack, thread: usize, run: &Run<'_>, options: &forward::Options) -> anyhow::Result<Self> {
        let threads = options.measuring.threads;
        let choice = match attack {
            Attack::Unroutable => NameChoice::Miss,
            Attack::Garbage => NameChoice::Garbage(run.components()),
            _ => NameChoice::Hit,
        };
        let forges = matches!(attack, Attack::Forged | Attack::ForgedWithKey);
        let forged_lifetime = step(options) * (FORGED / 4 / threads).max(1) as u32;
        let lifetime_ms = if forges { forged_lifetime.as_millis().max(1) as u64 } else { LIFETIME_MS };
        let packets = run.other_packets(&choice, options.draws.min(DRAWS), lifetime_ms)?;
        let forged = match attack {
            Attack::Forged => forge(&packets, &key_of(options, PUBLIC)),
            Attack::ForgedWithKey => forge(&packets, run.key()),
            _ => Vec::new(),
        };
        let link = LinkService::new(LinkConfig::default(), ReassemblyBudget::default());
        let (face, frames) = (attacker(thread, threads), Frames::default());
        let (thread, threads) = (thread as u64, threads as u64);
        Ok(Attacker { attack, face, thread, threads, packets, forged, sent: 0, link, frames })
    }

    /// Number of packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Writes packets to the port's memory.
    pub fn write(&mut self, packets: u64) {
        self.frames.clear();
        for _ in 0..packets {
            let serial = self.sent * self.threads + self.thread;
            let number = OTHERS_FROM + serial;
            match self.attack {
                Attack::Unanswerable | Attack::Unroutable | Attack::Garbage => {
                    self.packets.write_interest(number, &mut self.frames);
                }
                Attack::Forged | Attack::ForgedWithKey => {
                    let at = (serial % self.forged.len() as u64) as usize;
                    self.packets.write_interest_with_nonce(self.forged[at], serial as u32, &mut self.frames);
                }
                Attack::Unsolicited => self.packets.write_data(number, &mut self.frames),
                Attack::Fragments => {
                    let lp = LpPacket { sequence: Some(self.sent * 2), frag_count: 2, ..LpPacket::default() };
                    self.frames.write(|out| {
                        lp.encode_header(FRAGMENT, out);
                        out.resize(out.len() + FRAGMENT, 0x06);
                    });
                }
            }
            self.sent += 1;
        }
    }

    /// Receives the next packets of the attack.
    pub fn receive(&mut self, now: Ticks, packets: u64, input: &mut Vec<Received>) {
        for _ in 0..packets {
            let frame = self.frames.receive();
            if self.attack == Attack::Fragments {
                self.link.receive(now, self.face, frame, input);
            } else {
                let received = Received::append(input);
                received.face = self.face;
                received.packet.fill(Packet::copy_from(frame));
            }
        }
    }

    /// Number of frames that the link service dropped, alone or with earlier fragments.
    pub fn link_drops(&self) -> u64 {
        self.link.counters.in_malformed + self.link.counters.in_reassembly_timeouts
    }
}

/// Finds numbers whose names share the low hash bits under this key.
fn forge(packets: &Packets, key: &NameHashKey) -> Vec<u64> {
    let mut scratch = Vec::new();
    let collides = |number: &u64| hash_name(key, packets.name(*number, &mut scratch)).trailing_zeros() >= FORGED_BITS;
    (OTHERS_FROM..).filter(collides).take(FORGED).collect()
}
