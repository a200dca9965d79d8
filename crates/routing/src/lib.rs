// Links that lead to source files in README.md lead to documentation on this page.
//! [`router`]: router
//! [`event`]: event
//! [`action`]: action
//! [`policy`]: policy
//! [`status`]: status
//! [`trees`]: trees
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod action;
mod clock;
pub mod config;
pub mod event;
pub mod explain;
mod fetcher;
mod ids;
mod link;
mod local;
mod names;
mod neighbours;
pub mod note;
mod objects;
pub mod policy;
mod prefixes;
mod publisher;
mod rib;
pub mod router;
mod routers;
pub mod status;
mod sync;
pub mod tlv;
pub mod trees;
pub mod version;

pub use action::Action;
pub use config::{Config, ConfigError};
pub use event::{Command, Event, NeighbourSettings, ValidationId, Validity};
pub use explain::Explanation;
pub use link::hello::Hello;
pub use note::Note;
pub use policy::Policy;
pub use router::Router;
pub use status::Status;
