//! Counting what a lookup costs, by the walk that answers it.
//!
//! Walks are generic over a [`Count`]: with `()` they are what workers run, with [`Counts`] the
//! very same steps are counted.

/// Told of each step of a walk.
pub(crate) trait Count {
    /// A cache line of the table is read.
    fn line(&mut self);
    /// A prefix is looked up: a *FIB lookup* of [So, Table 5].
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
