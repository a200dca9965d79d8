//! Face URIs in their canonical form, which routing daemons compare as strings.
//!
//! [`FaceUri`] reads and writes only the canonical form: numeric addresses and ports. An IPv6 link-local address has
//! the name of the interface as its zone. [`canonize_numeric`] turns what people type into this form.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use thiserror::Error;

use crate::mac_address::MacAddress;

/// Default port of UDP and TCP faces.
const NDN_PORT: u16 = 6363;
/// Default port of WebSocket faces.
const WEBSOCKET_PORT: u16 = 9696;
/// Default port of faces over TLS.
pub const SECURE_WEBSOCKET_PORT: u16 = 9697;
/// Default port of faces over QUIC.
pub const QUIC_PORT: u16 = 9698;

/// One end of a face.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// `internal://`.
    Internal,
    /// `contentstore://`.
    ContentStore,
    /// `null://`.
    Null,
    /// `udp4://192.0.2.1:6363`, `udp6://[2001:db8::1]:6363`. Also multicast groups.
    Udp(SocketAddr),
    /// `tcp4://...`, `tcp6://...`.
    Tcp(SocketAddr),
    /// `ws://192.0.2.1:9696`.
    WebSocket(SocketAddr),
    /// `wss://192.0.2.1:9697`, WebSocket over TLS.
    SecureWebSocket(SocketAddr),
    /// `quic://192.0.2.1:9698`, WebTransport over HTTP/3.
    Quic(SocketAddr),
    /// `wsclient://192.0.2.1:55555`, the remote end of an accepted WebSocket, with TLS or without.
    WebSocketClient(SocketAddr),
    /// `unix:///run/nfd/nfd.sock`.
    Unix(PathBuf),
    /// `fd://7`, the remote end of an accepted Unix connection.
    Fd(u64),
    /// `ether://[08:00:27:01:02:03]`. Also groups.
    Ethernet(MacAddress),
    /// `dev://eth0`, the local end of a multicast or Ethernet face.
    Dev(String),
    /// `memif:///run/byname/memif.sock?id=0`, both ends of an interface in shared memory. Further rings of the interface
    /// are as `memif:///run/byname/memif.sock?id=0&ring=1`.
    Memif {
        /// Path of the control socket.
        socket: PathBuf,
        /// Number of the interface.
        id: u32,
        /// Number of the ring, from 0.
        ring: u16,
    },
}

/// Reason why a string is not a canonical face URI.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{uri}' is not a face URI in canonical form: {reason}")]
pub struct FaceUriError {
    /// The string.
    pub uri: String,
    /// What is wrong with the string.
    pub reason: &'static str,
}

impl std::str::FromStr for FaceUri {
    type Err = FaceUriError;
    /// Reads only the canonical form: numeric addresses and ports, `udp4`/`udp6`/`tcp4`/`tcp6`.
    fn from_str(uri: &str) -> Result<Self, FaceUriError> {
        let fail = |reason| FaceUriError { uri: uri.to_owned(), reason };
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| fail("there is no scheme"))?;
        let parsed = match scheme {
            "internal" | "contentstore" | "null" if !rest.is_empty() => return Err(fail("nothing may follow '://'")),
            "internal" => FaceUri::Internal,
            "contentstore" => FaceUri::ContentStore,
            "null" => FaceUri::Null,
            "udp4" | "tcp4" => FaceUri::of_scheme(scheme, socket_addr_v4(rest).map_err(fail)?),
            "udp6" | "tcp6" => FaceUri::of_scheme(scheme, socket_addr_v6(rest).map_err(fail)?),
            "ws" | "wss" | "quic" | "wsclient" if rest.starts_with('[') => {
                FaceUri::of_scheme(scheme, socket_addr_v6(rest).map_err(fail)?)
            }
            "ws" | "wss" | "quic" | "wsclient" => FaceUri::of_scheme(scheme, socket_addr_v4(rest).map_err(fail)?),
            "unix" if rest.len() > 1 && rest.starts_with('/') => FaceUri::Unix(PathBuf::from(rest)),
            "unix" => return Err(fail("an absolute path must follow '://'")),
            "fd" => FaceUri::Fd(rest.parse().map_err(|_| fail("a descriptor number must follow '://'"))?),
            "ether" => FaceUri::Ethernet(mac_address(rest).map_err(fail)?),
            "dev" if rest.is_empty() || rest.contains(['/', ':']) => {
                return Err(fail("the name of an interface must follow '://'"));
            }
            "dev" => FaceUri::Dev(rest.to_owned()),
            "memif" => memif(rest).map_err(fail)?,
            "udp" | "tcp" => return Err(fail("the scheme must say udp4, udp6, tcp4 or tcp6")),
            _ => return Err(fail("the scheme is unknown")),
        };
        if parsed.connects_to().is_some_and(|addr| addr.ip().is_multicast()) {
            return Err(fail("connections have no multicast addresses"));
        }
        // The simplest way to refuse leading zeros, long forms of IPv6 and the like.
        if parsed.to_string() == uri { Ok(parsed) } else { Err(fail("numbers are not in their shortest form")) }
    }
}

