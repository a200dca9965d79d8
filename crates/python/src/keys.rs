//! Keys of a call, copied from what Python programs have.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use byname_lookup::table::{AsName, KeyError};
use byname_wire::url::{UrlScheme, name_of_url};
use byname_wire::{Name, NameRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::errors::{Problem, invalid_key, wrong_type};
use crate::numbers;

/// Bytes of an id.
const ID_BYTES: usize = 8;
/// Bytes of a character in an array of text, and the most that it takes in UTF-8.
const CHARACTER_BYTES: usize = 4;
const KINDS: &str = "keys are text, bytes or integers: a list, an array of dtype S, U or of integers, an array of \
                     bytes (uint8) with a row for each key, or a buffer with `offsets`";

enum Blob {
    Own(Vec<u8>),
    /// Bytes that nobody can change.
    Backed(PyBackedBytes),
}

enum Places {
    /// Each key has this many bytes. If they are padded, zeros at its end are not part of it.
    Fixed { width: usize, is_padded: bool },
    /// Key `i` ends where key `i + 1` begins.
    Offsets(Vec<usize>),
}

/// Many keys.
pub struct Keys {
    blob: Blob,
    places: Places,
    len: usize,
    /// Integers, as their 8 bytes with the lowest first.
    are_ids: bool,
}

impl Keys {
    /// Copies keys. With `offsets`, `keys` is a buffer, and key `i` is what lies from `offsets[i]` to `offsets[i + 1]`.
    pub fn of(keys: &Bound<'_, PyAny>, offsets: Option<&Bound<'_, PyAny>>) -> PyResult<Keys> {
        if let Some(offsets) = offsets {
            return Keys::in_blob(keys, offsets);
        }
        if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
            return Err(wrong_type("this takes many keys; `get` takes one".to_owned()));
        }
        if keys.hasattr("dtype")? { Keys::of_array(keys) } else { Keys::of_items(keys) }
    }

    fn of_array(array: &Bound<'_, PyAny>) -> PyResult<Keys> {
        let (dtype, dimensions) = (array.getattr("dtype")?, array.getattr("ndim")?.extract::<usize>()?);
        let kind = dtype.getattr("kind")?.extract::<String>()?;
        let width = dtype.getattr("itemsize")?.extract::<usize>()?;
        match (kind.as_str(), dimensions) {
            ("S", 1) => Keys::fixed(array, width, true),
            ("U", 1) => Keys::of_characters(array, &dtype, width / CHARACTER_BYTES),
            ("u", 2) if width == 1 => {
                let width = array.getattr("shape")?.get_item(1)?.extract()?;
                Keys::fixed(array, width, false)
            }
            ("u" | "i", 1) => Ok(Keys { are_ids: true, ..Keys::fixed(&numbers::ids(array)?, ID_BYTES, false)? }),
            ("O" | "T", 1) => Keys::of_items(&array.call_method0("tolist")?),
            _ => {
                Err(wrong_type(format!("an array of dtype {dtype} with {dimensions} dimensions has no keys; {KINDS}")))
            }
        }
    }

    /// Rows of an array.
    fn fixed(array: &Bound<'_, PyAny>, width: usize, is_padded: bool) -> PyResult<Keys> {
        let bytes = array.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        let (blob, places) = (Blob::Backed(bytes.into()), Places::Fixed { width, is_padded });
        Ok(Keys { blob, places, len: array.len()?, are_ids: false })
    }

    /// Rows of characters of four bytes each, padded with zeros: NumPy's own form of text.
    fn of_characters(array: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>, width: usize) -> PyResult<Keys> {
        let native = array.call_method1("astype", (dtype.call_method1("newbyteorder", ("=",))?,))?;
        let bytes = native.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        let (characters, _) = bytes.as_bytes().as_chunks::<CHARACTER_BYTES>();
        let len = array.len()?;
        let (mut blob, mut offsets) = (Vec::with_capacity(characters.len()), Vec::with_capacity(len + 1));
        offsets.push(0);
        for i in 0..len {
            let row = &characters[i * width..(i + 1) * width];
            let zeros = row.iter().rev().take_while(|character| **character == [0; CHARACTER_BYTES]).count();
            for &character in &row[..width - zeros] {
                match u32::from_ne_bytes(character) {
                    ascii @ 0..=0x7f => blob.push(ascii as u8),
                    other => {
                        let other = char::from_u32(other)
                            .ok_or_else(|| invalid_key(Some(i), "half of a surrogate pair is no character"))?;
                        blob.extend_from_slice(other.encode_utf8(&mut [0; CHARACTER_BYTES]).as_bytes());
                    }
                }
            }
            offsets.push(blob.len());
        }
        Ok(Keys { blob: Blob::Own(blob), places: Places::Offsets(offsets), len, are_ids: false })
    }

    fn of_items(items: &Bound<'_, PyAny>) -> PyResult<Keys> {
        let (mut blob, mut offsets, mut are_ids) = (Vec::new(), vec![0], false);
        for (i, item) in items.try_iter().map_err(|_| wrong_type(KINDS.to_owned()))?.enumerate() {
            let is_id = append(&item?, Some(i), &mut blob)?;
            if i > 0 && is_id != are_ids {
                return Err(wrong_type(format!("key {i} is of another kind than those before it")));
            }
            are_ids = is_id;
            offsets.push(blob.len());
        }
        let len = offsets.len() - 1;
        Ok(Keys { blob: Blob::Own(blob), places: Places::Offsets(offsets), len, are_ids })
    }

    fn in_blob(blob: &Bound<'_, PyAny>, offsets: &Bound<'_, PyAny>) -> PyResult<Keys> {
        let blob = numbers::bytes(blob)?;
        let offsets = numbers::offsets(offsets)?;
        let Some(len) = offsets.len().checked_sub(1) else {
            return Err(PyValueError::new_err("`offsets` has one number more than there are keys, so at least one"));
        };
        if let Some(i) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(PyValueError::new_err(format!("offsets[{}] is lower than offsets[{i}]", i + 1)));
        }
        let (last, bytes) = (offsets[len], blob.len());
        if last > bytes {
            return Err(PyValueError::new_err(format!("offsets[{len}] is {last}, and the buffer has {bytes} bytes")));
        }
        Ok(Keys { blob: Blob::Backed(blob), places: Places::Offsets(offsets), len, are_ids: false })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the keys are integers.
    pub fn are_ids(&self) -> bool {
        self.are_ids
    }

    /// All keys as ids, if they are integers.
    pub fn as_ids(&self) -> Option<&[[u8; ID_BYTES]]> {
        self.are_ids.then(|| self.bytes().as_chunks().0)
    }

    /// The bytes of key `i`, which is below the number of keys.
    pub fn key(&self, i: usize) -> &[u8] {
        let bytes = self.bytes();
        match &self.places {
            Places::Offsets(offsets) => &bytes[offsets[i]..offsets[i + 1]],
            Places::Fixed { width, is_padded } => {
                let key = &bytes[i * width..(i + 1) * width];
                let zeros = if *is_padded { key.iter().rev().take_while(|byte| **byte == 0).count() } else { 0 };
                &key[..width - zeros]
            }
        }
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len).map(|i| self.key(i))
    }

    fn bytes(&self) -> &[u8] {
        match &self.blob {
            Blob::Own(bytes) => bytes,
            Blob::Backed(bytes) => bytes,
        }
    }
}

