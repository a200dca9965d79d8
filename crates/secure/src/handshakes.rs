//! Bounds the handshakes that are under way.
//!
//! Each takes memory and time, and anybody may begin one. If there are too many, the oldest ends: a handshake that makes
//! progress takes few round trips. So peers that begin handshakes and never end them lock nobody out.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{AbortHandle, JoinSet};

/// Told when a handshake is done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done(Arc<AtomicBool>);

impl Done {
    /// From now on the connection is none of those that may have to end.
    pub(crate) fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tasks of connections.
pub(crate) struct Handshakes {
    /// All connections.
    pub(crate) tasks: JoinSet<()>,
    /// Those in their handshakes, the oldest first.
    waiting: VecDeque<(AbortHandle, Done)>,
    max: usize,
}

impl Handshakes {
    /// At most `max` handshakes at a time.
    pub(crate) fn new(max: usize) -> Self {
        Handshakes { tasks: JoinSet::new(), waiting: VecDeque::new(), max }
    }

    /// Starts a connection's task.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(&mut self, task: impl FnOnce(Done) -> F) {
        self.waiting.retain(|(task, done)| !done.is_told() && !task.is_finished());
        if self.waiting.len() >= self.max
            && let Some((oldest, _)) = self.waiting.pop_front()
        {
            oldest.abort();
        }
        let done = Done::default();
        self.waiting.push_back((self.tasks.spawn(task(done.clone())), done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_ends_and_no_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut handshakes = Handshakes::new(2);
            let forever = |done: Done, is_done: bool| async move {
                if is_done {
                    done.tell();
                }
                std::future::pending::<()>().await;
            };
            handshakes.start(|done| forever(done, true));
            tokio::task::yield_now().await;
            for _ in 0..5 {
                handshakes.start(|done| forever(done, false));
            }
            for _ in 0..3 {
                let ended = handshakes.tasks.join_next().await.expect("a task");
                assert!(ended.is_err_and(|error| error.is_cancelled()));
            }
            assert_eq!((handshakes.tasks.len(), handshakes.waiting.len()), (3, 2));
        });
    }
}
