//! The transfer of a segmented object, without I/O: [`Segments::poll`] makes Interests, [`Segments::on_data`] takes
//! answers, and the content comes out in order.
//!
//! A packet is checked when it is next in order: [`Segments::next_packet`] shows it, and the caller accepts or rejects
//! it. So a FinalBlockId ends the object only in a packet that is trusted, and a packet that waits for certificates holds back
//! the content, and not the requests.
//!
//! # Bounds
//! The pipeline bounds the memory. [`FetchOptions`] bounds the object: a producer can make segments forever. The end of
//! an object may move further away, as it does when a producer appends. It never comes nearer.

use std::time::Duration;

use byname_wire::data::content_type;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Data, DecodeError, NackReason, Name, NameRef};
use thiserror::Error;

use super::pipeline::{Pipeline, PipelineError};
use crate::clock::as_ms;
use crate::link::{ConnectionLost, DataPacket, ExchangeError};
use crate::verify::Doubt;

/// The reason why an object was not fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The object was not found.
    #[error("cannot find {name}: {error}")]
    NotFound {
        /// The name that was asked for.
        name: Name,
        /// The reason.
        error: ExchangeError,
    },
    /// Segments did not arrive.
    #[error(transparent)]
    Pipeline(PipelineError),
    /// The producer says that it does not have this.
    #[error("the producer has no {0}")]
    NoSuchData(Name),
    /// A packet is not trusted.
    #[error("{name} is not trusted: {doubt}")]
    Untrusted {
        /// Name of the packet.
        name: Name,
        /// The reason.
        doubt: Doubt,
    },
    /// The end of the object moved to an earlier segment.
    #[error("segment {segment} says that segment {last} is the last one, and an earlier one said {before}")]
    Shrunk {
        /// The segment that says so.
        segment: u64,
        /// The end that it names.
        last: u64,
        /// The end that was known before: at least the segment itself.
        before: u64,
    },
    /// The object is larger than [`FetchOptions`] permit.
    #[error("the object is larger than {bytes_max} bytes or {segments_max} segments, which is the limit here")]
    TooLarge {
        /// Most bytes.
        bytes_max: u64,
        /// Most segments.
        segments_max: u64,
    },
    /// A stored packet is malformed.
    #[error("segment {segment} is malformed: {error}")]
    Malformed {
        /// The segment.
        segment: u64,
        /// The defect.
        error: DecodeError,
    },
    /// The connection to the router is gone.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
    /// There was no connection to a router for too long.
    #[error("no connection to a router for {} s", waited.as_secs())]
    Offline {
        /// How long the transfer has made no progress.
        waited: Duration,
    },
    /// The flag of [`crate::Link::interrupt_flag`] was set.
    #[error("interrupted")]
    Interrupted,
    /// No such transfer is under way.
    #[error("this transfer has ended")]
    Ended,
}

/// How to fetch an object.
///
/// ```
/// use byname_client::fetch::FetchOptions;
///
/// // The first three segments are here already.
/// let options = FetchOptions { first: 3, bytes_max: 10_000_000, ..FetchOptions::default() };
/// assert_eq!(options.tries, 15);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchOptions {
    /// InterestLifetime.
    pub lifetime: Duration,
    /// Most segments to request at a time.
    pub window_max: usize,
    /// Number of Interests for a segment before giving up.
    pub tries: u32,
    /// The first segment to fetch.
    pub first: u64,
    /// The last segment, if known.
    pub last: Option<u64>,
    /// Most bytes to fetch.
    pub bytes_max: u64,
    /// Most segments to fetch.
    pub segments_max: u64,
}

impl Default for FetchOptions {
    /// No limit on the object; otherwise the defaults of `byname get`.
    fn default() -> Self {
        FetchOptions {
            lifetime: Duration::from_secs(4),
            window_max: 2048,
            tries: 15,
            first: 0,
            last: None,
            bytes_max: u64::MAX,
            segments_max: u64::MAX,
        }
    }
}

/// Segments to request at the start.
const WINDOW_INITIAL: usize = 16;

/// A segment, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the segment.
    pub segment: u64,
    packet: Vec<u8>,
    content: std::ops::Range<usize>,
}

