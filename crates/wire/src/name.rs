//! Names: typed components, borrowed ([`NameRef`]) and owned ([`Name`]).

use std::fmt;

use crate::PACKET_BYTES_MAX;
use crate::tlv::{self, DecodeError, types};

/// Maximum number of components of a name. More is [`DecodeError::TooManyComponents`].
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

/// One component: type 1 to 65535, and any bytes.
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
        tlv::decode_nni(u64::from(self.typ), self.value).ok()
    }
    /// Appends the encoded component.
    pub fn push(&self, out: &mut Vec<u8>) {
        tlv::push_tlv(out, u64::from(self.typ), self.value);
    }
}

/// For the component that begins at `start`: the number of bytes before its value, its type, and
/// its end.
///
/// The name must be well-formed. For any other, the end is at most that of `value`.
#[inline]
pub(crate) fn component_at(value: &[u8], start: usize) -> (usize, u16, usize) {
    let rest = &value[start..];
    if let [typ @ ..=252, len @ ..=252, ..] = *rest {
        let end = start + 2 + usize::from(len);
        // A branch that is never taken costs less than a minimum, which would wait for the length.
        if end <= value.len() {
            return (2, u16::from(typ), end);
        }
    }
    large_component_at(value, start)
}

#[cold]
#[inline(never)]
fn large_component_at(value: &[u8], start: usize) -> (usize, u16, usize) {
    let rest = &value[start..];
    let Ok(Some(tlv)) = tlv::Reader::new(rest).next_tlv() else { return (rest.len(), 0, value.len()) };
    (tlv.wire.len() - tlv.value.len(), tlv.typ as u16, start + tlv.wire.len())
}

/// The result of one pass over a name from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameShape {
    /// Number of components.
    pub components: usize,
    /// Number of ParametersSha256DigestComponents.
    pub parameter_digests: usize,
}

impl NameShape {
    /// Checks `value`, the TLV-VALUE of a Name element, and calls `note` with each depth and where
    /// its prefix ends.
    #[inline(always)]
    pub(crate) fn check(value: &[u8], mut note: impl FnMut(usize, usize)) -> Result<Self, DecodeError> {
        if value.len() > PACKET_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        const DIGEST_FIRST: u64 = component_type::IMPLICIT_SHA256_DIGEST as u64;
        const DIGEST_LAST: u64 = component_type::PARAMETERS_SHA256_DIGEST as u64;
        let mut shape = NameShape { components: 0, parameter_digests: 0 };
        let mut at = 0;
        loop {
            // Nearly all components have one byte of type and one of length, and are no digests.
            while let Some(&[3..=252, len @ 0..=252]) = value[at..].first_chunk() {
                at += 2 + usize::from(len);
                if at > value.len() {
                    return Err(DecodeError::Truncated);
                }
                shape.components += 1;
                note(shape.components, at);
            }
            let mut reader = tlv::Reader::new(&value[at..]);
            let Some(tlv) = reader.next_tlv()? else { break };
            at = value.len() - reader.rest().len();
            if let DIGEST_FIRST..=DIGEST_LAST = tlv.typ {
                if tlv.value.len() != 32 {
                    return Err(DecodeError::BadValue(tlv.typ));
                }
                shape.parameter_digests += usize::from(tlv.typ == DIGEST_LAST);
            }
            if tlv.typ > u64::from(u16::MAX) {
                return Err(DecodeError::BadValue(types::NAME));
            }
            shape.components += 1;
            note(shape.components, at);
        }
        if shape.components > COMPONENTS_MAX {
            return Err(DecodeError::TooManyComponents);
        }
        Ok(shape)
    }
}

/// Iterates over the components of a well-formed name.
#[derive(Debug, Clone)]
struct Components<'a> {
    value: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        if self.at == self.value.len() {
            return None;
        }
        let (header, typ, end) = component_at(self.value, self.at);
        let value = self.value.get(self.at + header..end).unwrap_or_default();
        self.at = end;
        Some(Component { typ, value })
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
    pub fn new(value: &'a [u8]) -> Result<Self, DecodeError> {
        NameShape::check(value, |_, _| ())?;
        Ok(NameRef { value })
    }
    /// Wraps a name that [`NameShape::check`] has accepted, or a part of one that ends between
    /// components.
    pub(crate) fn from_checked(value: &'a [u8]) -> Self {
        NameRef { value }
    }
    /// Wraps bytes that [`NameRef::new`] or a packet's decoder checked before, for tables that keep
    /// names inside packets. Other bytes give a meaningless name; its methods still do not panic.
    pub fn new_checked_before(value: &'a [u8]) -> Self {
        debug_assert!(NameRef::new(value).is_ok());
        NameRef { value }
    }
    /// The TLV-VALUE.
    pub fn value(&self) -> &'a [u8] {
        self.value
    }
    /// Number of components (walks the name).
    pub fn len(&self) -> usize {
        self.components().count()
    }
    /// Whether this is `/`.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }
    /// The components, first to last.
    pub fn components(&self) -> impl Iterator<Item = Component<'a>> + use<'a> {
        Components { value: self.value, at: 0 }
    }
    /// Component `i`; negative counts from the end.
    pub fn component(&self, i: isize) -> Option<Component<'a>> {
        let i = if i < 0 { self.len().checked_sub(i.unsigned_abs())? } else { i.unsigned_abs() };
        self.components().nth(i)
    }
    /// The first `depth` components, or the whole name if it has fewer.
    pub fn prefix(&self, depth: usize) -> NameRef<'a> {
        let mut end = 0;
        for _ in 0..depth {
            if end == self.value.len() {
                break;
            }
            end = component_at(self.value, end).2;
        }
        NameRef { value: &self.value[..end] }
    }
    /// Whether `self` is `other` or a prefix of it.
    pub fn is_prefix_of(&self, other: &NameRef<'_>) -> bool {
        // Encoded components carry their length, so a prefix in bytes is a prefix in components.
        other.value.starts_with(self.value)
    }
    /// An owned copy.
    pub fn to_name(&self) -> Name {
        Name { value: self.value.into() }
    }
}

