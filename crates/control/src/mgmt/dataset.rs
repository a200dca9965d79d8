//! Segmented datasets: `<dataset>/<version>/<segment>`.
//!
//! Each request for the bare name of a dataset creates a version, but builds only its first segment. Later segments are
//! built on request. A list of a million routes therefore does not delay commands and does not fill memory. Such a list
//! is not a snapshot: it contains each entry that exists the whole time exactly once. Entries that come or go meanwhile
//! may be missing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use byname_forward::Packet;
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Name, NameRef, tlv as wire_tlv};

use super::RESPONSE_FRESHNESS_MS;
use super::tlv::{Element, NextHopRecord, Route, types};
use crate::fib_writer::FibWriter;
use crate::rib::{ListedRoute, Rib};

/// Bytes of content per segment.
const SEGMENT_BYTES: usize = 8000;
/// Longest name of a dataset, filter included. It leaves room in the packet for a version, a segment number and a
/// segment's content.
pub(super) const NAME_BYTES_MAX: usize = 600;
/// How long a version is kept after its last use.
const KEPT_MS: u64 = 10_000;
/// Most versions kept.
const VERSIONS_MAX: usize = 256;
/// Most memory of all versions, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// Most segments that are kept of one version.
const SEGMENTS_KEPT: usize = 512;
/// How far a request may be ahead of the last segment built.
const AHEAD_MAX: u64 = 128;

/// Source of the remaining content of a version.
pub(super) enum Source {
    /// Content in memory.
    Whole(Vec<u8>),
    /// The RIB's names after this one.
    Rib(Option<Arc<[u8]>>),
    /// The FIB's names after this one.
    Fib(Option<Arc<[u8]>>),
}

/// Tables from which datasets are read.
pub(super) struct Sources<'a> {
    pub rib: &'a Rib,
    pub fib: &'a FibWriter,
    pub now_ms: u64,
}

struct Version {
    /// `None` once it is exhausted.
    source: Option<Source>,
    /// Content that is in no segment yet.
    content: Vec<u8>,
    segments: VecDeque<Packet>,
    /// Memory of `segments`, in bytes.
    segment_bytes: usize,
    /// Number of the first segment in `segments`.
    first: u64,
    used_ms: u64,
}

impl Version {
    fn bytes(&self) -> usize {
        let source = match &self.source {
            Some(Source::Whole(content)) => content.len(),
            _ => 0,
        };
        source + self.content.capacity() + self.segment_bytes
    }

    /// Number of the segment to build next.
    fn next(&self) -> u64 {
        self.first + self.segments.len() as u64
    }

    fn is_finished(&self) -> bool {
        self.source.is_none() && self.content.is_empty() && self.next() > 0
    }

    fn build_segment(&mut self, name: &Name, sources: &Sources<'_>) {
        while self.content.len() <= SEGMENT_BYTES && self.source.is_some() {
            self.read_source(sources);
        }
        let rest = self.content.split_off(self.content.len().min(SEGMENT_BYTES));
        let content = std::mem::replace(&mut self.content, rest);
        let is_last = self.content.is_empty();
        let name = name.join_number(component_type::SEGMENT, self.next());
        let mut data = DataBuilder::new(name.clone()).freshness_ms(RESPONSE_FRESHNESS_MS).content(content);
        if is_last && let Some(last) = name.as_ref().component(-1) {
            data = data.final_block(last);
        }
        let packet = Packet::copy_from(&data.encode());
        self.segment_bytes += packet.memory_bytes();
        self.segments.push_back(packet);
        if self.segments.len() > SEGMENTS_KEPT
            && let Some(oldest) = self.segments.pop_front()
        {
            self.segment_bytes -= oldest.memory_bytes();
            self.first += 1;
        }
    }

    /// Appends at least one element to the content, or finds that the source is exhausted.
    fn read_source(&mut self, sources: &Sources<'_>) {
        match self.source.take() {
            None => {}
            Some(Source::Whole(content)) => self.content = content,
            Some(Source::Rib(after)) => {
                let mut last = None;
                for entry in sources.rib.entries_after(after.as_deref()) {
                    push_rib_entry(&mut self.content, &entry, sources.now_ms);
                    if self.content.len() > SEGMENT_BYTES {
                        last = Some(entry.key());
                        break;
                    }
                }
                self.source = last.map(|last| Source::Rib(Some(last)));
            }
            Some(Source::Fib(after)) => {
                let mut last = None;
                for entry in sources.rib.entries_after(after.as_deref()) {
                    if let Some(group) = entry.group() {
                        push_fib_entry(&mut self.content, entry.name(), sources.fib.nexthops(group));
                    }
                    if self.content.len() > SEGMENT_BYTES {
                        last = Some(entry.key());
                        break;
                    }
                }
                self.source = last.map(|last| Source::Fib(Some(last)));
            }
        }
    }
}

