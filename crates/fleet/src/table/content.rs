//! What a node has of a table, and how it gets from there to what the head says.

use super::delta::Delta;
use super::{BadTable, Digest, Rows};

/// Which state of a table this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Counts whole tables that were loaded.
    pub epoch: u64,
    /// Number of the last delta.
    pub sequence: u64,
    /// Stands for the rows, and for how they came to be.
    pub digest: Digest,
}

/// Rows of a table in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The state.
    pub state: State,
    /// The rows.
    pub rows: Rows,
}

impl Content {
    /// Applies the next delta, all of it or nothing.
    ///
    /// # Errors
    /// It does not follow this state.
    pub fn apply(&mut self, sequence: u64, delta: &Delta) -> Result<(), BadTable> {
        let State { epoch, sequence: here, digest } = self.state;
        if delta.epoch != epoch || here.checked_add(1) != Some(sequence) || delta.before != digest {
            return Err(BadTable::Gap { epoch: delta.epoch, found: sequence, here });
        }
        for (key, value) in &delta.changes {
            match value {
                Some(value) => drop(self.rows.insert(key.clone(), value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
        self.state = State { epoch, sequence, digest: delta.after };
        Ok(())
    }
}
