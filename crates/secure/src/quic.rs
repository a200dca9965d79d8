//! WebTransport over HTTP/3: one link packet in each datagram, at the path `/ndn`, as ndnd and NDNts have it.
//!
//! # Addresses that are not the sender's
//!
//! UDP lets a sender write any source address. So a first packet gets no more than a Retry packet [RFC 9000 §8.1.2], which
//! is shorter than the shortest packet that asks for it, and the router keeps nothing of it. Only a sender that returns
//! the token of that packet gets a handshake, so it receives what is sent to its address. This costs a connection one
//! round trip.
//!
//! # Bounds
//!
//! Datagrams that wait in either direction are bounded in bytes for each connection. A peer opens few streams, as HTTP/3
//! needs them; none of them carries packets. Datagrams that are not one Interest, Data or link packet are dropped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use byname_face::stream::{Call, Door, Guest};
use byname_face::udp::set_buffer_sizes;
use byname_trust::tls::Fingerprint;
use byname_wire::lp::FRAME_BYTES_MAX;
use byname_wire::tlv;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wtransport::config::{ClientConfig, QuicTransportConfig, ServerConfig};
use wtransport::endpoint::endpoint_side::{Client, Server};
use wtransport::endpoint::{ConnectOptions, Endpoint, IncomingSession};
use wtransport::proto::WEBTRANSPORT_ALPN;
use wtransport::proto::datagram::Datagram;
use wtransport::proto::ids::QStreamId;
use wtransport::{Connection, VarInt};

use crate::handshakes::{Done, Handshakes};
use crate::limits::Limits;
use crate::network;
use crate::peers::Known;
use crate::shared::Shared;
use crate::tls;

/// Where web pages find packets.
const PATH: &str = "/ndn";
/// Field of a request by which ndnd's library knows WebTransport.
const OFFER: [&str; 2] = ["sec-webtransport-http3-draft02", "1"];
/// Longest packet to a peer, in bytes. QUIC's shortest MTU, 1200 bytes, has room for it with all headers.
const PACKET_BYTES_MAX: usize = 1120;
/// Bytes of datagrams that may wait, in each direction, for one connection.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Bytes that the kernel holds for a socket in each direction. All connections of a listener share them.
const SOCKET_BYTES: usize = 4 << 20;
/// Connections that may wait for their first answer, and bytes that they may send until then.
const INCOMING_MAX: usize = 256;
const INCOMING_BYTES_MAX: u64 = 16 << 10;
const INCOMING_BYTES_SUM_MAX: u64 = 1 << 20;
/// Streams that a peer may have open: HTTP/3 has one request, and three streams for itself.
const STREAMS_MAX: u32 = 8;
/// Bytes that a peer may send on one stream, and on all, before they are read.
const STREAM_BYTES_MAX: u32 = 16 << 10;
const STREAMS_BYTES_MAX: u32 = 64 << 10;
/// A connection without a sign of its peer ends after this time. Both sides send one in less.
const IDLE: Duration = Duration::from_secs(30);
const SIGN_INTERVAL: Duration = Duration::from_secs(10);
/// First bytes of packets: Interest, Data and LpPacket.
const FIRST_BYTES: [u8; 3] = [0x05, 0x06, 0x64];

/// What all connections over QUIC share.
pub(crate) struct Quic {
    known: Arc<Known>,
    tls: rustls::ServerConfig,
    door: Mutex<Door>,
    limits: Limits,
    /// Whether those that are not of the network may connect.
    strangers: bool,
    /// Ends from which connections are made, over IPv4 and over IPv6.
    clients: [OnceLock<Endpoint<Client>>; 2],
}

fn transport() -> io::Result<QuicTransportConfig> {
    let mut transport = QuicTransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS_MAX.into())
        .max_concurrent_uni_streams(STREAMS_MAX.into())
        .stream_receive_window(STREAM_BYTES_MAX.into())
        .receive_window(STREAMS_BYTES_MAX.into())
        .datagram_receive_buffer_size(Some(WAITING_BYTES_MAX))
        .datagram_send_buffer_size(WAITING_BYTES_MAX)
        .max_idle_timeout(Some(IDLE.try_into().map_err(io::Error::other)?))
        .keep_alive_interval(Some(SIGN_INTERVAL));
    Ok(transport)
}

