//! `--workload` and `--names`: some of their values take a file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{NonEmptyStringValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};
use serde::{Serialize, Serializer};

/// How URLs become names [Yuan, Table 3].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `/net/named-data/www/project`: the host's labels reversed.
    #[default]
    Tld,
    /// `/named-data.net/www/project`: the site first, then the labels before it.
    Site,
    /// `/www.named-data.net/project`: the host as one component.
    Host,
}

/// A population of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Names of the same depth without a common prefix [Yuan §3.3.1].
    WorstCase,
    /// Like `WorstCase`, with depths from 1 up.
    Random,
    /// Chains: every prefix of a name is a rule.
    Nested,
    /// Nested chains. The names to look up follow a rule and continue with garbage.
    Adversarial,
    /// Content hashes below one prefix.
    Objects,
    /// The names of a list of URLs.
    Urls {
        /// One URL per line, without its scheme; may be compressed with xz.
        file: PathBuf,
        /// How the URLs become names.
        scheme: Scheme,
    },
    /// Prefixes of a trace's names, with the distribution of depths in [So §4.1].
    So {
        /// The trace: a list as for `Urls`.
        file: PathBuf,
    },
}

/// The names to look up.
#[derive(Debug, Clone, PartialEq)]
pub enum NameChoice {
    /// Names that rules cover.
    Hit,
    /// Names that no rule covers.
    Miss,
    /// A share of hits; the rest are misses.
    Mixed(f64),
    /// Hits. The r-th most popular has a probability proportional to r to the power of minus this.
    Zipf(f64),
    /// The first components of a hit (this many), then garbage up to 32 components.
    Garbage(usize),
    /// Hits in the order of a trace: 32-bit object ids, or lines that end with a path.
    Trace(PathBuf),
}

impl Kind {
    /// The kind as on the command line, with only the name of the file.
    pub fn label(&self) -> String {
        match self {
            Kind::WorstCase => "worst-case".to_owned(),
            Kind::Random => "random".to_owned(),
            Kind::Nested => "nested".to_owned(),
            Kind::Adversarial => "adversarial".to_owned(),
            Kind::Objects => "objects".to_owned(),
            Kind::Urls { file, scheme } => format!("urls {} {}", file_name(file), format!("{scheme:?}").to_lowercase()),
            Kind::So { file } => format!("so {}", file_name(file)),
        }
    }
}

impl NameChoice {
    /// The choice as on the command line, with only the name of the file.
    pub fn label(&self) -> String {
        match self {
            NameChoice::Hit => "hit".to_owned(),
            NameChoice::Miss => "miss".to_owned(),
            NameChoice::Mixed(share) => format!("mixed:{share}"),
            NameChoice::Zipf(exponent) => format!("zipf:{exponent}"),
            NameChoice::Garbage(depth) => format!("garbage:{depth}"),
            NameChoice::Trace(file) => format!("trace {}", file_name(file)),
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.label())
    }
}

impl Serialize for NameChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.label())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An option that takes a word, or a word and a file.
fn word_and_file(id: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(id)
        .long(id)
        .num_args(1..=2)
        .value_names(["KIND", "FILE"])
        .default_value(default)
        .action(ArgAction::Set)
        .value_parser(ValueParser::new(NonEmptyStringValueParser::new()))
        .help(help)
}

fn words(matches: &ArgMatches, id: &str) -> (String, Option<PathBuf>) {
    let mut words = matches.get_many::<String>(id).into_iter().flatten();
    (words.next().cloned().unwrap_or_default(), words.next().map(PathBuf::from))
}

/// Returns the file that the word needs, or an error if it is missing.
fn with_file(id: &str, word: &str, file: Option<PathBuf>) -> Result<PathBuf, Error> {
    file.ok_or_else(|| bad(format!("--{id} {word} needs a file: --{id} {word} FILE")))
}

fn bad(text: String) -> Error {
    Error::raw(ErrorKind::InvalidValue, text + "\n")
}

impl FromArgMatches for Kind {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (word, file) = words(matches, "workload");
        let scheme = matches.get_one::<Scheme>("scheme").copied().unwrap_or_default();
        let kind = match word.as_str() {
            "urls" => return Ok(Kind::Urls { file: with_file("workload", &word, file)?, scheme }),
            "so" => return Ok(Kind::So { file: with_file("workload", &word, file)? }),
            "worst-case" => Kind::WorstCase,
            "random" => Kind::Random,
            "nested" => Kind::Nested,
            "adversarial" => Kind::Adversarial,
            "objects" => Kind::Objects,
            _ => {
                return Err(bad(format!(
                    "there is no workload '{word}': use worst-case, random, nested, adversarial, objects, \
                     urls FILE or so FILE"
                )));
            }
        };
        if file.is_some() {
            return Err(bad(format!("--workload {word} takes no file")));
        }
        Ok(kind)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Kind {
    fn augment_args(command: Command) -> Command {
        command
            .arg(word_and_file(
                "workload",
                "worst-case",
                "Rules: worst-case, random (depths from 1 up), nested (each prefix of a name is a rule), adversarial \
                 (garbage below nested rules), objects (content hashes below one prefix), urls FILE, or so FILE (prefixes of a \
                 trace's names as in [So §4.1])",
            ))
            .arg(
                Arg::new("scheme")
                    .long("scheme")
                    .value_name("SCHEME")
                    .value_parser(clap::value_parser!(Scheme))
                    .default_value("tld")
                    .help("How the URLs of a list become names"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromStr for NameChoice {
    type Err = BadNames;

    fn from_str(word: &str) -> Result<Self, BadNames> {
        let (kind, number) = word.split_once(':').unwrap_or((word, ""));
        match (kind, number.parse::<f64>()) {
            ("hit", _) if number.is_empty() => Ok(NameChoice::Hit),
            ("miss", _) if number.is_empty() => Ok(NameChoice::Miss),
            ("mixed", Ok(share)) if (0.0..=1.0).contains(&share) => Ok(NameChoice::Mixed(share)),
            ("zipf", Ok(exponent)) if (0.0..=4.0).contains(&exponent) => Ok(NameChoice::Zipf(exponent)),
            ("garbage", Ok(depth)) if depth.fract() == 0.0 && (0.0..32.0).contains(&depth) => {
                Ok(NameChoice::Garbage(depth as usize))
            }
            _ => Err(BadNames(word.to_owned())),
        }
    }
}

/// The word is not a choice of names.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no choice of names '{0}': use hit, miss, mixed:P (a share P of hits, 0 to 1), zipf:S (S up to 4), \
     garbage:D (D components that match, below 32) or trace FILE"
)]
pub struct BadNames(String);

impl FromArgMatches for NameChoice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (word, file) = words(matches, "names");
        match file {
            _ if word == "trace" => Ok(NameChoice::Trace(with_file("names", &word, file)?)),
            Some(_) => Err(bad(format!("--names {word} takes no file"))),
            None => word.parse().map_err(|error: BadNames| bad(error.to_string())),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for NameChoice {
    fn augment_args(command: Command) -> Command {
        command.arg(word_and_file(
            "names",
            "hit",
            "Names looked up: hit, miss, mixed:P (a share P of hits), zipf:S (hits with popularity rank^-S), garbage:D \
             (D components of a hit, then garbage up to 32), or trace FILE (hits in the order of a trace)",
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
