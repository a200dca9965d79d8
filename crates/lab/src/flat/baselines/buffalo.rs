//! BUFFALO [CoNEXT 2009]: one Bloom filter for each action, which holds the names with that action. A query probes all
//! filters.
//!
//! Sizes follow the paper's optimizer: it minimizes memory such that the false positives of all filters together are at
//! most [`WRONG_RATE_MAX`]. By its Lagrangian, −∂f/∂m is the same for all filters, where a filter has `m` bits and `n`
//! names. Filters with equal shares of the names have equal size. `k_max` is 8 hash functions, as in the paper and in
//! [Concise §6.3.1].
//!
//! All filters share the hash functions, and filters of similar size are interleaved. So the bits of up to 512 filters
//! at one position are one cache line.
//!
//! When several filters hold a name, the paper picks one at random, except that of the port from which the packet came.
//! There are no packets here, so the name's digest picks one. At most half of the false positives become wrong answers.
//!
//! Differs: nothing resizes the filters when names come and go. [`Baseline::wrong_rate`] returns the rate that results.
//!
//! Cost: 31.6 bits a name for 16 actions with equal shares, 46.5 for 256; eight cache lines per query for each 512
//! actions.

use byname_lookup::{BuildError, EntryId};
use byname_wire::Digest;

use super::bloom::{self, Counters};
use super::bytes::Bytes;
use super::{BURST_MAX, Baseline, Changes, FlatName, Population, WRONG_RATE_MAX, below, check_action};

/// Hash functions of each filter: `k_max` [BUFFALO §4]. At rates below 2^-8, a sparse filter would do best with more
/// functions, so fewer functions are never better.
const HASHES: u32 = 8;
const _: () = assert!(WRONG_RATE_MAX < 1.0 / (1 << HASHES) as f64);

/// Actions are below 2 to this power. [Concise, Table 1] goes that far, and a query probes every filter.
const ACTION_BITS_MAX: u32 = 16;

/// Maximum number of interleaved filters: their bits at one position fill a cache line.
const COLUMNS_MAX: usize = 512;

/// Interleaved filters all get the size of the largest. A filter joins only if its own size is at least this share of
/// the largest.
const SIZE_SHARE_MIN: f64 = 0.875;

/// Both halves of a table.
pub struct Buffalo {
    blocks: Vec<Block>,
    /// All blocks. Each begins at a cache line.
    bits: Bytes,
    action_bits: u32,
    /// One counter for each bit of the filters. Control half.
    counters: Counters,
    /// One for each action. Control half.
    filters: Vec<Filter>,
}

/// Interleaved filters: a row for each position, a column for each filter.
struct Block {
    /// The first bit of the first row.
    first: usize,
    rows: usize,
    /// Bits of a row: a power of two.
    width: usize,
    /// The action of each column.
    actions: Vec<u32>,
}

/// The place of an action's filter.
#[derive(Clone, Copy, Default)]
struct Filter {
    block: usize,
    column: usize,
    /// Number of names in the filter.
    members: usize,
}

impl Buffalo {
    /// Builds a table of `names`. The filters are sized for [`Population::names_max`] names with the present shares of
    /// the actions.
    pub fn construct(names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        let action_bits = action_bits.min(ACTION_BITS_MAX);
        let mut members: Vec<usize> = vec![0; 2];
        let mut result = Ok(());
        names.visit(&mut |_, action| match check_action(action, action_bits) {
            Ok(()) => {
                let action = action.0 as usize;
                members.resize(members.len().max(action + 1), 0);
                members[action] += 1;
            }
            refused => result = refused,
        });
        result?;
        // Changes may introduce actions that no name has yet, up to the next power of two.
        members.resize(members.len().next_power_of_two(), 0);
        let room = names.names_max() as f64 / names.len().max(1) as f64;
        let sizes = sizes(&members.iter().map(|&n| n as f64 * room).collect::<Vec<_>>());
        let mut table = Self::with_sizes(&sizes, action_bits)?;
        names.visit(&mut |name, action| table.add(name.digest, action));
        Ok(table)
    }

