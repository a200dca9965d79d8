//! Changes of the records, as the log of a store has them.

use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Name, NameRef};

use super::records::{ContentStoreRecord, FaceRecord, RouteRecord, StrategyRecord};
use crate::element::Element;

/// TLV-TYPE numbers of changes that are no records. They never change; see [`super::records`].
mod types {
    pub const FORGET_FACE: u64 = 192;
    pub const FORGET_ROUTE: u64 = 193;
    pub const FORGET_STRATEGY: u64 = 194;
}

/// A change of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds a face or replaces the one with this number.
    Face(FaceRecord),
    /// Removes a face and its routes.
    ForgetFace(u64),
    /// Adds a route, or replaces the one with the same name, face, layer and origin.
    Route(RouteRecord),
    /// Removes the route with this name, face, layer and origin.
    ForgetRoute(RouteRecord),
    /// Sets the strategy of a prefix.
    Strategy(StrategyRecord),
    /// Removes the strategy of a prefix.
    ForgetStrategy(Name),
    /// Replaces the settings of the content store.
    ContentStore(ContentStoreRecord),
}

impl Change {
    /// Appends the change.
    pub(super) fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Change::Face(face) => face.encode_to(out),
            Change::ForgetFace(number) => tlv::push_nni(out, types::FORGET_FACE, *number),
            Change::Route(route) => route.encode_to(out),
            Change::ForgetRoute(route) => tlv::push_nested(out, types::FORGET_ROUTE, |out| route.encode_value(out)),
            Change::Strategy(choice) => choice.encode_to(out),
            Change::ForgetStrategy(prefix) => tlv::push_tlv(out, types::FORGET_STRATEGY, prefix.value()),
            Change::ContentStore(settings) => settings.encode_to(out),
        }
    }

    /// Decodes a sequence of changes.
    pub(super) fn decode_all(wire: &[u8]) -> Result<Vec<Change>, DecodeError> {
        let (mut reader, mut changes) = (Reader::new(wire), Vec::new());
        while let Some(tlv) = reader.next_tlv()? {
            let value = tlv.value;
            changes.push(match tlv.typ {
                FaceRecord::TYPE => Change::Face(FaceRecord::decode_value(value)?),
                types::FORGET_FACE => Change::ForgetFace(tlv::decode_nni(tlv.typ, value)?),
                RouteRecord::TYPE => Change::Route(RouteRecord::decode_value(value)?),
                types::FORGET_ROUTE => Change::ForgetRoute(RouteRecord::decode_value(value)?),
                StrategyRecord::TYPE => Change::Strategy(StrategyRecord::decode_value(value)?),
                types::FORGET_STRATEGY => Change::ForgetStrategy(NameRef::new(value)?.to_name()),
                ContentStoreRecord::TYPE => Change::ContentStore(ContentStoreRecord::decode_value(value)?),
                typ => return Err(DecodeError::UnexpectedCritical(typ)),
            });
        }
        Ok(changes)
    }
}
