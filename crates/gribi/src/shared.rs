//! What the two sides of a server share: the core, and what is on its way to sessions.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use byname_client::transport::Transport;
use tokio::sync::{Notify, oneshot};

use crate::convert;
use crate::core::{Change, CloseReason, Core, Reply, SessionId};
use crate::proto::{ModifyResponse, SessionParametersResult};

/// Most results in one response.
const RESULTS_MAX: usize = 4_096;

/// What the sides share.
pub(crate) struct Shared {
    /// Where the router is: addresses to try in turn.
    pub router: Vec<Transport>,
    /// How often to compare the router with what the core knows.
    pub compare: Duration,
    pub state: Mutex<State>,
    begun: Instant,
    /// There may be something to change in the router.
    pub work: Notify,
}

pub(crate) struct State {
    pub core: Core,
    pub sessions: HashMap<SessionId, Arc<Outgoing>>,
    pub flushes: HashMap<u64, oneshot::Sender<()>>,
}

/// What a session's client is to be told.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub queue: Mutex<Queue>,
    pub news: Notify,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub responses: VecDeque<ModifyResponse>,
    pub end: Option<CloseReason>,
}

/// A lock of values that are whole between any two statements.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Shared {
    pub fn new(core: Core, router: Vec<Transport>, compare: Duration) -> Self {
        let state = State { core, sessions: HashMap::new(), flushes: HashMap::new() };
        Shared { router, compare, state: state.into(), begun: Instant::now(), work: Notify::new() }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Lets the core take something in, and passes its replies on.
    pub fn tell<T>(&self, act: impl FnOnce(&mut Core, u64) -> T) -> T {
        let mut state = lock(&self.state);
        let result = act(&mut state.core, self.now());
        state.dispatch();
        self.work.notify_one();
        result
    }

    /// Asks the core.
    pub fn ask<T>(&self, ask: impl FnOnce(&Core, u64) -> T) -> T {
        ask(&lock(&self.state).core, self.now())
    }

    /// The next change of the router, if one is due.
    pub fn next_change(&self) -> Option<Change> {
        let mut state = lock(&self.state);
        let change = state.core.next_change(self.now());
        state.dispatch();
        change
    }
}

impl State {
    /// Passes on what the core replies.
    pub fn dispatch(&mut self) {
        let timestamp = now_ns();
        for reply in self.core.take_replies() {
            let (id, response) = match reply {
                Reply::Flushed(number) => {
                    if let Some(done) = self.flushes.remove(&number) {
                        // The client may be gone.
                        let _ = done.send(());
                    }
                    continue;
                }
                Reply::Close(id, reason) => {
                    if let Some(outgoing) = self.sessions.remove(&id) {
                        lock(&outgoing.queue).end = Some(reason);
                        outgoing.news.notify_one();
                    }
                    continue;
                }
                Reply::Result(id, operation, status) => {
                    let Some(outgoing) = self.sessions.get(&id) else { continue };
                    outgoing.result(convert::result(operation, status, timestamp));
                    continue;
                }
                Reply::Params(id) => {
                    let params_result = Some(SessionParametersResult {});
                    (id, ModifyResponse { params_result, ..ModifyResponse::default() })
                }
                Reply::Election(id, highest) => {
                    let election_id = Some(convert::halves(highest));
                    (id, ModifyResponse { election_id, ..ModifyResponse::default() })
                }
            };
            if let Some(outgoing) = self.sessions.get(&id) {
                lock(&outgoing.queue).responses.push_back(response);
                outgoing.news.notify_one();
            }
        }
    }
}

impl Outgoing {
    /// Adds a result to the last response, if that has only results and room for one more.
    fn result(&self, result: crate::proto::Result) {
        let mut queue = lock(&self.queue);
        match queue.responses.back_mut() {
            Some(last) if !last.result.is_empty() && last.result.len() < RESULTS_MAX => last.result.push(result),
            _ => queue.responses.push_back(ModifyResponse { result: vec![result], ..ModifyResponse::default() }),
        }
        drop(queue);
        self.news.notify_one();
    }
}
