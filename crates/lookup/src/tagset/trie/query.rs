//! The query half: tries of decreasing size, and a list.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::Options;
use super::list::List;
use super::run::Run;
use super::walk::{All, Goal, Largest, Search, Siblings};
use crate::entry::EntryId;
use crate::tagset::{BURST_MAX, Effort, TagQuery, TagsetFib};

/// Stack size that suffices for most walks.
const STACK_LEN: usize = 128;

/// Each descriptor is in one of them.
pub(super) struct Query {
    pub(super) options: Options,
    pub(super) runs: Box<[Arc<Run>]>,
    pub(super) list: Arc<List>,
}

impl Query {
    fn search(&self, query: &TagQuery<'_>, stack: &mut Vec<Siblings>, goal: &mut impl Goal) -> Effort {
        let mut search = Search::new(&self.options, stack);
        let filter = query.filter;
        let walked = self.runs.iter().try_for_each(|run| search.walk(run, filter, goal, &mut |_| ()));
        // A visitor that ended the search wants nothing from the list either.
        let _ = walked.and_then(|()| self.list.search(&filter, &mut search, goal));
        Effort { steps: search.steps, cut_off: search.cut_off }
    }

    fn largest(
        &self,
        query: &TagQuery<'_>,
        stack: &mut Vec<Siblings>,
        accept: &mut dyn FnMut(EntryId) -> bool,
    ) -> (Option<EntryId>, Effort) {
        let mut goal = Largest::new(&self.options, accept);
        let walk = self.search(query, stack, &mut goal);
        (goal.entry(), walk)
    }
}

impl TagsetFib for Query {
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Effort {
        self.search(query, &mut Vec::with_capacity(STACK_LEN), &mut All(visit))
    }

    fn largest_subset(
        &self,
        query: &TagQuery<'_>,
        accept: &mut dyn FnMut(EntryId) -> bool,
    ) -> (Option<EntryId>, Effort) {
        self.largest(query, &mut Vec::with_capacity(STACK_LEN), accept)
    }

    fn all_subsets_burst(
        &self,
        queries: &[TagQuery<'_>],
        visit: &mut dyn FnMut(usize, EntryId) -> ControlFlow<()>,
        efforts: &mut [Effort],
    ) {
        assert_eq!(queries.len(), efforts.len());
        assert!(queries.len() <= BURST_MAX);
        let mut stack = Vec::with_capacity(STACK_LEN);
        for (i, (query, walk)) in queries.iter().zip(efforts).enumerate() {
            *walk = self.search(query, &mut stack, &mut All(&mut |entry| visit(i, entry)));
        }
    }

    fn largest_subset_burst(
        &self,
        queries: &[TagQuery<'_>],
        accept: &mut dyn FnMut(usize, EntryId) -> bool,
        out: &mut [(Option<EntryId>, Effort)],
    ) {
        assert_eq!(queries.len(), out.len());
        assert!(queries.len() <= BURST_MAX);
        let mut stack = Vec::with_capacity(STACK_LEN);
        for (i, (query, found)) in queries.iter().zip(out).enumerate() {
            *found = self.largest(query, &mut stack, &mut |entry| accept(i, entry));
        }
    }

    fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|run| run.memory_bytes()).sum();
        size_of::<Self>() + runs + self.list.memory_bytes()
    }
}
