//! Restarts of a router with many routes. The old process forwards until the new one has its FIB.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::common::Router;
use super::{consume_datagrams, from_environment, produce_datagrams};

/// Adds routes that no packet uses.
pub fn add_routes(router: &Router, count: u32) {
    let file = router.path("routes");
    let lines: String = (0..count).map(|n| format!("route add /many/{n} udp4://127.0.0.1:9\n")).collect();
    std::fs::write(&file, lines).expect("written");
    let done = router.run(&format!("-f {}", file.display()));
    assert_eq!(done.code, 0, "{}", done.stderr);
}

/// Time for which packets waited, as the command says.
fn standstill(said: &str) -> Duration {
    let line = said.lines().find(|line| line.contains("Taken over")).unwrap_or_else(|| panic!("{said}"));
    let ms = line.split(" after ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|ms| ms.parse::<f64>().ok());
    Duration::from_secs_f64(ms.unwrap_or_else(|| panic!("{said}")) / 1000.0)
}

/// `BYNAME_TEST_ROUTES` is the number of routes. The part of the restart in which packets wait must be small, in the
/// best of three: the rest is the time in which the new process builds its tables.
#[test]
fn packets_flow_while_the_new_process_builds_its_fib() {
    let count = from_environment("BYNAME_TEST_ROUTES", 30_000);
    let mut router = Router::start();
    add_routes(&router, count);
    let (done, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let producer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    router.ok(&format!("route add /udp udp4://{}", producer.local_addr().expect("bound")));
    let producing = produce_datagrams(producer, over.clone());
    let consumer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    consumer.connect((Ipv4Addr::LOCALHOST, router.port)).expect("an address");
    let asking = consume_datagrams(consumer, from_environment("BYNAME_TEST_RATE", 1_000), done.clone());
    let mut parts = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let said = router.restart_by_command();
        let took = began.elapsed();
        assert!(said.contains("routes and"), "{said}");
        println!("{count} routes: the restart took {took:?}; {}", said.trim());
        parts.push(standstill(&said).as_secs_f64() / took.as_secs_f64());
    }
    done.store(true, Ordering::SeqCst);
    let (sent, seen) = asking.join().expect("it does not panic");
    over.store(true, Ordering::SeqCst);
    producing.join().expect("it does not panic");
    println!("{sent} Interests, {} answers, longest gap {:?}", seen.answers, seen.longest_gap);
    let shown = router.json(&format!("route show /many/{}", count - 1));
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < 0.25, "packets waited for {parts:?} of the restarts");
}
