//! The agent of one router, without I/O and without a clock.
//!
//! It keeps a copy of the intent ([`Intent`]) and of the fleet's routes in the router. Changes of keys mark *subjects*: a prefix
//! with its routes, or with its strategy, or a set of tags. For each one, the agent compares what should be with what is.
//!
//! The order of changes [docs/fleet.md, Changes]:
//!
//! 1. A face whose link has failed is suspended.
//! 2. Routes are added, and strategies set, for all subjects. Routes that are not wanted any more get a higher cost if others
//!    are there ([`LEFT_COST`]), so that the next router may lose its own at any time.
//! 3. When all routes are there, the router takes over files of tables and rules of routing, all of them in one change.
//! 4. Then routes are removed, from the oldest on: when the writer has said that all live nodes have added theirs
//!    (`want/settled`), or after a grace period.
//!
//! A refused change is tried again later, and keeps the old routes of its prefix. Cost: a change of a key looks at the
//! prefixes that it concerns, and at no others.

mod change;
mod retry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use byname_wire::Name;

use crate::intent::built::group_of;
use crate::intent::{Attributes, Intent, Kept, Routes, Subject, TOLD, Touched, UsedFile, Wanted, WantedFile};
use crate::key::{Key, Space};
use crate::label::Label;
use crate::table::{Digest, Rows};
use crate::value::Report;
pub use change::{Change, Existing};
use change::{added, removed};
use retry::Retry;

/// Longest time for which a router suspends a face, in ms.
pub const SUSPENDED_MS: u64 = 60_000;
/// A suspension is renewed when it is so old, in ms.
const RENEW_MS: u64 = 30_000;
/// Added to the cost of a route that is about to go, so that the router uses it only if no other route is left.
pub const LEFT_COST: u64 = 1 << 40;
/// After so many ms without a revision that etcd has, the watch counts as lost.
const BEHIND_MS: u64 = 3_000;

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The keys of the fleet.
    pub space: Space,
    /// This node.
    pub node: Label,
    /// How long it waits for `want/settled` before it removes routes, in ms.
    pub grace_ms: u64,
    /// Most keys of an intent.
    pub keys_max: usize,
    /// Most commands to the router that have no answer yet.
    pub in_flight_max: usize,
    /// Whether it can bring files of tables to its router.
    pub takes_files: bool,
}

impl Options {
    /// The usual settings.
    pub fn new(space: Space, node: Label) -> Self {
        Options { space, node, grace_ms: 5_000, keys_max: 1_200_000, in_flight_max: 1_024, takes_files: false }
    }
}

/// A key that etcd has, or that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Vec<u8>,
    /// Its value. `None`: it was deleted.
    pub value: Option<Vec<u8>>,
    /// Revision of etcd in which this happened.
    pub revision: i64,
}

/// Stands for a change that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) u64);

/// Routes that are no longer wanted.
#[derive(Debug)]
struct Leftover {
    /// The prefix or set of tags.
    of: Subject,
    /// Revision of the intent that does not have them.
    revision: i64,
    /// When they are removed in any case.
    deadline: u64,
}

/// The state machine. All times are in ms, of a clock that does not jump.
#[derive(Debug)]
pub struct Agent {
    options: Options,
    head_key: Vec<u8>,
    intent: Intent,
    /// Revision of the intent that has been read.
    seen: i64,
    /// Where to watch from. `None`: everything must be read.
    watch_from: Option<i64>,
    /// Revision of `want/head`, and when the agent read it.
    head: Option<i64>,
    head_read_at: u64,
    fresh_at: Option<u64>,
    /// A revision that etcd has and that is not here, and since when this is known.
    behind: Option<(i64, u64)>,

    connected: bool,
    /// Those of prefixes and of sets of tags.
    routes: BTreeMap<Subject, Routes>,
    route_count: u64,
    tag_count: u64,
    strategies: BTreeMap<Name, Name>,
    /// Files and rules that the router uses. `None`: not known.
    used: Option<(Vec<UsedFile>, Vec<String>)>,

