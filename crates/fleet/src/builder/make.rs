//! Makes the file of a table: rows in the order of their names, from chunks and deltas, into the table's own builder.
//!
//! Rows are read twice, chunk by chunk, and never all of them at a time. Beside the table itself, this takes memory for one chunk and for the
//! deltas; for flat names, also 24 bytes for each, and for sets of tags as much as for the table once more.
//!
//! Files of slightly different rows are alike, for their blocks to be the same: names are hashed with the key of the file before,
//! groups keep their numbers, and the table has room for a round number of nodes.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use byname_lookup::EntryId;
use byname_lookup::flat::labelled;
use byname_lookup::prefix::compact::{BulkLoader, NodeCounter, Options};
use byname_lookup::tagset::rare_tag::{BulkTagError, BulkTagLoader};
use byname_wire::{Descriptor, HashFunction, NameHashKey, NameRef};

use super::plan::Job;
use crate::intent::built::label_of;
use crate::label::Label;
use crate::table::Digest;
use crate::table::blocks::LABELS_MAX;
use crate::table::content::State;
use crate::table::manifest::Manifest;
use crate::table::stream::{self, Changes};
use crate::tags::TagSet;
use crate::value::{Route, TableKind, Value, flat_name, tag_set};

/// Labels of a table of prefixes at most: the last id of an entry marks removed rules.
const GROUPS_MAX: usize = LABELS_MAX - 1;

/// Rows of a table as its head says, read from the chunks that `read` gives.
pub struct Source<'a> {
    manifest: Manifest,
    /// What the deltas say, all of them together.
    changes: Changes,
    read: &'a (dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync),
}

/// What was made.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    /// Rules or names in the file.
    pub rows: u64,
    /// Its labels, by number.
    pub labels: Vec<Box<[u8]>>,
}

impl<'a> Source<'a> {
    /// The rows of a job.
    ///
    /// # Errors
    /// The manifest is not there, or a delta is missing.
    pub fn open(job: &Job, read: &'a (dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync)) -> Result<Self, String> {
        let manifest =
            Manifest::decode(job.head.manifest, &read(job.head.manifest)?).map_err(|error| error.to_string())?;
        let changes = changes_after(job, &job.head.base_state())?;
        Ok(Source { manifest, changes, read })
    }

    /// Calls `each` with the key and the value of each row, sorted by key.
    pub(super) fn each(&self, each: &mut stream::EachRow<'_, String>) -> Result<(), String> {
        stream::each(&self.manifest, &self.changes, self.read, &|words| words, each)
    }

    /// Counts rows and nodes, and finds all groups.
    fn survey(&self, kind: TableKind) -> Result<(u64, NodeCounter, BTreeSet<Label>), String> {
        let (mut rows, mut counter, mut groups) = (0, NodeCounter::default(), Groups::default());
        self.each(&mut |key, value| {
            rows += 1;
            groups.of(value)?;
            match kind {
                TableKind::Flat => return flat_name(key).map(drop).map_err(|error| error.to_string()),
                TableKind::Tags => return tag_set(key).map(drop).map_err(|error| error.to_string()),
                TableKind::Routes | TableKind::Built => {}
            }
            let name = NameRef::new(key).map_err(|error| error.to_string())?;
            counter.push(name).map_err(|error| format!("{name}: {error}"))
        })?;
        Ok((rows, counter, groups.0.into_values().collect()))
    }
}

/// What the deltas of a job say that follow this state.
pub(super) fn changes_after(job: &Job, from: &State) -> Result<Changes, String> {
    let delta = |sequence| job.deltas.get(&sequence).map(|delta| &delta[..]);
    stream::changes(from, &job.head.state(), delta)
}

/// Groups by the values of rows, of which there are few.
#[derive(Default)]
struct Groups(HashMap<Box<[u8]>, Label>);

impl Groups {
    fn of(&mut self, value: &[u8]) -> Result<&Label, String> {
        if !self.0.contains_key(value) {
            let route = Route::decode(value).map_err(|error| error.to_string())?;
            self.0.insert(value.into(), route.group);
        }
        Ok(&self.0[value])
    }
}

/// Numbers of groups: first those that the file before has, in their order, and then the others.
pub(super) struct Numbers {
    texts: Vec<Box<[u8]>>,
    by_value: HashMap<Box<[u8]>, EntryId>,
    groups: Groups,
}

