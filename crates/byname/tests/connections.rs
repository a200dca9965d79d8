//! Many connections and few descriptors: management, metrics and new clients are still served.

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use common::*;

/// Opens idle connections. The router may close some of them.
fn crowd(router: &Router, connections: usize) -> Vec<TcpStream> {
    (0..connections)
        .map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, router.port)).expect("the backlog has room"))
        .collect()
}

fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("metrics listen");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Whether a client gets an answer within a few seconds. A connection counts as idle after one second.
fn is_served(transport: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    std::iter::repeat_with(|| finish(command_at(transport, "status")))
        .take_while(|_| Instant::now() < deadline)
        .any(|done| done.code == 0)
}

#[test]
fn idle_connections_take_neither_management_nor_metrics() {
    [1, 2, 3].into_iter().for_each(idle_connections_yield);
}

fn idle_connections_yield(threads: usize) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let router = Router::start_with_descriptors(
        200,
        &format!("[metrics]\nlisten = \"{address}\"\n[threads]\ncount = {threads}\npin = false\n"),
    );
    let idle = crowd(&router, 400);
    // They answer at once, although peers hold all descriptors that peers may have.
    for _ in 0..3 {
        router.ok("status");
        assert!(metrics(address).starts_with("HTTP/1.1 200"));
    }
    // Over TCP, too, idle connections yield to new ones.
    assert!(is_served(&format!("tcp://127.0.0.1:{}", router.port)));
    let answer = metrics(address);
    assert!(answer.contains("tcp_idle_yielded") && answer.contains("tcp_port_full"), "{answer}");

    // The same on Unix sockets.
    let applications: Vec<_> = (0..400).filter_map(|_| UnixStream::connect(router.socket()).ok()).collect();
    assert!(is_served(&router.transport()));
    assert!(metrics(address).starts_with("HTTP/1.1 200"));
    drop((idle, applications));
    assert!(is_served(&format!("tcp://127.0.0.1:{}", router.port)));
}

#[test]
fn accepting_survives_the_end_of_descriptors() {
    // With so few descriptors, the router's own files use up the ones that it reserves.
    let router = Router::start_with_descriptors(36, "");
    let idle = crowd(&router, 60);
    let applications: Vec<_> = (0..60).filter_map(|_| UnixStream::connect(router.socket()).ok()).collect();
    std::thread::sleep(Duration::from_millis(500));
    drop((idle, applications));
    assert!(is_served(&router.transport()));
    assert!(is_served(&format!("tcp://127.0.0.1:{}", router.port)));
    let status = router.ok("status --json");
    assert!(status.contains("accept_failed"), "the test must have come to the end of descriptors: {status}");
}
