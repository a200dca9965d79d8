//! Prefixes for which Interests are wanted, and their registration at the router.

use std::collections::BTreeMap;
use std::time::Duration;

use byname_wire::{Name, NameRef};

use crate::backoff::Backoff;
use crate::management::RegisterOptions;

/// First and longest pause before a refused registration is tried again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its registration is to be sent at this time.
    Due(Duration),
    /// Its registration is on its way.
    Asked,
    /// The router has it. It is to be registered again at this time, if at all.
    Registered(Option<Duration>),
    /// The router has it, perhaps no more: a further registration is on its way.
    Refreshing,
}

#[derive(Debug)]
struct Producer {
    options: RegisterOptions,
    state: State,
    backoff: Backoff,
    /// Since when the application has waited to hear whether it is registered.
    untold_since: Option<Duration>,
}

/// All prefixes.
#[derive(Debug, Default)]
pub(super) struct Producers {
    prefixes: BTreeMap<Name, Producer>,
    depth_max: usize,
}

impl Producers {
    /// Adds a prefix, which is to be registered now. Returns false if it is there already.
    pub fn add(&mut self, prefix: Name, options: RegisterOptions, now: Duration) -> bool {
        if self.prefixes.contains_key(&prefix) {
            return false;
        }
        self.depth_max = self.depth_max.max(prefix.as_ref().len());
        let backoff = Backoff::new(RETRY.0, RETRY.1);
        self.prefixes.insert(prefix, Producer { options, state: State::Due(now), backoff, untold_since: Some(now) });
        true
    }

    pub fn remove(&mut self, prefix: &Name) -> bool {
        self.prefixes.remove(prefix).is_some()
    }

    /// The longest prefix of a name.
    pub fn prefix_of(&self, name: NameRef<'_>) -> Option<Name> {
        let longest = self.depth_max.min(name.len());
        (0..=longest).rev().map(|depth| name.prefix(depth).to_name()).find(|prefix| self.prefixes.contains_key(prefix))
    }

    /// The router knows nothing of this application: all is to be registered again.
    pub fn forget_registrations(&mut self, now: Duration) {
        for producer in self.prefixes.values_mut() {
            producer.state = State::Due(now);
            producer.backoff.reset();
        }
    }

    /// A prefix to register now. It counts as asked for.
    pub fn next_due(&mut self, now: Duration) -> Option<(Name, RegisterOptions)> {
        let is_due = |(_, producer): &(&Name, &mut Producer)| producer.due().is_some_and(|at| at <= now);
        let (prefix, producer) = self.prefixes.iter_mut().find(is_due)?;
        producer.state = if producer.is_registered() { State::Refreshing } else { State::Asked };
        Some((prefix.clone(), producer.options))
    }

    pub fn next_deadline(&self) -> Option<Duration> {
        self.prefixes.values().filter_map(Producer::due).min()
    }

    /// Takes the outcome of a registration. It is repeated at `refresh`, if at all. Returns whether this is news for the
    /// application.
    pub fn on_answer(&mut self, prefix: &Name, is_registered: bool, refresh: Option<Duration>, now: Duration) -> bool {
        let Some(producer) = self.prefixes.get_mut(prefix) else { return false };
        let was_registered = producer.is_registered();
        if is_registered {
            producer.state = State::Registered(refresh);
            producer.backoff.reset();
        } else {
            producer.state = State::Due(now + producer.backoff.next_pause());
        }
        producer.untold_since = None;
        !(was_registered && is_registered)
    }

    /// A prefix whose application has waited since `before` to hear whether it is registered, and the beginning of its wait.
    /// It counts as told.
    pub fn next_untold(&mut self, before: Duration) -> Option<(Name, Duration)> {
        let is_over =
            |(_, producer): &(&Name, &mut Producer)| producer.untold_since.is_some_and(|since| since <= before);
        let (prefix, producer) = self.prefixes.iter_mut().find(is_over)?;
        Some((prefix.clone(), producer.untold_since.take()?))
    }

    /// The beginning of the longest wait of an application.
    pub fn untold_since(&self) -> Option<Duration> {
        self.prefixes.values().filter_map(|producer| producer.untold_since).min()
    }

    /// Whether a prefix is registered.
    pub fn is_registered(&self, prefix: &Name) -> bool {
        self.prefixes.get(prefix).is_some_and(Producer::is_registered)
    }
}

impl Producer {
    fn is_registered(&self) -> bool {
        matches!(self.state, State::Registered(_) | State::Refreshing)
    }

    /// When to register it.
    fn due(&self) -> Option<Duration> {
        match self.state {
            State::Due(at) => Some(at),
            State::Registered(refresh) => refresh,
            State::Asked | State::Refreshing => None,
        }
    }
}
