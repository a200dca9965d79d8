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
    Registered,
}

#[derive(Debug)]
struct Producer {
    options: RegisterOptions,
    state: State,
    backoff: Backoff,
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
        self.prefixes.insert(prefix, Producer { options, state: State::Due(now), backoff });
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
        let is_due = |(_, producer): &(&Name, &mut Producer)| matches!(producer.state, State::Due(at) if at <= now);
        let (prefix, producer) = self.prefixes.iter_mut().find(is_due)?;
        producer.state = State::Asked;
        Some((prefix.clone(), producer.options))
    }

    pub fn next_deadline(&self) -> Option<Duration> {
        let due = |producer: &Producer| match producer.state {
            State::Due(at) => Some(at),
            State::Asked | State::Registered => None,
        };
        self.prefixes.values().filter_map(due).min()
    }

    /// Takes the outcome of a registration. Returns false if nobody wants the prefix any more.
    pub fn on_answer(&mut self, prefix: &Name, is_registered: bool, now: Duration) -> bool {
        let Some(producer) = self.prefixes.get_mut(prefix) else { return false };
        if is_registered {
            producer.state = State::Registered;
            producer.backoff.reset();
        } else {
            producer.state = State::Due(now + producer.backoff.next_pause());
        }
        true
    }

    /// Whether a prefix is registered.
    pub fn is_registered(&self, prefix: &Name) -> bool {
        self.prefixes.get(prefix).is_some_and(|producer| producer.state == State::Registered)
    }
}
