//! Binds threads to processors.

/// The first `count` processors that this process may use. Empty if it has fewer.
#[cfg(target_os = "linux")]
pub(super) fn processors(count: usize) -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let processors: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if processors.len() < count { Vec::new() } else { processors[..count].to_vec() }
}

/// Binds this thread to a processor, if there is one for it.
#[cfg(target_os = "linux")]
pub(super) fn to(processor: Option<usize>) {
    let Some(processor) = processor else { return };
    let mut only = rustix::thread::CpuSet::new();
    only.set(processor);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &only) {
        tracing::warn!(%error, processor, "cannot bind a thread to a processor");
    }
}

/// Empty: other systems choose themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn processors(_count: usize) -> Vec<usize> {
    Vec::new()
}

/// Does nothing.
#[cfg(not(target_os = "linux"))]
pub(super) fn to(_processor: Option<usize>) {}
