//! Replay protection across restarts: a persistent `Mark` for each key.
//!
//! The histories of [`super::replay`] are in memory. A mark covers all commands in the history of its key. After a
//! restart, the router refuses commands of that key that the mark covers.
//!
//! - The mark in the file covers a command's time *before* the command is accepted. The mark is set [`AHEAD_MS`] above
//!   that time, so that a client that sends many commands causes only one write per [`AHEAD_MS`]. An orderly shutdown
//!   writes the exact time. After a crash, the router refuses commands of its keys for up to [`AHEAD_MS`] after the
//!   last one.
//! - If a command's time is further ahead of the clock, the mark notes a span of times, even for a refused command.
//!   Otherwise, one client with a wrong clock would block its key until that time.
//!
//! [`Marks::in_folder`] keeps the marks in a file of their own, and not in the store of faces and routes (`state`). A mark
//! must be on the disk before its command is accepted, also while the store cannot be written or is turned off. The store
//! may be damaged, and then begins empty, or be restored from a backup. With the marks inside, recorded commands would then
//! pass again. Damaged marks keep the router from starting.
//!
//! If no file can be written, [`Marks::without_folder`] narrows the
//! time window instead. A command's time may be at most [`SLACK_MS`] ahead of the clock, and must be more than
//! [`SLACK_MS`] after the start. No command accepted by an earlier run meets both conditions, unless the clock is set
//! back.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use byname_wire::Name;
use thiserror::Error;

/// How far above a command's time its key's mark is set.
pub const AHEAD_MS: u64 = 5_000;
/// How far a command's time may be ahead of the clock if marks cannot be kept.
pub const SLACK_MS: u64 = 2_000;
/// Length of the span that covers a time far ahead of the clock.
const SPAN_MS: u64 = 60_000;
/// Most spans of a mark. Beyond that, the two closest spans are merged.
const SPANS_MAX: usize = 8;
/// Name of the file.
const FILE: &str = "commands";
/// First line of the file.
const HEADER: &str = "byname: times of commands that were accepted, version 1";

/// Why marks cannot be kept.
#[derive(Debug, Error)]
pub enum MarksError {
    /// The folder or the file in it cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another router uses the folder.
    #[error("{} is in use by another router: give each its own `state_folder` under [general]", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The file's contents are invalid.
    #[error(
        "{}:{line}: no mark of a key. Restore the file; or delete it, if nobody can have recorded commands \
         of the last hour", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Number of the invalid line, from 1.
        line: usize,
    },
}

/// Times of commands to refuse, in ms since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// All times up to this one are covered.
    until_ms: u64,
    /// Further spans, in rising order. Both ends are included.
    spans: Vec<(u64, u64)>,
}

impl Mark {
    /// Whether a command with this time is refused.
    pub(super) fn covers(&self, time_ms: u64) -> bool {
        time_ms <= self.until_ms || self.spans.iter().any(|&(from, to)| (from..=to).contains(&time_ms))
    }

    /// Covers the time of a command. If it is near the clock, the mark leaves room for the commands that follow.
    fn cover(&mut self, time_ms: u64, now_ms: u64) {
        if time_ms <= now_ms.saturating_add(AHEAD_MS) {
            self.until_ms = self.until_ms.max(time_ms.saturating_add(AHEAD_MS));
        } else {
            self.cover_span(time_ms);
        }
    }

    /// Covers a time far ahead of the clock.
    pub(super) fn cover_span(&mut self, time_ms: u64) {
        self.spans.push((time_ms, time_ms.saturating_add(SPAN_MS)));
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, span| {
            let touches = next.0 <= span.1;
            if touches {
                span.1 = span.1.max(next.1);
            }
            touches
        });
        if self.spans.len() > SPANS_MAX {
            let gap = |i: &usize| self.spans[i + 1].0 - self.spans[*i].1;
            let closest = (0..self.spans.len() - 1).min_by_key(gap).expect("there are several spans");
            self.spans[closest].1 = self.spans.remove(closest + 1).1;
        }
    }

    fn encode(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}", self.until_ms);
        for (from, to) in &self.spans {
            let _ = write!(out, " {from}-{to}");
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let until_ms = words.next()?.parse().ok()?;
        let span = |word: &str| {
            let (from, to) = word.split_once('-')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        Some(Mark { until_ms, spans: words.map(span).collect::<Option<_>>()? })
    }
}

