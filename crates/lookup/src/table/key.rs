//! Keys of tables, from what programs have.

use std::ops::Deref;
use std::path::Path;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::tagset::DescriptorError;
use byname_wire::url::{self, UrlError, UrlScheme};
use byname_wire::{Component, Name, NameRef, PACKET_BYTES_MAX};
use thiserror::Error;

/// A key that a table cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Too many components.
    #[error("the key has {components} components, more than {COMPONENTS_MAX}")]
    TooManyComponents {
        /// Number of components.
        components: usize,
    },
    /// Too many bytes. Each component takes two more than it has, and four if it has 253 or more.
    #[error("the key takes {bytes} bytes, more than {PACKET_BYTES_MAX}")]
    TooLong {
        /// The key's length as a name.
        bytes: usize,
    },
    /// The text is no URL.
    #[error("the key is no URL: {0}")]
    Url(#[from] UrlError),
    /// Too many tags.
    #[error(transparent)]
    Tags(#[from] DescriptorError),
}

/// What a [`PrefixTable`](super::PrefixTable) has as keys: sequences of components.
///
/// - Text is a path: `"/home/alice"` has two components, and so has `"home//alice/"`.
/// - A slice, an array or a vector of bytes or text has a component for each element.
/// - A [`Url`] is split by one of three schemes.
/// - A [`Name`] of NDN is what it is.
///
/// The key without components is above all others: a rule for `"/"` covers everything.
///
/// ```
/// use byname_lookup::table::{AsName, Url};
/// use byname_wire::url::UrlScheme;
///
/// let mut name = Vec::new();
/// let mut same = Vec::new();
/// "/net/example/www".append_to(&mut name)?;
/// ["net", "example", "www"].append_to(&mut same)?;
/// assert_eq!(name, same);
/// same.clear();
/// Url(UrlScheme::Tld, "http://www.example.net/").append_to(&mut same)?;
/// assert_eq!(name, same);
/// # Ok::<(), byname_lookup::table::KeyError>(())
/// ```
pub trait AsName {
    /// Appends the key as a name: the TLV-VALUE of an NDN name.
    ///
    /// # Errors
    /// If the key is no name.
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError>;
}

/// A URL, split into components by one of the schemes of [Yuan, Table 3].
#[derive(Debug, Clone, Copy)]
pub struct Url<'a>(pub UrlScheme, pub &'a str);

impl AsName for Url<'_> {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        name.extend(url::name_of_url(self.0, self.1)?.value());
        Ok(())
    }
}

impl AsName for str {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        append(self.as_bytes().split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()), name)
    }
}

impl AsName for String {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        self.as_str().append_to(name)
    }
}

impl AsName for Path {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        let segments = self.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/');
        append(segments.filter(|segment| !segment.is_empty()), name)
    }
}

impl AsName for NameRef<'_> {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        within_bounds(self.len(), self.value().len())?;
        name.extend(self.value());
        Ok(())
    }
}

impl AsName for Name {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        self.as_ref().append_to(name)
    }
}

impl<T: AsRef<[u8]>> AsName for [T] {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        append(self.iter().map(AsRef::as_ref), name)
    }
}

impl<T: AsRef<[u8]>, const N: usize> AsName for [T; N] {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        self.as_slice().append_to(name)
    }
}

impl<T: AsRef<[u8]>> AsName for Vec<T> {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        self.as_slice().append_to(name)
    }
}

impl<K: AsName + ?Sized> AsName for &K {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        (**self).append_to(name)
    }
}

fn append<'a>(components: impl Iterator<Item = &'a [u8]>, name: &mut Vec<u8>) -> Result<(), KeyError> {
    let (start, mut count) = (name.len(), 0);
    for component in components {
        count += 1;
        // Before a copy: a key may be as long as memory is.
        within_bounds(count, name.len() - start + component.len())?;
        Component::generic(component).push(name);
    }
    within_bounds(count, name.len() - start)
}

fn within_bounds(components: usize, bytes: usize) -> Result<(), KeyError> {
    if components > COMPONENTS_MAX {
        return Err(KeyError::TooManyComponents { components });
    }
    if bytes > PACKET_BYTES_MAX { Err(KeyError::TooLong { bytes }) } else { Ok(()) }
}

/// What a [`FlatTable`](super::FlatTable) has as keys: bytes of any length. An integer is its bytes,
/// the lowest first, so integers of different types are different keys.
///
/// ```
/// use byname_lookup::table::{AsBytes, KeyBytes};
///
/// struct Account(u64);
///
/// impl AsBytes for Account {
///     fn as_key(&self) -> KeyBytes<'_> {
///         KeyBytes::of_array(self.0.to_le_bytes())
///     }
/// }
/// assert_eq!(Account(7).as_key(), 7u64.as_key());
/// ```
pub trait AsBytes {
    /// The bytes.
    fn as_key(&self) -> KeyBytes<'_>;
}

