//! When a refused change is tried again.

/// First and longest pause, in ms.
const PAUSE_MS: (u64, u64) = (100, 5_000);

/// A subject of which the router has refused a change.
#[derive(Debug)]
pub(super) struct Retry {
    pause_ms: u64,
    /// `None`: it is being tried.
    due_at: Option<u64>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { pause_ms: PAUSE_MS.0 / 2, due_at: None }
    }
}

impl Retry {
    /// The router has refused once more. Several refusals of one attempt make one pause. Returns when it ends.
    pub(super) fn refused(&mut self, now: u64) -> u64 {
        *self.due_at.get_or_insert_with(|| {
            self.pause_ms = (self.pause_ms * 2).min(PAUSE_MS.1);
            now + self.pause_ms
        })
    }

    /// Whether it is time for another attempt, which then begins.
    pub(super) fn begin(&mut self, now: u64) -> bool {
        let is_due = self.due_at.is_some_and(|at| at <= now);
        if is_due {
            self.due_at = None;
        }
        is_due
    }

    /// When the next attempt begins.
    pub(super) fn due_at(&self) -> Option<u64> {
        self.due_at
    }
}
