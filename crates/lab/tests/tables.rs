//! The tables and figures of both README.md and of docs are those of the records.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn check(root: &Path) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_byname-lab"));
    lab.args(["tables", "--check", "--root"]).arg(root).output().expect("the lab starts")
}

#[test]
fn documents_say_what_the_records_say() {
    let output = check(Path::new(ROOT));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Copies the files of a folder, but not its folders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
}

/// A copy of all documents and records.
fn documents() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let from = Path::new(ROOT);
    fs::create_dir_all(root.path().join("crates/lookup")).expect("a folder");
    for file in ["README.md", "crates/lookup/README.md"] {
        fs::copy(from.join(file), root.path().join(file)).expect("a copy");
    }
    copy(&from.join("docs"), &root.path().join("docs"));
    copy(&from.join("docs/records"), &root.path().join("docs/records"));
    assert!(check(root.path()).status.success());
    root
}

#[test]
fn a_changed_figure_is_noticed_in_every_table() {
    let root = documents();
    let mut tables = Vec::new();
    for file in ["README.md", "crates/lookup/README.md", "docs/performance.md"] {
        let path = root.path().join(file);
        let mut text = fs::read_to_string(&path).expect("a document");
        let markers: Vec<_> = text.match_indices("<!-- table: ").map(|(at, marker)| (at, at + marker.len())).collect();
        for (at, behind) in markers {
            tables.push(text[behind..].split(' ').next().expect("a name").to_owned());
            let end = at + text[at..].find("<!-- end -->").expect("the end of a table");
            let rows = at + text[at..end].find("---:").expect("a column of figures");
            // A digit behind the point of a figure, or else any digit.
            let decimal = text[rows..end].find('.').map(|point| rows + point + 1);
            let is_digit = |at: &usize| text.as_bytes()[*at].is_ascii_digit();
            let last = text[..end].rfind(|c: char| c.is_ascii_digit()).expect("a figure");
            let digit = decimal.filter(is_digit).unwrap_or(last);
            let other = if &text[digit..=digit] == "7" { "8" } else { "7" };
            text.replace_range(digit..=digit, other);
        }
        fs::write(&path, &text).expect("a document");
    }
    assert!(tables.len() > 5, "{tables:?}");
    let output = check(root.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("byname-lab -- tables"), "{errors}");
    for table in tables {
        assert!(errors.contains(&format!("`{table}` differs")), "a change of {table} was not noticed: {errors}");
    }
}

#[test]
fn a_changed_figure_is_noticed_in_every_cell_of_the_papers() {
    const MARKER: &str = "<!-- figures: ";
    let root = documents();
    let path = root.path().join("docs/papers.md");
    let mut text = fs::read_to_string(&path).expect("a document");
    let mut passages = Vec::new();
    let mut behind = 0;
    while let Some(at) = text[behind..].find(MARKER).map(|at| behind + at) {
        let start = behind.max(text[..at].rfind("| ").expect("a cell"));
        // The digit behind the first decimal point.
        let is_decimal = |point: &usize| {
            let digit = |at: usize| text.as_bytes()[at].is_ascii_digit();
            digit(point - 1) && digit(point + 1)
        };
        let points = text[start..at].match_indices('.').map(|(point, _)| start + point);
        if let Some(digit) = points.map(|point| point + 1).find(|digit| is_decimal(&(digit - 1))) {
            let other = if &text[digit..=digit] == "7" { "8" } else { "7" };
            text.replace_range(digit..=digit, other);
            passages.push(text[at + MARKER.len()..].split(' ').next().expect("a name").to_owned());
        }
        behind = at + MARKER.len();
    }
    fs::write(&path, &text).expect("a document");
    assert!(passages.len() > 50, "{passages:?}");
    let output = check(root.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    for passage in passages {
        assert!(errors.contains(&format!("`{passage}` says")), "a change of {passage} was not noticed: {errors}");
    }
}

#[test]
fn a_new_figure_of_the_papers_needs_a_marker() {
    let root = documents();
    let path = root.path().join("docs/papers.md");
    let text = fs::read_to_string(&path).expect("a document");
    fs::write(&path, text.replacen("no such card here |", "12 million/s with a card |", 1)).expect("a document");
    let output = check(root.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("the number 12 has no marker"), "{errors}");
}
