//! Runs the pages of the guide, docs/guide: all their commands, as a reader would, in the order in which they stand.
//!
//! Each page has a shell, a folder and a network of its own, so that ports and sockets are those that the page names. What
//! `<!-- prints -->` marks is compared with what the commands print. Numbers and units may differ. `…` stands for anything,
//! and alone on a line for lines. In a table below the mark `<!-- rows: run -->`, all code that begins with `byname`, `nfdc` or
//! `ndnd` is run. nfdc's commands are given to byname, which takes its words. ndnd's commands need ndnd (`NDND_BIN`), others
//! promtool.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::blocks::{Block, Mark, parts};
use crate::common::PROGRAM;

/// Seconds that one page may take.
const PAGE_S: &str = "120";
/// What a page's shell begins with. `block N` is told before each block, so that a failure has its place.
const BEGIN: &str = r#"
set -euo pipefail
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
ip link set lo up
block() { echo "$1" >"$PAGE_AT"; }
# Waits until the output of a block that stays has a text.
ready() {
  for ((tries = 0; tries < 1200; tries++)); do
    if grep -qsF -- "$2" "$PAGE_OUT/$1"; then return; fi
    kill -0 $! 2>/dev/null || { echo "it ended before it said: $2"; cat "$PAGE_OUT/$1"; return 1; }
    sleep 0.05
  done
  echo "it did not say: $2"; cat "$PAGE_OUT/$1"; return 1
}
# Waits until a block has printed so many lines.
lines() {
  for ((tries = 0; tries < 200; tries++)); do
    if (($(wc -l <"$PAGE_OUT/$1") >= $2)); then return; fi
    sleep 0.05
  done
  echo "it prints too little"; cat "$PAGE_OUT/$1"; return 1
}
nfdc() { byname "$@"; }
ndnd() { NDN_CLIENT_TRANSPORT=unix:///run/ndnd.sock "$NDND_BIN" "$@"; }
"#;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).expect("docs/guide").map(|entry| entry.expect("an entry").path());
    let pages = entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).expect("a page"))
    };
    let mut pages: Vec<_> = pages.map(read).collect();
    pages.sort();
    pages
}

/// The commands in the tables below the mark, with the numbers of their lines.
fn rows(page: &str) -> Vec<(usize, String)> {
    let mut commands = Vec::new();
    // Whether lines are in or above a marked table, and whether the table has begun.
    let (mut is_marked, mut has_begun) = (false, false);
    for (number, line) in (1..).zip(page.lines()) {
        let is_row = line.starts_with('|');
        is_marked = line == "<!-- rows: run -->" || is_marked && (is_row || !has_begun);
        has_begun = is_marked && is_row;
        if has_begun {
            let code = line.split('`').skip(1).step_by(2);
            let is_command =
                |code: &&str| ["byname ", "nfdc ", "ndnd "].iter().any(|program| code.starts_with(program));
            commands.extend(code.filter(is_command).map(|code| (number, code.to_owned())));
        }
    }
    commands
}

/// The program that the text calls and this machine lacks.
fn lacks(text: &str) -> Option<&'static str> {
    let is_there = |program: &str| match program {
        "ndnd" => std::env::var_os("NDND_BIN").is_some(),
        _ => Command::new(program).arg("--version").output().is_ok(),
    };
    let calls = |program: &str| text.lines().any(|line| line.split(' ').next() == Some(program));
    ["ndnd", "promtool"].into_iter().find(|program| calls(program) && !is_there(program))
}

/// The block that printed what another one shows, with this text in it. The blocks above that one are `before`.
fn source<'a>(before: &'a [Block], text: &str) -> Option<&'a Block> {
    let is_run = |block: &&Block| block.language == "sh" && block.mark != Some(Mark::NotRun);
    before.iter().filter(is_run).rfind(|block| block.text.contains(text))
}

/// The script of a page: its blocks and rows in order.
fn script(page: &str) -> String {
    let mut steps: Vec<(usize, String)> = Vec::new();
    let blocks = parts(page).blocks;
    for (number, Block { line, language, mark, text }) in blocks.iter().enumerate() {
        let step = match (mark, &**language) {
            (Some(Mark::NotRun), _) => continue,
            _ if lacks(text).is_some() => continue,
            (Some(Mark::Prints(of)), _) => {
                let source = source(&blocks[..number], of).expect("a block that prints this");
                let count = text.lines().filter(|line| !line.trim().is_empty()).count();
                format!("lines {} {count}\n", source.line)
            }
            (Some(Mark::File(name)), _) => format!("cat >{name} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n"),
            (Some(Mark::Stays(ready)), "sh") => {
                format!("(\n{text}\n) >\"$PAGE_OUT/{line}\" 2>&1 &\nready {line} '{ready}'\n")
            }
            (None, "sh") => format!("{{\n{text}\n}} >\"$PAGE_OUT/{line}\" 2>&1\n"),
            (_, _) => continue,
        };
        steps.push((*line, step));
    }
    for (line, command) in rows(page).into_iter().filter(|(_, command)| lacks(command).is_none()) {
        steps.push((line, format!("{{\n{command}\n}} >>\"$PAGE_OUT/{line}\" 2>&1\n")));
    }
    steps.sort_by_key(|(line, _)| *line);
    let mut script = BEGIN.to_owned();
    for (line, step) in steps {
        write!(script, "block {line}\n{step}").expect("a String takes all");
    }
    script
}

/// A command that runs a program with its own network, mounts and processes; all end with it.
fn apart(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PAGE_S, "unshare"]);
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", program]);
    command
}

