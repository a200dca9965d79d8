//! Certificates whose chains lead to anchors.

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_wire::Name;

use super::DomainSet;
use crate::{Certificate, Rights};

/// Most certificates of one key that are tried for a signature.
const TRIED_MAX: usize = 4;

struct Entry {
    certificate: Arc<Certificate>,
    domains: DomainSet,
    /// As its chain restricts them.
    rights: Rights,
    /// The first end of validity in its chain, in ms since the Unix epoch.
    until_ms: u64,
    /// When it was used last, by count of uses.
    used: u64,
}

/// Certificates by name. When there is no room, the one that was not used for longest goes.
pub(super) struct Cache {
    entries: BTreeMap<Name, Entry>,
    max: usize,
    uses: u64,
}

impl Cache {
    pub(super) fn new(max: usize) -> Self {
        Cache { entries: BTreeMap::new(), max, uses: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Certificates that a locator may mean, the newest first, with the domains in which they are trusted
    /// and the rights that their chains leave.
    pub(super) fn found(&mut self, locator: &Name, unix_ms: u64) -> Vec<(Arc<Certificate>, DomainSet, Rights)> {
        self.uses += 1;
        let uses = self.uses;
        // Names are in canonical order: all with this prefix follow it.
        let with_prefix = self
            .entries
            .range_mut(locator.clone()..)
            .take_while(|(name, _)| locator.as_ref().is_prefix_of(&name.as_ref()));
        let mut found = Vec::new();
        for (_, entry) in with_prefix.filter(|(_, entry)| entry.until_ms >= unix_ms) {
            entry.used = uses;
            found.push((Arc::clone(&entry.certificate), entry.domains, entry.rights.clone()));
        }
        found.reverse();
        found.truncate(TRIED_MAX);
        found
    }

    /// The first end of validity in the chain of a certificate.
    pub(super) fn until_ms(&self, name: &Name) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.until_ms)
    }

    pub(super) fn insert(
        &mut self,
        certificate: Arc<Certificate>,
        (domains, rights): (DomainSet, Rights),
        until_ms: u64,
        unix_ms: u64,
    ) {
        if self.max == 0 {
            return;
        }
        self.uses += 1;
        let entry = Entry { domains, rights, until_ms, used: self.uses, certificate };
        let name = entry.certificate.name.clone();
        if self.entries.len() >= self.max && !self.entries.contains_key(&name) {
            // What is over goes first.
            let worth = |entry: &Entry| (entry.until_ms >= unix_ms, entry.used);
            let oldest = self.entries.iter().min_by_key(|(_, entry)| worth(entry)).map(|(name, _)| name.clone());
            oldest.iter().for_each(|name| drop(self.entries.remove(name)));
        }
        self.entries.insert(name, entry);
    }
}