impl Ord for NameRef<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Canonical order compares types, then lengths, then values. TLV numbers in shortest form
        // sort like their bytes, so comparing the encodings gives canonical order.
        self.value.cmp(other.value)
    }
}
impl PartialOrd for NameRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        for component in self.components() {
            write!(f, "/{component}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An owned name: 16 bytes and the encoded components.
///
/// Names from packets and URIs are within [`COMPONENTS_MAX`] and [`PACKET_BYTES_MAX`]. Joining can
/// exceed both; no packet can carry such a name, and no table can hold it.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Name {
    value: Box<[u8]>,
}

impl Name {
    /// The name of these components.
    pub fn from_components<'a>(components: impl IntoIterator<Item = Component<'a>>) -> Name {
        let mut value = Vec::new();
        for component in components {
            component.push(&mut value);
        }
        Name { value: value.into() }
    }
    /// `value` is a sequence of well-formed components.
    pub(crate) fn from_encoded(value: Vec<u8>) -> Name {
        Name { value: value.into() }
    }
    /// The name borrowed.
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef { value: &self.value }
    }
    /// The TLV-VALUE.
    pub fn value(&self) -> &[u8] {
        &self.value
    }
    /// This name with one more component.
    pub fn join(&self, component: Component<'_>) -> Name {
        let mut value = self.value.to_vec();
        component.push(&mut value);
        Name { value: value.into() }
    }
    /// This name with one more component that holds a NonNegativeInteger (segment, version...).
    pub fn join_number(&self, typ: u16, n: u64) -> Name {
        let mut value = self.value.to_vec();
        tlv::push_nni(&mut value, u64::from(typ), n);
        Name { value: value.into() }
    }
    /// This name followed by all components of `suffix`.
    pub fn join_name(&self, suffix: NameRef<'_>) -> Name {
        Name { value: [&self.value, suffix.value].concat().into() }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    #[test]
    fn components_and_prefixes() {
        let abc = name("/a/bb/32=c");
        let abc = abc.as_ref();
        assert_eq!(abc.len(), 3);
        assert_eq!(abc.component(0), Some(Component::generic(b"a")));
        assert_eq!(abc.component(-1), Some(Component { typ: component_type::KEYWORD, value: b"c" }));
        assert_eq!(abc.component(-3), abc.component(0));
        assert_eq!((abc.component(3), abc.component(-4)), (None, None));
        assert_eq!(abc.prefix(0), NameRef::ROOT);
        assert_eq!(abc.prefix(2).to_name(), name("/a/bb"));
        assert_eq!(abc.prefix(9), abc);
        assert!(name("/a").as_ref().is_prefix_of(&abc));
        assert!(!name("/a/b").as_ref().is_prefix_of(&abc));
        assert!(NameRef::ROOT.is_prefix_of(&abc));
    }

    #[test]
    fn long_components_and_large_types() {
        let component = Component { typ: 65535, value: &[7; 1000] };
        let long = name("/a").join(component).join_number(component_type::SEGMENT, 300);
        assert_eq!(NameRef::new(long.value()).unwrap().len(), 3);
        assert_eq!(long.as_ref().component(1), Some(component));
        assert_eq!(long.as_ref().component(2).unwrap().number(), Some(300));
        assert_eq!(Name::from_components(long.as_ref().components()), long);
        assert_eq!(name("/x").join_name(long.as_ref()).to_string(), format!("/x{long}"));
    }

    #[test]
    fn malformed_names_are_refused() {
        assert_eq!(NameRef::new(&[8, 2, 1]), Err(DecodeError::Truncated));
        assert_eq!(NameRef::new(&[0, 0]), Err(DecodeError::BadNumber));
        assert_eq!(NameRef::new(&[254, 0, 1, 0, 0, 0]), Err(DecodeError::BadValue(types::NAME)));
        for typ in [1, 2] {
            for len in [0, 31, 33, 32] {
                let mut value = vec![];
                tlv::push_tlv(&mut value, typ, &vec![0; len]);
                let expected = if len == 32 { Ok(1) } else { Err(DecodeError::BadValue(typ)) };
                assert_eq!(NameRef::new(&value).map(|name| name.len()), expected);
            }
        }
        assert_eq!(NameRef::new(&[8, 0].repeat(128)).map(|name| name.len()), Ok(128));
        assert_eq!(NameRef::new(&[8, 0].repeat(129)), Err(DecodeError::TooManyComponents));
        assert_eq!(NameRef::new(&[8, 0].repeat(10_000)), Err(DecodeError::TooLarge));
    }

    #[test]
    fn canonical_order() {
        // Shorter components first, whatever their bytes; a prefix before its extensions.
        let sorted = ["/", "/7=z", "/...", "/a", "/a/a", "/z", "/aa", "/9=a", "/300=a"].map(name);
        assert!(sorted.is_sorted());
        assert!(name("/a") < Name::default().join(Component::generic(&[b'a'; 253])));
    }
}
