//! Elements about the forwarder as a whole and its content store.

use super::{element, types};

element! {
    /// The dataset `status/general`. Its fields stand in the content without an element around
    /// them: use [`super::Element::encode_value`] and [`super::Element::decode_value`].
    ForwarderStatus = byname_wire::tlv::types::CONTENT, {
        /// Name and version of the software.
        nfd_version: String = types::NFD_VERSION,
        /// When it started, in ms since the Unix epoch.
        start_timestamp_ms: u64 = types::START_TIMESTAMP,
        /// Now, in ms since the Unix epoch.
        current_timestamp_ms: u64 = types::CURRENT_TIMESTAMP,
        /// Names known to some table.
        n_name_tree_entries: u64 = types::N_NAME_TREE_ENTRIES,
        /// FIB entries.
        n_fib_entries: u64 = types::N_FIB_ENTRIES,
        /// PIT entries.
        n_pit_entries: u64 = types::N_PIT_ENTRIES,
        /// Prefixes of which something is measured.
        n_measurements_entries: u64 = types::N_MEASUREMENTS_ENTRIES,
        /// Packets in the content store.
        n_cs_entries: u64 = types::N_CS_ENTRIES,
        /// Interests received.
        n_in_interests: u64 = types::N_IN_INTERESTS,
        /// Data received.
        n_in_data: u64 = types::N_IN_DATA,
        /// Nacks received.
        n_in_nacks: u64 = types::N_IN_NACKS,
        /// Interests sent.
        n_out_interests: u64 = types::N_OUT_INTERESTS,
        /// Data sent.
        n_out_data: u64 = types::N_OUT_DATA,
        /// Nacks sent.
        n_out_nacks: u64 = types::N_OUT_NACKS,
        /// Interests answered. Absent in old forwarders.
        n_satisfied_interests: Option<u64> = types::N_SATISFIED_INTERESTS,
        /// Interests that expired. Absent in old forwarders.
        n_unsatisfied_interests: Option<u64> = types::N_UNSATISFIED_INTERESTS,
        /// Descriptors that are known. Absent in other forwarders, as are all that follow.
        n_descriptors: Option<u64> = types::N_DESCRIPTORS,
        /// Tag-addressed packets received.
        n_in_tag_packets: Option<u64> = types::N_IN_TAG_PACKETS,
        /// Locator-addressed packets received.
        n_in_locator_packets: Option<u64> = types::N_IN_LOCATOR_PACKETS,
        /// Tag-addressed packets sent.
        n_out_tag_packets: Option<u64> = types::N_OUT_TAG_PACKETS,
        /// Locator-addressed packets sent.
        n_out_locator_packets: Option<u64> = types::N_OUT_LOCATOR_PACKETS,
        /// Each worker.
        workers: Vec<WorkerStatus> = types::WORKER_STATUS,
        /// Names whose Data all workers share.
        n_hot_names: Option<u64> = types::N_HOT_NAMES,
        /// Why packets were dropped, anywhere: the reasons that occurred.
        drops: Vec<DropCount> = types::DROP_COUNT,
        /// Stages of the packet thread, those of a worker on it aside.
        stages: Vec<StageTime> = types::STAGE_TIME,
    }
}

/// Bits of the content store's flags.
pub mod cs_flags {
    /// Data is admitted.
    pub const ADMIT: u64 = 1;
    /// Data is served.
    pub const SERVE: u64 = 2;
}

element! {
    /// The dataset `cs/info`.
    CsInfo = types::CS_INFO, {
        /// Most packets.
        capacity: u64 = types::CAPACITY,
        /// See [`cs_flags`].
        flags: u64 = types::FLAGS,
        /// Packets in it.
        n_cs_entries: u64 = types::N_CS_ENTRIES,
        /// Interests that it answered.
        n_hits: u64 = types::N_HITS,
        /// Interests that it did not.
        n_misses: u64 = types::N_MISSES,
    }
}

element! {
    /// One worker. Its rings are absent where it is on the packet thread.
    WorkerStatus = types::WORKER_STATUS, {
        /// PIT entries.
        n_pit_entries: u64 = types::N_PIT_ENTRIES,
        /// Packets in the content store.
        n_cs_entries: u64 = types::N_CS_ENTRIES,
        /// Interests received.
        n_in_interests: u64 = types::N_IN_INTERESTS,
        /// Data received.
        n_in_data: u64 = types::N_IN_DATA,
        /// Nacks received.
        n_in_nacks: u64 = types::N_IN_NACKS,
        /// Interests answered.
        n_satisfied_interests: u64 = types::N_SATISFIED_INTERESTS,
        /// Interests that expired.
        n_unsatisfied_interests: u64 = types::N_UNSATISFIED_INTERESTS,
        /// Packets that wait for it.
        input_depth: Option<u64> = types::INPUT_DEPTH,
        /// Packets that found no room on their way to it.
        input_drops: Option<u64> = types::INPUT_DROPS,
        /// Packets that wait on their way back.
        output_depth: Option<u64> = types::OUTPUT_DEPTH,
        /// Packets that found no room there.
        output_drops: Option<u64> = types::OUTPUT_DROPS,
        /// Interests for hot names that it was given for any worker to answer.
        n_spread_interests: Option<u64> = types::N_SPREAD_INTERESTS,
        /// Those of them that it answered.
        n_spread_hits: Option<u64> = types::N_SPREAD_HITS,
        /// Why it dropped packets: the reasons that occurred.
        drops: Vec<DropCount> = types::DROP_COUNT,
        /// Its stages.
        stages: Vec<StageTime> = types::STAGE_TIME,
        /// Lookups in the FIB of which it is known how much they read; absent where the engine does not tell.
        n_fib_lookups_counted: Option<u64> = types::N_FIB_LOOKUPS_COUNTED,
        /// Cache lines that these read.
        n_fib_lines_read: Option<u64> = types::N_FIB_LINES_READ,
    }
}

element! {
    /// How many packets were dropped for one reason.
    DropCount = types::DROP_COUNT, {
        /// The reason, as in the metrics.
        reason: String = types::LABEL,
        /// Packets.
        n_packets: u64 = types::N_PACKETS,
    }
}

element! {
    /// What a stage of forwarding took, in the bursts that were timed.
    StageTime = types::STAGE_TIME, {
        /// The stage, as in the metrics.
        stage: String = types::LABEL,
        /// Packets that passed it.
        n_packets: u64 = types::N_PACKETS,
        /// Time, in nanoseconds.
        time_ns: u64 = types::TIME_NS,
    }
}
