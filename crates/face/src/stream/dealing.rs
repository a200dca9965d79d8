//! Deals accepted connections to the ports of several threads.
//!
//! One port listens. It accepts, and gives each connection to the next port in turn, before anybody has read from it.
//! That port decides whether the newcomer gets a place. Each port has its part of the maximum numbers.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use byname_forward::dispatch::part_of;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::StreamConfig;
use super::socket::{Accepted, Socket};
use crate::uri::FaceUri;
use crate::waker::LoopWaker;

/// Connections that may wait for one port. The listening port keeps those beyond that.
const WAITING_MAX: usize = 256;

/// A connection that was accepted, and the address of its listener.
pub(super) struct Newcomer {
    pub accepted: Accepted,
    pub listening: FaceUri,
    /// Longest frame that reaches the peer, in bytes, if there is such a limit.
    pub mtu: Option<usize>,
}

impl Newcomer {
    /// One end of a pair of connected Unix sockets.
    pub fn of_pair(end: OwnedFd, listening: FaceUri) -> Self {
        let fd = u64::try_from(end.as_raw_fd()).expect("an open descriptor is not negative");
        Newcomer { accepted: Accepted { socket: Socket::unix_of(end), remote: None, fd }, listening, mtu: None }
    }
}

/// The end of one port.
pub(super) struct Hand {
    newcomers: Receiver<Newcomer>,
    waker: Arc<OnceLock<LoopWaker>>,
}

impl Hand {
    /// From now on the port's thread is woken for newcomers.
    pub fn started(&self, waker: LoopWaker) {
        // A port starts once.
        let _ = self.waker.set(waker);
    }

    pub fn is_empty(&self) -> bool {
        self.newcomers.is_empty()
    }

    pub fn take(&self) -> Option<Newcomer> {
        self.newcomers.try_recv().ok()
    }
}

/// The end of the port that listens.
#[derive(Default)]
pub(super) struct Dealer {
    others: Vec<(Sender<Newcomer>, Arc<OnceLock<LoopWaker>>)>,
    /// Whose turn it is; 0 is the listening port itself.
    next: usize,
}

impl Dealer {
    /// A dealer to `others` other ports, and their ends.
    pub fn new(others: usize) -> (Dealer, Vec<Hand>) {
        let mut dealer = Dealer::default();
        let mut hands = Vec::new();
        for _ in 0..others {
            let (sender, newcomers) = bounded(WAITING_MAX);
            let waker = Arc::<OnceLock<LoopWaker>>::default();
            dealer.others.push((sender, Arc::clone(&waker)));
            hands.push(Hand { newcomers, waker });
        }
        (dealer, hands)
    }

    /// Gives a newcomer away although it is this port's turn, too. Returns it if no port takes it.
    pub fn deal_away(&mut self, newcomer: Newcomer) -> Option<Newcomer> {
        self.next = self.next.max(1);
        self.deal(newcomer)
    }

    /// Gives a newcomer away, or returns it if it stays here.
    pub fn deal(&mut self, newcomer: Newcomer) -> Option<Newcomer> {
        let turn = self.next;
        self.next = (turn + 1) % (self.others.len() + 1);
        let Some((sender, waker)) = turn.checked_sub(1).and_then(|other| self.others.get(other)) else {
            return Some(newcomer);
        };
        if let Err(error) = sender.try_send(newcomer) {
            return Some(error.into_inner());
        }
        if let Some(waker) = waker.get() {
            waker.wake();
        }
        None
    }
}

/// The settings of port `number` of `ports` that share them.
pub(super) fn share(config: &StreamConfig, number: usize, ports: usize) -> StreamConfig {
    let part = |all: usize| part_of(all, number, ports).max(1);
    StreamConfig {
        connections_max: part(config.connections_max),
        connections_per_address_max: config.connections_per_address_max.div_ceil(ports),
        queues_bytes_max: part(config.queues_bytes_max),
        ..config.clone()
    }
}
