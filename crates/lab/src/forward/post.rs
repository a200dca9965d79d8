//! Data that one thread has sent to the consumers of another one.
//!
//! Their peers would get it from the network. Nothing of this is timed.

use std::sync::{Arc, Mutex, PoisonError};

use super::consumers::Arrival;

/// One thread's way to the consumers of all threads.
pub struct Post {
    /// What each thread has to collect.
    boxes: Arc<[Mutex<Vec<Arrival>>]>,
    here: usize,
    /// What this thread has not delivered yet, by the thread that it is for.
    waiting: Vec<Vec<Arrival>>,
}

impl Post {
    /// One for each of these many threads.
    pub fn of_threads(threads: usize) -> Vec<Post> {
        let boxes: Arc<[_]> = (0..threads).map(|_| Mutex::default()).collect();
        let of = |here| Post { boxes: Arc::clone(&boxes), here, waiting: vec![Vec::new(); threads] };
        (0..threads).map(of).collect()
    }

    /// Notes Data for a consumer of another thread.
    #[inline]
    pub fn send(&mut self, thread: usize, arrival: Arrival) {
        self.waiting[thread].push(arrival);
    }

    /// Delivers what was noted.
    pub fn deliver(&mut self) {
        for (waiting, of_thread) in self.waiting.iter_mut().zip(&*self.boxes).filter(|(waiting, _)| !waiting.is_empty())
        {
            of_thread.lock().unwrap_or_else(PoisonError::into_inner).append(waiting);
        }
    }

    /// Takes what has come for this thread's consumers.
    pub fn collect(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut *self.boxes[self.here].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
