//! Names of strategies: the strategy, its version, and its parameters.
//!
//! NFD's rules: `/localhost/nfd/strategy/<strategy>[/<version>[/<parameter>~<value>]...]`. A name without a version
//! means the current version. An older version is known and refused. A newer version is unknown.

use std::str::FromStr;

use byname_wire::name::component_type;
use byname_wire::{Component, Name, NameRef};
use thiserror::Error;

/// One strategy's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    /// The last generic component.
    pub word: &'static str,
    /// NFD's current version.
    pub version: u64,
}

const fn program(word: &'static str, version: u64) -> Program {
    Program { word, version }
}

pub(crate) const BEST_ROUTE: Program = program("best-route", 5);
pub(crate) const MULTICAST: Program = program("multicast", 5);
pub(crate) const ASF: Program = program("asf", 5);
pub(crate) const ACCESS: Program = program("access", 1);
pub(crate) const RANDOM: Program = program("random", 1);
pub(crate) const SELF_LEARNING: Program = program("self-learning", 1);

/// All strategies.
const PROGRAMS: [Program; 6] = [BEST_ROUTE, MULTICAST, ASF, ACCESS, RANDOM, SELF_LEARNING];

/// The words for all strategies, as users write them.
pub const WORDS: [&str; 6] = ["best-route", "multicast", "adaptive", "access", "random", "self-learning"];

/// Our own word for `asf`. Responses say `asf`, which NFD's clients know.
const ADAPTIVE: &[u8] = b"adaptive";

/// Components of `/localhost/nfd/strategy/<strategy>`.
const PROGRAM_END: usize = 4;

/// Why a strategy name is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// There is no such strategy, or no such version of it.
    #[error("no such strategy")]
    Unknown,
    /// The version is older than the current one.
    #[error("{word} does not support version {asked}; its version is {current}")]
    OldVersion {
        /// The strategy.
        word: &'static str,
        /// The version in the name.
        asked: u64,
        /// The current version.
        current: u64,
    },
    /// A parameter is malformed or out of range.
    #[error("{0}")]
    Parameters(String),
}

impl StrategyError {
    pub(crate) fn parameters(what: impl Into<String>) -> Self {
        StrategyError::Parameters(what.into())
    }
}

/// Parameters of a strategy, by name. The last of several with one name counts.
pub(crate) struct Parameters<'a> {
    strategy: &'static str,
    pairs: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Parameters<'a> {
    fn parse(strategy: &'static str, components: impl Iterator<Item = Component<'a>>) -> Result<Self, StrategyError> {
        let mut pairs = Vec::new();
        for component in components {
            let Some(tilde) = component.value.iter().position(|byte| *byte == b'~') else {
                return Err(StrategyError::parameters("Strategy parameters format is (<parameter>~<value>)*"));
            };
            let (name, value) = (&component.value[..tilde], &component.value[tilde + 1..]);
            if name.is_empty() || value.is_empty() {
                return Err(StrategyError::parameters("Strategy parameter name and value cannot be empty"));
            }
            pairs.push((name, value));
        }
        Ok(Parameters { strategy, pairs })
    }

    /// Returns an error if there are any parameters.
    pub fn none(&self) -> Result<(), StrategyError> {
        match self.pairs[..] {
            [] => Ok(()),
            _ => Err(StrategyError::Parameters(format!("{} does not accept parameters", self.strategy))),
        }
    }

    /// The value of a parameter, or its default. Unknown parameters are ignored.
    pub fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T, StrategyError> {
        let Some((_, value)) = self.pairs.iter().rev().find(|(known, _)| *known == name.as_bytes()) else {
            return Ok(default);
        };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| StrategyError::Parameters(format!("{name} value is malformed")))
    }
}

/// The content of a strategy's name.
pub(crate) struct Parsed<'a> {
    pub program: Program,
    pub parameters: Parameters<'a>,
    /// The name with its version, and with all parameters as written.
    pub instance: Name,
}

pub(crate) fn parse(name: NameRef<'_>) -> Result<Parsed<'_>, StrategyError> {
    if !program_root().as_ref().is_prefix_of(&name) {
        return Err(StrategyError::Unknown);
    }
    let word = name.component(PROGRAM_END as isize - 1).ok_or(StrategyError::Unknown)?;
    let known = |p: &Program| p.word.as_bytes() == word.value || (*p == ASF && word.value == ADAPTIVE);
    let program = PROGRAMS.into_iter().filter(|_| word.typ == component_type::GENERIC).find(known);
    let program = program.ok_or(StrategyError::Unknown)?;

    let mut rest = name.components().skip(PROGRAM_END);
    if let Some(version) = rest.next() {
        let version = version.number().filter(|_| version.typ == component_type::VERSION);
        match version {
            Some(asked) if asked < program.version => {
                let Program { word, version: current } = program;
                return Err(StrategyError::OldVersion { word, asked, current });
            }
            Some(asked) if asked == program.version => {}
            Some(_) | None => return Err(StrategyError::Unknown),
        }
    }
    let parameters = Parameters::parse(program.word, rest)?;
    let rest = name.components().skip(PROGRAM_END + 1);
    let instance = rest.fold(full_name(program), |name, parameter| name.join(parameter));
    Ok(Parsed { program, parameters, instance })
}

/// A strategy's name without parameters.
pub(crate) fn full_name(program: Program) -> Name {
    program_root()
        .join(Component::generic(program.word.as_bytes()))
        .join_number(component_type::VERSION, program.version)
}

/// Names of all strategies, with their versions.
pub fn all_names() -> impl Iterator<Item = Name> {
    PROGRAMS.into_iter().map(full_name)
}

fn program_root() -> Name {
    "/localhost/nfd/strategy".parse().expect("a literal name")
}
