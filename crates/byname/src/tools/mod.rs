//! Tools for people: ping, peek and poke, get and put.

pub mod get;
pub mod peek;
pub mod ping;
pub mod ping_server;
pub mod poke;
pub mod put;

use std::time::Duration;

use anyhow::{Context, bail};
use byname_wire::Name;

use byname_client::Link;
use byname_client::management::{self, RegisterOptions};

/// Parses a name from the command line.
pub fn parse_name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:") {
        return Err(format!("a name begins with '/': try '/{text}'"));
    }
    text.parse().map_err(|error: byname_wire::uri::UriError| error.to_string())
}

/// Parses the name of a packet: any name except `/`, because no packet has that name.
pub fn parse_packet_name(text: &str) -> Result<Name, String> {
    let name = parse_name(text)?;
    if name.as_ref().is_empty() { Err("a packet cannot have the name /".into()) } else { Ok(name) }
}

/// Parses a number of milliseconds, at least 1.
pub fn parse_ms(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms").unwrap_or(text).parse::<u64>() {
        Ok(0) => Err("must be at least 1 ms".into()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err("must be a whole number of milliseconds".into()),
    }
}

/// Registers `prefix` for this connection. An error explains the likely cause.
fn register(client: &mut Link, prefix: &Name, announce: bool) -> anyhow::Result<()> {
    let over = not_local(client);
    management::register(client, prefix, RegisterOptions { announce })
        .with_context(|| format!("cannot register {prefix}{over}"))
}

/// Why a registration over this connection may fail. Empty: there is no such reason.
fn not_local(client: &Link) -> String {
    if client.is_local() {
        return String::new();
    }
    format!(
        " over {}, which does not connect from the forwarder's own host (use its Unix socket or loopback TCP, or add a \
         route on that host with `byname route add`)",
        client.transport()
    )
}

/// Formats a size for people: `12.3 MB`.
pub fn human_bytes(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// Whether a terminal shows this text as intended: it has no control characters except line breaks and tabs.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

/// Keeps binary data away from a terminal, because it could change the terminal's state.
#[derive(Debug, Default)]
pub struct TextOnly {
    /// The first bytes of a character whose other bytes have not arrived yet.
    begun: Vec<u8>,
}

impl TextOnly {
    /// Checks the next bytes of the content.
    ///
    /// # Errors
    /// The bytes are not text.
    pub fn check(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let (text, rest) = match std::str::from_utf8(&all) {
            Ok(text) => (text, &[][..]),
            Err(error) => {
                let (text, rest) = all.split_at(error.valid_up_to());
                // At the end of `all`, a character may be cut in two. Elsewhere it is malformed.
                let text = std::str::from_utf8(text).ok().filter(|_| error.error_len().is_none());
                (text.ok_or_else(no_text)?, rest)
            }
        };
        if !is_plain(text) {
            return Err(no_text());
        }
        self.begun = rest.to_vec();
        Ok(())
    }
}

fn no_text() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::InvalidData,
        "the content is not text and would garble the terminal; write it to a file (-o FILE) or a pipe",
    )
}

/// Rejects a packet that is larger than forwarders accept.
fn check_packet_size(bytes: usize) -> anyhow::Result<()> {
    let max = byname_wire::PACKET_BYTES_MAX;
    if bytes > max {
        bail!("the packet has {bytes} bytes, and NDN carries at most {max}; use `byname put` for larger content");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_960, "1.0 MB"),
            (20_000_000, "20.0 MB"),
            (u64::MAX, "18446744.1 TB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn only_text_goes_to_a_terminal() {
        let check = |parts: &[&[u8]]| {
            let mut guard = TextOnly::default();
            parts.iter().all(|part| guard.check(part).is_ok())
        };
        assert!(check(&[b"text\r\n\tof lines", b"", "caf\u{e9}".as_bytes()]));
        assert!(check(&[b"caf\xc3", b"\xa9 au lait"]), "a character that two segments share");
        assert!(!check(&[b"caf\xc3", b" au lait"]));
        assert!(!check(&[b"\x1b[2J"]));
        assert!(!check(&[b"\0"]));
        assert!(!check(&[b"\xff\xd8\xff"]));
    }

    #[test]
    fn arguments_with_hints() {
        assert_eq!(parse_name("/a/b").unwrap().to_string(), "/a/b");
        assert!(parse_name("a/b").unwrap_err().contains("try '/a/b'"));
        assert!(parse_packet_name("/").is_err() && parse_packet_name("/a").is_ok());
        assert_eq!(parse_ms("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_ms("20"), Ok(Duration::from_millis(20)));
        assert!(parse_ms("0").is_err() && parse_ms("x").is_err());
    }
}
