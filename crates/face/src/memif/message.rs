//! Control messages of memif 2.0, by which two ends agree on memory and rings.
//!
//! Each message is a packet of [`MESSAGE_BYTES`] bytes on a Unix socket of kind SOCK_SEQPACKET: a type in two bytes,
//! then the fields of that type without gaps. Both ends are on one machine, and use its byte order. A text that is
//! shorter than its field ends with a zero. The layout is that of `memif.h` in libmemif and in DPDK's `net_memif`.

use thiserror::Error;

/// The only supported version: 2.0.
pub const VERSION: u16 = 0x0200;
/// Bytes of each message.
pub const MESSAGE_BYTES: usize = 128;
/// Bytes of the secret.
pub const SECRET_BYTES: usize = 24;
const NAME_BYTES: usize = 32;
const REASON_BYTES: usize = 96;
/// The only supported mode: buffers hold frames.
const MODE_ETHERNET: u8 = 0;
/// Flag of a ring from the client to the server.
const FROM_CLIENT: u16 = 1;

/// The server's first message, which tells its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Name of the program.
    pub name: String,
    /// Lowest supported version.
    pub version_min: u16,
    /// Highest supported version.
    pub version_max: u16,
    /// Highest index of a region.
    pub region_max: u16,
    /// Highest index of a ring to the client.
    pub to_client_ring_max: u16,
    /// Highest index of a ring to the server.
    pub to_server_ring_max: u16,
    /// Binary logarithm of the maximum number of slots in a ring.
    pub slots_log2_max: u8,
}

/// The client's first message, which asks for an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// Version that the client speaks.
    pub version: u16,
    /// Number of the interface.
    pub id: u32,
    /// Whether the mode is Ethernet, not IP.
    pub ethernet: bool,
    /// The secret. Zeros mean none.
    pub secret: [u8; SECRET_BYTES],
    /// Name of the program.
    pub name: String,
}

/// Position of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// Whether packets go from the client to the server.
    pub from_client: bool,
    /// Number of the ring in its direction.
    pub index: u16,
    /// Region that contains it.
    pub region: u16,
    /// Offset in the region, in bytes.
    pub offset: u32,
    /// Binary logarithm of the number of its slots.
    pub slots_log2: u8,
    /// Bytes before each packet that are private to the ends.
    pub private_header_bytes: u16,
}

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// To the client: acknowledges its last message.
    Ack,
    /// To the client.
    Hello(Hello),
    /// To the server.
    Init(Init),
    /// To the server, with the descriptor of the memory.
    AddRegion {
        /// Number of the region: one more than the last.
        index: u16,
        /// Length in bytes.
        bytes: u64,
    },
    /// To the server, with the descriptor that wakes the ring's receiver.
    AddRing(AddRing),
    /// To the server: all memory and rings are described. The text is the client's name of the interface.
    Connect(String),
    /// To the client: packets may flow. The text is the server's name of the interface.
    Connected(String),
    /// To either end: the connection ends.
    Disconnect {
        /// Code without a fixed meaning.
        code: u32,
        /// Reason of the end.
        reason: String,
    },
}

/// Reason why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MessageError {
    /// All messages have the same length.
    #[error("a control message of {0} bytes instead of {MESSAGE_BYTES}")]
    Length(usize),
    /// There is no such type.
    #[error("a control message of the unknown type {0}")]
    Type(u16),
}

