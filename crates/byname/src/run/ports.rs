//! Opens the ports that the configuration asks for and the machine allows.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};
use byname_control::config::{self, Config};
use byname_control::metrics::{CertificateCounts, Snapshot};
use byname_face::ethernet::{EthernetConfig, EthernetPort};
use byname_face::fault::FaultPort;
#[cfg(feature = "dpdk")]
use byname_face::frames::dpdk::{Device, DpdkSocket, Environment, Settings};
use byname_face::frames::ring::{PacketSocket, RingOptions};
use byname_face::frames::socket::FrameSocket;
use byname_face::frames::xdp::XdpSocket;
use byname_face::handover::Inherited;
use byname_face::link::LinkConfig;
use byname_face::memif::MemifPort;
use byname_face::pcap::{Capture, CapturePort};
use byname_face::stream::{Descriptors, Encryption, ListenError, StreamConfig, StreamPort};
use byname_face::system::ip_socket;
use byname_face::udp::multicast::{MulticastConfig, MulticastPort};
use byname_face::udp::{UdpConfig, UdpPort};
use byname_face::{FaceUri, LinkFlags, Port};
use byname_secure::{AcmeConfig, Files, Limits, Secure, SecureConfig, Service, Summary, Trusted};
use byname_web::Tell;
use rustix::net::{SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::holder::{Protocol, explain};
use super::socket_path::Surroundings;
use super::{routing, state};

/// Seeds of faults from this one on are for ports of [`open_exclusive`].
const EXCLUSIVE_SEEDS: u64 = 1 << 16;

/// A port, and the number of the packet thread that runs it.
pub type Placed = (usize, Box<dyn Port>);

/// Bound ports, and their description for the start-up table.
#[derive(Default)]
pub struct Bound {
    /// Ports of the Unix socket.
    pub applications: Vec<Placed>,
    /// All other ports.
    pub ports: Vec<Placed>,
    /// UDP addresses.
    pub udp: Vec<SocketAddr>,
    /// TCP addresses.
    pub tcp: Vec<SocketAddr>,
    /// WebSocket addresses.
    pub websocket: Vec<SocketAddr>,
    /// The thread that serves encrypted faces.
    pub secure: Option<Secure>,
    /// Addresses of WebSocket over TLS.
    pub wss: Vec<SocketAddr>,
    /// Addresses of WebTransport.
    pub quic: Vec<SocketAddr>,
    /// Multicast groups.
    pub multicast: Vec<SocketAddr>,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
    /// Ethernet interfaces, with their addresses.
    pub ethernet: Vec<String>,
    /// Shared-memory interfaces.
    pub memif: Vec<String>,
    /// Failures that are not fatal.
    pub notes: Vec<String>,
}

/// Numbers ports by thread, from the first thread on.
fn on_all_threads<P: Port + 'static>(ports: Vec<P>) -> impl Iterator<Item = Placed> {
    ports.into_iter().enumerate().map(|(thread, port)| (thread, Box::new(port) as Box<dyn Port>))
}

/// Binds all ports that `config` asks for. Those of `inherited` need not be bound again.
///
/// # Errors
/// Another process holds an address, or the system refuses it. A missing address family is only noted.
pub fn bind(config: &Config, surroundings: &Surroundings, inherited: &mut Inherited) -> anyhow::Result<Bound> {
    let mut bound = Bound::default();
    let streams = stream_config(config);
    // The Unix socket first: a second instance must name the running one before it complains about ports.
    bind_unix(config, &streams, surroundings, inherited, &mut bound)?;
    bind_udp(config, inherited, &mut bound)?;
    bind_multicast(config, &mut bound);
    bind_tcp(config, &streams, inherited, &mut bound)?;
    let network = std::mem::take(&mut bound.ports).into_iter().zip(config.faults.seed..);
    bound.ports.extend(network.map(|((thread, port), seed)| (thread, faulty(port, config, seed))));
    bind_encrypted(config, &streams, inherited, &mut bound)?;
    bind_websocket(config, streams, inherited, &mut bound)?;
    Ok(bound)
}

/// Opens the ports that only one process may have open: interfaces, and shared memory.
///
/// # Errors
/// As [`bind`].
pub fn open_exclusive(config: &Config) -> anyhow::Result<Bound> {
    let mut bound = Bound::default();
    open_ethernet(config, &mut bound)?;
    open_memif(config, &mut bound)?;
    let seeds = config.faults.seed.wrapping_add(EXCLUSIVE_SEEDS)..;
    let network = std::mem::take(&mut bound.ports).into_iter().zip(seeds);
    bound.ports.extend(network.map(|((thread, port), seed)| (thread, faulty(port, config, seed))));
    Ok(bound)
}

