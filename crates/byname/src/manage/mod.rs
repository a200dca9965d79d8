//! Management commands, with nfdc's words: the Interests that they send, and the output of the answers.
//!
//! `view` holds the types that `--json` prints. Their field names are the documented interface for scripts
//! (`docs/json.md`). `text` formats the same data for people.

pub mod cs;
mod decode;
pub mod face;
pub mod face_uri;
pub mod reload;
pub mod route;
pub mod status;
pub mod strategy;
pub mod text;
pub mod threads;
pub mod view;

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

/// `on` or `off`, as in nfdc.
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
