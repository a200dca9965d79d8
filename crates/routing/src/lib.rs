// Links that lead to source files in README.md lead to documentation on this page.
//! [`router`]: router
//! [`event`]: event
//! [`action`]: action
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod action;
pub mod config;
pub mod event;
pub mod explain;
pub mod note;
pub mod policy;
pub mod router;
pub mod status;

pub use action::Action;
pub use config::{Config, ConfigError};
pub use event::{Command, Event, NeighbourSettings, ValidationId, Validity};
pub use explain::Explanation;
pub use note::Note;
pub use policy::Policy;
pub use router::Router;
pub use status::Status;
