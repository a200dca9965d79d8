//! Builds a file whole, and cuts it into blocks.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use byname_lookup::file::secret::Secret;
use tracing::info;

use super::make::{Source, make, new_key};
use super::plan::Job;
use crate::table::Digest;
use crate::table::blocks::{BLOCK_BYTES, Blocks};
use crate::table::patch::Patch;
use crate::table::store::Store;
use crate::table::writing::{New, Writing};
use crate::value::{BuiltHead, FromBefore};

/// What names of files end with that are being built.
pub(super) const BUILDING: &str = ".building";

/// A chunk from a folder of this host.
pub(super) fn local(own: &Store, others: &[Store], digest: Digest) -> Result<Option<Vec<u8>>, String> {
    for store in std::iter::once(own).chain(others) {
        match store.read(digest) {
            Ok(Some(bytes)) => return Ok(Some(bytes)),
            Ok(None) => {}
            Err(error) => return Err(format!("{}: {error}", store.folder().display())),
        }
    }
    Ok(None)
}

/// A file that was built whole.
pub(super) struct Built {
    pub(super) head: BuiltHead,
    pub(super) blocks: Blocks,
    pub(super) path: Scratch,
}

/// Makes a file and its blocks, of chunks that `read` gives.
pub(super) fn build_file(
    job: &Job,
    own: &Store,
    read: &(dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync),
    before: Option<&Blocks>,
) -> Result<Built, String> {
    let begun = Instant::now();
    let source = Source::open(job, read)?;
    let key = match &job.before {
        Some(before) => before.secret.key().map_err(|error| error.to_string())?,
        None => new_key(),
    };
    // It has the secret, and goes when its blocks are there.
    // A thread that has begun before this builder led again may still be at work.
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    let path = Scratch(own.folder().join(format!("{}.{number}{BUILDING}", job.table)));
    let labels = before.map_or(&[][..], |before| &before.labels);
    let made = make(job, &source, &key, labels, &path.0)?;
    let in_file = begun.elapsed();
    let Cut { secret, blocks, new, patch } = cut(&path.0, own, made.labels, before)?;
    let write = |bytes: &[u8]| -> Result<Digest, String> {
        let digest = Digest::of(bytes);
        own.write(digest, bytes).map_err(|error| format!("{}: {error}", own.folder().display()))?;
        Ok(digest)
    };
    let list = blocks.encode().map_err(|error| error.to_string())?;
    let digest = write(&list)?;
    let patch = match (&job.before, patch.map(|patch| patch.encode()).filter(|patch| patch.len() < new.bytes / 2)) {
        (Some(before), Some(patch)) if before.blocks != digest => {
            info!("table {}: a patch of {} bytes leads to its next file", job.table, patch.len());
            Some(FromBefore { blocks: before.blocks, patch: write(&patch)? })
        }
        _ => None,
    };
    info!(
        "table {}: {} rows built in {} ms, a file of {} bytes; {} of {} blocks are new, with {} bytes; {} ms in all",
        job.table,
        made.rows,
        in_file.as_millis(),
        blocks.bytes,
        new.chunks,
        blocks.digests.len(),
        new.bytes,
        begun.elapsed().as_millis()
    );
    let head = BuiltHead {
        kind: job.head.kind,
        flat: job.head.flat.clone(),
        epoch: job.head.epoch,
        sequence: job.head.last,
        state: job.head.state,
        blocks: digest,
        patch,
        bytes: blocks.bytes,
        rows: made.rows,
        secret,
    };
    Ok(Built { head, blocks, path })
}

/// A file in blocks.
struct Cut {
    secret: Secret,
    blocks: Blocks,
    /// Blocks that the folder did not have.
    new: New,
    /// What differs from the file before, if that has as many bytes and the same labels, and its blocks are here.
    patch: Option<Patch>,
}

/// Cuts a file into blocks, and writes those that the folder does not have.
fn cut(path: &Path, own: &Store, labels: Vec<Box<[u8]>>, before: Option<&Blocks>) -> Result<Cut, String> {
    let of_file = |error: std::io::Error| format!("{}: {error}", path.display());
    let of_folder = |error: std::io::Error| format!("{}: {error}", own.folder().display());
    let mut file = File::open(path).map_err(of_file)?;
    let before = before.filter(|before| before.labels == labels);
    let (mut blocks, mut secret) = (Blocks { labels, ..Blocks::default() }, None);
    let writing = Writing::begin(own).map_err(of_folder)?;
    let mut patch = before.map(|_| Patch::default());
    loop {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        (&mut file).take(BLOCK_BYTES as u64).read_to_end(&mut block).map_err(of_file)?;
        if block.is_empty() {
            break;
        }
        if secret.is_none() {
            secret = Some(Secret::take(&mut block).map_err(|error| error.to_string())?);
        }
        let number = blocks.digests.len();
        let digest = blocks.push(&block);
        let was = before.and_then(|before| before.digests.get(number)).copied();
        if was != Some(digest)
            && let Some(so_far) = &mut patch
        {
            let earlier = was.and_then(|digest| own.read(digest).ok()?).filter(|earlier| earlier.len() == block.len());
            if earlier.is_none_or(|earlier| so_far.push(number, &earlier, &block).is_err()) {
                patch = None;
            }
        }
        writing.write(digest, block);
    }
    let new = writing.end().map_err(of_folder)?;
    let patch = patch.filter(|_| before.is_some_and(|before| before.bytes == blocks.bytes));
    let secret = secret.ok_or_else(|| format!("{} is empty", path.display()))?;
    Ok(Cut { secret, blocks, new, patch })
}

/// A file that is removed when this is dropped.
pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}
