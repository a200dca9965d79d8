//! A folder with files and changes, as an agent leaves them at any moment.

use byname_lookup::file::secret::SECRET_BYTES;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::table::blocks::BLOCK_BYTES;
use crate::value::{BuiltHead, FromBefore, TableKind};

const BYTES: usize = 2 * BLOCK_BYTES + 3 * HEADER_BYTES;

/// A builder: what it has made last, with blanks in place of the secret.
struct Maker {
    bytes: Vec<u8>,
    head: BuiltHead,
}

fn list_of(bytes: &[u8]) -> Blocks {
    let mut list = Blocks::default();
    for block in bytes.chunks(BLOCK_BYTES) {
        list.push(block);
    }
    list
}

fn digest_of(bytes: &[u8]) -> Digest {
    Digest::of(&list_of(bytes).encode().unwrap())
}

impl Maker {
    fn new() -> Self {
        let mut bytes: Vec<u8> = (0..BYTES).map(|at| (at / 3) as u8).collect();
        bytes[..8].copy_from_slice(b"byntable");
        Secret::take(&mut bytes).unwrap();
        let head = BuiltHead {
            kind: TableKind::Built,
            flat: None,
            epoch: 1,
            sequence: 0,
            state: Digest::of(b"state"),
            blocks: digest_of(&bytes),
            patch: None,
            bytes: BYTES as u64,
            rows: 9,
            secret: Secret::new([1; SECRET_BYTES]),
        };
        Maker { bytes, head }
    }

    fn wanted(&self) -> WantedFile {
        WantedFile { table: "world".parse().unwrap(), head: self.head.clone() }
    }

    fn name(&self) -> String {
        self.wanted().name()
    }

    /// The file as a router reads it.
    fn file(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        self.head.secret.put(&mut bytes).unwrap();
        bytes
    }

    /// Changes these bytes.
    fn change(&mut self, places: &[usize]) -> Patch {
        let before = self.bytes.clone();
        places.iter().for_each(|at| self.bytes[*at] ^= 1);
        let mut patch = Patch::default();
        for (number, (before, after)) in before.chunks(BLOCK_BYTES).zip(self.bytes.chunks(BLOCK_BYTES)).enumerate() {
            patch.push(number, before, after).unwrap();
        }
        let from = FromBefore { blocks: self.head.blocks, patch: Digest::of(b"patch") };
        // The checksum of the header is secret, and another one.
        let mut secret = *self.head.secret.bytes();
        secret[20] = secret[20].wrapping_add(1);
        let (sequence, secret) = (self.head.sequence + 1, Secret::new(secret));
        self.head =
            BuiltHead { sequence, blocks: digest_of(&self.bytes), patch: Some(from), secret, ..self.head.clone() };
        patch
    }
}

/// What a router reads.
fn read_kept(folder: &Path, kept: &Kept) -> Vec<u8> {
    let path = folder.join(&kept.name);
    let mut bytes = fs::read(&path).unwrap();
    Changes::read(&path, Some(kept.changes)).unwrap().put(0, &mut bytes);
    bytes
}

fn is_as(folder: &Path, kept: &Kept, maker: &Maker) -> bool {
    let whole = is_whole(folder, kept, &list_of(&maker.bytes), &maker.head.secret).unwrap();
    assert_eq!(whole, read_kept(folder, kept) == maker.file());
    whole
}

