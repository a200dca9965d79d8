//! What the router should have and what it has, subject by subject.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Atom, Core, Key, RETRY_MAX_MS, RETRY_MIN_MS};

/// Where an entry leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) group: u64,
    pub(super) flags: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nothing is to be done, or it is tried again later.
    #[default]
    Idle,
    Queued,
    InFlight,
    /// A flat name waits for its label.
    Blocked,
}

/// A subject.
#[derive(Debug, Default)]
pub(super) struct Subject {
    /// `None`: no entry. Labels have none.
    pub(super) wanted: Option<Wanted>,
    installed: Vec<Atom>,
    state: State,
    in_flight: usize,
    /// Waiters since the changes that are in flight were issued, and those from before.
    waiting: Vec<u64>,
    issued: Vec<u64>,
    refused: Option<Arc<str>>,
    failures: u32,
    retry_at: Option<u64>,
    /// Flat names that wait for this label.
    blocked: Vec<Key>,
    /// Of tags, which cannot be read back: additions that are in flight.
    trying: Vec<Atom>,
    /// Of tags: `installed` is what may be there. What should be there is told again.
    is_unsure: bool,
}

impl Subject {
    /// Whether the router has it as it should be.
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Idle && self.refused.is_none()
    }
}

/// A change of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is about.
    pub key: Key,
    /// What comes or goes.
    pub atom: Atom,
    /// Whether it comes.
    pub adds: bool,
    epoch: u64,
}

/// Whether one takes the place of the other.
fn is_same_way(one: &Atom, other: &Atom) -> bool {
    match (one, other) {
        (Atom::Route { uri, .. }, Atom::Route { uri: other, .. }) | (Atom::Tags(uri), Atom::Tags(other)) => {
            uri == other
        }
        // A flat name has one label.
        (Atom::Label(_), Atom::Label(_)) => true,
        _ => false,
    }
}

