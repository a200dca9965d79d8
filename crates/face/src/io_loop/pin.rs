//! Binds threads to processors.

/// Binds this thread to a processor, if there is one for it.
#[cfg(target_os = "linux")]
pub(super) fn to(processor: Option<usize>) {
    let Some(processor) = processor.filter(|processor| *processor < rustix::thread::CpuSet::MAX_CPU) else { return };
    let mut only = rustix::thread::CpuSet::new();
    only.set(processor);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &only) {
        tracing::warn!(%error, processor, "cannot bind a thread to a processor");
    }
}

/// Does nothing: other systems choose themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn to(_processor: Option<usize>) {}
