//! Face URIs in their canonical form, which routing daemons compare as strings.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// One end of a face.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// `internal://`
    Internal,
    /// `contentstore://`
    ContentStore,
    /// `null://`
    Null,
    /// `udp4://192.0.2.1:6363`, `udp6://[2001:db8::1]:6363`; multicast groups too.
    Udp(SocketAddr),
    /// `tcp4://...`, `tcp6://...`
    Tcp(SocketAddr),
    /// `ws://192.0.2.1:9696`
    WebSocket(SocketAddr),
    /// `wsclient://192.0.2.1:55555`, the remote end of an accepted WebSocket.
    WebSocketClient(SocketAddr),
    /// `unix:///run/nfd/nfd.sock`
    Unix(PathBuf),
    /// `fd://7`, the remote end of an accepted Unix connection.
    Fd(u64),
    /// `dev://eth0`, the local end of a multicast face.
    Dev(String),
}

/// Why a string is not a canonical face URI.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{uri}' is not a face URI in canonical form: {reason}")]
pub struct FaceUriError {
    /// The string.
    pub uri: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl std::str::FromStr for FaceUri {
    type Err = FaceUriError;
    /// Reads the canonical form only: numeric addresses and ports, `udp4`/`udp6`/`tcp4`/`tcp6`.
    fn from_str(_uri: &str) -> Result<Self, FaceUriError> {
        todo!()
    }
}

impl std::fmt::Display for FaceUri {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
