//! Management commands, in nfdc's words: what they send, and how answers are shown.
//!
//! `view` holds what `--json` prints: its field names are the documented interface for scripts
//! (`docs/json.md`). `text` is the same for people.

pub mod cs;
mod decode;
pub mod face;
pub mod face_uri;
pub mod route;
pub mod status;
pub mod strategy;
pub mod text;
pub mod view;
pub mod workers;

use std::io::Write;

use serde::Serialize;

/// Prints `value` as JSON, or else `text`.
fn print(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(value)?)?;
    } else {
        out.write_all(text().as_bytes())?;
    }
    Ok(out.flush()?)
}

/// `on` or `off`, as nfdc has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Switch {
    fn is_on(self) -> bool {
        self == Switch::On
    }
}
