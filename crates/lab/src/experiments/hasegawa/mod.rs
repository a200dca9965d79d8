//! Experiments of \[Hasegawa\]: load of cores, waits for memory, and learned indexes.

mod balance;
mod learned_index;
mod threads;
mod waiting;

use super::Experiment;

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] =
    &[&learned_index::EXPERIMENT, &waiting::EXPERIMENT, &balance::EXPERIMENT, &threads::EXPERIMENT];
