//! Files of tables: brings them here from their blocks, and lets the router take them over.
//!
//! A file is written beside the others, and has its name when it is whole. Then the agent names it in a small file of settings, which is
//! part of the router's configuration (`[fleet] tables`), and asks for a reload. Old files are removed when the router has
//! taken over the new ones. Rules of routing are in the same settings. Settings that the router refuses are taken back, so that a restart finds those that it had.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use byname_client::management::ManagementError;
use byname_client::{AsyncClient, CallError};
use byname_mgmt::{ControlParameters, ControlResponse, Element, ReloadReport};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::Shared;
use super::router::RouterError;
use super::tables::{count, fetcher, get};
use crate::intent::{UsedFile, WantedFile};
use crate::table::Digest;
use crate::table::blocks::{Blocks, put_secret};
use crate::table::patch::Patch;
use crate::value::FromBefore;

/// A reload with large tables may take so long.
const RELOAD: Duration = Duration::from_secs(120);
/// Blocks that are fetched at a time.
const FETCHED: usize = 8;
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
    let list = match patched(shared, file).await {
        Some(list) => list,
        None => get(shared, &fetcher(shared), file.head.blocks).await?,
    };
    let blocks = Blocks::decode(file.head.blocks, &list).map_err(|error| format!("the list of its blocks: {error}"))?;
    if blocks.bytes != file.head.bytes {
        return Err(format!("its blocks have {} bytes, and its head says {}", blocks.bytes, file.head.bytes));
    }
    let path = options.folder().join(file.name());
    if is_whole(&path, &blocks, file).unwrap_or(false) {
        return Ok(());
    }
    // It has its name only when it is whole.
    let part = options.folder().join(format!(".{}.part", file.name()));
    let written = write(shared, (&part, &path), &blocks, file).await;
    if written.is_err() {
        // Its room may be what is missing.
        let _ = fs::remove_file(&part);
    }
    written
}

/// The list of the file's blocks, made of the file before by its patch, if that is here and the new one is not.
async fn patched(shared: &Shared, file: &WantedFile) -> Option<Vec<u8>> {
    let store = &shared.options.chunks.own;
    let FromBefore { blocks, patch } = file.head.patch.as_ref()?;
    if store.has(file.head.blocks) || !store.has(*blocks) {
        return None;
    }
    let applied = get(shared, &fetcher(shared), *patch).await.and_then(|bytes| {
        let decoded = Patch::decode(*patch, &bytes).map_err(|error| error.to_string())?;
        decoded.apply(store, *blocks, file.head.blocks)
    });
    applied.inspect_err(|why| info!("table {}: {why}; the patch is of no use, and blocks are fetched", file.table)).ok()
}

/// Whether a file is there and has these blocks.
fn is_whole(path: &Path, blocks: &Blocks, file: &WantedFile) -> io::Result<bool> {
    let mut from = File::open(path)?;
    if from.metadata()?.len() != blocks.bytes {
        return Ok(false);
    }
    let mut block = Vec::new();
    for (number, digest) in blocks.digests.iter().enumerate() {
        block.resize(blocks.len_of(number), 0);
        from.read_exact(&mut block)?;
        if number == 0 {
            let taken = byname_lookup::file::secret::Secret::take(&mut block);
            if taken.ok() != Some(file.head.secret) {
                return Ok(false);
            }
        }
        if Digest::of(&block) != *digest {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn write(
    shared: &Shared,
    (part, path): (&Path, &Path),
    blocks: &Blocks,
    file: &WantedFile,
) -> Result<(), String> {
    let io = |error: io::Error| format!("cannot write {}: {error}", part.display());
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part).map_err(io)?;
    for (run, digests) in blocks.digests.chunks(FETCHED).enumerate() {
        let mut under_way = JoinSet::new();
        for (at, digest) in digests.iter().copied().enumerate() {
            let fetcher = fetcher(shared);
            under_way.spawn(async move { (at, fetcher.get(digest).await) });
        }
        let mut got = vec![Vec::new(); digests.len()];
        while let Some(done) = under_way.join_next().await {
            let (at, result) = done.map_err(|error| error.to_string())?;
            let place = || format!("{} of {} blocks are here", run * FETCHED, blocks.digests.len());
            let (bytes, is_new) = result.map_err(|why| format!("{}; {why}", place()))?;
            count(shared, is_new);
            got[at] = bytes;
        }
        for (at, mut block) in got.into_iter().enumerate() {
            let number = run * FETCHED + at;
            if block.len() != blocks.len_of(number) {
                return Err(format!("block {number} has {} bytes, not {}", block.len(), blocks.len_of(number)));
            }
            put_secret(number, &mut block, &file.head.secret).map_err(|error| error.to_string())?;
            out.write_all(&block).map_err(io)?;
        }
        if !shared.agent.borrow().wanted_files().contains(file) {
            return Err("another file is wanted".to_owned());
        }
    }
    out.sync_all().map_err(io)?;
    drop(out);
    fs::rename(part, path).map_err(io)
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
    for UsedFile { name, .. } in files.iter().filter(|file| file.flat.is_none()) {
        text += &format!("[tables]\nbulk = \"{name}\"\n");
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
    ["table", "flat"].contains(&end)
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
    }

    #[test]
    fn only_old_tables_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let old = ["world-0123456789abcdef.table", "o-0123456789abcdef.flat"];
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
        remove_others(folder.path(), &[UsedFile { name: used.to_owned(), flat: None }]).unwrap();
        let left: BTreeSet<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, others.iter().chain([&used]).map(|name| (*name).to_owned()).collect());
    }
}
