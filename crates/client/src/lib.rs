// Links that lead to source files in README.md lead to documentation on this page.
//! [`client`]: Client
//! [`session`]: session
//! [`fetch`]: fetch
//! [`sync`]: sync
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod asynchronous;
mod backoff;
mod client;
mod clock;
mod failure;
pub mod fetch;
pub mod link;
pub mod management;
mod outbox;
pub mod publish;
mod reassembly;
pub mod session;
pub mod signed;
#[cfg(feature = "embed")]
pub mod simulated;
mod socket;
pub mod sync;
pub mod tags;
mod tls;
pub mod transport;
mod verify;

#[cfg(feature = "tokio")]
pub use asynchronous::{
    AsyncClient, AsyncFetching, AsyncGroup, AsyncPublication, CallError, Ended, MakeFaceError, Member, Producer,
    RouterFaces,
};
pub use backoff::Backoff;
pub use client::{Client, ClientOptions, FetchFileError, Fetching, StartError};
pub use clock::Now;
pub use failure::{ClientCounters, Failure, ReplyError, SendError};
pub use link::{ConnectionLost, DataPacket, ExchangeError, Link, nack_words, satisfies};
pub use outbox::{Fields, Outbox, PacketTooLarge};
pub use reassembly::{Incoming, Reassembly};
pub use session::{Session, SessionOptions, interest};
pub use socket::{ConnectError, Socket};
pub use transport::Transport;
pub use verify::Doubt;

/// The examples of the guide's page about programs in Rust, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
mod guide {}
