//! The server without I/O and without a clock: sessions, elections, the tables, and what the router still needs.
//!
//! Events go in: what clients ask, what the router has, how its changes went. [`Core::next_change`] says what to change in the
//! router, and [`Core::take_replies`] what to tell clients.
//!
//! - **Operations** are carried out at once, in their order: a reference must exist, and what is referred to cannot be deleted.
//!   So each operation has its first result before the next one is looked at.
//! - **Subjects** are what the router knows: a prefix, a flat name, a set of tags, and the label of each group that flat names
//!   use. An operation marks the subjects that it concerns. For each one, the core compares what should be with what is; it
//!   adds first, and removes when all was added. Operations that come meanwhile are coalesced.
//! - An operation is *programmed in FIB* when all of its subjects are as they should be, or were changed again since and are as
//!   they should be then.
//! - What the router refuses fails the operations that waited for it, and is tried again, up to every [`RETRY_MAX_MS`] ms.
//!
//! Cost: an operation on an entry looks at that entry; one on a group at all entries of the group.

mod sessions;
mod subjects;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use byname_wire::Name;

pub use sessions::{Ack, CloseReason, Params, Persistence};
pub use subjects::Change;
pub use tables::{Cursor, Listed, NextHopUse};

/// Longest pause before something refused is tried again, in ms.
pub const RETRY_MAX_MS: u64 = 5_000;
const RETRY_MIN_MS: u64 = 100;

/// Most of everything that clients can make. What exceeds a limit fails, and says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at a time.
    pub sessions_max: usize,
    /// Next-hops.
    pub next_hops_max: usize,
    /// Groups.
    pub groups_max: usize,
    /// Members of a group.
    pub members_max: usize,
    /// Entries of all kinds.
    pub entries_max: usize,
    /// Operations of one session that wait for the router. Its next requests are not read before there are fewer.
    pub waiting_max: usize,
    /// Changes that the router has not answered yet.
    pub in_flight_max: usize,
    /// So long after the start, what an earlier server has left in the router stays there, in ms.
    pub hold_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions_max: 16,
            next_hops_max: 65_536,
            groups_max: 65_536,
            members_max: 64,
            entries_max: 2_000_000,
            waiting_max: 65_536,
            in_flight_max: 16_384,
            hold_ms: 120_000,
        }
    }
}

/// A session of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What packets are told apart by, or the label of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Interests below a prefix.
    Prefix(Arc<Name>),
    /// A name in a flat namespace.
    Flat(Arc<Name>),
    /// Packets whose tags include these, which are sorted and distinct.
    Tags(Arc<[String]>),
    /// The name that flat names of this group are labelled with. No client's entry.
    Label(u64),
}

/// One thing that the router has for a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Atom {
    /// A route of a prefix or a label.
    Route {
        /// Address of the nexthop.
        uri: Arc<str>,
        /// Cost; lower is better.
        cost: u64,
        /// As in `byname_mgmt::route_flags`.
        flags: u64,
    },
    /// A flat name follows the label of this group.
    Label(u64),
    /// Packets with these tags go to this address.
    Tags(Arc<str>),
}

/// An operation of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The client's number for it.
    pub id: u64,
    /// What to do.
    pub verb: Verb,
    /// With what.
    pub entry: Entry,
    /// The client's election id.
    pub election_id: u128,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Makes an entry, or replaces it.
    Add,
    /// Replaces an entry that exists.
    Replace,
    /// Removes an entry, if it exists.
    Delete,
}

/// What an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A face of the router.
    NextHop {
        /// The key.
        index: u64,
        /// Address of the peer.
        uri: String,
    },
    /// A group of next-hops.
    Group {
        /// The key.
        id: u64,
        /// Indices of next-hops, and costs.
        members: Vec<(u64, u64)>,
    },
    /// An entry that leads to a group. The key is not [`Key::Label`].
    Route {
        /// The key.
        key: Key,
        /// Id of the group.
        group: u64,
        /// As in `byname_mgmt::route_flags`; 0 for flat names and tags.
        flags: u64,
    },
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing has changed, for this reason.
    Failed(Arc<str>),
    /// It is in the tables of the server.
    RibProgrammed,
    /// Packets are forwarded by it.
    FibProgrammed,
    /// The router has refused it for this reason, and is asked again.
    FibFailed(Arc<str>),
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Its parameters are accepted.
    Params(SessionId),
    /// The highest election id.
    Election(SessionId, u128),
    /// What became of the operation with this id.
    Result(SessionId, u64, Status),
    /// The session has ended. The core knows it no more.
    Close(SessionId, CloseReason),
    /// The flush with this number is done.
    Flushed(u64),
}

