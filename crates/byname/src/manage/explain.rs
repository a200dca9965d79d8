//! `byname route get`: where an Interest for a name would go now, and why.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Context;
use byname_control::mgmt::tlv::explain::{self as tlv, RouteExplanation, selectors, turn};
use byname_control::mgmt::tlv::{Element, route_flags};
use byname_wire::tlv::{push_tlv, types::NAME};
use byname_wire::{NackReason, Name};
use serde::Serialize;

use super::view::origin_word;
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

/// The whole explanation. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Explanation {
    name: String,
    rule: Option<String>,
    routes: Vec<RouteBehind>,
    strategy: Strategy,
    nexthops: Vec<Nexthop>,
    content_store: Stored,
    pending: Vec<Pending>,
    thread: u64,
    threads: u64,
}

#[derive(Debug, Serialize)]
struct RouteBehind {
    prefix: String,
    face_id: u64,
    remote_uri: Option<String>,
    /// `None` if a `fib` command set the nexthop.
    origin: Option<String>,
    cost: u64,
    child_inherit: bool,
    capture: bool,
    expires_in_ms: Option<u64>,
    stale: bool,
    used: bool,
}

#[derive(Debug, Serialize)]
struct Strategy {
    name: String,
    prefix: String,
    parameters: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Nexthop {
    face_id: u64,
    remote_uri: Option<String>,
    cost: u64,
    /// `first`, `at-random`, `later` or `never`.
    turn: &'static str,
    rtt_us: Option<u64>,
    silent: u64,
}

#[derive(Debug, Serialize)]
struct Stored {
    serve: bool,
    stored: bool,
    bytes: Option<u64>,
    fresh_for_ms: Option<u64>,
    stored_below: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Pending {
    can_be_prefix: bool,
    must_be_fresh: bool,
    expires_in_ms: u64,
    downstreams: Vec<Downstream>,
    further_downstreams: u64,
    upstreams: Vec<Upstream>,
}

#[derive(Debug, Serialize)]
struct Downstream {
    face_id: u64,
    remote_uri: Option<String>,
    expires_in_ms: u64,
}

#[derive(Debug, Serialize)]
struct Upstream {
    face_id: u64,
    remote_uri: Option<String>,
    since_ms: u64,
    nack: Option<&'static str>,
}

/// Runs `byname route get`.
pub fn run(client: &mut Link, args: &GetArgs) -> anyhow::Result<()> {
    let mut element = Vec::new();
    push_tlv(&mut element, NAME, args.name.value());
    let content = dataset(client, "explain", "route", Some(&element))?;
    let answer = RouteExplanation::decode_value(&content).context("the forwarder's explanation is malformed")?;
    let uris = face::uris(client, &faces_of(&answer))?;
    let explanation = Explanation::new(answer, &uris);
    print(args.json, &explanation, || explanation.text())
}

/// All faces that an explanation names.
fn faces_of(answer: &RouteExplanation) -> BTreeSet<u64> {
    let routes = answer.routes.iter().map(|route| route.face_id);
    let nexthops = answer.nexthops.iter().map(|nexthop| nexthop.face_id);
    let pending = answer.pending.iter().flat_map(|pending| {
        let downstreams = pending.downstreams.iter().map(|downstream| downstream.face_id);
        downstreams.chain(pending.upstreams.iter().map(|upstream| upstream.face_id))
    });
    routes.chain(nexthops).chain(pending).collect()
}

/// The word for a Nack's reason.
pub fn nack_word(number: u64) -> &'static str {
    match NackReason::from_number(number) {
        NackReason::None => "none",
        NackReason::Congestion => "congestion",
        NackReason::Duplicate => "duplicate",
        NackReason::NoRoute => "no-route",
    }
}

impl Explanation {
    fn new(answer: RouteExplanation, uris: &HashMap<u64, String>) -> Self {
        let uri = |face_id: u64| uris.get(&face_id).cloned();
        let route = |route: tlv::RouteBehind| RouteBehind {
            prefix: route.name.to_string(),
            face_id: route.face_id,
            remote_uri: uri(route.face_id),
            origin: route.is_nexthop.is_none().then(|| origin_word(route.origin)),
            cost: route.cost,
            child_inherit: route.flags & route_flags::CHILD_INHERIT != 0,
            capture: route.flags & route_flags::CAPTURE != 0,
            expires_in_ms: route.expiration_period_ms,
            stale: route.is_stale == Some(1),
            used: route.is_used == 1,
        };
        let nexthop = |nexthop: tlv::Preferred| Nexthop {
            face_id: nexthop.face_id,
            remote_uri: uri(nexthop.face_id),
            cost: nexthop.cost,
            turn: match nexthop.turn {
                turn::FIRST => "first",
                turn::AT_RANDOM => "at-random",
                turn::LATER => "later",
                _ => "never",
            },
            rtt_us: nexthop.rtt_us,
            silent: nexthop.silent.unwrap_or(0),
        };
        let pending = |pending: tlv::Pending| Pending {
            can_be_prefix: pending.selectors & selectors::CAN_BE_PREFIX != 0,
            must_be_fresh: pending.selectors & selectors::MUST_BE_FRESH != 0,
            expires_in_ms: pending.expires_in_ms,
            downstreams: pending
                .downstreams
                .iter()
                .map(|d| Downstream { face_id: d.face_id, remote_uri: uri(d.face_id), expires_in_ms: d.expires_in_ms })
                .collect(),
            further_downstreams: pending.further,
            upstreams: pending
                .upstreams
                .iter()
                .map(|u| Upstream {
                    face_id: u.face_id,
                    remote_uri: uri(u.face_id),
                    since_ms: u.since_ms,
                    nack: u.nack.map(nack_word),
                })
                .collect(),
        };
        Explanation {
            name: answer.name.to_string(),
            rule: answer.rule.map(|rule| rule.to_string()),
            routes: answer.routes.into_iter().map(route).collect(),
            strategy: Strategy {
                name: answer.strategy.0.to_string(),
                prefix: answer.strategy_prefix.to_string(),
                parameters: answer.parameters.into_iter().map(|p| (p.name, p.value)).collect(),
            },
            nexthops: answer.nexthops.into_iter().map(nexthop).collect(),
            content_store: Stored {
                serve: answer.serves == 1,
                stored: answer.stored_bytes.is_some(),
                bytes: answer.stored_bytes,
                fresh_for_ms: answer.stored_fresh_for_ms,
                stored_below: answer.stored_below.map(|below| below == 1),
            },
            pending: answer.pending.into_iter().map(pending).collect(),
            thread: answer.home,
            threads: answer.threads,
        }
    }

