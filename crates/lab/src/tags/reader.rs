//! The measured loop: makes the filters of packets and queries the table in bursts.

use std::ops::{ControlFlow, Range};

use byname_lookup::tagset::{BURST_MAX, Effort, TagQuery};
use byname_lookup::{EntryId, TagsetFib};
use smallvec::SmallVec;

use super::asking::{Algorithm, Asking};
use super::packets::Packets;
use super::updates::Answer;

/// Sums over packets.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    /// Number of packets.
    pub packets: u64,
    /// Number of entries visited, or of largest subsets found.
    pub matches: u64,
    /// Number of steps of their searches.
    pub steps: u64,
    /// Number of packets whose searches were cut off.
    pub cut_off: u64,
}

impl std::iter::Sum for Sums {
    fn sum<I: Iterator<Item = Sums>>(sums: I) -> Sums {
        sums.fold(Sums::default(), |a, b| Sums {
            packets: a.packets + b.packets,
            matches: a.matches + b.matches,
            steps: a.steps + b.steps,
            cut_off: a.cut_off + b.cut_off,
        })
    }
}

/// Walks over the packets again and again, burst by burst.
pub struct Reader<'a> {
    packets: &'a Packets,
    algorithm: Algorithm,
    fanout: u32,
    burst: usize,
    at: usize,
    /// Answers of the last burst.
    answers: [Answer; BURST_MAX],
    answered: usize,
    /// Sums over all bursts so far.
    pub sums: Sums,
}

impl<'a> Reader<'a> {
    /// Begins at packet `start`.
    pub fn new(packets: &'a Packets, asking: &Asking, burst: usize, start: usize) -> Self {
        let (algorithm, fanout) = (asking.algorithm, asking.fanout.unwrap_or(u32::MAX));
        let answers = [Answer::default(); BURST_MAX];
        Reader { packets, algorithm, fanout, burst, at: start, answers, answered: 0, sums: Sums::default() }
    }

    /// Starts again at the first packet.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// The answers of the last burst.
    pub fn answers(&self) -> &[Answer] {
        &self.answers[..self.answered]
    }

    /// Queries a burst. Returns the range of its packets.
    #[inline]
    pub fn look_up(&mut self, fib: &dyn TagsetFib) -> Range<usize> {
        let range = self.next();
        self.answered = range.len();
        let queries: SmallVec<[TagQuery<'_>; BURST_MAX]> =
            range.clone().map(|packet| self.packets.query(packet)).collect();
        let mut efforts = [Effort::default(); BURST_MAX];
        self.answers = [Answer::default(); BURST_MAX];
        match self.algorithm {
            Algorithm::All => {
                let mut visits = [0; BURST_MAX];
                let fanout = self.fanout;
                let answers = &mut self.answers;
                let mut visit = |packet: usize, entry: EntryId| {
                    visits[packet] += 1;
                    answers[packet].add(entry);
                    if visits[packet] == fanout { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                fib.all_subsets_burst(&queries, &mut visit, &mut efforts[..queries.len()]);
                self.sums.matches += visits.iter().map(|&visits| u64::from(visits)).sum::<u64>();
            }
            Algorithm::Largest => {
                let mut out = [(None, Effort::default()); BURST_MAX];
                fib.largest_subset_burst(&queries, &mut |_, _| true, &mut out[..queries.len()]);
                self.sums.matches += out.iter().filter(|(entry, _)| entry.is_some()).count() as u64;
                self.answers = out.map(|(entry, _)| Answer::of_largest(entry));
                efforts = out.map(|(_, walk)| walk);
            }
        }
        for (answer, walk) in self.answers.iter_mut().zip(&efforts) {
            *answer = answer.cut_off(walk.cut_off);
        }
        self.sums.packets += range.len() as u64;
        self.sums.steps += efforts.iter().map(|walk| u64::from(walk.steps)).sum::<u64>();
        self.sums.cut_off += efforts.iter().filter(|walk| walk.cut_off).count() as u64;
        range
    }

    fn next(&mut self) -> Range<usize> {
        if self.at >= self.packets.len() {
            self.at = 0;
        }
        let range = self.at..(self.at + self.burst).min(self.packets.len());
        self.at = range.end;
        range
    }
}
