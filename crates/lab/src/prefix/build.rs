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

/// Changes per batch: the maximum that management sends.
const BATCH: u64 = 4096;

/// A built engine.
pub struct Built {
    /// Both halves; `None` if the rules were loaded in bulk, after which the engine takes no changes.
    pub subject: Option<Subject>,
    /// The query half.
    pub fib: Arc<dyn PrefixFib>,
    /// Build time, in seconds.
    pub build_s: f64,
    /// The way in which rules were loaded.
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
    let (subject, fib) = built.with_context(|| format!("cannot build {}", engine.name))?;
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
