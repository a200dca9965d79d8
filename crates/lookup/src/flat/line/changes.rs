//! How readers get whole lines while the writer changes them.
//!
//! A line is eight words that are read and written one by one; a reader that got some of before and
//! some of after would have a system that nobody solved. Each line shares a counter with others: odd
//! while one of them is being written. Before that, the line's old words are put aside, so that a
//! reader that comes in the middle takes those: it never waits for the writer, not even for one that
//! was put to sleep halfway. It begins again only if the counter moved on while it read, that is if
//! the writer did a whole step meanwhile: a step solves a system, a thousand times as long as it
//! takes to read a line.

use crate::memory::Line;
use crate::sync::{AtomicU64, Ordering};

/// Counters, which lines share by their number.
const STRIPES: usize = if cfg!(loom) { 1 } else { 1024 };

/// When the reading of a line began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment(u64);

/// What all query halves of one table, and its writer, share. There is one writer.
pub(super) struct Changes {
    /// Steps begun and ended.
    counters: Box<[AtomicU64; STRIPES]>,
    /// The address of the line that is being written, while a counter is odd.
    written: AtomicU64,
    /// What it held before.
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

    /// The beginning of reading a line, which [`Changes::undisturbed`] ends.
    #[inline(always)]
    pub(super) fn moment(&self, line: &Line) -> Moment {
        Moment(self.counter(line).load(Ordering::Acquire))
    }

    /// Whether all words of the line that were read since then, by acquire loads, are of one state.
    #[inline(always)]
    pub(super) fn undisturbed(&self, line: &Line, since: Moment) -> bool {
        // Had a read seen a word of a later step, this load would see that it began.
        self.counter(line).load(Ordering::Relaxed) == since.0 & !1
    }

    /// What `ask` makes of a line by acquire loads, as the line was at some moment between call and
    /// return. It is called again while words may be of different moments.
    pub(super) fn settled<T>(&self, line: &Line, ask: impl Fn(&Line) -> T) -> T {
        let counter = self.counter(line);
        loop {
            let begun = counter.load(Ordering::Acquire);
            // What was put aside stands until the counter is even again.
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

    /// Writes a line, in one step as readers see it. The writer's method.
    pub(super) fn write(&self, line: &Line, words: &[u64; 8]) {
        let counter = self.counter(line);
        let steps = counter.load(Ordering::Relaxed);
        // Release, here and below: whoever sees one of these words sees that the step before ended...
        for (aside, word) in self.before.0.iter().zip(&line.0) {
            aside.store(word.load(Ordering::Relaxed), Ordering::Release);
        }
        self.written.store(address(line), Ordering::Release);
        counter.store(steps + 1, Ordering::Release);
        // ...and whoever sees one of these, that this one began.
        for (word, new) in line.0.iter().zip(words) {
            word.store(*new, Ordering::Release);
        }
        counter.store(steps + 2, Ordering::Release);
    }
}

/// Tells lines apart while they exist.
fn address(line: &Line) -> u64 {
    std::ptr::from_ref(line).addr() as u64
}

/// The words of a line, which only the writer may ask for like this.
pub(super) fn words(line: &Line) -> [u64; 8] {
    line.0.each_ref().map(|word| word.load(Ordering::Relaxed))
}

/// Every order of the steps of one reader and the writer, and every value the reader may see.
#[cfg(all(test, loom))]
mod models {
    use std::sync::Arc;

    use super::*;
    use crate::memory::{Lines, Pages};

    /// The first and the last word.
    fn ends(line: &Line) -> [u64; 2] {
        [0, 7].map(|i: usize| line.0[i].load(Ordering::Acquire))
    }

    /// As queries read lines: at once, and settled if that was disturbed.
    fn read(changes: &Changes, line: &Line) -> [u64; 2] {
        let since = changes.moment(line);
        let seen = ends(line);
        if changes.undisturbed(line, since) { seen } else { changes.settled(line, ends) }
    }

    /// Two lines share the only counter; one is written twice, the other once between.
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
