//! Small tables are small: resident memory, as the system counts it. Alone in its process, so that nothing else
//! allocates meanwhile.

use byname_lookup::table::{FlatOptions, FlatTable, PrefixOptions, PrefixTable, TagTable};

/// Resident memory that is this process's own, in bytes.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = |field| statm.split(' ').nth(field)?.parse::<usize>().ok();
    Some((pages(1)? - pages(2)?) * 4096)
}

/// File with paths: beside a checkout, not in it.
const PATHS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/paths_debian.txt.xz");

/// The first 100,000 paths of a real list, unpacked by the system's `xz`; or paths as a file system has them.
fn paths() -> Vec<String> {
    let unpacked = std::process::Command::new("xz").args(["-dc", PATHS]).output();
    let text = unpacked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // Spread over the list, so that folders are as full as there.
    let real: Vec<_> = text.lines().step_by(5).take(100_000).map(|line| format!("/{line}")).collect();
    if real.len() == 100_000 {
        return real;
    }
    println!("skipped: real paths, which `xz -dc {PATHS}` does not give");
    (0..100_000).map(made).collect()
}

/// Few folders with many files.
fn made(i: usize) -> String {
    let folder = (i / 23).wrapping_mul(0x9e37_79b9) % 5000;
    format!("/usr/share/{}/part{}/{}-{i}.{}", folder % 70, folder, i % 97, ["so", "txt", "html"][i % 3])
}

#[test]
fn small_tables_are_small() {
    let Some(before) = resident() else {
        println!("skipped: no /proc/self/statm");
        return;
    };
    let mut empty = PrefixTable::<u8>::new().expect("a little memory");
    empty.insert("/a", 1).expect("room");
    let mut flat = FlatTable::with_options(&FlatOptions { value_bits: 8, ..FlatOptions::default() }).expect("memory");
    flat.insert("a", 1).expect("room");
    let first = resident().expect("as before") - before;
    assert!(first < 1 << 20, "the first tables take {first} bytes");
    let mut tags = TagTable::new().expect("a little memory");
    tags.insert(["a"], 1).expect("room");
    let third = resident().expect("as before") - before - first;
    assert!(third < 1 << 20, "a table of tags takes {third} bytes");
    let paths = paths();
    let rules = |rules: usize| paths[..rules].iter().enumerate().map(|(i, path)| (path.as_str(), (i % 50) as u8));
    for count in [1000, 3000, 10_000, 30_000, 100_000] {
        let table = PrefixTable::from_rules(&PrefixOptions::default(), rules(count));
        let table = table.expect("a little memory");
        assert!(table.len() > count - count / 20, "{} of {count}", table.len());
        let (len, bytes) = (table.len(), table.memory_bytes());
        assert!(bytes <= 24 * len, "{len} rules take {bytes} bytes");
    }
    // The same counted by the system, with what building left behind: freed memory that the allocator keeps.
    let before = resident().expect("as before");
    let table = || PrefixTable::from_rules(&PrefixOptions::default(), rules(100_000)).expect("room");
    let tables: Vec<_> = (0..8).map(|_| table()).collect();
    let each = resident().expect("as before").saturating_sub(before) / tables.len();
    assert!(each <= 24 * 100_000, "100,000 rules take {each} bytes");
}
