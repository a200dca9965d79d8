//! A file of flat names with labels, for routers: which way each name goes, in a few bits a name.
//!
//! A *label* is text that many names share, such as the name of a route. The file is one of `line`.
//! Its note tells what the stored bits mean:
//!
//! ```text
//! bits of a label (4)   bits of a checksum (4)   number of names (8)   labels: length (4), bytes
//! ```
//!
//! The file has no names. The remedy for unknown names is a checksum [Concise §7.3]: an unknown
//! name gets a label with odds of 2^-c for c bits, and otherwise none. Without a checksum, each
//! unknown name gets a label.
//!
//! Cost: about 1.13 bits for each bit of a label and of a checksum, for each name. 16 labels or
//! fewer and a checksum of 4 bits take about 9.1 bits a name.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Digest, NameHashKey};

use super::FlatFib;
use super::line::{self, BulkLoad, BulkSaveError, LiveLine};
use super::validity::Check;
use crate::entry::EntryId;
use crate::file::{Edit, Fields, FileError, LiveError, Opening, Source, put_bytes};
use crate::memory;
use crate::update::{BuildError, Change};

/// Maximum number of labels.
pub const LABELS_MAX: usize = 1 << 16;

/// What a file says about its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The texts by number: that is the entry of a name.
    pub texts: Vec<Box<[u8]>>,
    /// Bits of the checksum of each name, at most 16. 0: unknown names get any label.
    pub check_bits: u32,
}

/// A table from a file. It does not change.
pub struct LabelledTable {
    query: Arc<dyn FlatFib>,
    key: NameHashKey,
    labels: Labels,
    names: u64,
}

impl Labels {
    /// Bits of a label's number.
    fn label_bits(&self) -> u32 {
        self.texts.len().next_power_of_two().ilog2().max(1)
    }

    fn check(&self) -> Option<Check> {
        (self.check_bits > 0).then(|| Check::new(self.label_bits(), self.check_bits))
    }

    fn options(&self) -> line::Options {
        line::Options { entry_bits: self.label_bits() + self.check_bits, ..line::Options::default() }
    }

    /// What a table stores for a name. The entry is the number of a label.
    fn stored(&self, name: Digest, entry: EntryId) -> EntryId {
        let stored = self.check().map_or(Ok(entry), |check| check.stored(name, entry));
        stored.expect("numbers of labels have these bits")
    }

    /// What a file of so many names notes.
    fn note(&self, names: usize) -> Vec<u8> {
        let mut note: Vec<u8> = [self.label_bits(), self.check_bits].into_iter().flat_map(u32::to_le_bytes).collect();
        note.extend((names as u64).to_le_bytes());
        self.texts.iter().for_each(|text| put_bytes(&mut note, text));
        note
    }

    fn fit(&self) -> bool {
        (1..=LABELS_MAX).contains(&self.texts.len()) && self.check_bits <= 16
    }
}

/// Writes a table of names, each with its digest under `key` ([`NameHashKey::digest_bytes`]) and the
/// number of its label. If a name comes twice, the last one counts. `progress` is called with the
/// number of names that are in the table.
///
/// # Errors
/// If the number of a label has no text, there are no texts or more than [`LABELS_MAX`], a checksum has more than
/// 16 bits, there is no memory, or the system refuses to write.
pub fn save(
    (path, key): (&Path, &NameHashKey),
    labels: &Labels,
    names: &[(Digest, EntryId)],
    progress: &mut dyn FnMut(usize),
) -> Result<(), BulkSaveError> {
    if !labels.fit() {
        let what = format!(
            "a table has 1 to {LABELS_MAX} labels and checksums of at most 16 bits, not {} and {}",
            labels.texts.len(),
            labels.check_bits
        );
        return Err(FileError::Malformed { what }.into());
    }
    let entries_max = labels.texts.len() as u32;
    if let Some((_, EntryId(entry))) = names.iter().find(|(_, entry)| entry.0 >= entries_max) {
        return Err(BuildError::EntryOutOfRange { entry: *entry, entries_max }.into());
    }
    let source = || names.iter().map(|&(name, entry)| (name, labels.stored(name, entry)));
    let load = BulkLoad { names_at_once: NAMES_AT_ONCE, progress };
    line::bulk_save(&labels.options(), source, load, (path, key, &labels.note(names.len())))
}

