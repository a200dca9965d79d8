//! Memory that this process holds, as the kernel counts it.

use anyhow::Context as _;
use procfs::process::Process;

/// Of what a query half counts, how much the kernel must take back when it is dropped, to be taken
/// for all of it.
const GIVEN_BACK_SHARE: f64 = 0.9;

/// Resident memory, huge pages included, in bytes.
pub fn bytes() -> anyhow::Result<u64> {
    let rollup = Process::myself().and_then(|process| process.smaps_rollup());
    let rollup = rollup.context("cannot read /proc/self/smaps_rollup")?.memory_map_rollup;
    // Reserved pages are not in the first field.
    const FIELDS: [&str; 3] = ["Rss", "Private_Hugetlb", "Shared_Hugetlb"];
    let of = |field: &str| -> u64 { rollup.iter().filter_map(|map| map.extension.map.get(field)).sum() };
    Ok(FIELDS.iter().map(|field| of(field)).sum())
}

/// Takes an engine apart, half by half, to see what its query half held, in bytes; both held
/// `both_bytes`, and the query half counts `counted_bytes`.
pub fn of_query_half(
    both_bytes: u64,
    counted_bytes: usize,
    drop_control: impl FnOnce(),
    drop_query: impl FnOnce(),
) -> anyhow::Result<u64> {
    let whole = bytes()?;
    drop_control();
    let query_only = bytes()?;
    drop_query();
    let query_freed = query_only.saturating_sub(bytes()?);
    let control_freed = whole.saturating_sub(query_only);
    Ok(if query_freed as f64 >= GIVEN_BACK_SHARE * counted_bytes as f64 {
        query_freed.min(both_bytes)
    } else {
        // The allocator keeps what was freed: what cannot be told apart is the query half's.
        query_freed.max(both_bytes.saturating_sub(control_freed)).min(both_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        // Large beside what other tests allocate meanwhile.
        const BLOCK: usize = 1 << 30;
        let before = bytes().expect("Linux");
        let block = std::hint::black_box(vec![1u8; BLOCK]);
        let with_block = bytes().expect("Linux");
        assert!(with_block > before + BLOCK as u64 / 2, "{before} to {with_block}");
        drop(block);
        assert!(bytes().expect("Linux") < with_block - BLOCK as u64 / 2);
    }
}
