use byname_wire::tagset::Descriptor;

use super::*;
use crate::file::Place;
use crate::memory::Pages;
use crate::tagset::{Effort, TagQuery, TagsetFib};
use crate::temporary::Temporary;
use crate::update::{Change, Control};

/// Sets with narrow and wide nodes, some nested, and the one without tags.
fn sets(count: u32) -> impl Iterator<Item = (Descriptor, EntryId)> {
    (0..count).map(|i| {
        let tags = [i % 3, 10 + i % 40, 100 + i % 7 * (i % 5), 1000 + i / 9, 5000 + i % 2]
            .map(|tag: u32| tag.wrapping_mul(0x01fd_53a1));
        let tags = tags.into_iter().take(i as usize % 6).map(TagDigest);
        (Descriptor::from_digests(tags.collect::<Vec<_>>()).expect("few tags"), EntryId(i % 20))
    })
}

const SECRET: u64 = 0x0123_4567_89ab_cdef;

fn labels() -> Vec<Box<[u8]>> {
    (0..20u8).map(|i| [i].into()).collect()
}

fn save(count: u32, path: &Path) {
    let options = Options { members_max: 4, ..Options::default() };
    let table = RareTag::load(SECRET, &options, sets(count)).expect("a little memory");
    table.save(path, SECRET, &labels()).expect("a little memory").expect("a new file");
}

fn open(path: &Path, opening: Opening) -> Result<Opened, FileError> {
    RareTag::open(path, opening, &Options { members_max: 4, ..Options::default() })
}

const CHECKED: Opening = Opening { place: Place::Mapped, checked: true };
/// No checksums, so that the walk alone decides.
const WALKED: Opening = Opening { place: Place::Copied(Pages::Small), checked: false };

/// The entries that a query finds, ascending.
fn found(query: &dyn TagsetFib, tags: &[TagDigest], by_filter: bool) -> Vec<u32> {
    let all = TagQuery::of_tags(tags);
    let asked = if by_filter { TagQuery::of_filter(all.filter) } else { all };
    let mut found = Vec::new();
    let mut visit = |entry: EntryId| {
        found.push(entry.0);
        std::ops::ControlFlow::Continue(())
    };
    let effort: Effort = query.all_subsets(&asked, &mut visit);
    assert!(!effort.cut_off);
    found.sort_unstable();
    found
}

#[test]
fn files_answer_as_their_tables_did_and_changes_go_on() {
    let file = Temporary::new("same");
    let options = Options { members_max: 4, ..Options::default() };
    let mut right = RareTag::load(SECRET, &options, sets(3000)).expect("a little memory");
    // Leftovers are not saved.
    let gone: Vec<_> = sets(3000).step_by(7).map(|(set, _)| Change::Remove(set)).collect();
    right.apply(&gone).expect("a little memory");
    right.save(&file.0, SECRET, &labels()).expect("a little memory").expect("a new file");
    for place in [Place::Mapped, Place::Copied(Pages::Small), Place::Copied(Pages::Large)] {
        let opened = open(&file.0, Opening { place, checked: true }).expect("ours");
        let Opened { mut table, secret, labels: read, uses } = opened;
        assert_eq!((secret, &read, table.len()), (SECRET, &labels(), right.len()));
        assert_eq!(uses.iter().sum::<u32>() as usize, right.len());
        let same = |right: &RareTag, table: &RareTag| {
            for (set, _) in sets(600) {
                for by_filter in [false, true] {
                    let both = [right, table].map(|table| found(&*table.query(), set.tags(), by_filter));
                    assert_eq!(both[0], both[1], "{set:?} {by_filter}");
                }
                assert_eq!(table.entry_of(&set), right.entry_of(&set));
            }
        };
        same(&right, &table);
        // The same changes of both: all nodes lose and gain members, and become empty.
        let mut other = RareTag::load(SECRET, &options, sets(3000)).expect("a little memory");
        other.apply(&gone).expect("a little memory");
        for round in 0..3u32 {
            let changes: Vec<_> =
                sets(4000)
                    .enumerate()
                    .filter(|(i, _)| !(*i as u32 + round).is_multiple_of(3))
                    .map(|(i, (set, entry))| {
                        if (i as u32 + round).is_multiple_of(2) { Change::Remove(set) } else { Change::Set(set, entry) }
                    })
                    .collect();
            for table in [&mut other, &mut table] {
                table.apply(&changes).expect("room");
                table.reclaim();
            }
            same(&other, &table);
        }
        let all: Vec<_> = sets(4000).map(|(set, _)| Change::Remove(set)).collect();
        table.apply(&all).expect("room");
        assert!(table.is_empty() && found(&*table.query(), sets(50).last().expect("some").0.tags(), false).is_empty());
    }
}

#[test]
fn empty_tables_have_files() {
    let file = Temporary::new("empty");
    save(0, &file.0);
    let mut table = open(&file.0, CHECKED).expect("ours").table;
    assert!(table.is_empty());
    table.apply(&sets(100).map(|(set, entry)| Change::Set(set, entry)).collect::<Vec<_>>()).expect("room");
    assert_eq!(table.entry_of(&sets(100).last().expect("some").0), Some(EntryId(99 % 20)));
}

