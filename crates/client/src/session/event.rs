//! What a session tells its application.

use byname_mgmt::ControlResponse;
use byname_wire::{Interest, Name};

use super::{CheckId, CommandId, FindId, GroupId, InterestId};
use crate::failure::ClientCounters;
use crate::fetch::Object;
use crate::link::{DataPacket, ExchangeError};
use crate::management::ManagementError;
use crate::outbox::Fields;
use crate::signed::RequestDoubt;
use crate::sync::Update;
use crate::tags::Message;

/// Something that has happened.
#[derive(Debug)]
pub enum Event {
    /// An Interest was answered, or is over.
    Answer {
        /// The Interest.
        id: InterestId,
        /// Its Data, which is trusted.
        result: Result<DataPacket, ExchangeError>,
    },
    /// An Interest arrived for a prefix of this application.
    Request(Request),
    /// A request was checked, or cannot be.
    Checked {
        /// The check.
        id: CheckId,
        /// The request.
        request: Request,
        /// The name of the key that has signed it, or why it is not accepted.
        result: Result<Name, Box<RequestDoubt>>,
    },
    /// A prefix is registered at the router.
    Registered {
        /// The prefix.
        prefix: Name,
    },
    /// A prefix could not be registered. The session tries again, unless the application withdraws the prefix.
    NotRegistered {
        /// The prefix.
        prefix: Name,
        /// The reason.
        error: ManagementError,
    },
    /// The router answered a command.
    Commanded {
        /// The command.
        id: CommandId,
        /// The answer, whatever its code.
        result: Result<ControlResponse, ManagementError>,
    },
    /// The search for an object is over.
    Found {
        /// The search.
        id: FindId,
        /// The object.
        result: Result<Object, ExchangeError>,
    },
    /// Members of a group have published.
    Updates {
        /// The group.
        group: GroupId,
        /// What is new.
        updates: Vec<Update>,
    },
    /// A message that was sent by tags or to an address of this application.
    Message(Message),
}

impl Event {
    /// Counts this event, which nobody took.
    pub(crate) fn count_dropped(&self, counters: &mut ClientCounters) {
        *match self {
            Event::Request(_) => &mut counters.requests_dropped,
            Event::Message(_) => &mut counters.messages_dropped,
            Event::Updates { .. } => &mut counters.updates_dropped,
            _ => &mut counters.others_dropped,
        } += 1;
    }
}

/// An Interest that this application may answer.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) prefix: Name,
    pub(super) packet: Vec<u8>,
    pub(super) fields: Fields,
}

impl Request {
    /// The prefix that it belongs to.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// The Interest.
    pub fn interest(&self) -> Interest<'_> {
        Interest::decode(&self.packet).expect("was decoded before it was stored")
    }

    /// The link fields of an answer.
    pub fn fields(&self) -> Fields {
        self.fields
    }
}