/// Runs a page. Returns what it does that it should not.
fn faults(name: &str, page: &str) -> Option<String> {
    let place = tempfile::tempdir().expect("temporary directory");
    let (out, work, bin) = (place.path().join("out"), place.path().join("work"), place.path().join("bin"));
    for folder in [&out, &work, &bin] {
        std::fs::create_dir(folder).expect("a folder");
    }
    symlink(PROGRAM, bin.join("byname")).expect("a link");
    let at = place.path().join("at");
    std::fs::write(place.path().join("script"), script(page)).expect("write");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = apart("bash")
        .arg(place.path().join("script"))
        .current_dir(&work)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", &work)
        .env("BYNAME_KEYS", work.join(".keys"))
        .env("PAGE_OUT", &out)
        .env("PAGE_AT", &at)
        .env_remove("NDN_CLIENT_TRANSPORT")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("start a shell");
    let block = std::fs::read_to_string(&at).unwrap_or_default();
    let printed = |line: usize| std::fs::read_to_string(out.join(line.to_string())).unwrap_or_default();
    if !output.status.success() {
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let printed = printed(block.trim().parse().unwrap_or_default());
        return Some(format!("{name}:{}: {}\n{said}{printed}", block.trim(), output.status));
    }
    let blocks = parts(page).blocks;
    for (number, block) in blocks.iter().enumerate() {
        let Some(Mark::Prints(of)) = &block.mark else { continue };
        let printed = printed(source(&blocks[..number], of)?.line);
        if let Some(line) = differs(&block.text, &printed) {
            return Some(format!("{name}:{}: this is not printed: {line}\nbut\n{printed}", block.line));
        }
    }
    None
}

/// The first line of `shown` that is not printed, in this order. `…` alone stands for any number of lines.
fn differs<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(plain).filter(|line| !line.is_empty());
    let mut may_skip = false;
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "…" {
            may_skip = true;
            continue;
        }
        let wanted = plain(line);
        let found = if may_skip {
            printed.any(|line| fits(&wanted, &line))
        } else {
            printed.next().is_some_and(|line| fits(&wanted, &line))
        };
        if !found {
            return Some(line);
        }
        may_skip = false;
    }
    None
}

/// A line without what differs each time: numbers with their units, and the width of gaps.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.trim();
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || ".,:".contains(c));
            let unit = ["ns", "µs", "us", "ms", "s"].iter().find_map(|unit| {
                let after = rest.trim_start_matches(' ').strip_prefix(unit)?;
                (!after.starts_with(char::is_alphanumeric)).then_some(after)
            });
            rest = unit.unwrap_or(rest);
            plain.push('#');
        } else if c.is_whitespace() {
            rest = rest.trim_start();
            plain.push(' ');
        } else {
            rest = &rest[c.len_utf8()..];
            plain.push(c);
        }
    }
    plain
}

/// Whether a line fits a pattern, in which `…` is any text.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…').map(str::trim);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open = part.is_empty();
    }
    rest.is_empty() || is_open
}

#[test]
fn lines_fit_whatever_their_numbers_are() {
    let shown = "a time=1.2 ms from 300\n…\nend … of all\n";
    assert_eq!(differs(shown, "a  time=33 µs from 7\nx\ny\nend z of all\n"), None);
    assert_eq!(differs(shown, "a time=33 µs to 7\nend z of all\n"), Some("a time=1.2 ms from 300"));
    assert_eq!(differs(shown, "a time=1 s from 7\nx\nend z of\n"), Some("end … of all"));
}

#[test]
fn commands_are_found_in_marked_tables_only() {
    let page = "| `byname no` |\n\n<!-- rows: run -->\n\n| a | b |\n| --- | --- |\n| `nfdc x` | `byname x`, `y` |\n\n| `ndnd no` |\n";
    let commands: Vec<_> = rows(page).into_iter().map(|(_, command)| command).collect();
    assert_eq!(commands, ["nfdc x", "byname x"]);
}

/// `BYNAME_TEST_PAGE` names one page to run alone.
#[test]
fn each_page_of_the_guide_does_what_it_says() {
    let may = apart("sh").args(["-c", "ip link set lo up && curl --version"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("skipped: no namespaces for the pages of the guide, or no iproute2 or curl");
    }
    let only = std::env::var("BYNAME_TEST_PAGE").ok();
    let all = pages();
    let missing: BTreeSet<_> =
        all.iter().flat_map(|(_, page)| parts(page).blocks).filter_map(|b| lacks(&b.text)).collect();
    missing.iter().for_each(|program| println!("skipped: commands of the guide that need {program}"));
    let pages = all.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let running: Vec<_> = pages.map(|(name, page)| std::thread::spawn(move || faults(&name, &page))).collect();
    assert!(only.is_some() || running.len() > 5, "too few pages");
    let faults: Vec<String> = running.into_iter().filter_map(|page| page.join().expect("a page's thread")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// In the guide, each block is run, or is a file or an output, or says why it is not run. Rust is run as doctests, and a test
/// of the configuration parses TOML.
#[test]
fn each_block_of_the_guide_is_run_or_says_why_not() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let fronts = std::fs::read_dir(crates)
        .expect("crates")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("src/lib.rs")).ok());
    let fronts: String = fronts.collect();
    for (name, page) in pages() {
        for block in parts(&page).blocks {
            let is_doctest = block.language.starts_with("rust") && fronts.contains(&format!("docs/guide/{name}"));
            let is_run = is_doctest || ["sh", "toml"].contains(&&*block.language) || block.mark.is_some();
            assert!(is_run, "{name}:{}: a block of `{}` without a mark", block.line, block.language);
        }
    }
}
