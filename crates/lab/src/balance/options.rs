//! Options of `byname-lab balance`.

use anyhow::ensure;
use byname_forward::dispatch::WORKERS_MAX;
use byname_forward::hot::WINDOW;
use clap::Args;
use serde::Serialize;

use crate::size;

/// Measures how evenly workers are loaded when some names are popular, on simulated cores and on threads.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Exponents of Zipf's law; a higher exponent makes the popular names more popular.
    #[arg(long, value_name = "S,...", value_delimiter = ',', default_value = "0.8,1.0,1.2,1.4")]
    pub exponents: Vec<f64>,
    /// Number of names.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub names: u64,
    /// Capacity of all content stores together, in Data packets.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Number of Interests to measure, after as many for warming up.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub interests: u64,
    /// Number of simulated cores, each with one worker; 0: no simulation. The slides have 22.
    #[arg(long, default_value_t = 22)]
    pub cores: usize,
    /// Mean utilization of the simulated cores; above 1 they lose packets.
    #[arg(long, default_value_t = 0.8)]
    pub load: f64,
    /// Time that a simulated core takes per packet, in ns.
    #[arg(long, default_value_t = 250)]
    pub service_ns: u64,
    /// Time from sending an Interest to receiving its Data, in simulated us.
    #[arg(long, default_value_t = 1000)]
    pub rtt_us: u64,
    /// Queue length of a simulated core, in packets; packets beyond it are lost.
    #[arg(long, default_value_t = 4096)]
    pub ring: usize,
    /// Number of recent Interests over which the popularity of a name is estimated.
    #[arg(long, default_value_t = WINDOW)]
    pub window: u32,
    /// Number of workers on threads of this machine, beside the packet thread; 0: none.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
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
        for (workers, option) in [(self.cores, "--cores"), (self.threads, "--threads")] {
            ensure!(workers <= WORKERS_MAX, "at most {WORKERS_MAX} workers ({option})");
        }
        ensure!(self.names > 0 && self.interests > 0, "there must be a name and an Interest (--names, --interests)");
        ensure!(self.load > 0.0 && self.load.is_finite(), "--load must be more than 0");
        ensure!(self.service_ns > 0 && self.ring > 0, "--service-ns and --ring must be more than 0");
        ensure!(self.window > 0, "--window must be more than 0");
        let possible = |exponent: &f64| (0.0..=4.0).contains(exponent);
        ensure!(self.exponents.iter().all(possible), "exponents go from 0 to 4 (--exponents)");
        Ok(())
    }
}
