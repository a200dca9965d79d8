//! `byname trace`: what happens to packets below a prefix, as it happens.

mod pcapng;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use byname_control::mgmt::tlv::trace::{TraceChunk, TraceEvent, trace_flags};
use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_wire::tlv::Reader;
use byname_wire::{DecodeError, Name};

use self::pcapng::CommentedCapture;
use self::view::Event;
use crate::Connection;
use crate::manage::face;
use crate::tools::parse_name;
use crate::{exit, exit::Failure};
use byname_client::management::{ManagementError, command, slow_command};
use byname_client::{ExchangeError, Link};

/// Packets that are shown if nobody says how many.
const COUNT: u64 = 10;
/// Time between two questions if nothing happens.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the router may take for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Most bytes of one event: a name and a packet, and what is said of them.
const EVENT_BYTES_MAX: usize = 1 << 16;
/// Most faces whose URIs are remembered.
const URIS_MAX: usize = 4096;

/// Arguments of `byname trace`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It ends after --count packets (10 unless you say otherwise), or with --follow on Ctrl-C. Prefix / means \
                  all packets, except those of management.\n\nExamples:\n  \
                  byname trace /ndn/edu/arizona\n  \
                  byname trace / --dropped --follow                  why are packets dropped?\n  \
                  byname trace /video --for 30s --pcapng video.pcapng    for Wireshark, with comments"
)]
pub struct TraceArgs {
    /// Trace packets with names at or below this prefix
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// Stop after this many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show only what is dropped, refused or not answered
    #[arg(long)]
    dropped: bool,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// Also write the packets to this file, each with its trace as a comment that Wireshark shows
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Print JSON: one object on each line
    #[arg(long)]
    json: bool,
}

impl TraceArgs {
    fn parameters(&self) -> ControlParameters {
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        let flags =
            flag(self.dropped, trace_flags::ONLY_DROPPED) | flag(self.pcapng.is_some(), trace_flags::WITH_PACKETS);
        ControlParameters { name: Some(self.prefix.clone()), flags: Some(flags), ..ControlParameters::default() }
    }

    fn count_max(&self) -> Option<u64> {
        self.count.or((!self.follow && self.time.is_none()).then_some(COUNT))
    }
}

/// Runs `byname trace`.
pub fn run(args: TraceArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    let capture = args.pcapng.as_deref().map(CommentedCapture::create).transpose()?;
    match command(&mut client, "trace", "start", &args.parameters()) {
        Ok(_) => {}
        Err(ManagementError::Refused { code: 501, .. }) => bail!("this forwarder traces no packets; byname does"),
        Err(error) => return Err(error.into()),
    }
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "tracing packets below {}; Ctrl-C ends it", args.prefix);
    let mut trace = Trace { args, capture, uris: HashMap::new(), stream: Vec::new(), offset: 0, seen: 0, lost: 0 };
    let outcome = trace.follow(&mut client);
    if !client.interrupted() {
        // The trace also ends with the connection.
        let _ = command(&mut client, "trace", "stop", &ControlParameters::default());
    }
    if let Some(capture) = trace.capture.take() {
        capture.finish()?;
    }
    if trace.lost > 0 {
        let _ = writeln!(std::io::stderr(), "{} more packets found no room in the trace", trace.lost);
    }
    outcome.map(|()| exit::OK)
}

/// A trace that is being read.
struct Trace {
    args: TraceArgs,
    capture: Option<CommentedCapture>,
    /// Remote URIs of faces. `None`: there is no such face any more.
    uris: HashMap<u64, Option<String>>,
    /// Bytes that are not yet a whole event.
    stream: Vec<u8>,
    /// Number of bytes that were read.
    offset: u64,
    seen: u64,
    lost: u64,
}

