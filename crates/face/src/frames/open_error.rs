//! Errors of opening an interface for single frames.

use std::io::{self, ErrorKind};

use thiserror::Error;

use super::xdp;

/// Reason why an interface cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is no interface of that name.
    #[error("there is no network interface {0}; `ip link` lists them")]
    NoInterface(String),
    /// The interface has no MAC addresses.
    #[error("{0} is no Ethernet interface; `ip link` shows which are (link/ether)")]
    NotEthernet(String),
    /// The process lacks the capability.
    #[error(
        "frames on {0} need the capability CAP_NET_RAW: run as root, or once, as root, \
         `setcap cap_net_raw+ep` on the program, or AmbientCapabilities=CAP_NET_RAW in the systemd unit"
    )]
    NotPermitted(String),
    /// The system refuses for another reason.
    #[error("cannot use {interface} frame by frame: {error}")]
    System {
        /// Name of the interface.
        interface: String,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// There is no AF_XDP socket.
    #[error("cannot use XDP on {interface}: {reason}")]
    Xdp {
        /// Name of the interface.
        interface: String,
        /// The reason.
        #[source]
        reason: xdp::XdpError,
    },
}

impl OpenError {
    /// Whether another user holds the interface and may release it.
    pub fn is_taken(&self) -> bool {
        matches!(self, OpenError::Xdp { reason: xdp::XdpError::Taken, .. })
    }

    /// Converts an error of the system.
    pub fn of_system(interface: &str, error: io::Error) -> Self {
        let interface = interface.to_owned();
        match error.kind() {
            ErrorKind::PermissionDenied => OpenError::NotPermitted(interface),
            _ => OpenError::System { interface, error },
        }
    }
}
