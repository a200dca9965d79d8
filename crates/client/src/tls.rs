//! TLS below a WebSocket.
//!
//! The router's certificate must be one that an authority of the system vouches for, for the host's name. Or the caller
//! pins its SHA-256 fingerprint; then nothing else of it counts.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use byname_trust::tls::{self, Fingerprint};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::transport::Host;

/// The bytes below a WebSocket.
pub(crate) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// The socket.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Encrypted(stream) => &stream.sock,
        }
    }

    /// Does the handshake, within the socket's timeouts.
    pub(crate) fn encrypted(mut stream: TcpStream, host: &Host, pin: Option<Fingerprint>) -> io::Result<Stream> {
        let name = ServerName::try_from(host.name.clone()).map_err(io::Error::other)?;
        let config = config(pin).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(connection, stream))))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

fn config(pin: Option<Fingerprint>) -> Result<ClientConfig, io::Error> {
    const PROTOCOL: &[u8] = b"http/1.1";
    if let Some(pin) = pin {
        return tls::client(PROTOCOL, move |fingerprint| fingerprint == pin).map_err(io::Error::other);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    // Some of a system's roots may be odd; others do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let verifier = verifier
        .map_err(|error| io::Error::other(format!("the system has no certificates of authorities ({error}); {PIN}")))?;
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(io::Error::other)?.with_webpki_verifier(verifier);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// What to do without a certificate of an authority.
pub(crate) const PIN: &str = "to name the router's certificate, append #sha256= and its fingerprint to the URI";
