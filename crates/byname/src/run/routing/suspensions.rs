//! Faces that the router shall not use where there are others: the neighbours behind them are dead.
//!
//! One command does this for all routes of a face, before the routes are unregistered one by one. For each face there is at
//! most one command in flight, because packets of different names may overtake each other in the router. If the mind is
//! changed meanwhile, the next command follows the answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the router is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The face.
    pub face: u64,
    /// Whether it is suspended or used again.
    pub suspends: bool,
}

#[derive(Debug)]
struct Entry {
    wanted: bool,
    /// What the router does, as far as is known.
    does: Option<bool>,
    /// What the command in flight says, and until when an answer is waited for.
    told: Option<(bool, Instant)>,
}

/// All faces that are suspended, or were until just now.
#[derive(Debug, Default)]
pub struct Suspensions {
    faces: BTreeMap<u64, Entry>,
}

impl Suspensions {
    /// Wants a face to be suspended, or used again.
    pub fn want(&mut self, face: u64, suspends: bool) {
        let is_known = self.faces.contains_key(&face);
        if is_known || suspends {
            let entry = self.faces.entry(face).or_insert(Entry { wanted: true, does: Some(false), told: None });
            entry.wanted = suspends;
        }
    }

    /// The routes of all dead neighbours are gone: nothing has to be suspended any more.
    pub fn end_all(&mut self) {
        self.faces.values_mut().for_each(|entry| entry.wanted = false);
    }

    /// A face is gone, and with it its suspension.
    pub fn face_gone(&mut self, face: u64) {
        self.faces.remove(&face);
    }

    /// The commands to send now.
    pub fn due(&mut self, now: Instant) -> Vec<Command> {
        let mut commands = Vec::new();
        self.faces.retain(|face, entry| {
            match entry.told {
                Some((_, until)) if until > now => return true,
                Some(_) => (entry.told, entry.does) = (None, None),
                None => {}
            }
            if entry.does == Some(entry.wanted) {
                return entry.wanted;
            }
            entry.told = Some((entry.wanted, now + TIMEOUT));
            commands.push(Command { face: *face, suspends: entry.wanted });
            true
        });
        commands
    }

    /// The answer to a command. A router that refuses does not know the face, or no such command.
    pub fn answered(&mut self, command: Command, is_done: bool) {
        let Some(entry) = self.faces.get_mut(&command.face) else { return };
        let Some((told, _)) = entry.told.take() else { return };
        if is_done {
            entry.does = Some(told);
        } else {
            self.faces.remove(&command.face);
        }
    }

    /// When [`Suspensions::due`] has something to do.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let due = |entry: &Entry| match entry.told {
            Some((_, until)) => Some(until),
            None => (entry.does != Some(entry.wanted)).then_some(now),
        };
        self.faces.values().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(face: u64, suspends: bool) -> Command {
        Command { face, suspends }
    }

    #[test]
    fn one_command_at_a_time_says_what_is_wanted_last() {
        let (mut all, now) = (Suspensions::default(), Instant::now());
        all.want(300, false);
        assert_eq!((all.due(now), all.next_deadline(now)), (vec![], None));
        all.want(300, true);
        all.want(300, true);
        assert_eq!(all.next_deadline(now), Some(now));
        assert_eq!(all.due(now), [command(300, true)]);
        all.want(300, false);
        assert_eq!((all.due(now), all.next_deadline(now)), (vec![], Some(now + TIMEOUT)));
        all.answered(command(300, true), true);
        assert_eq!(all.due(now), [command(300, false)]);
        all.answered(command(300, false), true);
        assert_eq!(all.due(now), []);
        assert!(all.faces.is_empty());
    }

    #[test]
    fn commands_without_answer_are_repeated_and_refused_ones_are_not() {
        let (mut all, now) = (Suspensions::default(), Instant::now());
        all.want(300, true);
        all.want(301, true);
        assert_eq!(all.due(now), [command(300, true), command(301, true)]);
        all.answered(command(301, true), false);
        assert_eq!(all.due(now + TIMEOUT), [command(300, true)]);
        all.answered(command(300, true), true);
        all.end_all();
        assert_eq!(all.due(now + TIMEOUT), [command(300, false)]);
        all.face_gone(300);
        all.answered(command(300, false), true);
        assert!(all.faces.is_empty());
    }
}
