//! Frames whose destination the table does not have yet.
//!
//! A host that has just spoken for the first time is answered within microseconds, by which time the
//! controller has hardly heard of it. Such answers wait at their ingress for a moment, a few for each
//! port: without this the first ARP reply is lost, and a ping begins with a second's silence.

use std::time::Duration;

use super::frame::{Arrived, Frame};
use crate::ticks::Ticks;

/// How long a frame waits.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most frames of a port that wait.
const FRAMES_PER_PORT_MAX: usize = 16;

/// A frame that waits.
pub(super) struct HeldFrame {
    pub(super) from: usize,
    pub(super) until: Ticks,
    octets: Vec<u8>,
    vlan: Option<[u8; 4]>,
}

impl HeldFrame {
    pub(super) fn arrived(&self) -> Arrived<'_> {
        Arrived { octets: &self.octets, vlan: self.vlan }
    }
}

/// All that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Held {
    frames: Vec<HeldFrame>,
}

impl Held {
    /// Keeps a frame from a host; false where its port has enough of them.
    pub(super) fn keep(&mut self, now: Ticks, from: usize, frame: &Frame<'_>) -> bool {
        if self.frames.iter().filter(|held| held.from == from).count() >= FRAMES_PER_PORT_MAX {
            return false;
        }
        let octets = [&frame.destination.0[..], &frame.source.0, frame.rest].concat();
        self.frames.push(HeldFrame { from, until: now + PATIENCE, octets, vlan: frame.vlan() });
        true
    }

    pub(super) fn take(&mut self) -> Vec<HeldFrame> {
        std::mem::take(&mut self.frames)
    }

    pub(super) fn put_back(&mut self, frame: HeldFrame) {
        self.frames.push(frame);
    }

    /// When the first has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        self.frames.first().map(|frame| frame.until)
    }
}
