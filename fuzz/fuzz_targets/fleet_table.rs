//! Chunks, manifests, deltas and lists of blocks of a fleet's tables: any bytes, and frames that decompress to any bytes. Each is refused, or
//! decodes to what can be encoded again.
#![no_main]

use std::io::Write;

use byname_fleet::table::blocks::Blocks;
use byname_fleet::table::chunk::{self, chunks};
use byname_fleet::table::delta::Delta;
use byname_fleet::table::manifest::Manifest;
use byname_fleet::table::{Digest, Rows};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input {
    Raw(Vec<u8>),
    Frame { kind: u8, body: Vec<u8> },
}

fn bytes(input: Input) -> Vec<u8> {
    match input {
        Input::Raw(bytes) => bytes,
        Input::Frame { kind, body } => {
            let mut out = b"BNT1".to_vec();
            out.push(1 + kind % 4);
            out.extend((body.len() as u32).to_be_bytes());
            let mut encoder = DeflateEncoder::new(out, Compression::fast());
            encoder.write_all(&body).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
        }
    }
}

fuzz_target!(|input: Input| {
    let bytes = bytes(input);
    let name = Digest::of(&bytes);
    let mut rows = Rows::new();
    if let Ok(count) = chunk::decode(name, &bytes, &mut rows) {
        assert_eq!(count, rows.len());
        let mut again = Rows::new();
        for chunk in chunks(&rows) {
            assert_eq!(chunk::decode(chunk.digest, &chunk.bytes, &mut again), Ok(chunk.rows));
        }
        assert_eq!(again, rows);
    }
    if let Ok(manifest) = Manifest::decode(name, &bytes) {
        let encoded = manifest.encode().expect("it was short enough");
        assert_eq!(Manifest::decode(Digest::of(&encoded), &encoded), Ok(manifest));
    }
    if let Ok(blocks) = Blocks::decode(name, &bytes) {
        let encoded = blocks.encode().expect("it was short enough");
        assert_eq!(Blocks::decode(Digest::of(&encoded), &encoded), Ok(blocks));
    }
    if let Ok(delta) = Delta::decode(&bytes) {
        let mut changes = Vec::new();
        for (encoded, _) in Delta::encode(delta.epoch, delta.before, &delta.changes) {
            changes.extend(Delta::decode(&encoded).expect("a delta").changes);
        }
        assert_eq!(changes, delta.changes);
    }
});
