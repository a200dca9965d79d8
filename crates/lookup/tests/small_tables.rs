//! Small tables are small: resident memory, as the system counts it. Each kind and size of table is built in a process of
//! its own, where keys are in memory before and nothing else was freed.

use std::path::Path;
use std::process::Command;

use byname_lookup::table::{FlatOptions, FlatTable, PrefixOptions, PrefixTable, TagTable};

/// Resident memory that is this process's own, in bytes.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = |field| statm.split(' ').nth(field)?.parse::<usize>().ok();
    Some((pages(1)? - pages(2)?) * 4096)
}

/// File with paths: beside a checkout or its folder, not in it.
const PATHS: &str = "shared/data/paths_debian.txt.xz";
const PATHS_MAX: usize = 1_000_000;
/// What a process of its own is to build: a way, a number of rules, and the file of all paths.
const BUILD: &str = "BYNAME_TEST_BUILD";

/// The paths of a real list, unpacked by the system's `xz`, and each again with one more component; or paths as a file
/// system has them. A line each.
fn paths() -> String {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(PATHS));
    let unpacked =
        above.filter(|file| file.exists()).find_map(|file| Command::new("xz").arg("-dc").arg(file).output().ok());
    let text = unpacked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if 2 * text.lines().count() < PATHS_MAX {
        println!("skipped: real paths, as there is no {PATHS}, or no `xz`");
        return (0..PATHS_MAX).map(made).collect();
    }
    let again = text.lines().map(|line| format!("/{line}/1\n"));
    text.lines().map(|line| format!("/{line}\n")).chain(again).take(PATHS_MAX).collect()
}

/// Few folders with many files.
fn made(i: usize) -> String {
    let folder = (i / 23).wrapping_mul(0x9e37_79b9) % (PATHS_MAX / 20);
    format!("/usr/share/{}/part{}/{}-{i}.{}\n", folder % 70, folder, i % 97, ["so", "txt", "html"][i % 3])
}

/// Rules that are spread over the list, so that folders are as full as there, with 50 different values. Some megabytes
/// of tables are built of them. Prints what each takes, in bytes a rule.
fn build(way: &str, count: usize, text: &str) {
    let rules = || {
        let spread = text.lines().step_by(PATHS_MAX / count).take(count).enumerate();
        spread.map(|(i, path)| (path, (i % 50) as u8))
    };
    let table = || match way {
        "from_rules" => PrefixTable::from_rules(&PrefixOptions::default(), rules()).expect("a little memory"),
        "new" | "shrink" => {
            let mut table = PrefixTable::new().expect("a little memory");
            table.extend(rules()).expect("room");
            if way == "shrink" {
                table.shrink().expect("a little memory");
            }
            table
        }
        _ => panic!("no way to build is called {way}"),
    };
    let copies = (200_000 / count).max(1);
    let mut tables = Vec::with_capacity(copies);
    let before = resident().expect("the parent found it");
    tables.extend((0..copies).map(|_| table()));
    let resident = resident().expect("as before").saturating_sub(before) / copies;
    let rules = tables[0].len();
    let (all, readers) = (tables[0].memory_bytes(), tables[0].reader().memory_bytes());
    let [resident, readers, writer] = [resident, readers, all - readers].map(|bytes| bytes as f64 / rules as f64);
    println!(
        "{{\"experiment\":\"small-tables\",\"table\":\"{way}\",\"rules\":{rules},\"tables\":{copies},\
        \"resident_bytes_per_rule\":{resident:.1},\"readers_bytes_per_rule\":{readers:.1},\
        \"writer_bytes_per_rule\":{writer:.1}}}"
    );
    assert!(rules > count - count / 20, "{rules} of {count}");
    assert!(way == "new" || readers + writer <= 24.0, "{way}: {rules} rules take {readers} and {writer} bytes each");
    // What was freed of a table that was filled before stays with the allocator, for the next one.
    assert!(way != "from_rules" || resident <= 24.0, "{way}: {rules} rules take {resident} bytes each");
}

#[test]
fn tables_take_few_bytes_a_rule() {
    if resident().is_none() {
        println!("skipped: no /proc/self/statm");
        return;
    }
    if let Ok(what) = std::env::var(BUILD) {
        let mut words = what.splitn(3, ' ');
        let mut word = || words.next().expect("three words");
        let (way, count) = (word(), word().parse().expect("a number"));
        return build(way, count, &std::fs::read_to_string(word()).expect("the parent's file"));
    }
    let file = std::env::temp_dir().join(format!("byname-paths-{}", std::process::id()));
    std::fs::write(&file, paths()).expect("a folder for temporary files");
    for count in [1000, 10_000, 30_000, 100_000, PATHS_MAX] {
        for way in ["from_rules", "shrink", "new"] {
            if count == PATHS_MAX && way != "from_rules" {
                // They take longer than they tell.
                continue;
            }
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            child.args(["--exact", "tables_take_few_bytes_a_rule", "--nocapture"]);
            let output = child.env(BUILD, format!("{way} {count} {}", file.display())).output().expect("starts again");
            let said = String::from_utf8_lossy(&output.stdout);
            said.lines().filter(|line| line.starts_with('{')).for_each(|line| println!("{line}"));
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    std::fs::remove_file(&file).expect("it was there");
}

#[test]
fn first_tables_are_small() {
    let Some(before) = resident().filter(|_| std::env::var(BUILD).is_err()) else { return };
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
    println!("the first tables take {first} bytes, one of tags {third}");
}
