//! What happened to a fleet under faults, and whether it may.
//!
//! Times are in µs since the beginning. What is not known exactly is taken in favour of the fleet: a change counts from the
//! moment at which its writer sent it, and a report from the moment at which the test has read it.

use std::collections::{BTreeMap, BTreeSet};

use byname_fleet::agent::{Event, LEFT_COST};
use byname_fleet::key::{Key, Space};
use byname_fleet::value::{Report, Value};
use byname_wire::Name;

use crate::oracle::{self, Keys, Table};

/// Names of the nodes.
pub const NODES: [&str; 3] = ["r1", "r2", "r3"];

/// Keys with their new values.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A change that a writer has tried to make.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub sent: u64,
    /// `want/head` is left out.
    pub changes: Changes,
    pub outcome: Outcome,
}

/// What the writer knows about its change.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It is in this revision.
    Written(i64),
    /// It was not made.
    Refused,
    /// The answer was lost: it was made or not.
    Unknown,
}

/// A revision of etcd, as a watch has brought it.
#[derive(Debug, Clone)]
pub struct Revision {
    pub read: u64,
    pub events: Vec<Event>,
}

/// The fleet's routes of a router.
#[derive(Debug, Clone)]
pub struct Sample {
    pub node: usize,
    pub sent: u64,
    pub done: u64,
    pub routes: Table,
}

/// What came back for an Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Data of this producer.
    Producer(u32),
    /// A Nack, or nothing.
    None(String),
}

/// An Interest, and its answer.
#[derive(Debug, Clone)]
pub struct Ping {
    pub node: usize,
    pub prefix: Name,
    pub sent: u64,
    pub done: u64,
    pub answer: Answer,
}

/// All that happened.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub revisions: BTreeMap<i64, Revision>,
    pub attempts: Vec<Attempt>,
    pub samples: Vec<Sample>,
    pub pings: Vec<Ping>,
    /// Where nexthops with these addresses lead in the end.
    pub producers: BTreeMap<String, u32>,
    /// Times in which some router was not there.
    pub excused: Vec<(u64, u64)>,
    /// All keys at the end.
    pub last: Keys,
}

/// The intents of all revisions, and when they may have been in force.
struct Intents<'a> {
    history: &'a History,
    tables: BTreeMap<i64, [Table; 3]>,
    sent: BTreeMap<i64, u64>,
    /// For each node: when which revision was reported to be applied, both increasing.
    applied: [Vec<(u64, i64)>; 3],
}

