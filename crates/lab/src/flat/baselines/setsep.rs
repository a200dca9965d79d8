//! SetSep, the separator of ScaleBricks [SIGCOMM 2015], in its "16+8" setting. It stores no names. Instead, brute force
//! finds a hash function for each group of 16 names.
//!
//! A name hashes to a block of 1024 names on average, and to one of the block's 256 buckets. A block has 64 groups.
//! Each bucket has chosen one of four groups, so that all groups have about 16 names. For each bit of the action, a
//! group stores the index `i` of a hash function `g1 + i × g2` (16 bits), which maps its names to 8 cells, and the bit
//! of each cell. No cell has names with different bits. Groups without such a function among 65,535 are stored in a
//! table of digests.
//!
//! Cost: 0.5 + 1.5 × bits bits a name; one cache line for the bucket's choice, one or two for the group. Changing a
//! name means rebuilding its block. The paper leaves this out, and so do we.

use std::collections::HashMap;

use byname_lookup::{BuildError, EntryId};
use byname_wire::Digest;

use super::bytes::Bytes;
use super::{BURST_MAX, Baseline, FlatName, Population, below, check_action, lines_of};

const BLOCK_NAMES: usize = 1024;
const BUCKETS: usize = 256;
const GROUPS: usize = 64;
/// Number of groups that a bucket can choose from.
const CHOICES: usize = 4;
/// Bytes of a block's choices, at two bits each.
const CHOICES_BYTES: usize = BUCKETS / 4;
/// Bytes of a group for each bit of the action: an index and eight cells.
const PLANE_BYTES: usize = 3;
/// Index of the first plane of a group whose names are in the fallback table.
const FALLBACK: u16 = 0;
/// Planes searched together: one word holds a byte of cells for each.
const PLANES: usize = 8;

/// A table. It never changes.
pub struct SetSep {
    /// Each block holds its buckets' choices, then its groups.
    blocks: Bytes,
    count: usize,
    action_bits: u32,
    fallback: HashMap<Digest, EntryId>,
}

/// A name and its action during construction.
#[derive(Clone, Copy)]
struct Rule {
    digest: Digest,
    action: u32,
}

impl SetSep {
    /// Builds a table of `names`.
    ///
    /// # Errors
    /// [`BuildError::Collision`] if two names have the same digest but different actions.
    pub fn construct(names: &dyn Population, action_bits: u32) -> Result<Self, BuildError> {
        let count = names.len().div_ceil(BLOCK_NAMES).max(1);
        let mut rules = Vec::with_capacity(names.len());
        let mut result = Ok(());
        names.visit(&mut |name, action| match check_action(action, action_bits) {
            Ok(()) => rules.push(Rule { digest: name.digest, action: action.0 }),
            refused => result = refused,
        });
        result?;
        // Sorted by block, then by bucket.
        rules.sort_unstable_by_key(|rule| (below(rule.digest.hash, count), bucket(rule.digest)));
        let mut table = SetSep {
            blocks: Bytes::zeroed(count * block_bytes(action_bits))?,
            count,
            action_bits,
            fallback: HashMap::new(),
        };
        for rules in rules.chunk_by(|a, b| below(a.digest.hash, count) == below(b.digest.hash, count)) {
            table.construct_block(rules)?;
        }
        table.fallback.shrink_to_fit();
        Ok(table)
    }

    fn construct_block(&mut self, rules: &[Rule]) -> Result<(), BuildError> {
        let block = below(rules[0].digest.hash, self.count) * block_bytes(self.action_bits);
        let mut buckets: Vec<_> = rules.chunk_by(|a, b| bucket(a.digest) == bucket(b.digest)).collect();
        // The largest buckets choose first; small ones then level out the groups.
        buckets.sort_by_key(|rules| std::cmp::Reverse(rules.len()));
        let mut groups: [Vec<Rule>; GROUPS] = std::array::from_fn(|_| Vec::new());
        for rules in buckets {
            let bucket = bucket(rules[0].digest);
            let load = |choice: &usize| groups[group_of(bucket, *choice)].len();
            let choice = (0..CHOICES).min_by_key(load).expect("four choices");
            groups[group_of(bucket, choice)].extend(rules);
            self.blocks.set_field(block * 8 + bucket * 2, 2, choice as u32);
        }
        for (group, rules) in groups.iter().enumerate() {
            self.construct_group(block + CHOICES_BYTES + group * group_bytes(self.action_bits), rules)?;
        }
        Ok(())
    }

    /// Writes the group at byte `at`, or puts its names into the fallback table.
    fn construct_group(&mut self, at: usize, rules: &[Rule]) -> Result<(), BuildError> {
        for first in (0..self.action_bits as usize).step_by(PLANES) {
            let planes = PLANES.min(self.action_bits as usize - first);
            let Some(found) = search(rules, first, planes) else {
                self.blocks.get_mut()[at..at + 2].copy_from_slice(&FALLBACK.to_le_bytes());
                return self.fall_back(rules);
            };
            for (plane, (index, cells)) in found.into_iter().take(planes).enumerate() {
                let at = at + (first + plane) * PLANE_BYTES;
                self.blocks.get_mut()[at..at + 2].copy_from_slice(&index.to_le_bytes());
                self.blocks.get_mut()[at + 2] = cells;
            }
        }
        Ok(())
    }

    fn fall_back(&mut self, rules: &[Rule]) -> Result<(), BuildError> {
        for rule in rules {
            let before = self.fallback.insert(rule.digest, EntryId(rule.action));
            if before.is_some_and(|action| action.0 != rule.action) {
                return Err(BuildError::Collision);
            }
        }
        Ok(())
    }

