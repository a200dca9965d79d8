//! Configuration errors, each with its place and a remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Problems of a configuration file. Prints one problem per line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigError {
    /// The file. Empty: the default configuration.
    pub path: PathBuf,
    /// Line and column, both from 1, if the problem has a place.
    pub position: Option<(usize, usize)>,
    /// What is wrong and what to do about it.
    pub problem: String,
    /// Further problems.
    pub more: Vec<ConfigError>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            write!(f, "the default configuration")?;
        }
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.problem)?;
        self.more.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

impl ConfigError {
    /// A problem of a whole file.
    pub fn of_file(problem: String, path: &Path) -> Self {
        ConfigError { path: path.to_owned(), position: None, problem, more: Vec::new() }
    }

    /// A problem at this offset of the text.
    pub(super) fn at(offset: Option<usize>, problem: &str, text: &str, path: &Path) -> Self {
        let position = offset.map(|at| position(text, at));
        ConfigError { position, ..ConfigError::of_file(problem.to_owned(), path) }
    }

    /// The problem that the parser found in `text`.
    pub fn from_toml(error: &toml::de::Error, text: &str, path: &Path) -> Self {
        let at = error.span().map(|span| span.start.min(text.len()));
        let problem = match unknown_key(error.message()) {
            Some((key, known)) => describe_unknown(key, &known, at.and_then(|at| table_at(text, at))),
            None => error.message().trim_end().replace('\n', "; "),
        };
        ConfigError::at(at, &problem, text, path)
    }
}

/// Line and column of an offset.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The unknown key and the known ones, parsed from serde's message about an unknown field or variant.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field ").or_else(|| message.strip_prefix("unknown variant "))?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

/// The header of the table around an offset.
fn table_at(text: &str, at: usize) -> Option<&str> {
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    let header = text[..end].lines().rev().map(str::trim).find(|line| line.starts_with('['))?;
    header.find(']').map(|_| header.split('#').next().unwrap_or(header).trim())
}

fn describe_unknown(key: &str, known: &[&str], table: Option<&str>) -> String {
    let place = table.map_or_else(String::new, |table| format!(" in {table}"));
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(key, name), name))
        .filter(|(distance, name)| *distance <= (name.len().max(key.len()) / 3).max(2))
        .min();
    match nearest {
        Some((_, name)) => format!("unknown word `{key}`{place}; did you mean `{name}`?"),
        None if known.is_empty() => format!("unknown word `{key}`{place}; nothing is expected here"),
        None => format!("unknown word `{key}`{place}; known are {}", known.join(", ")),
    }
}
