//! The list of keys and certificates that are not trusted any more.
//!
//! A text file with one name on each line. The name of a certificate revokes it; that of a key revokes all of its
//! certificates; another name revokes all keys at or below it. Empty lines, and lines that begin with `#`, say nothing.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use byname_wire::{Name, NameRef};
use thiserror::Error;

/// Most bytes of the file.
const BYTES_MAX: u64 = 16 << 20;

/// Why a list cannot be used.
#[derive(Debug, Error)]
pub enum RevocationsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too long.
    #[error("the list is longer than {BYTES_MAX} bytes; revoke a whole identity with one line")]
    TooLong,
    /// A line is not a name.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Why.
        problem: String,
    },
}

/// Names of keys and certificates that are not trusted any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revocations {
    names: BTreeSet<Name>,
}

impl Revocations {
    /// Parses a list.
    ///
    /// # Errors
    /// If a line is not a name, or would revoke everything.
    pub fn parse(text: &str) -> Result<Self, RevocationsError> {
        let mut names = BTreeSet::new();
        for (n, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |problem: String| RevocationsError::Line { line: n + 1, problem };
            let name: Name = line.parse().map_err(|error| fail(format!("{error}")))?;
            if name.as_ref().is_empty() {
                return Err(fail("/ would revoke every key".to_owned()));
            }
            names.insert(name);
        }
        Ok(Revocations { names })
    }

    /// Reads a list from a file.
    ///
    /// # Errors
    /// If the file cannot be read, is too long, or has a line that is not a name.
    pub fn load(path: &Path) -> Result<Self, RevocationsError> {
        let mut text = String::new();
        let fail = |source| RevocationsError::Read { path: path.display().to_string(), source };
        std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text)).map_err(fail)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(RevocationsError::TooLong);
        }
        Revocations::parse(&text)
    }

    /// Whether the certificate, its key or its identity is on the list. The name of a key is enough to find a revoked
    /// key.
    pub fn covers(&self, certificate: NameRef<'_>) -> bool {
        !self.names.is_empty()
            && (1..=certificate.len()).any(|depth| self.names.contains(&certificate.prefix(depth).to_name()))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing is revoked.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_certificates_and_identities_are_revoked() {
        let text = "# stolen\n/net/a/KEY/1\n\n /net/b/KEY/1/net/v=1 \n/net/c\n";
        let list = Revocations::parse(text).expect("names");
        let covers = |uri: &str| list.covers(uri.parse::<Name>().expect("a name").as_ref());
        for revoked in ["/net/a/KEY/1/x/v=9", "/net/a/KEY/1", "/net/b/KEY/1/net/v=1", "/net/c/d/KEY/5/x/v=1"] {
            assert!(covers(revoked), "{revoked}");
        }
        for good in ["/net/a/KEY/2/x/v=9", "/net/b/KEY/1/net/v=2", "/net/b/KEY/1", "/net/KEY/1/self/v=1"] {
            assert!(!covers(good), "{good}");
        }
        assert_eq!(list.len(), 3);
    }

    #[test]
    fn bad_lines_are_told() {
        for (text, line) in [("/a\nb//\n/", 2), ("/", 1), ("\n/a/%zz", 2)] {
            match Revocations::parse(text) {
                Err(RevocationsError::Line { line: at, .. }) => assert_eq!(at, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(Revocations::load(Path::new("/none")), Err(RevocationsError::Read { .. })));
    }
}
