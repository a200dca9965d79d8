//! The threads that move a switch's frames: packet sockets with rings, and a [`Switch`] between them on each thread.
//!
//! Each thread owns its share of the ports. In a round it takes a burst from each of its ports that has input, looks up
//! the frames, and writes each frame to the rings of its output ports. Then it notifies the kernel once for each ring.
//! A frame is copied once, from ring to ring. A frame that leaves by a port of another thread crosses one ring to that
//! thread (`crossing`), and is copied once more. Without work a thread sleeps until a descriptor is ready, a command
//! comes, or another thread gives it frames.
//!
//! Tables come from another thread, which changes them in place while these threads look frames up ([`SwitchHandle`]).

mod crossing;
mod handle;
mod port;
#[cfg(test)]
mod tests;

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::frame::Arrived;
use crate::key::KeyKind;
use crate::switch::{Reason, Sent, Switch};
use byname_forward::Ticks;
use crossbeam_channel::Receiver;
use mio::{Events, Poll, Token};
use smallvec::SmallVec;

use byname_face::frames::ring::PacketSocket;
use byname_face::frames::socket::FrameSocket;
use byname_face::waker::LoopWaker;
use crossing::{Crossing, RING_FRAMES, owner};
use handle::{Command, Part};

pub use crossing::CrossingStatus;
pub use handle::{SwitchEvent, SwitchHandle, SwitchPortStatus, SwitchStatus, SwitchThreadStatus};
pub use port::{SwitchPort, SwitchPortConfig};

/// Frames taken from a port before others have their turn.
const BURST_FRAMES: usize = 64;
/// Interval at which interfaces are checked, as they may have gone down or come up.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time after which the system is asked again to send frames that it could not take.
const SEND_AGAIN: Duration = Duration::from_millis(1);
const WAKER_TOKEN: Token = Token(usize::MAX);

/// Starts a switch that forwards by this kind of key. It has `threads` threads, but no more than there are ports. Port `i` belongs to thread `i % threads`. Each thread
/// has its own copy of `events`, which must not block, and returns false if there is no room now.
///
/// # Errors
/// If the system gives no event queue, memory or thread.
///
/// # Panics
/// If there are more than [`PORTS_MAX`](crate::switch::PORTS_MAX) ports.
pub fn start(
    kind: KeyKind,
    ports: Vec<SwitchPort>,
    threads: usize,
    events: impl FnMut(SwitchEvent) -> bool + Clone + Send + 'static,
) -> io::Result<(SwitchHandle, Vec<JoinHandle<()>>)> {
    let (count, threads) = (ports.len(), threads.clamp(1, ports.len().max(1)));
    let polls = (0..threads).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let waker = |poll: &Poll| LoopWaker::new(poll.registry(), WAKER_TOKEN);
    let wakers = polls.iter().map(waker).collect::<io::Result<Vec<_>>>()?;
    let crossings = Crossing::connect(&wakers, RING_FRAMES)?;
    let mut shares: Vec<Vec<Option<SwitchPort>>> = (0..threads).map(|_| (0..count).map(|_| None).collect()).collect();
    for (number, port) in ports.into_iter().enumerate() {
        shares[owner(number, threads)][number] = Some(port);
    }
    let (handle, receivers) = SwitchHandle::new(&wakers, kind);
    let mut running = Vec::with_capacity(threads);
    let parts = polls.into_iter().zip(wakers).zip(crossings.into_iter().zip(shares)).zip(receivers);
    for (thread, (((poll, waker), (crossing, ports)), commands)) in parts.enumerate() {
        let switch_loop = SwitchLoop {
            poll,
            waker,
            switch: Switch::with_key(kind, count),
            told: vec![None; count],
            outlets: Outlets { ports, crossing },
            commands,
            events: events.clone(),
            epoch: Instant::now(),
            check_at: Ticks(0),
            sleeps: 0,
        };
        let name = if thread == 0 { "byname-switch".into() } else { format!("byname-switch-{thread}") };
        match std::thread::Builder::new().name(name).spawn(move || switch_loop.run()) {
            Ok(thread) => running.push(thread),
            Err(error) => {
                handle.shutdown();
                return Err(error);
            }
        }
    }
    Ok((handle, running))
}

