//! Messages with descriptors between two processes, over a pair of Unix sockets.
//!
//! A message is a header, which carries the descriptors, and a body in MessagePack. Fields have names there. So a newer
//! process may add fields: the other one skips those that it does not know, and takes defaults for those that are
//! missing.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Most descriptors of one message. The system takes 253.
pub const DESCRIPTORS_MAX: usize = 64;
/// Longest body of a message, in bytes. The output that waits for one face may take most of it.
const BODY_BYTES_MAX: usize = 128 << 20;
/// Bytes of a body that are read at once, so that a header alone reserves no memory.
const READ_BYTES: usize = 1 << 20;
/// Length of the header: the length of the body, and the number of descriptors.
const HEADER_BYTES: usize = 8;

/// Why a message is not sent or received.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The other process has closed its end, or has ended.
    #[error("the other process has ended")]
    Closed,
    /// The other process did not read or write in time.
    #[error("the other process did not answer in time")]
    TimedOut,
    /// The message is too long, or has too many descriptors.
    #[error("a message of {bytes} bytes with {descriptors} descriptors is too long")]
    TooLong {
        /// Bytes of its body.
        bytes: usize,
        /// Its descriptors.
        descriptors: usize,
    },
    /// The message is not what was expected.
    #[error("the other process speaks another protocol: {0}")]
    Malformed(String),
    /// The system refuses.
    #[error(transparent)]
    System(io::Error),
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => ChannelError::Closed,
            Errno::AGAIN | Errno::TIMEDOUT => ChannelError::TimedOut,
            errno => ChannelError::System(errno.into()),
        }
    }
}

