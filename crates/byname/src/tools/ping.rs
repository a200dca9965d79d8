//! `byname ping`: measures whether the producer of a prefix answers, and how fast.
//!
//! Uses the protocol of ndn-tools: an Interest `/<prefix>/ping[/<identifier>]/<number>`, which any Data with that name
//! answers.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, NackReason, Name};
use serde::Serialize;

use crate::Connection;
use crate::exit;
use crate::tools::{parse_ms, parse_name};
use byname_client::{Fields, Link};

/// Arguments of `byname ping`.
#[derive(Debug, clap::Args)]
pub struct PingArgs {
    /// Prefix to ping; its producer runs `byname ping-server PREFIX` or ndnpingserver
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// Stop after this many pings [default: on Ctrl-C]
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Time between pings, in ms
    #[arg(short, long, value_name = "MS", default_value = "1000", value_parser = parse_ms)]
    interval: Duration,
    /// Time to wait for each answer, in ms
    #[arg(short = 'o', long, value_name = "MS", default_value = "4000", value_parser = parse_ms)]
    timeout: Duration,
    /// Number of the first ping [default: random]
    #[arg(short = 'n', long, value_name = "N")]
    start: Option<u64>,
    /// Component before the number that distinguishes this client from others
    #[arg(short = 'p', long, value_name = "TEXT")]
    identifier: Option<String>,
    /// Accept answers from caches: do not set MustBeFresh
    #[arg(short = 'a', long)]
    allow_stale: bool,
    /// Print only the statistics
    #[arg(short, long)]
    quiet: bool,
    /// Print only the statistics, as JSON
    #[arg(long)]
    json: bool,
}

/// Results of a run. These are the fields of `--json`.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Statistics {
    prefix: String,
    transmitted: u64,
    received: u64,
    nacked: u64,
    timeouts: u64,
    loss_percent: f64,
    elapsed_ms: f64,
    rtt_min_ms: Option<f64>,
    rtt_avg_ms: Option<f64>,
    rtt_max_ms: Option<f64>,
    rtt_mdev_ms: Option<f64>,
}

/// Running sums of round-trip times.
#[derive(Debug, Default)]
struct RttSums {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
    squares: f64,
}

impl RttSums {
    fn add(&mut self, rtt: Duration) {
        let ms = rtt.as_secs_f64() * 1e3;
        self.min = if self.count == 0 { ms } else { self.min.min(ms) };
        self.max = self.max.max(ms);
        self.sum += ms;
        self.squares += ms * ms;
        self.count += 1;
    }

    fn fill(&self, statistics: &mut Statistics) {
        if self.count > 0 {
            let average = self.sum / self.count as f64;
            statistics.rtt_min_ms = Some(self.min);
            statistics.rtt_avg_ms = Some(average);
            statistics.rtt_max_ms = Some(self.max);
            statistics.rtt_mdev_ms = Some((self.squares / self.count as f64 - average * average).max(0.0).sqrt());
        }
    }
}

struct Pinger {
    args: PingArgs,
    base: Name,
    /// Sending times of unanswered pings, by number.
    pending: HashMap<u64, Instant>,
    statistics: Statistics,
    rtt: RttSums,
}

/// Runs `byname ping`.
pub fn run(args: PingArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    let mut base = args.prefix.join(Component::generic(b"ping"));
    if let Some(identifier) = &args.identifier {
        base = base.join(Component::generic(identifier.as_bytes()));
    }
    let statistics = Statistics { prefix: args.prefix.to_string(), ..Statistics::default() };
    let mut pinger = Pinger { args, base, pending: HashMap::new(), statistics, rtt: RttSums::default() };
    pinger.say(format_args!("PING {}", pinger.statistics.prefix));
    let start = Instant::now();
    pinger.run(&mut client)?;
    pinger.summarize(start.elapsed())
}

impl Pinger {
    fn run(&mut self, client: &mut Link) -> anyhow::Result<()> {
        let mut number = self.args.start.unwrap_or_else(rand::random);
        let mut next = Instant::now();
        let mut left = self.args.count.unwrap_or(u64::MAX);
        while !client.interrupted() && (left > 0 || !self.pending.is_empty()) {
            let now = Instant::now();
            if left > 0 && now >= next {
                self.send(client, number);
                number = number.wrapping_add(1);
                left -= 1;
                next += self.args.interval;
            }
            let deadline = self.pending.values().map(|&sent| sent + self.args.timeout).min();
            let wake =
                if left > 0 { deadline.map_or(next, |deadline| deadline.min(next)) } else { deadline.unwrap_or(now) };
            // Reads wait for whole milliseconds. The last millisecond before the next ping is spent in short reads.
            let wait = wake.saturating_duration_since(Instant::now());
            client.receive(wait, |incoming, _| self.on_packet(incoming.packet, incoming.nack))?;
            self.expire();
        }
        Ok(())
    }

