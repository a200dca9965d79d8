//! How files of tables are kept in the agent's folder: each whole, or as an earlier one with changes beside it.
//!
//! A change is appended to the file of changes of the table that the router has mapped, which costs what it changes. When changes
//! have grown long, the table is written whole, beside it and without haste ([`whole`]). The note of each change is the name that the
//! file would have if it were written whole, so the folder alone says what is there, also after the agent was killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byname_lookup::file::changes::{self, Changes};
use byname_lookup::file::secret::{HEADER_BYTES, Secret};
use tracing::info;

use crate::intent::{Kept, WantedFile};
use crate::table::Digest;
use crate::table::blocks::{Blocks, put_secret};
use crate::table::patch::Patch;
use crate::value::TableKind;

/// Lines that changes write before the table is written whole: a reload copies a page for each.
const LINES_MAX: usize = 4_096;
/// Changes before the table is written whole.
const CHANGES_MAX: u64 = 1_024;
/// Bytes of changes of which the table's sixteenth part counts.
const BYTES_MIN: u64 = 1 << 18;

/// Where a file is, perhaps with changes that are damaged. Of changes, only the last one counts: the next goes behind it.
pub(super) fn find(folder: &Path, name: &str) -> io::Result<Option<Kept>> {
    let mut found = None;
    for table in tables(folder)? {
        if table == name {
            return Ok(Some(Kept::whole(table)));
        }
        let changes = read(&folder.join(&table));
        let leads_there = |changes: &Changes| changes.notes().last() == Some(name.as_bytes());
        let changes = changes.filter(leads_there).map(|changes| changes.len());
        found = found.or(changes.map(|changes| Kept { name: table, changes }));
    }
    Ok(found)
}

/// All changes of a table that are whole.
fn read(table: &Path) -> Option<Changes> {
    let read = Changes::read(table, None);
    read.inspect_err(|error| info!("{error}: the table is kept without these changes")).ok()
}

/// Names of tables in a folder.
fn tables(folder: &Path) -> io::Result<Vec<String>> {
    let mut tables = Vec::new();
    let entries = match fs::read_dir(folder) {
        // Whoever writes the first file makes it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(tables),
        other => other?,
    };
    for entry in entries {
        tables.extend(entry?.file_name().into_string().ok().filter(|name| is_table(name)));
    }
    tables.sort();
    Ok(tables)
}

/// Whether a file has these blocks.
pub(super) fn is_whole(folder: &Path, kept: &Kept, blocks: &Blocks, secret: &Secret) -> io::Result<bool> {
    let path = folder.join(&kept.name);
    let changes = Changes::read(&path, Some(kept.changes)).map_err(io::Error::other)?;
    let mut from = File::open(path)?;
    if from.metadata()?.len() != blocks.bytes {
        return Ok(false);
    }
    let (mut block, mut at) = (Vec::new(), 0);
    for (number, digest) in blocks.digests.iter().enumerate() {
        block.resize(blocks.len_of(number), 0);
        from.read_exact(&mut block)?;
        changes.put(at, &mut block);
        at += block.len() as u64;
        if number == 0 && Secret::take(&mut block).ok().as_ref() != Some(secret) {
            return Ok(false);
        }
        if Digest::of(&block) != *digest {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a file of the one before, if that is here: appends to its changes, or else writes a copy. `None`: it is not here.
pub(super) fn made_of_before(folder: &Path, file: &WantedFile, patch: &Patch) -> io::Result<Option<Kept>> {
    let Some((table, mut changes)) = before(folder, file)? else { return Ok(None) };
    let path = folder.join(&table);
    if fs::metadata(&path)?.len() != file.head.bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another length"));
    }
    let page = changes.first_page();
    let header = header_after(&page, file, patch)?;
    let lines = page.chunks(64).zip(header.chunks(64)).zip(0u64..);
    let of_header = lines.filter(|((before, after), _)| before != after).map(|((_, line), number)| (64 * number, line));
    let behind = patch.runs().filter_map(|(at, run)| {
        // A run may begin in the header.
        let skipped = (HEADER_BYTES as u64).saturating_sub(at) as usize;
        Some((at + skipped as u64, run.get(skipped..).filter(|run| !run.is_empty())?))
    });
    let runs: Vec<(u64, &[u8])> = of_header.chain(behind).collect();
    if runs.last().is_some_and(|(at, run)| at + run.len() as u64 > file.head.bytes) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the patch ends behind it"));
    }
    let name = file.name();
    // A router reads files of tags whole.
    if file.head.kind != TableKind::Tags {
        match changes.append(name.as_bytes(), runs.iter().copied()) {
            Ok(()) => return Ok(Some(Kept { name: table, changes: changes.len() })),
            Err(error) => info!("table {}: {error}; it is copied", file.table),
        }
    }
    let part = part_of(folder, &name);
    let copied = copy(&path, &changes, &part, &runs).and_then(|()| fs::rename(&part, folder.join(&name)));
    if copied.is_err() {
        // Its room may be what is missing.
        let _ = fs::remove_file(&part);
    }
    copied.map(|()| Some(Kept::whole(name)))
}

/// The file before, with its changes, if it is the last that the folder has of its table: its name says of which blocks it is, with the
/// secret that is in it.
fn before(folder: &Path, file: &WantedFile) -> io::Result<Option<(String, Changes)>> {
    let Some(from) = &file.head.patch else { return Ok(None) };
    for table in tables(folder)? {
        let path = folder.join(&table);
        let Some(changes) = read(&path).or_else(|| Changes::read(&path, Some(0)).ok()) else { continue };
        let Ok(secret) = Secret::take(&mut changes.first_page()) else { continue };
        let last = changes.notes().last().unwrap_or(table.as_bytes());
        if last == file.head.file_name_of(&file.table, from.blocks, &secret).as_bytes() {
            return Ok(Some((table, changes)));
        }
    }
    Ok(None)
}

/// The first page of a file of which this is the page before.
fn header_after(page: &[u8; HEADER_BYTES], file: &WantedFile, patch: &Patch) -> io::Result<[u8; HEADER_BYTES]> {
    let mut header = *page;
    let secret = Secret::take(&mut header).map_err(io::Error::other)?;
    if secret.bytes()[..20] != file.head.secret.bytes()[..20] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its names are hashed with another key"));
    }
    for (at, run) in patch.runs().take_while(|(at, _)| *at < HEADER_BYTES as u64) {
        let to = &mut header[at as usize..];
        let len = run.len().min(to.len());
        to[..len].copy_from_slice(&run[..len]);
    }
    put_secret(0, &mut header, &file.head.secret).map_err(io::Error::other)?;
    Ok(header)
}

