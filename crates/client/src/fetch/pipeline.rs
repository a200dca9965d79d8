//! Decides which segment to request next: a sliding window over an object's segments, without I/O.
//!
//! Segments arrive in any order and are handed out in order. The caller looks at the next packet, and accepts or rejects
//! it: a rejected one is requested again. A segment that does not arrive within the retransmission
//! timeout is requested again. Timeouts and congestion marks lower the window, at most once for the segments that were
//! in flight when it was lowered.

use std::collections::VecDeque;
use std::time::Duration;

use byname_wire::NackReason;
use thiserror::Error;

use super::congestion::Cubic;
use super::rtt::RttEstimator;

/// Maximum number of segments kept after the first missing one. Bounds memory to about 64 MiB.
const AHEAD_MAX: u64 = 8192;
/// Number of tries for one segment that bring a Nack or a wrong packet, and end the transfer.
const REFUSALS_MAX: u32 = 3;

/// The reason why a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PipelineError {
    /// No answer came for a segment in all tries.
    #[error("segment {segment} did not arrive in {tries} tries")]
    Lost {
        /// The segment.
        segment: u64,
        /// Number of Interests sent for it.
        tries: u32,
    },
    /// Nacks came for a segment again and again.
    #[error("segment {segment} was refused: {}", crate::link::nack_words(*reason))]
    Refused {
        /// The segment.
        segment: u64,
        /// The reason.
        reason: NackReason,
    },
}

/// What has happened to the Interests for a segment.
#[derive(Debug, Clone, Copy)]
struct History {
    tries: u32,
    /// Tries that brought a Nack, or a packet that was rejected.
    refusals: u32,
}

#[derive(Debug)]
enum Slot {
    Unsent,
    InFlight {
        sent_at: Duration,
        history: History,
        /// Whether this try has brought a Nack. A burst of Nacks counts once.
        is_refused: bool,
    },
    /// To be requested again as soon as the window allows it.
    Lost(History),
    Received(Vec<u8>, History),
}

/// The transfer of one object. Times count from its beginning.
///
/// ```
/// use std::time::Duration;
/// use byname_client::fetch::pipeline::Pipeline;
///
/// let mut pipeline = Pipeline::new(0, 2, 100, 15);
/// assert_eq!(pipeline.next_to_send(Duration::ZERO), Some(0));
/// assert_eq!(pipeline.next_to_send(Duration::ZERO), Some(1));
/// pipeline.on_data(1, b"second", false, Duration::from_millis(20));
/// assert_eq!(pipeline.take_next(), None, "the first one comes first");
/// ```
#[derive(Debug)]
pub struct Pipeline {
    congestion: Cubic,
    rtt: RttEstimator,
    tries_max: u32,
    /// The first segment that has not been handed out.
    base: u64,
    /// `slots[i]` is segment `base + i`.
    slots: VecDeque<Slot>,
    last: Option<u64>,
    /// The last segment as a packet claims that has not been accepted yet, and that packet's segment.
    claimed: Option<(u64, u64)>,
    in_flight: usize,
    /// Sent segments in sending order, for timeouts. Stale entries are skipped.
    sent: VecDeque<(Duration, u64)>,
    lost: VecDeque<u64>,
    /// Highest segment requested so far, plus one.
    sent_end: u64,
    /// Losses of segments below this number do not lower the window again.
    recovery_end: u64,
    /// Number of Interests sent again.
    pub retransmissions: u64,
    /// Number of congestion marks received.
    pub congestion_marks: u64,
}

impl Pipeline {
    /// A transfer that begins with segment `first`.
    pub fn new(first: u64, window_initial: usize, window_max: usize, tries_max: u32) -> Self {
        Pipeline {
            congestion: Cubic::new(window_initial as f64, window_max as f64),
            rtt: RttEstimator::default(),
            tries_max,
            base: first,
            slots: VecDeque::new(),
            last: None,
            claimed: None,
            in_flight: 0,
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            sent_end: first,
            recovery_end: first,
            retransmissions: 0,
            congestion_marks: 0,
        }
    }