    fn send(&mut self, client: &mut Link, number: u64) {
        let name = self.base.join(Component::generic(number.to_string().as_bytes()));
        let interest = InterestBuilder::new(name, rand::random())
            .must_be_fresh(!self.args.allow_stale)
            .lifetime_ms(self.args.timeout.as_millis() as u64)
            .encode();
        client.outbox().push(&interest, Fields::default());
        self.pending.insert(number, Instant::now());
        self.statistics.transmitted += 1;
    }

    fn on_packet(&mut self, packet: &[u8], nack: Option<NackReason>) {
        let name = match nack {
            Some(_) => Interest::decode(packet).map(|interest| interest.name),
            None => Data::decode(packet).map(|data| data.name),
        };
        let Some(number) = name.ok().and_then(|name| {
            let is_ours = self.base.as_ref().is_prefix_of(&name) && name.len() == self.base.as_ref().len() + 1;
            let text = if is_ours { std::str::from_utf8(name.component(-1)?.value).ok()? } else { return None };
            text.parse::<u64>().ok()
        }) else {
            return;
        };
        let Some(sent) = self.pending.remove(&number) else { return };
        let rtt = sent.elapsed();
        let prefix = &self.statistics.prefix;
        if let Some(reason) = nack {
            self.say(format_args!("nack from {prefix}: seq={number} time={:.3} ms reason={reason:?}", ms(rtt)));
            self.statistics.nacked += 1;
        } else {
            self.say(format_args!("content from {prefix}: seq={number} time={:.3} ms", ms(rtt)));
            self.rtt.add(rtt);
            self.statistics.received += 1;
        }
    }

    fn expire(&mut self) {
        let timeout = self.args.timeout;
        let mut expired: Vec<u64> =
            self.pending.iter().filter(|(_, sent)| sent.elapsed() >= timeout).map(|(&number, _)| number).collect();
        expired.sort_unstable();
        for number in expired {
            self.pending.remove(&number);
            self.statistics.timeouts += 1;
            self.say(format_args!("timeout from {}: seq={number}", self.statistics.prefix));
        }
    }

    fn say(&self, line: std::fmt::Arguments<'_>) {
        if !self.args.quiet && !self.args.json {
            // If the reader went away, the run ends by the next signal, not by a panic.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    fn summarize(mut self, elapsed: Duration) -> anyhow::Result<u8> {
        // Pings that are unanswered at Ctrl-C count neither as answered nor as lost.
        let answered = self.statistics.received + self.statistics.nacked + self.statistics.timeouts;
        self.statistics.transmitted = answered;
        let lost = self.statistics.nacked + self.statistics.timeouts;
        self.statistics.loss_percent = if answered == 0 { 0.0 } else { lost as f64 * 100.0 / answered as f64 };
        self.statistics.elapsed_ms = ms(elapsed);
        self.rtt.fill(&mut self.statistics);
        if self.args.json {
            println!("{}", serde_json::to_string_pretty(&self.statistics)?);
        } else {
            print!("{}", summary(&self.statistics));
        }
        Ok(match &self.statistics {
            s if s.received > 0 || s.transmitted == 0 => exit::OK,
            s if s.timeouts > 0 => exit::TIMEOUT,
            _ => exit::REFUSED,
        })
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn summary(s: &Statistics) -> String {
    let mut text = format!(
        "\n--- {} ping statistics ---\n{} transmitted, {} received, {} nacked, {:.0}% loss, time {:.0} ms\n",
        s.prefix, s.transmitted, s.received, s.nacked, s.loss_percent, s.elapsed_ms
    );
    if let (Some(min), Some(avg), Some(max), Some(mdev)) = (s.rtt_min_ms, s.rtt_avg_ms, s.rtt_max_ms, s.rtt_mdev_ms) {
        text += &format!("rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_round_trips() {
        let mut sums = RttSums::default();
        for ms in [2, 4, 4, 4, 5, 5, 7, 9] {
            sums.add(Duration::from_millis(ms));
        }
        let mut statistics = Statistics {
            prefix: "/p".into(),
            transmitted: 10,
            received: 8,
            nacked: 1,
            timeouts: 1,
            loss_percent: 20.0,
            ..Statistics::default()
        };
        sums.fill(&mut statistics);
        let text = summary(&statistics);
        assert!(text.contains("10 transmitted, 8 received, 1 nacked, 20% loss"), "{text}");
        assert!(text.contains("rtt min/avg/max/mdev = 2.000/5.000/9.000/2.000 ms"), "{text}");
        assert!(!summary(&Statistics::default()).contains("rtt"));
    }
}
