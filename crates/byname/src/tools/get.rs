//! `byname get`: fetches a segmented object.
//!
//! Writes segments in the order of the object, as [`byname_client::fetch`] hands them out. With `-o FILE`, the next run
//! resumes an interrupted transfer.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_client::Fetching;
use byname_client::fetch::resume::{PartFile, hex};
use byname_client::fetch::{Discovery, FetchCounters, FetchOptions, Object, check_single};
use byname_wire::Name;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use ring::digest::{Context as DigestContext, SHA256};
use serde::Serialize;

use crate::Connection;
use crate::exit::{self, Failure};
use crate::tools::{TextOnly, human_bytes, parse_ms, parse_packet_name};

/// Arguments of `byname get`.
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// Name of the object; byname looks up its newest version unless the name has one
    #[arg(value_parser = parse_packet_name)]
    name: Name,
    /// File to write, - for standard output; an interrupted transfer resumes from FILE.part [default: standard output,
    /// which on a terminal accepts text only]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to find the version
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = discoveries())]
    discovery: Discovery,
    /// InterestLifetime, in ms
    #[arg(short, long, value_name = "MS", default_value = "4000", value_parser = parse_ms)]
    lifetime: Duration,
    /// Time limit of each step of version discovery, in ms
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = parse_ms)]
    discovery_lifetime: Duration,
    /// Maximum number of segments to request at a time
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=8192))]
    window_max: u32,
    /// Number of Interests for a segment before giving up
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tries: u32,
    /// Longest wait, in ms, for a forwarder that is gone; 0: none
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    outage_max: u64,
    /// Show no progress bar and no summary
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON (needs -o)
    #[arg(long, requires = "output")]
    json: bool,
}

/// Reads the words of [`Discovery`].
fn discoveries() -> impl TypedValueParser<Value = Discovery> {
    let values = Discovery::ALL.map(|how| PossibleValue::new(how.word()).help(how.meaning()));
    PossibleValuesParser::new(values)
        .map(|word| Discovery::ALL.into_iter().find(|how| how.word() == word).unwrap_or_default())
}

impl GetArgs {
    /// The file to write; `None`: standard output.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Whether the summary is shown, which has the SHA-256 of the content.
    fn shows_sha256(&self) -> bool {
        self.json || !self.quiet
    }

    /// How to fetch what a sink does not have yet.
    fn options(&self, sink: &Sink) -> FetchOptions {
        let last = match sink {
            Sink::File(part) => part.last(),
            Sink::Stdout { .. } => None,
        };
        FetchOptions {
            lifetime: self.lifetime,
            window_max: self.window_max as usize,
            tries: self.tries,
            first: sink.segments(),
            last,
            ..FetchOptions::default()
        }
    }
}

/// A completed transfer. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Summary {
    name: String,
    bytes: u64,
    segments: u64,
    /// Bytes from an earlier, interrupted run.
    resumed_bytes: u64,
    elapsed_ms: f64,
    bytes_per_second: f64,
    retransmissions: u64,
    congestion_marks: u64,
    rtt_ms: f64,
    sha256: String,
}

/// Destination of the content.
enum Sink {
    File(Box<PartFile>),
    Stdout {
        /// `None`: nobody wants it.
        digest: Option<Box<DigestContext>>,
        bytes: u64,
        /// Present if standard output is a terminal and the user did not ask for it by `-o -`.
        guard: Option<TextOnly>,
    },
}

impl Sink {
    fn open(args: &GetArgs, object: &Name) -> anyhow::Result<Sink> {
        match args.file() {
            Some(path) => {
                let part = PartFile::open(path, &object.to_string())
                    .with_context(|| format!("cannot write {}.part", path.display()))?;
                Ok(Sink::File(Box::new(if args.shows_sha256() { part } else { part.without_sha256() })))
            }
            None => {
                let guard = (args.output.is_none() && std::io::stdout().is_terminal()).then(TextOnly::default);
                let digest = args.shows_sha256().then(|| Box::new(DigestContext::new(&SHA256)));
                Ok(Sink::Stdout { digest, bytes: 0, guard })
            }
        }
    }

    fn segments(&self) -> u64 {
        match self {
            Sink::File(part) => part.segments(),
            Sink::Stdout { .. } => 0,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Sink::File(part) => part.bytes(),
            Sink::Stdout { bytes, .. } => *bytes,
        }
    }

    /// Stores the number of the object's last segment.
    fn set_last(&mut self, last: u64) {
        if let Sink::File(part) = self {
            part.set_last(last);
        }
    }

    fn append(&mut self, content: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::File(part) => part.append(content),
            Sink::Stdout { digest, bytes, guard } => {
                guard.as_mut().map_or(Ok(()), |guard| guard.check(content))?;
                if let Some(digest) = digest {
                    digest.update(content);
                }
                *bytes += content.len() as u64;
                std::io::stdout().lock().write_all(content)
            }
        }
    }

    /// Saves the received content for the next run.
    fn save(&mut self) -> std::io::Result<()> {
        match self {
            Sink::File(part) => part.save(),
            Sink::Stdout { .. } => std::io::stdout().lock().flush(),
        }
    }

    /// Completes the content. Returns its SHA-256, which is empty if nobody wants it.
    fn finish(self, wants_sha256: bool) -> std::io::Result<String> {
        match self {
            Sink::File(part) if wants_sha256 => part.finish(),
            Sink::File(part) => part.complete().map(|()| String::new()),
            Sink::Stdout { digest, .. } => {
                std::io::stdout().lock().flush()?;
                Ok(digest.map_or_else(String::new, |digest| hex(digest.finish().as_ref())))
            }
        }
    }
}

