//! Counts what a lookup costs, with the same code that answers it.
//!
//! Walks are generic over a [`Count`]. With `()` they are what workers run. With [`Counts`] the
//! same steps are counted.

/// Receives each step of a walk.
pub(crate) trait Count {
    /// The walk reads a cache line of the table.
    fn line(&mut self);
    /// The walk looks up a prefix: a *FIB lookup* of [So, Table 5].
    fn probe(&mut self);
}

impl Count for () {
    #[inline(always)]
    fn line(&mut self) {}
    #[inline(always)]
    fn probe(&mut self) {}
}

/// What one lookup cost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) lines: usize,
    pub(crate) probes: usize,
}

impl Count for Counts {
    fn line(&mut self) {
        self.lines += 1;
    }
    fn probe(&mut self) {
        self.probes += 1;
    }
}
