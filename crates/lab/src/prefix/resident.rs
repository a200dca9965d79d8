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
        let before = bytes().expect("Linux");
        let block = vec![1u8; 64 << 20];
        let grown = bytes().expect("Linux") - before;
        assert!((64 << 20..96 << 20).contains(&grown), "{grown}");
        drop(std::hint::black_box(block));
    }
}
