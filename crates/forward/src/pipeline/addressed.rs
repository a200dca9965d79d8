//! Packets addressed by tags or by locator, which are forwarded without state [TagNet §2.2, §3.3].
//!
//! `docs/tagset.md` says what a router does with them. They are taken out of the burst that they
//! came in, so that a burst without them pays for one comparison a packet; then the descriptors'
//! FIB is asked for all of the burst's tag-addressed packets together.
//!
//! Differs: the paper's *find all subsets* ends when k interfaces are found, whichever they are.
//! So does ours, but with the limit split over the copies that are sent, so that the packet, and
//! not each of its copies, reaches k applications at most.

use std::ops::{ControlFlow, Range};

use byname_lookup::EntryId;
use byname_lookup::locator::{Next, Trees};
use byname_lookup::tagset::{BURST_MAX, TagQuery, Walk};
use byname_wire::interest::HopLimit;
use byname_wire::tagnet::{Address, FanOut, LocatorPacket, TagPacket, TagSet, types};
use byname_wire::{DecodeError, FaceId, Filter, TagDigest, TreeId};
use smallvec::SmallVec;

use crate::counters::Drop;
use crate::face_table::{Face, FaceTable, Scope};
use crate::packet_pool::Packet;
use crate::pipeline::{lower_hop_limit, patch};
use crate::port::{LinkFields, Outgoing, Received};
use crate::tables::TablesReader;
use crate::worker::Worker;

/// Faces that are looked at for one packet, at most: many subsets that many advertised must not
/// keep the worker from other packets.
const FACES_CHECKED_MAX: u32 = 1 << 16;

/// Tag-addressed and locator-addressed packets of a burst.
#[derive(Default)]
pub(crate) struct Addressed {
    by_tags: Vec<(Received, TagInfo)>,
    by_locator: Vec<(Received, LocatorInfo)>,
    /// Digests of all packets of `by_tags`.
    digests: Vec<TagDigest>,
    /// Tells bursts apart in [`Reached`].
    burst: u64,
}

/// Fields of a tag-addressed packet that forwarding needs.
struct TagInfo {
    hop_limit: HopLimit,
    tree: TreeId,
    filter: Filter,
    /// Of the burst's digests, the packet's; `None` where it carries a filter alone.
    digests: Option<Range<usize>>,
    fan_out: Option<FanOut>,
}

/// Fields of a locator-addressed packet that forwarding needs.
struct LocatorInfo {
    hop_limit: HopLimit,
    destination: Address,
}

/// Which packets of the latest burst a face was chosen for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    burst: u64,
    packets: u32,
}

impl Reached {
    /// Notes that packet `i` of this burst goes to the face; false if that was noted before.
    fn note(&mut self, burst: u64, i: usize) -> bool {
        const { assert!(BURST_MAX <= u32::BITS as usize) };
        if self.burst != burst {
            *self = Reached { burst, packets: 0 };
        }
        let before = self.packets;
        self.packets |= 1 << i;
        self.packets != before
    }
}

impl Addressed {
    /// Whether the burst has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets of the burst.
    pub fn len(&self) -> usize {
        self.by_tags.len() + self.by_locator.len()
    }

    /// Parses a packet and keeps it for [`Worker::forward_addressed`].
    pub fn stage(&mut self, received: Received) -> Result<(), DecodeError> {
        if received.packet.first() == Some(&(types::LOCATOR_PACKET as u8)) {
            let LocatorPacket { hop_limit, destination, .. } = LocatorPacket::decode(&received.packet)?;
            self.by_locator.push((received, LocatorInfo { hop_limit, destination }));
            return Ok(());
        }
        let TagPacket { hop_limit, tree, tags, fan_out, .. } = TagPacket::decode(&received.packet)?;
        let (filter, digests) = match tags {
            TagSet::Tags(tags) => {
                let first = self.digests.len();
                self.digests.extend(tags.iter());
                (Filter::of(&self.digests[first..]), Some(first..self.digests.len()))
            }
            TagSet::Filter(filter) => (filter, None),
        };
        self.by_tags.push((received, TagInfo { hop_limit, tree, filter, digests, fan_out }));
        Ok(())
    }
}

impl TagInfo {
    fn query<'a>(&self, digests: &'a [TagDigest]) -> TagQuery<'a> {
        TagQuery { tags: self.digests.clone().map(|range| &digests[range]), filter: self.filter }
    }

    fn is_anycast(&self) -> bool {
        self.fan_out.is_some_and(|fan_out| fan_out.limit.get() == 1)
    }

    /// Most faces that copies may go to.
    fn faces_max(&self) -> usize {
        self.fan_out.map_or(usize::MAX, |fan_out| fan_out.limit.get().into())
    }
}

