//! The flat switch: Ethernet frames by destination address, through a flat FIB's query half
//! [Concise §3.1, §6.4, §7.4].
//!
//! A table leads from an address to a port. The query half keeps no addresses and answers arbitrarily
//! for such as nobody added, so each entry has a checksum of its name beside the port
//! (`lookup::flat::validity`) [Concise §7.3]: an unknown destination is dropped at the ingress, but for
//! odds of 2^-24, and floods nothing. A frame that slips through is dropped at a later switch, by its
//! hop limit, or by the host that it comes to.
//!
//! - Ports lead to *hosts* or, as *trunks*, to other switches. Frames on trunks have a tag of four
//!   octets ([`frame`]) with a hop limit: tables of several switches change one after the other, and
//!   what loops meanwhile ends [Concise §7.4].
//! - Frames for groups, and for all, are flooded along a spanning tree of the switches, which the
//!   controller draws. The tag has the tree's epoch, and a switch that knows another tree drops the
//!   frame: while trees change, frames for groups may be lost, but never go in circles.
//! - A source that is not where the table has it is reported to the controller ([`Report`]), which
//!   learns hosts from this and moves them. The frame goes its way.
//! - Frames to unknown destinations wait a little for the table to know them (`held`).
//!
//! What is done to a frame depends on the table, the plan, and what this module keeps of recent
//! frames; there is no clock, socket or thread here. `face::switch` moves the frames, `control::switch`
//! has the controller.

mod counters;
pub mod frame;
mod held;
mod reports;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::flat::validity::Check;
use byname_lookup::{EntryId, FlatFib};
use byname_wire::{Digest, NameHashKey};
use smallvec::SmallVec;

use crate::ticks::Ticks;
pub use counters::{Drops, PortCounters, Reason};
use frame::{Arrived, Frame, Tag};
use held::Held;
pub use reports::Report;
use reports::Reports;

/// Most frames in a burst: each may ask for two names.
pub const FRAMES_MAX: usize = BURST_MAX / 2;
/// Most ports, whose numbers are below this.
pub const PORTS_MAX: usize = NO_PORT as usize;
/// In place of a port, for a host that cannot be reached.
pub const NO_PORT: u8 = u8::MAX;
/// Bits of an entry: the number of a port.
pub const ENTRY_BITS: u32 = 8;
/// And of the checksum beside it.
pub const CHECK_BITS: u32 = 24;

/// How tables have ports and checksums in one.
pub fn check() -> Check {
    Check::new(ENTRY_BITS, CHECK_BITS)
}

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing yet.
    Closed,
    /// Hosts, and all that is no switch of this network.
    Host,
    /// Another switch.
    Trunk {
        /// The link is on the tree that frames for groups go along.
        floods: bool,
    },
}

/// What the controller has decided for one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Of the tree: no two trees in a row have the same.
    pub epoch: u8,
    /// How many links between switches a frame may cross.
    pub hop_limit: u8,
    /// By the port's number.
    pub roles: Vec<Role>,
}

/// A port takes a frame in two parts, or says why not.
pub type Send<'a> = dyn FnMut(usize, &[u8], &[u8]) -> Result<(), Reason> + 'a;

struct Table {
    key: NameHashKey,
    fib: Arc<dyn FlatFib>,
}

/// One switch.
pub struct Switch {
    table: Option<Table>,
    plan: Plan,
    counters: Vec<PortCounters>,
    reports: Reports,
    held: Held,
    /// Of one burst.
    lookups: Lookups,
}

/// Addresses of a burst, and what the table has for them.
#[derive(Default)]
struct Lookups {
    addresses: Vec<u8>,
    digests: Vec<Digest>,
    found: Vec<Option<EntryId>>,
}

impl Switch {
    /// A switch that forwards nothing yet.
    ///
    /// # Panics
    /// If there are more than [`PORTS_MAX`] ports.
    pub fn new(ports: usize) -> Self {
        assert!(ports <= PORTS_MAX, "entries have eight bits");
        Switch {
            table: None,
            plan: Plan { epoch: 0, hop_limit: 0, roles: vec![Role::Closed; ports] },
            counters: vec![PortCounters::default(); ports],
            reports: Reports::new(ports),
            held: Held::default(),
            lookups: Lookups::default(),
        }
    }

    /// Has frames forwarded by another query half, of entries and checksums as [`check`] has them, for
    /// addresses hashed under `key`. The one before is not looked at any more.
    pub fn set_table(&mut self, key: NameHashKey, fib: Arc<dyn FlatFib>) {
        self.table = Some(Table { key, fib: check().query(fib) });
    }

    /// Has ports used as the controller says. Ports beyond those that it knows are closed.
    pub fn set_plan(&mut self, mut plan: Plan) {
        plan.roles.resize(self.counters.len(), Role::Closed);
        self.plan = plan;
    }

    /// What each port has moved.
    pub fn counters(&self) -> &[PortCounters] {
        &self.counters
    }

    /// What each port is for.
    pub fn roles(&self) -> &[Role] {
        &self.plan.roles
    }

    /// Counts frames that were dropped before they came here.
    pub fn count_drops(&mut self, port: usize, reason: Reason, frames: u64) {
        self.counters[port].drops[reason] += frames;
    }

    /// Sources to tell the controller of.
    pub fn take_reports(&mut self) -> impl Iterator<Item = Report> {
        self.reports.take()
    }

