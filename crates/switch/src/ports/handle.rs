//! Commands to a switch's threads, and their status.

use std::sync::Arc;

use byname_face::waker::LoopWaker;
use byname_lookup::FlatFib;
use byname_wire::NameHashKey;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::crossing::{CrossingStatus, owner};
use crate::frame::trunk_bytes;
use crate::key::KeyKind;
use crate::switch::{Plan, PortCounters, Report, Role};

const COMMANDS_MAX: usize = 64;

/// Events for the control side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchEvent {
    /// A source was heard that the table has elsewhere or not at all.
    Heard(Report),
    /// A port went up or down. Sent for each port at the start.
    Link {
        /// Number of the port.
        port: usize,
        /// Whether frames can be moved.
        up: bool,
    },
}

/// Status of a switch.
#[derive(Debug, Clone)]
pub struct SwitchStatus {
    /// All ports, by number.
    pub ports: Vec<SwitchPortStatus>,
    /// All threads, by number.
    pub threads: Vec<SwitchThreadStatus>,
}

/// Status of a port.
#[derive(Debug, Clone)]
pub struct SwitchPortStatus {
    /// Name of the interface.
    pub interface: String,
    /// Role of the port.
    pub role: Role,
    /// Whether frames can be moved.
    pub up: bool,
    /// Longest payload of a frame, in bytes; `None` if the port is down.
    pub mtu: Option<usize>,
    /// Counters of the port, of all threads together.
    pub counters: PortCounters,
}

/// Status of a thread.
#[derive(Debug, Clone)]
pub struct SwitchThreadStatus {
    /// Interfaces of the ports that it owns.
    pub interfaces: Vec<String>,
    /// Frames that its ports received.
    pub frames_in: u64,
    /// Frames that left by its ports.
    pub frames_out: u64,
    /// State of the rings to other threads; all zero if there are none.
    pub crossing: CrossingStatus,
    /// Number of times that it slept.
    pub sleeps: u64,
}

/// One thread's part of the status.
pub(super) struct Part {
    /// By number of the port; `None` if another thread owns it.
    pub(super) ports: Vec<Option<SwitchPortStatus>>,
    /// What this thread has counted, by number of the port.
    pub(super) counters: Vec<PortCounters>,
    pub(super) crossing: CrossingStatus,
    pub(super) sleeps: u64,
}

pub(super) enum Command {
    Table(Box<NameHashKey>, Arc<dyn FlatFib>, Sender<()>),
    Changed,
    Plan(Plan),
    Status(Sender<Part>),
    Shutdown,
}

/// The way to one thread.
#[derive(Clone)]
struct Line {
    commands: Sender<Command>,
    waker: LoopWaker,
}

/// Commands to a switch's threads.
#[derive(Clone)]
pub struct SwitchHandle {
    kind: KeyKind,
    lines: Vec<Line>,
}

impl SwitchHandle {
    /// A handle to the threads that these wake, and the end of each thread's commands.
    pub(super) fn new(wakers: &[LoopWaker], kind: KeyKind) -> (Self, Vec<Receiver<Command>>) {
        let line = |waker: &LoopWaker| {
            let (commands, receiver) = bounded(COMMANDS_MAX);
            (Line { commands, waker: waker.clone() }, receiver)
        };
        let (lines, receivers) = wakers.iter().map(line).unzip();
        (SwitchHandle { kind, lines }, receivers)
    }

    fn send_all(&self, mut command: impl FnMut() -> Command) {
        for line in &self.lines {
            // Fails only if the thread has ended; its owner learns that by joining it.
            let _ = line.commands.send(command());
            line.waker.wake();
        }
    }

    /// Makes all threads forward with another query half. Returns when none of them uses the old one any more, so that
    /// it may be changed again.
    pub fn set_table(&self, key: NameHashKey, fib: Arc<dyn FlatFib>) {
        let (done, taken) = bounded(self.lines.len());
        self.send_all(|| Command::Table(Box::new(key), Arc::clone(&fib), done.clone()));
        drop(done);
        // Ends when each thread has answered, or has ended.
        taken.iter().for_each(drop);
    }

    /// Tells the threads that the table has changed in place. Waiting frames are looked up again.
    pub fn table_changed(&self) {
        self.send_all(|| Command::Changed);
    }

    /// Tells the threads how the controller wants ports to be used.
    pub fn set_plan(&self, plan: Plan) {
        self.send_all(|| Command::Plan(plan.clone()));
        if let Some(status) = self.status() {
            warn_of_mtus(&status.ports, trunk_bytes(self.kind));
        }
    }

    /// Status of all ports and threads; `None` if a thread has ended.
    pub fn status(&self) -> Option<SwitchStatus> {
        let mut replies = Vec::new();
        self.send_all(|| {
            let (reply, status) = bounded(1);
            replies.push(status);
            Command::Status(reply)
        });
        let parts = replies.into_iter().map(|status| status.recv().ok()).collect::<Option<_>>()?;
        whole(parts)
    }

    /// Ends the threads.
    pub fn shutdown(&self) {
        self.send_all(|| Command::Shutdown);
    }
}

/// Puts the threads' parts together.
fn whole(mut parts: Vec<Part>) -> Option<SwitchStatus> {
    let (count, threads) = (parts.first()?.ports.len(), parts.len());
    let port = |number: usize| {
        let mut port = parts[owner(number, threads)].ports[number].take()?;
        port.counters = parts.iter().fold(PortCounters::default(), |all, part| all + part.counters[number]);
        Some(port)
    };
    let ports = (0..count).map(port).collect::<Option<Vec<_>>>()?;
    let thread = |(thread, part): (usize, &Part)| {
        let own = || (0..count).filter(|&number| owner(number, threads) == thread);
        SwitchThreadStatus {
            interfaces: own().map(|number| ports[number].interface.clone()).collect(),
            frames_in: own().map(|number| part.counters[number].frames_in).sum(),
            frames_out: own().map(|number| part.counters[number].frames_out).sum(),
            crossing: part.crossing,
            sleeps: part.sleeps,
        }
    };
    let threads = parts.iter().enumerate().map(thread).collect();
    Some(SwitchStatus { ports, threads })
}

/// Warns if a link between switches cannot take the longest frames of hosts with a tag.
fn warn_of_mtus(ports: &[SwitchPortStatus], more: usize) {
    let hosts = ports.iter().filter(|port| port.role == Role::Host).filter_map(|port| port.mtu).max();
    let Some(hosts) = hosts else { return };
    for port in ports.iter().filter(|port| matches!(port.role, Role::Trunk { .. })) {
        if port.mtu.is_some_and(|mtu| mtu < hosts + more) {
            tracing::warn!(
                "{} leads to another switch, and its MTU is not {more} above that of hosts' ports: the longest \
                 frames are dropped; `ip link set {} mtu {}` at both ends helps",
                port.interface,
                port.interface,
                hosts + more
            );
        }
    }
}
