//! Measures how much output the system holds that its peer has not read.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` of linux/sockios.h.
const OUTPUT_QUEUE: Opcode = 0x5411;
/// `SIOCOUTQNSD` of linux/sockios.h.
const OUTPUT_QUEUE_NOT_SENT: Opcode = 0x894b;

/// Memory of the bytes that were written to a Unix socket and not read at its other end.
pub(super) fn of_unix(socket: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: unix(7) and tcp(7) say that this operation writes an `int` to its argument.
    let getter = unsafe { Getter::<OUTPUT_QUEUE, c_int>::new() };
    // SAFETY: as above; it changes nothing else.
    let bytes = unsafe { ioctl(socket, getter) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Bytes that were written to a TCP socket and never sent. Bytes in flight are not in a queue of this host.
pub(super) fn of_tcp(socket: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: tcp(7) says of SIOCOUTQ that it writes an `int` to its argument; the kernel's tcp_ioctl() does the same here.
    let getter = unsafe { Getter::<OUTPUT_QUEUE_NOT_SENT, c_int>::new() };
    // SAFETY: as above; it changes nothing else.
    let bytes = unsafe { ioctl(socket, getter) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_tells_what_its_peer_has_not_read() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(of_unix(near.as_fd()).unwrap(), 0);
        near.write_all(&[1; 50_000]).unwrap();
        assert!(of_unix(near.as_fd()).unwrap() >= 50_000);
        far.read_exact(&mut [0; 50_000]).unwrap();
        assert_eq!(of_unix(near.as_fd()).unwrap(), 0);
    }

    #[test]
    fn a_tcp_socket_tells_what_it_has_not_sent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        assert_eq!(of_tcp(near.as_fd()).unwrap(), 0);
        // Write until the peer's window is closed and this end's memory is full.
        while near.write(&[1; 100_000]).is_ok() {}
        assert!(of_tcp(near.as_fd()).unwrap() > 0);
    }
}