impl Chunk {
    /// The content.
    pub fn content(&self) -> &[u8] {
        &self.packet[self.content.clone()]
    }

    /// The Data packet.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// The number of the object's last segment, if this segment names it.
    pub fn last(&self) -> Option<u64> {
        Data::decode(&self.packet).ok().and_then(|data| last_of(&data))
    }
}

/// Numbers of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCounters {
    /// Segments handed out.
    pub segments: u64,
    /// Bytes of content handed out.
    pub bytes: u64,
    /// Interests that were sent again.
    pub retransmissions: u64,
    /// Congestion marks received.
    pub congestion_marks: u64,
    /// Packets that were not trusted.
    pub rejected: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The last segment, if known.
    pub last: Option<u64>,
}

/// The transfer of an object.
///
/// ```
/// use std::time::Duration;
/// use byname_client::fetch::{FetchOptions, Segments};
/// use byname_wire::data::DataBuilder;
/// use byname_wire::{Data, Name};
///
/// let (object, now): (Name, _) = ("/demo/song/v=1".parse()?, Duration::ZERO);
/// let mut segments = Segments::new(object, FetchOptions::default());
/// segments.poll(now, |_interest| {})?;
/// let name: Name = "/demo/song/v=1/seg=0".parse()?;
/// let last = name.as_ref().component(-1).ok_or("no segment")?;
/// let packet = DataBuilder::new(name.clone()).final_block(last).content(b"la la".to_vec()).encode();
/// assert!(segments.on_data(&Data::decode(&packet)?, false, now));
/// let chunk = segments.accept()?.ok_or("no segment")?;
/// assert_eq!(chunk.content(), b"la la");
/// assert!(segments.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Segments {
    object: Name,
    options: FetchOptions,
    pipeline: Pipeline,
    last: Option<u64>,
    counters: FetchCounters,
}

impl Segments {
    /// A transfer of the segments below this name.
    pub fn new(object: Name, options: FetchOptions) -> Self {
        let mut pipeline = Pipeline::new(options.first, WINDOW_INITIAL, options.window_max, options.tries);
        if let Some(last) = options.last {
            pipeline.set_last(last);
        }
        Segments { object, pipeline, last: options.last, options, counters: FetchCounters::default() }
    }

    /// The name above the segments.
    pub fn object(&self) -> &Name {
        &self.object
    }

    /// Whether all segments have been handed out.
    pub fn is_complete(&self) -> bool {
        self.pipeline.is_complete()
    }

    /// Numbers so far.
    pub fn counters(&self) -> FetchCounters {
        FetchCounters {
            retransmissions: self.pipeline.retransmissions,
            congestion_marks: self.pipeline.congestion_marks,
            rtt: self.pipeline.rtt(),
            last: self.last,
            ..self.counters
        }
    }

    /// Makes the Interests that are due.
    ///
    /// # Errors
    /// [`PipelineError::Lost`].
    pub fn poll(&mut self, now: Duration, mut send: impl FnMut(&[u8])) -> Result<(), FetchError> {
        self.pipeline.check_timeouts(now).map_err(FetchError::Pipeline)?;
        while let Some(segment) = self.pipeline.next_to_send(now) {
            let name = self.object.join_number(component_type::SEGMENT, segment);
            let interest = InterestBuilder::new(name, rand::random()).lifetime_ms(as_ms(self.options.lifetime));
            send(&interest.encode());
        }
        Ok(())
    }

    /// Time until [`Segments::poll`] has something to do.
    pub fn wait(&self, now: Duration) -> Duration {
        self.pipeline.wait(now)
    }

    /// Takes Data. Returns whether it is one of the segments.
    pub fn on_data(&mut self, data: &Data<'_>, is_marked: bool, now: Duration) -> bool {
        let Some(segment) = self.segment_of(data.name) else { return false };
        if self.pipeline.on_data(segment, data.wire, is_marked, now)
            && let Some(last) = last_of(data)
        {
            self.pipeline.claim_last(last, segment);
        }
        true
    }

    /// Takes a Nack. Returns whether it is about one of the segments.
    ///
    /// # Errors
    /// [`PipelineError::Refused`].
    pub fn on_nack(&mut self, name: NameRef<'_>, reason: NackReason, now: Duration) -> Result<bool, FetchError> {
        let Some(segment) = self.segment_of(name) else { return Ok(false) };
        self.pipeline.on_nack(segment, reason, now).map_err(FetchError::Pipeline)?;
        Ok(true)
    }

