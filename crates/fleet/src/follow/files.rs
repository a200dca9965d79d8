//! Files of tables: brings them here from their blocks, and lets the router take them over.
//!
//! A file is written beside the others, and has its name when it is whole. If a patch leads to it, it is a copy of the file before, which the
//! system makes, with the lines of the patch: a router has mapped the file before, so that one never changes. Then the agent names it in a small file of settings, which is
//! part of the router's configuration (`[fleet] tables`), and asks for a reload. Old files are removed when the router has
//! taken over the new ones. Rules of routing are in the same settings. Settings that the router refuses are taken back, so that a restart finds those that it had.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byname_client::management::ManagementError;
use byname_client::{AsyncClient, CallError};
use byname_lookup::file::secret::{HEADER_BYTES, Secret};
use byname_mgmt::{ControlParameters, ControlResponse, Element, ReloadReport};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{info, warn};

use super::Shared;
use super::router::RouterError;
use super::tables::{count, fetcher, get};
use crate::intent::{UsedFile, WantedFile};
use crate::table::Digest;
use crate::table::blocks::{BLOCK_BYTES, Blocks, put_secret};
use crate::table::patch::Patch;
use crate::value::{FromBefore, TableKind};

/// A reload with large tables may take so long.
const RELOAD: Duration = Duration::from_secs(120);
/// Blocks that are fetched at a time.
const FETCHED: usize = 32;
/// After so many blocks, what is written goes to the disk.
const FLUSHED: usize = 512;
/// What the settings begin with.
const FIRST_LINE: &str = "# Written by `byname agent`, which writes over all changes.\n";

/// Where files of tables go.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// The file of settings that the router's configuration names. Tables are in the same folder.
    pub settings: PathBuf,
}

