//! Files that tell known names from unknown ones, beside a table of flat names [Concise §7.3].
//!
//! | | an unknown name passes with | memory a name | cost of a query |
//! | --- | --- | --- | --- |
//! | [`Filter`] of f bits | 2^-f | 1.14 to 1.18 f bits | one cache line |
//! | [`Exact`] | 2^-96 or less | 16.5 to 17 bytes | about three cache lines |
//!
//! A *filter* is a table of the engine `line` that maps each name to a fingerprint of itself. A Bloom filter of the same
//! odds takes 1.44 f bits and reads up to f lines; no filter takes less than f bits. It is of the same price as a checksum
//! in the table, and adds to it: both together pass 2^-(c+f). But it lies beside the table, so only routers that need it have
//! it: those where packets enter. A checksum must be in the tables of all.
//!
//! *Exact* is the sorted digests of all names, of 128 bits under a secret key, with an index. An unknown name passes if it has
//! the digest of a known one. Nobody without the key finds such a name, and chance does not either: among 2^32 names, the odds
//! are 2^-96.
//!
//! Both hold digests under the key of the table that they belong to. The digests and the key are in the file, and names
//! are not.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Digest, NameHashKey};

use super::line::{self, BulkLoad, BulkSaveError};
use super::{BURST_MAX, FlatFib};
use crate::entry::EntryId;
use crate::file::{Fields, FileError, Kind, Opening, TableFile, TableWriter};
use crate::memory::Lines;
use crate::prefetch;
use crate::sync::Ordering;
use crate::update::BuildError;

/// Largest number of bits of a filter's fingerprints.
pub const FILTER_BITS_MAX: u32 = 24;
/// What the note of a filter's file begins with.
const FILTER_NOTE: &[u8] = b"fingerprints";
/// Number of names that are sorted by part at a time, at 24 bytes each.
const NAMES_AT_ONCE: usize = 1 << 22;
const SIZES: u32 = 1;
const INDEX: u32 = 2;
const DIGESTS: u32 = 3;
/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// Names of a bucket of the index, on average, are at most so many, and more than half as many.
const BUCKET_NAMES: usize = 8;
/// Most bits of the index.
const BUCKET_BITS_MAX: u32 = 40;

/// A filter from a file.
pub struct Filter {
    fingerprints: Arc<dyn FlatFib>,
    bits: u32,
    names: u64,
    key: NameHashKey,
}

/// Bits of the digest, mixed in a way that neither engines nor checksums use.
#[inline(always)]
fn fingerprint(name: Digest, bits: u32) -> EntryId {
    let mixed = (name.hash ^ name.check.rotate_left(17)).wrapping_mul(0x9e6c_63d0_876a_9a35);
    EntryId((mixed >> (64 - bits)) as u32)
}

impl Filter {
    /// Writes the filter of names, each with its digest under `key`. `progress` is called with the number of names that
    /// are in the filter.
    ///
    /// # Errors
    /// If `bits` is not 1 to [`FILTER_BITS_MAX`], there is no memory, or the system refuses to write.
    pub fn save(
        (path, key): (&Path, &NameHashKey),
        bits: u32,
        names: impl Iterator<Item = Digest> + Clone,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), BulkSaveError> {
        if !(1..=FILTER_BITS_MAX).contains(&bits) {
            let what = format!("a filter has 1 to {FILTER_BITS_MAX} bits, not {bits}");
            return Err(FileError::Malformed { what }.into());
        }
        let count = names.clone().count() as u64;
        let note = [FILTER_NOTE, &count.to_le_bytes()].concat();
        let options = line::Options { entry_bits: bits, ..line::Options::default() };
        let source = || names.clone().map(move |name| (name, fingerprint(name, bits)));
        let load = BulkLoad { names_at_once: NAMES_AT_ONCE, progress };
        line::bulk_save(&options, source, load, (path, key, &note))
    }

