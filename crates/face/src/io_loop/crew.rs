//! The threads that run the loops, as many as the load needs.
//!
//! The first thread always runs its own loop. The other threads *rest* while there is little to do. The first thread
//! then runs their loops, too: it polls their descriptors, and carries packets between the loops without waking anybody.
//! So at low load several threads cost hardly more than one, and no packet waits for a thread to wake, which takes tens
//! of microseconds. When the first thread has no time left, it calls the thread whose loop has most work.
//!
//! A thread rests again when it has worked less than [`REST_BELOW`] of a [`WINDOW`], or when it seems to have no
//! processor of its own: when the system keeps suspending it. Packets would wait for it as long, which is milliseconds.
//! It is called again after a pause that doubles each time.
//!
//! With [`IoConfig::rests`](super::IoConfig) off, each thread runs its own loop and sleeps by itself.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use byname_forward::Ticks;
use byname_forward::dispatch::WORKERS_MAX;
use byname_forward::resting::Resting;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::{IoLoop, WAKER_TOKEN, WorkTime};
use crate::pulse::Doing;
use crate::waker::LoopWaker;

/// Time over which a thread's load is measured.
const WINDOW: Duration = Duration::from_millis(1);
/// Consecutive windows without a pause after which the first thread calls another.
const FULL_WINDOWS: u32 = 2;
/// Share of its time that the first thread works if it has no time left.
const FULL: f64 = 0.95;
/// Share of its time below which another thread rests.
const REST_BELOW: f64 = 0.25;
/// A round takes less time than this, unless the system suspends the thread.
const ROUND_MAX: Duration = Duration::from_micros(1500);
/// Windows without a suspension after which the next pause is shorter.
const QUIET_WINDOWS: u32 = 100;
/// Shortest and longest pause of a thread that was suspended. A call in vain delays packets by milliseconds.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Pause of a thread that had too little to do. It keeps the threads from calling each other all the time.
const REST_MIN: Duration = Duration::from_millis(20);

/// The place of one thread and its loop.
struct Berth {
    /// Locked by whoever runs the loop: its own thread, or the first. `None` once the loop has ended.
    io_loop: Mutex<Option<IoLoop>>,
    waker: LoopWaker,
    thread: OnceLock<Thread>,
}

/// All threads, by number.
pub(super) struct Crew {
    berths: Vec<Berth>,
    /// Which threads rest, and which are called.
    resting: Resting,
    /// Registers descriptors with the first thread's poll.
    first: Registry,
}

/// A locked loop.
type Locked<'a> = MutexGuard<'a, Option<IoLoop>>;

impl Crew {
    pub fn new(loops: impl Iterator<Item = IoLoop>, first: Registry) -> Self {
        let berth = |io_loop: IoLoop| Berth {
            waker: io_loop.waker.clone(),
            io_loop: Mutex::new(Some(io_loop)),
            thread: OnceLock::new(),
        };
        let berths: Vec<Berth> = loops.map(berth).collect();
        Crew { resting: Resting::new(berths.len()), berths, first }
    }

    /// Wakes all threads.
    pub fn wake_all(&self) {
        self.berths.iter().for_each(|berth| berth.waker.wake());
    }

    /// Runs thread `number` to its end.
    pub fn run(&self, number: usize) {
        // Nobody else sets it.
        let _ = self.berths[number].thread.set(std::thread::current());
        if number == 0 {
            self.run_first();
        } else {
            self.run_other(number);
        }
        if let Some(io_loop) = self.lock(number).take() {
            io_loop.drain();
        }
    }