    dirty: BTreeSet<Subject>,
    /// Changes of the subject that was looked at last.
    ready: VecDeque<Change>,
    urgent: VecDeque<Change>,
    suspended: BTreeMap<Arc<str>, u64>,
    /// Oldest first. Those that `leftover_since` does not have like this are over.
    leftovers: VecDeque<Leftover>,
    leftover_since: BTreeMap<Subject, i64>,
    retries: BTreeMap<Subject, Retry>,
    /// When the first of them may be due.
    retry_at: Option<u64>,

    in_flight: HashMap<Ticket, Change>,
    adds_in_flight: usize,
    busy: BTreeMap<Subject, usize>,
    next_ticket: u64,

    added: i64,
    applied: i64,
    failure: Option<String>,
    unsettled: u64,
    drift: u64,
    reads: u64,
}

impl Agent {
    /// An agent that knows nothing yet.
    pub fn new(options: Options) -> Self {
        Agent {
            head_key: options.space.key(&Key::Head),
            intent: Intent::new(options.space.clone(), options.node.clone(), options.keys_max),
            options,
            seen: 0,
            watch_from: None,
            head: None,
            head_read_at: 0,
            fresh_at: None,
            behind: None,
            connected: false,
            routes: BTreeMap::new(),
            route_count: 0,
            tag_count: 0,
            strategies: BTreeMap::new(),
            used: None,
            dirty: BTreeSet::new(),
            ready: VecDeque::new(),
            urgent: VecDeque::new(),
            suspended: BTreeMap::new(),
            leftovers: VecDeque::new(),
            leftover_since: BTreeMap::new(),
            retries: BTreeMap::new(),
            retry_at: None,
            in_flight: HashMap::new(),
            adds_in_flight: 0,
            busy: BTreeMap::new(),
            next_ticket: 0,
            added: 0,
            applied: 0,
            failure: None,
            unsettled: 0,
            drift: 0,
            reads: 0,
        }
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The revision of etcd to watch from. `None`: read all keys of the intent first, and call [`Agent::snapshot`].
    pub fn watch_from(&self) -> Option<i64> {
        self.watch_from
    }

    /// All keys of the intent, as they were at this revision of etcd.
    pub fn snapshot(&mut self, now: u64, revision: i64, keys: Vec<Event>) {
        self.reads += 1;
        self.recall();
        let mut touched = Touched::default();
        touched.links.extend(self.intent.addresses().cloned());
        self.dirty.extend(self.intent.subjects());
        self.intent.clear();
        self.seen = 0;
        self.head = None;
        for Event { key, value, revision } in keys {
            if self.intent.counts(&key) {
                self.seen = self.seen.max(revision);
            }
            if let Some(value) = value {
                self.note_head(now, &key, Some(revision));
                self.intent.put(&key, &value, &mut touched);
            }
        }
        self.intent.advance(&mut touched);
        self.watch_from = Some(revision.saturating_add(1));
        self.behind = None;
        // An older intent, from a backup, has revisions that were used before.
        self.added = 0;
        self.applied = 0;
        self.take(now, touched);
    }

    /// Changes of keys that the watch has brought, in their order. The changes of one revision come together.
    pub fn events(&mut self, now: u64, events: &[Event]) {
        let (Some(last), Some(from)) = (events.last(), self.watch_from) else { return };
        self.recall();
        let mut touched = Touched::default();
        for Event { key, value, revision } in events {
            match value {
                Some(value) => self.intent.put(key, value, &mut touched),
                None => self.intent.delete(key, &mut touched),
            }
            self.note_head(now, key, value.is_some().then_some(*revision));
            if self.intent.counts(key) {
                self.seen = *revision;
            }
        }
        self.intent.advance(&mut touched);
        self.watch_from = Some(from.max(last.revision.saturating_add(1)));
        self.take(now, touched);
    }

    /// Manifests of tables that must be fetched. Nothing is changed in the router until they are here, except that links that
    /// have failed are suspended.
    pub fn wanted_tables(&self) -> Vec<Wanted> {
        self.intent.wanted().collect()
    }

    /// A manifest that was wanted is here, with the rows of all of its chunks; or this is why it is not here yet.
    pub fn table(&mut self, now: u64, wanted: &Wanted, rows: Result<Rows, String>) {
        let mut touched = Touched::default();
        match rows {
            Ok(rows) => {
                self.recall();
                self.intent.loaded(wanted, rows, &mut touched);
            }
            Err(why) => self.intent.not_loaded(wanted, why),
        }
        self.take(now, touched);
    }

    /// Files of tables that must be brought here. Until then, nothing is changed in the router, as for [`Agent::wanted_tables`].
    pub fn wanted_files(&self) -> Vec<WantedFile> {
        if self.options.takes_files { self.intent.wanted_files().collect() } else { Vec::new() }
    }

    /// A file that was wanted is here, whole, and where; or this is why it is not here yet.
    pub fn file(&mut self, now: u64, file: &WantedFile, result: Result<Kept, String>) {
        let mut touched = Touched::default();
        let was_due = self.dirty.contains(&Subject::Files);
        self.intent.brought(file, result, &mut touched);
        self.take(now, touched);
        if !was_due && self.retries.get(&Subject::Files).is_some_and(|retry| retry.due_at().is_some()) {
            // The router has refused it a moment ago.
            self.dirty.remove(&Subject::Files);
        }
    }

    /// Where the file of a table is, if it is here.
    pub fn kept(&self, table: &Label) -> Option<(WantedFile, Kept)> {
        self.intent.kept(table).map(|(wanted, kept)| (wanted, kept.clone()))
    }

    /// All files that the router should use.
    pub fn files(&self) -> Vec<UsedFile> {
        self.intent.files()
    }

    /// Lists of the blocks of all files, and patches that lead to them.
    pub fn lists_of_blocks(&self) -> Vec<Digest> {
        self.intent.lists_of_blocks().collect()
    }

    fn held(&self) -> Option<String> {
        if !self.options.takes_files && self.intent.lists_of_blocks().next().is_some() {
            let text = "the intent has a table that a builder has made: start the agent with --tables, and name that file \
                        in the router's configuration ([fleet] tables)";
            return Some(text.to_owned());
        }
        self.intent.held()
    }

    /// Whether the intent has tags.
    pub fn wants_tags(&self) -> bool {
        self.intent.has_tags()
    }

    /// Names of the manifests of all tables.
    pub fn manifests(&self) -> Vec<Digest> {
        self.intent.manifests().collect()
    }

    /// The revision to watch from exists no more.
    pub fn compacted(&mut self) {
        self.watch_from = None;
    }

    /// A linearized read that was sent at this time had `want/head` with this revision, or did not find it. If it shows that the
    /// watch brings nothing, or that etcd was restored, [`Agent::watch_from`] is `None` from then on.
    pub fn head_is(&mut self, now: u64, sent_at: u64, revision: Option<i64>) {
        if self.watch_from.is_none() {
            return;
        }
        match (revision, self.head) {
            (Some(there), here) if here.is_none_or(|here| here < there) => {
                let (_, since) = *self.behind.get_or_insert((there, now));
                if since + BEHIND_MS <= now {
                    self.watch_from = None;
                }
            }
            (there, here) if there == here || self.head_read_at >= sent_at => self.fresh_at = Some(sent_at),
            // Not read since the question was sent, and yet newer than the answer.
            _ => self.restored(),
        }
    }

    /// This is another etcd, or its history has gone back: it was restored from a backup.
    pub fn restored(&mut self) {
        self.watch_from = None;
    }

    /// Time since which the agent may have missed something, in ms. `None`: it never knew an intent.
    pub fn stale_ms(&self, now: u64) -> Option<u64> {
        self.fresh_at.map(|at| now.saturating_sub(at))
    }

    /// The router answers, and has this.
    pub fn router_connected(&mut self, now: u64, existing: Existing) {
        self.connected = true;
        self.replace(existing);
        self.dirty.extend(self.intent.subjects());
        self.dirty.extend(self.routes.keys().cloned());
        self.dirty.extend(self.strategies.keys().cloned().map(Subject::Strategy));
        self.used = None;
        let links = self.intent.addresses().cloned().collect();
        self.suspended.clear();
        self.take(now, Touched { links, ..Touched::default() });
    }

    /// What the router has, asked while no change was under way. Counts what differs from what the agent knew.
    pub fn compared(&mut self, existing: Existing) {
        debug_assert!(self.in_flight.is_empty(), "a change was under way");
        let (known, known_strategies) = (std::mem::take(&mut self.routes), std::mem::take(&mut self.strategies));
        if existing.settings_changed {
            self.used = None;
            self.drift += 1;
            self.dirty.insert(Subject::Files);
        }
        self.replace(existing);
        let differs = |of: &&Subject| known.get(*of) != self.routes.get(*of);
        let routes: BTreeSet<Subject> = known.keys().chain(self.routes.keys()).filter(differs).cloned().collect();
        let other = |prefix: &&Name| known_strategies.get(*prefix) != self.strategies.get(*prefix);
        let others: BTreeSet<Name> =
            known_strategies.keys().chain(self.strategies.keys()).filter(other).cloned().collect();
        self.drift += (routes.len() + others.len()) as u64;
        self.dirty.extend(routes);
        self.dirty.extend(others.into_iter().map(Subject::Strategy));
    }

    /// The connection to the router is gone. Changes that were under way may have been made or not.
    pub fn router_lost(&mut self) {
        self.connected = false;
        self.ready.clear();
        self.urgent.clear();
        self.in_flight.clear();
        self.busy.clear();
        self.adds_in_flight = 0;
        self.leftovers.clear();
        self.leftover_since.clear();
        self.retries.clear();
        self.retry_at = None;
        self.added = 0;
        self.applied = 0;
    }

    /// Files and rules that the router uses, as far as the agent knows.
    pub fn used(&self) -> Option<(&[UsedFile], &[String])> {
        self.used.as_ref().map(|(files, policy)| (&files[..], &policy[..]))
    }

    /// Whether no change is under way and none is due, so that [`Agent::compared`] may be called.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.dirty.is_empty() && self.ready.is_empty() && self.urgent.is_empty()
    }

