//! Tests of policy.

use super::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn rules_are_written_as_they_are_read() {
    for line in [
        "announce deny prefix /example/private",
        "announce permit",
        "accept deny exactly /a/b origin /net/r9",
        "accept permit prefix /video neighbour /net/r3",
        "prefer cost 5 neighbour /net/r3",
        "prefer cost 0 origin /net/r9 neighbour /net/r3",
    ] {
        assert_eq!(line.parse::<PolicyRule>().unwrap().to_string(), line);
    }
}

#[test]
fn both_spellings_are_read() {
    let rule: PolicyRule = "prefer cost 5 neighbor /net/r3".parse().unwrap();
    assert_eq!(rule.to_string(), "prefer cost 5 neighbour /net/r3");
}

#[test]
fn wrong_rules_say_what_is_wrong() {
    for (line, wrong) in [
        ("", "ends where announce, accept or prefer"),
        ("export deny", "\"export\""),
        ("announce", "ends where permit or deny"),
        ("announce never", "\"never\""),
        ("prefer permit", "needs cost"),
        ("prefer cost 16 neighbour /n/a", "a cost from 0 to 15"),
        ("prefer cost -1", "a cost from 0 to 15"),
        ("accept deny prefix", "ends where a name"),
        ("accept deny prefix a/b", "needs a name"),
        ("accept deny colour /blue", "prefix, exactly, origin or neighbour"),
        ("accept deny prefix /a exactly /a", "has exactly twice"),
        ("announce deny origin /n/a", "cannot have origin"),
        ("prefer cost 1 prefix /a", "cannot have prefix"),
    ] {
        let error = line.parse::<PolicyRule>().unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let policy = Policy::parse([
        "announce permit prefix /a/public",
        "announce deny prefix /a",
        "accept deny exactly /b",
        "accept deny prefix /c origin /n/r9",
        "accept deny prefix /c neighbour /n/r2",
        "prefer cost 3 neighbour /n/r2 origin /n/r9",
        "prefer cost 1 neighbour /n/r2",
    ])
    .unwrap();
    let announces = |uri| policy.announces(name(uri).as_ref());
    assert_eq!(announces("/a/public/x"), Ruling { verdict: Verdict::Permit, rule: Some(0) });
    assert_eq!(announces("/a/other"), Ruling { verdict: Verdict::Deny, rule: Some(1) });
    assert_eq!(announces("/z"), Ruling { verdict: Verdict::Permit, rule: None });

    let accepts = |uri, origin| policy.accepts(name(uri).as_ref(), name(origin).as_ref()).permits();
    assert!(!accepts("/b", "/n/r1") && accepts("/b/c", "/n/r1"));
    assert!(!accepts("/c/d", "/n/r9") && accepts("/c/d", "/n/r1"));
    let through = |neighbour| {
        policy.accepts_through(name("/c").as_ref(), name("/n/r1").as_ref(), name(neighbour).as_ref()).permits()
    };
    assert!(!through("/n/r2") && through("/n/r3"));

    let cost = |origin, neighbour| policy.added_cost(name(origin).as_ref(), name(neighbour).as_ref()).verdict;
    assert_eq!(cost("/n/r9", "/n/r2"), Verdict::Cost(3));
    assert_eq!(cost("/n/r1", "/n/r2"), Verdict::Cost(1));
    assert_eq!(cost("/n/r9", "/n/r3"), Verdict::Cost(0));
    assert!(policy.has_rules_for_ways() && !Policy::default().has_rules_for_ways());
}