impl Bound {
    /// Adds ports of [`open_exclusive`]. They come first: some peers' datagrams come in Ethernet frames, and the UDP
    /// port would create these peers' faces itself.
    pub fn add_exclusive(&mut self, mut exclusive: Bound) {
        exclusive.ports.append(&mut self.ports);
        self.ports = exclusive.ports;
        self.ethernet.append(&mut exclusive.ethernet);
        self.memif.append(&mut exclusive.memif);
        self.notes.append(&mut exclusive.notes);
    }
}

/// Wraps a port with the faults that the configuration asks for.
fn faulty(port: Box<dyn Port>, config: &Config, seed: u64) -> Box<dyn Port> {
    match config.faults.of_port() {
        Some(faults) => Box::new(FaultPort::new(port, faults.clone(), faults, seed)),
        None => port,
    }
}

/// The capture of all packets that the configuration asks for. An existing file is replaced, or with `keeps` renamed:
/// another process may be writing it still.
///
/// # Errors
/// If the file cannot be written.
pub fn capture(config: &Config, keeps: bool) -> anyhow::Result<Option<Capture>> {
    if config.capture.file.as_os_str().is_empty() {
        return Ok(None);
    }
    let path = config.folder.join(&config.capture.file);
    if keeps {
        let mut before = path.clone().into_os_string();
        before.push(".before");
        // If there is no such file, there is nothing to keep.
        let _ = std::fs::rename(&path, before);
    }
    let capture = Capture::create(&path, config.capture.max as u64)
        .with_context(|| format!("cannot write the capture {}; see `file` under [capture]", path.display()))?;
    Ok(Some(capture))
}

impl Bound {
    /// Wraps every port in a capture, if there is one.
    pub fn capture(&mut self, capture: Option<&Capture>) {
        let Some(capture) = capture else { return };
        for ports in [&mut self.applications, &mut self.ports] {
            let captured = |(thread, port)| -> Placed { (thread, Box::new(CapturePort::new(port, capture.clone()))) };
            *ports = std::mem::take(ports).into_iter().map(captured).collect();
        }
    }
}

/// Raises the descriptor limit as far as the system allows. Each stream face needs a descriptor.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // On failure the router accepts fewer connections, and logs when it reaches the limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Maximum number of descriptors that the process may have open.
fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

