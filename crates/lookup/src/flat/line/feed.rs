//! Messages for a remote query half [Concise §5.3]: the changed words of lines, and the parts that
//! were rebuilt.

use super::LineRetrieval;
use super::part::PartWriter;
use super::replica::{part_block, table_header};
use super::table::Table;
use crate::flat::message::{Block, Feed, Record, Sender, Sent, Source, send_whole};

impl Feed for LineRetrieval {
    fn feed(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        let record = &mut self.table.publisher.record;
        let anew = record.as_ref().map(Record::emptied);
        match std::mem::replace(record, anew) {
            Some(record) if !record.is_too_long() => record.send(&self.table, sender, send),
            _ => self.feed_whole(sender, send),
        }
    }

    fn feed_whole(&mut self, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) -> Sent {
        self.table.publisher.record = Some(Record::new(8 * self.table.lines()));
        send_whole(&self.table, sender, send)
    }
}

impl Source for Table {
    fn header(&self) -> Vec<u8> {
        table_header(self.maker.shape)
    }

    fn block(&self, number: u32) -> Option<Block> {
        let [part] = &self.parts[self.part_numbered(number)] else { return None };
        (part.number == number).then(|| part_block(number, self.maker.shape, &part.part))
    }

    fn blocks(&self) -> impl Iterator<Item = Block> {
        let block = |part: &PartWriter| part_block(part.number, self.maker.shape, &part.part);
        self.parts.iter().map(block)
    }

    /// Entropy of which cells are solved again, and to what.
    fn entropy_bits(&self, cells: usize) -> f64 {
        let shape = self.maker.shape;
        let all = self.lines() * shape.cells_per_line();
        cells as f64 * ((all as f64).log2() + (shape.entry_bits * shape.plane_bits) as f64)
    }
}