impl fmt::Display for FaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |addr: &SocketAddr| if addr.is_ipv4() { 4 } else { 6 };
        match self {
            FaceUri::Internal => f.write_str("internal://"),
            FaceUri::ContentStore => f.write_str("contentstore://"),
            FaceUri::Null => f.write_str("null://"),
            FaceUri::Udp(addr) => write!(f, "udp{}://{}", version(addr), Zoned(addr)),
            FaceUri::Tcp(addr) => write!(f, "tcp{}://{}", version(addr), Zoned(addr)),
            FaceUri::WebSocket(addr) => write!(f, "ws://{}", Zoned(addr)),
            FaceUri::SecureWebSocket(addr) => write!(f, "wss://{}", Zoned(addr)),
            FaceUri::Quic(addr) => write!(f, "quic://{}", Zoned(addr)),
            FaceUri::WebSocketClient(addr) => write!(f, "wsclient://{}", Zoned(addr)),
            FaceUri::Unix(path) => write!(f, "unix://{}", path.display()),
            FaceUri::Fd(fd) => write!(f, "fd://{fd}"),
            FaceUri::Ethernet(address) => write!(f, "ether://[{address}]"),
            FaceUri::Dev(name) => write!(f, "dev://{name}"),
            FaceUri::Memif { socket, id, ring } => {
                write!(f, "memif://{}?id={id}", socket.display())?;
                if *ring > 0 { write!(f, "&ring={ring}") } else { Ok(()) }
            }
        }
    }
}

impl FaceUri {
    /// Whether this is the address of a group, whose packets may have several receivers.
    pub fn is_group(&self) -> bool {
        match self {
            FaceUri::Udp(addr) => addr.ip().is_multicast(),
            FaceUri::Ethernet(address) => address.is_group(),
            _ => false,
        }
    }

    /// The address that a face with this remote URI connects to, if it is made by connecting.
    pub fn connects_to(&self) -> Option<SocketAddr> {
        match self {
            FaceUri::Tcp(addr) | FaceUri::WebSocket(addr) | FaceUri::SecureWebSocket(addr) | FaceUri::Quic(addr) => {
                Some(*addr)
            }
            _ => None,
        }
    }

    /// Builds a URI of an IP scheme.
    fn of_scheme(scheme: &str, addr: SocketAddr) -> FaceUri {
        match scheme {
            "udp4" | "udp6" => FaceUri::Udp(addr),
            "tcp4" | "tcp6" => FaceUri::Tcp(addr),
            "ws" => FaceUri::WebSocket(addr),
            "wss" => FaceUri::SecureWebSocket(addr),
            "quic" => FaceUri::Quic(addr),
            _ => FaceUri::WebSocketClient(addr),
        }
    }
}

/// Formats an address with the name of its zone instead of the number.
struct Zoned<'a>(&'a SocketAddr);

impl fmt::Display for Zoned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V6(addr) if addr.scope_id() != 0 => match interface_name(addr.scope_id()) {
                Some(zone) => write!(f, "[{}%{zone}]:{}", addr.ip(), addr.port()),
                None => write!(f, "[{}%{}]:{}", addr.ip(), addr.scope_id(), addr.port()),
            },
            SocketAddr::V6(addr) => write!(f, "[{}]:{}", addr.ip(), addr.port()),
            SocketAddr::V4(addr) => addr.fmt(f),
        }
    }
}

