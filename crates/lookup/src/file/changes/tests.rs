//! Files of changes: written and read again, cut, damaged and forged.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::file::{Checked, Edit, Kind, Opening, Place, Source, TableFile, TableWriter};
use crate::memory::Pages;
use crate::sync::Ordering;

/// A table's file, which is removed with its changes.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str) -> Self {
        Temporary(std::env::temp_dir().join(format!("byname-changes-{name}-{}.table", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(path_of(&self.0));
    }
}

/// Notes a change of a file instead of making it there.
pub(crate) fn append_edits(table: &Path, edits: &[Edit]) -> Changes {
    let mut changes = Changes::read(table, None).expect("a table");
    let mut before = std::fs::read(table).expect("a table");
    changes.put(0, &mut before);
    let mut after = before.clone();
    for Edit { at, bytes } in edits {
        after[*at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    let lines = before.chunks(LINE).zip(after.chunks(LINE)).zip(0u64..);
    let runs = lines.filter(|((before, after), _)| before != after).map(|((_, after), n)| (n * LINE as u64, after));
    changes.append(b"edits", runs).expect("lines");
    changes
}

const WORDS: usize = 8 * 500;

fn write(words: &[u64], text: &[u8], path: &Path) -> Vec<u8> {
    let mut file = TableWriter::create(path, Kind::Line, &NameHashKey::new([1, 2])).unwrap();
    file.bytes(1, text).unwrap();
    file.words(2, words.iter().copied()).unwrap();
    file.bytes(3, b"the end").unwrap();
    file.finish().unwrap();
    std::fs::read(path).unwrap()
}

/// Everything in a file: its text, its words, and its end.
type Contents = (Vec<u8>, Vec<u64>, Vec<u8>);

fn contents<'a>(source: impl Into<Source<'a>>, opening: Opening) -> Result<Contents, FileError> {
    let file = TableFile::open(source, Kind::Line, opening)?;
    let runs = file.lines_in_runs(2, 77)?;
    let words = runs.iter().flat_map(|run| run.iter()).flat_map(|line| &line.0);
    Ok((file.bytes(1)?, words.map(|word| word.load(Ordering::Relaxed)).collect(), file.bytes(3)?))
}

/// A file and some changes beside it, and what it is after each one. The first one is without changes.
fn changed(file: &Temporary, count: usize, rng: &mut SmallRng) -> Vec<Contents> {
    let other = Temporary(file.0.with_extension("other"));
    let mut words: Vec<u64> = (0..WORDS).map(|_| rng.random()).collect();
    let mut before = write(&words, b"text 0", &file.0);
    let mut all = vec![contents(&file.0, Opening::default()).unwrap()];
    for round in 1..=count {
        for at in [0, WORDS - 1, rng.random_range(0..WORDS), rng.random_range(0..WORDS)] {
            words[at] = rng.random();
        }
        let after = write(&words, format!("text {}", round % 10).as_bytes(), &other.0);
        let lines = before.chunks(LINE).zip(after.chunks(LINE)).zip(0u64..);
        let runs = lines.filter(|((before, after), _)| before != after).map(|((_, after), n)| (n * LINE as u64, after));
        let mut changes = Changes::read(&file.0, None).unwrap();
        changes.append(format!("note {round}").as_bytes(), runs).unwrap();
        assert_eq!(changes.len(), round as u64);
        all.push(contents(&other.0, Opening::default()).unwrap());
        before = after;
    }
    all
}

const OPENINGS: [Opening; 3] = [
    Opening { place: Place::Mapped, checked: true },
    Opening { place: Place::Mapped, checked: false },
    Opening { place: Place::Copied(Pages::Small), checked: true },
];

#[test]
fn a_file_with_changes_is_the_file_made_anew() {
    let (file, checked) = (Temporary::new("anew"), Checked::default());
    let expected = changed(&file, 30, &mut SmallRng::seed_from_u64(1));
    for (changes, expected) in (0..).zip(&expected) {
        for opening in OPENINGS {
            for checked in [None, Some(&checked)] {
                let source = Source { path: &file.0, changes, checked };
                assert!(contents(source, opening).unwrap() == *expected, "{changes} changes, {opening:?}");
            }
        }
    }
    let changes = Changes::read(&file.0, None).unwrap();
    assert_eq!((changes.len(), changes.is_empty()), (30, false));
    let notes: Vec<_> = changes.notes().map(|note| String::from_utf8_lossy(note).into_owned()).collect();
    assert_eq!((&*notes[0], &*notes[29]), ("note 1", "note 30"));
    // The file itself is as it was, also for those who have mapped it with changes.
    assert!(contents(&file.0, Opening::default()).unwrap() == expected[0]);
    // Changes of another future take the place of those behind the one that they follow.
    let mut changes = Changes::read(&file.0, Some(10)).unwrap();
    assert_eq!(changes.len(), 10);
    changes.append(b"other", []).unwrap();
    assert_eq!(Changes::read(&file.0, None).unwrap().len(), 11);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(path_of(&file.0)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_was_checked_is_not_read_again_and_another_one_is() {
    let (file, checked) = (Temporary::new("once"), Checked::default());
    let expected = changed(&file, 3, &mut SmallRng::seed_from_u64(2));
    let open = |changes| contents(Source { path: &file.0, changes, checked: Some(&checked) }, Opening::default());
    assert!(open(1).unwrap() == expected[1]);
    // Damage behind the system's back: the times stay as they were. A line that no change writes is not looked at again, and a line
    // that one writes is, by the sum of the differences.
    let (before, metadata) = (std::fs::read(&file.0).unwrap(), std::fs::metadata(&file.0).unwrap());
    let damage = |at: usize| {
        let mut bytes = before.clone();
        bytes[at] ^= 1;
        // The identity has the time of the last change of the file's state, too, which nobody can set. So another file is not this one.
        std::fs::write(&file.0, bytes).unwrap();
        let times = std::fs::FileTimes::new().set_modified(metadata.modified().unwrap());
        File::options().write(true).open(&file.0).unwrap().set_times(times).unwrap();
    };
    damage(2 * PAGE + 5 * LINE);
    assert!(matches!(open(2), Err(FileError::Damaged { .. })), "it was written into");
    std::fs::write(&file.0, &before).unwrap();
    assert!(open(2).unwrap() == expected[2]);
    assert!(open(3).unwrap() == expected[3]);
    // Files that nobody opens are closed.
    let is_open = || {
        let open =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        open.filter(|path| *path == file.0).count()
    };
    assert!(is_open() > 0);
    checked.forget_others();
    assert!(is_open() > 0, "it was opened a moment ago");
    checked.forget_others();
    assert_eq!(is_open(), 0);
}

#[test]
fn changes_that_were_cut_off_end_the_file() {
    let file = Temporary::new("cut");
    let expected = changed(&file, 4, &mut SmallRng::seed_from_u64(3));
    let whole = std::fs::read(path_of(&file.0)).unwrap();
    let ends: Vec<usize> = {
        let length = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
        std::iter::successors(Some(HEADER), |at| (*at < whole.len()).then(|| at + length(*at))).collect()
    };
    assert_eq!((ends.len(), ends[4]), (5, whole.len()));
    for len in (0..whole.len()).step_by(13).chain(ends[..4].to_vec()) {
        std::fs::write(path_of(&file.0), &whole[..len]).unwrap();
        let is_whole = ends[1..].iter().filter(|end| **end <= len).count();
        for (changes, expected) in (0..).zip(&expected) {
            let read = contents(Source { path: &file.0, changes, checked: None }, Opening::default());
            match read {
                Ok(found) => assert!(changes as usize <= is_whole && found == *expected, "{changes} of {len} bytes"),
                Err(FileError::Changes { source: ChangesError::Missing { whole, wanted }, .. }) => {
                    assert_eq!((whole as usize, wanted), (is_whole, changes));
                    assert!(wanted > whole);
                }
                Err(error) => panic!("{len} bytes: {error}"),
            }
        }
        // The next writer goes on behind what is whole.
        let mut changes = Changes::read(&file.0, None).unwrap();
        assert_eq!(changes.len() as usize, is_whole);
        changes.append(b"next", [(2 * PAGE as u64, &[7; LINE][..])]).unwrap();
        assert_eq!(Changes::read(&file.0, None).unwrap().len() as usize, is_whole + 1);
    }
}

#[test]
fn altered_and_forged_changes_are_refused_or_change_nothing() {
    let file = Temporary::new("altered");
    let expected = changed(&file, 3, &mut SmallRng::seed_from_u64(4));
    let whole = std::fs::read(path_of(&file.0)).unwrap();
    let read = || contents(Source { path: &file.0, changes: 3, checked: None }, Opening::default());
    for at in (0..whole.len()).step_by(7) {
        let mut altered = whole.clone();
        altered[at] ^= 0x20;
        std::fs::write(path_of(&file.0), altered).unwrap();
        let error = read().expect_err("altered");
        let FileError::Changes { source, path } = &error else { panic!("byte {at}: {error}") };
        assert_eq!(*path, path_of(&file.0));
        let fits = match source {
            ChangesError::Foreign => at < 8,
            ChangesError::Version { .. } => (8..12).contains(&at),
            ChangesError::OtherTable => (12..HEADER).contains(&at),
            ChangesError::Missing { .. } => at >= HEADER,
            _ => false,
        };
        assert!(fits, "byte {at}: {error}");
    }
    // With right checksums: what a change says of itself, and of its lines.
    let sealed = |first: &[u8]| {
        let mut bytes = [&whole[..HEADER], first].concat();
        let crc = crc32c::crc32c(&bytes[HEADER + 8..]);
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(path_of(&file.0), bytes).unwrap();
        let read = contents(Source { path: &file.0, changes: 1, checked: None }, Opening::default());
        match read {
            Err(FileError::Changes { source, .. }) => source.to_string(),
            Err(other) => other.to_string(),
            Ok(found) => panic!("{}", found == expected[1]),
        }
    };
    let len = u32::from_le_bytes(whole[HEADER..HEADER + 4].try_into().unwrap()) as usize;
    let first = &whole[HEADER..HEADER + len];
    let run = FIXED + "note 1".len();
    for (at, value, part) in [
        (8, vec![2], "change 2 comes where change 1 should be"),
        (16, vec![first[16] ^ 1], "change 1 follows another state"),
        (32, vec![0xff, 0xff], "its note ends behind it"),
        (36, vec![0, 0], "it has more than it says"),
        (36, vec![0xff; 4], "a run"),
        (run, vec![0xff; 4], "it writes behind the table"),
        (run + 4, vec![0xff; 4], "a run ends behind it"),
        // The table's header, and a line of it without its checksum.
        (run + 8, vec![b'x'], "this file has no table"),
        (run + 8 + 17, vec![0xff], "the checksum of the header differs"),
        (len - 1, vec![first[len - 1] ^ 1], "checksum of section"),
    ] {
        let mut forged = first.to_vec();
        forged[at..at + value.len()].copy_from_slice(&value);
        let error = sealed(&forged);
        assert!(error.contains(part), "{at}: {error}");
    }
    // A long file is not read.
    File::create(path_of(&file.0)).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert!(matches!(read(), Err(FileError::Changes { source: ChangesError::Long { .. }, .. })));
    let mut changes = Changes::read(&file.0, Some(0)).unwrap();
    let long = vec![0; BYTES_MAX as usize];
    let appended = changes.append(b"", [(0, &long[..])]);
    assert!(matches!(appended, Err(FileError::Changes { source: ChangesError::Long { .. }, .. })));
    for (at, bytes) in [(1, LINE), (0, LINE - 1), (0, 0), (WORDS as u64 * 16 / 64 * 64, LINE)] {
        let appended = changes.append(b"", [(at, &vec![0; bytes][..])]);
        assert!(matches!(appended, Err(FileError::Changes { source: ChangesError::Malformed { .. }, .. })), "{at}");
    }
}

#[test]
fn a_change_that_makes_another_file_is_refused() {
    let (file, other) = (Temporary::new("another"), Temporary::new("another-other"));
    let before = write(&vec![1; WORDS], b"text", &file.0);
    // A longer text, and another key.
    let longer = write(&vec![1; WORDS], b"text2", &other.0);
    let mut rekeyed = before.clone();
    rekeyed[24] ^= 1;
    let crc = crc32c::crc32c(&rekeyed[..PAGE - 4]);
    rekeyed[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
    for after in [longer, rekeyed] {
        let mut changes = Changes::read(&file.0, Some(0)).unwrap();
        changes.append(b"", [(0, &after[..PAGE])]).unwrap();
        let read = contents(Source { path: &file.0, changes: 1, checked: None }, Opening::default());
        assert!(matches!(read, Err(FileError::Malformed { .. })), "{read:?}");
    }
}
