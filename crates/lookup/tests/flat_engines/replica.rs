//! A query half that is fed by messages over a channel which loses, repeats, reorders and corrupts:
//! it is the control half's in the end, or says that it is stale, and is never wrong silently.

use std::sync::Arc;

use byname_lookup::flat::message::{MESSAGE_OCTETS_MIN, Refusal, Sender};
use byname_lookup::flat::othello::{Options, Othello, Replica};
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{Change, Control, EntryId, FlatFib, Pages, Update};
use byname_wire::NameHashKey;

use crate::names::digest;
use crate::suite::Random;

const KEY: NameHashKey = NameHashKey::new([5, 6]);
const NAMES: usize = 600;

/// What the channel does to one of so many messages.
struct Channel {
    random: Random,
    one_in: usize,
    /// Messages that come late.
    late: Vec<Vec<u8>>,
}

impl Channel {
    /// What comes out for a message that goes in.
    fn pass(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let mut out = vec![message.to_vec()];
        if self.random.one_in(self.one_in) {
            match self.random.below(4) {
                0 => out.clear(),
                1 => out.push(message.to_vec()),
                2 => self.late.append(&mut out),
                _ => {
                    let bit = self.random.below(8 * message.len());
                    out[0][bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
        if self.random.one_in(3) {
            out.append(&mut self.late);
        }
        out
    }
}

/// The replica and what its readers have.
struct Far {
    replica: Replica,
    fib: Option<Arc<dyn FlatFib>>,
    refused: usize,
}

impl Far {
    fn receive(&mut self, message: &[u8]) {
        match self.replica.receive(message) {
            Ok(Some(Update::Replace(fib))) => self.fib = Some(fib),
            Ok(_) => {}
            Err(_) => self.refused += 1,
        }
    }

    fn assert_equal(&self, oracle: &FlatOracle) {
        let fib = self.fib.as_ref().expect("one that is not stale has a table");
        for name in (0..NAMES).map(digest) {
            if let Some(right) = oracle.entry(name) {
                assert_eq!(fib.entry(name), Some(right));
            }
        }
    }
}

fn batch(random: &mut Random, entry_bits: u32) -> Vec<Change<byname_wire::Digest>> {
    let most = if random.one_in(10) { 200 } else { 10 };
    let len = 1 + random.below(most);
    (0..len)
        .map(|_| match (digest(random.below(NAMES)), random.below(4)) {
            (name, 0) => Change::Remove(name),
            (name, _) => Change::Set(name, EntryId(random.next() as u32 & (u32::MAX >> (32 - entry_bits)))),
        })
        .collect()
}

fn run(seed: u64, entry_bits: u32, one_in: usize) -> usize {
    let mut random = Random(seed);
    let options = Options { entry_bits, part_names: 60, ..Options::default() };
    let mut near = Othello::new(options).expect("a little memory");
    let (mut oracle, mut sender) = (FlatOracle::new(), Sender::new(KEY, MESSAGE_OCTETS_MIN));
    let mut far = Far { replica: Replica::new(KEY, 1 << 20, Pages::Small), fib: None, refused: 0 };
    let mut channel = Channel { random: Random(!seed), one_in, late: Vec::new() };
    let mut compared = 0;
    for _ in 0..300 {
        let changes = batch(&mut random, entry_bits);
        near.apply(&changes).expect("few names");
        oracle.apply(&changes).expect("the oracle takes all");
        let mut deliver = |message: &[u8]| channel.pass(message).iter().for_each(|message| far.receive(message));
        if random.one_in(2) {
            near.feed(&mut sender, &mut deliver);
        }
        if random.one_in(8) {
            near.feed(&mut sender, &mut deliver);
            // A beat that comes through shows whatever was lost.
            sender.beat(|message| far.receive(message));
            if !far.replica.is_stale() {
                far.assert_equal(&oracle);
                compared += 1;
            } else {
                near.feed_whole(&mut sender, |message| channel.pass(message).iter().for_each(|m| far.receive(m)));
            }
        }
    }
    near.feed(&mut sender, |message| far.receive(message));
    sender.beat(|message| far.receive(message));
    if far.replica.is_stale() {
        near.feed_whole(&mut sender, |message| far.receive(message));
    }
    assert!(!far.replica.is_stale(), "a whole table came through");
    far.assert_equal(&oracle);
    assert!(far.refused == 0 || one_in < usize::MAX, "a perfect channel");
    compared
}

#[test]
fn a_replica_is_equal_or_stale() {
    let mut compared = 0;
    for seed in 0..60 {
        let entry_bits = [1, 5, 8, 13, 32][seed as usize % 5];
        compared += run(seed, entry_bits, [3, 30, 300, usize::MAX][seed as usize % 4]);
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn who_lacks_the_key_is_not_heard() {
    let mut replica = Replica::new(KEY, 1 << 20, Pages::Small);
    let mut near = Othello::new(Options::default()).expect("a little memory");
    let mut stranger = Sender::new(NameHashKey::new([5, 7]), MESSAGE_OCTETS_MIN);
    near.feed_whole(&mut stranger, |message| assert_eq!(replica.receive(message).err(), Some(Refusal::Corrupt)));
    assert!(replica.query().is_none());
}

/// Octets a change, beside what the paper counts [Concise, Table 2].
#[test]
fn messages_of_changes_are_short() {
    let names: Vec<_> = (0..100_000).map(digest).collect();
    let mut random = Random(1);
    let mut entry = || EntryId(random.next() as u32 & 255);
    let entries: Vec<_> = names.iter().map(|_| entry()).collect();
    let mut near = Othello::construct(Options::default(), &names, &entries).expect("a little memory");
    let mut sender = Sender::new(KEY, 1400);
    assert!(near.feed(&mut sender, |_| {}).is_whole);
    let alters: Vec<_> = names.iter().step_by(50).map(|&name| Change::Set(name, entry())).collect();
    near.apply(&alters).expect("few names");
    let sent = near.feed(&mut sender, |_| {});
    assert!(!sent.is_whole && sent.block_octets == 0);
    let octets = sent.change_octets as f64 / sent.changes as f64;
    let bound = sent.entropy_bits / 8.0 / sent.changes as f64;
    println!("{} changes: {octets:.2} octets each; they tell {bound:.2}", sent.changes);
    assert!(octets < 3.0 * bound, "{octets} octets for {bound}");
}
