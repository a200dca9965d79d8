//! A loop without a worker around one port, in virtual time, for tests and fuzzing.

use std::io::ErrorKind;
use std::time::Duration;

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use mio::{Events, Poll, Token};

use super::{Port, PortContext, Readiness, split_token};
use crate::face::{Creation, FaceEvent};
use crate::handover::FormerFace;
use crate::uri::FaceUri;
use crate::waker::LoopWaker;

/// Packets that a port is asked for at once.
const BURST: usize = 64;

/// A loop around one port, as the port sees it.
pub struct Bench {
    pub(crate) poll: Poll,
    waker: LoopWaker,
    next_face_id: u64,
    /// Virtual time.
    pub now: Ticks,
    /// Packets that the port has delivered.
    pub received: Vec<Received>,
    /// Events that the port has reported, with the port's number.
    pub events: Vec<(usize, FaceEvent)>,
    /// Outcomes that the port has reported for requested faces.
    pub(crate) creations: Vec<(FaceUri, Creation)>,
    /// Packets that the port has left to the owners of borrowed faces.
    pub(crate) left: Vec<Outgoing>,
    pub(crate) former: Vec<FormerFace>,
}

impl Bench {
    /// Starts at time 0.
    #[allow(clippy::new_without_default, reason = "it asks the system for descriptors")]
    pub fn new() -> Self {
        let poll = Poll::new().expect("an event queue");
        let waker = LoopWaker::new(poll.registry(), Token(usize::MAX)).expect("a waker");
        let next_face_id = FaceId::FIRST.0;
        let (received, events, creations, left, former) = Default::default();
        Bench { poll, waker, next_face_id, now: Ticks(0), received, events, creations, left, former }
    }

    /// Context for a call of the port.
    pub fn cx(&mut self) -> PortContext<'_> {
        PortContext {
            now: self.now,
            port: 0,
            registry: self.poll.registry(),
            waker: &self.waker,
            next_face_id: &mut self.next_face_id,
            face_id_step: 1,
            received: &mut self.received,
            events: &mut self.events,
            creations: &mut self.creations,
            token_mark: None,
            left: &mut self.left,
            former: &mut self.former,
        }
    }

    /// Waits up to `ms` for descriptors to become ready, and tells the port.
    pub fn wait(&mut self, port: &mut dyn Port, ms: u64) {
        let mut events = Events::with_capacity(64);
        // The poll may be interrupted by a signal, for example when a shell stops and continues the tests. Then there
        // are no events.
        if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_millis(ms))) {
            assert_eq!(error.kind(), ErrorKind::Interrupted, "polling works");
        }
        for event in &events {
            let (_, key) = split_token(event.token());
            port.ready(&mut self.cx(), key, Readiness::of(event));
        }
    }

    /// Runs one round of the loop, waiting up to `ms` for input.
    pub fn round(&mut self, port: &mut dyn Port, ms: u64) {
        let ms = if port.has_input() { 0 } else { ms };
        self.wait(port, ms);
        if port.next_deadline().is_some_and(|at| at <= self.now) {
            port.on_deadline(&mut self.cx());
        }
        if port.has_input() {
            port.receive(&mut self.cx(), BURST);
        }
        port.flush(&mut self.cx());
    }

    /// Receives until `packets` have come, or none comes for 200 ms.
    pub fn receive(&mut self, port: &mut dyn Port, packets: usize) -> Vec<Received> {
        while self.received.len() < packets {
            if !port.has_input() {
                self.wait(port, 200);
                if !port.has_input() {
                    break;
                }
            }
            port.receive(&mut self.cx(), BURST);
        }
        std::mem::take(&mut self.received)
    }

    /// Sends packets, one per call.
    pub fn send(&mut self, port: &mut dyn Port, face: FaceId, packets: &[Packet]) {
        for packet in packets {
            let outgoing = Outgoing { face, fields: LinkFields::default(), packet: packet.clone() };
            port.transmit(&mut self.cx(), &mut [outgoing]);
        }
        port.flush(&mut self.cx());
    }
}
