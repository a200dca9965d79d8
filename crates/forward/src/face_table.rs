//! What the worker knows of each face.

/// Whether `/localhost` may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The peer is a process on this host. Number 1 in management.
    Local,
    /// Anything else. Number 0.
    NonLocal,
}

/// Who hears what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// One peer. Number 0 in management.
    PointToPoint,
    /// A group, all of whom hear each other. Number 1.
    MultiAccess,
    /// A group, not all of whom hear each other. Number 2.
    AdHoc,
}

/// How long a face lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Until destroyed, or until its socket fails. Number 0 in management.
    Persistent,
    /// Made by the peer; goes when idle or closed. Number 1.
    OnDemand,
    /// Until destroyed; reconnects. Number 2.
    Permanent,
}

/// Network-layer packets of one face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FaceCounters {
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub out_interests: u64,
    pub out_data: u64,
    pub out_nacks: u64,
}
