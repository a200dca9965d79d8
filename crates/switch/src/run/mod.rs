//! The threads of a switch's agent and of a controller: they connect sessions to sockets.

mod agent;
mod controller;
mod stream;

use byname_face::socket_file::ListenError;
use byname_lookup::BuildError;
use std::io;
use thiserror::Error;

pub use agent::{AgentEvent, AgentState, AgentTask};
pub use controller::{ControllerProcess, Ending};

/// Why a controller cannot start or go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// There is no memory for empty tables.
    #[error("empty tables: {0}")]
    Tables(#[source] BuildError),
    /// The hosts of an earlier run do not fit into the tables.
    #[error("the hosts of hosts_file: {0}")]
    Hosts(#[source] BuildError),
    /// A socket's file cannot be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system refuses something else.
    #[error("{what}: {error}")]
    System {
        /// The failed action.
        what: String,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
}

impl RunError {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
        move |error| RunError::System { what: what.into(), error }
    }
}
