//! Pauses that grow.

use std::time::Duration;

/// Each pause is twice as long as the one before, up to a limit. A part of each is random, so that many applications
/// of one router do not return at the same moment.
///
/// ```
/// use std::time::Duration;
/// use byname_client::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// let first = backoff.next_pause();
/// assert!(first >= Duration::from_millis(75) && first <= Duration::from_millis(100));
/// (0..10).for_each(|_| drop(backoff.next_pause()));
/// assert!(backoff.next_pause() <= Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, next: first }
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause.mul_f64(1.0 - 0.25 * rand::random::<f64>())
    }

    /// Begins again with the shortest pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}
