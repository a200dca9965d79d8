//! Extracts the signature of a command in either signed Interest format.

use byname_wire::signature::{KeyLocator, SignatureInfo, SignatureType};
use byname_wire::tlv::{Reader, types};
use byname_wire::{Component, Data, Interest};

use super::Refusal;

/// Name components that the older format appends: timestamp, nonce, SignatureInfo, SignatureValue.
pub(super) const OLD_FORMAT_COMPONENTS: usize = 4;

/// The signature of a packet in any format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) typ: SignatureType,
    pub(super) key_locator: Option<KeyLocator<'a>>,
    pub(super) nonce: Option<&'a [u8]>,
    pub(super) time_ms: Option<u64>,
    pub(super) value: &'a [u8],
    pub(super) signed: [&'a [u8]; 2],
}

impl<'a> Command<'a> {
    /// Finds the signature of a command Interest.
    pub(super) fn parse(interest: &Interest<'a>) -> Result<Self, Refusal> {
        match &interest.signature {
            Some(signature) => Ok(Command {
                typ: signature.info.typ,
                key_locator: signature.info.key_locator,
                nonce: signature.info.nonce,
                time_ms: signature.info.time_ms,
                value: signature.value,
                signed: signature.signed,
            }),
            None => Command::parse_old_format(interest),
        }
    }

    /// Takes the signature of a Data packet.
    pub(super) fn from_data(data: &Data<'a>) -> Self {
        Command {
            typ: data.signature.info.typ,
            key_locator: data.signature.info.key_locator,
            nonce: None,
            time_ms: None,
            value: data.signature.value,
            signed: data.signature.signed,
        }
    }

    /// Parses the format before v0.3 [NFD wiki, "Command Interest"; ndn-cxx, "Signed Interest v0.2"].
    fn parse_old_format(interest: &Interest<'a>) -> Result<Self, Refusal> {
        let name = interest.name;
        // `/localhost/nfd/<module>/<verb>` precedes the signature. A shorter name is therefore not signed.
        if name.len() < 4 + OLD_FORMAT_COMPONENTS {
            return Err(Refusal::Unsigned);
        }
        let last = |i: isize| name.component(i).ok_or(Refusal::Unsigned);
        let info = element_in(last(-2)?, types::SIGNATURE_INFO).ok_or(Refusal::Unsigned)?;
        let value = element_in(last(-1)?, types::SIGNATURE_VALUE).ok_or(Refusal::Unsigned)?;
        let info = SignatureInfo::decode(info).map_err(|_| Refusal::Malformed)?;
        Ok(Command {
            typ: info.typ,
            key_locator: info.key_locator,
            nonce: Some(last(-3)?.value),
            time_ms: Some(last(-4)?.number().ok_or(Refusal::Malformed)?),
            value,
            // The whole name without its last component.
            signed: [name.prefix(name.len() - 1).value(), &[]],
        })
    }
}

/// Value of the component's only element, if it has this type.
fn element_in(component: Component<'_>, typ: u64) -> Option<&[u8]> {
    let mut reader = Reader::new(component.value);
    let element = reader.next_tlv().ok()??;
    (element.typ == typ && reader.rest().is_empty()).then_some(element.value)
}
