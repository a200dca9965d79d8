//! One connection between a switch and its controller, over any stream: who is there, and under which
//! keys they speak.
//!
//! ```text
//! frame      length (4)  payload  [ seal (16) ]
//! hello      "byname-switch"  version (1)  nonce (16)  name  { port }      to the controller, no seal
//! welcome    version (1)  engine (1)  nonce (16)  network (16)             to the switch, sealed
//! messages   message                                                       both ways, sealed
//! refusal    length 0xffffffff, then a frame of text without a seal        to the switch, in place of a welcome
//! ```
//!
//! Texts are a length (1) and octets. Both sides have a secret, from a file or none at all: sockets in the
//! file system are protected by their permissions. All keys are HMAC-SHA-256 under it of the hello, the
//! welcome, and a word for the key's use, so that each connection has keys of its own. Seals are the same
//! function's first 16 octets over the frame's number and its payload: nothing is taken twice, or out of
//! order. A controller believes a switch when it has sent something sealed.
//!
//! Nothing is encrypted: who listens on a TCP connection learns where hosts are, but not the keys, not
//! even those that addresses are hashed with.

use std::io::{self, ErrorKind, Read};

use byname_wire::NameHashKey;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

use super::tables::Engine;

const MAGIC: &[u8] = b"byname-switch";
const VERSION: u8 = 1;
const NONCE_OCTETS: usize = 16;
const SEAL_OCTETS: usize = 16;
/// Longest payload of a frame, in octets.
pub const PAYLOAD_OCTETS_MAX: usize = 1 << 16;
/// In place of a length: a refusal follows.
const REFUSAL: u32 = u32::MAX;
/// Octets of the longest refusal.
const REFUSAL_OCTETS_MAX: usize = 1000;

/// What both sides know, and nobody else.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// Of these octets; none will do where the socket is protected otherwise.
    pub fn new(octets: &[u8]) -> Self {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, octets))
    }

    fn derive(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            // Lengths first: no two lists of parts give the same octets.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    /// The key that all switches of a network hash addresses with, for as long as the controller runs that
    /// has drawn `network`.
    pub fn names_key(&self, network: &[u8; NONCE_OCTETS]) -> NameHashKey {
        name_hash_key(self.derive(&[b"names", network]))
    }
}

fn name_hash_key(key: [u8; 32]) -> NameHashKey {
    let [low, high, ..] = key.as_chunks::<8>().0 else { unreachable!("32 octets") };
    NameHashKey::new([u64::from_le_bytes(*low), u64::from_le_bytes(*high)])
}

/// Octets that nobody can guess.
///
/// # Errors
/// If the system has none.
pub fn nonce() -> io::Result<[u8; NONCE_OCTETS]> {
    let mut nonce = [0; NONCE_OCTETS];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("the system gives no randomness"))?;
    Ok(nonce)
}

/// Why there is no session, or no more.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The connection fails, or has ended.
    #[error("the connection has ended: {0}")]
    Connection(#[from] io::Error),
    /// The peer is something else.
    #[error("the peer is no switch or controller of this version")]
    Protocol,
    /// The peer has another secret, or somebody has changed what it sent.
    #[error("the seal is wrong: both sides need the same secret_file")]
    Seal,
    /// The controller does not want this switch.
    #[error("the controller refuses: {0}")]
    Refused(String),
}

/// What a switch says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The switch.
    pub name: String,
    /// Its interfaces, in the order of their numbers.
    pub ports: Vec<String>,
    nonce: [u8; NONCE_OCTETS],
}

/// What the controller answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// What tables are made of.
    pub engine: Engine,
    /// Of the controller's run: addresses are hashed with a key made of it.
    pub network: [u8; NONCE_OCTETS],
    nonce: [u8; NONCE_OCTETS],
}

impl Hello {
    /// Of a switch with these ports.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(name: &str, ports: Vec<String>) -> io::Result<Self> {
        Ok(Hello { name: name.to_owned(), ports, nonce: nonce()? })
    }

    /// As it travels. Texts are cut after 255 octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = [MAGIC, &[VERSION], &self.nonce].concat();
        for text in std::iter::once(&self.name).chain(&self.ports) {
            let text = &text.as_bytes()[..text.len().min(255)];
            octets.push(text.len() as u8);
            octets.extend_from_slice(text);
        }
        octets
    }

    /// Reads one; `None`: it is none.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let octets = octets.strip_prefix(MAGIC)?.strip_prefix(&[VERSION])?;
        let (nonce, mut octets) = octets.split_first_chunk()?;
        let mut texts = Vec::new();
        while let Some((&len, rest)) = octets.split_first() {
            let (text, rest) = rest.split_at_checked(len.into())?;
            texts.push(std::str::from_utf8(text).ok()?.to_owned());
            octets = rest;
        }
        let name = (!texts.is_empty()).then(|| texts.remove(0))?;
        Some(Hello { name, ports: texts, nonce: *nonce })
    }
}

