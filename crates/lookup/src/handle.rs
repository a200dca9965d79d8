//! Handles that keep readers and the writer of a table together, so that no reader is ever behind.
//!
//! An engine asks two things of its caller: every reader has a new query half before the next
//! change, and removed memory is freed only when no reader can still see it. Here the [`Writer`]
//! does both. A [`Reader`] takes the current query half for each lookup, or for each burst.
//!
//! - Readers never wait. A lookup pays for one store, one fence and the load of a pointer, some 20
//!   nanoseconds together, however many names it asks about.
//! - [`Writer::apply`] waits only when the query half was replaced, and only for lookups that have
//!   begun: microseconds, unless the system stops a thread in the middle of a lookup.
//! - When `apply` returns, each lookup that begins afterwards, in any thread, sees the changes.
//! - Readers may outlive the writer. They then see the last state.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::publish::{self, Epochs};
use crate::update::{BuildError, Change, Control, Update};

/// Number of changes after which the writer waits for readers to free what was removed.
const UNRECLAIMED_MAX: usize = 4096;

/// `ArcSwap` wants a sized type.
struct Holder<Q: ?Sized>(Arc<Q>);

/// The query half that readers are to use, and when they have passed on from earlier ones.
struct Published<Q: ?Sized> {
    query: ArcSwap<Holder<Q>>,
    epochs: Arc<Epochs>,
}

/// The only writer of a table.
///
/// ```
/// use byname_lookup::flat::line::{LineRetrieval, Options};
/// use byname_lookup::{Change, EntryId, Writer};
/// use byname_wire::NameHashKey;
///
/// let key = NameHashKey::new([0x0123_4567, 0x89ab_cdef]);
/// let mut writer = Writer::new(LineRetrieval::new(&Options::default()));
/// let mut reader = writer.reader();
/// let name = key.digest_bytes(b"song.mp3");
/// writer.apply(&[Change::Set(name, EntryId(7))])?;
/// let found = std::thread::spawn(move || reader.read(|table| table.entry(name))).join();
/// assert_eq!(found.expect("no panic"), Some(EntryId(7)));
/// # Ok::<(), byname_lookup::BuildError>(())
/// ```
pub struct Writer<K, C: Control<K>> {
    control: C,
    published: Arc<Published<C::Query>>,
    /// Number of changes since the last reclaim.
    unreclaimed: usize,
}

impl<K, C: Control<K>> Writer<K, C> {
    /// The writer of this table. Nobody else may change it.
    pub fn new(control: C) -> Self {
        let query = ArcSwap::from_pointee(Holder(control.query()));
        Writer { control, published: Arc::new(Published { query, epochs: Arc::new(Epochs::new()) }), unreclaimed: 0 }
    }

    /// A new reader.
    pub fn reader(&self) -> Reader<C::Query> {
        Reader { epoch: self.published.epochs.reader(), published: self.published.clone() }
    }

    /// The control half, to look at.
    pub fn control(&self) -> &C {
        &self.control
    }

    /// The control half, for other methods than [`Control`]'s. They must not replace the query half.
    pub(crate) fn control_mut(&mut self) -> &mut C {
        &mut self.control
    }

    /// Applies all changes, in order, or none.
    ///
    /// # Errors
    /// If the engine refuses one of them.
    pub fn apply(&mut self, changes: &[Change<K>]) -> Result<(), BuildError> {
        let update = self.control.apply(changes)?;
        let replaced = matches!(update, Update::Replace(_));
        if let Update::Replace(query) = update {
            self.published.query.store(Arc::new(Holder(query)));
        }
        self.unreclaimed += changes.len();
        let grace = self.published.epochs.grace();
        if replaced || self.unreclaimed >= UNRECLAIMED_MAX {
            grace.wait();
        } else if !grace.passed() {
            return Ok(());
        }
        self.control.reclaim();
        self.unreclaimed = 0;
        Ok(())
    }

    /// Puts another control half with the same rules in place of this one. When this returns, all
    /// readers use its query half.
    pub(crate) fn replace(&mut self, control: C) {
        self.published.query.store(Arc::new(Holder(control.query())));
        self.published.epochs.grace().wait();
        self.control = control;
        self.unreclaimed = 0;
    }

    /// Waits until no reader can still see what was removed, and frees it.
    pub fn settle(&mut self) {
        self.published.epochs.grace().wait();
        self.control.reclaim();
        self.unreclaimed = 0;
    }
}

/// A reader of a table, for one thread at a time. A clone is for another thread.
pub struct Reader<Q: ?Sized> {
    published: Arc<Published<Q>>,
    epoch: publish::Reader,
}

impl<Q: ?Sized> Reader<Q> {
    /// A reader of a query half that nobody changes.
    pub(crate) fn of_unchanging(query: Arc<Q>) -> Self {
        let epochs = Arc::new(Epochs::new());
        let epoch = epochs.reader();
        Reader { published: Arc::new(Published { query: ArcSwap::from_pointee(Holder(query)), epochs }), epoch }
    }

    /// Calls `look` with the query half as it is now. The writer may wait until `look` returns, so
    /// `look` should only look up, and must not wait for the writer.
    #[inline]
    pub fn read<R>(&mut self, look: impl FnOnce(&Q) -> R) -> R {
        self.epoch.online();
        // Goes offline even if `look` panics: the writer would wait for ever.
        let _online = Online(&mut self.epoch);
        look(&self.published.query.load().0)
    }
}

