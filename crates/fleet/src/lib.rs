#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod agent;
pub mod builder;
pub mod etcd;
pub mod follow;
pub mod intent;
pub mod key;
pub mod label;
pub mod table;
pub mod tags;
pub mod value;
pub mod writer;

use std::io;

use tokio::sync::Notify;

/// Runs a future on a runtime of its own, in this thread.
///
/// # Errors
/// The system refuses what a runtime needs.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Another thread's way to end what runs in [`block_on`].
#[derive(Debug, Default)]
pub struct Stop(Notify);

impl Stop {
    /// Asks for the end.
    pub fn now(&self) {
        self.0.notify_one();
    }

    /// Waits until somebody asks.
    pub async fn asked(&self) {
        self.0.notified().await;
    }
}
