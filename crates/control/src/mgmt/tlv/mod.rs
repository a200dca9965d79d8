//! Elements of the NFD management protocol. Each is declared as a table of fields. Fields are encoded in that order and
//! decoded in any.
//!
//! As in ndn-cxx, decoders skip unknown elements. If an element is repeated, the last one counts. The forwarder and its
//! command line use the same decoders.

mod control;
pub mod explain;
mod face;
mod reload;
mod routing;
mod status;
pub mod trace;
pub mod traffic;
pub mod types;

pub use crate::element::{Element, StrategyName, decode_list};
pub use control::{ControlParameters, ControlResponse};
pub use face::{ChannelStatus, FaceEventKind, FaceEventNotification, FaceQueryFilter, FaceStatus};
pub use reload::{ConfigChange, ReloadReport, reload_flags};
pub use routing::{FibEntry, NextHopRecord, RibEntry, Route, StrategyChoice, origin, route_flags};
pub use status::{CloseCount, CsInfo, DropCount, ForwarderStatus, StageTime, ThreadStatus, cs_flags};

pub(crate) use crate::element::element;

#[cfg(test)]
mod tests;
