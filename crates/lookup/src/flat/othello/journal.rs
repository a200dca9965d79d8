//! Lock-free changes of several words, which readers see completely or not at all.
//!
//! These are D1 and D2 of [Concise §5.3] with two differences. They are counters instead of bits:
//! two changes during one query would flip a bit back, and the paper's reader would not notice. The
//! writer also notes the old contents of the words before it changes them. A reader that meets a
//! change in progress answers from these notes instead of waiting, so a descheduled writer delays
//! nobody.
//!
//! One pair of counters serves a whole table; the paper has 512. A reader checks the counters once
//! for eight names. A change disturbs it only during the few tens of nanoseconds in which it reads
//! them.

use crate::sync::{AtomicU64, Ordering};

/// Maximum number of words that one change may touch.
pub(super) const WORDS_MAX: usize = 256;

/// The state of changes that readers check. There is one writer.
#[repr(align(64))]
pub(super) struct Journal {
    /// Number of changes that have begun to take notes.
    begun: AtomicU64,
    /// Number of changes whose notes are complete. The writer touches words only after that. The
    /// paper's D1.
    ready: AtomicU64,
    /// Number of changes whose words are all written. The paper's D2.
    finished: AtomicU64,
    /// Number of words noted.
    noted: AtomicU64,
    /// The address of each word, and its old contents.
    notes: Box<[[AtomicU64; 2]]>,
}

/// A moment at which no change was in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment(u64);

impl Journal {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        // A model takes its time for each note.
        let notes = if cfg!(loom) { 4 } else { WORDS_MAX };
        Journal {
            begun: zero(),
            ready: zero(),
            finished: zero(),
            noted: zero(),
            notes: (0..notes).map(|_| [zero(), zero()]).collect(),
        }
    }

    /// Sets each of these words to the value beside it. For the writer.
    ///
    /// # Panics
    /// If there are more than [`WORDS_MAX`] words.
    pub(super) fn change<'a>(&self, words: impl ExactSizeIterator<Item = (&'a AtomicU64, u64)> + Clone) {
        let change = self.begun.load(Ordering::Relaxed) + 1;
        // Release, here and below: a reader that sees a store sees everything before it.
        self.begun.store(change, Ordering::Release);
        self.noted.store(words.len() as u64, Ordering::Release);
        for (note, (word, _)) in self.notes[..words.len()].iter().zip(words.clone()) {
            note[0].store(address(word), Ordering::Release);
            note[1].store(word.load(Ordering::Relaxed), Ordering::Release);
        }
        self.ready.store(change, Ordering::Release);
        for (word, value) in words {
            word.store(value, Ordering::Release);
        }
        self.finished.store(change, Ordering::Release);
    }

    /// Begins some reads. [`Journal::undisturbed`] ends them.
    #[inline(always)]
    pub(super) fn moment(&self) -> Moment {
        Moment(self.finished.load(Ordering::Acquire))
    }

    /// Whether all words that were read since then, by acquire loads, belong to one state.
    #[inline(always)]
    pub(super) fn undisturbed(&self, since: Moment) -> bool {
        // If a read had seen a word of a later change, this load would see that change's count.
        self.ready.load(Ordering::Relaxed) == since.0
    }

    /// Calls `query` with a function that reads words, all of one state that the table had at some
    /// time during this call. `query` may be called again.
    ///
    /// Each repetition means that the writer began another change. A writer that pauses delays
    /// nobody, wherever it pauses. The number of tries has no bound, because there would be no
    /// correct answer beyond one. A try takes less time than a change, so each further try has a
    /// probability well below one.
    pub(super) fn read<T>(&self, query: impl Fn(&dyn Fn(&AtomicU64) -> u64) -> T) -> T {
        loop {
            let since = self.moment();
            // Acquire: this change's notes are seen completely.
            let ready = self.ready.load(Ordering::Acquire);
            let (found, is_one_state) = if ready == since.0 {
                let found = query(&|word| word.load(Ordering::Acquire));
                (found, self.undisturbed(since))
            } else {
                // A change is in progress: read the state before it, unless the next change begins
                // meanwhile.
                let found = query(&|word| {
                    let now = word.load(Ordering::Acquire);
                    self.noted(word).unwrap_or(now)
                });
                // Acquire: otherwise the next try sees at least that this change has finished.
                (found, self.begun.load(Ordering::Acquire) == ready)
            };
            if is_one_state {
                return found;
            }
        }
    }

    /// The word's contents before the change with these notes.
    fn noted(&self, word: &AtomicU64) -> Option<u64> {
        let noted = (self.noted.load(Ordering::Acquire) as usize).min(self.notes.len());
        let note = self.notes[..noted].iter().find(|note| note[0].load(Ordering::Acquire) == address(word))?;
        Some(note[1].load(Ordering::Acquire))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.notes)
    }
}

fn address(word: &AtomicU64) -> u64 {
    std::ptr::from_ref(word).addr() as u64
}

/// Every order of the steps of a writer and a reader, and every value that the reader may see.
#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    /// Two words whose exclusive-or is a query's answer, like those of a name.
    struct Table {
        journal: Journal,
        words: [AtomicU64; 2],
    }

    impl Table {
        fn change(&self, to: [u64; 2]) {
            self.journal.change(self.words.iter().zip(to));
        }
    }

    /// One query during changes that all keep the exclusive-or.
    fn an_answer_is_of_one_state(changes: &'static [[u64; 2]], read: fn(&Table) -> Option<u64>) {
        loom::model(move || {
            let table = Arc::new(Table { journal: Journal::new(), words: [AtomicU64::new(1), AtomicU64::new(2)] });
            let looking = loom::thread::spawn({
                let table = table.clone();
                move || assert!(read(&table).is_none_or(|found| found == 3))
            });
            changes.iter().for_each(|&to| table.change(to));
            looking.join().expect("the reader does not panic");
        });
    }

    fn alone(table: &Table) -> Option<u64> {
        Some(table.journal.read(|word| word(&table.words[0]) ^ word(&table.words[1])))
    }

    fn in_burst(table: &Table) -> Option<u64> {
        let since = table.journal.moment();
        let found = table.words[0].load(Ordering::Acquire) ^ table.words[1].load(Ordering::Acquire);
        table.journal.undisturbed(since).then_some(found)
    }

    #[test]
    fn a_change_is_seen_whole() {
        an_answer_is_of_one_state(&[[4, 7]], alone);
        an_answer_is_of_one_state(&[[4, 7]], in_burst);
    }

    #[test]
    fn two_changes_are_seen_whole() {
        an_answer_is_of_one_state(&[[4, 7], [8, 11]], alone);
        an_answer_is_of_one_state(&[[4, 7], [8, 11]], in_burst);
    }

    /// The paper's two flips, which restore a bit.
    #[test]
    fn a_change_and_its_contrary_are_seen_whole() {
        an_answer_is_of_one_state(&[[4, 7], [1, 2], [16, 19]], in_burst);
    }

    #[test]
    fn a_finished_change_is_seen() {
        loom::model(|| {
            let table = Table { journal: Journal::new(), words: [AtomicU64::new(1), AtomicU64::new(2)] };
            table.change([4, 8]);
            assert_eq!(alone(&table), Some(12));
            assert_eq!(in_burst(&table), Some(12));
        });
    }
}
