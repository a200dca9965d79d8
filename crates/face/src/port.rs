//! The interface between the packet thread and the ports that move bytes.
//!
//! A [`Port`] owns descriptors, and the faces that use them with their link state. The loop (`io_loop`) owns
//! the ports and one worker, and only one thread at a time runs the loop. So a port needs no locks. It must never block, and
//! does a bounded amount of work in each call.
//!
//! In a round the loop calls [`Port::ready`] for each readiness event, and [`Port::receive`] on each port that may have
//! input. Then it calls `Worker::poll`, [`Port::transmit`] for the packets to send, and one [`Port::flush`] on each
//! port. Packets and events pass through the [`PortContext`].

#[cfg(any(test, fuzzing))]
pub mod bench;

use std::any::Any;
use std::sync::Arc;

use byname_forward::{FaceId, Outgoing, Received, Ticks};
use mio::event::{Event, Source};
use mio::{Interest, Registry, Token};

use crate::face::{CreateFaceError, Creation, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::handover::{FormerFace, HandedFace, SharedSocket};
use crate::lent::Lent;
use crate::uri::FaceUri;
use crate::waker::LoopWaker;

/// Bits of a token for the port's own key. The port's number is above them.
const KEY_BITS: u32 = 32;

/// Readiness of a descriptor. It is edge-triggered: a port remembers it until the system says `WouldBlock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// There is input, the end of input, or an error to collect.
    pub readable: bool,
    /// Output is possible again, or an attempt to connect has ended.
    pub writable: bool,
    /// The peer has ended its sending, or the connection is broken: the input has an end.
    pub closed: bool,
}

impl Readiness {
    pub(crate) fn of(event: &Event) -> Self {
        Readiness {
            readable: event.is_readable() || event.is_read_closed() || event.is_error(),
            writable: event.is_writable() || event.is_write_closed() || event.is_error(),
            closed: event.is_read_closed() || event.is_error(),
        }
    }
}

/// Result of pushing a frame to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The frame is in the ring.
    Done,
    /// The ring is full.
    Full,
    /// The frame is longer than the interface takes.
    TooLong,
}

/// Moves bytes for its faces; see the [module](self).
///
/// # Life of a face
///
/// A port creates a face with [`PortContext::create_face_id`], and [`PortContext::report`] of [`FaceEvent::Created`].
/// It reports before or in the same call in which it first delivers a packet of the face. It ends the face with
/// [`FaceEvent::Destroyed`]. After that it delivers nothing more for the face, and drops packets to send there. The
/// loop tells the worker and the control side. The loop also fills in the counts of network packets in a [`FaceStatus`]
/// (`counters`).
///
/// Default methods suit ports without descriptors, deadlines, listeners, or faces made by command. A port that wraps
/// another must forward every call.
pub trait Port: Send {
    /// A word for logs, such as `udp4` or `unix`.
    fn name(&self) -> &str;

    /// The interface that only this port may have open, or it and its like on other threads: see
    /// [`ForwarderHandle::remove_ports`](crate::ForwarderHandle::remove_ports).
    fn interface(&self) -> Option<String> {
        None
    }

    /// Registers descriptors, and reports faces that exist from the start. Called once, before the packet thread runs.
    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()>;

