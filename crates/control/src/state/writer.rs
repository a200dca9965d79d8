//! The thread that writes changes into the store.
//!
//! The control thread never waits for the disk. It gives this thread one batch at a time, and collects the next batch
//! meanwhile; so commits are grouped by themselves. The answers to the commands of a batch travel with it, and come
//! back when its changes are on the disk.
//!
//! If the store cannot be written (the disk is full, say), the router goes on: answers come back all the same, and the
//! thread keeps the changes and tries again. If too many collect, it gives up and gives the file another name, because a
//! store that lacks changes must not be used at the next start.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::Packet;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};

use super::store::{Change, Store};

/// Pause before a failed write is repeated.
const RETRY: Duration = Duration::from_secs(2);
/// Most changes that wait for a store that cannot be written.
const WAITING_MAX: usize = 2_000_000;

/// Changes, and what waits for them.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Answers to send when the changes are durable.
    pub answers: Vec<Packet>,
}

impl Batch {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.answers.is_empty()
    }
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct Report {
    /// The answers of the batch.
    pub answers: Vec<Packet>,
    /// Number of changes that have reached the disk.
    pub written: usize,
    /// The condition of the store.
    pub condition: Condition,
}

/// Whether changes reach the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// They do.
    Good,
    /// They wait for the store. The reason is in words.
    Failing(String),
    /// The store is no longer in use.
    GivenUp(String),
}

/// The control thread's end of the writing thread. Dropping it ends the thread, after the last batch is written.
#[derive(Debug)]
pub struct Writer {
    batches: Option<Sender<Batch>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(store: Store) -> std::io::Result<Writer> {
        let (batches, inbox) = bounded(1);
        // Bounded: there is one report for each batch.
        let (outbox, reports) = unbounded();
        let work =
            Work { store: Some(store), waiting: Vec::new(), condition: Condition::Good, failed_at: None, outbox };
        let thread = std::thread::Builder::new().name("byname-state".into()).spawn(move || work.run(&inbox))?;
        Ok(Writer { batches: Some(batches), reports, thread: Some(thread) })
    }

    /// Gives the thread a batch. Returns the batch if one waits already.
    pub fn offer(&self, batch: Batch) -> Option<Batch> {
        match self.batches.as_ref()?.try_send(batch) {
            Ok(()) => None,
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => Some(batch),
        }
    }

    /// Outcomes of batches, in order.
    pub fn reports(&self) -> &Receiver<Report> {
        &self.reports
    }

    /// Gives the thread a last batch, and waits until all changes are written and the store is closed. Returns the
    /// answers that waited.
    pub fn close(mut self, last: Batch) -> Vec<Packet> {
        if let Some(batches) = self.batches.take() {
            let _ = batches.send(last);
        }
        self.join();
        self.reports.try_iter().flat_map(|report| report.answers).collect()
    }

    fn join(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the state has panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.join();
    }
}

struct Work {
    /// `None` after it was given up.
    store: Option<Store>,
    /// Changes that the store has not taken.
    waiting: Vec<Change>,
    condition: Condition,
    /// When the last write failed.
    failed_at: Option<Instant>,
    outbox: Sender<Report>,
}

