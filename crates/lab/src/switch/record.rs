//! What one measurement found.

use serde::Serialize;

use super::options::{From, Options, Place};
use crate::prefix::Hash;
use crate::timing::median;

/// What is to be said of frames wherever they were.
#[derive(Serialize, Clone, Debug)]
pub struct Passage {
    /// Where the frames were.
    pub on: Place,
    /// The table; `foretold`: one that knows all answers; `reflector`: no switch.
    pub engine: String,
    /// Addresses in it.
    pub names: u64,
    /// Octets of a frame.
    pub octets: usize,
    /// Who is where frames come in.
    pub from: From,
    /// Whether they come in the order of a trace.
    pub trace: bool,
    /// Frames whose addresses were prepared.
    pub frames_prepared: usize,
    /// The keyed hash.
    pub hash: Hash,
    /// Seed of all of it.
    pub seed: u64,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Frames a second.
    pub frames_per_s: f64,
    /// The slowest repetition.
    pub frames_per_s_min: f64,
    /// The fastest repetition.
    pub frames_per_s_max: f64,
    /// The rate times the size.
    pub gbit_per_s: f64,
    /// Share of the rate of the table that knows all answers, or of the reflector.
    pub of_limit: f64,
    /// Memory of the table's query half, in bytes, as the engine counts it.
    pub table_bytes: usize,
    /// Frames that came, each of which was checked.
    pub checked: u64,
    /// Those that left by another port than they should, or not as they had come.
    pub wrong: u64,
    /// Those that did not leave, or not arrive.
    pub lost: u64,
}

/// A table among frames.
pub(super) struct Tried<'a> {
    /// Its name, or what stands in its place.
    pub engine: &'a str,
    /// Addresses in it.
    pub names: u64,
    /// Its memory, in bytes.
    pub bytes: usize,
}

impl Passage {
    /// What was found of frames of so many octets, at these rates; the limit is another's rate.
    pub(super) fn new(
        options: &Options,
        octets: usize,
        frames_prepared: usize,
        table: &Tried<'_>,
        rates: &[f64],
        limit: f64,
        [checked, wrong, lost]: [u64; 3],
    ) -> Passage {
        let frames_per_s = median(rates);
        Passage {
            on: options.on,
            engine: table.engine.to_owned(),
            names: table.names,
            octets,
            from: options.from,
            trace: options.trace.is_some(),
            frames_prepared,
            hash: options.hash,
            seed: options.measuring.seed,
            repetitions: rates.len(),
            frames_per_s,
            frames_per_s_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            frames_per_s_max: rates.iter().copied().fold(0.0, f64::max),
            gbit_per_s: frames_per_s * octets as f64 * 8e-9,
            of_limit: frames_per_s / limit,
            table_bytes: table.bytes,
            checked,
            wrong,
            lost,
        }
    }
}

/// Frames in memory, by one table. Rates are of all threads together.
#[derive(Serialize, Clone, Debug)]
pub struct MemoryRecord {
    /// How they passed.
    #[serde(flatten)]
    pub passage: Passage,
    /// Octets of memory that frames lie in, of each thread.
    pub frame_memory: u64,
    /// Switches, each with a core of its own.
    pub threads: usize,
    /// Nanoseconds of one switch for a frame, generator and counters included.
    pub ns_per_frame: f64,
    /// The share of answers that are wrong by the engine's own account.
    pub wrong_rate: f64,
}

/// Frames on the wire, through one switch, or through a reflector in its place.
#[derive(Serialize, Clone, Debug)]
pub struct WireRecord {
    /// How they passed.
    #[serde(flatten)]
    pub passage: Passage,
    /// Most frames on their way.
    pub window: u16,
    /// Frames a second, on average, while delays were taken.
    pub rate: u64,
    /// The delay that half of the frames exceeded, from generator to sink.
    pub p50_us: f64,
    /// That 1 frame of 10 exceeded.
    pub p90_us: f64,
    /// That 1 frame of 100 exceeded.
    pub p99_us: f64,
    /// That 1 frame of 1,000 exceeded.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}