    /// Makes empty filters of at least these sizes, in bits.
    fn with_sizes(sizes: &[f64], action_bits: u32) -> Result<Self, BuildError> {
        let mut by_size: Vec<usize> = (0..sizes.len()).collect();
        by_size.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]));
        let mut filters = vec![Filter::default(); sizes.len()];
        let (mut blocks, mut first) = (Vec::new(), 0);
        let mut rest = &by_size[..];
        while let [largest, ..] = rest {
            let similar = rest.iter().take(COLUMNS_MAX).take_while(|&&i| sizes[i] >= sizes[*largest] * SIZE_SHARE_MIN);
            let width = 1 << similar.count().ilog2();
            let (columns, smaller) = rest.split_at(width);
            rest = smaller;
            for (column, &action) in columns.iter().enumerate() {
                filters[action] = Filter { block: blocks.len(), column, members: 0 };
            }
            let rows = sizes[*largest].ceil() as usize;
            let actions = columns.iter().map(|&action| action as u32).collect();
            blocks.push(Block { first, rows, width, actions });
            first += (rows * width).next_multiple_of(COLUMNS_MAX);
        }
        let bits = Bytes::zeroed(first.div_ceil(8))?;
        Ok(Buffalo { blocks, bits, action_bits, counters: Counters::new(first), filters })
    }

    fn add(&mut self, name: Digest, action: EntryId) {
        let filter = &mut self.filters[action.0 as usize];
        filter.members += 1;
        for bit in self.blocks[filter.block].bits_of(name, filter.column) {
            if self.counters.add(bit) {
                self.bits.set_field(bit, 1, 1);
            }
        }
    }

    fn remove(&mut self, name: Digest, action: EntryId) {
        let filter = &mut self.filters[action.0 as usize];
        filter.members -= 1;
        for bit in self.blocks[filter.block].bits_of(name, filter.column) {
            if self.counters.remove(bit) {
                self.bits.set_field(bit, 1, 0);
            }
        }
    }
}

impl Block {
    /// The bits that a member of the filter in `column` sets.
    fn bits_of(&self, name: Digest, column: usize) -> impl Iterator<Item = usize> {
        (0..HASHES).map(move |i| self.row(bloom::hash(name, i)) + column)
    }

    /// The first bit of the row for a hash.
    #[inline(always)]
    fn row(&self, hash: u64) -> usize {
        self.first + below(hash, self.rows) * self.width
    }
}

/// The size of each filter in bits, given its number of names: the smallest sizes that keep the false positives of all
/// filters together at [`WRONG_RATE_MAX`]. A filter without names has room for one.
fn sizes(members: &[f64]) -> Vec<f64> {
    let members: Vec<_> = members.iter().map(|n| n.max(1.0)).collect();
    // With many actions, many filters have the same number of names, so each number is computed once.
    let mut sorted = members.clone();
    sorted.sort_by(f64::total_cmp);
    let rate = |slope: f64| -> f64 {
        let alike = sorted.chunk_by(|a, b| a == b);
        alike.map(|n| n.len() as f64 * bloom::false_positives(n[0], bits(n[0], slope), HASHES)).sum()
    };
    // The rate rises with the slope that all filters share. Both span many orders of magnitude, so the search is over
    // the logarithm.
    let slope = bisect(-120.0, 0.0, |slope| rate(slope.exp()) > WRONG_RATE_MAX).exp();
    members.iter().map(|&n| bits(n, slope)).collect()
}

/// The size at which −∂f/∂m of a filter with `members` names is `slope`.
fn bits(members: f64, slope: f64) -> f64 {
    let k = f64::from(HASHES);
    // f = (1 - e^-x)^k for x = k n / m. So -∂f/∂m = (1 - e^-x)^(k-1) e^-x x² / n. It rises with x until half of the
    // filter's bits are set.
    let load = bisect(0.0, std::f64::consts::LN_2, |x| {
        (1.0 - (-x).exp()).powf(k - 1.0) * (-x).exp() * x * x > slope * members
    });
    // Avoids a division by zero: a load of almost 0 means no names.
    k * members / load.max(f64::MIN_POSITIVE)
}

