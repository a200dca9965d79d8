//! WebSocket over TLS: TLS here, WebSocket in the port.

use std::io;
use std::net::{SocketAddr, TcpListener as BoundListener};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byname_face::stream::{Call, Door, Guest};
use rustix::net::sockopt;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::certificate::Current;
use crate::handshakes::{Done, Handshakes};
use crate::limits::Limits;
use crate::relay;
use crate::shared::Shared;

/// The only protocol that is offered.
const PROTOCOL: &[u8] = b"http/1.1";
/// How long to wait before accepting again when the system has no descriptor or memory left.
const PAUSE: Duration = Duration::from_millis(200);
/// A vanished peer is noticed after about two minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// TLS of a server with this certificate, for these protocols.
pub(crate) fn server(current: &Arc<Current>, protocols: &[&[u8]]) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(current) as _);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Sessions that can be resumed are memory that peers fill.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// What all connections of TLS share.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    door: Mutex<Door>,
    limits: Limits,
}

impl Tls {
    pub(crate) fn new(shared: Shared, door: Door) -> Result<Self, rustls::Error> {
        let acceptor = TlsAcceptor::from(Arc::new(server(&shared.current, &[PROTOCOL])?));
        let connector = TlsConnector::from(Arc::new(shared.known.client(PROTOCOL, false)?));
        Ok(Tls { acceptor, connector, door: Mutex::new(door), limits: shared.limits })
    }

    /// Accepts connections for ever.
    pub(crate) async fn listen(self: Arc<Self>, bound: BoundListener) {
        let begin = || {
            bound.set_nonblocking(true)?;
            let local = bound.local_addr()?;
            Ok((TcpListener::from_std(bound)?, local))
        };
        let (listener, local) = match begin() {
            Ok(begun) => begun,
            Err(error) => {
                let error: io::Error = error;
                return tracing::error!("WebSocket over TLS is not served: {error}");
            }
        };
        let mut handshakes = Handshakes::new(self.limits.handshakes_max);
        let mut is_short = false;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // Frees the memory of finished tasks.
                Some(_) = handshakes.tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, remote)) => {
                    is_short = false;
                    let tls = Arc::clone(&self);
                    handshakes.start(&remote, move |done| async move {
                        if let Err(error) = tls.serve(stream, remote, local, done).await {
                            tracing::debug!(%remote, %error, "no face over TLS");
                        }
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !is_short {
                        tracing::warn!(%local, "cannot accept connections, trying again: {error}");
                    }
                    is_short = true;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn serve(&self, stream: TcpStream, remote: SocketAddr, local: SocketAddr, done: Done) -> io::Result<()> {
        let descriptors = {
            let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
            (door.descriptor(), door.descriptor())
        };
        let (Some(_stream), Some(_pair)) = descriptors else {
            return Err(io::Error::other("the process may open no more descriptors"));
        };
        tune(&stream);
        let stream = timeout(self.limits.handshake_time, self.acceptor.accept(stream)).await??;
        done.tell();
        let (end, port) = UnixStream::pair()?;
        port.set_nonblocking(true)?;
        let guest = Guest { remote, local, mtu: None, end };
        if !self.door.lock().unwrap_or_else(PoisonError::into_inner).let_in(guest) {
            return Err(io::Error::other("too many connections wait for a port"));
        }
        relay::streams(stream, tokio::net::UnixStream::from_std(port)?, self.limits.stall_time).await;
        Ok(())
    }

    /// Connects to a peer. Dropping the end of the pair tells the port of a failure.
    pub(crate) async fn connect(self: Arc<Self>, Call { remote, end }: Call) {
        let connected = async {
            let stream = TcpStream::connect(remote).await?;
            tune(&stream);
            self.connector.connect(remote.ip().into(), stream).await
        };
        let stream = match timeout(self.limits.handshake_time, connected).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::warn!(%remote, "cannot connect over TLS: {error}"),
            Err(_) => return tracing::warn!(%remote, "cannot connect over TLS: it took too long"),
        };
        let Ok(port) = end.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(end)) else { return };
        relay::streams(stream, port, self.limits.stall_time).await;
    }
}

/// Sets options for a packet stream. Failures only cost speed.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL);
}
