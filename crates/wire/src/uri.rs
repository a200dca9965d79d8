//! The URI form of names, both ways [NDN Packet Specification v0.3, "NDN URI Scheme"].
//!
//! Covers `/a/b`, `ndn:/a/b`, percent-encoding, `/...` for components that consist of dots, typed
//! components such as `8=x` and `42=x`, and the conventional forms `sha256digest=`,
//! `params-sha256=`, `seq=`, `seg=`, `off=`, `v=` and `t=`. [`std::fmt::Display`] of a name writes
//! a URI, [`std::str::FromStr`] reads one.

use std::fmt::{self, Write};
use std::str::FromStr;

use thiserror::Error;

use crate::PACKET_BYTES_MAX;
use crate::name::{COMPONENTS_MAX, Component, Name, component_type};
use crate::tlv;

/// A string that is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UriError {
    /// A component is wrong.
    #[error("'{component}' is not a name component: {reason}")]
    BadComponent {
        /// The component as written.
        component: String,
        /// The error, in words that help to correct it.
        reason: &'static str,
    },
    /// The name is too long.
    #[error("the name has more than {COMPONENTS_MAX} components")]
    TooManyComponents,
    /// The name is too long.
    #[error("the name takes more than {PACKET_BYTES_MAX} bytes")]
    TooLong,
}

/// Component types whose value is a number, and how the URI writes them.
const NUMBERS: [(u16, &str); 5] = [
    (component_type::SEGMENT, "seg"),
    (component_type::BYTE_OFFSET, "off"),
    (component_type::VERSION, "v"),
    (component_type::TIMESTAMP, "t"),
    (component_type::SEQUENCE_NUM, "seq"),
];

/// Component types whose value is a SHA-256 digest, and how the URI writes them.
const DIGESTS: [(u16, &str); 2] = [
    (component_type::IMPLICIT_SHA256_DIGEST, "sha256digest"),
    (component_type::PARAMETERS_SHA256_DIGEST, "params-sha256"),
];

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, prefix)) = NUMBERS.iter().find(|(typ, _)| *typ == self.typ)
            && let Some(n) = self.number()
            && tlv::nni_len(n) == self.value.len()
        {
            return write!(f, "{prefix}={n}");
        }
        if let Some((_, prefix)) = DIGESTS.iter().find(|(typ, _)| *typ == self.typ)
            && self.value.len() == 32
        {
            write!(f, "{prefix}=")?;
            return self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        }
        if self.typ != component_type::GENERIC {
            write!(f, "{}=", self.typ)?;
        }
        if self.value.iter().all(|&byte| byte == b'.') {
            f.write_str("...")?;
        }
        for &byte in self.value {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Reads `ndn:/a/b`, `/a/b` and `a/b`. It ignores a slash at the end, and the authority in
/// `ndn://authority/a/b`. Without the scheme, two leading slashes are more likely a typing error,
/// so they are refused.
impl FromStr for Name {
    type Err = UriError;
    fn from_str(uri: &str) -> Result<Name, UriError> {
        let path = match uri.strip_prefix("ndn:") {
            Some(rest) => match rest.strip_prefix("//") {
                Some(authority) => authority.split_once('/').map_or("", |(_, path)| path),
                None => rest,
            },
            None => uri,
        };
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
        let mut value = Vec::with_capacity(path.len() + 8);
        if path.is_empty() {
            return Ok(Name::default());
        }
        for (i, component) in path.split('/').enumerate() {
            if i == COMPONENTS_MAX {
                return Err(UriError::TooManyComponents);
            }
            push_component(&mut value, component)
                .map_err(|reason| UriError::BadComponent { component: component.to_owned(), reason })?;
        }
        if value.len() > PACKET_BYTES_MAX {
            return Err(UriError::TooLong);
        }
        Ok(Name::from_encoded(value))
    }
}

/// Appends one component, encoded.
fn push_component(out: &mut Vec<u8>, text: &str) -> Result<(), &'static str> {
    let Some((prefix, text)) = text.split_once('=') else {
        let value = unescape(text)?;
        Component::generic(&value).push(out);
        return Ok(());
    };
    if let Some((typ, _)) = NUMBERS.iter().find(|(_, name)| *name == prefix) {
        let n = decimal(text).ok_or("a decimal number of at most 64 bits must follow '='")?;
        tlv::push_nni(out, u64::from(*typ), n);
        return Ok(());
    }
    if let Some((typ, _)) = DIGESTS.iter().find(|(_, name)| *name == prefix) {
        let digest = hex_digest(text).ok_or("64 hexadecimal digits must follow '='")?;
        Component { typ: *typ, value: &digest }.push(out);
        return Ok(());
    }
    let typ = decimal(prefix).and_then(|n| u16::try_from(n).ok()).filter(|&typ| typ > 0);
    let typ =
        typ.ok_or("what precedes '=' must be a type from 1 to 65535 or a known prefix; write a plain '=' as %3D")?;
    let value = unescape(text)?;
    if DIGESTS.iter().any(|(digest, _)| *digest == typ) && value.len() != 32 {
        return Err("a digest has 32 bytes");
    }
    Component { typ, value: &value }.push(out);
    Ok(())
}