fn bind_udp(config: &Config, inherited: &mut Inherited, bound: &mut Bound) -> anyhow::Result<()> {
    let udp = &config.faces.udp;
    // Without listening, UDP still needs a socket to send from, on any port.
    let port = if udp.listen { udp.port } else { 0 };
    for listen in addresses(port, udp.ipv4, udp.ipv6, "UDP", &mut bound.notes) {
        let settings = UdpConfig {
            on_demand: udp.listen,
            on_demand_faces_max: config.faces.on_demand_max,
            idle_timeout: udp.idle_timeout,
            loopback_is_local: udp.loopback_is_local,
            mtu: usize::try_from(udp.mtu).unwrap_or(usize::MAX),
            congestion_marking: config.faces.congestion_marking,
            ..UdpConfig::new(listen)
        };
        match UdpPort::bind_inherited(settings, config.threads.count, inherited) {
            Ok(ports) => {
                if udp.listen {
                    bound.udp.extend(ports.first().map(UdpPort::local_addr));
                }
                bound.ports.extend(on_all_threads(ports));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(explain(Protocol::Udp, listen)),
            Err(error) => return Err(refused(error, "UDP", listen, "[faces.udp] port")),
        }
    }
    Ok(())
}

fn bind_multicast(config: &Config, bound: &mut Bound) {
    let multicast = &config.faces.udp.multicast;
    if !multicast.enabled {
        return;
    }
    let groups = [
        config.faces.udp.ipv4.then_some(SocketAddr::V4(multicast.group_ipv4)),
        config.faces.udp.ipv6.then_some(SocketAddr::V6(multicast.group_ipv6)),
    ];
    for group in groups.into_iter().flatten() {
        let settings = MulticastConfig {
            interfaces: (!multicast.interfaces.is_empty()).then(|| multicast.interfaces.clone()),
            ad_hoc: multicast.ad_hoc,
            mtu: usize::try_from(config.faces.udp.mtu).unwrap_or(usize::MAX),
            ..MulticastConfig::new(group)
        };
        match MulticastPort::join(settings) {
            Ok(port) => {
                if port.interfaces().next().is_none() {
                    bound.notes.push(format!("no multicast on {group} yet: no interface could join"));
                } else {
                    bound.multicast.push(group);
                }
                bound.ports.push((0, Box::new(port)));
            }
            Err(error) => bound.notes.push(format!("no multicast on {group}: {error}")),
        }
    }
}

fn bind_tcp(
    config: &Config,
    streams: &StreamConfig,
    inherited: &mut Inherited,
    bound: &mut Bound,
) -> anyhow::Result<()> {
    let tcp = &config.faces.tcp;
    let listen = if tcp.listen { addresses(tcp.port, tcp.ipv4, tcp.ipv6, "TCP", &mut bound.notes) } else { Vec::new() };
    // Without listening, the port still connects to peers.
    let port = StreamPort::tcp_inherited(&listen, streams.clone(), inherited)
        .map_err(|error| explain_listen(error, &listen, "TCP", "[faces.tcp] port"))?;
    bound.tcp = local_addresses(&port);
    bound.ports.extend(on_all_threads(port.for_threads(config.threads.count)));
    Ok(())
}

/// Where the ports of an interface go.
struct Places {
    /// Number of the interface.
    number: usize,
    /// Number of packet threads.
    threads: usize,
    wanted: config::Queues,
}

fn open_ethernet(config: &Config, bound: &mut Bound) -> anyhow::Result<()> {
    for (number, ethernet) in config.faces.ethernet.iter().enumerate() {
        let settings = EthernetConfig {
            group: ethernet.multicast.then_some(ethernet.group),
            ad_hoc: ethernet.ad_hoc,
            on_demand: ethernet.listen,
            on_demand_faces_max: config.faces.on_demand_max,
            idle_timeout: ethernet.idle_timeout,
            mtu: usize::try_from(ethernet.mtu).unwrap_or(usize::MAX),
            congestion_marking: config.faces.congestion_marking,
            promiscuous: ethernet.promiscuous,
            datagrams: ethernet.datagram_peers(),
            receive_ring_bytes: ethernet.receive_ring,
            transmit_ring_bytes: ethernet.transmit_ring,
            ..EthernetConfig::new(&ethernet.interface)
        };
        let places = Places { number, threads: config.threads.count, wanted: ethernet.queues };
        match ethernet.port {
            config::EthernetPort::PacketMmap => {
                let own = RingOptions { qdisc_bypass: ethernet.qdisc_bypass };
                add_ethernet::<PacketSocket>((places, settings), own, "", bound)?;
            }
            config::EthernetPort::Xdp => {
                add_ethernet::<XdpSocket>((places, settings), ethernet.xdp_mode.of_port(), ", xdp", bound)?;
            }
            config::EthernetPort::Dpdk => open_dpdk(&config.faces.dpdk, ethernet, (places, settings), bound)?,
        }
    }
    Ok(())
}

/// Places the ports of an interface on threads, from the thread with the interface's number on. So interfaces are dealt
/// out to the threads, too.
fn on_threads_from<P: Port + 'static>(number: usize, threads: usize, ports: Vec<P>) -> impl Iterator<Item = Placed> {
    on_all_threads(ports).map(move |(queue, port)| ((number + queue) % threads, port))
}

/// Shows the number of an interface's ports if it has several.
fn queues(ports: usize) -> String {
    if ports > 1 { format!(", {ports} queues") } else { String::new() }
}

#[cfg(feature = "dpdk")]
fn open_dpdk(
    dpdk: &config::Dpdk,
    ethernet: &config::Ethernet,
    (places, settings): (Places, EthernetConfig),
    bound: &mut Bound,
) -> anyhow::Result<()> {
    let environment = Environment::start(&dpdk.eal)?;
    let name = &ethernet.dpdk_device;
    // Shared memory has as many queues as its other end wants, and usually that is one.
    let is_memory = name.starts_with("net_memif") && ethernet.queues == config::Queues::Auto;
    let queues = if is_memory { 1 } else { ethernet.queues.ports(places.threads) };
    let device = Settings::new(name, ethernet.dpdk_mtu, &settings.socket(), queues);
    add_ethernet::<DpdkSocket>((places, settings), Device::open(environment, &device)?, ", dpdk", bound)
}