    /// Opens a file that [`Filter::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or has no filter.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, FileError> {
        let line::Opened { query, key, note, entry_bits } = line::open(path, opening)?;
        let malformed = || FileError::Malformed { what: "it is a table of names, and no filter".to_owned() };
        let mut fields = Fields(note.strip_prefix(FILTER_NOTE).ok_or_else(malformed)?);
        let names = fields.u64()?;
        if !fields.is_empty() || entry_bits > FILTER_BITS_MAX {
            return Err(malformed());
        }
        Ok(Filter { fingerprints: query, bits: entry_bits, names, key })
    }

    /// Bits of a fingerprint.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of names that it was made of.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// The key that names must be hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// Whether a name may be known. `false` is certain.
    pub fn may_have(&self, name: Digest) -> bool {
        self.fingerprints.entry(name) == Some(fingerprint(name, self.bits))
    }
}

/// All names of a table, as digests.
pub struct Exact {
    /// Where each bucket begins, two numbers in a word; one more than there are buckets.
    index: Lines,
    /// The digests in ascending order, two words each.
    digests: Lines,
    /// Bits of a digest that choose its bucket.
    bucket_bits: u32,
    names: u64,
    key: NameHashKey,
}

impl Exact {
    /// Writes the digests of names under `key`. A name that comes twice is written once. Takes 16 bytes of memory for
    /// each name, and 2 more.
    ///
    /// # Errors
    /// If there are more than 2^32 - 1 names, or the system refuses to write.
    pub fn save((path, key): (&Path, &NameHashKey), names: impl Iterator<Item = Digest>) -> Result<(), BulkSaveError> {
        let mut digests: Vec<_> = names.collect();
        digests.sort_unstable();
        digests.dedup();
        let Ok(count) = u32::try_from(digests.len()) else {
            return Err(BuildError::Full { rules: u32::MAX as usize }.into());
        };
        let bucket_bits = (digests.len() / BUCKET_NAMES).next_power_of_two().ilog2();
        let mut starts = Vec::with_capacity((1 << bucket_bits) + 1);
        let mut at = 0;
        for bucket in 0..1u64 << bucket_bits {
            starts.push(at);
            while (at as usize) < digests.len() && bucket_of(digests[at as usize], bucket_bits) == bucket {
                at += 1;
            }
        }
        starts.push(count);
        let mut file = TableWriter::create(path, Kind::Names, key)?;
        file.bytes(SIZES, &[u64::from(count).to_le_bytes(), u64::from(bucket_bits).to_le_bytes()].concat())?;
        let pairs =
            starts.chunks(2).map(|pair| pair.iter().rev().fold(0, |word, start| word << 32 | u64::from(*start)));
        file.words(INDEX, pairs)?;
        file.words(DIGESTS, digests.iter().flat_map(|digest| [digest.hash, digest.check]))?;
        Ok(file.finish()?)
    }

    /// Opens a file that [`Exact::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or has no digests.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, FileError> {
        let file = TableFile::open(path, Kind::Names, opening)?;
        let bytes = file.bytes(SIZES)?;
        let mut fields = Fields(&bytes);
        let (names, bucket_bits) = (fields.u64()?, fields.u64()?);
        let is_small = bucket_bits <= BUCKET_BITS_MAX.into() && names <= u32::MAX.into();
        let lines = |words: u64| words.div_ceil(LINE_WORDS as u64).max(1) as usize;
        if !is_small
            || !fields.is_empty()
            || file.lines_len(INDEX)? != lines(((1 << bucket_bits) + 2) / 2)
            || file.lines_len(DIGESTS)? != lines(2 * names)
        {
            return Err(FileError::Malformed { what: "its sizes contradict each other".to_owned() });
        }
        let (index, digests) = (file.lines(INDEX)?, file.lines(DIGESTS)?);
        Ok(Exact { index, digests, bucket_bits: bucket_bits as u32, names, key: file.key() })
    }

    /// Number of names.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// The key that names must be hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    #[inline]
    fn start(&self, at: u64) -> usize {
        let pair = word(&self.index, (at / 2) as usize);
        (pair >> (32 * (at % 2))) as u32 as usize
    }

    #[inline]
    fn digest(&self, at: usize) -> Digest {
        Digest { hash: word(&self.digests, 2 * at), check: word(&self.digests, 2 * at + 1) }
    }

    /// Numbers of the digests among which a name's is, if it is known.
    #[inline]
    fn bucket(&self, name: Digest) -> (usize, usize) {
        let bucket = bucket_of(name, self.bucket_bits);
        // In a damaged file, these are any numbers.
        let end = self.start(bucket + 1).min(self.names as usize);
        (self.start(bucket).min(end), end)
    }

    fn is_in(&self, name: Digest, (mut start, mut end): (usize, usize)) -> bool {
        while start < end {
            let middle = start + (end - start) / 2;
            match self.digest(middle).cmp(&name) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        false
    }

    /// Whether a name is known.
    pub fn has(&self, name: Digest) -> bool {
        self.is_in(name, self.bucket(name))
    }
}

