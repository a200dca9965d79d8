//! Many changes in one command: `rib/batch` and `flat/batch`, which are byname's own. `docs/management.md` specifies them.
//!
//! The changes are elements in the ApplicationParameters. The router carries them out in their order, each for itself: one that
//! is refused does not keep it from the others. The answer says how many were made, and which were not.

use byname_wire::tagnet::{TagList, types as tagnet};
use byname_wire::tlv::{self, Reader, Tlv};
use byname_wire::{DecodeError, Descriptor};

use crate::{ControlParameters, Element, element, types};

/// Most bytes of changes in one command. With its name and a signature, it fits in a packet.
pub const BATCH_BYTES_MAX: usize = 8_000;
/// Most changes in one command. With all of them refused, the answer fits in a packet.
pub const BATCH_CHANGES_MAX: usize = 256;
/// Most bytes of reasons in one answer. Refusals after these have a code alone.
const TEXTS_BYTES_MAX: usize = 3_000;

/// A change in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchChange {
    /// As `rib/register`.
    Register(ControlParameters),
    /// As `rib/unregister`.
    Unregister(ControlParameters),
    /// As `flat/set`.
    FlatSet(ControlParameters),
    /// As `flat/reset`.
    FlatReset(ControlParameters),
    /// Packets whose tags include these leave by a face, as if an application behind it had advertised them.
    Advertise {
        /// The face.
        face_id: u64,
        /// The tags.
        descriptor: Descriptor,
    },
    /// The end of [`BatchChange::Advertise`].
    Withdraw {
        /// The face.
        face_id: u64,
        /// The tags.
        descriptor: Descriptor,
    },
}

impl BatchChange {
    /// Appends the change to the parameters of a command. Returns false, and appends nothing, if there is no room.
    pub fn push(&self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        match self {
            BatchChange::Register(parameters) => push(out, types::BATCH_REGISTER, parameters),
            BatchChange::Unregister(parameters) => push(out, types::BATCH_UNREGISTER, parameters),
            BatchChange::FlatSet(parameters) => push(out, types::BATCH_FLAT_SET, parameters),
            BatchChange::FlatReset(parameters) => push(out, types::BATCH_FLAT_RESET, parameters),
            BatchChange::Advertise { face_id, descriptor } => {
                push_tags(out, types::BATCH_ADVERTISE, *face_id, descriptor)
            }
            BatchChange::Withdraw { face_id, descriptor } => {
                push_tags(out, types::BATCH_WITHDRAW, *face_id, descriptor)
            }
        }
        let fits = out.len() <= BATCH_BYTES_MAX;
        if !fits {
            out.truncate(before);
        }
        fits
    }

    fn decode(element: &Tlv<'_>) -> Result<Self, DecodeError> {
        let parameters = || ControlParameters::decode_value(element.value);
        Ok(match element.typ {
            types::BATCH_REGISTER => BatchChange::Register(parameters()?),
            types::BATCH_UNREGISTER => BatchChange::Unregister(parameters()?),
            types::BATCH_FLAT_SET => BatchChange::FlatSet(parameters()?),
            types::BATCH_FLAT_RESET => BatchChange::FlatReset(parameters()?),
            types::BATCH_ADVERTISE => {
                let (face_id, descriptor) = decode_tags(element.value)?;
                BatchChange::Advertise { face_id, descriptor }
            }
            types::BATCH_WITHDRAW => {
                let (face_id, descriptor) = decode_tags(element.value)?;
                BatchChange::Withdraw { face_id, descriptor }
            }
            typ => return Err(DecodeError::UnexpectedCritical(typ)),
        })
    }
}

fn push(out: &mut Vec<u8>, typ: u64, parameters: &ControlParameters) {
    tlv::push_nested(out, typ, |out| parameters.encode_value(out));
}

fn push_tags(out: &mut Vec<u8>, typ: u64, face_id: u64, descriptor: &Descriptor) {
    tlv::push_nested(out, typ, |out| {
        tlv::push_nni(out, types::FACE_ID, face_id);
        tlv::push_nested(out, tagnet::TAGS, |out| {
            descriptor.tags().iter().for_each(|tag| out.extend_from_slice(&tag.0.to_be_bytes()));
        });
    });
}

fn decode_tags(value: &[u8]) -> Result<(u64, Descriptor), DecodeError> {
    let mut reader = Reader::new(value);
    let (mut face_id, mut descriptor) = (None, None);
    while let Some(element) = reader.next_tlv()? {
        match element.typ {
            types::FACE_ID => face_id = Some(tlv::decode_nni(element.typ, element.value)?),
            tagnet::TAGS => descriptor = Some(TagList::decode(element.value)?.descriptor()),
            typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
            _ => {}
        }
    }
    let face_id = face_id.ok_or(DecodeError::Missing(types::FACE_ID))?;
    Ok((face_id, descriptor.ok_or(DecodeError::Missing(tagnet::TAGS))?))
}

