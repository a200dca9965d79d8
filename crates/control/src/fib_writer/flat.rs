//! Flat namespaces in front of the FIB: opaque names below a prefix, answered by files of a few bits a name [Concise §2].
//!
//! A file gives each of its names a *label*, which is a name. The flat name forwards as the route of that label does, and
//! changes with it, as a rule of a bulk table does (`fib_writer::bulk`). While the label has no route, its names
//! count as unknown: the engine behind the namespaces answers.
//!
//! Longer rules win, from the RIB and from a bulk table. A bulk table does not tell which rules it has, so a namespace in front of
//! one with rules deeper than its prefix asks it for each name, which costs a search of prefixes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byname_lookup::file::{FileError, Opening, Source};
use byname_lookup::flat::FlatFib;
use byname_lookup::flat::known::{Exact, Filter, Known};
use byname_lookup::flat::labelled::LabelledTable;
use byname_lookup::prefix::compact::Translation;
use byname_lookup::prefix::namespaces::changes::Changes;
use byname_lookup::prefix::namespaces::{Namespace, NamespaceError, Namespaces};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Digest, Name, NameHashKey};
use thiserror::Error;

use super::FibEngine;
use super::bulk::{BulkFibError, label_name};

/// A file that cannot be a flat namespace.
#[derive(Debug, Error)]
pub enum FlatError {
    /// It cannot be used at all.
    #[error(transparent)]
    File(#[from] BulkFibError),
    /// It has no checksums, and so does not tell unknown names.
    #[error(
        "{}: the table has no checksums, so each unknown name forwards as some label does: make it with \
         `byname flat build --check 8`, or set `unknown` to another remedy",
        path.display()
    )]
    NoChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The file that tells known names from others cannot be used.
    #[error("{}: {source}", path.display())]
    Known {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: FileError,
    },
    /// The file that tells known names from others has another key than the table.
    #[error(
        "{} is of another table than {}: make both with one `byname flat build --filter` or `--exact`",
        path.display(),
        table.display()
    )]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// The table.
        table: PathBuf,
    },
}

/// What is done about names that the table does not know [Concise §7.3].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// The table has checksums, which tell most of them.
    Checksum,
    /// Nothing, if the table has no checksums.
    Any,
    /// This file has a filter, which tells most of them.
    Filter(PathBuf),
    /// This file has the digests of all names.
    Exact(PathBuf),
}

