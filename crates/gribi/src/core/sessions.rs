//! Sessions: their parameters, and which of them is primary.

use std::collections::HashSet;

use thiserror::Error;

use super::{Core, Key, Operation, Reply, SessionId, Status, Who};

/// What happens to entries when the primary client's session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistence {
    /// They are removed.
    #[default]
    Delete,
    /// They stay.
    Preserve,
}

/// Which results a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ack {
    /// That an entry is in the server's tables.
    #[default]
    Rib,
    /// And then that packets are forwarded by it.
    RibAndFib,
}

/// Parameters of a session. All sessions at a time have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Params {
    /// See [`Persistence`].
    pub persistence: Persistence,
    /// See [`Ack`].
    pub ack: Ack,
}

/// Why the server ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// There are too many.
    #[error("there are {0} sessions, as many as there may be")]
    TooMany(usize),
    /// Parameters were sent twice, or after operations.
    #[error("parameters may only be in the first request of a session")]
    ParamsTooLate,
    /// Other sessions have others.
    #[error("the parameters differ from those of other sessions, which have {0:?}")]
    ParamsDiffer(Params),
    /// The election id is 0.
    #[error("the election id must not be 0")]
    NoElectionId,
    /// The election id is lower than before.
    #[error("the election id has gone from {from} down to {to}; within a session, it only grows")]
    ElectionBackwards {
        /// Before.
        from: u128,
        /// Now.
        to: u128,
    },
}

/// A session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// `None`: nothing has come yet.
    params: Option<Params>,
    election: Option<u128>,
    /// Ids of operations that wait for the router.
    pub(super) waiting: HashSet<u64>,
}

