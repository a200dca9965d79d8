//! `byname route get`: where an Interest for a name would go now, and why.

use std::time::Duration;

use anyhow::Context;
use byname_control::mgmt::json::explain::{Explanation, Nexthop, Pending, RouteBehind, Stored, Strategy, faces_of};
use byname_control::mgmt::tlv::Element;
use byname_control::mgmt::tlv::explain::RouteExplanation;
use byname_wire::Name;
use byname_wire::tlv::{push_tlv, types::NAME};

use super::{face, paint, print};
use byname_client::Link;
use byname_client::management::dataset;

/// Arguments of `byname route get`.
#[derive(Debug, Clone, clap::Args)]
pub struct GetArgs {
    /// The name that an Interest would ask for
    #[arg(value_parser = crate::tools::parse_name)]
    name: Name,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `byname route get`.
pub fn run(client: &mut Link, args: &GetArgs) -> anyhow::Result<()> {
    let explanation = explain(client, &args.name)?;
    print(args.json, &explanation, || paragraphs(&explanation))
}

/// The explanation of a name, as text without colours.
pub fn text(client: &mut Link, name: &Name) -> anyhow::Result<String> {
    Ok(anstream::adapter::strip_str(&paragraphs(&explain(client, name)?)).to_string())
}

fn explain(client: &mut Link, name: &Name) -> anyhow::Result<Explanation> {
    let mut element = Vec::new();
    push_tlv(&mut element, NAME, name.value());
    let content = dataset(client, "explain", "route", Some(&element))?;
    let answer = RouteExplanation::decode_value(&content).context("the forwarder's explanation is malformed")?;
    let uris = face::uris(client, &faces_of(&answer))?;
    Ok(Explanation::new(answer, &uris))
}

/// A paragraph for each table that an Interest meets, in the order in which it meets them.
fn paragraphs(explanation: &Explanation) -> String {
    let mut paragraphs = Paragraphs(format!("{}\n", paint::title(&explanation.name)));
    paragraphs.add("home", [format!("thread {} of {}", explanation.thread, explanation.threads)]);
    paragraphs.add("store", [store_line(&explanation.content_store)]);
    let pending = explanation.pending.iter().flat_map(pending_lines);
    paragraphs.add_or("pending", pending, "no Interest of this name");
    let rule = explanation.rule.clone().unwrap_or_else(|| "no rule covers this name".to_owned());
    let label =
        explanation.label.iter().map(|label| format!("a table of a few bits a name says: it forwards as {label} does"));
    paragraphs.add("rule", std::iter::once(rule).chain(label));
    if explanation.rule.is_some() {
        paragraphs.add_or("routes", explanation.routes.iter().map(route_line), "none");
    }
    let parameters = explanation.strategy.parameters.iter().map(|(name, value)| format!("  {name} {value}"));
    let strategy = format!("{}, chosen for {}", strategy_word(&explanation.strategy), explanation.strategy.prefix);
    paragraphs.add("strategy", std::iter::once(strategy).chain(parameters));
    let nexthops = explanation.nexthops.iter().enumerate().map(|(place, nexthop)| nexthop_line(nexthop, place + 1));
    paragraphs.add_or("nexthops", nexthops, "none: an Interest is refused with a Nack (no route)");
    paragraphs.0
}

/// Lines below titles on their left.
struct Paragraphs(String);

impl Paragraphs {
    fn add(&mut self, title: &str, lines: impl IntoIterator<Item = String>) {
        let mut title = title;
        for line in lines {
            self.0 += format!("  {} {line}", paint::key(&format!("{title:<8}"))).trim_end();
            self.0.push('\n');
            title = "";
        }
    }

