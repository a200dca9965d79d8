//! Places on trees: what a routing application tells the router that it serves (`tags/place`), in ApplicationParameters.
//! `docs/tagset.md` specifies it.

use byname_wire::tagnet::types as tagnet;
use byname_wire::tlv::{self, Reader, Tlv};
use byname_wire::{DecodeError, FaceId, Label, TreeId};

/// TLV-TYPE numbers beyond those of packets.
pub mod types {
    #![allow(missing_docs)]
    pub const NEIGHBOR: u64 = 0xe1;
    pub const FACE: u64 = 0xe3;
    pub const SECRET: u64 = 0xe5;
    pub const NUMBERING: u64 = 0xe7;
    pub const CLAIM_FIRST: u64 = 0xe9;
    pub const CLAIM_LAST: u64 = 0xeb;
    pub const DESCENDANTS: u64 = 0xed;
    pub const LIGHT_DESCENDANTS: u64 = 0xef;
    pub const UP: u64 = 0xf1;
    pub const HEAVY: u64 = 0xf3;
    pub const LIGHT: u64 = 0xf5;
    pub const PORT: u64 = 0xf7;
    pub const GENERATION: u64 = 0xfb;
    pub const SETTLED: u64 = 0xbf;
}

/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Most bytes of a place. With its name and a signature, it fits in a packet.
pub const PLACE_BYTES_MAX: usize = 8_300;
/// The highest port of a light child. Tables have an element for each.
pub const LIGHT_PORT_MAX: u32 = 4_096;
/// Most numberings of one tree.
pub const NUMBERINGS_MAX: usize = 24;
/// Most generations of one tree.
pub const GENERATIONS_MAX: usize = 4;

/// A router's place on a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePlace {
    /// The tree.
    pub tree: TreeId,
    /// The router's label. `None`: it has none.
    pub label: Option<Label>,
    /// Faces to its neighbours on the tree and its generations, with the secret that signs messages about descriptors.
    pub neighbors: Vec<(FaceId, [u8; SECRET_BYTES])>,
    /// The generations of the tree, the latest first. None: packets with tags follow the tree itself.
    pub generations: Vec<PlaceGeneration>,
    /// How packets with labels are forwarded. The first one that claims a label's number decides.
    pub numberings: Vec<PlaceNumbering>,
}

/// Edges of a tree that do not change while packets with tags are on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceGeneration {
    /// The id that packets have on these edges.
    pub id: TreeId,
    /// Whether no edge is added any more, except to routers that come.
    pub is_settled: bool,
    /// Faces to neighbours of the place.
    pub faces: Vec<FaceId>,
}

/// One numbering of the nodes below and beside a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceNumbering {
    /// The first and last number that it decides about. `None`: all.
    pub claim: Option<(u32, u32)>,
    /// The router's label in it.
    pub label: Label,
    /// Number of numbers after the router's own that lead down.
    pub descendants: u32,
    /// The first of these so many are those of light children.
    pub light_descendants: u32,
    /// The face to the parent.
    pub up: Option<FaceId>,
    /// The face to the heavy child.
    pub heavy: Option<FaceId>,
    /// Ports of light children and their faces.
    pub light: Vec<(u32, FaceId)>,
}

impl TreePlace {
    /// Encodes the place. If that takes more than [`PLACE_BYTES_MAX`], earlier numberings are left out, the oldest first.
    /// `None`: there are too many neighbours.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut skipped = 0;
        loop {
            let mut out = Vec::new();
            tlv::push_nni(&mut out, tagnet::TREE, self.tree.0.into());
            if let Some(label) = self.label {
                push_label(&mut out, label);
            }
            for (face, secret) in &self.neighbors {
                tlv::push_nested(&mut out, types::NEIGHBOR, |out| {
                    tlv::push_nni(out, types::FACE, face.0);
                    tlv::push_tlv(out, types::SECRET, secret);
                });
            }
            self.generations.iter().for_each(|generation| generation.push(&mut out));
            let earlier = self.numberings.len().saturating_sub(1);
            let kept = self.numberings.iter().take(earlier - skipped).chain(self.numberings.last());
            kept.for_each(|numbering| numbering.push(&mut out));
            if out.len() <= PLACE_BYTES_MAX {
                return Some(out);
            }
            skipped += 1;
            if skipped > earlier {
                return None;
            }
        }
    }

    /// Decodes a place.
    ///
    /// # Errors
    /// A [`DecodeError`]; [`DecodeError::TooLarge`] for more than [`NUMBERINGS_MAX`] numberings or [`GENERATIONS_MAX`]
    /// generations.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut tree, mut label, mut neighbors, mut numberings) = (None, None, Vec::new(), Vec::new());
        let mut generations = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some(element) = reader.next_tlv()? {
            match element.typ {
                tagnet::TREE => tree = Some(number_32(&element)?),
                tagnet::LABEL => label = Some(Label::decode(element.typ, element.value)?),
                types::NEIGHBOR => neighbors.push(decode_neighbor(element.value)?),
                types::GENERATION if generations.len() == GENERATIONS_MAX => return Err(DecodeError::TooLarge),
                types::GENERATION => generations.push(PlaceGeneration::decode(element.value)?),
                types::NUMBERING if numberings.len() == NUMBERINGS_MAX => return Err(DecodeError::TooLarge),
                types::NUMBERING => numberings.push(PlaceNumbering::decode(element.value)?),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        let tree = TreeId(tree.ok_or(DecodeError::Missing(tagnet::TREE))?);
        Ok(TreePlace { tree, label, neighbors, generations, numberings })
    }
}

