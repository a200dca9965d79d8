//! What other threads of this process see of management, a part at a time: totals, pages of its tables, and what its
//! last commands were.

use byname_face::{FaceStatus, LinkTotals, ThreadStatus};
use byname_forward::FaceId;
use byname_forward::face_table::Scope;
use byname_forward::tables::Nexthop;
use byname_forward::worker::WorkerCounters;
use byname_lookup::EntryId;
use byname_wire::Name;

use super::tlv::ControlResponse;
use super::tlv::explain::RouteExplanation;
use super::{Management, Moment};
use crate::rib::Page;

/// URI of faces that belong to no port but to this process.
const GUEST_URI: &str = "internal://dashboard";

/// Numbers about the router as a whole. Reading them takes no longer if there are many faces or routes.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// When the router was started, in ms since the Unix epoch.
    pub started_unix_ms: u64,
    /// Now, in the same way.
    pub unix_ms: u64,
    /// Counters summed over all threads. Drops include those of ports and rings.
    pub counters: WorkerCounters,
    /// State of each packet thread.
    pub threads: Vec<ThreadStatus>,
    /// Routes in the RIB.
    pub routes: u64,
    /// Prefixes in the FIB.
    pub fib_entries: u64,
    /// Descriptors in the tag FIB.
    pub descriptors: u64,
    /// Prefix announcements in store.
    pub announcements: u64,
    /// The condition of the store of state, in words.
    pub state: String,
}

impl Management {
    /// Numbers about the router as a whole.
    pub fn totals(&self, now: Moment) -> Totals {
        Totals {
            started_unix_ms: self.started_unix_ms,
            unix_ms: now.unix_ms,
            counters: self.forwarder.counters(),
            threads: self.forwarder.thread_statuses(),
            routes: self.rib.len() as u64,
            fib_entries: self.fib.len() as u64,
            descriptors: self.tags.len() as u64,
            announcements: self.announcements() as u64,
            state: self.state.clone(),
        }
    }

    /// All faces, and the link counters of these and of those that are gone. Takes time for each face.
    pub fn all_faces(&self) -> (Vec<FaceStatus>, LinkTotals) {
        let faces = self.forwarder.faces();
        let links = self.forwarder.link_totals(&faces);
        (faces, links)
    }

    /// Local URIs of all listeners.
    pub fn channels(&self) -> Vec<String> {
        self.forwarder.channels()
    }

    /// The nexthops of a rule.
    pub fn nexthops(&self, group: EntryId) -> Vec<Nexthop> {
        self.fib.nexthops(group).to_vec()
    }

    /// Where an Interest for a name would go now, and why.
    ///
    /// # Errors
    /// If the forwarder is shutting down.
    pub fn explain(&self, name: &Name, now: Moment) -> Result<RouteExplanation, ControlResponse> {
        let mut element = Vec::new();
        byname_wire::tlv::push_tlv(&mut element, byname_wire::tlv::types::NAME, name.value());
        self.explain_route(&element, now)
    }

    /// Strategy choices of prefixes whose URIs contain `part`, without the first `skip` of these.
    pub fn strategy_choices(&self, part: &str, skip: usize, count_max: usize) -> Page<(Name, Name), usize> {
        let fits = |prefix: &Name| part.is_empty() || prefix.to_string().contains(part);
        let mut fitting = self.strategies.iter().filter(|(prefix, _)| fits(prefix)).skip(skip);
        let pair = |(prefix, strategy): (&Name, &Name)| (prefix.clone(), strategy.clone());
        let items: Vec<_> = fitting.by_ref().take(count_max).map(pair).collect();
        let next = fitting.next().map(|_| skip + items.len());
        Page { items, next }
    }

    /// Keeps the last `lines_max` lines about commands in memory; see [`Management::recent_commands`].
    pub fn remember_commands(&mut self, lines_max: usize) {
        self.audit.remember(lines_max);
    }

    /// The lines of the audit log after the one with the number `after`, as JSON, each with its number.
    pub fn recent_commands(&self, after: u64) -> Vec<(u64, String)> {
        self.audit.recent(after)
    }

    /// Lets commands come from a face that no port has announced.
    pub(crate) fn welcome_guest(&mut self, face: FaceId) {
        self.scopes.insert(face, Scope::Local);
        self.audit.name_face(face, GUEST_URI);
    }

    /// What the names of management begin with.
    pub(crate) fn own_name(&self) -> Name {
        self.prefixes[0].clone()
    }
}
