//! Signed Interests: sent by this application, and checked by it.

use byname_trust::validator::RequestId;
use byname_wire::interest::InterestBuilder;

use super::interests::Purpose;
use super::{CheckId, Event, ExchangeError, InterestId, Now, Outbox, Request, Session};
use crate::management::{management_name, signed_by};
use crate::signed::{RequestDoubt, key_of, signed_part};
use crate::verify::Verdict;

/// Most requests that wait for certificates.
const CHECKS_MAX: usize = 256;

/// A request that waits for certificates.
pub(super) struct Check {
    id: CheckId,
    waits_for: RequestId,
    request: Request,
}

impl Session {
    /// Sends an Interest that is signed by the session's key. Each of `tries` is signed again, so has another name. The
    /// answer is an [`Event::Answer`].
    ///
    /// # Errors
    /// The key cannot sign, or the Interest is malformed or too large.
    pub fn express_signed(
        &mut self,
        interest: InterestBuilder,
        tries: u32,
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<InterestId, ExchangeError> {
        match self.signer.sign_command(&interest, now.unix_ms()) {
            Ok(wire) => self.express_for(Purpose::Signed(Box::new(interest)), wire, tries, now, outbox),
            Err(error) => Err(ExchangeError::unsigned(&interest.encode(), error)),
        }
    }

    /// Signs an Interest again, if it is signed by the session's key.
    pub(super) fn sign_again(&mut self, id: InterestId, now: Now) {
        let signed = match self.interests.purpose(id) {
            // A command has the time of its signature, which the router compares with its clock.
            Some(Purpose::Command { module, verb, parameters, .. }) => {
                let name = management_name("localhost", module, verb);
                signed_by(&self.signer, name, parameters.clone(), None, now.unix_ms())
            }
            Some(Purpose::Signed(interest)) => self.signer.sign_command(interest, now.unix_ms()),
            _ => return,
        };
        // What cannot be signed now could not be signed before.
        if let Ok(wire) = signed {
            let _ = self.interests.replace(id, wire);
        }
    }

    /// Checks who has signed a request, by the session's validator, and that it is no replay. The result is an
    /// [`Event::Checked`].
    pub fn check_request(&mut self, request: Request, now: Now) -> CheckId {
        let id = CheckId(self.new_id());
        match self.begin_check(&request, now) {
            Ok(None) => self.accept(id, request, now),
            Ok(Some(waits_for)) => {
                self.checks.push_back(Check { id, waits_for, request });
                if self.checks.len() > CHECKS_MAX
                    && let Some(oldest) = self.checks.pop_front()
                {
                    self.checker.forget(oldest.waits_for);
                    let Check { id, request, .. } = oldest;
                    self.events.push_back(Event::Checked { id, request, result: Err(Box::new(RequestDoubt::Busy)) });
                }
            }
            Err(doubt) => self.events.push_back(Event::Checked { id, request, result: Err(Box::new(doubt)) }),
        }
        id
    }

    fn begin_check(&mut self, request: &Request, now: Now) -> Result<Option<RequestId>, RequestDoubt> {
        let interest = request.interest();
        let signed = signed_part(&interest)?;
        self.replays.check_time(&interest, now)?;
        match self.checker.check_signed(&signed, now.moment()).ok_or(RequestDoubt::NoValidator)? {
            Verdict::Known(outcome) => Ok(outcome.map(|()| None)?),
            Verdict::Waiting(id) => Ok(Some(id)),
        }
    }

    fn accept(&mut self, id: CheckId, request: Request, now: Now) {
        let interest = request.interest();
        let result = self.replays.accept(&interest, now).map(|()| key_of(&interest)).map_err(Box::new);
        self.events.push_back(Event::Checked { id, request, result });
    }

    /// Goes on with requests that have waited for certificates.
    pub(super) fn check_requests_again(&mut self, now: Now) {
        for check in std::mem::take(&mut self.checks) {
            match self.checker.take(check.waits_for) {
                None => self.checks.push_back(check),
                Some(Ok(())) => self.accept(check.id, check.request, now),
                Some(Err(doubt)) => {
                    let Check { id, request, .. } = check;
                    self.events.push_back(Event::Checked { id, request, result: Err(Box::new(doubt.into())) });
                }
            }
        }
    }
}
