//! `byname fleet status` and `byname fleet show`.

use std::fmt::Write as _;
use std::io::Write as _;

use byname_fleet::etcd::Connection;
use byname_fleet::etcd::messages::{KeyValue, RangeRequest};
use byname_fleet::key::{Key, Space};
use byname_fleet::table::delta::Delta;
use byname_fleet::value::{
    BuilderReport, BuiltHead, Down, Group, Head, Link, Nexthop, PolicyRules, Report, Route, Strategy, TableHead,
    TagRoute, Value,
};
use byname_fleet::writer::nodes;
use serde::Serialize;

use crate::exit::{self, Failure};
use crate::manage::print;

/// Most keys that are printed.
const KEYS_MAX: usize = 100_000_000;

/// What `status --json` prints.
#[derive(Debug, Serialize)]
struct Status {
    /// Revision of the intent. Absent if there is none.
    revision: Option<i64>,
    /// The last writer.
    by: Option<String>,
    /// Who is writing now.
    writing: Option<String>,
    /// The builder that leads.
    building: Option<BuilderReport>,
    nodes: Vec<Node>,
}

#[derive(Debug, Serialize)]
struct Node {
    node: String,
    /// Whether its tables are equal to the intent.
    current: bool,
    #[serde(flatten)]
    report: Report,
}

/// Prints how far each node is.
pub async fn status(connection: &Connection, space: &Space, json: bool) -> anyhow::Result<u8> {
    let head = one(connection, space.key(&Key::Head)).await?;
    let writing = one(connection, space.leader()).await?.map(|kv| kv.value.escape_ascii().to_string());
    let building = one(connection, space.builder()).await?.and_then(|kv| BuilderReport::decode(&kv.value).ok());
    let revision = head.as_ref().map(|kv| kv.mod_revision);
    let by = head.and_then(|kv| Head::decode(&kv.value).ok()).map(|head| head.by);
    let nodes = nodes(connection, space).await?.into_iter().map(|(node, report)| Node {
        node: node.to_string(),
        current: report.connected
            && report.held.is_none()
            && revision.is_some_and(|revision| report.applied >= revision),
        report,
    });
    let status = Status { revision, by, writing, building, nodes: nodes.collect() };
    print(json, &status, || text(&status))?;
    Ok(exit::OK)
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match (status.revision, &status.by) {
        (Some(revision), Some(by)) => writeln!(text, "intent      revision {revision}, written by {by}"),
        (Some(revision), None) => writeln!(text, "intent      revision {revision}, with a head that cannot be read"),
        (None, _) => writeln!(text, "intent      there is none yet: see `byname fleet --help`"),
    };
    if let Some(writing) = &status.writing {
        let _ = writeln!(text, "writing     {writing}");
    }
    if let Some(BuilderReport { by, waits }) = &status.building {
        let waits = waits.as_ref().map_or_else(String::new, |waits| format!("; {waits}"));
        let _ = writeln!(text, "building    {by}{waits}");
    }
    if status.nodes.is_empty() {
        let _ = writeln!(text, "nodes       none: start `byname agent --node NAME` beside each router");
        return text;
    }
    let width = status.nodes.iter().map(|node| node.node.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "{:width$}  {:>9}  {:>9}  {:>9}  state", "node", "applied", "added", "routes");
    for node in &status.nodes {
        let Report { applied, added, routes, .. } = node.report;
        let state = if node.current { notes(&node.report, "up to date") } else { why_late(&node.report) };
        let _ = writeln!(text, "{:width$}  {applied:>9}  {added:>9}  {routes:>9}  {state}", node.node);
    }
    text
}

/// Why a node is not up to date.
pub fn why_late(report: &Report) -> String {
    if !report.connected {
        return "its router does not answer".to_owned();
    }
    if let Some(held) = &report.held {
        return format!("holds what it has: {held}");
    }
    if let (failing @ 1.., Some(failure)) = (report.failing, &report.failure) {
        return format!("{failing} refused by its router, such as {failure}");
    }
    notes(report, "on its way")
}

