//! Names that operators give to fleets, nodes, links and groups.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Longest label, in bytes.
pub const LABEL_MAX: usize = 63;

/// A name of a fleet, node, link or group: 1 to 63 lower-case letters, digits, `-` and `.`, and first a letter or digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

/// Text that is no [`Label`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a name here has 1 to {LABEL_MAX} lower-case letters, digits, - and ., and begins with a letter or digit")]
pub struct BadLabel;

impl Label {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = BadLabel;

    fn from_str(text: &str) -> Result<Self, BadLabel> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let well_formed = text.len() <= LABEL_MAX
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'.');
        if well_formed { Ok(Label(text.into())) } else { Err(BadLabel) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_plain_and_short() {
        for good in ["r1", "0", "to-r2.example", &"a".repeat(63)] {
            assert_eq!(good.parse::<Label>().map(|label| label.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "-a", ".a", "a/b", "A", "a b", "ä", "a\n", &"a".repeat(64)] {
            assert_eq!(bad.parse::<Label>(), Err(BadLabel), "{bad:?}");
        }
    }
}
