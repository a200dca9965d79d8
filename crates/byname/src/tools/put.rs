//! `byname put`: publishes a file in segments, until Ctrl-C.
//!
//! The object is `/<name>/v=<version>/seg=<n>`. FinalBlockId names its last segment. `/<name>/32=metadata` answers with
//! the versioned name (RDR), so that `byname get`, ndn-cxx's catchunks, NDNts and ndnd find it. Segments are read and
//! signed when they are first requested, and then cached.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::tlv::{push_tlv, types};
use byname_wire::{Interest, Name};
use ring::digest::{Context as DigestContext, SHA256};
use serde::Serialize;

use crate::Connection;
use crate::exit;
use crate::tools::{check_packet_size, human_bytes, parse_ms, parse_name, register};
use byname_client::fetch::discovery::metadata_name;
use byname_client::fetch::resume::hex;
use byname_client::{Fields, Outbox};

/// FreshnessPeriod of metadata: short, so that consumers find new versions soon.
const METADATA_FRESHNESS_MS: u64 = 10;
/// Maximum size of the cache of encoded segments.
const CACHE_BYTES_MAX: usize = 256 << 20;

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

enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn read_at(&self, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
        let mut content = vec![0; len];
        match self {
            Source::File(file) => file.read_exact_at(&mut content, offset)?,
            Source::Memory(bytes) => content.copy_from_slice(&bytes[offset as usize..offset as usize + len]),
        }
        Ok(content)
    }
}

/// A published object.
struct Publication {
    name: Name,
    versioned: Name,
    metadata: Name,
    source: Source,
    bytes: u64,
    segment_bytes: u64,
    segments: u64,
    freshness_ms: u64,
    /// Encoded segments by number.
    cache: Vec<Option<Box<[u8]>>>,
    cache_bytes: usize,
}

/// Runs `byname put`.
pub fn run(args: PutArgs, connection: &Connection) -> anyhow::Result<u8> {
    let (mut publication, sha256) = Publication::open(&args)?;
    check_packet_size(publication.segment(0).context("cannot read the file")?.len())
        .context("choose a smaller --segment-size")?;
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    register(&mut client, &publication.name, args.announce)?;
    let description = Description {
        name: publication.name.to_string(),
        versioned_name: publication.versioned.to_string(),
        bytes: publication.bytes,
        segments: publication.segments,
        segment_bytes: args.segment_size,
        sha256,
    };
    announce(&description, args.json)?;
    let mut served = (0u64, 0u64);
    let served_all = client.serve(|interest, incoming, outbox| {
        let fields = Fields { pit_token: incoming.pit_token, congestion_mark: incoming.congestion_mark };
        served.0 += 1;
        served.1 += publication.answer(interest, fields, outbox);
        true
    });
    if !args.json {
        eprintln!("\nserved {} in answer to {} Interests", human_bytes(served.1), served.0);
    }
    served_all.with_context(|| format!("{} is no longer served", publication.name))?;
    Ok(exit::OK)
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

impl Publication {
    /// Opens the source and computes its SHA-256.
    fn open(args: &PutArgs) -> anyhow::Result<(Publication, String)> {
        let (source, bytes, version, sha256) = if args.file.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
            let sha256 = hex(&byname_wire::digest::sha256(&[&bytes]));
            let len = bytes.len() as u64;
            (Source::Memory(bytes), len, SystemTime::now(), sha256)
        } else {
            let path = args.file.display();
            let mut file = File::open(&args.file).with_context(|| format!("cannot open {path}"))?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                bail!("{path} is not a regular file");
            }
            let (sha256, bytes) = digest_file(&mut file).with_context(|| format!("cannot read {path}"))?;
            (Source::File(file), bytes, metadata.modified()?, sha256)
        };
        let version = args.object_version.unwrap_or_else(|| {
            version.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        });
        let last = args.name.as_ref().component(-1);
        let (name, versioned) = match last {
            Some(last) if last.typ == component_type::VERSION && args.object_version.is_none() => {
                let unversioned = args.name.as_ref().prefix(args.name.as_ref().len() - 1).to_name();
                (unversioned, args.name.clone())
            }
            _ => (args.name.clone(), args.name.join_number(component_type::VERSION, version)),
        };
        let segment_bytes = u64::from(args.segment_size);
        let segments = bytes.div_ceil(segment_bytes).max(1);
        let publication = Publication {
            metadata: metadata_name(&name),
            name,
            versioned,
            source,
            bytes,
            segment_bytes,
            segments,
            freshness_ms: args.freshness.as_millis() as u64,
            cache: Vec::new(),
            cache_bytes: 0,
        };
        Ok((publication, sha256))
    }

    /// Queues the answer to `interest`, if there is one, and returns its size in bytes.
    fn answer(&mut self, interest: &Interest<'_>, fields: Fields, outbox: &mut Outbox) -> u64 {
        let name = interest.name;
        if let Some(number) = self.segment_number(interest) {
            if number >= self.segments {
                return 0;
            }
            return match self.segment(number) {
                Ok(packet) => {
                    outbox.push(packet, fields);
                    packet.len() as u64
                }
                Err(error) => {
                    eprintln!("cannot read segment {number}: {error}; was the file changed?");
                    0
                }
            };
        }
        if interest.can_be_prefix && name == self.metadata.as_ref() {
            let packet = self.metadata_packet();
            outbox.push(&packet, fields);
            return packet.len() as u64;
        }
        0
    }

    /// The segment that answers an Interest: the segment with its name, or segment 0 if it asks for a prefix of the
    /// versioned name.
    fn segment_number(&self, interest: &Interest<'_>) -> Option<u64> {
        let name = interest.name;
        let (versioned, base) = (self.versioned.as_ref(), self.name.as_ref());
        if versioned.is_prefix_of(&name) && name != versioned {
            let last = name.component(-1)?;
            let is_segment = last.typ == component_type::SEGMENT && name.len() == versioned.len() + 1;
            return is_segment.then(|| last.number()).flatten();
        }
        (interest.can_be_prefix && base.is_prefix_of(&name) && name.is_prefix_of(&versioned)).then_some(0)
    }

    /// The encoded segment `number`, which is below `self.segments`.
    fn segment(&mut self, number: u64) -> std::io::Result<&[u8]> {
        let at = usize::try_from(number).map_err(std::io::Error::other)?;
        if self.cache.len() <= at {
            self.cache.resize_with(at + 1, || None);
        }
        if self.cache[at].is_none() {
            let packet = self.encode_segment(number)?;
            self.cache_bytes += packet.len();
            if self.cache_bytes > CACHE_BYTES_MAX {
                // Clear the whole cache: consumers read the file in order, so old segments are rarely requested again
                // soon.
                self.cache.iter_mut().for_each(|segment| *segment = None);
                self.cache_bytes = packet.len();
            }
            self.cache[at] = Some(packet.into());
        }
        Ok(self.cache[at].as_deref().unwrap_or_default())
    }

    fn encode_segment(&self, number: u64) -> std::io::Result<Vec<u8>> {
        let offset = number * self.segment_bytes;
        let len = self.segment_bytes.min(self.bytes - offset) as usize;
        let last = Name::default().join_number(component_type::SEGMENT, self.segments - 1);
        let mut builder = DataBuilder::new(self.versioned.join_number(component_type::SEGMENT, number))
            .freshness_ms(self.freshness_ms)
            .content(self.source.read_at(offset, len)?);
        if let Some(last) = last.as_ref().component(0) {
            builder = builder.final_block(last);
        }
        Ok(builder.encode())
    }

    fn metadata_packet(&self) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = self
            .metadata
            .join_number(component_type::VERSION, now.as_micros() as u64)
            .join_number(component_type::SEGMENT, 0);
        let mut content = Vec::new();
        push_tlv(&mut content, types::NAME, self.versioned.value());
        let mut builder = DataBuilder::new(name.clone()).freshness_ms(METADATA_FRESHNESS_MS).content(content);
        if let Some(last) = name.as_ref().component(-1) {
            builder = builder.final_block(last);
        }
        builder.encode()
    }
}