#[cfg(not(feature = "dpdk"))]
fn open_dpdk(_: &config::Dpdk, _: &config::Ethernet, _: (Places, EthernetConfig), _: &mut Bound) -> anyhow::Result<()> {
    unreachable!("`examine` refuses such interfaces")
}

fn add_ethernet<S: FrameSocket + 'static>(
    (places, settings): (Places, EthernetConfig),
    own: S::Config,
    remark: &str,
    bound: &mut Bound,
) -> anyhow::Result<()> {
    let interface = settings.interface.clone();
    let Places { number, threads, wanted } = places;
    let ports = EthernetPort::<S>::open_for_threads(settings, own, wanted.ports(threads))
        .context("see [[faces.ethernet]] in the configuration")?;
    let queues = queues(ports.len());
    bound.ethernet.extend(ports.first().map(|port| format!("{interface} ({}{remark}{queues})", port.address())));
    bound.ports.extend(on_threads_from(number, threads, ports));
    Ok(())
}

fn open_memif(config: &Config, bound: &mut Bound) -> anyhow::Result<()> {
    let threads = config.threads.count;
    for (number, memif) in config.faces.memif.iter().enumerate() {
        let settings = memif.port(config.faces.congestion_marking);
        let ports = MemifPort::open_for_threads(settings, memif.queues.ports(threads))
            .context("see [[faces.memif]] in the configuration")?;
        bound.memif.extend(ports.first().map(|port| port.uri().to_string()));
        bound.ports.extend(on_threads_from(number, threads, ports));
    }
    Ok(())
}

fn bind_websocket(
    config: &Config,
    streams: StreamConfig,
    inherited: &mut Inherited,
    bound: &mut Bound,
) -> anyhow::Result<()> {
    let websocket = &config.faces.websocket;
    if !websocket.listen {
        return Ok(());
    }
    let listen = addresses(websocket.port, websocket.ipv4, websocket.ipv6, "WebSocket", &mut bound.notes);
    let settings = StreamConfig { local_origins: websocket.local_origins.clone(), ..streams };
    let port = StreamPort::websocket_inherited(&listen, settings, inherited)
        .map_err(|error| explain_listen(error, &listen, "WebSocket", "[faces.websocket] port"))?;
    bound.websocket = local_addresses(&port);
    bound.ports.extend(on_all_threads(port.for_threads(config.threads.count)));
    Ok(())
}

/// Opens the listeners of encrypted faces, and starts their thread.
fn bind_encrypted(
    config: &Config,
    streams: &StreamConfig,
    inherited: &mut Inherited,
    bound: &mut Bound,
) -> anyhow::Result<()> {
    if !config.has_encrypted_faces() {
        return Ok(());
    }
    let (wss, quic) = (&config.faces.wss, &config.faces.quic);
    let mut of_tls = Vec::new();
    for at in addresses(wss.port, wss.ipv4, wss.ipv6, "WebSocket over TLS", &mut bound.notes) {
        let wanted = FaceUri::SecureWebSocket(at).to_string();
        match inherited.take("wss", |socket| socket.local == wanted).pop() {
            _ if !wss.listen => break,
            Some(socket) => of_tls.push(socket.into()),
            None => of_tls.push(listen_tcp(at)?),
        }
    }
    let mut of_quic = Vec::new();
    for at in addresses(quic.port, quic.ipv4, quic.ipv6, "QUIC", &mut bound.notes) {
        let wanted = FaceUri::Quic(at).to_string();
        match inherited.take("quic", |socket| socket.local == wanted).pop() {
            _ if !quic.listen => break,
            Some(socket) => of_quic.push(socket.into()),
            None => of_quic.push(listen_udp(at)?),
        }
    }
    let settings = StreamConfig { local_origins: config.faces.websocket.local_origins.clone(), ..streams.clone() };
    let (tls_caller, tls_calls) = byname_secure::calls();
    let (quic_caller, quic_calls) = byname_secure::calls();
    let shared = of_tls.iter().map(|l: &TcpListener| Ok((l.local_addr()?, l.try_clone()?.into())));
    let shared = shared.collect::<std::io::Result<Vec<_>>>()?;
    bound.wss = shared.iter().map(|(address, _)| *address).collect();
    let (tls_ports, tls_door) =
        StreamPort::behind_door(Encryption::Tls, shared, &settings, config.threads.count, &tls_caller);
    let shared = of_quic.iter().map(|s: &UdpSocket| Ok((s.local_addr()?, s.try_clone()?.into())));
    let shared = shared.collect::<std::io::Result<Vec<_>>>()?;
    bound.quic = shared.iter().map(|(address, _)| *address).collect();
    let (quic_ports, quic_door) =
        StreamPort::behind_door(Encryption::Quic, shared, &settings, config.threads.count, &quic_caller);
    bound.ports.extend(on_all_threads(tls_ports));
    bound.ports.extend(on_all_threads(quic_ports));
    let (files, trusted) = encryption_of(config);
    let mut names = config.tls.names.clone();
    names.extend(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]);
    let secure = Secure::start(SecureConfig {
        files,
        names,
        acme: authority_of(config),
        trusted,
        quic_strangers: config.faces.quic.strangers,
        tls: Service { listeners: of_tls, door: tls_door, calls: tls_calls },
        quic: Service { listeners: of_quic, door: quic_door, calls: quic_calls },
        limits: Limits { stall_time: config.faces.stream.stall_timeout, ..Limits::default() },
    });
    bound.secure = Some(secure.context("see [tls] in the configuration")?);
    Ok(())
}

