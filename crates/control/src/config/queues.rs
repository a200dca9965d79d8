//! `queues`: the number of packet threads that serve one interface.

use std::fmt;

use byname_forward::dispatch::WORKERS_MAX;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// Number of packet threads that serve an interface, each with a queue of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queues {
    /// All of them, as far as the interface has queues.
    #[default]
    Auto,
    /// At most so many.
    Limit(usize),
}

impl Queues {
    /// Number of threads that serve the interface, of `threads`.
    pub fn of_threads(self, threads: usize) -> usize {
        match self {
            Queues::Auto => threads,
            Queues::Limit(limit) => limit.min(threads),
        }
    }
}

impl<'de> Deserialize<'de> for Queues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl Visitor<'_> for Words {
    type Value = Queues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"auto\" or a number of queues, 1 to {WORKERS_MAX}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Queues, E> {
        if text == "auto" { Ok(Queues::Auto) } else { Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)) }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Queues, E> {
        match usize::try_from(number) {
            Ok(limit) if (1..=WORKERS_MAX).contains(&limit) => Ok(Queues::Limit(limit)),
            _ => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
        }
    }
}
