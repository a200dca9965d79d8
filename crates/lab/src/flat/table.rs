//! A built engine, of whichever kind.

use std::sync::Arc;

use byname_lookup::FlatFib;

use super::baselines::Baseline;
use super::engine::Subject;

/// What was built.
pub enum Table {
    /// In two halves.
    Halves {
        /// Takes changes; none if there is a query half alone.
        subject: Option<Subject>,
        /// What readers look up in.
        fib: Arc<dyn FlatFib>,
    },
    /// In one.
    Baseline(Box<dyn Baseline>),
}

impl Table {
    /// What readers look up in.
    pub fn asked(&self) -> Asked<'_> {
        match self {
            Table::Halves { fib, .. } => Asked::Fib(&**fib),
            Table::Baseline(baseline) => Asked::Baseline(&**baseline),
        }
    }
}

/// What readers look up in.
#[derive(Clone, Copy)]
pub enum Asked<'a> {
    /// Asked by digests.
    Fib(&'a dyn FlatFib),
    /// Asked by names and their digests.
    Baseline(&'a dyn Baseline),
}

impl Asked<'_> {
    /// Memory that a query may read, in bytes, as the engine counts.
    pub fn memory_bytes(self) -> usize {
        match self {
            Asked::Fib(fib) => fib.memory_bytes(),
            Asked::Baseline(baseline) => baseline.memory_bytes(),
        }
    }

    /// The share of answers that are wrong by the engine's own account.
    pub fn wrong_rate(self) -> f64 {
        match self {
            Asked::Fib(_) => 0.0,
            Asked::Baseline(baseline) => baseline.wrong_rate(),
        }
    }
}
