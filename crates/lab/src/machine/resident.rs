//! Memory that this process holds, as the kernel counts it.

use anyhow::Context as _;
use procfs::process::Process;

/// When a query half is dropped, the freed memory counts as its size if it is at least this share of the size that the
/// half itself counts.
const GIVEN_BACK_SHARE: f64 = 0.9;

/// A query half that counts fewer bytes than this is not measured but counted. The allocator keeps tens of megabytes of
/// freed memory, and what it keeps or reuses is not what a small table takes.
const MEASURED_BYTES_MIN: u64 = 256 << 20;

/// Resident memory, huge pages included, in bytes.
pub fn bytes() -> anyhow::Result<u64> {
    let rollup = Process::myself().and_then(|process| process.smaps_rollup());
    let rollup = rollup.context("cannot read /proc/self/smaps_rollup")?.memory_map_rollup;
    // The first field does not include reserved pages.
    const FIELDS: [&str; 3] = ["Rss", "Private_Hugetlb", "Shared_Hugetlb"];
    let of = |field: &str| -> u64 { rollup.iter().filter_map(|map| map.extension.map.get(field)).sum() };
    Ok(FIELDS.iter().map(|field| of(field)).sum())
}

/// Drops the halves of an engine one by one to measure the memory of its query half, in bytes. Both halves together
/// held `both_bytes`; the query half itself counts `counted_bytes`, which is the result for a small half.
pub fn of_query_half(
    both_bytes: u64,
    counted_bytes: usize,
    drop_control: impl FnOnce(),
    drop_query: impl FnOnce(),
) -> anyhow::Result<u64> {
    if is_small(counted_bytes) {
        drop_control();
        drop_query();
        return Ok(counted_bytes as u64);
    }
    let whole = bytes()?;
    drop_control();
    let query_only = bytes()?;
    drop_query();
    let query_freed = query_only.saturating_sub(bytes()?);
    let control_freed = whole.saturating_sub(query_only);
    Ok(if query_freed as f64 >= GIVEN_BACK_SHARE * counted_bytes as f64 {
        query_freed.min(both_bytes)
    } else {
        // The allocator kept freed memory. Memory that cannot be assigned to a half counts as the query half's.
        query_freed.max(both_bytes.saturating_sub(control_freed)).min(both_bytes)
    })
}

/// Whether a table is too small for its resident memory to say anything.
pub fn is_small(counted_bytes: usize) -> bool {
    (counted_bytes as u64) < MEASURED_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_takes_what_it_counts_whatever_the_allocator_holds() {
        let block = vec![1u8; 1 << 20];
        // Both halves seemed to take 33 MB, as the allocator had kept other memory.
        let found = of_query_half(33 << 20, 1 << 20, || (), || drop(block)).expect("Linux");
        assert_eq!(found, 1 << 20);
    }

    #[test]
    fn memory_that_is_touched_is_counted() {
        // Large compared with concurrent allocations of other tests.
        const BLOCK: usize = 1 << 30;
        let before = bytes().expect("Linux");
        let block = std::hint::black_box(vec![1u8; BLOCK]);
        let with_block = bytes().expect("Linux");
        assert!(with_block > before + BLOCK as u64 / 2, "{before} to {with_block}");
        drop(block);
        assert!(bytes().expect("Linux") < with_block - BLOCK as u64 / 2);
    }
}