impl History {
    /// Everything that may not be. An empty list is what a test wants.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let intents = self.replay(&mut found);
        for sample in &self.samples {
            intents.check_sample(sample, &mut found);
        }
        for ping in &self.pings {
            intents.check_ping(ping, &mut found);
        }
        found
    }

    /// Goes through all revisions, and finds what writers know otherwise.
    fn replay(&self, found: &mut Vec<String>) -> Intents<'_> {
        let space = Space::new(&"main".parse().expect("a label"));
        // A removal of what is not there is no event.
        let written = |changes: &Changes| -> Changes {
            changes
                .iter()
                .filter(|(_, value)| value.is_some())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let attempts: BTreeMap<Changes, &Attempt> =
            self.attempts.iter().map(|attempt| (written(&attempt.changes), attempt)).collect();
        if attempts.len() != self.attempts.len() {
            found.push("the test has tried the same change twice".to_owned());
        }
        let mut intents =
            Intents { history: self, tables: BTreeMap::new(), sent: BTreeMap::new(), applied: Default::default() };
        let mut keys = Keys::new();
        let mut made = BTreeMap::new();
        let mut before = 1;
        for (&number, revision) in &self.revisions {
            if number != before + 1 {
                found.push(format!("no watch has brought the revisions from {} to {}", before + 1, number - 1));
            }
            before = number;
            let mut changes = Changes::new();
            let mut is_intent = false;
            let was_there: BTreeSet<Vec<u8>> = keys.keys().cloned().collect();
            for Event { key, value, .. } in &revision.events {
                match value {
                    Some(value) => drop(keys.insert(key.clone(), (value.clone(), number))),
                    None => drop(keys.remove(key)),
                }
                match space.decode(key) {
                    Ok(Key::Head) => is_intent = true,
                    Ok(Key::Settled) => {}
                    Ok(_) => drop(changes.insert(key.clone(), value.clone())),
                    Err(_) => self.note_report(&space, key, value.as_deref(), revision.read, &mut intents),
                }
            }
            if !is_intent && !changes.is_empty() {
                found.push(format!("revision {number} changes the intent without its head"));
            }
            if is_intent {
                let tables = NODES.map(|node| oracle::table(&keys, node, &BTreeMap::new()).unwrap_or_default());
                intents.tables.insert(number, tables);
                match attempts.get(&written(&changes)) {
                    Some(attempt) => {
                        let is_gone = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
                            value.is_some() || (changes.contains_key(key) || !was_there.contains(key))
                        };
                        let is_removal = |key: &Vec<u8>| attempt.changes.contains_key(key);
                        if !attempt.changes.iter().all(is_gone) || !changes.keys().all(is_removal) {
                            found.push(format!("revision {number} removes other keys than its writer has sent"));
                        }
                        intents.sent.insert(number, attempt.sent);
                        if let Some(first) = made.insert(&attempt.changes, number) {
                            found.push(format!("revisions {first} and {number} make one change twice"));
                        }
                        match attempt.outcome {
                            Outcome::Refused => {
                                found.push(format!("revision {number} makes a change that was refused"))
                            }
                            Outcome::Written(said) if said != number => {
                                found.push(format!("a change is in revision {number}, and its writer was told {said}"));
                            }
                            _ => {}
                        }
                    }
                    None => found.push(format!("nobody has sent the change in revision {number}")),
                }
            }
        }
        for attempt in &self.attempts {
            if let Outcome::Written(said) = attempt.outcome
                && !made.contains_key(&attempt.changes)
            {
                found.push(format!("the acknowledged change in revision {said} is lost"));
            }
        }
        let values =
            |keys: &Keys| -> Vec<_> { keys.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect() };
        if values(&keys) != values(&self.last) {
            found.push("the keys at the end are not those that all revisions together make".to_owned());
        }
        intents
    }

    fn note_report(&self, space: &Space, key: &[u8], value: Option<&[u8]>, read: u64, intents: &mut Intents<'_>) {
        let Some(report) = value.and_then(|value| Report::decode(value).ok()) else { return };
        let node = space.node_of(key).ok().and_then(|node| NODES.iter().position(|name| *name == node.as_str()));
        let Some(applied) = node.map(|node| &mut intents.applied[node]) else { return };
        // Those that have read the intent again begin at nothing, and not before what the router had.
        if applied.last().is_none_or(|(_, last)| *last < report.applied) {
            let at = applied.last().map_or(read, |(at, _)| read.max(*at));
            applied.push((at, report.applied));
        }
    }
}

