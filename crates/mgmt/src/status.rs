//! Elements about the forwarder as a whole and its content store.

use crate::{element, types};

element! {
    /// The dataset `status/general`. Its fields are in the content directly, without an enclosing element: use
    /// [`crate::Element::encode_value`] and [`crate::Element::decode_value`].
    ForwarderStatus = byname_wire::tlv::types::CONTENT, {
        /// Name and version of the software.
        nfd_version: String = types::NFD_VERSION,
        /// When it started, in ms since the Unix epoch.
        start_timestamp_ms: u64 = types::START_TIMESTAMP,
        /// Now, in ms since the Unix epoch.
        current_timestamp_ms: u64 = types::CURRENT_TIMESTAMP,
        /// FIB entries and PIT entries.
        n_name_tree_entries: u64 = types::N_NAME_TREE_ENTRIES,
        /// FIB entries.
        n_fib_entries: u64 = types::N_FIB_ENTRIES,
        /// PIT entries.
        n_pit_entries: u64 = types::N_PIT_ENTRIES,
        /// Prefixes with measurements.
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
        /// Known descriptors. This field and all that follow are absent in other forwarders.
        n_descriptors: Option<u64> = types::N_DESCRIPTORS,
        /// Tag-addressed packets received.
        n_in_tag_packets: Option<u64> = types::N_IN_TAG_PACKETS,
        /// Locator-addressed packets received.
        n_in_locator_packets: Option<u64> = types::N_IN_LOCATOR_PACKETS,
        /// Tag-addressed packets sent.
        n_out_tag_packets: Option<u64> = types::N_OUT_TAG_PACKETS,
        /// Locator-addressed packets sent.
        n_out_locator_packets: Option<u64> = types::N_OUT_LOCATOR_PACKETS,
        /// Status of each packet thread.
        threads: Vec<ThreadStatus> = types::THREAD_STATUS,
        /// Packets that the busiest thread handled, in percent of the mean. Absent if there is one thread, or nothing
        /// was handled.
        imbalance_percent: Option<u64> = types::IMBALANCE_PERCENT,
        /// Names whose Data all threads share.
        n_hot_names: Option<u64> = types::N_HOT_NAMES,
        /// Pending Interests for such names that any thread may join. Absent before version 0.3.
        n_shared_pit_entries: Option<u64> = types::N_SHARED_PIT_ENTRIES,
        /// Dropped packets by reason, on all threads. Reasons that never occurred are absent.
        drops: Vec<DropCount> = types::DROP_COUNT,
        /// Received frames that are not valid packets. This field and the next four are sums over all faces since the
        /// start.
        n_in_malformed: Option<u64> = types::N_IN_MALFORMED,
        /// Packets whose fragments did not arrive in time.
        n_reassembly_timeouts: Option<u64> = types::N_REASSEMBLY_TIMEOUTS,
        /// Packets not sent.
        n_out_drops: Option<u64> = types::N_OUT_DROPS,
        /// Packets marked as congested.
        n_congestion_marks: Option<u64> = types::N_CONGESTION_MARKS,
        /// Retransmitted frames.
        n_retransmissions: Option<u64> = types::N_RETRANSMISSIONS,
        /// Faces that the router closed though their peers had not left, by reason. Reasons that never occurred are
        /// absent.
        closed: Vec<CloseCount> = types::CLOSE_COUNT,
        /// Restarts that failed, after which this process went on. Absent before version 0.3.
        n_failed_restarts: Option<u64> = types::N_FAILED_RESTARTS,
        /// Why the last of them failed.
        restart_failure: Option<String> = types::RESTART_FAILURE,
        /// What this process has taken over from another one, and what it could not. Absent if there was none.
        taken_over: Option<String> = types::TAKEN_OVER,
        /// Where state is kept that survives a restart, or why it is not.
        state: Option<String> = types::STATE,
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
        /// Most packets that it may hold.
        capacity: u64 = types::CAPACITY,
        /// See [`cs_flags`].
        flags: u64 = types::FLAGS,
        /// Packets in it.
        n_cs_entries: u64 = types::N_CS_ENTRIES,
        /// Interests that it answered.
        n_hits: u64 = types::N_HITS,
        /// Interests that it did not answer.
        n_misses: u64 = types::N_MISSES,
    }
}

