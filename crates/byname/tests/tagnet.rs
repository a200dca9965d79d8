//! Packets by tags and by locator between processes: the demonstrations, and `byname trees`.

mod common;

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use byname_control::mgmt::tlv::{ControlResponse, Element};
use byname_control::security::Signer;
use byname_control::tags::message::{DescriptorList, Update, decode_session};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Descriptor, LpPacket, TreeId};
use common::Router;

fn byname(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_byname")).args(args).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code().expect("no signal"), text(stdout), text(stderr))
}

/// Runs a demonstration with 0, 1 and 2 forwarding threads.
fn demo(name: &str, check: impl Fn(&str)) {
    for threads in ["1", "2", "3"] {
        let (code, told, errors) = byname(&["demo", name, "--threads", threads]);
        assert!(code == 0 && errors.is_empty(), "{threads} threads: {told}{errors}");
        assert!(told.lines().last().is_some_and(|line| line.ends_with(" Data came by name, none missing.")), "{told}");
        check(&told);
    }
}

#[test]
fn a_player_pulls_a_song_by_tags_and_then_by_locator() {
    demo("pull", |told| {
        assert!(told.contains("The player has the complete song, 256000 bytes."), "{told}");
        let served = told.lines().find_map(|line| line.strip_prefix("The server answered ")).expect("it counts");
        let numbers: Vec<u32> = served.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [requests, by_tags] = numbers[..] else { panic!("{served}") };
        // A request may be repeated, but by tags only the first one.
        assert!(by_tags >= 1 && requests - by_tags >= 63, "{served}");
    });
}

#[test]
fn news_is_pushed_to_those_who_asked_for_it() {
    demo("push", |told| {
        let lines = |line: &str| told.lines().filter(|told| *told == line).count();
        for name in ["Clara", "Robert"] {
            assert_eq!(lines(&format!("  {name} hears: Beethoven's ninth, tonight at eight")), 1, "{told}");
        }
        assert_eq!(lines("  Robert hears: and the tenth, tomorrow"), 1, "{told}");
        assert!(!told.contains("Billie hears:") && lines("  Clara hears: and the tenth, tomorrow") == 0, "{told}");
    });
}

#[test]
fn trees_are_shown_and_a_router_is_told_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("network.txt");
    std::fs::write(&graph, "a b\nb c\nb d\n").expect("written");
    let graph = graph.to_str().expect("text");
    let (code, told, errors) = byname(&["trees", "--graph", graph, "--root", "a", "--root", "d"]);
    assert_eq!((code, told.lines().count()), (0, 9), "{told}{errors}");
    let (code, told, _) = byname(&["--json", "trees", "--graph", graph, "--root", "a", "--root", "d"]);
    let places: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((code, places.as_array().map(Vec::len)), (0, Some(8)), "{places}");
    common::assert_documented("place", &places[0]);
    let (code, told, _) = byname(&["trees", "--graph", graph, "--root", "a", "--node", "b", "--json"]);
    let places: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let neighbors = serde_json::json!(["a", "c", "d"]);
    assert_eq!((code, &places[0]["node"], &places[0]["neighbors"]), (0, &"b".into(), &neighbors), "{places}");
    let (code, told, _) = byname(&["trees", "--graph", graph, "--root", "a", "--node", "b"]);
    assert_eq!(code, 0, "{told}");
    std::fs::write(folder.path().join("secret"), "sixteen bytes or more").expect("written");
    let addresses = told.replace("ADDRESS", "192.0.2.1").replace("FILE", "secret");
    let config = folder.path().join("byname.toml");
    std::fs::write(&config, addresses).expect("written");
    let (code, told, errors) = byname(&["check", config.to_str().expect("text")]);
    assert_eq!(code, 0, "{told}{errors}");
    let (code, _, errors) = byname(&["trees", "--graph", graph, "--root", "zurich"]);
    assert!(code == 2 && errors.contains("0 nodes named \"zurich\""), "{code} {errors}");
}

/// Sends an update as the router at the other end of a tree's edge. Returns the code of the answer, and the router's
/// Session.
fn tell(socket: &UdpSocket, signer: &Signer, [session, sequence, echo]: [u64; 3]) -> (u64, Option<u64>) {
    let mut descriptors = DescriptorList::default();
    assert!(descriptors.push(&Descriptor::of(["a tag"]).expect("one tag")));
    let update = Update::encode(TreeId(1), session, sequence, echo, &descriptors, &DescriptorList::default());
    let command = "/localhop/nfd/tags/update".parse().expect("a name");
    let interest = InterestBuilder::new(command, rand::random()).must_be_fresh(true).application_parameters(update);
    let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let wire = signer.sign_command(&interest, unix_ms).expect("signed");
    socket.send(&wire).expect("sent");
    let name = byname_wire::Interest::decode(&wire).expect("an Interest").name;
    loop {
        let mut frame = [0; 9000];
        let len = socket.recv(&mut frame).expect("an answer");
        let packet = match LpPacket::decode(&frame[..len]) {
            Ok(packet) => packet.fragment.unwrap_or_default(),
            Err(_) => &frame[..len],
        };
        // The router also sends updates of its own.
        let Ok(data) = Data::decode(packet) else { continue };
        if data.name == name {
            let response = ControlResponse::decode(data.content).expect("a response");
            return (response.code, decode_session(&response.body).ok());
        }
    }
}

#[test]
fn a_neighbour_is_believed_by_its_key_and_not_by_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, secret) = (folder.path().join("network.txt"), folder.path().join("secret"));
    std::fs::write(&graph, "a b\n").expect("written");
    std::fs::write(&secret, "a secret of two routers").expect("written");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let here = socket.local_addr().expect("bound");
    let router = Router::start_with(&format!(
        "[tags]\ngraph = {graph:?}\nnode = \"a\"\n[[tags.tree]]\nid = 1\nroot = \"a\"\n\
         [[tags.neighbor]]\nnode = \"b\"\nface = \"udp4://{here}\"\nhmac_key = \"/net\"\nhmac_secret_file = {secret:?}\n"
    ));
    socket.connect(("127.0.0.1", router.port)).expect("connected");
    let descriptors = || router.json("status")["general"]["descriptors"].as_u64();
    let name: byname_wire::Name = "/net".parse().expect("a name");
    let forgers = [Signer::digest(), Signer::hmac(name.clone(), b"another secret of two routers")];
    for forger in &forgers {
        assert_eq!(tell(&socket, forger, [u64::MAX, 1, 0]), (403, None));
    }
    assert_eq!(descriptors(), Some(0));
    let neighbour = Signer::hmac(name, b"a secret of two routers");
    let (code, session) = tell(&socket, &neighbour, [7, 1, 0]);
    assert_eq!((code, descriptors()), (409, Some(0)), "it could be a recorded one");
    let echo = session.expect("a session to echo");
    assert_eq!(tell(&socket, &neighbour, [8, 1, echo]), (200, session));
    assert_eq!(descriptors(), Some(1));
}
