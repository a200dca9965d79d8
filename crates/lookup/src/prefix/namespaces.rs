//! Flat namespaces in front of a prefix engine: below their prefixes, names are opaque [Concise §2].
//!
//! A namespace has a prefix of `d` components and a table of flat names. The component after the
//! prefix, if it is generic, is looked up by its bytes, under the table's own key. A name that the
//! table has is matched at depth `d + 1`, as if there were a rule for it. All others go to the
//! engine: names of other namespaces, components of other types, and names that the table's
//! checksum tells as unknown [Concise §7.3].
//!
//! Numbers that tables give are of the caller's labels. A *translation* says which entry each of
//! them has now. A name whose label has none goes to the engine, too.
//!
//! Longer rules win, as everywhere: while the engine has rules below a namespace that are at least
//! as deep as its names, it is asked as well. Otherwise a name of a namespace costs no search of
//! prefixes. An engine that has rules from a file is always asked, if these may be as deep as the
//! names ([`Namespaces::with_rules_to`]): a file does not tell which prefixes its rules have.
//!
//! Names can *change* without a new table, see [`Changes`]: they get another label, become known, or
//! count as unknown. Changes are exact.
//!
//! Cost: a comparison of each name with each prefix, one digest of the component, one cache line of
//! the table, and another one while there are changes.

pub mod changes;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byname_wire::name::{COMPONENTS_MAX, component_type};
use byname_wire::name_hash::DepthSet;
use byname_wire::{Digest, Name, NameHashKey, NameRef, NameView};
use smallvec::SmallVec;
use thiserror::Error;

use self::changes::{Changed, Changes};
use super::compact::Translation;
use super::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::entry::EntryId;
use crate::flat::FlatFib;

use crate::update::{BuildError, Change, Control, Update};

/// Maximum number of namespaces. Each name is compared with each prefix.
pub const NAMESPACES_MAX: usize = 16;

/// A prefix, and the names below it.
pub struct Namespace {
    /// The prefix.
    pub prefix: Name,
    /// The key that names are hashed with.
    pub key: NameHashKey,
    /// The table.
    pub table: Arc<dyn FlatFib>,
    /// The entries of its numbers.
    pub translation: Translation,
    /// The labels that its numbers stand for, to explain answers.
    pub labels: Arc<[Name]>,
    /// What has changed since the table was made.
    pub changes: Arc<Changes>,
}

/// Namespaces that cannot be together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NamespaceError {
    /// Too many.
    #[error("there are {count} flat namespaces, more than {NAMESPACES_MAX}")]
    TooMany {
        /// Their number.
        count: usize,
    },
    /// Two have one prefix.
    #[error("two flat namespaces have the prefix {}", prefix.as_ref())]
    Twice {
        /// The prefix.
        prefix: Name,
    },
    /// No name has a component after this prefix.
    #[error("the prefix of a flat namespace has {depth} components, which leaves none for its names")]
    TooDeep {
        /// Number of its components.
        depth: usize,
    },
}

/// The control half: an engine behind namespaces.
pub struct Namespaces<C> {
    engine: C,
    shared: Arc<[Shared]>,
    /// For each namespace, the engine's rules that are at least as deep as its names.
    below: Vec<HashSet<Name>>,
    /// Maximum depth of rules of the engine that no change told of.
    untold_depth_max: usize,
}

/// A namespace as readers see it.
struct Shared {
    namespace: Namespace,
    /// Number of components of the prefix.
    depth: usize,
    /// Whether the engine has rules that are at least as deep as the names.
    has_below: AtomicBool,
}

/// The number of a label.
#[derive(Clone, Copy)]
enum Label {
    OfTable(EntryId),
    OfChanges(EntryId),
}

struct Query {
    /// The deepest first.
    namespaces: Arc<[Shared]>,
    engine: Arc<dyn PrefixFib>,
}

impl<C: Control<Name, Query = dyn PrefixFib>> Namespaces<C> {
    /// Puts namespaces in front of an engine without rules.
    ///
    /// # Errors
    /// If they are too many, two have one prefix, or a prefix is too deep.
    pub fn new(engine: C, mut namespaces: Vec<Namespace>) -> Result<Self, NamespaceError> {
        if namespaces.len() > NAMESPACES_MAX {
            return Err(NamespaceError::TooMany { count: namespaces.len() });
        }
        let depth = |namespace: &Namespace| namespace.prefix.as_ref().len();
        namespaces.sort_by_key(|namespace| Reverse(depth(namespace)));
        for (i, namespace) in namespaces.iter().enumerate() {
            if depth(namespace) >= COMPONENTS_MAX {
                return Err(NamespaceError::TooDeep { depth: depth(namespace) });
            }
            if namespaces[..i].iter().any(|other| other.prefix == namespace.prefix) {
                return Err(NamespaceError::Twice { prefix: namespace.prefix.clone() });
            }
        }
        let below = namespaces.iter().map(|_| HashSet::new()).collect();
        let shared =
            |namespace: Namespace| Shared { depth: depth(&namespace), namespace, has_below: AtomicBool::new(false) };
        Ok(Namespaces { engine, shared: namespaces.into_iter().map(shared).collect(), below, untold_depth_max: 0 })
    }

