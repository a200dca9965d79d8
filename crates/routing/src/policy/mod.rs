//! Policy: what is announced, accepted and preferred, as short rules in the manner of BIRD's and FRR's filters.
//!
//! A rule is a line of words:
//!
//! ```text
//! announce deny prefix /example/private       # not told to the network
//! announce permit prefix /example
//! accept deny origin /net/r9                  # no prefixes of this router
//! accept deny prefix /video neighbour /net/r3 # no routes for these names through this neighbour
//! prefer cost 5 neighbour /net/r3             # this neighbour's routes cost 5 more
//! prefer cost 2 neighbour /net/r3 origin /net/r9
//! ```
//!
//! The first word is the stage, the second the verdict, and pairs of words say what the rule is for. `prefix` covers
//! the names below, too, and `exactly` only the name itself. The first rule of a stage that fits decides. If none fits,
//! announcements are permitted, all is accepted, and nothing costs more.
//!
//! Costs belong to links and routers, not to prefixes: otherwise neighbours would compute with other costs than they
//! are told, and packets could circle. For the same reason, a neighbour that is denied for a prefix is only replaced by
//! one that cannot lead back.

mod parse;

use std::fmt;
use std::str::FromStr;

use byname_wire::{Name, NameRef};
use thiserror::Error;

/// When a rule is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Before a prefix of this host is told to the network.
    Announce,
    /// Before a prefix of another router, or a way through a neighbour, is used.
    Accept,
    /// When ways are compared.
    Prefer,
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Yes.
    Permit,
    /// No.
    Deny,
    /// The way costs so much more.
    Cost(u64),
}

/// The names that a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// This name and those below it.
    Below(Name),
    /// Only this name.
    Exactly(Name),
}

impl Scope {
    fn covers(&self, name: NameRef<'_>) -> bool {
        match self {
            Scope::Below(prefix) => prefix.as_ref().is_prefix_of(&name),
            Scope::Exactly(prefix) => prefix.as_ref() == name,
        }
    }
}

/// A rule. It fits if everything that it names fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRule {
    /// When it is asked.
    pub stage: Stage,
    /// What it decides.
    pub verdict: Verdict,
    /// Prefixes.
    pub prefix: Option<Scope>,
    /// The router that announces a prefix.
    pub origin: Option<Name>,
    /// The neighbour on the way to it.
    pub neighbour: Option<Name>,
}