/// The ways on which frames leave a thread: its own ports, and the rings to the owners of the others.
struct Outlets {
    /// By number of the port; `None` if another thread owns it.
    ports: Vec<Option<SwitchPort>>,
    /// `None` if there is only one thread.
    crossing: Option<Crossing>,
}

impl Outlets {
    fn send(&mut self, to: usize, header: &[u8], rest: &[u8]) -> Result<Sent, Reason> {
        match (&mut self.ports[to], &mut self.crossing) {
            (Some(port), _) => port.push(header, rest).map(|()| Sent::Left),
            (None, Some(crossing)) => crossing.give(to, header, rest).map(|()| Sent::Given),
            (None, None) => Err(Reason::Busy),
        }
    }

    /// The thread's own ports.
    fn own(&self) -> impl Iterator<Item = &SwitchPort> {
        self.ports.iter().flatten()
    }

    fn has_input(&mut self) -> bool {
        self.own().any(SwitchPort::has_input) || self.crossing.as_mut().is_some_and(Crossing::has_input)
    }
}

struct SwitchLoop<E> {
    poll: Poll,
    waker: LoopWaker,
    switch: Switch,
    outlets: Outlets,
    /// Link state of each port that the control side knows.
    told: Vec<Option<bool>>,
    commands: Receiver<Command>,
    events: E,
    epoch: Instant,
    check_at: Ticks,
    sleeps: u64,
}

