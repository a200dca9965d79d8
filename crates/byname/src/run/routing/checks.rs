//! Packets of other routers, and whether they are believed.
//!
//! Missing certificates are fetched: from the face that the packet came from, and by routes, with the packet's name as
//! the forwarding hint, as ndn-dv's specification demands.

use std::collections::HashMap;

use byname_trust::validator::{Begun, Counters, DomainSet, Origin, Outcome, Rejection, RequestId, Signed};
use byname_trust::{Moment, Rights, Rule, Validator};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Name, NameRef};

/// Checks packets. `P` says what a packet is for.
pub struct Checks<P> {
    /// `None`: everything is believed.
    validator: Option<Validator>,
    waiting: HashMap<RequestId, P>,
}

/// A packet that was checked, and what its signer may announce.
pub type Checked<P> = (P, Result<Rights, Rejection>);

impl<P> Checks<P> {
    /// Checks with this validator; `None` believes everything.
    pub fn new(validator: Option<Validator>) -> Self {
        Checks { validator, waiting: HashMap::new() }
    }

    /// Changes whom to believe. Returns what waits: it must be given up.
    pub fn replace(&mut self, validator: Option<Validator>) -> Vec<P> {
        std::mem::replace(self, Checks::new(validator)).waiting.into_values().collect()
    }

    /// Checks a packet with this name that came from `face`. `None`: the answer comes later, from [`Checks::done`].
    pub fn check(
        &mut self,
        signed: &Signed<'_>,
        name: NameRef<'_>,
        face: Option<u64>,
        of: P,
        now: Moment,
    ) -> Option<Checked<P>> {
        let Some(validator) = &mut self.validator else { return Some((of, Ok(Rights::default()))) };
        let hint = validator.hints_packet_name().then(|| name.to_name());
        let origin = Origin { face, forwarding_hint: hint.into_iter().collect() };
        match validator.begin(signed, DomainSet::one(0), origin, now) {
            Begun::Done(outcome) => Some((of, verdict(outcome, validator))),
            Begun::Waiting(id) => {
                self.waiting.insert(id, of);
                None
            }
        }
    }

    /// Takes Data that may be a certificate.
    pub fn on_data(&mut self, data: &Data<'_>, now: Moment) -> bool {
        self.validator.as_mut().is_some_and(|validator| validator.on_data(data, now))
    }

    /// Names of Data that is no right certificate, or not any more. While it is in the content store, it hides the right
    /// one.
    pub fn take_poisoned(&mut self) -> Vec<Name> {
        self.validator.as_mut().map(Validator::take_poisoned).unwrap_or_default()
    }

    /// The content store has forgotten what had this name.
    pub fn on_erased(&mut self, name: NameRef<'_>, now: Moment) {
        if let Some(validator) = &mut self.validator {
            validator.on_erased(name, now);
        }
    }

    /// The Interests for certificates that are due, each with the face to send it to, if it must not go by routes.
    pub fn interests(&mut self, now: Moment) -> Vec<(Option<u64>, Vec<u8>)> {
        let wanted = self.validator.as_mut().map(|validator| validator.poll(now)).unwrap_or_default();
        let interest = |wanted: byname_trust::validator::Wanted| {
            let interest = InterestBuilder::new(wanted.name, rand::random())
                .can_be_prefix(true)
                .must_be_fresh(true)
                .lifetime_ms(wanted.lifetime_ms)
                .forwarding_hint(wanted.forwarding_hint);
            (wanted.face, interest.encode())
        };
        wanted.into_iter().map(interest).collect()
    }

    /// Packets whose check has ended.
    pub fn done(&mut self) -> Vec<Checked<P>> {
        let Some(validator) = &mut self.validator else { return Vec::new() };
        let done = validator.take_done();
        let own = |(id, outcome)| self.waiting.remove(&id).map(|of| (of, verdict(outcome, validator)));
        done.into_iter().filter_map(own).collect()
    }

    /// When [`Checks::interests`] has something to do.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.validator.as_ref()?.next_deadline_ms()
    }

    /// Numbers since the validator was set.
    pub fn counters(&self) -> Counters {
        self.validator.as_ref().map(Validator::counters).unwrap_or_default()
    }
}

/// The rights of a trusted packet's signer: as the certificates of its chain and the schema restrict them.
fn verdict(outcome: Outcome, validator: &Validator) -> Result<Rights, Rejection> {
    let accepted = outcome?;
    let certificate = accepted.certificate.name.as_ref();
    let schemas = validator.domains().iter().filter_map(|domain| match &domain.rule {
        Rule::Schema(schema) => Some(schema),
        _ => None,
    });
    // There is one domain.
    Ok(schemas.fold(accepted.rights, |rights, schema| rights.judged_by(schema, certificate)))
}
