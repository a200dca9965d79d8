//! A worker on a thread of its own, between rings.
//!
//! Without work the thread spins a little, and then yields to other threads, for [`super::IoConfig::spin`] in all.
//! After that it sleeps until the packet thread wakes it or a timer is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use byname_forward::asleep::Asleep;
use byname_forward::dispatch::Parcel;
use byname_forward::ring::{Consumer, Producer};
use byname_forward::{Outgoing, Worker};
use crossbeam_channel::{Receiver, TryRecvError};

use super::Clock;
use super::workers::Job;
use crate::waker::LoopWaker;

/// Packets taken from the ring at once.
const BURST: usize = 128;
/// Looks for input with only a processor pause between them. After these the thread yields.
const PAUSES: u32 = 64;

/// Packets that found no room in a worker's output rings.
#[derive(Default)]
pub(super) struct OutputDrops(pub AtomicU64);

/// Wakes a worker's thread. Dropping it wakes the thread a last time, so that the thread sees its end.
pub(super) struct Bell {
    asleep: Arc<Asleep>,
    thread: Thread,
}

impl Bell {
    pub fn new(asleep: Arc<Asleep>, thread: Thread) -> Self {
        Bell { asleep, thread }
    }

    /// Wakes the thread if it sleeps. Called after something was given to the worker.
    pub fn ring(&self) {
        if self.asleep.must_wake() {
            self.thread.unpark();
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

/// Wakes the packet thread when dropped, so that it checks whether a worker has failed.
pub(super) struct WakeAtEnd(pub LoopWaker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// A worker thread's ends of its queues to the packet thread.
pub(super) struct Ends {
    pub input: Consumer<Parcel>,
    pub output: Producer<Outgoing>,
    /// Interests for another worker.
    pub strays: Producer<Parcel>,
    /// Jobs, each with the count of packets that come before it.
    pub jobs: Receiver<(u64, Job)>,
    pub asleep: Arc<Asleep>,
    pub io_waker: LoopWaker,
    pub output_drops: Arc<OutputDrops>,
}

/// State of a worker's thread.
pub(super) struct WorkerThread {
    worker: Worker,
    ends: Ends,
    clock: Clock,
    /// Time to look for input before sleeping.
    spin: Duration,
    /// The first job that must wait for packets before it.
    next_job: Option<(u64, Job)>,
    /// Whether the packet thread gives it no more jobs.
    ended: bool,
    parcels: Vec<Parcel>,
    outgoing: Vec<Outgoing>,
}

impl WorkerThread {
    pub fn new(worker: Worker, ends: Ends, clock: Clock, spin: Duration) -> Self {
        let parcels = Vec::with_capacity(BURST);
        WorkerThread { worker, ends, clock, spin, next_job: None, ended: false, parcels, outgoing: Vec::new() }
    }

    /// Works until the packet thread is gone and all its packets and jobs are done.
    pub fn run(mut self) {
        let (mut last_busy, mut looks) = (Instant::now(), 0);
        loop {
            if self.round() {
                (last_busy, looks) = (Instant::now(), 0);
            } else if self.ended {
                return;
            } else if looks < PAUSES {
                looks += 1;
                std::hint::spin_loop();
            } else if last_busy.elapsed() < self.spin {
                std::thread::yield_now();
            } else {
                self.sleep();
            }
        }
    }

    /// Runs one burst. Returns whether there was anything to do.
    fn round(&mut self) -> bool {
        let available = self.ends.input.available();
        // A job that comes before one of these packets is in the channel by now.
        let (jobs_done, packets_max) = self.do_jobs(available.min(BURST));
        self.ends.input.pop_into(&mut self.parcels, packets_max);
        let now = self.clock.now();
        let due = self.worker.next_deadline().is_some_and(|at| at <= now);
        let busy = due || !self.parcels.is_empty();
        if busy {
            self.worker.poll_parcels(now, &mut self.parcels, &mut self.outgoing);
            // Drop and count packets that find the ring full.
            let sent = self.outgoing.drain(..).filter_map(|packet| self.ends.output.push(packet).err()).count();
            let back = self.worker.strays().filter_map(|parcel| self.ends.strays.push(parcel).err()).count();
            if sent + back > 0 {
                self.ends.output_drops.0.fetch_add((sent + back) as u64, Ordering::Relaxed);
            }
        }
        let strays = self.ends.strays.publish();
        if self.ends.output.publish() || strays || jobs_done {
            self.ends.io_waker.wake();
        }
        busy || jobs_done
    }

    /// Does the jobs that are due. Returns whether there were any, and how many of `packets` packets may be taken
    /// before the next job.
    fn do_jobs(&mut self, packets: usize) -> (bool, usize) {
        let mut done = false;
        while self.has_job() {
            let Some((after, job)) = self.next_job.take() else { break };
            let before = after.saturating_sub(self.ends.input.popped());
            if before > 0 {
                self.next_job = Some((after, job));
                return (done, packets.min(usize::try_from(before).unwrap_or(usize::MAX)));
            }
            job(&mut self.worker);
            done = true;
        }
        (done, packets)
    }

    /// Whether there is a job, now or later.
    fn has_job(&mut self) -> bool {
        if self.next_job.is_none() {
            match self.ends.jobs.try_recv() {
                Ok(job) => self.next_job = Some(job),
                Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => {}
            }
        }
        self.next_job.is_some()
    }

    fn sleep(&mut self) {
        self.ends.asleep.fall_asleep();
        if self.ends.input.available() == 0 && !self.has_job() && !self.ended {
            match self.worker.next_deadline() {
                Some(at) => std::thread::park_timeout(at.since(self.clock.now())),
                None => std::thread::park(),
            }
        }
        self.ends.asleep.awake();
    }
}
