//! Options of `byname-lab libraries`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::keys::Table;
use crate::options;
use crate::size;

/// Compares byname's tables with other libraries, on the same keys.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Tables to measure.
    #[arg(long, value_delimiter = ',', default_value = "prefix,ip,flat,tags")]
    pub tables: Vec<Table>,
    /// Numbers of keys; `ip` and `tags` have at most as many as their lists.
    #[arg(long, value_delimiter = ',', value_parser = size::count, default_value = "100k,1M")]
    pub keys: Vec<u64>,
    /// Libraries to measure, all by default.
    #[arg(long, value_delimiter = ',', value_name = "LIBRARY")]
    pub only: Vec<String>,
    /// Folder of real data.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// Generate keys, where there are no real data.
    #[arg(long)]
    pub made: bool,
    /// Time for the lookups of each library, in seconds; changes take as long.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Number of repetitions that share this time; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Number of threads that ask together, beside one that asks alone.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Seed of the order of questions and changes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as one line of JSON.
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    /// Measure in this process, with keys from this folder, and write no record.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub prepared: Option<PathBuf>,
}

impl Default for Options {
    /// The defaults of the command line.
    fn default() -> Self {
        options::defaults()
    }
}
