//! Generator and sink at their ends of two cables, in one thread.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use anyhow::ensure;
use byname_face::frames::ring::PacketSocket;
use byname_face::frames::socket::FrameSocket;
use byname_face::port::Pushed;
use byname_switch::frame::{Arrived, Frame, TAG_BYTES, TAG_ETHER_TYPE};
use hdrhistogram::Histogram;

use super::options::From;
use super::stations::Addresses;
use super::wire::{OUR_RING_BYTES, socket};
use crate::cables::OURS;
use crate::workload::Random;

/// The EtherType of the frames: the second one that IEEE 802 reserves for experiments.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb6];
const ADDRESSES_BYTES: usize = 12;
/// Bytes behind the EtherType: the frame's number, and the time at which it left in nanoseconds.
const STAMP_BYTES: usize = 16;
/// Number of frames sent before receiving, and received before sending.
const BURST: usize = 64;
/// Frames that have not arrived after this time are lost.
const PATIENCE: Duration = Duration::from_millis(200);
/// Maximum delay that is recorded.
pub const DELAY_NS_MAX: u64 = 10_000_000_000;

/// Counts of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    pub arrived: u64,
    /// Frames that arrived but differ from those that left.
    pub wrong: u64,
    pub lost: u64,
}

impl AddAssign for Passed {
    fn add_assign(&mut self, other: Passed) {
        self.arrived += other.arrived;
        self.wrong += other.wrong;
        self.lost += other.lost;
    }
}

/// Both ends.
pub struct Ends<'a> {
    out: PacketSocket,
    back: PacketSocket,
    draws: &'a [Addresses],
    from: From,
    /// The frame behind the addresses and the tag, if there is one.
    rest: Vec<u8>,
    sent: u64,
    passed: Passed,
    epoch: Instant,
}

impl<'a> Ends<'a> {
    /// Opens both ends for frames of `bytes` bytes.
    pub fn open(draws: &'a [Addresses], bytes: usize, from: From) -> anyhow::Result<Self> {
        let tag_bytes = if from == From::Switch { TAG_BYTES } else { 0 };
        let mut rest = vec![0x45; bytes - ADDRESSES_BYTES - tag_bytes];
        rest[..ETHER_TYPE.len()].copy_from_slice(&ETHER_TYPE);
        let [out, back] = [socket(OURS[0], OUR_RING_BYTES)?, socket(OURS[1], OUR_RING_BYTES)?];
        Ok(Ends { out, back, draws, from, rest, sent: 0, passed: Passed::default(), epoch: Instant::now() })
    }

    /// Counts of all frames so far.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Keeps at most `window` frames under way for `duration`. Returns the number that arrived per second.
    pub fn stream(&mut self, window: u64, duration: Duration) -> anyhow::Result<f64> {
        let (start, before) = (Instant::now(), self.passed.arrived);
        let mut heard = start;
        let mut now = start;
        while now - start < duration {
            let stamp = self.now();
            for _ in 0..window.saturating_sub(self.on_their_way()).min(BURST as u64) {
                if !self.push(stamp)? {
                    break;
                }
            }
            self.out.send()?;
            let arrived = self.receive(|_| ());
            now = Instant::now();
            if arrived > 0 {
                heard = now;
            } else if now - heard > PATIENCE {
                self.give_up();
                heard = now;
            }
        }
        let rate = (self.passed.arrived - before) as f64 / (now - start).as_secs_f64();
        self.wait(|_| ())?;
        Ok(rate)
    }

    /// Sends frames at random times, at a mean rate of `per_s`, and records their delays in nanoseconds.
    pub fn pace(
        &mut self,
        per_s: f64,
        seed: u64,
        duration: Duration,
        delays: &mut Histogram<u64>,
    ) -> anyhow::Result<()> {
        let mut random = Random::new(seed);
        let mut gap = || -(1.0 - random.unit()).ln() * 1e9 / per_s;
        let start = self.now();
        let end = start + duration.as_nanos() as u64;
        let mut due = start as f64 + gap();
        while due < end as f64 {
            let now = self.now();
            while due <= now as f64 && self.push(due as u64)? {
                due += gap();
            }
            self.out.send()?;
            self.receive(|delay_ns| delays.saturating_record(delay_ns));
        }
        self.wait(|delay_ns| delays.saturating_record(delay_ns))
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn on_their_way(&self) -> u64 {
        self.sent.saturating_sub(self.passed.arrived + self.passed.lost)
    }

    /// Waits for all frames that are under way.
    fn wait(&mut self, mut each: impl FnMut(u64)) -> anyhow::Result<()> {
        let mut heard = Instant::now();
        while self.on_their_way() > 0 && heard.elapsed() < PATIENCE {
            self.out.send()?;
            if self.receive(&mut each) > 0 {
                heard = Instant::now();
            }
        }
        self.give_up();
        Ok(())
    }

    fn give_up(&mut self) {
        self.passed.lost += self.on_their_way();
    }

    /// Puts the next frame into the ring. Returns false if the ring is full.
    fn push(&mut self, stamp: u64) -> anyhow::Result<bool> {
        let Addresses { destination, source, .. } = self.draws[(self.sent % self.draws.len() as u64) as usize];
        let mut header = [0; ADDRESSES_BYTES + TAG_BYTES];
        header[..6].copy_from_slice(&destination.0);
        header[6..ADDRESSES_BYTES].copy_from_slice(&source.0);
        header[ADDRESSES_BYTES..][..2].copy_from_slice(&TAG_ETHER_TYPE.to_be_bytes());
        header[ADDRESSES_BYTES + 2..].copy_from_slice(&[1, 16]);
        let header = if self.from == From::Switch { &header[..] } else { &header[..ADDRESSES_BYTES] };
        let stamps = &mut self.rest[ETHER_TYPE.len()..][..STAMP_BYTES];
        stamps[..8].copy_from_slice(&self.sent.to_le_bytes());
        stamps[8..].copy_from_slice(&stamp.to_le_bytes());
        let pushed = self.out.push(header, (&self.rest, &[]));
        ensure!(pushed != Pushed::TooLong, "the cables take no frames of {} bytes", header.len() + self.rest.len());
        self.sent += u64::from(pushed == Pushed::Done);
        Ok(pushed == Pushed::Done)
    }

    /// Receives at most a burst of frames and reports the delay of each. Returns the number of frames.
    fn receive(&mut self, mut each: impl FnMut(u64)) -> u64 {
        let now = self.now();
        let (draws, sent, len) = (self.draws, self.sent, self.rest.len());
        let mut passed = Passed::default();
        self.back.receive(BURST, |arrivals| {
            for arrival in arrivals {
                let frame = Frame::parse(Arrived { bytes: arrival.bytes, vlan: arrival.vlan });
                let Some(frame) = frame.filter(|frame| frame.rest.starts_with(&ETHER_TYPE)) else { continue };
                passed.arrived += 1;
                let stamps = frame.rest[ETHER_TYPE.len()..].first_chunk::<STAMP_BYTES>();
                let (number, stamp) = stamps.map_or((u64::MAX, 0), |stamps| {
                    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| stamps[at + i]));
                    (word(0), word(8))
                });
                let addresses = &draws[(number % draws.len() as u64) as usize];
                let is_as_sent = number < sent
                    && frame.rest.len() == len
                    && (frame.destination, frame.source) == (addresses.destination, addresses.source);
                passed.wrong += u64::from(!is_as_sent);
                each(now.saturating_sub(stamp));
            }
        });
        self.passed += passed;
        passed.arrived
    }
}
