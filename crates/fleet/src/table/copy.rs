//! Copies the chunks of a folder to another place.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;

use super::Digest;
use super::source::{Source, SourceError};
use super::store::Store;

/// Chunks that are written at a time.
const AT_ONCE: usize = 8;
/// Pause between looks at the folder.
const LOOK: Duration = Duration::from_secs(1);

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Chunks that were not there.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks of the folder that are there now.
    pub there: u64,
}

/// Copies what `to` lacks. `known` are chunks that are there; those that are there now are added.
///
/// # Errors
/// The folder cannot be read, or the other place does not take a chunk. Others may have been copied.
pub async fn copy(from: &Store, to: &Source, known: &mut BTreeSet<Digest>) -> Result<Copied, SourceError> {
    let folder = |error| SourceError::Folder(from.folder().display().to_string(), error);
    let here = from.digests().map_err(folder)?;
    known.retain(|digest| here.contains(digest));
    let mut new = here.into_iter().filter(|digest| !known.contains(digest)).collect::<Vec<_>>().into_iter();
    let mut under_way: JoinSet<Result<(Digest, Option<u64>), SourceError>> = JoinSet::new();
    let mut copied = Copied::default();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(digest) = new.next()
        {
            // It may have gone meanwhile, or be damaged: it is no chunk then.
            let Some(bytes) = from.read(digest).map_err(folder)? else { continue };
            let to = to.clone();
            under_way.spawn(async move {
                let is_new = to.write(digest, &bytes).await?;
                Ok((digest, is_new.then_some(bytes.len() as u64)))
            });
        }
        let Some(done) = under_way.join_next().await else {
            copied.there = known.len() as u64;
            return Ok(copied);
        };
        let (digest, bytes) = done.map_err(|error| SourceError::Store(to.to_string(), error.to_string()))??;
        known.insert(digest);
        copied.chunks += u64::from(bytes.is_some());
        copied.bytes += bytes.unwrap_or(0);
    }
}

/// Copies what `to` lacks, and what comes later, until `stop` is ready. Tells of each look that copied something or failed.
pub async fn follow(
    from: &Store,
    to: &Source,
    stop: impl Future<Output = ()>,
    mut told: impl FnMut(Result<Copied, SourceError>),
) {
    let copying = async {
        let mut known = BTreeSet::new();
        loop {
            match copy(from, to, &mut known).await {
                Ok(Copied { chunks: 0, .. }) => {}
                copied => told(copied),
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = copying => {}
        () = stop => {}
    }
}