/// Number of names that are sorted by part at a time, at 24 bytes each.
const NAMES_AT_ONCE: usize = 1 << 22;

/// A table in a file, with the digests of its names: it takes changes, and says what they write into the file.
///
/// Cost: 27 bytes a name beside the file's.
pub struct LiveNames {
    live: LiveLine,
    labels: Labels,
}

impl LiveNames {
    /// Takes the names that [`save`] made a file of, in the same order. The file is not needed afterwards.
    ///
    /// # Errors
    /// If it cannot be read, or was made of other names, or if there is no memory.
    pub fn load(path: &Path, names: &[(Digest, EntryId)]) -> Result<Self, LiveError> {
        let labels = LabelledTable::open(path, Opening::default())?.labels;
        let entries_max = labels.texts.len() as u32;
        let mut stored =
            memory::with_room(names.len()).map_err(|refused| BuildError::Memory { reason: refused.to_string() })?;
        for &(name, entry) in names {
            if entry.0 >= entries_max {
                return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max }.into());
            }
            stored.push((name, labels.stored(name, entry)));
        }
        Ok(LiveNames { live: LiveLine::load(path, &labels.options(), &stored)?, labels })
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live.len() == 0
    }

    /// Labels and checksums, as the file has them.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.live.memory_bytes()
    }

    /// Applies changes, each of another name, and returns what to write into the file for it to be that of the changed table.
    ///
    /// # Errors
    /// If a label has no text, or a part of the table must be built anew. The table is useless afterwards.
    pub fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Vec<Edit>, LiveError> {
        let entries_max = self.labels.texts.len() as u32;
        let mut stored = Vec::with_capacity(changes.len());
        for change in changes {
            match *change {
                Change::Set(_, EntryId(entry)) if entry >= entries_max => {
                    return Err(BuildError::EntryOutOfRange { entry, entries_max }.into());
                }
                Change::Set(name, entry) => stored.push(Change::Set(name, self.labels.stored(name, entry))),
                Change::Remove(name) if self.live.contains(name) => {
                    // The bits of a name stay when it goes. With a wrong checksum, they answer nothing.
                    if self.labels.check_bits > 0 {
                        let EntryId(right) = self.labels.stored(name, EntryId(0));
                        stored.push(Change::Set(name, EntryId(right ^ 1)));
                    }
                    stored.push(Change::Remove(name));
                }
                Change::Remove(_) => {}
            }
        }
        let labels = &self.labels;
        self.live.apply(&stored, |names| labels.note(names))
    }
}

