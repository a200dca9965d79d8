//! The module `flat`: names of flat namespaces that change without a new table.
//!
//! A command gives a name another label, or makes it count as unknown; see `byname_lookup::prefix::namespaces::changes`.
//! The names are kept here, because the tables have only digests of them: for lists, for the store, and for tables that
//! take the place of others.

use std::collections::BTreeMap;

use byname_lookup::prefix::namespaces::changes::{ChangeError, Changed, Changes};
use byname_wire::name::component_type;
use byname_wire::{Name, NameHashKey, NameRef};

use super::execute::name_of;
use super::tlv::{ControlParameters, ControlResponse, Element, FlatChange};
use super::{Management, news};
use crate::fib_writer::{Names, Replica};
use crate::rib::Rib;
use crate::state::records::FlatRecord;

/// The names that commands have changed, with their labels; `None`: they count as unknown.
#[derive(Default)]
pub(super) struct FlatNames(BTreeMap<Name, Option<Name>>);

/// Why a name cannot change.
enum Refused {
    /// It is below no flat namespace.
    NoNamespace,
    /// There are too many changes.
    Full(ChangeError),
}

impl FlatNames {
    /// The content of the dataset.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (name, label) in &self.0 {
            FlatChange { name: name.clone(), label: label.clone() }.encode_to(out);
        }
    }

    /// Records for another process.
    pub(super) fn records(&self) -> impl Iterator<Item = FlatRecord> {
        self.0.iter().map(|(name, label)| FlatRecord { name: name.clone(), label: label.clone() })
    }
}

/// The namespace's prefix and the flat name, if the last component can be one.
fn parts(name: NameRef<'_>) -> Option<(NameRef<'_>, &[u8])> {
    let last = name.component(-1).filter(|last| last.typ == component_type::GENERIC)?;
    Some((name.prefix(name.len() - 1), last.value))
}

/// Changes a name in one table.
fn change(
    key: &NameHashKey,
    changes: &Changes,
    rib: &Rib,
    flat: &[u8],
    to: Option<&Option<Name>>,
) -> Result<(), ChangeError> {
    let changed = match to {
        None => None,
        Some(None) => Some(Changed::Removed),
        Some(Some(label)) => {
            let number = changes.label(label)?;
            changes.route(label, rib.group(label.as_ref()));
            Some(Changed::Label(number))
        }
    };
    changes.set(key.digest_bytes(flat), changed)
}

impl Management {
    /// Changes a name in all tables. With `None`, it is again as in the file.
    fn change_flat(&mut self, name: &Name, to: Option<&Option<Name>>) -> Result<(), Refused> {
        let (prefix, flat) = parts(name.as_ref()).ok_or(Refused::NoNamespace)?;
        // The RIB's groups are those of the tables.
        self.fib.commit();
        let tables = self.fib.flat_changes(prefix);
        if tables.is_empty() {
            return Err(Refused::NoNamespace);
        }
        for (key, changes) in &tables {
            change(key, changes, &self.rib, flat, to).map_err(Refused::Full)?;
        }
        Ok(())
    }

    /// Executes `flat/set`.
    pub(super) fn flat_set(&mut self, parameters: ControlParameters) -> ControlResponse {
        let (name, label) = (name_of(&parameters), parameters.label.clone());
        match self.change_flat(&name, Some(&label)) {
            Ok(()) => {
                self.durable.flat(&name, Some(&label));
                if self.news.lists(news::Change::FlatChanged) {
                    match &label {
                        Some(label) => tracing::info!(%name, %label, "a flat name was set"),
                        None => tracing::info!(%name, "a flat name was removed"),
                    }
                }
                self.flat.0.insert(name, label);
                ControlResponse::ok(&parameters)
            }
            Err(Refused::NoNamespace) => {
                let text =
                    "The last component of Name must be generic, and the prefix before it one of the router's [[flat]]";
                ControlResponse::new(404, text)
            }
            Err(Refused::Full(error)) => ControlResponse::new(507, error.to_string()),
        }
    }

    /// Executes `flat/reset`: the name is as in the file again.
    pub(super) fn flat_reset(&mut self, parameters: &ControlParameters) -> ControlResponse {
        let name = name_of(parameters);
        self.durable.flat(&name, None);
        if self.flat.0.remove(&name).is_some() {
            // A name whose namespace is gone is in no table.
            let _ = self.change_flat(&name, None);
            if self.news.lists(news::Change::FlatChanged) {
                tracing::info!(%name, "a flat name is as in its table again");
            }
        }
        ControlResponse::ok(parameters)
    }

    /// Takes over changes of an earlier process. Those of namespaces that are gone wait for them. Returns how many there
    /// is no room for.
    pub(super) fn restore_flat(&mut self, records: Vec<FlatRecord>) -> usize {
        let mut refused = 0;
        for FlatRecord { name, label } in records {
            match self.change_flat(&name, Some(&label)) {
                Ok(()) | Err(Refused::NoNamespace) => drop(self.flat.0.insert(name, label)),
                Err(Refused::Full(error)) => {
                    refused += 1;
                    if refused == 1 {
                        tracing::warn!(%name, %error, "a change of a flat name stays behind");
                    }
                }
            }
        }
        refused
    }

    /// Makes all changes in engines that will be published.
    pub(crate) fn change_new_engines(&mut self, engines: &[Replica<Names>]) {
        self.fib.commit();
        let (mut refused, mut first) = (0, None);
        for engine in engines {
            let query = engine.engine.query();
            for (name, label) in &self.flat.0 {
                let Some((prefix, flat)) = parts(name.as_ref()) else { continue };
                let Some((key, changes)) = query.flat_changes(prefix) else { continue };
                if let Err(error) = change(key, changes, &self.rib, flat, Some(label)) {
                    refused += 1;
                    first.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first {
            tracing::error!(refused, %error, "changes of flat names are lost with the new table");
        }
    }
}