/// The marks of all keys.
#[derive(Debug)]
pub struct Marks {
    /// The folder and the open descriptor that holds its lock.
    folder: Option<(File, PathBuf)>,
    /// Without a folder: how far a command's time may be ahead of the clock.
    ahead_max_ms: Option<u64>,
    /// The marks at startup. The router refuses the commands that they cover.
    before: HashMap<Name, Mark>,
    /// The marks in the file now.
    now: HashMap<Name, Mark>,
    /// The mark of keys that have none of their own.
    others: Mark,
    /// The latest command time of each key since the start.
    newest_ms: HashMap<Name, u64>,
}

impl Marks {
    /// Keeps no marks. For routers without keys.
    pub fn none() -> Self {
        Marks {
            folder: None,
            ahead_max_ms: None,
            before: HashMap::new(),
            now: HashMap::new(),
            others: Mark::default(),
            newest_ms: HashMap::new(),
        }
    }

    /// For routers that cannot keep marks: narrows the time window.
    pub fn without_folder(unix_ms: u64) -> Self {
        let mut marks = Marks::none();
        marks.ahead_max_ms = Some(SLACK_MS);
        marks.others.until_ms = unix_ms.saturating_add(SLACK_MS);
        marks
    }

    /// Keeps marks in a file of this folder. Creates the folder if necessary. If there is no file, as at the very first
    /// start, commands signed before now are refused.
    ///
    /// # Errors
    /// If the folder cannot be written, another router uses it, or the file is damaged.
    pub fn in_folder(folder: &Path, unix_ms: u64) -> Result<Self, MarksError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| MarksError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(fail(folder))?;
        let lock = File::open(folder).map_err(fail(folder))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(MarksError::InUse { path: folder.to_owned() }),
            Err(fs::TryLockError::Error(source)) => return Err(fail(folder)(source)),
        }
        let path = folder.join(FILE);
        let mut marks = Marks::none();
        marks.folder = Some((lock, folder.to_owned()));
        match fs::read_to_string(&path) {
            Ok(text) => marks.decode(&text).map_err(|line| MarksError::Damaged { path: path.clone(), line })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => marks.others.until_ms = unix_ms,
            Err(error) => return Err(fail(&path)(error)),
        }
        // Fail now if the file cannot be written.
        marks.save().map_err(fail(&path))?;
        Ok(marks)
    }

    /// How far a command's time may be ahead of the clock, at most `configured_ms`.
    pub(super) fn ahead_max_ms(&self, configured_ms: u64) -> u64 {
        self.ahead_max_ms.map_or(configured_ms, |max| max.min(configured_ms))
    }

    /// Whether a command with this key and time may have been accepted before the start.
    pub(super) fn covers(&self, key: &Name, time_ms: u64) -> bool {
        self.before.get(key).unwrap_or(&self.others).covers(time_ms)
    }

    /// Notes a verified command, even if it is refused later.
    ///
    /// # Errors
    /// If the file cannot be written. The command must then not be accepted.
    pub(super) fn note(&mut self, key: &Name, time_ms: u64, now_ms: u64) -> io::Result<()> {
        if self.folder.is_none() {
            return Ok(());
        }
        if time_ms <= now_ms.saturating_add(AHEAD_MS) {
            let newest_ms = self.newest_ms.entry(key.clone()).or_default();
            *newest_ms = time_ms.max(*newest_ms);
        }
        let mark = self.now.entry(key.clone()).or_insert_with(|| self.others.clone());
        if mark.covers(time_ms) {
            return Ok(());
        }
        let before = mark.clone();
        mark.cover(time_ms, now_ms);
        let saved = self.save();
        if saved.is_err() {
            self.now.insert(key.clone(), before);
        }
        saved
    }

    /// Forgets the marks that cover no time from this one on, except those of keys that `keeps` names.
    pub(super) fn forget_before(&mut self, time_ms: u64, keeps: impl Fn(&Name) -> bool) {
        let ends_ms = |mark: &Mark| mark.spans.last().map_or(mark.until_ms, |span| span.1.max(mark.until_ms));
        self.now.retain(|key, mark| keeps(key) || ends_ms(mark) >= time_ms);
        let now = &self.now;
        self.newest_ms.retain(|key, _| now.contains_key(key));
    }

    /// Replaces the file atomically: readers and crashes find either the old or the new one.
    fn save(&self) -> io::Result<()> {
        let Some((lock, folder)) = &self.folder else { return Ok(()) };
        let mut text = format!("{HEADER}\n");
        let mut line = |key: &str, mark: &Mark| {
            text.push_str(key);
            text.push(' ');
            mark.encode(&mut text);
            text.push('\n');
        };
        line("*", &self.others);
        let mut marks: Vec<_> = self.now.iter().collect();
        marks.sort_unstable_by_key(|(key, _)| *key);
        marks.into_iter().for_each(|(key, mark)| line(&key.to_string(), mark));
        let new = folder.join(format!("{FILE}.new"));
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, folder.join(FILE))?;
        // The descriptor with the lock is that of the folder, so this syncs the rename.
        lock.sync_all()
    }

    /// Parses the file's text.
    ///
    /// # Errors
    /// The number of the first invalid line.
    fn decode(&mut self, text: &str) -> Result<(), usize> {
        let mut lines = text.lines().zip(1_usize..);
        if lines.next().is_none_or(|(line, _)| line != HEADER) {
            return Err(1);
        }
        for (line, number) in lines {
            let (key, mark) = line.split_once(' ').ok_or(number)?;
            let mark = Mark::decode(mark).ok_or(number)?;
            if key == "*" {
                self.others = mark;
            } else {
                self.before.insert(key.parse().map_err(|_| number)?, mark);
            }
        }
        self.now = self.before.clone();
        Ok(())
    }
}

