//! The agent's side towards chunks: fetches those of tables that the intent names, and keeps them in a folder.
//!
//! A chunk comes from the folder if it is there, else from others through the router, else from folders of others, else from
//! object stores. Chunks that no table has any more are removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use byname_client::AsyncClient;
use byname_wire::Name;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::files::Making;
use super::{PAUSE, Shared};
use crate::intent::Wanted;
use crate::table::blocks::Blocks;
use crate::table::manifest::{Listed, Manifest};
use crate::table::source::Objects;
use crate::table::store::Store;
use crate::table::{Digest, Rows, chunk, named};

/// Chunks that are fetched at a time.
const FETCHED: usize = 8;

/// Where chunks come from.
#[derive(Debug, Clone)]
pub struct ChunkOptions {
    /// This agent's own chunks.
    pub own: Store,
    /// The network: chunks are below `/NETWORK/32=fleet`.
    pub network: Name,
    /// Folders of others, for when nobody answers in the network.
    pub others: Vec<Store>,
    /// Object stores, for when these do not have it, either.
    pub stores: Vec<Objects>,
    /// Most rows of all tables.
    pub rows_max: u64,
}

/// What fetches one chunk.
#[derive(Clone)]
pub(super) struct Fetcher {
    options: Arc<ChunkOptions>,
    client: Option<AsyncClient>,
}

impl Fetcher {
    /// A chunk or manifest, of so many bytes if that is known, and whether it was fetched from somebody else.
    pub(super) async fn get(&self, digest: Digest, bytes: Option<usize>) -> Result<(Vec<u8>, bool), String> {
        let own = &self.options.own;
        match own.read(digest) {
            Ok(Some(bytes)) => return Ok((bytes, false)),
            Ok(None) => {}
            Err(error) => warn!("{}: {error}", own.folder().display()),
        }
        let asked = match &self.client {
            Some(client) => named::fetch(client, &self.options.network, digest, bytes).await,
            None => Err("the router does not answer".to_owned()),
        };
        let bytes = match asked {
            Ok(bytes) => bytes,
            Err(why) => {
                let mut others = self.options.others.iter().filter_map(|other| other.read(digest).ok().flatten());
                match others.next() {
                    Some(bytes) => bytes,
                    None => stored(&self.options.stores, digest, why).await?,
                }
            }
        };
        // Another thread writes it: this one has other chunks to fetch and to serve.
        let own = own.clone();
        let kept = tokio::task::spawn_blocking(move || {
            if let Err(error) = own.write_copy(digest, &bytes) {
                // It is needed now in any case. After a restart, it is fetched once more.
                warn!("cannot keep a chunk in {}: {error}", own.folder().display());
            }
            bytes
        });
        kept.await.map(|bytes| (bytes, true)).map_err(|error| error.to_string())
    }
}

/// A chunk from an object store. `why` nobody else has it is the reason if no store has it.
pub(crate) async fn stored(stores: &[Objects], digest: Digest, mut why: String) -> Result<Vec<u8>, String> {
    for store in stores {
        match store.read(digest).await {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {}
            Err(error) => why = format!("{why}; {error}"),
        }
    }
    Err(why)
}