impl Welcome {
    /// Of the controller that has drawn `network`.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(engine: Engine, network: [u8; NONCE_OCTETS]) -> io::Result<Self> {
        Ok(Welcome { engine, network, nonce: nonce()? })
    }

    fn encode(&self) -> Vec<u8> {
        [&[VERSION, self.engine.number()][..], &self.nonce, &self.network].concat()
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let (&[version, engine], octets) = octets.split_first_chunk()?;
        let (nonce, octets) = octets.split_first_chunk()?;
        let engine = Engine::numbered(engine).filter(|_| version == VERSION)?;
        Some(Welcome { engine, nonce: *nonce, network: octets.try_into().ok()? })
    }
}

/// One direction of a session: numbers and seals frames, or checks them.
pub struct Seals {
    key: hmac::Key,
    number: u64,
}

impl Seals {
    fn tag(&mut self, payload: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&self.number.to_le_bytes());
        context.update(payload);
        self.number += 1;
        context.sign()
    }

    /// A frame of this payload.
    ///
    /// # Panics
    /// If it is longer than [`PAYLOAD_OCTETS_MAX`].
    pub fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        assert!(payload.len() <= PAYLOAD_OCTETS_MAX);
        let mut framed = frame(payload, SEAL_OCTETS);
        framed.extend_from_slice(&self.tag(payload).as_ref()[..SEAL_OCTETS]);
        framed
    }

    /// Takes the payload out of what [`read_frame`] has read.
    ///
    /// # Errors
    /// If the peer has not sealed it, or not as the next one.
    pub fn open<'a>(&mut self, sealed: &'a [u8]) -> Result<&'a [u8], SessionError> {
        let (payload, seal) = sealed.split_last_chunk::<SEAL_OCTETS>().ok_or(SessionError::Protocol)?;
        let expected = self.tag(payload);
        // In constant time, over all octets of the seal.
        let differs = expected.as_ref().iter().zip(seal).fold(0, |differs, (a, b)| differs | (a ^ b));
        if differs == 0 { Ok(payload) } else { Err(SessionError::Seal) }
    }
}

/// Keys of a session.
pub struct Session {
    /// What goes to the switch.
    pub to_switch: Seals,
    /// What goes to the controller.
    pub to_controller: Seals,
    /// What messages of the table are sealed with.
    pub table_key: NameHashKey,
}

impl Session {
    fn new(secret: &Secret, hello: &[u8], welcome: &[u8]) -> Self {
        let seals = |used: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.derive(&[used, hello, welcome]));
            Seals { key, number: 0 }
        };
        Session {
            to_switch: seals(b"to switch"),
            to_controller: seals(b"to controller"),
            table_key: name_hash_key(secret.derive(&[b"table", hello, welcome])),
        }
    }

    /// The controller's: and the frame of the welcome.
    pub fn welcome(secret: &Secret, hello: &[u8], welcome: &Welcome) -> (Self, Vec<u8>) {
        let welcome = welcome.encode();
        let mut session = Session::new(secret, hello, &welcome);
        let framed = session.to_switch.seal(&welcome);
        (session, framed)
    }

    /// The switch's, from the welcome's frame.
    ///
    /// # Errors
    /// If it is none, or the controller has another secret.
    pub fn welcomed(secret: &Secret, hello: &[u8], sealed: &[u8]) -> Result<(Self, Welcome), SessionError> {
        let (payload, _) = sealed.split_last_chunk::<SEAL_OCTETS>().ok_or(SessionError::Protocol)?;
        let welcome = Welcome::decode(payload).ok_or(SessionError::Protocol)?;
        let mut session = Session::new(secret, hello, payload);
        session.to_switch.open(sealed)?;
        Ok((session, welcome))
    }
}

/// A length and octets, with room for what follows.
fn frame(payload: &[u8], more: usize) -> Vec<u8> {
    let mut framed = Vec::with_capacity(4 + payload.len() + more);
    framed.extend_from_slice(&((payload.len() + more) as u32).to_be_bytes());
    framed.extend_from_slice(payload);
    framed
}

/// The frame of a hello.
pub fn hello_frame(hello: &[u8]) -> Vec<u8> {
    frame(hello, 0)
}

