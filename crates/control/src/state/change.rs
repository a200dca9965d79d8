//! Changes of the records, as the log of a store has them.

use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Name, NameRef};

use super::records::{
    AdvertisementRecord, ContentStoreRecord, FaceRecord, FlatRecord, RouteRecord, StrategyRecord, ToldRecord,
};
use crate::element::Element;

/// TLV-TYPE numbers of changes that are no records. They never change; see [`super::records`].
mod types {
    pub const FORGET_FACE: u64 = 192;
    pub const FORGET_ROUTE: u64 = 193;
    pub const FORGET_STRATEGY: u64 = 194;
    pub const FORGET_ADVERTISEMENT: u64 = 195;
    pub const FORGET_TOLD: u64 = 196;
    pub const FORGET_FLAT: u64 = 197;
}

/// A change of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds a face or replaces the one with this number.
    Face(FaceRecord),
    /// Removes a face, its routes and its advertisements.
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
    /// Adds an advertisement.
    Advertisement(AdvertisementRecord),
    /// Removes an advertisement.
    ForgetAdvertisement(AdvertisementRecord),
    /// A destination of readvertisement was told this.
    Told(ToldRecord),
    /// A destination does not know this any more.
    ForgetTold(ToldRecord),
    /// Changes a flat name.
    Flat(FlatRecord),
    /// The flat name is as in its file.
    ForgetFlat(Name),
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
            Change::Advertisement(one) => one.encode_to(out),
            Change::ForgetAdvertisement(one) => {
                tlv::push_nested(out, types::FORGET_ADVERTISEMENT, |out| one.encode_value(out));
            }
            Change::Told(told) => told.encode_to(out),
            Change::ForgetTold(told) => tlv::push_nested(out, types::FORGET_TOLD, |out| told.encode_value(out)),
            Change::Flat(flat) => flat.encode_to(out),
            Change::ForgetFlat(name) => tlv::push_tlv(out, types::FORGET_FLAT, name.value()),
        }
    }

    /// Decodes a sequence of at most `max` changes.
    pub(super) fn decode_all(wire: &[u8], max: usize) -> Result<Vec<Change>, DecodeError> {
        let (mut reader, mut changes) = (Reader::new(wire), Vec::new());
        while let Some(tlv) = reader.next_tlv()? {
            if changes.len() == max {
                return Err(DecodeError::BadValue(tlv.typ));
            }
            let value = tlv.value;
            changes.push(match tlv.typ {
                FaceRecord::TYPE => Change::Face(FaceRecord::decode_value(value)?),
                types::FORGET_FACE => Change::ForgetFace(tlv::decode_nni(tlv.typ, value)?),
                RouteRecord::TYPE => Change::Route(RouteRecord::decode_value(value)?),
                types::FORGET_ROUTE => Change::ForgetRoute(RouteRecord::decode_value(value)?),
                StrategyRecord::TYPE => Change::Strategy(StrategyRecord::decode_value(value)?),
                types::FORGET_STRATEGY => Change::ForgetStrategy(NameRef::new(value)?.to_name()),
                FlatRecord::TYPE => Change::Flat(FlatRecord::decode_value(value)?),
                types::FORGET_FLAT => Change::ForgetFlat(NameRef::new(value)?.to_name()),
                ContentStoreRecord::TYPE => Change::ContentStore(ContentStoreRecord::decode_value(value)?),
                AdvertisementRecord::TYPE => Change::Advertisement(AdvertisementRecord::decode_value(value)?),
                types::FORGET_ADVERTISEMENT => Change::ForgetAdvertisement(AdvertisementRecord::decode_value(value)?),
                ToldRecord::TYPE => Change::Told(ToldRecord::decode_value(value)?),
                types::FORGET_TOLD => Change::ForgetTold(ToldRecord::decode_value(value)?),
                typ => return Err(DecodeError::UnexpectedCritical(typ)),
            });
        }
        Ok(changes)
    }
}
