//! A table without cost: it knows in advance which frames come, and so all answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byname_lookup::{EntryId, FlatFib};
use byname_switch::switch::check;
use byname_wire::Digest;

use super::options::From;
use super::stations::Addresses;

/// Answers for frames that come in a known order, again and again from the first. Each burst must be queried with one
/// call.
pub struct Foretold {
    draws: Arc<[Addresses]>,
    from: From,
    next: AtomicUsize,
}

impl Foretold {
    /// Makes a table for these frames.
    pub fn new(draws: Arc<[Addresses]>, from: From, first: usize) -> Self {
        Foretold { draws, from, next: AtomicUsize::new(first) }
    }
}

impl FlatFib for Foretold {
    /// The switch queries a single name only for a waiting frame, and no frame waits here.
    fn entry(&self, _: Digest) -> Option<EntryId> {
        None
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        let a_frame = if self.from == From::Hosts { 2 } else { 1 };
        let mut next = self.next.load(Ordering::Relaxed);
        for (names, out) in names.chunks(a_frame).zip(out.chunks_mut(a_frame)) {
            let ports = [EntryId(0), EntryId(self.draws[next].port.into())];
            for ((name, found), port) in names.iter().zip(out).zip(&ports[2 - a_frame..]) {
                *found = check().stored(*name, *port).ok();
            }
            next = if next + 1 == self.draws.len() { 0 } else { next + 1 };
        }
        self.next.store(next, Ordering::Relaxed);
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
