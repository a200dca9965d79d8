//! Engines that count the steps of their lookups instead of measuring time.

use byname_lookup::{Change, Control};
use byname_wire::{Component, Name, NameHashKey, NameRef, NameView, PrefixHashes};

use crate::workload::{Random, Workload};

/// A fixed hash key: no stranger chooses these names.
pub const KEY: NameHashKey = NameHashKey::new([1, 2]);
/// Number of changes applied at once.
const BATCH: u64 = 4096;

/// Adds all rules of a workload to an engine.
pub fn load<C: Control<Name>>(engine: &mut C, workload: &dyn Workload) -> anyhow::Result<()> {
    let mut name = Vec::new();
    for first in (0..workload.rules()).step_by(BATCH as usize) {
        let rule = |i| {
            workload.write_rule(i, &mut name);
            Change::Set(NameRef::new_checked_before(&name).to_name(), workload.entry(i))
        };
        let changes: Vec<_> = (first..workload.rules().min(first + BATCH)).map(rule).collect();
        engine.apply(&changes)?;
        engine.reclaim();
    }
    Ok(())
}

/// The mean of `steps` over all names of a workload. Each name gets `suffix` random components appended.
pub fn mean(workload: &dyn Workload, suffix: usize, mut steps: impl FnMut(&NameView<'_>) -> usize) -> f64 {
    let (mut target, mut prefixes, mut random) = (Vec::new(), PrefixHashes::default(), Random::new(1));
    let mut sum = 0;
    for t in 0..workload.targets() {
        workload.write_target(t, &mut target);
        for _ in 0..suffix {
            Component::generic(&random.bits().to_le_bytes()).push(&mut target);
        }
        let name = NameRef::new_checked_before(&target);
        sum += steps(&NameView::new(&KEY, name, &mut prefixes)) as u64;
    }
    sum as f64 / workload.targets() as f64
}
