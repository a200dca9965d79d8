//! The result of one measurement.

use serde::Serialize;

use super::options::{From, Options, Place};
use crate::harness::Measured;
use crate::options::Hash;
use crate::timing::Spread;

/// Fields common to frames in memory and on the wire.
#[derive(Serialize, Clone, Debug)]
pub struct Passage {
    /// Where the frames passed.
    pub on: Place,
    /// The table; `foretold` is one that knows all answers; `reflector` means no switch.
    pub engine: String,
    /// Number of addresses in the table.
    pub names: u64,
    /// Size of a frame, in bytes.
    pub bytes: usize,
    /// The kind of device at the input port.
    pub from: From,
    /// Whether frames come in the order of a trace.
    pub trace: bool,
    /// Number of frames whose addresses were prepared.
    pub frames_prepared: usize,
    /// The keyed hash function.
    pub hash: Hash,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of repetitions; the rate below is their median.
    pub repetitions: usize,
    /// Frames per second.
    pub frames_per_s: f64,
    /// The slowest repetition.
    pub frames_per_s_min: f64,
    /// The fastest repetition.
    pub frames_per_s_max: f64,
    /// `frames_per_s` times the size of a frame.
    pub gbit_per_s: f64,
    /// Rate relative to that of the table that knows all answers, or to that of the reflector.
    pub of_limit: f64,
    /// Memory of the table's query half, in bytes, as the engine counts it.
    pub table_bytes: usize,
    /// Number of frames sent. Each was checked.
    pub checked: u64,
    /// Number of frames that left by a wrong port, or were changed.
    pub wrong: u64,
    /// Number of frames that did not leave or did not arrive.
    pub lost: u64,
}

/// A table under test.
pub(super) struct Tried<'a> {
    /// Its name, or `foretold` or `reflector`.
    pub engine: &'a str,
    /// Number of addresses in the table.
    pub names: u64,
    /// Memory of the table, in bytes.
    pub bytes: usize,
}

impl Passage {
    /// Frames per second over the repetitions.
    fn rate(&self) -> Spread {
        Spread { median: self.frames_per_s, min: self.frames_per_s_min, max: self.frames_per_s_max }
    }

    /// Makes the common fields from the rates of the repetitions. `limit` is the rate of `foretold` or of the
    /// reflector.
    pub(super) fn new(
        options: &Options,
        bytes: usize,
        frames_prepared: usize,
        table: &Tried<'_>,
        rates: &[f64],
        limit: f64,
        [checked, wrong, lost]: [u64; 3],
    ) -> Passage {
        let rate = Spread::of(rates);
        let frames_per_s = rate.median;
        Passage {
            on: options.on,
            engine: table.engine.to_owned(),
            names: table.names,
            bytes,
            from: options.from,
            trace: options.trace.is_some(),
            frames_prepared,
            hash: options.hash,
            seed: options.measuring.seed,
            repetitions: rates.len(),
            frames_per_s,
            frames_per_s_min: rate.min,
            frames_per_s_max: rate.max,
            gbit_per_s: frames_per_s * bytes as f64 * 8e-9,
            of_limit: frames_per_s / limit,
            table_bytes: table.bytes,
            checked,
            wrong,
            lost,
        }
    }
}

/// Frames in memory, with one table. Rates are sums over all threads.
#[derive(Serialize, Clone, Debug)]
pub struct MemoryRecord {
    /// The common fields.
    #[serde(flatten)]
    pub passage: Passage,
    /// Memory of the frames of each thread, in bytes.
    pub frame_memory: u64,
    /// Number of switches, each on its own core.
    pub threads: usize,
    /// Nanoseconds per frame on one switch, including generator and counters.
    pub ns_per_frame: f64,
    /// Expected share of wrong answers, by the engine's own formula.
    pub wrong_rate: f64,
}

impl Measured for MemoryRecord {
    fn rate(&self) -> Spread {
        self.passage.rate()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        None
    }
}

/// Frames on the wire, through a switch or through a reflector instead.
#[derive(Serialize, Clone, Debug)]
pub struct WireRecord {
    /// The common fields.
    #[serde(flatten)]
    pub passage: Passage,
    /// Number of threads of the switch, which share a core.
    pub threads: usize,
    /// Maximum number of frames under way.
    pub window: u16,
    /// Mean number of frames per second while delays were measured.
    pub rate: u64,
    /// Median delay from generator to sink.
    pub p50_us: f64,
    /// 90th percentile (p90) of the delay.
    pub p90_us: f64,
    /// 99th percentile (p99) of the delay.
    pub p99_us: f64,
    /// 99.9th percentile (p99.9) of the delay.
    pub p999_us: f64,
    /// Maximum delay.
    pub max_us: f64,
}

impl Measured for WireRecord {
    fn rate(&self) -> Spread {
        self.passage.rate()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn machine_lines_per_s(&self) -> Option<f64> {
        None
    }
}
