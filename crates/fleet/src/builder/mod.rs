//! The builder of a fleet: makes files of tables, for routers that do not have the names.
//!
//! Builders have an election of their own: the key `builder`, with a lease. Each transaction of a builder has the condition
//! that this very key still exists, as those of writers have. The leader follows the tables, makes the file of each one that has changed, cuts it
//! into blocks, and writes `want/built/TABLE`. Agents then fetch the blocks that they do not have.
//!
//! After that, a builder keeps the table with its names, if there is memory, and a change costs as much as what changes ([`live`]).
//!
//! Whoever becomes the leader takes over what is built already. If nobody has the blocks of a file any more, it makes them again.

mod file;
pub mod live;
pub mod make;
pub mod plan;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_client::transport::Transport;
use byname_client::{AsyncClient, ClientOptions};
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::etcd::messages::{Compare, KeyValue, RangeRequest, TxnRequest, put};
use crate::etcd::{Connection, Endpoints, EtcdError, Lease, Login, Watch};
use crate::follow::{ChunkOptions, stored};
use crate::key::{Key, Space};
use crate::label::Label;
use crate::table::blocks::Blocks;
use crate::table::manifest::Manifest;
use crate::table::{Digest, named};
use crate::value::{BuilderReport, BuiltHead, FORMAT, Head, Value};
use file::{BUILDING, Built, build_file, local};
use live::Kept;
use plan::{Job, Plan};

/// Lease of `builder`, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);
/// How often a builder without the lead looks whether it is free.
const LOOK: Duration = Duration::from_millis(500);
/// Pauses between attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// After so long without a revision that etcd has, the watch counts as lost.
const BEHIND: Duration = Duration::from_secs(3);

/// Settings of a builder.
#[derive(Debug, Clone)]
pub struct BuilderOptions {
    /// The keys of the fleet.
    pub space: Space,
    /// Where etcd is.
    pub etcd: Login,
    /// Where the router is, through which chunks are fetched and served.
    pub router: Vec<Transport>,
    /// Where chunks of tables come from, and where blocks go: [`ChunkOptions::own`] is this builder's alone.
    pub chunks: ChunkOptions,
    /// A table is built so long after its last change.
    pub pause: Duration,
    /// Memory for tables that are kept with their names, in bytes. Others are built whole for each change.
    pub names_bytes_max: usize,
    /// Who this is, for people.
    pub by: String,
}

/// What the parts of a builder share.
struct Shared {
    options: BuilderOptions,
    client: RefCell<Option<AsyncClient>>,
    begun: Instant,
    /// A thread may still have it when this builder does not lead any more.
    kept: Arc<Kept>,
}

/// The reason why a builder does not lead any more.
#[derive(Debug, Error)]
enum Ended {
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    #[error("the lead was lost, because this builder was silent for more than {} s", LEASE.as_secs())]
    Fenced,
    #[error("etcd has a revision of the intent that the watch did not bring")]
    Behind,
}

/// Builds until `stop` is ready.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time.
pub async fn build(options: BuilderOptions, stop: impl Future<Output = ()>) {
    let folder = options.chunks.own.folder();
    if let Err(error) = remove_unfinished(folder) {
        warn!("cannot remove what was left half-built in {}: {error}", folder.display());
    }
    let kept = Arc::new(Kept::new(options.names_bytes_max));
    let shared = Shared { options, client: RefCell::new(None), begun: Instant::now(), kept };
    tokio::select! {
        () = serve(&shared) => {}
        () = lead_for_ever(&shared) => {}
        () = stop => {}
    }
}

