//! One face of the generator: sends and receives bursts of frames over UDP, a Unix stream, Ethernet or shared memory.

use std::io::{self, ErrorKind, IoSliceMut, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_face::frames::ring::PacketSocket;
use byname_face::frames::xdp::XdpSocket;
use byname_wire::tlv::element_len;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_send_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::ethernet::Station;
use super::memif::MemifEnd;

/// Maximum bytes of one send with GSO: the largest payload of a UDP datagram.
const SEGMENTS_BYTES_MAX: usize = 65_507;
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// A face of the generator.
pub enum Endpoint {
    /// UDP.
    Udp(Box<Udp>),
    /// A Unix stream.
    Unix(Box<Unix>),
    /// Ethernet frames by packet sockets.
    PacketMmap(Box<Station<PacketSocket>>),
    /// Ethernet frames by AF_XDP.
    Xdp(Box<Station<XdpSocket>>),
    /// Shared memory, packets or Ethernet frames.
    Memif(Box<MemifEnd>),
}

/// Frames that lie one after the other.
#[derive(Default)]
pub struct Frames {
    /// Bytes of all frames.
    pub bytes: Vec<u8>,
    /// Length of each frame.
    pub lens: Vec<usize>,
}

/// UDP with GSO and GRO.
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    segments_max: usize,
    /// Frames of equal length; the last one may be shorter.
    out: Vec<u8>,
    segment: usize,
    segments: usize,
    buffers: Vec<Vec<u8>>,
}

/// A stream with one write per burst.
pub struct Unix {
    stream: UnixStream,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Endpoint {
    /// Opens a socket on this loopback port, connected to `peer`.
    pub fn udp(port: u16, peer: SocketAddr, plain: bool) -> anyhow::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into())?;
        set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
        set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
        let segments_max = if plain { 1 } else { state.max_gso_segments().max(1) };
        let buffers = vec![vec![0; 65_536]; BATCH_SIZE];
        let out = Vec::with_capacity(SEGMENTS_BYTES_MAX);
        Ok(Endpoint::Udp(Box::new(Udp { socket, state, peer, segments_max, out, segment: 0, segments: 0, buffers })))
    }

    /// Uses a connected stream.
    pub fn unix(stream: UnixStream) -> anyhow::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Endpoint::Unix(Box::new(Unix { stream, out: Vec::new(), input: Vec::new() })))
    }

    /// Queues a frame.
    pub fn push(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        match self {
            Endpoint::Udp(udp) => udp.push(frame)?,
            Endpoint::Unix(unix) => unix.out.extend_from_slice(frame),
            Endpoint::PacketMmap(station) => station.push(frame)?,
            Endpoint::Xdp(station) => station.push(frame)?,
            Endpoint::Memif(end) => end.push(frame)?,
        }
        Ok(())
    }

    /// Sends these frames, after those that are queued.
    pub fn send(&mut self, frames: &Frames) -> anyhow::Result<()> {
        if let Endpoint::Udp(udp) = self {
            udp.flush()?;
            return Ok(udp.send(frames)?);
        }
        let mut rest = &frames.bytes[..];
        for len in &frames.lens {
            let (frame, behind) = rest.split_at(*len);
            self.push(frame)?;
            rest = behind;
        }
        self.flush()
    }

    /// Sends the queued frames.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Endpoint::Udp(udp) => udp.flush()?,
            Endpoint::Unix(unix) => unix.flush()?,
            Endpoint::PacketMmap(station) => station.flush()?,
            Endpoint::Xdp(station) => station.flush()?,
            Endpoint::Memif(end) => end.flush(),
        }
        Ok(())
    }

    /// Calls `each` for every frame that has arrived. Returns the number of frames.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        match self {
            Endpoint::Udp(udp) => Ok(udp.receive(&mut each)?),
            Endpoint::Unix(unix) => unix.receive(&mut each),
            Endpoint::PacketMmap(station) => Ok(station.receive(&mut each)),
            Endpoint::Xdp(station) => Ok(station.receive(&mut each)),
            Endpoint::Memif(end) => end.receive(&mut each),
        }
    }
}

