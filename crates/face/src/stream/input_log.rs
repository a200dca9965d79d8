//! The raw input of a WebSocket that has not led to a message yet.
//!
//! The library keeps such bytes to itself. A process that takes the connection over reads them again from here.

use super::codec::websocket_frame_len;

/// An empty log with more capacity gives its memory back.
const KEPT_BYTES: usize = 4 << 10;
/// Opcodes from this one on are those of control frames [RFC 6455, section 5.2].
const CONTROL: u8 = 8;

/// The bytes after the last message.
#[derive(Default)]
pub(super) struct InputLog {
    bytes: Vec<u8>,
    start: usize,
}

impl InputLog {
    /// A log with these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        InputLog { bytes: bytes.to_vec(), start: 0 }
    }

    /// The bytes that have not led to a message.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Appends input.
    pub(super) fn push(&mut self, input: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(input);
    }

    /// Forgets the request or the response that opened the WebSocket.
    pub(super) fn end_handshake(&mut self) {
        const END: &[u8] = b"\r\n\r\n";
        let end = self.bytes().windows(END.len()).position(|bytes| bytes == END);
        self.skip(end.map_or(self.bytes().len(), |at| at + END.len()));
    }

    /// Forgets the frames of a message of data, and control frames between them.
    pub(super) fn end_message(&mut self) {
        while let Some((first, len)) = self.first_frame() {
            self.skip(len);
            let is_last = first & 0x80 != 0 && first & 0x0f < CONTROL;
            if is_last {
                return;
            }
        }
    }

    /// Forgets a control frame. Between the frames of a message it stays: it does no harm to read it twice.
    pub(super) fn end_control(&mut self) {
        if let Some((first, len)) = self.first_frame()
            && first & 0x0f >= CONTROL
        {
            self.skip(len);
        }
    }

    /// First byte and length of the first frame.
    fn first_frame(&self) -> Option<(u8, usize)> {
        let bytes = self.bytes();
        let len = websocket_frame_len(bytes).filter(|len| *len <= bytes.len())?;
        Some((bytes[0], len))
    }

    fn skip(&mut self, len: usize) {
        self.start += len;
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_led_to_a_message_is_forgotten_and_the_rest_stays() {
        let mut log = InputLog::default();
        log.push(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        log.push(&[0x82, 1, 7]);
        log.end_handshake();
        assert_eq!(log.bytes(), [0x82, 1, 7]);
        log.end_message();
        assert_eq!(log.bytes(), []);
        // A ping, then a message in two frames with another ping between them, then the start of the next message.
        log.push(&[0x89, 0, 0x02, 1, 5, 0x89, 0]);
        log.end_control();
        assert_eq!(log.bytes(), [0x02, 1, 5, 0x89, 0]);
        log.end_control();
        log.push(&[0x80, 1, 6, 0x82, 2, 9]);
        assert_eq!(log.bytes(), [0x02, 1, 5, 0x89, 0, 0x80, 1, 6, 0x82, 2, 9]);
        log.end_message();
        assert_eq!(log.bytes(), [0x82, 2, 9]);
        log.end_message();
        assert_eq!(log.bytes(), [0x82, 2, 9], "its end has not come");
        log.push(&[9]);
        log.end_message();
        assert!(log.bytes().is_empty());
    }
}
