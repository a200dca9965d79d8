//! Files that are changed, against files that are made whole.

use std::path::PathBuf;

use byname_lookup::file::{Opening, Place as TablePlace};
use byname_lookup::flat::labelled::LabelledTable;
use byname_lookup::prefix::compact::BulkTable;
use byname_wire::Name;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::builder::file::{Built, build_file};
use crate::builder::make::tests::{Table as Chunks, row, rows};
use crate::table::Rows;
use crate::table::blocks::put_secret;
use crate::table::delta::RowChange;
use crate::value::FlatNames;

const MEBIBYTES: usize = 1 << 20;

/// A builder's folder, its table, and what it keeps.
struct Builder {
    folder: tempfile::TempDir,
    own: Store,
    table: Chunks,
    kept: Kept,
}

impl Builder {
    fn new(rows: &Rows, flat: Option<FlatNames>, bytes_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = Store::open(&folder.path().join("chunks")).unwrap();
        let mut builder = Builder { own, table: Chunks::new(rows, flat), kept: Kept::new(bytes_max), folder };
        builder.build();
        builder
    }

    /// Builds the table whole, and keeps it if there is memory.
    fn build(&mut self) {
        let read = |digest| self.table.chunks.get(&digest).cloned().ok_or_else(|| "nobody has it".to_owned());
        let job = &self.table.job;
        let list = job.before.as_ref().and_then(|before| self.own.read(before.blocks).unwrap());
        let list = list.map(|bytes| Blocks::decode(job.before.as_ref().unwrap().blocks, &bytes).unwrap());
        let Built { head, blocks, path } = build_file(job, &self.own, &read, list.as_ref()).unwrap();
        self.kept.keep(job, (head.clone(), blocks, &path.0), &read);
        self.table.job.before = Some(head);
    }

    /// Changes the table as it is kept.
    fn change(&mut self, changes: &[RowChange]) -> Option<BuiltHead> {
        self.table.change(changes);
        assert!(self.kept.follows(&self.table.job));
        let head = self.kept.change(&self.table.job, &self.own)?;
        self.table.job.before = Some(head.clone());
        Some(head)
    }

