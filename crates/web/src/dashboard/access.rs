//! Who may ask: the checks before any answer of the dashboard.
//!
//! - **Peers.** Only peers on this host, unless the configuration says otherwise.
//! - **Host.** A page of another site may let its own host name lead to this router (DNS rebinding), and would then be
//!   of the same origin. So `Host` must be an IP address, `localhost`, or a name that the configuration lists: none of
//!   them can be another site's.
//! - **Origin.** A browser says from which page a request comes. It must be one of this router's.
//! - **The token.** Whoever sends it could read its file, or was shown it. It is compared in constant time.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};

use super::answers::Failure;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask.
#[derive(Debug, Clone)]
pub struct Access {
    /// The token for everything that changes state. `None`: nothing can be changed.
    pub token: Option<String>,
    /// Whether other hosts may ask, with the token.
    pub remote: bool,
    /// Names of this router, besides `localhost` and IP addresses.
    pub hosts: Vec<String>,
}

impl Access {
    /// Checks everything but the token.
    pub(super) fn admit(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<(), Failure> {
        let forbidden = |text: &str| Err(Failure::new(StatusCode::FORBIDDEN, text));
        if !self.remote && !peer.ip().to_canonical().is_loopback() {
            return forbidden("the dashboard is for this host only; see [dashboard] in the configuration");
        }
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(Ok(host)), None) = (hosts.next().map(|host| host.to_str()), hosts.next()) else {
            return Err(Failure::new(StatusCode::BAD_REQUEST, "there must be one Host"));
        };
        if !self.is_own(host) {
            return Err(Failure::new(
                StatusCode::MISDIRECTED_REQUEST,
                "this name is not the router's; see `hosts` under [dashboard] in the configuration",
            ));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
            if authority.is_none_or(|authority| !authority.eq_ignore_ascii_case(host)) {
                return forbidden("this request comes from a page of another site");
            }
        }
        match headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            // A link on another page may lead here, but nothing else of it.
            Some(_) if headers.get("sec-fetch-mode").is_some_and(|mode| mode.as_bytes() == b"navigate") => Ok(()),
            Some(_) => forbidden("this request comes from a page of another site"),
        }
    }

    /// Whether a peer may read without the token.
    pub(super) fn is_open_to(&self, peer: SocketAddr) -> bool {
        peer.ip().to_canonical().is_loopback()
    }

    /// Checks the token of a request.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.token else {
            return Err(Failure::new(StatusCode::FORBIDDEN, "nothing can be changed here: there is no token"));
        };
        let sent = headers.get(AUTHORIZATION).and_then(|sent| sent.as_bytes().strip_prefix(b"Bearer "));
        match sent {
            Some(sent) if is_same(sent, token.as_bytes()) => Ok(()),
            Some(_) => Err(Failure::new(StatusCode::UNAUTHORIZED, "the token is wrong; see `byname dashboard`")),
            None => Err(Failure::new(StatusCode::UNAUTHORIZED, "this needs the token; see `byname dashboard`")),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Compares in a time that depends on the lengths only.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access { token: Some("secret".into()), remote: false, hosts: vec!["router.example".into()] }
    }

    fn admitted(fields: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        access().admit(&headers, SocketAddr::from(([127, 0, 0, 1], 5000))).is_ok()
    }

    #[test]
    fn only_own_names_are_hosts() {
        for host in
            ["127.0.0.1:9626", "localhost", "LOCALHOST:1", "[::1]:9626", "::1", "192.0.2.1", "router.example:80"]
        {
            assert!(admitted(&[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:9626", "", ":80", "[::1", "router.example.:80"]
        {
            assert!(!admitted(&[("host", host)]), "{host}");
        }
        assert!(!admitted(&[]));
        assert!(!admitted(&[("host", "localhost"), ("host", "localhost")]));
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let host = ("host", "127.0.0.1:9626");
        assert!(admitted(&[host, ("origin", "http://127.0.0.1:9626"), ("sec-fetch-site", "same-origin")]));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080", "http://localhost:9626", "file://"] {
            assert!(!admitted(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(!admitted(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!admitted(&[host, ("sec-fetch-site", "same-site")]));
        assert!(admitted(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
    }

    #[test]
    fn other_hosts_are_refused_unless_they_are_wanted() {
        let mut headers = HeaderMap::new();
        headers.append("host", "192.0.2.1:9626".parse().expect("a value"));
        let peer = SocketAddr::from(([192, 0, 2, 7], 5000));
        assert!(access().admit(&headers, peer).is_err());
        let open = Access { remote: true, ..access() };
        assert!(open.admit(&headers, peer).is_ok());
        assert!(!open.is_open_to(peer));
        assert!(open.is_open_to("[::ffff:127.0.0.1]:5000".parse().expect("an address")));
    }

    #[test]
    fn only_the_whole_token_counts() {
        let mut headers = HeaderMap::new();
        for (sent, is_good) in [
            ("Bearer secret", true),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("secret", false),
            ("Bearer ", false),
        ] {
            headers.insert(AUTHORIZATION, sent.parse().expect("a value"));
            assert_eq!(access().check_token(&headers).is_ok(), is_good, "{sent}");
            assert!(Access { token: None, ..access() }.check_token(&headers).is_err());
        }
        assert!(access().check_token(&HeaderMap::new()).is_err());
    }
}
