//! Fills an engine with the rules of a workload.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use byname_lookup::{Change, PrefixFib, Update};
use byname_wire::NameRef;

use super::engine::{Engine, Setup, Subject};
use super::options::Load;
use crate::progress::Progress;
use crate::workload::Workload;

/// Changes in a batch: as many as management sends at most.
const BATCH: u64 = 4096;

/// A built engine.
pub struct Built {
    /// Both halves; none if the rules were loaded in bulk and the engine takes no changes then.
    pub subject: Option<Subject>,
    /// What readers look up in.
    pub fib: Arc<dyn PrefixFib>,
    /// Time it took.
    pub build_s: f64,
    /// How the rules came in.
    pub load: Load,
}

/// Builds the engine with all rules.
pub fn build(engine: &Engine, setup: &Setup<'_>, load: Load, progress: Progress) -> anyhow::Result<Built> {
    let workload = setup.workload;
    let bulk = match (load, engine.bulk, workload.bulk_nodes()) {
        (Load::Changes, ..) | (Load::Auto, None, _) | (Load::Auto, _, None) => None,
        (Load::Auto | Load::Bulk, Some(bulk), Some(_)) => Some(bulk),
        (Load::Bulk, None, _) => bail!("{} has no bulk load", engine.name),
        (Load::Bulk, _, None) => bail!("a bulk load needs rules in canonical order; these are not"),
    };
    let bar = progress.bar(&format!("building {}", engine.name), workload.rules());
    let start = Instant::now();
    let built = match bulk {
        Some(bulk) => bulk(setup, &mut |rules| bar.inc(rules)).map(|fib| (None, fib)),
        None => (engine.empty)(setup).and_then(|mut subject| {
            let fib = insert_all(&mut subject, workload, |rules| bar.inc(rules))?;
            Ok((Some(subject), fib))
        }),
    };
    let (subject, fib) = built.with_context(|| format!("{} was not built", engine.name))?;
    let load = if bulk.is_some() { Load::Bulk } else { Load::Changes };
    bar.finish_and_clear();
    Ok(Built { subject, fib, build_s: start.elapsed().as_secs_f64(), load })
}

fn insert_all(
    subject: &mut Subject,
    workload: &dyn Workload,
    mut progress: impl FnMut(u64),
) -> anyhow::Result<Arc<dyn PrefixFib>> {
    let mut fib = subject.query();
    let (mut batch, mut name) = (Vec::new(), Vec::new());
    for first in (0..workload.rules()).step_by(BATCH as usize) {
        let last = (first + BATCH).min(workload.rules());
        batch.clear();
        for i in first..last {
            workload.write_rule(i, &mut name);
            batch.push(Change::Set(NameRef::new_checked_before(&name).to_name(), workload.entry(i)));
        }
        if let Update::Replace(new) = subject.apply(&batch)? {
            fib = new;
        }
        subject.reclaim();
        progress(last - first);
    }
    Ok(fib)
}
