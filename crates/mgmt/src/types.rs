//! TLV-TYPE numbers of the NFD management protocol, from ndn-cxx's `encoding/tlv-nfd.hpp`.
//!
//! Numbers repeat. The meaning of an element depends on the enclosing element or dataset.
#![allow(missing_docs)]

// ControlParameters.
pub const CONTROL_PARAMETERS: u64 = 104;
pub const FACE_ID: u64 = 105;
pub const COST: u64 = 106;
pub const STRATEGY: u64 = 107;
pub const FLAGS: u64 = 108;
pub const EXPIRATION_PERIOD: u64 = 109;
pub const ORIGIN: u64 = 111;
pub const MASK: u64 = 112;
pub const URI: u64 = 114;
pub const LOCAL_URI: u64 = 129;
pub const CAPACITY: u64 = 131;
pub const COUNT: u64 = 132;
pub const FACE_PERSISTENCY: u64 = 133;
pub const BASE_CONGESTION_MARKING_INTERVAL: u64 = 135;
pub const DEFAULT_CONGESTION_THRESHOLD: u64 = 136;
pub const MTU: u64 = 137;

// ControlResponse.
pub const CONTROL_RESPONSE: u64 = 101;
pub const STATUS_CODE: u64 = 102;
pub const STATUS_TEXT: u64 = 103;

// ForwarderStatus.
pub const NFD_VERSION: u64 = 128;
pub const START_TIMESTAMP: u64 = 129;
pub const CURRENT_TIMESTAMP: u64 = 130;
pub const N_NAME_TREE_ENTRIES: u64 = 131;
pub const N_FIB_ENTRIES: u64 = 132;
pub const N_PIT_ENTRIES: u64 = 133;
pub const N_MEASUREMENTS_ENTRIES: u64 = 134;
pub const N_CS_ENTRIES: u64 = 135;

// Faces.
pub const FACE_STATUS: u64 = 128;
pub const CHANNEL_STATUS: u64 = 130;
pub const URI_SCHEME: u64 = 131;
pub const FACE_SCOPE: u64 = 132;
pub const LINK_TYPE: u64 = 134;
pub const FACE_QUERY_FILTER: u64 = 150;
pub const FACE_EVENT_NOTIFICATION: u64 = 192;
pub const FACE_EVENT_KIND: u64 = 193;

// Counters of ForwarderStatus and FaceStatus.
pub const N_IN_INTERESTS: u64 = 144;
pub const N_IN_DATA: u64 = 145;
pub const N_OUT_INTERESTS: u64 = 146;
pub const N_OUT_DATA: u64 = 147;
pub const N_IN_BYTES: u64 = 148;
pub const N_OUT_BYTES: u64 = 149;
pub const N_IN_NACKS: u64 = 151;
pub const N_OUT_NACKS: u64 = 152;
pub const N_SATISFIED_INTERESTS: u64 = 153;
pub const N_UNSATISFIED_INTERESTS: u64 = 154;
// Our own types. They are even, so that clients of other forwarders skip them.
pub const N_DESCRIPTORS: u64 = 224;
pub const N_IN_TAG_PACKETS: u64 = 226;
pub const N_IN_LOCATOR_PACKETS: u64 = 228;
pub const N_OUT_TAG_PACKETS: u64 = 230;
pub const N_OUT_LOCATOR_PACKETS: u64 = 232;
pub const THREAD_STATUS: u64 = 234;
pub const INPUT_DEPTH: u64 = 236;
pub const INPUT_DROPS: u64 = 238;
pub const OUTPUT_DEPTH: u64 = 240;
pub const OUTPUT_DROPS: u64 = 242;
pub const N_HOT_NAMES: u64 = 244;
pub const N_SPREAD_INTERESTS: u64 = 246;
pub const N_SPREAD_HITS: u64 = 248;
pub const DROP_COUNT: u64 = 250;
pub const STAGE_TIME: u64 = 252;
pub const LABEL: u64 = 254;
pub const N_PACKETS: u64 = 256;
pub const TIME_NS: u64 = 258;
pub const N_FIB_LOOKUPS_COUNTED: u64 = 260;
pub const N_FIB_LINES_READ: u64 = 262;
pub const N_IN_MALFORMED: u64 = 264;
pub const N_REASSEMBLY_TIMEOUTS: u64 = 266;
pub const N_OUT_DROPS: u64 = 268;
pub const N_CONGESTION_MARKS: u64 = 270;
pub const N_RETRANSMISSIONS: u64 = 272;
pub const CLOSE_COUNT: u64 = 274;
pub const N_FACES: u64 = 276;
pub const LOAD_PERMILLE: u64 = 278;
pub const BUSY_NS: u64 = 280;
pub const N_SLEEPS: u64 = 282;
pub const N_RESTS: u64 = 284;
pub const N_HOME_PACKETS: u64 = 286;
pub const N_FOREIGN_PACKETS: u64 = 288;
pub const N_TAKEN_PACKETS: u64 = 290;
pub const IMBALANCE_PERCENT: u64 = 292;
pub const THREAD: u64 = 294;
pub const N_FACES_COME: u64 = 296;
pub const N_FACES_LEFT: u64 = 298;
pub const NODE: u64 = 300;
pub const N_SPREAD_JOINS: u64 = 302;
pub const N_SPREAD_BUSY: u64 = 304;
pub const N_SHARED_PIT_ENTRIES: u64 = 306;
pub const N_FAILED_RESTARTS: u64 = 320;
pub const RESTART_FAILURE: u64 = 322;
pub const TAKEN_OVER: u64 = 340;
pub const FLAT_CHANGE: u64 = 342;
pub const ROUTE_LABEL: u64 = 344;
pub const BATCH_REGISTER: u64 = 346;
pub const BATCH_UNREGISTER: u64 = 348;
pub const BATCH_FLAT_SET: u64 = 350;
pub const BATCH_FLAT_RESET: u64 = 352;
pub const BATCH_ADVERTISE: u64 = 354;
pub const BATCH_WITHDRAW: u64 = 356;
pub const BATCH_OUTCOME: u64 = 358;
pub const BATCH_REFUSAL: u64 = 360;
pub const BATCH_INDEX: u64 = 362;
pub const TAGS_ENTRY: u64 = 364;
pub const IS_STALE: u64 = 308;
pub const STATE: u64 = 310;

// Our own types, in answers to `config/reload`.
pub const RELOAD_REPORT: u64 = 308;
pub const CONFIG_CHANGE: u64 = 310;
pub const SETTING: u64 = 312;
pub const TEXT: u64 = 314;
pub const RESTART: u64 = 316;
pub const LEFT_OUT: u64 = 318;

// Content store.
pub const CS_INFO: u64 = 128;
pub const N_HITS: u64 = 129;
pub const N_MISSES: u64 = 130;

// FIB, strategy choices and RIB.
pub const FIB_ENTRY: u64 = 128;
pub const NEXT_HOP_RECORD: u64 = 129;
pub const STRATEGY_CHOICE: u64 = 128;
pub const RIB_ENTRY: u64 = 128;
pub const ROUTE: u64 = 129;
