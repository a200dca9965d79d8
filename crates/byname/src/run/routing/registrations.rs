//! The routes that routing wants in its router, and the commands that bring them there.
//!
//! For each route there is at most one command in flight. If routing changes its mind meanwhile, the next command follows
//! the answer. So the router ends up with what is wanted, whatever is lost or late.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use byname_wire::Name;

/// Commands in flight at a time.
const IN_FLIGHT_MAX: usize = 64;
/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait after a refusal, times the refusals so far.
const PAUSE: Duration = Duration::from_millis(500);
/// Refusals after which a route is given up. Its face is gone.
const REFUSALS_MAX: u32 = 6;

/// A route: its prefix and the face it leads to; 0 is routing's own.
pub type Key = (Name, u64);

/// What the router is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The route.
    pub key: Key,
    /// Its cost; `None` to remove it.
    pub cost: Option<u64>,
}

#[derive(Debug, Default)]
struct Entry {
    wanted: Option<u64>,
    /// What the router has, as far as is known. `None`: unknown.
    has: Option<Option<u64>>,
    /// What the command in flight says, and until when an answer is waited for.
    told: Option<(Option<u64>, Instant)>,
    refusals: u32,
}

/// All routes.
#[derive(Debug, Default)]
pub struct Registrations {
    entries: HashMap<Key, Entry>,
    /// Routes to look at, in order. Those with a time wait until then.
    ready: BTreeSet<Key>,
    later: BTreeSet<(Instant, Key)>,
    in_flight: usize,
    /// Commands that were refused.
    pub refused: u64,
}

impl Registrations {
    /// Wants a route with this cost, or no such route.
    pub fn want(&mut self, key: Key, cost: Option<u64>) {
        match self.entries.get_mut(&key) {
            Some(entry) if entry.wanted == cost && entry.refusals == 0 => return,
            Some(entry) => (entry.wanted, entry.refusals) = (cost, 0),
            None => drop(self.entries.insert(key.clone(), Entry { wanted: cost, ..Entry::default() })),
        }
        self.ready.insert(key);
    }

    /// Notes a route that an earlier process has left in the router. It stays until somebody wants another, or none.
    pub fn found(&mut self, key: Key, cost: u64) {
        let has = Some(Some(cost));
        self.entries.entry(key).or_insert(Entry { wanted: Some(cost), has, ..Entry::default() });
    }

    /// A face is gone, and with it the router's routes to it.
    pub fn face_gone(&mut self, face: u64) {
        let gone: Vec<Key> = self.entries.keys().filter(|(_, of)| *of == face).cloned().collect();
        for key in gone {
            if let Some(Entry { told: Some((_, until)), .. }) = self.entries.remove(&key) {
                self.in_flight -= 1;
                self.later.remove(&(until, key.clone()));
            }
            self.ready.remove(&key);
        }
    }

