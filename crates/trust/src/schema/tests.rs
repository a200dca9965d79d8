//! Schemas compiled by python-ndn and ndnd, and the verdicts of python-ndn.

use byname_wire::Name;

use super::*;

const VECTORS: [(&str, &str, &[u8]); 4] = [
    // ndnd's dv/config, unchanged: commit 31822ab2ff5541b1dcf72bc9d546f2b5b6b804f7. MIT licence.
    ("dv", include_str!("vectors/dv.trust"), include_bytes!("vectors/dv.tlv")),
    ("blog", include_str!("vectors/blog.trust"), include_bytes!("vectors/blog.tlv")),
    ("alternatives", include_str!("vectors/alternatives.trust"), include_bytes!("vectors/alternatives.tlv")),
    ("functions", include_str!("vectors/functions.trust"), include_bytes!("vectors/functions.tlv")),
];

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn permits(schema: &Schema, packet: &str, certificate: &str) -> bool {
    schema.permits(name(packet).as_ref(), name(certificate).as_ref())
}

#[test]
fn texts_compile_to_the_same_bytes_as_elsewhere() {
    for (label, text, binary) in VECTORS {
        let compiled = Schema::compile(text).expect(label);
        let decoded = Schema::decode(binary).expect(label);
        assert_eq!(compiled, decoded, "{label}");
        assert_eq!(compiled.encode(), binary, "{label}");
    }
}

#[test]
fn verdicts_are_those_of_python_ndn() {
    let schemas = VECTORS.map(|(label, _, binary)| (label, Schema::decode(binary).expect(label)));
    let (mut yes, mut no) = (0, 0);
    for line in include_str!("vectors/checks.txt").lines().filter(|line| !line.starts_with('#')) {
        let [label, packet, certificate, verdict] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (_, schema) = schemas.iter().find(|(name, _)| *name == label).expect("a schema");
        assert_eq!(permits(schema, packet, certificate), verdict == "yes", "{line}");
        if verdict == "yes" {
            yes += 1;
            // A permitted certificate may be found by any part of its name that has the whole name of the key.
            let certificate = name(certificate);
            for depth in 0..3 {
                let locator = certificate.as_ref().prefix(certificate.as_ref().len() - depth);
                assert!(schema.may_permit(name(packet).as_ref(), locator), "{line} {depth}");
            }
        } else {
            no += 1;
        }
    }
    assert!(yes > 50 && no > 200, "{yes} {no}");
}

#[test]
fn a_locator_that_cannot_lead_to_a_signer_is_not_followed() {
    let schema = Schema::compile(VECTORS[0].1).expect("a schema");
    let may = |packet: &str, locator: &str| schema.may_permit(name(packet).as_ref(), name(locator).as_ref());
    let data = "/localhop/net10/r1/32=DV/32=ADV/v=1";
    assert!(may(data, "/net10/r1/32=DV/KEY/7"));
    for locator in ["/net10/r2/32=DV/KEY/7", "/net10/KEY/7", "/evil/r1/32=DV/KEY/7", "/net10/r1/32=DV/KEY/7/a/b/c", "/"]
    {
        assert!(!may(data, locator), "{locator}");
    }
    assert!(!may("/net10/KEY/1/self/v=1", "/net10/KEY/1"), "an anchor is signed by nobody");
}

#[test]
fn constraints_hold_at_every_place() {
    // The key's pattern has its value from the packet, and must still be "adm".
    let shared = Schema::compile("#data: \"d\"/x <= #key\n#key: \"k\"/x & { x: \"adm\" }").expect("a schema");
    assert!(permits(&shared, "/d/adm", "/k/adm"));
    assert!(!permits(&shared, "/d/bob", "/k/bob"));
    assert!(!permits(&shared, "/d/bob", "/k/adm"));
    // The rule stands twice in a name, each time with its own value.
    let twice = Schema::compile("#part: _c & { _c: \"p\" | \"q\" }\n#data: #part/#part <= #key\n#key: \"k\"")
        .expect("a schema");
    assert!(permits(&twice, "/p/q", "/k"));
    assert!(!permits(&twice, "/p/x", "/k"));
}

