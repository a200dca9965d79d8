//! Elements of TLV: encoders and decoders, generated from tables of fields. Fields are encoded in the order of the table
//! and decoded in any. Decoders skip unknown elements. If an element is repeated, the last one counts.

pub use byname_wire::DecodeError;
use byname_wire::tagnet::TagList;
use byname_wire::tlv;
pub use byname_wire::tlv::Reader;
use byname_wire::{Descriptor, Name, NameRef};

/// An element.
pub trait Element: Sized {
    /// TLV-TYPE of the element.
    const TYPE: u64;
    /// Appends the TLV-VALUE.
    fn encode_value(&self, out: &mut Vec<u8>);
    /// Decodes the TLV-VALUE.
    fn decode_value(value: &[u8]) -> Result<Self, DecodeError>;

    /// Appends the element.
    fn encode_to(&self, out: &mut Vec<u8>) {
        tlv::push_nested(out, Self::TYPE, |out| self.encode_value(out));
    }
    /// Encodes the element.
    fn encode(&self) -> Vec<u8> {
        // Enough for nearly all elements. Every command passes here.
        let mut out = Vec::with_capacity(128);
        self.encode_to(&mut out);
        out
    }
    /// Decodes the element, which must fill `wire`.
    fn decode(wire: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_value(tlv::decode_only(wire, Self::TYPE)?)
    }
}

/// Decodes the content of a dataset: a list of elements of one type.
pub fn decode_list<T: Element>(content: &[u8]) -> Result<Vec<T>, DecodeError> {
    let mut reader = Reader::new(content);
    let mut list = Vec::new();
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ != T::TYPE {
            return Err(DecodeError::UnexpectedCritical(tlv.typ));
        }
        list.push(T::decode_value(tlv.value)?);
    }
    Ok(list)
}

/// A name inside a Strategy element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StrategyName(pub Name);

/// A type that a field of an element may have.
pub trait Field: Sized {
    /// Values read so far.
    type Slot: Default;
    /// Appends the field.
    fn push_field(&self, typ: u64, out: &mut Vec<u8>);
    /// Reads one element of the field.
    fn read(slot: &mut Self::Slot, typ: u64, value: &[u8]) -> Result<(), DecodeError>;
    /// The field's value after all elements.
    fn finish(slot: Self::Slot, typ: u64) -> Result<Self, DecodeError>;
}

/// A field with one value.
pub trait Scalar: Sized {
    /// Appends the value as an element of this type.
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>);
    /// Decodes the value.
    fn read_scalar(typ: u64, value: &[u8]) -> Result<Self, DecodeError>;
}

impl Scalar for u64 {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_nni(out, typ, *self);
    }
    fn read_scalar(typ: u64, value: &[u8]) -> Result<Self, DecodeError> {
        tlv::decode_nni(typ, value)
    }
}

impl Scalar for String {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_tlv(out, typ, self.as_bytes());
    }
    fn read_scalar(typ: u64, value: &[u8]) -> Result<Self, DecodeError> {
        std::str::from_utf8(value).map(str::to_owned).map_err(|_| DecodeError::BadValue(typ))
    }
}

/// Any bytes.
impl Scalar for Vec<u8> {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_tlv(out, typ, self);
    }
    fn read_scalar(_: u64, value: &[u8]) -> Result<Self, DecodeError> {
        Ok(value.to_vec())
    }
}

impl Scalar for Name {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_tlv(out, typ, self.value());
    }
    fn read_scalar(_: u64, value: &[u8]) -> Result<Self, DecodeError> {
        Ok(NameRef::new(value)?.to_name())
    }
}

impl Scalar for StrategyName {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_nested(out, typ, |out| self.0.push_scalar(tlv::types::NAME, out));
    }
    fn read_scalar(_: u64, value: &[u8]) -> Result<Self, DecodeError> {
        Ok(StrategyName(NameRef::new(tlv::decode_only(value, tlv::types::NAME)?)?.to_name()))
    }
}

impl Scalar for Descriptor {
    fn push_scalar(&self, typ: u64, out: &mut Vec<u8>) {
        tlv::push_nested(out, typ, |out| {
            self.tags().iter().for_each(|tag| out.extend_from_slice(&tag.0.to_be_bytes()))
        });
    }
    fn read_scalar(_: u64, value: &[u8]) -> Result<Self, DecodeError> {
        Ok(TagList::decode(value)?.descriptor())
    }
}

/// Required fields: an element without them is refused.
macro_rules! required {
    ($($scalar:ty),*) => {$(
        impl Field for $scalar {
            type Slot = Option<$scalar>;
            fn push_field(&self, typ: u64, out: &mut Vec<u8>) {
                self.push_scalar(typ, out);
            }
            fn read(slot: &mut Self::Slot, typ: u64, value: &[u8]) -> Result<(), DecodeError> {
                *slot = Some(Scalar::read_scalar(typ, value)?);
                Ok(())
            }
            fn finish(slot: Self::Slot, typ: u64) -> Result<Self, DecodeError> {
                slot.ok_or(DecodeError::Missing(typ))
            }
        }
    )*};
}
required!(u64, String, Name, StrategyName, Descriptor);

impl<T: Scalar> Field for Option<T> {
    type Slot = Option<T>;
    fn push_field(&self, typ: u64, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.push_scalar(typ, out);
        }
    }
    fn read(slot: &mut Self::Slot, typ: u64, value: &[u8]) -> Result<(), DecodeError> {
        *slot = Some(T::read_scalar(typ, value)?);
        Ok(())
    }
    fn finish(slot: Self::Slot, _: u64) -> Result<Self, DecodeError> {
        Ok(slot)
    }
}

impl<T: Element> Field for Vec<T> {
    type Slot = Vec<T>;
    fn push_field(&self, _: u64, out: &mut Vec<u8>) {
        for element in self {
            element.encode_to(out);
        }
    }
    fn read(slot: &mut Self::Slot, _: u64, value: &[u8]) -> Result<(), DecodeError> {
        slot.push(T::decode_value(value)?);
        Ok(())
    }
    fn finish(slot: Self::Slot, _: u64) -> Result<Self, DecodeError> {
        Ok(slot)
    }
}

/// Declares a struct and its [`Element`] implementation from a table of fields and their types.
#[macro_export]
macro_rules! element {
    (
        $(#[$meta:meta])*
        $name:ident = $typ:expr, {
            $($(#[$field_meta:meta])* $field:ident: $kind:ty = $field_typ:path,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)*
        }

        impl $crate::element::Element for $name {
            const TYPE: u64 = $typ;
            fn encode_value(&self, out: &mut Vec<u8>) {
                $($crate::element::Field::push_field(&self.$field, $field_typ, out);)*
            }
            fn decode_value(value: &[u8]) -> Result<Self, $crate::element::DecodeError> {
                $(let mut $field = <$kind as $crate::element::Field>::Slot::default();)*
                let mut reader = $crate::element::Reader::new(value);
                while let Some(tlv) = reader.next_tlv()? {
                    match tlv.typ {
                        $($field_typ => {
                            <$kind as $crate::element::Field>::read(&mut $field, tlv.typ, tlv.value)?;
                        })*
                        _ => {}
                    }
                }
                Ok($name { $($field: $crate::element::Field::finish($field, $field_typ)?,)* })
            }
        }
    };
}
pub use element;
