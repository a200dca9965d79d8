// Links that lead to source files in README.md lead to documentation on this page.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod apps;
mod forwarder;
mod listener;
mod network;
mod registrations;
mod routes;
mod running;

pub use apps::{App, Consumer, Fetched, Producer, Sent};
pub use byname_forward::face_table::{LinkType, Scope};
pub use byname_forward::worker::{CsPolicy, WorkerConfig};
pub use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received, Ticks};
pub use forwarder::{Builder, Forwarder, PacketError, StartError, frame};
pub use listener::Listener;
pub use network::{AppId, Faults, Network, NodeId, Observer};
pub use routes::RouteError;
pub use running::{Port, Running, SendError, Stopped};
