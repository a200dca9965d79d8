//! Faces on which several threads send: see [`byname_forward::loans`].
//!
//! The owner of such a face lends it ([`Lent`]) to the ports of the same name on other threads. A port that borrows a
//! face has a link service for it, for packets that are one frame each. It sends all of these, and receives only answers:
//! fragments and reliability are the owner's. What it counts is in an account that the owner can read (`Accounts`). So the counters of a face
//! are those of all threads, and the owner knows how many answers its peer has got.
//!
//! A face may end while other threads still send there. They see at once that it has ended, and leave further packets
//! to the owner, which counts them as packets without a face. What they have counted until then is added to the face's
//! last counters when all workers have forgotten it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use byname_forward::Ticks;

use crate::face::LinkCounters;
use crate::link::LinkConfig;

/// What a port on another thread needs to send on a UDP face.
pub struct Lent {
    /// The address that the sockets of all threads have.
    pub(crate) listen: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) config: LinkConfig,
    pub(crate) accounts: Arc<Accounts>,
}

/// What the threads that borrow a face have counted.
pub(crate) struct Accounts {
    /// By number of the thread. Most faces are used by few.
    of_threads: Box<[OnceLock<Box<Account>>]>,
    /// What all had counted when the face ended.
    at_end: OnceLock<LinkCounters>,
}

/// Counts of one thread, which alone writes them. Alone in its cache line, and in the neighbor line that processors
/// fetch with it.
#[derive(Default)]
#[repr(align(128))]
struct Account {
    in_bytes: AtomicU64,
    out_bytes: AtomicU64,
    out_drops: AtomicU64,
    congestion_marks: AtomicU64,
    answers: AtomicU64,
    /// When the peer was last heard.
    heard: AtomicU64,
}

/// The sum of some counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) in_bytes: u64,
    pub(crate) out_bytes: u64,
    pub(crate) out_drops: u64,
    pub(crate) congestion_marks: u64,
    /// Data and Nacks that were sent.
    pub(crate) answers: u64,
}

impl Counted {
    pub(crate) fn plus(self, other: Counted) -> Counted {
        Counted {
            in_bytes: self.in_bytes + other.in_bytes,
            out_bytes: self.out_bytes + other.out_bytes,
            out_drops: self.out_drops + other.out_drops,
            congestion_marks: self.congestion_marks + other.congestion_marks,
            answers: self.answers + other.answers,
        }
    }
}

impl Account {
    fn read(&self) -> Counted {
        // Acquire: a thread that passes on news of its counts has written them before.
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        Counted {
            in_bytes: of(&self.in_bytes),
            out_bytes: of(&self.out_bytes),
            out_drops: of(&self.out_drops),
            congestion_marks: of(&self.congestion_marks),
            answers: of(&self.answers),
        }
    }
}

impl Accounts {
    /// Nothing counted, with so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Accounts { of_threads: (0..threads).map(|_| OnceLock::new()).collect(), at_end: OnceLock::new() }
    }

    /// What a thread has counted so far.
    pub(crate) fn of(&self, thread: usize) -> Counted {
        self.of_threads[thread].get().map_or_else(Counted::default, |account| account.read())
    }

    /// Writes down what a thread has counted, all in all, and when it last heard the peer. Only that thread may call this.
    pub(crate) fn write(&self, thread: usize, counted: Counted, heard: Ticks) {
        let account = self.of_threads[thread].get_or_init(Box::default);
        account.heard.store(heard.0, Ordering::Relaxed);
        account.in_bytes.store(counted.in_bytes, Ordering::Release);
        account.out_bytes.store(counted.out_bytes, Ordering::Release);
        account.out_drops.store(counted.out_drops, Ordering::Release);
        account.congestion_marks.store(counted.congestion_marks, Ordering::Release);
        account.answers.store(counted.answers, Ordering::Release);
    }

    fn sum(&self) -> Counted {
        let counted = self.of_threads.iter().filter_map(|account| Some(account.get()?.read()));
        counted.fold(Counted::default(), Counted::plus)
    }

    /// Data and Nacks that all threads have sent.
    pub(crate) fn answers(&self) -> u64 {
        self.sum().answers
    }

    /// When other threads than the owner last heard the peer.
    pub(crate) fn heard(&self) -> Ticks {
        let heard = self.of_threads.iter().filter_map(|account| Some(account.get()?.heard.load(Ordering::Relaxed)));
        Ticks(heard.max().unwrap_or_default())
    }

    fn link_counters(&self) -> LinkCounters {
        let Counted { in_bytes, out_bytes, out_drops, congestion_marks, .. } = self.sum();
        LinkCounters { in_bytes, out_bytes, out_drops, congestion_marks, ..LinkCounters::default() }
    }

    /// The part of all threads in the face's counters: up to its end, if it has ended.
    pub(crate) fn counters(&self) -> LinkCounters {
        self.at_end.get().copied().unwrap_or_else(|| self.link_counters())
    }

    /// The face ends.
    pub(crate) fn end(&self) {
        // A face ends once.
        let _ = self.at_end.set(self.link_counters());
    }

    /// Whether the face has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.at_end.get().is_some()
    }

    /// What was counted since the face ended.
    pub(crate) fn after_end(&self) -> LinkCounters {
        self.link_counters().less(&self.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_an_ended_face_stay_and_what_comes_later_is_known() {
        let accounts = Accounts::new(3);
        let counted = |out_bytes| Counted { out_bytes, answers: 1, ..Counted::default() };
        accounts.write(1, counted(100), Ticks(7));
        accounts.write(2, counted(20), Ticks(5));
        assert_eq!((accounts.counters().out_bytes, accounts.answers(), accounts.has_ended()), (120, 2, false));
        accounts.end();
        accounts.write(2, counted(50), Ticks(6));
        assert_eq!(accounts.heard(), Ticks(7));
        assert_eq!((accounts.counters().out_bytes, accounts.after_end().out_bytes), (120, 30));
        assert_eq!((accounts.of(0), accounts.of(2), accounts.has_ended()), (Counted::default(), counted(50), true));
    }
}
