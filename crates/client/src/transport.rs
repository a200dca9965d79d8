//! Transport URIs, and the places that may name the forwarder's transport.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use byname_trust::tls::Fingerprint;
use thiserror::Error;

/// UDP and TCP port of NDN.
pub const PORT: u16 = 6363;
/// WebSocket port of NDN.
pub const WEBSOCKET_PORT: u16 = 9696;
/// Port of WebSocket over TLS.
pub const SECURE_WEBSOCKET_PORT: u16 = 9697;
/// Unix socket of the system's forwarder.
pub const SYSTEM_SOCKET: &str = "/run/nfd/nfd.sock";

/// The way to reach a forwarder.
///
/// ```
/// use byname_client::Transport;
///
/// let transport: Transport = "tcp://router.example".parse()?;
/// assert_eq!(transport.to_string(), "tcp://router.example:6363");
/// assert!("gopher://router.example".parse::<Transport>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// `unix:///run/nfd/nfd.sock`
    Unix(PathBuf),
    /// `tcp://host:6363`
    Tcp(Host),
    /// `udp://host:6363`
    Udp(Host),
    /// `ws://host:9696/`
    WebSocket(Host, String),
    /// `wss://host:9697/`, or `wss://host:9697/#sha256=…` for the certificate with this fingerprint.
    SecureWebSocket(Host, String, Option<Box<Fingerprint>>),
}

/// A host with its port, and the address family that the URI asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Host name or numeric address, without brackets.
    pub name: String,
    /// Port.
    pub port: u16,
    /// `Some(4)` or `Some(6)` for `tcp4`, `udp6` and so on.
    pub family: Option<u8>,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = |host: &Host| host.family.map(|n| n.to_string()).unwrap_or_default();
        match self {
            Transport::Unix(path) => write!(f, "unix://{}", path.display()),
            Transport::Tcp(host) => write!(f, "tcp{}://{host}", family(host)),
            Transport::Udp(host) => write!(f, "udp{}://{host}", family(host)),
            Transport::WebSocket(host, path) => write!(f, "ws://{host}{path}"),
            Transport::SecureWebSocket(host, path, None) => write!(f, "wss://{host}{path}"),
            Transport::SecureWebSocket(host, path, Some(pin)) => write!(f, "wss://{host}{path}{PIN}{pin}"),
        }
    }
}

/// The reason why a string is not a transport.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{uri}' is not a transport: {reason}; \
     write unix:///run/nfd/nfd.sock, tcp://host[:port], udp://host[:port], ws://host[:port] or wss://host[:port]"
)]
pub struct TransportError {
    uri: String,
    reason: &'static str,
}

impl FromStr for Transport {
    type Err = TransportError;

    fn from_str(uri: &str) -> Result<Self, TransportError> {
        let error = |reason| TransportError { uri: uri.to_owned(), reason };
        if uri.starts_with('/') {
            return Ok(Transport::Unix(uri.into()));
        }
        let (scheme, rest) = uri.split_once(':').ok_or(error("it has no scheme"))?;
        let authority = rest.strip_prefix("//");
        if scheme == "unix" {
            let path = authority.unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(error("the path of the socket must begin with '/'"));
            }
            return Ok(Transport::Unix(path.into()));
        }
        let authority = authority.ok_or(error("'//' must follow the scheme"))?;
        let family = match scheme.as_bytes().last() {
            Some(b'4') => Some(4),
            Some(b'6') => Some(6),
            _ => None,
        };
        let (hostport, path) = match authority.find(['/', '#']) {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        };
        let default_port = match scheme {
            "ws" => WEBSOCKET_PORT,
            "wss" => SECURE_WEBSOCKET_PORT,
            _ => PORT,
        };
        let host = parse_host(hostport, default_port, family).map_err(error)?;
        match scheme {
            "tcp" | "tcp4" | "tcp6" | "udp" | "udp4" | "udp6" if !matches!(path, "" | "/") => {
                Err(error("nothing may follow the port"))
            }
            "tcp" | "tcp4" | "tcp6" => Ok(Transport::Tcp(host)),
            "udp" | "udp4" | "udp6" => Ok(Transport::Udp(host)),
            "ws" if path.contains('#') => Err(error("only wss:// has the fingerprint of a certificate")),
            "ws" => Ok(Transport::WebSocket(host, if path.is_empty() { "/".into() } else { path.into() })),
            "wss" => {
                let (path, pin) = match path.find(PIN) {
                    Some(at) => {
                        let pin = path[at + PIN.len()..].parse().map(Box::new);
                        let no_pin = error("the fingerprint after #sha256= does not have 64 hexadecimal digits");
                        (&path[..at], Some(pin.map_err(|_| no_pin)?))
                    }
                    None => (path, None),
                };
                Ok(Transport::SecureWebSocket(host, if path.is_empty() { "/".into() } else { path.into() }, pin))
            }
            _ => Err(error("the scheme is unknown")),
        }
    }
}

