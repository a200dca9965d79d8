//! A query half that is fed by messages over a channel that loses, repeats, reorders and corrupts
//! them. In the end it equals the control half's, or says that it is stale. It is never silently
//! wrong.

use std::sync::Arc;

use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::message::{Block, Feed, MESSAGE_BYTES_MIN, Refusal, Sender};
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{Change, Control, EntryId, FlatFib, Pages, Update};
use byname_wire::{Digest, NameHashKey};

use crate::names::digest;
use crate::suite::Random;

const KEY: NameHashKey = NameHashKey::new([5, 6]);
const NAMES: usize = 600;

/// A control half that sends its changes.
trait Near: Control<Digest, Query = dyn FlatFib> + Feed {}
impl<E: Control<Digest, Query = dyn FlatFib> + Feed> Near for E {}

/// A query half that receives messages.
trait Replica {
    fn receive(&mut self, message: &[u8]) -> Result<Option<Update<dyn FlatFib>>, Refusal>;
    fn is_stale(&self) -> bool;
}

macro_rules! replica {
    ($engine:ident) => {
        impl Replica for $engine::Replica {
            fn receive(&mut self, message: &[u8]) -> Result<Option<Update<dyn FlatFib>>, Refusal> {
                self.receive(message)
            }
            fn is_stale(&self) -> bool {
                self.is_stale()
            }
        }
    };
}
replica!(othello);
replica!(line);

/// Both halves of an engine that often rebuilds parts.
type Halves = (Box<dyn Near>, Box<dyn Replica>);
type Engine = fn(entry_bits: u32) -> Halves;

fn othello(entry_bits: u32) -> Halves {
    let options = othello::Options { entry_bits, part_names: 60, ..Default::default() };
    let near = Othello::new(options).expect("a little memory");
    (Box::new(near), Box::new(othello::Replica::new(KEY, 1 << 20, Pages::Small)))
}

fn line(entry_bits: u32) -> Halves {
    let near = LineRetrieval::new(&line::Options { entry_bits, part_names: 60, ..Default::default() });
    (Box::new(near), Box::new(line::Replica::new(KEY, 1 << 20, Pages::Small)))
}

/// Faults of the channel, each for one in `n` messages.
struct Channel {
    random: Random,
    one_in: usize,
    /// Messages that arrive late.
    late: Vec<Vec<u8>>,
}

impl Channel {
    /// The messages that come out of the channel for one that goes in.
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

/// The replica, and what its readers have.
struct Far {
    replica: Box<dyn Replica>,
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

fn batch(random: &mut Random, entry_bits: u32) -> Vec<Change<Digest>> {
    let most = if random.one_in(10) { 200 } else { 10 };
    let len = 1 + random.below(most);
    (0..len)
        .map(|_| match (digest(random.below(NAMES)), random.below(4)) {
            (name, 0) => Change::Remove(name),
            (name, _) => Change::Set(name, EntryId(random.next() as u32 & (u32::MAX >> (32 - entry_bits)))),
        })
        .collect()
}

fn run(engine: Engine, seed: u64, entry_bits: u32, one_in: usize) -> usize {
    let mut random = Random(seed);
    let (mut near, replica) = engine(entry_bits);
    let (mut oracle, mut sender) = (FlatOracle::new(), Sender::new(KEY, MESSAGE_BYTES_MIN));
    let mut far = Far { replica, fib: None, refused: 0 };
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
            // A beat that arrives reveals whatever was lost.
            sender.beat(|message| far.receive(message));
            if !far.replica.is_stale() {
                far.assert_equal(&oracle);
                compared += 1;
            } else {
                near.feed_whole(&mut sender, &mut |message| channel.pass(message).iter().for_each(|m| far.receive(m)));
            }
        }
    }
    near.feed(&mut sender, &mut |message| far.receive(message));
    sender.beat(|message| far.receive(message));
    if far.replica.is_stale() {
        near.feed_whole(&mut sender, &mut |message| far.receive(message));
    }
    assert!(!far.replica.is_stale(), "a whole table came through");
    far.assert_equal(&oracle);
    assert!(far.refused == 0 || one_in < usize::MAX, "a perfect channel");
    compared
}

#[test]
fn a_replica_is_equal_or_stale() {
    for (name, engine) in [("othello", othello as Engine), ("line", line)] {
        let mut compared = 0;
        for seed in 0..60 {
            let entry_bits = [1, 5, 8, 13, 32][seed as usize % 5];
            compared += run(engine, seed, entry_bits, [3, 30, 300, usize::MAX][seed as usize % 4]);
        }
        assert!(compared > 500, "{name}: {compared}");
    }
}

