//! What applications of named data use, and byname's own tools.
#![forbid(unsafe_code)]

pub mod fetch;
pub mod link;
pub mod management;
pub mod outbox;
pub mod reassembly;
pub mod socket;
pub mod tags;
pub mod transport;

pub use link::{ConnectError, ConnectionLost, DataPacket, ExchangeError, Link, nack_words, satisfies};
pub use outbox::{Fields, Outbox};
pub use reassembly::{Incoming, Reassembly};
pub use socket::Socket;
pub use transport::Transport;
