//! The router: events in, actions out.
//!
//! [`Router::handle`] takes an [`Event`], [`Router::poll`] lets time pass, and [`Router::next_action`] gives what is to
//! be done. [`Router::wake_at_ms`] says when time matters next.

use byname_trust::{Moment, Signer};
use byname_wire::NameRef;

use crate::action::Action;
use crate::config::{Config, ConfigError};
use crate::event::Event;
use crate::explain::Explanation;
use crate::status::{PrefixStatus, Status};

/// A router that speaks ndn-dv.
pub struct Router {
    config: Config,
    signer: Signer,
    actions: std::collections::VecDeque<Action>,
}

impl Router {
    /// A router that has just started. `signer` signs what it tells others; its key's certificate should permit names
    /// below `/localhop/<router>/32=DV/32=ADV` and `/<network>/32=DV/32=PFS/<router>`. Its first actions register its
    /// prefixes.
    ///
    /// # Errors
    /// A [`ConfigError`].
    pub fn new(config: Config, signer: Signer, now: Moment) -> Result<Self, ConfigError> {
        config.check()?;
        todo!("{now:?}")
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event<'_>, now: Moment) {
        todo!("{event:?} {now:?}")
    }

    /// Does what is due. Call it at [`Router::wake_at_ms`], and after events.
    pub fn poll(&mut self, now: Moment) {
        todo!("{now:?}")
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Router::poll`] has something to do, in milliseconds of the monotonic clock.
    pub fn wake_at_ms(&self) -> u64 {
        todo!()
    }

    /// Signs with another key from now on.
    pub fn set_signer(&mut self, signer: Signer) {
        self.signer = signer;
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What this router knows, without prefixes.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// The prefixes after `after`, in order, at most `max`.
    pub fn prefixes(&self, after: Option<NameRef<'_>>, max: usize) -> Vec<PrefixStatus> {
        todo!("{after:?} {max}")
    }

    /// Why a name goes where it goes.
    pub fn explain(&self, name: NameRef<'_>) -> Explanation {
        todo!("{name:?}")
    }
}
