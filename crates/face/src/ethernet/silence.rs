//! Sockets that keep the kernel silent about datagrams that a port takes as frames but the kernel hears too.
//!
//! Without them the kernel would tell the sender that nobody listens, or deliver the datagrams also to a UDP port of
//! this router. A socket connected to the peer gets the datagrams before any other, and its filter drops them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_ip_freebind, set_ipv6_freebind, set_socket_reuseport};
use rustix::net::{SocketFlags, SocketType, bind, connect};

use crate::frames::datagram::Path;
use crate::frames::filter;
use crate::system::{attach_filter, ip_socket};

/// The sockets of one port.
#[derive(Default)]
pub(super) struct Silence(Vec<(Path, OwnedFd)>);

impl Silence {
    /// Opens a socket for each path that has none. Returns whether all paths have one. While there is no route to a
    /// peer, this fails, and the kernel could not answer the peer either.
    pub(super) fn keep(&mut self, paths: impl Iterator<Item = Path>) -> bool {
        let mut all = true;
        for path in paths {
            if self.0.iter().any(|(kept, _)| *kept == path) {
                continue;
            }
            match drain(path) {
                Ok(socket) => self.0.push((path, socket)),
                Err(error) => {
                    let (here, there) = (path.here, path.there);
                    tracing::debug!(%error, %here, %there, "the system would answer datagrams, once it could");
                    all = false;
                }
            }
        }
        all
    }
}

/// Opens a socket that drops the datagrams of a path.
fn drain(path: Path) -> io::Result<OwnedFd> {
    let socket = ip_socket(&path.here, SocketType::DGRAM, SocketFlags::empty())?;
    attach_filter(&socket, &filter::NOTHING)?;
    // Allows binding beside the router's own port, which permits it to processes of the same user.
    set_socket_reuseport(&socket, true)?;
    // The address may be configured later.
    match path.here {
        SocketAddr::V4(_) => set_ip_freebind(&socket, true)?,
        SocketAddr::V6(_) => set_ipv6_freebind(&socket, true)?,
    }
    bind(&socket, &path.here)?;
    connect(&socket, &path.there)?;
    Ok(socket)
}
