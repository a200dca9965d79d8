//! `/metrics`: the text of a snapshot, created once for all requests that wait for it.
//!
//! An answer is never older than its request. Requests that arrive while a snapshot is being taken share the next one.
//! After each snapshot, the control thread has time for its other work: [`REST`] times as long as the snapshot took,
//! and at least [`REST_MIN`]. Many scrapers therefore cost the router no more than one that scrapes all the time.

use std::time::Duration;

use byname_control::metrics::Snapshot;
use hyper::body::Bytes;
use thiserror::Error;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Shortest time between two snapshots.
const REST_MIN: Duration = Duration::from_millis(50);
/// Pause after a snapshot, as a multiple of the time that it took.
const REST: u32 = 4;

/// Receives the requested snapshot. May be called from any thread, or never.
pub type Tell = Box<dyn FnOnce(Snapshot) + Send>;

/// Asks for a snapshot without waiting. Returns false if none will come.
pub type Ask = Box<dyn Fn(Tell) -> bool + Send + Sync>;

/// Why there is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoSnapshot {
    /// The control thread's request queue is full.
    #[error("management is busy")]
    Busy,
    /// The control thread did not answer in time, or has ended.
    #[error("management does not answer")]
    Silent,
}

/// The last result.
struct Last {
    begun: Instant,
    ended: Instant,
    text: Result<Bytes, NoSnapshot>,
}

/// Creates the text of snapshots.
pub struct Metrics {
    ask: Ask,
    /// How long the control thread may take.
    patience: Duration,
    /// Locked while a snapshot is being taken. Waiters get the lock in order.
    last: Mutex<Option<Last>>,
}

impl Metrics {
    pub fn new(ask: Ask, patience: Duration) -> Self {
        Metrics { ask, patience, last: Mutex::new(None) }
    }

    /// The text of a snapshot that was begun after this call.
    pub async fn text(&self) -> Result<Bytes, NoSnapshot> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = &*last {
            if last.begun > asked {
                return last.text.clone();
            }
            sleep_until(last.ended + REST_MIN.max(REST * (last.ended - last.begun))).await;
        }
        let begun = Instant::now();
        let text = self.make().await;
        *last = Some(Last { begun, ended: Instant::now(), text: text.clone() });
        text
    }

    async fn make(&self) -> Result<Bytes, NoSnapshot> {
        let (sender, told) = oneshot::channel();
        // Sending fails if the request has ended meanwhile.
        let asked = (self.ask)(Box::new(move |snapshot| drop(sender.send(snapshot))));
        if !asked {
            return Err(NoSnapshot::Busy);
        }
        match timeout(self.patience, told).await {
            Ok(Ok(snapshot)) => Ok(Bytes::from(snapshot.encode())),
            Ok(Err(_)) | Err(_) => Err(NoSnapshot::Silent),
        }
    }
}
