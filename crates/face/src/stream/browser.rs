//! Decides which WebSocket clients count as applications of this host.
//!
//! A browser connects to the loopback address on behalf of any page that it shows. The header `Origin` (RFC 6454 §7)
//! holds the page's address, and scripts cannot change it. A page can also make its own host name resolve to a loopback
//! address (DNS rebinding). Then `Host` holds that name. A reverse proxy on this host connects from a loopback address
//! for clients anywhere. Most proxies say so in a header.
//!
//! So a client is local if all of these hold:
//! - it connects from a loopback address (the port checks this);
//! - there is one `Host`, and it names this host;
//! - there is no `Origin`, or one that the configuration lists;
//! - there is no header that a proxy adds.
//!
//! All other clients get a face of non-local scope: they may exchange packets, but command nothing. One case is not
//! defended: a proxy that adds none of these headers, replaces `Host` by a name of this host, and serves clients that
//! send no `Origin`. Browsers always send `Origin`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::HeaderMap;
use tungstenite::http::header::{FORWARDED, HOST, ORIGIN, VIA};

/// This host's names, and the pages that may command it.
#[derive(Debug, Default)]
pub(super) struct LocalClients {
    /// `scheme://host[:port]` of pages that count as local.
    origins: Vec<String>,
    /// The machine's own name.
    hostname: String,
}

impl LocalClients {
    pub(super) fn new(origins: &[String]) -> Self {
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        LocalClients { origins: origins.to_vec(), hostname }
    }

    fn includes(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let named = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().is_ok_and(|host| self.is_this_host(host)),
            _ => false,
        };
        let mut origins = headers.get_all(ORIGIN).iter();
        let allowed = match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => {
                let listed = |origin: &str| self.origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
                origin.to_str().is_ok_and(listed)
            }
            _ => false,
        };
        let proxied = headers.keys().any(|name| {
            name == FORWARDED || name == VIA || name == "x-real-ip" || name.as_str().starts_with("x-forwarded")
        });
        named && allowed && !proxied
    }

    /// Whether the value of `Host` names this host, with or without a port.
    fn is_this_host(&self, value: &str) -> bool {
        let (name, port) = match value.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((address, port)) => {
                    let loopback = address.parse::<Ipv6Addr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
                    return loopback && is_port_or_nothing(port);
                }
                None => return false,
            },
            None => value.find(':').map_or((value, ""), |colon| value.split_at(colon)),
        };
        let is_named = name.eq_ignore_ascii_case("localhost")
            || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
            || (!name.is_empty() && name.eq_ignore_ascii_case(&self.hostname));
        is_named && is_port_or_nothing(port)
    }
}

/// Whether this is empty, or a colon and a port.
fn is_port_or_nothing(text: &str) -> bool {
    text.strip_prefix(':').map_or(text.is_empty(), |port| port.parse::<u16>().is_ok())
}

/// Reads a handshake's request, and stores the verdict for the connection.
pub(super) struct Judge {
    pub(super) clients: Arc<LocalClients>,
    /// Whether a client on this host counts as an application.
    pub(super) local: Arc<AtomicBool>,
}

impl Callback for Judge {
    // tungstenite chose the size of the error.
    #[allow(clippy::result_large_err)]
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        self.local.store(self.clients.includes(request.headers()), Ordering::Relaxed);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::http::{HeaderName, HeaderValue};

    use super::*;

    fn is_local(headers: &[(&str, &str)]) -> bool {
        let origins = vec!["https://app.example".to_owned()];
        let clients = LocalClients { origins, hostname: "router7".to_owned() };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a header's value"));
        }
        clients.includes(&map)
    }

    #[test]
    fn without_origin_the_host_decides() {
        let own = ["localhost", "LocalHost:9696", "127.0.0.1", "127.3.2.1:9696", "[::1]", "[::1]:9696", "Router7:1"];
        for host in own {
            assert!(is_local(&[("Host", host)]), "{host}");
        }
        let foreign = [
            "",
            ":9696",
            "evil.example",
            "localhost.evil.example",
            "localhost@evil.example",
            "localhost:9696:1",
            "localhost:",
            "localhost:99999",
            "localhost, evil.example",
            "128.0.0.1",
            "[::2]",
            "[::1",
            "[::1]x",
            "::1",
            "router70",
            "0.0.0.0",
        ];
        for host in foreign {
            assert!(!is_local(&[("Host", host)]), "{host}");
        }
        assert!(is_local(&[("Host", "[::ffff:127.0.0.1]:9696")]));
        assert!(!is_local(&[]));
        assert!(!is_local(&[("Host", "localhost"), ("Host", "localhost")]), "which of them would count?");
    }

    #[test]
    fn an_origin_must_be_listed() {
        let local = [("Host", "localhost:9696")];
        let with = |name, value| is_local(&[local[0], (name, value)]);
        assert!(with("Origin", "https://app.example") && with("origin", "HTTPS://APP.example"));
        for foreign in ["http://app.example", "https://app.example:444", "https://evil.example", "null", "", "\u{80}"] {
            assert!(!with("Origin", foreign), "{foreign}");
        }
        assert!(!is_local(&[("Host", "router.example"), ("Origin", "https://app.example")]));
        let twice = [local[0], ("Origin", "https://app.example"), ("Origin", "https://app.example")];
        assert!(!is_local(&twice));
    }

    #[test]
    fn clients_of_a_proxy_are_not_local() {
        for header in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"] {
            assert!(!is_local(&[("Host", "localhost"), (header, "192.0.2.1")]), "{header}");
            let listed = [("Host", "localhost"), ("Origin", "https://app.example"), (header, "192.0.2.1")];
            assert!(!is_local(&listed), "{header}");
        }
    }
}
