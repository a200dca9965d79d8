//! The connection of the routing application to its router: one end of a pair of Unix sockets.
//!
//! The other end is a face like that of any application. Both carry whole packets in NDNLPv2 frames. Frames on streams
//! are never fragmented.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_wire::lp::FRAME_BYTES_MAX;
use byname_wire::tlv::element_len;
use byname_wire::{FaceId, LpPacket, NackReason, PitToken};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Most bytes that wait until the router reads them. It always reads, so more is a sign that it stands still; further
/// packets are dropped, as a network may do.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 128 << 10;

/// A packet from the router.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The Interest or Data; with `nack`, the refused Interest.
    pub packet: &'a [u8],
    /// Token to repeat in the answer.
    pub pit_token: PitToken,
    /// Set if the router refuses `packet`.
    pub nack: Option<NackReason>,
    /// The face on which the router received it.
    pub face: Option<u64>,
}

/// Link fields of a packet to send.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields {
    /// Token of the Interest that it answers.
    pub pit_token: PitToken,
    /// The face that it should leave by.
    pub next_hop: Option<u64>,
}

/// The connection.
pub struct Link {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Packets dropped because the router did not read.
    pub dropped: u64,
}

impl Link {
    /// A link on this end of the pair.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Link { stream, input: Vec::new(), output: Vec::new(), dropped: 0 })
    }

    /// Waits until the router sends something, takes waiting output, or `bell` rings, for this time at most.
    pub fn wait(&self, bell: &UnixStream, most: Duration) {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, !self.output.is_empty());
        let mut watched = [PollFd::new(&self.stream, events), PollFd::new(bell, PollFlags::IN)];
        // The conversion fails for times of centuries only. A signal ends the wait early, which is harmless.
        let most = Timespec::try_from(most).ok();
        let _ = poll(&mut watched, most.as_ref());
    }

    /// Hands all packets that have arrived to `handle`. Frames that are no packets are ignored: the router sends none.
    ///
    /// # Errors
    /// The router has closed the connection.
    pub fn receive(&mut self, mut handle: impl FnMut(&mut Self, Received<'_>)) -> io::Result<()> {
        let mut chunk = vec![0; READ_BYTES];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.input.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let input = std::mem::take(&mut self.input);
            let mut rest = &input[..];
            while let Some(len) =
                element_len(rest, FRAME_BYTES_MAX).map_err(|error| io::Error::other(error.to_string()))?
            {
                let (frame, after) = rest.split_at(len);
                rest = after;
                let Ok(LpPacket { fragment: Some(packet), pit_token, nack, incoming_face_id, .. }) =
                    LpPacket::decode(frame)
                else {
                    continue;
                };
                let face = incoming_face_id.map(|face| face.0);
                handle(self, Received { packet, pit_token, nack, face });
            }
            self.input = rest.to_vec();
        }
    }

    /// Queues a packet.
    pub fn send(&mut self, packet: &[u8], fields: Fields) {
        if self.output.len() > OUTPUT_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let frame = LpPacket {
            fragment: Some(packet),
            pit_token: fields.pit_token,
            next_hop_face_id: fields.next_hop.map(FaceId),
            ..LpPacket::default()
        };
        frame.encode(&mut self.output);
    }

    /// Sends what waits, as far as the router takes it.
    ///
    /// # Errors
    /// The router has closed the connection.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.output.len() {
                break Ok(());
            }
            match self.stream.write(&self.output[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.output.drain(..sent);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::interest::InterestBuilder;

    #[test]
    fn packets_cross_with_their_fields_however_they_are_cut() {
        let (near, far) = UnixStream::pair().expect("sockets");
        let (mut near, mut far) = (Link::new(near).expect("a link"), far);
        let interest = InterestBuilder::new("/a".parse().expect("a name"), 1).encode();
        let token = PitToken::new(b"token").expect("short");
        near.send(&interest, Fields { pit_token: token, next_hop: Some(300) });
        near.flush().expect("sent");
        let mut bytes = vec![0; 200];
        let len = far.read(&mut bytes).expect("received");
        let frame = LpPacket::decode(&bytes[..len]).expect("a frame");
        assert_eq!((frame.next_hop_face_id, frame.pit_token), (Some(FaceId(300)), token));

        let mut frame = Vec::new();
        let incoming = LpPacket { fragment: Some(&interest), incoming_face_id: Some(FaceId(7)), ..LpPacket::default() };
        incoming.encode(&mut frame);
        let twice = [frame.clone(), frame].concat();
        let mut faces = Vec::new();
        for piece in twice.chunks(5) {
            far.write_all(piece).expect("sent");
            near.receive(|_, received| faces.push((received.face, received.packet.len()))).expect("open");
        }
        assert_eq!(faces, [(Some(7), interest.len()); 2]);
        drop(far);
        assert!(near.receive(|_, _| ()).is_err(), "its end is told");
    }
}
