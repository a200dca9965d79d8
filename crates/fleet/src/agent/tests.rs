//! The agent alone, step by step. `tests/simulated.rs` has many of them, with faults.

use byname_wire::Descriptor;

use super::*;
use crate::intent::TOLD_BEFORE;

fn agent() -> Agent {
    Agent::new(Options::new(Space::new(&"main".parse().unwrap()), "r1".parse().unwrap()))
}

fn put(key: &str, value: &str, revision: i64) -> Event {
    Event { key: format!("/byname/main/want/{key}").into_bytes(), value: Some(value.into()), revision }
}

fn delete(key: &str, revision: i64) -> Event {
    Event { value: None, ..put(key, "", revision) }
}

fn intent() -> Vec<Event> {
    vec![
        put("head", r#"{"format":1,"by":"t"}"#, 10),
        put("settled", r#"{"revision":10}"#, 11),
        put("links/r1/x", r#"{"uri":"udp4://192.0.2.1:1"}"#, 3),
        put("links/r1/y", r#"{"uri":"udp4://192.0.2.2:1"}"#, 4),
        put("groups/west/r1", r#"{"nexthops":[{"link":"x","cost":1},{"link":"y","cost":2}]}"#, 5),
        put("groups/east/r1", r#"{"nexthops":[{"link":"y","cost":7}]}"#, 6),
        put("routes/a", r#"{"group":"west","inherit":true,"capture":false}"#, 10),
    ]
}

/// Makes all changes that are due, and lists them.
fn all(agent: &mut Agent, now: u64) -> Vec<String> {
    let mut made = Vec::new();
    while let Some((ticket, change)) = agent.next_change(now) {
        made.push(match &change {
            Change::Register { prefix, uri, attributes } if attributes.cost >= LEFT_COST => {
                format!("lower {prefix} {uri}")
            }
            Change::Register { prefix, uri, attributes } => format!("+{prefix} {uri} {}", attributes.cost),
            Change::Unregister { prefix, uri } => format!("-{prefix} {uri}"),
            Change::Advertise { tags, uri } => format!("+{} tags {uri}", tags.tags().len()),
            Change::Withdraw { tags, uri } => format!("-{} tags {uri}", tags.tags().len()),
            Change::Suspend { uri } => format!("suspend {uri}"),
            Change::Resume { uri } => format!("resume {uri}"),
            Change::SetStrategy { prefix, strategy } => format!("set {prefix} {strategy}"),
            Change::RestoreStrategy { prefix } => format!("restore {prefix}"),
            Change::UseFiles { files, policy } => {
                let files = files.iter().map(|file| &*file.kept.name);
                format!("use {}", files.chain(policy.iter().map(String::as_str)).collect::<Vec<_>>().join(" "))
            }
        });
        agent.done(now, ticket, Ok(()));
    }
    made
}

fn started() -> Agent {
    let mut agent = agent();
    agent.router_connected(0, Existing::default());
    agent.snapshot(0, 20, intent());
    assert_eq!(all(&mut agent, 0), ["+/a udp4://192.0.2.1:1 1", "+/a udp4://192.0.2.2:1 2"]);
    assert_eq!((agent.report().added, agent.report().applied, agent.watch_from()), (10, 10, Some(21)));
    agent
}

#[test]
fn routes_are_added_before_others_go() {
    let mut agent = started();
    agent.events(100, &[put("routes/a", r#"{"group":"east","inherit":true,"capture":false}"#, 21)]);
    assert_eq!(all(&mut agent, 100), ["+/a udp4://192.0.2.2:1 7", "lower /a udp4://192.0.2.1:1"]);
    // The other one stays until all nodes are so far, and is not used: the next router may lose its part of the way.
    assert_eq!((agent.report().added, agent.report().applied), (21, 10));
    assert_eq!(all(&mut agent, 5_099), [""; 0]);
    agent.events(5_099, &[put("settled", r#"{"revision":21}"#, 22)]);
    assert_eq!(all(&mut agent, 5_099), ["-/a udp4://192.0.2.1:1"]);
    assert_eq!((agent.report().seen, agent.report().applied, agent.report().unsettled), (21, 21, 0));
    // One that is wanted again before it goes has its cost again.
    agent.events(6_000, &[put("routes/a", r#"{"group":"west","inherit":true,"capture":false}"#, 23)]);
    all(&mut agent, 6_000);
    agent.events(6_000, &[put("routes/a", r#"{"group":"east","inherit":true,"capture":false}"#, 24)]);
    assert_eq!(all(&mut agent, 6_000), ["+/a udp4://192.0.2.2:1 7", "lower /a udp4://192.0.2.1:1"]);
    agent.events(6_000, &[put("routes/a", r#"{"group":"west","inherit":true,"capture":false}"#, 25)]);
    assert_eq!(all(&mut agent, 6_000), ["+/a udp4://192.0.2.1:1 1", "+/a udp4://192.0.2.2:1 2"]);
    assert_eq!(agent.report().applied, 25);
}

#[test]
fn a_writer_that_died_holds_nobody_up() {
    let mut agent = started();
    agent.events(100, &[delete("routes/a", 21)]);
    assert_eq!((all(&mut agent, 100), all(&mut agent, 5_099)), (Vec::new(), Vec::new()));
    assert_eq!(agent.next_wake(), Some(5_100));
    assert_eq!(all(&mut agent, 5_100).len(), 2);
    assert_eq!((agent.report().applied, agent.report().unsettled, agent.report().routes), (21, 2, 0));
}

#[test]
fn a_failed_link_is_left_at_once_and_used_again() {
    let mut agent = started();
    agent.events(100, &[put("down/r1/x", r#"{"reason":""}"#, 21)]);
    assert_eq!(all(&mut agent, 100), ["suspend udp4://192.0.2.1:1"]);
    assert_eq!(agent.report().added, 21);
    // Not settled: the suspension is renewed while the route is still there.
    assert_eq!(all(&mut agent, 5_100), ["-/a udp4://192.0.2.1:1"]);
    assert_eq!(all(&mut agent, 40_000), [""; 0]);
    agent.events(41_000, &[delete("down/r1/x", 30)]);
    assert_eq!(all(&mut agent, 41_000), ["resume udp4://192.0.2.1:1", "+/a udp4://192.0.2.1:1 1"]);
    // If all links of a group have failed, its routes stay.
    agent.events(42_000, &[put("down/r1/x", r#"{"reason":""}"#, 31), put("down/r1/y", r#"{"reason":""}"#, 31)]);
    assert_eq!(all(&mut agent, 142_000).iter().filter(|change| change.starts_with('-')).count(), 0);
}

#[test]
fn damaged_values_hold_everything_but_failed_links() {
    let mut agent = started();
    agent.events(100, &[put("routes/b", "{", 21), delete("routes/a", 21)]);
    assert_eq!(all(&mut agent, 100_000), [""; 0]);
    let held = agent.report().held.unwrap();
    assert!(held.starts_with("/byname/main/want/routes/b: the value cannot be read"), "{held}");
    assert_eq!((agent.report().seen, agent.report().applied), (21, 10));
    agent.events(100_000, &[put("down/r1/x", r#"{"reason":""}"#, 22)]);
    assert_eq!(all(&mut agent, 100_000), ["suspend udp4://192.0.2.1:1"]);
    assert_eq!(all(&mut agent, 130_000), ["suspend udp4://192.0.2.1:1"]);
    agent.events(140_000, &[delete("routes/b", 23)]);
    assert_eq!(all(&mut agent, 140_000), [""; 0]);
    assert_eq!(all(&mut agent, 145_000).len(), 2);
    assert_eq!((agent.report().held, agent.report().applied), (None, 23));
}

#[test]
fn an_intent_that_is_gone_removes_nothing() {
    let mut agent = started();
    agent.compacted();
    agent.snapshot(100, 50, Vec::new());
    assert_eq!(all(&mut agent, 100_000), [""; 0]);
    assert_eq!(agent.report().held.as_deref(), Some("there is no intent yet: want/head does not exist"));
    assert_eq!(agent.report().routes, 2);
}

#[test]
fn a_refused_route_is_tried_again_and_keeps_the_old_one() {
    let mut agent = started();
    agent.events(
        0,
        &[
            put("links/r1/z", r#"{"uri":"udp4://192.0.2.3:1"}"#, 21),
            put("groups/west/r1", r#"{"nexthops":[{"link":"z","cost":3}]}"#, 21),
            put("settled", r#"{"revision":21}"#, 22),
        ],
    );
    for now in [0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300] {
        let (ticket, change) = agent.next_change(now).expect("another attempt");
        assert!(matches!(&change, Change::Register { uri, .. } if &**uri == "udp4://192.0.2.3:1"), "{change:?}");
        agent.done(now, ticket, Err("no".to_owned()));
        assert_eq!(agent.next_change(now), None);
        let report = agent.report();
        assert_eq!((report.failing, report.failure.as_deref(), report.added), (1, Some("no"), 10));
    }
    assert_eq!(
        all(&mut agent, 30_000),
        ["+/a udp4://192.0.2.3:1 3", "-/a udp4://192.0.2.1:1", "-/a udp4://192.0.2.2:1"]
    );
    assert_eq!((agent.report().applied, agent.report().failing, agent.report().failure), (21, 0, None));
}

#[test]
fn lost_watches_and_restored_histories_lead_to_the_head() {
    let mut agent = started();
    agent.head_is(1_000, 990, Some(10));
    assert_eq!(agent.stale_ms(1_500), Some(510));
    // A change that comes while the question is under way.
    agent.events(2_000, &[put("head", r#"{"format":1,"by":"t"}"#, 21)]);
    agent.head_is(2_001, 1_990, Some(10));
    assert_eq!((agent.stale_ms(2_001), agent.watch_from()), (Some(11), Some(22)));
    // A change that does not come.
    agent.head_is(3_000, 2_990, Some(25));
    agent.head_is(5_999, 5_990, Some(27));
    assert_eq!((agent.stale_ms(6_000), agent.watch_from()), (Some(4_010), Some(22)));
    agent.head_is(6_000, 5_990, Some(28));
    assert_eq!(agent.watch_from(), None);
    agent.snapshot(6_010, 30, intent());
    // An older one, or none.
    agent.head_is(7_000, 6_990, Some(9));
    assert_eq!(agent.watch_from(), None);
    agent.snapshot(7_010, 30, intent());
    agent.head_is(8_000, 7_990, None);
    assert_eq!(agent.watch_from(), None);
}

#[test]
fn what_the_router_has_is_compared_and_what_is_left_over_goes() {
    let mut agent = agent();
    agent.snapshot(0, 20, intent());
    let plain = Attributes { cost: 1, flags: 1 };
    let route = |prefix: &str, uri: &str| (prefix.parse::<Name>().unwrap(), Arc::from(uri), plain);
    let existing = Existing {
        routes: vec![route("/a", "udp4://192.0.2.1:1"), route("/old", "udp4://192.0.2.9:1")],
        strategies: vec![("/s".parse().unwrap(), "/strategy".parse().unwrap())],
        ..Existing::default()
    };
    agent.router_connected(0, existing);
    // All nodes have this revision, so nothing waits.
    assert_eq!(all(&mut agent, 0), ["+/a udp4://192.0.2.2:1 2", "restore /s", "-/old udp4://192.0.2.9:1"]);
    assert_eq!((agent.report().applied, agent.report().drift, agent.is_idle()), (10, 0, true));
    // Somebody has removed one of the two routes.
    agent.compared(Existing { routes: vec![route("/a", "udp4://192.0.2.1:1")], ..Existing::default() });
    assert_eq!((all(&mut agent, 0), agent.report().drift), (vec!["+/a udp4://192.0.2.2:1 2".to_owned()], 1));
    agent.router_lost();
    assert_eq!((agent.next_change(0), agent.report().connected, agent.report().applied), (None, false, 0));
}

#[test]
fn tags_are_told_before_others_are_taken_back() {
    let mut agent = started();
    let (first, second) = ("udp4://192.0.2.1:1", "udp4://192.0.2.2:1");
    agent.events(100, &[put("tags/classical/concert", r#"{"group":"west"}"#, 21)]);
    assert_eq!(all(&mut agent, 100), [format!("+2 tags {first}"), format!("+2 tags {second}")]);
    let report = agent.report();
    assert_eq!((report.added, report.applied, report.tags, report.routes), (21, 21, 2, 2));
    // A failed link is taken back like a route, and the old way stays until all nodes have the new one.
    agent.events(200, &[put("down/r1/x", r#"{"reason":""}"#, 22)]);
    assert_eq!(all(&mut agent, 200), [format!("suspend {first}")]);
    assert_eq!((agent.report().added, agent.report().applied), (22, 21));
    agent.events(300, &[put("settled", r#"{"revision":22}"#, 23)]);
    assert_eq!(all(&mut agent, 300), [format!("-/a {first}"), format!("-2 tags {first}")]);
    assert_eq!((agent.report().applied, agent.report().tags), (22, 1));
    // Another group, with the same link: nothing changes. Then a group that has none here, and no set at all.
    agent.events(400, &[put("tags/classical/concert", r#"{"group":"east"}"#, 24)]);
    assert_eq!((all(&mut agent, 400), agent.report().applied), (Vec::new(), 24));
    agent.events(500, &[put("tags/classical/concert", r#"{"group":"south"}"#, 25)]);
    assert_eq!((all(&mut agent, 500), agent.report().applied), (Vec::new(), 24));
    assert_eq!((all(&mut agent, 5_500), agent.report().tags), (vec![format!("-2 tags {second}")], 0));
    agent.events(6_000, &[delete("tags/classical/concert", 26)]);
    assert_eq!((all(&mut agent, 6_000), agent.report().applied), (Vec::new(), 26));
}

#[test]
fn tags_of_the_router_are_compared_and_told_again_after_its_restart() {
    let mut agent = agent();
    let mut keys = intent();
    keys.push(put("tags/a", r#"{"group":"east"}"#, 10));
    keys.push(put("tags/b", r#"{"group":"east"}"#, 10));
    agent.snapshot(0, 20, keys);
    let way = |tag: &str, with| (Descriptor::of([tag]).unwrap(), Arc::from("udp4://192.0.2.2:1"), with);
    // It remembers two, one of which is not wanted any more. Another one was told.
    let tags = vec![way("a", TOLD_BEFORE), way("old", TOLD_BEFORE), way("b", TOLD)];
    agent.router_connected(0, Existing { tags: tags.clone(), ..Existing::default() });
    let made = all(&mut agent, 0);
    assert_eq!(made[2..], ["+1 tags udp4://192.0.2.2:1", "-1 tags udp4://192.0.2.2:1"], "{made:?}");
    assert_eq!((agent.report().tags, agent.report().drift), (2, 0));
    // Somebody has taken one back.
    let plain = |cost| Attributes { cost, flags: 1 };
    let route = |uri: &str, cost| ("/a".parse::<Name>().unwrap(), Arc::from(uri), plain(cost));
    let routes = vec![route("udp4://192.0.2.1:1", 1), route("udp4://192.0.2.2:1", 2)];
    agent.compared(Existing { routes, tags: vec![way("b", TOLD)], ..Existing::default() });
    assert_eq!((all(&mut agent, 0), agent.report().drift), (vec!["+1 tags udp4://192.0.2.2:1".to_owned()], 1));
}

#[test]
fn a_router_that_refuses_tags_gets_all_else() {
    let mut agent = started();
    agent.events(100, &[put("tags/a", r#"{"group":"east"}"#, 21)]);
    let (ticket, change) = agent.next_change(100).unwrap();
    assert!(matches!(change, Change::Advertise { .. }));
    agent.done(100, ticket, Err("this router is on no tree yet".to_owned()));
    agent.events(110, &[put("routes/b", r#"{"group":"east","inherit":true,"capture":false}"#, 22)]);
    assert_eq!(all(&mut agent, 110), ["+/b udp4://192.0.2.2:1 7"]);
    let report = agent.report();
    assert_eq!((report.failing, report.failure.as_deref()), (1, Some("this router is on no tree yet")));
    assert_eq!((report.added, report.applied), (10, 10), "it is not so far as it says");
    assert_eq!(all(&mut agent, 250), ["+1 tags udp4://192.0.2.2:1"]);
    assert_eq!((agent.report().failing, agent.report().applied), (0, 22));
}

#[test]
fn damaged_tags_hold_what_is_there() {
    let mut agent = started();
    agent.events(100, &[put("tags/a", r#"{"group":"east"}"#, 21)]);
    assert_eq!(all(&mut agent, 100).len(), 1);
    for (revision, (key, value)) in [
        ("tags/a", "{"),
        ("tags/a", r#"{"group":"east","new":1}"#),
        ("tags/a", r#"{"group":"East"}"#),
        ("tags/b/a", r#"{"group":"east"}"#),
        ("tags/%61", r#"{"group":"east"}"#),
        ("tags", r#"{"group":"east"}"#),
        (&format!("tags/{}", "x".repeat(300)), r#"{"group":"east"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let revision = 30 + 2 * revision as i64;
        agent.events(1_000, &[put(key, value, revision)]);
        assert_eq!(all(&mut agent, 100_000), [""; 0], "{key} {value}");
        assert!(agent.report().held.is_some_and(|held| held.contains(key)), "{key} {value}");
        assert_eq!(agent.report().tags, 1);
        let again = put("tags/a", r#"{"group":"east"}"#, revision + 1);
        let mend = if key == "tags/a" { again } else { delete(key, revision + 1) };
        agent.events(100_000, &[mend]);
        assert_eq!((all(&mut agent, 100_000), agent.report().held), (Vec::new(), None));
    }
}

#[test]
fn two_sets_with_the_same_digests_lead_to_both_groups() {
    // Found by a search.
    let (one, other) = collision();
    let mut agent = started();
    agent.events(100, &[put(&format!("tags/{one}"), r#"{"group":"east"}"#, 21)]);
    assert_eq!(all(&mut agent, 100), ["+1 tags udp4://192.0.2.2:1"]);
    agent.events(200, &[put(&format!("tags/{other}"), r#"{"group":"west"}"#, 22)]);
    assert_eq!(all(&mut agent, 200), ["+1 tags udp4://192.0.2.1:1"]);
    agent.events(300, &[delete(&format!("tags/{one}"), 23)]);
    assert_eq!(all(&mut agent, 10_000), [""; 0], "the other one leads there, too");
    agent.events(10_000, &[delete(&format!("tags/{other}"), 24)]);
    assert_eq!(all(&mut agent, 10_000), [""; 0]);
    assert_eq!((all(&mut agent, 20_000).len(), agent.report().applied), (2, 24));
}

/// Two tags with one digest.
fn collision() -> (String, String) {
    let mut seen = HashMap::new();
    for number in 0_u32.. {
        let tag = format!("t{number}");
        let digest = byname_wire::TagDigest::of(tag.as_bytes());
        if let Some(before) = seen.insert(digest, tag.clone()) {
            return (before, tag);
        }
    }
    unreachable!("there are fewer digests than tags")
}

#[test]
fn rules_of_routing_are_those_of_the_node_and_then_those_of_all() {
    let mut agent = Agent::new(Options { takes_files: true, ..agent().options });
    agent.router_connected(0, Existing::default());
    agent.snapshot(0, 20, intent());
    assert_eq!(all(&mut agent, 0).last().map(String::as_str), Some("use "), "what it used before is not known");
    agent.events(100, &[put("policy", r#"{"rules":["announce permit prefix /a"]}"#, 21)]);
    assert_eq!(all(&mut agent, 100), ["use announce permit prefix /a"]);
    let denies = r#"{"rules":["announce deny prefix /a","prefer cost 2"]}"#;
    agent.events(200, &[put("policies/r1", denies, 22), put("policies/r2", denies, 22)]);
    assert_eq!(all(&mut agent, 200), ["use announce deny prefix /a prefer cost 2 announce permit prefix /a"]);
    assert_eq!(agent.report().applied, 22);
    // Damaged ones of this node and of all hold it, and those of others do not.
    agent.events(300, &[put("policies/r2", r#"{"rules":["deny all"]}"#, 23)]);
    assert_eq!((all(&mut agent, 300), agent.report().held), (Vec::new(), None));
    for key in ["policy", "policies/r1"] {
        agent.events(400, &[put(key, r#"{"rules":["deny all"]}"#, 24)]);
        assert_eq!(all(&mut agent, 400), [""; 0]);
        assert!(
            agent.report().held.is_some_and(|held| held.contains(key) && held.contains("announce, accept or prefer"))
        );
        agent.events(500, &[delete(key, 25)]);
        all(&mut agent, 500);
    }
    assert_eq!((agent.report().applied, agent.report().held), (25, None));
    assert_eq!(agent.used(), Some((&[][..], &[][..])));
    // Somebody has changed the settings.
    let routes = agent.routes.iter().flat_map(|(of, routes)| {
        let Subject::Routes(prefix) = of else { panic!("{of:?}") };
        routes.iter().map(|(uri, attributes)| (prefix.clone(), uri.clone(), *attributes))
    });
    let existing = Existing { routes: routes.collect(), settings_changed: true, ..Existing::default() };
    agent.compared(existing);
    assert_eq!((all(&mut agent, 600), agent.report().drift), (vec!["use ".to_owned()], 1));
}

#[test]
fn an_agent_that_writes_no_settings_says_so_and_makes_all_other_changes() {
    let mut agent = started();
    agent.events(100, &[put("policy", r#"{"rules":["announce permit prefix /a"]}"#, 21)]);
    assert_eq!(all(&mut agent, 100), [""; 0]);
    agent.events(200, &[put("routes/b", r#"{"group":"east","inherit":true,"capture":false}"#, 22)]);
    assert_eq!(all(&mut agent, 300), ["+/b udp4://192.0.2.2:1 7"]);
    let report = agent.report();
    assert!(report.failing == 1 && report.failure.is_some_and(|why| why.contains("--tables")) && report.added == 10);
    // It does not look again and again, and notices when the policy is gone.
    all(&mut agent, 10_000);
    assert!(agent.next_wake().is_some_and(|at| at > 10_000), "{:?}", agent.next_wake());
    agent.events(11_000, &[delete("policy", 23)]);
    assert_eq!((all(&mut agent, 11_000), agent.report().failing, agent.report().applied), (Vec::new(), 0, 23));
}

#[test]
fn intents_have_a_limit() {
    let options = Options { keys_max: 4, ..agent().options };
    let mut agent = Agent::new(options);
    agent.router_connected(0, Existing::default());
    agent.snapshot(0, 20, intent());
    assert_eq!(all(&mut agent, 0), [""; 0]);
    assert_eq!(agent.report().held.as_deref(), Some("the intent has more than 4 keys (see --keys-max)"));
}

mod tables {
    use super::*;
    use crate::table::Digest;
    use crate::table::content::State;
    use crate::table::delta::{Delta, RowChange};
    use crate::value::{TableHead, TableKind, Value};

    fn row(prefix: &str, group: Option<&str>) -> RowChange {
        let prefix: Name = prefix.parse().unwrap();
        let value = group.map(|group| format!(r#"{{"group":"{group}","inherit":true,"capture":false}}"#));
        (prefix.value().into(), value.map(|value| value.into_bytes().into()))
    }

    fn rows(of: &[(&str, &str)]) -> Rows {
        of.iter().map(|(prefix, group)| row(prefix, Some(group))).map(|(key, value)| (key, value.unwrap())).collect()
    }

    fn head(manifest: &str) -> TableHead {
        let (manifest, state) = (Digest::of(manifest.as_bytes()), Digest::of(b"first"));
        let kind = TableKind::Routes;
        TableHead { kind, flat: None, epoch: 1, manifest, base: 0, base_state: state, last: 0, state }
    }

    fn put_head(head: &TableHead, revision: i64) -> Event {
        put("tables/t/head", std::str::from_utf8(&head.encode()).unwrap(), revision)
    }

    fn put_delta(head: &mut TableHead, change: RowChange, revision: i64) -> Event {
        let (delta, state) = Delta::encode(head.epoch, head.state, &[change]).remove(0);
        (head.last, head.state) = (head.last + 1, state);
        let key = format!("/byname/main/want/tables/t/deltas/{:020}", head.last).into_bytes();
        Event { key, value: Some(delta), revision }
    }

    fn settled(revision: i64) -> Event {
        put("settled", &format!(r#"{{"revision":{revision}}}"#), revision + 1)
    }

    fn give(agent: &mut Agent, of: &[(&str, &str)]) {
        let [wanted] = &agent.wanted_tables()[..] else { panic!("nothing is wanted") };
        let wanted = wanted.clone();
        agent.table(0, &wanted, Ok(rows(of)));
    }

    #[test]
    fn tables_are_fetched_before_anything_changes() {
        let mut agent = started();
        let head = head("one");
        agent.events(0, &[put_head(&head, 21), delete("routes/a", 21), settled(21)]);
        assert_eq!(all(&mut agent, 100_000), [""; 0]);
        let report = agent.report();
        assert_eq!(report.held.as_deref(), Some("table t: its chunks are not here yet"));
        assert_eq!((report.seen, report.added), (21, 10));
        let state = State { epoch: 1, sequence: 0, digest: head.state };
        assert_eq!(agent.wanted_tables()[0].state, state);
        let wanted = agent.wanted_tables().remove(0);
        agent.table(0, &wanted, Err("nobody has it".to_owned()));
        assert_eq!(agent.report().held.as_deref(), Some("table t: nobody has it"));
        give(&mut agent, &[("/a", "east"), ("/t", "east")]);
        // /a is of the table now, and keeps one of its two routes.
        assert_eq!(
            all(&mut agent, 0),
            ["+/a udp4://192.0.2.2:1 7", "+/t udp4://192.0.2.2:1 7", "-/a udp4://192.0.2.1:1"]
        );
        assert_eq!((agent.report().applied, agent.report().tables["t"].rows), (21, 2));
        // A key of its own goes before the table. Without it, the table's row counts again.
        agent.events(0, &[put("routes/t", r#"{"group":"west","inherit":true,"capture":false}"#, 23), settled(23)]);
        assert_eq!(all(&mut agent, 0), ["+/t udp4://192.0.2.1:1 1", "+/t udp4://192.0.2.2:1 2"]);
        agent.events(0, &[delete("routes/t", 25), settled(25)]);
        assert_eq!(all(&mut agent, 0), ["+/t udp4://192.0.2.2:1 7", "-/t udp4://192.0.2.1:1"]);
        // A group changes its routes in tables, too.
        agent.events(0, &[put("links/r1/y", r#"{"uri":"udp4://192.0.2.9:1"}"#, 27), settled(27)]);
        assert_eq!(all(&mut agent, 0).len(), 4);
        agent.events(0, &[delete("tables/t/head", 29), settled(29)]);
        assert_eq!(all(&mut agent, 0), ["-/a udp4://192.0.2.9:1", "-/t udp4://192.0.2.9:1"]);
        assert_eq!(agent.report().tables.len(), 0);
    }

    #[test]
    fn deltas_and_other_manifests_of_a_state_need_no_chunks() {
        let mut agent = started();
        let mut head = head("one");
        agent.events(0, &[put_head(&head, 21), settled(21)]);
        give(&mut agent, &[("/t", "east")]);
        assert_eq!(all(&mut agent, 0), ["+/t udp4://192.0.2.2:1 7"]);
        let delta = put_delta(&mut head, row("/u", Some("east")), 23);
        agent.events(0, &[delta, put_head(&head, 23), settled(23)]);
        assert_eq!(all(&mut agent, 0), ["+/u udp4://192.0.2.2:1 7"]);
        // A new manifest with the delta in it, and one more delta.
        head = TableHead { manifest: Digest::of(b"two"), base: head.last, base_state: head.state, ..head };
        agent.events(0, &[put_head(&head, 25), delete("tables/t/deltas/00000000000000000001", 25)]);
        let delta = put_delta(&mut head, row("/t", None), 26);
        let all_keys = vec![delta.clone(), put_head(&head, 26)];
        agent.events(0, &[delta, put_head(&head, 26), settled(26)]);
        assert_eq!((all(&mut agent, 0), agent.wanted_tables()), (vec!["-/t udp4://192.0.2.2:1".to_owned()], vec![]));
        assert_eq!((agent.report().tables["t"].sequence, agent.report().applied), (2, 26));
        // After everything was read again, the rows are those that are here.
        agent.compacted();
        agent.snapshot(0, 30, [intent(), all_keys].concat());
        assert_eq!((all(&mut agent, 0), agent.wanted_tables()), (vec![], vec![]));
        assert_eq!((agent.report().applied, agent.report().tables["t"].rows), (26, 1));
    }

    #[test]
    fn a_missing_delta_or_one_of_another_history_is_held() {
        let mut agent = started();
        let mut head = head("one");
        agent.events(0, &[put_head(&head, 21), settled(21)]);
        give(&mut agent, &[("/t", "east")]);
        all(&mut agent, 0);
        // The delta does not come.
        let good = put_delta(&mut head, row("/u", Some("east")), 23);
        agent.events(0, &[put_head(&head, 23), settled(23)]);
        assert_eq!((all(&mut agent, 0), agent.wanted_tables().len()), (vec![], 1));
        give(&mut agent, &[("/t", "east")]);
        let missing = "table t: delta 1 of epoch 1 is missing, or is not the one that follows: load the table again";
        assert_eq!((agent.report().held.as_deref(), agent.wanted_tables().len()), (Some(missing), 0));
        // One with the right number, that follows another state.
        let mut other = TableHead { last: 0, state: Digest::of(b"other"), ..head.clone() };
        let wrong = put_delta(&mut other, row("/v", Some("east")), 24);
        agent.events(0, &[wrong, settled(24)]);
        give(&mut agent, &[("/t", "east")]);
        assert_eq!((all(&mut agent, 0), agent.report().held.as_deref()), (vec![], Some(missing)));
        agent.events(0, &[Event { revision: 26, ..good }, settled(26)]);
        assert_eq!((all(&mut agent, 0), agent.report().held), (vec!["+/u udp4://192.0.2.2:1 7".to_owned()], None));
        // Damaged ones, and rows that are none.
        let damaged = Event {
            key: b"/byname/main/want/tables/t/deltas/00000000000000000002".into(),
            value: Some(b"x".into()),
            revision: 28,
        };
        agent.events(0, &[damaged]);
        assert!(
            agent.report().held.unwrap().contains("deltas/00000000000000000002: a row of the table cannot be read")
        );
        agent.events(0, &[delete("tables/t/deltas/00000000000000000002", 29)]);
        let mut other = head.clone();
        let bad = (b"\x08\x09".to_vec().into_boxed_slice(), None);
        let delta = put_delta(&mut other, bad, 30);
        agent.events(0, &[delta]);
        assert!(agent.report().held.is_some_and(|held| held.contains("a row of the table cannot be read")));
    }

    #[test]
    fn tables_have_a_limit() {
        let mut agent = started();
        for number in 0..=crate::intent::TABLES_MAX {
            let value = String::from_utf8(head("one").encode()).unwrap();
            agent.events(0, &[put(&format!("tables/t{number}/head"), &value, 30 + number as i64)]);
        }
        assert!(agent.report().held.unwrap().starts_with("the intent has more than"));
    }
}

mod files {
    use byname_lookup::file::secret::{SECRET_BYTES, Secret};

    use super::*;
    use crate::table::Digest;
    use crate::value::{BuiltHead, FlatNames, TableKind, Value};

    const WEST: &str = "/localhost/byname/fleet/group/west";
    const EAST: &str = "/localhost/byname/fleet/group/east";

    fn started() -> Agent {
        let mut agent = agent();
        agent.options.takes_files = true;
        agent.router_connected(0, Existing::default());
        agent.snapshot(0, 20, intent());
        assert_eq!(all(&mut agent, 0).len(), 3, "two routes, and no files");
        assert_eq!(agent.report().applied, 10);
        agent
    }

    fn head(blocks: &str) -> BuiltHead {
        BuiltHead {
            kind: TableKind::Built,
            flat: None,
            epoch: 1,
            sequence: 2,
            state: Digest::of(b"state"),
            blocks: Digest::of(blocks.as_bytes()),
            patch: None,
            bytes: 1,
            rows: 9,
            secret: Secret::new([0; SECRET_BYTES]),
        }
    }

    fn built(table: &str, head: &BuiltHead, revision: i64) -> Event {
        put(&format!("built/{table}"), std::str::from_utf8(&head.encode()).unwrap(), revision)
    }

    fn name(table: &str, head: &BuiltHead) -> String {
        head.file_name(&table.parse().unwrap())
    }

    /// All files that are wanted are here.
    fn bring(agent: &mut Agent, now: u64) {
        for file in agent.wanted_files() {
            agent.file(now, &file, Ok(Kept::whole(file.name())));
        }
    }

    #[test]
    fn a_file_is_brought_then_its_groups_get_routes_and_then_it_is_used() {
        let mut agent = started();
        let (one, two) = (head("one"), head("two"));
        agent.events(0, &[built("world", &one, 21)]);
        assert_eq!(all(&mut agent, 0), [""; 0]);
        assert_eq!(agent.report().held.as_deref(), Some("table world: its file is not here yet"));
        let file = agent.wanted_files().remove(0);
        agent.file(0, &file, Err("nobody has it".to_owned()));
        assert_eq!(agent.report().held.as_deref(), Some("table world: nobody has it"));
        assert_eq!(agent.report().tables["world"].waits.as_deref(), Some("nobody has it"));
        bring(&mut agent, 0);
        let uses = format!("use {}", name("world", &one));
        let routes = [
            format!("+{EAST} udp4://192.0.2.2:1 7"),
            format!("+{WEST} udp4://192.0.2.1:1 1"),
            format!("+{WEST} udp4://192.0.2.2:1 2"),
        ];
        assert_eq!(all(&mut agent, 0), [&routes[..], &[uses]].concat());
        let report = agent.report();
        assert_eq!((report.applied, report.tables["world"].rows, report.tables["world"].sequence), (21, 9, 2));
        // A group that changes is one route, whatever the file has.
        agent.events(0, &[put("groups/east/r1", r#"{"nexthops":[{"link":"y","cost":8}]}"#, 23)]);
        assert_eq!(all(&mut agent, 0), [format!("+{EAST} udp4://192.0.2.2:1 8")]);
        // The next file.
        agent.events(0, &[built("world", &two, 25)]);
        assert_eq!(all(&mut agent, 0), [""; 0]);
        bring(&mut agent, 0);
        assert_eq!((all(&mut agent, 0), agent.report().applied), (vec![format!("use {}", name("world", &two))], 25));
        // All is read again: nothing changes.
        agent.compacted();
        agent.snapshot(0, 30, [intent(), vec![built("world", &two, 25)]].concat());
        assert_eq!(agent.wanted_files(), []);
        assert_eq!(all(&mut agent, 0), [format!("+{EAST} udp4://192.0.2.2:1 7")]);
        // The router was away: nobody knows which files it has.
        agent.router_lost();
        agent.router_connected(0, Existing::default());
        assert_eq!(all(&mut agent, 0).last(), Some(&format!("use {}", name("world", &two))));
        // The table is gone: first its rules, and then the routes of groups.
        agent.events(0, &[delete("built/world", 31), put("settled", r#"{"revision":31}"#, 32)]);
        let gone = all(&mut agent, 0);
        assert_eq!((&*gone[0], gone.len(), agent.report().applied), ("use ", 4, 31));
        assert!(gone[1..].iter().all(|change| change.starts_with("-/localhost/byname/fleet/group/")), "{gone:?}");
    }

    #[test]
    fn a_file_that_the_router_refuses_is_compared_again_and_tried_later() {
        let mut agent = started();
        agent.events(0, &[built("world", &head("one"), 21)]);
        bring(&mut agent, 0);
        let refuse = |agent: &mut Agent, now| {
            let mut refused = false;
            while let Some((ticket, change)) = agent.next_change(now) {
                let is_file = matches!(change, Change::UseFiles { .. });
                refused |= is_file;
                agent.done(now, ticket, if is_file { Err("damaged".to_owned()) } else { Ok(()) });
            }
            refused
        };
        assert!(refuse(&mut agent, 0));
        assert_eq!((agent.report().failing, agent.report().failure.as_deref()), (1, Some("damaged")));
        assert!(agent.report().applied < 21);
        // Its blocks are compared meanwhile, which is no reason to try at once.
        assert_eq!(agent.wanted_files().len(), 1);
        bring(&mut agent, 10);
        assert!(!refuse(&mut agent, 99), "too early");
        assert!(refuse(&mut agent, 100));
        bring(&mut agent, 110);
        // Another file is tried at once.
        agent.events(120, &[built("world", &head("two"), 23)]);
        bring(&mut agent, 120);
        assert_eq!(all(&mut agent, 120), [format!("use {}", name("world", &head("two")))]);
        assert_eq!((agent.report().applied, agent.report().failing), (23, 0));
    }

    #[test]
    fn a_file_waits_until_each_of_its_groups_has_a_way() {
        let mut agent = started();
        agent.events(0, &[built("world", &head("one"), 21)]);
        bring(&mut agent, 0);
        let mut made = Vec::new();
        while let Some((ticket, change)) = agent.next_change(0) {
            let refused = matches!(&change, Change::Register { prefix, .. } if prefix.to_string() == EAST);
            made.push(change);
            agent.done(0, ticket, if refused { Err("no face".to_owned()) } else { Ok(()) });
        }
        assert!(!made.iter().any(|change| matches!(change, Change::UseFiles { .. })), "{made:?}");
        assert!(agent.report().applied < 21);
        let later = all(&mut agent, 200);
        assert_eq!(later, [format!("+{EAST} udp4://192.0.2.2:1 7"), format!("use {}", name("world", &head("one")))]);
    }

    #[test]
    fn what_a_router_cannot_have_is_held() {
        let mut agent = started();
        let flat = |prefix: &str| {
            let flat = Some(FlatNames { prefix: prefix.to_owned(), check_bits: 0 });
            BuiltHead { kind: TableKind::Flat, flat, ..head("flat") }
        };
        agent.events(0, &[built("a", &head("one"), 21), built("o", &flat("/objects"), 21)]);
        bring(&mut agent, 0);
        let files = agent.intent.files();
        assert_eq!((files[0].flat.clone(), files[1].flat.clone()), (None, Some(("/objects".parse().unwrap(), true))));
        assert!(all(&mut agent, 0).last().unwrap().ends_with(".flat"));
        agent.events(0, &[built("b", &head("two"), 22)]);
        bring(&mut agent, 0);
        assert_eq!(all(&mut agent, 0), [""; 0]);
        assert!(agent.report().held.unwrap().ends_with("there are two: a and b"));
        agent.events(0, &[delete("built/b", 23)]);
        assert_eq!(agent.report().held, None);
        for number in 0..16 {
            agent.events(0, &[built(&format!("o{number}"), &flat(&format!("/o{number}")), 24)]);
        }
        assert!(agent.report().held.unwrap().contains("at most 16"));
        // An agent that brings no files says so.
        let mut other = super::started();
        other.events(0, &[built("a", &head("one"), 21)]);
        assert_eq!((all(&mut other, 0), other.wanted_files()), (vec![], vec![]));
        assert!(other.report().held.unwrap().contains("--tables"));
        other.events(0, &[delete("built/a", 22)]);
        assert_eq!(other.report().held, None);
    }
}