/// Decodes the changes of a command. `None`: there are more than [`BATCH_CHANGES_MAX`].
///
/// # Errors
/// A change is malformed, or of no known kind. Then none may be carried out: the sender means something else.
pub fn decode_batch(parameters: &[u8]) -> Result<Option<Vec<BatchChange>>, DecodeError> {
    let mut reader = Reader::new(parameters);
    let mut changes = Vec::new();
    while let Some(element) = reader.next_tlv()? {
        if changes.len() == BATCH_CHANGES_MAX {
            return Ok(None);
        }
        changes.push(BatchChange::decode(&element)?);
    }
    Ok(Some(changes))
}

element! {
    /// A change of a batch that was not made.
    BatchRefusal = types::BATCH_REFUSAL, {
        /// Which one: 0 is the first of the batch.
        index: u64 = types::BATCH_INDEX,
        /// As the code of an answer to such a command alone.
        code: u64 = types::STATUS_CODE,
        /// The reason. Empty if earlier refusals have taken the room.
        text: String = types::STATUS_TEXT,
    }
}

element! {
    /// What became of a batch: the body of its answer.
    BatchOutcome = types::BATCH_OUTCOME, {
        /// Number of changes that were made.
        count: u64 = types::COUNT,
        /// Those that were not, in their order.
        refusals: Vec<BatchRefusal> = types::BATCH_REFUSAL,
    }
}

impl BatchOutcome {
    /// Appends a refusal, with its text if there is room for it.
    pub fn refuse(&mut self, index: usize, code: u64, text: String) {
        let taken: usize = self.refusals.iter().map(|refusal| refusal.text.len()).sum();
        let text = if taken + text.len() <= TEXTS_BYTES_MAX { text } else { String::new() };
        self.refusals.push(BatchRefusal { index: index as u64, code, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<BatchChange> {
        let route = |uri: &str| ControlParameters {
            name: Some(uri.parse().expect("a name")),
            face_id: Some(300),
            cost: Some(7),
            ..ControlParameters::default()
        };
        let label = ControlParameters { label: Some("/up".parse().expect("a name")), ..route("/o/x") };
        let descriptor = Descriptor::of(["a", "b"]).expect("few tags");
        vec![
            BatchChange::Register(route("/a")),
            BatchChange::Unregister(route("/b")),
            BatchChange::FlatSet(label),
            BatchChange::FlatReset(route("/o/y")),
            BatchChange::Advertise { face_id: 300, descriptor: descriptor.clone() },
            BatchChange::Withdraw { face_id: 301, descriptor },
        ]
    }

    fn encoded(changes: &[BatchChange]) -> Vec<u8> {
        let mut out = Vec::new();
        changes.iter().for_each(|change| assert!(change.push(&mut out)));
        out
    }

    #[test]
    fn changes_come_back_in_their_order() {
        assert_eq!(decode_batch(&encoded(&changes())), Ok(Some(changes())));
        assert_eq!(decode_batch(&[]), Ok(Some(vec![])));
    }

    #[test]
    fn what_is_too_long_or_strange_is_refused() {
        let mut out = Vec::new();
        let mut all = changes();
        let name = format!("/{}", "x".repeat(120)).parse().expect("a name");
        all[0] = BatchChange::Register(ControlParameters { name: Some(name), ..ControlParameters::default() });
        let pushed = all.iter().cycle().take_while(|change| change.push(&mut out)).count();
        assert!(pushed > 100 && out.len() <= BATCH_BYTES_MAX, "{pushed} changes");
        let first = decode_batch(&out).expect("as encoded").expect("few");
        assert_eq!(first.len(), pushed, "what did not fit left nothing behind");
        let many: Vec<BatchChange> = std::iter::repeat_n(all[3].clone(), BATCH_CHANGES_MAX + 1).collect();
        let mut long = Vec::new();
        many.iter().for_each(|change| long.append(&mut encoded(std::slice::from_ref(change))));
        assert_eq!(decode_batch(&long), Ok(None));
        for cut in 1..out.len().min(200) {
            // Never a panic, and a cut element never counts.
            assert_ne!(decode_batch(&out[..cut]), Ok(Some(first.clone())));
        }
        let mut strange = Vec::new();
        tlv::push_tlv(&mut strange, types::BATCH_INDEX, &[1]);
        assert_eq!(decode_batch(&strange), Err(DecodeError::UnexpectedCritical(types::BATCH_INDEX)));
    }

    #[test]
    fn an_answer_full_of_refusals_fits_in_a_packet() {
        let mut outcome = BatchOutcome { count: 3, ..BatchOutcome::default() };
        (0..BATCH_CHANGES_MAX).for_each(|index| outcome.refuse(index, 507, "x".repeat(100)));
        let wire = outcome.encode();
        assert!(wire.len() < 8_000, "{} bytes", wire.len());
        assert_eq!(BatchOutcome::decode(&wire), Ok(outcome.clone()));
        assert_eq!(outcome.refusals[0].text.len(), 100);
        assert_eq!((outcome.refusals[255].index, outcome.refusals[255].text.len()), (255, 0));
    }
}