    /// The file of the last head, from its blocks.
    fn file(&self) -> PathBuf {
        let head = self.table.job.before.as_ref().unwrap();
        let list = Blocks::decode(head.blocks, &self.own.read(head.blocks).unwrap().unwrap()).unwrap();
        let mut bytes = Vec::new();
        for (number, digest) in list.digests.iter().enumerate() {
            let mut block = self.own.read(*digest).unwrap().unwrap();
            put_secret(number, &mut block, &head.secret).unwrap();
            bytes.extend(block);
        }
        assert_eq!(bytes.len() as u64, head.bytes);
        let path = self.folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// The groups of names, as a file answers them.
fn groups(path: &Path, names: &BTreeSet<Name>) -> (usize, Vec<Option<String>>) {
    let opening = Opening { place: TablePlace::Mapped, checked: true };
    let mut table = BulkTable::open(path, opening, &Options::default()).unwrap();
    let mut group = |name: &Name| {
        let entry = table.entry_of(name.as_ref())?;
        Some(String::from_utf8_lossy(&table.labels()[entry.0 as usize]).into_owned())
    };
    let groups = names.iter().map(&mut group).collect();
    (table.len(), groups)
}

#[test]
fn changed_files_answer_as_files_made_whole() {
    let rng = &mut SmallRng::seed_from_u64(1);
    let uri = |rng: &mut SmallRng| {
        let depth = rng.random_range(1..5);
        let parts: Vec<String> = (0..depth).map(|_| format!("/{}", rng.random_range(0..12))).collect();
        parts.concat()
    };
    let group = |rng: &mut SmallRng| ["west", "east", "south"][rng.random_range(0..3)];
    let all: Vec<(String, &str)> = (0..6_000).map(|_| (uri(rng), group(rng))).collect();
    let pairs: Vec<(&str, &str)> = all.iter().map(|(uri, group)| (&**uri, *group)).collect();
    let mut builder = Builder::new(&rows(&pairs), None, 64 * MEBIBYTES);
    let mut names: BTreeSet<Name> = all.iter().map(|(uri, _)| uri.parse().unwrap()).collect();
    // The folder of an agent, which has the first file and then patches only.
    let agent = Store::open(&builder.folder.path().join("agent")).unwrap();
    for digest in builder.own.digests().unwrap() {
        agent.write(digest, &builder.own.read(digest).unwrap().unwrap()).unwrap();
    }
    for round in 0..30 {
        let mut changes: BTreeMap<Box<[u8]>, RowChange> = BTreeMap::new();
        for _ in 0..10 {
            let uri = uri(rng);
            names.insert(uri.parse().unwrap());
            let change = row(&uri, (rng.random_range(0..3) > 0).then(|| group(rng)));
            changes.insert(change.0.clone(), change);
        }
        let before = builder.table.job.before.clone().unwrap();
        let head = builder.change(&changes.into_values().collect::<Vec<_>>()).unwrap();
        let path = builder.folder.path().join("whole");
        let made = builder.table.make(&[], &path).unwrap();
        let (here, whole) = (groups(&builder.file(), &names), groups(&path, &names));
        assert!(here == whole, "round {round}");
        assert_eq!((head.rows, head.rows), (made.rows, here.0 as u64));
        assert_eq!(head.state(), State { epoch: 1, sequence: round + 1, digest: builder.table.job.head.state });
        // The size of the patch is that of the change, and it leads there.
        let from = head.patch.unwrap();
        assert_eq!(from.blocks, before.blocks);
        let bytes = builder.own.read(from.patch).unwrap().unwrap();
        let patch = Patch::decode(from.patch, &bytes).unwrap();
        let lines: usize = patch.runs().map(|(_, run)| run.len() / 64).sum();
        // Beside the header and the shape: rules that many inherit, and entries that make room.
        assert!((3..120).contains(&lines), "{lines} lines");
        assert!(patch.apply(&agent, from.blocks, head.blocks).is_ok());
    }
    // A change that changes nothing: the same file, of another state.
    let before = builder.table.job.before.clone().unwrap();
    let head = builder.change(&[row("/nobody/has/it", None)]).unwrap();
    assert_ne!(head.state(), before.state());
    assert_eq!((head.blocks, head.patch, head.secret), (before.blocks, None, before.secret));
}

#[test]
fn changed_files_of_flat_names_answer_as_files_made_whole() {
    let rng = &mut SmallRng::seed_from_u64(2);
    let flat = FlatNames { prefix: "/objects".to_owned(), check_bits: 16 };
    let all: Vec<(String, &str)> = (0..3_000).map(|name| (format!("/{name}"), ["west", "east"][name % 2])).collect();
    let pairs: Vec<(&str, &str)> = all.iter().map(|(uri, group)| (&**uri, *group)).collect();
    let mut builder = Builder::new(&rows(&pairs), Some(flat), 64 * MEBIBYTES);
    for round in 0..10u64 {
        let (gone, other) = (3 * round, 3 * round + 1);
        let mut changes = vec![row(&format!("/{gone}"), None), row(&format!("/{other}"), Some("east"))];
        changes.push(row(&format!("/{}", rng.random_range(10_000..u64::MAX)), Some("west")));
        assert_eq!(builder.change(&changes).unwrap().rows, 3_000);
        let whole = builder.folder.path().join("whole");
        builder.table.make(&[], &whole).unwrap();
        let answers = [builder.file(), whole].map(|path| {
            let table = LabelledTable::open(&path, Opening::default()).unwrap();
            let label = |name: &str| {
                let entry = table.query().entry(table.key().digest_bytes(name.as_bytes()))?;
                table.labels().texts.get(entry.0 as usize).cloned()
            };
            (table.names(), (0..3_000).map(|name| label(&name.to_string())).collect::<Vec<_>>())
        });
        let [here, whole] = &answers;
        assert_eq!(here.0, whole.0);
        // Names that have gone may pass with odds of 2^-16, in either file.
        let differ = here.1.iter().zip(&whole.1).filter(|(here, whole)| here != whole).count();
        assert!(differ <= 1, "{differ} of 3000");
    }
}

#[test]
fn what_cannot_be_changed_is_built_whole() {
    let (one, many) = (rows(&[("/a", "west"), ("/b", "east")]), 64 * MEBIBYTES);
    // A new group, a name that no table takes, and a block that is lost. All of them are built whole, if possible, and kept again.
    let deep = "/x".repeat(40);
    for change in [row("/c", Some("alone")), row(&deep, Some("west"))] {
        let mut builder = Builder::new(&one, None, many);
        assert_eq!(builder.change(std::slice::from_ref(&change)), None);
        assert!(!builder.kept.follows(&builder.table.job), "it is of no use any more");
        assert_eq!(builder.kept.change(&builder.table.job, &builder.own), None);
    }
    let mut builder = Builder::new(&one, None, many);
    assert_eq!(builder.change(&[row("/c", Some("alone"))]), None);
    builder.build();
    assert!(builder.change(&[row("/d", Some("alone"))]).is_some(), "it is kept again");
    builder.own.keep(&BTreeSet::new()).unwrap();
    assert_eq!(builder.change(&[row("/e", Some("west"))]), None);

    // A table that grows out of its file.
    let mut builder = Builder::new(&one, None, many);
    let more: Vec<RowChange> = (0..30).map(|name| row(&format!("/more/{name}"), Some("west"))).collect();
    assert_eq!(builder.change(&more), None);
    builder.build();
    assert_eq!(builder.table.job.before.as_ref().unwrap().rows, 32);

    // A delta that is missing, another file, another epoch, nothing to do.
    let mut builder = Builder::new(&one, None, many);
    assert!(!builder.kept.follows(&builder.table.job), "there is nothing to do");
    builder.table.change(&[row("/c", Some("west"))]);
    let job = builder.table.job.clone();
    assert!(builder.kept.follows(&job));
    let mut other = job.clone();
    other.before.as_mut().unwrap().blocks = Digest::of(b"another builder's");
    assert!(!builder.kept.follows(&other));
    let mut other = job.clone();
    other.head.epoch += 1;
    assert!(!builder.kept.follows(&other));
    let mut other = job.clone();
    (other.head.base, other.head.last) = (1, 2);
    assert!(!builder.kept.follows(&other), "the deltas after it are gone");
    builder.table.job.deltas.clear();
    assert_eq!(builder.kept.change(&builder.table.job, &builder.own), None);
    assert!(!builder.kept.follows(&job));
}

#[test]
fn memory_for_names_is_bounded() {
    let all: Vec<String> = (0..20_000).map(|name| format!("/some/name/{name}")).collect();
    let pairs: Vec<(&str, &str)> = all.iter().map(|uri| (&**uri, "west")).collect();
    for (flat, bytes_max) in [(false, 0), (false, MEBIBYTES), (true, MEBIBYTES)] {
        let rows = match flat {
            false => rows(&pairs),
            true => all
                .iter()
                .map(|uri| row(&uri.replace("/some/name", ""), Some("west")))
                .map(|(key, value)| (key, value.unwrap()))
                .collect(),
        };
        let flat = flat.then(|| FlatNames { prefix: "/objects".to_owned(), check_bits: 4 });
        let mut builder = Builder::new(&rows, flat, bytes_max);
        builder.table.change(&[row("/new", Some("west"))]);
        assert!(!builder.kept.follows(&builder.table.job));
        assert_eq!(builder.kept.change(&builder.table.job, &builder.own), None);
        // It stays noted, or each change would read its names in vain.
        builder.kept.forget(&builder.table.job.table);
        let is_noted = matches!(builder.kept.tables().get(&builder.table.job.table), Some(Place::TooLarge(20_000)));
        assert_eq!(is_noted, bytes_max > 0);
    }
    let builder = Builder::new(&rows(&pairs), None, 64 * MEBIBYTES);
    let here = match builder.kept.tables().get(&builder.table.job.table) {
        Some(Place::Here(file)) => file.memory_bytes(),
        _ => panic!("there is room"),
    };
    assert!((MEBIBYTES..8 * MEBIBYTES).contains(&here), "{here} bytes");
    builder.kept.forget_others(&BTreeSet::from([&builder.table.job.table]));
    assert_eq!(builder.kept.tables().len(), 1);
    builder.kept.forget_others(&BTreeSet::new());
    assert!(builder.kept.tables().is_empty());
    let builder = Builder::new(&rows(&pairs[..9]), None, 64 * MEBIBYTES);
    builder.kept.forget(&builder.table.job.table);
    assert!(builder.kept.tables().is_empty());
}
