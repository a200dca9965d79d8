//! The lists of `byname top`: their columns and rows.

use std::cmp::Ordering;

use super::report::{DropRate, FaceRate, PrefixRate, ThreadRate};
use crate::manage::table::{bytes, count};

/// A column of a list.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    /// Width of a column of numbers. `None`: text, which gets what is left.
    pub width: Option<u16>,
    /// If the screen is narrow, columns with high numbers are left out first.
    pub importance: u8,
    /// Whether a list has this order at first.
    is_usual: bool,
}

const fn number(title: &'static str, width: u16, importance: u8) -> Column {
    Column { title, width: Some(width), importance, is_usual: false }
}

const fn text(title: &'static str) -> Column {
    Column { title, width: None, importance: 0, is_usual: false }
}

const fn usual(column: Column) -> Column {
    Column { is_usual: true, ..column }
}

/// Columns of faces.
pub const FACES: &[Column] = &[
    number("FACE", 7, 0),
    text("REMOTE"),
    number("IN I/s", 7, 1),
    number("IN D/s", 7, 1),
    number("OUT I/s", 7, 2),
    number("OUT D/s", 7, 2),
    usual(number("PKTS/s", 7, 0)),
    number("IN B/s", 8, 3),
    number("OUT B/s", 8, 3),
    number("NACKS/s", 7, 5),
    number("DROPS/s", 7, 4),
    number("THREAD", 6, 6),
];

/// Columns of prefixes.
pub const PREFIXES: &[Column] = &[
    text("PREFIX"),
    usual(number("INTERESTS/s", 11, 0)),
    number("DATA/s", 8, 1),
    number("BYTES/s", 9, 2),
    number("SHARE", 7, 1),
];

/// Columns of threads.
pub const THREADS: &[Column] = &[
    usual(number("THREAD", 6, 0)),
    number("LOAD", 6, 0),
    number("I/s", 7, 0),
    number("D/s", 7, 0),
    number("PENDING", 7, 1),
    number("CS", 6, 2),
    number("FACES", 6, 2),
    number("RING IN", 7, 3),
    number("RING OUT", 8, 3),
    number("LOST/s", 7, 3),
    number("DROPS/s", 7, 1),
    text("TIME OF A PACKET (ns)"),
];

/// Columns of drops.
pub const DROPS: &[Column] = &[text("REASON"), usual(number("PER SECOND", 10, 0)), number("PACKETS", 10, 0)];

/// The column that a list is sorted by at first.
pub fn usual_order(columns: &[Column]) -> usize {
    columns.iter().position(|column| column.is_usual).unwrap_or(0)
}

/// A cell: what is shown, and what decides its place.
#[derive(Debug, Clone)]
pub struct Cell {
    pub text: String,
    value: Option<f64>,
}

/// A row of a list.
#[derive(Debug, Clone)]
pub struct Row {
    /// What tells it from all others.
    pub id: String,
    pub cells: Vec<Cell>,
}

impl Row {
    /// Whether any text of it contains `filter`, which is in lower case.
    pub fn contains(&self, filter: &str) -> bool {
        let mut texts = self.cells.iter().filter(|cell| cell.value.is_none()).map(|cell| &cell.text);
        filter.is_empty() || self.id == filter || texts.any(|text| text.to_lowercase().contains(filter))
    }
}

/// Sorts rows: numbers with the greatest first, texts by the alphabet, unless the order is reversed.
pub fn sort(rows: &mut [Row], column: usize, reversed: bool) {
    let compare = |a: &Row, b: &Row| {
        let order = match (a.cells.get(column), b.cells.get(column)) {
            (Some(Cell { value: Some(a), .. }), Some(Cell { value: Some(b), .. })) => b.total_cmp(a),
            (Some(a), Some(b)) => a.text.cmp(&b.text),
            _ => Ordering::Equal,
        };
        if reversed { order.reverse() } else { order }
    };
    rows.sort_by(compare);
}

/// A rate for people.
pub fn rate(value: f64) -> String {
    match value {
        value if value < 0.05 => "0".to_owned(),
        value if value < 9.95 => format!("{value:.1}"),
        value => count(value.round() as u64),
    }
}

/// A rate of bytes for people.
pub fn byte_rate(value: f64) -> String {
    bytes(value.round() as u64)
}

fn words(text: &str) -> Cell {
    Cell { text: text.to_owned(), value: None }
}

fn per_second(value: f64) -> Cell {
    Cell { text: rate(value), value: Some(value) }
}

fn bytes_per_second(value: f64) -> Cell {
    Cell { text: byte_rate(value), value: Some(value) }
}

fn whole(value: Option<u64>) -> Cell {
    Cell { text: value.map_or_else(|| "-".to_owned(), count), value: Some(value.map_or(-1.0, |value| value as f64)) }
}

/// A number that identifies something: in its own order, and never shortened.
fn id(number: u64) -> Cell {
    Cell { text: number.to_string(), value: Some(-(number as f64)) }
}

/// A row of [`FACES`].
pub fn face(face: &FaceRate) -> Row {
    Row {
        id: face.face_id.to_string(),
        cells: vec![
            id(face.face_id),
            words(&face.remote_uri),
            per_second(face.rates.in_interests_per_s),
            per_second(face.rates.in_data_per_s),
            per_second(face.rates.out_interests_per_s),
            per_second(face.rates.out_data_per_s),
            per_second(face.rates.packets_per_s()),
            bytes_per_second(face.rates.in_bytes_per_s),
            bytes_per_second(face.rates.out_bytes_per_s),
            per_second(face.rates.in_nacks_per_s + face.rates.out_nacks_per_s),
            per_second(face.out_drops_per_s),
            whole(face.thread),
        ],
    }
}

/// A row of [`PREFIXES`].
pub fn prefix(prefix: &PrefixRate) -> Row {
    Row {
        id: prefix.prefix.clone(),
        cells: vec![
            words(&prefix.prefix),
            per_second(prefix.interests_per_s),
            per_second(prefix.data_per_s),
            bytes_per_second(prefix.data_bytes_per_s),
            Cell { text: format!("{:.1} %", prefix.share_percent), value: Some(prefix.share_percent) },
        ],
    }
}

/// A row of [`THREADS`].
pub fn thread(thread: &ThreadRate) -> Row {
    let load = thread.load_percent;
    let stages: Vec<String> =
        thread.stages.iter().map(|stage| format!("{} {:.0}", stage.stage, stage.ns_per_packet)).collect();
    Row {
        id: thread.thread.to_string(),
        cells: vec![
            id(thread.thread),
            Cell {
                text: load.map_or_else(|| "-".to_owned(), |load| format!("{load:.0} %")),
                value: Some(load.unwrap_or(-1.0)),
            },
            per_second(thread.in_interests_per_s),
            per_second(thread.in_data_per_s),
            whole(Some(thread.pit_entries)),
            whole(Some(thread.cs_entries)),
            whole(thread.faces),
            whole(thread.input_depth),
            whole(thread.output_depth),
            per_second(thread.ring_drops_per_s),
            per_second(thread.drops_per_s),
            words(&stages.join("  ")),
        ],
    }
}

/// A row of [`DROPS`].
pub fn drops(drops: &DropRate) -> Row {
    Row {
        id: drops.reason.clone(),
        cells: vec![words(&drops.reason), per_second(drops.per_s), whole(Some(drops.packets))],
    }
}
