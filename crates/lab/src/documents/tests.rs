use std::fs;
use std::path::Path;

use super::*;

const TABLES: &str = r#"
[[table]]
name = "speed"
where = { experiment = "prefix", tuning = { fill = 90 } }
heads = ["engine"]
rows = [{ words = ["fast"], where = { engine = "a" } }, { words = ["slow"], where = { engine = "b" } }]
columns = [
    { head = "lookups/s", field = "rate", unit = " /s" },
    { head = "times", field = "rate", over = { engine = "b" }, decimals = 1 },
    { head = "all", field = "rate", show = "range" },
    { head = "runs", field = "rate", show = "count" },
]
"#;

const LINES: &str = r#"{"experiment":"prefix","cpu":"AMD EPYC","engine":"a","tuning":{"fill":90},"rate":1000,"commit":""}
{"experiment":"prefix","cpu":"AMD EPYC","engine":"a","tuning":{"fill":90,"x":1},"rate":3000,"commit":""}
{"experiment":"prefix","cpu":"AMD EPYC","engine":"a","tuning":{"fill":90},"rate":9,"quick":true,"commit":""}
{"experiment":"prefix","cpu":"AMD EPYC","engine":"a","tuning":{"fill":97},"rate":7,"commit":""}
"#;

/// The latest line by its own date, though its file comes first.
const LATER: &str = r#"{"experiment":"prefix","cpu":"AMD EPYC","date":"2026-12-01T10:00:00Z","engine":"b","tuning":{"fill":90},"rate":1200.0,"commit":"0123456789ab","clean":true}
{"experiment":"prefix","cpu":"AMD EPYC","date":"2026-11-30T10:00:00Z","engine":"b","tuning":{"fill":90},"rate":1.0,"commit":"0123456789ab","clean":true}
"#;

const MADE: &str = "\
Before

<!-- table: speed -->
| engine | lookups/s | times | all | runs | measured on |
| --- | ---: | ---: | ---: | ---: | --- |
| fast | 3,000 /s | 2.5 | 1,000 to 3,000 | 2 | EPYC, 2026-11-22, no commit |
| slow | 1,200 /s | 1.0 | 1 to 1,200 | 2 | EPYC, 2026-12-01, 0123456; EPYC, 2026-11-30, 0123456 |
<!-- end -->

after
";

const NO_FIGURES: &str = "no_record = 0\npassage = []\n";

const FIGURES: &str = r#"
no_record = 1

[[passage]]
name = "rates"
where = { experiment = "prefix", engine = "a", tuning = { fill = 90 } }
field = "rate"
numbers = [
    "90",
    { scale = 1e-3, decimals = 2 },
    { over = { engine = "b" }, percent = "more", signed = true },
    { over = { engine = "b" }, percent = "less" },
    { show = "least" },
    { show = "most", each = [{}, { engine = "b" }] },
    { minus = { engine = "b" }, over = {}, over_field = "rate", decimals = 1 },
    { no_record = "17" },
]

[[passage]]
name = "held"
because = "a test counts them"
numbers = ["22"]
"#;

const PROSE: &str = "\
- At 90 % fill 3.00 (+150 %, -150 %); 1,000 to 3,000; SipHash-1-3 0.6;
  17: no record <!-- figures: rates -->

| paper | here |
| --- | --- |
| 7 | 22 nodes <!-- figures: held --> |
";

fn checkout(tables: &str, lines: &str, readme: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| fs::write(root.path().join(file), text).expect("a file");
    fs::create_dir_all(root.path().join("docs/records")).expect("a folder");
    write("docs/records/tables.toml", tables);
    write("docs/records/figures.toml", NO_FIGURES);
    write("docs/records/2026-11-22-prefix.jsonl", lines);
    write("docs/records/2026-11-01-prefix.jsonl", LATER);
    write("README.md", readme);
    fs::create_dir_all(root.path().join("crates/lookup")).expect("a folder");
    write("crates/lookup/README.md", "");
    root
}

fn tables(root: &Path, check: bool) -> Result<(), String> {
    run(&Options { check, root: root.to_owned() }).map_err(|error| format!("{error:#}"))
}

