//! Lets readers see whole lines while the writer changes them.
//!
//! A line is eight words, which are read and written one by one. A reader that saw some words
//! before a change and some after it would have a system that nobody solved. Each line shares a
//! counter with other lines; the counter is odd while one of them is being written. Before writing,
//! the writer puts the line's old words aside. A reader that arrives in the middle reads these, so
//! it never waits for the writer, even if the writer was descheduled halfway. A reader starts again
//! only if the counter advanced while it read, that is, if the writer did a whole step meanwhile. A
//! step solves a system, which takes a thousand times as long as reading a line.

use crate::memory::Line;
use crate::sync::{AtomicU64, Ordering};

/// Number of counters. Lines share them by their number.
const STRIPES: usize = if cfg!(loom) { 1 } else { 1024 };

/// The moment at which the reading of a line began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment(u64);

/// State that all query halves of one table share with its writer. There is one writer.
pub(super) struct Changes {
    /// Numbers of steps begun and ended.
    counters: Box<[AtomicU64; STRIPES]>,
    /// The address of the line being written, while a counter is odd.
    written: AtomicU64,
    /// The line's words before the change.
    before: Line,
}

impl Changes {
    pub(super) fn new() -> Self {
        Changes {
            counters: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
            written: AtomicU64::new(0),
            before: Line(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.counters)
    }

    /// Begins reading a line. [`Changes::undisturbed`] ends it.
    #[inline(always)]
    pub(super) fn moment(&self, line: &Line) -> Moment {
        Moment(self.counter(line).load(Ordering::Acquire))
    }

    /// Whether all words of the line that were read since then, by acquire loads, belong to one
    /// state.
    #[inline(always)]
    pub(super) fn undisturbed(&self, line: &Line, since: Moment) -> bool {
        // If a read had seen a word of a later step, this load would see that the step began.
        self.counter(line).load(Ordering::Relaxed) == since.0 & !1
    }

    /// Calls `ask` on a line as it was at some moment between call and return. Loads must be
    /// acquire loads. `ask` is called again while words may come from different moments.
    pub(super) fn settled<T>(&self, line: &Line, ask: impl Fn(&Line) -> T) -> T {
        let counter = self.counter(line);
        loop {
            let begun = counter.load(Ordering::Acquire);
            // The words put aside stay valid until the counter is even again.
            let aside = begun & 1 == 1 && self.written.load(Ordering::Acquire) == address(line);
            let answer = ask(if aside { &self.before } else { line });
            if counter.load(Ordering::Relaxed) == begun {
                return answer;
            }
        }
    }

    #[inline(always)]
    fn counter(&self, line: &Line) -> &AtomicU64 {
        &self.counters[address(line) as usize / size_of::<Line>() % STRIPES]
    }

    /// Writes a line in one step, as readers see it. For the writer.
    pub(super) fn write(&self, line: &Line, words: &[u64; 8]) {
        let counter = self.counter(line);
        let steps = counter.load(Ordering::Relaxed);
        // Release, here and below: a reader that sees one of these words sees that the step before
        // ended...
        for (aside, word) in self.before.0.iter().zip(&line.0) {
            aside.store(word.load(Ordering::Relaxed), Ordering::Release);
        }
        self.written.store(address(line), Ordering::Release);
        counter.store(steps + 1, Ordering::Release);
        // ...and a reader that sees one of these sees that this step began.
        for (word, new) in line.0.iter().zip(words) {
            word.store(*new, Ordering::Release);
        }
        counter.store(steps + 2, Ordering::Release);
    }
}

/// Distinguishes lines while they exist.
fn address(line: &Line) -> u64 {
    std::ptr::from_ref(line).addr() as u64
}

/// The words of a line. Only the writer may read them this way.
pub(super) fn words(line: &Line) -> [u64; 8] {
    line.0.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Every order of the steps of one reader and the writer, and every value that the reader may see.
#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::memory::{Lines, Pages};

    /// The first and the last word.
    fn ends(line: &Line) -> [u64; 2] {
        [0, 7].map(|i: usize| line.0[i].load(Ordering::Acquire))
    }

    /// Reads lines as queries do: directly, and settled if that was disturbed.
    fn read(changes: &Changes, line: &Line) -> [u64; 2] {
        let since = changes.moment(line);
        let seen = ends(line);
        if changes.undisturbed(line, since) { seen } else { changes.settled(line, ends) }
    }

    /// Two lines share the only counter. One is written twice, and the other once in between.
    #[test]
    fn a_line_is_seen_whole() {
        loom::model(|| {
            let lines = Arc::new(Lines::zeroed(2, Pages::Small).expect("two lines"));
            let changes = Arc::new(Changes::new());
            let reading = loom::thread::spawn({
                let (lines, changes) = (lines.clone(), changes.clone());
                move || {
                    let [first, last] = read(&changes, &lines[0]);
                    assert_eq!(first, last);
                }
            });
            for (at, word) in [(0, 1), (1, 5), (0, 2)] {
                changes.write(&lines[at], &[word; 8]);
            }
            reading.join().expect("the reader does not panic");
        });
    }
}
