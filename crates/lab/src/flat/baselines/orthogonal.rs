//! Orthogonal Bloom filters [Concise §6.2]: one Bloom filter for each bit of the action, which holds the names whose
//! action has the bit set. The paper says only this, the rate (at most 0.01 %) and that "the other design is similar to
//! Concise". Its Table 1 shows the rest:
//!
//! - the filters share their hash functions and are interleaved: a query is one read for each hash function, whatever
//!   the bits of the action (15, 16 and 17 reads for 4, 8 and 16 bits);
//! - each filter has a rate of [`WRONG_RATE_MAX`] / bits, so that all together have the whole rate.
//!
//! Differs: the paper sizes each filter for *all* names (188 bits a name at 8 bits), although only half of them have
//! the bit set if actions are spread evenly. Here a filter holds the names with the rarer value of its bit. All filters
//! have the size of the fullest: 94 bits a name or less.
//!
//! Cost: 1.44 × bits × log2(bits / rate) / 2 bits a name.

use byname_lookup::{BuildError, EntryId};
use byname_wire::Digest;

use super::bloom::{self, Counters};
use super::bytes::Bytes;
use super::{BURST_MAX, Baseline, Changes, FlatName, Population, WRONG_RATE_MAX, below, check_action, lines_of};

/// Maximum number of hash functions: that of 32 filters.
const HASHES_MAX: usize = 18;

/// Both halves of a table.
pub struct Orthogonal {
    /// A row of `action_bits` bits for each position of the filters.
    bits: Bytes,
    rows: usize,
    action_bits: u32,
    hashes: u32,
    /// The bits whose filters hold the names with the bit clear.
    inverted: u32,
    /// One counter for each bit of the filters. Control half.
    counters: Counters,
    /// Number of names in each filter. Control half.
    members: Vec<usize>,
}

impl Orthogonal {
    /// Builds a table of `names`. The filters are sized for [`Population::names_max`] names with the present shares of
    /// the bits.
    pub fn construct(names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        let mut set = vec![0usize; action_bits as usize];
        let mut result = Ok(());
        names.visit(&mut |_, action| match check_action(action, action_bits) {
            Ok(()) => set.iter_mut().enumerate().for_each(|(bit, count)| *count += (action.0 >> bit & 1) as usize),
            refused => result = refused,
        });
        result?;
        let inverted = set.iter().enumerate().filter(|&(_, &count)| count > names.len() / 2);
        let inverted = inverted.fold(0, |bits, (bit, _)| bits | 1 << bit);
        let fullest = set.iter().map(|&count| count.min(names.len() - count)).max().unwrap_or(0);
        let members = (fullest as f64 * names.names_max() as f64 / names.len().max(1) as f64).max(1.0);

        // A filter is smallest when half of its bits are set.
        let rate = WRONG_RATE_MAX / f64::from(action_bits);
        let hashes = -rate.log2().ceil();
        let rows = (-hashes * members / (1.0 - rate.powf(1.0 / hashes)).ln()).ceil() as usize;
        let bit_count = rows * action_bits as usize;
        let mut table = Orthogonal {
            bits: Bytes::zeroed(bit_count.div_ceil(8))?,
            rows,
            action_bits,
            hashes: hashes as u32,
            inverted,
            counters: Counters::new(bit_count),
            members: vec![0; action_bits as usize],
        };
        names.visit(&mut |name, action| table.change_filters(name.digest, 0, action.0 ^ inverted));
        Ok(table)
    }

    /// The first bit of the row for hash function `i`.
    #[inline(always)]
    fn row(&self, name: Digest, i: u32) -> usize {
        below(bloom::hash(name, i), self.rows) * self.action_bits as usize
    }

    /// Moves `name` from the filters in `before` to the filters in `after`, given as bit masks.
    fn change_filters(&mut self, name: Digest, before: u32, after: u32) {
        for filter in (0..self.action_bits).filter(|filter| (before ^ after) >> filter & 1 == 1) {
            let is_new = after >> filter & 1 == 1;
            let filter = filter as usize;
            match is_new {
                true => self.members[filter] += 1,
                false => self.members[filter] -= 1,
            }
            for i in 0..self.hashes {
                let bit = self.row(name, i) + filter;
                if is_new && self.counters.add(bit) {
                    self.bits.set_field(bit, 1, 1);
                } else if !is_new && self.counters.remove(bit) {
                    self.bits.set_field(bit, 1, 0);
                }
            }
        }
    }
}

impl Baseline for Orthogonal {
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        let mut rows = [[0; HASHES_MAX]; BURST_MAX];
        let rows = &mut rows[..names.len()];
        for (name, rows) in names.iter().zip(&mut *rows) {
            for (i, row) in (0..self.hashes).zip(rows) {
                *row = self.row(name.digest, i);
                self.bits.prefetch_line(*row / 8);
            }
        }
        for (rows, out) in rows.iter().zip(out) {
            let rows = rows[..self.hashes as usize].iter();
            let holding = rows.fold(u32::MAX, |all, &row| all & self.bits.field(row, self.action_bits));
            *out = Some(EntryId(holding ^ self.inverted));
        }
    }

    fn lines_read(&self, name: &FlatName<'_>) -> usize {
        let row_lines = |i| {
            let row = self.row(name.digest, i);
            lines_of(row / 8, (row + self.action_bits as usize).div_ceil(8) - row / 8)
        };
        (0..self.hashes).map(row_lines).sum()
    }

    fn memory_bytes(&self) -> usize {
        self.bits.len()
    }

    fn control_bytes(&self) -> usize {
        self.counters.memory_bytes()
    }

    fn wrong_rate(&self) -> f64 {
        let rate = |&members: &usize| bloom::false_positives(members as f64, self.rows as f64, self.hashes);
        self.members.iter().map(rate).sum()
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }
}

impl Changes for Orthogonal {
    fn change(
        &mut self,
        name: FlatName<'_>,
        before: Option<EntryId>,
        after: Option<EntryId>,
    ) -> Result<(), BuildError> {
        after.map_or(Ok(()), |action| check_action(action, self.action_bits))?;
        let filters = |action: Option<EntryId>| action.map_or(0, |action| action.0 ^ self.inverted);
        let (before, after) = (filters(before), filters(after));
        self.change_filters(name.digest, before, after);
        Ok(())
    }
}
