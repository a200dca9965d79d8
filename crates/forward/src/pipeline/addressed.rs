//! Stateless forwarding of packets that are addressed by tags or by locator [TagNet §2.2, §3.3].
//!
//! `docs/tagset.md` describes the rules. These packets are taken out of their burst, so a burst without them pays for
//! only one comparison per packet. Then the descriptors' FIB looks up all tag-addressed packets of the burst together.
//!
//! Differs: the paper's *find all subsets* ends when k interfaces are found, whichever they are. Ours ends there too,
//! but splits the limit over the copies that are sent. So the packet reaches at most k applications, where in the paper
//! each of its copies may.

use std::ops::ControlFlow;

use byname_lookup::EntryId;
use byname_lookup::locator::{Next, Trees};
use byname_lookup::tagset::{BURST_MAX, Effort};
use byname_wire::interest::HopLimit;
use byname_wire::tagnet::FanOut;
use byname_wire::{FaceId, TagDigest, TreeId};
use smallvec::SmallVec;

use crate::counters::DropReason;
use crate::face_table::{Face, FaceTable, Reached, Scope};
use crate::packet::{LocatorInfo, TagInfo, lower_hop_limit, patch};
use crate::packet_pool::Packet;
use crate::port::{LinkFields, Outgoing, Received};
use crate::shard::Shard;
use crate::tables::TablesReader;

/// Maximum of faces that are checked for one packet. A packet with many subsets that many faces advertised must not
/// keep the worker from other packets.
const FACES_CHECKED_MAX: u32 = 1 << 16;

/// The faces that copies of a packet go to.
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
    /// Whether a copy may go to a face that advertised a subset.
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

impl Shard {
    /// Forwards the tag-addressed and locator-addressed packets of the burst.
    pub(crate) fn forward_addressed(&mut self, output: &mut Vec<Outgoing>) {
        let mut burst = std::mem::take(&mut self.addressed);
        let trees = self.tables.trees();
        for (received, info) in burst.by_locator.drain(..) {
            self.on_locator_packet(&trees, received, &info, output);
        }
        burst.by_tags.retain_mut(|(received, info)| {
            begin_on_generation(&trees, received, info);
            self.may_search(&trees, received, info)
        });
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
        let Some(face) = self.faces.get_mut(&received.face) else { return self.drops.count(DropReason::UnknownFace) };
        face.counters.in_locator_packets += 1;
        if info.hop_limit.value == 0 {
            return self.drops.count(DropReason::HopLimit);
        }
        let locator = info.destination.locator;
        let (to, is_delivery) = match trees.forward(&locator, received.face) {
            Next::Forward(face) => (face, false),
            Next::Deliver => (FaceId(info.destination.endpoint.0), true),
            Next::Drop if trees.contains(locator.tree) => return self.drops.count(DropReason::Label),
            Next::Drop => return self.drops.count(DropReason::NoSuchTree),
        };
        match self.faces.get_mut(&to).filter(|known| !is_delivery || known.is_endpoint) {
            None if is_delivery => self.drops.count(DropReason::NoSuchEndpoint),
            None => self.drops.count(DropReason::UnknownFace),
            Some(known) if !may_hop(info.hop_limit, known) => self.drops.count(DropReason::HopLimit),
            Some(known) => {
                known.counters.out_locator_packets += 1;
                lower_hop_limit(&mut received.packet, info.hop_limit);
                output.push(Outgoing { face: to, fields: fields(&received), packet: received.packet });
            }
        }
    }

    /// Whether a tag-addressed packet is to be looked up. Counts its drop otherwise.
    fn may_search(&mut self, trees: &Trees, received: &Received, info: &TagInfo) -> bool {
        let reason = match self.faces.get_mut(&received.face) {
            None => DropReason::UnknownFace,
            Some(face) => {
                face.counters.in_tag_packets += 1;
                match info.hop_limit.value {
                    0 => DropReason::HopLimit,
                    _ if trees.contains(info.tree) => return true,
                    _ => DropReason::NoSuchTree,
                }
            }
        };
        self.drops.count(reason);
        false
    }

    /// The faces that each packet goes to, with the packet's place.
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
                    self.drops.count(DropReason::SubsetsCutOff);
                }
                (choice.place, choice.faces)
            })
            .collect()
    }

    /// Chooses one face of the largest subset that has a usable one.
    fn choose_largest(&self, choices: &mut [Choice<'_>], digests: &[TagDigest]) {
        if choices.is_empty() {
            return;
        }
        let queries: SmallVec<[_; BURST_MAX]> = choices.iter().map(|choice| choice.info.query(digests)).collect();
        let mut found = [(None, Effort::default()); BURST_MAX];
        let found = &mut found[..choices.len()];
        let mut accept = |i: usize, entry| choices[i].first_usable(&self.tables, &self.faces, entry).is_some();
        self.tables.tag_fib().largest_subset_burst(&queries, &mut accept, found);
        for (choice, (entry, walk)) in choices.iter_mut().zip(found) {
            choice.cut_off = walk.cut_off;
            choice.faces.extend(entry.and_then(|entry| choice.first_usable(&self.tables, &self.faces, entry)));
        }
    }

    /// Chooses faces of all subsets, as many as the fan-out limit allows.
    fn choose_all(&mut self, choices: &mut [Choice<'_>], digests: &[TagDigest], burst: u64) {
        if choices.is_empty() {
            return;
        }
        let queries: SmallVec<[_; BURST_MAX]> = choices.iter().map(|choice| choice.info.query(digests)).collect();
        let mut efforts = [Effort::default(); BURST_MAX];
        let efforts = &mut efforts[..choices.len()];
        let (tables, faces) = (&self.tables, &mut self.faces);
        let mut visit = |i: usize, entry| choices[i].add(tables, faces, entry, |reached| reached.note(burst, i));
        tables.tag_fib().all_subsets_burst(&queries, &mut visit, efforts);
        for (choice, walk) in choices.iter_mut().zip(efforts) {
            choice.cut_off |= walk.cut_off;
        }
    }

    /// Sends a copy of a packet to each of these faces, with its share of the fan-out limit.
    fn send_copies(&mut self, received: &mut Received, info: &TagInfo, faces: &[FaceId], output: &mut Vec<Outgoing>) {
        if faces.is_empty() {
            let is_last_hop = info.hop_limit.value == 1;
            return self.drops.count(if is_last_hop { DropReason::HopLimit } else { DropReason::NoSubset });
        }
        let packet = &mut received.packet;
        lower_hop_limit(packet, info.hop_limit);
        let limit = info.fan_out.map_or(0, |fan_out| usize::from(fan_out.limit.get()));
        // The first `larger_shares` copies get a limit of one more than the others.
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

/// A packet that begins here, or comes from a router without generations, stays on one generation of its tree from now on.
fn begin_on_generation(trees: &Trees, received: &mut Received, info: &mut TagInfo) {
    let numbers =
        trees.in_service(info.tree).and_then(|id| u8::try_from(id.0).ok().zip(u8::try_from(info.tree.0).ok()));
    if let Some((id, _)) = numbers {
        // Both numbers are one byte.
        patch(&mut received.packet, info.tree_offset, &[id]);
        info.tree = TreeId(id.into());
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
        // At most `limit` copies are sent, so each gets a share of at least 1.
        patch(packet, fan_out.offset, &(limit as u16).to_be_bytes());
    }
}
