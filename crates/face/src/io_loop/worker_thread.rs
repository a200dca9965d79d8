//! A worker on a thread of its own, between two rings.
//!
//! With nothing to do it spins a little, then gives way to others, for [`super::IoConfig::spin`] in
//! all, and then sleeps until the packet thread wakes it or a timer is due.

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
/// Looks for input between which the processor only pauses; after so many the thread gives way.
const PAUSES: u32 = 64;

/// Packets that a worker could not hand back.
#[derive(Default)]
pub(super) struct OutputDrops(pub AtomicU64);

/// Wakes a worker's thread; for the last time when this goes, so that the thread sees its end.
pub(super) struct Bell {
    asleep: Arc<Asleep>,
    thread: Thread,
}

impl Bell {
    pub fn new(asleep: Arc<Asleep>, thread: Thread) -> Self {
        Bell { asleep, thread }
    }

    /// To be called after something was given to the worker.
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

/// Wakes the packet thread when this goes: it looks whether a worker has failed.
pub(super) struct WakeAtEnd(pub LoopWaker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// What joins a worker's thread to the packet thread.
pub(super) struct Ends {
    pub input: Consumer<Parcel>,
    pub output: Producer<Outgoing>,
    /// Interests that are for another worker to answer.
    pub strays: Producer<Parcel>,
    /// Each with the count of packets that come before it.
    pub jobs: Receiver<(u64, Job)>,
    pub asleep: Arc<Asleep>,
    pub io_waker: LoopWaker,
    pub output_drops: Arc<OutputDrops>,
}

/// What a worker's thread has.
pub(super) struct WorkerThread {
    worker: Worker,
    ends: Ends,
    clock: Clock,
    /// How long to look for input before sleeping.
    spin: Duration,
    /// The first job whose turn has not come.
    next_job: Option<(u64, Job)>,
    /// Whether nobody gives it more to do.
    ended: bool,
    parcels: Vec<Parcel>,
    outgoing: Vec<Outgoing>,
}

impl WorkerThread {
    pub fn new(worker: Worker, ends: Ends, clock: Clock, spin: Duration) -> Self {
        let parcels = Vec::with_capacity(BURST);
        WorkerThread { worker, ends, clock, spin, next_job: None, ended: false, parcels, outgoing: Vec::new() }
    }

    /// Works until the packet thread is gone and all that it gave is done.
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

    /// One burst; whether there was anything to do.
    fn round(&mut self) -> bool {
        let available = self.ends.input.available();
        // A job that was given before one of these packets is in the channel by now.
        let (jobs_done, packets_max) = self.do_jobs(available.min(BURST));
        self.ends.input.pop_into(&mut self.parcels, packets_max);
        let now = self.clock.now();
        let due = self.worker.next_deadline().is_some_and(|at| at <= now);
        let busy = due || !self.parcels.is_empty();
        if busy {
            self.worker.poll_parcels(now, &mut self.parcels, &mut self.outgoing);
            // What a full ring does not take is dropped.
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

    /// Does the jobs whose turn it is; whether there were any, and how many of so many packets may be
    /// taken before the next.
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

    /// Whether there is a job to do, now or later.
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
