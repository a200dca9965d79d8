//! Files of sets of tags.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use byname_control::tags::bulk;
use byname_lookup::file::Opening;
use byname_lookup::tagset::TagQuery;
use byname_lookup::tagset::rare_tag::{BulkTagLoader, BulkTags, Options};
use byname_lookup::{Control, EntryId};
use byname_wire::name::component_type;
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Descriptor, Name, NameRef};

use super::rules::Rules;
use super::{Labels, secret};
use crate::exit;

/// Whether a file has a table of sets of tags. A file that cannot be read has none.
pub(super) fn are_in(path: &Path) -> bool {
    BulkTags::examine(path).is_ok()
}

/// The tags of a line, which are written as the components of a name.
fn descriptor(tags: NameRef<'_>) -> anyhow::Result<Descriptor> {
    let components = || tags.components();
    anyhow::ensure!(components().all(|one| one.typ == component_type::GENERIC), "tags are plain components: /TAG/TAG");
    let set: BTreeSet<&[u8]> = components().map(|one| one.value).collect();
    anyhow::ensure!((1..=TAGS_MAX).contains(&set.len()), "a set has 1 to {TAGS_MAX} tags, not {}", set.len());
    Ok(Descriptor::of(set)?)
}

/// Makes a table of lines of text.
pub(super) fn build(rules: &Path, table: &Path, key_of: Option<&Path>) -> anyhow::Result<u8> {
    let secret = match key_of {
        Some(other) => BulkTags::secret_of(other).with_context(|| other.display().to_string())?,
        None => secret()?[0],
    };
    let (mut loader, mut labels) = (BulkTagLoader::new(secret), Labels::default());
    let mut known: BTreeMap<Descriptor, Name> = BTreeMap::new();
    Rules::open(rules, false)?.each(&mut |tags, label| {
        let descriptor = descriptor(tags)?;
        if let Some(other) = known.insert(descriptor.clone(), tags.to_name()) {
            anyhow::bail!("{other} has a label already, and the tags here have the same digests");
        }
        Ok(loader.push(&descriptor, labels.id(label)?)?)
    })?;
    // The loader has them, too.
    drop(known);
    let sets = loader.save(table, &labels.texts)?;
    writeln!(std::io::stdout(), "{}: {sets} sets of tags, {} labels", table.display(), labels.texts.len())?;
    Ok(exit::OK)
}

/// Checks a table as the router does, and shows what it has.
pub(super) fn show(path: &Path) -> anyhow::Result<u8> {
    bulk::open(path, Opening::default(), 0, &Options::default())?;
    let table = open(path)?;
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "sets of tags {}", table.sets())?;
    writeln!(out, "bytes        {bytes}")?;
    writeln!(out, "labels       {}", table.labels().len())?;
    for label in table.labels() {
        writeln!(out, "  {}", String::from_utf8_lossy(label))?;
    }
    Ok(exit::OK)
}

/// Shows the labels of all sets that are among these tags, each once.
pub(super) fn find(path: &Path, tags: &Name) -> anyhow::Result<u8> {
    let (table, asked) = (open(path)?, descriptor(tags.as_ref())?);
    let labels = table.labels().len() as u32;
    (0..labels).for_each(|label| table.translation().set(EntryId(label), Some(EntryId(label))));
    let mut found = BTreeSet::new();
    let effort = table.query().all_subsets(&TagQuery::of_tags(asked.tags()), &mut |entry| {
        found.insert(entry.0);
        ControlFlow::Continue(())
    });
    if effort.cut_off {
        eprintln!("the search ended after {} steps, so some labels may be missing", effort.steps);
    }
    if found.is_empty() {
        return Err(exit::Failure::new(exit::NOT_FOUND, format!("no set is among the tags {tags}")).into());
    }
    let mut out = std::io::stdout().lock();
    for label in found {
        writeln!(out, "{}", String::from_utf8_lossy(&table.labels()[label as usize]))?;
    }
    Ok(exit::OK)
}

fn open(path: &Path) -> anyhow::Result<BulkTags> {
    BulkTags::open(path, Opening::default(), 0, &Options::default()).with_context(|| path.display().to_string())
}
