//! Readers of a table, lent to the threads that look up.

use std::sync::{Mutex, PoisonError};

/// Readers that nobody uses, which are kept for the next lookups.
const IDLE_MAX: usize = 64;

/// Readers of one table. A lookup borrows one and returns it, so lookups in several threads do not wait for each other.
pub struct Readers<R> {
    /// The one that others are cloned from.
    first: Mutex<R>,
    idle: Mutex<Vec<R>>,
}

impl<R: Clone> Readers<R> {
    pub fn new(first: R) -> Self {
        Readers { first: Mutex::new(first), idle: Mutex::new(Vec::new()) }
    }

    /// Looks up. A reader whose lookup panics is not used again.
    pub fn with<T>(&self, look_up: impl FnOnce(&mut R) -> T) -> T {
        // Nothing panics while a lock is held.
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = idle.unwrap_or_else(|| self.first.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let found = look_up(&mut reader);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(reader);
        }
        found
    }
}