#[test]
fn files_cut_or_altered_at_any_byte_are_refused() {
    let file = Temporary::new("cut");
    save(60, &file.0);
    let whole = std::fs::read(&file.0).expect("ours");
    // Padding belongs to no section.
    let sections: Vec<_> = (0..4).map(|i| section(&whole, i)).collect();
    let covered = |at: usize| at < 4096 || sections.iter().any(|(from, len)| (*from..from + len).contains(&at));
    for at in 0..whole.len() {
        if at % 53 == 0 || at + 1 == whole.len() {
            std::fs::write(&file.0, &whole[..at]).expect("a shorter one");
            assert!(open(&file.0, CHECKED).is_err(), "{at} bytes");
        }
        if covered(at) && (at < 160 || at % 7 == 0) {
            let mut altered = whole.clone();
            altered[at] ^= 1 << (at % 8);
            std::fs::write(&file.0, altered).expect("ours");
            assert!(open(&file.0, CHECKED).is_err(), "byte {at}");
        }
    }
    std::fs::write(&file.0, [&*whole, b"x"].concat()).expect("a longer one");
    assert!(matches!(open(&file.0, CHECKED), Err(FileError::Length { .. })));
    std::fs::write(&file.0, b"#!/bin/sh\n").expect("a foreign one");
    assert!(matches!(open(&file.0, CHECKED), Err(FileError::Foreign)));
}

/// Where a section begins, and its length.
fn section(file: &[u8], index: usize) -> (usize, usize) {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize;
    (number(48 + 24 * index + 8), number(48 + 24 * index + 16))
}

/// A file with right checksums whatever it holds.
fn forge(whole: &[u8], alter: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    alter(&mut bytes);
    for index in 0..4 {
        let (from, len) = section(whole, index);
        let crc = crc32c::crc32c(&bytes[from..from + len]);
        bytes[48 + 24 * index + 4..][..4].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Uses a table from a forged file in all ways. Answers may be wrong.
fn use_all(opened: Opened) {
    let mut table = opened.table;
    for (set, _) in sets(60) {
        for by_filter in [false, true] {
            let all = TagQuery::of_tags(set.tags());
            let asked = if by_filter { TagQuery::of_filter(all.filter) } else { all };
            table.query().all_subsets(&asked, &mut |_| std::ops::ControlFlow::Continue(()));
            table.query().largest_subset(&asked, &mut |_| true);
        }
    }
    for (set, entry) in sets(90) {
        table.apply(&[Change::Set(set, entry)]).expect("room");
    }
    table.reclaim();
    for (set, _) in sets(90) {
        table.apply(&[Change::Remove(set)]).expect("room");
        table.reclaim();
    }
}

/// Each byte of what leads to other places is altered, with right checksums: such a file is refused, or gives wrong
/// answers, and is changed without harm.
#[test]
fn forged_files_are_refused_or_give_wrong_answers() {
    let file = Temporary::new("forged");
    save(60, &file.0);
    let whole = std::fs::read(&file.0).expect("ours");
    let (mut refused, mut used) = (0, 0);
    for index in 0..4 {
        let (from, len) = section(&whole, index);
        for at in from..from + len {
            // Most of the blocks is empty tables: a few bytes of those, and each byte of all else.
            if index == 1 && whole[at] == 0 && at % 13 != 0 {
                continue;
            }
            for flip in [1u8 << (at % 8), 0xff] {
                std::fs::write(&file.0, forge(&whole, |bytes| bytes[at] ^= flip)).expect("ours");
                match open(&file.0, WALKED) {
                    Ok(opened) => {
                        used += 1;
                        use_all(opened);
                    }
                    Err(error) => {
                        assert!(matches!(error, FileError::Malformed { .. }), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    // Other tags and other entries are possible, other numbers of blocks are not.
    assert!(refused > 1000 && used > 50, "{refused} refused, {used} used");
    let secret = forge(&whole, |bytes| bytes[33] = 1);
    std::fs::write(&file.0, secret).expect("ours");
    assert!(matches!(open(&file.0, CHECKED), Err(FileError::Malformed { .. })));
}

#[test]
fn random_blocks_lead_nowhere() {
    let file = Temporary::new("random");
    save(60, &file.0);
    let whole = std::fs::read(&file.0).expect("ours");
    let (from, len) = section(&whole, 1);
    let mut state = 11u64;
    for round in 0..200 {
        let forged = forge(&whole, |bytes| {
            for _ in 0..1 + round % 20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = from + (state >> 33) as usize % (len / 4) * 4;
                bytes[at..at + 4].copy_from_slice(&(state as u32 >> (round % 32)).to_le_bytes());
            }
        });
        std::fs::write(&file.0, forged).expect("ours");
        if let Ok(opened) = open(&file.0, WALKED) {
            use_all(opened);
        }
    }
}
