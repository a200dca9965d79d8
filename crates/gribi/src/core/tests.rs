//! Tests of the core: single rules, and a model under faults in virtual time.

mod model;

use super::*;

pub(super) fn hop(index: u64) -> Entry {
    Entry::NextHop { index, uri: format!("udp4://192.0.2.{index}:6363") }
}

pub(super) fn group(id: u64, members: &[(u64, u64)]) -> Entry {
    Entry::Group { id, members: members.to_vec() }
}

pub(super) fn prefix(uri: &str) -> Key {
    Key::Prefix(Arc::new(uri.parse().expect("a name")))
}

pub(super) fn flat(uri: &str) -> Key {
    Key::Flat(Arc::new(uri.parse().expect("a name")))
}

pub(super) fn to(key: Key, group: u64) -> Entry {
    let flags = u64::from(matches!(key, Key::Prefix(_)));
    Entry::Route { key, group, flags }
}

const BOTH: Params = Params { persistence: Persistence::Preserve, ack: Ack::RibAndFib };

/// A core with a primary session, and a router that does what it is told.
struct Bench {
    core: Core,
    session: SessionId,
    next: u64,
}

impl Bench {
    fn new(params: Params) -> Self {
        let mut core = Core::new(Limits { hold_ms: 1_000, ..Limits::default() }, 0);
        core.router_is(0, Vec::new());
        let session = core.open().expect("room");
        core.params(session, params);
        core.election(session, 1);
        assert_eq!(core.take_replies(), [Reply::Params(session), Reply::Election(session, 1)]);
        Bench { core, session, next: 1 }
    }

    fn ask(&mut self, verb: Verb, entry: Entry) -> u64 {
        let id = self.next;
        self.next += 1;
        self.core.operation(self.session, Operation { id, verb, entry, election_id: 1 });
        id
    }

    /// What the router is asked for, in its order, and grants.
    fn run(&mut self, now: u64) -> Vec<String> {
        let mut log = Vec::new();
        while let Some(change) = self.core.next_change(now) {
            log.push(words(&change));
            self.core.done(now, &change, Ok(()));
        }
        log
    }

    /// Statuses since the last call.
    fn statuses(&mut self) -> Vec<(u64, Status)> {
        let of = |reply| match reply {
            Reply::Result(_, id, status) => (id, status),
            other => panic!("{other:?}"),
        };
        self.core.take_replies().into_iter().map(of).collect()
    }

    /// Asks, and expects what both results say.
    fn works(&mut self, verb: Verb, entry: Entry) -> Vec<String> {
        let id = self.ask(verb, entry);
        let log = self.run(0);
        assert_eq!(self.statuses(), [(id, Status::RibProgrammed), (id, Status::FibProgrammed)]);
        log
    }

