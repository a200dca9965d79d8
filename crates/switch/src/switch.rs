//! The flat switch: it forwards Ethernet frames by the key of their destination ([`key`](crate::key)), through a flat FIB's query half [Concise §3.1,
//! §6.4, §7.4].
//!
//! A table maps a key to a port. The query half stores no keys, and for an unknown key it returns an
//! arbitrary entry. So each entry has a checksum of its name beside the port (`lookup::flat::validity`) [Concise §7.3].
//! A frame to an unknown destination is dropped at the ingress and never flooded, except with probability 2^-24. A
//! frame that slips through is dropped later: by another switch, by its hop limit, or by the host that receives it.
//!
//! - Ports lead to *hosts* or, as *trunks*, to other switches. Frames on trunks have a tag of four bytes ([`frame`](crate::frame))
//!   with a hop limit. Tables of several switches change one after the other, and the hop limit ends loops in the
//!   meantime [Concise §7.4].
//! - Frames for groups, and for all, are flooded along a spanning tree of the switches, which the controller computes.
//!   The tag has the tree's epoch, and a switch with another tree drops the frame. While trees change, frames for
//!   groups may be lost, but they never loop.
//! - With the keys `vlan-mac` and `vxlan`, frames for groups stay in their VLAN or network, and ports to hosts carry
//!   those of the plan ([`PortSegments`]).
//! - A source that is not where the table has it is reported to the controller ([`Report`]). The controller learns
//!   hosts from reports, and moves them. The frame itself is forwarded.
//! - Frames to unknown destinations wait briefly for the table to learn these (`held`).
//!
//! The handling of a frame depends on the table, the plan, and this module's state about recent frames. There is no
//! clock, socket or thread here. Module `ports` moves the frames, with a [`Switch`] on each of its threads, and module
//! `control` has the controller.

#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::flat::validity::Check;
use byname_lookup::{EntryId, FlatFib};
use byname_wire::{Digest, NameHashKey};
use smallvec::SmallVec;

pub use crate::counters::{Drops, PortCounters, Reason};
use crate::frame::{Arrived, Frame, Tag};
use crate::held::Held;
use crate::key::KeyKind;
pub use crate::reports::Report;
use crate::reports::Reports;
pub use crate::role::Role;
use crate::segments::PortSegments;
use byname_forward::Ticks;

/// Maximum of frames in a burst; each may need two lookups.
pub const FRAMES_MAX: usize = BURST_MAX / 2;
/// Maximum of ports; their numbers are below this.
pub const PORTS_MAX: usize = NO_PORT as usize;
/// Stands for a port in the entry of a host that cannot be reached.
pub const NO_PORT: u8 = u8::MAX;
/// Bits of an entry that hold a port's number.
pub const ENTRY_BITS: u32 = 8;
/// Bits of the checksum beside the port's number.
pub const CHECK_BITS: u32 = 24;

/// The layout of ports and checksums in table entries.
pub fn check() -> Check {
    Check::new(ENTRY_BITS, CHECK_BITS)
}

/// The controller's decisions for one switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Epoch of the tree; two trees in a row have different ones.
    pub epoch: u8,
    /// Number of links between switches that a frame may cross.
    pub hop_limit: u8,
    /// Roles by port number.
    pub roles: Vec<Role>,
    /// Segments by port number. Ports that are left out have none.
    pub segments: Vec<PortSegments>,
}

/// What became of a frame that was to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Its port has it.
    Left,
    /// The thread that owns the port has it, and counts what becomes of it.
    Given,
}

/// Sends a frame's two parts (header and rest) on a port, or returns why the port does not take them.
pub type Send<'a> = dyn FnMut(usize, &[u8], &[u8]) -> Result<Sent, Reason> + 'a;

struct Table {
    key: NameHashKey,
    fib: Arc<dyn FlatFib>,
}

/// One switch.
pub struct Switch {
    kind: KeyKind,
    table: Option<Table>,
    plan: Plan,
    counters: Vec<PortCounters>,
    reports: Reports,
    held: Held,
    /// Scratch for one burst.
    lookups: Lookups,
}

/// Keys of a burst and their table entries.
#[derive(Default)]
struct Lookups {
    /// Names of keys, side by side.
    keys: Vec<u8>,
    digests: Vec<Digest>,
    found: Vec<Option<EntryId>>,
}

impl Switch {
    /// A switch that forwards by MAC addresses, and forwards nothing yet.
    ///
    /// # Panics
    /// If there are more than [`PORTS_MAX`] ports.
    pub fn new(ports: usize) -> Self {
        Switch::with_key(KeyKind::Mac, ports)
    }