/// The bytes of a key: another's, or up to 16 of its own.
#[derive(Debug, Clone, Copy)]
pub struct KeyBytes<'a>(Bytes<'a>);

#[derive(Debug, Clone, Copy)]
enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Own { bytes: [u8; 16], len: u8 },
}

impl KeyBytes<'static> {
    /// A copy of few bytes, which needs no memory elsewhere. More than 16 do not compile.
    pub fn of_array<const N: usize>(array: [u8; N]) -> Self {
        const { assert!(N <= 16, "a key has at most 16 bytes of its own") };
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&array);
        KeyBytes(Bytes::Own { bytes, len: N as u8 })
    }
}

impl<'a> From<&'a [u8]> for KeyBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        KeyBytes(Bytes::Borrowed(bytes))
    }
}

impl Deref for KeyBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Own { bytes, len } => &bytes[..usize::from(*len)],
        }
    }
}

impl PartialEq for KeyBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for KeyBytes<'_> {}

macro_rules! as_bytes {
    ($($type:ty),*) => { $(
        impl AsBytes for $type {
            #[inline]
            fn as_key(&self) -> KeyBytes<'_> {
                let bytes: &[u8] = self.as_ref();
                bytes.into()
            }
        }
    )* };
}

as_bytes!([u8], Vec<u8>, str, String);

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl AsBytes for $type {
            #[inline]
            fn as_key(&self) -> KeyBytes<'_> {
                KeyBytes::of_array(self.to_le_bytes())
            }
        }
    )* };
}

integers!(u16, u32, u64, u128, i16, i32, i64, i128, usize, isize);

impl<const N: usize> AsBytes for [u8; N] {
    #[inline]
    fn as_key(&self) -> KeyBytes<'_> {
        self.as_slice().into()
    }
}

impl<K: AsBytes + ?Sized> AsBytes for &K {
    #[inline]
    fn as_key(&self) -> KeyBytes<'_> {
        (**self).as_key()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn name(key: impl AsName) -> Result<Vec<u8>, KeyError> {
        let mut name = Vec::new();
        key.append_to(&mut name).map(|()| name)
    }

    #[test]
    fn keys_of_all_kinds_are_the_same_names() {
        let right = "/a/bc/d".parse::<Name>().expect("a name").value().to_vec();
        assert_eq!(name("a//bc/d/"), Ok(right.clone()));
        assert_eq!(name(String::from("/a/bc/d")), Ok(right.clone()));
        assert_eq!(name(Path::new("/a/bc/d")), Ok(right.clone()));
        assert_eq!(name(["a", "bc", "d"]), Ok(right.clone()));
        assert_eq!(name(vec![b"a".as_slice(), b"bc", b"d"]), Ok(right.clone()));
        assert_eq!(name(&["a", "bc", "d"][..]), Ok(right));
        assert_eq!(name("/"), Ok(Vec::new()));
        let urls = [
            (UrlScheme::Tld, "/uk/co/x/www/p"),
            (UrlScheme::Site, "/x.co.uk/www/p"),
            (UrlScheme::Host, "/www.x.co.uk/p"),
        ];
        for (scheme, expected) in urls {
            assert_eq!(name(Url(scheme, "https://www.x.co.uk/p")), name(expected));
        }
    }

    #[test]
    fn keys_over_the_limits_are_refused_with_their_numbers() {
        let many = vec!["x"; COMPONENTS_MAX + 1];
        assert_eq!(name(many), Err(KeyError::TooManyComponents { components: COMPONENTS_MAX + 1 }));
        assert_eq!(name(vec!["x"; COMPONENTS_MAX]).map(|name| name.len()), Ok(3 * COMPONENTS_MAX));
        assert_eq!(name("x".repeat(9000)), Err(KeyError::TooLong { bytes: 9000 }));
        assert_eq!(name("x".repeat(PACKET_BYTES_MAX)), Err(KeyError::TooLong { bytes: PACKET_BYTES_MAX + 4 }));
        assert_eq!(name(Url(UrlScheme::Host, "http:///x")), Err(KeyError::Url(UrlError::NoHost)));
    }

    #[test]
    fn integers_are_their_bytes() {
        assert_eq!(0x0201u16.as_key(), [1u8, 2].as_key());
        assert_ne!(1u16.as_key(), 1u32.as_key());
        assert_eq!("ab".as_key(), b"ab".as_key());
    }
}