fn push_rib_entry(out: &mut Vec<u8>, entry: &crate::rib::RibEntryRef<'_>, now_ms: u64) {
    let mut routes = entry.routes().peekable();
    // A name that only `fib` commands have set.
    if routes.peek().is_none() {
        return;
    }
    wire_tlv::push_nested(out, types::RIB_ENTRY, |out| {
        wire_tlv::push_tlv(out, wire_tlv::types::NAME, entry.name().value());
        for ListedRoute { route, is_stale } in routes {
            let route = Route {
                face_id: route.face.0,
                origin: route.origin,
                cost: route.cost,
                flags: route.flags,
                expiration_period_ms: route.expires_at_ms.map(|at| at.saturating_sub(now_ms)),
                is_stale: is_stale.then_some(1),
            };
            route.encode_to(out);
        }
    });
}

fn push_fib_entry(out: &mut Vec<u8>, name: NameRef<'_>, nexthops: &[byname_forward::tables::Nexthop]) {
    wire_tlv::push_nested(out, types::FIB_ENTRY, |out| {
        wire_tlv::push_tlv(out, wire_tlv::types::NAME, name.value());
        for nexthop in nexthops {
            NextHopRecord { face_id: nexthop.face.0, cost: nexthop.cost }.encode_to(out);
        }
    });
}

/// Recently used versions.
#[derive(Default)]
pub(super) struct Datasets {
    /// Keyed by `<dataset>/<version>`.
    versions: HashMap<Name, Version>,
    /// The keys, in the order of creation.
    order: VecDeque<Name>,
    last_version: u64,
}

impl Datasets {
    /// Creates a version of a dataset. Returns its first segment.
    pub fn publish(&mut self, dataset: &Name, source: Source, sources: &Sources<'_>, unix_ms: u64) -> Packet {
        self.last_version = unix_ms.max(self.last_version + 1);
        let name = dataset.join_number(component_type::VERSION, self.last_version);
        let mut version = Version {
            source: Some(source),
            content: Vec::new(),
            segments: VecDeque::new(),
            segment_bytes: 0,
            first: 0,
            used_ms: sources.now_ms,
        };
        version.build_segment(&name, sources);
        let first = version.segments[0].clone();
        self.versions.insert(name.clone(), version);
        self.order.push_back(name);
        self.evict(sources.now_ms);
        first
    }

    /// The segment of this name, if it is kept or can be built.
    pub fn segment(&mut self, name: NameRef<'_>, sources: &Sources<'_>) -> Option<Packet> {
        let last = name.component(-1)?;
        let (version_name, number) = match last.typ {
            component_type::SEGMENT => (name.prefix(name.len() - 1).to_name(), last.number()?),
            component_type::VERSION => (name.to_name(), 0),
            _ => return None,
        };
        let version = self.versions.get_mut(&version_name)?;
        version.used_ms = sources.now_ms;
        if number >= version.next().saturating_add(AHEAD_MAX) {
            return None;
        }
        while version.next() <= number && !version.is_finished() {
            version.build_segment(&version_name, sources);
        }
        let index = usize::try_from(number.checked_sub(version.first)?).ok()?;
        let segment = version.segments.get(index).cloned();
        self.evict(sources.now_ms);
        segment
    }

    /// Removes versions not used for [`KEPT_MS`], and the oldest ones if there are too many.
    pub fn evict(&mut self, now_ms: u64) {
        let versions = &mut self.versions;
        self.order.retain(|name| {
            let kept = versions.get(name).is_some_and(|v| now_ms.saturating_sub(v.used_ms) < KEPT_MS);
            if !kept {
                versions.remove(name);
            }
            kept
        });
        let mut bytes: usize = self.versions.values().map(Version::bytes).sum();
        while self.order.len() > 1 && (self.order.len() > VERSIONS_MAX || bytes > BYTES_MAX) {
            let oldest = self.order.pop_front().and_then(|name| self.versions.remove(&name));
            bytes -= oldest.map_or(0, |v| v.bytes());
        }
    }

    /// When [`Datasets::evict`] must be called.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.versions.values().map(|v| v.used_ms.saturating_add(KEPT_MS)).min()
    }
}

/// Whether a name's last component is a version or a segment number: the name is then not that of a whole dataset.
pub(super) fn names_part(last: Component<'_>) -> bool {
    matches!(last.typ, component_type::VERSION | component_type::SEGMENT)
}
