//! The tables: next-hops, groups, and which entries use them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::subjects::Wanted;
use super::{Core, Entry, Key, Verb};

/// Longest address of a next-hop, in bytes.
const URI_BYTES_MAX: usize = 256;

/// A next-hop.
#[derive(Debug)]
pub(super) struct NextHop {
    pub(super) uri: Arc<str>,
    /// Groups with it.
    groups: BTreeSet<u64>,
}

/// A group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Indices of next-hops, and costs.
    pub(super) members: Vec<(u64, u64)>,
    /// Entries that lead to it.
    users: BTreeSet<Key>,
}

/// A next-hop in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextHopUse {
    /// The key.
    pub index: u64,
    /// Address of the peer.
    pub uri: Arc<str>,
}

/// An entry in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// A next-hop.
    NextHop(NextHopUse),
    /// A group, with indices of next-hops and costs.
    Group(u64, Vec<(u64, u64)>),
    /// An entry, with its group and flags, and whether the router has it as it should be.
    Route(Key, u64, u64, bool),
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// At next-hops from this index on.
    NextHops(u64),
    /// At groups from this id on.
    Groups(u64),
    /// At entries after this key; `None`: at the first.
    Entries(Option<Key>),
}

impl Core {
    /// Changes the tables. Returns the subjects that are concerned.
    pub(super) fn apply(&mut self, verb: Verb, entry: Entry) -> Result<Vec<Key>, String> {
        match (verb, entry) {
            (Verb::Delete, Entry::NextHop { index, .. }) => self.delete_next_hop(index),
            (Verb::Delete, Entry::Group { id, .. }) => self.delete_group(id),
            (Verb::Delete, Entry::Route { key, .. }) => Ok(self.delete_entry(key)),
            (verb, Entry::NextHop { index, uri }) => self.put_next_hop(verb, index, &uri),
            (verb, Entry::Group { id, members }) => self.put_group(verb, id, members),
            (verb, Entry::Route { key, group, flags }) => self.put_entry(verb, key, Wanted { group, flags }),
        }
    }