#[test]
fn who_lacks_the_key_is_not_heard() {
    for engine in [othello, line] {
        let (mut near, mut replica) = engine(8);
        let mut stranger = Sender::new(NameHashKey::new([5, 7]), MESSAGE_BYTES_MIN);
        let mut refuse = |message: &[u8]| assert_eq!(replica.receive(message).err(), Some(Refusal::Corrupt));
        near.feed_whole(&mut stranger, &mut refuse);
        assert!(replica.is_stale());
    }
}

/// Messages with a valid seal whose parts do not fit a table of lines.
#[test]
fn parts_that_fit_no_table_are_refused() {
    let whole = Block { number: 1, header: [1u32, 1, 1, 1].map(u32::to_le_bytes).concat(), words: vec![0; 32] };
    let mut sender = Sender::new(KEY, 1400);
    let mut replica = line::Replica::new(KEY, 1 << 20, Pages::Small);
    let mut is_taken = |bits: u8, blocks: Vec<Block>| {
        let mut taken = None;
        sender.blocks(true, &[bits], blocks.into_iter(), |message| taken = Some(replica.receive(message)));
        let taken = taken.expect("one message");
        assert_eq!(taken.is_err(), replica.is_stale());
        taken.is_ok()
    };
    assert!(is_taken(8, vec![whole.clone()]));
    assert!(!is_taken(0, vec![whole.clone()]) && !is_taken(33, vec![whole.clone()]));
    // Cells for one bit take a quarter of a line.
    assert!(!is_taken(1, vec![whole.clone()]));
    let refused: [fn(&mut Block); 6] = [
        |block| block.number = 0,
        |block| block.number = 1 << 17,
        // A part with half of all names: nothing would hold the others.
        |block| block.number = 3,
        |block| block.header[0] = 0,
        |block| block.header.fill(255),
        |block| block.words.truncate(8),
    ];
    for change in refused {
        let mut block = whole.clone();
        change(&mut block);
        assert!(!is_taken(8, vec![block]));
    }
    assert!(!is_taken(8, Vec::new()));
    assert!(is_taken(8, vec![Block { number: 2, ..whole.clone() }, Block { number: 3, ..whole }]));
}

/// A control half whose changes nobody asks for does not record more changes than the table's size.
#[test]
fn who_is_told_nothing_for_long_is_sent_the_whole_table() {
    for engine in [othello, line] {
        let (mut near, mut replica) = engine(8);
        let mut random = Random(3);
        let mut sender = Sender::new(KEY, 1400);
        assert!(near.feed(&mut sender, &mut |_| {}).is_whole);
        let mut oracle = FlatOracle::new();
        for _ in 0..2000 {
            let changes = batch(&mut random, 8);
            near.apply(&changes).expect("few names");
            oracle.apply(&changes).expect("the oracle takes all");
        }
        let mut fib = None;
        // It missed what was sent first.
        let sent = near.feed(&mut sender, &mut |message| {
            if let Ok(Some(Update::Replace(new))) = replica.receive(message) {
                fib = Some(new);
            }
        });
        assert!(sent.is_whole);
        Far { replica, fib, refused: 0 }.assert_equal(&oracle);
    }
}

/// Bytes for each change, compared with the paper's [Concise, Table 2].
#[test]
fn messages_of_changes_are_short() {
    let names: Vec<_> = (0..100_000).map(digest).collect();
    let mut random = Random(1);
    let mut entry = || EntryId(random.next() as u32 & 255);
    let entries: Vec<_> = names.iter().map(|_| entry()).collect();
    let pairs: Vec<_> = names.iter().copied().zip(entries.iter().copied()).collect();
    let near: [(&str, Box<dyn Near>); 2] = [
        ("othello", Box::new(Othello::construct(Default::default(), &names, &entries).expect("a little memory"))),
        ("line", Box::new(LineRetrieval::load(&Default::default(), &pairs).expect("a little memory"))),
    ];
    for (name, mut near) in near {
        let mut sender = Sender::new(KEY, 1400);
        assert!(near.feed(&mut sender, &mut |_| {}).is_whole);
        let alters: Vec<_> = names.iter().step_by(200).map(|&name| Change::Set(name, entry())).collect();
        near.apply(&alters).expect("few names");
        let sent = near.feed(&mut sender, &mut |_| {});
        assert!(!sent.is_whole && sent.block_bytes == 0);
        let bytes = sent.change_bytes as f64 / sent.changes as f64;
        let bound = sent.entropy_bits / 8.0 / sent.changes as f64;
        println!("{name}: {} changes: {bytes:.2} bytes each; they tell {bound:.2}", sent.changes);
        assert!(bytes < 3.0 * bound, "{name}: {bytes} bytes for {bound}");
    }
}
