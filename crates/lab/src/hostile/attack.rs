//! Packets that are made to cost much.

use byname_face::link::{LinkConfig, LinkService, ReassemblyBudget};
use byname_forward::{FaceId, Packet, Received, Ticks};
use byname_wire::name_hash::hash_name;
use byname_wire::{LpPacket, NameHashKey};
use clap::ValueEnum;
use serde::Serialize;

use crate::forward::{self, Frames, LIFETIME_MS, Packets, Run, key_of, step};
use crate::workload::NameChoice;

/// Where the attack comes from.
pub const ATTACKER: FaceId = FaceId(258);
/// Names of packets that an attacker prepares, each with a number besides.
const DRAWS: u64 = 1 << 18;
/// Numbers of the attacker's packets begin here: ordinary ones end before.
const FIRST: u64 = 1 << 40;
/// What an attacker takes for the key, who does not know it.
const PUBLIC: [u64; 2] = [0, 0];
/// Low bits of the hash that forged names have in common: some of those that choose a bucket. All of them
/// would take the attacker, and us, minutes.
const FORGED_BITS: u32 = 12;
/// Forged names. They come again and again, each time when the Interest before is over.
const FORGED: usize = 8192;
/// Octets of a fragment: the first of two.
const FRAGMENT: usize = 1000;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// Interests for ever new names below rules, which nobody answers.
    Unanswerable,
    /// Interests for ever new names that no rule covers.
    Unroutable,
    /// Interests whose names go on below the deepest rules, up to 32 components of garbage.
    Garbage,
    /// Interests whose names collide in the index for who does not know its key.
    Forged,
    /// The same for who knows it: what the key is for.
    ForgedWithKey,
    /// Data that nobody asked for.
    Unsolicited,
    /// First fragments of packets that never become whole.
    Fragments,
}

impl Attack {
    /// All there are.
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

/// The attacker's face.
pub struct Attacker {
    attack: Attack,
    packets: Packets,
    /// Numbers whose names collide, if that is the attack.
    forged: Vec<u64>,
    sent: u64,
    link: LinkService,
    /// What is to be received.
    frames: Frames,
}

impl Attacker {
    /// An attacker on the worker of `run`.
    pub fn new(attack: Attack, run: &Run<'_>, options: &forward::Options) -> anyhow::Result<Self> {
        let choice = match attack {
            Attack::Unroutable => NameChoice::Miss,
            Attack::Garbage => NameChoice::Garbage(run.components()),
            _ => NameChoice::Hit,
        };
        let forges = matches!(attack, Attack::Forged | Attack::ForgedWithKey);
        let forged_lifetime = step(options) * (FORGED / 4) as u32;
        let lifetime_ms = if forges { forged_lifetime.as_millis().max(1) as u64 } else { LIFETIME_MS };
        let packets = run.other_packets(&choice, options.draws.min(DRAWS), lifetime_ms)?;
        let forged = match attack {
            Attack::Forged => forge(&packets, &key_of(options, PUBLIC)),
            Attack::ForgedWithKey => forge(&packets, run.key()),
            _ => Vec::new(),
        };
        let link = LinkService::new(LinkConfig::default(), ReassemblyBudget::default());
        Ok(Attacker { attack, packets, forged, sent: 0, link, frames: Frames::default() })
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Puts so many packets into the port's memory.
    pub fn write(&mut self, packets: u64) {
        self.frames.clear();
        for _ in 0..packets {
            let number = FIRST + self.sent;
            match self.attack {
                Attack::Unanswerable | Attack::Unroutable | Attack::Garbage => {
                    self.packets.write_interest(number, &mut self.frames);
                }
                Attack::Forged | Attack::ForgedWithKey => {
                    let at = (self.sent % self.forged.len() as u64) as usize;
                    self.packets.write_interest_with_nonce(self.forged[at], self.sent as u32, &mut self.frames);
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

    /// Receives the next of them.
    pub fn receive(&mut self, now: Ticks, packets: u64, input: &mut Vec<Received>) {
        for _ in 0..packets {
            let frame = self.frames.receive();
            if self.attack == Attack::Fragments {
                self.link.receive(now, ATTACKER, frame, input);
            } else {
                let received = Received::append(input);
                received.face = ATTACKER;
                received.packet.fill(Packet::copy_from(frame));
            }
        }
    }

    /// Frames that the link service dropped, alone or with those that had come before.
    pub fn link_drops(&self) -> u64 {
        self.link.counters.in_malformed + self.link.counters.in_reassembly_timeouts
    }
}

/// Numbers whose names have hashes with the same low bits under this key.
fn forge(packets: &Packets, key: &NameHashKey) -> Vec<u64> {
    let mut scratch = Vec::new();
    let collides = |number: &u64| hash_name(key, packets.name(*number, &mut scratch)).trailing_zeros() >= FORGED_BITS;
    (FIRST..).filter(collides).take(FORGED).collect()
}
