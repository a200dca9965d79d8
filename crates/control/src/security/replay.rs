//! Replay protection: remembers commands in bounded memory.
//!
//! Two commands are the same if their signed bytes (name, parameters, nonce, time) are the same. The history keeps a
//! 64-bit keyed hash of these bytes. The hash excludes the signature itself, because anyone can turn an ECDSA signature
//! into another valid one.
//!
//! There are two kinds of history:
//!
//! - **A key in the configuration** has a history of its own. It contains all commands that the key verified, accepted
//!   or refused: the last [`KEY_HISTORY_MAX`] to twice as many. From then on, commands that are not newer than the
//!   newest forgotten one are refused. A command in the history is therefore never accepted again. An honest client
//!   signs with rising times and is not affected. Commands too far ahead of the clock are remembered by their times
//!   only: in the history, they would block all commands with earlier times. [`super::marks`] extends this protection
//!   across restarts.
//! - **Plain digests and unknown keys** are accepted from this host if a rule allows "any" signer. They share one
//!   history of [`SHARED_HISTORY_MAX`] commands to twice as many. The oldest are forgotten without consequence: anybody
//!   who can replay such a command can also create a new one.
//!
//! The configuration bounds the number of its keys, and thereby the memory. Keys that a chain of certificates leads to are
//! many: each remembers [`CHAINED_HISTORY_MAX`] commands, and there are at most [`CHAINED_KEYS_MAX`]. For another one, keys
//! are forgotten whose last command is so old that the time window refuses it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use byname_wire::Name;

use super::command::Command;
use super::marks::{Mark, Marks};
use super::{Refusal, TimeWindow};

/// Fewest commands remembered for each known key, once that many have arrived.
pub const KEY_HISTORY_MAX: usize = 32_768;
/// Fewest commands remembered for all other signers together, once that many have arrived.
pub const SHARED_HISTORY_MAX: usize = 131_072;

/// Fewest commands remembered for each key with a chain of certificates, once that many have arrived.
pub const CHAINED_HISTORY_MAX: usize = 1024;
/// Most keys with a chain of certificates.
pub const CHAINED_KEYS_MAX: usize = 4096;

/// How a key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// The configuration names it.
    Configured,
    /// A chain of certificates leads from it to an anchor.
    Chained,
}

/// The histories of all signers.
pub(super) struct ReplayGuard {
    fingerprint: RandomState,
    shared: History,
    by_key: HashMap<Name, KeyHistory>,
    chained: HashMap<Name, KeyHistory>,
    marks: Marks,
}

/// Commands of one key since the start.
struct KeyHistory {
    seen: History,
    /// Times of commands refused because they were too far ahead of the clock.
    ahead: Mark,
    /// The latest time of its commands.
    newest_ms: u64,
}

impl ReplayGuard {
    pub(super) fn new(marks: Marks) -> Self {
        ReplayGuard {
            fingerprint: RandomState::new(),
            shared: History::new(SHARED_HISTORY_MAX, false),
            by_key: HashMap::new(),
            chained: HashMap::new(),
            marks,
        }
    }

    /// Remembers a command that no known key verified, or refuses it as a replay.
    pub(super) fn check_of_anyone(&mut self, command: &Command<'_>) -> Result<(), Refusal> {
        let fingerprint = self.fingerprint.hash_one(command.signed);
        self.shared.insert(fingerprint, command.time_ms.unwrap_or(0))
    }

    /// Remembers a command that `key` verified, or refuses it. A refused command is remembered, too: an attacker may
    /// have recorded it, and replay it once the clock allows.
    pub(super) fn check_of_key(
        &mut self,
        (key, kind): (&Name, KeyKind),
        command: &Command<'_>,
        time_ms: u64,
        window: TimeWindow,
        unix_ms: u64,
    ) -> Result<(), Refusal> {
        let fingerprint = self.fingerprint.hash_one(command.signed);
        if kind == KeyKind::Chained && !self.chained.contains_key(key) {
            self.make_room(unix_ms.saturating_sub(window.past_ms()))?;
        }
        let (histories, history_max) = match kind {
            KeyKind::Configured => (&mut self.by_key, KEY_HISTORY_MAX),
            KeyKind::Chained => (&mut self.chained, CHAINED_HISTORY_MAX),
        };
        let new = || KeyHistory { seen: History::new(history_max, true), ahead: Mark::default(), newest_ms: time_ms };
        let history = histories.entry(key.clone()).or_insert_with(new);
        history.newest_ms = history.newest_ms.max(time_ms);
        if time_ms > unix_ms.saturating_add(self.marks.ahead_max_ms(window.ahead_ms())) {
            history.ahead.cover_span(time_ms);
            return self.note(key, time_ms, unix_ms).and(Err(Refusal::TooFarAhead));
        }
        if history.ahead.covers(time_ms) {
            return Err(Refusal::Replayed);
        }
        history.seen.insert(fingerprint, time_ms)?;
        self.note(key, time_ms, unix_ms)?;
        if time_ms < unix_ms.saturating_sub(window.past_ms()) {
            return Err(Refusal::TooOld);
        }
        if self.marks.covers(key, time_ms) {
            return Err(Refusal::BeforeStart);
        }
        Ok(())
    }

    /// Forgets keys whose commands are all before this time, if there is no room for another key.
    fn make_room(&mut self, too_old_ms: u64) -> Result<(), Refusal> {
        if self.chained.len() >= CHAINED_KEYS_MAX {
            self.chained.retain(|_, history| history.newest_ms >= too_old_ms);
            let (chained, by_key) = (&self.chained, &self.by_key);
            self.marks.forget_before(too_old_ms, |key| chained.contains_key(key) || by_key.contains_key(key));
        }
        if self.chained.len() < CHAINED_KEYS_MAX { Ok(()) } else { Err(Refusal::TooManyKeys) }
    }

    fn note(&mut self, key: &Name, time_ms: u64, unix_ms: u64) -> Result<(), Refusal> {
        self.marks.note(key, time_ms, unix_ms).map_err(|error| {
            tracing::error!(%error, "cannot write the time of a command to the state folder, so it is refused");
            Refusal::NotWritten
        })
    }
}

/// Two generations of fingerprints. When the young generation is full, it replaces the old one, whose entries are
/// forgotten.
struct History {
    generation_max: usize,
    young: HashSet<u64, RandomState>,
    old: HashSet<u64, RandomState>,
    young_newest_ms: u64,
    old_newest_ms: u64,
    /// Whether to refuse commands that are not newer than the newest forgotten one.
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
