//! Ports without sockets: the forwarder's own face, and pairs that join two loops in one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use byname_forward::face_table::{Persistency, Scope};
use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::face::{FaceChange, FaceEvent, FaceStatus, LinkCounters, LinkFlags, UpdateFaceError};
use crate::port::{Port, PortContext};
use crate::uri::FaceUri;
use crate::waker::LoopWaker;

/// A port of one face that is connected to its peer by two bounded queues of packets.
///
/// It does not use the link protocol: packets pass with their fields. A full queue drops and counts packets.
pub struct MemoryPort {
    face: FaceId,
    /// Number of the face, if it is not the next free one.
    fixed_id: Option<FaceId>,
    remote: FaceUri,
    scope: Scope,
    flags: LinkFlags,
    link: LinkCounters,
    alive: bool,
    output: Sender<(LinkFields, Packet)>,
    input: Receiver<(LinkFields, Packet)>,
    /// Wakes the reader of `output`, once that runs.
    peer: Arc<OnceLock<LoopWaker>>,
    own: Arc<OnceLock<LoopWaker>>,
    sent: bool,
    /// Packets that the control side could not send.
    input_drops: Arc<AtomicU64>,
}

/// Creates the internal face: its port, and the control side's end.
pub(crate) fn internal(queue_max: usize, waker: LoopWaker) -> (MemoryPort, InternalFace) {
    let (to_worker, input) = bounded(queue_max);
    let (output, from_worker) = bounded(queue_max);
    let dropped = Arc::new(AtomicU64::new(0));
    let port = MemoryPort {
        input_drops: dropped.clone(),
        fixed_id: Some(FaceId::INTERNAL),
        remote: FaceUri::Internal,
        scope: Scope::Local,
        flags: LinkFlags { local_fields: true, ..LinkFlags::default() },
        ..MemoryPort::new(output, input, Arc::default(), Arc::default())
    };
    (port, InternalFace { from_worker, sender: InternalSender { to_worker, waker, dropped } })
}

/// Creates two ports, each the other's peer, for two loops in one process.
pub fn pair(queue_max: usize) -> (MemoryPort, MemoryPort) {
    let (a_to_b, from_a) = bounded(queue_max);
    let (b_to_a, from_b) = bounded(queue_max);
    let (a, b) = (Arc::<OnceLock<LoopWaker>>::default(), Arc::<OnceLock<LoopWaker>>::default());
    (MemoryPort::new(a_to_b, from_b, b.clone(), a.clone()), MemoryPort::new(b_to_a, from_a, a, b))
}

impl MemoryPort {
    fn new(
        output: Sender<(LinkFields, Packet)>,
        input: Receiver<(LinkFields, Packet)>,
        peer: Arc<OnceLock<LoopWaker>>,
        own: Arc<OnceLock<LoopWaker>>,
    ) -> Self {
        MemoryPort {
            face: FaceId::NONE,
            fixed_id: None,
            remote: FaceUri::Null,
            scope: Scope::NonLocal,
            flags: LinkFlags::default(),
            link: LinkCounters::default(),
            alive: false,
            output,
            input,
            peer,
            own,
            sent: false,
            input_drops: Arc::default(),
        }
    }

    fn describe(&self) -> FaceStatus {
        let plain = FaceStatus::plain(self.face, self.remote.clone(), self.scope);
        FaceStatus { flags: self.flags, link: self.link, ..plain }
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        "memory"
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
        self.face = self.fixed_id.unwrap_or_else(|| cx.create_face_id());
        self.alive = true;
        let _ = self.own.set(cx.waker());
        cx.report(FaceEvent::Created(self.describe()));
        Ok(())
    }

    fn has_input(&self) -> bool {
        self.alive && !self.input.is_empty()
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        for (fields, packet) in self.input.try_iter().take(packets_max) {
            self.link.in_bytes += packet.len() as u64;
            cx.deliver(Received { face: self.face, fields, packet });
        }
    }

    fn transmit(&mut self, _cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for outgoing in burst.iter_mut().filter(|outgoing| self.alive && outgoing.face == self.face) {
            let Outgoing { mut fields, packet, .. } = outgoing.take();
            if !self.flags.local_fields {
                fields.incoming_face_id = None;
            }
            let len = packet.len() as u64;
            if self.output.try_send((fields, packet)).is_ok() {
                self.link.out_bytes += len;
                self.sent = true;
            } else {
                self.link.out_drops += 1;
            }
        }
    }

    fn flush(&mut self, _cx: &mut PortContext<'_>) {
        if std::mem::take(&mut self.sent)
            && let Some(peer) = self.peer.get()
        {
            peer.wake();
        }
    }

    fn update_face(
        &mut self,
        _cx: &mut PortContext<'_>,
        face: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        if !self.alive || face != self.face {
            return Err(UpdateFaceError::NotFound);
        }
        if change.mtu.is_some() || change.persistency.is_some_and(|p| p != Persistency::Permanent) {
            return Err(UpdateFaceError::Unacceptable("a memory face has no MTU, and is permanent".into()));
        }
        if let Some(flags) = change.flags {
            if flags.reliability || flags.congestion_marking {
                return Err(UpdateFaceError::Unacceptable("a memory face loses nothing on its way".into()));
            }
            self.flags = flags;
        }
        Ok(self.describe())
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
        if !self.alive || face != self.face || self.fixed_id.is_some() {
            return false;
        }
        self.alive = false;
        cx.report(FaceEvent::Destroyed(self.describe()));
        true
    }

    fn status(&self, _now: Ticks, face: FaceId) -> Option<FaceStatus> {
        (self.alive && face == self.face).then(|| self.describe())
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        vec![("internal_queue_full", self.input_drops.load(Ordering::Relaxed))]
    }
}

/// The control side's end of [`FaceId::INTERNAL`].
///
/// Packets that the worker forwards to that face arrive in `from_worker`, with `incoming_face_id` set in their fields.
/// Packets sent with its [`InternalSender`] arrive at the worker as if from that face. Both queues are bounded: when
/// one is full, packets are dropped and counted.
pub struct InternalFace {
    /// Interests for management, and Data for Interests that the control side sent.
    pub from_worker: Receiver<(LinkFields, Packet)>,
    /// Sends packets to the worker.
    pub sender: InternalSender,
}

/// Sends packets to the worker from [`FaceId::INTERNAL`]. Several threads may have one.
#[derive(Clone)]
pub struct InternalSender {
    to_worker: Sender<(LinkFields, Packet)>,
    waker: LoopWaker,
    dropped: Arc<AtomicU64>,
}

impl InternalSender {
    /// Sends a packet to the worker. Returns false if the queue was full.
    pub fn send(&self, fields: LinkFields, packet: Packet) -> bool {
        let sent = self.to_worker.try_send((fields, packet)).is_ok();
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.waker.wake();
        sent
    }
}
