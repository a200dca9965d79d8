//! `byname put`: publishes a file in segments, until Ctrl-C. It outlives its forwarder.
//!
//! [`byname_client::publish`] says under which names.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use byname_client::management::RegisterOptions;
use byname_client::publish::{Content, Publication, PublishOptions};
use byname_client::{Client, ConnectionLost};
use byname_trust::Signer;
use byname_wire::Name;
use serde::Serialize;

use crate::Connection;
use crate::exit;
use crate::tools::{check_packet_size, human_bytes, not_local, parse_ms, parse_name};

/// Time between two looks at what has failed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `byname put`.
#[derive(Debug, clap::Args)]
pub struct PutArgs {
    /// Name to publish under; byname appends a version unless the name has one (/doc/v=7)
    #[arg(value_parser = parse_name)]
    name: Name,
    /// File to publish; - for standard input
    file: PathBuf,
    /// Bytes of the file in each segment
    #[arg(short, long, value_name = "BYTES", default_value_t = 8000, value_parser = clap::value_parser!(u16).range(1..=8700))]
    segment_size: u16,
    /// FreshnessPeriod of the segments, in ms
    #[arg(short = 'x', long, value_name = "MS", default_value = "10000", value_parser = parse_ms)]
    freshness: Duration,
    /// Version number [default: the file's modification time, in ms since 1970]
    #[arg(long = "object-version", value_name = "N")]
    object_version: Option<u64>,
    /// Let the forwarder announce the name to its routing daemon
    #[arg(long)]
    announce: bool,
    /// Print a description of the object as JSON
    #[arg(long)]
    json: bool,
}

/// Description of the published object. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Description {
    name: String,
    versioned_name: String,
    bytes: u64,
    segments: u64,
    segment_bytes: u16,
    sha256: String,
}

/// Runs `byname put`.
pub fn run(args: PutArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut publication = open(&args)?;
    check_packet_size(publication.segment(0, &Signer::digest())?.len()).context("choose a smaller --segment-size")?;
    let mut client = connection.application_through(Duration::MAX)?;
    exit::on_signals(&client.interrupt_flag())?;
    let description = Description {
        name: publication.name().to_string(),
        versioned_name: publication.versioned_name().to_string(),
        bytes: publication.bytes(),
        segments: publication.segments(),
        segment_bytes: args.segment_size,
        sha256: publication.sha256().to_owned(),
    };
    let name = publication.name().clone();
    let over = client.link().map(|link| not_local(link)).unwrap_or_default();
    let published = client.publish(publication, RegisterOptions { announce: args.announce });
    published.with_context(|| format!("cannot register {name}{over}"))?;
    announce(&description, args.json)?;
    let served_all = serve(&mut client, &name);
    let served = client.publication(&name).map(Publication::counters).unwrap_or_default();
    if !args.json {
        eprintln!("\nserved {} in answer to {} Interests", human_bytes(served.bytes), served.interests);
    }
    served_all.with_context(|| format!("{name} is no longer served"))?;
    Ok(exit::OK)
}

/// Serves until it is interrupted. Tells what cannot be served, and when the forwarder is gone and back.
fn serve(client: &mut Client, name: &Name) -> Result<(), ConnectionLost> {
    let mut was_served = true;
    while !client.interrupted() {
        client.run(LOOK_EVERY)?;
        client.take_failures().iter().for_each(|failure| eprintln!("{failure}"));
        let is_served = client.session().is_registered(name);
        match (was_served, is_served) {
            (true, false) => eprintln!("the forwarder is gone, or has closed this face; {name} waits for it"),
            (false, true) => eprintln!("the forwarder is back; {name} is served again"),
            _ => {}
        }
        was_served = is_served;
    }
    Ok(())
}

/// Opens what is published, and computes its SHA-256.
fn open(args: &PutArgs) -> anyhow::Result<Publication> {
    let content = if args.file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
        Content::of_bytes(bytes)
    } else {
        let path = args.file.display();
        if !args.file.metadata().with_context(|| format!("cannot open {path}"))?.is_file() {
            bail!("{path} is not a regular file");
        }
        Content::of_file(&args.file).with_context(|| format!("cannot read {path}"))?
    };
    let options = PublishOptions {
        segment_bytes: args.segment_size.into(),
        freshness: args.freshness,
        version: args.object_version,
    };
    Ok(Publication::new(&args.name, content, options))
}

fn announce(d: &Description, json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(d)?)?;
    } else {
        writeln!(out, "{}", d.versioned_name)?;
        writeln!(out, "  {} in {} segments", human_bytes(d.bytes), d.segments)?;
        writeln!(out, "  SHA-256 {}", d.sha256)?;
        writeln!(out, "fetch it with: byname get {} -o FILE", d.name)?;
        writeln!(out, "serving; Ctrl-C stops")?;
    }
    Ok(out.flush()?)
}
