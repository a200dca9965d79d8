//! Reports of sources to the controller, and their rate.
//!
//! A source is reported until the table has it at its port, but not for each of its frames. All sources of a port share
//! a limited rate of reports. So a host that invents addresses takes nothing from hosts at other ports.

use std::time::Duration;

use byname_forward::Ticks;
use byname_wire::Digest;

use crate::key::Key;

/// The same source at the same port is reported again after this time.
const AGAIN: Duration = Duration::from_millis(100);
/// Minimum time between two reports of a port, on average.
const INTERVAL: Duration = Duration::from_millis(1);
/// How far a port may be ahead of this average.
const AHEAD: Duration = Duration::from_millis(200);
const RECENT: usize = 1024;
/// Maximum of reports that wait for the controller.
const WAITING_MAX: usize = 1024;

/// A host was heard at a port where the table does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The port that heard it.
    pub port: usize,
    /// What the host is known by.
    pub source: Key,
}

/// Waiting reports, and recent ones.
pub(super) struct Reports {
    /// Recent reports, by the keyed digest of the source; a new one replaces an old one.
    recent: Box<[Option<(Report, Ticks)>; RECENT]>,
    /// For each port, the time until which it has used up its rate of reports.
    even_at: Vec<Ticks>,
    waiting: Vec<Report>,
}

impl Reports {
    pub(super) fn new(ports: usize) -> Self {
        Reports { recent: Box::new([None; RECENT]), even_at: vec![Ticks(0); ports], waiting: Vec::new() }
    }

    /// Notes a source. Returns false if there are too many reports.
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
