//! A model of key positions in a sorted array, with a maximum error that is chosen, not measured.
//!
//! It is piecewise linear. Each segment is a line that starts at its first key and keeps all its
//! keys within [`ERROR_MAX`] positions of the line (the shrinking cone of FITing-Tree, Galakatos et
//! al., 2019). The first keys of the segments are modelled in turn, level upon level, as in the
//! PGM-index of Ferragina and Vinciguerra, 2020.
//!
//! Differs from [Hasegawa, reference 17]: lines replace a neural network. A network's maximum error
//! is known only after training, and whoever chooses the keys can influence it. Here hostile keys
//! cost segments, at most one for each [`ERROR_MAX`] keys, and no time.
//!
//! Cost: 16 bytes a segment. With uniform keys a segment holds several hundred.

use crate::count::Count;

/// Maximum distance of a key from its segment's line, in positions.
pub(super) const ERROR_MAX: usize = 16;
/// The margin around a prediction: the error, one position for rounding, and one for absent keys.
const MARGIN: usize = ERROR_MAX + 2;
/// Maximum number of positions in a segment, for which single precision errs by less than one
/// position.
const SEGMENT_MAX: usize = 1 << 20;
/// Levels are added until one has at most this many segments: two cache lines.
const TOP_MAX: usize = 8;
/// Length of a cache line in bytes.
const LINE_BYTES: usize = 64;

/// A line over the keys from `first_key` to the next segment's first key.
struct Segment {
    first_key: u64,
    /// Position of the first key.
    first: u32,
    /// Positions for each step of the key. Never negative.
    slope: f32,
}

impl Segment {
    #[inline]
    fn predict(&self, key: u64) -> usize {
        (self.first as usize).saturating_add(((key - self.first_key) as f32 * self.slope) as usize)
    }
}

/// The lines that keep all keys since `first_key` within [`ERROR_MAX`].
struct Cone {
    first_key: u64,
    first: usize,
    slope_min: f64,
    slope_max: f64,
}

impl Cone {
    fn new(first_key: u64, first: usize) -> Self {
        Cone { first_key, first, slope_min: 0.0, slope_max: f64::INFINITY }
    }

    /// Narrows the cone to include `key`. Returns false if no line does.
    fn admit(&mut self, key: u64, position: usize) -> bool {
        let (run, rise) = ((key - self.first_key) as f64, (position - self.first) as f64);
        let slope_min = self.slope_min.max((rise - ERROR_MAX as f64) / run);
        let slope_max = self.slope_max.min((rise + ERROR_MAX as f64) / run);
        let admitted = slope_min <= slope_max && position - self.first < SEGMENT_MAX;
        if admitted {
            (self.slope_min, self.slope_max) = (slope_min, slope_max);
        }
        admitted
    }

    fn segment(&self) -> Segment {
        let slope = if self.slope_max.is_finite() { (self.slope_min + self.slope_max) / 2.0 } else { 0.0 };
        Segment { first_key: self.first_key, first: self.first as u32, slope: slope as f32 }
    }
}

fn segments(keys: impl Iterator<Item = u64>) -> Box<[Segment]> {
    let (mut segments, mut cone) = (Vec::new(), None::<Cone>);
    for (position, key) in keys.enumerate() {
        if cone.as_mut().is_some_and(|cone| cone.admit(key, position)) {
            continue;
        }
        segments.extend(cone.map(|cone| cone.segment()));
        cone = Some(Cone::new(key, position));
    }
    segments.extend(cone.map(|cone| cone.segment()));
    segments.into()
}

/// The range in which to search for a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// The predicted position.
    pub(super) at: usize,
    /// The result is the first key that is not less (or not less or equal). It lies at or after
    /// this position...
    pub(super) from: usize,
    /// ...and at or before this one.
    pub(super) up_to: usize,
}

/// The model of one sorted array.
pub(super) struct Model {
    /// The segments over the keys, then over those segments' first keys, and so on.
    levels: Vec<Box<[Segment]>>,
    keys: usize,
}

impl Model {
    /// Learns the positions of `keys`, which must ascend strictly and be fewer than 2^32.
    pub(super) fn new(keys: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = keys.len();
        assert!(u32::try_from(count).is_ok(), "positions are 32 bits");
        let mut levels = vec![segments(keys)];
        while let Some(below) = levels.last().filter(|below| below.len() > TOP_MAX) {
            levels.push(segments(below.iter().map(|segment| segment.first_key)));
        }
        Model { levels, keys: count }
    }

