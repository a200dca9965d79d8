//! Output queue of one connection.
//!
//! The queue consists of pieces, and no frame lies in two of them. So a queue grows without moving its bytes, and its
//! newest frames can be dropped while the oldest frame is written in part. A piece that was written is freed at once. A
//! queue that waits keeps about twice its bytes at most.

use std::collections::VecDeque;
use std::io::{self, Write};

/// Bytes from which a piece is full. A connection whose peer reads has one piece, which is written when it is full.
pub(super) const PIECE_BYTES: usize = 128 << 10;
/// Maximum number of a port's spare buffers, and bytes of each.
const SPARE_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 2 * PIECE_BYTES;
/// A buffer with at most this much unused memory is kept.
const WORTH_MOVING_BYTES: usize = 4 << 10;

/// Unused buffers. An idle connection holds none.
#[derive(Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// Queue of one connection.
#[derive(Default)]
pub(super) struct Output {
    /// Full pieces, oldest first.
    full: VecDeque<Vec<u8>>,
    full_bytes: usize,
    /// The growing piece; the first piece if none is full.
    last: Vec<u8>,
    /// Bytes of the first piece that the system has taken.
    written: usize,
    /// An offset in the first piece at which a frame begins.
    boundary: usize,
}

impl Output {
    /// A queue of these bytes. The first whole frame begins at `boundary`.
    pub(super) fn of(bytes: &[u8], boundary: usize) -> Self {
        Output { last: bytes.to_vec(), boundary: boundary.min(bytes.len()), ..Output::default() }
    }

