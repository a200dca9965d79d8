//! Experiments of our own.

mod adversarial;
mod compact_components;
mod engines;
mod hashes;
mod updates;

use super::Experiment;

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] = &[
    &engines::EXPERIMENT,
    &updates::EXPERIMENT,
    &adversarial::EXPERIMENT,
    &compact_components::EXPERIMENT,
    &hashes::EXPERIMENT,
];