    /// A paragraph for each table that an Interest meets, in the order in which it meets them.
    fn text(&self) -> String {
        let mut paragraphs = Paragraphs(format!("{}\n", paint::title(&self.name)));
        paragraphs.add("home", [format!("thread {} of {}", self.thread, self.threads)]);
        paragraphs.add("store", [self.content_store.line()]);
        let pending = self.pending.iter().flat_map(Pending::lines);
        paragraphs.add_or("pending", pending, "no Interest of this name");
        let rule = self.rule.clone().unwrap_or_else(|| "no rule covers this name".to_owned());
        paragraphs.add("rule", [rule]);
        if self.rule.is_some() {
            paragraphs.add_or("routes", self.routes.iter().map(RouteBehind::line), "none");
        }
        let parameters = self.strategy.parameters.iter().map(|(name, value)| format!("  {name} {value}"));
        let strategy = format!("{}, chosen for {}", self.strategy.word(), self.strategy.prefix);
        paragraphs.add("strategy", std::iter::once(strategy).chain(parameters));
        let nexthops = self.nexthops.iter().enumerate().map(|(place, nexthop)| nexthop.line(place + 1));
        paragraphs.add_or("nexthops", nexthops, "none: an Interest is refused with a Nack (no route)");
        paragraphs.0
    }
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

impl Strategy {
    /// The strategy without what all strategies begin with.
    fn word(&self) -> &str {
        self.name.strip_prefix("/localhost/nfd/strategy/").unwrap_or(&self.name)
    }
}

impl Stored {
    fn line(&self) -> String {
        let fresh = match self.fresh_for_ms {
            Some(0) => "stale".to_owned(),
            ms => format!("fresh for {}", time_words(ms.unwrap_or(0))),
        };
        let what = match (self.bytes, self.stored_below) {
            (Some(bytes), _) => format!("has it: {bytes} bytes, {fresh}"),
            (None, Some(true)) => "has not this name, but Data below it".to_owned(),
            (None, Some(false)) => "has neither this name nor Data below it".to_owned(),
            (None, None) => "has not exactly this name".to_owned(),
        };
        if self.serve { what } else { format!("off (serve=off); {what}") }
    }
}

impl Pending {
    fn lines(&self) -> Vec<String> {
        let flags = [(self.can_be_prefix, "CanBePrefix"), (self.must_be_fresh, "MustBeFresh")];
        let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        let with = if flags.is_empty() { String::new() } else { format!(" with {}", flags.join(" and ")) };
        let mut lines = vec![format!("an Interest{with}, for {}", time_words(self.expires_in_ms))];
        lines.extend(self.downstreams.iter().map(|waiting| {
            let face = face_words(waiting.face_id, waiting.remote_uri.as_ref());
            format!("  {face} waits, for {}", time_words(waiting.expires_in_ms))
        }));
        lines.extend((self.further_downstreams > 0).then(|| format!("  and {} more faces", self.further_downstreams)));
        lines.extend(self.upstreams.iter().map(|asked| {
            let face = face_words(asked.face_id, asked.remote_uri.as_ref());
            let nack = asked.nack.map(|reason| format!("; it refused: {reason}")).unwrap_or_default();
            format!("  {face} was asked {} ago{nack}", time_words(asked.since_ms))
        }));
        lines
    }
}

impl RouteBehind {
    fn line(&self) -> String {
        let face = face_words(self.face_id, self.remote_uri.as_ref());
        let origin =
            self.origin.as_ref().map_or("set by a fib command".to_owned(), |origin| format!("origin {origin}"));
        let mut line = format!("{} to {face}, {origin}, cost {}", self.prefix, self.cost);
        for (flag, word) in [(self.child_inherit, "child-inherit"), (self.capture, "capture"), (self.stale, "stale")] {
            if flag {
                line += &format!(", {word}");
            }
        }
        if let Some(ms) = self.expires_in_ms {
            line += &format!(", expires in {}", time_words(ms));
        }
        if self.used { line } else { paint::faint(&format!("{line}; not used: another route to this face counts")) }
    }
}

impl Nexthop {
    fn line(&self, place: usize) -> String {
        let face = face_words(self.face_id, self.remote_uri.as_ref());
        let mut line = format!("{place}. {face}, cost {}", self.cost);
        if let Some(us) = self.rtt_us {
            line += &format!(", RTT {:.1} ms", us as f64 / 1000.0);
        }
        if self.silent > 0 {
            line += &format!(", left the last {} unanswered", self.silent);
        }
        match self.turn {
            "first" => paint::good(&line),
            "at-random" => paint::good(&format!("{line}, at random")),
            "later" => format!("{line}, if those before fail"),
            _ => paint::faint(&format!("{line}; not used: unknown to the thread, or forbidden by scope")),
        }
    }
}
