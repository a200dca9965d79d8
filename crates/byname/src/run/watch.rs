//! Watches whether the threads go on, and tells the service manager.
//!
//! A thread of its own reads the pulse of each packet thread and of the control thread. A thread that stands still is
//! reported with what it did. As long as all go on, the watch feeds the service manager's watchdog
//! (sd_watchdog_enabled(3)). If one stands still for too long, the watch asks for the restart at once. Without a service
//! manager, it only reports.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_face::pulse::Watched;
use sd_notify::NotifyState;

use super::health::Health;

/// Time between two readings of a pulse.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Readings without progress after which a thread is reported: five seconds.
const REPORTED: u32 = 5;
/// The same, after which a packet thread is given up.
const PACKETS: u32 = 5;
/// The same for the control thread. A table with very many rules may be built in it.
const CONTROL: u32 = 60;

/// A watched thread.
struct Thread {
    pulse: Watched,
    /// Readings without progress after which the process must be restarted.
    patience: u32,
    is_reported: bool,
}

/// The thread that watches. It ends when this is dropped.
pub struct Watch {
    /// Carries no messages.
    end: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Reads these pulses once in each interval.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        packets: Vec<Watched>,
        control: Option<Watched>,
        health: Arc<Health>,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let thread = |patience| move |pulse| Thread { pulse, patience, is_reported: false };
        let threads = packets.into_iter().map(thread(PACKETS)).chain(control.map(thread(CONTROL))).collect();
        let feeding = sd_notify::watchdog_enabled().map(|period| period / 4);
        let mut watcher = Watcher { threads, health, feeding, fed: None, is_well: true };
        let (end, ended) = mpsc::channel::<Infallible>();
        let watch = move || {
            // The service manager may want to be fed more often than pulses are read.
            let wait = feeding.map_or(interval, |feeding| feeding.min(interval));
            let mut read = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
                if read.elapsed() >= interval {
                    read = Instant::now();
                    watcher.look();
                }
                watcher.feed();
            }
        };
        let spawned = std::thread::Builder::new().name("byname-pulse".into()).spawn(watch);
        Ok(Watch { end: Some(end), thread: Some(spawned.context("cannot watch the threads")?) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end = None;
        // A panic ends the process before.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Watcher {
    threads: Vec<Thread>,
    health: Arc<Health>,
    /// How often the service manager's watchdog wants to be fed, with some margin. `None` if there is none.
    feeding: Option<Duration>,
    fed: Option<Instant>,
    /// Whether no thread must be restarted.
    is_well: bool,
}

impl Watcher {
    /// Reads all pulses.
    fn look(&mut self) {
        let (mut dead, mut slow) = (Vec::new(), Vec::new());
        let mut is_new = false;
        for thread in &mut self.threads {
            match thread.pulse.read(REPORTED) {
                Some(stalled) => {
                    let is_dead = thread.pulse.unchanged() >= thread.patience;
                    is_new |= thread.pulse.unchanged() == thread.patience;
                    if !std::mem::replace(&mut thread.is_reported, true) {
                        tracing::error!("{stalled}: no progress at {REPORTED} readings in a row");
                    }
                    if is_dead { &mut dead } else { &mut slow }.push(stalled.to_string());
                }
                None if std::mem::take(&mut thread.is_reported) => {
                    tracing::warn!("{} goes on again", thread.pulse.thread());
                }
                None => {}
            }
        }
        self.is_well = dead.is_empty();
        if is_new {
            let status = dead.join("; ");
            tracing::error!("the service manager is asked to restart this process, if it watches it: {status}");
            tell_manager(&[NotifyState::Status(&status), NotifyState::WatchdogTrigger]);
        }
        self.health.set_stalled(dead, slow);
    }

    /// Feeds the service manager's watchdog, if all is well and it is time.
    fn feed(&mut self) {
        if let Some(feeding) = self.feeding
            && self.is_well
            && self.fed.is_none_or(|fed| fed.elapsed() >= feeding)
        {
            tell_manager(&[NotifyState::Watchdog]);
            self.fed = Some(Instant::now());
        }
    }
}

/// Tells the service manager, if there is one.
pub fn tell_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot tell the service manager about this process");
    }
}

#[cfg(test)]
mod tests;
