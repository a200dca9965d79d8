//! What full rings cost. Threads take one packet at a time, so each drop is that of a known packet, and loses at most:
//!
//! - `input-ring-full`, an Interest on its way home: its exchange. If it is for a hot name, another thread may have had it
//!   first, and found nothing: then it is one of those that this thread was given.
//! - `input-ring-full`, Data of the producer on its way to a home: the exchanges of all that wait for it there.
//! - `output-ring-full`, an Interest on its way to the producer: the same.
//! - `output-ring-full`, Data on its way to a consumer: its exchange.
//!
//! Consumers that wait at a home, for Data that was dropped, get what comes there later.

use std::collections::HashSet;

/// Interests that a thread was given although it is not their home, and how many of them were dropped on their way home.
#[derive(Debug)]
struct Strays {
    tokens: Vec<u64>,
    drops: usize,
}

/// All drops, and what they may have lost.
pub struct Losses {
    /// Packets dropped on their way to their homes, and on their way to the owners of their faces.
    pub drops: [u64; 2],
    /// Exchanges that are lost for certain, by token. An answer to one of them would be a failure.
    pub exchanges: HashSet<u64>,
    /// Names, and homes where Interests for them may wait in vain.
    in_vain: HashSet<(u64, usize)>,
    /// By thread: Interests that it was given although it is not their home, and has not taken yet.
    astray: Vec<Vec<u64>>,
    strays: Vec<Strays>,
}

impl Losses {
    pub fn new(threads: usize) -> Self {
        let astray = vec![Vec::new(); threads];
        Losses { drops: [0; 2], exchanges: HashSet::new(), in_vain: HashSet::new(), astray, strays: Vec::new() }
    }

    /// The exchange of this token is lost.
    pub fn lose(&mut self, token: u64) {
        assert!(self.exchanges.insert(token), "{token} was lost twice");
    }

    /// A thread was given an Interest, and is not its home.
    pub fn goes_astray(&mut self, token: u64, to: usize) {
        self.astray[to].push(token);
    }

    /// A thread has taken what others gave it. So many packets were dropped meanwhile.
    pub fn took(&mut self, thread: usize, drops: u64) {
        self.drops[0] += drops;
        let (tokens, drops) = (std::mem::take(&mut self.astray[thread]), drops as usize);
        assert!(drops <= tokens.len(), "{drops} were dropped on their way home, of {}", tokens.len());
        if drops > 0 {
            self.strays.push(Strays { tokens, drops });
        }
    }

    /// Data of this name came to a home, or something was dropped that this home waits for.
    pub fn came(&mut self, name: u64, home: usize, came: bool) {
        if came {
            self.in_vain.remove(&(name, home));
        } else {
            self.in_vain.insert((name, home));
        }
    }

    /// Checks at the end that each exchange which is still open has its drop. `open` are tokens, names and homes.
    /// `unanswered` says whether an Interest had no answer, for whatever reason.
    pub fn explain(&self, open: &[(u64, u64, usize)], unanswered: impl Fn(u64) -> bool) {
        let astray: HashSet<u64> = self.strays.iter().flat_map(|strays| strays.tokens.iter().copied()).collect();
        let mut strayed = HashSet::new();
        for (token, name, home) in open {
            if !self.in_vain.contains(&(*name, *home)) {
                assert!(astray.contains(token), "{token}, for {name} at home {home}, was lost without a drop");
                strayed.insert(*token);
            }
        }
        for Strays { tokens, drops } in &self.strays {
            let lost = tokens.iter().filter(|token| strayed.contains(token)).count();
            assert!(lost <= *drops, "{lost} lost and {drops} dropped, of {tokens:?}");
            let without = tokens.iter().filter(|token| unanswered(**token)).count();
            assert!(*drops <= without, "{drops} dropped and {without} not answered, of {tokens:?}");
        }
    }
}