    /// Handles readiness of a descriptor that was registered with `key`.
    ///
    /// Cheap: records it, and leaves input to [`Port::receive`]. A port that connects or accepts may do so here.
    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
        let _ = (cx, key, readiness);
    }

    /// Whether `receive` may find something, as far as is known without a system call. Called once a round, and before
    /// the loop sleeps.
    fn has_input(&self) -> bool;

    /// Called before the loop sleeps until a descriptor is ready. A port whose peer announces input only on request
    /// makes the request here. [`Port::has_input`] is called once more after this.
    fn fall_asleep(&mut self, now: Ticks) {
        let _ = now;
    }

    /// Delivers about `packets_max` packets at most with [`PortContext::deliver`].
    ///
    /// Leaves the rest for the next round, so that no port makes others wait.
    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize);

    /// Queues packets for its faces. Drops and counts packets whose queue is full.
    ///
    /// Faces that are gone are no error. A packet that must be kept is taken out of its place. Other packets stay there
    /// until all ports are flushed: releasing a packet whose buffer is shared costs least when earlier writes have
    /// reached the caches.
    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]);

    /// Sends queued packets in the groups that the system prefers, until the system takes no more. A group that more
    /// packets may join can wait for the next round; [`Port::has_input`] must then bring about that round at once.
    fn flush(&mut self, cx: &mut PortContext<'_>);

    /// Whether it holds output that the system did not take yet. Called when the forwarder stops.
    fn has_output(&self) -> bool {
        false
    }

    /// Time at which [`Port::on_deadline`] is due; `None` if nothing is due. Called each round, so it must be cheap.
    fn next_deadline(&self) -> Option<Ticks> {
        None
    }

    /// Does what is due at `cx.now()`: idle faces, reconnections, link timers. Resulting frames are sent here or in the
    /// `flush` that follows.
    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        let _ = cx;
    }

    /// Creates a face, or starts to. Returns `None` if the request's remote URI is not of this port's kind.
    ///
    /// A persistent face of a stream port is created when its connection is established. Until then it is returned
    /// without a number ([`FaceId::NONE`]), and the port reports the outcome with [`PortContext::report_creation`]. A
    /// permanent face exists at once, not yet `up`, and connects in the background.
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

    /// Destroys one of its faces and reports that. Returns false if the face does not exist.
    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool;

    /// Whether its faces can move to a port of the same name on another thread, and faces of such a port can come here.
    fn moves_faces(&self) -> bool {
        false
    }

    /// Whether there is room for a face from another thread.
    fn has_room(&self) -> bool {
        true
    }

    /// A face to this peer is about to come from another thread. A port that may get the peer's packets earlier keeps
    /// them until [`Port::attach_face`]. `None`: the face does not come.
    ///
    /// # Errors
    /// The reason why the face cannot come here.
    fn expect_face(&mut self, remote: Option<&FaceUri>) -> Result<(), String> {
        let _ = remote;
        Ok(())
    }

    /// Has what the peer of a face sends from now on go to the port of the same name on another thread. For ports whose
    /// faces share a descriptor.
    ///
    /// # Errors
    /// The reason why that is impossible. Nothing has changed then.
    fn lead_to(&mut self, face: FaceId, thread: usize) -> Result<(), String> {
        let _ = (face, thread);
        Ok(())
    }

    /// Whether everything has been received that was here before the last [`Port::lead_to`].
    fn has_received_all(&self) -> bool {
        true
    }

    /// Takes out one of its faces, with all of its state and its descriptor, for [`Port::attach_face`] of a port of the
    /// same name. Reports nothing, since the face goes on to exist. `None` if the face does not exist.
    fn detach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> Option<Box<dyn Any + Send>> {
        let _ = (cx, face);
        None
    }

    /// Takes over a face that a port of the same name has detached.
    fn attach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId, state: Box<dyn Any + Send>) {
        let _ = (cx, face, state);
    }

    /// What ports of the same name on other threads need to send on one of its faces by themselves. `None` if only this
    /// port can send there.
    fn lend_face(&mut self, face: FaceId) -> Option<Arc<Lent>> {
        let _ = face;
        None
    }

    /// Another thread has lent a face, or has changed it. The port may be given packets for the face from now on, and
    /// leaves those that need its owner to `PortContext::leave_to_owner`. Returns false if the face is of another port.
    fn borrow_face(&mut self, cx: &mut PortContext<'_>, face: FaceId, lent: &Lent) -> bool {
        let _ = (cx, face, lent);
        false
    }

    /// A borrowed face has ended, or only its owner may send there from now on. The port sends what waits, if it can.
    fn give_back_face(&mut self, face: FaceId) {
        let _ = face;
    }

    /// Descriptors of the sockets that its faces share, for the process that takes over.
    fn shared_sockets(&self) -> Vec<SharedSocket> {
        Vec::new()
    }

    /// What another process needs to go on with one of its faces. Changes nothing: if the other process fails, this port
    /// goes on. `None` if the face cannot pass to another process.
    fn hand_over(&self, now: Ticks, face: FaceId) -> Option<HandedFace> {
        let _ = (now, face);
        None
    }

    /// Goes on with a face of another process, and reports it as created. Called before [`Port::start`]. Gives the face
    /// back if it is of another port.
    fn take_over(&mut self, cx: &mut PortContext<'_>, face: HandedFace) -> Result<(), HandedFace> {
        let _ = cx;
        Err(face)
    }

    /// Called at the end of a handover: its faces go on in this process, or else in another one.
    fn go_on(&mut self, here: bool) {
        let _ = here;
    }

    /// Tells the port whether routes lead to one of its faces. A port that closes idle faces to make room for strangers
    /// keeps faces with routes.
    fn set_routed(&mut self, face: FaceId, routed: bool) {
        let _ = (face, routed);
    }

    /// Status of one of its faces at `now`.
    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus>;

    /// Local URIs of the addresses on which it listens.
    fn channels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Packets that it dropped, by reason, in words fit for a metric label. Includes packets of no face, and those
    /// packets of faces whose reason it knows.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Number of faces that it closed although their peers had not left, by reason, in words fit for a metric label.
    fn closed(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Access to the loop during one call of a port.
pub struct PortContext<'a> {
    pub(crate) now: Ticks,
    pub(crate) port: usize,
    pub(crate) registry: &'a Registry,
    pub(crate) waker: &'a LoopWaker,
    pub(crate) next_face_id: &'a mut u64,
    /// Number of threads: each numbers its faces in such steps.
    pub(crate) face_id_step: u64,
    pub(crate) received: &'a mut Vec<Received>,
    pub(crate) events: &'a mut Vec<(usize, FaceEvent)>,
    pub(crate) creations: &'a mut Vec<(FaceUri, Creation)>,
    /// Faces of another process that did not pass from there, and are made anew here.
    pub(crate) token_mark: Option<[u8; 4]>,
    pub(crate) left: &'a mut Vec<Outgoing>,
    pub(crate) former: &'a mut Vec<FormerFace>,
}

