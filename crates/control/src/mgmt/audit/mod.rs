//! The audit log: who sent which management command, from where, and what came of it.
//!
//! [`Audit`] is the control thread's side. It never waits: what finds no room in the queue to the writer's thread is
//! lost, and counted. The next line that finds room says how many were lost before it. `writer` formats the lines as
//! JSON, and writes them to files of limited size, or to the system's journal.
//!
//! Verified are only the keys that the configuration names. A key that a command merely claims is in another field.

mod recent;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use byname_face::FaceStatus;
use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_wire::Name;
use crossbeam_channel::{Sender, bounded};
use thiserror::Error;

use super::Command;
use crate::config::AuditDestination;
use recent::Recent;
use writer::{Output, Writer};

/// Why there is no audit log.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The file or the journal cannot be opened.
    #[error("cannot open the audit log {to}: {error}")]
    Open {
        /// The file, or the journal's socket.
        to: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start the thread of the audit log: {0}")]
    Thread(#[source] io::Error),
}

/// A command, before its outcome is known.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) unix_ms: u64,
    pub(crate) command: Command,
    pub(crate) face: FaceId,
    /// Remote URI of the face.
    pub(crate) remote: Option<Arc<str>>,
    /// The key that was verified.
    pub(crate) key: Option<Name>,
    /// The key that the command names, if none was verified.
    pub(crate) claimed_key: Option<Name>,
    /// The name component with the parameters.
    pub(crate) parameters: Box<[u8]>,
}

/// Outcome of a command: a code as in HTTP, and a text unless the code is 200.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) code: u64,
    pub(crate) text: Option<String>,
}

enum Line {
    Command(Box<Entry>, Outcome),
    Lost { unix_ms: u64, count: u64 },
}

/// The control thread's side of the audit log.
#[derive(Default)]
pub struct Audit {
    /// `None` if there is no audit log.
    queue: Option<Sender<Line>>,
    thread: Option<JoinHandle<()>>,
    remotes: FaceMap<Arc<str>>,
    /// Lost lines that no line in the queue speaks of yet.
    unsaid: u64,
    /// When the last line was lost.
    unsaid_unix_ms: u64,
    lost: Arc<AtomicU64>,
    recent: Recent,
}

impl Audit {
    /// No audit log.
    pub fn off() -> Self {
        Audit::default()
    }

    /// Starts the thread that writes. At most `queue_max` lines wait for it.
    ///
    /// # Errors
    /// The destination cannot be opened, or the system gives no thread.
    pub fn start(destination: AuditDestination, queue_max: usize) -> Result<Self, AuditError> {
        let output = Output::open(destination)?;
        let (queue, lines) = bounded(queue_max);
        let lost = Arc::<AtomicU64>::default();
        let writer = Writer::new(output, lines, Arc::clone(&lost));
        let thread = std::thread::Builder::new().name("byname-audit".into()).spawn(move || writer.run());
        let mut audit = Audit::through(queue, lost);
        audit.thread = Some(thread.map_err(AuditError::Thread)?);
        Ok(audit)
    }

    fn through(queue: Sender<Line>, lost: Arc<AtomicU64>) -> Self {
        let mut audit = Audit::default();
        (audit.queue, audit.lost) = (Some(queue), lost);
        audit
    }

    /// Lines that were lost so far, because the queue was full or could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// From now on, keeps the last `lines_max` lines in memory, too.
    pub fn remember(&mut self, lines_max: usize) {
        self.recent.limit(lines_max);
    }

    /// The lines in memory after the one with the number `after`, as JSON, each with its number.
    pub fn recent(&self, after: u64) -> Vec<(u64, String)> {
        self.recent.after(after)
    }

    /// Whether lines go anywhere.
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some() || self.recent.is_on()
    }

    pub(crate) fn face_up(&mut self, status: &FaceStatus) {
        if self.is_on() {
            self.remotes.insert(status.id, status.remote.to_string().into());
        }
    }

    /// Names a face of this process's own, which has no status.
    pub(crate) fn name_face(&mut self, face: FaceId, remote: &str) {
        self.remotes.insert(face, remote.into());
    }

    pub(crate) fn face_down(&mut self, face: FaceId) {
        self.remotes.remove(&face);
    }

    /// Remote URI of a face.
    pub(crate) fn remote(&self, face: FaceId) -> Option<Arc<str>> {
        self.remotes.get(&face).cloned()
    }

    /// Queues a line about a command.
    pub(crate) fn note(&mut self, entry: Box<Entry>, outcome: Outcome) {
        self.recent.note(&entry, &outcome);
        let unix_ms = entry.unix_ms;
        let Some(queue) = &self.queue else { return };
        let said =
            self.unsaid == 0 || queue.try_send(Line::Lost { unix_ms: self.unsaid_unix_ms, count: self.unsaid }).is_ok();
        if said {
            self.unsaid = 0;
        }
        if !said || queue.try_send(Line::Command(entry, outcome)).is_err() {
            self.unsaid += 1;
            self.unsaid_unix_ms = unix_ms;
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take()
            && self.unsaid > 0
        {
            // The writer takes lines until the queue is gone, so this waits for room at most.
            let _ = queue.send(Line::Lost { unix_ms: self.unsaid_unix_ms, count: self.unsaid });
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
