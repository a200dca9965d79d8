//! Shared by the suites of all kinds of engines: random numbers, distribution and counting of
//! cases, and shrinking of failures.

mod shrink;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use shrink::{Step, fewer};

/// SplitMix64. Tests need many numbers, not good ones.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

fn number_from_environment(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.replace('_', "").parse().unwrap_or_else(|_| panic!("{variable}: '{text}' is no number")))
}

/// Number of operations that this run must check. `default` unless the environment sets another.
pub fn operations(default: u64) -> u64 {
    number_from_environment("BYNAME_TEST_OPERATIONS").unwrap_or(default)
}

/// Checks at least this many operations, an equal share for each kind of engine with each family of
/// names, on all cores. `run_cases` gets a seed and its share, and returns the number it checked.
pub fn run_all<K: Sync, F: Sync>(
    kinds: &[K],
    families: &[F],
    operations: u64,
    run_cases: impl Fn(&K, &F, u64, u64) -> u64 + Sync,
) {
    let seed = number_from_environment("BYNAME_TEST_SEED").unwrap_or(1);
    let mut pairs: Vec<_> = kinds.iter().flat_map(|kind| families.iter().map(move |family| (kind, family))).collect();
    let share = operations.div_ceil(pairs.len() as u64);
    // The first engine's first.
    pairs.reverse();
    let (pairs, checked) = (Mutex::new(pairs), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((kind, family)) = pairs.lock().expect("taking does not panic").pop() else { break };
                    checked.fetch_add(run_cases(kind, family, seed, share), Ordering::Relaxed);
                }
            });
        }
    });
    let checked = checked.into_inner();
    println!("{checked} operations checked");
    assert!(checked >= operations);
}

/// Draws and runs cases, starting with the seed, until this many operations are checked. Returns
/// the number checked.
///
/// # Panics
/// If a case fails, with the fewest steps that fail.
pub fn run_cases<S: Step>(
    (kind, family): (&str, &str),
    mut seed: u64,
    operations: u64,
    draw: impl Fn(u64) -> Vec<S>,
    run: impl Fn(&[S]) -> Result<u64, String>,
) -> u64 {
    let mut checked = 0;
    while checked < operations {
        let steps = draw(seed);
        match shrink::without_panic(|| run(&steps)) {
            Ok(operations) => checked += operations,
            Err(failure) => {
                let (steps, minimal_failure) = shrink::minimal(steps, &run);
                let lines: Vec<_> = steps.iter().map(|step| format!("  {step:?}")).collect();
                let lines = lines.join("\n");
                panic!("{kind}, {family}, seed {seed:#x}: {failure}\nminimal steps:\n{lines}\nthen {minimal_failure}");
            }
        }
        seed = Random(seed).next();
    }
    checked
}
