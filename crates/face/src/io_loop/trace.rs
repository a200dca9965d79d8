//! Watches on all packet threads.

use std::time::Duration;

use byname_forward::trace::{Event, Filter};

use super::ForwarderHandle;

/// An event, and where and when it was.
#[derive(Debug)]
pub struct Seen {
    /// Number of the packet thread.
    pub thread: usize,
    /// Time since the event.
    pub age: Duration,
    /// The event.
    pub event: Event,
}

impl ForwarderHandle {
    /// Begins to watch on all threads. Returns false, and watches nowhere, if there are too many watches.
    pub fn watch(&self, id: u64, filter: Filter) -> bool {
        let begun = self.ask_all(move |_, worker| worker.watch(id, filter.clone()));
        let all = begun.len() == self.threads() && begun.into_iter().all(|begun| begun);
        if !all {
            self.unwatch(id);
        }
        all
    }

    /// Ends a watch on all threads.
    pub fn unwatch(&self, id: u64) {
        self.ask_all(move |_, worker| worker.unwatch(id));
    }

    /// Takes up to `events_max` events from each thread, oldest first. Also returns how many were lost since the last
    /// call.
    pub fn take_events(&self, id: u64, events_max: usize) -> (Vec<Seen>, u64) {
        let taken = self.call_each(0..self.threads(), move |thread, io_loop| {
            let (now, mut taken) = (io_loop.clock.now(), None);
            io_loop.seat.ask(|worker| taken = Some(worker.take_events(id, events_max)));
            let taken = taken.unwrap_or_default();
            let seen = |event: Event| Seen { thread, age: now.since(event.at), event };
            (taken.events.into_iter().map(seen).collect::<Vec<_>>(), taken.lost)
        });
        let lost = taken.iter().map(|(_, lost)| lost).sum();
        let mut events: Vec<Seen> = taken.into_iter().flat_map(|(events, _)| events).collect();
        events.sort_by_key(|seen| std::cmp::Reverse(seen.age));
        (events, lost)
    }
}
