//! Options of `byname-lab scale`.

use std::path::PathBuf;

use anyhow::ensure;
use byname_forward::hot::WINDOW;
use clap::Args;
use serde::Serialize;

use crate::balance::BURST;
use crate::balance::simulated::Load;
use crate::size;

/// Most threads that can be simulated.
const THREADS_MAX: usize = 64;

/// Simulates many packet threads, with the costs of one that are measured here.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Numbers of threads, each on a simulated core. One thread is always simulated: the others are compared with it.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16,22")]
    pub threads: Vec<usize>,
    /// Exponents of Zipf's law; with 0 all names are equally popular.
    #[arg(long, value_name = "S,...", value_delimiter = ',', default_value = "0,0.8,1.0,1.2,1.4")]
    pub exponents: Vec<f64>,
    /// Number of names.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub names: u64,
    /// Capacity of all content stores together, in Data packets.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Number of Interests to measure, after as many for warming up.
    #[arg(long, default_value = "500k", value_parser = size::count)]
    pub interests: u64,
    /// Interests under way for each thread.
    #[arg(long, default_value_t = 256)]
    pub window: usize,
    /// Share of the time that threads are busy, instead of a window; above 1 they lose packets.
    #[arg(long)]
    pub load: Option<f64>,
    /// Time from sending an Interest to receiving its Data, in simulated us.
    #[arg(long, default_value_t = 10)]
    pub rtt_us: u64,
    /// Packets that a thread takes from its port in a round.
    #[arg(long, default_value_t = BURST)]
    pub burst: usize,
    /// Capacity of each ring, in packets.
    #[arg(long, default_value_t = 4096)]
    pub ring: usize,
    /// Number of recent Interests over which the popularity of a name is estimated.
    #[arg(long, default_value_t = WINDOW)]
    pub hot_window: u32,
    /// Time of a port to receive a packet, in ns, instead of that of writing it in memory.
    #[arg(long, value_name = "NS")]
    pub receive_ns: Option<f64>,
    /// Time of a port to send a packet, in ns, instead of that of dropping it.
    #[arg(long, value_name = "NS")]
    pub send_ns: Option<f64>,
    /// File with the costs, as a record has them (`costs`), instead of measuring them.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// Also run real threads, as many as there are cores, and compare how their rate grows with that of simulated ones.
    /// They run the data plane of `byname-lab forward`, with the same names and content store, and a thousand rules: so
    /// each thread sends and receives its share.
    #[arg(long)]
    pub real: bool,
    /// Measuring time for each number of real threads, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub real_seconds: f64,
    /// Only measure the costs.
    #[arg(long, conflicts_with_all = ["costs", "real"])]
    pub costs_only: bool,
    /// Bursts to time for each cost.
    #[arg(long, default_value = "4000", value_parser = size::count)]
    pub bursts: u64,
    /// Seed of names, order and arrival times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as one line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Options {
    /// Rejects options that make no sense.
    pub fn ensure_possible(&self) -> anyhow::Result<()> {
        let possible = |threads: &usize| (1..=THREADS_MAX).contains(threads);
        ensure!(self.threads.iter().all(possible), "1 to {THREADS_MAX} threads (--threads)");
        let possible = |exponent: &f64| (0.0..=4.0).contains(exponent);
        ensure!(self.exponents.iter().all(possible), "exponents go from 0 to 4 (--exponents)");
        ensure!(self.names > 0 && self.interests > 0, "there must be a name and an Interest (--names, --interests)");
        ensure!(self.window > 0 && self.hot_window > 0, "--window and --hot-window must be more than 0");
        ensure!(self.load.is_none_or(|load| load > 0.0 && load.is_finite()), "--load must be more than 0");
        ensure!(self.burst > 0 && self.ring > 1, "--burst must be more than 0, and --ring more than 1");
        ensure!(self.bursts > 1, "--bursts must be more than 1");
        ensure!(self.real_seconds > 0.0 && self.real_seconds.is_finite(), "--real-seconds must be more than 0");
        let possible = |ns: Option<f64>| ns.is_none_or(|ns| ns >= 0.0 && ns.is_finite());
        ensure!(possible(self.receive_ns) && possible(self.send_ns), "times are not negative");
        Ok(())
    }

    /// How many Interests come.
    pub fn arrivals(&self) -> Load {
        self.load.map_or(Load::Window(self.window), Load::Open)
    }
}
