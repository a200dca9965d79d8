//! Experiments of \[Concise\]: flat names, and a switch for them.

mod bits;
mod construction;
mod delay;
mod lengths;
mod messages;
mod names;
mod setsep;
mod sharing;
mod switch;
mod table1;
mod update_speed;
mod updates;
mod validity;

use super::Experiment;

/// The machine and the data of the paper's measurements [Concise §6.1].
const CONCISE: &str = "[Concise]: Core i7-4770 of 3.4 GHz, 4 cores, 8 MB of cache, DDR3-1600";

/// In the order of `list`.
pub(super) const ALL: &[&Experiment] = &[
    &table1::EXPERIMENT,
    &bits::EXPERIMENT,
    &names::EXPERIMENT,
    &lengths::EXPERIMENT,
    &updates::EXPERIMENT,
    &delay::EXPERIMENT,
    &construction::EXPERIMENT,
    &update_speed::EXPERIMENT,
    &messages::EXPERIMENT,
    &setsep::EXPERIMENT,
    &sharing::EXPERIMENT,
    &validity::EXPERIMENT,
    &switch::FIGURE_9,
    &switch::FIGURE_11,
];
