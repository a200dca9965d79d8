//! Face URIs in their canonical form, which routing daemons compare as strings.
//!
//! [`FaceUri`] reads and writes the canonical form only: numeric addresses and ports, and for
//! IPv6 link-local addresses the name of the interface as zone. [`canonize`] turns what people type
//! into it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use thiserror::Error;

use crate::mac_address::MacAddress;

/// Port of UDP and TCP faces where none is given.
pub const NDN_PORT: u16 = 6363;
/// Port of WebSocket faces where none is given.
pub const WEBSOCKET_PORT: u16 = 9696;

/// One end of a face.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// `internal://`
    Internal,
    /// `contentstore://`
    ContentStore,
    /// `null://`
    Null,
    /// `udp4://192.0.2.1:6363`, `udp6://[2001:db8::1]:6363`; multicast groups too.
    Udp(SocketAddr),
    /// `tcp4://...`, `tcp6://...`
    Tcp(SocketAddr),
    /// `ws://192.0.2.1:9696`
    WebSocket(SocketAddr),
    /// `wsclient://192.0.2.1:55555`, the remote end of an accepted WebSocket.
    WebSocketClient(SocketAddr),
    /// `unix:///run/nfd/nfd.sock`
    Unix(PathBuf),
    /// `fd://7`, the remote end of an accepted Unix connection.
    Fd(u64),
    /// `ether://[08:00:27:01:02:03]`; groups too.
    Ethernet(MacAddress),
    /// `dev://eth0`, the local end of a multicast or Ethernet face.
    Dev(String),
    /// `memif:///run/byname/memif.sock?id=0`: an interface in shared memory, both ends.
    Memif {
        /// The control socket.
        socket: PathBuf,
        /// Number of the interface.
        id: u32,
    },
}

/// Why a string is not a canonical face URI.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{uri}' is not a face URI in canonical form: {reason}")]
pub struct FaceUriError {
    /// The string.
    pub uri: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Why a string cannot be made a canonical face URI.
#[derive(Debug, Error)]
pub enum CanonizeError {
    /// It has no canonical form.
    #[error(transparent)]
    Malformed(#[from] FaceUriError),
    /// The name of its host cannot be looked up.
    #[error("cannot look up '{host}': {error}")]
    Lookup {
        /// The host.
        host: String,
        /// What the resolver said.
        #[source]
        error: std::io::Error,
    },
    /// The host has no address of the wanted family.
    #[error("'{host}' has no {family} address")]
    NoAddress {
        /// The host.
        host: String,
        /// `IPv4`, `IPv6` or `IP`.
        family: &'static str,
    },
}

impl std::str::FromStr for FaceUri {
    type Err = FaceUriError;
    /// Reads the canonical form only: numeric addresses and ports, `udp4`/`udp6`/`tcp4`/`tcp6`.
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
            "ws" | "wsclient" if rest.starts_with('[') => {
                FaceUri::of_scheme(scheme, socket_addr_v6(rest).map_err(fail)?)
            }
            "ws" | "wsclient" => FaceUri::of_scheme(scheme, socket_addr_v4(rest).map_err(fail)?),
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
        if matches!(parsed, FaceUri::Tcp(addr) | FaceUri::WebSocket(addr) if addr.ip().is_multicast()) {
            return Err(fail("streams have no multicast addresses"));
        }
        // The shortest way to refuse leading zeros, long forms of IPv6 and the like.
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
            FaceUri::WebSocketClient(addr) => write!(f, "wsclient://{}", Zoned(addr)),
            FaceUri::Unix(path) => write!(f, "unix://{}", path.display()),
            FaceUri::Fd(fd) => write!(f, "fd://{fd}"),
            FaceUri::Ethernet(address) => write!(f, "ether://[{address}]"),
            FaceUri::Dev(name) => write!(f, "dev://{name}"),
            FaceUri::Memif { socket, id } => write!(f, "memif://{}?id={id}", socket.display()),
        }
    }
}

impl FaceUri {
    /// A URI of an IP scheme.
    fn of_scheme(scheme: &str, addr: SocketAddr) -> FaceUri {
        match scheme {
            "udp4" | "udp6" => FaceUri::Udp(addr),
            "tcp4" | "tcp6" => FaceUri::Tcp(addr),
            "ws" => FaceUri::WebSocket(addr),
            _ => FaceUri::WebSocketClient(addr),
        }
    }
}

/// Writes an address with the name of its zone instead of the number.
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
    let octets = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    octets.and_then(|o| o.parse().ok()).ok_or("a MAC address in brackets must follow '://'")
}

fn memif(text: &str) -> Result<FaceUri, &'static str> {
    let (socket, id) = text.rsplit_once("?id=").ok_or("a number must follow '?id='")?;
    if socket.len() < 2 || !socket.starts_with('/') {
        return Err("an absolute path must follow '://'");
    }
    let id = id.parse().map_err(|_| "a number must follow '?id='")?;
    Ok(FaceUri::Memif { socket: PathBuf::from(socket), id })
}

fn interface_index(name: &str) -> Option<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netdevice::name_to_index(&any, name).ok().or_else(|| name.parse().ok())
}

fn interface_name(index: u32) -> Option<String> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    netdevice::index_to_name(&any, index).ok()
}

