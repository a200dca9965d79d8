//! Link services that pass to another process.
//!
//! What stays behind: fragments of incomplete packets, and frames without an Ack. The peer sees them as lost.

use std::time::Duration;

use byname_forward::Ticks;

use super::reliability::Reliability;
use super::{Conversation, LinkConfig, LinkService, ReassemblyBudget};
use crate::face::LinkFlags;
use crate::handover::LinkRecord;

impl LinkService {
    /// What another process needs to go on with it.
    pub(crate) fn hand_over(&self) -> LinkRecord {
        let LinkConfig { mtu, flags, base_congestion_marking_interval, congestion_threshold_bytes } = self.config;
        LinkRecord {
            flags: flags.bits(),
            mtu: mtu.map(|mtu| mtu as u64),
            marking_interval_ns: u64::try_from(base_congestion_marking_interval.as_nanos()).unwrap_or(u64::MAX),
            marking_threshold_bytes: congestion_threshold_bytes,
            next_sequence: self.next_sequence,
            counters: self.counters.to_array(),
            unanswered: self.conversation.unanswered(),
            reliability: self.reliability.as_ref().map(|reliability| reliability.hand_over()),
        }
    }

    /// Goes on with the link service of another process.
    pub(crate) fn taken_over(now: Ticks, record: &LinkRecord, budget: ReassemblyBudget) -> LinkService {
        let config = LinkConfig {
            mtu: record.mtu.map(|mtu| usize::try_from(mtu).unwrap_or(usize::MAX)),
            flags: LinkFlags::default().masked(record.flags, u64::MAX),
            base_congestion_marking_interval: Duration::from_nanos(record.marking_interval_ns),
            congestion_threshold_bytes: record.marking_threshold_bytes,
        };
        let mut link = LinkService::new(config, budget);
        link.next_sequence = record.next_sequence;
        link.counters = crate::face::LinkCounters::of_array(record.counters);
        link.conversation = Conversation::with_unanswered(record.unanswered);
        if let (Some(reliability), Some(record)) = (&mut link.reliability, &record.reliability) {
            **reliability = Reliability::taken_over(now, record);
        }
        link
    }
}
