//! Elements of the module `trace`, which other forwarders do not have.

use byname_wire::Name;
use byname_wire::tlv::types::NAME;

use crate::{StrategyName, element, types};

// Our own types. They are even, so that clients of other forwarders skip them.
const TRACE_CHUNK: u64 = 500;
const OFFSET: u64 = 502;
const LOST: u64 = 504;
const BYTES: u64 = 506;
const TRACE_EVENT: u64 = 508;
const AT_UNIX_US: u64 = 510;
const SUBJECT: u64 = 512;
const PACKET_BYTES: u64 = 514;
const NONCE: u64 = 516;
const CAN_BE_PREFIX: u64 = 518;
const MUST_BE_FRESH: u64 = 520;
const PIT: u64 = 522;
const SATISFIED: u64 = 524;
const STORE: u64 = 526;
const WAY: u64 = 528;
const RULE: u64 = 530;
const WHY: u64 = 532;
const TRACE_SENT: u64 = 534;
const DROPPED: u64 = 536;
const TRACE_TIME: u64 = 538;
const NACK_REASON: u64 = 540;
const PACKET: u64 = 542;

/// Flags of `trace/start`.
pub mod trace_flags {
    /// Only what is dropped, refused or not answered.
    pub const ONLY_DROPPED: u64 = 1;
    /// Events have the packets.
    pub const WITH_PACKETS: u64 = 2;
}

element! {
    /// The body of the answer to `trace/read`: a part of the stream of [`TraceEvent`]s.
    TraceChunk = TRACE_CHUNK, {
        /// Number of bytes of the stream before this part.
        offset: u64 = OFFSET,
        /// Events so far that found no room.
        lost: u64 = LOST,
        /// The part. An event may begin in one part and end in another.
        bytes: Option<Vec<u8>> = BYTES,
    }
}

element! {
    /// What happened to one packet.
    TraceEvent = TRACE_EVENT, {
        /// When, in µs since the Unix epoch.
        at_unix_us: u64 = AT_UNIX_US,
        /// Number of the packet thread.
        thread: u64 = types::THREAD,
        /// `interest`, `data`, `nack`, `malformed`, `expiry` or `eviction`.
        subject: String = SUBJECT,
        /// Reason of a Nack, as in NDNLPv2.
        nack: Option<u64> = NACK_REASON,
        /// The packet's name; `/` if it has none.
        name: Name = NAME,
        /// The face that it came from, or that asked first.
        face_id: u64 = types::FACE_ID,
        /// Its size.
        packet_bytes: u64 = PACKET_BYTES,
        /// Nonce of an Interest.
        nonce: Option<u64> = NONCE,
        /// 1 if the Interest has it.
        can_be_prefix: Option<u64> = CAN_BE_PREFIX,
        /// 1 if the Interest has it.
        must_be_fresh: Option<u64> = MUST_BE_FRESH,
        /// What the PIT did.
        pit: Option<String> = PIT,
        /// Number of pending Interests that Data satisfied.
        satisfied: Option<u64> = SATISFIED,
        /// What the content store did.
        store: Option<String> = STORE,
        /// How nexthops were found: `rule`, `no-rule`, `hint` or `chosen`.
        way: Option<String> = WAY,
        /// Prefix of the FIB rule.
        rule: Option<Name> = RULE,
        /// Full name of the strategy.
        strategy: Option<StrategyName> = types::STRATEGY,
        /// Why the strategy decided so.
        why: Option<String> = WHY,
        /// What was sent.
        sent: Vec<TraceSent> = TRACE_SENT,
        /// Why the packet went no further.
        dropped: Option<String> = DROPPED,
        /// Time in each stage.
        times: Vec<TraceTime> = TRACE_TIME,
        /// The packet.
        packet: Option<Vec<u8>> = PACKET,
    }
}

element! {
    /// A packet that was sent on account of another.
    TraceSent = TRACE_SENT, {
        /// The face.
        face_id: u64 = types::FACE_ID,
        /// `interest`, `data` or `nack`.
        subject: String = SUBJECT,
        /// Reason of a Nack, as in NDNLPv2.
        nack: Option<u64> = NACK_REASON,
    }
}

element! {
    /// Time in a stage.
    TraceTime = TRACE_TIME, {
        /// `waited`, `pit-cs`, `fib` or `strategy`.
        stage: String = types::LABEL,
        /// The time.
        time_ns: u64 = types::TIME_NS,
    }
}
