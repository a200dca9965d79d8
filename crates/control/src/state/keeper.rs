//! The control thread's side of the store: what waits to be written, and the answers that wait for it.

use std::path::{Path, PathBuf};

use byname_forward::Packet;
use crossbeam_channel::Receiver;

use super::store::{Change, Store};
use super::writer::{Batch, Condition, Report, Writer};

/// Answers that wait before the control thread takes no more commands.
const ANSWERS_MAX: usize = 65_536;

/// Counters and condition of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStatus {
    /// The file.
    pub path: PathBuf,
    /// Whether changes reach the disk.
    pub condition: Condition,
    /// Changes that have reached the disk.
    pub written: u64,
    /// Commits to the disk.
    pub commits: u64,
    /// Changes that wait.
    pub waiting: u64,
}

impl StoreStatus {
    /// The status in words.
    pub fn words(&self) -> String {
        let path = self.path.display();
        match &self.condition {
            Condition::Good => format!("kept in {path}"),
            Condition::Failing(why) => format!("not kept for now: {why}"),
            Condition::GivenUp(why) => format!("not kept any more: {why}"),
        }
    }
}

/// Collects changes, and gives them to the writing thread one batch at a time.
#[derive(Debug)]
pub struct Keeper {
    writer: Writer,
    next: Batch,
    /// Number of changes in the batch that the writing thread has.
    in_flight: Option<usize>,
    status: StoreStatus,
}

impl Keeper {
    /// Starts the writing thread for a store.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(store: Store) -> std::io::Result<Keeper> {
        let path = Path::to_owned(store.path());
        let writer = Writer::start(store)?;
        let status = StoreStatus { path, condition: Condition::Good, written: 0, commits: 0, waiting: 0 };
        Ok(Keeper { writer, next: Batch::default(), in_flight: None, status })
    }

    /// Whether all changes have been written.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.next.is_empty()
    }

    /// Whether so many answers wait that no more commands should be taken.
    pub fn is_full(&self) -> bool {
        self.next.answers.len() >= ANSWERS_MAX
    }

    /// Adds changes.
    pub fn add(&mut self, mut changes: Vec<Change>) {
        self.next.changes.append(&mut changes);
    }

    /// Keeps an answer back until all changes so far are written.
    pub fn hold(&mut self, answer: Packet) {
        self.next.answers.push(answer);
    }

    /// Gives the writing thread its next batch, if it has none. Returns the answers that need to wait no longer.
    pub fn turn(&mut self) -> Vec<Packet> {
        let mut answers = Vec::new();
        for Report { answers: mut of_batch, written, condition } in self.writer.reports().try_iter() {
            answers.append(&mut of_batch);
            self.in_flight = None;
            self.status.written += written as u64;
            self.status.commits += u64::from(written > 0);
            self.status.condition = condition;
        }
        if self.in_flight.is_none() && !self.next.is_empty() {
            let batch = std::mem::take(&mut self.next);
            self.in_flight = Some(batch.changes.len());
            if let Some(back) = self.writer.offer(batch) {
                (self.next, self.in_flight) = (back, None);
            }
        }
        answers
    }

    /// Becomes ready when [`Keeper::turn`] must be called.
    pub fn reports(&self) -> &Receiver<Report> {
        self.writer.reports()
    }

    /// Its status.
    pub fn status(&self) -> StoreStatus {
        let waiting = (self.next.changes.len() + self.in_flight.unwrap_or(0)) as u64;
        StoreStatus { waiting, ..self.status.clone() }
    }

    /// Writes all changes and closes the store. Returns the answers that waited.
    pub fn close(self) -> Vec<Packet> {
        self.writer.close(self.next)
    }
}
