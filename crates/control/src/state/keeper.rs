//! The control thread's side of the store: what waits to be written, and the answers that wait for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use byname_forward::Packet;
use crossbeam_channel::Receiver;

use super::change::Change;
use super::store::Store;
use super::writer::{Batch, Condition, Outlet, Writer};

/// Answers that wait before the control thread takes no more commands.
const ANSWERS_MAX: u64 = 65_536;

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

/// Collects changes, and queues them for the writing thread.
#[derive(Debug)]
pub struct Keeper {
    writer: Writer,
    next: Batch,
    path: PathBuf,
    /// Changes queued so far.
    queued: u64,
    /// Answers queued so far.
    held: u64,
    /// The condition that [`Keeper::news_of_condition`] told last.
    told: Condition,
}

impl Keeper {
    /// Starts the writing thread for a store. It sends answers by `outlet`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(store: Store, outlet: Outlet) -> std::io::Result<Keeper> {
        let path = Path::to_owned(store.path());
        let writer = Writer::start(store, outlet)?;
        Ok(Keeper { writer, next: Batch::default(), path, queued: 0, held: 0, told: Condition::Good })
    }

    /// Whether so many answers wait that no more commands should be taken.
    pub fn is_full(&self) -> bool {
        self.held - self.writer.progress().answered.load(Ordering::SeqCst) >= ANSWERS_MAX
    }

    /// As [`Keeper::is_full`]. If so, [`Keeper::news`] becomes ready when there may be room again.
    pub fn is_full_for_now(&self) -> bool {
        self.is_full() && {
            self.writer.progress().is_awaited.store(true, Ordering::SeqCst);
            // The last answer may have been sent before the writing thread could see that somebody waits.
            self.is_full()
        }
    }

    /// Adds changes.
    pub fn add(&mut self, mut changes: Vec<Change>) {
        self.queued += changes.len() as u64;
        self.next.changes.append(&mut changes);
    }

    /// Keeps an answer back until all changes so far are written.
    pub fn hold(&mut self, answer: Packet) {
        self.held += 1;
        self.next.answers.push(answer);
    }

    /// Queues what was added.
    pub fn turn(&mut self) {
        if !self.next.is_empty() {
            self.writer.queue(std::mem::take(&mut self.next));
        }
    }

    /// Becomes ready when something has changed that the control thread must know.
    pub fn news(&self) -> &Receiver<()> {
        self.writer.news()
    }

    /// The status in words, if the condition of the store has changed since the last call.
    pub fn news_of_condition(&mut self) -> Option<String> {
        self.writer.news().try_recv().ok()?;
        let status = self.status();
        if status.condition == self.told {
            return None;
        }
        self.told = status.condition.clone();
        Some(status.words())
    }

    /// Its status.
    pub fn status(&self) -> StoreStatus {
        let progress = self.writer.progress();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        StoreStatus {
            path: self.path.clone(),
            condition: progress.condition(),
            written: count(&progress.written),
            commits: count(&progress.commits),
            waiting: self.queued.saturating_sub(count(&progress.settled)),
        }
    }

    /// Writes all changes, sends all answers and closes the store.
    pub fn close(mut self) {
        self.turn();
        self.writer.close();
    }
}