/// The first bits of a digest: digests in ascending order are in ascending buckets.
#[inline]
fn bucket_of(name: Digest, bits: u32) -> u64 {
    if bits == 0 { 0 } else { name.hash >> (64 - bits) }
}

#[inline]
fn word(lines: &Lines, at: usize) -> u64 {
    lines.get(at / LINE_WORDS).map_or(0, |line| line.0[at % LINE_WORDS].load(Ordering::Relaxed))
}

/// What tells known names from unknown ones.
pub enum Known {
    /// Most of the unknown ones.
    Filter(Filter),
    /// All of them.
    Exact(Exact),
}

impl Known {
    /// The key that names must be hashed with: that of the table which it belongs to.
    pub fn key(&self) -> &NameHashKey {
        match self {
            Known::Filter(filter) => filter.key(),
            Known::Exact(exact) => exact.key(),
        }
    }

    /// Number of names.
    pub fn names(&self) -> u64 {
        match self {
            Known::Filter(filter) => filter.names(),
            Known::Exact(exact) => exact.names(),
        }
    }

    /// A table that answers for names that pass here, too.
    pub fn in_front_of(self, table: Arc<dyn FlatFib>) -> Arc<dyn FlatFib> {
        Arc::new(Guarded { table, known: self })
    }

    /// Sets the answers for names that are not known to `None`.
    fn strike_out(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        match self {
            Known::Filter(filter) => {
                let mut found = [None; BURST_MAX];
                let found = &mut found[..names.len()];
                filter.fingerprints.entry_burst(names, found);
                for ((name, found), out) in names.iter().zip(found).zip(out) {
                    *out = out.filter(|_| *found == Some(fingerprint(*name, filter.bits)));
                }
            }
            Known::Exact(exact) => {
                for name in names {
                    let at = (bucket_of(*name, exact.bucket_bits) / 2) as usize;
                    exact.index.get(at / LINE_WORDS).into_iter().for_each(prefetch::read);
                }
                let mut buckets = [(0, 0); BURST_MAX];
                for (name, bucket) in names.iter().zip(&mut buckets) {
                    *bucket = exact.bucket(*name);
                    // Four digests in a line, eight in a bucket.
                    let lines = exact.digests.get(2 * bucket.0 / LINE_WORDS..).unwrap_or_default();
                    lines.iter().take(3).for_each(prefetch::read);
                }
                for ((name, bucket), out) in names.iter().zip(buckets).zip(out) {
                    *out = out.filter(|_| exact.is_in(*name, bucket));
                }
            }
        }
    }
}

/// A table and what tells its names.
struct Guarded {
    table: Arc<dyn FlatFib>,
    known: Known,
}

