//! Signed Interests of applications: who has sent them, and that each counts only once.
//!
//! The format is that of signed Interests in the NDN Packet Specification 0.3. A signature has a time and a nonce, or a sequence
//! number besides. An Interest is refused if its time is more than [`WINDOW`] from this host's clock, or before this session
//! began; if it was accepted before; or if its sequence number is not above the last one of its key.
//!
//! Differs from management of byname's router, which remembers times across restarts: here, what was signed before the
//! session began is refused. A consumer whose clock is behind is refused for as long after the start.
//!
//! # Bounds
//! Only Interests that the validator has accepted are remembered: [`SEEN_MAX`] within the window, and the sequence numbers of
//! [`KEYS_MAX`] keys. Further ones are refused.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use byname_trust::validator::Signed;
use byname_wire::signature::{KeyLocator, Signature};
use byname_wire::{Interest, Name};
use thiserror::Error;

use crate::clock::{Now, as_ms};
use crate::verify::Doubt;

/// Longest difference between the time of a signature and this host's clock.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Most Interests remembered.
pub const SEEN_MAX: usize = 65_536;
/// Most keys with sequence numbers.
pub const KEYS_MAX: usize = 4096;

/// The reason why an Interest is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestDoubt {
    /// It has no signature of the v0.3 format.
    #[error("it is not signed")]
    Unsigned,
    /// Its parameters were changed.
    #[error("its parameters do not match the digest in its name")]
    Parameters,
    /// The session has no validator, so nobody is trusted.
    #[error("this application trusts nobody: it has no validator")]
    NoValidator,
    /// The signature has no time, or no nonce.
    #[error("its signature has no time and nonce that tell it from a replay")]
    NoTime,
    /// It was signed too long ago, or too far ahead.
    #[error("it was signed at {time_ms} ms, and this host's clock says {unix_ms} ms; compare the clocks")]
    OutsideWindow {
        /// Time of the signature, in ms since the Unix epoch.
        time_ms: u64,
        /// Time of this host.
        unix_ms: u64,
    },
    /// It was signed before this session began, which does not know whether it was accepted then.
    #[error("it was signed {} ms before this application started; ask again", start_ms - time_ms)]
    BeforeStart {
        /// Time of the signature, in ms since the Unix epoch.
        time_ms: u64,
        /// Start of the session.
        start_ms: u64,
    },
    /// It was accepted before.
    #[error("it is a replay")]
    Replayed,
    /// Its sequence number is not above an earlier one of its key.
    #[error("its sequence number {number} is not above {last}")]
    OldNumber {
        /// The number.
        number: u64,
        /// The last one accepted.
        last: u64,
    },
    /// The signature is not trusted.
    #[error(transparent)]
    Untrusted(#[from] Doubt),
    /// Too many Interests are checked or remembered.
    #[error("too many signed Interests at a time")]
    Busy,
}

/// The signature of an Interest, as the validator takes it.
///
/// # Errors
/// There is none, or it does not cover the parameters.
pub(crate) fn signed_part<'a>(interest: &Interest<'a>) -> Result<Signed<'a>, RequestDoubt> {
    let Some(Signature { info, value, signed }) = interest.signature else { return Err(RequestDoubt::Unsigned) };
    if !interest.parameters_digest_matches() {
        return Err(RequestDoubt::Parameters);
    }
    // The digest at the end of the name is no part of what the rules judge. The rule `hierarchical` does not judge it: who asks
    // for a name need not be above it.
    let name = interest.name.prefix(interest.name.len() - 1);
    Ok(Signed { name, is_below_signer: false, typ: info.typ, key_locator: info.key_locator, signed, value })
}

/// The key that has signed an Interest.
pub(crate) fn key_of(interest: &Interest<'_>) -> Name {
    match interest.signature.and_then(|signature| signature.info.key_locator) {
        Some(KeyLocator::Name(name)) => name.to_name(),
        _ => Name::default(),
    }
}

/// Accepts each signed Interest once.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    fingerprint: RandomState,
    /// When the session began, in ms since the Unix epoch.
    start_ms: Option<u64>,
    /// Times and fingerprints of what was accepted.
    seen: BTreeSet<(u64, u64)>,
    numbers: HashMap<Name, u64>,
}

impl Replays {
    /// The session begins, unless it has begun.
    pub fn start(&mut self, now: Now) {
        self.start_ms.get_or_insert(now.unix_ms());
    }

    /// Whether the time of an Interest's signature is acceptable.
    pub fn check_time(&self, interest: &Interest<'_>, now: Now) -> Result<(), RequestDoubt> {
        let info = interest.signature.ok_or(RequestDoubt::Unsigned)?.info;
        let (Some(time_ms), Some(_)) = (info.time_ms, info.nonce) else { return Err(RequestDoubt::NoTime) };
        let unix_ms = now.unix_ms();
        if time_ms.abs_diff(unix_ms) > as_ms(WINDOW) {
            return Err(RequestDoubt::OutsideWindow { time_ms, unix_ms });
        }
        let start_ms = self.start_ms.unwrap_or(unix_ms);
        if time_ms < start_ms { Err(RequestDoubt::BeforeStart { time_ms, start_ms }) } else { Ok(()) }
    }

