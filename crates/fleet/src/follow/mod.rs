//! The agent with its connections: one to etcd, and one to the router.
//!
//! All of it runs as one task, on a runtime that has nothing else to do. Both sides share the state machine ([`Agent`]), and
//! neither waits for the other: while etcd is away, the router is still watched over, and the other way round.

mod batch;
mod files;
mod presence;
mod router;
mod strategies;
mod tables;
mod tags;
mod told;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byname_client::AsyncClient;
use byname_client::transport::Transport;
use thiserror::Error;
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::agent::{Agent, Event, Options};
use crate::etcd::messages::{Compare, RangeRequest, Response, TxnRequest, WatchResponse, put, read};
use crate::etcd::{Connection, Endpoints, EtcdError, Login};
use crate::key::Key;
use crate::value::{Report, Value};
pub use files::FileOptions;
use presence::Presence;
pub use tables::ChunkOptions;
pub(crate) use tables::stored;

/// Lease of `nodes/NODE`, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);
/// How often the agent asks for `want/head`.
const ASK: Duration = Duration::from_secs(1);
/// Time for the answer. A member that is cut off from the others has none. It is also the time to elect a leader.
const ASK_ANSWER: Duration = Duration::from_secs(2);
/// Shortest time between two reports.
const REPORT: Duration = Duration::from_millis(10);
/// Pauses between attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// How often the log says how stale the intent is, while etcd is away.
const SAY_STALE: Duration = Duration::from_secs(60);

/// Settings of an agent with its connections.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// Settings of the state machine.
    pub agent: Options,
    /// Where etcd is.
    pub etcd: Login,
    /// Where the router is: addresses to try in turn.
    pub router: Vec<Transport>,
    /// File that says which strategies the agent has set. Others are beside it: its lease, and which tags it has told.
    pub state: PathBuf,
    /// Where chunks of tables come from.
    pub chunks: ChunkOptions,
    /// Where files of tables go. `None`: this agent brings none. [`Options::takes_files`] says the same.
    pub files: Option<FileOptions>,
    /// How often it compares the router with what it knows.
    pub compare: Duration,
    /// Version of byname, for the report.
    pub version: String,
}

/// The agent cannot begin.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The state file cannot be used.
    #[error("cannot use the state file {}: {reason}; name another one with --state", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// What both sides share.
struct Shared {
    options: FollowOptions,
    agent: RefCell<Agent>,
    begun: Instant,
    /// There may be something to change in the router.
    work: Notify,
    /// There may be something to report.
    news: Notify,
    /// Everything must be read again.
    reread: Notify,
    /// Tables may be wanted.
    tables: Notify,
    /// The connection to the router, while there is one.
    client: RefCell<Option<AsyncClient>>,
    chunks_fetched: Cell<u64>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Lets the state machine take something in. Both sides then look what there is to do.
    fn tell<T>(&self, act: impl FnOnce(&mut Agent, u64) -> T) -> T {
        let result = act(&mut self.agent.borrow_mut(), self.now());
        self.work.notify_one();
        self.news.notify_one();
        self.tables.notify_one();
        result
    }

    fn report(&self) -> Report {
        let router = self.options.router.first().map(ToString::to_string).unwrap_or_default();
        let chunks_fetched = self.chunks_fetched.get();
        Report { version: self.options.version.clone(), router, chunks_fetched, ..self.agent.borrow().report() }
    }
}

/// Follows the intent until `stop` is ready.
///
/// # Errors
/// The agent cannot begin. Later failures are reported in the log, and it goes on.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time.
pub async fn follow(options: FollowOptions, stop: impl Future<Output = ()>) -> Result<(), FollowError> {
    let mut strategies = strategies::SetByFleet::open(&options.state)
        .map_err(|reason| FollowError::State { path: options.state.clone(), reason: reason.to_string() })?;
    let beside = |ending: &str| {
        let mut path = options.state.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    };
    let of = |path: &Path, error: io::Error| FollowError::State { path: path.to_owned(), reason: error.to_string() };
    let (lease, tags) = (beside(".lease"), beside(".tags"));
    let mut presence = Presence::open(&lease).map_err(|error| of(&lease, error))?;
    let mut told = told::Told::open(&tags).map_err(|error| of(&tags, error))?;
    let shared = Shared {
        agent: RefCell::new(Agent::new(options.agent.clone())),
        options,
        begun: Instant::now(),
        work: Notify::new(),
        news: Notify::new(),
        reread: Notify::new(),
        tables: Notify::new(),
        client: RefCell::new(None),
        chunks_fetched: Cell::new(0),
    };
    tokio::select! {
        () = follow_etcd(&shared, &mut presence) => {}
        () = router::serve(&shared, &mut strategies, &mut told) => {}
        () = tables::load(&shared) => {}
        () = say_stale(&shared) => {}
        () = stop => {}
    }
    Ok(())
}

