//! Face events on their way to a control side that may be slow.

use std::collections::BTreeMap;

use byname_forward::FaceId;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::face::{FaceEvent, FaceStatus};

/// A bounded channel, and a condensed backlog of events that did not fit.
///
/// The packet thread never waits. Events that do not fit are kept by face. A face that was created and destroyed
/// meanwhile leaves nothing, and only the last Up or Down stays. So the backlog is bounded by the number of faces that
/// exist or that the control side believes to exist. The control side never misses the end of a face that it knows.
pub(crate) struct EventQueue {
    channel: Sender<FaceEvent>,
    backlog: BTreeMap<FaceId, Pending>,
}

#[derive(Default)]
struct Pending {
    created: Option<FaceStatus>,
    changed: Option<FaceEvent>,
    destroyed: Option<FaceStatus>,
}

impl EventQueue {
    pub(crate) fn new(events_max: usize) -> (Self, Receiver<FaceEvent>) {
        let (channel, receiver) = bounded(events_max);
        (EventQueue { channel, backlog: BTreeMap::new() }, receiver)
    }

    /// The queue of another thread into the same channel. Each thread reports its own faces.
    pub(crate) fn another(&self) -> Self {
        EventQueue { channel: self.channel.clone(), backlog: BTreeMap::new() }
    }

    /// Whether events wait until the control side takes earlier ones.
    pub(crate) fn is_backlogged(&self) -> bool {
        !self.backlog.is_empty()
    }

    pub(crate) fn push(&mut self, event: FaceEvent) {
        if self.backlog.is_empty() {
            match self.channel.try_send(event) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(event)) => self.keep(event),
            }
        } else {
            self.keep(event);
        }
    }

    /// Passes on as many events as fit.
    pub(crate) fn flush(&mut self) {
        while let Some(mut entry) = self.backlog.first_entry() {
            let pending = entry.get_mut();
            let event = if let Some(status) = pending.created.take() {
                FaceEvent::Created(status)
            } else if let Some(event) = pending.changed.take() {
                event
            } else if let Some(status) = pending.destroyed.take() {
                FaceEvent::Destroyed(status)
            } else {
                entry.remove();
                continue;
            };
            match self.channel.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    match event {
                        FaceEvent::Created(status) => pending.created = Some(status),
                        FaceEvent::Destroyed(status) => pending.destroyed = Some(status),
                        changed => pending.changed = Some(changed),
                    }
                    return;
                }
                Err(TrySendError::Disconnected(_)) => {
                    self.backlog.clear();
                    return;
                }
            }
        }
    }

    /// Takes the waiting events of a face that moves to another thread, which pushes them into its own queue.
    pub(crate) fn take(&mut self, face: FaceId) -> Vec<FaceEvent> {
        let pending = self.backlog.remove(&face).unwrap_or_default();
        let (created, destroyed) =
            (pending.created.map(FaceEvent::Created), pending.destroyed.map(FaceEvent::Destroyed));
        created.into_iter().chain(pending.changed).chain(destroyed).collect()
    }

    fn keep(&mut self, event: FaceEvent) {
        let (FaceEvent::Created(status)
        | FaceEvent::Destroyed(status)
        | FaceEvent::Up(status)
        | FaceEvent::Down(status)) = &event;
        let id = status.id;
        let pending = self.backlog.entry(id).or_default();
        match event {
            FaceEvent::Created(status) => pending.created = Some(status),
            FaceEvent::Destroyed(_) if pending.created.is_some() => {
                self.backlog.remove(&id);
            }
            FaceEvent::Destroyed(status) => (pending.changed, pending.destroyed) = (None, Some(status)),
            changed => pending.changed = Some(changed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::tests::status;

    /// What a reader sees that lets the queue go on after each event.
    fn seen_by(receiver: &Receiver<FaceEvent>, queue: &mut EventQueue) -> Vec<(u64, &'static str)> {
        let mut seen = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            seen.push(match event {
                FaceEvent::Created(s) => (s.id.0, "created"),
                FaceEvent::Destroyed(s) => (s.id.0, "destroyed"),
                FaceEvent::Up(s) => (s.id.0, "up"),
                FaceEvent::Down(s) => (s.id.0, "down"),
            });
            queue.flush();
        }
        seen
    }

    #[test]
    fn a_slow_reader_sees_every_end_of_a_face_it_knows_and_no_more() {
        let (mut queue, receiver) = EventQueue::new(1);
        queue.push(FaceEvent::Created(status(256)));
        for id in 257..10_000 {
            queue.push(FaceEvent::Created(status(id)));
            queue.push(FaceEvent::Down(status(id)));
            queue.push(FaceEvent::Destroyed(status(id)));
        }
        queue.push(FaceEvent::Created(status(10_000)));
        queue.push(FaceEvent::Destroyed(status(256)));
        assert_eq!(queue.backlog.len(), 2);
        assert_eq!(seen_by(&receiver, &mut queue), [(256, "created"), (256, "destroyed"), (10_000, "created")]);
        assert!(!queue.is_backlogged());
    }

    #[test]
    fn a_face_that_moves_takes_its_events_along() {
        let (mut queue, receiver) = EventQueue::new(2);
        let mut other = queue.another();
        for id in 256..259 {
            queue.push(FaceEvent::Created(status(id)));
        }
        queue.push(FaceEvent::Down(status(258)));
        queue.push(FaceEvent::Created(status(259)));
        for event in queue.take(FaceId(258)) {
            other.push(event);
        }
        other.push(FaceEvent::Up(status(258)));
        assert_eq!(seen_by(&receiver, &mut other), [(256, "created"), (257, "created"), (258, "created"), (258, "up")]);
        queue.flush();
        assert!(matches!(receiver.try_recv(), Ok(FaceEvent::Created(s)) if s.id.0 == 259));
    }
}
