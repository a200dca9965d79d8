//! Ports that move bytes, and the loop that drives a worker with them.
#![forbid(unsafe_code)]

pub mod face;
pub mod io_loop;
pub mod uri;

pub use face::{FaceEvent, FaceRequest, FaceStatus, LinkFlags};
pub use io_loop::{ForwarderHandle, InternalFace};
pub use uri::FaceUri;