/// Removes files that a builder was killed over. They have the secret, and are of no use.
fn remove_unfinished(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(BUILDING) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Serves blocks and chunks through the router, for ever.
async fn serve(shared: &Shared) {
    let mut said = String::new();
    loop {
        let mut options = ClientOptions::new(shared.options.router.clone());
        options.session.outage_max = Duration::MAX;
        let why = match AsyncClient::connect(options).await {
            Ok(client) => {
                *shared.client.borrow_mut() = Some(client.clone());
                let ChunkOptions { own, network, .. } = &shared.options.chunks;
                info!("serving {} below {}", own.folder().display(), named::prefix(network));
                let result = named::serve(&client, own, network).await;
                *shared.client.borrow_mut() = None;
                result.map_or_else(|error| error.to_string(), |()| "it has ended".to_owned())
            }
            Err(error) => error.to_string(),
        };
        // Not the same line every few seconds.
        if why != said {
            warn!("the router: {why}; trying again");
            said = why;
        }
        tokio::time::sleep(PAUSE.1).await;
    }
}

async fn lead_for_ever(shared: &Shared) {
    let mut endpoints = Endpoints::new(shared.options.etcd.clone());
    let (mut said, mut pause) = (String::new(), PAUSE.0);
    loop {
        let begun = Instant::now();
        let result = match endpoints.connect().await {
            Ok(connection) => use_connection(shared, &connection).await,
            Err(error) => Err(error.into()),
        };
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        if let Err(ended) = result {
            let text = ended.to_string();
            if text != said {
                warn!("{text}; routers keep the tables that they have");
                said = text;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Waits for the lead, and leads.
async fn use_connection(shared: &Shared, connection: &Connection) -> Result<(), Ended> {
    let lease = connection.lease(LEASE).await?;
    let (key, mut renewed, mut said) = (shared.options.space.builder(), Instant::now(), false);
    let report = BuilderReport { by: shared.options.by.clone(), waits: None };
    let created = loop {
        let request = TxnRequest {
            compare: vec![Compare::created_in(key.clone(), 0)],
            success: vec![put(key.clone(), report.encode(), lease.id)],
            failure: Vec::new(),
        };
        let answer = connection.transaction(request).await?;
        if answer.succeeded {
            break answer.header.map_or(0, |header| header.revision);
        }
        if !std::mem::replace(&mut said, true) {
            info!("another builder leads; this one stands by");
        }
        tokio::time::sleep(LOOK).await;
        if renewed.elapsed() >= RENEW {
            renewed = Instant::now();
            if !lease.renew().await? {
                return Ok(());
            }
        }
    };
    info!("this builder leads, by etcd at {}", connection.endpoint());
    let plan = Plan::new(shared.options.space.clone(), shared.options.pause.as_millis() as u64);
    let mut leader = Leader { shared, connection, lease, renewed, created, report, plan, older: BTreeMap::new() };
    let result = leader.lead().await;
    // If this fails, the lease ends by itself.
    let _ = leader.lease.revoke().await;
    result
}

/// The builder that leads.
struct Leader<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    lease: Lease,
    renewed: Instant,
    /// Revision in which it created its key.
    created: i64,
    report: BuilderReport,
    plan: Plan,
    /// Lists of the files before the present ones: agents may be fetching their blocks.
    older: BTreeMap<Label, Digest>,
}

/// What a thread has made. `None`: what was kept is of no use, and the table must be built whole.
type Outcome = Result<Option<BuiltHead>, String>;

/// What a thread is to do.
enum How {
    /// Change the table as it is kept.
    Change,
    /// Build it whole. The file before has these blocks, if that is known.
    Build(Option<Blocks>),
}

/// A thread at work. It tells one outcome, and may go on for a while to keep what it has made.
struct Work {
    job: Job,
    outcome: mpsc::UnboundedReceiver<Outcome>,
    has_told: bool,
}

impl Leader<'_> {
    async fn lead(&mut self) -> Result<(), Ended> {
        let (mut watch, mut seen) = self.read().await?;
        self.look_for_blocks().await?;
        let mut under_way: Option<Work> = None;
        let mut behind = None;
        loop {
            if under_way.is_none()
                && let Some(job) = self.plan.next(self.now())
            {
                match self.begin(&job).await? {
                    Ok(outcome) => under_way = Some(Work { job, outcome, has_told: false }),
                    Err(why) => self.failed(&job.table, why),
                }
                continue;
            }
            self.tell().await?;
            let wake = self.plan.wake().filter(|_| under_way.is_none());
            let wake = wake.map_or(RENEW, |at| Duration::from_millis(at.saturating_sub(self.now()).max(1)));
            let wait = wake.min(RENEW.saturating_sub(self.renewed.elapsed()));
            let made = async {
                match &mut under_way {
                    Some(work) => work.outcome.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                made = made => {
                    let Some(mut work) = under_way.take() else { continue };
                    let has_told = std::mem::replace(&mut work.has_told, true);
                    match made {
                        Some(Ok(Some(head))) => {
                            self.publish(&work.job, head).await?;
                            under_way = Some(work);
                        }
                        Some(Err(why)) => self.failed(&work.job.table, why),
                        None if !has_told => self.failed(&work.job.table, "the thread that builds has ended".to_owned()),
                        // It is due as before, or the thread has done all.
                        Some(Ok(None)) | None => {}
                    }
                }
                response = watch.next() => {
                    let response = response?;
                    seen = seen.max(response.header.map_or(0, |header| header.revision));
                    for event in response.events {
                        let Some(kv) = event.kv else { continue };
                        if event.kind == 0 { self.take(&kv) } else { self.plan.delete(self.now(), &kv.key) }
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            if self.renew().await? {
                let tables = self.plan.heads().filter_map(|(table, head, _)| head.map(|_| table));
                self.shared.kept.forget_others(&tables.collect());
                // A watch can be lost, and nobody says so.
                let key = self.shared.options.space.key(&Key::Head);
                let head = self.connection.range(RangeRequest { key, ..RangeRequest::default() }).await?;
                let there = head.kvs.first().map_or(0, |kv| kv.mod_revision);
                if there <= seen {
                    behind = None;
                } else if behind.get_or_insert_with(Instant::now).elapsed() >= BEHIND {
                    return Err(Ended::Behind);
                }
            }
        }
    }

    /// Renews the lease if it is time, and returns whether it was.
    async fn renew(&mut self) -> Result<bool, Ended> {
        if self.renewed.elapsed() < RENEW {
            return Ok(false);
        }
        self.renewed = Instant::now();
        if self.lease.renew().await? { Ok(true) } else { Err(Ended::Fenced) }
    }

    fn now(&self) -> u64 {
        self.shared.begun.elapsed().as_millis() as u64
    }

    fn take(&mut self, kv: &KeyValue) {
        if let Err(why) = self.plan.put(self.now(), &kv.key, &kv.value, kv.create_revision) {
            warn!("{why}; the table stays as it is");
        }
    }

    fn failed(&mut self, table: &Label, why: String) {
        warn!("table {table}: {why}; trying again");
        self.plan.done(self.now(), table, Err(why));
    }

    /// Reads all tables and what is built, and watches from there.
    async fn read(&mut self) -> Result<(Watch, i64), EtcdError> {
        let mut revision = i64::MAX;
        for of in ["tables/", "built/"] {
            let prefix = [self.shared.options.space.want(), of.as_bytes().to_vec()].concat();
            let all = self.connection.read_all(&prefix, usize::MAX).await?;
            revision = revision.min(all.header.map_or(0, |header| header.revision));
            all.kvs.iter().for_each(|kv| self.take(kv));
        }
        self.plan.all_is_old();
        let want = self.shared.options.space.want();
        Ok((self.connection.watch(&want, revision.saturating_add(1)).await?, revision))
    }

    /// Fetches the blocks of files that are built, to serve them. A file without them is built again.
    async fn look_for_blocks(&mut self) -> Result<(), Ended> {
        let current: Vec<(Label, BuiltHead)> =
            self.plan.current().map(|(table, head)| (table.clone(), head.clone())).collect();
        for (table, head) in current {
            let list = self
                .get(head.blocks)
                .await
                .and_then(|bytes| Blocks::decode(head.blocks, &bytes).map_err(|error| error.to_string()));
            let mut missing = list.as_ref().err().cloned();
            for digest in list.into_iter().flat_map(|list| list.digests) {
                self.renew().await?;
                missing = self.get(digest).await.err();
                if missing.is_some() {
                    break;
                }
            }
            match missing {
                None => info!("table {table}: taken over as it is built"),
                Some(why) => {
                    info!("table {table}: nobody has all blocks of its file ({why}), so it is built again");
                    self.plan.lost(&table);
                }
            }
        }
        Ok(())
    }

    /// A chunk or block, from wherever it is. It is in the own folder or in that of others then.
    async fn get(&self, digest: Digest) -> Result<Vec<u8>, String> {
        let ChunkOptions { own, network, others, stores, .. } = &self.shared.options.chunks;
        if let Some(bytes) = local(own, others, digest)? {
            return Ok(bytes);
        }
        let client = self.shared.client.borrow().clone();
        let asked = match client {
            Some(client) => named::fetch(&client, network, digest, None).await,
            None => Err(format!("{digest} is in no folder, and the router does not answer")),
        };
        let bytes = match asked {
            Ok(bytes) => bytes,
            Err(why) => stored(stores, digest, why).await?,
        };
        own.write(digest, &bytes).map_err(|error| format!("{}: {error}", own.folder().display()))?;
        Ok(bytes)
    }

    /// Begins to build in a thread. Unless the table is kept, its chunks are brought here before.
    async fn begin(&mut self, job: &Job) -> Result<Result<mpsc::UnboundedReceiver<Outcome>, String>, Ended> {
        if self.shared.kept.follows(job) {
            return Ok(self.start(job, How::Change));
        }
        let manifest = self.get(job.head.manifest).await;
        let manifest =
            manifest.and_then(|bytes| Manifest::decode(job.head.manifest, &bytes).map_err(|error| error.to_string()));
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(why) => return Ok(Err(format!("its manifest: {why}"))),
        };
        for (at, listed) in manifest.chunks.iter().enumerate() {
            self.renew().await?;
            if let Err(why) = self.get(listed.digest).await {
                return Ok(Err(format!("{at} of {} chunks are here; {why}", manifest.chunks.len())));
            }
        }
        // Without it, groups get other numbers, and more blocks are new.
        let before = match &job.before {
            Some(before) => {
                self.get(before.blocks).await.ok().and_then(|list| Blocks::decode(before.blocks, &list).ok())
            }
            None => None,
        };
        Ok(self.start(job, How::Build(before)))
    }

    /// Starts a thread.
    fn start(&self, job: &Job, how: How) -> Result<mpsc::UnboundedReceiver<Outcome>, String> {
        let ChunkOptions { own, others, .. } = self.shared.options.chunks.clone();
        let (done, outcome) = mpsc::unbounded_channel();
        let (job, kept) = (job.clone(), self.shared.kept.clone());
        let work = move || {
            // Whoever waits may be gone, here and below.
            let tell = |outcome| drop(done.send(outcome));
            let before = match how {
                How::Change => return tell(Ok(kept.change(&job, &own))),
                How::Build(before) => {
                    kept.forget(&job.table);
                    before
                }
            };
            let read =
                |digest| local(&own, &others, digest)?.ok_or_else(|| format!("chunk {digest} is gone, or damaged"));
            match build_file(&job, &own, &read, before.as_ref()) {
                Ok(Built { head, blocks, path }) => {
                    tell(Ok(Some(head.clone())));
                    kept.keep(&job, (head, blocks, &path.0), &read);
                }
                Err(why) => tell(Err(why)),
            }
        };
        let thread = std::thread::Builder::new().name("build".to_owned()).spawn(work);
        thread.map(|_| outcome).map_err(|error| format!("cannot start a thread: {error}"))
    }

    /// Writes the head of a file, if this builder still leads and the table still exists.
    async fn publish(&mut self, job: &Job, head: BuiltHead) -> Result<(), Ended> {
        let space = &self.shared.options.space;
        let by = Head { format: FORMAT, by: self.report.by.clone() };
        let request = TxnRequest {
            compare: vec![
                Compare::created_in(space.builder(), self.created),
                Compare::created_in(space.key(&Key::Table(job.table.clone())), job.created),
            ],
            success: vec![
                put(space.key(&Key::Built(job.table.clone())), head.encode(), 0),
                put(space.key(&Key::Head), by.encode(), 0),
            ],
            failure: Vec::new(),
        };
        let answer = self.connection.transaction(request).await?;
        if !answer.succeeded {
            if !self.leads().await? {
                return Err(Ended::Fenced);
            }
            // It was dropped. The watch says so, too.
            self.failed(&job.table, "it was dropped while it was built".to_owned());
            return Ok(());
        }
        let blocks = job.before.as_ref().map(|before| before.blocks).filter(|before| *before != head.blocks);
        if let Some(before) = blocks {
            self.older.insert(job.table.clone(), before);
        }
        self.plan.done(self.now(), &job.table, Ok(head));
        self.clean();
        Ok(())
    }

    async fn leads(&self) -> Result<bool, EtcdError> {
        let key = self.shared.options.space.builder();
        let answer = self.connection.range(RangeRequest { key, ..RangeRequest::default() }).await?;
        Ok(answer.kvs.first().is_some_and(|kv| kv.create_revision == self.created))
    }

    /// Tells in etcd what this builder waits for, if that is new.
    async fn tell(&mut self) -> Result<(), Ended> {
        let waits = self.plan.failure();
        if waits == self.report.waits {
            return Ok(());
        }
        self.report.waits = waits;
        let key = self.shared.options.space.builder();
        let request = TxnRequest {
            compare: vec![Compare::created_in(key.clone(), self.created)],
            success: vec![put(key, self.report.encode(), self.lease.id)],
            failure: Vec::new(),
        };
        if self.connection.transaction(request).await?.succeeded { Ok(()) } else { Err(Ended::Fenced) }
    }

    /// Removes chunks and blocks that no table needs.
    fn clean(&self) {
        let store = &self.shared.options.chunks.own;
        let mut wanted = BTreeSet::new();
        let mut keep_list = |digest: Digest| {
            wanted.insert(digest);
            let list = store.read(digest).ok().flatten().and_then(|bytes| Blocks::decode(digest, &bytes).ok());
            wanted.extend(list.into_iter().flat_map(|list| list.digests));
        };
        self.older.values().copied().for_each(&mut keep_list);
        for built in self.plan.heads().filter_map(|(_, _, built)| built) {
            keep_list(built.blocks);
            if let Some(patch) = &built.patch {
                keep_list(patch.patch);
            }
        }
        for head in self.plan.heads().filter_map(|(_, head, _)| head) {
            wanted.insert(head.manifest);
            let manifest = store.read(head.manifest).ok().flatten();
            let manifest = manifest.and_then(|bytes| Manifest::decode(head.manifest, &bytes).ok());
            wanted.extend(manifest.into_iter().flat_map(|manifest| manifest.chunks).map(|listed| listed.digest));
        }
        if let Err(error) = store.keep(&wanted) {
            warn!("cannot remove old blocks in {}: {error}", store.folder().display());
        }
    }
}
