//! Changes that a reload of the configuration makes. Each is made whole or not at all.

use super::{ControlError, ControlHandle, Request};
use crate::mgmt::reload::{Limits, ReloadRequest, Reloads, RouteChange, StrategyChange};
use crate::mgmt::tlv::ControlResponse;
use crate::security::Authorizer;
use crate::security::marks::Marks;
use crate::tags::bulk::TagFib;

impl ControlHandle {
    /// Sets who carries out the commands of the module `config`.
    pub fn on_reload(&self, reloads: Reloads) -> Result<(), ControlError> {
        self.call(move |management| management.on_reload(reloads))
    }

    /// Sends the answer to a command of the module `config`.
    pub fn answer(&self, request: ReloadRequest, response: ControlResponse) {
        let answer: Request = Box::new(move |service| {
            service.outbox.extend(service.management.reloaded(&request, response));
        });
        // After the end nobody waits for an answer.
        let _ = self.requests.send(answer);
    }

    /// Takes over the rules of this authorizer, and marks if the router has none yet. Returns the earlier rules.
    pub fn set_rights(&self, rules: Authorizer, marks: Option<Marks>) -> Result<Authorizer, ControlError> {
        self.call(move |management| management.set_rights(rules, marks))
    }

    /// Sets and unsets strategies. Returns the changes that undo this.
    ///
    /// # Errors
    /// A strategy cannot be chosen. Nothing has changed.
    pub fn set_strategies(&self, changes: Vec<StrategyChange>) -> Result<Vec<StrategyChange>, ControlError> {
        self.call(move |management| management.change_strategies(changes))?.map_err(ControlError::Strategy)
    }

    /// Adds and removes routes. Returns the changes that undo this. The FIB has all changes then.
    ///
    /// # Errors
    /// The RIB refuses a route. Nothing has changed.
    pub fn set_routes(&self, changes: Vec<RouteChange>) -> Result<Vec<RouteChange>, ControlError> {
        self.call(move |management| {
            let undo = management.change_routes(&changes);
            management.commit();
            undo
        })?
        .map_err(ControlError::Rib)
    }

    /// Sets limits.
    ///
    /// # Errors
    /// There are more routes than allowed. Nothing has changed.
    pub fn set_limits(&self, limits: Limits) -> Result<(), ControlError> {
        self.call_at(move |management, now| management.set_limits(limits, now))?.map_err(ControlError::Rib)
    }

    /// Replaces the engine of the FIB of descriptors while packets flow.
    ///
    /// # Errors
    /// The new engine refuses a descriptor. The old one goes on.
    pub fn rebuild_tag_fib(&self, fib: TagFib) -> Result<(), ControlError> {
        self.call(move |management| management.rebuild_tag_fib(fib))?.map_err(ControlError::Build)
    }
}