impl Numbers {
    fn new(before: &[Box<[u8]>], groups: &BTreeSet<Label>) -> Result<Self, String> {
        let texts: Vec<Box<[u8]>> =
            groups.iter().map(|group| label_of(group).to_string().into_bytes().into_boxed_slice()).collect();
        if texts.len() > GROUPS_MAX {
            return Err(format!("it leads to {} groups, and a table has at most {GROUPS_MAX}", texts.len()));
        }
        let known: BTreeSet<&Box<[u8]>> = before.iter().collect();
        let new: Vec<_> = texts.iter().filter(|text| !known.contains(text)).cloned().collect();
        let texts = match before.len() + new.len() {
            0 => vec![crate::intent::built::groups().to_string().into_bytes().into()],
            1..=GROUPS_MAX => [before, &new].concat(),
            // Groups that are gone give up their numbers.
            _ => texts,
        };
        Ok(Self::of_texts(texts))
    }

    /// Numbers of labels that a file has.
    pub(super) fn of_texts(texts: Vec<Box<[u8]>>) -> Self {
        Numbers { texts, by_value: HashMap::new(), groups: Groups::default() }
    }

    pub(super) fn of(&mut self, value: &[u8]) -> Result<EntryId, String> {
        self.known(value)?.ok_or_else(|| "its rows have changed while they were read".to_owned())
    }

    /// The number of a row's group, if it has one.
    pub(super) fn known(&mut self, value: &[u8]) -> Result<Option<EntryId>, String> {
        if let Some(number) = self.by_value.get(value) {
            return Ok(Some(*number));
        }
        let text = label_of(self.groups.of(value)?).to_string();
        let number = self.texts.iter().position(|label| **label == *text.as_bytes());
        let number = number.map(|number| EntryId(number as u32));
        if let Some(number) = number {
            self.by_value.insert(value.into(), number);
        }
        Ok(number)
    }
}

/// Makes the file at `path`. Labels keep the numbers that they have in `labels`.
///
/// # Errors
/// A row cannot be in such a table, a chunk is not there, or the system refuses memory or room.
pub fn make(
    job: &Job,
    source: &Source<'_>,
    key: &NameHashKey,
    labels: &[Box<[u8]>],
    path: &Path,
) -> Result<Made, String> {
    let (rows, counter, groups) = source.survey(job.head.kind)?;
    let mut numbers = Numbers::new(labels, &groups)?;
    match &job.head.flat {
        None if job.head.kind == TableKind::Tags => tags(source, key, &mut numbers, path)?,
        Some(flat) => {
            let names = flat_names(source, key, rows, &mut numbers)?;
            let labels = labelled::Labels { texts: numbers.texts.clone(), check_bits: flat.check_bits };
            labelled::save((path, key), &labels, &names, &mut |_| {}).map_err(|error| error.to_string())?;
        }
        None => {
            let options = Options::default();
            let mut loader =
                BulkLoader::new(*key, counter.nodes_rounded(), &options).map_err(|error| error.to_string())?;
            source.each(&mut |row, value| {
                let name = NameRef::new(row).map_err(|error| error.to_string())?;
                loader.push(name, numbers.of(value)?).map_err(|error| format!("{name}: {error}"))
            })?;
            let mut table = loader.finish_table(&options).map_err(|error| error.to_string())?;
            table.set_labels(numbers.texts.clone());
            table.save(path).map_err(|error| error.to_string())?;
        }
    }
    Ok(Made { rows, labels: numbers.texts })
}

/// Makes a file of sets of tags.
fn tags(source: &Source<'_>, key: &NameHashKey, numbers: &mut Numbers, path: &Path) -> Result<(), String> {
    let mut loader = BulkTagLoader::new(key.secret()[0]);
    source.each(&mut |row, value| {
        let set = tag_set(row).map_err(|error| error.to_string())?;
        loader.push(&set.descriptor(), numbers.of(value)?).map_err(|error| format!("{set}: {error}"))
    })?;
    match loader.save(path, &numbers.texts) {
        Ok(_) => Ok(()),
        Err(BulkTagError::Equal { .. }) => Err(equal_sets(source)?),
        Err(error) => Err(error.to_string()),
    }
}

