//! Assigns a core to each thread.

use anyhow::ensure;

/// Rejects more threads than there are cores: they would only wait for each other.
pub fn ensure_enough(threads: usize, what: &str) -> anyhow::Result<()> {
    let cores = core_affinity::get_core_ids().map_or(1, |cores| cores.len());
    ensure!(threads > 0, "{what}: at least one thread is needed");
    ensure!(threads <= cores, "{what} needs {threads} cores, but only {cores} are available");
    Ok(())
}

/// Pins this thread to a core of its own. Thread 0 gets the last core, because the first core handles most interrupts.
pub fn pin(thread: usize) {
    if let Some(cores) = core_affinity::get_core_ids()
        && let Some(core) = cores.iter().rev().nth(thread)
    {
        core_affinity::set_for_current(*core);
    }
}
