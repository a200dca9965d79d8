//! What the commands that measure in memory have in common.

use std::time::Duration;

use anyhow::ensure;
use clap::{Args, Parser};

use crate::machine::cores;
use crate::progress::Progress;

/// How long is measured, how often, and on how many cores.
#[derive(Args, Clone, Debug)]
pub struct Measuring {
    /// Threads that do the work, each on a core of its own.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds of measuring in all, for each engine that is measured.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Repetitions that the seconds are divided into; the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,
    /// Seed of all that is made up: what is in the tables, what is asked for, its order, and keys.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print each record as one line of JSON and nothing else.
    #[arg(long)]
    pub json: bool,
}

impl Default for Measuring {
    fn default() -> Self {
        defaults()
    }
}

impl Measuring {
    /// Refuses what no machine, or not this one, can do.
    pub fn ensure_possible(&self) -> anyhow::Result<()> {
        cores::ensure_enough(self.threads, "so many threads (--threads)")?;
        ensure!(self.seconds > 0.0 && self.seconds.is_finite(), "--seconds must be more than 0");
        Ok(())
    }

    /// The time of one repetition.
    pub fn repetition(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repetitions))
    }

    /// A share of all the time, for what is measured beside.
    pub fn share(&self, share: f64) -> Duration {
        Duration::from_secs_f64(self.seconds * share)
    }

    /// Bars and spinners, unless JSON is all that is wanted.
    pub fn progress(&self) -> Progress {
        if self.json { Progress::HIDDEN } else { Progress::SHOWN }
    }
}

/// What options are when the command line says nothing.
pub fn defaults<O: Args>() -> O {
    #[derive(Parser)]
    struct Alone<O: Args> {
        #[command(flatten)]
        options: O,
    }
    Alone::parse_from(["byname-lab"]).options
}

/// The engines of `--compare`, or else that of `--engine`.
pub fn engines<'a>(engine: &'a str, compare: &'a [String]) -> Vec<&'a str> {
    match compare.is_empty() {
        true => vec![engine],
        false => compare.iter().map(String::as_str).collect(),
    }
}

/// Reads how many names or packets (`what`) a burst has.
pub fn burst(text: &str, burst_max: usize, what: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(burst) if (1..=burst_max).contains(&burst) => Ok(burst),
        _ => Err(format!("a burst has 1 to {burst_max} {what}")),
    }
}