/// Which sets have the same digests: routers could not tell them apart.
fn equal_sets(source: &Source<'_>) -> Result<String, String> {
    let (mut known, mut found): (HashMap<Descriptor, TagSet>, _) = (HashMap::new(), None);
    source.each(&mut |row, _| {
        let set = tag_set(row).map_err(|error| error.to_string())?;
        if let Some(other) = known.insert(set.descriptor(), set.clone()) {
            found = Some(format!("routers cannot tell the tags {other} and {set} apart: leave out one set"));
        }
        Ok(())
    })?;
    Ok(found.unwrap_or_else(|| "two sets of tags have the same digests".to_owned()))
}

/// The digests of flat names, of which there are so many, with the numbers of their groups.
pub(super) fn flat_names(
    source: &Source<'_>,
    key: &NameHashKey,
    rows: u64,
    numbers: &mut Numbers,
) -> Result<Vec<(byname_wire::Digest, EntryId)>, String> {
    let mut names = Vec::new();
    names.try_reserve_exact(rows as usize).map_err(|_| "there is no memory for its names".to_owned())?;
    source.each(&mut |row, value| {
        let name = flat_name(row).map_err(|error| error.to_string())?;
        names.push((key.digest_bytes(name), numbers.of(value)?));
        Ok(())
    })?;
    Ok(names)
}

