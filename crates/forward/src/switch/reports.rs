//! Which sources the controller is told of, and how often.
//!
//! A source is reported until the table has it where it is; meanwhile not for each of its frames, and
//! of all sources of a port no more than so many a second: a host that invents addresses takes nothing
//! from hosts at other ports.

use std::time::Duration;

use byname_wire::{Digest, MacAddress};

use crate::ticks::Ticks;

/// The same source at the same port is reported again after this.
const AGAIN: Duration = Duration::from_millis(100);
/// Between two reports of a port, on average.
const INTERVAL: Duration = Duration::from_millis(1);
/// How far a port may be ahead of that.
const AHEAD: Duration = Duration::from_millis(200);
const RECENT: usize = 1024;
/// Reports that wait; as many as a burst makes.
const WAITING_MAX: usize = 1024;

/// A station was heard where the table does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Where.
    pub port: usize,
    /// Whom.
    pub source: MacAddress,
}

/// Reports that wait, and those made of late.
pub(super) struct Reports {
    /// By the first bits of a keyed digest; one takes another's place.
    recent: Box<[Option<(Report, Ticks)>; RECENT]>,
    /// When each port will have made up for its reports.
    even_at: Vec<Ticks>,
    waiting: Vec<Report>,
}

impl Reports {
    pub(super) fn new(ports: usize) -> Self {
        Reports { recent: Box::new([None; RECENT]), even_at: vec![Ticks(0); ports], waiting: Vec::new() }
    }

    /// Notes a source; false where it would be one too many.
    pub(super) fn note(&mut self, now: Ticks, digest: Digest, report: Report) -> bool {
        let recent = &mut self.recent[digest.hash as usize % RECENT];
        if matches!(recent, Some((same, at)) if *same == report && now.since(*at) < AGAIN) {
            return true;
        }
        let even_at = &mut self.even_at[report.port];
        if even_at.since(now) > AHEAD || self.waiting.len() >= WAITING_MAX {
            return false;
        }
        *even_at = (*even_at).max(now) + INTERVAL;
        *recent = Some((report, now));
        self.waiting.push(report);
        true
    }

    pub(super) fn take(&mut self) -> std::vec::Drain<'_, Report> {
        self.waiting.drain(..)
    }
}