impl Message {
    /// Decodes a message. Bytes after its last field may have any value.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        if bytes.len() != MESSAGE_BYTES {
            return Err(MessageError::Length(bytes.len()));
        }
        let mut fields = Fields(bytes);
        Ok(match fields.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: fields.text(NAME_BYTES),
                version_min: fields.u16(),
                version_max: fields.u16(),
                region_max: fields.u16(),
                to_client_ring_max: fields.u16(),
                to_server_ring_max: fields.u16(),
                slots_log2_max: fields.u8(),
            }),
            3 => Message::Init(Init {
                version: fields.u16(),
                id: fields.u32(),
                ethernet: fields.u8() == MODE_ETHERNET,
                secret: fields.take(),
                name: fields.text(NAME_BYTES),
            }),
            4 => Message::AddRegion { index: fields.u16(), bytes: fields.u64() },
            5 => Message::AddRing(AddRing {
                from_client: fields.u16() & FROM_CLIENT != 0,
                index: fields.u16(),
                region: fields.u16(),
                offset: fields.u32(),
                slots_log2: fields.u8(),
                private_header_bytes: fields.u16(),
            }),
            6 => Message::Connect(fields.text(NAME_BYTES)),
            7 => Message::Connected(fields.text(NAME_BYTES)),
            8 => Message::Disconnect { code: fields.u32(), reason: fields.text(REASON_BYTES) },
            unknown => return Err(MessageError::Type(unknown)),
        })
    }

    /// Encodes the message. Texts that are too long are cut.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut writer = Writer { bytes: [0; MESSAGE_BYTES], at: 0 };
        match self {
            Message::Ack => writer.put(&1u16.to_ne_bytes()),
            Message::Hello(hello) => {
                writer.put(&2u16.to_ne_bytes());
                writer.text(&hello.name, NAME_BYTES);
                let Hello { version_min, version_max, region_max, to_client_ring_max, to_server_ring_max, .. } = *hello;
                for number in [version_min, version_max, region_max, to_client_ring_max, to_server_ring_max] {
                    writer.put(&number.to_ne_bytes());
                }
                writer.put(&[hello.slots_log2_max]);
            }
            Message::Init(init) => {
                writer.put(&3u16.to_ne_bytes());
                writer.put(&init.version.to_ne_bytes());
                writer.put(&init.id.to_ne_bytes());
                writer.put(&[if init.ethernet { MODE_ETHERNET } else { MODE_ETHERNET + 1 }]);
                writer.put(&init.secret);
                writer.text(&init.name, NAME_BYTES);
            }
            Message::AddRegion { index, bytes } => {
                writer.put(&4u16.to_ne_bytes());
                writer.put(&index.to_ne_bytes());
                writer.put(&bytes.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                writer.put(&5u16.to_ne_bytes());
                writer.put(&(if ring.from_client { FROM_CLIENT } else { 0 }).to_ne_bytes());
                writer.put(&ring.index.to_ne_bytes());
                writer.put(&ring.region.to_ne_bytes());
                writer.put(&ring.offset.to_ne_bytes());
                writer.put(&[ring.slots_log2]);
                writer.put(&ring.private_header_bytes.to_ne_bytes());
            }
            Message::Connect(name) => {
                writer.put(&6u16.to_ne_bytes());
                writer.text(name, NAME_BYTES);
            }
            Message::Connected(name) => {
                writer.put(&7u16.to_ne_bytes());
                writer.text(name, NAME_BYTES);
            }
            Message::Disconnect { code, reason } => {
                writer.put(&8u16.to_ne_bytes());
                writer.put(&code.to_ne_bytes());
                writer.text(reason, REASON_BYTES);
            }
        }
        writer.bytes
    }

    /// Name of the message's type.
    pub fn kind(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion { .. } => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect(_) => "CONNECT",
            Message::Connected(_) => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }
}

/// Unread rest of a message. The fields of every type end within [`MESSAGE_BYTES`].
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("fields end before the message does");
        self.0 = rest;
        *field
    }
    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }
    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }
    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// Reads a text, up to its first zero. It is for people, so control characters and malformed UTF-8 are replaced.
    fn text(&mut self, bytes: usize) -> String {
        let (field, rest) = self.0.split_at(bytes);
        self.0 = rest;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(bytes);
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        String::from_utf8_lossy(&field[..end]).chars().map(shown).collect()
    }
}

struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Writes a text into a field of `bytes` bytes, the last of which is zero.
    fn text(&mut self, text: &str, bytes: usize) {
        let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
        let len = ends.take_while(|end| *end < bytes).last().unwrap_or(0);
        self.bytes[self.at..self.at + len].copy_from_slice(&text.as_bytes()[..len]);
        self.at += bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: usize) -> impl Strategy<Value = String> {
        vec(proptest::char::range('!', '~'), 0..bytes).prop_map(String::from_iter)
    }

    fn message() -> impl Strategy<Value = Message> {
        let hello = (text(NAME_BYTES), any::<[u16; 5]>(), any::<u8>()).prop_map(|(name, n, slots_log2_max)| Hello {
            name,
            version_min: n[0],
            version_max: n[1],
            region_max: n[2],
            to_client_ring_max: n[3],
            to_server_ring_max: n[4],
            slots_log2_max,
        });
        let init = (any::<u16>(), any::<u32>(), any::<bool>(), any::<[u8; SECRET_BYTES]>(), text(NAME_BYTES))
            .prop_map(|(version, id, ethernet, secret, name)| Init { version, id, ethernet, secret, name });
        let ring = (any::<bool>(), any::<[u16; 3]>(), any::<u32>(), any::<u8>()).prop_map(
            |(from_client, [index, region, private_header_bytes], offset, slots_log2)| AddRing {
                from_client,
                index,
                region,
                offset,
                slots_log2,
                private_header_bytes,
            },
        );
        prop_oneof![
            Just(Message::Ack),
            hello.prop_map(Message::Hello),
            init.prop_map(Message::Init),
            any::<(u16, u64)>().prop_map(|(index, bytes)| Message::AddRegion { index, bytes }),
            ring.prop_map(Message::AddRing),
            text(NAME_BYTES).prop_map(Message::Connect),
            text(NAME_BYTES).prop_map(Message::Connected),
            (any::<u32>(), text(REASON_BYTES)).prop_map(|(code, reason)| Message::Disconnect { code, reason }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn whatever_comes_is_a_message_that_can_be_written_or_an_error(
            typ in 0u16..10,
            rest in vec(any::<u8>(), MESSAGE_BYTES - 2),
        ) {
            let bytes = [&typ.to_ne_bytes()[..], &rest].concat();
            match Message::decode(&bytes) {
                // Malformed UTF-8 is replaced, which may make a text longer, so that it is cut.
                Ok(message) => prop_assert_eq!(Message::decode(&message.encode()).map(|m| m.kind()), Ok(message.kind())),
                Err(error) => prop_assert_eq!(error, MessageError::Type(typ)),
            }
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn fields_stand_where_memif_h_has_them() {
        // The bytes are those of the packed structures in DPDK's memif.h.
        let ring = AddRing {
            from_client: true,
            index: 0x0102,
            region: 0x0304,
            offset: 0x0506_0708,
            slots_log2: 10,
            private_header_bytes: 0x0b0c,
        };
        let bytes = Message::AddRing(ring).encode();
        assert_eq!(bytes[..15], [5, 0, 1, 0, 2, 1, 4, 3, 8, 7, 6, 5, 10, 0x0c, 0x0b]);
        assert!(bytes[15..].iter().all(|byte| *byte == 0));
        let bytes = Message::AddRegion { index: 1, bytes: 0x0102_0304_0506_0708 }.encode();
        assert_eq!(bytes[..12], [4, 0, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        let init = Init { version: VERSION, id: 7, ethernet: true, secret: [9; SECRET_BYTES], name: "me".into() };
        let bytes = Message::Init(init).encode();
        assert_eq!(bytes[..9], [3, 0, 0, 2, 7, 0, 0, 0, 0]);
        assert_eq!((&bytes[9..33], &bytes[33..36]), (&[9; SECRET_BYTES][..], &b"me\0"[..]));
        let hello = Hello {
            name: "a name that is too long for its field".into(),
            version_min: VERSION,
            version_max: VERSION,
            region_max: 1,
            to_client_ring_max: 2,
            to_server_ring_max: 3,
            slots_log2_max: 14,
        };
        let bytes = Message::Hello(hello).encode();
        assert_eq!(&bytes[2..35], b"a name that is too long for its\0\0");
        assert_eq!(bytes[34..45], [0, 2, 0, 2, 1, 0, 2, 0, 3, 0, 14]);
    }

    #[test]
    fn other_lengths_and_types_are_refused() {
        assert_eq!(Message::decode(&[1; 127]), Err(MessageError::Length(127)));
        assert_eq!(Message::decode(&[]), Err(MessageError::Length(0)));
        assert_eq!(Message::decode(&[0; MESSAGE_BYTES]), Err(MessageError::Type(0)));
    }

    #[test]
    fn texts_of_strangers_do_not_write_on_the_terminal() {
        let mut bytes = Message::Connect("x".into()).encode();
        bytes[2..10].copy_from_slice(b"\x1b[2J\xffab\n");
        assert_eq!(Message::decode(&bytes), Ok(Message::Connect("\u{fffd}[2J\u{fffd}ab\u{fffd}".into())));
    }
}