    fn put_next_hop(&mut self, verb: Verb, index: u64, uri: &str) -> Result<Vec<Key>, String> {
        if uri.len() > URI_BYTES_MAX || !uri.contains("://") || !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the address is no face URI: write one such as udp4://192.0.2.1:6363".to_owned());
        }
        let count = self.next_hops.len();
        match self.next_hops.get_mut(&index) {
            Some(there) if *there.uri == *uri => Ok(Vec::new()),
            Some(there) => {
                there.uri = uri.into();
                let groups = there.groups.clone();
                Ok(groups.into_iter().flat_map(|group| self.users(group)).collect())
            }
            None if verb == Verb::Replace => Err(format!("there is no next-hop {index}")),
            None if count >= self.limits.next_hops_max => {
                Err(format!("there are {count} next-hops, as many as there may be"))
            }
            None => {
                self.next_hops.insert(index, NextHop { uri: uri.into(), groups: BTreeSet::new() });
                Ok(Vec::new())
            }
        }
    }

    fn delete_next_hop(&mut self, index: u64) -> Result<Vec<Key>, String> {
        if let Some(group) = self.next_hops.get(&index).and_then(|there| there.groups.first()) {
            return Err(format!("group {group} has the next-hop {index}"));
        }
        self.next_hops.remove(&index);
        Ok(Vec::new())
    }

    fn put_group(&mut self, verb: Verb, id: u64, members: Vec<(u64, u64)>) -> Result<Vec<Key>, String> {
        if members.is_empty() || members.len() > self.limits.members_max {
            return Err(format!(
                "a group has 1 to {} next-hops, and this one {}",
                self.limits.members_max,
                members.len()
            ));
        }
        let distinct: BTreeSet<u64> = members.iter().map(|(index, _)| *index).collect();
        if distinct.len() < members.len() {
            return Err("a next-hop is in the group twice".to_owned());
        }
        if let Some(missing) = distinct.iter().find(|index| !self.next_hops.contains_key(*index)) {
            return Err(format!("there is no next-hop {missing}"));
        }
        let count = self.groups.len();
        match self.groups.get(&id) {
            Some(there) if there.members == members => return Ok(Vec::new()),
            None if verb == Verb::Replace => return Err(format!("there is no group {id}")),
            None if count >= self.limits.groups_max => {
                return Err(format!("there are {count} groups, as many as there may be"));
            }
            _ => {}
        }
        let group = self.groups.entry(id).or_default();
        let before = std::mem::replace(&mut group.members, members);
        for (index, _) in before.iter().filter(|(index, _)| !distinct.contains(index)) {
            if let Some(there) = self.next_hops.get_mut(index) {
                there.groups.remove(&id);
            }
        }
        for index in distinct {
            if let Some(there) = self.next_hops.get_mut(&index) {
                there.groups.insert(id);
            }
        }
        Ok(self.users(id))
    }

    fn delete_group(&mut self, id: u64) -> Result<Vec<Key>, String> {
        let Some(group) = self.groups.get(&id) else { return Ok(Vec::new()) };
        if !group.users.is_empty() {
            return Err(format!("{} entries lead to group {id}", group.users.len()));
        }
        for (index, _) in self.groups.remove(&id).unwrap_or_default().members {
            if let Some(there) = self.next_hops.get_mut(&index) {
                there.groups.remove(&id);
            }
        }
        Ok(Vec::new())
    }

    /// The subjects that a change of a group concerns.
    fn users(&self, id: u64) -> Vec<Key> {
        let users = self.groups.get(&id).into_iter().flat_map(|group| &group.users);
        // Flat names follow the label.
        let mut keys: Vec<Key> = users.filter(|key| !matches!(key, Key::Flat(_))).cloned().collect();
        if self.labels.contains_key(&id) {
            keys.push(Key::Label(id));
        }
        keys
    }

    fn put_entry(&mut self, verb: Verb, key: Key, wanted: Wanted) -> Result<Vec<Key>, String> {
        if !self.groups.contains_key(&wanted.group) {
            return Err(format!("there is no group {}", wanted.group));
        }
        let before = self.subjects.get(&key).and_then(|subject| subject.wanted);
        if before.is_none() && verb == Verb::Replace {
            return Err("there is no such entry".to_owned());
        }
        if before.is_none() && self.entries >= self.limits.entries_max {
            return Err(format!("there are {} entries, as many as there may be", self.entries));
        }
        self.held.remove(&key);
        self.entries += usize::from(before.is_none());
        self.subjects.entry(key.clone()).or_default().wanted = Some(wanted);
        if before.is_none_or(|before| before.group != wanted.group) {
            if let Some(group) = self.groups.get_mut(&wanted.group) {
                group.users.insert(key.clone());
            }
            let is_flat = matches!(key, Key::Flat(_));
            if is_flat {
                self.label(wanted.group);
            }
            if let Some(before) = before {
                self.leave(&key, before.group);
            }
        }
        Ok(vec![key])
    }

    fn delete_entry(&mut self, key: Key) -> Vec<Key> {
        let Some(before) = self.subjects.get_mut(&key).and_then(|subject| subject.wanted.take()) else {
            // It may be about to go, or from an earlier server. The result says when it has gone.
            self.held.remove(&key);
            return if self.subjects.contains_key(&key) { vec![key] } else { Vec::new() };
        };
        self.entries -= 1;
        self.leave(&key, before.group);
        vec![key]
    }

    /// An entry leads to this group no more.
    fn leave(&mut self, key: &Key, group: u64) {
        if let Some(there) = self.groups.get_mut(&group) {
            there.users.remove(key);
        }
        if let Key::Flat(_) = key {
            self.unlabel(group);
        }
    }

    /// A part of a list, and where it goes on. `kinds`: whether the list has entries with this key; `None`: no entries at all.
    pub fn list(&self, from: Cursor, kinds: impl Fn(&Key) -> bool, max: usize) -> (Vec<Listed>, Option<Cursor>) {
        match from {
            Cursor::NextHops(index) => {
                let mut rest = self.next_hops.range(index..);
                let of = |(index, hop): (&u64, &NextHop)| {
                    Listed::NextHop(NextHopUse { index: *index, uri: hop.uri.clone() })
                };
                let listed = rest.by_ref().take(max).map(of).collect();
                (listed, rest.next().map(|(index, _)| Cursor::NextHops(*index)))
            }
            Cursor::Groups(id) => {
                let mut rest = self.groups.range(id..);
                let of = |(id, group): (&u64, &Group)| Listed::Group(*id, group.members.clone());
                let listed = rest.by_ref().take(max).map(of).collect();
                (listed, rest.next().map(|(id, _)| Cursor::Groups(*id)))
            }
            Cursor::Entries(after) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let (mut listed, mut last) = (Vec::new(), None);
                let mut rest = self.subjects.range((from, Bound::Unbounded)).peekable();
                for (key, subject) in rest.by_ref().take(max) {
                    last = Some(key.clone());
                    if let (Some(wanted), true) = (subject.wanted, kinds(key)) {
                        let is_there = self.connected && subject.is_settled();
                        listed.push(Listed::Route(key.clone(), wanted.group, wanted.flags, is_there));
                    }
                }
                let more = rest.peek().is_some();
                (listed, last.filter(|_| more).map(|last| Cursor::Entries(Some(last))))
            }
        }
    }
}
