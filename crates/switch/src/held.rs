//! Frames whose destination is not in the table yet.
//!
//! A host that speaks for the first time is answered within microseconds, before the controller has learned about it.
//! Such answers wait briefly at their ingress, a few for each port. Otherwise the first ARP reply would be lost, and a
//! ping would begin with a second of silence.

use std::time::Duration;

use crate::frame::{Arrived, Frame};
use crate::key::KeyKind;
use byname_forward::Ticks;

/// How long a frame waits.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum of waiting frames for each port.
const FRAMES_PER_PORT_MAX: usize = 16;

/// A frame that waits.
pub(super) struct HeldFrame {
    pub(super) from: usize,
    pub(super) until: Ticks,
    bytes: Vec<u8>,
    vlan: Option<[u8; 4]>,
    segment: u32,
}

impl HeldFrame {
    /// The frame as it was kept.
    pub(super) fn frame(&self, kind: KeyKind) -> Option<Frame<'_>> {
        Frame::again(kind, Arrived { bytes: &self.bytes, vlan: self.vlan }, self.segment)
    }
}

/// All waiting frames, in order of arrival.
#[derive(Default)]
pub(super) struct Held {
    frames: Vec<HeldFrame>,
}

impl Held {
    /// Keeps a frame from a host. Returns false if its port has too many waiting frames.
    pub(super) fn keep(&mut self, now: Ticks, from: usize, frame: &Frame<'_>) -> bool {
        if self.frames.iter().filter(|held| held.from == from).count() >= FRAMES_PER_PORT_MAX {
            return false;
        }
        let bytes = [&frame.destination.0[..], &frame.source.0, frame.rest].concat();
        let (vlan, segment) = (frame.vlan(), frame.segment());
        self.frames.push(HeldFrame { from, until: now + PATIENCE, bytes, vlan, segment });
        true
    }

    pub(super) fn take(&mut self) -> Vec<HeldFrame> {
        std::mem::take(&mut self.frames)
    }

    pub(super) fn put_back(&mut self, frame: HeldFrame) {
        self.frames.push(frame);
    }

    /// When the first frame's waiting time ends.
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        self.frames.first().map(|frame| frame.until)
    }
}
