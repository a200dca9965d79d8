//! How control halves take changes and hand them to query halves.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use thiserror::Error;

use crate::entry::EntryId;

/// One change of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<K> {
    /// Adds the rule, or replaces its entry.
    Set(K, EntryId),
    /// Removes the rule; no rule, no effect.
    Remove(K),
}

/// What [`Control::apply`] did to the query half.
pub enum Update<Q: ?Sized> {
    /// Readers must have this query half instead of theirs before the next [`Control::apply`].
    Replace(Arc<Q>),
    /// The query half that readers have shows the changes already.
    Patched,
}

// Not derived: that would ask for a query half that can be printed.
impl<Q: ?Sized> fmt::Debug for Update<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Update::Replace(_) => "Replace",
            Update::Patched => "Patched",
        })
    }
}

/// Why changes were not applied. None of the batch is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The configured number of rules is reached.
    #[error("the table is full at {rules} rules")]
    Full {
        /// Rules in the table.
        rules: usize,
    },
    /// Two names share a digest: the second is refused, never forwarded wrongly.
    #[error("the name's digest equals another rule's")]
    Collision,
    /// The digests are not those of a keyed hash: too many begin alike, or no hash functions tell
    /// them apart.
    #[error("the digests of {names} names are not spread as a keyed hash spreads them")]
    Skewed {
        /// How many names fall together.
        names: usize,
    },
    /// The name has more components than any packet's.
    #[error("the name has {depth} components")]
    TooDeep {
        /// Its components.
        depth: usize,
    },
    /// A bulk load takes rules in canonical order, each once.
    #[error("the rules are not in canonical order")]
    Unsorted,
    /// The engine has no room for an id this large.
    #[error("the entry id {entry} is not below {entries_max}")]
    EntryOutOfRange {
        /// The id.
        entry: u32,
        /// Ids are below this.
        entries_max: u32,
    },
    /// The table cannot grow.
    #[error("no memory for the table: {reason}")]
    Memory {
        /// What the system said.
        reason: String,
    },
}

impl From<std::io::Error> for BuildError {
    fn from(error: std::io::Error) -> Self {
        BuildError::Memory { reason: error.to_string() }
    }
}

/// The control half of an engine.
pub trait Control<K> {
    /// The query half.
    type Query: ?Sized;
    /// The query half as it is now, for a new reader.
    fn query(&self) -> Arc<Self::Query>;
    /// Applies all changes, in order, or none.
    fn apply(&mut self, changes: &[Change<K>]) -> Result<Update<Self::Query>, BuildError>;
    /// Frees what removed rules held; to be called when every reader has passed a quiescent
    /// point since the last [`Control::apply`].
    fn reclaim(&mut self);
}

/// Refuses a batch with which a table of `rules` rules would at any moment have more than `rules_max`.
pub(crate) fn check_room<K: Eq + Hash>(
    changes: &[Change<K>],
    mut rules: usize,
    rules_max: usize,
    contains: impl Fn(&K) -> bool,
) -> Result<(), BuildError> {
    let sets = changes.iter().filter(|change| matches!(change, Change::Set(..))).count();
    if rules + sets <= rules_max {
        return Ok(());
    }
    let mut present = HashMap::new();
    for change in changes {
        let (Change::Set(key, _) | Change::Remove(key)) = change;
        let present = present.entry(key).or_insert_with(|| contains(key));
        let sets = matches!(change, Change::Set(..));
        match (*present, sets) {
            (false, true) if rules >= rules_max => return Err(BuildError::Full { rules }),
            (false, true) => rules += 1,
            (true, false) => rules -= 1,
            _ => {}
        }
        *present = sets;
    }
    Ok(())
}
