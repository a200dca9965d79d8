//! What an operator sees: explanations and traces.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use common::{Router, assert_documented};
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;

fn items<'a>(object: &'a Value, key: &str) -> &'a Vec<Value> {
    object[key].as_array().unwrap_or_else(|| panic!("{key} in {object}"))
}

/// Starts a trace, and waits until it has begun.
fn begin(router: &Router, line: &str) -> Child {
    let mut command = router.command(line);
    let mut tracing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    let mut told = String::new();
    BufReader::new(tracing.stderr.take().expect("piped")).read_line(&mut told).expect("a line");
    assert!(told.starts_with("tracing packets below /"), "{told}");
    tracing
}

#[test]
fn route_get_explains_where_a_name_goes() {
    let router = Router::start();
    router.ok("route add / udp4://127.0.0.1:9 --cost 7");
    router.ok("route add /a udp4://127.0.0.1:10 --cost 5 --origin nlsr");
    router.ok("strategy set /a asf/v=5/max-timeouts~4");
    let explained = router.json("route get /a/b");
    assert_documented("explanation", &explained);
    assert_documented("route behind", &items(&explained, "routes")[0]);
    assert_documented("ranked nexthop", &items(&explained, "nexthops")[0]);
    assert_documented("stored", &explained["content_store"]);
    assert_eq!((explained["name"].as_str(), explained["rule"].as_str()), (Some("/a/b"), Some("/a")));
    assert_eq!((&explained["thread"], &explained["threads"]), (&0.into(), &1.into()));
    assert_eq!(explained["strategy"]["parameters"]["max-timeouts"], "4");
    let routes: Vec<_> =
        items(&explained, "routes").iter().map(|r| (r["prefix"].as_str(), r["origin"].as_str())).collect();
    assert_eq!(routes, [(Some("/a"), Some("nlsr")), (Some("/"), Some("static"))]);
    let nexthops: Vec<_> =
        items(&explained, "nexthops").iter().map(|n| (n["turn"].as_str(), n["remote_uri"].as_str())).collect();
    let expected = [("first", "udp4://127.0.0.1:10"), ("later", "udp4://127.0.0.1:9")];
    assert_eq!(nexthops, expected.map(|(turn, uri)| (Some(turn), Some(uri))));

    // A producer answers; then its round-trip time is known, and the content store has the Data.
    let _server = router.serve("ping-server /a", "/a/ping", b"");
    router.ok("ping /a -c 3 -i 1 -n 1");
    let explained = router.json("route get /a/ping/1");
    assert!(explained["nexthops"][0]["rtt_us"].as_u64().is_some(), "{explained}");
    assert_eq!(explained["content_store"]["stored"], true);
    let text = router.ok("route get /a/ping/1");
    for part in ["/a/ping/1\n", "rule     /a/ping\n", "RTT ", "strategy asf/v=5/max-timeouts", "store    has it: "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let nowhere = router.run("route get no-name");
    assert_eq!(nowhere.code, 2);
    assert_eq!(router.run(&format!("route get /{}", "x".repeat(2000))).code, 1);
}

#[test]
fn a_trace_tells_what_happens_to_packets() {
    for threads in [1, 2] {
        let router = Router::start_with(&format!("[threads]\ncount = {threads}\n"));
        let _server = router.serve("ping-server /a", "/a/ping", b"");
        let capture = router.path("trace.pcapng");
        let mut tracing = begin(&router, &format!("trace /a --json --count 6 --pcapng {}", capture.display()));
        router.ok("ping /a -c 3 -i 1");
        let lines = BufReader::new(tracing.stdout.take().expect("piped")).lines();
        let events: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).expect("JSON")).collect();
        assert!(tracing.wait().expect("wait").success());
        assert_eq!(events.len(), 6);
        let forwarded =
            events.iter().find(|e| e["subject"] == "interest" && e["store"] == "miss").expect("an Interest");
        assert_documented("trace event", forwarded);
        assert_eq!((&forwarded["pit"], &forwarded["rule"]), (&"new".into(), &"/a/ping".into()));
        assert_eq!(forwarded["why"], "cheapest nexthop");
        assert_eq!(forwarded["sent"][0]["subject"], "interest");
        assert!(forwarded["times_ns"]["fib"].as_u64().is_some(), "{forwarded}");
        let answered = events.iter().find(|e| e["subject"] == "data").expect("Data");
        assert_eq!((&answered["pit"], &answered["satisfied"]), (&"satisfied".into(), &1.into()));
        assert_eq!(answered["sent"][0]["face_id"], forwarded["face_id"]);

        let bytes = std::fs::read(&capture).expect("a capture");
        let mut reader = PcapNgReader::new(&bytes[..]).expect("pcapng");
        let (mut comments, mut frames) = (Vec::new(), 0);
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.expect("a block") else { continue };
            assert_eq!(&packet.data[12..14], [0x86, 0x24], "NDN in Ethernet");
            frames += 1;
            comments.push(format!("{:?}", packet.options));
        }
        assert_eq!(frames, 6);
        assert!(comments.iter().any(|comment| comment.contains("strategy=best-route")), "{comments:?}");
    }
}

