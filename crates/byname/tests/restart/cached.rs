//! What the content store had before a restart, it has after it.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest, LpPacket, Name};

use super::common::Router;
use super::{Elements, network_packet, newest_face};

/// Names whose Data is cached: those with even numbers stay fresh for an hour.
const NAMES: u64 = 300;

fn name(n: u64) -> Name {
    "/cached".parse::<Name>().expect("a name").join_number(50, n)
}

/// A connection whose reads wait.
fn connect(router: &Router) -> Elements<UnixStream> {
    let stream = UnixStream::connect(router.socket()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    Elements { stream, bytes: Vec::new() }
}

/// Asks for Data of this number. `None` if nobody has it.
fn ask(consumer: &mut Elements<UnixStream>, n: u64, must_be_fresh: bool) -> Option<Vec<u8>> {
    use std::io::Write;
    let interest = InterestBuilder::new(name(n), n as u32).must_be_fresh(must_be_fresh).lifetime_ms(9_000);
    consumer.stream.write_all(&interest.encode()).expect("the connection stays");
    let frame = consumer.next().expect("an answer");
    let packet = LpPacket::decode(&frame).expect("a frame");
    let Some(_) = packet.nack else {
        let data = Data::decode(packet.fragment.expect("not idle")).expect("Data");
        assert_eq!(data.name.to_name(), name(n));
        return Some(data.content.to_vec());
    };
    None
}

fn content(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(1 + n as usize % 200)
}

/// Fills the content store with the Data of a producer, which then leaves.
fn fill(router: &Router) {
    let mut producer = connect(router);
    router.ok(&format!("route add /cached {}", newest_face(router, "fd://")));
    let mut consumer = connect(router);
    let producing = std::thread::spawn(move || {
        use std::io::Write;
        for n in 0..NAMES {
            let wire = producer.next().expect("an Interest");
            assert_eq!(Interest::decode(network_packet(&wire)).expect("an Interest").name.to_name(), name(n));
            let freshness_ms = if n % 2 == 0 { 3_600_000 } else { 0 };
            let data = DataBuilder::new(name(n)).freshness_ms(freshness_ms).content(content(n)).encode();
            producer.stream.write_all(&data).expect("the connection stays");
        }
    });
    (0..NAMES).for_each(|n| assert_eq!(ask(&mut consumer, n, false), Some(content(n))));
    producing.join().expect("it does not panic");
}

fn the_content_store_passes(threads: usize, more: &str) {
    let mut router = Router::start_with(&format!("[threads]\ncount = {threads}\n[tables]\n{more}"));
    fill(&router);
    let packets = |router: &Router| router.json("cs info")["entries"].as_u64().expect("a number");
    assert_eq!(packets(&router), NAMES);
    for round in 0..2 {
        let said = router.restart_by_command();
        assert!(said.contains(&format!("{NAMES} cached Data from process")), "{said}");
        assert!(!said.contains("Left behind"), "{said}");
        assert_eq!(packets(&router), NAMES, "round {round}");
    }
    let mut consumer = connect(&router);
    for n in 0..NAMES {
        assert_eq!(ask(&mut consumer, n, n % 2 == 0), Some(content(n)), "{n}");
    }
    assert_eq!(ask(&mut consumer, 1, true), None, "what was not fresh is not fresh");
    // A command that erases Data is not undone by a restart.
    router.ok("cs erase /cached");
    router.hand_over();
    assert_eq!(packets(&router), 0);
}

#[test]
fn cached_data_answers_after_a_restart() {
    the_content_store_passes(1, "");
}

#[test]
fn cached_data_finds_its_home_among_several_threads() {
    the_content_store_passes(3, "cs_policy = \"s3-fifo\"\n");
}

#[test]
fn a_smaller_content_store_takes_what_was_used_last_and_says_what_it_left() {
    let mut router = Router::start();
    fill(&router);
    // The command counts across restarts. The file has the default.
    router.ok("cs config --capacity 100");
    let said = router.restart_by_command();
    assert!(said.contains("and 100 cached Data"), "{said}");
    let config = router.path("byname.toml");
    let before = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, format!("{before}[tables]\ncs_bytes = \"64 KiB\"\n")).expect("written");
    let said = router.restart_by_command();
    let line = said.lines().find(|line| line.contains("Left behind")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("cached Data"), "{said}");
    let mut consumer = connect(&router);
    assert_eq!(ask(&mut consumer, NAMES - 1, false), Some(content(NAMES - 1)));
    router.ok("cs config --admit off");
    let said = router.restart_by_command();
    assert!(said.contains("and 0 cached Data"), "{said}");
}