    /// Whether all segments have been handed out.
    pub fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.base > last)
    }

    /// The first segment that has not been handed out.
    pub fn next_to_take(&self) -> u64 {
        self.base
    }

    /// Smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.rtt.smoothed()
    }

    /// Returns the next segment to request, if the window has room. It counts as sent.
    pub fn next_to_send(&mut self, now: Duration) -> Option<u64> {
        if self.in_flight >= self.congestion.window() {
            return None;
        }
        while let Some(segment) = self.lost.pop_front() {
            if let Some(slot) = self.slot_mut(segment)
                && let Slot::Lost(history) = *slot
            {
                let history = History { tries: history.tries + 1, ..history };
                *slot = Slot::InFlight { sent_at: now, history, is_refused: false };
                self.retransmissions += 1;
                return Some(self.count_sent(segment, now));
            }
        }
        let segment = self.sent_end;
        let end = [self.last, self.claimed.map(|(last, _)| last)].into_iter().flatten().min();
        let is_beyond = end.is_some_and(|last| segment > last) || segment == u64::MAX;
        if is_beyond || segment - self.base >= AHEAD_MAX {
            return None;
        }
        self.slot_or_insert(segment);
        if let Some(slot) = self.slot_mut(segment) {
            let history = History { tries: 1, refusals: 0 };
            *slot = Slot::InFlight { sent_at: now, history, is_refused: false };
        }
        self.sent_end += 1;
        Some(self.count_sent(segment, now))
    }

    /// Takes the packet of a segment that arrived. Returns false if it was not requested or is known already.
    pub fn on_data(&mut self, segment: u64, packet: &[u8], mark: bool, now: Duration) -> bool {
        let in_flight = self.in_flight;
        let Some(slot) = self.slot_mut(segment) else { return false };
        let arrived = std::mem::replace(slot, Slot::Unsent);
        let history = match arrived {
            Slot::InFlight { sent_at, history, .. } => {
                self.in_flight -= 1;
                if history.tries == 1 {
                    let rtt = now.saturating_sub(sent_at);
                    self.rtt.sample(rtt, in_flight);
                    self.congestion.on_rtt(rtt, now);
                }
                history
            }
            // It arrived after its timeout.
            Slot::Lost(history) => history,
            known => {
                if let Some(slot) = self.slot_mut(segment) {
                    *slot = known;
                }
                return false;
            }
        };
        if let Some(slot) = self.slot_mut(segment) {
            *slot = Slot::Received(packet.to_vec(), history);
        }
        if mark {
            self.congestion_marks += 1;
            self.lower_window(segment, now);
        } else {
            let rtt = self.rtt.smoothed();
            self.congestion.on_data(now, rtt);
        }
        true
    }

    /// Sets the number of the last segment, which a segment's FinalBlockId contains.
    pub fn set_last(&mut self, last: u64) {
        if self.last == Some(last) {
            return;
        }
        self.last = Some(last);
        self.trim(last);
    }

    /// Takes the number of the last segment from the packet of a segment that has not been accepted. Until it is
    /// accepted or rejected, no later segments are requested.
    pub fn claim_last(&mut self, last: u64, by: u64) {
        if self.last.is_none() && self.claimed.is_none() && last >= by {
            self.claimed = Some((last, by));
            self.trim(last);
        }
    }

    /// Forgets the segments after this one: they do not exist, so no answers will come for them.
    fn trim(&mut self, last: u64) {
        let end = last.saturating_add(1);
        // If the end was wrong, they are requested again.
        self.sent_end = self.sent_end.min(end.max(self.base));
        let keep = usize::try_from(end.saturating_sub(self.base)).unwrap_or(usize::MAX);
        while self.slots.len() > keep {
            if let Some(Slot::InFlight { .. }) = self.slots.pop_back() {
                self.in_flight -= 1;
            }
        }
    }

    /// Takes a Nack for a segment.
    pub fn on_nack(&mut self, segment: u64, reason: NackReason, now: Duration) -> Result<(), PipelineError> {
        let tries_max = self.tries_max;
        let Some(slot) = self.slot_mut(segment) else { return Ok(()) };
        let Slot::InFlight { history, is_refused, .. } = slot else { return Ok(()) };
        match reason {
            // The network has seen the nonce. The next Interest has another one.
            NackReason::Duplicate => {
                let history = *history;
                if history.tries >= tries_max {
                    return Err(PipelineError::Refused { segment, reason });
                }
                *slot = Slot::Lost(history);
                self.in_flight -= 1;
                self.lost.push_back(segment);
            }
            // The segment stays in flight: the next try waits for its timeout.
            NackReason::Congestion => {
                self.lower_window(segment, now);
            }
            // So does the next try after these, which may find another way.
            NackReason::NoRoute | NackReason::None => {
                history.refusals += u32::from(!std::mem::replace(is_refused, true));
                if history.refusals >= REFUSALS_MAX {
                    return Err(PipelineError::Refused { segment, reason });
                }
            }
        }
        Ok(())
    }

    /// Declares segments lost that have been in flight for longer than the timeout.
    pub fn check_timeouts(&mut self, now: Duration) -> Result<(), PipelineError> {
        while let Some(&(sent_at, segment)) = self.sent.front() {
            let is_current =
                matches!(self.slot_mut(segment), Some(&mut Slot::InFlight { sent_at: at, .. }) if at == sent_at);
            if is_current && now.saturating_sub(sent_at) < self.rtt.rto() {
                break;
            }
            self.sent.pop_front();
            if is_current {
                self.give_up_on(segment, now)?;
            }
        }
        Ok(())
    }

    /// Time until the next timeout. Nothing needs to be done before, unless a packet arrives.
    pub fn wait(&self, now: Duration) -> Duration {
        match self.sent.front() {
            Some(&(sent_at, _)) => (sent_at + self.rtt.rto()).saturating_sub(now),
            None => self.rtt.rto(),
        }
    }

    /// The packet of the next segment in order, if it has arrived.
    pub fn next_packet(&self) -> Option<(u64, &[u8])> {
        match self.slots.front() {
            Some(Slot::Received(packet, _)) => Some((self.base, packet)),
            _ => None,
        }
    }

    /// Takes the packet of the next segment in order, if it has arrived.
    pub fn take_next(&mut self) -> Option<(u64, Vec<u8>)> {
        if !matches!(self.slots.front(), Some(Slot::Received(..))) {
            return None;
        }
        let segment = self.base;
        self.forget_claim();
        self.base += 1;
        match self.slots.pop_front() {
            Some(Slot::Received(packet, _)) => Some((segment, packet)),
            _ => unreachable!("was just looked at"),
        }
    }

    /// Rejects the packet of [`Pipeline::next_packet`]: the segment is requested again. Returns false if that has
    /// happened too often.
    pub fn reject_next(&mut self) -> bool {
        let segment = self.base;
        let Some(slot @ &mut Slot::Received(_, history)) = self.slots.front_mut() else { return true };
        let history = History { refusals: history.refusals + 1, ..history };
        *slot = Slot::Lost(history);
        self.lost.push_front(segment);
        self.forget_claim();
        history.refusals < REFUSALS_MAX
    }

    /// The connection is gone, and with it all Interests in flight. They are sent again, and this counts as no try.
    pub fn on_connection_lost(&mut self) {
        let base = self.base;
        for (segment, slot) in (base..).zip(&mut self.slots) {
            if let Slot::InFlight { history, .. } = *slot {
                *slot = Slot::Lost(History { tries: history.tries.saturating_sub(1), ..history });
                self.lost.push_back(segment);
            }
        }
        self.in_flight = 0;
        self.sent.clear();
        self.recovery_end = self.sent_end;
    }

    /// The packet of the next segment is accepted or rejected, and with it what it claims.
    fn forget_claim(&mut self) {
        self.claimed = self.claimed.filter(|(_, by)| *by != self.base);
    }

    fn give_up_on(&mut self, segment: u64, now: Duration) -> Result<(), PipelineError> {
        let tries_max = self.tries_max;
        let Some(slot) = self.slot_mut(segment) else { return Ok(()) };
        let Slot::InFlight { history, .. } = *slot else { return Ok(()) };
        if history.tries >= tries_max {
            return Err(PipelineError::Lost { segment, tries: history.tries });
        }
        *slot = Slot::Lost(history);
        self.in_flight -= 1;
        self.lost.push_back(segment);
        if self.lower_window(segment, now) {
            self.rtt.back_off();
        }
        Ok(())
    }

    fn lower_window(&mut self, segment: u64, now: Duration) -> bool {
        let lower = segment >= self.recovery_end;
        if lower {
            self.recovery_end = self.sent_end;
            self.congestion.on_congestion(now);
        }
        lower
    }

    fn count_sent(&mut self, segment: u64, now: Duration) -> u64 {
        self.in_flight += 1;
        self.sent.push_back((now, segment));
        segment
    }

    fn slot_mut(&mut self, segment: u64) -> Option<&mut Slot> {
        let index = usize::try_from(segment.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(index)
    }

    fn slot_or_insert(&mut self, segment: u64) {
        while self.base + (self.slots.len() as u64) <= segment {
            self.slots.push_back(Slot::Unsent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn send_all(pipeline: &mut Pipeline, now: Duration) -> Vec<u64> {
        std::iter::from_fn(|| pipeline.next_to_send(now)).collect()
    }

    fn take_all(pipeline: &mut Pipeline) -> Vec<u64> {
        std::iter::from_fn(|| pipeline.take_next().map(|(segment, _)| segment)).collect()
    }

    #[test]
    fn hands_out_in_order_and_ends_at_the_last() {
        let mut pipeline = Pipeline::new(0, 4, 100, 5);
        assert_eq!(send_all(&mut pipeline, ms(0)), [0, 1, 2, 3]);
        for segment in [2, 0, 3] {
            assert!(pipeline.on_data(segment, b"x", false, ms(10)));
        }
        assert!(!pipeline.on_data(2, b"again", false, ms(10)));
        assert!(!pipeline.on_data(77, b"unasked", false, ms(10)));
        assert_eq!(take_all(&mut pipeline), [0]);
        assert_eq!(pipeline.rtt(), ms(10));
        pipeline.set_last(4);
        assert_eq!(send_all(&mut pipeline, ms(10)), [4]);
        pipeline.on_data(1, b"x", false, ms(20));
        pipeline.on_data(4, b"x", false, ms(20));
        assert_eq!(take_all(&mut pipeline), [1, 2, 3, 4]);
        assert!(pipeline.is_complete());
        assert_eq!(pipeline.in_flight, 0);
    }

    #[test]
    fn a_last_segment_of_any_number_is_accepted() {
        let mut pipeline = Pipeline::new(0, 2, 100, 5);
        assert_eq!(send_all(&mut pipeline, ms(0)), [0, 1]);
        pipeline.set_last(u64::MAX);
        assert!(pipeline.on_data(0, b"x", false, ms(1)));
        assert_eq!(take_all(&mut pipeline), [0]);
        assert!(!pipeline.is_complete());
    }

    #[test]
    fn an_object_that_grows_is_fetched_to_its_new_end() {
        let mut pipeline = Pipeline::new(0, 10, 100, 5);
        assert_eq!(send_all(&mut pipeline, ms(0)).len(), 10);
        pipeline.set_last(1);
        pipeline.on_data(0, b"x", false, ms(1));
        pipeline.set_last(4);
        assert_eq!(send_all(&mut pipeline, ms(1)), [2, 3, 4]);
    }

    #[test]
    fn a_claimed_end_holds_until_its_packet_is_judged() {
        let mut pipeline = Pipeline::new(0, 10, 100, 2);
        assert_eq!(send_all(&mut pipeline, ms(0)).len(), 10);
        pipeline.on_data(1, b"x", false, ms(1));
        pipeline.claim_last(2, 1);
        // What lies beyond is not waited for, and is not the end.
        assert_eq!(send_all(&mut pipeline, ms(1)), [] as [u64; 0]);
        pipeline.on_data(0, b"x", false, ms(1));
        pipeline.on_data(2, b"x", false, ms(1));
        pipeline.check_timeouts(ms(60_000)).unwrap();
        assert_eq!(pipeline.take_next().unwrap().0, 0);
        assert!(pipeline.reject_next() && !pipeline.is_complete());
        assert_eq!(send_all(&mut pipeline, ms(2))[..3], [1, 3, 4], "it was a lie");
        // An end before the packet that claims it is none.
        pipeline.claim_last(1, 2);
        assert_eq!(pipeline.claimed, None);
    }

    #[test]
    fn forgets_what_lies_beyond_the_end() {
        let mut pipeline = Pipeline::new(0, 10, 100, 5);
        assert_eq!(send_all(&mut pipeline, ms(0)).len(), 10);
        pipeline.set_last(1);
        assert_eq!(pipeline.in_flight, 2);
        pipeline.on_data(0, b"x", false, ms(1));
        pipeline.on_data(1, b"x", false, ms(1));
        assert_eq!(take_all(&mut pipeline), [0, 1]);
        assert!(pipeline.is_complete());
        pipeline.check_timeouts(ms(60_000)).unwrap();
        assert_eq!(pipeline.next_to_send(ms(60_000)), None);
    }

    #[test]
    fn asks_again_after_the_timeout_and_lowers_the_window_once() {
        let mut pipeline = Pipeline::new(7, 10, 100, 3);
        assert_eq!(send_all(&mut pipeline, ms(0)), (7..17).collect::<Vec<_>>());
        assert_eq!(pipeline.wait(ms(400)), ms(600));
        pipeline.check_timeouts(ms(999)).unwrap();
        assert_eq!(pipeline.next_to_send(ms(999)), None);
        pipeline.check_timeouts(ms(1000)).unwrap();
        assert_eq!(pipeline.congestion.window(), 7);
        // The first loss doubled the timeout of the other segments.
        assert_eq!(send_all(&mut pipeline, ms(1000)), [] as [u64; 0]);
        pipeline.check_timeouts(ms(2000)).unwrap();
        assert_eq!(pipeline.congestion.window(), 7);
        assert_eq!(send_all(&mut pipeline, ms(2000)), (7..14).collect::<Vec<_>>());
        assert_eq!(pipeline.retransmissions, 7);
        // A late answer to the first try counts, but it is not a sample of the round-trip time.
        assert!(pipeline.on_data(7, b"x", false, ms(2001)));
        assert_eq!(pipeline.rtt(), ms(0));
    }

    #[test]
    fn gives_up_after_so_many_tries() {
        let mut pipeline = Pipeline::new(0, 2, 2, 3);
        let mut now = ms(0);
        let error = loop {
            send_all(&mut pipeline, now);
            now += ms(5000);
            if let Err(error) = pipeline.check_timeouts(now) {
                break error;
            }
            assert!(now < ms(60_000));
        };
        assert_eq!(error, PipelineError::Lost { segment: 0, tries: 3 });
    }

    #[test]
    fn marks_lower_the_window_once_for_each_flight() {
        let mut pipeline = Pipeline::new(0, 20, 100, 3);
        send_all(&mut pipeline, ms(0));
        pipeline.on_data(0, b"x", true, ms(10));
        assert_eq!(pipeline.congestion.window(), 14);
        pipeline.on_data(1, b"x", true, ms(10));
        assert_eq!(pipeline.congestion.window(), 14);
        for segment in 2..20 {
            pipeline.on_data(segment, b"x", false, ms(10));
        }
        send_all(&mut pipeline, ms(10));
        let window = pipeline.congestion.window();
        pipeline.on_data(20, b"x", true, ms(20));
        assert!(pipeline.congestion.window() < window);
        assert_eq!(pipeline.congestion_marks, 3);
    }

    #[test]
    fn refusals_are_retried_and_then_end_the_transfer() {
        let mut pipeline = Pipeline::new(0, 2, 2, 9);
        send_all(&mut pipeline, ms(0));
        pipeline.on_nack(0, NackReason::Duplicate, ms(1)).unwrap();
        assert_eq!(send_all(&mut pipeline, ms(1)), [0]);
        let mut now = ms(2);
        for _ in 0..REFUSALS_MAX - 1 {
            // Many Nacks of one try count once.
            (0..100).for_each(|_| pipeline.on_nack(1, NackReason::NoRoute, now).unwrap());
            now += ms(5000);
            pipeline.check_timeouts(now).unwrap();
            send_all(&mut pipeline, now);
        }
        let error = pipeline.on_nack(1, NackReason::NoRoute, now).unwrap_err();
        assert_eq!(error, PipelineError::Refused { segment: 1, reason: NackReason::NoRoute });
    }

    #[test]
    fn a_router_that_calls_every_nonce_a_duplicate_ends_the_transfer() {
        let mut pipeline = Pipeline::new(0, 2, 2, 5);
        let mut sent = 0;
        let error = loop {
            sent += send_all(&mut pipeline, ms(0)).into_iter().filter(|segment| *segment == 0).count();
            if let Err(error) = pipeline.on_nack(0, NackReason::Duplicate, ms(1)) {
                break error;
            }
        };
        assert_eq!((error, sent), (PipelineError::Refused { segment: 0, reason: NackReason::Duplicate }, 5));
    }

    #[test]
    fn a_rejected_packet_is_requested_again_but_not_forever() {
        let mut pipeline = Pipeline::new(0, 2, 2, 9);
        for _ in 0..REFUSALS_MAX - 1 {
            assert!(send_all(&mut pipeline, ms(0)).contains(&0));
            assert!(pipeline.on_data(0, b"wrong", false, ms(1)));
            assert!(pipeline.reject_next());
            assert_eq!(pipeline.next_packet(), None);
        }
        assert!(send_all(&mut pipeline, ms(2)).contains(&0));
        assert!(pipeline.on_data(0, b"wrong", false, ms(3)));
        assert!(!pipeline.reject_next());
    }

    #[test]
    fn after_a_lost_connection_all_that_was_in_flight_is_sent_again() {
        let mut pipeline = Pipeline::new(0, 4, 4, 2);
        assert_eq!(send_all(&mut pipeline, ms(0)), [0, 1, 2, 3]);
        pipeline.on_data(1, b"x", false, ms(1));
        for _ in 0..10 {
            pipeline.on_connection_lost();
            assert_eq!(send_all(&mut pipeline, ms(2))[..3], [0, 2, 3], "this counts as no try");
        }
        pipeline.on_data(0, b"x", false, ms(3));
        assert_eq!(take_all(&mut pipeline), [0, 1]);
    }

    #[test]
    fn memory_ahead_of_a_hole_is_bounded() {
        let mut pipeline = Pipeline::new(0, 100_000, 100_000, 9);
        let sent = send_all(&mut pipeline, ms(0));
        assert_eq!(sent.len() as u64, AHEAD_MAX);
        for segment in sent.into_iter().skip(1) {
            pipeline.on_data(segment, b"x", false, ms(1));
        }
        assert_eq!(pipeline.next_to_send(ms(1)), None);
        pipeline.on_data(0, b"x", false, ms(2));
        assert_eq!(take_all(&mut pipeline).len() as u64, AHEAD_MAX);
        assert_eq!(pipeline.next_to_send(ms(2)), Some(AHEAD_MAX));
    }
}
