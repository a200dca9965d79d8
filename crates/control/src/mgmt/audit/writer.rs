//! The thread that writes audit lines: to files that it renames when they are full, or to the journal.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::Receiver;
use serde_json::{Map, Value, json};

use super::{AuditError, Entry, Line, Outcome};
use crate::config::AuditDestination;
use crate::mgmt::json::parameters_json;
use crate::mgmt::tlv::{ControlParameters, Element};

/// Socket of the journal, which takes one entry in a datagram: lines of `FIELD=value`.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The open destination.
pub(super) enum Output {
    Journal(UnixDatagram),
    File { path: PathBuf, bytes_max: u64, old_files: usize, file: BufWriter<File>, len: u64 },
}

impl Output {
    pub fn open(destination: AuditDestination) -> Result<Output, AuditError> {
        match destination {
            AuditDestination::Journal => Output::open_journal(Path::new(JOURNAL)),
            AuditDestination::File { path, bytes_max, old_files } => {
                let opened = open(&path);
                let (file, len) = opened.map_err(|error| AuditError::Open { to: path.display().to_string(), error })?;
                Ok(Output::File { path, bytes_max, old_files, file, len })
            }
        }
    }

    pub(super) fn open_journal(socket: &Path) -> Result<Output, AuditError> {
        let connect = || {
            let journal = UnixDatagram::unbound()?;
            journal.connect(socket)?;
            Ok(journal)
        };
        let open = |error| AuditError::Open { to: socket.display().to_string(), error };
        connect().map(Output::Journal).map_err(open)
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Output::Journal(journal) => {
                // The JSON has no line breaks: they are escaped.
                let entry = format!("MESSAGE={line}\nPRIORITY=6\nSYSLOG_IDENTIFIER=byname-audit\n");
                journal.send(entry.as_bytes()).map(drop)
            }
            Output::File { path, bytes_max, old_files, file, len } => {
                let more = line.len() as u64 + 1;
                if *len > 0 && *len + more > *bytes_max {
                    file.flush()?;
                    shift(path, *old_files)?;
                    (*file, *len) = open(path)?;
                }
                *len += more;
                writeln!(file, "{line}")
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Journal(_) => Ok(()),
            Output::File { file, .. } => file.flush(),
        }
    }
}

/// Opens a file to append to it, and returns its length.
fn open(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
    let len = file.metadata()?.len();
    Ok((BufWriter::new(file), len))
}

/// Renames `path` to `path.1`, that to `path.2` and so on. The oldest is lost.
fn shift(path: &Path, old_files: usize) -> io::Result<()> {
    let numbered = |number: usize| match number {
        0 => path.to_owned(),
        _ => PathBuf::from(format!("{}.{number}", path.display())),
    };
    if old_files == 0 {
        return std::fs::remove_file(path);
    }
    for number in (0..old_files).rev() {
        match std::fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) struct Writer {
    output: Output,
    lines: Receiver<Line>,
    lost: Arc<AtomicU64>,
    /// Whether the last line could not be written.
    fails: bool,
}

impl Writer {
    pub fn new(output: Output, lines: Receiver<Line>, lost: Arc<AtomicU64>) -> Self {
        Writer { output, lines, lost, fails: false }
    }

    /// Writes lines until the control thread's side is gone.
    pub fn run(mut self) {
        while let Ok(first) = self.lines.recv() {
            let mut next = Some(first);
            while let Some(line) = next {
                let written = self.output.write(&text(&line));
                self.note(written, 1);
                next = self.lines.try_recv().ok();
            }
            let flushed = self.output.flush();
            self.note(flushed, 0);
        }
    }

    /// Logs the first failure, and the end of failures.
    fn note(&mut self, written: io::Result<()>, lines: u64) {
        match written {
            Ok(()) if lines > 0 && std::mem::take(&mut self.fails) => tracing::warn!("the audit log goes on"),
            Ok(()) => {}
            Err(error) => {
                self.lost.fetch_add(lines, Ordering::Relaxed);
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::error!(%error, "cannot write the audit log");
                }
            }
        }
    }
}

/// The line as JSON.
pub(super) fn text(line: &Line) -> String {
    let time = |unix_ms: u64| {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
        at.map_or_else(String::new, |at| humantime::format_rfc3339_millis(at).to_string())
    };
    match line {
        Line::Lost { unix_ms, count } => json!({ "time": time(*unix_ms), "lost": count }).to_string(),
        Line::Command(entry, Outcome { code, text }) => {
            let Entry { unix_ms, command, face, remote, key, claimed_key, parameters } = &**entry;
            let mut line = Map::new();
            let mut put = |key: &str, value: Value| drop(line.insert(key.to_owned(), value));
            put("time", time(*unix_ms).into());
            put("command", command.name().into());
            put("face", face.0.into());
            put("remote", remote.as_deref().into());
            put("key", key.as_ref().map(ToString::to_string).into());
            if let Some(claimed) = claimed_key {
                put("claimed_key", claimed.to_string().into());
            }
            put("code", (*code).into());
            if let Some(text) = text {
                put("text", text.as_str().into());
            }
            if let Ok(parameters) = ControlParameters::decode(parameters) {
                put("parameters", parameters_json(&parameters));
            }
            Value::Object(line).to_string()
        }
    }
}