    /// Tells that the engine has rules of at most this many components that did not come by changes, such as those of a
    /// file. Call it before readers have the query half.
    pub fn with_rules_to(mut self, depth_max: usize) -> Self {
        self.untold_depth_max = depth_max;
        self.publish(true);
        self
    }

    /// The engine.
    pub fn engine(&self) -> &C {
        &self.engine
    }

    fn wrapped(&self, engine: Arc<dyn PrefixFib>) -> Arc<dyn PrefixFib> {
        Arc::new(Query { namespaces: self.shared.clone(), engine })
    }

    /// Notes the rules that a batch adds, before readers can see them, or removes, after that.
    fn note(&mut self, changes: &[Change<Name>]) {
        for change in changes {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            for (shared, below) in self.shared.iter().zip(&mut self.below) {
                let prefix = shared.namespace.prefix.as_ref();
                if name.as_ref().len() > shared.depth && prefix.is_prefix_of(&name.as_ref()) {
                    match change {
                        Change::Set(..) => below.insert(name.clone()),
                        Change::Remove(_) => below.remove(name),
                    };
                }
            }
        }
    }

    fn publish(&self, keeps: bool) {
        for (shared, below) in self.shared.iter().zip(&self.below) {
            let untold = self.untold_depth_max > shared.depth;
            let is = untold || !below.is_empty() || (keeps && shared.has_below.load(Ordering::Relaxed));
            shared.has_below.store(is, Ordering::Release);
        }
    }
}

impl<C: Control<Name, Query = dyn PrefixFib>> Control<Name> for Namespaces<C> {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.wrapped(self.engine.query())
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let update = self.engine.apply(changes)?;
        self.note(changes);
        match update {
            Update::Patched => {
                // Readers see a rule from here on. One that was removed costs them a search that finds nothing.
                self.publish(false);
                Ok(Update::Patched)
            }
            Update::Replace(engine) => {
                // Readers may have the old query half until the next change, so what it needs stays for now.
                self.publish(true);
                Ok(Update::Replace(self.wrapped(engine)))
            }
        }
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        self.engine.expect(rules)
    }

    fn reclaim(&mut self) {
        self.publish(false);
        self.engine.reclaim();
    }
}

impl Shared {
    /// The opaque name in `name`, if it is of this namespace.
    #[inline]
    fn flat_name<'a>(&self, name: &NameView<'a>) -> Option<&'a [u8]> {
        if name.len() <= self.depth || name.prefix(self.depth) != self.namespace.prefix.as_ref() {
            return None;
        }
        let rest = &name.prefix(self.depth + 1).value()[name.prefix(self.depth).value().len()..];
        let component = NameRef::new_checked_before(rest).components().next()?;
        (component.typ == component_type::GENERIC).then_some(component.value)
    }

    /// The label of a name for which the table has `of_table`.
    #[inline]
    fn label(&self, name: Digest, of_table: Option<EntryId>) -> Option<Label> {
        match self.namespace.changes.get(name) {
            None => of_table.map(Label::OfTable),
            Some(Changed::Removed) => None,
            Some(Changed::Label(number)) => Some(Label::OfChanges(number)),
        }
    }

    /// The answer for a name with this label.
    #[inline]
    fn found(&self, label: Option<Label>) -> Option<PrefixMatch> {
        let entry = match label? {
            Label::OfTable(number) => self.namespace.translation.get(number)?,
            Label::OfChanges(number) => self.namespace.changes.entry(number)?,
        };
        Some(PrefixMatch { entry, depth: self.depth + 1 })
    }

    fn label_name(&self, label: Label) -> Option<&Name> {
        match label {
            Label::OfTable(number) => self.namespace.labels.get(number.0 as usize),
            Label::OfChanges(number) => self.namespace.changes.name(number),
        }
    }
}

impl Query {
    /// The answer of the first namespace that knows the name, and its label.
    fn flat_match(&self, name: &NameView<'_>) -> Option<(&Shared, Label, PrefixMatch)> {
        self.namespaces.iter().find_map(|shared| {
            let digest = shared.namespace.key.digest_bytes(shared.flat_name(name)?);
            let label = shared.label(digest, shared.namespace.table.entry(digest))?;
            Some((shared, label, shared.found(Some(label))?))
        })
    }

