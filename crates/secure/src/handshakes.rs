//! Bounds the handshakes that are under way.
//!
//! Each takes memory and time, and anybody may begin one. If there are too many, one ends: the oldest of the source prefix
//! that has most. A handshake that makes progress takes few round trips. So peers that begin handshakes and never end them
//! lock nobody out, and one network takes no places from others that have fewer.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byname_forward::SourcePrefix;
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

/// A connection in its handshake.
struct Begun {
    source: SourcePrefix,
    task: AbortHandle,
    done: Done,
}

/// Tasks of connections.
pub(crate) struct Handshakes {
    /// All connections.
    pub(crate) tasks: JoinSet<()>,
    /// Those in their handshakes, the oldest first.
    begun: VecDeque<Begun>,
    max: usize,
}

impl Handshakes {
    /// At most `max` handshakes at a time.
    pub(crate) fn new(max: usize) -> Self {
        Handshakes { tasks: JoinSet::new(), begun: VecDeque::new(), max }
    }

    /// Starts the task of a connection from this address.
    pub(crate) fn start<F>(&mut self, peer: &SocketAddr, task: impl FnOnce(Done) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.begun.retain(|begun| !begun.done.is_told() && !begun.task.is_finished());
        if self.begun.len() >= self.max
            && let Some(begun) = self.least_deserving().and_then(|at| self.begun.remove(at))
        {
            begun.task.abort();
        }
        let done = Done::default();
        let task = self.tasks.spawn(task(done.clone()));
        self.begun.push_back(Begun { source: SourcePrefix::of(peer), task, done });
    }

    /// The oldest of the source that has most.
    fn least_deserving(&self) -> Option<usize> {
        // The hash is keyed, and there are few.
        let mut counts: HashMap<SourcePrefix, usize> = HashMap::new();
        self.begun.iter().for_each(|begun| *counts.entry(begun.source).or_default() += 1);
        let most = counts.values().copied().max()?;
        self.begun.iter().position(|begun| counts[&begun.source] == most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn forever(done: Done, is_done: bool) {
        if is_done {
            done.tell();
        }
        std::future::pending::<()>().await;
    }

    fn peer(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    async fn ends(handshakes: &mut Handshakes, count: usize) {
        for _ in 0..count {
            let ended = handshakes.tasks.join_next().await.expect("a task");
            assert!(ended.is_err_and(|error| error.is_cancelled()));
        }
    }

    #[tokio::test]
    async fn the_oldest_handshake_ends_and_no_connection() {
        let mut handshakes = Handshakes::new(2);
        let from = peer("192.0.2.1:1");
        handshakes.start(&from, |done| forever(done, true));
        tokio::task::yield_now().await;
        for _ in 0..5 {
            handshakes.start(&from, |done| forever(done, false));
        }
        ends(&mut handshakes, 3).await;
        assert_eq!((handshakes.tasks.len(), handshakes.begun.len()), (3, 2));
    }

    #[tokio::test]
    async fn a_source_that_has_many_takes_no_place_of_another() {
        let mut handshakes = Handshakes::new(8);
        let [honest, flood] = ["192.0.2.1:1", "198.51.100.1:1"].map(peer);
        handshakes.start(&honest, |done| forever(done, false));
        for _ in 0..100 {
            handshakes.start(&flood, |done| forever(done, false));
        }
        ends(&mut handshakes, 93).await;
        assert_eq!(handshakes.begun.len(), 8);
        assert!(!handshakes.begun[0].task.is_finished() && handshakes.begun[0].source == SourcePrefix::of(&honest));
    }
}