    fn fails(&mut self, verb: Verb, entry: Entry) -> String {
        let id = self.ask(verb, entry);
        match self.statuses().as_slice() {
            [(other, Status::Failed(why))] if *other == id => why.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn words(change: &Change) -> String {
    let sign = if change.adds { '+' } else { '-' };
    let key = match &change.key {
        Key::Prefix(name) | Key::Flat(name) => name.to_string(),
        Key::Tags(tags) => tags.join(","),
        Key::Label(group) => format!("label {group}"),
    };
    match &change.atom {
        Atom::Route { uri, cost, .. } => format!("{sign}{key} {} {cost}", &uri[15..16]),
        Atom::Tags(uri) => format!("{sign}{key} {}", &uri[15..16]),
        Atom::Label(group) => format!("{sign}{key} label {group}"),
    }
}

fn filled(params: Params) -> Bench {
    let mut bench = Bench::new(params);
    for index in 1..=3 {
        assert_eq!(bench.works(Verb::Add, hop(index)), [""; 0]);
    }
    bench.works(Verb::Add, group(7, &[(1, 10), (2, 20)]));
    bench.works(Verb::Add, group(8, &[(3, 0)]));
    bench
}

#[test]
fn entries_follow_groups_and_next_hops() {
    let mut bench = filled(BOTH);
    assert_eq!(bench.works(Verb::Add, to(prefix("/a"), 7)), ["+/a 1 10", "+/a 2 20"]);
    assert_eq!(bench.works(Verb::Add, to(prefix("/a"), 7)), [""; 0], "as before");
    assert_eq!(bench.works(Verb::Replace, to(prefix("/a"), 8)), ["+/a 3 0", "-/a 1 10", "-/a 2 20"]);
    assert_eq!(bench.works(Verb::Replace, group(8, &[(3, 5), (1, 1)])), ["+/a 3 5", "+/a 1 1"]);
    let moved = Entry::NextHop { index: 3, uri: "udp4://192.0.2.9:6363".into() };
    assert_eq!(bench.works(Verb::Add, moved), ["+/a 9 5", "-/a 3 5"]);
    assert_eq!(bench.works(Verb::Delete, to(prefix("/a"), 0)), ["-/a 9 5", "-/a 1 1"]);
    assert_eq!(bench.works(Verb::Delete, to(prefix("/a"), 0)), [""; 0], "again");
    assert!(bench.core.is_empty() && bench.core.subjects.is_empty());
}

#[test]
fn tags_go_to_all_members() {
    let mut bench = filled(BOTH);
    let tags = Key::Tags(["a".to_owned(), "b".to_owned()].into());
    assert_eq!(bench.works(Verb::Add, to(tags.clone(), 7)), ["+a,b 1", "+a,b 2"]);
    assert_eq!(bench.works(Verb::Add, to(tags.clone(), 8)), ["+a,b 3", "-a,b 1", "-a,b 2"]);
    assert_eq!(bench.works(Verb::Delete, to(tags, 0)), ["-a,b 3"]);
}

#[test]
fn a_flat_name_gets_its_label_when_that_leads_somewhere() {
    let mut bench = filled(BOTH);
    let log = bench.works(Verb::Add, to(flat("/o/x"), 7));
    assert_eq!(log, ["+label 7 1 10", "+label 7 2 20", "+/o/x label 7"]);
    assert_eq!(bench.works(Verb::Add, to(flat("/o/y"), 7)), ["+/o/y label 7"]);
    assert_eq!(bench.works(Verb::Replace, group(7, &[(1, 10)])), ["-label 7 2 20"]);
    // The old label goes when no name has it any more.
    let log = bench.works(Verb::Add, to(flat("/o/x"), 8));
    assert_eq!(log, ["+label 8 3 0", "+/o/x label 8"]);
    bench.ask(Verb::Delete, to(flat("/o/y"), 0));
    // The group may go at once; the router is asked in the right order all the same.
    bench.ask(Verb::Delete, group(7, &[]));
    assert_eq!(bench.run(0), ["-/o/y label 7", "-label 7 1 10"]);
    assert_eq!(bench.statuses().len(), 4);
    // A label that the router refuses fails the names that wait for it.
    let id = bench.ask(Verb::Add, group(9, &[(2, 0)]));
    let name = bench.ask(Verb::Add, to(flat("/o/z"), 9));
    let change = bench.core.next_change(0).expect("a label");
    assert_eq!(words(&change), "+label 9 2 0");
    assert_eq!(bench.core.next_change(0), None, "the name waits");
    bench.core.done(0, &change, Err("full".into()));
    assert_eq!(bench.run(0), [""; 0]);
    let failed = (name, Status::FibFailed("full".into()));
    let programmed = |id| (id, Status::RibProgrammed);
    assert_eq!(bench.statuses(), [programmed(id), (id, Status::FibProgrammed), programmed(name), failed]);
    assert_eq!(bench.run(100), ["+label 9 2 0", "+/o/z label 9"], "tried again");
}

#[test]
fn references_must_exist_and_stay() {
    let mut bench = filled(BOTH);
    let mut why = |verb, entry, words: &str| {
        let why = bench.fails(verb, entry);
        assert!(why.contains(words), "{why}");
    };
    why(Verb::Add, group(1, &[(4, 0)]), "no next-hop 4");
    why(Verb::Add, group(1, &[]), "1 to 64 next-hops");
    why(Verb::Add, group(1, &[(1, 0), (1, 1)]), "twice");
    why(Verb::Add, to(prefix("/a"), 9), "no group 9");
    why(Verb::Replace, to(prefix("/a"), 7), "no such entry");
    why(Verb::Replace, group(1, &[(1, 0)]), "no group 1");
    why(Verb::Replace, hop(5), "no next-hop 5");
    why(Verb::Delete, hop(1), "group 7 has");
    why(Verb::Add, Entry::NextHop { index: 5, uri: "192.0.2.1".into() }, "face URI");
    bench.works(Verb::Add, to(prefix("/a"), 7));
    let why = bench.fails(Verb::Delete, group(7, &[]));
    assert_eq!(why, "1 entries lead to group 7");
    bench.works(Verb::Delete, to(prefix("/a"), 7));
    bench.works(Verb::Delete, group(7, &[]));
    bench.works(Verb::Delete, hop(1));
    bench.works(Verb::Delete, hop(1));
    assert!(bench.fails(Verb::Add, group(7, &[(1, 0)])).contains("no next-hop 1"));
}

#[test]
fn tables_are_bounded() {
    let limits = Limits { next_hops_max: 3, groups_max: 2, entries_max: 2, sessions_max: 1, ..Limits::default() };
    let mut bench = filled(BOTH);
    bench.core.limits = limits;
    assert!(bench.fails(Verb::Add, hop(4)).contains("3 next-hops"));
    assert!(bench.fails(Verb::Add, group(9, &[(1, 0)])).contains("2 groups"));
    bench.works(Verb::Add, to(prefix("/a"), 7));
    bench.works(Verb::Add, to(flat("/o/x"), 7));
    assert!(bench.fails(Verb::Add, to(prefix("/b"), 7)).contains("2 entries"));
    bench.works(Verb::Add, to(prefix("/a"), 8));
    assert_eq!(bench.core.open(), Err(CloseReason::TooMany(1)));
}

#[test]
fn the_highest_election_id_is_primary_and_the_later_of_two() {
    let mut bench = filled(BOTH);
    let other = bench.core.open().expect("room");
    bench.core.params(other, BOTH);
    let ask = |core: &mut Core, session, id, election_id| {
        core.operation(session, Operation { id, verb: Verb::Add, entry: hop(1), election_id });
        core.take_replies().pop().expect("a reply")
    };
    let failed = |reply: &Reply| matches!(reply, Reply::Result(_, _, Status::Failed(_)));
    assert!(failed(&ask(&mut bench.core, other, 1, 2)), "no id has been told");
    bench.core.election(other, 2);
    assert_eq!(bench.core.take_replies().pop(), Some(Reply::Election(other, 2)));
    assert!(failed(&ask(&mut bench.core, bench.session, 90, 1)), "a higher one is known");
    assert!(failed(&ask(&mut bench.core, other, 1, 1)), "not the one that was told");
    assert!(!failed(&ask(&mut bench.core, other, 1, 2)));
    bench.core.election(bench.session, 1);
    assert_eq!(bench.core.take_replies().pop(), Some(Reply::Election(bench.session, 2)));
    bench.core.election(bench.session, 2);
    bench.core.take_replies();
    assert!(failed(&ask(&mut bench.core, other, 2, 2)), "the other one told it later");
    assert!(!failed(&ask(&mut bench.core, bench.session, 91, 2)));
    bench.core.election(other, 1);
    let back = CloseReason::ElectionBackwards { from: 2, to: 1 };
    assert_eq!(bench.core.take_replies(), [Reply::Close(other, back)]);
    bench.core.election(bench.session, 0);
    assert_eq!(bench.core.take_replies(), [Reply::Close(bench.session, CloseReason::NoElectionId)]);
    assert_eq!(bench.core.flush(Some(1)), Err(2));
    assert!(bench.core.flush(Some(2)).is_ok() && bench.core.flush(None).is_ok());
}

#[test]
fn parameters_are_the_same_everywhere_and_come_first() {
    let mut bench = Bench::new(BOTH);
    let other = bench.core.open().expect("room");
    bench.core.params(other, Params::default());
    assert_eq!(bench.core.take_replies(), [Reply::Close(other, CloseReason::ParamsDiffer(BOTH))]);
    let other = bench.core.open().expect("room");
    bench.core.election(other, 1);
    assert_eq!(bench.core.take_replies(), [Reply::Close(other, CloseReason::ParamsDiffer(BOTH))], "the usual ones");
    bench.core.params(bench.session, BOTH);
    assert_eq!(bench.core.take_replies(), [Reply::Close(bench.session, CloseReason::ParamsTooLate)]);
    let other = bench.core.open().expect("room");
    bench.core.params(other, Params::default());
    assert_eq!(bench.core.take_replies(), [Reply::Params(other)], "nobody is left to differ from");
}

#[test]
fn entries_go_with_the_primary_session_if_it_wants_that() {
    let mut bench = filled(BOTH);
    bench.works(Verb::Add, to(prefix("/a"), 7));
    bench.core.closed(bench.session);
    assert_eq!(bench.run(0), [""; 0]);
    assert_eq!(bench.core.len(), 1, "preserved");

    let mut bench = filled(Params { persistence: Persistence::Delete, ..BOTH });
    bench.works(Verb::Add, to(prefix("/a"), 7));
    bench.works(Verb::Add, to(flat("/o/x"), 8));
    let other = bench.core.open().expect("room");
    bench.core.params(other, Params { persistence: Persistence::Delete, ..BOTH });
    bench.core.closed(other);
    assert_eq!(bench.run(0), [""; 0], "it was not primary");
    bench.core.closed(bench.session);
    let log = bench.run(0);
    assert_eq!(log, ["-/a 1 10", "-/a 2 20", "-/o/x label 8", "-label 8 3 0"]);
    assert!(bench.core.subjects.is_empty() && bench.core.groups.is_empty() && bench.core.next_hops.is_empty());
}

#[test]
fn what_the_router_refuses_is_tried_again() {
    let mut bench = filled(BOTH);
    let id = bench.ask(Verb::Add, to(prefix("/a"), 8));
    let change = bench.core.next_change(0).expect("a route");
    bench.core.done(0, &change, Err("507: full".into()));
    let failed = (id, Status::FibFailed("507: full".into()));
    assert_eq!(bench.statuses(), [(id, Status::RibProgrammed), failed]);
    assert_eq!(bench.core.next_wake(), Some(100));
    assert_eq!(bench.run(99), [""; 0]);
    let change = bench.core.next_change(100).expect("again");
    bench.core.done(100, &change, Err("507: full".into()));
    assert_eq!(bench.core.next_wake(), Some(300));
    assert_eq!(bench.run(300), ["+/a 3 0"]);
    assert_eq!((bench.core.next_wake(), bench.statuses()), (None, vec![]));
    // While an addition is refused, nothing is removed.
    bench.ask(Verb::Add, to(prefix("/a"), 7));
    for _ in 0..2 {
        let change = bench.core.next_change(300).expect("an addition");
        bench.core.done(300, &change, Err("no".into()));
    }
    assert_eq!(bench.run(300), [""; 0]);
    assert_eq!(bench.run(400), ["+/a 1 10", "+/a 2 20", "-/a 3 0"]);
}

#[test]
fn an_operation_outlives_the_connection_to_the_router() {
    let mut bench = filled(BOTH);
    let id = bench.ask(Verb::Add, to(prefix("/a"), 8));
    let change = bench.core.next_change(0).expect("a route");
    bench.core.router_lost();
    bench.core.done(0, &change, Ok(()));
    assert_eq!((bench.run(0), bench.statuses()), (vec![], vec![(id, Status::RibProgrammed)]));
    // It has arrived after all, and something else is there, too.
    let strange = (prefix("/b"), vec![change.atom.clone()]);
    bench.core.router_is(10, vec![(prefix("/a"), vec![change.atom.clone()]), strange]);
    assert_eq!((bench.run(10), bench.statuses()), (vec![], vec![(id, Status::FibProgrammed)]));
    assert_eq!(bench.core.next_wake(), Some(1_000), "of an earlier server");
    assert_eq!(bench.run(1_000), ["-/b 3 0"]);
    // A client that claims such an entry in time keeps it.
    bench.core.hold_until = 5_000;
    bench.core.router_is(2_000, vec![(prefix("/a"), vec![change.atom.clone()]), (prefix("/c"), vec![change.atom])]);
    bench.works(Verb::Add, to(prefix("/c"), 8));
    assert_eq!(bench.run(6_000), [""; 0]);
}

#[test]
fn an_id_is_used_by_one_operation_at_a_time() {
    let mut bench = filled(BOTH);
    let id = bench.ask(Verb::Add, to(prefix("/a"), 8));
    bench.core.operation(bench.session, Operation { id, verb: Verb::Add, entry: hop(1), election_id: 1 });
    let statuses = bench.statuses();
    assert!(matches!(&statuses[1], (other, Status::Failed(_)) if *other == id), "{statuses:?}");
    assert_eq!(bench.core.waiting(bench.session), 1);
    bench.run(0);
    bench.core.operation(bench.session, Operation { id, verb: Verb::Add, entry: hop(1), election_id: 1 });
    assert_eq!(bench.statuses().len(), 3);
}

#[test]
fn lists_have_everything_page_by_page() {
    let mut bench = filled(BOTH);
    for number in 0..5 {
        bench.works(Verb::Add, to(prefix(&format!("/a/{number}")), 7));
    }
    bench.works(Verb::Add, to(flat("/o/x"), 7));
    bench.ask(Verb::Add, to(prefix("/b"), 7));
    let all = |core: &Core, from: Cursor| {
        let (mut listed, mut next) = (Vec::new(), Some(from));
        while let Some(cursor) = next {
            let (page, rest) = core.list(cursor, |_| true, 2);
            assert!(page.len() <= 2);
            listed.extend(page);
            next = rest;
        }
        listed
    };
    let there = |listed: &[Listed]| listed.iter().filter(|one| matches!(one, Listed::Route(.., true))).count();
    let entries = all(&bench.core, Cursor::Entries(None));
    assert_eq!((entries.len(), there(&entries)), (7, 6), "one is not there yet");
    assert_eq!(all(&bench.core, Cursor::NextHops(0)).len(), 3);
    assert_eq!(all(&bench.core, Cursor::Groups(0))[0], Listed::Group(7, vec![(1, 10), (2, 20)]));
}
