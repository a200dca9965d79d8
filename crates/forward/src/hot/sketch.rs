//! Recent popularity of names: a count-min sketch that forgets.
//!
//! A name has one counter in each of a few rows, and its estimate is the least of these. The estimate is never too low.
//! It is too high only if other names have raised all of the name's counters. Only counters at the estimate are raised
//! ("conservative update"), so rare names disturb popular ones little. All counts are halved after every window of
//! names, so a name is forgotten within a few windows.
//!
//! Space-Saving would distinguish names reliably and list the most popular ones, but no caller needs that list. It
//! would also write to a random place of an ordered list for each *rare* name, and most names are rare. The sketch
//! reads one cache line, which has a name's counters of all rows.

use byname_lookup::prefetch;
use byname_wire::name_hash::Digest;

/// Number of counters of a name.
const ROWS: usize = 4;
/// Number of counters of a row in one cache line.
const COLUMNS: usize = 8;
/// Number of bits that select a column.
const COLUMN_BITS: u32 = COLUMNS.trailing_zeros();

/// The counters of some names.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([[u16; COLUMNS]; ROWS]);

/// Estimates how often each name was counted.
pub struct Sketch {
    /// The number of lines is a power of two.
    lines: Box<[Line]>,
    window: u32,
    /// Number of names to count before all counts are halved.
    left: u32,
}

impl Sketch {
    /// A sketch of at least `lines` cache lines. Counts are halved after each `window` names. A name with the share `s`
    /// of all reaches a count between `s * window` and twice that.
    ///
    /// # Panics
    /// If the window is empty.
    pub fn new(lines: usize, window: u32) -> Self {
        assert!(window > 0, "a window has names in it");
        let lines = vec![Line([[0; COLUMNS]; ROWS]); lines.max(1).next_power_of_two()];
        Sketch { lines: lines.into(), window, left: window }
    }

    /// Prefetches the counters of a name whose hash this is.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::read(&self.lines[self.line_of(hash)]);
    }

    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }

    /// Counts a name once more. Returns its estimate, which is at most 65,535.
    #[inline]
    pub fn count(&mut self, name: Digest) -> u16 {
        if self.left == 0 {
            self.halve();
        }
        self.left -= 1;
        let line = self.line_of(name.hash);
        let Line(rows) = &mut self.lines[line];
        // Bits that select neither the line nor the home.
        let columns: [usize; ROWS] =
            std::array::from_fn(|row| (name.hash >> (32 + COLUMN_BITS * row as u32)) as usize % COLUMNS);
        let least = rows.iter().zip(columns).fold(u16::MAX, |least, (row, column)| least.min(row[column]));
        let count = least.saturating_add(1);
        for (row, column) in rows.iter_mut().zip(columns) {
            row[column] = row[column].max(count);
        }
        count
    }

    fn halve(&mut self) {
        self.left = self.window;
        for Line(rows) in &mut self.lines {
            rows.as_flattened_mut().iter_mut().for_each(|count| *count /= 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Counts each name exactly.
    struct Oracle {
        counts: HashMap<u32, u32>,
        window: u32,
        left: u32,
    }

    impl Oracle {
        fn new(window: u32) -> Self {
            Oracle { counts: HashMap::new(), window, left: window }
        }

        fn count(&mut self, name: u32) -> u32 {
            if self.left == 0 {
                self.left = self.window;
                self.counts.values_mut().for_each(|count| *count /= 2);
            }
            self.left -= 1;
            let count = self.counts.entry(name).or_default();
            *count += 1;
            *count
        }
    }

    fn digest(name: u32, seed: u64) -> Digest {
        let mut random = SmallRng::seed_from_u64(seed ^ u64::from(name));
        Digest { hash: random.random(), check: random.random() }
    }

    proptest! {
        /// Any names, in sketches so small that names share counters.
        #[test]
        fn no_name_is_estimated_too_low_and_one_alone_exactly(
            names in prop::collection::vec(0..40u32, 1..3000),
            lines in 1..6usize,
            window in 1..200u32,
            seed: u64,
        ) {
            let mut oracle = Oracle::new(window);
            let (mut sketch, mut alone) = (Sketch::new(lines, window), Sketch::new(lines, window));
            for &name in &names {
                let count = oracle.count(name);
                let estimate = u32::from(sketch.count(digest(name, seed)));
                prop_assert!(estimate >= count, "{name}: {estimate}, not {count}");
            }
            let mut single = Oracle::new(window);
            for _ in &names {
                prop_assert_eq!(u32::from(alone.count(digest(7, seed))), single.count(7));
            }
        }
    }

    #[test]
    fn a_count_stops_at_the_largest_number() {
        let mut sketch = Sketch::new(1, 1 << 20);
        let last = (0..70_000).map(|_| sketch.count(digest(1, 1))).last();
        assert_eq!(last, Some(u16::MAX));
    }

    /// A million names, of which few are popular. All names above the bound are found, and nearly all found names are
    /// above half of it.
    #[test]
    fn popular_names_are_told_from_the_rest() {
        const NAMES: f64 = 1e6;
        let (window, bound) = (1 << 16, 93);
        for exponent in [0.8, 1.0, 1.4] {
            let mut random = SmallRng::seed_from_u64(3);
            let (mut sketch, mut oracle) = (Sketch::new(2048, window), Oracle::new(window));
            // Zipf's law by its continuous counterpart.
            let mut draw = || {
                let (u, e): (f64, f64) = (random.random(), 1.0 - exponent);
                let rank = if e == 0.0 { NAMES.powf(u) } else { (1.0 + u * (NAMES.powf(e) - 1.0)).powf(1.0 / e) };
                rank as u32
            };
            let (mut found, mut right, mut nearly) = (0, 0, 0);
            for _ in 0..8 * window {
                let name = draw();
                let (estimate, count) = (u32::from(sketch.count(digest(name, 1))), oracle.count(name));
                assert!(estimate >= count.min(65_535), "{name}: {estimate}, not {count}");
                found += usize::from(estimate >= bound);
                right += usize::from(count >= bound);
                nearly += usize::from(count >= bound / 2);
            }
            assert!(right > window as usize / 8, "{right} with exponent {exponent}");
            assert!(found >= right && found <= nearly + nearly / 50, "{found}, {right}, {nearly}: {exponent}");
        }
    }

    #[test]
    fn what_was_popular_is_forgotten() {
        let mut sketch = Sketch::new(64, 1000);
        (0..1000).for_each(|_| _ = sketch.count(digest(1, 1)));
        (0..12_000u32).for_each(|i| _ = sketch.count(digest(2 + i % 5, 1)));
        assert!(sketch.count(digest(1, 1)) < 5);
    }
}