#[test]
fn tables_are_made_of_the_latest_lines_that_match_and_checked() {
    let root = checkout(TABLES, LINES, "Before\n\n<!-- table: speed -->\n<!-- end -->\n\nafter\n");
    let readme = root.path().join("README.md");
    let refusal = tables(root.path(), true).expect_err("no table is there yet");
    assert!(refusal.contains("README.md: the table `speed` differs") && refusal.contains(MEND), "{refusal}");
    tables(root.path(), false).expect("the table is written");
    let text = fs::read_to_string(&readme).expect("the document");
    assert_eq!(text, MADE);
    tables(root.path(), true).expect("they agree now");

    // A figure that somebody changes by hand, and a new record.
    fs::write(&readme, text.replace("3,000 /s", "3,001 /s")).expect("the document");
    let refusal = tables(root.path(), true).expect_err("a figure was changed");
    assert!(refusal.contains("`speed`") && refusal.contains("| fast | 3,000 /s |"), "{refusal}");
    fs::write(&readme, &text).expect("the document");
    let later = LATER.replace("1200.0", "1300.0").replace("12-01", "12-02");
    fs::write(root.path().join("docs/records/2026-12-02-prefix.jsonl"), later).expect("a record");
    assert!(tables(root.path(), true).is_err(), "a new record was not noticed");
}

#[test]
fn what_cannot_be_made_is_refused() {
    let readme = "<!-- table: speed -->\n<!-- end -->\n";
    for (tables_toml, lines, document, expected) in [
        (TABLES, "", readme, "the row 'fast' of the table `speed`: no line of the records matches"),
        (TABLES, LINES, "nothing", "no document has the table `speed`"),
        (TABLES, LINES, "<!-- table: other -->\n<!-- end -->\n", "tables.toml has no table `other`"),
        (TABLES, LINES, "<!-- table: speed -->\n", "the table `speed` has no marker"),
        (TABLES, "{", readme, "2026-11-22-prefix.jsonl:1 is no record"),
        (TABLES, &LINES.replace("rate", "pace"), readme, "its line has no number `rate`"),
    ] {
        let root = checkout(tables_toml, lines, document);
        let refusal = tables(root.path(), false).expect_err(expected);
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn figures_are_made_of_the_lines_that_they_name_and_checked() {
    let root = checkout("table = []", LINES, &PROSE.replace("3.00", "3.01").replace("-150", "-149"));
    let readme = root.path().join("README.md");
    fs::write(root.path().join("docs/records/figures.toml"), FIGURES).expect("the figures");
    let refusal = tables(root.path(), true).expect_err("two figures differ");
    for difference in ["the passage `rates` says 3.01 in place of 3.00", "says -149 in place of -150", MEND] {
        assert!(refusal.contains(difference), "{refusal}");
    }
    tables(root.path(), false).expect("the figures are written");
    assert_eq!(fs::read_to_string(&readme).expect("the document"), PROSE);
    tables(root.path(), true).expect("they agree now");
}

#[test]
fn figures_that_nobody_can_check_are_refused() {
    for (figures, document, expected) in [
        (
            FIGURES,
            PROSE.replace("| 22 nodes <!-- figures: held -->", "| 22 nodes"),
            "README.md:6: the number 22 has no",
        ),
        (FIGURES, PROSE.replace("22 nodes", "22 of 23 nodes"), "`held` has 2 numbers, and figures.toml has 1"),
        (FIGURES, PROSE.replace("17: no record", "17"), "the passage `rates` has to say `no record`"),
        (FIGURES, PROSE.replace("22 nodes", "22 nodes, no record"), "the passage `held` has to say `no record`"),
        (FIGURES, PROSE.replace("held", "other"), "figures.toml has no passage `other`"),
        (FIGURES, PROSE.replace("22 nodes <!-- figures: held -->", ""), "no document has the passage `held`"),
        (&FIGURES.replace("no_record = 1\n", "no_record = 0\n"), PROSE.to_owned(), "1 figures have no record, and"),
        (&FIGURES.replace("because = \"a test counts them\"\n", ""), PROSE.to_owned(), "`held` needs either"),
        (&FIGURES.replace("\"held\"", "\"rates\""), PROSE.to_owned(), "two passages are named `rates`"),
        (&FIGURES.replace("\"rate\"", "\"pace\""), PROSE.to_owned(), "no line has `pace`"),
    ] {
        let root = checkout("table = []", LINES, &document);
        fs::write(root.path().join("docs/records/figures.toml"), figures).expect("the figures");
        let refusal = tables(root.path(), false).expect_err(expected);
        assert!(refusal.contains(expected), "{expected} is not in: {refusal}");
    }
}
