//! Repetitions of several subjects in turn, so that other load on the machine affects all of them.

use std::time::Duration;

use byname_lookup::{BuildError, Control};

use crate::options::{Measuring, Updating};
use crate::timing::{median, sample};
use crate::writer::{self, Changes, Reader};

/// Number of names in a burst while cache lines are counted.
const COUNTED_BURST: usize = 32;

/// Runs `step` for each subject in each repetition. The step gets the time of one repetition. Returns the results of
/// each subject.
pub fn in_turn<S, T>(
    subjects: &mut [S],
    measuring: &Measuring,
    mut step: impl FnMut(&mut S, Duration) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<Vec<T>>> {
    let mut found: Vec<Vec<T>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..measuring.repetitions {
        for (subject, found) in subjects.iter_mut().zip(&mut found) {
            found.push(step(subject, measuring.repetition())?);
        }
    }
    Ok(found)
}

/// Like [`in_turn`], after a shorter round whose results are dropped: caches and the processor's clock are cold at
/// first.
pub fn warm_in_turn<S, T>(
    subjects: &mut [S],
    measuring: &Measuring,
    mut step: impl FnMut(&mut S, Duration) -> T,
) -> Vec<Vec<T>> {
    for subject in &mut *subjects {
        step(subject, measuring.repetition() / 2);
    }
    in_turn(subjects, measuring, |subject, duration| Ok(step(subject, duration))).expect("these steps do not fail")
}

/// Rates of a writer and of a reader beside it: medians over the repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Changes per second.
    pub updates_per_s: f64,
    /// Lookups per second during the changes.
    pub lookups_per_s: f64,
    /// Lookups per second by the same reader without changes, measured in between.
    pub quiet_per_s: f64,
}

/// Measures a reader alone and beside a writer, in turn.
///
/// # Errors
/// If the engine refuses a change.
pub fn beside_writer<K: Send, Q: ?Sized + Send + Sync>(
    subject: &mut (dyn Control<K, Query = Q> + Send),
    changes: &mut Changes<K>,
    reader: &mut (dyn Reader<Q> + Send),
    measuring: &Measuring,
    updating: &Updating,
) -> Result<Beside, BuildError> {
    let (mut updates, mut lookups, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
    let half = measuring.repetition() / 2;
    for _ in 0..measuring.repetitions {
        reader.rewind();
        quiet.push(writer::read_quietly(&*subject.query(), reader, half));
        reader.rewind();
        let rates = writer::run(subject, changes, Some(&mut *reader), updating.updates_per_s, half)?;
        updates.push(rates.updates_per_s);
        lookups.push(rates.lookups_per_s);
    }
    Ok(Beside { updates_per_s: median(&updates), lookups_per_s: median(&lookups), quiet_per_s: median(&quiet) })
}

/// Mean number of cache lines that a lookup reads, over a sample of `names`. `count` gets the start and the size of a
/// burst, and returns its number of names and of lines; `None` if the engine cannot count.
pub fn lines_per_lookup(names: usize, count: impl Fn(usize, usize) -> Option<(usize, usize)>) -> Option<f64> {
    let (mut looked_up, mut lines) = (0, 0);
    for start in sample(names, COUNTED_BURST) {
        let (names, read) = count(start, COUNTED_BURST)?;
        looked_up += names;
        lines += read;
    }
    Some(lines as f64 / looked_up as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_take_turns_after_a_shorter_round_that_is_dropped() {
        let measuring = Measuring { repetitions: 2, seconds: 2.0, ..Measuring::default() };
        let mut order = Vec::new();
        let found = warm_in_turn(&mut ["a", "b"], &measuring, |subject, duration| {
            order.push(format!("{subject} {}", duration.as_secs_f64()));
            order.len()
        });
        assert_eq!(order, ["a 0.5", "b 0.5", "a 1", "b 1", "a 1", "b 1"]);
        assert_eq!(found, [[3, 5], [4, 6]]);
    }

    #[test]
    fn lines_are_counted_over_a_sample_or_not_at_all() {
        assert_eq!(lines_per_lookup(100, |_, burst| Some((burst, 3 * burst))), Some(3.0));
        assert_eq!(lines_per_lookup(100, |start, burst| (start == 0).then_some((burst, 1))), None);
    }
}
