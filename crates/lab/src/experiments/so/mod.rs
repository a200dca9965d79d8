//! Experiments of \[So\]: hash tables, two-stage lookups and the whole forwarder.

mod denial;
mod forward;
mod hash_functions;
mod load_factor;
mod memory;
mod prefetch;
mod start_depth;

use super::Experiment;

/// The machine and the data of the paper's measurements [So §3.1, §4.1].
const SO: &str = "[So]: Xeon (Westmere EP) of 2.0 GHz in an ASR 9000; IRCache names, FIB shaped as URLBlacklist";

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] = &[
    &hash_functions::EXPERIMENT,
    &prefetch::EXPERIMENT,
    &memory::EXPERIMENT,
    &load_factor::EXPERIMENT,
    &start_depth::EXPERIMENT,
    &forward::FIGURE_10,
    &forward::FIGURE_11,
    &forward::FIGURE_12,
    &denial::EXPERIMENT,
];