impl<E: FnMut(SwitchEvent) -> bool> SwitchLoop<E> {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            let now = self.now();
            if now >= self.check_at {
                self.check_ports();
                self.check_at = now + CHECK_INTERVAL;
            }
            let mut busy = false;
            while let Ok(command) = self.commands.try_recv() {
                busy = true;
                if !self.carry_out(command, now) {
                    return;
                }
            }
            busy |= self.take_crossed();
            for port in 0..self.outlets.ports.len() {
                busy |= self.outlets.ports[port].as_ref().is_some_and(SwitchPort::has_input);
                self.receive(port, now);
            }
            if self.switch.next_deadline().is_some_and(|at| at <= now) {
                self.retry_held(now);
            }
            // Flush all ports, even if the first fails.
            let ports = self.outlets.ports.iter_mut().flatten();
            let unsent = ports.filter_map(|port| (!port.flush()).then_some(())).count();
            if let Some(crossing) = &mut self.outlets.crossing {
                crossing.publish();
            }
            self.tell();
            if !busy {
                self.sleep(&mut events, unsent == 0);
            }
        }
    }

    fn now(&self) -> Ticks {
        Ticks(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn receive(&mut self, from: usize, now: Ticks) {
        // The socket is taken out while the other ports take its frames: no frame goes back to its port.
        let socket = self.outlets.ports[from].as_mut().and_then(|port| port.socket.take());
        let Some(mut socket) = socket else { return };
        let (switch, outlets) = (&mut self.switch, &mut self.outlets);
        socket.receive(BURST_FRAMES, |arrivals| {
            let whole = arrivals.iter().filter(|arrival| !arrival.cut && !arrival.offloaded);
            let frames: SmallVec<[Arrived<'_>; BURST_FRAMES]> =
                whole.map(|arrival| Arrived { bytes: arrival.bytes, vlan: arrival.vlan }).collect();
            switch.count_drops(from, Reason::Offloaded, (arrivals.len() - frames.len()) as u64);
            switch.forward(now, from, &frames, &mut |to, header, rest| outlets.send(to, header, rest));
        });
        if let Some(port) = &mut self.outlets.ports[from] {
            port.socket = Some(socket);
        }
    }

    /// Sends frames from other threads. Returns whether there were any.
    fn take_crossed(&mut self) -> bool {
        let Outlets { ports, crossing: Some(crossing) } = &mut self.outlets else { return false };
        let switch = &mut self.switch;
        crossing.take(|to, frame| {
            let pushed = ports[to].as_mut().map_or(Err(Reason::Busy), |port| port.push(frame, &[]));
            switch.count_sent(to, frame.len(), pushed.map(|()| Sent::Left));
        })
    }

    fn retry_held(&mut self, now: Ticks) {
        let outlets = &mut self.outlets;
        self.switch.retry_held(now, &mut |to, header, rest| outlets.send(to, header, rest));
    }

    /// Runs a command. Returns false to end the thread.
    fn carry_out(&mut self, command: Command, now: Ticks) -> bool {
        match command {
            Command::Table(key, fib, done) => {
                self.switch.set_table(*key, fib);
                // The asking thread may have gone.
                let _ = done.send(());
                self.retry_held(now);
            }
            Command::Changed => self.retry_held(now),
            Command::Plan(plan) => {
                self.switch.set_plan(plan);
                self.retry_held(now);
            }
            Command::Status(reply) => {
                let status = self.status();
                let _ = reply.send(status);
            }
            Command::Shutdown => return false,
        }
        true
    }

    fn check_ports(&mut self) {
        self.count_ring_drops();
        for (number, port) in self.outlets.ports.iter_mut().enumerate() {
            if let Some(port) = port {
                port.check(self.poll.registry(), Token(number));
            }
        }
    }

    /// Counts drops of the receive rings. A socket that is closed takes its counter with it.
    fn count_ring_drops(&mut self) {
        for (number, port) in self.outlets.ports.iter().enumerate() {
            let socket = port.as_ref().and_then(|port| port.socket.as_ref());
            self.switch.count_drops(number, Reason::RingFull, socket.map_or(0, PacketSocket::take_drops));
        }
    }

    fn status(&mut self) -> Part {
        self.count_ring_drops();
        let ports = self.outlets.ports.iter().zip(self.switch.roles()).zip(self.switch.counters());
        let ports = ports.map(|((port, role), counters)| {
            port.as_ref().map(|port| SwitchPortStatus {
                interface: port.interface().to_owned(),
                role: *role,
                up: port.is_up(),
                mtu: port.mtu(),
                counters: *counters,
            })
        });
        Part {
            ports: ports.collect(),
            counters: self.switch.counters().to_vec(),
            crossing: self.outlets.crossing.as_mut().map_or_else(CrossingStatus::default, Crossing::status),
            sleeps: self.sleeps,
        }
    }

    /// Reports changes to the control side.
    fn tell(&mut self) {
        for (number, (port, told)) in self.outlets.ports.iter().zip(&mut self.told).enumerate() {
            let Some(up) = port.as_ref().map(SwitchPort::is_up) else { continue };
            if *told != Some(up) && (self.events)(SwitchEvent::Link { port: number, up }) {
                *told = Some(up);
            }
        }
        for report in self.switch.take_reports() {
            // Lost if there is no room. A source that is still unknown is reported again.
            (self.events)(SwitchEvent::Heard(report));
        }
    }

    fn sleep(&mut self, events: &mut Events, sent: bool) {
        self.waker.fall_asleep();
        let now = self.now();
        let mut until = self.switch.next_deadline().map_or(self.check_at, |at| at.min(self.check_at));
        if !sent || self.outlets.own().any(SwitchPort::has_unsent) {
            until = until.min(now + SEND_AGAIN);
        }
        let at_hand = self.outlets.has_input() || !self.commands.is_empty();
        let wait = if at_hand { Duration::ZERO } else { until.since(now) };
        self.sleeps += u64::from(!wait.is_zero());
        let polled = self.poll.poll(events, Some(wait));
        self.waker.awake();
        if let Err(error) = polled {
            if error.kind() != io::ErrorKind::Interrupted {
                tracing::error!(%error, "cannot wait for frames");
                std::thread::sleep(CHECK_INTERVAL);
            }
            return;
        }
        for event in events.iter().filter(|event| event.is_error() || event.is_read_closed()) {
            if let Some(port) = self.outlets.ports.get_mut(event.token().0).and_then(Option::as_mut) {
                port.ready();
            }
        }
    }
}
