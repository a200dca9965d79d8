//! Names: typed components, borrowed ([`NameRef`]) and owned ([`Name`]).

use std::fmt;

use crate::tlv::DecodeError;

/// Most components a name may have; more is [`DecodeError::TooManyComponents`].
pub const COMPONENTS_MAX: usize = 128;

/// Types of name components.
pub mod component_type {
    #![allow(missing_docs)]
    pub const IMPLICIT_SHA256_DIGEST: u16 = 1;
    pub const PARAMETERS_SHA256_DIGEST: u16 = 2;
    pub const GENERIC: u16 = 8;
    pub const KEYWORD: u16 = 32;
    pub const SEGMENT: u16 = 50;
    pub const BYTE_OFFSET: u16 = 52;
    pub const VERSION: u16 = 54;
    pub const TIMESTAMP: u16 = 56;
    pub const SEQUENCE_NUM: u16 = 58;
}

/// One component: type 1 to 65535, and any octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    /// TLV-TYPE.
    pub typ: u16,
    /// TLV-VALUE.
    pub value: &'a [u8],
}

impl<'a> Component<'a> {
    /// A GenericNameComponent.
    pub fn generic(value: &'a [u8]) -> Self {
        Component { typ: component_type::GENERIC, value }
    }
    /// The NonNegativeInteger of a segment, version, timestamp... component.
    pub fn number(&self) -> Option<u64> {
        todo!()
    }
}

/// A name borrowed from a packet: the TLV-VALUE of its Name element, known to be well-formed.
///
/// Ordered by NDN's canonical order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameRef<'a> {
    value: &'a [u8],
}

impl<'a> NameRef<'a> {
    /// The name `/`.
    pub const ROOT: NameRef<'static> = NameRef { value: &[] };
    /// Checks `value`, the TLV-VALUE of a Name element.
    pub fn new(_value: &'a [u8]) -> Result<Self, DecodeError> {
        todo!()
    }
    /// The TLV-VALUE.
    pub fn value(&self) -> &'a [u8] {
        self.value
    }
    /// Number of components (walks the name).
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Whether this is `/`.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }
    /// The components, first to last.
    pub fn components(&self) -> impl Iterator<Item = Component<'a>> + use<'a> {
        std::iter::empty()
    }
    /// Component `i`; negative counts from the end.
    pub fn component(&self, _i: isize) -> Option<Component<'a>> {
        todo!()
    }
    /// The first `depth` components, or the whole name if it has no more.
    pub fn prefix(&self, _depth: usize) -> NameRef<'a> {
        todo!()
    }
    /// Whether `self` is `other` or a prefix of it.
    pub fn is_prefix_of(&self, other: &NameRef<'_>) -> bool {
        // Encoded components delimit themselves, so a prefix of octets is a prefix of components.
        other.value.starts_with(self.value)
    }
    /// An owned copy.
    pub fn to_name(&self) -> Name {
        Name { value: self.value.into() }
    }
}

impl Ord for NameRef<'_> {
    fn cmp(&self, _other: &Self) -> std::cmp::Ordering {
        todo!()
    }
}
impl PartialOrd for NameRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl fmt::Display for NameRef<'_> {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}
impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An owned name: 16 octets and the encoded components.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Name {
    value: Box<[u8]>,
}

impl Name {
    /// The name borrowed.
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef { value: &self.value }
    }
    /// The TLV-VALUE.
    pub fn value(&self) -> &[u8] {
        &self.value
    }
    /// This name with one more component.
    pub fn join(&self, _component: Component<'_>) -> Name {
        todo!()
    }
    /// This name with one more component that holds a NonNegativeInteger (segment, version...).
    pub fn join_number(&self, _typ: u16, _n: u64) -> Name {
        todo!()
    }
    /// This name followed by all components of `suffix`.
    pub fn join_name(&self, _suffix: NameRef<'_>) -> Name {
        todo!()
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}
impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
