//! `byname peek`: fetches one Data packet.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use byname_wire::data::content_type;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Name};
use serde::Serialize;

use crate::Connection;
use crate::exit;
use crate::tools::{TextOnly, is_plain, parse_ms, parse_packet_name};
use byname_client::fetch::resume::hex;

/// Arguments of `byname peek`.
#[derive(Debug, clap::Args)]
pub struct PeekArgs {
    /// Name of the Data
    #[arg(value_parser = parse_packet_name)]
    name: Name,
    /// Accept Data with longer names (CanBePrefix)
    #[arg(short = 'P', long)]
    prefix: bool,
    /// Accept only fresh Data (MustBeFresh)
    #[arg(short, long)]
    fresh: bool,
    /// Write only the content, not the whole packet
    #[arg(short, long)]
    payload: bool,
    /// InterestLifetime, in ms
    #[arg(short, long, value_name = "MS", default_value = "4000", value_parser = parse_ms)]
    lifetime: Duration,
    /// HopLimit
    #[arg(short = 'H', long, value_name = "N")]
    hop_limit: Option<u8>,
    /// Number of Interests to send before giving up
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// ApplicationParameters, as text
    #[arg(long, value_name = "TEXT")]
    parameters: Option<String>,
    /// Report sent and received packets on standard error
    #[arg(short, long)]
    verbose: bool,
    /// Describe the packet as JSON
    #[arg(long, conflicts_with = "payload")]
    json: bool,
}

/// Description of a packet. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Description {
    name: String,
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<String>,
    signature_type: String,
    content_bytes: usize,
    /// The content, if it is UTF-8.
    content_text: Option<String>,
    content_hex: String,
    implicit_sha256: String,
    rtt_ms: f64,
}

/// Runs `byname peek`.
pub fn run(args: PeekArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    let mut builder = InterestBuilder::new(args.name.clone(), rand::random())
        .can_be_prefix(args.prefix)
        .must_be_fresh(args.fresh)
        .lifetime_ms(args.lifetime.as_millis() as u64);
    if let Some(hops) = args.hop_limit {
        builder = builder.hop_limit(hops);
    }
    if let Some(parameters) = &args.parameters {
        builder = builder.application_parameters(parameters.clone().into_bytes());
    }
    if args.verbose {
        eprintln!("interest {} lifetime={} ms", args.name, args.lifetime.as_millis());
    }
    let start = Instant::now();
    let packet = client.exchange(&builder.encode(), args.tries)?;
    let rtt = start.elapsed();
    let data = packet.data();
    if args.verbose {
        eprintln!("data {} rtt={:.3} ms", data.name, rtt.as_secs_f64() * 1e3);
    }
    if data.content_type == content_type::NACK {
        eprintln!("warning: this is an application-level Nack from the producer");
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&describe(&data, rtt))?)?;
    } else if args.payload {
        if out.is_terminal() {
            TextOnly::default().check(data.content)?;
        }
        out.write_all(data.content)?;
    } else if out.is_terminal() {
        // A terminal cannot show TLVs.
        out.write_all(readable(&describe(&data, rtt)).as_bytes())?;
    } else {
        out.write_all(data.wire)?;
    }
    out.flush()?;
    Ok(exit::OK)
}

fn describe(data: &Data<'_>, rtt: Duration) -> Description {
    Description {
        name: data.name.to_string(),
        content_type: data.content_type,
        freshness_ms: data.freshness_ms,
        final_block: data.final_block.map(|component| Name::default().join(component).to_string()[1..].to_owned()),
        signature_type: format!("{:?}", data.signature.info.typ),
        content_bytes: data.content.len(),
        content_text: std::str::from_utf8(data.content).ok().map(str::to_owned),
        content_hex: hex(data.content),
        implicit_sha256: hex(&data.implicit_digest()),
        rtt_ms: rtt.as_secs_f64() * 1e3,
    }
}

/// Maximum number of bytes of binary content to show on a terminal.
const SHOWN_BYTES_MAX: usize = 256;

fn readable(d: &Description) -> String {
    let mut text = format!("{}\n", d.name);
    let mut line = |key: &str, value: String| text += &format!("{key:>14}  {value}\n");
    line("content type", d.content_type.to_string());
    line("freshness", format!("{} ms", d.freshness_ms));
    if let Some(last) = &d.final_block {
        line("final block", last.clone());
    }
    line("signature", d.signature_type.clone());
    line("sha256digest", d.implicit_sha256.clone());
    line("content", format!("{} bytes", d.content_bytes));
    match &d.content_text {
        Some(content) if is_plain(content) => text += content,
        _ if d.content_bytes > SHOWN_BYTES_MAX => {
            let more = d.content_bytes - SHOWN_BYTES_MAX;
            text += &format!("{}... {more} more\n", &d.content_hex[..2 * SHOWN_BYTES_MAX]);
        }
        _ => text += &d.content_hex,
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::data::DataBuilder;

    #[test]
    fn describes_text_and_binary() {
        let name: Name = "/a/seg=3".parse().unwrap();
        let last = name.clone();
        let data = |content: &[u8]| {
            DataBuilder::new(name.clone())
                .final_block(last.as_ref().component(-1).unwrap())
                .freshness_ms(5)
                .content(content.to_vec())
                .encode()
        };
        let text = data(b"hello");
        let text = readable(&describe(&Data::decode(&text).unwrap(), Duration::ZERO));
        assert!(text.starts_with("/a/seg=3\n") && text.ends_with("\nhello\n"), "{text}");
        assert!(text.contains("final block  seg=3\n") && text.contains("freshness  5 ms\n"), "{text}");
        let binary = data(b"\x1b[2J");
        let binary = readable(&describe(&Data::decode(&binary).unwrap(), Duration::ZERO));
        assert!(binary.ends_with("\n1b5b324a\n"), "{binary}");
        assert!(!binary.contains('\x1b'));
        let large = data(&[0xff; 300]);
        let large = readable(&describe(&Data::decode(&large).unwrap(), Duration::ZERO));
        assert!(large.ends_with("ff... 44 more\n"), "{large}");
    }
}
