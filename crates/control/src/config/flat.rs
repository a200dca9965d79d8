//! `[[flat]]`: flat namespaces in front of the FIB.

use byname_lookup::BuildError;
use byname_lookup::file::{Checked, Opening, Place, Source};
use byname_lookup::prefix::namespaces::{NAMESPACES_MAX, Namespace};
use byname_wire::{Name, NameHashKey};
use serde::Deserialize;

use std::path::PathBuf;

use super::{Config, Finding, value};
use crate::fib_writer::FibEngine;
use crate::fib_writer::flat::{FlatNamespaces, Remedy, open, without_table};
use crate::own_names::is_own_name;

/// `[[flat]]`: names below a prefix that a file answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatNamespace {
    /// The component after this prefix is an opaque name.
    #[serde(deserialize_with = "value::name")]
    pub prefix: Name,
    /// The file of the names. `None`: only commands tell of names.
    #[serde(default)]
    pub table: Option<PathBuf>,
    /// Number of changes beside that file that belong to the table.
    #[serde(default)]
    pub changes: u64,
    /// Maximum number of names that commands can change.
    #[serde(default = "changes_max")]
    pub changes_max: usize,
    /// The remedy for names that the table does not know [Concise §7.3].
    #[serde(default)]
    pub unknown: Unknown,
    /// With `unknown = "filter"`: the file of the filter. Empty: none.
    #[serde(default)]
    pub filter: PathBuf,
    /// With `unknown = "exact"`: the file of all names' digests. Empty: none.
    #[serde(default)]
    pub exact: PathBuf,
}

/// Default of [`FlatNamespace::changes_max`].
fn changes_max() -> usize {
    65_536
}

/// Largest [`FlatNamespace::changes_max`]: they take up to 48 bytes each for lookups, and their names.
const CHANGES_MAX: usize = 1 << 24;

/// How names are treated that a table does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// The table's checksums tell most of them, which the FIB then routes.
    #[default]
    Checksum,
    /// They forward as any label does, if the table has no checksums.
    Any,
    /// A filter beside the table tells most of them, also without checksums.
    Filter,
    /// The digests of all names tell all of them. For routers at which packets enter.
    Exact,
}

impl Config {
    fn open_flat(
        &self,
        flat: &FlatNamespace,
        key: NameHashKey,
        (opening, checked): (Opening, Option<&Checked>),
    ) -> Result<(Namespace, u64), BuildError> {
        let Some(table) = &flat.table else { return Ok((without_table(&flat.prefix, key, flat.changes_max), 0)) };
        let file = |path: &PathBuf| self.folder.join(path);
        let remedy = match flat.unknown {
            Unknown::Checksum => Remedy::Checksum,
            Unknown::Any => Remedy::Any,
            Unknown::Filter => Remedy::Filter(file(&flat.filter)),
            Unknown::Exact => Remedy::Exact(file(&flat.exact)),
        };
        let source = Source { path: &self.folder.join(table), changes: flat.changes, checked };
        open((source, opening), &flat.prefix, &remedy, flat.changes_max)
            .map_err(|error| BuildError::File { reason: error.to_string() })
    }

    /// Puts the flat namespaces, if there are any, in front of an engine whose own rules have at most `depth_max`
    /// components before any change.
    ///
    /// # Errors
    /// If one of the files cannot be used.
    pub(super) fn behind_flat_namespaces(
        &self,
        engine: FibEngine,
        depth_max: usize,
        key: NameHashKey,
        (place, checked): (Place, &Checked),
    ) -> Result<FibEngine, BuildError> {
        if self.flat.is_empty() {
            return Ok(engine);
        }
        let mut namespaces = Vec::new();
        for flat in &self.flat {
            let (namespace, names) = self.open_flat(flat, key, (Opening { place, checked: true }, Some(checked)))?;
            if let Some(table) = &flat.table {
                let (table, labels, changes) = (table.display(), namespace.labels.len(), flat.changes);
                tracing::info!(changes, "{table} has {names} flat names and {labels} labels for {}", flat.prefix);
            }
            namespaces.push(namespace);
        }
        let fib = FlatNamespaces::new(engine, depth_max, namespaces);
        Ok(Box::new(fib.map_err(|error| BuildError::File { reason: error.to_string() })?))
    }

    /// Checks that the namespaces are not too many, no two have one prefix, and none takes names of management.
    pub(super) fn check_flat(&self, findings: &mut Vec<Finding>) {
        if self.flat.len() > NAMESPACES_MAX {
            let text = format!("there are {} [[flat]], more than {NAMESPACES_MAX}: leave some out", self.flat.len());
            findings.push(Finding::fatal("flat", text));
        }
        for (n, flat) in self.flat.iter().enumerate() {
            let key = format!("flat.{n}.prefix");
            if self.flat[..n].iter().any(|other| other.prefix == flat.prefix) {
                let text = format!("{} has two [[flat]]: leave one out, or make one table of both", flat.prefix);
                findings.push(Finding::fatal(&key, text));
            }
            if flat.changes_max > CHANGES_MAX {
                let text = format!("changes_max is {}: the most is {CHANGES_MAX}", flat.changes_max);
                findings.push(Finding::fatal(format!("flat.{n}.changes_max"), text));
            }
            for (word, unknown, file) in
                [("filter", Unknown::Filter, &flat.filter), ("exact", Unknown::Exact, &flat.exact)]
            {
                let text = match (flat.unknown == unknown, file.as_os_str().is_empty(), &flat.table) {
                    (true, true, _) => format!(
                        "`unknown = \"{word}\"` needs a file: `{word} = \"objects.{word}\"`, made by `byname flat build --{word}`"
                    ),
                    (true, false, None) => {
                        format!("`unknown = \"{word}\"` needs a `table`: without one, only commands tell of names")
                    }
                    (false, false, _) => {
                        format!("`{word}` is not used: set `unknown = \"{word}\"` too, or leave it out")
                    }
                    (true, false, Some(_)) | (false, true, _) => continue,
                };
                findings.push(Finding::fatal(format!("flat.{n}.{word}"), text));
            }
            if is_own_name(flat.prefix.as_ref()) {
                let text =
                    format!("the [[flat]] {} is for names of this router's management: leave it out", flat.prefix);
                findings.push(Finding::fatal(key, text));
            }
        }
    }

    /// Whether the files of flat namespaces can be opened.
    pub fn flat_findings(&self) -> Vec<Finding> {
        // Only the head is read.
        let opening = Opening { place: Place::Mapped, checked: false };
        let finding = |(n, flat): (usize, &FlatNamespace)| {
            let error = self.open_flat(flat, NameHashKey::new([0, 0]), (opening, None)).err()?;
            Some(Finding::fatal(format!("flat.{n}.table"), error.to_string()))
        };
        self.flat.iter().enumerate().filter_map(finding).collect()
    }
}
