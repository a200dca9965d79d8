//! The thread that writes changes into the store.
//!
//! The control thread never waits for the disk. It queues its changes and the answers that wait for them. This thread
//! takes all that has been queued, writes it as one group, and sends the answers itself: a way through the control
//! thread would take longer than the write. So groups are as large as they need to be. When nothing has been queued for
//! a while, the thread moves changes from the log into the database.
//!
//! If the store cannot be written (the disk is full, say), the router goes on: answers are sent all the same, and the
//! thread keeps the changes and tries again. If too many collect, it gives up and gives the file another name, because a
//! store that lacks changes must not be used at the next start.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_forward::Packet;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::change::Change;
use super::store::Store;

/// Pause before a failed write is repeated.
const RETRY: Duration = Duration::from_secs(2);
/// Most changes that wait for a store that cannot be written.
const WAITING_MAX: usize = 2_000_000;

/// Time without changes after which the log is moved into the database.
const IDLE: Duration = Duration::from_millis(200);
/// Most changes that are moved at once while the thread is idle: some milliseconds.
const IDLE_FOLD: usize = 4096;
/// Length of the log from which changes are moved after each group, so that the log does not grow without end.
const LONG_LOG_BYTES: u64 = 64 << 20;
/// Most changes that are moved after a group.
const BUSY_FOLD: usize = 512;

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

/// How far the thread is.
#[derive(Debug)]
pub(super) struct Progress {
    /// Changes that have reached the disk.
    pub written: AtomicU64,
    /// Changes that wait no more: written, or dropped with the store.
    pub settled: AtomicU64,
    /// Groups written.
    pub commits: AtomicU64,
    /// Answers sent.
    pub answered: AtomicU64,
    /// Whether the control thread waits for room in the queue.
    pub is_awaited: AtomicBool,
    condition: Mutex<Condition>,
}

