//! Options of `byname-lab balance`.

use anyhow::ensure;
use byname_forward::dispatch::WORKERS_MAX;
use byname_forward::hot::WINDOW;
use clap::Args;

use crate::size;

/// Measures how evenly workers are loaded under popular names, on simulated cores and on threads.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Exponents of Zipf's law: how popular the most popular names are.
    #[arg(long, value_name = "S,...", value_delimiter = ',', default_value = "0.8,1.0,1.2,1.4")]
    pub exponents: Vec<f64>,
    /// Names that are asked for.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub names: u64,
    /// Data that all content stores may hold together.
    #[arg(long, default_value = "64Ki", value_parser = size::count)]
    pub cs: u64,
    /// Interests that are measured, after as many that warm up.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub interests: u64,
    /// Cores that are simulated, each with a worker; 0: no simulation. The slides have 22.
    #[arg(long, default_value_t = 22)]
    pub cores: usize,
    /// Of the time, what simulated cores would be busy for if all had the same to do; above 1 they lose
    /// packets.
    #[arg(long, default_value_t = 0.8)]
    pub load: f64,
    /// Time that a simulated core has for a packet, in ns.
    #[arg(long, default_value_t = 250)]
    pub service_ns: u64,
    /// Time from an Interest that leaves to its Data, in simulated us.
    #[arg(long, default_value_t = 1000)]
    pub rtt_us: u64,
    /// Packets that wait ahead of a simulated core; more are lost.
    #[arg(long, default_value_t = 4096)]
    pub ring: usize,
    /// Interests of which a name must have its part to be hot.
    #[arg(long, default_value_t = WINDOW)]
    pub window: u32,
    /// Workers on threads of this machine, beside the one that moves packets; 0: none.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Seed of names, order and arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print each record as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Refuses what makes no sense.
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
