//! One core for each thread.

use anyhow::ensure;

/// Refuses more threads than there are cores: they would only wait for each other.
pub fn ensure_enough(threads: usize, what: &str) -> anyhow::Result<()> {
    let cores = core_affinity::get_core_ids().map_or(1, |cores| cores.len());
    ensure!(threads > 0, "{what} needs a thread");
    ensure!(threads <= cores, "{what} needs {threads} cores, and this machine gives us {cores}");
    Ok(())
}

/// Keeps this thread on a core of its own: the last for thread 0, since the first has most
/// interrupts.
pub fn pin(thread: usize) {
    if let Some(cores) = core_affinity::get_core_ids()
        && let Some(core) = cores.iter().rev().nth(thread)
    {
        core_affinity::set_for_current(*core);
    }
}
