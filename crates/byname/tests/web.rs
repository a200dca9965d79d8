//! The costs of peers of the metrics port that misbehave.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Router, free_port};

const PATIENCE: Duration = Duration::from_secs(30);

/// A router, and its port for metrics.
struct Served {
    router: Router,
    port: u16,
}

impl Served {
    fn start(descriptors: usize) -> Served {
        let port = free_port();
        let metrics = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
        Served { router: Router::start_with_descriptors(descriptors, &metrics), port }
    }

    fn log(&self) -> String {
        self.router.log()
    }
}

fn connect(router: &Served) -> TcpStream {
    let deadline = Instant::now() + PATIENCE;
    // The Unix socket listens a little before the metrics port.
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", router.port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}: {}", router.log()),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// One scrape. Empty if the connection ends before the answer.
fn scrape(router: &Served) -> String {
    let mut stream = connect(router);
    let mut answer = Vec::new();
    let sent = stream.write_all(
        b"GET /metrics HTTP/1.1\r\nHost: router\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n",
    );
    let _ = sent.and_then(|()| stream.read_to_end(&mut answer));
    String::from_utf8(answer).expect("text")
}

/// A number in /proc/PID/status.
fn of_status(router: &Served, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", router.router.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(field)).expect("such a line");
    line.split_whitespace().nth(1).expect("a value").parse().expect("a number")
}

#[test]
fn a_thousand_half_requests_cost_no_thread_and_nobody_waits_for_them() {
    let router = Served::start(4096);
    assert!(scrape(&router).contains("# EOF"));
    let threads = of_status(&router, "Threads:");
    let half = |_| {
        let mut stream = connect(&router);
        // The router may have closed the first connections already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
        stream
    };
    let halves: Vec<TcpStream> = (0..1000).map(half).collect();
    let begun = Instant::now();
    assert!(scrape(&router).contains("# EOF"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(of_status(&router, "Threads:"), threads);
    drop(halves);
}

#[test]
fn an_endless_head_takes_no_memory() {
    let router = Served::start(4096);
    assert!(scrape(&router).contains("# EOF"));
    let before_kib = of_status(&router, "VmRSS:");
    let mut stream = connect(&router);
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    let mut sent = stream.write(b"GET /metrics HTTP/1.1\r\nx: ");
    let mut taken = 0;
    while let Ok(n) = sent {
        taken += n;
        if taken > 64 << 20 {
            break;
        }
        sent = stream.write(&[b'y'; 65_536]);
    }
    let grown_kib = of_status(&router, "VmRSS:").saturating_sub(before_kib);
    assert!(sent.is_err() && grown_kib < 8 << 10, "{taken} bytes were taken, memory grew by {grown_kib} KiB");
    assert!(scrape(&router).contains("# EOF"));
}

#[test]
fn metrics_come_back_after_all_descriptors_were_taken() {
    let router = Served::start(48);
    assert!(scrape(&router).contains("# EOF"));
    let idle: Vec<TcpStream> = (0..200).map(|_| connect(&router)).collect();
    let deadline = Instant::now() + PATIENCE;
    while !router.log().contains("cannot accept connections for HTTP") {
        assert!(Instant::now() < deadline, "there were descriptors enough: {}", router.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(idle);
    while !scrape(&router).contains("# EOF") {
        assert!(Instant::now() < deadline, "no metrics: {}", router.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!router.log().contains("panic"), "{}", router.log());
}