/// Runs `byname get`.
pub fn run(args: GetArgs, connection: &Connection) -> anyhow::Result<u8> {
    if args.json && args.file().is_none() {
        return Err(Failure::new(exit::USAGE, "--json needs -o FILE: standard output has the content").into());
    }
    let mut client = connection.application_through(Duration::from_millis(args.outage_max))?;
    exit::on_signals(&client.interrupt_flag())?;
    let object = client
        .find(&args.name, args.discovery, args.discovery_lifetime)
        .with_context(|| format!("cannot find {}", args.name))?;
    let start = Instant::now();
    let (summary, sink) = match object {
        Object::Single(packet) => {
            let data = packet.data();
            check_single(&packet)?;
            let mut sink = Sink::open(&args, &data.name.to_name())?;
            // A single packet is never resumed: it is here completely or not at all.
            if sink.segments() == 0 {
                sink.append(data.content)?;
            }
            (Summary::new(&data.name.to_name(), start, 0, &sink), sink)
        }
        Object::Segmented(object) => {
            let mut sink = Sink::open(&args, &object)?;
            let resumed_bytes = sink.bytes();
            let options = args.options(&sink);
            let first = options.first;
            let written = write(client.fetch_segments(&object, options), &mut sink, &args);
            let counters = written.inspect_err(|_| keep(&mut sink, &args))?;
            let summary = Summary::new(&object, start, resumed_bytes, &sink);
            (summary.counted(&counters, first), sink)
        }
    };
    report(summary, sink, &args)?;
    Ok(exit::OK)
}

impl Summary {
    fn new(object: &Name, start: Instant, resumed_bytes: u64, sink: &Sink) -> Summary {
        let elapsed = start.elapsed().as_secs_f64();
        Summary {
            name: object.to_string(),
            bytes: sink.bytes(),
            segments: 1,
            resumed_bytes,
            elapsed_ms: elapsed * 1e3,
            bytes_per_second: (sink.bytes() - resumed_bytes) as f64 / elapsed.max(1e-6),
            retransmissions: 0,
            congestion_marks: 0,
            rtt_ms: 0.0,
            sha256: String::new(),
        }
    }

    /// With the numbers of a transfer that began with segment `first`.
    fn counted(self, counters: &FetchCounters, first: u64) -> Summary {
        Summary {
            segments: first + counters.segments,
            retransmissions: counters.retransmissions,
            congestion_marks: counters.congestion_marks,
            rtt_ms: counters.rtt.as_secs_f64() * 1e3,
            ..self
        }
    }
}

fn report(mut summary: Summary, sink: Sink, args: &GetArgs) -> anyhow::Result<()> {
    summary.sha256 = sink.finish(args.shows_sha256()).context("cannot write the file")?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else if !args.quiet {
        eprint!("{}", summary.text(args.file()));
    }
    Ok(())
}

impl Summary {
    fn text(&self, output: Option<&Path>) -> String {
        let mut text = format!(
            "{}: {} in {:.2} s, {}/s, {} segments, {} sent again, rtt {:.1} ms\n",
            self.name,
            human_bytes(self.bytes),
            self.elapsed_ms / 1e3,
            human_bytes(self.bytes_per_second as u64),
            self.segments,
            self.retransmissions,
            self.rtt_ms
        );
        if self.resumed_bytes > 0 {
            text += &format!("  {} of it came from an earlier run\n", human_bytes(self.resumed_bytes));
        }
        text += &format!("  SHA-256 {}\n", self.sha256);
        if let Some(path) = output {
            text += &format!("  written to {}\n", path.display());
        }
        text
    }
}

/// Writes the segments to the sink as they come, and shows how far they are.
fn write(mut fetching: Fetching<'_>, sink: &mut Sink, args: &GetArgs) -> anyhow::Result<FetchCounters> {
    let bar = progress_bar(args);
    bar.set_position(sink.bytes());
    bar.reset_eta();
    let mut bytes_expected = 0;
    let outcome = loop {
        let chunk = match fetching.next() {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => break Err(error.into()),
            None => break Ok(fetching.counters()),
        };
        if let Some(last) = fetching.counters().last {
            sink.set_last(last);
            bytes_expected = last.saturating_add(1).saturating_mul(chunk.content().len() as u64).max(bytes_expected);
        }
        if let Err(error) = sink.append(chunk.content()).context("cannot write") {
            break Err(error);
        }
        if !bar.is_hidden() {
            bar.set_length(bytes_expected.max(sink.bytes()));
            bar.set_position(sink.bytes());
        }
    };
    bar.finish_and_clear();
    outcome
}

fn progress_bar(args: &GetArgs) -> ProgressBar {
    let bar = if args.quiet || args.json || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::no_length()
    };
    let style = ProgressStyle::with_template(
        "{bar:32} {percent:>3}%  {decimal_bytes} of about {decimal_total_bytes}  {decimal_bytes_per_sec}  eta {eta}",
    );
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// After a failure: saves the received content and tells the user.
fn keep(sink: &mut Sink, args: &GetArgs) {
    if let (Ok(()), Some(path)) = (sink.save(), args.file()) {
        let have = human_bytes(sink.bytes());
        eprintln!("{have} kept in {}.part; run the same command again to resume", path.display());
    }
}