/// Why a line is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum PolicyError {
    #[error("the rule {rule:?} begins with {word:?}, and not with announce, accept or prefer")]
    Stage { rule: String, word: String },
    #[error("the rule {rule:?} needs {expected}, and has {word:?}")]
    Word { rule: String, expected: &'static str, word: String },
    #[error("the rule {rule:?} ends where {expected} should be")]
    End { rule: String, expected: &'static str },
    #[error("the rule {rule:?} has {word} twice")]
    Twice { rule: String, word: &'static str },
    #[error("the rule {rule:?} cannot have {word}")]
    NotHere { rule: String, word: &'static str },
    #[error("there are more than {max} rules")]
    TooMany { max: usize },
}

/// All rules, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    rules: Vec<PolicyRule>,
}

/// What policy says, and which rule said so: its place, from 0. `None`: no rule fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule.
    pub rule: Option<usize>,
}

impl Ruling {
    /// Whether it is not a denial.
    pub fn permits(&self) -> bool {
        self.verdict != Verdict::Deny
    }
}

impl Policy {
    /// Most rules.
    pub const RULES_MAX: usize = 1024;

    /// Rules in this order.
    ///
    /// # Errors
    /// [`PolicyError::TooMany`].
    pub fn new(rules: Vec<PolicyRule>) -> Result<Self, PolicyError> {
        if rules.len() > Policy::RULES_MAX {
            return Err(PolicyError::TooMany { max: Policy::RULES_MAX });
        }
        Ok(Policy { rules })
    }

    /// Parses one rule a line.
    ///
    /// # Errors
    /// A [`PolicyError`] with the line that is wrong.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, PolicyError> {
        Policy::new(lines.into_iter().map(str::parse).collect::<Result<_, _>>()?)
    }

    /// The rules.
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// Whether a prefix of this host is told to the network.
    pub fn announces(&self, prefix: NameRef<'_>) -> Ruling {
        self.first(Stage::Announce, Verdict::Permit, |rule| rule.fits(Some(prefix), None, None))
    }

    /// Whether a prefix of another router is used.
    pub fn accepts(&self, prefix: NameRef<'_>, origin: NameRef<'_>) -> Ruling {
        let fits = |rule: &PolicyRule| rule.neighbour.is_none() && rule.fits(Some(prefix), Some(origin), None);
        self.first(Stage::Accept, Verdict::Permit, fits)
    }

    /// Whether routes for a prefix may go through a neighbour. Rules without a neighbour are those of
    /// [`Policy::accepts`].
    pub fn accepts_through(&self, prefix: NameRef<'_>, origin: NameRef<'_>, neighbour: NameRef<'_>) -> Ruling {
        let fits =
            |rule: &PolicyRule| rule.neighbour.is_some() && rule.fits(Some(prefix), Some(origin), Some(neighbour));
        self.first(Stage::Accept, Verdict::Permit, fits)
    }

    /// What the way to a router through a neighbour costs beside the link.
    pub fn added_cost(&self, origin: NameRef<'_>, neighbour: NameRef<'_>) -> Ruling {
        self.first(Stage::Prefer, Verdict::Cost(0), |rule| rule.fits(None, Some(origin), Some(neighbour)))
    }

    /// Whether any rule depends on the neighbour for single prefixes.
    pub(crate) fn has_rules_for_ways(&self) -> bool {
        self.rules.iter().any(|rule| rule.stage == Stage::Accept && rule.neighbour.is_some())
    }

    fn first(&self, stage: Stage, otherwise: Verdict, fits: impl Fn(&PolicyRule) -> bool) -> Ruling {
        let found = self.rules.iter().enumerate().find(|(_, rule)| rule.stage == stage && fits(rule));
        match found {
            Some((place, rule)) => Ruling { verdict: rule.verdict, rule: Some(place) },
            None => Ruling { verdict: otherwise, rule: None },
        }
    }
}

impl PolicyRule {
    fn fits(&self, prefix: Option<NameRef<'_>>, origin: Option<NameRef<'_>>, neighbour: Option<NameRef<'_>>) -> bool {
        let is_named = |wanted: &Option<Name>, given: Option<NameRef<'_>>| {
            wanted.as_ref().is_none_or(|wanted| given.is_some_and(|given| wanted.as_ref() == given))
        };
        let covers = |scope: &Scope| prefix.is_some_and(|prefix| scope.covers(prefix));
        self.prefix.as_ref().is_none_or(covers)
            && is_named(&self.origin, origin)
            && is_named(&self.neighbour, neighbour)
    }
}

impl FromStr for PolicyRule {
    type Err = PolicyError;

    fn from_str(line: &str) -> Result<Self, PolicyError> {
        parse::rule(line)
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            Stage::Announce => "announce",
            Stage::Accept => "accept",
            Stage::Prefer => "prefer",
        })?;
        match self.verdict {
            Verdict::Permit => f.write_str(" permit")?,
            Verdict::Deny => f.write_str(" deny")?,
            Verdict::Cost(cost) => write!(f, " cost {cost}")?,
        }
        match &self.prefix {
            Some(Scope::Below(name)) => write!(f, " prefix {name}")?,
            Some(Scope::Exactly(name)) => write!(f, " exactly {name}")?,
            None => {}
        }
        if let Some(origin) = &self.origin {
            write!(f, " origin {origin}")?;
        }
        match &self.neighbour {
            Some(neighbour) => write!(f, " neighbour {neighbour}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
