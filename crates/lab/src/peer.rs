//! The forwarder under test: its process, and management commands over its Unix socket.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element as _};
use byname_control::security::Signer;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::element_len;
use byname_wire::{Component, Data, LpPacket, Name};
use serde::Serialize;

/// How to start or find the forwarder.
#[derive(clap::Args, Clone, Serialize)]
pub struct PeerOptions {
    /// Command that starts the forwarder, which is stopped at the end; without it, a running forwarder is used.
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Process id of the forwarder, for measuring its CPU time and memory (not needed with --start).
    #[arg(long)]
    pid: Option<i32>,
    /// Unix socket of the forwarder.
    #[arg(long, default_value = "/run/nfd/nfd.sock")]
    pub socket: PathBuf,
    /// Core on which the forwarder is started.
    #[arg(long, default_value_t = 0)]
    forwarder_core: usize,
    /// Core on which the generator runs.
    #[arg(long, default_value_t = 1)]
    generator_core: usize,
    /// Name of the forwarder in the records.
    #[arg(long, default_value = "byname")]
    pub label: String,
}

/// CPU time and memory of the forwarder at one moment.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// CPU time so far, in seconds.
    pub cpu_s: f64,
    /// Resident memory, in MB.
    pub rss_mb: f64,
}

/// A running forwarder.
pub struct Peer {
    child: Option<Child>,
    pid: Option<i32>,
}

impl Peer {
    /// Starts the forwarder if asked, and waits until it answers. Pins this thread to the generator's core.
    pub fn start(options: &PeerOptions) -> anyhow::Result<Self> {
        core_affinity::set_for_current(core_affinity::CoreId { id: options.generator_core });
        let child = match &options.start {
            None => None,
            Some(command) => {
                let mut words = command.split_whitespace();
                let program = words.next().context("--start is empty")?;
                let mut pinned = Command::new("taskset");
                pinned.args(["-c", &options.forwarder_core.to_string(), program]).args(words);
                Some(pinned.spawn().with_context(|| format!("cannot start '{command}'"))?)
            }
        };
        let pid = child.as_ref().map(|c| c.id() as i32).or(options.pid);
        let peer = Peer { child, pid };
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = UnixStream::connect(&options.socket) {
            if Instant::now() > deadline {
                let socket = options.socket.display();
                bail!("no forwarder answers on {socket} ({error}); give --start or --socket");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(peer)
    }

    /// CPU time and memory so far; zeros if the process id is unknown.
    pub fn usage(&self) -> Usage {
        let of = |pid| -> Option<Usage> {
            let stat = procfs::process::Process::new(pid).ok()?.stat().ok()?;
            let cpu_s = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
            Some(Usage { cpu_s, rss_mb: (stat.rss * procfs::page_size()) as f64 / 1e6 })
        };
        self.pid.and_then(of).unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let terminated = Command::new("kill").arg(child.id().to_string()).status();
            if terminated.is_err() || !terminated.is_ok_and(|s| s.success()) {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
    }
}

/// Management over a Unix socket: sends commands and reads their responses in order.
pub struct Management {
    stream: UnixStream,
    signer: Signer,
    input: Vec<u8>,
    nonce: u32,
    last_ms: u64,
}

impl Management {
    /// Connects.
    pub fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Management { stream, signer: Signer::digest(), input: Vec::new(), nonce: 0, last_ms: 0 })
    }

    /// Makes a signed command.
    pub fn command(&mut self, verb: &str, parameters: &ControlParameters) -> anyhow::Result<Vec<u8>> {
        let prefix: Name = format!("/localhost/nfd/{verb}").parse()?;
        let name = prefix.join(Component::generic(&parameters.encode()));
        self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
        // Forwarders that keep one timestamp for each key require increasing timestamps.
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        self.last_ms = now_ms.max(self.last_ms + 1);
        let interest = InterestBuilder::new(name, self.nonce).must_be_fresh(true);
        Ok(self.signer.sign_command(&interest, self.last_ms)?)
    }

    /// Sends a command and waits for its response.
    pub fn call(&mut self, verb: &str, parameters: &ControlParameters) -> anyhow::Result<ControlResponse> {
        let command = self.command(verb, parameters)?;
        self.stream.write_all(&command)?;
        loop {
            if let Some(response) = self.next_response() {
                return Ok(response);
            }
            if !self.read(true)? {
                bail!("the forwarder closed the connection");
            }
        }
    }

    /// Sends encoded commands.
    pub fn send(&mut self, commands: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(commands)?)
    }

    /// Reads available bytes, or waits for some if `wait`. Returns false at the end of the stream.
    pub fn read(&mut self, wait: bool) -> anyhow::Result<bool> {
        self.stream.set_nonblocking(!wait)?;
        let start = self.input.len();
        self.input.resize(start + 65_536, 0);
        let read = self.stream.read(&mut self.input[start..]);
        self.stream.set_nonblocking(false)?;
        self.input.truncate(start + read.as_ref().map_or(0, |n| *n));
        match read {
            Ok(n) => Ok(n > 0),
            Err(e) if e.kind() == ErrorKind::WouldBlock && !wait => Ok(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => bail!("the forwarder has not answered for 10 s"),
            Err(e) => Err(e.into()),
        }
    }

    /// The next complete response among the bytes read; skips other packets.
    pub fn next_response(&mut self) -> Option<ControlResponse> {
        loop {
            let len = element_len(&self.input, 1 << 16).ok()??;
            if self.input.len() < len {
                return None;
            }
            let frame: Vec<u8> = self.input.drain(..len).collect();
            let packet = LpPacket::decode(&frame).ok().and_then(|lp| lp.fragment);
            if let Some(data) = packet.and_then(|p| Data::decode(p).ok()) {
                return Some(ControlResponse::decode(data.content).unwrap_or_default());
            }
        }
    }

    /// Makes a face, or returns the existing one. A face on an Ethernet needs a local URI.
    pub fn face(&mut self, uri: &str, local: Option<&str>) -> anyhow::Result<u64> {
        let local_uri = local.map(str::to_owned);
        let parameters = ControlParameters { uri: Some(uri.to_owned()), local_uri, ..Default::default() };
        let response = self.call("faces/create", &parameters)?;
        match (response.code, response.parameters().ok().and_then(|p| p.face_id)) {
            (200 | 409, Some(face)) => Ok(face),
            (code, _) => bail!("faces/create {uri} failed: {code} {}", response.text),
        }
    }

    /// Registers a route to a face, or to this connection if there is no face.
    pub fn route(&mut self, prefix: &str, face_id: Option<u64>) -> anyhow::Result<()> {
        let parameters = ControlParameters { name: Some(prefix.parse()?), face_id, ..Default::default() };
        let response = self.call("rib/register", &parameters)?;
        match response.code {
            200 => Ok(()),
            code => bail!("rib/register {prefix} failed: {code} {}", response.text),
        }
    }

    /// The connection, for sending other traffic.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }
}