    /// A switch that forwards by this kind of key, and forwards nothing yet.
    ///
    /// # Panics
    /// If there are more than [`PORTS_MAX`] ports.
    pub fn with_key(kind: KeyKind, ports: usize) -> Self {
        assert!(ports <= PORTS_MAX, "entries have eight bits");
        let (roles, segments) = (vec![Role::Closed; ports], vec![PortSegments::default(); ports]);
        Switch {
            kind,
            table: None,
            plan: Plan { epoch: 0, hop_limit: 0, roles, segments },
            counters: vec![PortCounters::default(); ports],
            reports: Reports::new(ports),
            held: Held::default(),
            lookups: Lookups::default(),
        }
    }

    /// Replaces the query half that frames are forwarded by. Its entries and checksums are laid out as in [`check`],
    /// for keys ([`Key::write`](crate::key::Key::write)) hashed under `key`. The old query half is not used any more.
    pub fn set_table(&mut self, key: NameHashKey, fib: Arc<dyn FlatFib>) {
        self.table = Some(Table { key, fib: check().query(fib) });
    }

    /// Sets the use of ports. Ports that the plan leaves out are closed.
    pub fn set_plan(&mut self, mut plan: Plan) {
        plan.roles.resize(self.counters.len(), Role::Closed);
        plan.segments.resize(self.counters.len(), PortSegments::default());
        self.plan = plan;
    }

    /// Counters of each port.
    pub fn counters(&self) -> &[PortCounters] {
        &self.counters
    }

    /// Role of each port.
    pub fn roles(&self) -> &[Role] {
        &self.plan.roles
    }

    /// Counts frames that were dropped before they reached the switch.
    pub fn count_drops(&mut self, port: usize, reason: Reason, frames: u64) {
        self.counters[port].drops[reason] += frames;
    }

    /// Counts a frame of this many bytes that was to leave by a port. Callers count frames that another thread gave
    /// them for their ports.
    pub fn count_sent(&mut self, to: usize, bytes: usize, sent: Result<Sent, Reason>) {
        let counters = &mut self.counters[to];
        match sent {
            Ok(Sent::Left) => {
                counters.frames_out += 1;
                counters.bytes_out += bytes as u64;
            }
            Ok(Sent::Given) => {}
            Err(reason) => counters.drops[reason] += 1,
        }
    }

    /// Takes the reports for the controller.
    pub fn take_reports(&mut self) -> impl Iterator<Item = Report> {
        self.reports.take()
    }

