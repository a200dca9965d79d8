//! Tables of an intent: what their heads and deltas say, and the rows that are here.
//!
//! A table goes from what is here to what its head says by deltas, if they follow. Otherwise its manifest is wanted, which
//! somebody must fetch. Until it is here, the intent is held, because some of its routes are not known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_wire::Name;

use crate::label::Label;
use crate::table::content::{Content, State};
use crate::table::delta::Delta;
use crate::table::{Digest, Rows};
use crate::value::{BadValue, Route, TableHead, TableKind, TableReport, Value, row_prefix};

/// Most tables of an intent.
pub const TABLES_MAX: usize = 64;
/// Most bytes of all deltas together, as etcd has them.
const DELTA_BYTES_MAX: usize = 256 << 20;

/// A manifest that must be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The table.
    pub table: Label,
    /// Name of the manifest.
    pub manifest: Digest,
    /// The state that it has.
    pub state: State,
}

#[derive(Debug, Default)]
struct Table {
    head: Option<TableHead>,
    /// With their encoded lengths.
    deltas: BTreeMap<u64, (Delta, usize)>,
    here: Option<Content>,
    /// The different values of the rows here, and perhaps of some that were.
    routes: BTreeMap<Arc<[u8]>, Route>,
    /// Why the rows are not those that the head says.
    waits: Option<String>,
    /// Whether the manifest that the head names was loaded or refused already, and does not lead to the head's state.
    in_vain: bool,
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<Label, Table>,
    /// All keys are being read again, and whoever asks for that looks at all prefixes anyway.
    is_cleared: bool,
}

impl Tables {
    /// Forgets what heads and deltas say, and keeps the rows, which the next head may have, too.
    pub(super) fn clear(&mut self) {
        self.is_cleared = true;
        for table in self.tables.values_mut() {
            (table.head, table.in_vain) = (None, false);
            table.deltas.clear();
        }
    }

    /// A head was written. Returns false if there are too many tables.
    pub(super) fn set_head(&mut self, label: Label, value: &[u8]) -> Result<bool, BadValue> {
        let head = TableHead::decode(value)?;
        Ok(self.with(label, |table| (table.head, table.in_vain) = (Some(head), false)))
    }

