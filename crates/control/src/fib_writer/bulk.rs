//! The FIB on a bulk table: hundreds of millions of rules from a file, below the routes of the RIB.
//!
//! The file gives each of its rules a *label*, which is a name. The rule forwards as the route of that name does:
//! `/com/example` labelled `/upstream/1` has the nexthops of `/upstream/1`, and changes with them. While `/upstream/1` has
//! no route, its rules count as absent. So the RIB, management and faces know a few labels, and not the rules.
//!
//! A route of the RIB with the name of a rule covers that rule as long as the route exists.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byname_lookup::file::{FileError, Opening, Source};
use byname_lookup::prefix::compact::{BulkTable, Options, Translation};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::Name;
use thiserror::Error;

/// A file that cannot be the FIB.
#[derive(Debug, Error)]
pub enum BulkFibError {
    /// It cannot be read, or has no such table.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: FileError,
    },
    /// A label is no name.
    #[error("{}: the label {label:?} is no name", path.display())]
    Label {
        /// The file.
        path: PathBuf,
        /// The label.
        label: String,
    },
}

/// The name that a label of a file is.
pub(crate) fn label_name(path: &Path, label: &[u8]) -> Result<Name, BulkFibError> {
    let name = std::str::from_utf8(label).ok().filter(|text| text.starts_with('/'));
    name.and_then(|text| text.parse().ok()).ok_or_else(|| BulkFibError::Label {
        path: path.to_owned(),
        label: String::from_utf8_lossy(label).into_owned(),
    })
}

/// The control half.
pub struct BulkFib {
    table: BulkTable,
    /// The ids that have each label.
    labels: HashMap<Name, Vec<EntryId>>,
    translation: Translation,
}

impl BulkFib {
    /// Opens a table for at most `routes_max` routes beside the file's rules.
    ///
    /// # Errors
    /// If the file has no such table.
    pub fn open<'a>(source: impl Into<Source<'a>>, opening: Opening, routes_max: usize) -> Result<Self, BulkFibError> {
        let source = source.into();
        let path = source.path;
        let file = |source| BulkFibError::File { path: path.to_owned(), source };
        let mut table = BulkTable::open(source, opening, &Options::default()).map_err(file)?;
        table.uncover_removed();
        table.set_rules_max(table.len().saturating_add(routes_max));
        let mut labels: HashMap<Name, Vec<EntryId>> = HashMap::new();
        for (label, id) in table.labels().iter().zip(0..) {
            labels.entry(label_name(path, label)?).or_default().push(EntryId(id));
        }
        let translation = table.translate(&vec![None; table.labels().len()]);
        Ok(BulkFib { table, labels, translation })
    }

    /// The table.
    pub fn table(&self) -> &BulkTable {
        &self.table
    }
}

