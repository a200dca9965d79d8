//! Fills an engine with names.

use std::time::Instant;

use anyhow::{Context as _, bail};
use byname_lookup::{Change, Update};

use super::engine::{Engine, Make, Setup, Subject};
use super::options::Load;
use super::table::Table;
use crate::progress::Progress;

/// Changes per batch.
const BATCH: usize = 4096;

/// A built engine.
pub struct Built {
    /// The engine.
    pub table: Table,
    /// Construction time, in seconds.
    pub construct_s: f64,
    /// The way in which names were loaded.
    pub load: Load,
}

/// Builds the engine with all names.
pub fn build(engine: &Engine, setup: &Setup<'_>, load: Load, progress: Progress) -> anyhow::Result<Built> {
    let load = match (load, engine.make) {
        (Load::Auto, Make::Baseline(_) | Make::Halves { construct: Some(_), .. }) => Load::Construct,
        (Load::Auto, Make::Files(_)) => Load::Bulk,
        (Load::Auto, _) => Load::Changes,
        (load, _) => load,
    };
    let bar = progress.bar(&format!("building {}", engine.name), setup.names.len());
    let start = Instant::now();
    let table = match (load, engine.make) {
        (Load::Construct, Make::Baseline(construct)) => {
            construct(setup, setup.action_bits).map(Table::Baseline).map_err(Into::into)
        }
        (Load::Construct, Make::Halves { construct: Some(construct), .. }) => construct(setup).map(both),
        (Load::Bulk, Make::Halves { bulk: Some(bulk), .. }) => {
            bulk(setup, &mut |names| bar.inc(names)).map(|fib| Table::Halves { subject: None, fib })
        }
        (Load::Bulk, Make::Files(make)) => make(setup).map(|fib| Table::Halves { subject: None, fib }),
        (Load::Changes, Make::Halves { empty, .. }) => {
            empty(setup).and_then(|subject| insert_all(subject, setup, |names| bar.inc(names)))
        }
        _ => bail!("{} does not support this way of loading (--load)", engine.name),
    };
    let table = table.with_context(|| format!("cannot build {}", engine.name))?;
    bar.finish_and_clear();
    Ok(Built { table, construct_s: start.elapsed().as_secs_f64(), load })
}

fn both(subject: Subject) -> Table {
    let fib = subject.query();
    Table::Halves { subject: Some(subject), fib }
}

fn insert_all(mut subject: Subject, setup: &Setup<'_>, mut progress: impl FnMut(u64)) -> anyhow::Result<Table> {
    let mut fib = subject.query();
    let mut names = setup.stream();
    let mut batch = Vec::new();
    loop {
        batch.clear();
        batch.extend(names.by_ref().take(BATCH).map(|(name, action)| Change::Set(name, action)));
        if batch.is_empty() {
            return Ok(Table::Halves { subject: Some(subject), fib });
        }
        // The engine may change its query half in place if nobody else holds it.
        drop(fib);
        fib = match subject.apply(&batch)? {
            Update::Replace(new) => new,
            Update::Patched => subject.query(),
        };
        subject.reclaim();
        progress(batch.len() as u64);
    }
}
