//! Limits on memory, time and the number of connections.

use std::time::Duration;

/// Limits on each peer, and on all peers together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at a time.
    pub connections_max: usize,
    /// Most bytes in the head of a request.
    pub head_bytes_max: usize,
    /// Most header fields in a request.
    pub head_fields_max: usize,
    /// Time for a request's head to arrive, from the start of the connection or from the previous answer.
    pub head_time: Duration,
    /// How long a peer may read nothing of an answer.
    pub write_time: Duration,
    /// How long the control thread may take for a snapshot.
    pub snapshot_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 64,
            head_bytes_max: 16 << 10,
            head_fields_max: 64,
            head_time: Duration::from_secs(10),
            write_time: Duration::from_secs(10),
            snapshot_time: Duration::from_secs(5),
        }
    }
}
