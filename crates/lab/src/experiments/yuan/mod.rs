//! Experiments of \[Yuan\]: binary search over prefix lengths.

mod components;
mod level_pulling;
mod pages;
mod prefetch;
mod sizes;
mod system;
mod threads;

use super::Experiment;

/// The machine and the data of the paper's measurements [Yuan, Table 1 and §3.3.1].
const YUAN: &str = "[Yuan]: two Xeon E5-2630 of 2.3 GHz, 192 GB of DDR3-1333; rules of 7 components";

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] = &[
    &pages::EXPERIMENT,
    &prefetch::EXPERIMENT,
    &sizes::EXPERIMENT,
    &components::EXPERIMENT,
    &threads::EXPERIMENT,
    &system::EXPERIMENT,
    &level_pulling::EXPERIMENT,
];
