//! What one measurement found.

use serde::Serialize;

use super::options::{From, Place};
use crate::prefix::Hash;

/// Frames in memory, by one table. Rates are of all threads together.
#[derive(Serialize, Clone, Debug)]
pub struct MemoryRecord {
    /// Where the frames were.
    pub on: Place,
    /// The table; `foretold`: one that knows all answers.
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
    /// Octets of memory that frames lie in, of each thread.
    pub frame_memory: u64,
    /// The keyed hash.
    pub hash: Hash,
    /// Seed of all of it.
    pub seed: u64,
    /// Switches, each with a core of its own.
    pub threads: usize,
    /// Repetitions, of which the rate below is the median.
    pub repetitions: usize,
    /// Frames a second.
    pub frames_per_s: f64,
    /// The slowest repetition.
    pub frames_per_s_min: f64,
    /// The fastest repetition.
    pub frames_per_s_max: f64,
    /// Nanoseconds of one switch for a frame, generator and counters included.
    pub ns_per_frame: f64,
    /// The rate times the size.
    pub gbit_per_s: f64,
    /// Memory of the table's query half, in bytes, as the engine counts it.
    pub table_bytes: usize,
    /// Frames that came in, each of which was checked.
    pub checked: u64,
    /// Those that left by another port than they should.
    pub wrong: u64,
    /// Those that did not leave.
    pub lost: u64,
    /// The share of answers that are wrong by the engine's own account.
    pub wrong_rate: f64,
    /// Share of the rate of the table that knows all answers.
    pub of_limit: f64,
}

/// Frames on the wire, through one switch, or through a reflector in its place.
#[derive(Serialize, Clone, Debug)]
pub struct WireRecord {
    /// Where the frames were.
    pub on: Place,
    /// The switch's table; `reflector`: no switch.
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
    /// Most frames on their way.
    pub window: u16,
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
    /// Share of the reflector's rate.
    pub of_limit: f64,
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
    /// Memory of the table's query half, in bytes, as the engine counts it.
    pub table_bytes: usize,
    /// Frames that arrived, each of which was checked.
    pub checked: u64,
    /// Those that were not as they had left.
    pub wrong: u64,
    /// Those that did not arrive.
    pub lost: u64,
}