    /// The connection is gone: all that was in flight is sent again.
    pub fn on_connection_lost(&mut self) {
        self.pipeline.on_connection_lost();
    }

    /// The packet of the next segment in order, if it is there. It has not been checked.
    pub fn next_packet(&self) -> Option<&[u8]> {
        self.pipeline.next_packet().map(|(_, packet)| packet)
    }

    /// Takes the packet of [`Segments::next_packet`], which is trusted.
    ///
    /// # Errors
    /// If it shows that the object cannot be had, or is too large, or has shrunk.
    pub fn accept(&mut self) -> Result<Option<Chunk>, FetchError> {
        let Some((segment, packet)) = self.pipeline.take_next() else { return Ok(None) };
        let data = Data::decode(&packet).map_err(|error| FetchError::Malformed { segment, error })?;
        if data.content_type == content_type::NACK {
            return Err(FetchError::NoSuchData(data.name.to_name()));
        }
        let last = last_of(&data);
        let start = data.content.as_ptr() as usize - data.wire.as_ptr() as usize;
        let content = if data.content.is_empty() { 0..0 } else { start..start + data.content.len() };
        self.counters.segments += 1;
        self.counters.bytes = self.counters.bytes.saturating_add(content.len() as u64);
        self.set_last(segment, last)?;
        let FetchOptions { bytes_max, segments_max, .. } = self.options;
        if self.counters.bytes > bytes_max || self.counters.segments > segments_max {
            return Err(FetchError::TooLarge { bytes_max, segments_max });
        }
        Ok(Some(Chunk { segment, packet, content }))
    }

    /// Rejects the packet of [`Segments::next_packet`]: it is requested again.
    ///
    /// # Errors
    /// [`FetchError::Untrusted`] if that has happened too often.
    pub fn reject(&mut self, doubt: Doubt) -> Result<(), FetchError> {
        let name = self.next_packet().and_then(|packet| Data::decode(packet).ok().map(|data| data.name.to_name()));
        self.counters.rejected += 1;
        if self.pipeline.reject_next() {
            return Ok(());
        }
        Err(FetchError::Untrusted { name: name.unwrap_or_else(|| self.object.clone()), doubt })
    }

    /// Learns the end of the object from a trusted segment.
    fn set_last(&mut self, segment: u64, last: Option<u64>) -> Result<(), FetchError> {
        // A segment beyond the known end does not exist, so the end is at least here.
        let before = self.last.unwrap_or(segment).max(segment);
        match last {
            Some(last) if last < before => Err(FetchError::Shrunk { segment, last, before }),
            Some(last) => {
                self.last = Some(last);
                self.pipeline.set_last(last);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn segment_of(&self, name: NameRef<'_>) -> Option<u64> {
        if !self.object.as_ref().is_prefix_of(&name) {
            return None;
        }
        let mut rest = name.components().skip(self.object.as_ref().len());
        let (segment, end) = (rest.next()?, rest.next());
        if segment.typ == component_type::SEGMENT && end.is_none() { segment.number() } else { None }
    }
}

/// The last segment, if a packet names it.
fn last_of(data: &Data<'_>) -> Option<u64> {
    data.final_block.filter(|last| last.typ == component_type::SEGMENT)?.number()
}

/// The content of an object that is a single packet.
pub(crate) fn single<'a>(packet: &'a DataPacket, options: &FetchOptions) -> Result<&'a [u8], FetchError> {
    let data = packet.data();
    check_single(packet)?;
    let FetchOptions { bytes_max, segments_max, .. } = *options;
    if data.content.len() as u64 > bytes_max {
        return Err(FetchError::TooLarge { bytes_max, segments_max });
    }
    Ok(data.content)
}

/// Checks that an object that is a single packet is there.
///
/// # Errors
/// [`FetchError::NoSuchData`].
pub fn check_single(packet: &DataPacket) -> Result<(), FetchError> {
    let data = packet.data();
    match data.content_type {
        content_type::NACK => Err(FetchError::NoSuchData(data.name.to_name())),
        _ => Ok(()),
    }
}
