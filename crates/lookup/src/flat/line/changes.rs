//! How readers get whole lines while the writer changes them.
//!
//! A line is eight words that are read and written one by one; a reader that got some of before and
//! some of after would have a system that nobody solved. Each line shares a counter with others: odd
//! while one of them is being written. Before that, the line's old words are put aside, so that a
//! reader that comes in the middle takes those: it never waits for the writer, not even for one that
//! was put to sleep halfway. It begins again only if the counter moved on while it read, that is if
//! the writer did a whole step meanwhile: a step solves a system, a thousand times as long as it
//! takes to read a line.

use crate::memory::{Line, Lines};
use crate::sync::{AtomicU64, Ordering};

/// Counters, which lines share by their number.
const STRIPES: usize = if cfg!(loom) { 1 } else { 1024 };

/// What a reader wants of a line.
// Not a closure, which the compiler leaves out of line in functions compiled for some processors.
pub(super) trait Question {
    type Answer;
    /// Asks a line by acquire loads. If its words are of different moments, the answer, whatever it
    /// is, is dropped.
    fn ask(&self, line: &Line) -> Self::Answer;
}

/// What all query halves of one table, and its writer, share. There is one writer.
pub(super) struct Changes {
    /// Steps begun and ended.
    counters: Box<[AtomicU64]>,
    /// The address of the line that is being written, while a counter is odd.
    written: AtomicU64,
    /// What it held before.
    before: Line,
}

impl Changes {
    pub(super) fn new() -> Self {
        Changes {
            counters: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicU64::new(0),
            before: Line(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.counters)
    }

    /// The answer of a line as it was at some moment between call and return.
    #[inline(always)]
    pub(super) fn ask<Q: Question>(&self, lines: &Lines, at: usize, question: &Q) -> Q::Answer {
        let counter = &self.counters[at % STRIPES];
        let begun = counter.load(Ordering::Acquire);
        if begun & 1 == 0 {
            let answer = question.ask(&lines[at]);
            // Had the question seen a word of a later step, this load would see that it began.
            if counter.load(Ordering::Relaxed) == begun {
                return answer;
            }
        }
        self.ask_while_written(&lines[at], counter, question)
    }

    #[cold]
    fn ask_while_written<Q: Question>(&self, line: &Line, counter: &AtomicU64, question: &Q) -> Q::Answer {
        loop {
            let begun = counter.load(Ordering::Acquire);
            // What was put aside stands until the counter is even again.
            let aside = begun & 1 == 1 && self.written.load(Ordering::Acquire) == address(line);
            let answer = question.ask(if aside { &self.before } else { line });
            if counter.load(Ordering::Relaxed) == begun {
                return answer;
            }
        }
    }

    /// Writes a line, in one step as readers see it. The writer's method.
    pub(super) fn write(&self, lines: &Lines, at: usize, words: &[u64; 8]) {
        let (line, counter) = (&lines[at], &self.counters[at % STRIPES]);
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
    use crate::memory::Pages;

    /// The first and the last word.
    struct Ends;

    impl Question for Ends {
        type Answer = [u64; 2];
        fn ask(&self, line: &Line) -> [u64; 2] {
            [0, 7].map(|i: usize| line.0[i].load(Ordering::Acquire))
        }
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
                    let [first, last] = changes.ask(&lines, 0, &Ends);
                    assert_eq!(first, last);
                }
            });
            for (at, word) in [(0, 1), (1, 5), (0, 2)] {
                changes.write(&lines, at, &[word; 8]);
            }
            reading.join().expect("the reader does not panic");
        });
    }
}