    /// Forwards a burst of frames that a port received.
    ///
    /// # Panics
    /// If there are more than [`FRAMES_MAX`] frames, or no such port.
    pub fn forward(&mut self, now: Ticks, from: usize, frames: &[Arrived<'_>], send: &mut Send<'_>) {
        assert!(frames.len() <= FRAMES_MAX);
        let (kind, role, segments) = (self.kind, self.plan.roles[from], &self.plan.segments[from]);
        let mut accepted = SmallVec::<[Frame<'_>; FRAMES_MAX]>::new();
        for arrived in frames {
            let counters = &mut self.counters[from];
            counters.frames_in += 1;
            counters.bytes_in += arrived.bytes.len() as u64;
            match Frame::accept(kind, role, segments, *arrived) {
                Ok(frame) => accepted.push(frame),
                Err(reason) => counters.drops[reason] += 1,
            }
        }
        let is_host = role == Role::Host;
        let keys = &mut self.lookups.keys;
        keys.clear();
        for frame in &accepted {
            if let Some(source) = frame.from(kind).filter(|_| is_host) {
                source.write(kind, keys);
            }
            if !frame.is_for_all() {
                frame.to(kind).write(kind, keys);
            }
        }
        self.look_up();
        let mut next = 0;
        for frame in &accepted {
            if let Some(source) = frame.from(kind).filter(|_| is_host) {
                self.check_source(now, Report { port: from, source }, next);
                next += 1;
            }
            let forwarded = if frame.is_for_all() {
                self.flood(from, frame, send)
            } else {
                next += 1;
                match self.lookups.found[next - 1] {
                    None if is_host && self.held.keep(now, from, frame) => Ok(()),
                    entry => self.unicast(from, frame, entry, send),
                }
            };
            if let Err(reason) = forwarded {
                self.counters[from].drops[reason] += 1;
            }
        }
    }

    /// Forwards or drops frames that waited for the table. Callers run this when the table has changed, and at
    /// [`Switch::next_deadline`].
    pub fn retry_held(&mut self, now: Ticks, send: &mut Send<'_>) {
        for held in self.held.take() {
            let Some(frame) = held.frame(self.kind) else { continue };
            self.lookups.keys.clear();
            frame.to(self.kind).write(self.kind, &mut self.lookups.keys);
            self.look_up();
            match self.lookups.found[0] {
                None if now < held.until => self.held.put_back(held),
                entry => {
                    if let Err(reason) = self.unicast(held.from, &frame, entry, send) {
                        self.counters[held.from].drops[reason] += 1;
                    }
                }
            }
        }
    }

    /// When the first waiting frame must be dropped.
    pub fn next_deadline(&self) -> Option<Ticks> {
        self.held.next_deadline()
    }

    /// Finds the entries of all keys; the memory reads of the burst overlap.
    fn look_up(&mut self) {
        let Lookups { keys, digests, found } = &mut self.lookups;
        let bytes = self.kind.name_bytes();
        let names = keys.len() / bytes;
        digests.resize(names, Digest::default());
        found.clear();
        found.resize(names, None);
        if let Some(Table { key, fib }) = &self.table {
            key.digest_fixed_burst(keys, bytes, digests);
            fib.entry_burst(digests, found);
        }
    }

    /// Reports a source that the table does not have at the port that heard it.
    fn check_source(&mut self, now: Ticks, report: Report, lookup: usize) {
        // A switch without a table has no controller yet.
        let from = report.port;
        if self.table.is_none() || self.lookups.found[lookup] == Some(EntryId(from as u32)) {
            return;
        }
        if !self.reports.note(now, self.lookups.digests[lookup], report) {
            self.counters[from].reports_suppressed += 1;
        }
    }

    fn unicast(
        &mut self,
        from: usize,
        frame: &Frame<'_>,
        entry: Option<EntryId>,
        send: &mut Send<'_>,
    ) -> Result<(), Reason> {
        let to = entry.ok_or(Reason::UnknownDestination)?.0 as usize;
        if to == from {
            return Err(Reason::SamePort);
        }
        match self.plan.roles.get(to) {
            Some(Role::Host) if !self.carries(to, frame) => return Err(Reason::WrongSegment),
            Some(Role::Host) => self.leave(to, frame, None, send),
            Some(Role::Trunk { .. }) => {
                let tag = self.next_tag(frame).ok_or(Reason::HopLimit)?;
                self.leave(to, frame, Some(tag), send);
            }
            Some(Role::Closed) | None => return Err(Reason::Unreachable),
        }
        Ok(())
    }

    /// Sends a frame to all hosts here, and onwards along the tree.
    fn flood(&mut self, from: usize, frame: &Frame<'_>, send: &mut Send<'_>) -> Result<(), Reason> {
        if let Some(tag) = frame.tag {
            let floods = self.plan.roles[from] == Role::Trunk { floods: true };
            if !floods || tag.epoch != self.plan.epoch {
                return Err(Reason::OtherTree);
            }
        }
        let tag = self.next_tag(frame);
        let mut ended = false;
        for to in (0..self.plan.roles.len()).filter(|&to| to != from) {
            match self.plan.roles[to] {
                Role::Host if self.carries(to, frame) => self.leave(to, frame, None, send),
                Role::Trunk { floods: true } if tag.is_some() => self.leave(to, frame, tag, send),
                Role::Trunk { floods: true } => ended = true,
                Role::Trunk { floods: false } | Role::Closed | Role::Host => {}
            }
        }
        if ended { Err(Reason::HopLimit) } else { Ok(()) }
    }

    /// The tag for a frame's next link between switches; `None` if its hop limit ends here.
    fn next_tag(&self, frame: &Frame<'_>) -> Option<Tag> {
        let tag = match frame.tag {
            Some(Tag { epoch, hop_limit }) => Tag { epoch, hop_limit: hop_limit.saturating_sub(1) },
            None => Tag { epoch: self.plan.epoch, hop_limit: self.plan.hop_limit },
        };
        (tag.hop_limit > 0).then_some(tag)
    }

    fn leave(&mut self, to: usize, frame: &Frame<'_>, tag: Option<Tag>, send: &mut Send<'_>) {
        let Some(header) = frame.header_at(self.kind, tag, &self.plan.segments[to]) else {
            return self.count_sent(to, 0, Err(Reason::TooLong));
        };
        let sent = send(to, &header, frame.rest);
        self.count_sent(to, header.len() + frame.rest.len(), sent);
    }

    /// Whether a port to hosts carries the segment of a frame.
    fn carries(&self, to: usize, frame: &Frame<'_>) -> bool {
        !self.kind.has_segments() || self.plan.segments[to].carry(frame.segment())
    }
}