/// Whether so many changes should go into a file of their own.
pub(super) fn are_long(folder: &Path, kept: &Kept) -> io::Result<bool> {
    let path = folder.join(&kept.name);
    let changes = Changes::read(&path, Some(kept.changes)).map_err(io::Error::other)?;
    let large = (fs::metadata(path)?.len() / 16).max(BYTES_MIN);
    Ok(changes.len() >= CHANGES_MAX || changes.lines_len() >= LINES_MAX || changes.bytes() > large)
}

/// Writes a table with its changes into a file that has no name yet.
pub(super) fn whole(folder: &Path, kept: &Kept, name: &str) -> io::Result<()> {
    let path = folder.join(&kept.name);
    let changes = Changes::read(&path, Some(kept.changes)).map_err(io::Error::other)?;
    let part = part_of(folder, name);
    copy(&path, &changes, &part, &[]).inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Gives a name to a file that [`whole`] has made of `from`. If there have been changes since then, they are put beside it, as one that
/// leads to the file `wanted`.
pub(super) fn take_whole(folder: &Path, (from, name): (&Kept, &str), now: &Kept, wanted: &str) -> io::Result<Kept> {
    let (part, path) = (part_of(folder, name), folder.join(name));
    let read = |changes| Changes::read(&folder.join(&from.name), Some(changes)).map_err(io::Error::other);
    let (first, all) = (read(from.changes)?, read(now.changes)?);
    if all.len() > first.len() {
        let mut changes = Changes::read(&part, Some(0)).map_err(io::Error::other)?;
        changes.append(wanted.as_bytes(), all.since(&first)).map_err(io::Error::other)?;
        fs::rename(changes::path_of(&part), changes::path_of(&path))?;
    }
    fs::rename(&part, &path)?;
    Ok(Kept { name: name.to_owned(), changes: u64::from(all.len() > first.len()) })
}

/// Copies a table with its changes and some runs of bytes.
fn copy(table: &Path, changes: &Changes, to: &Path, runs: &[(u64, &[u8])]) -> io::Result<()> {
    // Where the file system can, both share all that is not written below.
    fs::copy(table, to)?;
    let without = Changes::read(table, Some(0)).map_err(io::Error::other)?;
    let file = OpenOptions::new().write(true).open(to)?;
    for (at, run) in changes.since(&without).chain(runs.iter().copied()) {
        file.write_all_at(run, at)?;
    }
    file.sync_all()
}

/// A file that has not its name yet.
pub(super) fn part_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.part"))
}

/// Removes files of tables in this folder that are none of these, with their changes. Other files stay.
pub(super) fn remove_others(folder: &Path, kept: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let table = name.strip_suffix(".changes").unwrap_or(name);
        if is_table(table) && !kept.contains(table) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes what was left half-written. Nothing may be under way.
pub(super) fn remove_parts(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let part = name.to_str().and_then(|name| name.strip_prefix('.'));
        let part = part.and_then(|name| name.strip_suffix(".changes").unwrap_or(name).strip_suffix(".part"));
        if part.is_some_and(is_table) {
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

#[cfg(test)]
mod tests;
