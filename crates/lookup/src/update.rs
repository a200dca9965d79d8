//! How control halves take changes and pass them to query halves.

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
    /// Removes the rule. Without such a rule it has no effect.
    Remove(K),
}

impl<K> Change<K> {
    /// The rule's key, and its new entry; `None` if the rule goes.
    pub fn parts(&self) -> (&K, Option<EntryId>) {
        match self {
            Change::Set(key, entry) => (key, Some(*entry)),
            Change::Remove(key) => (key, None),
        }
    }
}

/// The effect of [`Control::apply`] on the query half.
pub enum Update<Q: ?Sized> {
    /// Readers must have this query half before the next [`Control::apply`].
    Replace(Arc<Q>),
    /// The query half that readers have already shows the changes.
    Patched,
}

// Not derived: that would require a query half that implements `Debug`.
impl<Q: ?Sized> fmt::Debug for Update<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Update::Replace(_) => "Replace",
            Update::Patched => "Patched",
        })
    }
}

/// Changes that were refused. No change of the batch was applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The table has its configured maximum of rules.
    #[error("the table is full at {rules} rules")]
    Full {
        /// Rules in the table.
        rules: usize,
    },
    /// Two names share a digest. The second is refused, so that it is never forwarded wrongly.
    #[error("the name's digest equals another rule's")]
    Collision,
    /// The digests do not come from a keyed hash: too many begin alike, or no hash functions
    /// separate them.
    #[error("the digests of {names} names are not spread as a keyed hash spreads them")]
    Skewed {
        /// Number of names that fall together.
        names: usize,
    },
    /// The name has more components than any packet's name.
    #[error("the name has {depth} components")]
    TooDeep {
        /// Number of its components.
        depth: usize,
    },
    /// A bulk load takes rules in canonical order, each once.
    #[error("the rules are not in canonical order")]
    Unsorted,
    /// The engine has no room for such a large id.
    #[error("the entry id {entry} is not below {entries_max}")]
    EntryOutOfRange {
        /// The id.
        entry: u32,
        /// Ids must be below this.
        entries_max: u32,
    },
    /// The file that keeps the table cannot be used.
    #[error("{reason}")]
    File {
        /// What is wrong with it.
        reason: String,
    },
    /// The table cannot grow.
    #[error("no memory for the table: {reason}")]
    Memory {
        /// The system's reason.
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
    /// The current query half, for a new reader.
    fn query(&self) -> Arc<Self::Query>;
    /// Applies all changes, in order, or none.
    fn apply(&mut self, changes: &[Change<K>]) -> Result<Update<Self::Query>, BuildError>;
    /// Makes room for this many more rules, so that the table need not grow while they come. Readers must have the last
    /// [`Update::Replace`], as before [`Control::apply`].
    ///
    /// # Errors
    /// If there is no memory. The table is as before.
    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        let _ = rules;
        Ok(())
    }
    /// Frees what removed rules held. Call it when every reader has passed a quiescent point since
    /// the last [`Control::apply`].
    fn reclaim(&mut self);
}

impl<K, C: Control<K> + ?Sized> Control<K> for Box<C> {
    type Query = C::Query;

    fn query(&self) -> Arc<Self::Query> {
        (**self).query()
    }

    fn apply(&mut self, changes: &[Change<K>]) -> Result<Update<Self::Query>, BuildError> {
        (**self).apply(changes)
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        (**self).expect(rules)
    }

    fn reclaim(&mut self) {
        (**self).reclaim();
    }
}

/// Refuses a batch that would, at any point within it, give a table of `rules` rules more than
/// `rules_max`.
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
