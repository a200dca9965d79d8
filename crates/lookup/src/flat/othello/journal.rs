//! Changes of several words that readers see whole or not at all, without locks.
//!
//! The D1 and D2 of [Concise §5.3] with two differences. They are counters, not bits: two changes
//! during one query flip a bit back, and the paper's reader would not notice. And the writer notes
//! what the words held before it touches them, so that a reader which meets a change in progress
//! answers from the notes instead of waiting: a writer that sleeps in the middle delays nobody.
//!
//! One pair of counters serves a whole table, not 512: a reader looks at it once for eight names,
//! and is disturbed by a change only in the few tens of nanoseconds in which it reads those.

use crate::sync::{AtomicU64, Ordering};

/// Most words that one change may touch.
pub(super) const WORDS_MAX: usize = 256;

/// What tells readers of changes. There is one writer.
#[repr(align(64))]
pub(super) struct Journal {
    /// Changes whose notes are being taken, or were.
    begun: AtomicU64,
    /// Changes whose notes are complete: words are touched only after that. The paper's D1.
    ready: AtomicU64,
    /// Changes all of whose words are written. The paper's D2.
    finished: AtomicU64,
    /// Words noted.
    noted: AtomicU64,
    /// Where each word lies, and what it held.
    notes: Box<[[AtomicU64; 2]]>,
}

/// A moment at which no change was in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment(u64);

impl Journal {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        // A model takes its time for each.
        let notes = if cfg!(loom) { 4 } else { WORDS_MAX };
        Journal {
            begun: zero(),
            ready: zero(),
            finished: zero(),
            noted: zero(),
            notes: (0..notes).map(|_| [zero(), zero()]).collect(),
        }
    }

    /// Changes all of these words to what stands beside them. The writer's method.
    ///
    /// # Panics
    /// If they are more than [`WORDS_MAX`].
    pub(super) fn change<'a>(&self, words: impl ExactSizeIterator<Item = (&'a AtomicU64, u64)> + Clone) {
        let change = self.begun.load(Ordering::Relaxed) + 1;
        // Release, here and below: who sees a store sees all that went before it.
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

    /// The beginning of some reads, which [`Journal::undisturbed`] ends.
    #[inline(always)]
    pub(super) fn moment(&self) -> Moment {
        Moment(self.finished.load(Ordering::Acquire))
    }

    /// Whether all words that were read since then, by acquire loads, are of one state.
    #[inline(always)]
    pub(super) fn undisturbed(&self, since: Moment) -> bool {
        // Had a read seen a word of a later change, this load would see that change's count.
        self.ready.load(Ordering::Relaxed) == since.0
    }

    /// What `query` makes of words that are all of one state, which was the table's at some time
    /// during this call. `query` is given how to read a word, and is called again if it must be.
    ///
    /// Each time it is, the writer has begun another change: one that rests, wherever it does,
    /// delays nobody. No bound on the tries, as there is nothing right to answer behind one. A
    /// try takes less time than a change, so that each further one comes with odds well below one.
    pub(super) fn read<T>(&self, query: impl Fn(&dyn Fn(&AtomicU64) -> u64) -> T) -> T {
        loop {
            let since = self.moment();
            // Acquire: the notes of this change are seen whole.
            let ready = self.ready.load(Ordering::Acquire);
            let (found, is_one_state) = if ready == since.0 {
                let found = query(&|word| word.load(Ordering::Acquire));
                (found, self.undisturbed(since))
            } else {
                // In progress: the state before it, unless the next one begins meanwhile.
                let found = query(&|word| {
                    let now = word.load(Ordering::Acquire);
                    self.noted(word).unwrap_or(now)
                });
                // Acquire: if not, the next try sees at least that this change was finished.
                (found, self.begun.load(Ordering::Acquire) == ready)
            };
            if is_one_state {
                return found;
            }
        }
    }

    /// What the word held before the change whose notes these are.
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

/// Every order of the steps of a writer and a reader, and every value the reader may see.
#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    /// Two words whose exclusive-or is what a query answers, as those of a name are.
    struct Table {
        journal: Journal,
        words: [AtomicU64; 2],
    }

    impl Table {
        fn change(&self, to: [u64; 2]) {
            self.journal.change(self.words.iter().zip(to));
        }
    }

    /// One query while changes are made; none of them changes the exclusive-or.
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

    /// The paper's two flips, which set a bit back.
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