    fn add_or(&mut self, title: &str, lines: impl Iterator<Item = String>, none: &str) {
        let lines: Vec<String> = lines.collect();
        self.add(title, if lines.is_empty() { vec![none.to_owned()] } else { lines });
    }
}

fn face_words(face_id: u64, uri: Option<&String>) -> String {
    uri.map_or_else(|| format!("face {face_id}"), |uri| format!("face {face_id} {uri}"))
}

fn time_words(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { humantime::format_duration(Duration::from_secs(ms / 1000)).to_string() }
}

/// The strategy without what all strategies begin with.
fn strategy_word(strategy: &Strategy) -> &str {
    strategy.name.strip_prefix("/localhost/nfd/strategy/").unwrap_or(&strategy.name)
}

fn store_line(stored: &Stored) -> String {
    let fresh = match stored.fresh_for_ms {
        Some(0) => "stale".to_owned(),
        ms => format!("fresh for {}", time_words(ms.unwrap_or(0))),
    };
    let what = match (stored.bytes, stored.stored_below) {
        (Some(bytes), _) => format!("has it: {bytes} bytes, {fresh}"),
        (None, Some(true)) => "has not this name, but Data below it".to_owned(),
        (None, Some(false)) => "has neither this name nor Data below it".to_owned(),
        (None, None) => "has not exactly this name".to_owned(),
    };
    if stored.serve { what } else { format!("off (serve=off); {what}") }
}

fn pending_lines(pending: &Pending) -> Vec<String> {
    let flags = [(pending.can_be_prefix, "CanBePrefix"), (pending.must_be_fresh, "MustBeFresh")];
    let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
    let with = if flags.is_empty() { String::new() } else { format!(" with {}", flags.join(" and ")) };
    let mut lines = vec![format!("an Interest{with}, for {}", time_words(pending.expires_in_ms))];
    lines.extend(pending.downstreams.iter().map(|waiting| {
        let face = face_words(waiting.face_id, waiting.remote_uri.as_ref());
        format!("  {face} waits, for {}", time_words(waiting.expires_in_ms))
    }));
    lines
        .extend((pending.further_downstreams > 0).then(|| format!("  and {} more faces", pending.further_downstreams)));
    lines.extend(pending.upstreams.iter().map(|asked| {
        let face = face_words(asked.face_id, asked.remote_uri.as_ref());
        let nack = asked.nack.map(|reason| format!("; it refused: {reason}")).unwrap_or_default();
        format!("  {face} was asked {} ago{nack}", time_words(asked.since_ms))
    }));
    lines
}

fn route_line(route: &RouteBehind) -> String {
    let face = face_words(route.face_id, route.remote_uri.as_ref());
    let origin = route.origin.as_ref().map_or("set by a fib command".to_owned(), |origin| format!("origin {origin}"));
    let mut line = format!("{} to {face}, {origin}, cost {}", route.prefix, route.cost);
    for (flag, word) in [(route.child_inherit, "child-inherit"), (route.capture, "capture"), (route.stale, "stale")] {
        if flag {
            line += &format!(", {word}");
        }
    }
    if let Some(ms) = route.expires_in_ms {
        line += &format!(", expires in {}", time_words(ms));
    }
    if route.used { line } else { paint::faint(&format!("{line}; not used: another route to this face counts")) }
}

fn nexthop_line(nexthop: &Nexthop, place: usize) -> String {
    let face = face_words(nexthop.face_id, nexthop.remote_uri.as_ref());
    let mut line = format!("{place}. {face}, cost {}", nexthop.cost);
    if let Some(us) = nexthop.rtt_us {
        line += &format!(", RTT {:.1} ms", us as f64 / 1000.0);
    }
    if nexthop.silent > 0 {
        line += &format!(", left the last {} unanswered", nexthop.silent);
    }
    match nexthop.turn {
        "first" => paint::good(&line),
        "at-random" => paint::good(&format!("{line}, at random")),
        "later" => format!("{line}, if those before fail"),
        _ => paint::faint(&format!("{line}; not used: unknown to the thread, or forbidden by scope")),
    }
}
