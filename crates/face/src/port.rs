//! The seam between the packet thread and what moves bytes.
//!
//! A [`Port`] owns descriptors and the faces that use them, with their link state. The loop
//! ([`crate::io_loop`]) owns the ports and one worker, and calls ports on its one thread only, so
//! a port needs no locks, must never block, and does a bounded amount of work in each call.
//!
//! One round of the loop: [`Port::ready`] for each readiness event, [`Port::receive`] on each port
//! that may have input, `Worker::poll`, [`Port::transmit`] for the packets to send, and one
//! [`Port::flush`] on each port. Packets and events pass through the [`PortContext`].

use byname_forward::{FaceId, Outgoing, Received, Ticks};
use mio::event::Source;
use mio::{Interest, Registry, Token};

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::waker::LoopWaker;

/// Bits of a token that are the port's own key; the number of the port is above them.
const KEY_BITS: u32 = 32;

/// What a descriptor is ready for. Edge-triggered: a port remembers it until the system says
/// `WouldBlock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// There is input, or the end of it, or an error to collect.
    pub readable: bool,
    /// Output is possible again, a connection is made, or has failed.
    pub writable: bool,
    /// The peer has ended its sending, or the connection is broken: the input has an end.
    pub closed: bool,
}

/// Moves bytes for its faces; see the [module](self).
///
/// # Life of a face
///
/// A port makes a face with [`PortContext::create_face_id`] and [`PortContext::report`] of
/// [`FaceEvent::Created`] (before or in the same call in which it first delivers a packet of it),
/// and ends it with [`FaceEvent::Destroyed`]; after that it delivers nothing more for it and drops
/// what it is asked to send there. The loop tells the worker and the control side. The counts of
/// network packets in a [`FaceStatus`] (`counters`) are the loop's to fill in.
///
/// What has a default is for ports without descriptors, deadlines, listeners, or faces made by command; a port that
/// wraps another passes on every call.
pub trait Port: Send {
    /// A word for logs: `udp4`, `unix`.
    fn name(&self) -> &str;

    /// Called once, before the packet thread runs: registers descriptors, reports faces that exist
    /// from the start.
    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()>;

    /// A descriptor that was registered with `key` became ready.
    ///
    /// Cheap: notes it, and leaves input to [`Port::receive`]. A port that connects or accepts may
    /// do so here.
    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
        let _ = (cx, key, readiness);
    }

    /// Whether `receive` may find something, as far as is known without a system call. Asked once
    /// a round, and before the loop sleeps.
    fn has_input(&self) -> bool;

    /// The loop is about to sleep until a descriptor is ready: a port whose peer tells of input only where
    /// it was asked to asks now. [`Port::has_input`] is asked once more after this.
    fn fall_asleep(&mut self, now: Ticks) {
        let _ = now;
    }

    /// Delivers up to about `packets_max` packets with [`PortContext::deliver`].
    ///
    /// What remains is for the next round, so that no port keeps others waiting.
    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize);

    /// Queues packets for its faces; drops and counts those for which a queue is full.
    ///
    /// Faces that are gone are no error. A packet that must be kept is taken out of its place. Others stay
    /// there until all ports are flushed: to let go of a packet whose buffer somebody else has, too, costs least when
    /// what was written before has reached the caches.
    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]);

    /// Sends what is queued, grouped as the system likes it, as far as it takes it now. What more may join can wait for
    /// the next round, where [`Port::has_input`] brings one about at once.
    fn flush(&mut self, cx: &mut PortContext<'_>);

    /// Whether it holds output back that the system did not take yet; asked when the forwarder
    /// stops.
    fn has_output(&self) -> bool {
        false
    }

    /// When [`Port::on_deadline`] is due; `None` when nothing is. Must be cheap: asked each round.
    fn next_deadline(&self) -> Option<Ticks> {
        None
    }

    /// Does what is due at `cx.now()`: idle faces, reconnections, link timers. Frames that come of
    /// it are sent here or in the `flush` that follows.
    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        let _ = cx;
    }

    /// Creates a face, or starts to; `None` when the request's remote URI is not of this port's
    /// kind. Persistent and permanent faces of stream ports are returned not yet `up` and connect
    /// in the background.
    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let _ = (cx, request);
        None
    }

    /// Changes one of its faces.
    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        face: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError>;

    /// Destroys one of its faces and reports that; false if there is none such.
    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool;

    /// One of its faces as it is at `now`.
    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus>;

    /// Local URIs of the addresses that it listens on.
    fn channels(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it dropped that was of no face, by reason, in words fit for a metric label.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What the loop lends to a port for one call.
pub struct PortContext<'a> {
    pub(crate) now: Ticks,
    pub(crate) port: usize,
    pub(crate) registry: &'a Registry,
    pub(crate) waker: &'a LoopWaker,
    pub(crate) next_face_id: &'a mut u64,
    pub(crate) received: &'a mut Vec<Received>,
    pub(crate) events: &'a mut Vec<(usize, FaceEvent)>,
}