impl LabelledTable {
    /// Opens a file that [`save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table.
    pub fn open<'a>(source: impl Into<Source<'a>>, opening: Opening) -> Result<Self, FileError> {
        let line::Opened { query, key, note, entry_bits } = line::open(source, opening)?;
        let mut fields = Fields(&note);
        let (label_bits, check_bits, names) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let mut texts: Vec<Box<[u8]>> = Vec::new();
        while !fields.is_empty() && texts.len() <= LABELS_MAX {
            texts.push(fields.bytes()?.into());
        }
        let labels = Labels { texts, check_bits };
        if !labels.fit() || label_bits != labels.label_bits() || entry_bits != label_bits + check_bits {
            return Err(FileError::Malformed { what: "its labels contradict each other".to_owned() });
        }
        let query = match labels.check() {
            Some(check) => check.query(query),
            None => query,
        };
        Ok(LabelledTable { query, key, labels, names })
    }

    /// The query half. Its entries are numbers of labels; in a damaged file, they may be larger.
    pub fn query(&self) -> &Arc<dyn FlatFib> {
        &self.query
    }

    /// The key that names must be hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// Labels and checksums.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Number of names that the table was made of.
    pub fn names(&self) -> u64 {
        self.names
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::file::Checked;
    use crate::file::changes::tests::{Temporary, append_edits};

    const KEY: NameHashKey = NameHashKey::new([7, 8]);

    fn digest(name: u64) -> Digest {
        KEY.digest_bytes(&name.to_le_bytes())
    }

    fn save_all(names: &BTreeMap<u64, EntryId>, check_bits: u32, path: &Path) -> Vec<(Digest, EntryId)> {
        let labels =
            Labels { texts: vec![b"a".as_slice().into(), b"b".as_slice().into(), b"c".as_slice().into()], check_bits };
        let all: Vec<_> = names.iter().map(|(name, entry)| (digest(*name), *entry)).collect();
        save((path, &KEY), &labels, &all, &mut |_| {}).unwrap();
        all
    }

    fn put(edits: &[Edit], path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        for Edit { at, bytes: new } in edits {
            bytes[*at as usize..][..new.len()].copy_from_slice(new);
        }
        std::fs::write(path, bytes).unwrap();
    }

    /// Random changes, with and without checksums, in a table of several parts.
    #[test]
    fn files_of_names_change_in_place() {
        let path = std::env::temp_dir().join(format!("byname-live-names-{}.flat", std::process::id()));
        for (seed, check_bits) in [(1, 12), (2, 0)] {
            let rng = &mut SmallRng::seed_from_u64(seed);
            let mut names: BTreeMap<u64, EntryId> =
                (0..150_000).map(|name| (name, EntryId(rng.random_range(0..3)))).collect();
            let all = save_all(&names, check_bits, &path);
            // The same changes beside another file, which stays as it is.
            let (beside, checked) = (Temporary::new("labelled"), Checked::default());
            std::fs::copy(&path, &beside.0).unwrap();
            let mut live = LiveNames::load(&path, &all).unwrap();
            assert!(matches!(LiveNames::load(&path, &all[1..]), Err(LiveError::OtherRules)));
            assert!(live.memory_bytes() < 40 * names.len(), "{} bytes", live.memory_bytes());
            let (mut written, mut gone) = (0, Vec::new());
            for round in 0..40u64 {
                let mut changes = Vec::new();
                for at in 0..5 {
                    let known = *names.keys().nth(rng.random_range(0..names.len())).unwrap();
                    let (new, entry) = (1 << 40 | round << 8 | at, EntryId(rng.random_range(0..3)));
                    if at % 2 == 0 {
                        names.remove(&known);
                        gone.push(known);
                        changes.push(Change::Remove(digest(known)));
                    } else {
                        names.insert(known, entry);
                        changes.push(Change::Set(digest(known), entry));
                    }
                    names.insert(new, entry);
                    changes.push(Change::Set(digest(new), entry));
                }
                // One that was never there.
                changes.push(Change::Remove(digest(u64::MAX)));
                let edits = live.apply(&changes).unwrap();
                written += edits.iter().filter(|edit| edit.bytes.len() == 64).count();
                put(&edits, &path);
                let mut anew = std::fs::read(&beside.0).unwrap();
                let changes = append_edits(&beside.0, &edits);
                changes.put(0, &mut anew);
                assert!(anew == std::fs::read(&path).unwrap(), "round {round}");
                let source = Source { path: &beside.0, changes: round + 1, checked: Some(&checked) };
                let [one, other] = [source, (&path).into()]
                    .map(|source: Source<'_>| LabelledTable::open(source, Opening::default()).unwrap());
                for name in names.keys().chain(&gone).step_by(101) {
                    assert_eq!(one.query().entry(digest(*name)), other.query().entry(digest(*name)));
                }
            }
            // Ten changes each: not many more lines, and no whole parts.
            assert!((200..1_200).contains(&written), "{written} lines");
            let table = LabelledTable::open(&path, Opening::default()).unwrap();
            assert_eq!((table.names(), live.len()), (names.len() as u64, names.len()));
            for (name, entry) in &names {
                assert_eq!(table.query().entry(digest(*name)), Some(*entry));
            }
            let answered = gone.iter().filter(|name| table.query().entry(digest(**name)).is_some()).count();
            assert!(if check_bits > 0 { answered < 5 } else { answered == gone.len() }, "{answered} of {}", gone.len());
            assert!(matches!(live.apply(&[Change::Set(digest(1), EntryId(3))]), Err(LiveError::Build(_))));
            // More names than the parts have room for.
            let many: Vec<_> =
                (1 << 50..(1 << 50) + 20_000).map(|name| Change::Set(digest(name), EntryId(1))).collect();
            assert!(matches!(live.apply(&many), Err(LiveError::Grown)));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
