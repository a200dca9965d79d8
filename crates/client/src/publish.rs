//! Publishing an object in segments.
//!
//! The object is `/<name>/v=<version>/seg=<n>`. FinalBlockId names its last segment. `/<name>/32=metadata` answers with
//! the versioned name (RDR), so that `byname get`, ndn-cxx's catchunks, NDNts and ndnd find it. Segments are read and
//! signed when they are first requested, and then cached.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byname_trust::{Signer, SignerError};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::tlv::{push_tlv, types};
use byname_wire::{Interest, Name};
use thiserror::Error;

use crate::clock::as_ms;
use crate::fetch::discovery::metadata_name;
use crate::fetch::resume::{digest_file, hex};

/// FreshnessPeriod of metadata: short, so that consumers find new versions soon.
const METADATA_FRESHNESS_MS: u64 = 10;
/// Maximum size of the cache of encoded segments.
const CACHE_BYTES_MAX: usize = 256 << 20;

/// The reason why a segment cannot be published.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The file cannot be read, or has become shorter.
    #[error("cannot read segment {segment}: {error}; was the file changed?")]
    Read {
        /// The segment.
        segment: u64,
        /// The reason.
        error: io::Error,
    },
    /// The key cannot sign.
    #[error(transparent)]
    Sign(#[from] SignerError),
}

enum Source {
    File(File),
    Memory(Vec<u8>),
}

/// What is published, before it has a name.
pub struct Content {
    source: Source,
    bytes: u64,
    sha256: String,
    /// Time of its last change, since the Unix epoch.
    changed: Duration,
}

impl Content {
    /// Bytes, changed now.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        let sha256 = hex(&byname_wire::digest::sha256(&[&bytes]));
        let len = bytes.len() as u64;
        Content { source: Source::Memory(bytes), bytes: len, sha256, changed: since_epoch(SystemTime::now()) }
    }

    /// A file, which stays where it is. Reads it once for its SHA-256.
    ///
    /// # Errors
    /// It cannot be read, or is no regular file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let (sha256, bytes) = digest_file(&mut file)?;
        Ok(Content { source: Source::File(file), bytes, sha256, changed: since_epoch(metadata.modified()?) })
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut content = vec![0; len];
        match &self.source {
            Source::File(file) => file.read_exact_at(&mut content, offset)?,
            Source::Memory(bytes) => content.copy_from_slice(&bytes[offset as usize..offset as usize + len]),
        }
        Ok(content)
    }
}

/// How to publish an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishOptions {
    /// Bytes of content in each segment, at least 1.
    pub segment_bytes: u64,
    /// FreshnessPeriod of the segments.
    pub freshness: Duration,
    /// The version. `None`: that of the name (`/doc/v=7`), or else the time of the last change in ms since 1970.
    pub version: Option<u64>,
}

impl Default for PublishOptions {
    fn default() -> Self {
        PublishOptions { segment_bytes: 8000, freshness: Duration::from_secs(10), version: None }
    }
}

/// What a publication has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublicationCounters {
    /// Interests that came.
    pub interests: u64,
    /// Those that it answered.
    pub answered: u64,
    /// Bytes of the packets in the answers.
    pub bytes: u64,
    /// Those that it could not answer, because the content could not be read or signed.
    pub failed: u64,
}

/// A published object.
///
/// ```
/// use byname_client::interest;
/// use byname_client::publish::{Content, Publication, PublishOptions};
/// use byname_trust::Signer;
/// use byname_wire::{Data, Interest, Name};
///
/// let name: Name = "/example/file/v=7".parse()?;
/// let content = Content::of_bytes(b"hello".to_vec());
/// let mut file = Publication::new(&name, content, PublishOptions::default());
/// let asked = interest(&"/example/file/v=7/seg=0".parse()?).encode();
/// let packet = file.answer(&Interest::decode(&asked)?, &Signer::digest())?.ok_or("no such segment")?;
/// assert_eq!(Data::decode(packet)?.content, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Publication {
    name: Name,
    versioned: Name,
    metadata: Name,
    content: Content,
    segment_bytes: u64,
    segments: u64,
    freshness_ms: u64,
    /// Encoded segments by number.
    cache: Vec<Option<Box<[u8]>>>,
    cache_bytes: usize,
    /// The newest metadata packet.
    metadata_packet: Vec<u8>,
    counters: PublicationCounters,
}

/// The place of an answer.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Segment(usize),
    Metadata,
}

