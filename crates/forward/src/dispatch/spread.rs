//! Decides which Interests go to other workers than their home: see [`crate::hot`].

use std::sync::Arc;

use byname_wire::name_hash::Digest;

use crate::hot::{SharedPit, SharedStore, Sketch, names_max};

/// One cache line of the sketch for so many hot names. With so many lines, few rare names count as hot.
const NAMES_PER_LINE: usize = 2;
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
    /// Number of Interests so far.
    interests: u32,
    /// For each place of the store, the number of the last Interest for its name that went home.
    went_home: Box<[u32]>,
}

impl Spread {
    /// For `window`, see [`crate::hot::WINDOW`].
    pub fn new(workers: usize, window: u32) -> Self {
        let store = SharedStore::new(names_max(workers) as usize);
        Spread::over(Arc::new(store), None, workers, window)
    }

    /// Workers share PIT entries from now on.
    pub fn share_pit(&mut self) {
        self.pit = Some(SharedPit::new(names_max(self.workers) as usize));
    }

    /// The same for another thread: it has a sketch of its own, and shares the store and the PIT entries.
    pub fn of_another_thread(&self) -> Self {
        Spread::over(Arc::clone(&self.store), self.pit.clone(), self.workers, self.window)
    }

    fn over(store: Arc<SharedStore>, pit: Option<Arc<SharedPit>>, workers: usize, window: u32) -> Self {
        let names = names_max(workers);
        Spread {
            went_home: vec![0; store.places()].into(),
            store,
            pit,
            sketch: Sketch::new(names as usize / NAMES_PER_LINE, window),
            workers,
            window,
            hot_from: u16::try_from(window / names).unwrap_or(u16::MAX).max(HOT_MIN),
            interests: 0,
        }
    }

    pub fn store(&self) -> &Arc<SharedStore> {
        &self.store
    }

    pub fn pit(&self) -> Option<&Arc<SharedPit>> {
        self.pit.as_ref()
    }

    /// Prefetches what [`Spread::way`] reads of a name whose hash this is.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.sketch.prefetch(hash);
    }

    /// Decides where an Interest for this name goes. `here` is the worker of this thread, and `nearest` the one for what any
    /// worker can answer.
    #[inline]
    pub fn way(&mut self, name: Digest, here: usize, nearest: usize) -> Way {
        self.interests = self.interests.wrapping_add(1);
        if self.sketch.count(name) < self.hot_from {
            return Way::Home;
        }
        let Some(place) = self.store.place(name) else {
            let is_open = self.pit.as_ref().is_some_and(|pit| pit.contains(name));
            return if is_open { Way::Any(here) } else { Way::HomeHot };
        };
        if self.interests.wrapping_sub(self.went_home[place]) > self.store.interests_away() {
            self.went_home[place] = self.interests;
            return Way::HomeHot;
        }
        Way::Any(nearest)
    }
}
