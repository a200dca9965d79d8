//! What the agent changes in its router, and what it finds there.

use std::sync::Arc;

use byname_wire::{Descriptor, Name};

use crate::intent::{Attributes, Subject, UsedFile};

/// A change of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds a route of origin `fleet`, or changes it. Makes the face if there is none.
    Register {
        /// Prefix.
        prefix: Name,
        /// Address of the nexthop.
        uri: Arc<str>,
        /// Cost and flags.
        attributes: Attributes,
    },
    /// Removes a route of origin `fleet`.
    Unregister {
        /// Prefix.
        prefix: Name,
        /// Address of the nexthop.
        uri: Arc<str>,
    },
    /// Sends packets with these tags there, too. Makes the face if there is none.
    Advertise {
        /// The tags.
        tags: Arc<Descriptor>,
        /// Address of the nexthop.
        uri: Arc<str>,
    },
    /// Does not send packets with these tags there any more.
    Withdraw {
        /// The tags.
        tags: Arc<Descriptor>,
        /// Address of the nexthop.
        uri: Arc<str>,
    },
    /// Takes a face out of use, for [`SUSPENDED_MS`](super::SUSPENDED_MS).
    Suspend {
        /// Address of the nexthop.
        uri: Arc<str>,
    },
    /// Uses a suspended face again.
    Resume {
        /// Address of the nexthop.
        uri: Arc<str>,
    },
    /// Sets a strategy. What was there before must be noted first.
    SetStrategy {
        /// Prefix.
        prefix: Name,
        /// Name of the strategy.
        strategy: Name,
    },
    /// Restores the strategy that was there before.
    RestoreStrategy {
        /// Prefix.
        prefix: Name,
    },
    /// Uses these files of tables and rules of routing, and no others.
    UseFiles {
        /// The files.
        files: Vec<UsedFile>,
        /// The rules. They come after those that the router has by itself.
        policy: Vec<String>,
    },
}

impl Change {
    /// What it is about. `None`: a face.
    pub(super) fn subject(&self) -> Option<Subject> {
        match self {
            Change::Register { prefix, .. } | Change::Unregister { prefix, .. } => {
                Some(Subject::Routes(prefix.clone()))
            }
            Change::SetStrategy { prefix, .. } | Change::RestoreStrategy { prefix } => {
                Some(Subject::Strategy(prefix.clone()))
            }
            Change::Advertise { tags, .. } | Change::Withdraw { tags, .. } => Some(Subject::Tags(tags.clone())),
            Change::UseFiles { .. } => Some(Subject::Files),
            Change::Suspend { .. } | Change::Resume { .. } => None,
        }
    }

    /// Whether a route goes.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Change::Unregister { .. } | Change::Withdraw { .. })
    }
}

/// What the router has of the fleet.
#[derive(Debug, Default)]
pub struct Existing {
    /// Routes of origin `fleet`: their prefix, and the address of their nexthop.
    pub routes: Vec<(Name, Arc<str>, Attributes)>,
    /// Ways of sets of tags that the agent has told the router: [`TOLD`](crate::intent::TOLD) or [`TOLD_BEFORE`](crate::intent::TOLD_BEFORE).
    pub tags: Vec<(Descriptor, Arc<str>, Attributes)>,
    /// Strategies of those that the agent has set.
    pub strategies: Vec<(Name, Name)>,
    /// Whether somebody has changed the settings that the agent has written.
    pub settings_changed: bool,
}

/// The change that makes a route.
pub(super) fn added(of: &Subject, uri: &Arc<str>, attributes: Attributes) -> Option<Change> {
    let uri = uri.clone();
    match of {
        Subject::Routes(prefix) => Some(Change::Register { prefix: prefix.clone(), uri, attributes }),
        Subject::Tags(tags) => Some(Change::Advertise { tags: tags.clone(), uri }),
        Subject::Strategy(_) | Subject::Files => None,
    }
}

/// The change that removes a route.
pub(super) fn removed(of: &Subject, uri: &Arc<str>) -> Option<Change> {
    let uri = uri.clone();
    match of {
        Subject::Routes(prefix) => Some(Change::Unregister { prefix: prefix.clone(), uri }),
        Subject::Tags(tags) => Some(Change::Withdraw { tags: tags.clone(), uri }),
        Subject::Strategy(_) | Subject::Files => None,
    }
}
