//! What the routers of a network write to standard error. It is passed on until the network ends: when routers end one after
//! another, they tell of neighbours that are gone, which nobody wants to read then.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;

/// How long the last lines may take, once all routers have ended.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Passes lines on, in a thread.
pub struct Messages {
    /// `None`: no more routers start.
    to: Option<PipeWriter>,
    are_wanted: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Messages {
    /// Starts the thread.
    pub fn new() -> anyhow::Result<Messages> {
        let (from, to) = std::io::pipe().context("cannot make a pipe")?;
        let are_wanted = Arc::new(AtomicBool::new(true));
        let passing = Arc::clone(&are_wanted);
        let thread = std::thread::Builder::new().name("messages".into()).spawn(move || pass_on(from, &passing))?;
        Ok(Messages { to: Some(to), are_wanted, thread })
    }

    /// Standard error for a router.
    ///
    /// # Errors
    /// If the process has no descriptor left, or after [`Messages::end`].
    pub fn stderr(&self) -> anyhow::Result<Stdio> {
        Ok(self.to.as_ref().context("the network ends")?.try_clone()?.into())
    }

    /// From now on, nothing is passed on.
    pub fn silence(&self) {
        self.are_wanted.store(false, Ordering::Relaxed);
    }

    /// Waits for the last lines of routers that have ended.
    pub fn end(&mut self) {
        self.to = None;
        let end = Instant::now() + PATIENCE;
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
    }
}

fn pass_on(from: PipeReader, are_wanted: &AtomicBool) {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        if are_wanted.load(Ordering::Relaxed) {
            // Nobody may read this any more.
            let _ = std::io::stderr().write_all(&line);
        }
        line.clear();
    }
}