impl Drop for Marks {
    /// In an orderly shutdown, no further command is accepted. Lower the marks to the exact times.
    fn drop(&mut self) {
        for (key, newest_ms) in std::mem::take(&mut self.newest_ms) {
            let before_ms = self.before.get(&key).unwrap_or(&self.others).until_ms;
            if let Some(mark) = self.now.get_mut(&key) {
                mark.until_ms = newest_ms.max(before_ms);
            }
        }
        if let Err(error) = self.save() {
            tracing::warn!(%error, "the times of accepted commands could not be written once more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_795_000_000_000;

    fn key() -> Name {
        "/net/alice/KEY/%01%202".parse().expect("a name")
    }

    #[test]
    fn what_was_noted_is_covered_after_a_restart_however_the_router_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::in_folder(folder.path(), NOW_MS).expect("a new file");
        assert!(marks.covers(&key(), NOW_MS), "signed before the very first start");
        assert!(!marks.covers(&key(), NOW_MS + 1));
        for ms in [100, 3_000, 200] {
            marks.note(&key(), NOW_MS + ms, NOW_MS).expect("written");
            assert!(!marks.covers(&key(), NOW_MS + ms), "the history in memory has those of this run");
        }
        // A copy of the file is what a crash leaves.
        let crashed = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join(FILE), crashed.path().join(FILE)).expect("copied");
        let crashed = Marks::in_folder(crashed.path(), NOW_MS + 9).expect("a good file");
        assert!(crashed.covers(&key(), NOW_MS + 3_000) && crashed.covers(&key(), NOW_MS + 100 + AHEAD_MS));
        assert!(!crashed.covers(&key(), NOW_MS + 101 + AHEAD_MS));
        drop(marks);
        let marks = Marks::in_folder(folder.path(), NOW_MS + 9).expect("a good file");
        assert!(marks.covers(&key(), NOW_MS + 3_000) && !marks.covers(&key(), NOW_MS + 3_001));
        assert!(marks.covers(&"/other".parse().expect("a name"), NOW_MS), "a key that was never seen");
        assert!(matches!(Marks::in_folder(folder.path(), NOW_MS), Err(MarksError::InUse { .. })));
    }

    #[test]
    fn a_write_serves_the_commands_of_some_seconds() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::in_folder(folder.path(), NOW_MS).expect("a new file");
        let file = || fs::read_to_string(folder.path().join(FILE)).expect("it is there");
        marks.note(&key(), NOW_MS + 1, NOW_MS).expect("written");
        let first = file();
        marks.note(&key(), NOW_MS + 1 + AHEAD_MS, NOW_MS + AHEAD_MS).expect("covered");
        assert_eq!(file(), first);
        marks.note(&key(), NOW_MS + 2 + AHEAD_MS, NOW_MS + AHEAD_MS).expect("written");
        assert_ne!(file(), first);
    }