/// The certificate's files, and the routers that faces may connect to.
pub fn encryption_of(config: &Config) -> (Option<Files>, Trusted) {
    let tls = &config.tls;
    let files = (!tls.certificate.as_os_str().is_empty())
        .then(|| Files { certificate: config.folder.join(&tls.certificate), key: config.folder.join(&tls.key) });
    // The configuration has checked their form.
    let certificates = tls.peers.iter().filter_map(|peer| peer.parse().ok()).collect();
    (files, Trusted { certificates, network: routing::network_keys(config).map(Arc::new) })
}

/// The authority that gives certificates, if one is configured.
fn authority_of(config: &Config) -> Option<AcmeConfig> {
    let (acme, inside) = (&config.tls.acme, |path: &Path| config.folder.join(path));
    let is_set = |path: &Path| !path.as_os_str().is_empty();
    let folder = if is_set(&acme.folder) { Some(inside(&acme.folder)) } else { None };
    let folder = folder.or_else(|| state::folders(config).into_iter().next().map(|state| state.join("acme")))?;
    (!acme.directory.is_empty()).then(|| AcmeConfig {
        directory: acme.directory.clone(),
        contact: acme.contact.clone(),
        names: config.tls.names.clone(),
        folder,
        listen: acme.listen,
        roots: is_set(&acme.roots).then(|| inside(&acme.roots)),
    })
}

/// Adds the certificate to the snapshots that `ask` asks for.
pub fn adds_certificate(
    secure: Option<&Secure>,
    ask: impl Fn(Tell) -> bool + Send + Sync + 'static,
) -> impl Fn(Tell) -> bool + Send + Sync + 'static {
    let of = secure.map(Secure::teller);
    move |tell: Tell| {
        let certificate = of.as_ref().map(|of| {
            let Summary { expires, failures, .. } = of();
            let ends = expires.and_then(|ends| ends.duration_since(SystemTime::UNIX_EPOCH).ok());
            CertificateCounts { ends_s: ends.map(|ends| ends.as_secs()), failures }
        });
        ask(Box::new(move |snapshot| tell(Snapshot { certificate, ..snapshot })))
    }
}

/// What `/certificate` of the web server says.
pub fn tells_certificate(secure: &Secure) -> Box<dyn Fn() -> String + Send + Sync> {
    let tell = secure.teller();
    Box::new(move || {
        let Summary { fingerprint, expires, .. } = tell();
        let expires = expires.map(|time| humantime::format_rfc3339_seconds(time).to_string());
        let told = serde_json::json!({
            "sha256": fingerprint.base64(), "fingerprint": fingerprint.to_string(), "expires": expires,
        });
        format!("{told}\n")
    })
}

fn listen_tcp(at: SocketAddr) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = ip_socket(&at, SocketType::STREAM, SocketFlags::NONBLOCK)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &at)?;
        rustix::net::listen(&socket, 1024)?;
        Ok(TcpListener::from(socket))
    };
    listen().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(explain(Protocol::Tcp, at)),
        _ => refused(error, "WebSocket over TLS", at, "[faces.wss] port"),
    })
}

fn listen_udp(at: SocketAddr) -> anyhow::Result<UdpSocket> {
    let listen = || {
        let socket = ip_socket(&at, SocketType::DGRAM, SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &at)?;
        Ok(UdpSocket::from(socket))
    };
    listen().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(explain(Protocol::Udp, at)),
        _ => refused(error, "QUIC", at, "[faces.quic] port"),
    })
}