impl<Q: ?Sized> Clone for Reader<Q> {
    fn clone(&self) -> Self {
        Reader { published: self.published.clone(), epoch: self.published.epochs.reader() }
    }
}

/// A reader in the middle of a lookup.
struct Online<'a>(&'a mut publish::Reader);

impl Drop for Online<'_> {
    fn drop(&mut self) {
        self.0.offline();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use byname_wire::{Digest, NameHashKey};

    use super::*;
    use crate::entry::EntryId;
    use crate::flat::line::{LineRetrieval, Options};
    use crate::oracle::FlatOracle;

    fn digest(i: u64) -> Digest {
        NameHashKey::new([1, 2]).digest_bytes(&i.to_le_bytes())
    }

    #[test]
    fn a_reader_follows_each_replacement_and_outlives_the_writer() {
        // Each batch replaces the oracle's query half.
        let mut writer = Writer::new(FlatOracle::new());
        let mut reader = writer.reader();
        for i in 0..10 {
            writer.apply(&[Change::Set(digest(i), EntryId(i as u32))]).expect("the oracle takes all");
            assert_eq!(reader.read(|fib| fib.entry(digest(i))), Some(EntryId(i as u32)));
        }
        let mut clone = reader.clone();
        drop(writer);
        assert_eq!(reader.read(|fib| fib.entry(digest(9))), Some(EntryId(9)));
        assert_eq!(clone.read(|fib| fib.entry(digest(0))), Some(EntryId(0)));
    }

    #[test]
    fn a_panic_in_a_lookup_does_not_stop_the_writer() {
        let mut writer = Writer::new(FlatOracle::new());
        let mut reader = writer.reader();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reader.read(|_| panic!("as planned"))));
        assert!(panicked.is_err());
        writer.apply(&[Change::Set(digest(1), EntryId(1))]).expect("the oracle takes all");
        assert_eq!(reader.read(|fib| fib.entry(digest(1))), Some(EntryId(1)));
    }

    #[test]
    fn apply_waits_for_lookups_that_have_the_old_half() {
        let mut writer = Writer::new(FlatOracle::new());
        let mut reader = writer.reader();
        let (inside, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                reader.read(|_| {
                    inside.store(true, Ordering::Release);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    over.store(true, Ordering::Release);
                });
            });
            while !inside.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            writer.apply(&[Change::Set(digest(1), EntryId(1))]).expect("the oracle takes all");
            assert!(over.load(Ordering::Acquire));
        });
    }

    /// What `readers` threads see of names whose entries a writer raises: never an older one than
    /// was there when their lookup began. `lookups` in all.
    fn lookups_under_a_writer(lookups: u64, readers: u64) {
        const NAMES: u64 = 64;
        let options = Options { entry_bits: 32, ..Options::default() };
        let mut writer = Writer::new(LineRetrieval::new(&options));
        let names: Vec<Digest> = (0..NAMES).map(digest).collect();
        let first: Vec<_> = names.iter().map(|name| Change::Set(*name, EntryId(0))).collect();
        writer.apply(&first).expect("room");
        let (begun, applied, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reading: Vec<_> = (0..readers)
                .map(|_| {
                    let mut reader = writer.reader();
                    let (names, begun, applied) = (&names, &begun, &applied);
                    scope.spawn(move || {
                        let mut out = [None; NAMES as usize];
                        for _ in 0..(lookups / readers).div_ceil(NAMES) {
                            let from = applied.load(Ordering::Acquire);
                            reader.read(|fib| fib.entry_burst(names, &mut out));
                            let to = begun.load(Ordering::Acquire);
                            for found in out {
                                let version = u64::from(found.expect("the name is known").0);
                                assert!((from..=to).contains(&version), "{version} is not in {from}..={to}");
                            }
                        }
                    })
                })
                .collect();
            // Other names come, so that parts grow and the query half is replaced.
            let writing = scope.spawn(|| {
                for version in 1.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    begun.store(version, Ordering::Release);
                    let raised = names.iter().map(|name| Change::Set(*name, EntryId(version as u32)));
                    let others = (0..50).map(|i| Change::Set(digest(1000 + 50 * (version % 2000) + i), EntryId(5)));
                    writer.apply(&raised.chain(others).collect::<Vec<_>>()).expect("room");
                    applied.store(version, Ordering::Release);
                }
            });
            let results: Vec<_> = reading.into_iter().map(|reader| reader.join()).collect();
            stop.store(true, Ordering::Release);
            writing.join().expect("the writer does not panic");
            results.into_iter().for_each(|result| result.expect("all answers are right"));
        });
    }

    /// `BYNAME_TEST_LOOKUPS` sets the number of lookups.
    #[test]
    #[cfg_attr(miri, ignore = "changes of the engine take Miri minutes")]
    fn no_reader_sees_an_older_state_than_the_last_applied() {
        let lookups = std::env::var("BYNAME_TEST_LOOKUPS").ok().and_then(|number| number.parse().ok());
        lookups_under_a_writer(lookups.unwrap_or(2_000_000), 2);
    }
}
