//! `byname dashboard`: the address of the running router's pages, with the token, and a browser that opens it.

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::bail;
use byname_control::config::Config;

use crate::exit::{self, Failure};
use crate::run::dashboard::{TokenError, read, token_files};
use crate::run::load;

/// How long the router may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options of `byname dashboard`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The address has the router's token behind `#`, which browsers send to nobody. Whoever has it can change \
                  the router.\n\nExamples:\n  byname dashboard               open the pages of this user's router\n  \
                  sudo byname dashboard --config /etc/byname/byname.toml --no-open    print the address of a service"
)]
pub struct DashboardArgs {
    /// Configuration file of the router; without one, the defaults
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
}

/// Runs `byname dashboard`.
pub fn run(args: DashboardArgs) -> anyhow::Result<u8> {
    let (config, _) = load(args.config.as_deref())?;
    for (is_on, section) in [(config.metrics.enabled, "[metrics]"), (config.dashboard.enabled, "[dashboard]")] {
        if !is_on {
            return Err(Failure::new(exit::USAGE, format!("{section} in the configuration is not enabled")).into());
        }
    }
    let address = reachable(config.metrics.listen);
    if address.port() == 0 {
        bail!("the configuration leaves the port to the system: the router's log has it");
    }
    if let Err(error) = TcpStream::connect_timeout(&address, PATIENCE) {
        let why = format!("no router answers at {address}: {error}; start it with `byname run`");
        return Err(Failure::new(exit::NO_FORWARDER, why).into());
    }
    let url = format!("http://{address}/#token={}", token(&config)?);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{url}")?;
    if !args.no_open && out.is_terminal() && has_desktop() {
        open(&url);
    }
    Ok(exit::OK)
}

/// The address by which this host reaches a listener.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The token in the first file that has one.
fn token(config: &Config) -> anyhow::Result<String> {
    let mut problem: Option<TokenError> = None;
    for path in token_files(config) {
        match read(&path) {
            Ok(token) => return Ok(token),
            // A file that there is, but that cannot be used, says more than one that is missing.
            Err(error) if problem.as_ref().is_none_or(is_missing) => problem = Some(error),
            Err(_) => {}
        }
    }
    let why = problem.map(|error| error.to_string()).unwrap_or_default();
    bail!("cannot read the router's token: {why}; run this as the router's user, or as root")
}

fn is_missing(error: &TokenError) -> bool {
    matches!(error, TokenError::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound)
}

fn has_desktop() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Lets the desktop open an address. If it cannot, the address was printed.
fn open(url: &str) {
    let quiet = Stdio::null;
    let opened = Command::new("xdg-open").arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    if let Err(error) = opened {
        tracing::debug!(%error, "cannot open a browser");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_this_host() {
        let reached = |listen: &str| reachable(listen.parse().expect("an address")).to_string();
        assert_eq!(reached("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "[::1]:80");
        assert_eq!(reached("192.0.2.1:80"), "192.0.2.1:80");
    }
}