impl Core {
    /// One more flat name should have this label, or has it.
    pub(super) fn label(&mut self, group: u64) {
        let count = self.labels.entry(group).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.mark(Key::Label(group), None);
        }
    }

    /// The end of [`Core::label`].
    pub(super) fn unlabel(&mut self, group: u64) {
        let Some(count) = self.labels.get_mut(&group) else { return };
        *count -= 1;
        if *count == 0 {
            self.labels.remove(&group);
            self.mark(Key::Label(group), None);
        }
    }

    /// A subject may differ from what the router has. A waiter waits until it does not.
    pub(super) fn mark(&mut self, key: Key, waiter: Option<u64>) {
        let subject = self.subjects.entry(key.clone()).or_default();
        if let Some(number) = waiter
            && let Some(waiter) = self.waiters.get_mut(&number)
        {
            waiter.subjects += 1;
            subject.waiting.push(number);
        }
        if matches!(subject.state, State::Idle | State::Blocked) {
            subject.state = State::Queued;
            self.queue.push_back(key);
        }
    }

    /// What the router should have.
    fn desired(&self, key: &Key, subject: &Subject) -> Vec<Atom> {
        let (group, flags) = match (key, subject.wanted) {
            (Key::Label(group), _) if self.labels.contains_key(group) => (*group, 0),
            (Key::Label(_), _) | (_, None) => return Vec::new(),
            (Key::Flat(_), Some(wanted)) => return vec![Atom::Label(wanted.group)],
            (_, Some(wanted)) => (wanted.group, wanted.flags),
        };
        // Flat names still have a label whose group is gone.
        let Some(there) = self.groups.get(&group) else { return subject.installed.clone() };
        let mut desired: Vec<Atom> = Vec::with_capacity(there.members.len());
        for (index, cost) in &there.members {
            let Some(uri) = self.next_hops.get(index).map(|hop| hop.uri.clone()) else { continue };
            let atom = match key {
                Key::Tags(_) => Atom::Tags(uri),
                _ => Atom::Route { uri, cost: *cost, flags },
            };
            // Next-hops with the same address: the lowest cost counts.
            match (desired.iter_mut().find(|one| is_same_way(one, &atom)), &atom) {
                (Some(Atom::Route { cost, .. }), Atom::Route { cost: other, .. }) => *cost = (*cost).min(*other),
                (Some(_), _) => {}
                (None, _) => desired.push(atom),
            }
        }
        desired
    }

    /// The next change of the router, if one is due. [`Core::done`] must be told how it went.
    pub fn next_change(&mut self, now: u64) -> Option<Change> {
        if !self.connected {
            return None;
        }
        self.due(now);
        loop {
            if self.in_flight >= self.limits.in_flight_max {
                return None;
            }
            if let Some(change) = self.ready.pop_front() {
                self.in_flight += 1;
                return Some(change);
            }
            let key = self.queue.pop_front()?;
            if self.subjects.get(&key).is_some_and(|subject| subject.state == State::Queued) {
                self.issue(key);
            }
        }
    }

    /// What has waited long enough.
    fn due(&mut self, now: u64) {
        while self.retries.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.retries.pop_first() else { return };
            if let Some(subject) = self.subjects.get_mut(&key) {
                subject.retry_at = None;
                self.mark(key, None);
            }
        }
        if now >= self.hold_until && !self.held.is_empty() {
            std::mem::take(&mut self.held).into_iter().for_each(|key| self.mark(key, None));
        }
    }

    /// When [`Core::next_change`] may have something to do by the passage of time alone.
    pub fn next_wake(&self) -> Option<u64> {
        let held = (!self.held.is_empty()).then_some(self.hold_until);
        self.retries.first().map(|(at, _)| *at).into_iter().chain(held).min()
    }

    /// Compares a subject, and issues what differs.
    fn issue(&mut self, key: Key) {
        let Some(subject) = self.subjects.get(&key) else { return };
        let desired = self.desired(&key, subject);
        let change = |atom: &Atom, adds| Change { key: key.clone(), atom: atom.clone(), adds, epoch: self.epoch };
        let missing = desired.iter().filter(|atom| subject.is_unsure || !subject.installed.contains(atom));
        let mut changes: Vec<Change> = missing.map(|atom| change(atom, true)).collect();
        if changes.is_empty() {
            let over = |atom: &&Atom| !desired.iter().any(|wanted| is_same_way(wanted, atom));
            changes = subject.installed.iter().filter(over).map(|atom| change(atom, false)).collect();
        }
        if let Some(Change { atom: Atom::Label(group), adds: true, .. }) = changes.first()
            && !self.is_labelled(*group)
        {
            return self.block(key, *group);
        }
        if changes.is_empty() {
            return self.finish(key);
        }
        if let Some(subject) = self.subjects.get_mut(&key) {
            subject.state = State::InFlight;
            subject.in_flight = changes.len();
            subject.refused = None;
            let mut waiting = std::mem::take(&mut subject.waiting);
            subject.issued.append(&mut waiting);
            if let Key::Tags(_) = key {
                subject.trying =
                    changes.iter().filter(|change| change.adds).map(|change| change.atom.clone()).collect();
            }
        }
        self.ready.extend(changes);
    }

    /// Whether the routes of a label are in the router.
    fn is_labelled(&self, group: u64) -> bool {
        self.subjects.get(&Key::Label(group)).is_some_and(Subject::is_settled)
    }

    /// Lets a flat name wait for its label.
    fn block(&mut self, key: Key, group: u64) {
        let label = self.subjects.entry(Key::Label(group)).or_default();
        label.blocked.push(key.clone());
        let refused = label.refused.clone();
        let Some(subject) = self.subjects.get_mut(&key) else { return };
        subject.state = State::Blocked;
        if refused.is_some() {
            let waiting = std::mem::take(&mut subject.waiting);
            waiting.into_iter().for_each(|waiter| self.settle(waiter, refused.as_ref()));
        }
    }

    /// Flat names need not wait for this label any more, or learn why they have to.
    fn unblock(&mut self, blocked: Vec<Key>) {
        for key in blocked {
            if self.subjects.get(&key).is_some_and(|subject| subject.state == State::Blocked) {
                self.mark(key, None);
            }
        }
    }

    /// A subject is as it should be.
    fn finish(&mut self, key: Key) {
        let Some(subject) = self.subjects.get_mut(&key) else { return };
        subject.state = State::Idle;
        (subject.refused, subject.failures, subject.is_unsure) = (None, 0, false);
        let retry = subject.retry_at.take();
        let waiters = std::mem::take(&mut subject.issued).into_iter().chain(std::mem::take(&mut subject.waiting));
        let (waiters, blocked): (Vec<u64>, _) = (waiters.collect(), std::mem::take(&mut subject.blocked));
        let is_label = matches!(&key, Key::Label(group) if self.labels.contains_key(group));
        let is_over = subject.wanted.is_none() && subject.installed.is_empty() && !is_label;
        waiters.into_iter().for_each(|waiter| self.settle(waiter, None));
        self.unblock(blocked);
        if let Some(at) = retry {
            self.retries.remove(&(at, key.clone()));
        }
        if is_over {
            self.subjects.remove(&key);
        }
    }

    /// A change was made, or the router has refused it for this reason.
    pub fn done(&mut self, now: u64, change: &Change, result: Result<(), Arc<str>>) {
        // Not one from before the connection was lost.
        if change.epoch != self.epoch || !self.connected {
            return;
        }
        self.in_flight -= 1;
        let Some(subject) = self.subjects.get_mut(&change.key) else { return };
        subject.in_flight -= 1;
        let is_last = subject.in_flight == 0;
        let (mut came, mut went) = (None, None);
        match result {
            Ok(()) => {
                if let Some(at) = subject.installed.iter().position(|atom| is_same_way(atom, &change.atom)) {
                    went = Some(subject.installed.swap_remove(at));
                }
                if change.adds {
                    subject.installed.push(change.atom.clone());
                    came = Some(change.atom.clone());
                }
            }
            Err(reason) => subject.refused = Some(reason),
        }
        if let Some(Atom::Label(group)) = came {
            self.label(group);
        }
        if let Some(Atom::Label(group)) = went {
            self.unlabel(group);
        }
        if is_last {
            self.answered(now, change.key.clone());
        }
    }

    /// All changes of a subject have been answered.
    fn answered(&mut self, now: u64, key: Key) {
        let Some(subject) = self.subjects.get_mut(&key) else { return };
        subject.trying.clear();
        let Some(reason) = subject.refused.clone() else {
            subject.is_unsure = false;
            return self.issue(key);
        };
        subject.failures += 1;
        subject.state = State::Idle;
        let pause = (RETRY_MIN_MS << subject.failures.min(6).saturating_sub(1)).min(RETRY_MAX_MS);
        let at = now.saturating_add(pause);
        let before = subject.retry_at.replace(at);
        let issued = std::mem::take(&mut subject.issued);
        let is_asked_again = !subject.waiting.is_empty();
        let blocked = std::mem::take(&mut subject.blocked);
        if let Some(before) = before {
            self.retries.remove(&(before, key.clone()));
        }
        self.retries.insert((at, key.clone()));
        issued.into_iter().for_each(|waiter| self.settle(waiter, Some(&reason)));
        if is_asked_again {
            // Something else is wanted by now, which may work.
            self.clear_refusal(&key);
            self.mark(key, None);
        }
        self.unblock(blocked);
    }

    fn clear_refusal(&mut self, key: &Key) {
        if let Some(subject) = self.subjects.get_mut(key) {
            subject.refused = None;
        }
    }

    /// The connection to the router is gone. Changes that were in flight may have been made or not; operations go on waiting.
    pub fn router_lost(&mut self) {
        self.connected = false;
        self.epoch += 1;
        self.ready.clear();
        self.in_flight = 0;
    }

    /// Whether the router has been asked for everything that it should have, and has answered.
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.ready.is_empty() && self.queue.is_empty()
    }

    /// The router answers, and has this. It is not known which tags it has. Call it when a connection has begun, or when
    /// [`Core::is_idle`].
    pub fn router_is(&mut self, now: u64, there: Vec<(Key, Vec<Atom>)>) {
        self.router_lost();
        self.connected = true;
        self.queue.clear();
        self.retries.clear();
        for (key, subject) in &mut self.subjects {
            let mut issued = std::mem::take(&mut subject.issued);
            subject.waiting.append(&mut issued);
            (subject.state, subject.in_flight, subject.refused) = (State::Idle, 0, None);
            (subject.failures, subject.retry_at) = (0, None);
            subject.blocked.clear();
            if !matches!(key, Key::Tags(_)) {
                subject.installed.clear();
            }
        }
        self.doubt_tags();
        for (key, atoms) in there {
            if !self.subjects.contains_key(&key) && now < self.hold_until {
                self.held.insert(key.clone());
            }
            self.subjects.entry(key).or_default().installed = atoms;
        }
        self.count_labels();
        let labels: Vec<Key> = self.labels.keys().map(|group| Key::Label(*group)).collect();
        for label in labels {
            self.held.remove(&label);
            self.subjects.entry(label).or_default();
        }
        // Labels come last in the order, and flat names wait for them.
        let all: Vec<Key> = self.subjects.keys().rev().filter(|key| !self.held.contains(*key)).cloned().collect();
        all.into_iter().for_each(|key| self.mark(key, None));
    }

    /// Which tags the router has is not known any more. So those that it should have are told again, and all others are taken
    /// back that it may have.
    fn doubt_tags(&mut self) {
        for (key, subject) in &mut self.subjects {
            let Key::Tags(_) = key else { continue };
            subject.is_unsure = true;
            for atom in std::mem::take(&mut subject.trying) {
                if !subject.installed.contains(&atom) {
                    subject.installed.push(atom);
                }
            }
        }
    }

    fn count_labels(&mut self) {
        let mut labels: HashMap<u64, usize> = HashMap::new();
        for (key, subject) in &self.subjects {
            let Key::Flat(_) = key else { continue };
            let installed = subject.installed.iter().filter_map(|atom| match atom {
                Atom::Label(group) => Some(*group),
                _ => None,
            });
            for group in subject.wanted.map(|wanted| wanted.group).into_iter().chain(installed) {
                *labels.entry(group).or_insert(0) += 1;
            }
        }
        self.labels = labels;
    }
}
