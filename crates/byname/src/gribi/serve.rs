//! `byname gribi serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use byname_client::transport::Environment;
use byname_control::config::Log;
use byname_gribi::core::Limits;
use byname_gribi::server::{ServeOptions, ServerTls, serve};
use byname_gribi::{Stop, block_on};
use clap::Args;

use crate::exit::{self, Failure};
use crate::{Connection, process, run as router};

const EXAMPLES: &str = "\
Examples:
  byname gribi serve
  byname gribi serve --listen 192.0.2.7:9340 --tls-certificate r7.pem --tls-key r7.key --client-ca controllers.pem

The server is an application of the router, which forwards without it. What an earlier server has left in the router stays
for --hold seconds, so that controllers can come back and claim it.";

/// Options of `byname gribi serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address to listen on; other than loopback addresses need TLS with certificates of clients
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9340")]
    listen: SocketAddr,
    /// The server's certificate and those that have signed it, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Clients must have a certificate that one of these has signed, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    client_ca: Option<PathBuf>,
    /// Compare the router with what the server knows, every so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    compare: u64,
    /// Leave for so many seconds in the router what an earlier server has left there
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    hold: u64,
    /// Most sessions at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    sessions_max: usize,
    /// Most entries
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    entries_max: usize,
}

/// Serves until a signal ends it.
pub fn run(args: &ServeArgs, connection: &Connection) -> anyhow::Result<u8> {
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let candidates = Environment::of_process()
        .candidates(connection.transport.as_deref())
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    let tls = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(ServerTls {
            certificate: read(certificate)?,
            key: read(key)?,
            client_ca: args.client_ca.as_ref().map(read).transpose()?,
        }),
        _ => None,
    };
    let limits = Limits {
        sessions_max: args.sessions_max,
        entries_max: args.entries_max,
        hold_ms: args.hold.saturating_mul(1_000),
        ..Limits::default()
    };
    let compare = Duration::from_secs(args.compare);
    let options = ServeOptions { listen: args.listen, tls, router: candidates, compare, limits };
    process::end_on_panic();
    router::start_log(&Log::default())?;
    let stop = Arc::new(Stop::default());
    let on_signal = stop.clone();
    process::on_signal(move || on_signal.now(), || {})?;
    block_on(serve(options, stop.asked())).context("cannot start the runtime")??;
    Ok(exit::OK)
}
