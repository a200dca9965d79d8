//! Makes face URIs from the command line canonical: resolves host names and adds ports.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::exit::{self, Failure};
use byname_client::transport::{PORT, WEBSOCKET_PORT, parse_host};
use byname_face::uri::{QUIC_PORT, SECURE_WEBSOCKET_PORT};

/// A face, by id or by the URI of its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaceSelector {
    /// Its id.
    Id(u64),
    /// Its remote URI, as typed.
    Uri(String),
}

/// Parses a face id or a face URI from the command line.
pub fn parse_selector(text: &str) -> Result<FaceSelector, String> {
    if let Ok(id) = text.parse() {
        return Ok(FaceSelector::Id(id));
    }
    parse_uri(text).map(FaceSelector::Uri)
}

/// Checks that a face URI has a scheme.
pub fn parse_uri(text: &str) -> Result<String, String> {
    if text.contains("://") {
        Ok(text.to_owned())
    } else {
        Err("not a face id (a number) nor a face URI such as udp://router.example.net".into())
    }
}

/// Returns the canonical form, such as `udp4://192.0.2.1:6363`. URIs without a host stay as they are.
pub fn canonical(uri: &str) -> Result<String, Failure> {
    let Some((scheme, rest)) = uri.split_once("://") else { return Ok(uri.to_owned()) };
    let (base, family) = match scheme {
        "udp" | "tcp" | "ws" | "wss" | "quic" => (scheme, None),
        "udp4" | "tcp4" => (&scheme[..3], Some(4)),
        "udp6" | "tcp6" => (&scheme[..3], Some(6)),
        _ => return Ok(uri.to_owned()),
    };
    let failure = |reason: String| Failure::new(exit::FAILED, format!("cannot use the face URI '{uri}': {reason}"));
    let (port, has_digit) = match base {
        "ws" => (WEBSOCKET_PORT, false),
        "wss" => (SECURE_WEBSOCKET_PORT, false),
        "quic" => (QUIC_PORT, false),
        _ => (PORT, true),
    };
    let host = parse_host(rest.trim_end_matches('/'), port, family).map_err(|reason| failure(reason.into()))?;
    // The resolver does not know zones (fe80::1%eth0), but the forwarder may.
    if host.name.contains('%') {
        return Ok(uri.to_owned());
    }
    let addresses = (host.name.as_str(), host.port).to_socket_addrs().map_err(|error| failure(error.to_string()))?;
    let mut usable: Vec<SocketAddr> =
        addresses.filter(|address| family.is_none_or(|family| address.is_ipv4() == (family == 4))).collect();
    // IPv4 first, as in nfdc.
    usable.sort_by_key(SocketAddr::is_ipv6);
    let address = usable.first().ok_or_else(|| failure("the host has no such address".into()))?;
    let digit = if !has_digit {
        ""
    } else if address.is_ipv4() {
        "4"
    } else {
        "6"
    };
    Ok(format!("{base}{digit}://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        for (uri, expected) in [
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp4://192.0.2.1:6363", "udp4://192.0.2.1:6363"),
            ("tcp://[2001:db8::1]:7000/", "tcp6://[2001:db8::1]:7000"),
            ("tcp6://[::1]", "tcp6://[::1]:6363"),
            ("tcp4://localhost", "tcp4://127.0.0.1:6363"),
            ("ws://127.0.0.1", "ws://127.0.0.1:9696"),
            ("wss://127.0.0.1", "wss://127.0.0.1:9697"),
            ("wss://[::1]:443/", "wss://[::1]:443"),
            ("quic://[::1]", "quic://[::1]:9698"),
            ("unix:///run/nfd/nfd.sock", "unix:///run/nfd/nfd.sock"),
            ("dev://eth0", "dev://eth0"),
            ("udp6://[fe80::1%25eth0]:6363", "udp6://[fe80::1%25eth0]:6363"),
        ] {
            assert_eq!(canonical(uri).unwrap(), expected);
        }
        assert!(canonical("udp4://[::1]").unwrap_err().to_string().contains("no such address"));
        assert!(canonical("udp://h:x").unwrap_err().to_string().contains("1 to 65535"));
    }

    #[test]
    fn selectors() {
        assert_eq!(parse_selector("300"), Ok(FaceSelector::Id(300)));
        assert_eq!(parse_selector("udp://h"), Ok(FaceSelector::Uri("udp://h".into())));
        assert!(parse_selector("router").unwrap_err().contains("udp://"));
    }
}