    /// Forwards a burst of frames that came in at a port.
    ///
    /// # Panics
    /// If they are more than [`FRAMES_MAX`], or there is no such port.
    pub fn forward(&mut self, now: Ticks, from: usize, frames: &[Arrived<'_>], send: &mut Send<'_>) {
        assert!(frames.len() <= FRAMES_MAX);
        let role = self.plan.roles[from];
        let mut accepted = SmallVec::<[Frame<'_>; FRAMES_MAX]>::new();
        for arrived in frames {
            let counters = &mut self.counters[from];
            counters.frames_in += 1;
            counters.octets_in += arrived.octets.len() as u64;
            match accept(role, *arrived) {
                Ok(frame) => accepted.push(frame),
                Err(reason) => counters.drops[reason] += 1,
            }
        }
        let addresses = &mut self.lookups.addresses;
        addresses.clear();
        for frame in &accepted {
            if role == Role::Host {
                addresses.extend(frame.source.0);
            }
            if !frame.destination.is_group() {
                addresses.extend(frame.destination.0);
            }
        }
        self.look_up();
        let mut next = 0;
        for frame in &accepted {
            if role == Role::Host {
                self.check_source(now, from, frame, next);
                next += 1;
            }
            let forwarded = if frame.destination.is_group() {
                self.flood(from, frame, send)
            } else {
                next += 1;
                match self.lookups.found[next - 1] {
                    None if role == Role::Host && self.held.keep(now, from, frame) => Ok(()),
                    entry => self.unicast(from, frame, entry, send),
                }
            };
            if let Err(reason) = forwarded {
                self.counters[from].drops[reason] += 1;
            }
        }
    }

    /// To be called when the table has changed, and at [`Switch::next_deadline`]: forwards frames that
    /// waited for it, or drops them.
    pub fn retry_held(&mut self, now: Ticks, send: &mut Send<'_>) {
        for held in self.held.take() {
            let Some(frame) = Frame::parse(held.arrived()) else { continue };
            self.lookups.addresses.clear();
            self.lookups.addresses.extend(frame.destination.0);
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

    /// When a frame will have waited long enough.
    pub fn next_deadline(&self) -> Option<Ticks> {
        self.held.next_deadline()
    }

    /// Finds entries for all addresses, a burst of memory reads at once.
    fn look_up(&mut self) {
        let Lookups { addresses, digests, found } = &mut self.lookups;
        let names = addresses.len() / 6;
        digests.resize(names, Digest::default());
        found.clear();
        found.resize(names, None);
        if let Some(Table { key, fib }) = &self.table {
            key.digest_fixed_burst(addresses, 6, digests);
            fib.entry_burst(digests, found);
        }
    }

    /// Reports a source that the table does not have at the port where it was heard.
    fn check_source(&mut self, now: Ticks, from: usize, frame: &Frame<'_>, lookup: usize) {
        // Who has no table has no controller yet, and asks for none.
        if self.table.is_none() || self.lookups.found[lookup] == Some(EntryId(from as u32)) {
            return;
        }
        let report = Report { port: from, source: frame.source };
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
            Some(Role::Host) => self.leave(to, frame, None, send),
            Some(Role::Trunk { .. }) => {
                let tag = self.next_tag(frame).ok_or(Reason::HopLimit)?;
                self.leave(to, frame, Some(tag), send);
            }
            Some(Role::Closed) | None => return Err(Reason::Unreachable),
        }
        Ok(())
    }

    /// Sends a frame to all hosts here, and on along the tree.
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
                Role::Host => self.leave(to, frame, None, send),
                Role::Trunk { floods: true } if tag.is_some() => self.leave(to, frame, tag, send),
                Role::Trunk { floods: true } => ended = true,
                Role::Trunk { floods: false } | Role::Closed => {}
            }
        }
        if ended { Err(Reason::HopLimit) } else { Ok(()) }
    }

    /// The tag with which a frame goes to the next switch; `None`: not any further.
    fn next_tag(&self, frame: &Frame<'_>) -> Option<Tag> {
        let tag = match frame.tag {
            Some(Tag { epoch, hop_limit }) => Tag { epoch, hop_limit: hop_limit.saturating_sub(1) },
            None => Tag { epoch: self.plan.epoch, hop_limit: self.plan.hop_limit },
        };
        (tag.hop_limit > 0).then_some(tag)
    }

    fn leave(&mut self, to: usize, frame: &Frame<'_>, tag: Option<Tag>, send: &mut Send<'_>) {
        let header = frame.header(tag);
        let counters = &mut self.counters[to];
        match send(to, &header, frame.rest) {
            Ok(()) => {
                counters.frames_out += 1;
                counters.octets_out += (header.len() + frame.rest.len()) as u64;
            }
            Err(reason) => counters.drops[reason] += 1,
        }
    }
}

/// Takes a frame apart that came in at a port of this role, if such a one may.
fn accept(role: Role, arrived: Arrived<'_>) -> Result<Frame<'_>, Reason> {
    let frame = Frame::parse(arrived).ok_or(Reason::Malformed)?;
    match (role, frame.tag) {
        (Role::Closed, _) => Err(Reason::Closed),
        (Role::Trunk { .. }, None) => Err(Reason::Untagged),
        (Role::Host, Some(_)) => Err(Reason::TaggedByHost),
        (Role::Host, None) if frame::is_of_link(frame.destination) => Err(Reason::OfLink),
        (Role::Host, None) | (Role::Trunk { .. }, Some(_)) => Ok(frame),
    }
}