impl PlaceGeneration {
    fn push(&self, out: &mut Vec<u8>) {
        tlv::push_nested(out, types::GENERATION, |out| {
            tlv::push_nni(out, tagnet::TREE, self.id.0.into());
            tlv::push_nni(out, types::SETTLED, self.is_settled.into());
            self.faces.iter().for_each(|face| tlv::push_nni(out, types::FACE, face.0));
        });
    }

    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (mut id, mut is_settled, mut faces) = (None, false, Vec::new());
        let mut reader = Reader::new(value);
        while let Some(element) = reader.next_tlv()? {
            match element.typ {
                tagnet::TREE => id = Some(number_32(&element)?),
                types::SETTLED => is_settled = tlv::decode_nni(element.typ, element.value)? != 0,
                types::FACE => faces.push(FaceId(tlv::decode_nni(element.typ, element.value)?)),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(PlaceGeneration { id: TreeId(id.ok_or(DecodeError::Missing(tagnet::TREE))?), is_settled, faces })
    }
}

impl PlaceNumbering {
    fn push(&self, out: &mut Vec<u8>) {
        tlv::push_nested(out, types::NUMBERING, |out| {
            if let Some((first, last)) = self.claim {
                tlv::push_nni(out, types::CLAIM_FIRST, first.into());
                tlv::push_nni(out, types::CLAIM_LAST, last.into());
            }
            push_label(out, self.label);
            tlv::push_nni(out, types::DESCENDANTS, self.descendants.into());
            tlv::push_nni(out, types::LIGHT_DESCENDANTS, self.light_descendants.into());
            for (typ, face) in [(types::UP, self.up), (types::HEAVY, self.heavy)] {
                if let Some(face) = face {
                    tlv::push_nni(out, typ, face.0);
                }
            }
            for (port, face) in &self.light {
                tlv::push_nested(out, types::LIGHT, |out| {
                    tlv::push_nni(out, types::PORT, (*port).into());
                    tlv::push_nni(out, types::FACE, face.0);
                });
            }
        });
    }

    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (mut first, mut last, mut label, mut descendants, mut light_descendants) = (None, None, None, None, None);
        let (mut up, mut heavy, mut light) = (None, None, Vec::new());
        let mut reader = Reader::new(value);
        while let Some(element) = reader.next_tlv()? {
            match element.typ {
                types::CLAIM_FIRST => first = Some(number_32(&element)?),
                types::CLAIM_LAST => last = Some(number_32(&element)?),
                tagnet::LABEL => label = Some(Label::decode(element.typ, element.value)?),
                types::DESCENDANTS => descendants = Some(number_32(&element)?),
                types::LIGHT_DESCENDANTS => light_descendants = Some(number_32(&element)?),
                types::UP => up = Some(FaceId(tlv::decode_nni(element.typ, element.value)?)),
                types::HEAVY => heavy = Some(FaceId(tlv::decode_nni(element.typ, element.value)?)),
                types::LIGHT => light.push(decode_light(element.value)?),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        let descendants = descendants.ok_or(DecodeError::Missing(types::DESCENDANTS))?;
        let light_descendants = light_descendants.ok_or(DecodeError::Missing(types::LIGHT_DESCENDANTS))?;
        if light_descendants > descendants || first.is_some() != last.is_some() {
            return Err(DecodeError::BadValue(types::NUMBERING));
        }
        let label = label.ok_or(DecodeError::Missing(tagnet::LABEL))?;
        Ok(PlaceNumbering { claim: first.zip(last), label, descendants, light_descendants, up, heavy, light })
    }
}

fn push_label(out: &mut Vec<u8>, label: Label) {
    tlv::push_nested(out, tagnet::LABEL, |out| label.push(out));
}

fn number_32(element: &Tlv<'_>) -> Result<u32, DecodeError> {
    let number = tlv::decode_nni(element.typ, element.value)?;
    u32::try_from(number).map_err(|_| DecodeError::BadValue(element.typ))
}

/// Reads a FACE and one other element.
fn face_and(value: &[u8], typ: u64) -> Result<(FaceId, &[u8]), DecodeError> {
    let (mut face, mut other) = (None, None);
    let mut reader = Reader::new(value);
    while let Some(element) = reader.next_tlv()? {
        match element.typ {
            types::FACE => face = Some(FaceId(tlv::decode_nni(element.typ, element.value)?)),
            of if of == typ => other = Some(element.value),
            of if tlv::is_critical(of) => return Err(DecodeError::UnexpectedCritical(of)),
            _ => {}
        }
    }
    Ok((face.ok_or(DecodeError::Missing(types::FACE))?, other.ok_or(DecodeError::Missing(typ))?))
}

fn decode_neighbor(value: &[u8]) -> Result<(FaceId, [u8; SECRET_BYTES]), DecodeError> {
    let (face, secret) = face_and(value, types::SECRET)?;
    Ok((face, secret.try_into().map_err(|_| DecodeError::BadValue(types::SECRET))?))
}

fn decode_light(value: &[u8]) -> Result<(u32, FaceId), DecodeError> {
    let (face, port) = face_and(value, types::PORT)?;
    let port =
        u32::try_from(tlv::decode_nni(types::PORT, port)?).ok().filter(|port| (1..=LIGHT_PORT_MAX).contains(port));
    Ok((port.ok_or(DecodeError::BadValue(types::PORT))?, face))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(neighbors: u64, earlier: u32) -> TreePlace {
        let numbering = |claim, first: u32| PlaceNumbering {
            claim,
            label: Label::new(first),
            descendants: 100,
            light_descendants: 7,
            up: Some(FaceId(300)),
            heavy: None,
            light: (1..=neighbors as u32).map(|port| (port, FaceId(300 + u64::from(port)))).collect(),
        };
        let claimed = (0..earlier).map(|n| numbering(Some((1000 * n, 1000 * n + 100)), 1000 * n));
        TreePlace {
            tree: TreeId(2),
            label: Some(Label::new(70_000)),
            neighbors: (1..=neighbors).map(|n| (FaceId(300 + n), [n as u8; SECRET_BYTES])).collect(),
            generations: (0..u32::from(neighbors > 1))
                .map(|n| PlaceGeneration { id: TreeId(10 + n), is_settled: n == 1, faces: vec![FaceId(301)] })
                .collect(),
            numberings: claimed.chain([numbering(None, 70_000)]).collect(),
        }
    }

    #[test]
    fn places_are_decoded_as_they_were_encoded() {
        for of in [place(0, 0), place(3, 8), TreePlace { label: None, numberings: Vec::new(), ..place(1, 0) }] {
            assert_eq!(TreePlace::decode(&of.encode().expect("it fits")), Ok(of));
        }
    }

    #[test]
    fn the_oldest_numberings_are_left_out_if_there_is_no_room() {
        let whole = place(90, 8);
        let decoded = TreePlace::decode(&whole.encode().expect("it fits")).expect("a place");
        assert_eq!(decoded.neighbors, whole.neighbors);
        let kept = decoded.numberings.len();
        assert!((2..9).contains(&kept), "{kept}");
        assert_eq!(decoded.numberings[..kept - 1], whole.numberings[..kept - 1]);
        assert_eq!(decoded.numberings.last(), whole.numberings.last());
        assert_eq!(place(400, 8).encode(), None);
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        let refused = |change: fn(&mut TreePlace)| {
            let mut of = place(1, 1);
            change(&mut of);
            TreePlace::decode(&of.encode().expect("it fits")).unwrap_err()
        };
        let too_many = |of: &mut TreePlace| of.numberings[0].light_descendants = 101;
        assert_eq!(refused(too_many), DecodeError::BadValue(types::NUMBERING));
        for port in [0, LIGHT_PORT_MAX + 1] {
            let mut of = place(1, 1);
            of.numberings[0].light[0].0 = port;
            assert_eq!(TreePlace::decode(&of.encode().expect("it fits")), Err(DecodeError::BadValue(types::PORT)));
        }
        assert_eq!(TreePlace::decode(&[]), Err(DecodeError::Missing(tagnet::TREE)));
        let id = |n| PlaceGeneration { id: TreeId(n), is_settled: true, faces: Vec::new() };
        let mut generations = place(1, 1);
        generations.generations = (0..5).map(id).collect();
        assert_eq!(TreePlace::decode(&generations.encode().expect("it fits")), Err(DecodeError::TooLarge));
        let many = |of: &mut TreePlace| of.numberings = vec![of.numberings[0].clone(); NUMBERINGS_MAX + 1];
        assert_eq!(refused(many), DecodeError::TooLarge);
    }
}
