//! Objects that this router serves: advertisements, publications and snapshots, in segments.
//!
//! A segment is signed when it is first asked for. Who asks again is mostly answered by a content store.

use std::collections::{BTreeMap, VecDeque};

use byname_trust::Signer;
use byname_wire::data::DataBuilder;
use byname_wire::interest::Interest;
use byname_wire::name::component_type::{SEGMENT, VERSION};
use byname_wire::{Component, Name};

use crate::names;
use crate::tlv;

/// Bytes of content in a segment. A signature and a long name still fit into a packet.
const SEGMENT_BYTES: usize = 7_500;

/// Freshness of metadata: a snapshot that is newer is found after this time.
const METADATA_FRESH_MS: u64 = 500;

#[derive(Debug)]
struct Object {
    content: Vec<u8>,
    fresh_ms: u64,
    signed: BTreeMap<u64, Vec<u8>>,
}

impl Object {
    fn last_segment(&self) -> u64 {
        (self.content.len().max(1) - 1) as u64 / SEGMENT_BYTES as u64
    }
}

/// The objects of this router, by the names of their versions.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    objects: BTreeMap<Name, Object>,
    /// The objects of each kind, the oldest first. It goes if there are too many.
    order: BTreeMap<Kind, VecDeque<Name>>,
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Advertisement,
    Publication,
    Snapshot,
}

impl Kind {
    /// How many are kept.
    fn kept(self, snapshot_every: u64) -> usize {
        match self {
            Kind::Advertisement => 8,
            Kind::Publication => usize::try_from(snapshot_every.saturating_mul(4)).unwrap_or(usize::MAX).min(4096),
            Kind::Snapshot => 2,
        }
    }

    fn fresh_ms(self) -> u64 {
        match self {
            Kind::Advertisement => 10_000,
            Kind::Publication | Kind::Snapshot => 4_000,
        }
    }
}

impl Objects {
    pub(crate) fn insert(&mut self, kind: Kind, base: Name, content: Vec<u8>, snapshot_every: u64) {
        let object = Object { content, fresh_ms: kind.fresh_ms(), signed: BTreeMap::new() };
        self.objects.insert(base.clone(), object);
        let order = self.order.entry(kind).or_default();
        order.push_back(base);
        while order.len() > kind.kept(snapshot_every) {
            order.pop_front().map(|oldest| self.objects.remove(&oldest));
        }
    }

    /// The Data that answers an Interest. `None` if there is none, or the key refuses.
    pub(crate) fn answer(&mut self, interest: &Interest<'_>, signer: &Signer) -> Option<Vec<u8>> {
        if let Some(number) = names::last_number(interest.name, SEGMENT) {
            let base = names::without_last(interest.name, 1).to_name();
            return match self.objects.contains_key(&base) {
                true => self.segment(&base, number, signer),
                false => None,
            };
        }
        if interest.can_be_prefix && interest.name.component(-1) == Some(METADATA) {
            return self.metadata(&names::without_last(interest.name, 1).to_name(), signer);
        }
        None
    }

    fn segment(&mut self, base: &Name, number: u64, signer: &Signer) -> Option<Vec<u8>> {
        let object = self.objects.get_mut(base)?;
        let last = object.last_segment();
        if number > last {
            return None;
        }
        if let Some(wire) = object.signed.get(&number) {
            return Some(wire.clone());
        }
        let from = number as usize * SEGMENT_BYTES;
        let to = object.content.len().min(from + SEGMENT_BYTES);
        let last_name = Name::default().join_number(SEGMENT, last);
        let data = DataBuilder::new(names::segment(base, number))
            .freshness_ms(object.fresh_ms)
            .final_block(last_name.as_ref().component(0)?)
            .content(object.content[from..to].to_vec());
        let wire = signer.sign_data(&data).ok()?;
        object.signed.insert(number, wire.clone());
        Some(wire)
    }

    /// Metadata of the last version of a snapshot.
    fn metadata(&self, object: &Name, signer: &Signer) -> Option<Vec<u8>> {
        let order = self.order.get(&Kind::Snapshot)?;
        let last = order.iter().rev().find(|base| names::without_last(base.as_ref(), 1) == object.as_ref())?;
        let version = names::last_number(last.as_ref(), VERSION)?;
        let last_segment = self.objects.get(last)?.last_segment();
        let name = names::versioned(&names::metadata(object.as_ref()), version);
        let segment_zero = Name::default().join_number(SEGMENT, 0);
        let data = DataBuilder::new(names::segment(&name, 0))
            .freshness_ms(METADATA_FRESH_MS)
            .final_block(segment_zero.as_ref().component(0)?)
            .content(tlv::encode_metadata(last.as_ref(), last_segment));
        signer.sign_data(&data).ok()
    }

    /// Signs all anew: the key has changed.
    pub(crate) fn forget_signatures(&mut self) {
        self.objects.values_mut().for_each(|object| object.signed.clear());
    }
}

/// Last component of the name under which metadata is found.
const METADATA: Component<'static> = Component { typ: byname_wire::name::component_type::KEYWORD, value: b"metadata" };

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Data;
    use byname_wire::interest::InterestBuilder;

    fn ask(objects: &mut Objects, uri: &str, prefix: bool) -> Option<Vec<u8>> {
        let wire = InterestBuilder::new(uri.parse().unwrap(), 1).can_be_prefix(prefix).encode();
        objects.answer(&Interest::decode(&wire).unwrap(), &Signer::digest())
    }

    #[test]
    fn objects_are_served_in_segments() {
        let mut objects = Objects::default();
        let content: Vec<u8> = (0..20_000u32).map(|i| i as u8).collect();
        objects.insert(Kind::Snapshot, "/s/v=7".parse().unwrap(), content.clone(), 50);
        let mut whole = Vec::new();
        for number in 0..3 {
            let wire = ask(&mut objects, &format!("/s/v=7/seg={number}"), false).unwrap();
            let data = Data::decode(&wire).unwrap();
            assert_eq!(data.final_block.unwrap().number(), Some(2));
            whole.extend_from_slice(data.content);
        }
        assert_eq!(whole, content);
        for uri in ["/s/v=7/seg=3", "/s/v=8/seg=0", "/s/v=7", "/seg=0", "/s/v=7/seg=99999999999"] {
            assert_eq!(ask(&mut objects, uri, false), None, "{uri}");
        }
        let wire = ask(&mut objects, "/s/32=metadata", true).unwrap();
        let data = Data::decode(&wire).unwrap();
        assert_eq!(data.name.to_name(), "/s/32=metadata/v=7/seg=0".parse().unwrap());
        assert_eq!(tlv::decode_metadata(data.content), Ok("/s/v=7".parse().unwrap()));
    }

    #[test]
    fn an_empty_object_has_one_segment() {
        let mut objects = Objects::default();
        objects.insert(Kind::Advertisement, "/a/v=1".parse().unwrap(), vec![], 50);
        let wire = ask(&mut objects, "/a/v=1/seg=0", false).unwrap();
        assert_eq!(Data::decode(&wire).unwrap().content, []);
    }

    #[test]
    fn the_oldest_objects_go() {
        let mut objects = Objects::default();
        for version in 0..100 {
            objects.insert(Kind::Advertisement, format!("/a/v={version}").parse().unwrap(), vec![], 50);
        }
        assert_eq!(objects.objects.len(), 8);
        assert!(ask(&mut objects, "/a/v=92/seg=0", false).is_some());
        assert!(ask(&mut objects, "/a/v=91/seg=0", false).is_none());
    }
}
