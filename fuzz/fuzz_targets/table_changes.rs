//! Files of changes beside a table: any bytes, and changes whose checksums are right, those of the table too, whatever lines they
//! write. A file is refused, or its table answers lookups.
#![no_main]

use std::io::Write;
use std::sync::OnceLock;

use byname_lookup::file::changes::{Changes, path_of};
use byname_lookup::file::{Checked, Opening, Place, Source};
use byname_lookup::flat::labelled::{self, LabelledTable, Labels};
use byname_lookup::prefix::compact::{BulkLoader, BulkTable, Options};
use byname_lookup::{Control, EntryId};
use byname_wire::{Digest, Name, NameHashKey, NameView, PrefixHashes};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;
const LINE: usize = 64;
const KEY: NameHashKey = NameHashKey::new([1, 2]);

#[derive(Arbitrary, Debug)]
enum Input {
    Raw { flat: bool, bytes: Vec<u8>, wanted: u8 },
    Lines { flat: bool, repaired: bool, changes: Vec<Vec<(u8, [u8; 8])>> },
}

/// A table of prefixes, and one of flat names.
fn tables() -> &'static [Vec<u8>; 2] {
    static TABLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    TABLES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table");
        let mut loader = BulkLoader::new(KEY, 50, &Options::default()).expect("little memory");
        for uri in ["/a", "/a/b/c", "/a/b/c/d", "/x"] {
            let name: Name = uri.parse().expect("a name");
            loader.push(name.as_ref(), EntryId(0)).expect("sorted");
        }
        loader.finish_table(&Options::default()).expect("room").save(&path).expect("written");
        let prefixes = std::fs::read(&path).expect("read");
        let labels = Labels { texts: vec![b"/up".as_slice().into()], check_bits: 4 };
        let names: Vec<_> = (0..50u64).map(|name| (KEY.digest_bytes(&name.to_le_bytes()), EntryId(0))).collect();
        labelled::save((&path, &KEY), &labels, &names, &mut |_| {}).expect("written");
        [prefixes, std::fs::read(&path).expect("read")]
    })
}

/// Makes all checksums right.
fn repair(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let count = u32::from_le_bytes(bytes[44..48].try_into().expect("four bytes")).min(32) as usize;
    for section in 0..count {
        let at = 48 + 24 * section;
        let (offset, len) = (number(bytes, at + 8) as usize, number(bytes, at + 16) as usize);
        let Some(part) = offset.checked_add(len).and_then(|end| bytes.get(offset..end)) else { continue };
        let crc = crc32c::crc32c(part);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..PAGE - 4]);
    bytes[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
}

fuzz_target!(|input: Input| {
    let (Input::Raw { flat, .. } | Input::Lines { flat, .. }) = &input;
    let table = &tables()[usize::from(*flat)];
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(table).expect("written");
    let path = file.path().to_owned();
    let wanted = match &input {
        Input::Raw { bytes, wanted, .. } => {
            std::fs::write(path_of(&path), bytes).expect("written");
            u64::from(*wanted)
        }
        Input::Lines { repaired, changes, .. } => {
            let mut beside = Changes::read(&path, Some(0)).expect("a table");
            let mut before = table.clone();
            for lines in changes.iter().take(4) {
                let mut after = before.clone();
                for (line, word) in lines {
                    let at = usize::from(*line) * LINE % after.len();
                    after[at..at + LINE].copy_from_slice(&word.repeat(8));
                }
                if *repaired {
                    repair(&mut after);
                }
                let lines = before.chunks(LINE).zip(after.chunks(LINE)).zip(0u64..);
                let runs = lines.filter(|((before, after), _)| before != after).map(|((_, after), n)| (n * 64, after));
                beside.append(b"note", runs).expect("whole lines");
                before = after;
            }
            let all = Changes::read(&path, None).expect("what was written");
            assert_eq!(all.len(), beside.len());
            let mut read = table.clone();
            all.put(0, &mut read);
            assert!(read == before);
            all.len()
        }
    };
    let checked = Checked::default();
    let place = Place::Mapped;
    for (opening, checked) in [
        (Opening { place, checked: false }, None),
        (Opening { place, checked: true }, Some(&checked)),
        (Opening { place, checked: true }, Some(&checked)),
        (Opening { place: Place::Copied(byname_lookup::Pages::Small), checked: true }, None),
    ] {
        let source = Source { path: &path, changes: wanted, checked };
        if let Ok(table) = BulkTable::open(source, opening, &Options::default()) {
            let name: Name = "/a/b/c/d/e/f/g/h".parse().expect("a name");
            let mut hashes = PrefixHashes::default();
            let found = table.query().longest_match(&NameView::new(table.key(), name.as_ref(), &mut hashes));
            assert!(found.is_none_or(|found| found.depth <= 8));
        }
        if let Ok(opened) = LabelledTable::open(source, opening) {
            for hash in [0, 1 << 63, u64::MAX] {
                opened.query().entry(Digest { hash, check: hash >> 7 });
            }
        }
    }
    let _ = std::fs::remove_file(path_of(&path));
});
