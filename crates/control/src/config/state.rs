//! `[state]`: faces, routes and settings that survive a restart.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::value;

/// `[state]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// Whether state is kept.
    pub enabled: bool,
    /// The file. Empty: `state.db` in the folder for such state.
    pub file: PathBuf,
    /// How long routes of applications and daemons stay after a restart without being registered again.
    #[serde(deserialize_with = "value::duration")]
    pub stale_for: Duration,
}

impl Default for State {
    fn default() -> Self {
        State { enabled: true, file: PathBuf::new(), stale_for: Duration::from_secs(120) }
    }
}
