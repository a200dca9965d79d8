//! Links that lose, reorder, duplicate, corrupt and delay what passes, from a seed.
//!
//! [`FaultyLink`] is one direction of such a link, for anything, with time as an argument, so it
//! works in virtual time too. [`FaultPort`] puts one on either side of a port.
//!
//! Faults are those of whole network packets: what arrives corrupted beyond being one element is
//! lost, as it would be in a link service.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use byname_forward::{FaceId, Outgoing, Packet, Received, Ticks};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::is_network_packet;
use crate::port::{Port, PortContext, Readiness};

/// What goes wrong in one direction. Shares are between 0 (never) and 1 (always).
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Share of packets that are lost.
    pub loss: f64,
    /// Share that arrive twice.
    pub duplication: f64,
    /// Share that have one bit flipped.
    pub corruption: f64,
    /// Share that are overtaken by those sent up to [`Faults::reordering_delay`] after them.
    pub reordering: f64,
    /// How much later a packet arrives that is to be overtaken.
    pub reordering_delay: Duration,
    /// The shortest delay of any packet.
    pub delay_min: Duration,
    /// The longest; delays in between are equally likely, and do not reorder.
    pub delay_max: Duration,
    /// Most packets under way; further ones are lost.
    pub packets_max: usize,
}

impl Default for Faults {
    /// A link without faults.
    fn default() -> Self {
        Faults {
            loss: 0.0,
            duplication: 0.0,
            corruption: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::from_millis(10),
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            packets_max: 16_384,
        }
    }
}

/// How often something went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that left, those twice that were duplicated.
    pub left: u64,
    /// Packets lost by chance, because too many were under way, or because their face ended.
    pub lost: u64,
    /// Packets that were doubled.
    pub duplicated: u64,
    /// Packets of which a bit was flipped.
    pub corrupted: u64,
    /// Packets held back for others to overtake.
    pub reordered: u64,
}

/// Something that can be corrupted.
pub trait Corruptible: Sized {
    /// Itself once more.
    fn duplicate(&self) -> Self;
    /// Itself with a bit flipped, the one that `choose` picks out of so many; `None` when nothing
    /// is left that a receiver would take for a packet.
    fn corrupt(self, choose: impl FnOnce(usize) -> usize) -> Option<Self>;
}

impl Corruptible for Packet {
    fn duplicate(&self) -> Self {
        self.clone()
    }
    fn corrupt(self, choose: impl FnOnce(usize) -> usize) -> Option<Self> {
        if self.is_empty() {
            return None;
        }
        let bit = choose(self.len() * 8);
        // A copy: others may hold the buffer.
        let corrupted = Packet::build(self.len(), |octets| {
            octets.copy_from_slice(&self);
            octets[bit / 8] ^= 1 << (bit % 8);
        });
        is_network_packet(&corrupted).then_some(corrupted)
    }
}

impl Corruptible for Received {
    fn duplicate(&self) -> Self {
        Received { face: self.face, fields: self.fields.clone(), packet: self.packet.clone() }
    }
    fn corrupt(self, choose: impl FnOnce(usize) -> usize) -> Option<Self> {
        let packet = self.packet.corrupt(choose)?;
        Some(Received { packet, ..self })
    }
}

impl Corruptible for Outgoing {
    fn duplicate(&self) -> Self {
        Outgoing { face: self.face, fields: self.fields.clone(), packet: self.packet.clone() }
    }
    fn corrupt(self, choose: impl FnOnce(usize) -> usize) -> Option<Self> {
        let packet = self.packet.corrupt(choose)?;
        Some(Outgoing { packet, ..self })
    }
}

/// One direction of a link.
pub struct FaultyLink<T> {
    faults: Faults,
    rng: SmallRng,
    under_way: BinaryHeap<Reverse<UnderWay<T>>>,
    /// When the last packet arrives that was not held back.
    last: Ticks,
    next_number: u64,
    counters: FaultCounters,
}

/// Ordered by time of arrival, then by entry.
struct UnderWay<T> {
    at: Ticks,
    number: u64,
    item: T,
}

impl<T> PartialEq for UnderWay<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl<T> Eq for UnderWay<T> {}
impl<T> PartialOrd for UnderWay<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for UnderWay<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T: Corruptible> FaultyLink<T> {
    /// A link with nothing under way. The same seed and the same calls give the same faults.
    pub fn new(faults: Faults, seed: u64) -> Self {
        FaultyLink {
            faults,
            rng: SmallRng::seed_from_u64(seed),
            under_way: BinaryHeap::new(),
            last: Ticks(0),
            next_number: 0,
            counters: FaultCounters::default(),
        }
    }

