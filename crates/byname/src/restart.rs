//! `byname restart`: makes the running router hand over to a new process.
//!
//! The command sends SIGUSR2 to the process that listens on the router's Unix socket. Then it watches which process
//! listens there, and whether the router reports a failure.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use byname_control::mgmt::tlv::{Element, ForwarderStatus};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process};

use crate::{Connection, exit};
use byname_client::Link;
use byname_client::management::dataset;
use byname_client::transport::Transport;

/// Interval of looking for the outcome.
const LOOK: Duration = Duration::from_millis(20);

/// Options of `byname restart`.
#[derive(Debug, clap::Args)]
pub struct RestartArgs {
    /// Longest time to wait for the outcome, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u64,
}

/// Runs `byname restart`.
pub fn run(args: RestartArgs, connection: &Connection) -> anyhow::Result<u8> {
    let client = connection.connect()?;
    let transport = client.transport().clone();
    let Transport::Unix(path) = &transport else {
        bail!("a router is restarted over its Unix socket, on its own host: {transport} is none");
    };
    let (old, before) = (listener_at(path)?, status(client)?);
    kill_process(old, Signal::USR2).with_context(|| {
        format!("cannot signal process {}: restart it as its own user, or as root", old.as_raw_nonzero())
    })?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while Instant::now() < deadline {
        std::thread::sleep(LOOK);
        let now = listener_at(path)
            .and_then(|process| Ok((process, status(Link::connect(std::slice::from_ref(&transport))?)?)));
        // Between two processes an answer may be lost. A router that is gone stays away.
        let Ok((process, now)) = now else { continue };
        if process != old {
            let (old, new, version) = (old.as_raw_nonzero(), process.as_raw_nonzero(), now.nfd_version);
            let mut out = std::io::stdout().lock();
            writeln!(out, "process {old} handed over to process {new}, {version}")?;
            // A version before 0.3 does not tell.
            for line in now.taken_over.iter().flat_map(|text| text.lines()) {
                writeln!(out, "  {line}")?;
            }
            return Ok(exit::OK);
        }
        if now.n_failed_restarts > before.n_failed_restarts {
            let why = now.restart_failure.unwrap_or_default();
            bail!("no restart: {why}. Process {} goes on as before", old.as_raw_nonzero());
        }
    }
    bail!("the router did not report an outcome within {} s: see its log", args.timeout)
}

/// The process that listens at this path.
fn listener_at(path: &std::path::Path) -> anyhow::Result<Pid> {
    let socket = UnixStream::connect(path).with_context(|| format!("cannot connect to {}", path.display()))?;
    Ok(socket_peercred(socket).context("the system does not tell which process listens there")?.pid)
}

fn status(mut client: Link) -> anyhow::Result<ForwarderStatus> {
    let content = dataset(&mut client, "status", "general", None)?;
    ForwarderStatus::decode_value(&content).context("the router's status is malformed")
}