/// Waits until frames have come to one of two endpoints or the time is over, without using the processor. Returns at
/// once if one of them cannot tell, as with Ethernet frames.
pub fn wait([one, other]: [&mut Endpoint; 2], time: Duration) -> anyhow::Result<()> {
    if let (Some(one), Some(other)) = (one.ask_wake_up(), other.ask_wake_up()) {
        let mut ends = [PollFd::from_borrowed_fd(one, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
        match poll(&mut ends, Some(&Timespec::try_from(time)?)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    one.wake_up()?;
    other.wake_up()
}

impl Endpoint {
    /// The descriptor that becomes readable when frames come. `None`: there is none, or frames have come already.
    fn ask_wake_up(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Endpoint::Udp(udp) => Some(udp.socket.as_fd()),
            Endpoint::Unix(unix) => Some(unix.stream.as_fd()),
            Endpoint::PacketMmap(_) | Endpoint::Xdp(_) => None,
            Endpoint::Memif(end) => end.ask_wake_up(),
        }
    }

    /// Ends what [`Endpoint::ask_wake_up`] began.
    fn wake_up(&mut self) -> anyhow::Result<()> {
        if let Endpoint::Memif(end) = self { end.wake_up() } else { Ok(()) }
    }
}

impl Udp {
    fn push(&mut self, frame: &[u8]) -> io::Result<()> {
        let full = self.segments == self.segments_max || self.out.len() + frame.len() > SEGMENTS_BYTES_MAX;
        if self.segments > 0 && (full || frame.len() != self.segment) {
            self.flush()?;
        }
        self.segment = frame.len();
        self.segments += 1;
        self.out.extend_from_slice(frame);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.segments == 0 {
            return Ok(());
        }
        let sent = self.send_run(&self.out, self.segment);
        self.out.clear();
        self.segments = 0;
        sent
    }

    /// Sends frames without copying. Successive frames of equal length are sent as one run.
    fn send(&self, frames: &Frames) -> io::Result<()> {
        let mut rest = &frames.bytes[..];
        for alike in frames.lens.chunk_by(|a, b| a == b) {
            let len = alike[0];
            let (bytes, behind) = rest.split_at(alike.len() * len);
            let run_max = self.segments_max.min(SEGMENTS_BYTES_MAX / len).max(1);
            bytes.chunks(run_max * len).try_for_each(|run| self.send_run(run, len))?;
            rest = behind;
        }
        Ok(())
    }

    fn send_run(&self, contents: &[u8], segment: usize) -> io::Result<()> {
        let segment_size = (contents.len() > segment).then_some(segment);
        let transmit = Transmit { destination: self.peer, ecn: None, contents, segment_size, src_ip: None };
        loop {
            match self.state.try_send((&self.socket).into(), &transmit) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                // A report about an earlier datagram that was sent before anybody listened.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                done => return done,
            }
        }
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> = self.buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let received = match self.state.recv((&self.socket).into(), &mut slices, &mut meta) {
            Ok(received) => received,
            Err(e) if e.kind() == ErrorKind::WouldBlock || e.kind() == ErrorKind::ConnectionRefused => return Ok(0),
            Err(e) => return Err(e),
        };
        let mut frames = 0;
        for (buffer, meta) in slices.iter().zip(&meta[..received]).filter(|(_, m)| m.len > 0) {
            for frame in buffer[..meta.len].chunks(meta.stride) {
                each(frame);
                frames += 1;
            }
        }
        Ok(frames)
    }
}

impl Unix {
    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> anyhow::Result<usize> {
        self.flush()?;
        let start = self.input.len();
        self.input.resize(start + (1 << 18), 0);
        let read = match self.stream.read(&mut self.input[start..]) {
            Ok(0) => anyhow::bail!("the forwarder closed the connection"),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e.into()),
        };
        self.input.truncate(start + read);
        let (mut at, mut frames) = (0, 0);
        while let Ok(Some(len)) = element_len(&self.input[at..], 1 << 16) {
            let Some(frame) = self.input.get(at..at + len) else { break };
            each(frame);
            at += len;
            frames += 1;
        }
        self.input.drain(..at);
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::wire::memif;

    /// Long enough that no slow machine takes it for a wake-up.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_waits_is_woken_by_a_frame_or_by_the_clock() -> anyhow::Result<()> {
        let (one, peer) = UnixStream::pair()?;
        let mut ends = [Endpoint::unix(one)?, Endpoint::unix(peer)?];
        let (near, far) = memif::pair()?;
        let [mut near, mut far] = [near, far].map(|end| Endpoint::Memif(Box::new(end)));
        let [unix, peer] = &mut ends;
        let frame = [5, 1, 7];
        for from in [peer, &mut far] {
            let begun = Instant::now();
            wait([unix, &mut near], Duration::from_millis(30))?;
            assert!(begun.elapsed() >= Duration::from_millis(30), "nothing came");
            // A frame that came before, and one that comes meanwhile.
            from.push(&frame)?;
            from.flush()?;
            wait([unix, &mut near], LONG)?;
            let took = |frames: &mut usize, end: &mut Endpoint| -> anyhow::Result<()> {
                *frames += end.receive(|bytes| assert_eq!(bytes, frame))?;
                Ok(())
            };
            let mut frames = 0;
            took(&mut frames, unix)?;
            took(&mut frames, &mut near)?;
            assert_eq!(frames, 1);
            std::thread::scope(|scope| {
                let sending = scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    from.push(&frame)?;
                    from.flush()
                });
                wait([unix, &mut near], LONG)?;
                took(&mut frames, unix)?;
                took(&mut frames, &mut near)?;
                sending.join().expect("the sender does not panic")
            })?;
            assert_eq!(frames, 2);
            assert!(begun.elapsed() < LONG, "a frame wakes");
        }
        Ok(())
    }
}
