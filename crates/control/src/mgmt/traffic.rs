//! The dataset `traffic/prefixes`: the prefixes below which most packets were lately.
//!
//! The packet threads count only while somebody asks: from the first question until nobody has asked for a while. The
//! answer to the first question is therefore empty.

use byname_face::ForwarderHandle;
use byname_forward::popular::ANSWER_BOUNDS;

use super::tlv::traffic::{AnswerTimes, Traffic, TrafficPrefix};
use super::{Management, Moment};

/// How long the threads go on to count after a question.
const KEPT_MS: u64 = 10_000;

/// Whether the threads count.
#[derive(Default)]
pub(super) struct Counting {
    /// When somebody asked last, if they count.
    asked_ms: Option<u64>,
}

impl Counting {
    /// When [`Counting::expire`] must be called.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.asked_ms.map(|asked| asked.saturating_add(KEPT_MS))
    }

    /// Ends the counting if nobody asks any more.
    pub fn expire(&mut self, forwarder: &ForwarderHandle, now_ms: u64) {
        if self.next_deadline_ms().is_some_and(|end| end <= now_ms) {
            self.asked_ms = None;
            forwarder.count_popular(false);
        }
    }
}

impl Management {
    /// The content of the dataset.
    pub(super) fn traffic(&mut self, now: Moment) -> Traffic {
        if self.counting.asked_ms.replace(now.ms).is_none() {
            self.forwarder.count_popular(true);
        }
        let traffic = self.forwarder.popular();
        let prefix = |(name, counts): (byname_wire::Name, byname_forward::popular::Counts)| TrafficPrefix {
            name,
            n_interests: counts.interests,
            n_data: counts.data,
            data_bytes: counts.data_bytes,
            excess: counts.excess,
        };
        let bounds = ANSWER_BOUNDS.into_iter().map(Some).chain([None]);
        let counts = traffic.answers.counts.into_iter().chain([traffic.answers.above]);
        let answers = bounds.zip(counts).map(|(up_to_ns, n_answers)| AnswerTimes { up_to_ns, n_answers });
        Traffic {
            window_ms: u64::try_from(traffic.time.as_millis()).unwrap_or(u64::MAX),
            n_packets: traffic.packets,
            n_samples: traffic.samples,
            prefixes: traffic.prefixes.into_iter().map(prefix).collect(),
            answers: answers.collect(),
        }
    }
}