/// One end of the pair.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// A channel, and the descriptor of its other end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok((Channel { socket }, other))
    }

    /// The channel on a descriptor that another process got from [`Channel::pair`].
    pub fn on(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// Sends a message with at most [`DESCRIPTORS_MAX`] descriptors.
    ///
    /// # Errors
    /// If the other process does not take it until `until`, or is gone.
    pub fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
        until: Instant,
    ) -> Result<(), ChannelError> {
        let body = rmp_serde::to_vec_named(message).map_err(|error| ChannelError::Malformed(error.to_string()))?;
        let (bytes, count) = (body.len(), descriptors.len());
        if bytes > BODY_BYTES_MAX || count > DESCRIPTORS_MAX {
            return Err(ChannelError::TooLong { bytes, descriptors: count });
        }
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(bytes as u32).to_be_bytes());
        header[4..].copy_from_slice(&(count as u32).to_be_bytes());
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if count > 0 && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(ChannelError::TooLong { bytes, descriptors: count });
        }
        self.limit(Timeout::Send, until)?;
        // Fewer bytes than a header always fit, or none.
        let sent = sendmsg(&self.socket, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL)?;
        if sent != HEADER_BYTES {
            return Err(ChannelError::TimedOut);
        }
        let mut rest = &body[..];
        while !rest.is_empty() {
            self.limit(Timeout::Send, until)?;
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Receives a message and its descriptors.
    ///
    /// # Errors
    /// If none comes until `until`, if the other process is gone, or if the message is of another kind.
    pub fn receive<T: DeserializeOwned>(&self, until: Instant) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let mut descriptors = Vec::new();
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            self.limit(Timeout::Recv, until)?;
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let into = &mut [IoSliceMut::new(&mut header[filled..])];
            match recvmsg(&self.socket, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) if received.bytes == 0 => return Err(ChannelError::Closed),
                Ok(received) => filled += received.bytes,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
        }
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        let (bytes, count) = (word(0), word(4));
        if bytes > BODY_BYTES_MAX {
            return Err(ChannelError::TooLong { bytes, descriptors: count });
        }
        if descriptors.len() != count {
            let text = format!("{} of {count} descriptors came; see `ulimit -n`", descriptors.len());
            return Err(ChannelError::Malformed(text));
        }
        let body = self.read(bytes, until)?;
        let message = rmp_serde::from_slice(&body).map_err(|error| ChannelError::Malformed(error.to_string()))?;
        Ok((message, descriptors))
    }

    fn read(&self, bytes: usize, until: Instant) -> Result<Vec<u8>, ChannelError> {
        let mut body = Vec::new();
        while body.len() < bytes {
            let from = body.len();
            body.resize(bytes.min(from + READ_BYTES), 0);
            self.limit(Timeout::Recv, until)?;
            let read = match recv(&self.socket, &mut body[from..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(ChannelError::Closed),
                Ok((read, _)) => read,
                Err(Errno::INTR) => 0,
                Err(errno) => return Err(errno.into()),
            };
            body.truncate(from + read);
        }
        Ok(body)
    }

    /// Limits the next call of the system.
    fn limit(&self, which: Timeout, until: Instant) -> Result<(), ChannelError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ChannelError::TimedOut);
        }
        // The system rounds down, and takes 0 for no limit.
        Ok(set_socket_timeout(self.socket.as_fd(), which, Some(left.max(Duration::from_millis(1))))?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::thread;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    struct Old {
        number: u64,
        gone: String,
    }

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    struct New {
        number: u64,
        #[serde(default)]
        more: Vec<u64>,
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn pair() -> (Channel, Channel) {
        let (one, other) = Channel::pair().expect("sockets");
        (one, Channel::on(other))
    }

    #[test]
    fn messages_bring_their_descriptors_and_other_versions_understand_them() {
        let (one, other) = pair();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"shared").expect("written");
        one.send(&Old { number: 7, gone: "x".into() }, &[file.as_fd(), file.as_fd()], soon()).expect("sent");
        one.send(&Old { number: 8, gone: String::new() }, &[], soon()).expect("sent");
        let (first, mut descriptors) = other.receive::<New>(soon()).expect("a message");
        assert_eq!((first, descriptors.len()), (New { number: 7, more: Vec::new() }, 2));
        let mut same = File::from(descriptors.remove(0));
        let mut text = String::new();
        same.rewind().expect("a file");
        same.read_to_string(&mut text).expect("read");
        assert_eq!(text, "shared");
        let (second, descriptors) = other.receive::<Old>(soon()).expect("a message");
        assert_eq!((second.number, descriptors.len()), (8, 0));
    }

    #[test]
    fn long_messages_pass_and_too_long_ones_do_not() {
        let (one, other) = pair();
        let long = New { number: 1, more: (0..400_000).collect() };
        let text = New { number: 1, more: (0..400_000).collect() };
        let sending = thread::spawn(move || one.send(&long, &[], soon()).map(|()| one));
        assert_eq!(other.receive::<New>(soon()).expect("a message").0, text);
        let one = sending.join().expect("no panic").expect("sent");
        let file = tempfile::tempfile().expect("a file");
        let many = vec![file.as_fd(); DESCRIPTORS_MAX + 1];
        assert!(matches!(one.send(&text, &many, soon()), Err(ChannelError::TooLong { .. })));
        one.send(&text.number, &many[1..], soon()).expect("sent");
        assert_eq!(other.receive::<u64>(soon()).expect("a message").1.len(), DESCRIPTORS_MAX);
    }

    #[test]
    fn silence_the_end_and_garbage_are_errors() {
        let (one, other) = pair();
        let shortly = || Instant::now() + Duration::from_millis(20);
        assert!(matches!(one.receive::<u64>(shortly()), Err(ChannelError::TimedOut)));
        // Nobody reads: the buffers fill.
        let filled = (0..1000).find_map(|_| one.send(&vec![0u64; 10_000], &[], shortly()).err());
        assert!(matches!(filled, Some(ChannelError::TimedOut)), "{filled:?}");
        let (one, raw) = Channel::pair().expect("sockets");
        send(&raw, &[0xff; HEADER_BYTES], SendFlags::empty()).expect("sent");
        assert!(matches!(one.receive::<u64>(soon()), Err(ChannelError::TooLong { .. })));
        send(&raw, &[0, 0, 0, 1, 0, 0, 0, 0, 0xc1], SendFlags::empty()).expect("sent");
        assert!(matches!(one.receive::<u64>(soon()), Err(ChannelError::Malformed(_))));
        send(&raw, &[0, 0, 0, 1, 0, 0, 0, 1, 7], SendFlags::empty()).expect("sent");
        assert!(matches!(one.receive::<u64>(soon()), Err(ChannelError::Malformed(_))));
        drop((raw, other));
        assert!(matches!(one.receive::<u64>(soon()), Err(ChannelError::Closed)));
        assert!(matches!(one.send(&7, &[], soon()), Err(ChannelError::Closed)));
    }
}
