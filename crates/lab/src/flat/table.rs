//! A built engine of either kind.

use std::sync::Arc;

use byname_lookup::FlatFib;

use super::baselines::Baseline;
use super::engine::Subject;

/// A built engine.
pub enum Table {
    /// An engine in two halves.
    Halves {
        /// The control half; `None` if only the query half was built.
        subject: Option<Subject>,
        /// The query half.
        fib: Arc<dyn FlatFib>,
    },
    /// A baseline, which is not split into halves.
    Baseline(Box<dyn Baseline>),
}

impl Table {
    /// The part that readers query.
    pub fn asked(&self) -> Asked<'_> {
        match self {
            Table::Halves { fib, .. } => Asked::Fib(&**fib),
            Table::Baseline(baseline) => Asked::Baseline(&**baseline),
        }
    }
}

/// The part of an engine that readers query.
#[derive(Clone, Copy)]
pub enum Asked<'a> {
    /// Queried by digests.
    Fib(&'a dyn FlatFib),
    /// Queried by names and their digests.
    Baseline(&'a dyn Baseline),
}

impl Asked<'_> {
    /// Memory that queries may read, in bytes, as the engine counts it.
    pub fn memory_bytes(self) -> usize {
        match self {
            Asked::Fib(fib) => fib.memory_bytes(),
            Asked::Baseline(baseline) => baseline.memory_bytes(),
        }
    }

    /// Expected share of wrong answers, by the engine's own formula.
    pub fn wrong_rate(self) -> f64 {
        match self {
            Asked::Fib(_) => 0.0,
            Asked::Baseline(baseline) => baseline.wrong_rate(),
        }
    }
}