/// Fetches what is wanted, for ever.
pub(super) async fn load(shared: &Shared) {
    let (mut pause, mut said) = (PAUSE.0, String::new());
    let (mut kept, mut making) = (BTreeSet::new(), None);
    if let Some(options) = &shared.options.files {
        super::files::remove_parts(options);
    }
    loop {
        let wanted = shared.agent.borrow().wanted_tables();
        let Some(first) = wanted.first() else {
            let file = shared.agent.borrow().wanted_files().into_iter().next();
            if let Some(file) = file {
                if super::files::bring(shared, &file, &mut said).await {
                    pause = PAUSE.0;
                    making = making.or_else(|| Making::begin(shared, &file));
                } else {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                continue;
            }
            mirror(shared, &mut kept).await;
            pause = PAUSE.0;
            if !is_wanting(shared) {
                tokio::select! {
                    () = shared.tables.notified() => {}
                    result = Making::done(&mut making) => {
                        if let Some(making) = making.take() {
                            making.finish(shared, result);
                        }
                    }
                }
            }
            continue;
        };
        match rows(shared, first).await {
            Ok(rows) => {
                info!("table {}: {} rows are here", first.table, rows.len());
                (pause, said) = (PAUSE.0, String::new());
                shared.tell(|agent, now| agent.table(now, first, Ok(rows)));
            }
            Err(why) => {
                let text = format!("table {}: {why}; trying again", first.table);
                // Not the same line every few seconds.
                if text != said {
                    warn!("{text}");
                    said = text;
                }
                shared.tell(|agent, now| agent.table(now, first, Err(why)));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
}

fn is_wanting(shared: &Shared) -> bool {
    let agent = shared.agent.borrow();
    !agent.wanted_tables().is_empty() || !agent.wanted_files().is_empty()
}

async fn rows(shared: &Shared, wanted: &Wanted) -> Result<Rows, String> {
    let fetcher = fetcher(shared);
    let manifest = get(shared, &fetcher, wanted.manifest).await?;
    let manifest = Manifest::decode(wanted.manifest, &manifest).map_err(|error| format!("its manifest: {error}"))?;
    let rows_max = shared.options.chunks.rows_max;
    if manifest.rows() > rows_max {
        return Err(format!("it has {} rows, more than {rows_max} (see --rows-max)", manifest.rows()));
    }
    let mut rows = Rows::new();
    for (part, chunks) in manifest.chunks.chunks(FETCHED).enumerate() {
        let mut under_way = JoinSet::new();
        for (at, listed) in chunks.iter().enumerate() {
            let (fetcher, digest) = (fetcher.clone(), listed.digest);
            under_way.spawn(async move { (at, fetcher.get(digest, None).await) });
        }
        let mut got = vec![None; chunks.len()];
        while let Some(done) = under_way.join_next().await {
            let (at, result) = done.map_err(|error| error.to_string())?;
            let place = || format!("{} of {} chunks are here", part * FETCHED, manifest.chunks.len());
            let (bytes, is_new) = result.map_err(|why| format!("{}; {why}", place()))?;
            count(shared, is_new);
            got[at] = Some(bytes);
        }
        for (listed, bytes) in chunks.iter().zip(got) {
            let count = chunk::decode(listed.digest, &bytes.unwrap_or_default(), &mut rows);
            if count.map_err(|error| format!("chunk {}: {error}", listed.digest))? != listed.rows {
                return Err(format!("chunk {} has another number of rows than its manifest says", listed.digest));
            }
        }
        if !shared.agent.borrow().wanted_tables().contains(wanted) {
            return Err("another manifest is wanted".to_owned());
        }
    }
    crate::value::check_rows(&rows).map_err(|error| error.to_string())?;
    Ok(rows)
}

/// When tables have changed: fetches chunks that others may ask for, although deltas have led this node to the same state, and
/// removes those that no table has. Ends early if a table is wanted. What fails is tried again after the next change.
async fn mirror(shared: &Shared, kept: &mut BTreeSet<Digest>) {
    let store = &shared.options.chunks.own;
    let manifests: BTreeSet<Digest> = shared.agent.borrow().manifests().into_iter().collect();
    let lists: BTreeSet<Digest> = shared.agent.borrow().lists_of_blocks().into_iter().collect();
    let all: BTreeSet<Digest> = manifests.union(&lists).copied().collect();
    // Before the first intent is here, nothing is known.
    if all == *kept || shared.agent.borrow().watch_from().is_none() {
        return;
    }
    let mut wanted = all.clone();
    for digest in &lists {
        // They were fetched when the file was made. If it is not made here, nothing is kept.
        if let Ok(Some(bytes)) = store.read(*digest)
            && let Ok(blocks) = Blocks::decode(*digest, &bytes)
        {
            wanted.extend(blocks.digests);
        }
    }
    for digest in &manifests {
        let Ok(bytes) = get(shared, &fetcher(shared), *digest).await else { return };
        let Ok(manifest) = Manifest::decode(*digest, &bytes) else { return };
        for Listed { digest, .. } in manifest.chunks {
            wanted.insert(digest);
            let is_here = store.has(digest) || get(shared, &fetcher(shared), digest).await.is_ok();
            if !is_here || is_wanting(shared) {
                return;
            }
        }
    }
    match store.keep(&wanted) {
        Ok(0) => {}
        Ok(removed) => info!("removed {removed} chunks that no table has any more"),
        Err(error) => warn!("cannot remove old chunks in {}: {error}", store.folder().display()),
    }
    *kept = all;
}

pub(super) fn fetcher(shared: &Shared) -> Fetcher {
    Fetcher { options: Arc::new(shared.options.chunks.clone()), client: shared.client.borrow().clone() }
}

pub(super) async fn get(shared: &Shared, fetcher: &Fetcher, digest: Digest) -> Result<Vec<u8>, String> {
    let (bytes, is_new) = fetcher.get(digest, None).await?;
    count(shared, is_new);
    Ok(bytes)
}

pub(super) fn count(shared: &Shared, is_new: bool) {
    shared.chunks_fetched.set(shared.chunks_fetched.get() + u64::from(is_new));
}

/// Serves this agent's chunks by a connection, until it ends.
pub(super) async fn serve(options: Arc<ChunkOptions>, client: AsyncClient) {
    if let Err(error) = named::serve(&client, &options.own, &options.network).await {
        warn!("chunks of tables are not served to others: {error}");
    }
}