fn socket_addr_v4(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse::<SocketAddrV4>().map(SocketAddr::V4).map_err(|_| "a numeric IPv4 address and a port must follow '://'")
}

fn socket_addr_v6(text: &str) -> Result<SocketAddr, &'static str> {
    const MALFORMED: &str = "a numeric IPv6 address in brackets and a port must follow '://'";
    let (host, port) = text.strip_prefix('[').and_then(|t| t.split_once("]:")).ok_or(MALFORMED)?;
    let port = port.parse().map_err(|_| MALFORMED)?;
    let (ip, zone) = match host.split_once('%') {
        Some((ip, zone)) => (ip, interface_index(zone).ok_or("there is no interface of this name")?),
        None => (host, 0),
    };
    Ok(SocketAddrV6::new(ip.parse().map_err(|_| MALFORMED)?, port, 0, zone).into())
}

fn mac_address(text: &str) -> Result<MacAddress, &'static str> {
    let bytes = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    bytes.and_then(|o| o.parse().ok()).ok_or("a MAC address in brackets must follow '://'")
}

fn memif(text: &str) -> Result<FaceUri, &'static str> {
    let (socket, id) = text.rsplit_once("?id=").ok_or("a number must follow '?id='")?;
    if socket.len() < 2 || !socket.starts_with('/') {
        return Err("an absolute path must follow '://'");
    }
    let (id, ring) = match id.split_once("&ring=") {
        Some((id, ring)) => (id, ring.parse().map_err(|_| "a number must follow '&ring='")?),
        None => (id, 0),
    };
    let id = id.parse().map_err(|_| "a number must follow '?id='")?;
    Ok(FaceUri::Memif { socket: PathBuf::from(socket), id, ring })
}

fn interface_index(name: &str) -> Option<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netdevice::name_to_index(&any, name).ok().or_else(|| name.parse().ok())
}

fn interface_name(index: u32) -> Option<String> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netdevice::index_to_name(&any, index).ok()
}

