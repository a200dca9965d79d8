//! Small tables are small: resident memory, as the system counts it. Alone in its process, so that nothing else
//! allocates meanwhile.

use byname_lookup::table::{FlatOptions, FlatTable, PrefixOptions, PrefixTable, TagTable};

/// Resident memory that is this process's own, in bytes.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = |field| statm.split(' ').nth(field)?.parse::<usize>().ok();
    Some((pages(1)? - pages(2)?) * 4096)
}

/// Paths as a file system has them: few folders with many files.
fn path(i: usize) -> String {
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
    for rules in [1000, 10_000, 100_000] {
        let mut table =
            PrefixTable::from_rules(&PrefixOptions::default(), (0..rules).map(|i| (path(i), (i % 50) as u8)));
        let table = table.as_mut().expect("a little memory");
        assert_eq!(table.len(), rules);
        let bytes = table.memory_bytes();
        assert!(bytes <= 24 * rules, "{rules} rules take {bytes} bytes");
    }
    // The same counted by the system, with what building left behind: freed memory that the allocator keeps.
    let before = resident().expect("as before");
    let tables: Vec<_> = (0..8)
        .map(|_| {
            let rules = (0..100_000).map(|i| (path(i), (i % 50) as u8));
            PrefixTable::from_rules(&PrefixOptions::default(), rules).expect("room")
        })
        .collect();
    let each = resident().expect("as before").saturating_sub(before) / tables.len();
    assert!(each <= 24 * 100_000, "100,000 rules take {each} bytes");
}
