//! Files of tables: any bytes, and files whose checksums are right whatever their sections hold. A file is refused, or
//! its table answers lookups.
//!
//! The target computes the checksums itself. So the fuzzer also reaches the code behind their check.
#![no_main]

use std::io::Write;

use byname_lookup::Control;
use byname_lookup::file::{Opening, Place};
use byname_lookup::flat::line;
use byname_lookup::prefix::compact::{BulkTable, Options};
use byname_wire::{Digest, Name, NameView, PrefixHashes};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;

#[derive(Arbitrary, Debug)]
enum Input {
    Raw(Vec<u8>),
    Sections {
        kind: bool,
        sections: Vec<Vec<u8>>,
        /// Lines to add to the third section, and a word for all of them.
        lines: u8,
        word: u64,
    },
}

fn file(kind: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    let mut header = [0; PAGE];
    let mut body = Vec::new();
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"byntable");
    put(8, &1u32.to_le_bytes());
    put(12, &kind.to_le_bytes());
    put(40, &1u32.to_le_bytes());
    put(44, &(sections.len() as u32).to_le_bytes());
    for (i, section) in sections.iter().enumerate() {
        let at = 48 + 24 * i;
        put(at, &(i as u32 + 1).to_le_bytes());
        put(at + 4, &crc32c::crc32c(section).to_le_bytes());
        put(at + 8, &((PAGE + body.len()) as u64).to_le_bytes());
        put(at + 16, &(section.len() as u64).to_le_bytes());
        body.extend(section);
        body.resize(body.len().next_multiple_of(PAGE), 0);
    }
    put(16, &((PAGE + body.len()) as u64).to_le_bytes());
    let crc = crc32c::crc32c(&header[..PAGE - 4]);
    header[PAGE - 4..].copy_from_slice(&crc.to_le_bytes());
    [&header[..], &body].concat()
}

fuzz_target!(|input: Input| {
    let bytes = match input {
        Input::Raw(bytes) => bytes,
        Input::Sections { kind, mut sections, lines, word } => {
            sections.truncate(6);
            if let Some(section) = sections.get_mut(2) {
                section.extend((0..8 * usize::from(lines)).flat_map(|_| word.to_le_bytes()));
            }
            file(1 + u32::from(kind), &sections)
        }
    };
    let mut temporary = tempfile::NamedTempFile::new().expect("a file");
    temporary.write_all(&bytes).expect("written");
    for place in [Place::Mapped, Place::Copied(byname_lookup::Pages::Small)] {
        let opening = Opening { place, checked: true };
        if let Ok(table) = BulkTable::open(temporary.path(), opening, &Options::default()) {
            let name: Name = "/a/b/c/d/e/f/g/h".parse().expect("a name");
            let mut hashes = PrefixHashes::default();
            let found = table.query().longest_match(&NameView::new(table.key(), name.as_ref(), &mut hashes));
            assert!(found.is_none_or(|found| found.depth <= 8));
        }
        if let Ok(opened) = line::open(temporary.path(), opening) {
            for hash in [0, 1 << 63, u64::MAX] {
                opened.query.entry(Digest { hash, check: hash >> 7 });
            }
        }
    }
});