/// Turns a face URI as people type it into the canonical form.
///
/// Ports default to 6363 (9696 for `ws`); `udp` and `tcp` become `udp4` and so on after the
/// address; names are looked up, and the first address of the right family is taken; a `unix` path
/// is made absolute and free of links where it exists. May wait for the resolver.
pub fn canonize(uri: &str) -> Result<FaceUri, CanonizeError> {
    let fail = |reason| FaceUriError { uri: uri.to_owned(), reason };
    let not_canonical = match uri.parse::<FaceUri>() {
        Ok(FaceUri::Unix(path)) => return Ok(FaceUri::Unix(path.canonicalize().unwrap_or(path))),
        Ok(canonical) => return Ok(canonical),
        Err(error) => error,
    };
    let (scheme, rest) = uri.split_once(':').ok_or(not_canonical.clone())?;
    if scheme == "unix" {
        let path = std::path::absolute(rest.strip_prefix("//").unwrap_or(rest)).map_err(|_| not_canonical)?;
        return Ok(FaceUri::Unix(path.canonicalize().unwrap_or(path)));
    }
    let rest = rest.strip_prefix("//").ok_or(not_canonical.clone())?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if scheme == "ether" {
        let bare = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')).unwrap_or(rest);
        return bare.parse().map(FaceUri::Ethernet).map_err(|_| not_canonical.into());
    }
    let (default_port, family) = match scheme {
        "udp" | "tcp" => (NDN_PORT, "IP"),
        "udp4" | "tcp4" => (NDN_PORT, "IPv4"),
        "udp6" | "tcp6" => (NDN_PORT, "IPv6"),
        "ws" => (WEBSOCKET_PORT, "IP"),
        _ => return Err(not_canonical.into()),
    };
    let (host, port) = split_host(rest).ok_or_else(|| fail("a host, and perhaps a port, must follow '://'"))?;
    let port = match port {
        Some(port) => port.parse().map_err(|_| fail("the port is no number below 65,536"))?,
        None => default_port,
    };
    let addr = look_up(host, port, family)?;
    let transport = if scheme.starts_with("udp") { "udp4" } else { scheme };
    let transport = if scheme.starts_with("tcp") { "tcp4" } else { transport };
    let canonical = FaceUri::of_scheme(transport, addr);
    // Refuses what has an address but cannot be, such as multicast over TCP.
    Ok(canonical.to_string().parse()?)
}

/// What [`canonize`] makes of a URI with a numeric address; `None` for all others.
///
/// Never waits for the resolver.
pub fn canonize_numeric(uri: &str) -> Option<FaceUri> {
    let (_, rest) = uri.split_once("://")?;
    let (host, _) = split_host(rest.strip_suffix('/').unwrap_or(rest))?;
    host.parse::<IpAddr>().ok()?;
    canonize(uri).ok()
}

/// Host and port of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address.
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

fn look_up(host: &str, port: u16, family: &'static str) -> Result<SocketAddr, CanonizeError> {
    let fits = |addr: &SocketAddr| match family {
        "IPv4" => addr.is_ipv4(),
        "IPv6" => addr.is_ipv6(),
        _ => true,
    };
    if let Some((ip, zone)) = host.split_once('%')
        && let (Ok(ip), Some(zone)) = (ip.parse(), interface_index(zone.strip_prefix("25").unwrap_or(zone)))
        && family != "IPv4"
    {
        return Ok(SocketAddrV6::new(ip, port, 0, zone).into());
    }
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => (host, port)
            .to_socket_addrs()
            .map_err(|error| CanonizeError::Lookup { host: host.to_owned(), error })?
            .collect(),
    };
    found.into_iter().find(fits).ok_or_else(|| CanonizeError::NoAddress { host: host.to_owned(), family })
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
            "unix:///run/nfd/nfd.sock",
            "fd://7",
            "ether://[08:00:27:0a:00:ff]",
            "dev://eth0",
            "memif:///run/byname/memif.sock?id=0",
            "memif:///run/a?id=b.sock?id=4294967295",
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
            "gopher://127.0.0.1:70",
        ] {
            assert!(uri.parse::<FaceUri>().is_err(), "{uri}");
        }
    }

    #[test]
    fn numeric_addresses_need_no_resolver() {
        let made = |uri| canonize_numeric(uri).map(|made| made.to_string());
        assert_eq!(made("udp://192.0.2.1:7000").as_deref(), Some("udp4://192.0.2.1:7000"));
        assert_eq!(made("tcp://[2001:db8::1]").as_deref(), Some("tcp6://[2001:db8::1]:6363"));
        for uri in ["udp://localhost:6363", "udp://[fe80::1%nowhere]", "udp6://192.0.2.1", "unix:///run/nfd.sock", "x"]
        {
            assert_eq!(made(uri), None, "{uri}");
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
            ("tcp://[fe80::1%25lo]", "tcp6://[fe80::1%lo]:6363"),
            ("ws://192.0.2.1", "ws://192.0.2.1:9696"),
            ("ether://08:00:27:0A:02:03", "ether://[08:00:27:0a:02:03]"),
            ("unix:/no-such-folder/nfd.sock", "unix:///no-such-folder/nfd.sock"),
            ("tcp4://192.0.2.1:7000", "tcp4://192.0.2.1:7000"),
        ] {
            let made = canonize(typed).unwrap_or_else(|e| panic!("{typed}: {e}"));
            assert_eq!(made.to_string(), canonical, "{typed}");
        }
        let local = canonize("tcp://localhost").unwrap().to_string();
        assert!(["tcp4://127.0.0.1:6363", "tcp6://[::1]:6363"].contains(&local.as_str()), "{local}");
    }

    #[test]
    fn what_cannot_be_canonical_says_why() {
        assert!(matches!(canonize("udp4://[::1]"), Err(CanonizeError::NoAddress { .. })));
        for uri in ["udp://", "udp://:6363", "udp://[::1", "tcp://224.0.23.170", "mailto:someone", "udp://h:99999"] {
            assert!(matches!(canonize(uri), Err(CanonizeError::Malformed(_))), "{uri}");
        }
    }
}