impl PortContext<'_> {
    /// Time of this round.
    pub fn now(&self) -> Ticks {
        self.now
    }

    /// Gives a packet to the worker.
    pub fn deliver(&mut self, received: Received) {
        self.received.push(received);
    }

    /// The first bytes of the PIT tokens of this router, if it has several threads: see
    /// [`Seat::token_mark`](byname_forward::seat::Seat::token_mark).
    pub(crate) fn token_mark(&self) -> Option<[u8; 4]> {
        self.token_mark
    }

    /// Has the owner of a borrowed face send this packet. Takes the packet out of its place.
    pub(crate) fn leave_to_owner(&mut self, outgoing: &mut Outgoing) {
        self.left.push(outgoing.take());
    }

    /// Packets that all ports have delivered so far in this round. A port that wraps another changes the packets which
    /// that port added. A link service appends to it.
    pub fn received(&mut self) -> &mut Vec<Received> {
        self.received
    }

    /// Creates a number for a new face, from 256 up. No number is used twice.
    pub fn create_face_id(&mut self) -> FaceId {
        let id = FaceId(*self.next_face_id);
        *self.next_face_id += self.face_id_step;
        id
    }

    /// The number for a new face between these ends: the one that the same face had in the process before this one, or
    /// else a new number.
    pub(crate) fn face_id_between(&mut self, remote: &FaceUri, local: &FaceUri) -> FaceId {
        let is_same = |face: &FormerFace| face.remote == *remote && face.local == *local;
        match self.former.iter().position(is_same) {
            Some(at) => self.former.swap_remove(at).id,
            None => self.create_face_id(),
        }
    }

    /// Reports an event of one of this port's faces to the worker and the control side.
    pub fn report(&mut self, event: FaceEvent) {
        self.events.push((self.port, event));
    }

    /// Reports the outcome for a face that [`Port::create_face`] returned without a number. Its [`FaceEvent::Created`]
    /// must come first.
    pub fn report_creation(&mut self, remote: FaceUri, outcome: Creation) {
        self.creations.push((remote, outcome));
    }

    /// Registers a descriptor under a key that the port chooses.
    pub fn register(&self, source: &mut impl Source, key: u32, interest: Interest) -> std::io::Result<()> {
        self.registry.register(source, token(self.port, key), interest)
    }

    /// Changes a registration.
    pub fn reregister(&self, source: &mut impl Source, key: u32, interest: Interest) -> std::io::Result<()> {
        self.registry.reregister(source, token(self.port, key), interest)
    }

    /// Ends a registration. Closing the descriptor does so too.
    pub fn deregister(&self, source: &mut impl Source) -> std::io::Result<()> {
        self.registry.deregister(source)
    }

    /// Wakes this loop from another thread. For ports whose input no descriptor announces.
    pub fn waker(&self) -> LoopWaker {
        self.waker.clone()
    }
}

fn token(port: usize, key: u32) -> Token {
    Token(port << KEY_BITS | key as usize)
}

/// Splits a token into the port and its key.
pub(crate) fn split_token(token: Token) -> (usize, u32) {
    (token.0 >> KEY_BITS, token.0 as u32)
}