/// Reads a decimal number in its only form: no sign and no leading zero.
fn decimal(text: &str) -> Option<u64> {
    let is_canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    text.parse().ok().filter(|_| is_canonical)
}

fn hex_digest(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut digest = [0; 32];
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
    }
    Some(digest)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Undoes percent-encoding. From a component that consists of dots it removes three.
fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            value.push(*byte);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return Err(BAD_ESCAPE) };
        rest = tail;
        value.push(hex_digit(*high).ok_or(BAD_ESCAPE)? << 4 | hex_digit(*low).ok_or(BAD_ESCAPE)?);
    }
    if value.iter().all(|&byte| byte == b'.') {
        if value.len() < 3 {
            return Err("an empty component is written '...', one dot '....', two dots '.....'");
        }
        value.truncate(value.len() - 3);
    }
    Ok(value)
}

const BAD_ESCAPE: &str = "two hexadecimal digits must follow '%'; write a plain '%' as %25";

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(uri: &str) -> Vec<u8> {
        uri.parse::<Name>().unwrap().value().to_vec()
    }

    fn reason(uri: &str) -> &'static str {
        match uri.parse::<Name>() {
            Err(UriError::BadComponent { reason, .. }) => reason,
            other => panic!("{uri}: {other:?}"),
        }
    }

    #[test]
    fn both_ways() {
        let digest = "00ff".repeat(16);
        for uri in [
            "/",
            "/a/b",
            "/Hello%20World%21",
            "/%00%FF%2F%25%3D",
            "/-._~",
            "/...",
            "/....",
            "/......",
            "/.a.",
            "/32=keyword",
            "/65535=x",
            "/9=...",
            "/seg=0",
            "/off=255/v=256/t=65536/seq=18446744073709551615",
            &format!("/sha256digest={digest}"),
            &format!("/a/params-sha256={digest}/b"),
        ] {
            let name: Name = uri.parse().unwrap();
            assert_eq!(name.to_string(), *uri);
            assert!(crate::NameRef::new(name.value()).is_ok());
        }
    }

    #[test]
    fn bytes_of_the_conventional_forms() {
        assert_eq!(bytes("/..."), [8, 0]);
        assert_eq!(bytes("/....."), [8, 2, b'.', b'.']);
        assert_eq!(bytes("/seg=1"), [50, 1, 1]);
        assert_eq!(bytes("/off=256"), [52, 2, 1, 0]);
        assert_eq!(bytes("/v=65536"), [54, 4, 0, 1, 0, 0]);
        assert_eq!(bytes("/t=4294967296"), [56, 8, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(bytes("/seq=7"), [58, 1, 7]);
        assert_eq!(bytes("/300=%41"), [253, 1, 44, 1, 0x41]);
    }

    #[test]
    fn other_spellings() {
        for (uri, canonical) in [
            ("", "/"),
            ("ndn:", "/"),
            ("ndn:/", "/"),
            ("ndn:/a/b", "/a/b"),
            ("ndn://host:1/a/b", "/a/b"),
            ("ndn:///a/b", "/a/b"),
            ("ndn://host", "/"),
            ("a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/8=a", "/a"),
            ("/50=%01", "/seg=1"),
            ("/%61%2e", "/a."),
            ("/a+b", "/a%2Bb"),
            ("/é", "/%C3%A9"),
            // Not a NonNegativeInteger, or not in its shortest form: written with its type number.
            ("/50=abc", "/50=abc"),
            ("/50=%00%01", "/50=%00%01"),
        ] {
            assert_eq!(uri.parse::<Name>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for uri in ["/a//b", "//", "/.", "/..", "/8=", "/%2E", "/9=.."] {
            assert!(reason(uri).contains("'...'"), "{uri}");
        }
        for uri in ["/%", "/%4", "/%zz", "/8=%"] {
            assert!(reason(uri).contains("'%'"), "{uri}");
        }
        for uri in ["/a=b", "/0=b", "/65536=b", "/08=b", "/=b", "/+8=b", "/-1=a"] {
            assert!(reason(uri).contains("65535"), "{uri}");
        }
        for uri in ["/seg=", "/seg=01", "/seg=+1", "/seg=x", "/v=18446744073709551616"] {
            assert!(reason(uri).contains("decimal"), "{uri}");
        }
        for uri in ["/sha256digest=00", "/params-sha256=zz", &format!("/sha256digest={}", "0".repeat(63))] {
            assert!(reason(uri).contains("64 hex"), "{uri}");
        }
        assert!(reason("/1=a").contains("32 bytes"));
    }

    #[test]
    fn long_names_are_refused() {
        assert!("/a".repeat(128).parse::<Name>().is_ok());
        assert_eq!("/a".repeat(129).parse::<Name>(), Err(UriError::TooManyComponents));
        assert_eq!(format!("/{}", "a".repeat(9000)).parse::<Name>(), Err(UriError::TooLong));
    }
}
