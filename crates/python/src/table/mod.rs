//! The tables of `byname_lookup::table`, with values of 32 bits.
//!
//! Each call copies its arguments, then works without the interpreter. Writers wait for each other, and readers for
//! nobody.

mod flat;
mod prefix;
mod tags;

use std::sync::{Mutex, MutexGuard};

use byname_lookup::Pages;
use byname_lookup::file::{Opening, Place};

pub use flat::{FlatReader, FlatTable};
pub use prefix::PrefixTable;
pub use tags::TagTable;

use crate::errors::Problem;

/// The answer for a key without a value, where answers are numbers.
const NOTHING: i64 = -1;
/// Keys between two calls of a reader.
const STRIDE: usize = 4096;

/// The only writer of a table, which threads take turns with. Taken without the interpreter only: whoever holds it may
/// need long.
fn writer<T>(table: &Mutex<T>) -> Result<MutexGuard<'_, T>, Problem> {
    table.lock().map_err(|_| Problem::Poisoned)
}

fn opening(checked: bool, copied: bool) -> Opening {
    let place = if copied { Place::Copied(Pages::default()) } else { Place::Mapped };
    Opening { place, checked }
}
