//! Frames that leave by a port of another thread.
//!
//! Each pair of threads has one bounded ring (`byname_forward::ring`) in each direction. So frames that arrive by one
//! port and leave by another keep their order. A frame is copied into a pooled buffer, and the owner of the port copies
//! it into the transmit ring. No thread waits: a full ring drops and counts frames.

use std::io;

use byname_face::waker::LoopWaker;
use byname_forward::Packet;
use byname_forward::ring::{Consumer, Producer, ring};

use crate::switch::Reason;

/// Capacity of the ring from one thread to another, in frames.
pub(super) const RING_FRAMES: usize = 1024;
/// Frames taken from one ring in one round.
const BURST_FRAMES: usize = 256;
/// Bytes in the largest pooled buffer. A longer frame gets memory of its own.
const POOLED_BYTES_MAX: usize = 9216;

/// The thread that owns a port, of so many.
pub(super) fn owner(port: usize, threads: usize) -> usize {
    port % threads
}

/// A frame on its way to the thread that owns the port.
struct Crossed {
    port: usize,
    bytes: Bytes,
}

enum Bytes {
    Pooled(Packet),
    Long(Box<[u8]>),
}

impl Bytes {
    fn of(header: &[u8], rest: &[u8]) -> Self {
        let len = header.len() + rest.len();
        if len > POOLED_BYTES_MAX {
            return Bytes::Long([header, rest].concat().into());
        }
        Bytes::Pooled(Packet::build(len, |bytes| {
            let (front, back) = bytes.split_at_mut(header.len());
            front.copy_from_slice(header);
            back.copy_from_slice(rest);
        }))
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Pooled(packet) => packet,
            Bytes::Long(bytes) => bytes,
        }
    }
}

/// One thread's ways to all others.
pub(super) struct Crossing {
    here: usize,
    /// By number of the other thread; `None` for itself.
    links: Vec<Option<Link>>,
    /// Scratch for one burst.
    taken: Vec<Crossed>,
}

struct Link {
    output: Producer<Crossed>,
    input: Consumer<Crossed>,
    waker: LoopWaker,
    drops: u64,
}

/// State of the rings from one thread to all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrossingStatus {
    /// Frames given to the owners of their ports.
    pub given: u64,
    /// Frames taken from other threads.
    pub taken: u64,
    /// Frames that wait for the owners of their ports.
    pub waiting: u64,
    /// Frames dropped because a ring was full.
    pub drops: u64,
}