/// The methods of a [`Port`] that has no faces: nothing can be sent, and there is nothing to change, destroy or tell.
#[macro_export]
macro_rules! port_without_faces {
    () => {
        fn transmit(&mut self, _: &mut $crate::PortContext<'_>, _: &mut [byname_forward::Outgoing]) {}
        fn flush(&mut self, _: &mut $crate::PortContext<'_>) {}
        fn update_face(
            &mut self,
            _: &mut $crate::PortContext<'_>,
            _: byname_forward::FaceId,
            _: &$crate::face::FaceChange,
        ) -> Result<$crate::FaceStatus, $crate::face::UpdateFaceError> {
            Err($crate::face::UpdateFaceError::NotFound)
        }
        fn destroy_face(&mut self, _: &mut $crate::PortContext<'_>, _: byname_forward::FaceId) -> bool {
            false
        }
        fn status(&self, _: byname_forward::Ticks, _: byname_forward::FaceId) -> Option<$crate::FaceStatus> {
            None
        }
    };
}

/// The methods of a port around another one, `self.inner`, that only call that one. `self.inside` calls it and handles
/// what it delivers.
macro_rules! call_inner_port {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }
        fn interface(&self) -> Option<String> {
            self.inner.interface()
        }
        fn start(&mut self, cx: &mut PortContext<'_>) -> ::std::io::Result<()> {
            self.inside(cx, |port, cx| port.start(cx))
        }
        fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
            self.inside(cx, |port, cx| port.ready(cx, key, readiness));
        }
        fn has_input(&self) -> bool {
            self.inner.has_input()
        }
        fn fall_asleep(&mut self, now: Ticks) {
            self.inner.fall_asleep(now);
        }
        fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
            self.inside(cx, |port, cx| port.receive(cx, packets_max));
        }
        fn flush(&mut self, cx: &mut PortContext<'_>) {
            self.inside(cx, |port, cx| port.flush(cx));
        }
        fn create_face(
            &mut self,
            cx: &mut PortContext<'_>,
            request: &FaceRequest,
        ) -> Option<Result<FaceStatus, CreateFaceError>> {
            self.inside(cx, |port, cx| port.create_face(cx, request))
        }
        fn update_face(
            &mut self,
            cx: &mut PortContext<'_>,
            face: FaceId,
            change: &FaceChange,
        ) -> Result<FaceStatus, UpdateFaceError> {
            self.inside(cx, |port, cx| port.update_face(cx, face, change))
        }
        fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
            self.inside(cx, |port, cx| port.destroy_face(cx, face))
        }
        fn shared_sockets(&self) -> Vec<$crate::handover::SharedSocket> {
            self.inner.shared_sockets()
        }
        fn hand_over(&self, now: Ticks, face: FaceId) -> Option<$crate::handover::HandedFace> {
            self.inner.hand_over(now, face)
        }
        fn take_over(
            &mut self,
            cx: &mut PortContext<'_>,
            face: $crate::handover::HandedFace,
        ) -> Result<(), $crate::handover::HandedFace> {
            self.inside(cx, |port, cx| port.take_over(cx, face))
        }
        fn go_on(&mut self, here: bool) {
            self.inner.go_on(here);
        }
        fn set_routed(&mut self, face: FaceId, routed: bool) {
            self.inner.set_routed(face, routed);
        }
        fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus> {
            self.inner.status(now, face)
        }
        fn channels(&self) -> Vec<String> {
            self.inner.channels()
        }
        fn drops(&self) -> Vec<(&'static str, u64)> {
            self.inner.drops()
        }
        fn closed(&self) -> Vec<(&'static str, u64)> {
            self.inner.closed()
        }
    };
}

pub(crate) use call_inner_port;

#[cfg(test)]
pub(crate) mod tests {
    use byname_forward::Packet;
    use byname_wire::tlv;

    pub(crate) use super::bench::Bench;
    use super::*;

    /// An element of this type and `len` bytes in total, with a value full of `seed`.
    pub(crate) fn packet(typ: u8, len: usize, seed: u8) -> Packet {
        let mut wire = Vec::new();
        tlv::push_tlv(&mut wire, u64::from(typ), &vec![seed; len - if len < 255 { 2 } else { 4 }]);
        assert_eq!(wire.len(), len);
        Packet::copy_from(&wire)
    }

    #[test]
    fn tokens_carry_the_port_and_its_key() {
        assert_eq!(split_token(token(7, u32::MAX)), (7, u32::MAX));
        assert_eq!(split_token(token(0, 3)), (0, 3));
    }
}
