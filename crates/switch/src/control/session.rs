//! A connection between a switch and its controller over any stream: authentication and encryption.
//!
//! ```text
//! frame      length (2)  one Noise message
//! hello      key (1)  name  { port }      to the controller, in the first message of the handshake
//! welcome    engine (1)  network (16)     to the switch, in the second
//! messages   message                      both ways, in all that follow
//! ```
//!
//! Numbers are big endian. A text is its length (1) and its bytes. The kind of key is 0 for `mac`, then 1 `vlan-mac`,
//! 2 `vxlan`, 3 `ipv6`, 4 `gtp`.
//!
//! The handshake is `Noise_NNpsk0_25519_ChaChaPoly_SHA256` [Noise §7.4, §9] of the crate `snow`. Both sides have one
//! secret, from a file, and no keys of their own: hence pattern NN, with the secret as the pre-shared key. The key is
//! mixed in first (psk0). A stranger's first message is therefore refused, and hellos are encrypted, too. Ephemeral
//! keys provide forward secrecy: the secret does not reveal the keys of earlier connections. Each message has an
//! implicit number. Messages that are repeated, changed, omitted or reflected fail to decrypt. An attacker can replay a
//! recorded hello, but nothing more. The controller therefore trusts a switch only after its first message that follows
//! the handshake.
//!
//! On a Unix socket, the secret may be empty: file permissions protect the socket, and a handshake with an empty secret
//! protects nothing. An attacker who records a handshake can test guesses of the secret offline. A secret must
//! therefore be random, not a word.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

use byname_wire::NameHashKey;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use snow::{HandshakeState, StatelessTransportState};
use thiserror::Error;

use super::tables::Engine;
use crate::key::KeyKind;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Version of the protocol. With different versions, the handshake fails.
const PROLOGUE: &[u8] = b"byname-switch 3";
const NONCE_BYTES: usize = 16;
/// Longest Noise message, in bytes.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Bytes that encryption adds to a message.
const SEAL_BYTES: usize = 16;
/// Bytes that the handshake adds to a message: an ephemeral key and a seal.
const HANDSHAKE_BYTES: usize = 32 + SEAL_BYTES;
/// Longest payload of a frame, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = MESSAGE_BYTES_MAX - SEAL_BYTES;

/// The secret that a controller shares with its switches.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// A secret from these bytes. They may be empty if the socket is protected otherwise.
    pub fn new(bytes: &[u8]) -> Self {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    fn derive(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            // The lengths make the encoding of the list of parts unique.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    /// The key with which all switches of a network hash addresses. `network` is drawn at random when the controller
    /// starts.
    pub fn names_key(&self, network: &[u8; NONCE_BYTES]) -> NameHashKey {
        name_hash_key(self.derive(&[b"names", network]))
    }

    /// Creates one side of a handshake.
    fn handshake(&self, is_switch: bool) -> Result<HandshakeState, SessionError> {
        let pattern = PATTERN.parse().expect("snow knows this pattern");
        let psk = self.derive(&[b"handshake"]);
        let builder = snow::Builder::new(pattern).psk(0, &psk).and_then(|builder| builder.prologue(PROLOGUE))?;
        Ok(if is_switch { builder.build_initiator() } else { builder.build_responder() }?)
    }
}

fn name_hash_key(key: [u8; 32]) -> NameHashKey {
    let [low, high, ..] = key.as_chunks::<8>().0 else { unreachable!("32 bytes") };
    NameHashKey::new([u64::from_le_bytes(*low), u64::from_le_bytes(*high)])
}

/// Random bytes that cannot be guessed.
///
/// # Errors
/// If the system provides no randomness.
pub fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("the system gives no randomness"))?;
    Ok(nonce)
}

