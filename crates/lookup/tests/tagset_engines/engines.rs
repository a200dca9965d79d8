//! The engines under test.

use std::sync::Arc;

use byname_lookup::oracle::TagsetOracle;
use byname_lookup::{BuildError, Change, Control, TagsetFib, Update};
use byname_wire::Descriptor;

pub type Engine = Box<dyn Control<Descriptor, Query = dyn TagsetFib> + Send>;

/// What an engine knows of a descriptor, and so what it can be asked by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Its tags: packets are asked for by tags, and by a filter alone.
    Tags,
    /// Its filter: packets are asked for by filters, and of descriptors with the same filter the
    /// second is refused.
    Filters,
}

/// A kind of engine: how to build one, and what it takes.
pub struct Kind {
    pub name: &'static str,
    pub keeps: Keeps,
    /// The largest entry id.
    pub entry_max: u32,
    /// Most steps of a packet; [`u32::MAX`] for any number.
    pub steps_max: u32,
    /// An empty table.
    pub build: fn() -> Engine,
}

/// All of them, and each with what forces it to do what it seldom does.
pub const ALL: &[Kind] = &[
    // For what the traits do by themselves: bursts.
    Kind {
        name: "oracle",
        keeps: Keeps::Tags,
        entry_max: u32::MAX,
        steps_max: u32::MAX,
        build: || Box::new(TagsetOracle::new()),
    },
];

/// An engine and the query half that its readers would have.
pub struct Subject {
    pub engine: Engine,
    pub fib: Arc<dyn TagsetFib>,
}

impl Subject {
    pub fn new(kind: &Kind) -> Self {
        let engine = (kind.build)();
        let fib = engine.query();
        Subject { engine, fib }
    }

    /// Applies a batch as the forwarder does: whoever reads has the new query half at once.
    pub fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.engine.apply(changes)? {
            self.fib = fib;
        }
        Ok(())
    }
}