impl Progress {
    /// The condition of the store.
    pub fn condition(&self) -> Condition {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends an answer.
pub type Outlet = Box<dyn FnMut(Packet) + Send>;

/// The control thread's end of the writing thread. Dropping it ends the thread, after all is written.
#[derive(Debug)]
pub struct Writer {
    batches: Option<Sender<Batch>>,
    progress: Arc<Progress>,
    news: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. It sends answers by `outlet`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(store: Store, outlet: Outlet) -> std::io::Result<Writer> {
        // Bounded by the number of answers that may wait.
        let (batches, inbox) = unbounded();
        let (work, news) = Work::new(store, outlet);
        let progress = Arc::clone(&work.progress);
        let thread = std::thread::Builder::new().name("byname-state".into()).spawn(move || work.run(&inbox))?;
        Ok(Writer { batches: Some(batches), progress, news, thread: Some(thread) })
    }

    /// Queues a batch.
    pub fn queue(&self, batch: Batch) {
        if let Some(batches) = &self.batches {
            // Fails only if the thread has panicked; then the process ends.
            let _ = batches.send(batch);
        }
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Becomes ready when the condition has changed, or when there is room that the control thread waits for.
    pub fn news(&self) -> &Receiver<()> {
        &self.news
    }

    /// Waits until all changes are written, all answers are sent and the store is closed.
    pub fn close(mut self) {
        self.join();
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
    /// When the last write failed.
    failed_at: Option<Instant>,
    /// When the last attempt to move changes into the database failed.
    unfolded_at: Option<Instant>,
    progress: Arc<Progress>,
    outlet: Outlet,
    outbox: Sender<()>,
}

impl Work {
    fn new(store: Store, outlet: Outlet) -> (Work, Receiver<()>) {
        let progress = Progress {
            written: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            condition: Mutex::new(Condition::Good),
        };
        let (outbox, news) = bounded(1);
        let progress = Arc::new(progress);
        let work = Work {
            store: Some(store),
            waiting: Vec::new(),
            failed_at: None,
            unfolded_at: None,
            progress,
            outlet,
            outbox,
        };
        (work, news)
    }

    fn run(mut self, inbox: &Receiver<Batch>) {
        // Whether the last round moved changes into the database, and there are more of them.
        let mut folds = false;
        loop {
            let patience = match () {
                () if folds => Duration::ZERO,
                () if self.may_fold() => IDLE,
                () if self.waiting.is_empty() && self.log_bytes() == 0 => Duration::MAX,
                () => RETRY,
            };
            match inbox.recv_timeout(patience) {
                Ok(first) => {
                    let batch = inbox.try_iter().fold(first, |mut all, mut next| {
                        all.changes.append(&mut next.changes);
                        all.answers.append(&mut next.answers);
                        all
                    });
                    self.take(batch);
                    folds = false;
                    if self.log_bytes() > LONG_LOG_BYTES && self.may_fold() {
                        self.fold(BUSY_FOLD);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.waiting.is_empty() {
                        self.take(Batch::default());
                    }
                    if self.may_fold() {
                        self.fold(IDLE_FOLD);
                    }
                    folds = self.may_fold();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.waiting.is_empty() && self.write() == 0 {
            self.give_up("the router ends, and the store still lacks changes");
        }
        if let Some(store) = self.store {
            store.close();
        }
    }

    fn take(&mut self, Batch { mut changes, answers }: Batch) {
        self.waiting.append(&mut changes);
        // While the store fails, answers must not wait for attempts with ever more changes.
        let is_due = self.store.is_none() || self.failed_at.is_none_or(|at| at.elapsed() >= RETRY);
        if is_due {
            self.write();
        }
        if self.waiting.len() > WAITING_MAX {
            self.give_up("it could not be written for too many changes");
        }
        let sent = answers.len() as u64;
        answers.into_iter().for_each(&mut self.outlet);
        self.progress.answered.fetch_add(sent, Ordering::SeqCst);
        if self.progress.is_awaited.swap(false, Ordering::SeqCst) {
            self.tell();
        }
    }

    fn log_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, Store::log_bytes)
    }

    /// Whether there are changes to move into the database, and the last attempt did not just fail.
    fn may_fold(&self) -> bool {
        self.log_bytes() > 0 && self.unfolded_at.is_none_or(|at| at.elapsed() >= RETRY)
    }

    fn fold(&mut self, changes_max: usize) {
        let Some(store) = &mut self.store else { return };
        match store.fold(changes_max) {
            Ok(()) => self.unfolded_at = None,
            Err(error) => {
                if self.unfolded_at.is_none() {
                    tracing::warn!("changes of the state stay in its log: {error}");
                }
                self.unfolded_at = Some(Instant::now());
            }
        }
    }

    /// Tells the control thread to look.
    fn tell(&self) {
        // If the channel is full, the control thread has not looked yet.
        let _ = self.outbox.try_send(());
    }

    fn set_condition(&self, condition: Condition) {
        *self.progress.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
        self.tell();
    }

    /// Writes what waits. Returns the number of changes that reached the disk.
    fn write(&mut self) -> usize {
        let count = self.waiting.len();
        let Some(store) = &mut self.store else {
            self.waiting.clear();
            self.progress.settled.fetch_add(count as u64, Ordering::Relaxed);
            return 0;
        };
        if count == 0 {
            return 0;
        }
        let condition = self.progress.condition();
        match store.apply(&self.waiting) {
            Ok(()) => {
                if condition != Condition::Good {
                    tracing::warn!("the state reaches the disk again");
                    self.set_condition(Condition::Good);
                }
                self.failed_at = None;
                self.waiting.clear();
                self.progress.written.fetch_add(count as u64, Ordering::Relaxed);
                self.progress.settled.fetch_add(count as u64, Ordering::Relaxed);
                self.progress.commits.fetch_add(1, Ordering::Relaxed);
                count
            }
            Err(error) => {
                let why = error.to_string();
                if !matches!(condition, Condition::Failing(_)) {
                    tracing::error!("the state does not reach the disk, and the router goes on without: {why}");
                }
                self.set_condition(Condition::Failing(why));
                self.failed_at = Some(Instant::now());
                0
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        let Some(store) = self.store.take() else { return };
        let dropped = std::mem::take(&mut self.waiting).len();
        self.progress.settled.fetch_add(dropped as u64, Ordering::Relaxed);
        let aside = store.abandon();
        let aside = aside.map_or_else(|error| error.to_string(), |aside| format!("it is now {}", aside.display()));
        tracing::error!("the store is given up, because {why}; {aside}");
        self.set_condition(Condition::GivenUp(format!("{why}; {aside}")));
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
    fn answers_are_sent_in_order_when_their_changes_are_on_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let (outlet, sent) = unbounded();
        // Copies of the files at each tenth answer, as a crash would leave them.
        let (crashes, from) = (tempfile::tempdir().expect("a folder"), folder.path().to_owned());
        let into = crashes.path().to_owned();
        let outlet: Outlet = Box::new(move |answer: Packet| {
            let number = usize::from_be_bytes(answer[..].try_into().expect("a number"));
            if number % 10 == 0 {
                let into = into.join(number.to_string());
                std::fs::create_dir(&into).expect("a folder");
                for file in ["state.db", "state.db-wal", "state.db-log"] {
                    std::fs::copy(from.join(file), into.join(file)).expect("copied");
                }
            }
            outlet.send(number).expect("the test receives");
        });
        let writer = Writer::start(Store::open(&path).expect("a store").store, outlet).expect("a thread");
        for number in 0..200usize {
            let answers = vec![Packet::copy_from(&number.to_be_bytes())];
            writer.queue(Batch { changes: vec![route(number)], answers });
        }
        let answered: Vec<usize> = sent.iter().take(200).collect();
        assert_eq!(answered, (0..200).collect::<Vec<_>>());
        assert_eq!(
            (writer.progress().written.load(Ordering::Relaxed), writer.progress().condition()),
            (200, Condition::Good)
        );
        for number in (0..200).step_by(10) {
            let left = Store::open(&crashes.path().join(format!("{number}/state.db"))).expect("a store");
            assert!(left.records.routes.len() > number, "{number}: {}", left.records.routes.len());
        }
        writer.queue(Batch { changes: vec![route(200)], answers: vec![Packet::copy_from(&200usize.to_be_bytes())] });
        writer.close();
        assert_eq!(sent.try_iter().collect::<Vec<_>>(), [200]);
        assert!(!folder.path().join("state.db-log").exists(), "after an orderly end the database has everything");
        assert_eq!(Store::open(&path).expect("a store").records.routes.len(), 201);
    }

    #[test]
    fn an_idle_thread_moves_the_log_into_the_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let (outlet, sent) = unbounded();
        let outlet: Outlet = Box::new(move |_| outlet.send(()).expect("the test receives"));
        let writer = Writer::start(Store::open(&path).expect("a store").store, outlet).expect("a thread");
        writer.queue(Batch { changes: (0..10_000).map(route).collect(), answers: vec![Packet::copy_from(b"a")] });
        sent.recv().expect("an answer");
        let copy = tempfile::tempdir().expect("a folder");
        let copied = copy.path().join("state.db");
        let deadline = Instant::now() + Duration::from_secs(20);
        // The database alone, without the log.
        let routes = || {
            for suffix in ["", "-wal"] {
                let _ = std::fs::copy(
                    folder.path().join(format!("state.db{suffix}")),
                    copy.path().join(format!("state.db{suffix}")),
                );
            }
            Store::open(&copied).map_or(0, |opened| opened.records.routes.len())
        };
        while routes() != 10_000 {
            assert!(Instant::now() < deadline, "it stays in the log");
            std::thread::sleep(Duration::from_millis(50));
        }
        writer.close();
        assert_eq!(Store::open(&path).expect("a store").records.routes.len(), 10_000);
    }

    #[test]
    fn a_store_that_cannot_be_written_gets_its_changes_later_or_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let mut store = Store::open(&path).expect("a store").store;
        store.limit_log(Some(20_000));
        let (mut work, news) = Work::new(store, Box::new(|_| ()));
        let batch = |range: std::ops::Range<usize>| Batch { changes: range.map(route).collect(), answers: vec![] };
        let written = |work: &Work| work.progress.written.load(Ordering::Relaxed);
        work.take(batch(0..1_000));
        let condition = work.progress.condition();
        assert!(matches!(&condition, Condition::Failing(why) if why.contains("space")), "{condition:?}");
        assert_eq!(news.try_recv(), Ok(()));
        work.store.as_mut().expect("kept").limit_log(None);
        work.take(batch(1_000..1_001));
        assert_eq!(written(&work), 0, "too early to try again");
        work.failed_at = Instant::now().checked_sub(RETRY);
        work.take(batch(0..0));
        assert_eq!((written(&work), work.progress.condition()), (1_001, Condition::Good));

        work.store.as_mut().expect("kept").limit_log(Some(4));
        work.take(batch(2_000..30_000));
        work.give_up("of this test");
        assert!(!path.exists());
        work.take(batch(0..1));
        assert!(matches!(work.progress.condition(), Condition::GivenUp(_)));
        assert_eq!(work.progress.settled.load(Ordering::Relaxed), 1_001 + 28_000 + 1);
        assert!(Store::open(&path).expect("a new store").records.routes.is_empty());
    }
}
