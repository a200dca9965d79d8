//! The floor: a process that swaps two UDP ports, one system call a datagram, and parses nothing.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::Context as _;

/// A reflector that runs until the program ends.
pub struct Reflector {
    /// Where to send.
    pub address: SocketAddr,
}

/// Starts a reflector between `port` and the port after it, on core 0.
pub fn start(port: u16) -> anyhow::Result<Reflector> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind the reflector")?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20)?;
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
