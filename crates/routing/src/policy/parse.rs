//! Rules as text.

use byname_wire::Name;

use super::{PolicyError, PolicyRule, Scope, Stage, Verdict};

/// Parses one rule.
pub(super) fn rule(line: &str) -> Result<PolicyRule, PolicyError> {
    let mut words = Words { line, words: line.split_whitespace() };
    let stage = match words.next("announce, accept or prefer")? {
        "announce" => Stage::Announce,
        "accept" => Stage::Accept,
        "prefer" => Stage::Prefer,
        word => return Err(PolicyError::Stage { rule: line.to_owned(), word: word.to_owned() }),
    };
    let verdict = match stage {
        Stage::Announce | Stage::Accept => match words.next("permit or deny")? {
            "permit" => Verdict::Permit,
            "deny" => Verdict::Deny,
            word => return Err(words.wrong("permit or deny", word)),
        },
        Stage::Prefer => match words.next("cost")? {
            "cost" => Verdict::Cost(words.cost()?),
            word => return Err(words.wrong("cost", word)),
        },
    };
    let mut rule = PolicyRule { stage, verdict, prefix: None, origin: None, neighbour: None };
    while let Some(word) = words.words.next() {
        words.pair(word, &mut rule)?;
    }
    Ok(rule)
}

struct Words<'a> {
    line: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn next(&mut self, expected: &'static str) -> Result<&'a str, PolicyError> {
        self.words.next().ok_or_else(|| PolicyError::End { rule: self.line.to_owned(), expected })
    }

    fn wrong(&self, expected: &'static str, word: &str) -> PolicyError {
        PolicyError::Word { rule: self.line.to_owned(), expected, word: word.to_owned() }
    }

    fn cost(&mut self) -> Result<u64, PolicyError> {
        const EXPECTED: &str = "a cost from 0 to 15";
        let word = self.next(EXPECTED)?;
        word.parse().ok().filter(|cost| *cost < 16).ok_or_else(|| self.wrong(EXPECTED, word))
    }

    fn name(&mut self) -> Result<Name, PolicyError> {
        const EXPECTED: &str = "a name";
        let word = self.next(EXPECTED)?;
        let name = word.strip_prefix('/').and_then(|_| word.parse().ok());
        name.ok_or_else(|| self.wrong(EXPECTED, word))
    }

    /// `prefix /a`, `exactly /a`, `origin /net/r1` or `neighbour /net/r2`.
    fn pair(&mut self, word: &str, rule: &mut PolicyRule) -> Result<(), PolicyError> {
        let (word, is_here, is_set) = match word {
            "prefix" | "exactly" => {
                let word = if word == "prefix" { "prefix" } else { "exactly" };
                (word, rule.stage != Stage::Prefer, rule.prefix.is_some())
            }
            "origin" => ("origin", rule.stage != Stage::Announce, rule.origin.is_some()),
            // As the sections of the configuration file spell it.
            "neighbour" | "neighbor" => ("neighbour", rule.stage != Stage::Announce, rule.neighbour.is_some()),
            _ => return Err(self.wrong("prefix, exactly, origin or neighbour", word)),
        };
        if !is_here {
            return Err(PolicyError::NotHere { rule: self.line.to_owned(), word });
        }
        if is_set {
            return Err(PolicyError::Twice { rule: self.line.to_owned(), word });
        }
        let name = self.name()?;
        match word {
            "prefix" => rule.prefix = Some(Scope::Below(name)),
            "exactly" => rule.prefix = Some(Scope::Exactly(name)),
            "origin" => rule.origin = Some(name),
            _ => rule.neighbour = Some(name),
        }
        Ok(())
    }
}
