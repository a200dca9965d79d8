//! Prefixes of this host: which applications serve them, and what the network was told.

use std::collections::BTreeMap;

use byname_wire::{FaceId, Name, NameRef};

/// A prefix of this host.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalPrefix {
    /// Applications, with the cost of each.
    pub(crate) faces: Vec<(FaceId, u64)>,
    /// The cost that the network was told. `None`: it was told nothing, or that the prefix is gone.
    pub(crate) told: Option<u64>,
}

impl LocalPrefix {
    pub(crate) fn cost(&self) -> Option<u64> {
        self.faces.iter().map(|(_, cost)| *cost).min()
    }
}

/// All prefixes of this host.
#[derive(Debug, Default)]
pub(crate) struct LocalPrefixes {
    prefixes: BTreeMap<Name, LocalPrefix>,
    /// Those that may have to be told.
    changed: BTreeMap<Name, ()>,
}

/// Most applications that serve one prefix.
const FACES_MAX: usize = 256;

impl LocalPrefixes {
    /// An application serves a prefix. Returns whether it was taken: there may be too many.
    pub(crate) fn announce(&mut self, prefix: &Name, face: FaceId, cost: u64, max: usize) -> bool {
        if !self.prefixes.contains_key(prefix) && self.prefixes.len() >= max {
            return false;
        }
        let local = self.prefixes.entry(prefix.clone()).or_default();
        match local.faces.iter().position(|(known, _)| *known == face) {
            Some(place) => local.faces[place].1 = cost,
            None if local.faces.len() >= FACES_MAX => return false,
            None => local.faces.push((face, cost)),
        }
        self.changed.insert(prefix.clone(), ());
        true
    }

    /// An application serves a prefix no more.
    pub(crate) fn withdraw(&mut self, prefix: &Name, face: FaceId) {
        if let Some(local) = self.prefixes.get_mut(prefix) {
            local.faces.retain(|(known, _)| *known != face);
            self.changed.insert(prefix.clone(), ());
        }
    }

    /// A face is gone, and so are its applications.
    pub(crate) fn withdraw_face(&mut self, face: FaceId) -> Vec<Name> {
        let has = |local: &LocalPrefix| local.faces.iter().any(|(known, _)| *known == face);
        let names: Vec<Name> =
            self.prefixes.iter().filter(|(_, local)| has(local)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.withdraw(name, face));
        names
    }

    /// All may have to be told anew: policy has changed.
    pub(crate) fn reconsider(&mut self) {
        self.changed.extend(self.prefixes.keys().map(|name| (name.clone(), ())));
    }

    pub(crate) fn find(&self, prefix: &Name) -> Option<&LocalPrefix> {
        self.prefixes.get(prefix)
    }

    /// Number of prefixes that the network was told.
    pub(crate) fn told(&self) -> usize {
        self.prefixes.values().filter(|local| local.told.is_some()).count()
    }

    /// What the network must be told: additions with their costs, and removals, and how many are
    /// not permitted. Afterwards it counts as told.
    pub(crate) fn take_changes(&mut self, permits: impl Fn(NameRef<'_>) -> bool) -> (Vec<(Name, u64)>, Vec<Name>, u64) {
        let (mut additions, mut removals, mut denied) = (Vec::new(), Vec::new(), 0);
        for (name, ()) in std::mem::take(&mut self.changed) {
            let Some(local) = self.prefixes.get_mut(&name) else { continue };
            let cost = local.cost();
            let permitted = cost.filter(|_| permits(name.as_ref()));
            denied += u64::from(cost.is_some() && permitted.is_none());
            if permitted != local.told {
                match permitted {
                    Some(cost) => additions.push((name.clone(), cost)),
                    None => removals.push(name.clone()),
                }
                local.told = permitted;
            }
            if local.faces.is_empty() {
                self.prefixes.remove(&name);
            }
        }
        (additions, removals, denied)
    }

    /// All that the network was told, for a snapshot.
    pub(crate) fn all_told(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.prefixes.iter().filter_map(|(name, local)| local.told.map(|cost| (name, cost)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    #[test]
    fn the_network_is_told_the_lowest_cost() {
        let mut local = LocalPrefixes::default();
        let private = name("/private");
        let policy = |of: NameRef<'_>| !private.as_ref().is_prefix_of(&of);
        assert!(local.announce(&name("/a"), FaceId(300), 7, 9));
        assert!(local.announce(&name("/a"), FaceId(301), 3, 9));
        assert!(local.announce(&name("/private/b"), FaceId(301), 3, 9));
        assert_eq!(local.take_changes(policy), (vec![(name("/a"), 3)], vec![], 1));
        local.withdraw(&name("/a"), FaceId(300));
        assert_eq!(local.take_changes(policy), (vec![], vec![], 0));
        assert_eq!(local.withdraw_face(FaceId(301)), [name("/a"), name("/private/b")]);
        assert_eq!(local.take_changes(policy), (vec![], vec![name("/a")], 0));
        assert!(local.find(&name("/a")).is_none() && local.find(&name("/private/b")).is_none());
    }

    #[test]
    fn prefixes_are_bounded() {
        let mut local = LocalPrefixes::default();
        assert!(local.announce(&name("/a"), FaceId(300), 0, 1));
        assert!(!local.announce(&name("/b"), FaceId(300), 0, 1));
        assert!(local.announce(&name("/a"), FaceId(301), 0, 1));
    }

    #[test]
    fn other_rules_change_what_was_told() {
        let mut local = LocalPrefixes::default();
        local.announce(&name("/a"), FaceId(300), 0, 9);
        local.take_changes(|_| true);
        local.reconsider();
        assert_eq!(local.take_changes(|_| false), (vec![], vec![name("/a")], 1));
        local.reconsider();
        assert_eq!(local.take_changes(|_| true), (vec![(name("/a"), 0)], vec![], 0));
    }
}