/// A new secret key.
pub fn new_key() -> NameHashKey {
    NameHashKey::with_function(HashFunction::default(), rand::random())
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use byname_lookup::file::{Opening, Place};
    use byname_lookup::flat::labelled::LabelledTable;
    use byname_lookup::prefix::compact::BulkTable;
    use byname_lookup::tagset::rare_tag::{self, BulkTags};
    use byname_wire::Name;

    use super::*;
    use crate::table::Rows;
    use crate::table::chunk::chunks;
    use crate::table::delta::{Delta, RowChange};
    use crate::value::{FlatNames, TableHead};

    const KEY: NameHashKey = NameHashKey::new([3, 4]);

    pub(in crate::builder) fn row(uri: &str, group: Option<&str>) -> RowChange {
        let route = |group: &str| Route { group: group.parse().unwrap(), inherit: true, capture: false };
        let name: Name = uri.parse().unwrap();
        (name.value().into(), group.map(|group| route(group).encode().into()))
    }

    /// A table in memory: chunks by their names, and the head with deltas.
    pub(in crate::builder) struct Table {
        pub(in crate::builder) chunks: HashMap<Digest, Vec<u8>>,
        pub(in crate::builder) job: Job,
    }

    impl Table {
        pub(in crate::builder) fn new(rows: &Rows, flat: Option<FlatNames>) -> Table {
            let kind = if flat.is_some() { TableKind::Flat } else { TableKind::Built };
            Self::of_kind(rows, kind, flat)
        }

        fn of_kind(rows: &Rows, kind: TableKind, flat: Option<FlatNames>) -> Table {
            let (mut manifest, mut all) = (Manifest::default(), HashMap::new());
            for chunk in chunks(rows) {
                manifest.push(&chunk);
                all.insert(chunk.digest, chunk.bytes);
            }
            let bytes = manifest.encode().unwrap();
            let (digest, state) = (Digest::of(&bytes), Digest::of(b"state"));
            all.insert(digest, bytes);
            let head = TableHead { kind, flat, epoch: 1, manifest: digest, base: 0, base_state: state, last: 0, state };
            let job = Job { table: "t".parse().unwrap(), head, created: 1, deltas: BTreeMap::new(), before: None };
            Table { chunks: all, job }
        }

        pub(in crate::builder) fn change(&mut self, changes: &[RowChange]) {
            let mut changes = changes.to_vec();
            changes.sort();
            let head = &mut self.job.head;
            for (delta, state) in Delta::encode(head.epoch, head.state, &changes) {
                head.last += 1;
                head.state = state;
                self.job.deltas.insert(head.last, delta);
            }
        }

        pub(in crate::builder) fn make(&self, labels: &[Box<[u8]>], path: &Path) -> Result<Made, String> {
            let read = |digest: Digest| self.chunks.get(&digest).cloned().ok_or_else(|| "nobody has it".to_owned());
            make(&self.job, &Source::open(&self.job, &read)?, &KEY, labels, path)
        }
    }

    pub(in crate::builder) fn rows(of: &[(&str, &str)]) -> Rows {
        of.iter().map(|(uri, group)| row(uri, Some(group))).map(|(key, value)| (key, value.unwrap())).collect()
    }

    fn groups(path: &Path, names: &[&str]) -> Vec<Option<String>> {
        let opening = Opening { place: Place::Mapped, checked: true };
        let mut table = BulkTable::open(path, opening, &Options::default()).unwrap();
        assert!(*table.key() == KEY);
        let mut group = |uri: &&str| {
            let entry = table.entry_of(uri.parse::<Name>().unwrap().as_ref())?;
            let label: Name = std::str::from_utf8(&table.labels()[entry.0 as usize]).unwrap().parse().unwrap();
            crate::intent::built::group_of(&label).map(|group| group.to_string())
        };
        names.iter().map(&mut group).collect()
    }

    #[test]
    fn files_have_the_rules_of_chunks_and_deltas() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.table");
        let mut table = Table::new(&rows(&[("/a", "west"), ("/a/b", "east"), ("/c", "west")]), None);
        let made = table.make(&[], &path).unwrap();
        let labels: Vec<_> = made.labels.iter().map(|label| String::from_utf8_lossy(label).into_owned()).collect();
        assert_eq!(labels, ["/localhost/byname/fleet/group/east", "/localhost/byname/fleet/group/west"]);
        let all = ["/a", "/a/b", "/c", "/0", "/b", "/d"];
        let some = |group: &str| Some(group.to_owned());
        assert_eq!(
            (made.rows, groups(&path, &all)),
            (3, vec![some("west"), some("east"), some("west"), None, None, None])
        );
        // Before, between and after the rows of chunks; one that changes, and two that go, of which one was never there.
        table.change(&[row("/0", Some("east")), row("/b", Some("west")), row("/c", Some("east"))]);
        table.change(&[row("/a", None), row("/d", Some("alone")), row("/x", None)]);
        let made = table.make(&made.labels, &path).unwrap();
        let now = [None, Some("east"), Some("east"), Some("east"), Some("west"), Some("alone")];
        assert_eq!(groups(&path, &all), now.map(|group| group.map(str::to_owned)));
        assert_eq!(
            (made.rows, &*made.labels[2]),
            (5, &b"/localhost/byname/fleet/group/alone"[..]),
            "others keep their numbers"
        );
        // No rows at all.
        table.change(&[row("/0", None), row("/a/b", None), row("/b", None), row("/c", None), row("/d", None)]);
        assert_eq!((table.make(&[], &path).unwrap().rows, groups(&path, &all)), (0, vec![None; 6]));
    }

    #[test]
    fn what_is_missing_or_impossible_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.table");
        let mut table = Table::new(&rows(&[("/a", "west")]), None);
        table.change(&[row("/b", Some("west"))]);
        table.change(&[row("/c", Some("west"))]);
        let good = table.job.clone();
        table.job.deltas.remove(&1);
        assert!(table.make(&[], &path).unwrap_err().contains("delta 1 is missing"));
        let second = good.deltas[&2].clone();
        table.job.deltas.insert(1, second);
        assert!(table.make(&[], &path).unwrap_err().contains("delta 1 is missing"));
        table.job = Job { head: TableHead { last: 1, ..good.head.clone() }, ..good.clone() };
        assert!(table.make(&[], &path).unwrap_err().contains("do not lead to the state"));
        table.job = good;
        assert!(!path.exists());
        let chunk = table.chunks.keys().copied().find(|digest| *digest != table.job.head.manifest).unwrap();
        table.chunks.remove(&chunk);
        assert_eq!(table.make(&[], &path), Err("nobody has it".to_owned()));
    }

    #[test]
    fn files_of_flat_names_answer_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.flat");
        let flat = FlatNames { prefix: "/objects".to_owned(), check_bits: 16 };
        let mut table = Table::new(&rows(&[("/report.pdf", "west"), ("/song.ogg", "east")]), Some(flat.clone()));
        table.change(&[row("/film.mp4", Some("west"))]);
        assert_eq!(table.make(&[], &path).unwrap().rows, 3);
        let opened = LabelledTable::open(&path, Opening::default()).unwrap();
        let label = |name: &[u8]| {
            let entry = opened.query().entry(KEY.digest_bytes(name))?;
            opened.labels().texts.get(entry.0 as usize).map(|text| String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(label(b"song.ogg").as_deref(), Some("/localhost/byname/fleet/group/east"));
        assert_eq!(label(b"film.mp4").as_deref(), Some("/localhost/byname/fleet/group/west"));
        assert_eq!(label(b"other"), None);
        let table = Table::new(&Rows::new(), Some(flat.clone()));
        assert_eq!(table.make(&[], &path).unwrap().rows, 0);
        let table = Table::new(&rows(&[("/a/b", "west")]), Some(flat));
        assert!(table.make(&[], &path).unwrap_err().contains("one component"));
    }

    #[test]
    fn files_of_sets_of_tags_answer_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.tags");
        let sets = rows(&[("/classical/concert", "west"), ("/jazz", "east"), ("/a/z", "west")]);
        let mut table = Table::of_kind(&sets, TableKind::Tags, None);
        let made = table.make(&[], &path).unwrap();
        let answers = |all: &[&str]| {
            let opened = BulkTags::open(&path, Opening::default(), 0, &rare_tag::Options::default()).unwrap();
            assert_eq!(BulkTags::secret_of(&path).unwrap(), KEY.secret()[0]);
            let group = |tags: &&str| {
                let label = opened.label_of(&tags.parse::<TagSet>().unwrap().descriptor())?;
                let label: Name = std::str::from_utf8(&opened.labels()[label.0 as usize]).unwrap().parse().unwrap();
                crate::intent::built::group_of(&label).map(|group| group.to_string())
            };
            all.iter().map(group).collect::<Vec<_>>()
        };
        let all = ["/classical/concert", "/jazz", "/a/z", "/late", "/concert"];
        let some = |group: &str| Some(group.to_owned());
        assert_eq!((made.rows, answers(&all)), (3, vec![some("west"), some("east"), some("west"), None, None]));
        // Another group of a set is one line of the file.
        let before = std::fs::read(&path).unwrap();
        table.change(&[row("/jazz", Some("west"))]);
        let made = table.make(&made.labels, &path).unwrap();
        let after = std::fs::read(&path).unwrap();
        let differ = before.chunks(64).zip(after.chunks(64)).filter(|(one, two)| one != two).count();
        // The header has the section's checksum, in up to three lines.
        assert!(before.len() == after.len() && differ <= 4, "{differ} lines");
        table.change(&[row("/late", Some("alone")), row("/a/z", None)]);
        assert_eq!(table.make(&made.labels, &path).unwrap().rows, 3);
        assert_eq!(answers(&all), [some("west"), some("west"), None, some("alone"), None]);
        table.change(&[row("/late", None), row("/jazz", None), row("/classical/concert", None)]);
        assert_eq!((table.make(&[], &path).unwrap().rows, answers(&all)), (0, vec![None; 5]));
        // Two tags with the same 32 bits.
        let mut known = HashMap::new();
        let mut tags = (0..).map(|number| format!("/{number}"));
        let pair = tags.find_map(|tag| {
            let descriptor = tag.parse::<TagSet>().unwrap().descriptor();
            known.insert(descriptor, tag.clone()).map(|other| [other, tag])
        });
        let sets = pair.unwrap();
        let table = Table::of_kind(&rows(&[(&sets[0], "west"), (&sets[1], "west")]), TableKind::Tags, None);
        let refused = table.make(&[], &path).unwrap_err();
        assert!(sets.iter().all(|set| refused.contains(set)) && refused.contains("cannot tell"), "{refused}");
        for bad in ["/b/a", "/32=a", "/"] {
            let table = Table::of_kind(&rows(&[(bad, "west")]), TableKind::Tags, None);
            assert!(table.make(&[], &path).is_err(), "{bad}");
        }
    }

    /// Ten changes of 20,000 rules: how many blocks differ, and how many lines.
    #[test]
    fn files_of_slightly_different_rules_are_alike() {
        let folder = tempfile::tempdir().unwrap();
        let of = |number: u64| format!("/example/{}/{}", number % 97, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let all: Vec<String> = (0..20_000).map(of).collect();
        let mut table = Table::new(
            &all.iter().map(|uri| row(uri, Some("west"))).map(|(key, value)| (key, value.unwrap())).collect(),
            None,
        );
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let made = table.make(&[], &one).unwrap();
        let mut changes: Vec<RowChange> = all[..5].iter().map(|uri| row(uri, None)).collect();
        changes.extend((30_000..30_005).map(|number| row(&of(number), Some("east"))));
        table.change(&changes);
        table.make(&made.labels, &two).unwrap();
        let (one, two) = (std::fs::read(one).unwrap(), std::fs::read(two).unwrap());
        assert_eq!(one.len(), two.len());
        let lines = one.chunks(64).zip(two.chunks(64)).filter(|(one, two)| one != two).count();
        assert!(lines < 100, "{lines} lines of {} differ", one.len() / 64);
    }
}
