//! Files of tables: brings them here from their blocks, and lets the router take them over.
//!
//! A file is written beside the others, and has its name when it is whole. If a patch leads to it, its lines are appended to the changes
//! of the file before ([`kept`]). Then the agent names it in a small file of settings, which is
//! part of the router's configuration (`[fleet] tables`), and asks for a reload ([`settings`]). Old files are removed when the router has
//! taken over the new ones. Rules of routing are in the same settings. Settings that the router refuses are taken back, so that a restart finds those that it had.

mod kept;
mod settings;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tracing::{info, warn};

pub(super) use self::settings::{are_as_written, take_over};
use super::Shared;
use super::tables::{count, fetcher, get};
use crate::intent::{Kept, UsedFile, WantedFile};
use crate::label::Label;
use crate::table::blocks::{BLOCK_BYTES, Blocks, put_secret};
use crate::table::patch::Patch;
use crate::value::FromBefore;

/// Blocks that are fetched at a time.
const FETCHED: usize = 32;
/// After so many blocks, what is written goes to the disk.
const FLUSHED: usize = 512;
/// Where files of tables go.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// The file of settings that the router's configuration names. Tables are in the same folder.
    pub settings: PathBuf,
}

impl FileOptions {
    fn folder(&self) -> &Path {
        let folder = self.settings.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new("."))
    }

    /// Settings that the router has taken over.
    fn good(&self) -> PathBuf {
        with_ending(&self.settings, "good")
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}

/// Brings a file here, and tells the state machine. Returns whether it is here.
pub(super) async fn bring(shared: &Shared, file: &WantedFile, said: &mut String) -> bool {
    let Some(options) = &shared.options.files else { return true };
    let result = brought(shared, options, file).await;
    let is_here = result.is_ok();
    match &result {
        Ok(kept) => {
            let changes = kept.changes;
            info!(changes, "table {}: the file {} is here, as {}", file.table, file.name(), kept.name);
            said.clear();
        }
        Err(why) => {
            let text = format!("table {}: {why}; trying again", file.table);
            // Not the same line every few seconds.
            if text != *said {
                warn!("{text}");
                *said = text;
            }
        }
    }
    shared.tell(|agent, now| agent.file(now, file, result));
    is_here
}

async fn brought(shared: &Shared, options: &FileOptions, file: &WantedFile) -> Result<Kept, String> {
    let patch = patch_of(shared, file).await;
    let list = match &patch {
        Some(patch) => patched(shared, file, patch.clone()).await,
        None => None,
    };
    let list = match list {
        Some(list) => list,
        None => get(shared, &fetcher(shared), file.head.blocks).await?,
    };
    let blocks = Blocks::decode(file.head.blocks, &list).map_err(|error| format!("the list of its blocks: {error}"))?;
    if blocks.bytes != file.head.bytes {
        return Err(format!("its blocks have {} bytes, and its head says {}", blocks.bytes, file.head.bytes));
    }
    let (folder, name) = (options.folder(), file.name());
    let found = kept::find(folder, &name).map_err(|error| format!("{}: {error}", folder.display()))?;
    if let Some(kept) = found {
        let looked = {
            let (folder, kept, blocks, secret) = (folder.to_owned(), kept.clone(), blocks.clone(), file.head.secret);
            spawn_blocking(move || kept::is_whole(&folder, &kept, &blocks, &secret))
        };
        if looked.await.is_ok_and(|whole| whole.unwrap_or(false)) {
            return Ok(kept);
        }
        // It is damaged, and made of its blocks: perhaps the one before is damaged, too.
    } else if let Some(patch) = patch
        && let Some(kept) = changed(folder, file, patch).await
    {
        return Ok(kept);
    }
    // It has its name only when it is whole.
    let (part, path) = (kept::part_of(folder, &name), folder.join(&name));
    let written = write(shared, (&part, &path), &blocks, file).await;
    if written.is_err() {
        // Its room may be what is missing.
        let _ = fs::remove_file(&part);
    }
    written.map(|()| Kept::whole(name))
}

/// The patch that leads to this file, if the blocks before are here.
async fn patch_of(shared: &Shared, file: &WantedFile) -> Option<Patch> {
    let FromBefore { blocks, patch } = file.head.patch.as_ref()?;
    if !shared.options.chunks.own.has(*blocks) {
        return None;
    }
    let got = get(shared, &fetcher(shared), *patch).await;
    let decoded = got.and_then(|bytes| Patch::decode(*patch, &bytes).map_err(|error| error.to_string()));
    decoded.inspect_err(|why| info!("table {}: {why}; the patch is of no use", file.table)).ok()
}

/// The list of the file's blocks, made with these of those before, if it is not here.
async fn patched(shared: &Shared, file: &WantedFile, patch: Patch) -> Option<Vec<u8>> {
    let store = shared.options.chunks.own.clone();
    let (before, after) = (file.head.patch.as_ref()?.blocks, file.head.blocks);
    if store.has(after) {
        return None;
    }
    // The disk is waited for.
    let applied = spawn_blocking(move || patch.apply(&store, before, after)).await;
    let applied = applied.unwrap_or_else(|error| Err(error.to_string()));
    applied.inspect_err(|why| info!("table {}: {why}; the patch is of no use, and blocks are fetched", file.table)).ok()
}

/// Makes a file of the one before, if that is here.
async fn changed(folder: &Path, file: &WantedFile, patch: Patch) -> Option<Kept> {
    let (folder, wanted) = (folder.to_owned(), file.clone());
    // A large file that must be copied takes a while.
    let made = spawn_blocking(move || kept::made_of_before(&folder, &wanted, &patch)).await;
    let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
    let unusable = |error: &io::Error| {
        info!("table {}: the file before cannot be used ({error}), so the file is made of its blocks", file.table);
    };
    made.inspect_err(unusable).ok().flatten()
}