    /// A delta was written. Returns false if there are too many.
    pub(super) fn set_delta(&mut self, label: Label, sequence: u64, value: &[u8]) -> Result<bool, BadValue> {
        let delta = Delta::decode(value).map_err(|error| BadValue::Row(error.to_string()))?;
        for (key, value) in &delta.changes {
            row_prefix(key)?;
            value.as_ref().map(|value| Route::decode(value)).transpose()?;
        }
        if self.deltas().map(|(_, len)| len).sum::<usize>() + value.len() > DELTA_BYTES_MAX {
            return Ok(false);
        }
        Ok(self.with(label, |table| {
            table.deltas.insert(sequence, (delta, value.len()));
            table.in_vain = false;
        }))
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> usize {
        self.tables.values().map(|table| usize::from(table.head.is_some()) + table.deltas.len()).sum()
    }

    fn deltas(&self) -> impl Iterator<Item = &(Delta, usize)> {
        self.tables.values().flat_map(|table| table.deltas.values())
    }

    fn with(&mut self, label: Label, change: impl FnOnce(&mut Table)) -> bool {
        let room = self.tables.len() < TABLES_MAX || self.tables.contains_key(&label);
        if room {
            change(self.tables.entry(label).or_default());
        }
        room
    }

    pub(super) fn delete_head(&mut self, label: &Label) {
        if let Some(table) = self.tables.get_mut(label) {
            table.head = None;
        }
    }

    pub(super) fn delete_delta(&mut self, label: &Label, sequence: u64) {
        if let Some(table) = self.tables.get_mut(label) {
            table.deltas.remove(&sequence);
        }
    }

    /// Brings all tables as near to their heads as what is here allows. Adds prefixes that have changed.
    pub(super) fn advance(&mut self, changed: &mut BTreeSet<Name>) {
        self.is_cleared = false;
        for table in self.tables.values_mut() {
            table.advance(changed);
        }
        self.tables.retain(|_, table| table.head.is_some() || !table.deltas.is_empty());
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = Wanted> {
        self.tables.iter().filter(|(_, table)| table.waits.is_some() && !table.in_vain).filter_map(|(label, table)| {
            let head = table.head.as_ref()?;
            Some(Wanted { table: label.clone(), manifest: head.manifest, state: head.base_state() })
        })
    }

    /// The rows of a manifest that was wanted. If it is not wanted any more, nothing happens.
    pub(super) fn loaded(&mut self, wanted: &Wanted, rows: Rows, changed: &mut BTreeSet<Name>) {
        if !self.wanted().any(|now| now == *wanted) {
            return;
        }
        let Some(table) = self.tables.get_mut(&wanted.table) else { return };
        table.replace(Some(Content { state: wanted.state, rows }), changed);
        table.in_vain = true;
        table.advance(changed);
    }

    /// Why a manifest that is wanted is not here yet.
    pub(super) fn not_loaded(&mut self, wanted: &Wanted, why: String) {
        if self.wanted().any(|now| now == *wanted)
            && let Some(table) = self.tables.get_mut(&wanted.table)
        {
            table.waits = Some(why);
        }
    }

    pub(super) fn waits(&self) -> Option<(&Label, &str)> {
        self.tables.iter().find_map(|(label, table)| Some((label, table.waits.as_deref()?)))
    }

    /// The route of a prefix. If several tables have one, that of the first in the order of their names.
    pub(super) fn route(&self, prefix: &Name) -> Option<&Route> {
        self.tables.values().find_map(|table| table.routes.get(table.here.as_ref()?.rows.get(prefix.value())?))
    }

    /// Prefixes whose rows lead to a group for which this holds. After [`Tables::clear`] there are none until all keys are read.
    pub(super) fn prefixes_to(&self, holds: impl Fn(&Label) -> bool) -> impl Iterator<Item = Name> {
        self.tables.values().filter(|_| !self.is_cleared).flat_map(move |table| {
            let leads: BTreeSet<&Arc<[u8]>> =
                table.routes.iter().filter(|(_, route)| holds(&route.group)).map(|(value, _)| value).collect();
            // Most changes of groups are about none of a table's.
            let here = if leads.is_empty() { None } else { table.here.as_ref() };
            let rows = here.into_iter().flat_map(|content| &content.rows);
            rows.filter(move |(_, value)| leads.contains(value)).filter_map(|(key, _)| row_prefix(key).ok())
        })
    }

    pub(super) fn report(&self) -> BTreeMap<String, TableReport> {
        let report = |table: &Table| {
            let here = table.here.as_ref();
            TableReport {
                epoch: here.map_or(0, |content| content.state.epoch),
                sequence: here.map_or(0, |content| content.state.sequence),
                rows: here.map_or(0, |content| content.rows.len() as u64),
                waits: table.waits.clone(),
            }
        };
        let is_here = |table: &&Table| table.head.as_ref().is_none_or(|head| head.kind == TableKind::Routes);
        let tables = self.tables.iter().filter(|(_, table)| is_here(table));
        tables.map(|(label, table)| (label.to_string(), report(table))).collect()
    }

    /// Names of all manifests that heads name.
    pub(super) fn manifests(&self) -> impl Iterator<Item = Digest> {
        let heads = self.tables.values().filter_map(|table| table.head.as_ref());
        heads.filter(|head| head.kind == TableKind::Routes).map(|head| head.manifest)
    }
}

impl Table {
    fn advance(&mut self, changed: &mut BTreeSet<Name>) {
        // Rows of other kinds are for builders.
        let Some(head) = self.head.as_ref().filter(|head| head.kind == TableKind::Routes) else {
            self.waits = None;
            return self.replace(None, changed);
        };
        let (wanted, epoch, last) = (head.state(), head.epoch, head.last);
        if let Some(here) = &mut self.here {
            while here.state.epoch == epoch
                && here.state.sequence < last
                && let Some((delta, _)) = self.deltas.get(&(here.state.sequence + 1))
                && here.apply(here.state.sequence + 1, delta).is_ok()
            {
                changed.extend(delta.changes.iter().filter_map(|(key, _)| row_prefix(key).ok()));
                learn(&mut self.routes, delta.changes.iter().filter_map(|(_, value)| value.as_ref()));
            }
        }
        let here = self.here.as_ref().map(|content| content.state);
        self.waits = if here == Some(wanted) {
            None
        } else if self.in_vain {
            let next = here.map_or(0, |state| state.sequence + 1);
            Some(format!(
                "delta {next} of epoch {epoch} is missing, or is not the one that follows: load the table again"
            ))
        } else {
            self.waits.take().or_else(|| Some("its chunks are not here yet".to_owned()))
        };
    }

    fn replace(&mut self, content: Option<Content>, changed: &mut BTreeSet<Name>) {
        let before = std::mem::replace(&mut self.here, content);
        let (none, also_none) = (Rows::new(), Rows::new());
        let before = before.as_ref().map_or(&none, |content| &content.rows);
        let after = self.here.as_ref().map_or(&also_none, |content| &content.rows);
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let new = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, _)| key);
        changed.extend(gone.chain(new).filter_map(|key| row_prefix(key).ok()));
        self.routes.clear();
        learn(&mut self.routes, after.values());
    }
}

/// Decodes values that were checked before.
fn learn<'a>(routes: &mut BTreeMap<Arc<[u8]>, Route>, values: impl Iterator<Item = &'a Arc<[u8]>>) {
    for value in values {
        if !routes.contains_key(value)
            && let Ok(route) = Route::decode(value)
        {
            routes.insert(value.clone(), route);
        }
    }
}