/// What tells a switch why it is not welcome.
pub fn refusal_frame(why: &str) -> Vec<u8> {
    let why = why.as_bytes();
    [&REFUSAL.to_be_bytes()[..], &frame(&why[..why.len().min(REFUSAL_OCTETS_MAX)], 0)].concat()
}

/// Reads a frame, its seal included.
///
/// # Errors
/// If the connection ends, the frame is too long, or the controller refuses.
pub fn read_frame(stream: &mut impl Read) -> Result<Vec<u8>, SessionError> {
    match read_length(stream)? {
        REFUSAL => {
            let len = (read_length(stream)? as usize).min(REFUSAL_OCTETS_MAX);
            Err(SessionError::Refused(String::from_utf8_lossy(&read_exact(stream, len)?).into_owned()))
        }
        len if len as usize > PAYLOAD_OCTETS_MAX + SEAL_OCTETS => Err(SessionError::Protocol),
        len => Ok(read_exact(stream, len as usize)?),
    }
}

fn read_length(stream: &mut impl Read) -> io::Result<u32> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(named)?;
    Ok(u32::from_be_bytes(length))
}

fn read_exact(stream: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; len];
    stream.read_exact(&mut octets).map_err(named)?;
    Ok(octets)
}

/// What a user can make something of.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the peer has closed it"),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::new(ErrorKind::TimedOut, "the peer is silent"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn secret() -> Secret {
        Secret::new(b"open sesame")
    }

    /// Both ends of a session.
    fn sessions(of_switch: &Secret, of_controller: &Secret) -> Result<(Session, Session), SessionError> {
        let hello = Hello::new("s1", vec!["eth0".into(), "eth1".into()])?;
        let framed = hello_frame(&hello.encode());
        let octets = read_frame(&mut &framed[..])?;
        assert_eq!(Hello::decode(&octets), Some(hello));
        let welcome = Welcome::new(Engine::Othello, [7; 16])?;
        let (controller, framed) = Session::welcome(of_controller, &octets, &welcome);
        let (switch, welcomed) = Session::welcomed(of_switch, &octets, &read_frame(&mut &framed[..])?)?;
        assert_eq!(welcomed, welcome);
        Ok((switch, controller))
    }

    #[test]
    fn both_ends_have_the_same_keys_and_no_two_sessions_do() {
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        for payload in [&b"one"[..], b"", &[7; PAYLOAD_OCTETS_MAX]] {
            let framed = switch.to_controller.seal(payload);
            let sealed = read_frame(&mut &framed[..]).expect("a frame");
            assert_eq!(controller.to_controller.open(&sealed).expect("sealed"), payload);
        }
        assert!(switch.table_key == controller.table_key);
        let (other, _) = sessions(&secret(), &secret()).expect("the same secret");
        assert!(other.table_key != switch.table_key);
        assert!(secret().names_key(&[1; 16]) != secret().names_key(&[2; 16]));
    }

    #[test]
    fn another_secret_is_found_out() {
        let refused = sessions(&secret(), &Secret::new(b"")).err();
        assert!(matches!(refused, Some(SessionError::Seal)), "{refused:?}");
    }

    #[test]
    fn what_is_repeated_changed_or_sent_back_is_refused() {
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        let first = switch.to_controller.seal(b"first");
        assert!(switch.to_switch.open(&first[4..]).is_err(), "sent back");
        assert!(controller.to_controller.open(&first[4..]).is_ok());
        assert!(controller.to_controller.open(&first[4..]).is_err(), "repeated");
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        let mut changed = switch.to_controller.seal(b"first");
        changed[5] ^= 1;
        assert!(controller.to_controller.open(&changed[4..]).is_err());
        assert!(controller.to_controller.open(&[1; 15]).is_err());
    }

    #[test]
    fn refusals_are_told() {
        let framed = refusal_frame("no link has a switch s9");
        let error = read_frame(&mut &framed[..]).expect_err("a refusal").to_string();
        assert_eq!(error, "the controller refuses: no link has a switch s9");
        assert!(matches!(read_frame(&mut &[0, 2, 0, 0][..]), Err(SessionError::Protocol)), "too long");
        let error = read_frame(&mut &[0, 0][..]).expect_err("too short").to_string();
        assert_eq!(error, "the connection has ended: the peer has closed it");
    }

    proptest! {
        #[test]
        fn hellos_of_strangers_are_read_or_not(octets in vec(any::<u8>(), 0..60), begins: bool) {
            let octets = if begins { [MAGIC, &[VERSION], &octets].concat() } else { octets };
            if let Some(hello) = Hello::decode(&octets) {
                prop_assert_eq!(hello.encode(), octets);
            }
        }
    }
}