fn digest_file(file: &mut File) -> std::io::Result<(String, u64)> {
    let mut context = DigestContext::new(&SHA256);
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hex(context.finish().as_ref()), bytes)),
            n => {
                context.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Data;
    use byname_wire::interest::InterestBuilder;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        put: PutArgs,
    }

    fn publication(content: &[u8], arguments: &[&str]) -> Publication {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let path = file.path().to_str().unwrap();
        let arguments = ["put"].iter().chain(arguments).chain([&path, &"--segment-size", &"10"]).copied();
        Publication::open(&Cli::parse_from(arguments.collect::<Vec<_>>()).put).unwrap().0
    }

    fn answer(publication: &mut Publication, name: &str, can_be_prefix: bool) -> Option<Vec<u8>> {
        let wire = InterestBuilder::new(name.parse().unwrap(), 1).can_be_prefix(can_be_prefix).encode();
        let mut outbox = Outbox::new(None, 0);
        publication.answer(&Interest::decode(&wire).unwrap(), Fields::default(), &mut outbox);
        outbox.frames().next().map(<[u8]>::to_vec)
    }

    #[test]
    fn segments_and_their_end() {
        let mut publication = publication(b"0123456789abcdefghij-", &["/f/v=7"]);
        for (segment, content) in [(0, "0123456789"), (1, "abcdefghij"), (2, "-")] {
            let packet = answer(&mut publication, &format!("/f/v=7/seg={segment}"), false).unwrap();
            let data = Data::decode(&packet).unwrap();
            assert_eq!(data.content, content.as_bytes());
            assert_eq!(data.final_block.unwrap().number(), Some(2));
        }
        for (name, can_be_prefix) in [
            ("/f/v=7/seg=3", false),
            ("/f/v=7/seg=0/x", false),
            ("/f/v=7/x", false),
            ("/f/v=8/seg=0", false),
            ("/f/v=7", false),
            ("/f", false),
            ("/f/32=metadata", false),
            ("/g", true),
        ] {
            assert_eq!(answer(&mut publication, name, can_be_prefix), None, "{name}");
        }
    }

    #[test]
    fn short_names_find_the_version() {
        let mut publication = publication(b"", &["/f", "--object-version", "5"]);
        for name in ["/f", "/f/v=5"] {
            let packet = answer(&mut publication, name, true).unwrap();
            assert_eq!(Data::decode(&packet).unwrap().name.to_string(), "/f/v=5/seg=0");
        }
        let packet = answer(&mut publication, "/f/32=metadata", true).unwrap();
        let data = Data::decode(&packet).unwrap();
        assert!(data.name.to_string().starts_with("/f/32=metadata/v="));
        assert_eq!(data.freshness_ms, METADATA_FRESHNESS_MS);
        assert_eq!(data.content[0], 0x07);
        assert_eq!(&data.content[2..], publication.versioned.value());
    }

    #[test]
    fn the_version_is_the_time_of_the_last_change() {
        let publication = publication(b"x", &["/f"]);
        let version = publication.versioned.as_ref().component(-1).unwrap().number().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!((now - 60_000..=now).contains(&version));
    }
}