impl Publication {
    /// Publishes content under a name. The last component of the name may be a version.
    pub fn new(name: &Name, content: Content, options: PublishOptions) -> Self {
        let last = name.as_ref().component(-1);
        let (name, versioned) = match last {
            Some(last) if last.typ == component_type::VERSION && options.version.is_none() => {
                (name.as_ref().prefix(name.as_ref().len() - 1).to_name(), name.clone())
            }
            _ => {
                let version = options.version.unwrap_or(as_ms(content.changed));
                (name.clone(), name.join_number(component_type::VERSION, version))
            }
        };
        let segment_bytes = options.segment_bytes.max(1);
        Publication {
            metadata: metadata_name(&name),
            name,
            versioned,
            segments: content.bytes.div_ceil(segment_bytes).max(1),
            content,
            segment_bytes,
            freshness_ms: as_ms(options.freshness),
            cache: Vec::new(),
            cache_bytes: 0,
            metadata_packet: Vec::new(),
            counters: PublicationCounters::default(),
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> PublicationCounters {
        self.counters
    }

    /// The name without the version: the prefix to register.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The name with the version.
    pub fn versioned_name(&self) -> &Name {
        &self.versioned
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.content.bytes
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// SHA-256 of the content, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.content.sha256
    }

    /// The Data that answers an Interest, if there is one.
    ///
    /// # Errors
    /// It cannot be read or signed.
    pub fn answer(&mut self, interest: &Interest<'_>, signer: &Signer) -> Result<Option<&[u8]>, PublishError> {
        self.counters.interests += 1;
        let answer = self.prepare(interest, signer).inspect_err(|_| self.counters.failed += 1)?;
        let packet = match answer {
            Some(Answer::Segment(at)) => self.cache[at].as_deref().unwrap_or_default(),
            Some(Answer::Metadata) => &self.metadata_packet,
            None => return Ok(None),
        };
        self.counters.answered += 1;
        self.counters.bytes += packet.len() as u64;
        Ok(Some(packet))
    }

    fn prepare(&mut self, interest: &Interest<'_>, signer: &Signer) -> Result<Option<Answer>, PublishError> {
        if let Some(number) = self.segment_number(interest) {
            let is_there = number < self.segments;
            return is_there.then(|| self.prepare_segment(number, signer).map(Answer::Segment)).transpose();
        }
        if interest.can_be_prefix && interest.name == self.metadata.as_ref() {
            self.metadata_packet = self.encode_metadata(signer)?;
            return Ok(Some(Answer::Metadata));
        }
        Ok(None)
    }

    /// The encoded segment `number`.
    ///
    /// # Errors
    /// It cannot be read or signed.
    pub fn segment(&mut self, number: u64, signer: &Signer) -> Result<&[u8], PublishError> {
        let at = self.prepare_segment(number, signer)?;
        Ok(self.cache[at].as_deref().unwrap_or_default())
    }

    /// Puts a segment into the cache. Returns its place there.
    fn prepare_segment(&mut self, number: u64, signer: &Signer) -> Result<usize, PublishError> {
        let read = |error| PublishError::Read { segment: number, error };
        let at = usize::try_from(number).map_err(|error| read(io::Error::other(error)))?;
        if self.cache.len() <= at {
            self.cache.resize_with(at + 1, || None);
        }
        if self.cache[at].is_none() {
            let packet = signer.sign_data(&self.unsigned_segment(number).map_err(read)?)?;
            self.cache_bytes += packet.len();
            if self.cache_bytes > CACHE_BYTES_MAX {
                // Clear the whole cache: consumers read the file in order, so old segments are rarely requested again
                // soon.
                self.cache.iter_mut().for_each(|segment| *segment = None);
                self.cache_bytes = packet.len();
            }
            self.cache[at] = Some(packet.into());
        }
        Ok(at)
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

    fn unsigned_segment(&self, number: u64) -> io::Result<DataBuilder> {
        let offset = number.saturating_mul(self.segment_bytes).min(self.content.bytes);
        let len = self.segment_bytes.min(self.content.bytes - offset) as usize;
        let last = Name::default().join_number(component_type::SEGMENT, self.segments - 1);
        let builder = DataBuilder::new(self.versioned.join_number(component_type::SEGMENT, number))
            .freshness_ms(self.freshness_ms)
            .content(self.content.read_at(offset, len)?);
        Ok(match last.as_ref().component(0) {
            Some(last) => builder.final_block(last),
            None => builder,
        })
    }

    fn encode_metadata(&self, signer: &Signer) -> Result<Vec<u8>, SignerError> {
        let now_us = u64::try_from(since_epoch(SystemTime::now()).as_micros()).unwrap_or(u64::MAX);
        let versioned = self.metadata.join_number(component_type::VERSION, now_us);
        let name = versioned.join_number(component_type::SEGMENT, 0);
        let mut content = Vec::new();
        push_tlv(&mut content, types::NAME, self.versioned.value());
        let mut builder = DataBuilder::new(name.clone()).freshness_ms(METADATA_FRESHNESS_MS).content(content);
        if let Some(last) = name.as_ref().component(-1) {
            builder = builder.final_block(last);
        }
        signer.sign_data(&builder)
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Data;
    use byname_wire::interest::InterestBuilder;

    fn publication(content: &[u8], name: &str, version: Option<u64>) -> Publication {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let content = Content::of_file(file.path()).unwrap();
        let options = PublishOptions { segment_bytes: 10, version, ..PublishOptions::default() };
        Publication::new(&name.parse().unwrap(), content, options)
    }

    fn answer(publication: &mut Publication, name: &str, can_be_prefix: bool) -> Option<Vec<u8>> {
        let wire = InterestBuilder::new(name.parse().unwrap(), 1).can_be_prefix(can_be_prefix).encode();
        let answer = publication.answer(&Interest::decode(&wire).unwrap(), &Signer::digest()).unwrap();
        answer.map(<[u8]>::to_vec)
    }

    #[test]
    fn segments_and_their_end() {
        let mut publication = publication(b"0123456789abcdefghij-", "/f/v=7", None);
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
        let mut publication = publication(b"", "/f", Some(5));
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
        let publication = publication(b"x", "/f", None);
        let version = publication.versioned.as_ref().component(-1).unwrap().number().unwrap();
        let now = since_epoch(SystemTime::now()).as_millis() as u64;
        assert!((now - 60_000..=now).contains(&version));
    }
}
