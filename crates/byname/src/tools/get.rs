//! `byname get`: fetches a segmented object.
//!
//! Requests segments within a congestion window (see [`byname_client::fetch`]) and writes them in order. With `-o FILE`, the
//! next run resumes an interrupted transfer.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_wire::data::content_type;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::signature::SignatureType;
use byname_wire::{Data, Interest, Name};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use ring::digest::{Context as DigestContext, SHA256};
use serde::Serialize;

use crate::Connection;
use crate::exit::{self, Failure};
use crate::tools::{TextOnly, human_bytes, parse_ms, parse_packet_name};
use byname_client::fetch::discovery::{Discovery, Object, discover};
use byname_client::fetch::pipeline::Pipeline;
use byname_client::fetch::resume::{PartFile, hex};
use byname_client::{Fields, Incoming, Link};

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
        digest: Box<DigestContext>,
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
                Ok(Sink::File(Box::new(part)))
            }
            None => {
                let guard = (args.output.is_none() && std::io::stdout().is_terminal()).then(TextOnly::default);
                Ok(Sink::Stdout { digest: Box::new(DigestContext::new(&SHA256)), bytes: 0, guard })
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

    fn append(&mut self, content: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::File(part) => part.append(content),
            Sink::Stdout { digest, bytes, guard } => {
                guard.as_mut().map_or(Ok(()), |guard| guard.check(content))?;
                digest.update(content);
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

    /// Completes the content and returns its SHA-256.
    fn finish(self) -> std::io::Result<String> {
        match self {
            Sink::File(part) => part.finish(),
            Sink::Stdout { digest, .. } => {
                std::io::stdout().lock().flush()?;
                Ok(hex(digest.finish().as_ref()))
            }
        }
    }
}

/// Runs `byname get`.
pub fn run(args: GetArgs, connection: &Connection) -> anyhow::Result<u8> {
    if args.json && args.file().is_none() {
        return Err(Failure::new(exit::USAGE, "--json needs -o FILE: standard output has the content").into());
    }
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    let object = discover(&mut client, &args.name, args.discovery, args.discovery_lifetime)
        .with_context(|| format!("cannot find {}", args.name))?;
    let start = Instant::now();
    let (summary, from) = match object {
        Object::Single(packet) => {
            let data = packet.data();
            check(&data)?;
            let mut sink = Sink::open(&args, &data.name.to_name())?;
            // A single packet is never resumed: it is here completely or not at all.
            if sink.segments() == 0 {
                sink.append(data.content)?;
            }
            (Summary::new(&data.name.to_name(), start, 0, &sink), sink)
        }
        Object::Segmented(base) => {
            let sink = Sink::open(&args, &base)?;
            let mut transfer = Transfer::new(&args, base, sink, start);
            let result = transfer.run(&mut client);
            transfer.bar.finish_and_clear();
            if let Err(error) = result {
                transfer.keep(&args);
                return Err(error);
            }
            transfer.done()
        }
    };
    report(summary, from, &args)?;
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
}

fn report(mut summary: Summary, sink: Sink, args: &GetArgs) -> anyhow::Result<()> {
    summary.sha256 = sink.finish().context("cannot write the file")?;
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

/// Rejects application-level Nacks and content that does not match its digest.
fn check(data: &Data<'_>) -> anyhow::Result<()> {
    if data.content_type == content_type::NACK {
        return Err(Failure::new(exit::NOT_FOUND, format!("the producer has no {}", data.name)).into());
    }
    let [signed, more] = data.signature.signed;
    if data.signature.info.typ == SignatureType::DigestSha256
        && byname_wire::digest::sha256(&[signed, more]) != data.signature.value
    {
        return Err(Failure::new(exit::FAILED, format!("{} does not match its digest", data.name)).into());
    }
    Ok(())
}

struct Transfer {
    base: Name,
    pipeline: Pipeline,
    sink: Sink,
    start: Instant,
    resumed_bytes: u64,
    lifetime_ms: u64,
    bar: ProgressBar,
    bar_total: u64,
}

impl Transfer {
    fn new(args: &GetArgs, base: Name, sink: Sink, start: Instant) -> Transfer {
        let bar = if args.quiet || args.json || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::no_length()
        };
        let style = ProgressStyle::with_template(
            "{bar:32} {percent:>3}%  {decimal_bytes} of about {decimal_total_bytes}  {decimal_bytes_per_sec}  eta {eta}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut pipeline = Pipeline::new(sink.segments(), 16, args.window_max as usize, args.tries);
        if let Sink::File(part) = &sink
            && let Some(last) = part.last()
        {
            pipeline.set_last(last);
        }
        Transfer {
            pipeline,
            base,
            resumed_bytes: sink.bytes(),
            sink,
            start,
            lifetime_ms: args.lifetime.as_millis() as u64,
            bar,
            bar_total: 0,
        }
    }

    fn run(&mut self, client: &mut Link) -> anyhow::Result<()> {
        self.bar.set_position(self.sink.bytes());
        self.bar.reset_eta();
        while !self.pipeline.is_complete() {
            if client.interrupted() {
                return Err(byname_client::ExchangeError::Interrupted.into());
            }
            let now = self.start.elapsed();
            self.pipeline.check_timeouts(now)?;
            while let Some(segment) = self.pipeline.next_to_send(now) {
                client.outbox().push(&self.interest(segment), Fields::default());
            }
            let mut result = Ok(());
            let now = self.start.elapsed();
            client.receive(self.pipeline.wait(now), |incoming, _| {
                if result.is_ok() {
                    result = self.on_packet(&incoming);
                }
            })?;
            result?;
            self.write()?;
        }
        Ok(())
    }

    fn interest(&self, segment: u64) -> Vec<u8> {
        let name = self.base.join_number(component_type::SEGMENT, segment);
        InterestBuilder::new(name, rand::random()).lifetime_ms(self.lifetime_ms).encode()
    }

    fn on_packet(&mut self, incoming: &Incoming<'_>) -> anyhow::Result<()> {
        let now = self.start.elapsed();
        if let Some(reason) = incoming.nack {
            let Ok(interest) = Interest::decode(incoming.packet) else { return Ok(()) };
            if let Some(segment) = self.segment_of(interest.name) {
                self.pipeline.on_nack(segment, reason, now)?;
            }
            return Ok(());
        }
        let Ok(data) = Data::decode(incoming.packet) else { return Ok(()) };
        let Some(segment) = self.segment_of(data.name) else { return Ok(()) };
        check(&data)?;
        if self.pipeline.on_data(segment, data.content, incoming.congestion_mark > 0, now)
            && let Some(last) = data.final_block.filter(|last| last.typ == component_type::SEGMENT)
            && let Some(last) = last.number()
        {
            self.pipeline.set_last(last);
            if let Sink::File(part) = &mut self.sink {
                part.set_last(last);
            }
            self.bar_total = last.saturating_add(1).saturating_mul(data.content.len() as u64).max(self.bar_total);
        }
        Ok(())
    }

    fn segment_of(&self, name: byname_wire::NameRef<'_>) -> Option<u64> {
        if !self.base.as_ref().is_prefix_of(&name) {
            return None;
        }
        let mut rest = name.components().skip(self.base.as_ref().len());
        let (segment, end) = (rest.next()?, rest.next());
        if segment.typ == component_type::SEGMENT && end.is_none() { segment.number() } else { None }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        while let Some((_, content)) = self.pipeline.take_next() {
            self.sink.append(&content).context("cannot write")?;
        }
        if !self.bar.is_hidden() {
            self.bar.set_length(self.bar_total.max(self.sink.bytes()));
            self.bar.set_position(self.sink.bytes());
        }
        Ok(())
    }

    /// After a failure: saves the received content and tells the user.
    fn keep(&mut self, args: &GetArgs) {
        if let (Ok(()), Some(path)) = (self.sink.save(), args.file()) {
            let have = human_bytes(self.sink.bytes());
            eprintln!("{have} kept in {}.part; run the same command again to resume", path.display());
        }
    }

    fn done(self) -> (Summary, Sink) {
        let mut summary = Summary::new(&self.base, self.start, self.resumed_bytes, &self.sink);
        summary.segments = self.pipeline.next_to_take();
        summary.retransmissions = self.pipeline.retransmissions;
        summary.congestion_marks = self.pipeline.congestion_marks;
        summary.rtt_ms = self.pipeline.rtt().as_secs_f64() * 1e3;
        (summary, self.sink)
    }
}
