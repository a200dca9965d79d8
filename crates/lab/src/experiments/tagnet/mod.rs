//! Experiments of \[TagNet\]: tag sets, locators and both together.

mod compression;
mod extra_tags;
mod hostile;
mod labels;
mod layout;
mod match_rate;
mod memory;
mod mixed;
mod sizes;
mod threads;

use super::Experiment;

/// The machine and the data of the paper's measurements [TagNet §3.3, §4].
const TAGNET: &str = "[TagNet]: two Xeon E5-2670 v3 of 2.3 GHz, 24 cores, 64 GB; AS-level graph of 29 June 2012";

/// The machine and the data of the paper's measurements [TagNet §4, §4.1].
const TAGNET_SETS: &str = "[TagNet]: two Xeon E5-2670 v3 of 2.3 GHz, 24 cores, 30 MB of cache each; its 10M and 63M are \
                           of 500 million simulated users, ours are made to share as much";

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] = &[
    &labels::EXPERIMENT,
    &match_rate::EXPERIMENT,
    &extra_tags::EXPERIMENT,
    &memory::EXPERIMENT,
    &compression::EXPERIMENT,
    &layout::EXPERIMENT,
    &threads::ALL_SUBSETS,
    &threads::LARGEST_SUBSET,
    &sizes::EXPERIMENT,
    &hostile::EXPERIMENT,
    &mixed::FIGURE_11,
    &mixed::TABLE_1,
];