#[test]
fn errors_tell_the_line_and_the_rule() {
    for (text, expected) in [
        ("#a: \"x\"\n#b: /\"y\"/ <=", "line 2: expected a component"),
        ("#a \"x\"", "line 1: expected a colon after the rule, found \"x\""),
        ("#a: \"x\n\"", "line 1: expected the quote"),
        ("#a: \"x/y\"", "line 1: \"x/y\" is not a name component"),
        ("#a: ?", "line 1: expected a rule, a pattern or a text, found ?"),
        ("#a: b & { b: $other() }", "the function $other is not known"),
        ("#a: #b", "rule #a refers to rule #b, which does not exist"),
        ("#a: \"x\" <= #b", "rule #a refers to rule #b, which does not exist"),
        ("#_a: \"x\"\n#b: #_a", "rule #b refers to #_a"),
        ("#a: #b\n#b: #a", "circle: #a, #b"),
        ("#a: b & { c: \"x\" }", "rule #a has a constraint on c"),
        ("#z: c\n#a: b & { c: \"x\" }", "rule #a has a constraint on c"),
        ("#a: b/_c & { b: _c }", "rule #a: _c has no value"),
        ("#a: b & { b: \"x\" ", "line 1: expected } after the constraints, found the end of the file"),
    ] {
        let error = Schema::compile(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn schemas_that_explode_are_refused() {
    // Each rule doubles the number of chains.
    let mut text = "#r0: \"a\"\n#r0: \"b\"\n".to_owned();
    (1..40).for_each(|n| text += &format!("#r{n}: #r{}/\"x\"\n#r{n}: #r{}/\"y\"\n", n - 1, n - 1));
    assert!(matches!(Schema::compile(&text), Err(SchemaError::TooMany { .. })));
    let mut text = "#r0: \"a\"\n".to_owned();
    (1..40).for_each(|n| text += &format!("#r{n}: #r{}/#r{}\n", n - 1, n - 1));
    assert!(matches!(Schema::compile(&text), Err(SchemaError::TooMany { .. })));
    let rules: String = (0..5000).map(|n| format!("#r{n}: \"a\"\n")).collect();
    assert!(matches!(Schema::compile(&rules), Err(SchemaError::TooMany { .. })));
}

#[test]
fn malformed_binaries_are_refused() {
    let binary = VECTORS[1].2;
    for cut in 0..binary.len() {
        // Without its last symbols or nodes, a model may be whole. What is decoded must not panic.
        if let Ok(schema) = Schema::decode(&binary[..cut]) {
            permits(&schema, "/a/blog/KEY/1/self/v=1", "/a/blog/KEY/1/self/v=1");
        }
    }
    let edge = |to: usize| ValueEdge { to, value: vec![8, 1, b'a'] };
    let node = |parent, values| Node { parent, values, ..Node::default() };
    let schema = |nodes| Schema { start: 0, named_patterns: 0, nodes, symbols: Vec::new() }.encode();
    let malformed = |nodes| Schema::decode(&schema(nodes)).is_err();
    assert!(!malformed(vec![node(None, vec![edge(1)]), node(Some(0), vec![])]));
    assert!(malformed(vec![node(None, vec![edge(2)]), node(Some(0), vec![])]), "no such node");
    assert!(malformed(vec![node(None, vec![edge(1), edge(1)]), node(Some(0), vec![])]), "two edges to one node");
    assert!(malformed(vec![node(None, vec![edge(0)])]), "a circle");
    assert!(malformed(vec![node(Some(0), vec![])]), "a root with a parent");
    assert!(malformed(vec![]), "nothing");
    let deep = (0..300).map(|n: usize| node(n.checked_sub(1), if n < 299 { vec![edge(n + 1)] } else { vec![] }));
    assert!(malformed(deep.collect()), "a deep tree");
    // Nodes that no edge leads to may have any parents, and be named as signers.
    let mut circle =
        vec![node(None, vec![edge(1)]), node(Some(0), vec![]), node(Some(3), vec![]), node(Some(2), vec![])];
    circle[1].signers = vec![2];
    let schema = Schema::decode(&schema(circle)).expect("a schema");
    assert!(!schema.may_permit(name("/a").as_ref(), name("/a").as_ref()));
}
