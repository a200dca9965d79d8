//! Popular prefixes on all packet threads.

use byname_forward::popular::Traffic;

use super::ForwarderHandle;

impl ForwarderHandle {
    /// Begins or ends to count packets by prefix.
    pub fn count_popular(&self, on: bool) {
        self.call_all(move |io_loop| {
            let now = io_loop.clock.now();
            io_loop.seat.ask(|worker| worker.count_popular(now, on));
        });
    }

    /// The most popular prefixes of all threads together, in the last whole window.
    pub fn popular(&self) -> Traffic {
        let threads = self.call_all(|io_loop| {
            let (now, mut traffic) = (io_loop.clock.now(), Traffic::default());
            io_loop.seat.ask(|worker| traffic = worker.popular(now));
            traffic
        });
        Traffic::sum(threads)
    }
}
