//! Files that a builder has made of tables, as this node needs them.
//!
//! The rules of a table of this kind are those of its file, whatever the builder has yet to build. Their labels are groups,
//! as names below [`groups`]: for each group, this node has one route with that name, however many rules lead to it.

use std::collections::{BTreeMap, BTreeSet};

use byname_wire::name::component_type;
use byname_wire::{Component, Name};

use crate::label::Label;
use crate::value::{BadValue, BuiltHead, TableKind, TableReport, Value};

/// Most files of flat names that a router takes.
pub const FLAT_MAX: usize = 16;

/// The prefix of the labels of all groups. Packets from other hosts never have such names.
pub fn groups() -> Name {
    let words = ["localhost", "byname", "fleet", "group"];
    Name::from_components(words.map(|word| Component::generic(word.as_bytes())))
}

/// The label of a group in files.
pub fn label_of(group: &Label) -> Name {
    groups().join(Component::generic(group.as_str().as_bytes()))
}

/// The group whose label this is.
pub fn group_of(label: &Name) -> Option<Label> {
    let (prefix, label) = (groups(), label.as_ref());
    let last = label.component(-1)?;
    let fits = label.len() == prefix.as_ref().len() + 1 && prefix.as_ref().is_prefix_of(&label);
    let text =
        if fits && last.typ == component_type::GENERIC { std::str::from_utf8(last.value).ok()? } else { return None };
    text.parse().ok()
}

/// A file that must be brought here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedFile {
    /// The table.
    pub table: Label,
    /// What etcd says of the file.
    pub head: BuiltHead,
}

impl WantedFile {
    /// Its name.
    pub fn name(&self) -> String {
        self.head.file_name(&self.table)
    }
}

/// Where a file is kept: it may be an earlier one, with changes beside it that lead to this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The name of the file that is there.
    pub name: String,
    /// Number of changes beside it.
    pub changes: u64,
}

impl Kept {
    /// A file of its own.
    pub fn whole(name: String) -> Self {
        Kept { name, changes: 0 }
    }
}

/// A file that the router should use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedFile {
    /// Where it is.
    pub kept: Kept,
    /// What it has.
    pub kind: TableKind,
    /// The prefix of its flat names, if it has some. And whether unknown names pass as known.
    pub flat: Option<(Name, bool)>,
}

/// All such files.
#[derive(Debug, Default)]
pub(super) struct Built {
    heads: BTreeMap<Label, BuiltHead>,
    /// Files that are here, whole, by their names.
    here: BTreeMap<String, Kept>,
    /// Why a file is not here.
    why: BTreeMap<String, String>,
}

impl Built {
    pub(super) fn set(&mut self, table: Label, value: &[u8]) -> Result<(), BadValue> {
        self.heads.insert(table, BuiltHead::decode(value)?);
        Ok(())
    }

    pub(super) fn delete(&mut self, table: &Label) {
        self.heads.remove(table);
    }

    /// Forgets what etcd says, and not which files are here.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = WantedFile> {
        let all = self.heads.iter().map(|(table, head)| WantedFile { table: table.clone(), head: head.clone() });
        all.filter(|wanted| !self.here.contains_key(&wanted.name()))
    }

    /// All lists of blocks that etcd names.
    pub(super) fn heads(&self) -> impl Iterator<Item = &BuiltHead> {
        self.heads.values()
    }

    /// A file is here, or this is why not. Returns whether anything is different now.
    pub(super) fn brought(&mut self, name: String, result: Result<Kept, String>) {
        match result {
            Ok(kept) => {
                self.why.remove(&name);
                self.here.insert(name, kept);
            }
            Err(why) => drop(self.why.insert(name, why)),
        }
        let wanted: BTreeSet<String> = self.heads.iter().map(|(table, head)| head.file_name(table)).collect();
        self.here.retain(|name, _| wanted.contains(name));
        self.why.retain(|name, _| wanted.contains(name));
    }

    /// Perhaps no file is whole any more.
    pub(super) fn doubt(&mut self) {
        self.here.clear();
    }

    /// Where the file of a table is, if it is here.
    pub(super) fn kept(&self, table: &Label) -> Option<(WantedFile, &Kept)> {
        let wanted = WantedFile { table: table.clone(), head: self.heads.get(table)?.clone() };
        let kept = self.here.get(&wanted.name())?;
        Some((wanted, kept))
    }

    /// Why the files of this intent cannot be used.
    pub(super) fn waits(&self) -> Option<String> {
        for (kind, what) in [(TableKind::Built, "prefixes"), (TableKind::Tags, "tags")] {
            let tables: Vec<&Label> = self.of_kind(kind).map(|(table, _)| table).collect();
            if let [first, second, ..] = tables[..] {
                return Some(format!(
                    "a router has one built table of {what}, and there are two: {first} and {second}"
                ));
            }
        }
        if self.of_kind(TableKind::Flat).count() > FLAT_MAX {
            return Some(format!("a router has at most {FLAT_MAX} tables of flat names"));
        }
        let wanted = self.wanted().next()?;
        let why = self.why.get(&wanted.name()).map_or("its file is not here yet", String::as_str);
        Some(format!("table {}: {why}", wanted.table))
    }

    fn of_kind(&self, kind: TableKind) -> impl Iterator<Item = (&Label, &BuiltHead)> {
        self.heads.iter().filter(move |(_, head)| head.kind == kind)
    }

    /// The files that the router should use.
    pub(super) fn files(&self) -> Vec<UsedFile> {
        let file = |(table, head): (&Label, &BuiltHead)| {
            // `set` has read the prefix.
            let flat = head.flat.as_ref().and_then(|flat| Some((flat.prefix().ok()?, flat.check_bits == 0)));
            let name = head.file_name(table);
            let kept = self.here.get(&name).cloned().unwrap_or_else(|| Kept::whole(name));
            UsedFile { kept, kind: head.kind, flat }
        };
        self.heads.iter().map(file).collect()
    }

    pub(super) fn report(&self, into: &mut BTreeMap<String, TableReport>) {
        for (table, head) in &self.heads {
            let name = head.file_name(table);
            let waits = (!self.here.contains_key(&name))
                .then(|| self.why.get(&name).cloned().unwrap_or_else(|| "its file is not here yet".to_owned()));
            let is_here = waits.is_none();
            let of = |number: u64| if is_here { number } else { 0 };
            let report = TableReport { epoch: of(head.epoch), sequence: of(head.sequence), rows: of(head.rows), waits };
            into.insert(table.to_string(), report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names_of_groups() {
        let group: Label = "to-r2.west".parse().unwrap();
        assert_eq!(label_of(&group).to_string(), "/localhost/byname/fleet/group/to-r2.west");
        assert_eq!(group_of(&label_of(&group)), Some(group));
        for other in [
            "/",
            "/localhost/byname/fleet/group",
            "/localhost/byname/fleet/group/a/b",
            "/x/byname/fleet/group/a",
            "/localhost/byname/fleet/group/A",
            "/localhost/byname/fleet/group/32=a",
        ] {
            assert_eq!(group_of(&other.parse().unwrap()), None, "{other}");
        }
    }
}
