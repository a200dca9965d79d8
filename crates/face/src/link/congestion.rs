//! Congestion marks, in the manner of CoDel [RFC 8289] as NFD applies it to queue lengths.

use std::time::Duration;

use byname_forward::Ticks;

/// Decides which packets of one face are marked.
///
/// When a queue stays above the threshold for an interval, its packet is marked. From then on one packet is marked each
/// interval / √n, until the queue falls below the threshold.
///
/// On links with almost no delay, a window grows from nothing to thousands of packets within such an interval. An early
/// marker marks the first packet that meets a queue above the threshold, unless it has marked a packet within the last
/// interval.
#[derive(Debug, Default)]
pub struct CongestionMarker {
    /// Whether it marks early.
    pub early: bool,
    next_mark: Option<Ticks>,
    marked: u32,
    marked_at: Option<Ticks>,
}

impl CongestionMarker {
    /// Whether to mark the packet that is about to be queued.
    pub fn mark(&mut self, now: Ticks, queue_bytes: u64, threshold_bytes: u64, interval: Duration) -> bool {
        if queue_bytes <= threshold_bytes {
            (self.next_mark, self.marked) = (None, 0);
            return false;
        }
        match self.next_mark {
            None => {
                let marks = self.early && self.marked_at.is_none_or(|at| at + interval <= now);
                if marks {
                    (self.marked, self.marked_at) = (1, Some(now));
                }
                self.next_mark = Some(now + interval);
                marks
            }
            Some(at) if now >= at => {
                self.marked += 1;
                self.marked_at = Some(now);
                self.next_mark = Some(at + interval.div_f64(f64::from(self.marked + 1).sqrt()));
                true
            }
            Some(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_faster_the_longer_the_queue_stays_long() {
        let mut marker = CongestionMarker::default();
        let interval = Duration::from_millis(100);
        let marks: Vec<u64> = (0..500).filter(|ms| marker.mark(Ticks::from_ms(*ms), 10, 9, interval)).collect();
        assert_eq!(marks, [100, 171, 229, 279, 324, 364, 402, 438, 471]);
        assert!(!marker.mark(Ticks::from_ms(501), 9, 9, interval));
        assert!(!marker.mark(Ticks::from_ms(502), 10, 9, interval), "a new episode waits an interval");
    }

    #[test]
    fn an_early_marker_marks_at_once_but_not_more_than_once_an_interval() {
        let mut marker = CongestionMarker { early: true, ..CongestionMarker::default() };
        let interval = Duration::from_millis(100);
        assert!(marker.mark(Ticks::from_ms(5), 10, 9, interval));
        let marks: Vec<u64> = (6..300).filter(|ms| marker.mark(Ticks::from_ms(*ms), 10, 9, interval)).collect();
        assert_eq!(marks, [105, 163, 213, 258, 299]);
        // The queue is long only every third millisecond.
        let marks = (300..800).filter(|ms| marker.mark(Ticks::from_ms(*ms), ms % 3 * 5, 9, interval)).count();
        assert_eq!(marks, 4);
    }
}
