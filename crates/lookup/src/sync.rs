//! What threads share memory with, replaced by loom's under `--cfg loom` so that models run the real code.

#[cfg(loom)]
pub(crate) use loom::{
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering, fence},
    thread::yield_now,
};
