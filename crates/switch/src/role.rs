//! What a port is for.

/// The use of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Not used yet.
    Closed,
    /// Hosts, and everything else that is not a switch of this network.
    Host,
    /// Another switch.
    Trunk {
        /// Whether the link is on the tree that frames for groups are flooded along.
        floods: bool,
    },
}