impl PortContext<'_> {
    /// The time of this round.
    pub fn now(&self) -> Ticks {
        self.now
    }

    /// Gives the worker a packet.
    pub fn deliver(&mut self, received: Received) {
        self.received.push(received);
    }

    /// Packets delivered so far in this round, by all ports: a wrapper around a port changes those
    /// that were added by the port in it, a link service appends to it.
    pub fn received(&mut self) -> &mut Vec<Received> {
        self.received
    }

    /// A number for a new face: from 256 up, never used twice.
    pub fn create_face_id(&mut self) -> FaceId {
        let id = FaceId(*self.next_face_id);
        *self.next_face_id += 1;
        id
    }

    /// Tells the worker and the control side what happened to one of this port's faces.
    pub fn report(&mut self, event: FaceEvent) {
        self.events.push((self.port, event));
    }

    /// Registers a descriptor under a key of the port's own choice.
    pub fn register(&self, source: &mut impl Source, key: u32, interest: Interest) -> std::io::Result<()> {
        self.registry.register(source, token(self.port, key), interest)
    }

    /// Changes a registration.
    pub fn reregister(&self, source: &mut impl Source, key: u32, interest: Interest) -> std::io::Result<()> {
        self.registry.reregister(source, token(self.port, key), interest)
    }

    /// Ends a registration; closing the descriptor does so too.
    pub fn deregister(&self, source: &mut impl Source) -> std::io::Result<()> {
        self.registry.deregister(source)
    }

    /// Wakes this loop from another thread, for ports whose input no descriptor announces.
    pub fn waker(&self) -> LoopWaker {
        self.waker.clone()
    }
}

fn token(port: usize, key: u32) -> Token {
    Token(port << KEY_BITS | key as usize)
}

/// The port and the key of a token.
pub(crate) fn split_token(token: Token) -> (usize, u32) {
    (token.0 >> KEY_BITS, token.0 as u32)
}

#[cfg(test)]
pub(crate) mod tests {
    use byname_forward::{LinkFields, Packet};
    use byname_wire::tlv;
    use mio::Poll;

    use super::*;

    /// An element of this type and so many octets in all, its value full of `seed`.
    pub(crate) fn packet(typ: u8, len: usize, seed: u8) -> Packet {
        let mut wire = Vec::new();
        tlv::push_tlv(&mut wire, u64::from(typ), &vec![seed; len - if len < 255 { 2 } else { 4 }]);
        assert_eq!(wire.len(), len);
        Packet::copy_from(&wire)
    }

    /// What a port sees of a loop, for tests in virtual time.
    pub(crate) struct Bench {
        pub(crate) poll: Poll,
        waker: LoopWaker,
        next_face_id: u64,
        pub(crate) now: Ticks,
        pub(crate) received: Vec<Received>,
        pub(crate) events: Vec<(usize, FaceEvent)>,
    }

    impl Bench {
        pub(crate) fn new() -> Self {
            let poll = Poll::new().expect("an event queue");
            let waker = LoopWaker::new(poll.registry(), Token(usize::MAX)).expect("a waker");
            let next_face_id = FaceId::FIRST.0;
            Bench { poll, waker, next_face_id, now: Ticks(0), received: Vec::new(), events: Vec::new() }
        }

        pub(crate) fn cx(&mut self) -> PortContext<'_> {
            PortContext {
                now: self.now,
                port: 0,
                registry: self.poll.registry(),
                waker: &self.waker,
                next_face_id: &mut self.next_face_id,
                received: &mut self.received,
                events: &mut self.events,
            }
        }

        /// Waits up to `ms` for descriptors to become ready, and tells the port.
        pub(crate) fn wait(&mut self, port: &mut dyn Port, ms: u64) {
            let mut events = mio::Events::with_capacity(16);
            // The events are empty where a signal came, as of a shell that stops and continues the tests.
            if let Err(error) = self.poll.poll(&mut events, Some(std::time::Duration::from_millis(ms))) {
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "polling works");
            }
            for event in &events {
                let closed = event.is_read_closed() || event.is_error();
                let readiness = Readiness { readable: event.is_readable(), writable: event.is_writable(), closed };
                let (_, key) = split_token(event.token());
                port.ready(&mut self.cx(), key, readiness);
            }
        }

        /// Receives until `packets` have come, or none comes for 200 ms.
        pub(crate) fn receive(&mut self, port: &mut dyn Port, packets: usize) -> Vec<Received> {
            while self.received.len() < packets {
                if !port.has_input() {
                    self.wait(port, 200);
                    if !port.has_input() {
                        break;
                    }
                }
                port.receive(&mut self.cx(), 64);
            }
            std::mem::take(&mut self.received)
        }

        /// Sends packets, each by itself.
        pub(crate) fn send(&mut self, port: &mut dyn Port, face: FaceId, packets: &[Packet]) {
            for packet in packets {
                let outgoing = Outgoing { face, fields: LinkFields::default(), packet: packet.clone() };
                port.transmit(&mut self.cx(), &mut [outgoing]);
            }
            port.flush(&mut self.cx());
        }
    }

    #[test]
    fn tokens_carry_the_port_and_its_key() {
        assert_eq!(split_token(token(7, u32::MAX)), (7, u32::MAX));
        assert_eq!(split_token(token(0, 3)), (0, 3));
    }
}