    /// The engine's answer, if it may have rules that cover flat names of this namespace.
    fn rule_below(&self, shared: &Shared, name: &NameView<'_>) -> Option<PrefixMatch> {
        if shared.has_below.load(Ordering::Acquire) { self.engine.longest_match(name) } else { None }
    }

    /// The deeper one of two matches. A rule of the engine covers a flat name of its depth.
    fn deeper(flat: PrefixMatch, rule: Option<PrefixMatch>) -> PrefixMatch {
        rule.filter(|rule| rule.depth >= flat.depth).unwrap_or(flat)
    }
}

impl PrefixFib for Query {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        match self.flat_match(name) {
            Some((shared, _, found)) => Some(Self::deeper(found, self.rule_below(shared, name))),
            None => self.engine.longest_match(name),
        }
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        out.fill(None);
        let mut asks = [true; BURST_MAX];
        for shared in &*self.namespaces {
            let (mut flat, mut places) = (SmallVec::<[&[u8]; BURST_MAX]>::new(), [0u8; BURST_MAX]);
            for (place, name) in names.iter().enumerate().filter(|(place, _)| out[*place].is_none()) {
                if let Some(bytes) = shared.flat_name(name) {
                    places[flat.len()] = place as u8;
                    flat.push(bytes);
                }
            }
            if flat.is_empty() {
                continue;
            }
            let (mut digests, mut labels) = ([Digest::default(); BURST_MAX], [None; BURST_MAX]);
            let (digests, labels) = (&mut digests[..flat.len()], &mut labels[..flat.len()]);
            shared.namespace.key.digest_bytes_burst(&flat, digests);
            shared.namespace.table.entry_burst(digests, labels);
            let has_below = shared.has_below.load(Ordering::Acquire);
            for ((digest, of_table), place) in digests.iter().zip(&*labels).zip(places) {
                let place = usize::from(place);
                out[place] = shared.found(shared.label(*digest, *of_table));
                asks[place] = out[place].is_none() || has_below;
            }
        }
        let mut asked: SmallVec<[NameView<'_>; BURST_MAX]> = SmallVec::new();
        asked.extend(names.iter().zip(asks).filter(|(_, asks)| *asks).map(|(name, _)| *name));
        if asked.is_empty() {
            return;
        }
        let mut rules = [None; BURST_MAX];
        self.engine.longest_match_burst(&asked, &mut rules[..asked.len()]);
        let places = asks.iter().zip(out).filter(|(asks, _)| **asks);
        for ((_, out), rule) in places.zip(rules) {
            *out = out.map_or(rule, |flat| Some(Self::deeper(flat, rule)));
        }
    }

    fn depth_max(&self) -> usize {
        self.engine.depth_max().max(self.namespaces.first().map_or(0, |deepest| deepest.depth + 1))
    }

    fn depths(&self) -> DepthSet {
        // Callers use the hash of a name at the depth of its match.
        let of_names = self.namespaces.iter().map(|shared| DepthSet::of(shared.depth + 1));
        of_names.fold(self.engine.depths(), DepthSet::union)
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let mut lines = 0;
        for shared in &*self.namespaces {
            let Some(flat) = shared.flat_name(name) else { continue };
            let Namespace { key, table, changes, .. } = &shared.namespace;
            let digest = key.digest_bytes(flat);
            lines += table.lines_read(digest)? + usize::from(!changes.is_empty());
            if shared.found(shared.label(digest, table.entry(digest))).is_some()
                && !shared.has_below.load(Ordering::Acquire)
            {
                return Some(lines);
            }
        }
        Some(lines + self.engine.lines_read(name)?)
    }

    fn label(&self, name: &NameView<'_>) -> Option<&Name> {
        let (shared, label, found) = self.flat_match(name)?;
        let is_covered = Self::deeper(found, self.rule_below(shared, name)) != found;
        if is_covered { None } else { shared.label_name(label) }
    }

    fn flat_changes(&self, prefix: NameRef<'_>) -> Option<(&NameHashKey, &Arc<Changes>)> {
        let shared = self.namespaces.iter().find(|shared| shared.namespace.prefix.as_ref() == prefix)?;
        Some((&shared.namespace.key, &shared.namespace.changes))
    }

    fn memory_bytes(&self) -> usize {
        let of_one = |shared: &Shared| shared.namespace.table.memory_bytes() + shared.namespace.changes.memory_bytes();
        let tables: usize = self.namespaces.iter().map(of_one).sum();
        size_of::<Self>() + size_of_val(&*self.namespaces) + tables + self.engine.memory_bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
