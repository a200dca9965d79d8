//! Ports that move bytes, and the loop that drives a worker with them.
#![forbid(unsafe_code)]

pub mod face;
pub mod io_loop;
pub mod port;
pub mod uri;
pub mod waker;

pub use face::{FaceEvent, FaceRequest, FaceStatus, LinkFlags};
pub use io_loop::{ForwarderHandle, InternalFace};
pub use port::{Port, PortContext, Readiness};
pub use uri::FaceUri;
pub use waker::LoopWaker;
