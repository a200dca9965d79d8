//! Congestion marks, in the manner of CoDel [RFC 8289] as NFD applies it to queue lengths.

use std::time::Duration;

use byname_forward::Ticks;

/// Decides which packets of one face are marked.
///
/// A queue that stays above the threshold for an interval gets its packet marked, and from then on
/// one packet each interval / √n, until the queue falls below.
#[derive(Debug, Default)]
pub struct CongestionMarker {
    next_mark: Option<Ticks>,
    marked: u32,
}

impl CongestionMarker {
    /// Whether the packet that is about to be queued is to be marked.
    pub fn mark(&mut self, now: Ticks, queue_bytes: u64, threshold_bytes: u64, interval: Duration) -> bool {
        if queue_bytes <= threshold_bytes {
            (self.next_mark, self.marked) = (None, 0);
            return false;
        }
        match self.next_mark {
            None => {
                self.next_mark = Some(now + interval);
                false
            }
            Some(at) if now >= at => {
                self.marked += 1;
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
}
