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

use crate::client::Client;
use crate::client::management::{self, RegisterOptions};

/// Reads a name from the command line.
pub fn parse_name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:") {
        return Err(format!("a name begins with '/': try '/{text}'"));
    }
    text.parse().map_err(|error: byname_wire::uri::UriError| error.to_string())
}

/// Reads the name of a packet: any but `/`, which no packet has.
pub fn parse_packet_name(text: &str) -> Result<Name, String> {
    let name = parse_name(text)?;
    if name.as_ref().is_empty() { Err("no packet is named /".into()) } else { Ok(name) }
}

/// Reads a number of milliseconds, at least one.
pub fn parse_ms(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms").unwrap_or(text).parse::<u64>() {
        Ok(0) => Err("must be at least 1 ms".into()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err("must be a whole number of milliseconds".into()),
    }
}

/// Registers `prefix` for this connection, or explains what is in the way.
fn register(client: &mut Client, prefix: &Name, announce: bool) -> anyhow::Result<()> {
    let over = if client.is_local() {
        String::new()
    } else {
        format!(
            " over {}, which is no connection of the forwarder's own host (use its Unix socket or loopback TCP, or \
             add a route there with `byname route add`)",
            client.transport()
        )
    };
    management::register(client, prefix, RegisterOptions { announce })
        .with_context(|| format!("cannot register {prefix}{over}"))
}

/// Octets for people: `12.3 MB`.
pub fn human_bytes(octets: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if octets < 1000 {
        return format!("{octets} B");
    }
    let mut value = octets as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// Refuses a packet that no forwarder would carry.
fn check_packet_size(octets: usize) -> anyhow::Result<()> {
    let max = byname_wire::PACKET_BYTES_MAX;
    if octets > max {
        bail!("the packet has {octets} octets, and NDN carries at most {max}; use `byname put` for more");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people() {
        for (octets, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_960, "1.0 MB"),
            (20_000_000, "20.0 MB"),
            (u64::MAX, "18446744.1 TB"),
        ] {
            assert_eq!(human_bytes(octets), text);
        }
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