impl Core {
    /// A client has begun a session.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(&mut self) -> Result<SessionId, CloseReason> {
        if self.sessions.len() >= self.limits.sessions_max {
            return Err(CloseReason::TooMany(self.sessions.len()));
        }
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(id, Session::default());
        Ok(id)
    }

    /// A session has ended, or the client is gone.
    pub fn closed(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if self.primary != Some(id) {
            return;
        }
        self.primary = None;
        if session.params.unwrap_or_default().persistence == Persistence::Delete {
            self.remove_all(None);
        }
    }

    /// Number of operations of a session that wait for the router.
    pub fn waiting(&self, id: SessionId) -> usize {
        self.sessions.get(&id).map_or(0, |session| session.waiting.len())
    }

    /// A client has sent parameters.
    pub fn params(&mut self, id: SessionId, params: Params) {
        let Some(session) = self.sessions.get(&id) else { return };
        if session.params.is_some() {
            return self.close(id, CloseReason::ParamsTooLate);
        }
        if self.begin(id, params) {
            self.replies.push(Reply::Params(id));
        }
    }

    /// Fixes the parameters of a session. Returns false if it had to be closed.
    fn begin(&mut self, id: SessionId, params: Params) -> bool {
        let others = self.sessions.iter().filter(|(other, _)| **other != id).find_map(|(_, session)| session.params);
        if let Some(others) = others.filter(|others| *others != params) {
            self.close(id, CloseReason::ParamsDiffer(others));
            return false;
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.params = Some(params);
        }
        true
    }

    /// Begins a session with the usual parameters, unless it has begun. Returns false if it is closed.
    fn has_begun(&mut self, id: SessionId) -> bool {
        match self.sessions.get(&id) {
            None => false,
            Some(session) if session.params.is_some() => true,
            Some(_) => self.begin(id, Params::default()),
        }
    }

    fn close(&mut self, id: SessionId, reason: CloseReason) {
        self.closed(id);
        self.replies.push(Reply::Close(id, reason));
    }

    /// A client has told its election id.
    pub fn election(&mut self, id: SessionId, election: u128) {
        if !self.has_begun(id) {
            return;
        }
        let before = self.sessions.get(&id).and_then(|session| session.election);
        if election == 0 {
            return self.close(id, CloseReason::NoElectionId);
        }
        if let Some(from) = before.filter(|before| *before > election) {
            return self.close(id, CloseReason::ElectionBackwards { from, to: election });
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.election = Some(election);
        }
        // The same id again is a client that has connected again.
        if election >= self.highest {
            (self.highest, self.primary) = (election, Some(id));
        }
        self.replies.push(Reply::Election(id, self.highest));
    }

    /// Why a client may not change anything. `None`: it may.
    fn not_primary(&self, id: SessionId, election: u128) -> Option<String> {
        let own = self.sessions.get(&id)?.election;
        match own {
            None => Some("tell an election id first".to_owned()),
            Some(own) if own != election => {
                Some(format!("the operation has the election id {election}, and the session has {own}"))
            }
            Some(own) if own < self.highest => {
                Some(format!("the primary client has the election id {}, and this one has {own}", self.highest))
            }
            Some(own) if self.primary != Some(id) => {
                Some(format!("another client has told the election id {own} later, and is primary"))
            }
            Some(_) => None,
        }
    }

    /// A client has sent an operation.
    pub fn operation(&mut self, id: SessionId, operation: Operation) {
        if !self.has_begun(id) {
            return;
        }
        let Some(session) = self.sessions.get(&id) else { return };
        let waits = session.params.unwrap_or_default().ack == Ack::RibAndFib;
        let of_client = operation.id;
        if session.waiting.contains(&of_client) {
            return self.fail(id, of_client, "an earlier operation with this id has no result yet".to_owned());
        }
        if let Some(why) = self.not_primary(id, operation.election_id) {
            return self.fail(id, of_client, why);
        }
        let concerned = match self.apply(operation.verb, operation.entry) {
            Ok(concerned) => concerned,
            Err(why) => return self.fail(id, of_client, why),
        };
        self.replies.push(Reply::Result(id, of_client, Status::RibProgrammed));
        let waiter = waits.then(|| self.wait(Who::Operation(id, of_client)));
        self.mark_all(concerned, waiter);
    }

    /// Answers an operation that could not be understood.
    pub fn malformed(&mut self, id: SessionId, of_client: u64, why: String) {
        if self.has_begun(id) {
            self.fail(id, of_client, why);
        }
    }

    fn fail(&mut self, id: SessionId, of_client: u64, why: String) {
        self.replies.push(Reply::Result(id, of_client, Status::Failed(why.into())));
    }

    /// Removes everything. `election`: the id of who asks; `None`: whoever it is. Returns the number of the flush;
    /// [`Reply::Flushed`] says when it is done.
    ///
    /// # Errors
    /// A higher election id is known: this one.
    pub fn flush(&mut self, election: Option<u128>) -> Result<u64, u128> {
        if let Some(_lower) = election.filter(|election| *election < self.highest) {
            return Err(self.highest);
        }
        let number = self.next_flush;
        self.next_flush += 1;
        let waiter = self.wait(Who::Flush(number));
        self.remove_all(Some(waiter));
        Ok(number)
    }

    fn remove_all(&mut self, waiter: Option<u64>) {
        self.next_hops.clear();
        self.groups.clear();
        self.entries = 0;
        let mut labels = Vec::new();
        for (key, subject) in &mut self.subjects {
            if let (Some(wanted), Key::Flat(_)) = (subject.wanted.take(), key) {
                labels.push(wanted.group);
            }
        }
        labels.into_iter().for_each(|group| self.unlabel(group));
        let all: Vec<Key> = self.subjects.keys().cloned().collect();
        self.held.clear();
        self.mark_all(all, waiter);
    }

    /// Marks subjects, for one who waits for them.
    fn mark_all(&mut self, concerned: Vec<Key>, waiter: Option<u64>) {
        for key in concerned {
            self.mark(key, waiter);
        }
        if let Some(waiter) = waiter {
            self.settle(waiter, None);
        }
    }
}