element! {
    /// Status of one packet thread. The fields about rings, and about packets that cross them, are absent if there is
    /// one thread.
    ThreadStatus = types::THREAD_STATUS, {
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
        /// Packets in the rings to their homes on other threads.
        input_depth: Option<u64> = types::INPUT_DEPTH,
        /// Packets dropped because these rings were full.
        input_drops: Option<u64> = types::INPUT_DROPS,
        /// Packets in the rings to the threads that own their faces.
        output_depth: Option<u64> = types::OUTPUT_DEPTH,
        /// Packets dropped because those rings were full.
        output_drops: Option<u64> = types::OUTPUT_DROPS,
        /// Interests for hot names that this thread had to answer because any thread may answer them.
        n_spread_interests: Option<u64> = types::N_SPREAD_INTERESTS,
        /// Number of these that the shared content store answered.
        n_spread_hits: Option<u64> = types::N_SPREAD_HITS,
        /// Dropped packets by reason, including those of the thread's ports and rings. Reasons that never occurred are
        /// absent.
        drops: Vec<DropCount> = types::DROP_COUNT,
        /// Stage times.
        stages: Vec<StageTime> = types::STAGE_TIME,
        /// FIB lookups whose cache lines were counted. Absent if the engine does not count.
        n_fib_lookups_counted: Option<u64> = types::N_FIB_LOOKUPS_COUNTED,
        /// Cache lines that these lookups read.
        n_fib_lines_read: Option<u64> = types::N_FIB_LINES_READ,
        /// Share of its time that the thread has worked lately. This field and all that follow are absent before
        /// version 0.3.
        load_permille: Option<u64> = types::LOAD_PERMILLE,
        /// Time that it has worked since the start.
        busy_ns: Option<u64> = types::BUSY_NS,
        /// Number of times that it slept.
        n_sleeps: Option<u64> = types::N_SLEEPS,
        /// Number of times that it began to rest, and gave its work to the first thread.
        n_rests: Option<u64> = types::N_RESTS,
        /// Packets that it received and handled itself.
        n_home_packets: Option<u64> = types::N_HOME_PACKETS,
        /// Packets that it gave to other threads.
        n_foreign_packets: Option<u64> = types::N_FOREIGN_PACKETS,
        /// Packets that it took from other threads.
        n_taken_packets: Option<u64> = types::N_TAKEN_PACKETS,
        /// Faces that it owns.
        n_faces: Option<u64> = types::N_FACES,
        /// Times that a face came here from another thread.
        n_faces_come: Option<u64> = types::N_FACES_COME,
        /// Times that a face left for another thread.
        n_faces_left: Option<u64> = types::N_FACES_LEFT,
        /// Number of the memory node of its processor. Absent if it is not bound to one.
        node: Option<u64> = types::NODE,
        /// Interests for hot names that this thread joined to a shared PIT entry.
        n_spread_joins: Option<u64> = types::N_SPREAD_JOINS,
        /// Number of times that another thread had the lock of such an entry.
        n_spread_busy: Option<u64> = types::N_SPREAD_BUSY,
    }
}

element! {
    /// Number of packets dropped for one reason.
    DropCount = types::DROP_COUNT, {
        /// The reason, as in the metrics.
        reason: String = types::LABEL,
        /// Packets.
        n_packets: u64 = types::N_PACKETS,
    }
}

element! {
    /// Number of faces closed for one reason.
    CloseCount = types::CLOSE_COUNT, {
        /// The reason, as in the metrics.
        reason: String = types::LABEL,
        /// Faces.
        n_faces: u64 = types::N_FACES,
    }
}

element! {
    /// Time of a forwarding stage, in the bursts that were timed.
    StageTime = types::STAGE_TIME, {
        /// The stage, as in the metrics.
        stage: String = types::LABEL,
        /// Packets that passed the stage.
        n_packets: u64 = types::N_PACKETS,
        /// Time, in nanoseconds.
        time_ns: u64 = types::TIME_NS,
    }
}