    /// The loop of a thread. A thread that panics ends the process, so nobody sees what it left.
    fn lock(&self, number: usize) -> Locked<'_> {
        self.berths[number].io_loop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the loop of the first thread, and the loops of threads that rest.
    fn run_first(&self) {
        let mut own = self.lock(0);
        let Some(own) = own.as_mut() else { return };
        let mut adopted: Vec<Adopted<'_>> = Vec::new();
        let mut load = Load::new(own.clock.now(), &own.work_time);
        let mut busy = false;
        loop {
            self.adopt(&mut adopted);
            let was_busy = std::mem::replace(&mut busy, own.step());
            own.work_time.begin_round(own.now, was_busy);
            if own.has_ended() {
                break;
            }
            self.make_seen(own);
            if !adopted.is_empty() {
                own.pulse.note(Doing::Other);
            }
            for adopted in &mut adopted {
                busy |= self.step_adopted(adopted);
            }
            if !adopted.is_empty() && load.is_full(own.now, &own.work_time) {
                self.call_busiest(&mut adopted, own.now);
            }
            let is_idle = !busy && own.has_rested_for_spin();
            if busy {
                own.note_busy();
            }
            let mut wait = if is_idle { own.wait() } else { Some(Duration::ZERO) };
            for io_loop in adopted.iter_mut().filter_map(|adopted| adopted.io_loop.as_mut()) {
                if wait != Some(Duration::ZERO) {
                    wait = least(wait, io_loop.wait());
                }
            }
            if self.resting.has_offers() {
                wait = Some(Duration::ZERO);
            }
            own.poll(wait);
            if wait != Some(Duration::ZERO) {
                own.work_time.sleeps += 1;
                load = Load::new(own.clock.now(), &own.work_time);
            }
            for adopted in &mut adopted {
                if let Some(io_loop) = adopted.io_loop.as_mut() {
                    io_loop.waker.awake();
                }
            }
            for number in std::mem::take(&mut own.nested_ready) {
                if let Some(adopted) = adopted.iter_mut().find(|adopted| adopted.number == number) {
                    adopted.is_ready = true;
                }
            }
        }
        self.resting.end();
        self.adopt(&mut adopted);
        for adopted in adopted {
            self.give_back(adopted);
        }
        // A thread may have begun to rest since. It looks at the flag after it has begun.
        self.berths.iter().filter_map(|berth| berth.thread.get()).for_each(Thread::unpark);
    }

    /// Takes over the loops of the threads that have begun to rest.
    fn adopt<'a>(&'a self, adopted: &mut Vec<Adopted<'a>>) {
        for number in self.resting.take_offers() {
            // Events before the registration with our poll may not have reached it.
            adopted.push(Adopted { number, io_loop: self.lock(number), is_ready: true, work: 0 });
        }
    }

    /// Runs a round of an adopted loop if there may be something to do.
    fn step_adopted(&self, adopted: &mut Adopted<'_>) -> bool {
        let Some(io_loop) = adopted.io_loop.as_mut() else { return false };
        if std::mem::take(&mut adopted.is_ready) {
            adopted.is_ready = io_loop.poll(Some(Duration::ZERO));
        } else if !io_loop.needs_round() {
            return false;
        }
        let busy = io_loop.step();
        adopted.work += u32::from(busy);
        self.make_seen(io_loop);
        io_loop.pulse.note(Doing::Nothing);
        busy
    }

    /// Calls the thread whose loop had most work, unless it has to pause.
    fn call_busiest(&self, adopted: &mut Vec<Adopted<'_>>, now: Ticks) {
        let may_work = |adopted: &Adopted<'_>| {
            let io_loop = adopted.io_loop.as_ref();
            adopted.work > 0 && io_loop.is_some_and(|io_loop| io_loop.pause_until <= now)
        };
        let candidates = adopted.iter().enumerate().filter(|(_, adopted)| may_work(adopted));
        if let Some((at, _)) = candidates.max_by_key(|(_, adopted)| adopted.work) {
            self.give_back(adopted.swap_remove(at));
        }
        adopted.iter_mut().for_each(|adopted| adopted.work = 0);
    }

    /// Lets a thread run its own loop again.
    fn give_back(&self, adopted: Adopted<'_>) {
        let Adopted { number, io_loop, .. } = adopted;
        if let Some(io_loop) = io_loop.as_ref() {
            // If this fails, the first thread polls in vain now and then.
            let _ = self.first.deregister(&mut SourceFd(&io_loop.poll_fd()));
        }
        drop(io_loop);
        self.resting.call(number);
        if let Some(thread) = self.berths[number].thread.get() {
            thread.unpark();
        }
    }

    /// Runs the loop of another thread.
    fn run_other(&self, number: usize) {
        loop {
            let mut locked = self.lock(number);
            let Some(io_loop) = locked.as_mut() else { return };
            if self.work(io_loop) == Outcome::Ended {
                return;
            }
            io_loop.work_time.rests += 1;
            io_loop.pulse.note(Doing::Nothing);
            // Nobody deregisters it before the offer.
            let registered = self.first.register(&mut SourceFd(&io_loop.poll_fd()), token(number), Interest::READABLE);
            if let Err(error) = registered {
                tracing::warn!(%error, "a packet thread cannot rest");
                io_loop.config.rests = false;
                continue;
            }
            drop(locked);
            self.resting.rest(number, || self.berths[0].waker.wake(), std::thread::park);
        }
    }

    /// Runs a loop on its own thread, until that may rest or ends.
    fn work(&self, io_loop: &mut IoLoop) -> Outcome {
        io_loop.now = io_loop.clock.now();
        let mut load = Load::new(io_loop.now, &io_loop.work_time);
        let (mut busy, mut windows, mut from) = (false, 0u32, io_loop.now);
        loop {
            let was_busy = std::mem::replace(&mut busy, io_loop.step());
            let now = io_loop.now;
            io_loop.work_time.begin_round(now, was_busy);
            let round = now.since(std::mem::replace(&mut from, now));
            if io_loop.has_ended() {
                return Outcome::Ended;
            }
            self.make_seen(io_loop);
            if busy {
                io_loop.note_busy();
            }
            let sleeps = !busy && !io_loop.config.rests && io_loop.has_rested_for_spin();
            let wait = if sleeps { io_loop.wait() } else { Some(Duration::ZERO) };
            io_loop.poll(wait);
            io_loop.work_time.sleeps += u64::from(wait != Some(Duration::ZERO));
            if !io_loop.config.rests || self.resting.has_ended() {
                continue;
            }
            if round > ROUND_MAX {
                io_loop.pause(now);
                return Outcome::Rests;
            }
            if let Some(share) = load.window_ends(now, &io_loop.work_time) {
                if share < REST_BELOW {
                    io_loop.pause_until = now + REST_MIN;
                    return Outcome::Rests;
                }
                windows += 1;
                if windows % QUIET_WINDOWS == 0 {
                    io_loop.shorten_pause();
                }
            }
        }
    }

    /// Wakes the sleeping threads that a loop has given something. Threads that are awake look by themselves.
    fn make_seen(&self, io_loop: &mut IoLoop) {
        io_loop.seat.take_given(|thread| self.berths[thread].waker.wake());
    }
}