/// Comes before the fingerprint of a certificate.
const PIN: &str = "#sha256=";

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`.
pub fn parse_host(text: &str, default_port: u16, family: Option<u8>) -> Result<Host, &'static str> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
        (name, after.strip_prefix(':').or(if after.is_empty() { None } else { Some("bad") }))
    } else if let Some((name, port)) = text.rsplit_once(':') {
        if name.contains(':') {
            return Err("an IPv6 address must stand in brackets");
        }
        (name, Some(port))
    } else {
        (text, None)
    };
    if name.is_empty() {
        return Err("the host is missing");
    }
    let port = match port {
        Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or("the port is not a number from 1 to 65535")?,
        None => default_port,
    };
    Ok(Host { name: name.to_owned(), port, family })
}

/// Environment variables and paths that determine the transport. A struct, so that tests need not change the
/// environment.
///
/// ```
/// use byname_client::transport::Environment;
///
/// let environment = Environment { client_transport: Some("udp://router.example".into()), ..Environment::default() };
/// assert_eq!(environment.candidates(None)?[0].to_string(), "udp://router.example:6363");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Environment {
    /// `NDN_CLIENT_TRANSPORT`.
    pub client_transport: Option<String>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// Folders that may have a system-wide `client.conf`.
    pub config_dirs: Vec<PathBuf>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let path = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
        Environment {
            client_transport: std::env::var("NDN_CLIENT_TRANSPORT").ok().filter(|value| !value.is_empty()),
            home: path("HOME"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            config_dirs: ["/usr/local/etc/ndn", "/etc/ndn"].map(PathBuf::from).into(),
        }
    }

    /// Transports to try, in order: the one that is configured, or else the default sockets.
    pub fn candidates(&self, option: Option<&str>) -> Result<Vec<Transport>, TransportError> {
        if let Some(uri) = option.or(self.client_transport.as_deref()) {
            return Ok(vec![uri.parse()?]);
        }
        if let Some(uri) = self.config_files().iter().find_map(|path| transport_in(path)) {
            return Ok(vec![uri.parse()?]);
        }
        let mut sockets = vec![Transport::Unix(SYSTEM_SOCKET.into())];
        sockets.extend(self.runtime_dir.as_ref().map(|dir| Transport::Unix(dir.join("nfd/nfd.sock"))));
        sockets.extend(self.home.as_ref().map(|dir| Transport::Unix(dir.join(".ndn/nfd.sock"))));
        Ok(sockets)
    }

    fn config_files(&self) -> Vec<PathBuf> {
        let user = self.home.iter().map(|home| home.join(".ndn"));
        user.chain(self.config_dirs.iter().cloned()).map(|dir| dir.join("client.conf")).collect()
    }
}

/// The `transport` key of ndn-cxx's `client.conf`, if the file and the key exist.
fn transport_in(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split(';').next()?.split_once('=')?;
        (key.trim() == "transport" && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Whether the router is on this host.
    pub is_local: bool,
    /// Whether packets are datagrams, so that nothing tells when the router is gone.
    pub is_datagram: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_usual_uris() {
        for (uri, canonical) in [
            ("unix:///run/nfd/nfd.sock", "unix:///run/nfd/nfd.sock"),
            ("/tmp/x.sock", "unix:///tmp/x.sock"),
            ("tcp://router.example", "tcp://router.example:6363"),
            ("tcp4://192.0.2.1:7000", "tcp4://192.0.2.1:7000"),
            ("udp://[2001:db8::1]:7000/", "udp://[2001:db8::1]:7000"),
            ("udp6://[::1]", "udp6://[::1]:6363"),
            ("ws://localhost", "ws://localhost:9696/"),
            ("ws://localhost:80/ndn", "ws://localhost:80/ndn"),
            ("wss://router.example", "wss://router.example:9697/"),
            ("wss://[::1]:443/ndn", "wss://[::1]:443/ndn"),
        ] {
            assert_eq!(uri.parse::<Transport>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn fingerprints_are_read_as_tools_write_them() {
        let plain = format!("wss://h:9697/#sha256={}", "ab".repeat(32));
        let colons = format!("wss://h/#sha256={}", vec!["AB"; 32].join(":"));
        let [plain, colons] = [&plain, &colons].map(|uri| uri.parse::<Transport>().unwrap());
        assert_eq!(plain, colons);
        assert_eq!(plain.to_string().parse(), Ok(colons));
    }

    #[test]
    fn refuses_others_and_says_why() {
        for (uri, why) in [
            ("nonsense", "no scheme"),
            ("unix://relative", "begin with '/'"),
            ("tcp:host", "'//'"),
            ("tcp://", "host is missing"),
            ("tcp://h:0", "1 to 65535"),
            ("tcp://h:99999", "1 to 65535"),
            ("tcp://h:1/x", "nothing may follow"),
            ("udp://2001:db8::1", "in brackets"),
            ("udp://[::1", "not closed"),
            ("ws://h/#sha256=abc", "only wss"),
            ("wss://h/#sha256=abc", "64 hexadecimal"),
            ("wss://h/#sha256=é", "64 hexadecimal"),
            ("gopher://h", "scheme is unknown"),
        ] {
            let error = uri.parse::<Transport>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn looks_in_order_option_variable_file_sockets() {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment {
            client_transport: Some("tcp://variable".into()),
            home: Some(home.path().into()),
            runtime_dir: Some("/run/user/7".into()),
            config_dirs: vec![],
        };
        let first = |e: &Environment, option| e.candidates(option).unwrap()[0].to_string();
        assert_eq!(first(&environment, Some("tcp://option")), "tcp://option:6363");
        assert_eq!(first(&environment, None), "tcp://variable:6363");
        environment.client_transport = None;
        let sockets = environment.candidates(None).unwrap();
        assert_eq!(
            sockets,
            [
                Transport::Unix(SYSTEM_SOCKET.into()),
                Transport::Unix("/run/user/7/nfd/nfd.sock".into()),
                Transport::Unix(home.path().join(".ndn/nfd.sock"))
            ]
        );
        std::fs::create_dir(home.path().join(".ndn")).unwrap();
        let file = home.path().join(".ndn/client.conf");
        std::fs::write(&file, "; comment\n;transport=tcp://no\npib=x\n transport = tcp://file ; why\n").unwrap();
        assert_eq!(first(&environment, None), "tcp://file:6363");
    }
}