impl Quic {
    pub(crate) fn new(shared: Shared, door: Door, strangers: bool) -> Result<Self, rustls::Error> {
        let Shared { current, known, limits } = shared;
        let tls = tls::server(&current, &[WEBTRANSPORT_ALPN])?;
        Ok(Quic { known, tls, door: Mutex::new(door), limits, strangers, clients: Default::default() })
    }

    /// A listener on this socket, and its address.
    pub(crate) fn endpoint(&self, socket: UdpSocket) -> io::Result<(Arc<Endpoint<Server>>, SocketAddr)> {
        socket.set_nonblocking(true)?;
        set_buffer_sizes(&socket, SOCKET_BYTES);
        let local = socket.local_addr()?;
        let tls = self.tls.clone();
        let mut config =
            ServerConfig::builder().with_bind_socket(socket).with_custom_tls_and_transport(tls, transport()?).build();
        config
            .quic_config_mut()
            .max_incoming(INCOMING_MAX)
            .incoming_buffer_size(INCOMING_BYTES_MAX)
            .incoming_buffer_size_total(INCOMING_BYTES_SUM_MAX);
        Ok((Arc::new(Endpoint::server(config)?), local))
    }

    /// Accepts connections for ever.
    pub(crate) async fn listen(self: Arc<Self>, endpoint: Arc<Endpoint<Server>>, local: SocketAddr) {
        let mut handshakes = Handshakes::new(self.limits.handshakes_max);
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                // Frees the memory of finished tasks.
                Some(_) = handshakes.tasks.join_next() => continue,
            };
            if !incoming.remote_address_validated() {
                incoming.retry();
                continue;
            }
            let (quic, remote) = (Arc::clone(&self), incoming.remote_address());
            handshakes.start(&remote, move |done| async move {
                if let Err(error) = quic.serve(incoming, remote, local, done).await {
                    tracing::debug!(%remote, %error, "no face over QUIC");
                }
            });
        }
    }

    async fn serve(
        &self,
        incoming: IncomingSession,
        remote: SocketAddr,
        local: SocketAddr,
        done: Done,
    ) -> io::Result<()> {
        let descriptor = self.door.lock().unwrap_or_else(PoisonError::into_inner).descriptor();
        let Some(_pair) = descriptor else {
            incoming.refuse();
            return Err(io::Error::other("the process may open no more descriptors"));
        };
        let asked = async {
            let request = incoming.await.map_err(io::Error::other)?;
            if request.path() != PATH {
                request.not_found().await;
                return Err(io::Error::other("the client asked for another path than /ndn"));
            }
            request.accept().await.map_err(io::Error::other)
        };
        let connection = timeout(self.limits.handshake_time, asked).await??;
        let proof = async {
            let name = network::answer(&connection, self.known.network()).await?;
            tracing::info!(%remote, router = name, "a router of the network has connected over QUIC");
            io::Result::Ok(())
        };
        tokio::pin!(proof);
        if !self.strangers {
            timeout(self.limits.handshake_time, &mut proof).await??;
        }
        done.tell();
        let mtu = packet_bytes_max(&connection)?;
        let (end, port) = UnixStream::pair()?;
        port.set_nonblocking(true)?;
        let guest = Guest { remote, local, mtu: Some(mtu), end };
        if !self.door.lock().unwrap_or_else(PoisonError::into_inner).let_in(guest) {
            return Err(io::Error::other("too many connections wait for a port"));
        }
        let packets = relay(&connection, tokio::net::UnixStream::from_std(port)?);
        // A web page proves nothing, and opens no stream.
        let proves = async {
            if let Err(error) = proof.await {
                tracing::debug!(%remote, %error, "a stranger over QUIC");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = packets => {}
            () = proves, if self.strangers => {}
        }
        connection.close(VarInt::from_u32(0), b"");
        Ok(())
    }

    /// Connects to a peer. Dropping the end of the pair tells the port of a failure.
    pub(crate) async fn connect(self: Arc<Self>, Call { remote, end }: Call) {
        if let Err(error) = self.try_connect(remote, end).await {
            tracing::warn!(%remote, "cannot connect over QUIC: {error}");
        }
    }

    async fn try_connect(&self, remote: SocketAddr, end: UnixStream) -> io::Result<()> {
        let client = self.client(remote.ip())?;
        let [name, value] = OFFER;
        let options = ConnectOptions::builder(format!("https://{remote}{PATH}")).add_header(name, value).build();
        let connected = client.connect(options);
        let connection = timeout(self.limits.handshake_time, connected).await?.map_err(io::Error::other)?;
        packet_bytes_max(&connection)?;
        timeout(self.limits.handshake_time, self.prove(&connection, remote)).await??;
        end.set_nonblocking(true)?;
        let mut port = tokio::net::UnixStream::from_std(end)?;
        // Tells the port that the face is up.
        port.write_all(&[0]).await?;
        relay(&connection, port).await;
        connection.close(VarInt::from_u32(0), b"");
        Ok(())
    }

    /// Proves this router to a peer that it has connected to. A peer whose certificate is not listed must do the same.
    async fn prove(&self, connection: &Connection, remote: SocketAddr) -> io::Result<()> {
        let fingerprint = connection.peer_identity().and_then(|chain| {
            let first = chain.as_slice().first()?;
            Some(Fingerprint(*first.hash().as_ref()))
        });
        let is_listed = fingerprint.is_some_and(|fingerprint| self.known.lists(fingerprint));
        match self.known.network() {
            Some(keys) if is_listed => drop(network::introduce(connection, &keys).await?),
            Some(keys) => {
                let name = network::call(connection, &keys).await?;
                tracing::info!(%remote, router = name, "connected over QUIC to a router of the network");
            }
            None if is_listed => {}
            None => return Err(io::Error::other("its certificate is not among `peers` under [tls]")),
        }
        Ok(())
    }

    fn client(&self, of: IpAddr) -> io::Result<&Endpoint<Client>> {
        let place = &self.clients[usize::from(of.is_ipv6())];
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let any: IpAddr = if of.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let tls = self.known.client(WEBTRANSPORT_ALPN, true).map_err(io::Error::other)?;
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        set_buffer_sizes(&socket, SOCKET_BYTES);
        socket.set_nonblocking(true)?;
        let config =
            ClientConfig::builder().with_bind_socket(socket).with_custom_tls_and_transport(tls, transport()?).build();
        let client = Endpoint::client(config)?;
        Ok(place.get_or_init(|| client))
    }
}

