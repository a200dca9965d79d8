//! The notification stream `/localhost/nfd/faces/events/<sequence number>`.
//!
//! Every notification is sent to the worker at once. There it satisfies pending Interests or is dropped. The last
//! [`KEPT`] notifications are kept for Interests that come later.

use std::collections::VecDeque;

use byname_face::{FaceEvent, FaceStatus};
use byname_forward::Packet;
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Interest, Name};

use super::RESPONSE_FRESHNESS_MS;
use super::faces::{link_type_number, persistency_number, scope_number};
use super::tlv::{Element, FaceEventKind, FaceEventNotification};

/// Number of notifications kept.
const KEPT: usize = 256;

/// The notification stream.
pub(super) struct FaceEvents {
    name: Name,
    next: u64,
    /// The last notifications, oldest first.
    kept: VecDeque<Packet>,
}

impl FaceEvents {
    pub fn new(name: Name) -> Self {
        FaceEvents { name, next: 0, kept: VecDeque::new() }
    }

    /// Number of the next notification.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Continues the numbers of another process, so that a client that has seen those sees the next ones, too.
    pub fn number_from(&mut self, next: u64) {
        self.next = self.next.max(next);
        // Those kept have other numbers.
        self.kept.clear();
    }

    /// Creates the next notification.
    pub fn notify(&mut self, event: &FaceEvent) -> Packet {
        let (kind, status) = match event {
            FaceEvent::Created(status) => (FaceEventKind::Created, status),
            FaceEvent::Destroyed(status) => (FaceEventKind::Destroyed, status),
            FaceEvent::Up(status) => (FaceEventKind::Up, status),
            FaceEvent::Down(status) => (FaceEventKind::Down, status),
        };
        let name = self.name.join_number(component_type::SEQUENCE_NUM, self.next);
        let content = notification(kind, status).encode();
        let data = DataBuilder::new(name).freshness_ms(RESPONSE_FRESHNESS_MS).content(content);
        let packet = Packet::copy_from(&data.encode());
        self.next += 1;
        self.kept.push_back(packet.clone());
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        packet
    }

    /// The answer to an Interest for the stream or for one of its notifications. `None` if there is no such
    /// notification yet.
    pub fn answer(&self, interest: &Interest<'_>) -> Option<Packet> {
        if interest.name == self.name.as_ref() {
            return if interest.can_be_prefix { self.kept.back().cloned() } else { None };
        }
        let last = interest.name.component(-1)?;
        if last.typ != component_type::SEQUENCE_NUM || interest.name.len() != self.name.as_ref().len() + 1 {
            return None;
        }
        let age = self.next.checked_sub(last.number()?)?;
        let index = self.kept.len().checked_sub(usize::try_from(age).ok()?)?;
        self.kept.get(index).cloned()
    }
}

fn notification(kind: FaceEventKind, status: &FaceStatus) -> FaceEventNotification {
    FaceEventNotification {
        face_event_kind: kind.number(),
        face_id: status.id.0,
        uri: status.remote.to_string(),
        local_uri: status.local.to_string(),
        face_scope: scope_number(status.scope),
        face_persistency: persistency_number(status.persistency),
        link_type: link_type_number(status.link_type),
        flags: status.flags.bits(),
    }
}