    #[test]
    fn a_wrong_clock_costs_its_own_times_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::in_folder(folder.path(), NOW_MS).expect("a new file");
        let hour = 3_600_000;
        for hours in [1, 2, 4, 800_000] {
            marks.note(&key(), NOW_MS + hours * hour, NOW_MS).expect("written");
        }
        drop(marks);
        let marks = Marks::in_folder(folder.path(), NOW_MS).expect("a good file");
        for hours in [1, 2, 4, 800_000] {
            assert!(marks.covers(&key(), NOW_MS + hours * hour));
            assert!(!marks.covers(&key(), NOW_MS + hours * hour - 1));
            assert!(!marks.covers(&key(), NOW_MS + hours * hour + 2 * SPAN_MS));
        }
    }

    #[test]
    fn spans_are_few_and_never_lose_a_time() {
        let mut mark = Mark::default();
        let times: Vec<u64> = (0..1_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).collect();
        for &time in &times {
            mark.cover_span(time);
            assert!(mark.spans.len() <= SPANS_MAX);
        }
        assert!(times.iter().all(|&time| mark.covers(time)));
        let mut text = String::new();
        mark.encode(&mut text);
        assert_eq!(Mark::decode(&text), Some(mark));
        let mut last = Mark::default();
        last.cover_span(u64::MAX);
        assert!(last.covers(u64::MAX) && !last.covers(u64::MAX - 1));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_fresh_start() {
        let folder = tempfile::tempdir().expect("a folder");
        for (text, wrong) in [
            ("", 1),
            ("what\n", 1),
            (&*format!("{HEADER}\n* 1\n/a 1 2-\n"), 3),
            (&*format!("{HEADER}\n* 1\n/a\n"), 3),
            (&*format!("{HEADER}\n/a -1\n"), 2),
        ] {
            fs::write(folder.path().join(FILE), text).expect("written");
            let error = Marks::in_folder(folder.path(), NOW_MS).expect_err("damaged");
            assert!(matches!(error, MarksError::Damaged { line, .. } if line == wrong), "{text}: {error}");
        }
    }

    #[test]
    fn nothing_is_accepted_that_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut marks = Marks::in_folder(folder.path(), NOW_MS).expect("a new file");
        fs::create_dir(folder.path().join(format!("{FILE}.new"))).expect("in the way of the file");
        assert!(marks.note(&key(), NOW_MS + 1, NOW_MS).is_err());
        assert!(marks.note(&key(), NOW_MS + 1, NOW_MS).is_err(), "and so the second time");
    }
}
