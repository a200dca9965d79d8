//! `[dashboard]`: pages for people on the port of `[metrics]`.

use std::path::PathBuf;

use serde::Deserialize;

/// `[dashboard]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DashboardSettings {
    /// Whether to serve the dashboard.
    pub enabled: bool,
    /// Whether other hosts may use it, with its token.
    pub remote: bool,
    /// Names of this host by which browsers may ask for it, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// The file with the token. Empty: `dashboard.token` in the folder for state.
    pub token_file: PathBuf,
}

impl Default for DashboardSettings {
    fn default() -> Self {
        DashboardSettings { enabled: true, remote: false, hosts: Vec::new(), token_file: PathBuf::new() }
    }
}