/// The bytes of one key. `true`: it is an integer.
pub fn one(key: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let is_id = append(key, None, &mut bytes)?;
    Ok((bytes, is_id))
}

/// The bytes of text or bytes.
pub fn text(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match one(key)? {
        (bytes, false) => Ok(bytes),
        (_, true) => Err(wrong_type("this key is text or bytes, not an integer".to_owned())),
    }
}

/// Appends a key. Returns whether it is an integer.
fn append(key: &Bound<'_, PyAny>, place: Option<usize>, blob: &mut Vec<u8>) -> PyResult<bool> {
    if let Ok(text) = key.cast::<PyString>() {
        blob.extend(text.to_str()?.as_bytes());
        return Ok(false);
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        blob.extend(bytes.as_bytes());
        return Ok(false);
    }
    if !key.is_instance_of::<PyInt>() && !key.hasattr("__index__")? {
        let of = place.map_or_else(|| "the key".to_owned(), |place| format!("key {place}"));
        return Err(wrong_type(format!("{of} is of type {}; {KINDS}", key.get_type().name()?)));
    }
    let id = key.extract::<u64>();
    let id = id.map_err(|_| invalid_key(place, "an integer key is 0 to 2^64 - 1"))?;
    blob.extend(id.to_le_bytes());
    Ok(true)
}

/// How the text of a key has the components of a name.
#[derive(Debug, Clone, Copy)]
pub enum Syntax {
    /// Segments between `/`, as they are.
    Path,
    /// The URI of an NDN name.
    Name,
    /// A URL.
    Url(UrlScheme),
}

impl Syntax {
    /// The syntax that programs call by this word.
    pub fn of(word: &str) -> PyResult<Syntax> {
        let all = [
            ("path", Syntax::Path),
            ("name", Syntax::Name),
            ("url-tld", Syntax::Url(UrlScheme::Tld)),
            ("url-site", Syntax::Url(UrlScheme::Site)),
            ("url-host", Syntax::Url(UrlScheme::Host)),
        ];
        let found = all.iter().find(|(known, _)| *known == word);
        found.map(|(_, syntax)| *syntax).ok_or_else(|| {
            let words = all.map(|(word, _)| word).join(", ");
            PyValueError::new_err(format!("'{word}' is no syntax; it is one of {words}"))
        })
    }

    /// A key of a table with this syntax. The URI of a name is parsed here.
    pub fn key(self, bytes: &[u8]) -> Result<NameKey<'_>, String> {
        Ok(match self {
            Syntax::Path => NameKey::Path(bytes),
            Syntax::Url(scheme) => NameKey::Url(scheme, bytes),
            Syntax::Name => {
                let uri = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
                NameKey::Name(uri.parse().map_err(|error: byname_wire::uri::UriError| error.to_string())?)
            }
        })
    }

    /// The keys of a call, some after the other.
    pub fn keys<'a>(self, keys: &'a Keys, at: std::ops::Range<usize>) -> Result<Vec<NameKey<'a>>, Problem> {
        at.map(|i| {
            let key = self.key(keys.key(i));
            key.map_err(|reason| Problem::Key { place: Some(i), reason })
        })
        .collect()
    }
}

/// A key of a prefix table.
pub enum NameKey<'a> {
    Path(&'a [u8]),
    Url(UrlScheme, &'a [u8]),
    Name(Name),
}

impl AsName for NameKey<'_> {
    fn append_to(&self, name: &mut Vec<u8>) -> Result<(), KeyError> {
        match self {
            NameKey::Path(bytes) => Path::new(OsStr::from_bytes(bytes)).append_to(name),
            NameKey::Url(scheme, bytes) => {
                let of_url = name_of_url(*scheme, bytes)?;
                AsName::append_to(&NameRef::new_checked_before(of_url.value()), name)
            }
            NameKey::Name(of_uri) => of_uri.append_to(name),
        }
    }
}

impl NameKey<'_> {
    /// Refuses a key that is over the limits.
    pub fn check(&self) -> Result<(), KeyError> {
        self.append_to(&mut Vec::new())
    }
}
