//! Decides which Interests go to other workers than their home: see [`crate::hot`].

use std::sync::Arc;

use byname_wire::name_hash::Digest;

use crate::hot::{HOME_EVERY, SharedPit, SharedStore, Sketch, names_max};

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
    /// For each place of the store.
    away: Box<[Away]>,
}

/// Interests since one for the name of a place went home.
#[derive(Clone, Copy, Default)]
struct Away {
    /// The number of that Interest among all.
    since: u32,
    /// Interests for this name since then.
    asked: u32,
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
            away: vec![Away::default(); store.places()].into(),
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
        let away = &mut self.away[place];
        away.asked = away.asked.saturating_add(1);
        let all = self.interests.wrapping_sub(away.since);
        if away.asked >= HOME_EVERY && all > self.store.interests_away() {
            *away = Away { since: self.interests, asked: 0 };
            return Way::HomeHot;
        }
        Way::Any(nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::NameRange;
    use crate::ticks::Ticks;

    fn digest(name: u64) -> Digest {
        let spread = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Digest { hash: spread, check: spread.rotate_left(32) }
    }

    /// Every second Interest is for a hot name, which is stored. Returns how many of them another worker could answer, and
    /// how many went home.
    fn ways(room: usize) -> (usize, usize) {
        let mut spread = Spread::new(2, 64);
        assert!(spread.store().insert(digest(1), b"Data", NameRange { start: 0, len: 1 }, Ticks(u64::MAX)));
        spread.store().expect_turnover(room);
        let (mut any, mut home) = (0, 0);
        for n in 0..2000 {
            let way = spread.way(digest(if n % 2 == 0 { 1 } else { 1000 + n }), 0, 1);
            match way {
                Way::Any(worker) => {
                    assert!(worker == 1 && n % 2 == 0);
                    any += 1;
                }
                Way::HomeHot => home += 1,
                Way::Home => assert!(n % 2 == 1 || n < 8, "{n}: it is hot"),
            }
        }
        assert!((990..=1000).contains(&(any + home)));
        (any, home)
    }

    #[test]
    fn an_interest_goes_home_before_the_content_store_may_have_other_data() {
        let (any, home) = ways(2 * 300);
        assert!((3..=8).contains(&home) && any > 980, "{any}, {home}");
        // But not more often than this, in a small store.
        for room in [0, 2 * 10] {
            let (any, home) = ways(room);
            assert!((61..=63).contains(&home) && any > 930, "{any}, {home}");
        }
    }

    #[test]
    fn a_name_that_is_hot_and_not_stored_goes_home_with_a_mark() {
        let mut spread = Spread::new(2, 64);
        let ways: Vec<_> = (0..10).map(|_| spread.way(digest(1), 0, 1)).collect();
        assert!(matches!(ways[0], Way::Home) && ways[4..].iter().all(|way| matches!(way, Way::HomeHot)));
    }
}