    /// Accepts an Interest that the validator has accepted, if it is new.
    pub fn accept(&mut self, interest: &Interest<'_>, now: Now) -> Result<(), RequestDoubt> {
        // Certificates may have taken a while.
        self.check_time(interest, now)?;
        let signature = interest.signature.ok_or(RequestDoubt::Unsigned)?;
        let time_ms = signature.info.time_ms.ok_or(RequestDoubt::NoTime)?;
        let oldest_ms = now.unix_ms().saturating_sub(as_ms(WINDOW));
        self.seen = self.seen.split_off(&(oldest_ms, 0));
        // Not the signature: anybody can make another one from an ECDSA signature.
        let entry = (time_ms, self.fingerprint.hash_one(signature.signed));
        if self.seen.contains(&entry) {
            return Err(RequestDoubt::Replayed);
        }
        if let Some(number) = signature.info.seq_num {
            let key = key_of(interest);
            match self.numbers.get(&key) {
                Some(&last) if number <= last => return Err(RequestDoubt::OldNumber { number, last }),
                None if self.numbers.len() >= KEYS_MAX => return Err(RequestDoubt::Busy),
                _ => drop(self.numbers.insert(key, number)),
            }
        }
        if self.seen.len() >= SEEN_MAX {
            return Err(RequestDoubt::Busy);
        }
        self.seen.insert(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::interest::InterestBuilder;
    use byname_wire::signature::{SignatureInfo, SignatureType};

    const UNIX_MS: u64 = 1_795_000_000_000;

    fn at(ms: u64) -> Now {
        Now { elapsed: Duration::from_millis(ms), unix: Duration::from_millis(UNIX_MS + ms) }
    }

    /// An Interest that is signed by nobody, of this key.
    fn interest(key: &str, nonce: u64, time_ms: Option<u64>, seq_num: Option<u64>) -> Vec<u8> {
        let key: Name = key.parse().unwrap();
        let nonce = nonce.to_be_bytes();
        let info = SignatureInfo {
            typ: SignatureType::Ed25519,
            key_locator: Some(KeyLocator::Name(key.as_ref())),
            nonce: Some(&nonce),
            time_ms,
            seq_num,
        };
        InterestBuilder::new("/door/open".parse().unwrap(), 1).encode_signed(&info, |_| vec![0; 64])
    }

    fn accept(replays: &mut Replays, wire: &[u8], now: Now) -> Result<(), RequestDoubt> {
        replays.accept(&Interest::decode(wire).unwrap(), now)
    }

    #[test]
    fn each_counts_once_and_only_in_its_time() {
        let mut replays = Replays::default();
        replays.start(at(0));
        let first = interest("/k", 1, Some(UNIX_MS + 10), None);
        assert_eq!(accept(&mut replays, &first, at(20)), Ok(()));
        assert_eq!(accept(&mut replays, &first, at(20)), Err(RequestDoubt::Replayed));
        assert_eq!(accept(&mut replays, &first, at(60_010)), Err(RequestDoubt::Replayed));
        // Then the time alone refuses it, and it is forgotten.
        assert!(matches!(accept(&mut replays, &first, at(60_011)), Err(RequestDoubt::OutsideWindow { .. })));
        let later = interest("/k", 2, Some(UNIX_MS + 100_000), None);
        assert!(matches!(accept(&mut replays, &later, at(39_999)), Err(RequestDoubt::OutsideWindow { .. })));
        assert_eq!(accept(&mut replays, &later, at(100_000)), Ok(()));
        assert_eq!(replays.seen.len(), 1);
        let early = interest("/k", 3, Some(UNIX_MS - 1), None);
        let doubt = accept(&mut replays, &early, at(5)).unwrap_err();
        assert_eq!(doubt, RequestDoubt::BeforeStart { time_ms: UNIX_MS - 1, start_ms: UNIX_MS });
        assert_eq!(doubt.to_string(), "it was signed 1 ms before this application started; ask again");
        let timeless = interest("/k", 4, None, Some(1));
        assert_eq!(accept(&mut replays, &timeless, at(5)), Err(RequestDoubt::NoTime));
    }

    #[test]
    fn sequence_numbers_of_each_key_rise() {
        let mut replays = Replays::default();
        replays.start(at(0));
        for (key, number, expected) in [
            ("/a", 5, Ok(())),
            ("/a", 5, Err(RequestDoubt::OldNumber { number: 5, last: 5 })),
            ("/a", 4, Err(RequestDoubt::OldNumber { number: 4, last: 5 })),
            ("/b", 4, Ok(())),
            ("/a", 6, Ok(())),
        ] {
            let wire = interest(key, rand::random(), Some(UNIX_MS), Some(number));
            assert_eq!(accept(&mut replays, &wire, at(0)), expected, "{key} {number}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut replays = Replays::default();
        replays.start(at(0));
        for nonce in 0..SEEN_MAX as u64 {
            let number = (nonce < KEYS_MAX as u64).then_some(1);
            let key = format!("/key/{nonce}");
            assert_eq!(accept(&mut replays, &interest(&key, nonce, Some(UNIX_MS), number), at(0)), Ok(()));
        }
        let wire = interest("/key", u64::MAX, Some(UNIX_MS), None);
        assert_eq!(accept(&mut replays, &wire, at(0)), Err(RequestDoubt::Busy));
        let wire = interest("/key", u64::MAX, Some(UNIX_MS + 61_000), Some(1));
        assert_eq!(accept(&mut replays, &wire, at(61_000)), Err(RequestDoubt::Busy), "too many keys");
        let wire = interest("/key", u64::MAX, Some(UNIX_MS + 61_000), None);
        assert_eq!(accept(&mut replays, &wire, at(61_000)), Ok(()));
    }
}
