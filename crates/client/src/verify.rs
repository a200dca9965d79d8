//! Whether Data is trusted: by a validator's rules, or, without one, by its digest alone.

use std::collections::{BTreeMap, BTreeSet};

use byname_trust::validator::{Begun, DomainSet, Origin, Outcome, Rejection, RequestId, Signed, Wanted};
use byname_trust::{Moment, Validator};
use byname_wire::signature::SignatureType;
use byname_wire::{Data, NameRef};
use thiserror::Error;

/// The reason why Data is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Doubt {
    /// The content was changed: its SHA-256 is not the signature.
    #[error("it does not match its digest")]
    Digest,
    /// The validator rejects it.
    #[error(transparent)]
    Rejected(Rejection),
}

/// The result of a check.
#[derive(Debug)]
pub(crate) enum Verdict {
    Known(Result<(), Doubt>),
    /// Certificates must be fetched first.
    Waiting(RequestId),
}

/// Checks Data.
pub(crate) struct Checker {
    validator: Option<Validator>,
    waiting: BTreeSet<RequestId>,
    outcomes: BTreeMap<RequestId, Result<(), Doubt>>,
}

impl Checker {
    /// Trusts what this validator accepts. Without one, everything whose digest is right.
    pub fn new(validator: Option<Validator>) -> Self {
        Checker { validator, waiting: BTreeSet::new(), outcomes: BTreeMap::new() }
    }

    pub fn check(&mut self, data: &Data<'_>, now: Moment) -> Verdict {
        self.check_signed(&Signed::data(data), now).unwrap_or_else(|| Verdict::Known(check_digest(data)))
    }

    /// Checks a signature. `None`: there is no validator.
    pub fn check_signed(&mut self, signed: &Signed<'_>, now: Moment) -> Option<Verdict> {
        let validator = self.validator.as_mut()?;
        let all = (0..validator.domains().len()).map(DomainSet::one).fold(DomainSet::default(), DomainSet::union);
        Some(match validator.begin(signed, all, Origin::default(), now) {
            Begun::Done(outcome) => Verdict::Known(judged(outcome)),
            Begun::Waiting(id) => {
                self.waiting.insert(id);
                Verdict::Waiting(id)
            }
        })
    }

    /// Takes Data that may be a certificate.
    pub fn on_data(&mut self, data: &Data<'_>, now: Moment) {
        if let Some(validator) = &mut self.validator {
            validator.on_data(data, now);
        }
    }

    /// There is no way to fetch this name.
    pub fn on_nack(&mut self, name: NameRef<'_>, now: Moment) {
        if let Some(validator) = &mut self.validator {
            validator.on_nack(name, now);
        }
    }

    /// There is another connection: Interests for certificates were lost with the earlier one, or not sent.
    pub fn on_connected(&mut self, now: Moment) {
        if let Some(validator) = &mut self.validator {
            validator.fetch_again(now);
        }
    }

    /// The Interests for certificates that are due.
    pub fn poll(&mut self, now: Moment) -> Vec<Wanted> {
        let Some(validator) = &mut self.validator else { return Vec::new() };
        let wanted = validator.poll(now);
        for (id, outcome) in validator.take_done() {
            if self.waiting.remove(&id) {
                self.outcomes.insert(id, judged(outcome));
            }
        }
        validator.take_poisoned();
        wanted
    }

    /// Takes the outcome of a check that had to wait. `None`: it still waits.
    pub fn take(&mut self, id: RequestId) -> Option<Result<(), Doubt>> {
        self.outcomes.remove(&id)
    }

    /// The outcome is of no interest any more.
    pub fn forget(&mut self, id: RequestId) {
        self.waiting.remove(&id);
        self.outcomes.remove(&id);
    }

    /// When [`Checker::poll`] has something to do.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.validator.as_ref().and_then(Validator::next_deadline_ms)
    }
}

fn judged(outcome: Outcome) -> Result<(), Doubt> {
    outcome.map(drop).map_err(Doubt::Rejected)
}

/// Without a validator, only changed content is told from the original.
fn check_digest(data: &Data<'_>) -> Result<(), Doubt> {
    let is_digest = data.signature.info.typ == SignatureType::DigestSha256;
    let is_wrong = is_digest && byname_wire::digest::sha256(&data.signature.signed) != data.signature.value;
    if is_wrong { Err(Doubt::Digest) } else { Ok(()) }
}
