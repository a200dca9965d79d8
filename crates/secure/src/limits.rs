//! Limits on peers.

use std::time::Duration;

/// Limits on peers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most handshakes at a time on one listener. The oldest of the source prefix with most makes room for the next.
    pub handshakes_max: usize,
    /// How long a handshake may take.
    pub handshake_time: Duration,
    /// How long a peer may take nothing of what waits for it.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { handshakes_max: 256, handshake_time: Duration::from_secs(8), stall_time: Duration::from_secs(10) }
    }
}