impl Control<Name> for BulkFib {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.query()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.table.apply(changes)?;
        for change in changes {
            let (name, entry) = change.parts();
            for id in self.labels.get(name).into_iter().flatten() {
                self.translation.set(*id, entry);
            }
        }
        Ok(update)
    }

    fn reclaim(&mut self) {
        self.table.reclaim();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use byname_forward::FaceId;
    use byname_forward::tables::{Nexthop, Tables};
    use byname_lookup::file::Checked;
    use byname_lookup::file::changes::Changes;
    use byname_lookup::prefix::compact::{BulkLoader, LiveLoader};
    use byname_wire::{NameHashKey, NameView, PrefixHashes};

    use super::super::FibWriter;
    use super::*;

    const KEY: NameHashKey = NameHashKey::new([3, 4]);

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name")
    }

    fn save(path: &Path, labels: &[&str]) {
        let mut loader = BulkLoader::new(KEY, 10, &Options::default()).expect("a little memory");
        for (uri, entry) in [("/com/a", 0), ("/com/a/deep/er", 1), ("/net", 1)] {
            loader.push(name(uri).as_ref(), EntryId(entry)).expect("sorted, and room");
        }
        let mut table = loader.finish_table(&Options::default()).expect("room");
        table.set_labels(labels.iter().map(|label| label.as_bytes().into()).collect());
        table.save(path).expect("a new file");
    }

    #[test]
    fn rules_of_a_file_forward_as_the_routes_that_they_are_labelled_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.table");
        save(&path, &["/upstream/1", "/upstream/2"]);
        let engine = BulkFib::open(&path, Opening::default(), 10).expect("ours");
        let tables = Arc::new(Tables::new(engine.query()));
        let mut fib: FibWriter = FibWriter::new(Box::new(engine), tables.clone());
        let face_of = |uri: &str| {
            let (mut reader, asked, mut hashes) = (tables.reader(), name(uri), PrefixHashes::default());
            reader.begin_burst();
            let found = reader.fib().longest_match(&NameView::new(&KEY, asked.as_ref(), &mut hashes));
            let face = found.map(|found| tables.group(found.entry).expect("set").nexthops[0].face.0);
            reader.end_burst();
            face
        };
        let to = |face| [Nexthop { face: FaceId(face), cost: 1 }];
        assert_eq!((face_of("/com/a/x"), face_of("/net/x")), (None, None));
        let (mut one, mut two, mut other) = (None, None, None);
        fib.set(name("/upstream/1").as_ref(), &mut one, &to(300));
        fib.commit();
        assert_eq!((face_of("/com/a/x"), face_of("/com/a/deep/er/x"), face_of("/net/x")), (Some(300), Some(300), None));
        fib.set(name("/upstream/2").as_ref(), &mut two, &to(301));
        fib.set(name("/net").as_ref(), &mut other, &to(302));
        fib.commit();
        assert_eq!((face_of("/com/a/deep/er/x"), face_of("/net/x")), (Some(301), Some(302)));
        fib.set(name("/upstream/1").as_ref(), &mut one, &to(303));
        fib.clear(name("/net").as_ref(), &mut other);
        fib.clear(name("/upstream/2").as_ref(), &mut two);
        fib.commit();
        assert_eq!((face_of("/com/a/x"), face_of("/com/a/deep/er/x")), (Some(303), Some(303)));
        assert_eq!(face_of("/net/x"), None, "its label has no route");
        // Without the route that covered it, the rule of the file counts again.
        fib.set(name("/upstream/2").as_ref(), &mut two, &to(304));
        fib.commit();
        assert_eq!((face_of("/net/x"), fib.failures()), (Some(304), 0));
    }

    /// Two rules change at once, again and again. A reader finds both as they are after the same change, and always finds them.
    #[test]
    fn a_reader_sees_each_change_beside_a_file_whole_and_waits_for_none() {
        const CHANGES: u64 = 60;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.table");
        let others: Vec<Name> = (0..20_000).map(|n| name(&format!("/many/{n:05}"))).collect();
        let (left, right) = (name("/left"), name("/right"));
        let rules = || [&left].into_iter().chain(&others).chain([&right]).map(|name| (name, EntryId(0)));
        let options = Options::default();
        let mut loader = BulkLoader::new(KEY, 30_000, &options).expect("memory");
        rules().for_each(|(name, entry)| loader.push(name.as_ref(), entry).expect("sorted, and room"));
        let mut table = loader.finish_table(&options).expect("room");
        table.set_labels(["/up/0", "/up/1"].map(|label| label.as_bytes().into()).to_vec());
        table.save(&path).expect("a new file");
        let mut live = LiveLoader::open(&path, &options).expect("ours");
        rules().for_each(|(name, entry)| live.push(name.as_ref(), entry).expect("room"));
        let mut live = live.finish().expect("of these rules");
        let checked = Checked::default();
        let open = |changes| {
            let source = Source { path: &path, changes, checked: Some(&checked) };
            BulkFib::open(source, Opening::default(), 10)
                .map_err(|error| BuildError::File { reason: error.to_string() })
        };
        let engine = open(0).expect("ours");
        let tables = Arc::new(Tables::new(engine.query()));
        let mut fib: FibWriter = FibWriter::new(Box::new(engine), tables.clone());
        let (mut zero, mut one) = (None, None);
        fib.set(name("/up/0").as_ref(), &mut zero, &[Nexthop { face: FaceId(300), cost: 1 }]);
        fib.set(name("/up/1").as_ref(), &mut one, &[Nexthop { face: FaceId(301), cost: 1 }]);
        fib.commit();
        let done = AtomicBool::new(false);
        let turns = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let (mut reader, mut hashes) = (tables.reader(), PrefixHashes::default());
                let (mut turns, mut last, mut at) = (0, None, 0);
                while !done.load(Ordering::Relaxed) {
                    reader.begin_burst();
                    let mut find = |asked: &Name| {
                        let found = reader.fib().longest_match(&NameView::new(&KEY, asked.as_ref(), &mut hashes));
                        found.expect("no rule is ever missing").entry
                    };
                    let both = [find(&left), find(&right)];
                    at = (at + 7) % others.len();
                    let _ = find(&others[at]);
                    assert_eq!(both[0], both[1], "a part of a change");
                    turns += usize::from(last.replace(both[0]) != Some(both[0]));
                    reader.end_burst();
                }
                turns
            });
            let mut before = std::fs::read(&path).expect("ours");
            for change in 1..=CHANGES {
                let entry = EntryId((change % 2) as u32);
                let edits = live.apply(&[&left, &right].map(|name| Change::Set(name.clone(), entry))).expect("room");
                let mut after = before.clone();
                edits
                    .iter()
                    .for_each(|edit| after[edit.at as usize..][..edit.bytes.len()].copy_from_slice(&edit.bytes));
                let lines = before.chunks(64).zip(after.chunks(64)).zip(0u64..);
                let runs = lines.filter(|((old, new), _)| old != new).map(|((_, new), number)| (64 * number, new));
                Changes::read(&path, None).expect("ours").append(b"", runs).expect("lines");
                before = after;
                let rules = [("/up/0", zero), ("/up/1", one)].map(|(uri, group)| (name(uri), group.expect("set")));
                fib.rebuild(|_| Ok(Box::new(open(change)?)), rules.into_iter()).expect("it takes all rules");
                std::thread::sleep(Duration::from_millis(2));
            }
            done.store(true, Ordering::Relaxed);
            reading.join().expect("every lookup is right")
        });
        assert!(turns > 20, "the reader has seen {turns} of {CHANGES} changes");
        // A number that is not there changes nothing.
        assert!(
            matches!(open(CHANGES + 1), Err(BuildError::File { reason }) if reason.contains("change 61 is wanted"))
        );
    }

    #[test]
    fn labels_that_are_no_names_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.table");
        for label in ["upstream", "", "/\u{fffd}%"] {
            save(&path, &["/upstream/1", label]);
            let opened = BulkFib::open(&path, Opening::default(), 10);
            assert!(matches!(opened, Err(BulkFibError::Label { .. })), "{label:?}");
        }
        let none = BulkFib::open(&folder.path().join("none"), Opening::default(), 10);
        assert!(matches!(none, Err(BulkFibError::File { .. })));
    }
}
