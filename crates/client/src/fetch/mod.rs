//! Fetching segmented objects: version discovery, congestion control, and resumption.

pub mod congestion;
pub mod discovery;
pub mod pipeline;
pub mod resume;
pub mod rtt;
pub mod segments;

pub use discovery::{Discovery, Object};
pub use segments::{Chunk, FetchCounters, FetchError, FetchOptions, Segments, check_single};
