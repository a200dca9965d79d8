//! How what the writer does becomes visible: to readers here, and to replicas elsewhere.

use std::sync::Arc;

use super::changes::{self, Changes};
use super::part::PartWriter;
use super::replica::{LineFlips, PartImage, Written};
use super::shape::Shape;

/// Writes lines, and keeps a record if there is somebody to send it to.
pub(super) struct Publisher {
    pub(super) changes: Arc<Changes>,
    record: Option<Vec<Written>>,
}

impl Publisher {
    pub(super) fn new() -> Self {
        Publisher { changes: Arc::new(Changes::new()), record: None }
    }

    /// What was recorded since the last call; the first begins the record.
    pub(super) fn recorded(&mut self) -> Vec<Written> {
        self.record.replace(Vec::new()).unwrap_or_default()
    }

    /// Writes a line of a part, in one step as readers see it.
    pub(super) fn write(&mut self, part: &PartWriter, shape: Shape, line: usize, words: &[u64; 8]) {
        let lines = &part.part.lines;
        if let Some(record) = &mut self.record {
            let old = changes::words(&lines[line]);
            record.push(Written::Line(LineFlips {
                part: part.number,
                line: (line - part.part.lines_used(shape).start) as u32,
                flips: std::array::from_fn(|word| old[word] ^ words[word]),
            }));
        }
        self.changes.write(lines, line, words);
    }

    /// Notes parts that were made.
    pub(super) fn made(&mut self, parts: &[PartWriter], shape: Shape) {
        if let Some(record) = &mut self.record {
            let images = parts.iter().map(|part| PartImage::of(part.number, shape, &part.part));
            record.push(Written::Parts(images.collect()));
        }
    }
}
