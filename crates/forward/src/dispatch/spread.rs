//! Which Interests go elsewhere than home, and where: see [`crate::hot`].

use std::sync::Arc;

use byname_wire::name_hash::Digest;

use crate::hot::{HOME_EVERY, PARTS, SharedStore, Sketch};

/// Cache lines of the sketch for each worker, and at least so many: few rare names are taken for hot.
const LINES_PER_WORKER: usize = 64;
const LINES_MIN: usize = 512;
/// Interests of a window that are needed to call a name hot, however short the window.
const HOT_MIN: u16 = 4;

/// Where an Interest goes.
pub(super) enum Way {
    /// Home, like most.
    Home,
    /// Home; its name is hot.
    HomeHot,
    /// To any worker: Data for it is shared.
    Any(usize),
}

/// What the dispatcher knows of hot names, and of its workers' load.
pub(super) struct Spread {
    store: Arc<SharedStore>,
    sketch: Sketch,
    /// Estimate from which on a name is hot.
    hot_from: u16,
    /// Packets that each worker was given; those of earlier windows count half, a quarter, and so on.
    given: Vec<u64>,
    /// Interests that could have been spread.
    spreadable: u32,
}

impl Spread {
    /// `window`: see [`crate::hot::WINDOW`].
    pub fn new(workers: usize, window: u32) -> Self {
        let parts = PARTS * workers as u32;
        Spread {
            store: Arc::new(SharedStore::new(parts as usize)),
            sketch: Sketch::new((LINES_PER_WORKER * workers).max(LINES_MIN), window),
            hot_from: u16::try_from(window / parts).unwrap_or(u16::MAX).max(HOT_MIN),
            given: vec![0; workers],
            spreadable: 0,
        }
    }

    pub fn store(&self) -> &Arc<SharedStore> {
        &self.store
    }

    /// Notes that a worker was given a packet.
    #[inline]
    pub fn gave(&mut self, worker: usize) {
        self.given[worker] += 1;
    }

    /// Where an Interest for this name goes.
    #[inline]
    pub fn way(&mut self, name: Digest) -> Way {
        if self.sketch.is_window_over() {
            self.given.iter_mut().for_each(|given| *given /= 2);
        }
        if self.sketch.count(name) < self.hot_from {
            return Way::Home;
        }
        if !self.store.contains(name) {
            return Way::HomeHot;
        }
        self.spreadable = self.spreadable.wrapping_add(1);
        if self.spreadable.is_multiple_of(HOME_EVERY) {
            return Way::HomeHot;
        }
        let least = self.given.iter().enumerate().min_by_key(|(_, given)| **given);
        Way::Any(least.map_or(0, |(worker, _)| worker))
    }
}