/// Longest packet that reaches the peer.
fn packet_bytes_max(connection: &Connection) -> io::Result<usize> {
    match connection.max_datagram_size() {
        Some(bytes) if bytes >= PACKET_BYTES_MAX => Ok(PACKET_BYTES_MAX),
        _ => Err(io::Error::other("the peer takes no datagrams, or only short ones")),
    }
}

/// Moves packets between a connection and a port, until one of them ends.
async fn relay(connection: &Connection, port: tokio::net::UnixStream) {
    let (mut from_port, mut to_port) = port.into_split();
    let up = async {
        loop {
            let datagram = connection.receive_datagram().await.map_err(io::Error::other)?;
            if is_packet(&datagram) {
                to_port.write_all(&datagram).await?;
            }
        }
    };
    let down = async {
        let mut bytes = Vec::with_capacity(2 * FRAME_BYTES_MAX);
        loop {
            let mut sent = 0;
            while let Some(len) = tlv::element_len(&bytes[sent..], FRAME_BYTES_MAX).map_err(io::Error::other)? {
                send(connection, &bytes[sent..sent + len]).await?;
                sent += len;
            }
            bytes.drain(..sent);
            if from_port.read_buf(&mut bytes).await? == 0 {
                return io::Result::<()>::Ok(());
            }
        }
    };
    // Errors end a connection, and that is all that they do.
    let _: io::Result<()> = tokio::select! {
        ended = up => ended,
        ended = down => ended,
        _ = connection.closed() => Ok(()),
    };
}

/// Whether these bytes are one packet, as a port expects it.
fn is_packet(bytes: &[u8]) -> bool {
    let has_type = bytes.first().is_some_and(|first| FIRST_BYTES.contains(first));
    has_type && matches!(tlv::element_len(bytes, FRAME_BYTES_MAX), Ok(Some(len)) if len == bytes.len())
}

/// Sends a packet once there is room. A packet that is too long for the path is lost.
async fn send(connection: &Connection, packet: &[u8]) -> io::Result<()> {
    use wtransport::quinn::SendDatagramError;
    let datagram = Datagram::new(QStreamId::from_session_id(connection.session_id()), packet);
    let mut bytes = vec![0; datagram.write_size()];
    datagram.write(&mut bytes).map_err(|_| io::Error::other("no room for a header"))?;
    match connection.quic_connection().send_datagram_wait(bytes.into()).await {
        Ok(()) | Err(SendDatagramError::TooLarge) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
