//! Memory that this process holds, as the kernel counts it.

use anyhow::Context as _;
use procfs::process::Process;

/// Resident memory, huge pages included, in bytes.
pub fn bytes() -> anyhow::Result<u64> {
    let rollup = Process::myself().and_then(|process| process.smaps_rollup());
    let rollup = rollup.context("cannot read /proc/self/smaps_rollup")?.memory_map_rollup;
    // Reserved pages are not in the first field.
    const FIELDS: [&str; 3] = ["Rss", "Private_Hugetlb", "Shared_Hugetlb"];
    let of = |field: &str| -> u64 { rollup.iter().filter_map(|map| map.extension.map.get(field)).sum() };
    Ok(FIELDS.iter().map(|field| of(field)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        // Large beside what other tests allocate meanwhile.
        const BLOCK: usize = 256 << 20;
        let before = bytes().expect("Linux");
        let block = std::hint::black_box(vec![1u8; BLOCK]);
        let with_block = bytes().expect("Linux");
        assert!(with_block > before + BLOCK as u64 / 2, "{before} to {with_block}");
        drop(block);
        assert!(bytes().expect("Linux") < with_block - BLOCK as u64 / 2);
    }
}