impl Crossing {
    /// Connects the threads that these wake, by rings of `ring_frames` frames. A thread that is alone has no ways.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub(super) fn connect(wakers: &[LoopWaker], ring_frames: usize) -> io::Result<Vec<Option<Crossing>>> {
        let threads = wakers.len();
        if threads == 1 {
            return Ok(vec![None]);
        }
        let new = || ring(ring_frames).map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused));
        let mut links: Vec<Vec<Option<Link>>> = (0..threads).map(|_| (0..threads).map(|_| None).collect()).collect();
        let pairs = (0..threads).flat_map(|one| (one + 1..threads).map(move |other| (one, other)));
        for (one, other) in pairs {
            let (to_other, from_one) = new()?;
            let (to_one, from_other) = new()?;
            let link = |output, input, to: usize| Link { output, input, waker: wakers[to].clone(), drops: 0 };
            links[one][other] = Some(link(to_other, from_other, other));
            links[other][one] = Some(link(to_one, from_one, one));
        }
        let crossing = |(here, links)| Some(Crossing { here, links, taken: Vec::new() });
        Ok(links.into_iter().enumerate().map(crossing).collect())
    }

    /// Gives a frame, in two parts, to the owner of a port, which sees it after [`Crossing::publish`].
    pub(super) fn give(&mut self, port: usize, header: &[u8], rest: &[u8]) -> Result<(), Reason> {
        let owner = owner(port, self.links.len());
        debug_assert_ne!(owner, self.here, "this thread's own ports need no ring");
        let Some(link) = &mut self.links[owner] else { return Err(Reason::Busy) };
        link.output.push(Crossed { port, bytes: Bytes::of(header, rest) }).map_err(|_| {
            link.drops += 1;
            Reason::OwnerBusy
        })
    }

    /// Lets other threads see what they were given, and wakes those that sleep.
    pub(super) fn publish(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if link.output.publish() {
                link.waker.wake();
            }
        }
    }

    /// Passes frames from other threads to `each`, with the ports that they leave by. Returns whether there were any.
    pub(super) fn take(&mut self, mut each: impl FnMut(usize, &[u8])) -> bool {
        for link in self.links.iter_mut().flatten() {
            link.input.pop_into(&mut self.taken, BURST_FRAMES);
        }
        let busy = !self.taken.is_empty();
        self.taken.drain(..).for_each(|Crossed { port, bytes }| each(port, bytes.as_slice()));
        busy
    }

    /// Whether other threads have given something.
    pub(super) fn has_input(&mut self) -> bool {
        self.links.iter_mut().flatten().any(|link| link.input.available() > 0)
    }

    /// State of the rings.
    pub(super) fn status(&mut self) -> CrossingStatus {
        self.links.iter_mut().flatten().fold(CrossingStatus::default(), |all, link| CrossingStatus {
            given: all.given + link.output.pushed(),
            taken: all.taken + link.input.popped(),
            waiting: all.waiting + link.output.depth() as u64,
            drops: all.drops + link.drops,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use byname_forward::Ticks;
    use byname_lookup::flat::othello::{Options, Othello};
    use byname_lookup::{Change, Control, EntryId};
    use byname_wire::{MacAddress, NameHashKey};
    use mio::{Poll, Token};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::frame::Arrived;
    use crate::switch::{Plan, PortCounters, Role, Sent, Switch, check};

    const KEY: NameHashKey = NameHashKey::new([5, 6]);
    const PORTS: usize = 7;
    const ALL: MacAddress = MacAddress([0xff; 6]);
    /// Numbers of the frames that left, by input and output port.
    type Left = BTreeMap<(usize, usize), Vec<u32>>;

    fn station(port: usize) -> MacAddress {
        MacAddress([2, 0, 0, 0, 0, port as u8])
    }

    fn switch() -> Switch {
        let options = Options { entry_bits: check().bits(), ..Options::default() };
        let mut control = Othello::new(options).expect("a little memory");
        let set = |port: usize| {
            let digest = KEY.digest_bytes(&station(port).0);
            Change::Set(digest, check().stored(digest, EntryId(port as u32)).expect("eight bits"))
        };
        control.apply(&(0..PORTS).map(set).collect::<Vec<_>>()).expect("few names");
        let mut switch = Switch::new(PORTS);
        switch.set_table(KEY, control.query());
        let trunk = Role::Trunk { floods: true };
        let roles = (0..PORTS).map(|port| if port == 5 { trunk } else { Role::Host }).collect();
        switch.set_plan(Plan { epoch: 1, hop_limit: 4, roles, ..Plan::default() });
        switch
    }

    /// Threads of one switch; their ports note what leaves.
    struct Bench {
        threads: Vec<(Switch, Option<Crossing>)>,
        left: Left,
        given: u64,
    }

    impl Bench {
        fn new(threads: usize, ring_frames: usize) -> Self {
            let waker = |_| {
                let poll = Poll::new().expect("an event queue");
                LoopWaker::new(poll.registry(), Token(0)).expect("an event")
            };
            let wakers: Vec<_> = (0..threads).map(waker).collect();
            let crossings = Crossing::connect(&wakers, ring_frames).expect("a few slots");
            let threads = crossings.into_iter().map(|crossing| (switch(), crossing)).collect();
            Bench { threads, left: Left::new(), given: 0 }
        }

        fn leave(left: &mut Left, to: usize, frame: &[u8]) -> Result<Sent, Reason> {
            let (number, from) = frame.split_at(frame.len() - 1);
            let number = number.last_chunk().map(|number| u32::from_be_bytes(*number)).expect("each frame has one");
            left.entry((from[0].into(), to)).or_default().push(number);
            Ok(Sent::Left)
        }

        fn receive(&mut self, from: usize, frames: &[Vec<u8>]) {
            let threads = self.threads.len();
            let here = owner(from, threads);
            let (switch, crossing) = &mut self.threads[here];
            let arrived: Vec<_> = frames.iter().map(|bytes| Arrived { bytes, vlan: None }).collect();
            let (left, given) = (&mut self.left, &mut self.given);
            switch.forward(Ticks(1), from, &arrived, &mut |to, header, rest| match crossing {
                Some(crossing) if owner(to, threads) != here => {
                    crossing.give(to, header, rest)?;
                    *given += 1;
                    Ok(Sent::Given)
                }
                _ => Bench::leave(left, to, &[header, rest].concat()),
            });
            if let Some(crossing) = crossing {
                crossing.publish();
            }
        }

        fn take(&mut self, thread: usize) -> bool {
            let threads = self.threads.len();
            let (switch, Some(crossing)) = &mut self.threads[thread] else { return false };
            let had_input = crossing.has_input();
            let busy = crossing.take(|to, frame| {
                assert_eq!(owner(to, threads), thread, "only the owner of a port gets its frames");
                switch.count_sent(to, frame.len(), Bench::leave(&mut self.left, to, frame));
            });
            assert_eq!(had_input, busy);
            busy
        }

        fn counters(&self, port: usize) -> PortCounters {
            self.threads.iter().fold(PortCounters::default(), |all, (switch, _)| all + switch.counters()[port])
        }
    }

    /// Sends the same random frames through one thread and through several, which run ahead of and behind each other.
    fn run(threads: usize, ring_frames: usize, seed: u64) -> (Bench, Bench) {
        let (mut alone, mut bench) = (Bench::new(1, ring_frames), Bench::new(threads, ring_frames));
        let (mut random, mut number) = (SmallRng::seed_from_u64(seed), 0u32);
        for _ in 0..2000 {
            let from = random.random_range(0..PORTS);
            let frames: Vec<_> = (0..random.random_range(0..30))
                .map(|_| {
                    number += 1;
                    let to = random.random_range(0..(PORTS + 1));
                    let to = if to == PORTS { ALL } else { station(to) };
                    let len =
                        if random.random_range(0..50) == 0 { POOLED_BYTES_MAX } else { random.random_range(0..200) };
                    let tag: &[u8] = if from == 5 { &[0x88, 0xb5, 1, 3] } else { &[] };
                    [&to.0[..], &station(from).0, tag, &[8, 0], &vec![0; len], &number.to_be_bytes(), &[from as u8]]
                        .concat()
                })
                .collect();
            alone.receive(from, &frames);
            bench.receive(from, &frames);
            if random.random_range(0..3) > 0 {
                let thread = random.random_range(0..threads);
                bench.take(thread);
            }
        }
        while (0..threads).fold(false, |busy, thread| busy | bench.take(thread)) {}
        (alone, bench)
    }

    #[test]
    fn threads_forward_as_one_does_and_in_order() {
        for (threads, seed) in [(2, 1), (3, 2), (5, 3), (7, 4)] {
            let (alone, bench) = run(threads, 1 << 16, seed);
            assert!(bench.given > 10_000, "{} frames crossed", bench.given);
            assert_eq!(bench.left, alone.left, "{threads} threads");
            for port in 0..PORTS {
                assert_eq!(bench.counters(port), alone.counters(port), "{threads} threads, port {port}");
            }
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_what_is_left_keeps_its_order() {
        for (threads, seed) in [(2, 1), (3, 2), (5, 3)] {
            let (alone, mut bench) = run(threads, 16, seed);
            let mut dropped = 0;
            for port in 0..PORTS {
                let (ours, whole) = (bench.counters(port), alone.counters(port));
                let lost = ours.drops[Reason::OwnerBusy];
                assert_eq!(ours.frames_out + lost, whole.frames_out, "{threads} threads, port {port}");
                dropped += lost;
            }
            let status: Vec<_> = bench.threads.iter_mut().map(|(_, c)| c.as_mut().expect("several").status()).collect();
            let sum = |of: fn(&CrossingStatus) -> u64| status.iter().map(of).sum::<u64>();
            assert!(dropped > 100, "{dropped} dropped");
            assert_eq!((sum(|s| s.drops), sum(|s| s.waiting)), (dropped, 0));
            assert_eq!((sum(|s| s.given), sum(|s| s.taken)), (bench.given, bench.given));
            for (pair, numbers) in &bench.left {
                assert!(numbers.is_sorted_by(|one, next| one < next), "{pair:?}: in order, and none twice");
            }
        }
    }
}