/// Where copies of a packet go.
struct Choice<'a> {
    /// The packet's place in the burst.
    place: usize,
    from: FaceId,
    info: &'a TagInfo,
    faces: Faces,
    cut_off: bool,
    faces_checked: u32,
}

type Faces = SmallVec<[FaceId; 4]>;

impl Choice<'_> {
    /// Whether a copy may go to a face for which a subset was advertised.
    fn is_usable(&self, face: FaceId, known: &Face) -> bool {
        face != self.from && may_hop(self.info.hop_limit, known)
    }

    /// Adds the faces of one more subset.
    fn add(
        &mut self,
        tables: &TablesReader,
        known: &mut FaceTable,
        entry: EntryId,
        mut note: impl FnMut(&mut Reached) -> bool,
    ) -> ControlFlow<()> {
        let Some(group) = tables.tag_group(entry) else { return ControlFlow::Continue(()) };
        for face in group.faces(self.info.tree) {
            self.faces_checked += 1;
            if self.faces_checked > FACES_CHECKED_MAX {
                self.cut_off = true;
                return ControlFlow::Break(());
            }
            let Some(known) = known.get_mut(&face) else { continue };
            if self.is_usable(face, known) && note(&mut known.reached) {
                self.faces.push(face);
                if self.faces.len() == self.info.faces_max() {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The first face of a subset that a copy may go to.
    fn first_usable(&self, tables: &TablesReader, known: &FaceTable, entry: EntryId) -> Option<FaceId> {
        let group = tables.tag_group(entry)?;
        group.faces(self.info.tree).find(|face| known.get(face).is_some_and(|known| self.is_usable(*face, known)))
    }
}

/// Whether a packet that came with this HopLimit may go to a face.
fn may_hop(hop_limit: HopLimit, known: &Face) -> bool {
    hop_limit.value > 1 || known.scope == Scope::Local
}

impl Worker {
    /// Forwards the tag-addressed and locator-addressed packets of the burst.
    pub(crate) fn forward_addressed(&mut self, output: &mut Vec<Outgoing>) {
        let mut burst = std::mem::take(&mut self.addressed);
        let trees = self.tables.trees();
        for (received, info) in burst.by_locator.drain(..) {
            self.on_locator_packet(&trees, received, &info, output);
        }
        burst.by_tags.retain(|(received, info)| self.may_search(&trees, received, info));
        for packets in burst.by_tags.chunks_mut(BURST_MAX) {
            burst.burst += 1;
            for (place, faces) in self.choose(packets, &burst.digests, burst.burst) {
                let (received, info) = &mut packets[place];
                self.send_copies(received, info, &faces, output);
            }
        }
        burst.by_tags.clear();
        burst.digests.clear();
        self.addressed = burst;
    }

    fn on_locator_packet(
        &mut self,
        trees: &Trees,
        mut received: Received,
        info: &LocatorInfo,
        output: &mut Vec<Outgoing>,
    ) {
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(Drop::UnknownFace) };
        face.counters.in_locator_packets += 1;
        if info.hop_limit.value == 0 {
            return self.drops.count(Drop::HopLimit);
        }
        let locator = info.destination.locator;
        let (to, is_delivery) = match trees.forward(&locator, received.face) {
            Next::Forward(face) => (face, false),
            Next::Deliver => (FaceId(info.destination.endpoint.0), true),
            Next::Drop if trees.contains(locator.tree) => return self.drops.count(Drop::Label),
            Next::Drop => return self.drops.count(Drop::NoSuchTree),
        };
        match self.faces.get_mut(&to).filter(|known| !is_delivery || known.is_endpoint) {
            None if is_delivery => self.drops.count(Drop::NoSuchEndpoint),
            None => self.drops.count(Drop::UnknownFace),
            Some(known) if !may_hop(info.hop_limit, known) => self.drops.count(Drop::HopLimit),
            Some(known) => {
                known.counters.out_locator_packets += 1;
                lower_hop_limit(&mut received.packet, info.hop_limit);
                output.push(Outgoing { face: to, fields: fields(&received), packet: received.packet });
            }
        }
    }

    /// Whether a tag-addressed packet is to be looked up.
    fn may_search(&mut self, trees: &Trees, received: &Received, info: &TagInfo) -> bool {
        let reason = match self.faces.get_mut(&received.face) {
            None => Drop::UnknownFace,
            Some(face) => {
                face.counters.in_tag_packets += 1;
                match info.hop_limit.value {
                    0 => Drop::HopLimit,
                    _ if trees.contains(info.tree) => return true,
                    _ => Drop::NoSuchTree,
                }
            }
        };
        self.drops.count(reason);
        false
    }

    /// The faces that each packet goes to, by the packet's place.
    fn choose(
        &mut self,
        packets: &[(Received, TagInfo)],
        digests: &[TagDigest],
        burst: u64,
    ) -> SmallVec<[(usize, Faces); BURST_MAX]> {
        let choices = packets.iter().enumerate().map(|(place, (received, info))| Choice {
            place,
            from: received.face,
            info,
            faces: Faces::new(),
            cut_off: false,
            faces_checked: 0,
        });
        let (mut anycast, mut others): (SmallVec<[_; BURST_MAX]>, SmallVec<[_; BURST_MAX]>) =
            choices.partition(|choice| choice.info.is_anycast());
        self.choose_largest(&mut anycast, digests);
        self.choose_all(&mut others, digests, burst);
        let choices = anycast.into_iter().chain(others);
        choices
            .map(|choice| {
                if choice.cut_off {
                    self.drops.count(Drop::SubsetsCutOff);
                }
                (choice.place, choice.faces)
            })
            .collect()
    }

    /// One face of the largest subset that has one.
    fn choose_largest(&self, choices: &mut [Choice<'_>], digests: &[TagDigest]) {
        if choices.is_empty() {
            return;
        }
        let queries: SmallVec<[_; BURST_MAX]> = choices.iter().map(|choice| choice.info.query(digests)).collect();
        let mut found = [(None, Walk::default()); BURST_MAX];
        let found = &mut found[..choices.len()];
        let mut accept = |i: usize, entry| choices[i].first_usable(&self.tables, &self.faces, entry).is_some();
        self.tables.tag_fib().largest_subset_burst(&queries, &mut accept, found);
        for (choice, (entry, walk)) in choices.iter_mut().zip(found) {
            choice.cut_off = walk.cut_off;
            choice.faces.extend(entry.and_then(|entry| choice.first_usable(&self.tables, &self.faces, entry)));
        }
    }

    /// As many faces of all subsets as the fan-out limit allows.
    fn choose_all(&mut self, choices: &mut [Choice<'_>], digests: &[TagDigest], burst: u64) {
        if choices.is_empty() {
            return;
        }
        let queries: SmallVec<[_; BURST_MAX]> = choices.iter().map(|choice| choice.info.query(digests)).collect();
        let mut walks = [Walk::default(); BURST_MAX];
        let walks = &mut walks[..choices.len()];
        let (tables, faces) = (&self.tables, &mut self.faces);
        let mut visit = |i: usize, entry| choices[i].add(tables, faces, entry, |reached| reached.note(burst, i));
        tables.tag_fib().all_subsets_burst(&queries, &mut visit, walks);
        for (choice, walk) in choices.iter_mut().zip(walks) {
            choice.cut_off |= walk.cut_off;
        }
    }

    /// Sends a packet to these faces, with what each copy has of the fan-out limit.
    fn send_copies(&mut self, received: &mut Received, info: &TagInfo, faces: &[FaceId], output: &mut Vec<Outgoing>) {
        if faces.is_empty() {
            let is_last_hop = info.hop_limit.value == 1;
            return self.drops.count(if is_last_hop { Drop::HopLimit } else { Drop::NoSubset });
        }
        let packet = &mut received.packet;
        lower_hop_limit(packet, info.hop_limit);
        let limit = info.fan_out.map_or(0, |fan_out| usize::from(fan_out.limit.get()));
        // Of the copies, so many get one more than the others.
        let (share, larger_shares) = (limit / faces.len(), limit % faces.len());
        let larger = (larger_shares > 0).then(|| {
            let mut copy = packet.clone();
            set_limit(&mut copy, info.fan_out, share + 1);
            copy
        });
        set_limit(packet, info.fan_out, share);
        for (i, &face) in faces.iter().enumerate() {
            if let Some(known) = self.faces.get_mut(&face) {
                known.counters.out_tag_packets += 1;
            }
            let packet = larger.as_ref().filter(|_| i < larger_shares).unwrap_or(&received.packet).clone();
            output.push(Outgoing { face, fields: fields(received), packet });
        }
    }
}

fn fields(received: &Received) -> LinkFields {
    LinkFields {
        incoming_face_id: Some(received.face),
        congestion_mark: received.fields.congestion_mark,
        ..LinkFields::default()
    }
}

/// Lowers a packet's fan-out limit, if it has one.
fn set_limit(packet: &mut Packet, fan_out: Option<FanOut>, limit: usize) {
    if let Some(fan_out) = fan_out
        && usize::from(fan_out.limit.get()) != limit
    {
        // No more copies than the limit are sent, so that each has a share of it.
        patch(packet, fan_out.offset, &(limit as u16).to_be_bytes());
    }
}
