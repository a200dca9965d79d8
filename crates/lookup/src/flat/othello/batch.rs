//! Batches of changes, which are applied completely or not at all.

use std::collections::HashSet;

use byname_wire::Digest;

use super::network::{AHEAD, NamesOfPart, Network};
use super::query::Part;
use crate::entry::EntryId;
use crate::update::BuildError;

/// One change of the network.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    /// Adds the name or replaces its entries: one entry for each table.
    Set(Digest, &'a [EntryId]),
    /// Replaces the name's entry in one table, if the name exists.
    Alter(Digest, usize, EntryId),
    /// Removes the name, if it exists.
    Remove(Digest),
}

impl Step<'_> {
    pub(super) fn name(&self) -> Digest {
        let (Step::Set(name, _) | Step::Alter(name, ..) | Step::Remove(name)) = self;
        *name
    }
}

/// The steps that a batch has done so far, so that they can be undone.
#[derive(Default)]
pub(super) struct Undo {
    done: Vec<Done>,
    /// The vertices of all flips, and the value that each was flipped by in each table.
    vertices: Vec<(u32, u16)>,
    deltas: Vec<u32>,
}

enum Done {
    /// Values of a part were flipped, for a name that was added or for an existing one.
    Flipped { part: u32, vertices: usize, added: Option<Digest> },
    /// A part was rebuilt.
    Made(Box<Before>),
}

/// The earlier state of a part that was rebuilt.
pub(super) struct Before {
    pub(super) number: u32,
    pub(super) part: NamesOfPart,
    /// Its values in each table.
    pub(super) values: Vec<Part>,
    /// The number of parts before. A split adds parts.
    pub(super) parts: usize,
    pub(super) names: usize,
}

impl Undo {
    /// Notes a flip of these vertices, with its delta in each table.
    pub(super) fn flipped(
        &mut self,
        part: u32,
        vertices: &[(u32, u16)],
        deltas: impl Iterator<Item = u32>,
        added: Option<Digest>,
    ) {
        self.vertices.extend(vertices);
        self.deltas.extend(deltas);
        self.done.push(Done::Flipped { part, vertices: vertices.len(), added });
    }

    /// The deltas of the last flip, one for each of `tables` tables.
    pub(super) fn last_deltas(&self, tables: usize) -> &[u32] {
        &self.deltas[self.deltas.len() - tables..]
    }

    pub(super) fn made(&mut self, before: Before) {
        self.done.push(Done::Made(Box::new(before)));
    }

    fn clear(&mut self) {
        self.done.clear();
        self.vertices.clear();
        self.deltas.clear();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.done.capacity() * size_of::<Done>()
            + self.vertices.capacity() * size_of::<(u32, u16)>()
            + self.deltas.capacity() * size_of::<u32>()
    }
}

impl Network {
    /// Applies all steps in order, or none. The caller has checked that entries and names fit.
    pub(super) fn apply_steps<'a>(&mut self, steps: impl Iterator<Item = Step<'a>> + Clone) -> Result<(), BuildError> {
        self.prepare(steps.clone().filter_map(|step| match step {
            Step::Set(name, _) => Some((name, true)),
            Step::Remove(name) => Some((name, false)),
            Step::Alter(..) => None,
        }))?;
        let mut undo = std::mem::take(&mut self.undo);
        let set = self.set_all(steps.clone(), &mut undo);
        match set {
            Ok(()) => self.remove_all(steps),
            Err(_) => self.undo_all(&mut undo),
        }
        undo.clear();
        self.undo = undo;
        set
    }

    /// Applies all steps except removals.
    pub(super) fn set_all<'a>(
        &mut self,
        steps: impl Iterator<Item = Step<'a>> + Clone,
        undo: &mut Undo,
    ) -> Result<(), BuildError> {
        let mut steps = steps.filter(|step| !matches!(step, Step::Remove(_)));
        loop {
            self.prefetch(steps.clone().take(AHEAD).map(|step| step.name()));
            for _ in 0..AHEAD {
                match steps.next() {
                    None => return Ok(()),
                    Some(Step::Set(name, entries)) => self.set(name, entries, undo)?,
                    Some(Step::Alter(name, table, entry)) => self.alter(name, table, entry, undo)?,
                    Some(Step::Remove(_)) => {}
                }
            }
        }
    }

    /// Removes all names that are removed and not set again later. Removal cannot fail, so it comes
    /// last.
    fn remove_all<'a>(&mut self, steps: impl Iterator<Item = Step<'a>> + Clone) {
        let mut removed = HashSet::new();
        for step in steps {
            match step {
                Step::Remove(name) => drop(removed.insert(name)),
                Step::Set(name, _) if !removed.is_empty() => drop(removed.remove(&name)),
                Step::Set(..) | Step::Alter(..) => {}
            }
        }
        let removed: Vec<_> = removed.into_iter().collect();
        for some in removed.chunks(AHEAD) {
            self.prefetch(some.iter().copied());
            some.iter().for_each(|&name| self.remove(name));
        }
    }

    /// Undoes all steps, last first. Readers still have the old query halves.
    pub(super) fn undo_all(&mut self, undo: &mut Undo) {
        while let Some(done) = undo.done.pop() {
            match done {
                Done::Flipped { part, vertices, added } => {
                    if let Some(name) = added {
                        self.parts[part as usize].graph.forget(name);
                        self.names -= 1;
                    }
                    let flipped = undo.vertices.split_off(undo.vertices.len() - vertices);
                    let deltas = undo.deltas.split_off(undo.deltas.len() - self.tables.len());
                    for (table, delta) in self.tables.iter_mut().zip(deltas) {
                        table.flip(part, &flipped, delta);
                    }
                }
                Done::Made(before) => self.go_back(*before),
            }
        }
        self.tables.iter_mut().for_each(|table| table.is_as_before());
    }

    fn go_back(&mut self, before: Before) {
        let Before { number, part, values, parts, names } = before;
        if self.parts.len() > parts {
            // The part was split. Names with this prefix belong to it again.
            let prefix = part.graph.names().next().map_or(0, |name| super::query::index(name, part.depth));
            self.direct(prefix, part.depth, number);
            self.parts.truncate(parts);
            self.tables.iter_mut().for_each(|table| table.truncate(parts));
        }
        self.tables.iter_mut().zip(values).for_each(|(table, values)| drop(table.set_part(number, values)));
        self.parts[number as usize] = part;
        self.names = names;
    }
}