/// How a thread's work came to an end.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// It has too little to do.
    Rests,
    /// The loop has ended.
    Ended,
}

/// A loop that the first thread runs for another.
struct Adopted<'a> {
    number: usize,
    io_loop: Locked<'a>,
    /// Whether its descriptors may be ready.
    is_ready: bool,
    /// Rounds with work, since the first thread last had no time left.
    work: u32,
}

/// Measures how much of its time a thread works.
struct Load {
    /// Begin of the window.
    window: Ticks,
    /// Time that the thread had worked by then.
    busy_before_ns: u64,
    full_windows: u32,
}

impl Load {
    fn new(now: Ticks, work_time: &WorkTime) -> Self {
        Load { window: now, busy_before_ns: work_time.busy_ns(), full_windows: 0 }
    }

    /// At the end of a window, returns the share of it that the thread has worked.
    fn window_ends(&mut self, now: Ticks, work_time: &WorkTime) -> Option<f64> {
        let window = now.since(self.window);
        if window < WINDOW {
            return None;
        }
        let busy_ns = work_time.busy_ns() - self.busy_before_ns;
        (self.window, self.busy_before_ns) = (now, work_time.busy_ns());
        Some(busy_ns as f64 / window.as_nanos() as f64)
    }

    /// Whether the thread has no time left.
    fn is_full(&mut self, now: Ticks, work_time: &WorkTime) -> bool {
        let Some(share) = self.window_ends(now, work_time) else { return false };
        self.full_windows = if share >= FULL { self.full_windows + 1 } else { 0 };
        if self.full_windows < FULL_WINDOWS {
            return false;
        }
        self.full_windows = 0;
        true
    }
}

/// The pauses of a thread that the system keeps suspending.
#[derive(Clone, Copy, Default)]
pub(super) struct Pause(Duration);

impl Pause {
    /// The next pause, twice as long as the last.
    pub fn next(&mut self) -> Duration {
        self.0 = (2 * self.0).clamp(PAUSE_MIN, PAUSE_MAX);
        self.0
    }

    /// The thread has worked for a while.
    pub fn shorten(&mut self) {
        self.0 /= 2;
    }
}

/// The shorter of two times; `None` is forever.
fn least(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}

/// The token of a resting thread's poll in the first thread's poll.
fn token(number: usize) -> Token {
    Token(WAKER_TOKEN.0 - number)
}

/// The number of the resting thread with this token.
pub(super) fn number_of(token: Token) -> Option<usize> {
    Some(WAKER_TOKEN.0 - token.0).filter(|number| (1..WORKERS_MAX).contains(number))
}