impl Work {
    fn run(mut self, inbox: &Receiver<Batch>) {
        loop {
            let next = if self.waiting.is_empty() {
                inbox.recv().map_err(RecvTimeoutError::from)
            } else {
                inbox.recv_timeout(RETRY)
            };
            match next {
                Ok(batch) => self.take(batch),
                Err(RecvTimeoutError::Timeout) => self.take(Batch::default()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.waiting.is_empty() && self.write() == 0 {
            self.give_up("the router ends, and the store still lacks changes");
        }
    }

    fn take(&mut self, Batch { mut changes, answers }: Batch) {
        self.waiting.append(&mut changes);
        // While the store fails, answers must not wait for attempts with ever more changes.
        let is_due = self.failed_at.is_none_or(|at| at.elapsed() >= RETRY);
        let written = if is_due { self.write() } else { 0 };
        if self.waiting.len() > WAITING_MAX {
            self.give_up("it could not be written for too many changes");
        }
        let report = Report { answers, written, condition: self.condition.clone() };
        // Fails if the control thread has ended; nobody needs the report then.
        let _ = self.outbox.send(report);
    }

    /// Writes what waits. Returns the number of changes that reached the disk.
    fn write(&mut self) -> usize {
        let Some(store) = &mut self.store else {
            self.waiting.clear();
            return 0;
        };
        match store.apply(&self.waiting) {
            Ok(()) => {
                if self.condition != Condition::Good {
                    tracing::warn!("the state reaches the disk again");
                }
                self.condition = Condition::Good;
                self.failed_at = None;
                let written = self.waiting.len();
                self.waiting.clear();
                written
            }
            Err(error) => {
                let why = error.to_string();
                if !matches!(self.condition, Condition::Failing(_)) {
                    tracing::error!("the state does not reach the disk, and the router goes on without: {why}");
                }
                self.condition = Condition::Failing(why);
                self.failed_at = Some(Instant::now());
                0
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        let Some(store) = self.store.take() else { return };
        self.waiting = Vec::new();
        let aside = store.abandon();
        let aside = aside.map_or_else(|error| error.to_string(), |aside| format!("it is now {}", aside.display()));
        tracing::error!("the store is given up, because {why}; {aside}");
        self.condition = Condition::GivenUp(format!("{why}; {aside}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::records::RouteRecord;

    fn route(n: usize) -> Change {
        let name = format!("/r/{n}").parse().expect("a name");
        Change::Route(RouteRecord { name, face: 1, ..RouteRecord::default() })
    }

    #[test]
    fn answers_come_back_in_order_when_their_changes_are_on_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let writer = Writer::start(Store::open(&path).expect("a store").store).expect("a thread");
        let (mut offered, mut answered) = (0usize, Vec::new());
        while answered.len() < 200 {
            let answers = vec![Packet::copy_from(&offered.to_be_bytes())];
            if offered < 200 && writer.offer(Batch { changes: vec![route(offered)], answers }).is_none() {
                offered += 1;
                continue;
            }
            let report = writer.reports().recv().expect("a report");
            assert_eq!((report.written, &report.condition), (1, &Condition::Good));
            answered.extend(report.answers.iter().map(|packet| packet.to_vec()));
        }
        assert!(answered.iter().enumerate().all(|(n, answer)| *answer == n.to_be_bytes()));
        let last = Batch { changes: vec![route(200)], answers: vec![Packet::copy_from(b"last")] };
        assert_eq!(writer.close(last).iter().map(|packet| packet.to_vec()).collect::<Vec<_>>(), [b"last"]);
        assert_eq!(Store::open(&path).expect("a store").records.routes.len(), 201);
    }

    #[test]
    fn a_store_that_cannot_be_written_gets_its_changes_later_or_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let store = Store::open(&path).expect("a store").store;
        store.limit_pages(Some(4));
        let (outbox, reports) = unbounded();
        let mut work =
            Work { store: Some(store), waiting: Vec::new(), condition: Condition::Good, failed_at: None, outbox };
        let batch = |range: std::ops::Range<usize>| Batch { changes: range.map(route).collect(), answers: vec![] };
        work.take(batch(0..1_000));
        let report = reports.recv().expect("a report");
        assert!(matches!(&report.condition, Condition::Failing(why) if why.contains("full")), "{report:?}");
        work.store.as_mut().expect("kept").limit_pages(None);
        work.take(batch(1_000..1_001));
        assert_eq!(reports.recv().expect("a report").written, 0, "too early to try again");
        work.failed_at = Instant::now().checked_sub(RETRY);
        work.take(batch(0..0));
        let report = reports.recv().expect("a report");
        assert_eq!((report.written, report.condition), (1_001, Condition::Good));

        work.store.as_mut().expect("kept").limit_pages(Some(4));
        work.take(batch(2_000..30_000));
        work.give_up("of this test");
        assert!(!path.exists());
        work.take(batch(0..1));
        let report = reports.iter().nth(1).expect("a report");
        assert!(matches!(report.condition, Condition::GivenUp(_)), "{report:?}");
        assert!(Store::open(&path).expect("a new store").records.routes.is_empty());
    }
}
