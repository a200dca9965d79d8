//! Fills an engine with names.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use byname_lookup::{Change, FlatFib, Update};

use super::engine::{Engine, Setup, Subject};
use super::options::Load;
use crate::progress::Progress;

/// Changes in a batch.
const BATCH: usize = 4096;

/// A built engine.
pub struct Built {
    /// Both halves; none if there is a query half alone.
    pub subject: Option<Subject>,
    /// What readers look up in.
    pub fib: Arc<dyn FlatFib>,
    /// Time it took.
    pub construct_s: f64,
    /// How the names came in.
    pub load: Load,
}

/// Builds the engine with all names.
pub fn build(engine: &Engine, setup: &Setup<'_>, load: Load, progress: Progress) -> anyhow::Result<Built> {
    let load = match (load, engine.construct, engine.bulk) {
        (Load::Auto, Some(_), _) => Load::Construct,
        (Load::Auto, None, _) => Load::Changes,
        (Load::Construct, None, _) => bail!("{} is built by changes only", engine.name),
        (Load::Bulk, _, None) => bail!("{} has no bulk load", engine.name),
        (load, ..) => load,
    };
    let bar = progress.bar(&format!("building {}", engine.name), setup.names.len());
    let start = Instant::now();
    let built = match (load, engine.construct, engine.bulk) {
        (Load::Bulk, _, Some(bulk)) => bulk(setup, &mut |names| bar.inc(names)).map(|fib| (None, fib)),
        (Load::Construct, Some(construct), _) => construct(setup).map(|subject| {
            let fib = subject.query();
            (Some(subject), fib)
        }),
        _ => (engine.empty)(setup).and_then(|mut subject| {
            let fib = insert_all(&mut subject, setup, |names| bar.inc(names))?;
            Ok((Some(subject), fib))
        }),
    };
    let (subject, fib) = built.with_context(|| format!("{} was not built", engine.name))?;
    bar.finish_and_clear();
    Ok(Built { subject, fib, construct_s: start.elapsed().as_secs_f64(), load })
}

fn insert_all(
    subject: &mut Subject,
    setup: &Setup<'_>,
    mut progress: impl FnMut(u64),
) -> anyhow::Result<Arc<dyn FlatFib>> {
    let mut fib = subject.query();
    let mut names = setup.stream();
    let mut batch = Vec::new();
    loop {
        batch.clear();
        batch.extend(names.by_ref().take(BATCH).map(|(name, action)| Change::Set(name, action)));
        if batch.is_empty() {
            return Ok(fib);
        }
        // An engine that sees that nobody else reads its query half may change it in place.
        drop(fib);
        fib = match subject.apply(&batch)? {
            Update::Replace(new) => new,
            Update::Patched => subject.query(),
        };
        subject.reclaim();
        progress(batch.len() as u64);
    }
}