/// Something that an operator may want to know besides the state.
fn notes(report: &Report, state: &str) -> String {
    let mut text = state.to_owned();
    for (count, what) in [
        (report.missing_links, "links of groups are missing"),
        (report.unsettled, "routes were removed before all nodes were ready"),
        (report.drift, "differences were found in the router"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text
}

/// Prints the intent as `load` takes it.
pub async fn intent(connection: &Connection, space: &Space) -> anyhow::Result<u8> {
    let all = connection.read_all(&space.want(), KEYS_MAX).await?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut damaged = 0;
    // Links come before groups, and groups before routes, so that the lines can also be carried out one by one.
    let mut lines: Vec<(u8, String)> = Vec::new();
    for kv in all.kvs {
        match line(space, &kv) {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => {}
            Err(reason) => {
                damaged += 1;
                writeln!(out, "# damaged: {}: {reason}", kv.key.escape_ascii())?;
            }
        }
    }
    lines.sort_by_key(|(order, _)| *order);
    for (_, line) in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    if damaged > 0 {
        let message = format!("{damaged} keys are damaged, and agents hold what they have: write these keys again");
        return Err(Failure::new(exit::FAILED, message).into());
    }
    Ok(exit::OK)
}

fn line(space: &Space, kv: &KeyValue) -> Result<Option<(u8, String)>, String> {
    let bad = |error: byname_fleet::value::BadValue| error.to_string();
    let value = &kv.value;
    Ok(Some(match space.decode(&kv.key).map_err(|error| error.to_string())? {
        Key::Head | Key::Settled => return Ok(None),
        Key::Table(table) => {
            TableHead::decode(value).map_err(bad)?;
            (4, format!("# table {table}: see `byname fleet table show {table}`"))
        }
        Key::Built(_) => {
            BuiltHead::decode(value).map_err(bad)?;
            return Ok(None);
        }
        Key::Delta { .. } => {
            Delta::decode(value).map_err(|error| error.to_string())?;
            return Ok(None);
        }
        Key::Link { node, link } => (0, format!("link add {node} {link} {}", Link::decode(value).map_err(bad)?.uri)),
        Key::Down { node, link } => {
            let reason = Down::decode(value).map_err(bad)?.reason;
            let words = shlex::try_join(["link", "down", node.as_str(), link.as_str(), "--reason", &reason]);
            (2, words.map_err(|error| error.to_string())?)
        }
        Key::Group { group, node } => {
            let nexthops = Group::decode(value).map_err(bad)?.nexthops;
            let links = nexthops.iter().map(|Nexthop { link, cost }| format!(" {link}:{cost}"));
            (1, format!("group set {group} {node}{}", links.collect::<String>()))
        }
        Key::Route(prefix) => {
            let Route { group, inherit, capture } = Route::decode(value).map_err(bad)?;
            let flags = [(!inherit, " --no-inherit"), (capture, " --capture")];
            let flags = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect::<String>();
            (3, format!("route add {} {group}{flags}", quoted(&prefix.to_string())?))
        }
        Key::Policy(node) => {
            let rules = PolicyRules::decode(value).map_err(bad)?.rules;
            let at = node.as_ref().map(|node| ["--node", node.as_str()]);
            let rules = rules.iter().map(String::as_str);
            let words = ["policy", "set"].into_iter().chain(rules).chain(at.into_iter().flatten());
            (3, shlex::try_join(words).map_err(|error| error.to_string())?)
        }
        Key::Tags(set) => {
            let group = TagRoute::decode(value).map_err(bad)?.group;
            // Tags may look like options.
            let end = set.tags().any(|tag| tag.starts_with('-')).then_some("--");
            let words = ["tag", "add", group.as_str()].into_iter().chain(end).chain(set.tags());
            (3, shlex::try_join(words).map_err(|error| error.to_string())?)
        }
        Key::Strategy(prefix) => {
            let strategy = Strategy::decode(value).map_err(bad)?.strategy;
            (3, format!("strategy set {} {}", quoted(&prefix.to_string())?, quoted(&strategy)?))
        }
    }))
}

fn quoted(word: &str) -> Result<String, String> {
    shlex::try_quote(word).map(|word| word.into_owned()).map_err(|error| error.to_string())
}

async fn one(connection: &Connection, key: Vec<u8>) -> anyhow::Result<Option<KeyValue>> {
    Ok(connection.range(RangeRequest { key, ..RangeRequest::default() }).await?.kvs.into_iter().next())
}
