//! The FIB's engine, with the file of rules below the routes and flat namespaces if there are any.

use std::path::PathBuf;

use byname_lookup::file::{Checked, Opening, Place, Source};
use byname_lookup::prefix::compact::BulkTable;
use byname_lookup::{BuildError, Control, Pages};
use byname_wire::NameHashKey;

use super::{Config, Finding};
use crate::fib_writer::FibEngine;
use crate::fib_writer::bulk::BulkFib;

impl Config {
    /// The file of rules below the routes.
    pub fn bulk_table(&self) -> Option<PathBuf> {
        let bulk = &self.tables.bulk;
        (!bulk.as_os_str().is_empty()).then(|| self.folder.join(bulk))
    }

    /// The key that names are hashed with: that of the files, or one made of `secret`.
    ///
    /// # Errors
    /// If the file has no such table.
    pub fn name_key(&self, secret: [u64; 2]) -> Result<NameHashKey, BuildError> {
        match self.bulk_table() {
            Some(path) => BulkTable::key_of(&path)
                .map_err(|error| BuildError::File { reason: format!("{}: {error}", path.display()) }),
            None => Ok(match self.partition_key()? {
                Some(key) => key,
                None => NameHashKey::with_function(self.tables.name_hash, secret),
            }),
        }
    }

    /// An engine for at most `routes_max` routes, for names hashed with `key`, for a memory node, on
    /// which the caller is. Files that `checked` knows are not read again, and others are added to it.
    ///
    /// # Errors
    /// If there is no memory, the file cannot be used, or its key is another one.
    pub fn build_fib(
        &self,
        key: NameHashKey,
        routes_max: usize,
        (node, checked): (Option<u32>, &Checked),
    ) -> Result<FibEngine, BuildError> {
        // The pages of a file lie on the node of the process that read it first.
        let place = if node.is_some() { Place::Copied(Pages::default()) } else { Place::Mapped };
        let files = (place, checked);
        let Some(path) = self.bulk_table() else {
            let engine = self.tables.fib.build_with(key, routes_max, &self.tables.fib_parameters())?;
            let engine = self.behind_flat_namespaces(engine, 0, key, files)?;
            return self.behind_partition(engine, key, place);
        };
        let source = Source { path: &path, changes: self.tables.bulk_changes, checked: Some(checked) };
        let fib = BulkFib::open(source, Opening { place, checked: true }, routes_max)
            .map_err(|error| BuildError::File { reason: error.to_string() })?;
        if *fib.table().key() != key {
            let reason = format!("{} has another hash key than the running router's tables", path.display());
            return Err(BuildError::File { reason });
        }
        let changes = self.tables.bulk_changes;
        tracing::info!(
            changes,
            "{} has {} rules and {} labels",
            path.display(),
            fib.table().len(),
            fib.table().labels().len()
        );
        let depth_max = fib.table().query().depth_max();
        let engine = self.behind_flat_namespaces(Box::new(fib), depth_max, key, files)?;
        self.behind_partition(engine, key, place)
    }

    /// Whether the file of rules can be opened.
    pub fn bulk_findings(&self) -> Option<Finding> {
        let path = self.bulk_table()?;
        let error = BulkTable::key_of(&path).err()?;
        Some(Finding::fatal("tables.bulk", format!("{}: {error}", path.display())))
    }
}