    /// Puts something in at one end.
    pub fn enter(&mut self, now: Ticks, item: T) {
        self.counters.entered += 1;
        if self.happens(self.faults.loss) {
            self.counters.lost += 1;
            return;
        }
        let mut item = item;
        if self.happens(self.faults.corruption) {
            self.counters.corrupted += 1;
            let rng = &mut self.rng;
            match item.corrupt(|bits| rng.random_range(0..bits)) {
                Some(corrupted) => item = corrupted,
                None => {
                    self.counters.lost += 1;
                    return;
                }
            }
        }
        if self.happens(self.faults.duplication) {
            self.counters.duplicated += 1;
            let twin = item.duplicate();
            self.send(now, twin);
        }
        self.send(now, item);
    }

    /// Takes what has arrived at the other end, one after the other.
    pub fn leave(&mut self, now: Ticks) -> Option<T> {
        if self.under_way.peek()?.0.at > now {
            return None;
        }
        self.counters.left += 1;
        self.under_way.pop().map(|Reverse(arrived)| arrived.item)
    }

    /// When the next one arrives.
    pub fn next_arrival(&self) -> Option<Ticks> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// Loses what is under way and not wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        let before = self.under_way.len();
        self.under_way.retain(|Reverse(u)| wanted(&u.item));
        self.counters.lost += (before - self.under_way.len()) as u64;
    }

    /// What has happened so far. What entered or was doubled has left, is lost, or is under way.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn send(&mut self, now: Ticks, item: T) {
        if self.under_way.len() >= self.faults.packets_max {
            self.counters.lost += 1;
            return;
        }
        let spread = self.faults.delay_max.saturating_sub(self.faults.delay_min);
        let delay = self.faults.delay_min + spread.mul_f64(self.rng.random::<f64>());
        let mut at = (now + delay).max(self.last);
        if self.happens(self.faults.reordering) {
            self.counters.reordered += 1;
            at = at + self.faults.reordering_delay;
        } else {
            self.last = at;
        }
        self.next_number += 1;
        self.under_way.push(Reverse(UnderWay { at, number: self.next_number, item }));
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random::<f64>() < share
    }
}

/// A port behind two faulty links.
pub struct FaultPort {
    inner: Box<dyn Port>,
    inward: FaultyLink<Received>,
    outward: FaultyLink<Outgoing>,
}

impl FaultPort {
    /// Wraps a port: `inward` befalls what it receives, `outward` what it is to send.
    pub fn new(inner: Box<dyn Port>, inward: Faults, outward: Faults, seed: u64) -> Self {
        FaultPort {
            inner,
            inward: FaultyLink::new(inward, seed),
            // Of its own, so that traffic one way does not change the faults the other way.
            outward: FaultyLink::new(outward, seed ^ 0x6f75_7477_6172_6421),
        }
    }

    /// Calls the port; what it delivers enters the link, and faces that end take theirs along.
    fn inside<R>(
        &mut self,
        cx: &mut PortContext<'_>,
        call: impl FnOnce(&mut dyn Port, &mut PortContext<'_>) -> R,
    ) -> R {
        let (received, events) = (cx.received.len(), cx.events.len());
        let result = call(&mut *self.inner, cx);
        for packet in cx.received.drain(received..) {
            self.inward.enter(cx.now, packet);
        }
        while let Some(packet) = self.inward.leave(cx.now) {
            cx.received.push(packet);
        }
        for (_, event) in &cx.events[events..] {
            if let FaceEvent::Destroyed(status) = event {
                self.inward.retain(|r| r.face != status.id);
                self.outward.retain(|o| o.face != status.id);
            }
        }
        result
    }

    fn send_arrived(&mut self, cx: &mut PortContext<'_>) {
        while let Some(packet) = self.outward.leave(cx.now) {
            self.inside(cx, |port, cx| port.transmit(cx, &mut [packet]));
        }
    }
}

impl Drop for FaultPort {
    fn drop(&mut self) {
        let (inward, outward) = (self.inward.counters(), self.outward.counters());
        tracing::info!(port = self.inner.name(), ?inward, ?outward, "faults injected");
    }
}

impl Port for FaultPort {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
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
    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for outgoing in burst {
            self.outward.enter(cx.now, outgoing.take());
        }
        self.send_arrived(cx);
    }
    fn flush(&mut self, cx: &mut PortContext<'_>) {
        self.inside(cx, |port, cx| port.flush(cx));
    }
    fn has_output(&self) -> bool {
        self.inner.has_output() || self.outward.under_way() > 0
    }
    fn next_deadline(&self) -> Option<Ticks> {
        let arrivals = self.inward.next_arrival().into_iter().chain(self.outward.next_arrival());
        arrivals.chain(self.inner.next_deadline()).min()
    }
    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        self.send_arrived(cx);
        let due = self.inner.next_deadline().is_some_and(|at| at <= cx.now);
        // Even if nothing is due inside, what has arrived is taken.
        self.inside(cx, |port, cx| {
            if due {
                port.on_deadline(cx)
            }
        });
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
    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus> {
        self.inner.status(now, face)
    }
    fn channels(&self) -> Vec<String> {
        self.inner.channels()
    }
}

#[cfg(test)]
mod tests;