/// Why a session could not be established, or why it ended.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The connection has failed or ended.
    #[error("the connection has ended: {0}")]
    Connection(#[from] io::Error),
    /// The controller closed the connection during the handshake.
    #[error("the controller ends the handshake: both sides need the same secret_file and the same version of byname")]
    Unanswered,
    /// The peer speaks another protocol.
    #[error("the peer is no switch or controller of this version")]
    Protocol,
    /// The peer has another secret or another version, or a message was changed.
    #[error("the seal is wrong: both sides need the same secret_file and the same version of byname")]
    Seal,
    /// The system provides no keys.
    #[error("no handshake can be made: {0}")]
    Keys(snow::Error),
    /// The controller refuses this switch.
    #[error("the controller refuses: {0}")]
    Refused(String),
}

impl From<snow::Error> for SessionError {
    fn from(error: snow::Error) -> Self {
        match error {
            snow::Error::Decrypt => SessionError::Seal,
            snow::Error::Input | snow::Error::Dh => SessionError::Protocol,
            error => SessionError::Keys(error),
        }
    }
}

/// A switch's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// What it forwards by.
    pub key: KeyKind,
    /// The switch.
    pub name: String,
    /// Its interfaces, in the order of their port numbers.
    pub ports: Vec<String>,
}

/// The controller's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Structure of the tables.
    pub engine: Engine,
    /// Random bytes of the controller's run. The hash key for addresses is derived from them.
    pub network: [u8; NONCE_BYTES],
}

impl Hello {
    /// Encodes the message. Texts are truncated to 255 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.key.number()];
        for text in std::iter::once(&self.name).chain(&self.ports) {
            let text = &text.as_bytes()[..text.len().min(255)];
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text);
        }
        bytes
    }

    /// Decodes a hello. `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&key, mut bytes) = bytes.split_first()?;
        let key = KeyKind::numbered(key)?;
        let mut texts = Vec::new();
        while let Some((&len, rest)) = bytes.split_first() {
            let (text, rest) = rest.split_at_checked(len.into())?;
            texts.push(std::str::from_utf8(text).ok()?.to_owned());
            bytes = rest;
        }
        let name = (!texts.is_empty()).then(|| texts.remove(0))?;
        Some(Hello { key, name, ports: texts })
    }
}

impl Welcome {
    fn encode(&self) -> Vec<u8> {
        [&[self.engine.number()][..], &self.network].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&engine, network) = bytes.split_first()?;
        Some(Welcome { engine: Engine::numbered(engine)?, network: network.try_into().ok()? })
    }
}

/// A switch that has sent its hello and waits for the welcome.
pub struct Greeting {
    handshake: HandshakeState,
    secret: Secret,
}

impl Greeting {
    /// Starts a handshake. Returns the frame to send, too.
    ///
    /// # Errors
    /// If the system provides no randomness, or the hello is too long.
    pub fn new(secret: &Secret, hello: &Hello) -> Result<(Self, Vec<u8>), SessionError> {
        let mut handshake = secret.handshake(true)?;
        let framed = frame_handshake(&mut handshake, &hello.encode())?;
        Ok((Greeting { handshake, secret: secret.clone() }, framed))
    }

    /// Handles the payload of the welcome's frame.
    ///
    /// # Errors
    /// If it is not a welcome, or the controller has another secret.
    pub fn welcomed(mut self, message: &[u8]) -> Result<(Session, Welcome), SessionError> {
        let payload = open_handshake(&mut self.handshake, message)?;
        let welcome = Welcome::decode(&payload).ok_or(SessionError::Protocol)?;
        Ok((Session::new(self.handshake, &self.secret)?, welcome))
    }
}

/// A caller of the controller. It has the secret, or replays a hello of a switch that has it.
pub struct Caller {
    handshake: HandshakeState,
    secret: Secret,
}

impl Caller {
    /// Handles the payload of the hello's frame.
    ///
    /// # Errors
    /// If it is not a hello, or the caller has another secret.
    pub fn hear(secret: &Secret, message: &[u8]) -> Result<(Self, Hello), SessionError> {
        let mut handshake = secret.handshake(false)?;
        let payload = open_handshake(&mut handshake, message)?;
        let hello = Hello::decode(&payload).ok_or(SessionError::Protocol)?;
        Ok((Caller { handshake, secret: secret.clone() }, hello))
    }

