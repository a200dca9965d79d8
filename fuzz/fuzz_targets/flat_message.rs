//! Update messages of flat tables, whole and in parts, for replicas of both engines. A replica must ignore messages
//! without the sender's seal. A sealed message must lead to a table that answers lookups, or be rejected.
//!
//! The target seals messages itself, as no stranger could. So the fuzzer also reaches the code behind the check of the
//! seal.
#![no_main]

use byname_lookup::Pages;
use byname_lookup::flat::message::{Block, Flip, MESSAGE_BYTES_MIN, Sender};
use byname_lookup::flat::{line, othello};
use byname_wire::{Digest, NameHashKey};
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// One message to send.
#[derive(Arbitrary, Debug)]
enum Sending {
    /// Raw bytes without a seal.
    Raw(Vec<u8>),
    Changes(Vec<Vec<(u8, u8, u64)>>),
    Blocks {
        is_whole: bool,
        header: Vec<u8>,
        blocks: Vec<(u8, Vec<u8>, Vec<u64>)>,
    },
    /// A part of a table of lines, with the numbers of cells of each level. Usually they fit the number of words.
    Part {
        number: u8,
        cells: [u8; 4],
    },
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut sender = Sender::new(KEY, MESSAGE_BYTES_MIN);
    let mut othello = othello::Replica::new(KEY, 1 << 16, Pages::Small);
    let mut line = line::Replica::new(KEY, 1 << 16, Pages::Small);
    while !input.is_empty()
        && let Ok(sending) = Sending::arbitrary(&mut input)
    {
        let before = (othello.is_stale(), line.is_stale());
        let mut receive = |message: &[u8]| {
            let _ = (othello.receive(message), line.receive(message));
        };
        match sending {
            Sending::Raw(bytes) => {
                receive(&bytes);
                assert_eq!((othello.is_stale(), line.is_stale()), before, "it had no seal");
            }
            Sending::Changes(changes) => {
                let flip = |&(block, word, flip): &(u8, u8, u64)| Flip { block: block.into(), word: word.into(), flip };
                let changes: Vec<Vec<_>> = changes.iter().map(|change| change.iter().map(flip).collect()).collect();
                let changes: Vec<_> = changes.iter().filter(|change| sender.fits(change)).collect();
                sender.changes(changes.iter().map(|change| change.as_slice()), receive);
            }
            Sending::Blocks { is_whole, header, blocks } => {
                let block = |(number, header, words): (u8, _, _)| Block { number: number.into(), header, words };
                sender.blocks(is_whole, &header, blocks.into_iter().map(block), receive);
            }
            Sending::Part { number, cells } => {
                let words = cells.iter().map(|&cells| 8 * usize::from(cells)).sum();
                let header = cells.map(|cells| u32::from(cells).to_le_bytes()).concat();
                let block = Block { number: number.into(), header, words: vec![u64::from(number); words] };
                sender.blocks(number == 1, &[8], std::iter::once(block), receive);
            }
        }
        for fib in [othello.query(), line.query()].into_iter().flatten() {
            for hash in [0, 1 << 63, u64::MAX] {
                fib.entry(Digest { hash, check: hash >> 7 });
            }
        }
    }
});