/// A table that is being written whole, because its changes have grown long.
pub(super) struct Making {
    table: Label,
    from: Kept,
    /// The file's name.
    name: String,
    job: JoinHandle<io::Result<()>>,
}

impl Making {
    /// Begins to write a table whole, if its file has many changes. Nobody waits for that.
    pub(super) fn begin(shared: &Shared, file: &WantedFile) -> Option<Making> {
        let folder = shared.options.files.as_ref()?.folder().to_owned();
        let (file, from) = shared.agent.borrow().kept(&file.table)?;
        if from.changes == 0 || !kept::are_long(&folder, &from).unwrap_or(false) {
            return None;
        }
        info!("table {}: {} changes of its file are written into a new one", file.table, from.changes);
        let (name, before) = (file.name(), from.clone());
        let job = {
            let name = name.clone();
            spawn_blocking(move || kept::whole(&folder, &before, &name))
        };
        Some(Making { table: file.table, from, name, job })
    }

    /// Waits until a table is written. Without one, for ever.
    pub(super) async fn done(making: &mut Option<Making>) -> io::Result<()> {
        match making {
            Some(making) => (&mut making.job).await.unwrap_or_else(|error| Err(io::Error::other(error))),
            None => std::future::pending().await,
        }
    }

    /// Uses the table that is written, if its file is still the one that it was made of.
    pub(super) fn finish(self, shared: &Shared, result: io::Result<()>) {
        let Some(options) = &shared.options.files else { return };
        let folder = options.folder();
        let now = shared.agent.borrow().kept(&self.table);
        let taken = result.and_then(|()| match now {
            Some((wanted, now)) if now.name == self.from.name && now.changes >= self.from.changes => {
                let kept = kept::take_whole(folder, (&self.from, &self.name), &now, &wanted.name())?;
                Ok(Some((wanted, kept)))
            }
            _ => Ok(None),
        });
        match taken {
            Ok(Some((wanted, kept))) => {
                info!("table {}: the file {} has all changes", self.table, kept.name);
                shared.tell(|agent, now| agent.file(now, &wanted, Ok(kept)));
            }
            other => {
                if let Err(error) = other {
                    // It is tried again after the next change.
                    warn!("table {}: cannot write its file whole: {error}", self.table);
                }
                let _ = fs::remove_file(kept::part_of(folder, &self.name));
            }
        }
    }
}

/// Removes what was left half-written, at the start.
pub(super) fn remove_parts(options: &FileOptions) {
    if let Err(error) = kept::remove_parts(options.folder()) {
        info!("{}: {error}", options.folder().display());
    }
}

/// Removes files of tables that neither the router uses, nor the intent wants.
pub(super) fn remove_old(shared: &Shared, used: &[UsedFile]) {
    let Some(options) = &shared.options.files else { return };
    let agent = shared.agent.borrow();
    // Those that are wanted may be there, or get their names at any moment.
    let wanted = agent.files().into_iter().map(|file| file.kept.name);
    let kept = used.iter().map(|file| file.kept.name.clone()).chain(wanted).collect();
    if let Err(error) = kept::remove_others(options.folder(), &kept) {
        warn!("cannot remove old tables in {}: {error}", options.folder().display());
    }
}

/// Writes the blocks of a file, each when it is here.
async fn write(
    shared: &Shared,
    (part, path): (&Path, &Path),
    blocks: &Blocks,
    file: &WantedFile,
) -> Result<(), String> {
    let io = |error: io::Error| format!("cannot write {}: {error}", part.display());
    let out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part).map_err(io)?;
    let out = Arc::new(out);
    let (mut under_way, mut flushing) = (JoinSet::new(), None);
    let (mut next, mut here) = (blocks.digests.iter().copied().enumerate(), 0);
    loop {
        while under_way.len() < FETCHED
            && let Some((number, digest)) = next.next()
        {
            let (fetcher, out, len, secret) = (fetcher(shared), out.clone(), blocks.len_of(number), file.head.secret);
            under_way.spawn(async move {
                let (mut block, is_new) = fetcher.get(digest, Some(len)).await.map_err(Failed::NotHere)?;
                if block.len() != len {
                    return Err(Failed::Block(format!("block {number} has {} bytes, not {len}", block.len())));
                }
                put_secret(number, &mut block, &secret).map_err(|error| Failed::Block(error.to_string()))?;
                let write = move || out.write_all_at(&block, (number * BLOCK_BYTES) as u64);
                spawn_blocking(write).await.unwrap_or_else(|error| Err(error.into())).map_err(Failed::Io)?;
                Ok(is_new)
            });
        }
        let Some(done) = under_way.join_next().await else { break };
        let is_new = done.map_err(|error| error.to_string())?.map_err(|failed| match failed {
            Failed::NotHere(why) => format!("{here} of {} blocks are here; {why}", blocks.digests.len()),
            Failed::Block(why) => why,
            Failed::Io(error) => io(error),
        })?;
        count(shared, is_new);
        here += 1;
        if here % FLUSHED == 0 {
            if !shared.agent.borrow().wanted_files().contains(file) {
                return Err("another file is wanted".to_owned());
            }
            // The disk need not wait for the last block. An error comes again at the end.
            let out = out.clone();
            flushing = Some(spawn_blocking(move || out.sync_data()));
        }
    }
    if let Some(flushing) = flushing {
        let _ = flushing.await;
    }
    spawn_blocking(move || out.sync_all()).await.unwrap_or_else(|error| Err(error.into())).map_err(io)?;
    fs::rename(part, path).map_err(io)
}

/// Why a block is not in the file.
enum Failed {
    NotHere(String),
    Block(String),
    Io(io::Error),
}
