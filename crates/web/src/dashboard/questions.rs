//! Questions to the control thread: one at a time, and with time for its other work between them.

use std::time::{Duration, Instant as StdInstant};

use byname_control::mgmt::Management;
use byname_control::service::Door;
use byname_trust::Moment;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

pub use crate::metrics::NoSnapshot as NoAnswer;

/// Pause after a question, as a multiple of the time that it took. So all askers together take at most a fifth of the
/// control thread's time.
const REST: u32 = 4;

/// The way of questions.
pub struct Questions {
    door: Door,
    /// How long the control thread may take.
    patience: Duration,
    /// When the next question may be asked. Waiters get the lock in order.
    next: Mutex<Option<Instant>>,
}

impl Questions {
    pub fn new(door: Door, patience: Duration) -> Self {
        Questions { door, patience, next: Mutex::new(None) }
    }

    /// Lets the control thread answer a question. Also returns the time that it took.
    pub async fn ask_timed<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Management, Moment) -> R + Send + 'static,
    ) -> Result<(R, Duration), NoAnswer> {
        let mut next = self.next.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        let (sender, told) = oneshot::channel();
        let asked = self.door.ask(move |management, now| {
            let begun = StdInstant::now();
            let answer = question(management, now);
            // Fails if the request has ended meanwhile.
            let _ = sender.send((answer, begun.elapsed()));
        });
        if !asked {
            return Err(NoAnswer::Busy);
        }
        let Ok(Ok((answer, took))) = timeout(self.patience, told).await else {
            return Err(NoAnswer::Silent);
        };
        *next = Some(Instant::now() + REST * took);
        Ok((answer, took))
    }

    /// Lets the control thread answer a question.
    pub async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Management, Moment) -> R + Send + 'static,
    ) -> Result<R, NoAnswer> {
        self.ask_timed(question).await.map(|(answer, _)| answer)
    }
}