impl FileOptions {
    fn folder(&self) -> &Path {
        self.settings.parent().unwrap_or(Path::new(""))
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
        Ok(()) => {
            info!("table {}: the file {} is here", file.table, file.name());
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

async fn brought(shared: &Shared, options: &FileOptions, file: &WantedFile) -> Result<(), String> {
    let (list, patch) = match patched(shared, file).await {
        Some((list, patch)) => (list, Some(patch)),
        None => (get(shared, &fetcher(shared), file.head.blocks).await?, None),
    };
    let blocks = Blocks::decode(file.head.blocks, &list).map_err(|error| format!("the list of its blocks: {error}"))?;
    if blocks.bytes != file.head.bytes {
        return Err(format!("its blocks have {} bytes, and its head says {}", blocks.bytes, file.head.bytes));
    }
    let path = options.folder().join(file.name());
    let looked = {
        let (path, blocks, secret) = (path.clone(), blocks.clone(), file.head.secret);
        spawn_blocking(move || is_whole(&path, &blocks, &secret))
    };
    if looked.await.is_ok_and(|whole| whole.unwrap_or(false)) {
        return Ok(());
    }
    // It has its name only when it is whole.
    let part = options.folder().join(format!(".{}.part", file.name()));
    // A file that is there and damaged is made of its blocks: perhaps the one before is damaged, too.
    let copied = match patch.filter(|_| !path.exists()) {
        Some(patch) => copied(options.folder(), (&part, &path), patch, file).await,
        None => false,
    };
    let written = if copied { Ok(()) } else { write(shared, (&part, &path), &blocks, file).await };
    if written.is_err() {
        // Its room may be what is missing.
        let _ = fs::remove_file(&part);
    }
    written
}

/// The list of the file's blocks, made of the file before by its patch, if that is here and the new one is not. And the patch.
async fn patched(shared: &Shared, file: &WantedFile) -> Option<(Vec<u8>, Patch)> {
    let store = &shared.options.chunks.own;
    let FromBefore { blocks, patch } = file.head.patch.as_ref()?;
    if store.has(file.head.blocks) || !store.has(*blocks) {
        return None;
    }
    let applied = get(shared, &fetcher(shared), *patch).await.and_then(|bytes| {
        let decoded = Patch::decode(*patch, &bytes).map_err(|error| error.to_string())?;
        let list = decoded.apply(store, *blocks, file.head.blocks)?;
        Ok((list, decoded))
    });
    applied.inspect_err(|why| info!("table {}: {why}; the patch is of no use, and blocks are fetched", file.table)).ok()
}

/// Whether a file is there and has these blocks.
fn is_whole(path: &Path, blocks: &Blocks, secret: &Secret) -> io::Result<bool> {
    let mut from = File::open(path)?;
    if from.metadata()?.len() != blocks.bytes {
        return Ok(false);
    }
    let mut block = Vec::new();
    for (number, digest) in blocks.digests.iter().enumerate() {
        block.resize(blocks.len_of(number), 0);
        from.read_exact(&mut block)?;
        if number == 0 && Secret::take(&mut block).ok().as_ref() != Some(secret) {
            return Ok(false);
        }
        if Digest::of(&block) != *digest {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a file of the one before, if that is here. Returns whether it did.
async fn copied(folder: &Path, (part, path): (&Path, &Path), patch: Patch, file: &WantedFile) -> bool {
    let before = match file_before(folder, file) {
        Ok(Some(before)) => before,
        // Reading blocks tells what is wrong with the folder.
        Ok(None) | Err(_) => return false,
    };
    let (to, bytes, secret) = (part.to_owned(), file.head.bytes, file.head.secret);
    // A large file takes a while.
    let made = tokio::task::spawn_blocking(move || copy_with(&before, &to, &patch, bytes, &secret)).await;
    let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
    match made.and_then(|()| fs::rename(part, path)) {
        Ok(()) => true,
        Err(error) => {
            info!("table {}: the file before cannot be used ({error}), so the file is made of its blocks", file.table);
            false
        }
    }
}

/// The file before, if it is here: its name says of which blocks it is, with the secret that is in it.
fn file_before(folder: &Path, file: &WantedFile) -> io::Result<Option<PathBuf>> {
    let Some(from) = &file.head.patch else { return Ok(None) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_table(name)) else { continue };
        let mut header = [0; HEADER_BYTES];
        if File::open(entry.path())?.read_exact(&mut header).is_err() {
            continue;
        }
        let Ok(secret) = Secret::take(&mut header) else { continue };
        if name == file.head.file_name_of(&file.table, from.blocks, &secret) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Writes a file of `bytes` bytes that differs from an earlier one by a patch and the secret.
fn copy_with(before: &Path, to: &Path, patch: &Patch, bytes: u64, secret: &Secret) -> io::Result<()> {
    // Where the file system can, both share all that is not written below.
    if fs::copy(before, to)? != bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another length"));
    }
    let file = OpenOptions::new().read(true).write(true).open(to)?;
    for (at, run) in patch.runs() {
        if at + run.len() as u64 > bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the patch ends behind it"));
        }
        file.write_all_at(run, at)?;
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    put_secret(0, &mut header, secret).map_err(io::Error::other)?;
    file.write_all_at(&header, 0)?;
    file.sync_all()
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

/// Names these files in the settings, beside rules of routing, and lets the router reload.
pub(super) async fn take_over(
    options: Option<FileOptions>,
    client: &AsyncClient,
    (files, policy): (&[UsedFile], &[String]),
) -> Result<(), RouterError> {
    let Some(options) = options else { return Err(RouterError::Files("this agent brings no files".to_owned())) };
    let of = |path: &Path, error: io::Error| RouterError::Files(format!("{}: {error}", path.display()));
    let (path, good) = (&options.settings, options.good());
    let before = read(path).map_err(|error| of(path, error))?;
    if before.is_none() && files.is_empty() && policy.is_empty() {
        return Ok(());
    }
    let text = settings(files, policy);
    let is_new = before.as_ref() != Some(&text);
    if is_new {
        replace(path, &text).map_err(|error| of(path, error))?;
    }
    let refused = match reload(client).await {
        Ok((report, _)) if is_new && report.changes.is_empty() => RouterError::Files(format!(
            "the router does not read {}: name this file in its configuration ([fleet] tables)",
            path.display()
        )),
        Ok((_, warnings)) => {
            for warning in warnings.lines() {
                info!("the router, after a reload: {warning}");
            }
            replace(&good, &text).map_err(|error| of(&good, error))?;
            if let Err(error) = remove_others(options.folder(), files) {
                warn!("cannot remove old tables in {}: {error}", options.folder().display());
            }
            return Ok(());
        }
        // The router may have taken them over or not.
        Err(error) if error.is_lost() => return Err(error),
        Err(error) => error,
    };
    match read(&good).map_err(|error| of(&good, error))? {
        Some(good) => replace(path, &good),
        None => fs::remove_file(path),
    }
    .map_err(|error| of(path, error))?;
    Err(refused)
}

/// Whether the settings are those that the agent has written for these files and rules.
pub(super) fn are_as_written(options: &FileOptions, (files, policy): (&[UsedFile], &[String])) -> bool {
    match read(&options.settings) {
        Ok(Some(text)) => text == settings(files, policy),
        Ok(None) => files.is_empty() && policy.is_empty(),
        // A folder that cannot be read for a moment is no reason for a reload.
        Err(_) => true,
    }
}

/// Settings that name files and have rules. Paths are relative to the folder of the settings.
fn settings(files: &[UsedFile], policy: &[String]) -> String {
    let mut text = FIRST_LINE.to_owned();
    if !policy.is_empty() {
        // Rules are words and URIs in their usual form, too.
        let rules: String = policy.iter().map(|rule| format!("    \"{rule}\",\n")).collect();
        text += &format!("[routing]\npolicy = [\n{rules}]\n");
    }
    // Names of files are labels with digits. Names of prefixes are URIs, which have no quotes and no backslashes.
    for UsedFile { name, kind, .. } in files.iter().filter(|file| file.flat.is_none()) {
        let section = if *kind == TableKind::Tags { "tags" } else { "tables" };
        text += &format!("[{section}]\nbulk = \"{name}\"\n");
    }
    for (UsedFile { name, .. }, (prefix, takes_any)) in
        files.iter().filter_map(|file| Some((file, file.flat.as_ref()?)))
    {
        let unknown = if *takes_any { "any" } else { "checksum" };
        text += &format!("[[flat]]\nprefix = \"{prefix}\"\ntable = \"{name}\"\nunknown = \"{unknown}\"\n");
    }
    text
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let part = with_ending(path, "part");
    let mut file = File::create(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&part, path)
}

/// Removes files of tables in this folder that are none of these, and what was left half-written. Other files stay.
fn remove_others(folder: &Path, files: &[UsedFile]) -> io::Result<()> {
    let kept: BTreeSet<&str> = files.iter().map(|file| &*file.name).collect();
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_table(name) && !kept.contains(name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file has such a name: a label, 16 hexadecimal digits, and an ending.
fn is_table(name: &str) -> bool {
    let Some((stem, end)) = name.rsplit_once('.') else { return false };
    let Some((label, digits)) = stem.rsplit_once('-') else { return false };
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    ["table", "flat", "tags"].contains(&end)
        && digits.len() == 16
        && hexadecimal
        && label.parse::<crate::label::Label>().is_ok()
}

/// `config/reload`: what it changed, and warnings.
async fn reload(client: &AsyncClient) -> Result<(ReloadReport, String), RouterError> {
    const COMMAND: &str = "config/reload";
    let response = client.response("config", "reload", &ControlParameters::default(), RELOAD).await?;
    if response.code != 200 {
        let (command, ControlResponse { code, text, .. }) = (COMMAND.to_owned(), response);
        return Err(CallError::from(ManagementError::Refused { command, code, text, body: None }).into());
    }
    let report = match response.body.is_empty() {
        true => ReloadReport::default(),
        false => ReloadReport::decode(&response.body)
            .map_err(|error| CallError::from(ManagementError::Malformed { command: COMMAND.to_owned(), error }))?,
    };
    Ok((report, response.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_all_files() {
        let file = |name: &str, flat: Option<(&str, bool)>| UsedFile {
            name: name.to_owned(),
            kind: if name.ends_with(".tags") { TableKind::Tags } else { TableKind::Built },
            flat: flat.map(|(prefix, any)| (prefix.parse().unwrap(), any)),
        };
        assert_eq!(settings(&[], &[]), FIRST_LINE);
        let policy = ["announce deny".to_owned(), "prefer cost 2".to_owned()];
        let expected = "[routing]\npolicy = [\n    \"announce deny\",\n    \"prefer cost 2\",\n]\n";
        assert_eq!(settings(&[], &policy), format!("{FIRST_LINE}{expected}"));
        let files =
            [file("o-1.flat", Some(("/o", false))), file("w-1.table", None), file("p-1.flat", Some(("/p", true)))];
        let text = settings(&files, &[]);
        let expected = "[tables]\nbulk = \"w-1.table\"\n[[flat]]\nprefix = \"/o\"\ntable = \"o-1.flat\"\nunknown = \"checksum\"\n\
                        [[flat]]\nprefix = \"/p\"\ntable = \"p-1.flat\"\nunknown = \"any\"\n";
        assert_eq!(text, format!("{FIRST_LINE}{expected}"));
        let text = settings(&[file("w-1.table", None), file("t-1.tags", None)], &[]);
        assert_eq!(text, format!("{FIRST_LINE}[tables]\nbulk = \"w-1.table\"\n[tags]\nbulk = \"t-1.tags\"\n"));
    }

    #[test]
    fn a_file_is_the_one_before_with_some_lines_and_another_secret() {
        const BYTES: usize = 3 * HEADER_BYTES;
        let folder = tempfile::tempdir().unwrap();
        let [before, after, bad] = ["before", "after", "bad"].map(|name| folder.path().join(name));
        let mut old: Vec<u8> = (0..BYTES).map(|at| (at / 3) as u8).collect();
        old[..8].copy_from_slice(b"byntable");
        let secrets = [1, 2].map(|byte| Secret::new([byte; 24]));
        let with = |blank: &[u8], secret: &Secret| {
            let mut bytes = blank.to_vec();
            secret.put(&mut bytes).unwrap();
            bytes
        };
        Secret::take(&mut old).unwrap();
        let mut new = old.clone();
        for at in [50, 5_000, BYTES - 1] {
            new[at] ^= 1;
        }
        let mut patch = Patch::default();
        patch.push(0, &old, &new).unwrap();
        fs::write(&before, with(&old, &secrets[0])).unwrap();
        copy_with(&before, &after, &patch, BYTES as u64, &secrets[1]).unwrap();
        assert!(fs::read(&after).unwrap() == with(&new, &secrets[1]));
        assert!(fs::read(&before).unwrap() == with(&old, &secrets[0]), "it is mapped");
        // Another length, lines behind the end, no table, and nothing at all.
        assert!(copy_with(&before, &after, &patch, BYTES as u64 - 1, &secrets[1]).is_err());
        fs::write(&bad, &with(&old, &secrets[0])[..BYTES - 64]).unwrap();
        assert!(copy_with(&bad, &after, &patch, BYTES as u64 - 64, &secrets[1]).is_err());
        fs::write(&bad, [0; BYTES]).unwrap();
        assert!(copy_with(&bad, &after, &Patch::default(), BYTES as u64, &secrets[1]).is_err());
        assert!(copy_with(&folder.path().join("none"), &after, &patch, BYTES as u64, &secrets[1]).is_err());
    }

    #[test]
    fn only_old_tables_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["world-0123456789abcdef.table", "o-0123456789abcdef.flat", "t-0123456789abcdef.tags"];
        let others = [
            "rules.table",
            "world-0123456789abcdef.txt",
            "world-0123456789abcde.table",
            "World-0123456789abcdef.table",
            "fleet.toml",
            "fleet.toml.good",
        ];
        let used = "world-1123456789abcdef.table";
        for name in old.iter().chain(&others).chain([&used]) {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        remove_others(folder.path(), &[UsedFile { name: used.to_owned(), kind: TableKind::Built, flat: None }])
            .unwrap();
        let left: BTreeSet<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, others.iter().chain([&used]).map(|name| (*name).to_owned()).collect());
    }
}