/// Opens a file as a namespace, in which no label has a route yet. Also returns the number of its names.
///
/// # Errors
/// If the file has no such table, a label is no name, the remedy is a checksum and there is none, or the remedy's file does not fit.
pub fn open(
    (source, opening): (Source<'_>, Opening),
    prefix: &Name,
    remedy: &Remedy,
    changes_max: usize,
) -> Result<(Namespace, u64), FlatError> {
    let path = source.path;
    let table =
        LabelledTable::open(source, opening).map_err(|source| BulkFibError::File { path: path.to_owned(), source })?;
    let labels = table.labels();
    if *remedy == Remedy::Checksum && labels.check_bits == 0 {
        return Err(FlatError::NoChecksum { path: path.to_owned() });
    }
    let names = labels.texts.iter().map(|text| label_name(path, text)).collect::<Result<Arc<[Name]>, _>>()?;
    let query = table.query().clone();
    let query = match known(remedy, opening)? {
        Some((known_path, known)) if known.key() != table.key() => {
            return Err(FlatError::OfAnother { path: known_path.to_owned(), table: path.to_owned() });
        }
        Some((_, known)) => known.in_front_of(query),
        None => query,
    };
    let namespace = Namespace {
        prefix: prefix.clone(),
        key: *table.key(),
        table: query,
        translation: Translation::new(&vec![None; names.len()]),
        labels: names,
        changes: Arc::new(Changes::new(changes_max)),
    };
    Ok((namespace, table.names()))
}

/// The file of a remedy, if it has one, and what is in it.
fn known(remedy: &Remedy, opening: Opening) -> Result<Option<(&Path, Known)>, FlatError> {
    let (path, known) = match remedy {
        Remedy::Checksum | Remedy::Any => return Ok(None),
        Remedy::Filter(path) => (path, Filter::open(path, opening).map(Known::Filter)),
        Remedy::Exact(path) => (path, Exact::open(path, opening).map(Known::Exact)),
    };
    let known = known.map_err(|source| FlatError::Known { path: path.clone(), source })?;
    Ok(Some((path, known)))
}

/// A namespace without a file: no name is known before changes, of which there may be `changes_max`.
pub fn without_table(prefix: &Name, key: NameHashKey, changes_max: usize) -> Namespace {
    Namespace {
        prefix: prefix.clone(),
        key,
        table: Arc::new(NoNames),
        translation: Translation::new(&[]),
        labels: Arc::new([]),
        changes: Arc::new(Changes::new(changes_max)),
    }
}

/// A table that knows no name.
struct NoNames;

impl FlatFib for NoNames {
    fn entry(&self, _: Digest) -> Option<EntryId> {
        None
    }

    fn lines_read(&self, _: Digest) -> Option<usize> {
        Some(0)
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The control half: an engine behind namespaces.
pub struct FlatNamespaces {
    engine: Namespaces<FibEngine>,
    /// Where each label occurs.
    labels: HashMap<Name, Vec<(Translation, EntryId)>>,
    changes: Vec<Arc<Changes>>,
}

impl FlatNamespaces {
    /// Puts namespaces in front of an engine, whose rules have at most `depth_max` components before any change.
    ///
    /// # Errors
    /// If the namespaces cannot be together.
    pub fn new(engine: FibEngine, depth_max: usize, namespaces: Vec<Namespace>) -> Result<Self, NamespaceError> {
        let mut labels: HashMap<Name, Vec<_>> = HashMap::new();
        for namespace in &namespaces {
            for (label, id) in namespace.labels.iter().zip(0..) {
                labels.entry(label.clone()).or_default().push((namespace.translation.clone(), EntryId(id)));
            }
        }
        let changes = namespaces.iter().map(|namespace| namespace.changes.clone()).collect();
        let engine = Namespaces::new(engine, namespaces)?.with_rules_to(depth_max);
        Ok(FlatNamespaces { engine, labels, changes })
    }
}

impl Control<Name> for FlatNamespaces {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.engine.query()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.engine.apply(changes)?;
        for change in changes {
            let (name, entry) = change.parts();
            for (translation, id) in self.labels.get(name).into_iter().flatten() {
                translation.set(*id, entry);
            }
            self.changes.iter().for_each(|changes| changes.route(name, entry));
        }
        Ok(update)
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        self.engine.expect(rules)
    }

    fn reclaim(&mut self) {
        self.engine.reclaim();
    }
}

#[cfg(test)]
mod tests {
    use byname_forward::FaceId;
    use byname_forward::tables::{Nexthop, Tables};
    use byname_lookup::flat::labelled::{self, Labels};
    use byname_lookup::prefix::compact::{BulkLoader, Options};
    use byname_wire::{NameView, PrefixHashes};

    use super::super::bulk::BulkFib;
    use super::super::{FibEngineKind, FibWriter};
    use super::*;

    const KEY: NameHashKey = NameHashKey::new([3, 4]);
    const TABLE_KEY: NameHashKey = NameHashKey::new([5, 6]);

    fn name(uri: &str) -> Name {
        uri.parse().expect("a name")
    }

    fn saved(path: &Path, labels: &[&str], check_bits: u32, names: &[(&str, u32)]) {
        let texts = labels.iter().map(|label| label.as_bytes().into()).collect();
        let digest = |(name, label): &(&str, u32)| (TABLE_KEY.digest_bytes(name.as_bytes()), EntryId(*label));
        let names: Vec<_> = names.iter().map(digest).collect();
        labelled::save((path, &TABLE_KEY), &Labels { texts, check_bits }, &names, &mut |_| {}).expect("a new file");
    }

    fn writer(engine: FibEngine, depth_max: usize, namespace: Namespace) -> FibWriter {
        let fib = FlatNamespaces::new(engine, depth_max, vec![namespace]).expect("one namespace");
        let tables = Arc::new(Tables::new(fib.query()));
        FibWriter::new(Box::new(fib), tables)
    }

    fn face_of(fib: &FibWriter, uri: &str) -> Option<u64> {
        let (mut reader, asked, mut hashes) = (fib.tables().reader(), name(uri), PrefixHashes::default());
        reader.begin_burst();
        let found = reader.fib().longest_match(&NameView::new(&KEY, asked.as_ref(), &mut hashes));
        let face = found.map(|found| fib.tables().group(found.entry).expect("set").nexthops[0].face.0);
        reader.end_burst();
        face
    }

    fn to(face: u64) -> [Nexthop; 1] {
        [Nexthop { face: FaceId(face), cost: 1 }]
    }

    #[test]
    fn flat_names_forward_as_the_routes_that_they_are_labelled_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.flat");
        saved(&path, &["/up/1", "/up/2"], 16, &[("a", 0), ("b", 1), ("c", 0)]);
        for kind in FibEngineKind::ALL {
            let (namespace, names) =
                open((path.as_path().into(), Opening::default()), &name("/o"), &Remedy::Checksum, 10).expect("ours");
            assert_eq!(names, 3);
            let mut fib = writer(kind.build(KEY, 100).expect("little memory"), 0, namespace);
            assert_eq!(face_of(&fib, "/o/a"), None, "its label has no route");
            let (mut one, mut two, mut own, mut all) = (None, None, None, None);
            fib.set(name("/up/1").as_ref(), &mut one, &to(300));
            fib.set(name("/up/2").as_ref(), &mut two, &to(301));
            fib.set(name("/o").as_ref(), &mut all, &to(302));
            fib.commit();
            let faces = ["/o/a", "/o/b/x", "/o/c/x/y", "/o/unknown", "/o"].map(|uri| face_of(&fib, uri));
            assert_eq!(faces, [Some(300), Some(301), Some(300), Some(302), Some(302)], "{kind:?}");
            // A route of a flat name covers it; without a route, a label's names are routed as unknown ones.
            fib.set(name("/o/b").as_ref(), &mut own, &to(303));
            fib.clear(name("/up/1").as_ref(), &mut one);
            fib.commit();
            let faces = ["/o/a", "/o/b/x"].map(|uri| face_of(&fib, uri));
            assert_eq!(faces, [Some(302), Some(303)], "{kind:?}");
            fib.clear(name("/o/b").as_ref(), &mut own);
            fib.commit();
            assert_eq!((face_of(&fib, "/o/b/x"), fib.failures()), (Some(301), 0), "{kind:?}");
        }
    }

    #[test]
    fn rules_of_a_bulk_table_below_a_flat_namespace_are_not_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, bulk) = (folder.path().join("x.flat"), folder.path().join("x.table"));
        saved(&path, &["/up/1"], 16, &[("a", 0), ("b", 0)]);
        let mut loader = BulkLoader::new(KEY, 10, &Options::default()).expect("a little memory");
        for uri in ["/o/a/deep", "/o/b"] {
            loader.push(name(uri).as_ref(), EntryId(0)).expect("sorted, and room");
        }
        let mut table = loader.finish_table(&Options::default()).expect("room");
        table.set_labels(vec![b"/up/2"[..].into()]);
        table.save(&bulk).expect("a new file");
        let engine = BulkFib::open(&bulk, Opening::default(), 10).expect("ours");
        let depth_max = engine.table().query().depth_max();
        let (namespace, _) =
            open((path.as_path().into(), Opening::default()), &name("/o"), &Remedy::Checksum, 10).expect("ours");
        let mut fib = writer(Box::new(engine), depth_max, namespace);
        fib.set(name("/up/1").as_ref(), &mut None, &to(300));
        fib.set(name("/up/2").as_ref(), &mut None, &to(301));
        fib.commit();
        let faces = ["/o/a/x", "/o/a/deep/er", "/o/b/x"].map(|uri| face_of(&fib, uri));
        assert_eq!(faces, [Some(300), Some(301), Some(301)]);
    }

    #[test]
    fn unknown_names_are_routed_by_the_fib_where_a_filter_or_the_exact_names_tell_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, filter, exact, other] = ["x.flat", "x.filter", "x.names", "y.names"].map(|n| folder.path().join(n));
        let names: Vec<_> = (0..500).map(|n| format!("known{n}")).collect();
        let labelled: Vec<_> = names.iter().map(|name| (name.as_str(), 0)).collect();
        saved(&path, &["/up/1"], 0, &labelled);
        let digests = || names.iter().map(|name| TABLE_KEY.digest_bytes(name.as_bytes()));
        Filter::save((&filter, &TABLE_KEY), 16, digests(), &mut |_| {}).expect("a new file");
        Exact::save((&exact, &TABLE_KEY), digests()).expect("a new file");
        Exact::save((&other, &KEY), digests()).expect("a new file");
        let open = |remedy: Remedy| open((path.as_path().into(), Opening::default()), &name("/o"), &remedy, 10);
        for (remedy, passed_max) in [(Remedy::Any, 500), (Remedy::Filter(filter.clone()), 3), (Remedy::Exact(exact), 0)]
        {
            let (namespace, _) = open(remedy.clone()).expect("ours");
            let engine = FibEngineKind::ALL[0].build(KEY, 100).expect("little memory");
            let mut fib = writer(engine, 0, namespace);
            fib.set(name("/up/1").as_ref(), &mut None, &to(300));
            fib.set(name("/o").as_ref(), &mut None, &to(302));
            fib.commit();
            assert!(names.iter().all(|known| face_of(&fib, &format!("/o/{known}")) == Some(300)), "{remedy:?}");
            let passed = (0..500).filter(|n| face_of(&fib, &format!("/o/unknown{n}")) == Some(300)).count();
            assert!(passed <= passed_max, "{remedy:?}: {passed}");
            assert!(remedy != Remedy::Any || passed == 500, "without a remedy, all pass");
        }
        let error = open(Remedy::Exact(other)).err().expect("another key").to_string();
        assert!(error.contains("y.names is of another table than"), "{error}");
        let error = open(Remedy::Exact(filter)).err().expect("a filter").to_string();
        assert!(error.contains("x.filter: the file has a table of kind 2, not 4"), "{error}");
    }

    #[test]
    fn tables_that_cannot_be_used_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.flat");
        let opening = Opening { checked: true, ..Opening::default() };
        let open = |remedy| open((path.as_path().into(), opening), &name("/o"), &remedy, 0).map(drop);
        assert!(matches!(open(Remedy::Checksum), Err(FlatError::File(BulkFibError::File { .. }))));
        saved(&path, &["/up/1"], 0, &[("a", 0)]);
        assert!(matches!(open(Remedy::Checksum), Err(FlatError::NoChecksum { .. })));
        assert!(open(Remedy::Any).is_ok());
        saved(&path, &["/up/1", "up"], 4, &[("a", 0)]);
        assert!(matches!(open(Remedy::Checksum), Err(FlatError::File(BulkFibError::Label { .. }))));
    }
}
