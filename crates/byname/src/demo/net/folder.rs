//! The folder of a demonstration network: its files, the record of what runs, and what a killed demonstration left.
//!
//! There is one network of each user at a time. The folder `lock` says whether its demonstration still runs.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// How long processes may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What runs, for `byname demo net shell` and `list`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The process of the demonstration.
    pub process: u32,
    /// The page that links all routers.
    pub page: String,
    pub routers: Vec<Entry>,
}

/// One router.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    /// What the topology's file calls it.
    pub label: String,
    pub socket: PathBuf,
    /// Its HTTP address.
    pub http: String,
    /// The process that keeps its namespace, if it has one.
    pub namespace: Option<u32>,
}

/// The folder, while its network is this process's.
pub struct Folder {
    path: PathBuf,
    /// Locked. The system unlocks it when this process ends, however it ends.
    _lock: File,
}

/// The folder of this user's network.
pub fn path() -> PathBuf {
    std::env::temp_dir().join(format!("byname-net-{}", rustix::process::geteuid().as_raw()))
}

impl Folder {
    /// Takes the folder of this user, and removes what an earlier network has left in it. Returns how many processes that
    /// were.
    ///
    /// # Errors
    /// If a network runs, or the folder belongs to somebody else.
    pub fn take() -> anyhow::Result<(Folder, usize)> {
        let path = path();
        let shown = path.display();
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot create {shown}"));
            }
            _ => {}
        }
        let status = fs::symlink_metadata(&path).with_context(|| format!("cannot use {shown}"))?;
        let is_ours = status.is_dir() && status.uid() == rustix::process::geteuid().as_raw();
        ensure!(is_ours, "{shown} belongs to somebody else; remove it, or set TMPDIR to another folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        let Some(lock) = lock(&path)? else {
            let process =
                read_record(&path).map_or_else(|_| String::new(), |record| format!(" (process {})", record.process));
            bail!("a network runs already{process}; `byname demo net stop` ends it");
        };
        let left = end_all(&path)?;
        let folder = Folder { path, _lock: lock };
        folder.empty();
        Ok((folder, left))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what runs.
    pub fn write_record(&self, record: &Record) -> anyhow::Result<()> {
        let new = self.path.join("record.new");
        fs::write(&new, serde_json::to_vec_pretty(record)?)?;
        Ok(fs::rename(new, self.path.join("record.json"))?)
    }

    /// Removes all files besides the lock.
    fn empty(&self) {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_name() != "lock") {
            // What remains is replaced by the next network's.
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Routers have ended by now, unless something went wrong.
        let _ = end_all(&self.path);
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a folder. `None`: another process has it.
fn lock(folder: &Path) -> anyhow::Result<Option<File>> {
    let path = folder.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Whether a process has locked a folder. Makes no file: the process may be removing the folder.
fn is_locked(folder: &Path) -> bool {
    let file = File::open(folder.join("lock"));
    file.is_ok_and(|file| {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}

fn read_record(folder: &Path) -> anyhow::Result<Record> {
    Ok(serde_json::from_slice(&fs::read(folder.join("record.json"))?)?)
}

/// What runs now.
///
/// # Errors
/// If nothing does.
pub fn running() -> anyhow::Result<Record> {
    let none = "no demonstration network of yours runs; `byname demo net 5` starts one";
    let folder = path();
    // Without the folder there is none. If it can be locked, its process has ended.
    let is_ours = fs::symlink_metadata(&folder)
        .is_ok_and(|status| status.is_dir() && status.uid() == rustix::process::geteuid().as_raw());
    if !is_ours || !is_locked(&folder) {
        bail!(none);
    }
    read_record(&folder).context("the network is not ready yet; try again")
}

/// Ends the network that runs, or what one has left. Returns whether there was anything.
pub fn stop() -> anyhow::Result<bool> {
    if let Ok(record) = running() {
        let process = i32::try_from(record.process).ok().and_then(Pid::from_raw).context("the record is damaged")?;
        rustix::process::kill_process(process, Signal::TERM).context("cannot end the network's process")?;
        let end = Instant::now() + 2 * PATIENCE;
        while running().is_ok() {
            ensure!(Instant::now() < end, "the network's process {} does not end", record.process);
            std::thread::sleep(PAUSE);
        }
        return Ok(true);
    }
    let was_there = path().exists();
    if was_there {
        drop(Folder::take()?);
    }
    Ok(was_there)
}

/// Kills all processes that were started with a configuration file in this folder. Returns how many they were.
fn end_all(folder: &Path) -> anyhow::Result<usize> {
    let end = Instant::now() + PATIENCE;
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let left = routers_of(folder);
        if left.is_empty() {
            return Ok(seen.len());
        }
        ensure!(Instant::now() < end, "these routers of an earlier network do not end: {left:?}");
        for process in left {
            seen.insert(process.as_raw_nonzero());
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The processes that have a configuration file of this folder as an argument.
fn routers_of(folder: &Path) -> Vec<Pid> {
    let own = std::process::id();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_router = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| {
            let path = std::str::from_utf8(word).map(Path::new);
            path.is_ok_and(|path| path.parent() == Some(folder) && path.extension().is_some_and(|ext| ext == "toml"))
        })
    };
    let routers = numbers.filter(|process| *process != own && is_router(process));
    routers.filter_map(|process| Pid::from_raw(i32::try_from(process).ok()?)).collect()
}
