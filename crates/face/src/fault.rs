//! Links that lose, reorder, duplicate, corrupt and delay packets, from a seed.
//!
//! [`FaultyLink`] is one direction of such a link, for items of any type. Time is an argument, so it works in virtual
//! time too. [`FaultPort`] puts a faulty link on both sides of a port.
//!
//! Faults concern whole network packets. A corrupted packet that is no longer a single element is lost, as it would be
//! in a link service.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use byname_forward::{FaceId, Outgoing, Packet, Received, Ticks};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::is_network_packet;
use crate::port::{Port, PortContext, Readiness, call_inner_port};

/// Faults in one direction. Shares are between 0 (never) and 1 (always).
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Share of packets that are lost.
    pub loss: f64,
    /// Share of packets that arrive twice.
    pub duplication: f64,
    /// Share of packets in which one bit is flipped.
    pub corruption: f64,
    /// Share of packets that are overtaken by packets sent up to [`Faults::reordering_delay`] after them.
    pub reordering: f64,
    /// Additional delay of a packet that is to be overtaken.
    pub reordering_delay: Duration,
    /// Shortest delay of a packet.
    pub delay_min: Duration,
    /// Longest delay. Delays in between are equally likely, and do not reorder.
    pub delay_max: Duration,
    /// Maximum number of packets in flight. Further packets are lost.
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

/// Counters of faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that entered.
    pub entered: u64,
    /// Packets that left. Duplicates count too.
    pub left: u64,
    /// Packets lost by chance, because too many were in flight, or because their face ended.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Packets delayed so that others overtake them.
    pub reordered: u64,
}

/// An item that a link can corrupt.
pub trait Corruptible: Sized {
    /// Returns a copy.
    fn duplicate(&self) -> Self;
    /// Flips one bit, which `choose` picks from the given number of bits. Returns `None` if a receiver would no longer
    /// take the result for a packet.
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
        // A copy, because others may hold the buffer.
        let corrupted = Packet::build(self.len(), |bytes| {
            bytes.copy_from_slice(&self);
            bytes[bit / 8] ^= 1 << (bit % 8);
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
    /// Arrival time of the last packet that was not delayed for reordering.
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
    /// A link with nothing in flight. The same seed and the same calls give the same faults.
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

    /// Puts an item in at one end.
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

    /// Takes the next item that has arrived at the other end.
    pub fn leave(&mut self, now: Ticks) -> Option<T> {
        if self.under_way.peek()?.0.at > now {
            return None;
        }
        self.counters.left += 1;
        self.under_way.pop().map(|Reverse(arrived)| arrived.item)
    }

    /// Time of the next arrival.
    pub fn next_arrival(&self) -> Option<Ticks> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// Loses the items in flight that are not wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        let before = self.under_way.len();
        self.under_way.retain(|Reverse(u)| wanted(&u.item));
        self.counters.lost += (before - self.under_way.len()) as u64;
    }

    /// Counters so far. Each item that entered or was duplicated has left, is lost, or is in flight.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// Number of items in flight.
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
    /// Wraps a port. `inward` are the faults of what it receives, `outward` of what it sends.
    pub fn new(inner: Box<dyn Port>, inward: Faults, outward: Faults, seed: u64) -> Self {
        FaultPort {
            inner,
            inward: FaultyLink::new(inward, seed),
            // A separate seed, so that traffic in one direction does not change the faults in the other.
            outward: FaultyLink::new(outward, seed ^ 0x6f75_7477_6172_6421),
        }
    }

    /// Calls the port. Packets that it delivers enter the link, and packets of faces that end are lost.
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
    call_inner_port!();

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for outgoing in burst {
            self.outward.enter(cx.now, outgoing.take());
        }
        self.send_arrived(cx);
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
        // Call the port even if nothing is due in it, because packets may have arrived.
        self.inside(cx, |port, cx| {
            if due {
                port.on_deadline(cx)
            }
        });
    }
}

#[cfg(test)]
mod tests;