#[test]
fn a_file_is_the_one_before_with_the_lines_of_its_patch() {
    let (folder, mut maker) = (tempfile::tempdir().unwrap(), Maker::new());
    let folder = folder.path();
    let (first, before) = (maker.name(), maker.file());
    fs::write(folder.join(&first), &before).unwrap();
    assert_eq!(find(folder, &first).unwrap(), Some(Kept::whole(first.clone())));
    let rng = &mut SmallRng::seed_from_u64(1);
    for changes in 1..=20 {
        // In the header, at its end and behind it, in the last line, and anywhere.
        let places = [50, HEADER_BYTES - 100, HEADER_BYTES, BYTES - 1, rng.random_range(HEADER_BYTES..BYTES)];
        let patch = maker.change(&places);
        assert_eq!(find(folder, &maker.name()).unwrap(), None);
        let kept = made_of_before(folder, &maker.wanted(), &patch).unwrap().expect("it is here");
        assert_eq!(kept, Kept { name: first.clone(), changes });
        assert!(is_as(folder, &kept, &maker));
        // An agent that was killed finds it again.
        assert_eq!(find(folder, &maker.name()).unwrap(), Some(kept));
    }
    assert!(fs::read(folder.join(&first)).unwrap() == before, "it is mapped");
    // Of a later one, and of another past.
    let (at, patch) = (maker.head.blocks, maker.change(&[77_777]));
    maker.head.patch = Some(FromBefore { blocks: Digest::of(b"others"), patch: at });
    assert_eq!(made_of_before(folder, &maker.wanted(), &patch).unwrap(), None);
    // Another length, another key, and lines behind the end.
    maker.head.patch = Some(FromBefore { blocks: at, patch: at });
    let mut other = Maker { bytes: maker.bytes.clone(), head: maker.head.clone() };
    other.head.bytes -= 64;
    assert!(made_of_before(folder, &other.wanted(), &patch).is_err());
    other.head = BuiltHead { secret: Secret::new([9; SECRET_BYTES]), ..maker.head.clone() };
    assert!(made_of_before(folder, &other.wanted(), &patch).is_err());
    let mut behind = Patch::default();
    behind.push(2, &[0; BLOCK_BYTES], &[1; BLOCK_BYTES]).unwrap();
    assert!(made_of_before(folder, &maker.wanted(), &behind).is_err());
    assert!(made_of_before(folder, &maker.wanted(), &patch).unwrap().is_some(), "nothing was written");
}

#[test]
fn an_agent_that_was_killed_while_it_wrote_goes_on() {
    let (folder, mut maker) = (tempfile::tempdir().unwrap(), Maker::new());
    let folder = folder.path();
    let first = maker.name();
    fs::write(folder.join(&first), maker.file()).unwrap();
    for changes in 1..5 {
        let patch = maker.change(&[9_000 * changes, 50]);
        let path = changes::path_of(&folder.join(&first));
        let before = fs::read(&path).unwrap_or_default();
        made_of_before(folder, &maker.wanted(), &patch).unwrap().unwrap();
        let whole = fs::read(&path).unwrap();
        for len in (before.len()..whole.len()).step_by(31) {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(find(folder, &maker.name()).unwrap(), None, "{len} bytes");
            let kept = made_of_before(folder, &maker.wanted(), &patch).unwrap().unwrap();
            assert_eq!(kept.changes, changes as u64);
            assert!(is_as(folder, &kept, &maker));
        }
    }
    // Damage is found, in the changes and in the file below them.
    let kept = find(folder, &maker.name()).unwrap().unwrap();
    for path in [changes::path_of(&folder.join(&first)), folder.join(&first)] {
        let right = fs::read(&path).unwrap();
        let mut wrong = right.clone();
        let at = if path.ends_with(&first) { 100_000 } else { right.len() - 1 };
        wrong[at] ^= 1;
        fs::write(&path, &wrong).unwrap();
        let found = find(folder, &maker.name()).unwrap();
        assert!(found.is_none_or(|kept| !is_as(folder, &kept, &maker)));
        fs::write(&path, &right).unwrap();
        assert!(is_as(folder, &kept, &maker));
    }
}

