//! What the log says about faces, routes and strategies, at the level INFO.
//!
//! The first changes of each kind in a second are listed one by one. The others are counted, and one line at the end of the
//! second says how many there were. So a storm of changes costs a few lines for each second.

use std::fmt::Write;

/// Time that one summary is about.
const PERIOD_MS: u64 = 1000;
/// Most changes of one kind that are listed in a period.
const LISTED_MAX: u32 = 10;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    FaceCreated,
    FaceClosed,
    FaceUp,
    FaceDown,
    RouteAdded,
    RouteRemoved,
    RouteExpired,
    StrategySet,
    StrategyUnset,
    FlatChanged,
}

const CHANGES: [(Change, &str); 10] = [
    (Change::FaceCreated, "faces created"),
    (Change::FaceClosed, "faces closed"),
    (Change::FaceUp, "faces up"),
    (Change::FaceDown, "faces down"),
    (Change::RouteAdded, "routes added"),
    (Change::RouteRemoved, "routes removed"),
    (Change::RouteExpired, "routes expired"),
    (Change::StrategySet, "strategies set"),
    (Change::StrategyUnset, "strategies unset"),
    (Change::FlatChanged, "flat names changed"),
];

/// The changes of the present period.
#[derive(Default)]
pub(super) struct News {
    now_ms: u64,
    /// When the period began.
    since_ms: u64,
    listed: [u32; CHANGES.len()],
    counts: [u64; CHANGES.len()],
}

impl News {
    /// Notes the time. Returns the summary of a period that is over, if it has one.
    pub fn advance(&mut self, now_ms: u64) -> Option<String> {
        self.now_ms = now_ms;
        if now_ms < self.since_ms + PERIOD_MS {
            return None;
        }
        (self.since_ms, self.listed) = (now_ms, Default::default());
        let counts = std::mem::take(&mut self.counts);
        let mut summary = String::new();
        for ((_, words), count) in CHANGES.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let separator = if summary.is_empty() { "" } else { ", " };
            // Writing to a String does not fail.
            let _ = write!(summary, "{separator}{count} {words}");
        }
        Some(summary).filter(|summary| !summary.is_empty())
    }

    /// When [`News::advance`] has a summary.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.counts.iter().any(|count| *count > 0).then(|| self.since_ms + PERIOD_MS)
    }

    /// Whether this change is to be listed. If not, it is counted.
    pub fn lists(&mut self, change: Change) -> bool {
        let listed = &mut self.listed[change as usize];
        if *listed < LISTED_MAX {
            *listed += 1;
            return true;
        }
        self.count(change, 1);
        false
    }

    /// Counts changes that are not listed.
    pub fn count(&mut self, change: Change, times: u64) {
        self.counts[change as usize] += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order() {
        CHANGES.iter().enumerate().for_each(|(at, (change, _))| assert_eq!(*change as usize, at));
    }

    #[test]
    fn a_storm_is_summarised() {
        let mut news = News::default();
        assert_eq!(news.advance(5000), None);
        let listed = (0..1_000_000).filter(|_| news.lists(Change::RouteAdded)).count();
        assert_eq!(listed, LISTED_MAX as usize);
        assert!(news.lists(Change::FaceClosed), "other kinds are listed");
        news.count(Change::FaceClosed, 1);
        assert_eq!(news.next_deadline_ms(), Some(6000));
        assert_eq!(news.advance(5999), None);
        assert_eq!(news.advance(6000).as_deref(), Some("1 faces closed, 999990 routes added"));
        assert_eq!(news.next_deadline_ms(), None);
        // The next period lists again.
        assert!(news.lists(Change::StrategySet));
        assert_eq!(news.advance(9000), None);
    }
}
