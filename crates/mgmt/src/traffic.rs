//! Elements of the module `traffic`, which other forwarders do not have.

use byname_wire::Name;
use byname_wire::tlv::types::NAME;

use crate::{element, types};

// Our own types. They are even, so that clients of other forwarders skip them.
const TRAFFIC: u64 = 560;
const WINDOW_MS: u64 = 562;
const N_SAMPLES: u64 = 564;
const TRAFFIC_PREFIX: u64 = 566;
const N_INTERESTS: u64 = 568;
const N_DATA: u64 = 570;
const DATA_BYTES: u64 = 572;
const EXCESS: u64 = 574;
const ANSWER_TIMES: u64 = 576;
const UP_TO_NS: u64 = 578;
const N_ANSWERS: u64 = 580;

element! {
    /// The dataset `traffic/prefixes`: the prefixes below which most packets were in the last whole window. Its fields
    /// are in the content directly, as those of `status/general`.
    Traffic = TRAFFIC, {
        /// Length of the window. Zero: the first one is not over yet.
        window_ms: u64 = WINDOW_MS,
        /// Packets in the window that have names, besides those of management.
        n_packets: u64 = types::N_PACKETS,
        /// Packets that were looked at.
        n_samples: u64 = N_SAMPLES,
        /// The most popular prefixes of each depth, the most popular first.
        prefixes: Vec<TrafficPrefix> = TRAFFIC_PREFIX,
        /// Times from Interests to Data, as far as they were looked at.
        answers: Vec<AnswerTimes> = ANSWER_TIMES,
    }
}

element! {
    /// Packets below a prefix.
    TrafficPrefix = TRAFFIC_PREFIX, {
        /// The prefix.
        name: Name = NAME,
        /// Interests.
        n_interests: u64 = N_INTERESTS,
        /// Data that arrived.
        n_data: u64 = N_DATA,
        /// Bytes of this Data.
        data_bytes: u64 = DATA_BYTES,
        /// Packets that may be missing from these counts, because a rarer prefix had the place.
        excess: u64 = EXCESS,
    }
}

element! {
    /// Number of answers that took at most this time, and longer than the element before it says.
    AnswerTimes = ANSWER_TIMES, {
        /// The longest time. Absent: any longer time.
        up_to_ns: Option<u64> = UP_TO_NS,
        /// Answers.
        n_answers: u64 = N_ANSWERS,
    }
}
