//! Sockets that keep the kernel silent about datagrams that a port takes in frames, and that the kernel hears, too.
//!
//! It would tell their sender that nobody listens, or give them to a UDP port of this router as well. A socket
//! that is connected to the peer has them before any other, and its filter drops them.

use std::io;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::datagram::Path;

/// The sockets of a port.
#[derive(Default)]
pub(super) struct Silence(Vec<(Path, Socket)>);

impl Silence {
    /// Has a socket for each path; whether it has. Where there is no way to a peer yet, the kernel has none for what
    /// it would tell it either.
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

/// A socket for the datagrams of a path, which it drops.
fn drain(path: Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(path.here), Type::DGRAM, Some(Protocol::UDP))?;
    socket.attach_filter(&[SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0)])?;
    // Beside the router's own port, which allows it to whoever runs as the same user.
    socket.set_reuse_port(true)?;
    // The address may come later.
    match path.here {
        std::net::SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        std::net::SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    socket.bind(&path.here.into())?;
    socket.connect(&path.there.into())?;
    Ok(socket)
}