fn bind_unix(
    config: &Config,
    streams: &StreamConfig,
    surroundings: &Surroundings,
    inherited: &mut Inherited,
    bound: &mut Bound,
) -> anyhow::Result<()> {
    if !config.faces.unix.listen {
        return Ok(());
    }
    let candidates = surroundings.candidates(&config.faces.unix.path);
    let mut refusals = Vec::new();
    for path in candidates {
        let port = match StreamPort::unix_inherited(&path, streams.clone(), inherited) {
            Ok(Some(port)) => Ok(port),
            // The file is gone or replaced, so nobody can connect to that socket.
            Ok(None) | Err(_) => StreamPort::unix(&[&path], streams.clone()),
        };
        match port {
            Ok(port) => {
                bound.unix = Some(path);
                bound.applications.extend(on_all_threads(port.for_threads(config.threads.count)));
                return Ok(());
            }
            Err(ListenError::System { error, .. })
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                refusals.push(format!("{}: {error}", path.display()));
            }
            Err(ListenError::InUse { uri, holder }) => bail!(
                "{uri} is in use by {holder}: `byname status` shows the running forwarder; \
                 to run two, give this one a configuration with another path and other ports (`byname default-config`)"
            ),
            Err(error) => return Err(error).context("the Unix socket; see `path` under [faces.unix]"),
        }
    }
    bail!(
        "the Unix socket cannot be created ({}); set `path` under [faces.unix], or XDG_RUNTIME_DIR, to a place where \
         this user may create it",
        refusals.join("; ")
    )
}

/// The addresses that a port listens on, with the port numbers that the system chose.
fn local_addresses(port: &StreamPort) -> Vec<SocketAddr> {
    let address = |uri: &FaceUri| match uri {
        FaceUri::Tcp(address) | FaceUri::WebSocket(address) => Some(*address),
        _ => None,
    };
    port.local_uris().filter_map(address).collect()
}

/// The settings that all stream ports share.
fn stream_config(config: &Config) -> StreamConfig {
    let flags = LinkFlags { congestion_marking: config.faces.congestion_marking, ..LinkFlags::default() };
    let stream = &config.faces.stream;
    StreamConfig {
        connections_max: config.faces.on_demand_max,
        connections_per_address_max: config.faces.connections_per_address_max,
        descriptors: Descriptors::new(descriptor_limit()),
        queue_bytes_max: stream.queue_max,
        local_queue_bytes_max: stream.local_queue_max,
        queues_bytes_max: stream.queues_max,
        stall_timeout: stream.stall_timeout,
        link: LinkConfig { flags, ..LinkConfig::default() },
        ..StreamConfig::default()
    }
}

/// The wildcard addresses of the wanted families that this machine has.
fn addresses(port: u16, ipv4: bool, ipv6: bool, what: &str, notes: &mut Vec<String>) -> Vec<SocketAddr> {
    let wanted = [
        ipv4.then_some(("IPv4", IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        ipv6.then_some(("IPv6", IpAddr::V6(Ipv6Addr::UNSPECIFIED))),
    ];
    let mut addresses = Vec::new();
    for (family, ip) in wanted.into_iter().flatten() {
        match UdpSocket::bind((ip, 0)) {
            Ok(_) => addresses.push(SocketAddr::new(ip, port)),
            Err(error) => notes.push(format!("no {what} over {family}: this machine has no {family} ({error})")),
        }
    }
    addresses
}

fn refused(error: std::io::Error, what: &str, address: SocketAddr, setting: &str) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("ports below 1024 are for root: change {setting}, or grant CAP_NET_BIND_SERVICE")
        }
        _ => format!("see {setting} in the configuration"),
    };
    anyhow!("cannot listen on {what} {address}: {error}; {advice}")
}

fn explain_listen(error: ListenError, wanted: &[SocketAddr], what: &str, setting: &str) -> anyhow::Error {
    match error {
        ListenError::InUse { uri, .. } => {
            let text = uri.to_string();
            let address = wanted.iter().find(|a| text.ends_with(&a.to_string())).or(wanted.first());
            match address {
                Some(address) => anyhow!(explain(Protocol::Tcp, *address)),
                None => anyhow!("{what}: {uri} is in use"),
            }
        }
        ListenError::System { error, uri } => {
            let address = wanted.iter().find(|a| uri.to_string().ends_with(&a.to_string())).or(wanted.first());
            match address {
                Some(address) => refused(error, what, *address, setting),
                None => anyhow!("{what}: {uri}: {error}"),
            }
        }
        other => anyhow!(other),
    }
}
