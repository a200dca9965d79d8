//! The reference for UDP: a thread that forwards between two UDP ports with one system call per datagram, and parses
//! nothing.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::Context as _;

/// A reflector. It runs until the program ends.
pub struct Reflector {
    /// The address to send to.
    pub address: SocketAddr,
}

/// Starts a reflector between `port` and the next port, on core 0.
pub fn start(port: u16) -> anyhow::Result<Reflector> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind the reflector")?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 8 << 20)?;
    let address = socket.local_addr()?;
    let (consumer, producer) = ((Ipv4Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port + 1).into());
    std::thread::Builder::new().name("reflector".into()).spawn(move || {
        core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
        let mut buffer = [0; 9000];
        loop {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let to: SocketAddr = if from == consumer { producer } else { consumer };
            let _ = socket.send_to(&buffer[..len], to);
        }
    })?;
    Ok(Reflector { address })
}