    /// The bytes that wait, and the offset at which the first whole frame among them begins.
    pub(super) fn left(&self, frame_len: impl Fn(&[u8]) -> usize) -> (Vec<u8>, usize) {
        let first = self.full.front().unwrap_or(&self.last);
        let mut boundary = self.boundary;
        while boundary < self.written {
            boundary += frame_len(&first[boundary..]);
        }
        let mut bytes = Vec::with_capacity(self.len());
        self.full.iter().chain([&self.last]).for_each(|piece| bytes.extend_from_slice(piece));
        bytes.drain(..self.written);
        (bytes, boundary - self.written)
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.full_bytes + self.last.len() - self.written
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the buffer to which whole frames are appended.
    pub(super) fn tail(&mut self, spare: &mut SpareBuffers) -> &mut Vec<u8> {
        if self.last.len() >= PIECE_BYTES {
            self.full_bytes += self.last.len();
            self.full.push_back(std::mem::take(&mut self.last));
        }
        if self.last.capacity() == 0 {
            self.last = spare.take();
        }
        &mut self.last
    }

    /// Keeps [`Output::shed`] from cutting the bytes queued so far. They are a handshake, which has no frames.
    pub(super) fn protect(&mut self) {
        self.boundary = self.full.front().unwrap_or(&self.last).len();
    }

    /// Writes until the queue is empty or the system takes no more. Returns whether the queue is empty.
    pub(super) fn write_to(&mut self, socket: &mut impl Write, spare: &mut SpareBuffers) -> io::Result<bool> {
        while !self.is_empty() {
            let first = self.full.front().unwrap_or(&self.last);
            match socket.write(&first[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.written == self.full.front().unwrap_or(&self.last).len() {
                self.remove_first(spare);
            }
        }
        Ok(true)
    }

    /// Gives back unused memory; for a queue that begins to wait. `frame_len` returns the length of the frame at the
    /// start of some bytes.
    pub(super) fn settle(&mut self, frame_len: impl Fn(&[u8]) -> usize, spare: &mut SpareBuffers) {
        self.advance_boundary(&frame_len);
        let first = self.full.front_mut().unwrap_or(&mut self.last);
        let rest = first.len() - self.written;
        if first.capacity() <= 2 * rest + WORTH_MOVING_BYTES {
            return;
        }
        let moved = first[self.written..].to_vec();
        spare.give(std::mem::replace(first, moved));
        if !self.full.is_empty() {
            self.full_bytes -= self.written;
        }
        self.boundary -= self.written;
        self.written = 0;
    }

    /// Drops the newest frames until about `keep` bytes are left. Returns the number of dropped frames. A frame that is
    /// written in part stays.
    pub(super) fn shed(&mut self, keep: usize, frame_len: impl Fn(&[u8]) -> usize) -> u64 {
        self.advance_boundary(&frame_len);
        self.full.push_back(std::mem::take(&mut self.last));
        let (mut kept, mut frames) = (0, 0);
        for (index, piece) in self.full.iter_mut().enumerate() {
            let (sent, mut end) = if index == 0 { (self.written, self.boundary) } else { (0, 0) };
            while end < piece.len() && kept + (end - sent) < keep {
                end += frame_len(&piece[end..]);
            }
            frames += count(&piece[end..], &frame_len);
            piece.truncate(end);
            piece.shrink_to(2 * end);
            kept += end - sent;
        }
        while self.full.len() > 1 && self.full.back().is_some_and(Vec::is_empty) {
            self.full.pop_back();
        }
        self.last = self.full.pop_back().unwrap_or_default();
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        if self.is_empty() {
            *self = Output::default();
        }
        frames
    }

    /// Number of waiting frames, including one that is written in part.
    pub(super) fn frames(&mut self, frame_len: impl Fn(&[u8]) -> usize) -> u64 {
        self.advance_boundary(&frame_len);
        let first = self.full.front().unwrap_or(&self.last);
        let others = self.full.iter().skip(1).chain((!self.full.is_empty()).then_some(&self.last));
        u64::from(self.boundary > self.written)
            + count(&first[self.boundary..], &frame_len)
            + others.map(|piece| count(piece, &frame_len)).sum::<u64>()
    }

    /// Drops all output.
    pub(super) fn clear(&mut self, spare: &mut SpareBuffers) {
        spare.give(std::mem::take(&mut self.last));
        *self = Output::default();
    }

    fn advance_boundary(&mut self, frame_len: &impl Fn(&[u8]) -> usize) {
        let first = self.full.front().unwrap_or(&self.last);
        while self.boundary < self.written {
            self.boundary += frame_len(&first[self.boundary..]);
        }
    }

    fn remove_first(&mut self, spare: &mut SpareBuffers) {
        let piece = self.full.pop_front();
        self.full_bytes -= piece.as_ref().map_or(0, Vec::len);
        spare.give(piece.unwrap_or_else(|| std::mem::take(&mut self.last)));
        (self.written, self.boundary) = (0, 0);
    }
}

/// Number of frames in a sequence of frames.
fn count(mut frames: &[u8], frame_len: &impl Fn(&[u8]) -> usize) -> u64 {
    let mut count = 0;
    while !frames.is_empty() {
        frames = &frames[frame_len(frames)..];
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A test frame: its length in two bytes, then its number repeated.
    fn frame(number: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![number; len];
        frame[..2].copy_from_slice(&(len as u16).to_be_bytes());
        frame
    }

    fn frame_len(bytes: &[u8]) -> usize {
        usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Takes `room` bytes, then no more.
    struct Sink {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room);
            if len == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room -= len;
            self.taken.extend_from_slice(&bytes[..len]);
            Ok(len)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug, Clone)]
    enum Action {
        Send(usize),
        Write(usize),
        Shed(usize),
        /// To another process.
        Pass,
    }

    fn actions() -> impl Strategy<Value = Vec<Action>> {
        let action = prop_oneof![
            (2..9_000usize).prop_map(Action::Send),
            (2..9_000usize).prop_map(Action::Send),
            (0..60_000usize).prop_map(Action::Write),
            (0..300_000usize).prop_map(Action::Shed),
            Just(Action::Pass),
        ];
        prop::collection::vec(action, 0..150)
    }

    proptest! {
        #[test]
        fn frames_leave_whole_and_in_order_whatever_is_shed(actions in actions()) {
            let (mut output, mut spare) = (Output::default(), SpareBuffers::default());
            let mut sink = Sink { taken: Vec::new(), room: 0 };
            let (mut sent, mut shed) = (0, 0);
            for action in actions {
                match action {
                    Action::Send(len) => {
                        output.tail(&mut spare).extend_from_slice(&frame(sent as u8, len));
                        sent += 1;
                    }
                    Action::Write(room) => {
                        sink.room = room;
                        if !output.write_to(&mut sink, &mut spare).unwrap() {
                            output.settle(frame_len, &mut spare);
                            let memory: usize = output.full.iter().chain([&output.last]).map(Vec::capacity).sum();
                            let growing = if output.full.is_empty() { 0 } else { SPARE_BYTES_MAX };
                            prop_assert!(memory <= 2 * output.len() + WORTH_MOVING_BYTES + growing, "{memory}");
                        }
                    }
                    Action::Pass => {
                        let (bytes, boundary) = output.left(frame_len);
                        prop_assert_eq!(bytes.len(), output.len());
                        output = Output::of(&bytes, boundary);
                    }
                    Action::Shed(keep) => {
                        let before = output.len();
                        let gone = output.shed(keep, frame_len);
                        shed += gone;
                        prop_assert!(output.len() <= keep + 9_000 && (gone > 0) == (output.len() < before));
                    }
                }
            }
            let waiting = output.frames(frame_len);
            sink.room = usize::MAX;
            prop_assert!(output.write_to(&mut sink, &mut spare).unwrap() && output.is_empty());
            let (mut rest, mut frames, mut last) = (&sink.taken[..], 0u64, None);
            while !rest.is_empty() {
                let len = frame_len(rest);
                let number = if len > 2 { rest[2] } else { 0 };
                prop_assert!(rest[..len] == frame(number, len)[..]);
                if len > 2 && sent < 250 {
                    prop_assert!(last.is_none_or(|last| last < number));
                    last = Some(number);
                }
                rest = &rest[len..];
                frames += 1;
            }
            prop_assert_eq!(frames, sent - shed);
            prop_assert!(waiting <= frames);
            prop_assert!(spare.0.len() <= SPARE_MAX);
        }
    }

    #[test]
    fn a_queue_that_waits_keeps_little_more_than_its_bytes() {
        let (mut output, mut spare) = (Output::default(), SpareBuffers::default());
        output.tail(&mut spare).reserve(SPARE_BYTES_MAX);
        for number in 0..16 {
            output.tail(&mut spare).extend_from_slice(&frame(number, 8_000));
        }
        let mut sink = Sink { taken: Vec::new(), room: 100_000 };
        assert!(!output.write_to(&mut sink, &mut spare).unwrap());
        output.settle(frame_len, &mut spare);
        assert_eq!((output.len(), output.last.capacity(), spare.0.len()), (28_000, 28_000, 1));
        assert_eq!(output.frames(frame_len), 4);
        assert_eq!(output.shed(0, frame_len), 3, "the frame that is written in part stays");
        assert_eq!(output.len(), 4_000);
        sink.room = 4_000;
        assert!(output.write_to(&mut sink, &mut spare).unwrap());
        assert_eq!(sink.taken.len(), 13 * 8_000);
    }
}