    /// Returns the session and the frame to send.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn welcome(mut self, welcome: &Welcome) -> Result<(Session, Vec<u8>), SessionError> {
        let framed = frame_handshake(&mut self.handshake, &welcome.encode())?;
        Ok((Session::new(self.handshake, &self.secret)?, framed))
    }
}

/// One direction of a session. One end seals and numbers messages; the other end opens them.
pub struct Seals {
    transport: Arc<StatelessTransportState>,
    number: u64,
}

impl Seals {
    /// Seals a payload. Returns its frame.
    ///
    /// # Panics
    /// If the payload is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX);
        let mut framed = vec![0; 2 + payload.len() + SEAL_BYTES];
        let sealed = self.transport.write_message(self.number, payload, &mut framed[2..]);
        let len = sealed.expect("the payload is short enough, and 2^64 messages take too long to send");
        framed[..2].copy_from_slice(&(len as u16).to_be_bytes());
        self.number += 1;
        framed
    }

    /// Opens a message that [`read_frame`] returned. Returns its payload.
    ///
    /// # Errors
    /// If the peer did not seal it, or it is not the next message.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, SessionError> {
        let mut payload = vec![0; sealed.len().checked_sub(SEAL_BYTES).ok_or(SessionError::Protocol)?];
        let len = self.transport.read_message(self.number, sealed, &mut payload)?;
        payload.truncate(len);
        self.number += 1;
        Ok(payload)
    }
}

/// Both directions of a session, and its table key.
pub struct Session {
    /// Messages to the switch.
    pub to_switch: Seals,
    /// Messages to the controller.
    pub to_controller: Seals,
    /// Key that authenticates table messages.
    pub table_key: NameHashKey,
}

impl Session {
    fn new(handshake: HandshakeState, secret: &Secret) -> Result<Self, SessionError> {
        let table_key = name_hash_key(secret.derive(&[b"table", handshake.get_handshake_hash()]));
        let transport = Arc::new(handshake.into_stateless_transport_mode()?);
        let seals = || Seals { transport: transport.clone(), number: 0 };
        Ok(Session { to_switch: seals(), to_controller: seals(), table_key })
    }
}

fn frame_handshake(handshake: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, SessionError> {
    let mut framed = vec![0; 2 + payload.len() + HANDSHAKE_BYTES];
    let len = handshake.write_message(payload, &mut framed[2..])?;
    framed.truncate(2 + len);
    framed[..2].copy_from_slice(&(len as u16).to_be_bytes());
    Ok(framed)
}

fn open_handshake(handshake: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, SessionError> {
    let mut payload = vec![0; message.len()];
    let len = handshake.read_message(message, &mut payload)?;
    payload.truncate(len);
    Ok(payload)
}

/// Reads a frame. Returns the Noise message in it.
///
/// # Errors
/// If the connection ends.
pub fn read_frame(stream: &mut impl Read) -> Result<Vec<u8>, SessionError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).map_err(named)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).map_err(named)?;
    Ok(message)
}