/// Connects to one endpoint after the other, for ever.
async fn follow_etcd(shared: &Shared, presence: &mut Presence) {
    // Not all agents at the first one.
    let place = shared.options.agent.node.as_str().bytes().map(usize::from).sum();
    let mut endpoints = Endpoints::from_place(shared.options.etcd.clone(), place);
    let mut said = String::new();
    let mut cluster = None;
    let mut pause = PAUSE.0;
    loop {
        let error = match endpoints.connect().await {
            Ok(connection) => {
                let begun = Instant::now();
                let error = use_connection(shared, &connection, &mut cluster, presence, &mut said).await;
                if begun.elapsed() > PAUSE.1 {
                    pause = PAUSE.0;
                }
                error
            }
            Err(error) => error,
        };
        // Not the same line every few seconds.
        let text = error.to_string();
        if text != said {
            warn!("{text}; the router keeps what it has");
            said = text;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Uses a connection until it fails, and returns why.
async fn use_connection(
    shared: &Shared,
    connection: &Connection,
    cluster: &mut Option<u64>,
    presence: &mut Presence,
    said: &mut String,
) -> EtcdError {
    match ask(shared, connection).await {
        Ok(id) => {
            if cluster.replace(id).is_some_and(|before| before != id) {
                warn!("etcd is another cluster than before: reading the whole intent again");
                shared.tell(|agent, _| agent.restored());
            }
        }
        Err(error) => return error,
    }
    info!("connected to etcd at {}", connection.endpoint());
    said.clear();
    let result = tokio::select! {
        result = watch(shared, connection) => result,
        result = report(shared, connection, presence) => result,
        result = keep_asking(shared, connection) => result,
    };
    match result {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// What never exists: these loops end by errors only.
enum Never {}

async fn watch(shared: &Shared, connection: &Connection) -> Result<Never, EtcdError> {
    let want = shared.options.agent.space.want();
    loop {
        let from = shared.agent.borrow().watch_from();
        let Some(from) = from else {
            read_intent(shared, connection, &want).await?;
            continue;
        };
        let mut watch = connection.watch(&want, from).await?;
        loop {
            let response = tokio::select! {
                response = watch.next() => response,
                () = shared.reread.notified() => break,
            };
            match response {
                Ok(response) => {
                    let events = events_of(response);
                    shared.tell(|agent, now| agent.events(now, &events));
                }
                Err(EtcdError::Compacted { .. }) => {
                    info!("etcd has compacted what was not read yet: reading the whole intent again");
                    shared.tell(|agent, _| agent.compacted());
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

async fn read_intent(shared: &Shared, connection: &Connection, want: &[u8]) -> Result<(), EtcdError> {
    let all = match connection.read_all(want, shared.options.agent.keys_max).await {
        // While it was read. Once more.
        Err(EtcdError::Compacted { .. }) => return Ok(()),
        other => other?,
    };
    let revision = all.header.map_or(0, |header| header.revision);
    let key =
        |kv: crate::etcd::messages::KeyValue| Event { key: kv.key, value: Some(kv.value), revision: kv.mod_revision };
    let keys: Vec<Event> = all.kvs.into_iter().map(key).collect();
    info!("read the intent: {} keys, at revision {revision}", keys.len());
    shared.tell(|agent, now| agent.snapshot(now, revision, keys));
    Ok(())
}

fn events_of(response: WatchResponse) -> Vec<Event> {
    let event = |event: crate::etcd::messages::WatchEvent| {
        let kv = event.kv?;
        Some(Event { key: kv.key, value: (event.kind == 0).then_some(kv.value), revision: kv.mod_revision })
    };
    response.events.into_iter().filter_map(event).collect()
}

/// Asks for `want/head`. Returns the number of the cluster.
async fn ask(shared: &Shared, connection: &Connection) -> Result<u64, EtcdError> {
    let sent_at = shared.now();
    let key = shared.options.agent.space.key(&Key::Head);
    let answer = connection.range_within(RangeRequest { key, ..RangeRequest::default() }, ASK_ANSWER).await?;
    let revision = answer.kvs.first().map(|kv| kv.mod_revision);
    // Not `tell`: most answers change nothing.
    let mut agent = shared.agent.borrow_mut();
    let was_watching = agent.watch_from().is_some();
    agent.head_is(shared.now(), sent_at, revision);
    if was_watching && agent.watch_from().is_none() {
        warn!("etcd has a revision of the intent that the watch did not bring: reading the whole intent again");
        shared.reread.notify_one();
    }
    Ok(answer.header.map_or(0, |header| header.cluster_id))
}

async fn keep_asking(shared: &Shared, connection: &Connection) -> Result<Never, EtcdError> {
    loop {
        tokio::time::sleep(ASK).await;
        ask(shared, connection).await?;
    }
}

/// Writes `nodes/NODE` whenever there is news, under a lease.
async fn report(shared: &Shared, connection: &Connection, presence: &mut Presence) -> Result<Never, EtcdError> {
    let key = shared.options.agent.space.node(&shared.options.agent.node);
    let mut said_other = false;
    loop {
        // A new lease would have to wait until this agent's old one has ended.
        let mut lease = connection.resume_lease(presence.lease());
        if presence.lease() == 0 || !lease.renew().await? {
            lease = connection.lease(LEASE).await?;
            presence.begin(lease.id);
        }
        let mut written = None;
        let mut renewed = Instant::now();
        loop {
            let report = shared.report();
            if written.as_ref() != Some(&report) {
                let request = TxnRequest {
                    compare: vec![Compare::created_in(key.clone(), presence.created)],
                    success: vec![put(key.clone(), report.encode(), lease.id)],
                    // It may have been created, and the answer got lost.
                    failure: vec![read(key.clone())],
                };
                let answer = connection.transaction(request).await?;
                let mut there = answer.responses.into_iter().filter_map(|response| match response.response? {
                    Response::Range(range) => range.kvs.into_iter().next(),
                    _ => None,
                });
                if answer.succeeded {
                    if presence.created == 0 {
                        presence.created = answer.header.map_or(0, |header| header.revision);
                    }
                    written = Some(report);
                } else if let Some(own) = there.find(|kv| kv.lease == lease.id) {
                    presence.created = own.create_revision;
                    continue;
                } else if presence.created != 0 {
                    presence.begin(0);
                    break;
                } else if !said_other {
                    said_other = true;
                    warn!(
                        "another agent reports as {}, or did until a moment ago: this one follows the intent, and \
                         reports when the other's lease has ended",
                        shared.options.agent.node
                    );
                }
                tokio::time::sleep(REPORT).await;
            }
            let wait = if written.is_some() { RENEW.saturating_sub(renewed.elapsed()) } else { ASK };
            let _ = tokio::time::timeout(wait, shared.news.notified()).await;
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                if !lease.renew().await? {
                    presence.begin(0);
                    break;
                }
            }
        }
    }
}

/// Says in the log how old the intent is, as long as it may be old.
async fn say_stale(shared: &Shared) {
    loop {
        tokio::time::sleep(SAY_STALE).await;
        let stale_ms = shared.agent.borrow().stale_ms(shared.now());
        match stale_ms {
            Some(ms) if ms >= SAY_STALE.as_millis() as u64 => {
                warn!("the intent may be stale: nothing is known of etcd for {} s", ms / 1_000);
            }
            Some(_) => {}
            None => warn!("no intent could be read yet"),
        }
    }
}

/// What a file of the agent's has, if it exists. A file of more than `bytes_max` bytes is an error.
fn read_if_there(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if metadata.len() > bytes_max => {
            Err(io::Error::other(format!("it has more than {bytes_max} bytes")))
        }
        Ok(_) => fs::read_to_string(path).map(Some),
    }
}