    /// The next change of the router, if one is due. [`Agent::done`] must be told how it went.
    pub fn next_change(&mut self, now: u64) -> Option<(Ticket, Change)> {
        if !self.connected {
            return None;
        }
        self.renew_suspensions(now);
        if let Some(change) = self.urgent.pop_front() {
            return Some(self.issue(change));
        }
        if self.in_flight.len() >= self.options.in_flight_max || self.held().is_some() {
            return None;
        }
        self.due_retries(now);
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(self.issue(change));
            }
            let next = self.dirty.iter().find(|subject| !self.busy.contains_key(*subject)).cloned();
            match next {
                // Rules of files forward by routes, which must be there first.
                Some(Subject::Files) if self.dirty.len() > 1 || self.adds_in_flight > 0 => return None,
                Some(subject) => {
                    self.dirty.remove(&subject);
                    self.add(now, subject);
                }
                None if !self.dirty.is_empty() || self.adds_in_flight > 0 => return None,
                None if !self.remove(now) => break,
                None => {}
            }
        }
        if self.retries.is_empty() {
            self.added = self.seen;
            if self.leftover_since.is_empty() && self.in_flight.is_empty() {
                self.applied = self.seen;
            }
        }
        None
    }

    /// A change was made, or the router refused it for this reason.
    pub fn done(&mut self, now: u64, ticket: Ticket, result: Result<(), String>) {
        // Not one from before the connection was lost.
        let Some(change) = self.in_flight.remove(&ticket) else { return };
        let Some(subject) = change.subject() else { return };
        self.adds_in_flight -= usize::from(!change.removes());
        if let Some(count) = self.busy.get_mut(&subject) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&subject);
            }
        }
        match result {
            Ok(()) => {
                if let Change::Register { prefix, .. } = &change
                    && group_of(prefix).is_some()
                {
                    // Files may have waited for it.
                    self.dirty.insert(Subject::Files);
                }
                self.note(change);
                if subject == Subject::Files {
                    // These may be others than those that the router has refused.
                    self.retries.remove(&subject);
                }
                if self.retries.get(&subject).is_none_or(|retry| retry.due_at().is_none()) {
                    self.dirty.insert(subject);
                }
            }
            Err(reason) => {
                if subject == Subject::Files {
                    self.intent.doubt_files();
                }
                self.dirty.remove(&subject);
                self.refused(now, subject, reason);
            }
        }
    }

    fn refused(&mut self, now: u64, subject: Subject, reason: String) {
        let due = self.retries.entry(subject).or_default().refused(now);
        self.retry_at = Some(self.retry_at.map_or(due, |at| at.min(due)));
        self.failure = Some(reason);
    }

    /// When [`Agent::next_change`] may have something, without news from anybody.
    pub fn next_wake(&self) -> Option<u64> {
        if !self.connected {
            return None;
        }
        let leftover = self.leftovers.front().map(|leftover| leftover.deadline);
        let renew =
            if self.applied == self.seen { None } else { self.suspended.values().min().map(|at| at + RENEW_MS) };
        [self.retry_at, leftover, renew].into_iter().flatten().min()
    }

    /// The revision that the router's tables are equal to.
    pub fn applied(&self) -> i64 {
        self.applied
    }

    /// What to write to `nodes/NODE`. The version and the router are left out.
    pub fn report(&self) -> Report {
        Report {
            connected: self.connected,
            seen: self.seen,
            added: self.added,
            applied: self.applied,
            routes: self.route_count,
            tags: self.tag_count,
            failing: self.retries.len() as u64,
            failure: if self.retries.is_empty() { None } else { self.failure.clone() },
            held: self.held(),
            missing_links: self.intent.missing_links(),
            unsettled: self.unsettled,
            drift: self.drift,
            reads: self.reads,
            tables: self.intent.tables(),
            ..Report::default()
        }
    }

    fn note_head(&mut self, now: u64, key: &[u8], revision: Option<i64>) {
        if key == self.head_key {
            self.head = revision;
            self.head_read_at = now;
            self.behind = self.behind.filter(|(there, _)| revision.is_some_and(|here| here < *there));
        }
    }

    /// Changes that were computed from an older intent are computed again.
    fn recall(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        self.dirty.extend(ready.iter().filter_map(Change::subject));
    }

    fn take(&mut self, now: u64, touched: Touched) {
        self.dirty.extend(touched.subjects);
        if !self.connected {
            return;
        }
        for uri in touched.links {
            match (self.intent.has_failed(&uri), self.suspended.get(&uri)) {
                (true, None) => self.suspend(now, uri),
                (false, Some(&at)) => {
                    self.suspended.remove(&uri);
                    if now < at + SUSPENDED_MS {
                        self.urgent.push_back(Change::Resume { uri });
                    }
                }
                _ => {}
            }
        }
    }

    fn suspend(&mut self, now: u64, uri: Arc<str>) {
        self.suspended.insert(uri.clone(), now);
        self.urgent.push_back(Change::Suspend { uri });
    }

    /// Suspends faces again that the fleet's routes still use.
    fn renew_suspensions(&mut self, now: u64) {
        if self.suspended.is_empty() || self.applied == self.seen {
            return;
        }
        let due = self.suspended.iter().filter(|(_, at)| **at + RENEW_MS <= now);
        for uri in due.map(|(uri, _)| uri.clone()).collect::<Vec<_>>() {
            self.suspend(now, uri);
        }
    }

    fn due_retries(&mut self, now: u64) {
        if self.retry_at.is_none_or(|at| now < at) {
            return;
        }
        for (subject, retry) in &mut self.retries {
            if retry.begin(now) {
                self.dirty.insert(subject.clone());
            }
        }
        self.retry_at = self.retries.values().filter_map(Retry::due_at).min();
    }

    fn issue(&mut self, change: Change) -> (Ticket, Change) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        if let Some(subject) = change.subject() {
            *self.busy.entry(subject).or_default() += 1;
            self.adds_in_flight += usize::from(!change.removes());
        }
        self.in_flight.insert(ticket, change.clone());
        (ticket, change)
    }

    /// Finds what is missing of a subject. If nothing is, notes what is left over.
    fn add(&mut self, now: u64, subject: Subject) {
        match &subject {
            Subject::Routes(_) | Subject::Tags(_) => {
                let (mut missing, left) = self.compare(&subject);
                if missing.is_empty() && self.intent.settled() < self.seen {
                    missing = self.lower(&subject);
                }
                if missing.is_empty() {
                    self.retries.remove(&subject);
                    if left.is_empty() {
                        self.leftover_since.remove(&subject);
                    } else if self.leftover_since.insert(subject.clone(), self.seen) != Some(self.seen) {
                        // A later revision counts: what is left over now may have been wanted since the earlier one.
                        let (of, deadline) = (subject, now + self.options.grace_ms);
                        self.leftovers.push_back(Leftover { of, revision: self.seen, deadline });
                    }
                }
                self.ready.extend(missing);
            }
            Subject::Strategy(prefix) => {
                let change = match (self.intent.strategy_of(prefix), self.strategies.get(prefix)) {
                    (Some(wanted), has) if has != Some(wanted) => {
                        Some(Change::SetStrategy { prefix: prefix.clone(), strategy: wanted.clone() })
                    }
                    (None, Some(_)) => Some(Change::RestoreStrategy { prefix: prefix.clone() }),
                    _ => None,
                };
                match change {
                    Some(change) => self.ready.push_back(change),
                    None => drop(self.retries.remove(&subject)),
                }
            }
            Subject::Files => {
                let wanted = (self.intent.files(), self.intent.policy());
                if !self.options.takes_files && !wanted.1.is_empty() {
                    let why = "the fleet has a policy for this node: start the agent with --tables, and name that file in the \
                               router's configuration ([fleet] tables)";
                    self.refused(now, subject, why.to_owned());
                } else if !self.options.takes_files || self.used.as_ref() == Some(&wanted) {
                    self.retries.remove(&subject);
                } else if self.intent.labels().all(|label| self.has_way(&label)) {
                    let (files, policy) = wanted;
                    self.ready.push_back(Change::UseFiles { files, policy });
                }
            }
        }
    }

    /// Whether the router has at least one of the routes that this prefix should have, or there are none.
    fn has_way(&self, prefix: &Name) -> bool {
        let wanted = self.intent.routes_of(prefix);
        let has = self.routes.get(&Subject::Routes(prefix.clone()));
        wanted.is_empty() || has.is_some_and(|has| wanted.keys().any(|uri| has.contains_key(uri)))
    }

    /// Removes the oldest routes that are left over, if it is time. Returns whether the agent should look again.
    fn remove(&mut self, now: u64) -> bool {
        let Some(Leftover { of, revision, deadline }) = self.leftovers.front() else { return false };
        if self.leftover_since.get(of) != Some(revision) {
            self.leftovers.pop_front();
            return true;
        }
        let is_settled = self.intent.settled() >= *revision;
        if (!is_settled && now < *deadline) || self.busy.contains_key(of) {
            return false;
        }
        let Some(Leftover { of, .. }) = self.leftovers.pop_front() else { return false };
        self.leftover_since.remove(&of);
        let (missing, left) = self.compare(&of);
        if !missing.is_empty() {
            // Refused before: the prefix keeps what it has. When the routes are added, the rest is left over again.
            return true;
        }
        self.unsettled += if is_settled { 0 } else { left.len() as u64 };
        self.ready.extend(left);
        true
    }

    /// What is missing and what is left over of the routes of a prefix or a set of tags.
    fn compare(&self, of: &Subject) -> (Vec<Change>, Vec<Change>) {
        let wanted = match of {
            Subject::Routes(prefix) => self.intent.routes_of(prefix),
            Subject::Tags(tags) => self.intent.ways_of(tags),
            Subject::Strategy(_) | Subject::Files => Routes::new(),
        };
        let empty = Routes::new();
        let has = self.routes.get(of).unwrap_or(&empty);
        let missing = wanted.iter().filter(|(uri, attributes)| has.get(*uri) != Some(attributes));
        let left = has.keys().filter(|uri| !wanted.contains_key(*uri));
        (
            missing.filter_map(|(uri, attributes)| added(of, uri, *attributes)).collect(),
            left.filter_map(|uri| removed(of, uri)).collect(),
        )
    }

    /// Higher costs for routes that are left over beside wanted ones. Another node may remove its part of the old way at the
    /// moment at which this one does, so no packet may take it any more when this node says that it has added.
    ///
    /// Packets with tags go all ways, and so both ways for a moment.
    fn lower(&self, of: &Subject) -> Vec<Change> {
        let Subject::Routes(prefix) = of else { return Vec::new() };
        let wanted = self.intent.routes_of(prefix);
        let Some(has) = self.routes.get(of).filter(|_| !wanted.is_empty()) else { return Vec::new() };
        let is_used = |(uri, of): &(&Arc<str>, &Attributes)| {
            !wanted.contains_key(*uri) && of.cost < LEFT_COST && !self.suspended.contains_key(*uri)
        };
        let lower = |(uri, has): (&Arc<str>, &Attributes)| {
            added(of, uri, Attributes { cost: has.cost.saturating_add(LEFT_COST), ..*has })
        };
        has.iter().filter(is_used).filter_map(lower).collect()
    }

    /// Notes a change that the router has made.
    fn note(&mut self, change: Change) {
        match change {
            Change::Register { prefix, uri, attributes } => {
                self.route_count += u64::from(self.note_added(Subject::Routes(prefix), uri, attributes));
            }
            Change::Advertise { tags, uri } => {
                self.tag_count += u64::from(self.note_added(Subject::Tags(tags), uri, TOLD));
            }
            Change::Unregister { prefix, uri } => {
                self.route_count -= u64::from(self.note_removed(&Subject::Routes(prefix), &uri));
            }
            Change::Withdraw { tags, uri } => {
                self.tag_count -= u64::from(self.note_removed(&Subject::Tags(tags), &uri));
            }
            Change::SetStrategy { prefix, strategy } => drop(self.strategies.insert(prefix, strategy)),
            Change::RestoreStrategy { prefix } => drop(self.strategies.remove(&prefix)),
            Change::UseFiles { files, policy } => self.used = Some((files, policy)),
            Change::Suspend { .. } | Change::Resume { .. } => {}
        }
    }

    /// Returns whether it is one more than before.
    fn note_added(&mut self, of: Subject, uri: Arc<str>, attributes: Attributes) -> bool {
        self.routes.entry(of).or_default().insert(uri, attributes).is_none()
    }

    /// Returns whether it was there.
    fn note_removed(&mut self, of: &Subject, uri: &Arc<str>) -> bool {
        let Some(routes) = self.routes.get_mut(of) else { return false };
        let was_there = routes.remove(uri).is_some();
        if routes.is_empty() {
            self.routes.remove(of);
        }
        was_there
    }

    fn replace(&mut self, Existing { routes, tags, strategies, .. }: Existing) {
        self.routes.clear();
        (self.route_count, self.tag_count) = (0, 0);
        for (prefix, uri, attributes) in routes {
            self.route_count += u64::from(self.note_added(Subject::Routes(prefix), uri, attributes));
        }
        for (tags, uri, attributes) in tags {
            self.tag_count += u64::from(self.note_added(Subject::Tags(tags.into()), uri, attributes));
        }
        self.strategies = strategies.into_iter().collect();
    }
}
