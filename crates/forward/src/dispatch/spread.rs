//! Decides which Interests go to other workers than their home: see [`crate::hot`].

use std::sync::Arc;

use byname_wire::name_hash::Digest;

use super::loads::Loads;
use crate::hot::{HOME_EVERY, PARTS, SharedPit, SharedStore, Sketch};

/// Cache lines of the sketch for each worker, and the minimum in all. With so many, few rare names count as hot.
const LINES_PER_WORKER: usize = 64;
const LINES_MIN: usize = 512;
/// Minimum of Interests that make a name hot, however short the window.
const HOT_MIN: u16 = 4;

/// The route of an Interest to a worker.
pub(super) enum Way {
    /// To its home, as most are.
    Home,
    /// To its home; its name is hot.
    HomeHot,
    /// To any worker: its Data or its PIT entry is shared.
    Any(usize),
}

/// One thread's estimate of which names are hot.
pub(super) struct Spread {
    store: Arc<SharedStore>,
    /// Entries of pending Interests that any worker may join, if workers share them.
    pit: Option<Arc<SharedPit>>,
    sketch: Sketch,
    workers: usize,
    window: u32,
    /// A name is hot from this estimate on.
    hot_from: u16,
    /// Number of Interests that could have been spread.
    spreadable: u32,
}

impl Spread {
    /// For `window`, see [`crate::hot::WINDOW`].
    pub fn new(workers: usize, window: u32) -> Self {
        let store = SharedStore::new((PARTS * workers as u32) as usize);
        Spread::over(Arc::new(store), None, workers, window)
    }

    /// Workers share PIT entries from now on.
    pub fn share_pit(&mut self) {
        self.pit = Some(SharedPit::new((PARTS * self.workers as u32) as usize));
    }

    /// The same for another thread: it has a sketch of its own, and shares the store and the PIT entries.
    pub fn of_another_thread(&self) -> Self {
        Spread::over(Arc::clone(&self.store), self.pit.clone(), self.workers, self.window)
    }

    fn over(store: Arc<SharedStore>, pit: Option<Arc<SharedPit>>, workers: usize, window: u32) -> Self {
        Spread {
            store,
            pit,
            sketch: Sketch::new((LINES_PER_WORKER * workers).max(LINES_MIN), window),
            workers,
            window,
            hot_from: u16::try_from(window / (PARTS * workers as u32)).unwrap_or(u16::MAX).max(HOT_MIN),
            spreadable: 0,
        }
    }

    pub fn store(&self) -> &Arc<SharedStore> {
        &self.store
    }

    pub fn pit(&self) -> Option<&Arc<SharedPit>> {
        self.pit.as_ref()
    }

    /// Decides where an Interest for this name goes. `here` is the worker of this thread.
    #[inline]
    pub fn way(&mut self, name: Digest, here: usize, loads: &Loads) -> Way {
        if self.sketch.count(name) < self.hot_from {
            return Way::Home;
        }
        if !self.store.contains(name) {
            let is_open = self.pit.as_ref().is_some_and(|pit| pit.contains(name));
            return if is_open { Way::Any(here) } else { Way::HomeHot };
        }
        self.spreadable = self.spreadable.wrapping_add(1);
        if self.spreadable.is_multiple_of(HOME_EVERY) {
            return Way::HomeHot;
        }
        Way::Any(loads.nearest(here))
    }
}