impl Intents<'_> {
    /// The revisions that may have been in force at a node in some moment of this time.
    fn in_force(&self, node: usize, from: u64, to: u64) -> impl Iterator<Item = (i64, &Table)> {
        let reports = &self.applied[node];
        let applied =
            reports[..reports.partition_point(|(at, _)| *at <= from)].last().map_or(0, |(_, applied)| *applied);
        // Without a time, it is from before the beginning.
        let was_sent = move |number: &i64| self.sent.get(number).is_none_or(|sent| *sent <= to);
        self.tables
            .range(applied..)
            .filter(move |(number, _)| was_sent(number))
            .map(move |(number, of)| (*number, &of[node]))
    }

    fn check_sample(&self, sample: &Sample, found: &mut Vec<String>) {
        let (node, name) = (sample.node, NODES[sample.node]);
        let in_force: Vec<(i64, &Table)> = self.in_force(node, sample.sent, sample.done).collect();
        let context = || {
            let of: Vec<i64> = in_force.iter().map(|(number, _)| *number).collect();
            format!("{name} at {} to {} µs, with revisions {of:?}", sample.sent, sample.done)
        };
        for (prefix, uri, cost) in &sample.routes {
            // A route that is about to go has a higher cost.
            let cost = if *cost >= LEFT_COST { *cost - LEFT_COST } else { *cost };
            let route = (prefix.clone(), uri.clone(), cost);
            if !in_force.iter().any(|(_, table)| table.contains(&route)) {
                found.push(format!("{}: the route {prefix} to {uri}, cost {cost}, is of no revision", context()));
            }
        }
        let ways: BTreeSet<&Name> = sample.routes.iter().map(|(prefix, ..)| prefix).collect();
        if let Some((_, first)) = in_force.first() {
            for (prefix, ..) in first.iter() {
                let always = in_force.iter().all(|(_, table)| table.iter().any(|(of, ..)| of == prefix));
                if always && !ways.contains(prefix) {
                    found.push(format!("{}: {prefix} has lost its last route", context()));
                }
            }
        }
        if let [(_, only)] = &in_force[..]
            && **only != sample.routes
        {
            let differ: Vec<_> = only.symmetric_difference(&sample.routes).collect();
            found.push(format!("{}: reported as applied, but {differ:?} differ", context()));
        }
    }

    fn check_ping(&self, ping: &Ping, found: &mut Vec<String>) {
        let (name, prefix) = (NODES[ping.node], &ping.prefix);
        let when = format!("{name} at {} to {} µs: {prefix}", ping.sent, ping.done);
        let producer = match &ping.answer {
            Answer::Producer(producer) => *producer,
            Answer::None(_) if self.history.excused.iter().any(|(from, to)| *from <= ping.done && ping.sent <= *to) => {
                return;
            }
            Answer::None(why) => {
                found.push(format!("{when} was not answered: {why}"));
                return;
            }
        };
        let in_force: Vec<(i64, &Table)> = self.in_force(ping.node, ping.sent, ping.done).collect();
        let best = |table: &Table| {
            let (_, uri, _) = table.iter().filter(|(of, ..)| of == prefix).min_by_key(|(.., cost)| *cost)?;
            self.history.producers.get(&**uri).copied()
        };
        if !in_force.iter().any(|(_, table)| best(table) == Some(producer)) {
            let of: Vec<_> = in_force.iter().map(|(number, table)| (number, best(table))).collect();
            found.push(format!("{when} was answered by producer {producer}, which is of no revision in force: {of:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_fleet::value::{Group, Head, Link, Nexthop, Route};

    fn key(text: &str) -> Vec<u8> {
        format!("/byname/main/{text}").into_bytes()
    }

    fn group(link: &str, cost: u64) -> Option<Vec<u8>> {
        Some(Group { nexthops: vec![Nexthop { link: link.parse().expect("a label"), cost }] }.encode())
    }

    fn routes(list: &[(&str, u64)]) -> Table {
        list.iter().map(|(uri, cost)| ("/a".parse().expect("a name"), (*uri).into(), *cost)).collect()
    }

    const A: &str = "udp4://192.0.2.1:6363";
    const B: &str = "udp4://192.0.2.2:6363";

    /// A history of three changes: `/a` leads to A, then to B, then to A again. All is as it should be.
    fn good() -> History {
        let mut history = History { producers: [(A.to_owned(), 1), (B.to_owned(), 2)].into(), ..History::default() };
        let link = |uri: &str| Some(Link { uri: uri.to_owned() }.encode());
        let route = Route { group: "g".parse().expect("a label"), inherit: true, capture: false }.encode();
        let first: Changes = [
            (key("want/links/r1/a"), link(A)),
            (key("want/links/r1/b"), link(B)),
            (key("want/groups/g/r1"), group("a", 1)),
            (key("want/routes/a"), Some(route)),
        ]
        .into();
        let change = |link, cost| Changes::from([(key("want/groups/g/r1"), group(link, cost))]);
        let report =
            |applied| Changes::from([(key("nodes/r1"), Some(Report { applied, ..Report::default() }.encode()))]);
        let head = Head { format: 1, by: String::new() }.encode();
        for (at, intent, changes) in [
            (100, true, first),
            (200, false, report(2)),
            (300, true, change("b", 2)),
            (400, false, report(4)),
            (500, true, change("a", 3)),
            (600, false, report(6)),
        ] {
            let number = history.revisions.len() as i64 + 2;
            let event = |(key, value)| Event { key, value, revision: number };
            let mut events: Vec<Event> = changes.clone().into_iter().map(event).collect();
            if intent {
                events.push(event((key("want/head"), Some(head.clone()))));
                history.attempts.push(Attempt { sent: at - 10, changes, outcome: Outcome::Written(number) });
            }
            for Event { key, value, .. } in &events {
                history.last.insert(key.clone(), (value.clone().expect("a value"), number));
            }
            history.revisions.insert(number, Revision { read: at, events });
        }
        let sample = |sent, routes| Sample { node: 0, sent, done: sent + 5, routes };
        history.samples.push(sample(250, routes(&[(A, 1)])));
        history.samples.push(sample(310, routes(&[(A, 1)])));
        history.samples.push(sample(320, routes(&[(A, 1 + LEFT_COST), (B, 2)])));
        history.samples.push(sample(450, routes(&[(B, 2)])));
        let ping = |sent, producer| Ping {
            node: 0,
            prefix: "/a".parse().expect("a name"),
            sent,
            done: sent + 5,
            answer: Answer::Producer(producer),
        };
        history.pings.extend([ping(250, 1), ping(310, 1), ping(320, 2), ping(450, 2), ping(495, 1), ping(650, 1)]);
        history
    }

    fn finds(part: &str, spoil: impl FnOnce(&mut History)) {
        let mut history = good();
        spoil(&mut history);
        let found = history.violations();
        assert!(found.iter().any(|violation| violation.contains(part)), "{part}: {found:?}");
    }

    #[test]
    fn the_checker_finds_what_may_not_be() {
        assert_eq!(good().violations(), [""; 0]);
        let sample = |sent, list: &[(&str, u64)]| Sample { node: 0, sent, done: sent + 5, routes: routes(list) };
        // Routes of no revision, of one that is over, and of one that nobody has sent yet.
        finds("is of no revision", |history| history.samples.push(sample(320, &[(A, 7)])));
        finds("is of no revision", |history| history.samples.push(sample(450, &[(A, 1), (B, 2)])));
        finds("is of no revision", |history| history.samples.push(sample(250, &[(A, 1), (B, 2)])));
        let mut tagged = sample(450, &[(B, 2)]);
        let tags = byname_wire::Descriptor::of(["x"]).expect("one tag");
        tagged.routes.insert((oracle::name_of(&tags), B.into(), 0));
        finds("is of no revision", |history| history.samples.push(tagged));
        finds("has lost its last route", |history| history.samples.push(sample(320, &[])));
        finds("reported as applied, but", |history| history.samples.push(sample(450, &[(B, 2 + LEFT_COST)])));
        // Answers of another revision, and none.
        finds("was answered by producer 2", |history| history.pings[0].answer = Answer::Producer(2));
        finds("was answered by producer 1", |history| history.pings[3].answer = Answer::Producer(1));
        let silence = Answer::None("nothing in time".to_owned());
        finds("was not answered", |history| history.pings[2].answer = silence.clone());
        let mut excused = good();
        (excused.pings[2].answer, excused.excused) = (silence, vec![(322, 400)]);
        assert_eq!(excused.violations(), [""; 0]);
        // Writers.
        finds("makes a change that was refused", |history| history.attempts[1].outcome = Outcome::Refused);
        finds("its writer was told 5", |history| history.attempts[1].outcome = Outcome::Written(5));
        finds("the acknowledged change in revision 4 is lost", |history| {
            history.revisions.remove(&4);
        });
        finds("no watch has brought the revisions from 4 to 4", |history| {
            history.revisions.remove(&4);
        });
        finds("nobody has sent the change in revision 4", |history| {
            history.attempts.remove(1);
        });
        finds("removes other keys", |history| {
            history.attempts[1].changes.insert(key("want/routes/a"), None);
        });
        finds("removes other keys", |history| {
            let event = Event { key: key("want/links/r1/a"), value: None, revision: 4 };
            history.revisions.get_mut(&4).expect("revision 4").events.push(event);
        });
        let mut again = good();
        again.attempts[1].changes.insert(key("want/routes/b"), None);
        assert_eq!(again.violations(), [""; 0], "what was not there need not go");
        finds("make one change twice", |history| {
            let again = history.revisions[&4].clone();
            history.revisions.insert(8, again);
        });
        finds("without its head", |history| {
            history.revisions.get_mut(&4).expect("revision 4").events.retain(|event| event.key != key("want/head"));
        });
        finds("the keys at the end", |history| {
            history.last.remove(&key("want/routes/a"));
        });
    }
}