impl FlatFib for Guarded {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        let found = self.table.entry(name);
        found.filter(|_| match &self.known {
            Known::Filter(filter) => filter.may_have(name),
            Known::Exact(exact) => exact.has(name),
        })
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        self.table.entry_burst(names, out);
        // Mostly, a table's checksum has told unknown names already.
        if out.iter().any(Option::is_some) {
            self.known.strike_out(names, out);
        }
    }

    fn lines_read(&self, name: Digest) -> Option<usize> {
        let lines = self.table.lines_read(name)?;
        if self.table.entry(name).is_none() {
            return Some(lines);
        }
        Some(
            lines
                + match &self.known {
                    Known::Filter(filter) => filter.fingerprints.lines_read(name)?,
                    Known::Exact(exact) => {
                        let (start, end) = exact.bucket(name);
                        1 + (2 * end).div_ceil(LINE_WORDS) - 2 * start / LINE_WORDS
                    }
                },
        )
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + match &self.known {
                Known::Filter(filter) => filter.fingerprints.memory_bytes(),
                Known::Exact(exact) => size_of_val(&*exact.index) + size_of_val(&*exact.digests),
            }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::path::PathBuf;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::flat::labelled::{self, LabelledTable, Labels};

    const KEY: NameHashKey = NameHashKey::new([7, 8]);

    /// A folder that is removed with its files.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("byname-known-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("the system's folder for such files");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn digest(name: u64) -> Digest {
        KEY.digest_bytes(&name.to_le_bytes())
    }

    fn digests(names: u64) -> impl Iterator<Item = Digest> + Clone {
        (0..names).map(digest)
    }

    fn filter(path: &Path, bits: u32, names: u64) -> Filter {
        Filter::save((path, &KEY), bits, digests(names), &mut |_| {}).expect("a new file");
        Filter::open(path, Opening::default()).expect("ours")
    }

    #[test]
    fn a_filter_knows_its_names_and_tells_most_others_apart() {
        let folder = Folder::new("tell");
        let path = folder.0.join("x.filter");
        for (bits, names) in [(1, 3000), (4, 3000), (8, 60_000), (12, 20_000)] {
            let filter = filter(&path, bits, names);
            assert_eq!((filter.bits(), filter.names()), (bits, names));
            assert!(digests(names).all(|name| filter.may_have(name)));
            let asked = 400_000u64;
            let passed = (1 << 40..(1 << 40) + asked).filter(|name| filter.may_have(digest(*name))).count() as f64;
            let expected = asked as f64 / f64::from(1 << bits);
            assert!((passed - expected).abs() < 5.0 * expected.sqrt(), "{bits} bits: {passed}, {expected} expected");
        }
    }

    #[test]
    fn a_filter_takes_little_more_than_its_bits() {
        let folder = Folder::new("size");
        let path = folder.0.join("x.filter");
        drop(filter(&path, 12, 1_000_000));
        let bits = fs::metadata(&path).expect("written").len() as f64 * 8.0 / 1e6;
        assert!((12.0..12.0 * 1.2).contains(&bits), "{bits} bits a name; a Bloom filter has 17.3");
    }

    #[test]
    fn filter_and_checksum_add_up() {
        let folder = Folder::new("sum");
        let [table, path] = ["x.flat", "x.filter"].map(|name| folder.0.join(name));
        let names: Vec<_> = digests(20_000).map(|name| (name, EntryId((name.hash % 3) as u32))).collect();
        let labels = Labels { texts: vec![b"a"[..].into(), b"b"[..].into(), b"c"[..].into()], check_bits: 4 };
        labelled::save((&table, &KEY), &labels, &names, &mut |_| {}).expect("a new file");
        let table = LabelledTable::open(&table, Opening::default()).expect("ours").query().clone();
        let guarded = Known::Filter(filter(&path, 6, 20_000)).in_front_of(table.clone());
        assert!(names.iter().all(|(name, label)| guarded.entry(*name) == Some(*label)));
        let passed = |fib: &Arc<dyn FlatFib>| {
            (1 << 40..(1 << 40) + 1_000_000u64).filter(|name| fib.entry(digest(*name)).is_some()).count()
        };
        let (one, both) = (passed(&table), passed(&guarded));
        assert!((61_000..64_000).contains(&one) && (820..1_140).contains(&both), "{one}, {both}");
    }

    #[test]
    fn answers_in_bursts_are_those_one_by_one() {
        let folder = Folder::new("bursts");
        let [table, path] = ["x.flat", "x.names"].map(|name| folder.0.join(name));
        let names: Vec<_> = digests(5000).map(|name| (name, EntryId(0))).collect();
        let labels = Labels { texts: vec![b"a"[..].into()], check_bits: 0 };
        labelled::save((&table, &KEY), &labels, &names, &mut |_| {}).expect("a new file");
        let table = LabelledTable::open(&table, Opening::default()).expect("ours").query().clone();
        Exact::save((&path, &KEY), digests(5000)).expect("a new file");
        let exact = || Known::Exact(Exact::open(&path, Opening::default()).expect("ours"));
        let filter = || Known::Filter(filter(&path.with_extension("filter"), 5, 5000));
        for known in [exact(), filter()] {
            let is_exact = matches!(known, Known::Exact(_));
            let guarded = known.in_front_of(table.clone());
            for first in (0..10_000u64).step_by(BURST_MAX) {
                let asked: Vec<_> = (first..first + BURST_MAX as u64).map(digest).collect();
                let mut found = vec![None; asked.len()];
                guarded.entry_burst(&asked, &mut found);
                for (name, found) in asked.iter().zip(&found) {
                    assert_eq!(guarded.entry(*name), *found);
                }
                let known = (first..first + BURST_MAX as u64).filter(|name| *name < 5000).count();
                assert!(found.iter().flatten().count() >= known);
                assert!(!is_exact || found.iter().flatten().count() == known);
            }
            assert!((1..12).contains(&guarded.lines_read(digest(1)).expect("it can tell")));
            assert!(guarded.memory_bytes() > table.memory_bytes());
        }
    }

    #[test]
    fn files_of_another_kind_and_damaged_ones_are_refused() {
        let folder = Folder::new("damaged");
        let [exact, filter_path, table] = ["x.names", "x.filter", "x.flat"].map(|name| folder.0.join(name));
        Exact::save((&exact, &KEY), digests(1000)).expect("a new file");
        drop(filter(&filter_path, 8, 1000));
        let labels = Labels { texts: vec![b"a"[..].into()], check_bits: 4 };
        labelled::save((&table, &KEY), &labels, &[(digest(1), EntryId(0))], &mut |_| {}).expect("a new file");
        let opening = Opening::default();
        assert!(matches!(Exact::open(&filter_path, opening), Err(FileError::Kind { found: 2, wanted: Kind::Names })));
        assert!(matches!(Filter::open(&exact, opening), Err(FileError::Kind { found: 4, .. })));
        let error = Filter::open(&table, opening).err().expect("a table").to_string();
        assert!(error.contains("no filter"), "{error}");
        assert!(LabelledTable::open(&filter_path, opening).is_err());
        let whole = fs::read(&exact).expect("written");
        for at in [100, 4096, 8192, 12_288, whole.len() - 4096] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&exact, &bytes).expect("written");
            assert!(Exact::open(&exact, opening).is_err(), "{at}");
            // Unchecked, it is used, and must not panic.
            if let Ok(damaged) = Exact::open(&exact, Opening { checked: false, ..opening }) {
                assert!(digests(2000).filter(|name| damaged.has(*name)).count() <= 1000);
            }
        }
        for bits in [0, FILTER_BITS_MAX + 1] {
            let saved = Filter::save((&filter_path, &KEY), bits, digests(9), &mut |_| {});
            assert!(saved.expect_err("impossible").to_string().contains("1 to 24 bits"));
        }
    }

    #[test]
    fn the_exact_names_are_those_of_a_set() {
        let folder = Folder::new("set");
        let path = folder.0.join("x.names");
        let mut random = SmallRng::seed_from_u64(5);
        for round in 0..60 {
            let names = random.random_range(0..300) * u64::from(round > 0);
            // Names whose digests differ in their last bits only: they share a bucket.
            let near = (0..random.random_range(0..40)).map(|n| Digest { hash: u64::MAX, check: n });
            let mut all: Vec<_> = (0..names).map(|_| digest(random.random_range(0..500))).collect();
            all.extend(near);
            let oracle: HashSet<_> = all.iter().copied().collect();
            Exact::save((&path, &KEY), all.iter().copied()).expect("a new file");
            let exact = Exact::open(&path, Opening::default()).expect("ours");
            assert_eq!(exact.names(), oracle.len() as u64);
            let asked = (0..600).map(digest).chain((0..80).map(|n| Digest { hash: u64::MAX, check: n }));
            for name in asked.chain([Digest { hash: 0, check: 0 }]) {
                assert_eq!(exact.has(name), oracle.contains(&name), "round {round}");
            }
        }
    }
}
