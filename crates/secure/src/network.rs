//! Routers prove to each other that they are of one network, over QUIC.
//!
//! The certificate of TLS says nothing of the network, and a router that connects has none. So each side sends a message,
//! signed with its key of the network:
//!
//! 1. The router that connects opens a stream, and writes its message to the end of the stream.
//! 2. The other one checks the message and answers on the same stream. If the message is wrong, it ends the stream: the peer
//!    is a stranger.
//! 3. The router that connects checks the answer. Only then is there a face.
//!
//! What is signed is a [`Binding`]: 32 bytes that TLS derives from the secrets of this connection [RFC 8446 §7.5], and
//! others for each side. So a message is worth nothing on another connection, neither later nor for somebody between the
//! two, who has a connection with each and other bytes on each. Nor can a router's own message be sent back to it.
//!
//! This module moves messages; the owner of the keys makes and judges them ([`NetworkKeys`]).

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use wtransport::Connection;
use wtransport::stream::{RecvStream, SendStream};

/// Longest message, in bytes: a signature and a certificate.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Names the bytes that TLS derives.
const LABEL: &[u8] = b"EXPORTER-byname-link";

/// Bytes that only this connection has, for one side.
pub type Binding = [u8; 32];

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The router that connects.
    Caller,
    /// The router that is connected to.
    Callee,
}

impl Side {
    fn context(self) -> &'static [u8] {
        match self {
            Side::Caller => b"caller",
            Side::Callee => b"callee",
        }
    }
}

/// Makes a message that signs a binding, or says why it cannot.
pub type Prove = Box<dyn Fn(&Binding) -> Result<Vec<u8>, String> + Send + Sync>;
/// Returns who signed a binding in a message, or says why that is nobody.
pub type Check = Box<dyn Fn(&[u8], &Binding) -> Result<String, String> + Send + Sync>;

/// Signs for this router, and judges others.
pub struct NetworkKeys {
    /// A message that signs the binding of this router's side. Must not wait.
    pub prove: Prove,
    /// The name of the router that signed the binding of its side; an error says why it is none of the network. Must not
    /// wait. The message may be any bytes.
    pub check: Check,
}

/// The bytes of this connection for a side.
fn binding(connection: &Connection, side: Side) -> io::Result<Binding> {
    let mut binding = Binding::default();
    let derived = connection.export_keying_material(&mut binding, LABEL, side.context());
    derived.map_err(io::Error::other)?;
    Ok(binding)
}

/// Proves this router to the one that it has connected to, and lets that prove itself. Returns its name.
pub(crate) async fn call(connection: &Connection, keys: &NetworkKeys) -> io::Result<String> {
    let mut answer = introduce(connection, keys).await?;
    let message = read(&mut answer).await?;
    (keys.check)(&message, &binding(connection, Side::Callee)?).map_err(io::Error::other)
}

/// Proves this router to the one that it has connected to, which need not answer.
pub(crate) async fn introduce(connection: &Connection, keys: &NetworkKeys) -> io::Result<RecvStream> {
    let message = (keys.prove)(&binding(connection, Side::Caller)?).map_err(io::Error::other)?;
    let stream = connection.open_bi().await.map_err(io::Error::other)?;
    let (to, answer) = stream.await.map_err(io::Error::other)?;
    write(to, &message).await?;
    Ok(answer)
}

/// Waits until the router that has connected proves itself, and answers. Returns its name.
pub(crate) async fn answer(connection: &Connection, keys: Option<Arc<NetworkKeys>>) -> io::Result<String> {
    let (to, mut from) = connection.accept_bi().await.map_err(io::Error::other)?;
    let keys = keys.ok_or_else(|| io::Error::other("this router has no keys of a network"))?;
    let message = read(&mut from).await?;
    let name = (keys.check)(&message, &binding(connection, Side::Caller)?).map_err(io::Error::other)?;
    let message = (keys.prove)(&binding(connection, Side::Callee)?).map_err(io::Error::other)?;
    write(to, &message).await?;
    Ok(name)
}

async fn write(mut to: SendStream, message: &[u8]) -> io::Result<()> {
    to.write_all(message).await.map_err(io::Error::other)?;
    to.finish().await.map_err(io::Error::other)
}

async fn read(from: &mut RecvStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    from.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut message).await?;
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    Ok(message)
}