/// Replaces errors of the system by clear ones.
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

    fn hello() -> Hello {
        Hello { key: KeyKind::Ipv6, name: "s1".into(), ports: vec!["eth0".into(), "eth1".into()] }
    }

    fn message(framed: &[u8]) -> Result<Vec<u8>, SessionError> {
        read_frame(&mut &framed[..])
    }

    /// Both ends of a session.
    fn sessions(of_switch: &Secret, of_controller: &Secret) -> Result<(Session, Session), SessionError> {
        let (greeting, framed) = Greeting::new(of_switch, &hello())?;
        let (caller, heard) = Caller::hear(of_controller, &message(&framed)?)?;
        assert_eq!(heard, hello());
        let welcome = Welcome { engine: Engine::Othello, network: [7; 16] };
        let (controller, framed) = caller.welcome(&welcome)?;
        let (switch, welcomed) = greeting.welcomed(&message(&framed)?)?;
        assert_eq!(welcomed, welcome);
        Ok((switch, controller))
    }

    #[test]
    fn both_ends_have_the_same_keys_and_no_two_sessions_do() {
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        for payload in [&b"one"[..], b"", &[7; PAYLOAD_BYTES_MAX]] {
            let framed = switch.to_controller.seal(payload);
            let sealed = message(&framed).expect("a frame");
            assert_eq!(controller.to_controller.open(&sealed).expect("sealed"), payload);
        }
        assert!(switch.table_key == controller.table_key);
        let (other, _) = sessions(&secret(), &secret()).expect("the same secret");
        assert!(other.table_key != switch.table_key);
        assert!(secret().names_key(&[1; 16]) != secret().names_key(&[2; 16]));
    }

    #[test]
    fn nothing_is_readable_on_the_wire() {
        let (greeting, hello) = Greeting::new(&secret(), &hello()).expect("randomness");
        let (caller, _) = Caller::hear(&secret(), &hello[2..]).expect("the same secret");
        let network = *b"sixteen bytes...";
        let (mut controller, welcome) = caller.welcome(&Welcome { engine: Engine::Line, network }).expect("randomness");
        greeting.welcomed(&welcome[2..]).expect("the same secret");
        let sent = controller.to_switch.seal(b"a host is at eth0");
        for (framed, told) in [(&hello, &b"eth0"[..]), (&welcome, &network), (&sent, b"eth0")] {
            assert!(!framed.windows(told.len()).any(|bytes| bytes == told));
        }
        assert_ne!(controller.to_switch.seal(b"a host is at eth0"), sent);
    }

    #[test]
    fn another_secret_is_found_out_at_the_first_message() {
        let (_, framed) = Greeting::new(&Secret::new(b""), &hello()).expect("randomness");
        let refused = Caller::hear(&secret(), &framed[2..]).err();
        assert!(matches!(refused, Some(SessionError::Seal)), "{refused:?}");
        assert!(matches!(Caller::hear(&secret(), &[1; 20]).err(), Some(SessionError::Protocol)));
    }

    #[test]
    fn a_hello_that_is_repeated_makes_no_session() {
        let (greeting, framed) = Greeting::new(&secret(), &hello()).expect("randomness");
        let again = || {
            let (caller, _) = Caller::hear(&secret(), &framed[2..]).expect("it was a switch's once");
            caller.welcome(&Welcome { engine: Engine::Line, network: [7; 16] }).expect("randomness")
        };
        let ((mut of_stranger, _), (mut controller, welcome)) = (again(), again());
        let (mut switch, _) = greeting.welcomed(&welcome[2..]).expect("the same secret");
        let first = switch.to_controller.seal(b"first");
        assert!(of_stranger.to_controller.open(&first[2..]).is_err(), "the session is another");
        assert!(controller.to_controller.open(&first[2..]).is_ok());
    }

    #[test]
    fn what_is_repeated_changed_or_sent_back_is_refused() {
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        let first = switch.to_controller.seal(b"first");
        assert!(switch.to_switch.open(&first[2..]).is_err(), "sent back");
        assert!(controller.to_controller.open(&first[2..]).is_ok());
        assert!(controller.to_controller.open(&first[2..]).is_err(), "repeated");
        let (mut switch, mut controller) = sessions(&secret(), &secret()).expect("the same secret");
        let mut changed = switch.to_controller.seal(b"first");
        changed[5] ^= 1;
        assert!(controller.to_controller.open(&changed[2..]).is_err());
        assert!(controller.to_controller.open(&[1; 15]).is_err());
        let _lost = switch.to_controller.seal(b"second");
        let third = switch.to_controller.seal(b"third");
        assert!(controller.to_controller.open(&third[2..]).is_err(), "one is left out");
    }

    #[test]
    fn a_connection_that_ends_says_so() {
        let error = message(&[0, 9, 1]).expect_err("too short").to_string();
        assert_eq!(error, "the connection has ended: the peer has closed it");
    }

    proptest! {
        #[test]
        fn hellos_of_strangers_are_read_or_not(bytes in vec(any::<u8>(), 0..60)) {
            if let Some(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(hello.encode(), bytes.clone());
            }
            prop_assert!(Caller::hear(&secret(), &bytes).is_err());
        }
    }
}
