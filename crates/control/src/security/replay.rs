//! Replay protection by what was seen, in bounded memory.
//!
//! A command is the same one as before if its signed octets (name, parameters, nonce, time) are
//! the same; what is remembered is a 64-bit keyed hash of them. The signature itself is left out:
//! an ECDSA signature can be altered by anyone into another one that verifies.
//!
//! Two kinds of signer have two kinds of memory:
//!
//! - **A key that the configuration knows** has a history of its own: the last
//!   [`KEY_HISTORY_MAX`] to twice as many commands. When older ones must be forgotten, commands
//!   no newer than the newest forgotten one are refused from then on, so nothing that was seen is
//!   ever accepted again. An honest client stamps its commands with rising times and never notices.
//! - **Plain digests and unknown keys**, accepted from this host where the configuration says
//!   "any", share one history of [`SHARED_HISTORY_MAX`] to twice as many, and the oldest are
//!   forgotten for good. Who can replay such a command can as well make a new one.
//!
//! Keys are bounded by the configuration, so memory is.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use byname_wire::Name;

use super::Refusal;
use super::command::Command;

/// Commands remembered for each known key, at least, once so many came.
pub const KEY_HISTORY_MAX: usize = 32_768;
/// Commands remembered for all other signers together, at least, once so many came.
pub const SHARED_HISTORY_MAX: usize = 131_072;

/// The histories of all signers.
pub(super) struct ReplayGuard {
    fingerprint: RandomState,
    shared: History,
    by_key: HashMap<Name, History>,
}

impl ReplayGuard {
    pub(super) fn new() -> Self {
        ReplayGuard {
            fingerprint: RandomState::new(),
            shared: History::new(SHARED_HISTORY_MAX, false),
            by_key: HashMap::new(),
        }
    }

    /// Remembers a verified command of `key` (`None`: of no known key), or refuses it.
    pub(super) fn check(&mut self, key: Option<&Name>, command: &Command<'_>) -> Result<(), Refusal> {
        let fingerprint = self.fingerprint.hash_one(command.signed);
        let history = match key {
            None => &mut self.shared,
            Some(key) => self.by_key.entry(key.clone()).or_insert_with(|| History::new(KEY_HISTORY_MAX, true)),
        };
        history.insert(fingerprint, command.time_ms.unwrap_or(0))
    }
}

/// Two generations of fingerprints: when the young one is full it becomes the old one, and what
/// was old is forgotten.
struct History {
    generation_max: usize,
    young: HashSet<u64, RandomState>,
    old: HashSet<u64, RandomState>,
    young_newest_ms: u64,
    old_newest_ms: u64,
    /// Refuse what is no newer than the newest forgotten command.
    strict: bool,
    forgotten_newest_ms: Option<u64>,
}

impl History {
    fn new(generation_max: usize, strict: bool) -> Self {
        History {
            generation_max,
            young: HashSet::default(),
            old: HashSet::default(),
            young_newest_ms: 0,
            old_newest_ms: 0,
            strict,
            forgotten_newest_ms: None,
        }
    }

    fn insert(&mut self, fingerprint: u64, time_ms: u64) -> Result<(), Refusal> {
        if self.old.contains(&fingerprint) || self.young.contains(&fingerprint) {
            return Err(Refusal::Replayed);
        }
        if self.strict && self.forgotten_newest_ms.is_some_and(|forgotten| time_ms <= forgotten) {
            return Err(Refusal::TooOld);
        }
        if self.young.len() >= self.generation_max {
            if !self.old.is_empty() {
                self.forgotten_newest_ms = self.forgotten_newest_ms.max(Some(self.old_newest_ms));
            }
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            self.old_newest_ms = std::mem::take(&mut self.young_newest_ms);
        }
        self.young.insert(fingerprint);
        self.young_newest_ms = self.young_newest_ms.max(time_ms);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_either_generation_is_a_replay() {
        let mut history = History::new(4, false);
        for i in 0..8 {
            assert_eq!(history.insert(i, i), Ok(()));
        }
        for i in 0..8 {
            assert_eq!(history.insert(i, i), Err(Refusal::Replayed));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::new(100, false);
        for i in 0..10_000 {
            assert_eq!(history.insert(i, i), Ok(()));
            assert!(history.young.len() + history.old.len() <= 200);
        }
    }

    #[test]
    fn a_known_key_never_passes_what_was_forgotten() {
        let mut history = History::new(10, true);
        for i in 0..1_000 {
            assert_eq!(history.insert(i, i), Ok(()), "times rise: an honest client");
        }
        for i in 0..1_000 {
            assert!(history.insert(i, i).is_err(), "{i}");
        }
    }

    #[test]
    fn shared_history_forgets_for_good() {
        let mut history = History::new(10, false);
        for i in 0..100 {
            assert_eq!(history.insert(i, 5), Ok(()));
        }
        assert_eq!(history.insert(0, 5), Ok(()));
    }
}
