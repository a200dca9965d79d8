//! Publishes the writer's changes to readers in this process and to remote replicas.

use std::sync::Arc;

use super::changes::{self, Changes};
use super::part::PartWriter;
use super::shape::Shape;
use crate::flat::message::Record;

/// Writes lines, and records the changes if they are to be sent to replicas.
pub(super) struct Publisher {
    pub(super) changes: Arc<Changes>,
    pub(super) record: Option<Record>,
}

impl Publisher {
    pub(super) fn new() -> Self {
        Publisher { changes: Arc::new(Changes::new()), record: None }
    }

    /// Writes a line of a part in one step, as readers see it.
    pub(super) fn write(&mut self, part: &PartWriter, shape: Shape, line: usize, words: &[u64; 8]) {
        let lines = &part.part.lines;
        if let Some(record) = &mut self.record {
            let old = changes::words(&lines[line]);
            let first = 8 * (line - part.part.lines_used(shape).start) as u32;
            let flips = (first..).zip(old.iter().zip(words).map(|(old, new)| old ^ new));
            let flips: Vec<_> = flips.filter(|&(_, flip)| flip != 0).collect();
            if !flips.is_empty() {
                record.flipped(part.number, 1, flips.into_iter());
            }
        }
        self.changes.write(&lines[line], words);
    }

    /// Notes the parts that were built, and the parts that they replace.
    pub(super) fn made(&mut self, made: &[PartWriter], replaced: &[PartWriter]) {
        if let Some(record) = &mut self.record {
            made.iter().chain(replaced).for_each(|part| record.made_anew(part.number));
        }
    }
}