    /// The commands to send now.
    pub fn due(&mut self, now: Instant) -> Vec<Command> {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.later.pop_first() else { break };
            self.expire(key);
        }
        let mut commands = Vec::new();
        while self.in_flight < IN_FLIGHT_MAX
            && let Some(key) = self.ready.pop_first()
        {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.told.is_some() {
                continue;
            }
            if entry.has == Some(entry.wanted) || (entry.has.is_none() && entry.wanted.is_none()) {
                if entry.wanted.is_none() {
                    self.entries.remove(&key);
                }
                continue;
            }
            entry.told = Some((entry.wanted, now + TIMEOUT));
            self.later.insert((now + TIMEOUT, key.clone()));
            self.in_flight += 1;
            commands.push(Command { cost: entry.wanted, key });
        }
        commands
    }

    /// A time for a route has come: its command was not answered, or its pause is over.
    fn expire(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if entry.told.take().is_some() {
            entry.has = None;
            self.in_flight -= 1;
        }
        self.ready.insert(key);
    }

    /// The answer to a command.
    pub fn answered(&mut self, command: &Command, is_done: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(&command.key) else { return };
        let Some((told, until)) = entry.told.take() else { return };
        self.in_flight -= 1;
        self.later.remove(&(until, command.key.clone()));
        if is_done {
            (entry.has, entry.refusals) = (Some(told), 0);
            self.ready.insert(command.key.clone());
            return;
        }
        self.refused += 1;
        entry.refusals += 1;
        if entry.refusals >= REFUSALS_MAX || entry.wanted.is_none() {
            self.entries.remove(&command.key);
            return;
        }
        self.later.insert((now + PAUSE * entry.refusals, command.key.clone()));
    }

    /// When [`Registrations::due`] has something to do.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if !self.ready.is_empty() && self.in_flight < IN_FLIGHT_MAX {
            return Some(now);
        }
        self.later.first().map(|(at, _)| *at)
    }

    /// Routes that the router has confirmed.
    pub fn confirmed(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry.has, Some(Some(_)))).count()
    }

    /// Whether the router has all that is wanted.
    pub fn is_settled(&self) -> bool {
        self.in_flight == 0 && self.ready.is_empty() && self.later.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uri: &str, face: u64) -> Key {
        (uri.parse().expect("a name"), face)
    }

    #[test]
    fn the_router_ends_up_with_what_is_wanted() {
        let (mut all, now) = (Registrations::default(), Instant::now());
        all.want(key("/a", 1), Some(5));
        all.want(key("/a", 1), Some(6));
        let first = all.due(now);
        assert_eq!(first, [Command { key: key("/a", 1), cost: Some(6) }]);
        all.want(key("/a", 1), None);
        assert_eq!(all.due(now), [], "one command at a time");
        all.answered(&first[0], true, now);
        assert_eq!(all.confirmed(), 1);
        let second = all.due(now);
        assert_eq!(second, [Command { key: key("/a", 1), cost: None }]);
        all.answered(&second[0], true, now);
        assert_eq!(all.due(now), []);
        assert!(all.entries.is_empty() && all.confirmed() == 0, "{all:?}");
    }

    #[test]
    fn lost_commands_are_repeated_and_refused_ones_given_up() {
        let (mut all, mut now) = (Registrations::default(), Instant::now());
        all.want(key("/a", 1), Some(1));
        assert_eq!(all.due(now).len(), 1);
        now += TIMEOUT;
        for _ in 0..REFUSALS_MAX {
            let again = all.due(now);
            assert_eq!(again.len(), 1);
            all.answered(&again[0], false, now);
            assert_eq!(all.due(now), []);
            now += PAUSE * REFUSALS_MAX;
        }
        assert_eq!(all.due(now), []);
        assert!(all.is_settled() && all.entries.is_empty(), "{all:?}");
        assert_eq!(all.refused, u64::from(REFUSALS_MAX));
    }

    #[test]
    fn routes_of_an_earlier_process_stay_until_they_are_not_wanted() {
        let (mut all, now) = (Registrations::default(), Instant::now());
        all.found(key("/a", 1), 2);
        all.found(key("/b", 1), 2);
        all.want(key("/b", 1), Some(2));
        assert_eq!((all.due(now), all.confirmed()), (vec![], 2));
        all.want(key("/a", 1), None);
        assert_eq!(all.due(now), [Command { key: key("/a", 1), cost: None }]);
        all.face_gone(1);
        assert!(all.entries.is_empty() && all.in_flight == 0);
    }

    #[test]
    fn many_routes_are_told_in_turns() {
        let (mut all, now) = (Registrations::default(), Instant::now());
        (0..1000).for_each(|n| all.want(key(&format!("/{n}"), 1), Some(1)));
        let mut told = 0;
        while !all.is_settled() || told == 0 {
            let commands = all.due(now);
            assert!(commands.len() <= IN_FLIGHT_MAX);
            told += commands.len();
            commands.iter().for_each(|command| all.answered(command, true, now));
        }
        assert_eq!((told, all.confirmed()), (1000, 1000));
    }
}