    /// The range that contains `key` if it exists.
    #[inline]
    pub(super) fn window(&self, key: u64, count: &mut impl Count) -> Window {
        let top = self.levels.len() - 1;
        let mut window = Window { at: 0, from: 0, up_to: self.levels[top].len() };
        for (level, segments) in self.levels.iter().enumerate().rev() {
            let after = search(segments, &window, count, |segment| segment.first_key <= key);
            let keys_below = level.checked_sub(1).map_or(self.keys, |below| self.levels[below].len());
            // A key before all others.
            let Some(chosen) = after.checked_sub(1) else { return Window { at: 0, from: 0, up_to: 0 } };
            let end = segments.get(after).map_or(keys_below, |next| next.first as usize);
            let at = segments[chosen].predict(key).min(end);
            let from = at.saturating_sub(MARGIN).max(segments[chosen].first as usize);
            window = Window { at, from, up_to: (at + MARGIN + 1).min(end) };
        }
        window
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|segments| size_of_val(&**segments)).sum()
    }
}

/// The position in `items` of the first item for which `is_before` does not hold. It lies in
/// `window`.
///
/// Moves from the predicted position one cache line at a time, because errors are mostly small,
/// then bisects the rest.
#[inline]
pub(super) fn search<T>(items: &[T], window: &Window, count: &mut impl Count, is_before: impl Fn(&T) -> bool) -> usize {
    let mut line = usize::MAX;
    let mut is_before = |at: usize| {
        let line_now = at * size_of::<T>() / LINE_BYTES;
        if line_now != line {
            count.line();
            line = line_now;
        }
        is_before(&items[at])
    };
    let step = (LINE_BYTES / size_of::<T>()).max(1);
    let (mut low, mut high) = (window.from, window.up_to);
    let at = window.at.clamp(low, high);
    if at < high && is_before(at) {
        low = at + 1;
        while low < high {
            let next = (low + step - 1).min(high - 1);
            if !is_before(next) {
                high = next;
                break;
            }
            low = next + 1;
        }
    } else {
        high = at;
        while low < high {
            let next = high.saturating_sub(step).max(low);
            if is_before(next) {
                low = next + 1;
                break;
            }
            high = next;
        }
    }
    while low < high {
        let middle = (low + high) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::count::Counts;

    fn assert_finds_all(keys: &[u64]) {
        let model = Model::new(keys.iter().copied());
        let around = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key.saturating_add(1)]);
        for key in around.chain([0, 1, u64::MAX / 2, u64::MAX]) {
            let mut counts = Counts::default();
            let window = model.window(key, &mut counts);
            assert!(window.up_to - window.from <= 2 * MARGIN + 1, "{window:?}");
            assert_eq!(search(keys, &window, &mut counts, |&k| k < key), keys.partition_point(|&k| k < key), "{key}");
            assert_eq!(search(keys, &window, &mut counts, |&k| k <= key), keys.partition_point(|&k| k <= key), "{key}");
        }
    }

    /// `n` keys whose gaps `gap` derives from 64 random bits.
    fn keys(n: usize, gap: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut state = 1u64;
        let draw = |key: &u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            key.checked_add(1 + gap(state >> 16))
        };
        std::iter::successors(Some(7), draw).take(n).collect()
    }

    #[test]
    fn every_key_lies_in_its_window_whatever_the_keys() {
        for n in [0, 1, 2, 3, 17, 100, 5000] {
            assert_finds_all(&keys(n, |_| 0));
            assert_finds_all(&keys(n, |bits| bits & 0xffff_ffff));
            // Gaps of all magnitudes, so that no line is good for long.
            assert_finds_all(&keys(n, |bits| (1 << (bits % 48)) + (bits >> 40)));
        }
        assert_finds_all(&[0, u64::MAX]);
        assert_finds_all(&[0, 1, u64::MAX - 1, u64::MAX]);
        assert_finds_all(&(0..40).chain(u64::MAX - 40..=u64::MAX).collect::<Vec<_>>());
    }

    #[test]
    fn segments_are_few_where_keys_are_spread_evenly_and_never_many() {
        let segments = |keys: &[u64]| Model::new(keys.iter().copied()).levels[0].len();
        assert_eq!(segments(&keys(100_000, |_| 1000)), 1);
        let spread = segments(&keys(100_000, |bits| bits & 0xffff_ffff));
        assert!(spread < 100_000 / 100, "{spread}");
        // A line fits any two keys, however far apart, and any ERROR_MAX keys.
        let wild = segments(&keys(100_000, |bits| 1 << (bits % 44)));
        assert!(wild <= 100_000 / ERROR_MAX, "{wild}");
    }
}