#[test]
fn long_changes_become_a_file_of_their_own_with_those_that_came_meanwhile() {
    for meanwhile in [0, 3] {
        let (folder, mut maker) = (tempfile::tempdir().unwrap(), Maker::new());
        let folder = folder.path();
        let first = maker.name();
        fs::write(folder.join(&first), maker.file()).unwrap();
        let change = |maker: &mut Maker, places: &[usize]| {
            let patch = maker.change(places);
            made_of_before(folder, &maker.wanted(), &patch).unwrap().unwrap()
        };
        let from = change(&mut maker, &[70_000, 50]);
        assert!(!are_long(folder, &from).unwrap());
        let name = maker.name();
        whole(folder, &from, &name).unwrap();
        assert!(fs::read(part_of(folder, &name)).unwrap() == maker.file());
        assert_eq!(find(folder, &name).unwrap(), Some(from.clone()), "it has no name yet");
        let mut now = from.clone();
        for round in 0..meanwhile {
            now = change(&mut maker, &[70_000, 5_000 * (round + 1)]);
        }
        let kept = take_whole(folder, (&from, &name), &now, &maker.name()).unwrap();
        assert_eq!(kept, Kept { name: name.clone(), changes: u64::from(meanwhile > 0) });
        assert!(is_as(folder, &kept, &maker));
        assert_eq!(find(folder, &maker.name()).unwrap().map(|kept| kept.name).as_deref(), {
            // Both lead there.
            if meanwhile == 0 { Some(&*name) } else { Some(if first < name { &*first } else { &*name }) }
        });
        remove_others(folder, &[name.clone()].into()).unwrap();
        let kept = change(&mut maker, &[8_000]);
        assert_eq!(kept, Kept { name: name.clone(), changes: 1 + u64::from(meanwhile > 0) });
        assert!(is_as(folder, &kept, &maker));
        let mut left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [name.clone(), format!("{name}.changes")].map(std::ffi::OsString::from));
    }
    // Many lines.
    let (folder, mut maker) = (tempfile::tempdir().unwrap(), Maker::new());
    fs::write(folder.path().join(maker.name()), maker.file()).unwrap();
    for round in 0..5 {
        let places: Vec<usize> = (HEADER_BYTES..BYTES).step_by(64).map(|at| at + round).collect();
        let patch = maker.change(&places);
        let kept = made_of_before(folder.path(), &maker.wanted(), &patch).unwrap().unwrap();
        let bytes = fs::metadata(changes::path_of(&folder.path().join(&kept.name))).unwrap().len();
        assert_eq!(are_long(folder.path(), &kept).unwrap(), bytes > BYTES_MIN, "{bytes} bytes");
        assert_eq!(round == 0, bytes < BYTES_MIN);
    }
}

#[test]
fn a_file_of_tags_is_copied() {
    let (folder, mut maker) = (tempfile::tempdir().unwrap(), Maker::new());
    maker.head.kind = TableKind::Tags;
    fs::write(folder.path().join(maker.name()), maker.file()).unwrap();
    let patch = maker.change(&[BYTES - 1]);
    let kept = made_of_before(folder.path(), &maker.wanted(), &patch).unwrap().unwrap();
    assert_eq!((kept.changes, kept.name == maker.name(), is_as(folder.path(), &kept, &maker)), (0, true, true));
}

#[test]
fn only_old_tables_and_parts_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let old = [
        "world-0123456789abcdef.table",
        "world-0123456789abcdef.table.changes",
        "o-0123456789abcdef.flat",
        "o-1123456789abcdef.flat.changes",
        "t-0123456789abcdef.tags",
    ];
    let parts = [".world-0123456789abcdef.table.part", ".world-0123456789abcdef.table.part.changes"];
    let others = [
        "rules.table",
        "rules.table.changes",
        "world-0123456789abcdef.txt",
        "world-0123456789abcde.table",
        "World-0123456789abcdef.table",
        ".other.part",
        "fleet.toml",
        "fleet.toml.good",
    ];
    let used = ["world-1123456789abcdef.table", "world-1123456789abcdef.table.changes"];
    for name in old.iter().chain(&parts).chain(&others).chain(&used) {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let left = || -> BTreeSet<String> {
        let all = fs::read_dir(folder.path()).unwrap();
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let names = |lists: &[&[&str]]| lists.concat().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    remove_others(folder.path(), &[used[0].to_owned()].into()).unwrap();
    assert_eq!(left(), names(&[&parts, &others, &used]));
    remove_parts(folder.path()).unwrap();
    assert_eq!(left(), names(&[&others, &used]));
}
