//! Tests of what packaging/monitoring ships: a dashboard for Grafana, and alert rules. They ask for metrics and labels that
//! exist, in queries that Prometheus understands, and the guide says what each alert means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Labels that Prometheus adds, and that of a histogram's buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];
const HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).expect(path)
}

/// All metrics with their labels, from docs/metrics.md, which another test compares with the router.
fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let metrics = rows.map(|row| {
        let columns: Vec<&str> = row.split('|').collect();
        let codes = |column: usize| columns[column].split('`').skip(1).step_by(2).map(str::to_owned);
        (codes(1).next().expect("a name"), codes(3).collect())
    });
    metrics.chain([("up".to_owned(), BTreeSet::new())]).collect()
}

/// The strings with this key anywhere in JSON.
fn strings<'a>(value: &'a Value, key: &str, into: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get(key).and_then(Value::as_str));
            fields.values().for_each(|value| strings(value, key, into));
        }
        Value::Array(values) => values.iter().for_each(|value| strings(value, key, into)),
        _ => {}
    }
}

/// Returns what a query asks for that does not exist.
fn faults(query: &str, metrics: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let (mut faults, mut labels) = (Vec::new(), BTreeSet::from(ADDED.map(str::to_owned)));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = query;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        rest = &rest[word.len()..];
        if !word.starts_with("byname_") && !word.starts_with("process_") && word != "up" {
            continue;
        }
        let series = HISTOGRAM.iter().find_map(|end| metrics.get(word.strip_suffix(end)?));
        let Some(own) = metrics.get(word).or(series) else {
            faults.push(format!("no metric {word}"));
            continue;
        };
        labels.extend(own.iter().cloned());
        let matchers = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
        let names = matchers.split("\",").filter_map(|matcher| matcher.split(['=', '!']).next()).map(str::trim);
        let unknown = names.filter(|name| !name.is_empty() && !own.contains(*name) && !ADDED.contains(name));
        faults.extend(unknown.map(|name| format!("{word} has no label {name}")));
    }
    for by in query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
        let unknown = by.split(',').map(str::trim).filter(|name| !labels.contains(*name));
        faults.extend(unknown.map(|name| format!("no label {name} to sum by")));
    }
    faults
}

/// The expressions in a file of rules: with `expr: >-`, the deeper lines below.
fn rules(text: &str) -> Vec<(String, String)> {
    let mut rules: Vec<(String, String)> = Vec::new();
    let mut is_expression = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            rules.push((name.to_owned(), String::new()));
        } else if let (Some(first), Some((_, query))) = (line.strip_prefix("expr: "), rules.last_mut()) {
            is_expression = true;
            *query += first.trim_start_matches(">-");
        } else if line.contains(": ") && !line.contains('{') || line.starts_with("labels:") {
            is_expression = false;
        } else if let (true, Some((_, query))) = (is_expression, rules.last_mut()) {
            *query += &format!(" {line}");
        }
    }
    rules
}

/// Runs promtool in the folder of the rules. `None`: it is not installed.
fn promtool(args: &[&str]) -> Option<()> {
    let output = Command::new("promtool").args(args).current_dir(file("packaging/monitoring")).output().ok()?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "promtool {}: {said}", args.join(" "));
    Some(())
}

#[test]
fn what_a_query_lacks_is_found() {
    let metrics = metrics();
    let good = "sum by (instance, type) (rate(byname_packets_total{job=~\"x\", type=\"data\"}[5m]))";
    assert!(faults(good, &metrics).is_empty(), "{:?}", faults(good, &metrics));
    assert!(faults("byname_round_seconds_bucket{le=\"1\", thread=\"0\"}", &metrics).is_empty());
    assert_eq!(faults("byname_pit_size > 0", &metrics), ["no metric byname_pit_size"]);
    assert_eq!(faults("byname_routes{kind=\"x\"}", &metrics), ["byname_routes has no label kind"]);
    assert_eq!(faults("max by (thread) (byname_routes)", &metrics), ["no label thread to sum by"]);
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("packaging/monitoring/grafana.json")).expect("JSON");
    let (mut queries, mut legends, metrics) = (Vec::new(), Vec::new(), metrics());
    strings(&dashboard, "expr", &mut queries);
    strings(&dashboard, "legendFormat", &mut legends);
    assert!(queries.len() > 50, "{}", queries.len());
    let known: BTreeSet<&str> = metrics.values().flatten().map(String::as_str).chain(ADDED).collect();
    for legend in legends {
        let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
        labels.for_each(|label| assert!(known.contains(label), "{legend}"));
    }
    let mut recorded = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (number, query) in queries.iter().enumerate() {
        assert!(faults(query, &metrics).is_empty(), "{query}: {:?}", faults(query, &metrics));
        let query = Value::from(query.replace("$__rate_interval", "5m"));
        recorded += &format!("      - record: query:{number}\n        expr: {query}\n");
    }
    // Whether Prometheus understands the queries.
    let folder = tempfile::tempdir().expect("temporary directory");
    let path = folder.path().join("queries.yml");
    std::fs::write(&path, recorded).expect("write");
    if promtool(&["check", "rules", &path.display().to_string()]).is_none() {
        println!("skipped: there is no promtool");
    }
}

#[test]
fn each_alert_is_tested_and_explained() {
    let rules = rules(&read("packaging/monitoring/alerts.yml"));
    assert!(rules.len() > 15, "{rules:?}");
    let (tests, guide, metrics) =
        (read("packaging/monitoring/alerts_test.yml"), read("docs/guide/alerts.md"), metrics());
    for (alert, query) in &rules {
        let faults = faults(query, &metrics);
        assert!(query.len() > 10 && faults.is_empty(), "{alert}: {query}: {faults:?}");
        // The first test of an alert expects it.
        let first = tests.split(&format!("- alertname: {alert}\n")).nth(1).unwrap_or_default();
        let fires = first.split("- name:").next().is_some_and(|test| test.contains("exp_labels"));
        assert!(fires, "{alert} has no test in which it fires");
        assert!(guide.contains(&format!("\n### {alert}\n")), "docs/guide/alerts.md does not explain {alert}");
    }
    let explained = guide.lines().filter(|line| line.starts_with("### Byname")).count();
    assert_eq!(explained, rules.len(), "docs/guide/alerts.md explains alerts that do not exist");
    let checks: [&[&str]; 2] = [&["check", "rules", "alerts.yml"], &["test", "rules", "alerts_test.yml"]];
    if checks.into_iter().any(|args| promtool(args).is_none()) {
        println!("skipped: there is no promtool");
    }
}