/// Turns a face URI with a numeric address, as people type it, into the canonical form. Returns `None` for all others.
///
/// Ports default to 6363 (9696 for `ws`, 9697 for `wss`, 9698 for `quic`). `udp` and `tcp` become `udp4` and so on, as the address demands.
pub fn canonize_numeric(uri: &str) -> Option<FaceUri> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, port) = split_host(rest.strip_suffix('/').unwrap_or(rest))?;
    let ip: IpAddr = host.parse().ok()?;
    let (transport, default_port) = match scheme {
        "udp" | "udp4" | "udp6" => ("udp4", NDN_PORT),
        "tcp" | "tcp4" | "tcp6" => ("tcp4", NDN_PORT),
        "ws" => ("ws", WEBSOCKET_PORT),
        "wss" => ("wss", SECURE_WEBSOCKET_PORT),
        "quic" => ("quic", QUIC_PORT),
        _ => return None,
    };
    if scheme.ends_with('4') && ip.is_ipv6() || scheme.ends_with('6') && ip.is_ipv4() {
        return None;
    }
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => default_port,
    };
    let canonical = FaceUri::of_scheme(transport, SocketAddr::new(ip, port));
    // Refuses URIs whose address their scheme forbids, such as multicast over TCP.
    canonical.to_string().parse().ok()
}

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address into host and port.
fn split_host(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(text) = text.strip_prefix('[') {
        let (host, port) = text.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => port.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some(_) if text.matches(':').count() > 1 => Some((text, None)),
        Some(("", _)) => None,
        Some((host, port)) => Some((host, Some(port))),
        None => (!text.is_empty()).then_some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms_read_as_they_are_written() {
        for uri in [
            "internal://",
            "contentstore://",
            "null://",
            "udp4://127.0.0.1:6363",
            "udp4://224.0.23.170:56363",
            "udp6://[::1]:6363",
            "udp6://[fe80::1%lo]:6363",
            "udp6://[ff02::1234%lo]:56363",
            "tcp4://192.0.2.1:1",
            "tcp6://[2001:db8::1]:65535",
            "ws://192.0.2.1:9696",
            "ws://[::]:9696",
            "wsclient://192.0.2.1:55555",
            "wss://192.0.2.1:9697",
            "wss://[::1]:443",
            "quic://192.0.2.1:9698",
            "quic://[2001:db8::1]:443",
            "unix:///run/nfd/nfd.sock",
            "fd://7",
            "ether://[08:00:27:0a:00:ff]",
            "dev://eth0",
            "memif:///run/byname/memif.sock?id=0",
            "memif:///run/a?id=b.sock?id=4294967295",
            "memif:///run/byname/memif.sock?id=7&ring=65535",
        ] {
            let parsed: FaceUri = uri.parse().unwrap_or_else(|e| panic!("{uri}: {e}"));
            assert_eq!(parsed.to_string(), uri);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for uri in [
            "",
            "udp4",
            "udp4:127.0.0.1:6363",
            "udp4://",
            "udp4://127.0.0.1",
            "udp4://127.0.0.1:",
            "udp4://127.0.0.1:65536",
            "udp4://127.0.0.1:06363",
            "udp4://127.0.0.01:6363",
            "udp4://example.net:6363",
            "udp4://127.0.0.1:6363/",
            "udp4://[::1]:6363",
            "udp6://127.0.0.1:6363",
            "udp6://[::1]",
            "udp6://::1:6363",
            "udp6://[0::1]:6363",
            "udp6://[::A]:6363",
            "udp6://[fe80::1%no-such-interface]:6363",
            "udp://127.0.0.1:6363",
            "tcp://127.0.0.1:6363",
            "tcp4://224.0.23.170:6363",
            "UDP4://127.0.0.1:6363",
            "internal://x",
            "unix://",
            "unix://relative",
            "fd://",
            "fd://-1",
            "fd://07",
            "ether://08:00:27:01:02:03",
            "ether://[08:00:27:0A:02:03]",
            "ether://[08:00:27:01:02]",
            "dev://",
            "dev://a/b",
            "memif://",
            "memif:///run/memif.sock",
            "memif:///?id=0",
            "memif://relative?id=0",
            "memif:///run/memif.sock?id=",
            "memif:///run/memif.sock?id=00",
            "memif:///run/memif.sock?id=4294967296",
            "memif:///run/memif.sock?id=1&ring=",
            "memif:///run/memif.sock?id=1&ring=0",
            "memif:///run/memif.sock?id=1&ring=65536",
            "memif:///run/memif.sock?ring=1",
            "gopher://127.0.0.1:70",
        ] {
            assert!(uri.parse::<FaceUri>().is_err(), "{uri}");
        }
    }

    #[test]
    fn what_people_type_becomes_canonical() {
        for (typed, canonical) in [
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp://192.0.2.1/", "udp4://192.0.2.1:6363"),
            ("udp4://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp://192.0.2.1:7000", "udp4://192.0.2.1:7000"),
            ("udp://[2001:db8:0::1]", "udp6://[2001:db8::1]:6363"),
            ("udp://2001:db8::1", "udp6://[2001:db8::1]:6363"),
            ("tcp://[::1]:7000", "tcp6://[::1]:7000"),
            ("ws://192.0.2.1", "ws://192.0.2.1:9696"),
            ("tcp4://192.0.2.1:7000", "tcp4://192.0.2.1:7000"),
        ] {
            let made = canonize_numeric(typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!(made.to_string(), canonical, "{typed}");
        }
    }

    #[test]
    fn other_uris_have_no_canonical_form() {
        let no_numbers = ["udp://localhost:6363", "udp://[fe80::1%nowhere]", "unix:///run/nfd.sock", "x", "udp://"];
        let wrong = ["udp6://192.0.2.1", "udp4://[::1]", "udp://:6363", "udp://[::1", "tcp://224.0.23.170"];
        for uri in no_numbers.into_iter().chain(wrong).chain(["http://192.0.2.1", "udp://192.0.2.1:99999"]) {
            assert_eq!(canonize_numeric(uri), None, "{uri}");
        }
    }
}
