//! Two ends of memif that receive any control messages, over shared memory with any contents. No end may panic.
//! Received frames must respect the maximum length. Decoded messages must be encodable.
#![no_main]

use std::os::fd::OwnedFd;

use byname_face::memif::handshake::{Handshake, Step, Terms};
use byname_face::memif::message::{MESSAGE_BYTES, Message};
use byname_face::memif::rings::{FRAME_BYTES_MAX, Rings};
use byname_face::memif::shared::SharedMemory;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

const TERMS: Terms = Terms { id: 0, secret: [0; 24], slots_log2: 3, buffer_bytes: 256, pairs: 2 };

#[derive(Arbitrary, Debug)]
enum Action {
    /// Bytes on a server's control socket, perhaps with a descriptor.
    Say(Vec<u8>, bool),
    /// The bytes of a message, for one end's socket.
    Tell {
        is_server: bool,
        typ: u16,
        fields: [u8; 40],
    },
    /// Bytes to write at a place in the shared memory.
    Write(u16, Vec<u8>),
    /// A frame from one end to the other.
    Push {
        is_server: bool,
        len: u16,
    },
    Receive {
        is_server: bool,
    },
}

/// Performs the handshake between two ends. Also returns the client's memory, so that the fuzzer can write to it.
fn agree() -> (Rings, Rings, SharedMemory) {
    let mut client = Handshake::client(TERMS);
    let (mut server, hello) = Handshake::server(TERMS);
    let (mut memory, mut up) = (None, None);
    let mut to_client = Some(hello);
    while let Some(message) = to_client.take() {
        match client.receive(message, None).expect("an honest server") {
            Step::Up(mut rings, _) => {
                return (rings.remove(0), up.expect("the server is up before"), memory.expect("a region"));
            }
            Step::Send(message, fd) => {
                if let (Message::AddRegion { bytes, .. }, Some(fd)) = (&message, &fd) {
                    memory = Some(SharedMemory::map(fd, *bytes).expect("sealed"));
                }
                match server.receive(message, fd).expect("an honest client") {
                    Step::Send(message, _) => to_client = Some(message),
                    Step::Up(mut rings, message) => (up, to_client) = (Some(rings.remove(0)), message),
                }
            }
        }
    }
    unreachable!("honest ends agree");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let (client, server, memory) = agree();
    let mut ends = [Some(client), Some(server)];
    let (mut listening, _) = Handshake::server(TERMS);
    let mut connecting = Handshake::client(TERMS);
    while !input.is_empty()
        && let Ok(action) = Action::arbitrary(&mut input)
    {
        match action {
            Action::Say(bytes, with_fd) => {
                let Ok(message) = Message::decode(&bytes) else { continue };
                Message::decode(&message.encode()).expect("encoded here");
                let fd: Option<OwnedFd> = with_fd.then(|| std::fs::File::open("/dev/null").expect("there").into());
                let _ = listening.receive(message, fd);
            }
            Action::Tell { is_server, typ, fields } => {
                let mut bytes = [0; MESSAGE_BYTES];
                bytes[..2].copy_from_slice(&(typ % 10).to_ne_bytes());
                bytes[2..42].copy_from_slice(&fields);
                let Ok(message) = Message::decode(&bytes) else { continue };
                let end = if is_server { &mut listening } else { &mut connecting };
                let _ = end.receive(message, None);
            }
            Action::Write(place, bytes) => {
                let _ = memory.write(usize::from(place) % memory.bytes(), &bytes);
            }
            Action::Push { is_server, len } => {
                let end = &mut ends[usize::from(is_server)];
                let frame = vec![7; usize::from(len) % (2 * FRAME_BYTES_MAX)];
                if let Some(rings) = end {
                    let pushed = rings.push([&frame, &[1], &[]]);
                    rings.send();
                    if pushed.is_err() {
                        *end = None;
                    }
                }
            }
            Action::Receive { is_server } => {
                let end = &mut ends[usize::from(is_server)];
                let each = |frame: byname_forward::Packet| assert!(frame.len() <= FRAME_BYTES_MAX);
                if end.as_mut().is_some_and(|rings| rings.receive(16, each).is_err()) {
                    *end = None;
                }
            }
        }
    }
});