#[test]
fn a_trace_tells_why_packets_are_dropped_and_ends_in_time() {
    let router = Router::start();
    let mut tracing = begin(&router, "trace / --dropped --for 2s");
    assert_eq!(router.run("peek /nowhere").code, 5);
    let mut lines = BufReader::new(tracing.stdout.take().expect("piped")).lines();
    let line = lines.next().expect("a line").expect("text");
    assert!(lines.next().is_none(), "nothing else was dropped");
    assert!(line.contains("interest /nowhere ") && line.contains("rule=no-rule"), "{line}");
    assert!(line.ends_with("dropped=refused"), "{line}");
    assert!(tracing.wait().expect("wait").success());
    assert_eq!(router.run("trace /a --count 0").code, 2);
    assert_eq!(router.run("trace a").code, 2);
}

#[test]
fn mini_ndn_gets_the_answers_that_it_reads() {
    // What minindn/helpers/nfdc.py sends, and how it takes the answers apart.
    let router = Router::start();
    let number = |answer: &str, word: usize, label: &str| -> u64 {
        let word = answer.split(' ').nth(word).and_then(|word| word.strip_prefix(label));
        word.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{label} in {answer}"))
    };
    let create = "face create udp://127.0.0.2 persistency persistent";
    let created = router.ok(create);
    assert!(created.starts_with("face-created "), "{created}");
    let face = number(&created, 1, "id=");
    let again = router.ok(create);
    assert!(again.starts_with("face-exists ") && number(&again, 1, "id=") == face, "{again}");
    assert_eq!(number(&router.ok("face list remote udp://127.0.0.2:6363"), 0, "faceid="), face);
    router.ok(&format!("route add /abc {face} origin 255 cost 10"));
    assert!(!router.ok("strategy set /abc ndn:/localhost/nfd/strategy/best-route").contains("error"));
    let batch = router.path("nfdc_helper.batch");
    let lines =
        format!("route add /more {face} origin 255 cost 20\nroute add /more/x udp://127.0.0.2 origin 255 cost 0");
    std::fs::write(&batch, lines).expect("written");
    router.ok(&format!("--batch {}", batch.display()));
    for (name, cost) in [("/abc", 10), ("/more", 20), ("/more/x", 0)] {
        let shown = router.ok(&format!("route show {name}"));
        assert!(shown.contains(&format!("nexthop={face} ")) && shown.contains(&format!("cost={cost} ")), "{shown}");
    }
    router.ok(&format!("route remove /abc {face} origin 255"));
    assert_ne!(router.run("route show /abc").code, 0);
    router.ok("strategy unset /abc");
    assert!(router.ok("face destroy udp://127.0.0.2").starts_with("face-destroyed "));
}
