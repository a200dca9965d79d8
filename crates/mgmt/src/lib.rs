// Links that lead to source files in README.md lead to documentation on this page.
//! [`element`]: mod@element
//! [`types`]: types
//! [`tags`]: tags
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
mod control;
pub mod element;
pub mod explain;
mod face;
mod reload;
mod routing;
mod status;
pub mod tags;
pub mod trace;
pub mod traffic;
pub mod trees;
pub mod types;

pub use control::{ControlParameters, ControlResponse};
pub use element::{Element, StrategyName, decode_list};
pub use face::{ChannelStatus, FaceEventKind, FaceEventNotification, FaceQueryFilter, FaceStatus};
pub use reload::{ConfigChange, ReloadReport, reload_flags};
pub use routing::{
    FibEntry, FlatChange, NextHopRecord, RibEntry, Route, StrategyChoice, TagsEntry, origin, route_flags,
};
pub use status::{CloseCount, CsInfo, DropCount, ForwarderStatus, StageTime, ThreadStatus, cs_flags};

#[cfg(test)]
mod tests;