    /// Offset of a name's block, in bytes.
    #[inline(always)]
    fn block(&self, name: Digest) -> usize {
        below(name.hash, self.count) * block_bytes(self.action_bits)
    }

    /// Offset of a name's group, in bytes.
    #[inline(always)]
    fn group(&self, name: Digest) -> usize {
        let (block, bucket) = (self.block(name), bucket(name));
        let choice = self.blocks.field(block * 8 + bucket * 2, 2) as usize;
        block + CHOICES_BYTES + group_of(bucket, choice) * group_bytes(self.action_bits)
    }

    #[inline(always)]
    fn action(&self, name: Digest, group: usize) -> Option<EntryId> {
        let planes = &self.blocks.get()[group..][..group_bytes(self.action_bits)];
        if planes[..2] == FALLBACK.to_le_bytes() {
            return self.fallback.get(&name).copied();
        }
        let functions = Functions::of(name);
        let bits = planes.chunks_exact(PLANE_BYTES).enumerate().fold(0, |bits, (plane, bytes)| {
            let index = u16::from_le_bytes([bytes[0], bytes[1]]);
            bits | u32::from(bytes[2] >> functions.cell(index.into()) & 1) << plane
        });
        Some(EntryId(bits))
    }
}

const fn group_bytes(action_bits: u32) -> usize {
    action_bits as usize * PLANE_BYTES
}

const fn block_bytes(action_bits: u32) -> usize {
    CHOICES_BYTES + GROUPS * group_bytes(action_bits)
}

/// A name's bucket, from hash bits that do not select its block.
#[inline(always)]
fn bucket(name: Digest) -> usize {
    name.hash as usize % BUCKETS
}

/// The group that a bucket gets with a choice.
#[inline(always)]
fn group_of(bucket: usize, choice: usize) -> usize {
    // Each choice lies in another quarter, and each uses another sum of the two halves of the bucket's number. So two
    // buckets share at most two of four choices.
    const QUARTER: usize = GROUPS / CHOICES;
    let (low, high) = (bucket % QUARTER, bucket / QUARTER);
    choice * QUARTER + [low, high, low + high, low + 3 * high][choice] % QUARTER
}

/// The family of hash functions of one name: maps an index to one of eight cells.
#[derive(Clone, Copy)]
struct Functions {
    start: u32,
    step: u32,
}

impl Functions {
    #[inline(always)]
    fn of(name: Digest) -> Self {
        Functions { start: name.check as u32, step: (name.check >> 32) as u32 }
    }

    #[inline(always)]
    fn cell(self, index: u32) -> u32 {
        self.start.wrapping_add(self.step.wrapping_mul(index)) >> 29
    }
}

/// A one in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Finds the index and the cells for each of `planes` bits of the action from `first` on; `None` if a bit has no
/// function. All planes are searched together, because they share the cells.
fn search(rules: &[Rule], first: usize, planes: usize) -> Option<[(u16, u8); PLANES]> {
    // A byte for each plane: 0xff if the name has the bit.
    let names: Vec<_> = rules
        .iter()
        .map(|rule| {
            let bits = (0..planes).filter(|plane| rule.action >> (first + plane) & 1 == 1);
            (Functions::of(rule.digest), bits.fold(0, |full, plane| full | 0xff << (plane * 8)))
        })
        .collect();
    let mut found = [(FALLBACK, 0); PLANES];
    // A byte for each plane: 0xff once its function is found.
    let mut settled = if planes < PLANES { u64::MAX << (planes * 8) } else { 0 };
    for index in 1..=u16::MAX {
        let (mut ones, mut zeros) = (0u64, 0u64);
        // Most functions fail early, so the result is checked after every eight names.
        let fails = names.chunks(8).any(|names| {
            for (functions, full) in names {
                let cell = ONES << functions.cell(index.into());
                ones |= cell & full;
                zeros |= cell & !full;
            }
            !has_zero_byte(ones & zeros | settled)
        });
        if fails {
            continue;
        }
        for (plane, found) in found.iter_mut().enumerate() {
            let byte = 0xff << (plane * 8);
            if (ones & zeros | settled) & byte == 0 {
                *found = (index, ones.to_le_bytes()[plane]);
                settled |= byte;
            }
        }
        if settled == u64::MAX {
            return Some(found);
        }
    }
    None
}

fn has_zero_byte(word: u64) -> bool {
    // Only a zero byte, or a byte that borrows from one, changes its high bit from 0 to 1.
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

impl Baseline for SetSep {
    fn query_burst(&self, names: &[FlatName<'_>], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        for name in names {
            self.blocks.prefetch_line(self.block(name.digest) + bucket(name.digest) / 4);
        }
        let mut groups = [0; BURST_MAX];
        let groups = &mut groups[..names.len()];
        for (name, group) in names.iter().zip(&mut *groups) {
            *group = self.group(name.digest);
            self.blocks.prefetch(*group, group_bytes(self.action_bits));
        }
        for ((name, &mut group), out) in names.iter().zip(groups).zip(out) {
            *out = self.action(name.digest, group);
        }
    }

    fn lines_read(&self, name: &FlatName<'_>) -> usize {
        1 + lines_of(self.group(name.digest), group_bytes(self.action_bits))
    }

    fn memory_bytes(&self) -> usize {
        self.blocks.len() + self.fallback.capacity() * size_of::<(Digest, EntryId)>()
    }
}
