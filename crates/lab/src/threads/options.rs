//! Options of `byname-lab threads`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Sockets between generator and router.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Port {
    /// UDP on loopback.
    Udp,
    /// The router's Unix stream socket.
    Unix,
    /// Shared memory.
    Memif,
}

/// Compares routers with different numbers of packet threads: processor time of an exchange, and latency.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// The router's program.
    #[arg(long, value_name = "PROGRAM", default_value = "target/release/byname")]
    pub byname: PathBuf,
    /// Numbers of packet threads. The others are compared with the first.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    pub threads: Vec<usize>,
    /// Sockets between generator and router, one after the other.
    #[arg(long, value_name = "PORT,...", value_enum, value_delimiter = ',', default_value = "udp,unix,memif")]
    pub ports: Vec<Port>,
    /// Number of Interests outstanding at once; several are measured one after the other.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,64,256")]
    pub windows: Vec<usize>,
    /// Interests per second in the turns that measure latency.
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// Seconds of one turn.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Number of rounds, in each of which every router has a turn; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Bytes of content in each Data.
    #[arg(long, default_value_t = 1000)]
    pub payload: usize,
    /// Further lines of the routers' section `threads`, such as "rest = false".
    #[arg(long, value_name = "TOML", default_value = "")]
    pub settings: String,
    /// Core on which the generator runs.
    #[arg(long, default_value_t = 1)]
    pub generator_core: usize,
    /// Number of the first of the UDP ports that routers and generator use: three for each number of threads.
    #[arg(long, default_value_t = 26_360)]
    pub first_port: u16,
    /// Print only records, each as one line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Options {
    /// Rejects options that are impossible.
    pub(super) fn ensure_possible(&self) -> anyhow::Result<()> {
        let Options { threads, ports, windows, rate, seconds, .. } = self;
        ensure!(!threads.is_empty() && !ports.is_empty() && !windows.is_empty(), "there is nothing to measure");
        ensure!(*rate > 0.0 && rate.is_finite(), "--rate must be more than 0");
        ensure!(*seconds > 0.0 && seconds.is_finite(), "--seconds must be more than 0");
        ensure!(windows.iter().all(|window| (1..=4096).contains(window)), "--windows must be 1 to 4096");
        let last = usize::from(self.first_port) + 3 * threads.len();
        ensure!(self.first_port > 0 && last <= 65_536, "there are no such UDP ports (--first-port)");
        Ok(())
    }
}
