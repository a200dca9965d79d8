//! Elements of the NFD management protocol: each is a table of fields, encoded in that order and
//! decoded in any.
//!
//! As in ndn-cxx, elements that a decoder does not know are skipped, and of an element that is
//! repeated the last counts. Decoders serve the forwarder and its command line alike.

mod control;
mod face;
mod field;
mod routing;
mod status;
pub mod types;

pub use control::{ControlParameters, ControlResponse};
pub use face::{ChannelStatus, FaceEventKind, FaceEventNotification, FaceQueryFilter, FaceStatus};
pub use field::{Element, StrategyName, decode_list};
pub use routing::{FibEntry, NextHopRecord, RibEntry, Route, StrategyChoice, origin, route_flags};
pub use status::{CsInfo, DropCount, ForwarderStatus, StageTime, WorkerStatus, cs_flags};

pub(crate) use field::{Field, element};

#[cfg(test)]
mod tests;
