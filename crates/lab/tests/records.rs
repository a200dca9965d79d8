//! Lines that the lab writes have what is needed to judge them later, whatever was measured.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Commands that measure in memory, as small as can be.
const COMMANDS: &[&str] = &[
    "prefix --rules 1000 --draws 1000 --seconds 0.02 --repetitions 2",
    "flat --names 1000 --draws 1000 --seconds 0.02 --repetitions 2",
    "libraries --made --keys 1000 --seconds 0.02 --repetitions 2",
    "forward --fib 1000 --pit 1000 --cs 1000 --draws 1000 --seconds 0.02 --repetitions 2",
    "forward --zipf 1 --fib 1000 --pit 1000 --cs 1000 --draws 1000 --seconds 0.02 --repetitions 2",
    "locator --nodes 100 --edges 200 --draws 1000 --seconds 0.02 --repetitions 2",
    "mixed --descriptors 1000 --nodes 100 --edges 200 --draws 1000 --seconds 0.02 --repetitions 2",
    "tags --descriptors 1000 --draws 1000 --seconds 0.02 --repetitions 2",
    "partition --rules 1000 --draws 1000 --seconds 0.02 --repetitions 1",
    "plan --names 100k --routers 20 --links 40 --sample 1000 --change-rates 10 --change-s 1",
    "descriptors --descriptors 1000 --updates 100",
    "switch --on memory --names 1000 --draws 1000 --frame-memory 1Mi --seconds 0.02 --repetitions 2",
    "balance --exponents 1 --names 1000 --cs 100 --interests 1000 --threads 0",
    "scale --threads 2 --exponents 1 --names 1000 --cs 128 --interests 1000 --bursts 20",
    "hostile --attacks unroutable --fib 1000 --pit 1000 --cs 1000 --draws 1000 --seconds 0.02",
    "run so-hash-functions --quick --rules 1000 --seconds 0.02",
    "run so-table4 --quick --rules 4Ki --seconds 0.02",
    "run compact-components --quick --rules 1000 --seconds 0.02",
    "run concise-sharing --quick --rules 1000 --seconds 0.02",
    "run concise-table2 --quick --seconds 0.02",
    "run tagnet-fig10c --quick --rules 1000 --seconds 0.02",
];

/// Commands that write no line, and those that need a router to measure. The latter write by the same recorder.
const OTHERS: [&str; 7] = ["wire", "threads", "routes", "idle", "tables", "list", "help"];

/// Fields that nobody may leave out or set to `null`.
const FIELDS: [&str; 10] = [
    "experiment",
    "date",
    "cpu",
    "cores",
    "kernel",
    "profile",
    "command",
    "load_average",
    "others_running",
    "parameters",
];

/// The fields of one object in their order, repeated ones included.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Keys, M::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

fn lab(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_byname-lab"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("the lab starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_line_says_what_was_measured_on_what_and_when() {
    for command in COMMANDS {
        let folder = tempfile::tempdir().expect("a folder");
        lab(folder.path(), command);
        let mut words = command.split(' ');
        let subcommand = words.next().unwrap_or_default();
        let experiment = if subcommand == "run" { words.next().unwrap_or_default() } else { subcommand };
        let file = folder.path().join("lab-results").join(format!("{experiment}.jsonl"));
        let lines = std::fs::read_to_string(&file).expect("records");
        assert!(!lines.is_empty(), "{command} wrote no line");
        for line in lines.lines() {
            let Keys(keys) = serde_json::from_str(line).expect("an object");
            let mut seen = HashSet::new();
            let twice: Vec<_> = keys.iter().filter(|key| !seen.insert(*key)).collect();
            assert!(twice.is_empty(), "{command} writes these fields twice: {twice:?}");
            let fields: Value = serde_json::from_str(line).expect("an object");
            for field in FIELDS {
                assert!(!fields[field].is_null(), "{command} writes no {field}: {line}");
            }
            assert_eq!(fields["experiment"], experiment);
            assert_eq!(fields["quick"], command.contains("--quick"));
            assert!(fields["command"].as_str().is_some_and(|text| text.ends_with(command)), "{line}");
            assert!(fields["parameters"].as_object().is_some_and(|parameters| !parameters.is_empty()), "{line}");
            // These are `null` where the lab was built outside a checkout, and never absent.
            assert!(fields.get("commit").is_some() && fields.get("clean").is_some(), "{line}");
            assert_eq!(fields["commit"].is_null(), fields["clean"].is_null(), "{line}");
        }
    }
}

#[test]
fn no_subcommand_is_left_out_above() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = lab(folder.path(), "--help");
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    // A subcommand stands behind two spaces; a line that goes on stands further right.
    let listed = listed.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let subcommands: HashSet<_> = listed.filter_map(|line| line.split(' ').next()).filter(|w| !w.is_empty()).collect();
    assert!(subcommands.len() > OTHERS.len(), "{help}");
    for subcommand in subcommands {
        let tried = COMMANDS.iter().any(|command| command.split(' ').next() == Some(subcommand));
        assert!(tried || OTHERS.contains(&subcommand), "no line of `{subcommand}` is looked at");
    }
}
