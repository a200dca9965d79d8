//! Distributions of rounds: how many packets a round of a thread has, and how long it takes.
//!
//! Only rounds whose stages are timed count (`stages`), so that no other round pays for it.

use crate::ticks::Ticks;

/// Upper bounds of the numbers of packets.
pub const PACKETS_BOUNDS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Upper bounds of the times, in nanoseconds.
pub const NS_BOUNDS: [u64; 12] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 5_000_000, 20_000_000];

/// Counts of values up to bounds, and beyond the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distribution<const N: usize> {
    /// Values up to each bound that are above the one before it.
    pub counts: [u64; N],
    /// Values above all bounds.
    pub above: u64,
    /// Sum of all values.
    pub sum: u64,
}

impl<const N: usize> Default for Distribution<N> {
    fn default() -> Self {
        Distribution { counts: [0; N], above: 0, sum: 0 }
    }
}

impl<const N: usize> Distribution<N> {
    pub(crate) fn add(&mut self, bounds: &[u64; N], value: u64) {
        match bounds.iter().position(|bound| value <= *bound) {
            Some(place) => self.counts[place] += 1,
            None => self.above += 1,
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// Adds the values of another distribution with the same bounds.
    pub fn add_all(&mut self, other: &Distribution<N>) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.above += other.above;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }
}

/// The rounds that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Packets of a round.
    pub packets: Distribution<{ PACKETS_BOUNDS.len() }>,
    /// Time of a round, from looking for packets until all were sent, in nanoseconds.
    pub ns: Distribution<{ NS_BOUNDS.len() }>,
}

impl Rounds {
    /// Counts a round.
    pub fn add(&mut self, packets: u64, began: Ticks, ended: Ticks) {
        self.packets.add(&PACKETS_BOUNDS, packets);
        self.ns.add(&NS_BOUNDS, ended.0.saturating_sub(began.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_their_bound() {
        let mut rounds = Rounds::default();
        for (packets, ns) in [(1, 999), (2, 1_000), (3, 1_001), (600, 30_000_000)] {
            rounds.add(packets, Ticks(7), Ticks(7 + ns));
        }
        assert_eq!((&rounds.packets.counts[..3], rounds.packets.above), (&[1, 1, 1][..], 1));
        assert_eq!((&rounds.ns.counts[..2], rounds.ns.above), (&[2, 1][..], 1));
        assert_eq!((rounds.packets.sum, rounds.packets.count(), rounds.ns.count()), (606, 4, 4));
    }
}