/// Who waits for the router.
#[derive(Debug)]
enum Who {
    Operation(SessionId, u64),
    Flush(u64),
}

/// An operation that has subjects which are not yet as they should be.
#[derive(Debug)]
struct Waiter {
    who: Who,
    /// Number of these subjects.
    subjects: usize,
    refused: Option<Arc<str>>,
}

/// The state machine. All times are in ms, of a clock that does not jump.
#[derive(Debug)]
pub struct Core {
    limits: Limits,
    hold_until: u64,

    sessions: BTreeMap<SessionId, sessions::Session>,
    next_session: u64,
    /// The highest election id, and who has told it last.
    highest: u128,
    primary: Option<SessionId>,

    next_hops: BTreeMap<u64, tables::NextHop>,
    groups: BTreeMap<u64, tables::Group>,
    subjects: BTreeMap<Key, subjects::Subject>,
    entries: usize,
    /// For each label, the number of flat names that should have it, and of those that have it.
    labels: HashMap<u64, usize>,

    waiters: HashMap<u64, Waiter>,
    next_waiter: u64,
    next_flush: u64,

    connected: bool,
    /// Number of the connection to the router.
    epoch: u64,
    queue: VecDeque<Key>,
    ready: VecDeque<Change>,
    in_flight: usize,
    retries: BTreeSet<(u64, Key)>,
    /// What an earlier server has left, until `hold_until`.
    held: HashSet<Key>,

    replies: Vec<Reply>,
}

impl Core {
    /// A server without clients, entries and a router.
    pub fn new(limits: Limits, now: u64) -> Self {
        Core {
            hold_until: now.saturating_add(limits.hold_ms),
            limits,
            sessions: BTreeMap::new(),
            next_session: 1,
            highest: 0,
            primary: None,
            next_hops: BTreeMap::new(),
            groups: BTreeMap::new(),
            subjects: BTreeMap::new(),
            entries: 0,
            labels: HashMap::new(),
            waiters: HashMap::new(),
            next_waiter: 1,
            next_flush: 1,
            connected: false,
            epoch: 0,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            in_flight: 0,
            retries: BTreeSet::new(),
            held: HashSet::new(),
            replies: Vec::new(),
        }
    }

    /// What clients are to be told, in its order.
    pub fn take_replies(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.replies)
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Number of entries that lead to groups.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are no such entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Begins to wait for subjects.
    fn wait(&mut self, who: Who) -> u64 {
        let number = self.next_waiter;
        self.next_waiter += 1;
        if let Who::Operation(session, id) = who
            && let Some(session) = self.sessions.get_mut(&session)
        {
            session.waiting.insert(id);
        }
        // One more than there are, until all subjects have been marked.
        self.waiters.insert(number, Waiter { who, subjects: 1, refused: None });
        number
    }

    /// One of a waiter's subjects is as it should be, or was refused for a reason.
    fn settle(&mut self, number: u64, refused: Option<&Arc<str>>) {
        let Some(waiter) = self.waiters.get_mut(&number) else { return };
        waiter.subjects -= 1;
        if let Some(reason) = refused {
            waiter.refused.get_or_insert_with(|| reason.clone());
        }
        if waiter.subjects > 0 {
            return;
        }
        let Some(Waiter { who, refused, .. }) = self.waiters.remove(&number) else { return };
        match who {
            Who::Flush(number) => self.replies.push(Reply::Flushed(number)),
            Who::Operation(session, id) => {
                // The session may have ended.
                if let Some(there) = self.sessions.get_mut(&session) {
                    there.waiting.remove(&id);
                    let status = refused.map_or(Status::FibProgrammed, Status::FibFailed);
                    self.replies.push(Reply::Result(session, id, status));
                }
            }
        }
    }
}