/// The largest value between `low` and `high` for which `is_above` is still false.
fn bisect(mut low: f64, mut high: f64, is_above: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_above(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// The filters that hold a name, and the one that is picked.
#[derive(Clone, Copy, Default)]
struct Matches {
    count: u64,
    picked: Option<EntryId>,
}

impl Matches {
    /// Picks each of the filters with equal probability: the `count`-th replaces the choice with probability 1 /
    /// `count`.
    #[inline(always)]
    fn add(&mut self, name: Digest, action: u32) {
        self.count += 1;
        // This hash function is not one of the filters' functions.
        if self.count == 1 || below(bloom::hash(name, HASHES + action), self.count as usize) == 0 {
            self.picked = Some(EntryId(action));
        }
    }
}

impl Baseline for Buffalo {
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        let mut hashes = [[0; HASHES as usize]; BURST_MAX];
        let hashes = &mut hashes[..names.len()];
        for (name, hashes) in names.iter().zip(&mut *hashes) {
            *hashes = std::array::from_fn(|i| bloom::hash(name.digest, i as u32));
        }
        let mut matches = [Matches::default(); BURST_MAX];
        let mut rows = [[0; HASHES as usize]; BURST_MAX];
        for block in &self.blocks {
            for (hashes, rows) in hashes.iter().zip(&mut rows) {
                *rows = hashes.map(|hash| block.row(hash));
                for row in rows {
                    self.bits.prefetch_line(*row / 8);
                }
            }
            let chunk_bits = block.width.min(64);
            for ((name, rows), matches) in names.iter().zip(&rows).zip(&mut matches) {
                for chunk in (0..block.width).step_by(64) {
                    // A row is aligned to its width, so a chunk never reaches into a second word.
                    let word = |row: usize| self.bits.word((row + chunk) / 64 * 8) >> (row % 64);
                    let mut holding = rows.iter().fold(u64::MAX >> (64 - chunk_bits), |all, &row| all & word(row));
                    while holding != 0 {
                        let column = chunk + holding.trailing_zeros() as usize;
                        matches.add(name.digest, block.actions[column]);
                        holding &= holding - 1;
                    }
                }
            }
        }
        for (matches, out) in matches.iter().zip(out) {
            *out = matches.picked;
        }
    }

    fn lines_read(&self, name: &FlatName<'_>) -> usize {
        let lines = self.blocks.iter().map(|block| {
            let mut lines = [0; HASHES as usize];
            for (i, line) in (0..).zip(&mut lines) {
                *line = block.row(bloom::hash(name.digest, i)) / COLUMNS_MAX;
            }
            lines.sort_unstable();
            lines.chunk_by(|a, b| a == b).count()
        });
        lines.sum()
    }

    fn memory_bytes(&self) -> usize {
        let actions: usize = self.blocks.iter().map(|block| block.actions.len() * size_of::<u32>()).sum();
        self.bits.len() + self.blocks.len() * size_of::<Block>() + actions
    }

    fn control_bytes(&self) -> usize {
        self.counters.memory_bytes() + self.filters.len() * size_of::<Filter>()
    }

    fn wrong_rate(&self) -> f64 {
        let rate = |filter: &Filter| {
            bloom::false_positives(filter.members as f64, self.blocks[filter.block].rows as f64, HASHES)
        };
        self.filters.iter().map(rate).sum()
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }
}

impl Changes for Buffalo {
    fn change(
        &mut self,
        name: FlatName<'_>,
        before: Option<EntryId>,
        after: Option<EntryId>,
    ) -> Result<(), BuildError> {
        if let Some(action) = after {
            check_action(action, self.action_bits)?;
            if action.0 as usize >= self.filters.len() {
                // This action is larger than any action at construction, so it has no filter.
                return Err(BuildError::EntryOutOfRange { entry: action.0, entries_max: self.filters.len() as u32 });
            }
        }
        if before != after {
            before.into_iter().for_each(|action| self.remove(name.digest, action));
            after.into_iter().for_each(|action| self.add(name.digest, action));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits_per_name(members: &[f64]) -> f64 {
        sizes(members).iter().sum::<f64>() / members.iter().sum::<f64>()
    }

    #[test]
    fn equal_shares_take_what_the_paper_says() {
        // [Concise, Table 1]: 27.70 MB for 5 million names and 256 actions, 2.64 for 700,000 and 16.
        let megabytes = |names: f64, actions: usize| {
            bits_per_name(&vec![names / actions as f64; actions]) * names / 8.0 / f64::from(1 << 20)
        };
        assert!((megabytes(5e6, 256) - 27.70).abs() < 0.02, "{}", megabytes(5e6, 256));
        assert!((megabytes(7e5, 16) - 2.64).abs() < 0.01, "{}", megabytes(7e5, 16));
    }

    #[test]
    fn sizes_are_optimal_where_shares_differ() {
        let members: Vec<f64> = (1..=100).map(|i| 1e6 / f64::from(i)).collect();
        let sizes = sizes(&members);
        let rate = |sizes: &[f64]| -> f64 {
            members.iter().zip(sizes).map(|(&n, &m)| bloom::false_positives(n, m, HASHES)).sum()
        };
        let best = rate(&sizes);
        assert!((best / WRONG_RATE_MAX - 1.0).abs() < 1e-3, "{best}");
        // Moving bits from any filter to any other must not lower the rate.
        for (from, to) in [(0, 99), (99, 0), (0, 1), (50, 10)] {
            let mut moved = sizes.clone();
            let bits = moved[from].min(moved[to]) * 0.01;
            moved[from] -= bits;
            moved[to] += bits;
            assert!(rate(&moved) >= best * 0.999_999, "{from} to {to}");
        }
    }

    #[test]
    fn an_action_without_names_has_room_for_one() {
        let sizes = sizes(&[1000.0, 0.0, 1000.0]);
        assert!((20.0..100.0).contains(&sizes[1]), "{}", sizes[1]);
        assert!((sizes[0] / sizes[2] - 1.0).abs() < 1e-9 && sizes[0] > 20_000.0);
    }
}
