//! Elements of the module `config`, which other forwarders do not have.

use crate::{element, types};

/// Flags of `config/reload`.
pub mod reload_flags {
    /// Tell what would change, and change nothing.
    pub const DRY_RUN: u64 = 1;
    /// Leave out what needs a restart.
    pub const PARTIAL: u64 = 2;
}

element! {
    /// A difference between the file and the running configuration.
    ConfigChange = types::CONFIG_CHANGE, {
        /// The setting.
        setting: String = types::SETTING,
        /// The change in words.
        text: String = types::TEXT,
        /// Why it needs a restart. Absent: it needs none.
        restart: Option<String> = types::RESTART,
    }
}

element! {
    /// The body of the answer to `config/reload`.
    ReloadReport = types::RELOAD_REPORT, {
        /// The differences, as many as fit into a packet.
        changes: Vec<ConfigChange> = types::CONFIG_CHANGE,
        /// Number of further differences.
        left_out: Option<u64> = types::LEFT_OUT,
    }
}