impl Trace {
    /// Shows events until the end that the arguments ask for.
    fn follow(&mut self, client: &mut Link) -> anyhow::Result<()> {
        let end = self.args.time.and_then(|time| Instant::now().checked_add(time));
        while !client.interrupted() && !self.is_complete() {
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            let chunk = match self.read(client) {
                Err(error) if client.interrupted() => {
                    tracing::debug!(%error, "interrupted");
                    return Ok(());
                }
                other => other?,
            };
            self.lost = chunk.lost;
            let bytes = chunk.bytes.unwrap_or_default();
            self.offset = chunk.offset + bytes.len() as u64;
            self.stream.extend_from_slice(&bytes);
            self.show_events(client)?;
            if bytes.is_empty() {
                if is_over {
                    break;
                }
                std::thread::sleep(end.map_or(PAUSE, |end| PAUSE.min(end.saturating_duration_since(Instant::now()))));
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.args.count_max().is_some_and(|count| self.seen >= count)
    }

    fn read(&self, client: &mut Link) -> anyhow::Result<TraceChunk> {
        let parameters = ControlParameters { count: Some(self.offset), ..ControlParameters::default() };
        let answer = match slow_command(client, "trace", "read", &parameters, PATIENCE) {
            // An answer may be lost on the way; the same part can be had again.
            Err(ManagementError::Unanswered { error: ExchangeError::Timeout { .. }, .. }) => {
                slow_command(client, "trace", "read", &parameters, PATIENCE)?
            }
            other => other?,
        };
        match answer {
            ControlResponse { code: 200, body, .. } => Ok(TraceChunk::decode(&body).context("the trace is malformed")?),
            ControlResponse { code: 404, .. } => {
                Err(Failure::new(exit::FAILED, "the forwarder has ended the trace; it may have restarted").into())
            }
            ControlResponse { code, text, .. } => bail!("the forwarder refuses trace/read: {text} (code {code})"),
        }
    }

    /// Shows the events that have arrived as a whole.
    fn show_events(&mut self, client: &mut Link) -> anyhow::Result<()> {
        let stream = std::mem::take(&mut self.stream);
        let (mut reader, mut done) = (Reader::new(&stream), 0);
        loop {
            match reader.next_tlv() {
                Ok(Some(tlv)) if tlv.typ == TraceEvent::TYPE => {
                    done += tlv.wire.len();
                    let event = TraceEvent::decode_value(tlv.value).context("an event of the trace is malformed")?;
                    if !self.is_complete() {
                        self.show(client, event)?;
                    }
                }
                Ok(None) => break,
                Err(DecodeError::Truncated) if stream.len() - done < EVENT_BYTES_MAX => break,
                Ok(Some(_)) | Err(_) => bail!("the trace is malformed"),
            }
        }
        self.stream = stream[done..].to_vec();
        std::io::stdout().flush()?;
        Ok(())
    }

    fn show(&mut self, client: &mut Link, event: TraceEvent) -> anyhow::Result<()> {
        self.seen += 1;
        self.learn_uris(client, &event)?;
        let packet = event.packet.clone();
        let event = Event::new(event, &self.uris);
        let mut out = std::io::stdout().lock();
        if self.args.json {
            writeln!(out, "{}", serde_json::to_string(&event)?)?;
        } else {
            writeln!(out, "{}", event.line())?;
        }
        if let (Some(capture), Some(packet)) = (&mut self.capture, packet) {
            capture.write(&event, &packet)?;
        }
        Ok(())
    }

    /// Asks for the URIs of faces that were not seen before.
    fn learn_uris(&mut self, client: &mut Link, event: &TraceEvent) -> anyhow::Result<()> {
        let faces = event.sent.iter().map(|sent| sent.face_id).chain([event.face_id]);
        let new: BTreeSet<u64> = faces.filter(|face| !self.uris.contains_key(face)).collect();
        if new.is_empty() {
            return Ok(());
        }
        if self.uris.len() > URIS_MAX {
            self.uris.clear();
        }
        let mut known = face::uris(client, &new)?;
        self.uris.extend(new.into_iter().map(|face| (face, known.remove(&face))));
        Ok(())
    }
}
