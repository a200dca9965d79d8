//! Tests of answers, and of the cost of misbehaving peers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use byname_control::metrics::Snapshot;

use crate::limits::Limits;
use crate::{Probes, Tell, WebServer};

const PATIENCE: Duration = Duration::from_secs(30);

/// Short limits, so that tests are short.
fn limits() -> Limits {
    let soon = Duration::from_millis(400);
    Limits { head_time: soon, write_time: soon, snapshot_time: soon, ..Limits::default() }
}

/// A process that lives, and is not ready.
fn probes() -> Probes {
    let ready = Box::new(|| Err("it starts".to_owned()));
    Probes { live: Box::new(|| Ok(())), ready, certificate: Some(Box::new(|| "{}\n".to_owned())) }
}

/// A server that gets its snapshots from `ask`.
fn serve(ask: impl Fn(Tell) -> bool + Send + Sync + 'static, limits: Limits) -> WebServer {
    WebServer::start_with(SocketAddr::from(([127, 0, 0, 1], 0)), None, ask, (probes(), None), limits)
        .expect("a free port")
}

/// A server whose snapshots say that there are seven routes.
fn server(limits: Limits) -> WebServer {
    serve(told_at_once, limits)
}

fn told_at_once(tell: Tell) -> bool {
    tell(snapshot());
    true
}

/// Behaves as if the control thread had ended.
fn told_never(tell: Tell) -> bool {
    drop(tell);
    true
}

fn snapshot() -> Snapshot {
    Snapshot { routes: 7, ..Snapshot::default() }
}

fn connect(server: &WebServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Everything that the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is reset has ended, too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

/// The answer to these bytes. The peer sends nothing else.
fn answer_to(server: &WebServer, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).expect("sent");
    rest(stream)
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n")
}

fn scrape(server: &WebServer) -> String {
    answer_to(server, &request("GET", "/metrics"))
}

#[test]
fn paths_and_methods() {
    let server = server(Limits::default());
    let metrics = scrape(&server);
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("\r\ncontent-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("\nbyname_routes 7\n") && !metrics.contains("# EOF"), "{metrics}");
    assert!(metrics.contains("\n# TYPE byname_cs_hits_total counter\nbyname_cs_hits_total 0\n"), "{metrics}");
    let request_with = |accept: &str| request("GET", "/metrics").replace("Host", &format!("Accept: {accept}\r\nHost"));
    let open = answer_to(&server, &request_with("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
    assert!(open.contains("\r\ncontent-type: application/openmetrics-text"), "{open}");
    assert!(open.contains("\nbyname_routes 7\n") && open.ends_with("# EOF\n"), "{open}");
    assert!(answer_to(&server, &request("GET", "/metrics?x=1")).contains("byname_routes 7"));
    assert!(answer_to(&server, &request("GET", "/")).ends_with("metrics are at /metrics\n"));
    assert!(answer_to(&server, &request("GET", "/other")).starts_with("HTTP/1.1 404"));
    assert!(answer_to(&server, &request("GET", "/metrics/../etc/passwd")).starts_with("HTTP/1.1 404"));
    let post = answer_to(&server, &request("POST", "/metrics"));
    assert!(post.starts_with("HTTP/1.1 405") && post.contains("allow: GET, HEAD"), "{post}");
    let head = answer_to(&server, &request("HEAD", "/metrics"));
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-length: "), "{head}");
}

#[test]
fn a_connection_serves_many_requests_and_a_busy_port_is_an_error() {
    let server = server(Limits::default());
    let many = "GET /metrics HTTP/1.1\r\nHost: router\r\n\r\n".repeat(3) + &request("GET", "/");
    assert_eq!(answer_to(&server, &many).matches("HTTP/1.1 200 OK").count(), 4);
    let busy = WebServer::start(server.address(), |_| false, probes());
    assert_eq!(busy.err().expect("the port is taken").address, server.address());
}

#[test]
fn requests_that_make_no_sense_end_their_connection() {
    let server = server(Limits::default());
    assert!(answer_to(&server, "GET / HTTP/1.1\r\n\r\nrubbish\r\n\r\n").contains("HTTP/1.1 400"));
    assert!(answer_to(&server, "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n").starts_with("HTTP/1.1 400"));
    let long = "x".repeat(Limits::default().head_bytes_max);
    assert!(answer_to(&server, &request("GET", &format!("/{long}"))).starts_with("HTTP/1.1 4"));
    let fields: String = (0..100).map(|n| format!("x{n}: y\r\n")).collect();
    assert!(answer_to(&server, &format!("GET / HTTP/1.1\r\n{fields}\r\n")).starts_with("HTTP/1.1 431"));
    let body = "GET /metrics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n";
    assert!(answer_to(&server, body).starts_with("HTTP/1.1 413"));
    let chunked = "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n";
    assert!(answer_to(&server, chunked).starts_with("HTTP/1.1 405"));
    assert!(scrape(&server).contains("byname_routes 7"));
}

/// Sends without end. Returns the number of bytes accepted before the connection ended.
fn flood(mut stream: TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    let mut taken = 0;
    while let Ok(n) = stream.write(bytes) {
        taken += n;
        assert!(taken < 64 << 20, "the connection does not end");
    }
    taken
}

#[test]
fn an_endless_head_ends_its_connection() {
    let server = server(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ").expect("sent");
    flood(stream, &[b'y'; 4096]);
    let mut stream = connect(&server);
    stream.write_all(b"GET /").expect("sent");
    flood(stream, &[b'z'; 4096]);
}

#[test]
fn a_head_that_does_not_come_and_an_idle_connection_end_in_time() {
    let server = server(limits());
    let begun = Instant::now();
    let mut half = connect(&server);
    half.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").expect("sent");
    let silent = connect(&server);
    let mut idle = connect(&server);
    idle.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(!rest(half).contains("200 OK"));
    assert_eq!(rest(silent), "");
    assert!(rest(idle).starts_with("HTTP/1.1 200 OK"));
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_byte_now_and_then_does_not_prolong_a_head() {
    let server = server(limits());
    let mut stream = connect(&server);
    stream.set_nodelay(true).expect("set");
    let begun = Instant::now();
    while stream.write_all(b"G").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
        assert!(begun.elapsed() < PATIENCE, "the connection does not end");
    }
}

#[test]
fn a_peer_that_does_not_read_loses_its_connection() {
    // The answers are larger than the system's buffers.
    let long = |tell: Tell| {
        tell(Snapshot { refusals: vec![("reason", 1); 200_000], ..snapshot() });
        true
    };
    let server = serve(long, limits());
    let mut stream = connect(&server);
    stream.write_all("GET /metrics HTTP/1.1\r\n\r\n".repeat(4).as_bytes()).expect("sent");
    // While it cannot write, the server does not read, either. This write therefore fails when the server closes the
    // connection.
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    let error = loop {
        if let Err(error) = stream.write_all(&[b'\n'; 4096]) {
            break error;
        }
    };
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error}");
    assert!(scrape(&server).contains("byname_routes 7"));
}

#[test]
fn many_half_requests_take_no_place_from_others() {
    let server = server(Limits::default());
    let half = |_| {
        let mut stream = connect(&server);
        // Earlier connections may be closed at once.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
        stream
    };
    let mut halves: Vec<TcpStream> = (0..300).map(half).collect();
    for _ in 0..10 {
        assert!(scrape(&server).contains("byname_routes 7"));
        halves.extend((0..10).map(half));
    }
    // The oldest has lost its place. The youngest can continue.
    assert_eq!(rest(halves.remove(0)), "");
    let mut youngest = halves.pop().expect("there are many");
    youngest.write_all(b"Connection: close\r\n\r\n").expect("sent");
    assert!(rest(youngest).contains("byname_routes 7"));
}

#[test]
fn who_scrapes_at_the_same_time_shares_snapshots() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let slowly = move |tell: Tell| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            tell(snapshot());
        });
        true
    };
    let server = serve(slowly, Limits::default());
    let streams: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(request("GET", "/metrics").as_bytes()).expect("sent");
            stream
        })
        .collect();
    assert!(streams.into_iter().all(|stream| rest(stream).contains("byname_routes 7")));
    // One snapshot for the first request, and one for all that arrived meanwhile. Some requests may arrive later still.
    assert!(taken.load(Ordering::Relaxed) < 10, "{taken:?} snapshots");
}

#[test]
fn an_answer_is_no_older_than_its_request() {
    let routes = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&routes);
    let count = move |tell: Tell| {
        tell(Snapshot { routes: told.load(Ordering::Relaxed) as u64, ..Snapshot::default() });
        true
    };
    let server = serve(count, Limits::default());
    for n in 1..5 {
        routes.store(n, Ordering::Relaxed);
        assert!(scrape(&server).contains(&format!("\nbyname_routes {n}\n")));
    }
}

#[test]
fn a_router_that_does_not_answer_is_said_not_to() {
    let busy = serve(|_| false, limits());
    let answer = scrape(&busy);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("management is busy"), "{answer}");
    let ended = serve(told_never, limits());
    assert!(scrape(&ended).contains("management does not answer"));
    let kept = std::sync::Mutex::new(Vec::new());
    let silent = serve(
        move |tell| {
            kept.lock().expect("no panic").push(tell);
            true
        },
        limits(),
    );
    let mut waiting = connect(&silent);
    waiting.write_all(request("GET", "/metrics").as_bytes()).expect("sent");
    assert!(answer_to(&silent, &request("GET", "/")).starts_with("HTTP/1.1 200"), "others are served meanwhile");
    assert!(rest(waiting).contains("management does not answer"));
}

#[test]
fn the_end_closes_connections_and_frees_the_port() {
    let server = server(Limits::default());
    let idle = connect(&server);
    let mut half = connect(&server);
    half.write_all(b"GET /").expect("sent");
    scrape(&server);
    let (address, begun) = (server.address(), Instant::now());
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(rest(idle), "");
    assert_eq!(rest(half), "");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn supervisors_are_answered() {
    // They need no snapshot.
    let server = serve(told_never, limits());
    let live = answer_to(&server, &request("GET", "/livez"));
    assert!(live.starts_with("HTTP/1.1 200 ") && live.ends_with("\r\n\r\nok\n"), "{live}");
    let ready = answer_to(&server, &request("GET", "/readyz"));
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("\r\n\r\nit starts\n"), "{ready}");
}

#[test]
fn the_certificate_is_told() {
    let server = serve(told_never, limits());
    let told = answer_to(&server, &request("GET", "/certificate"));
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("application/json"), "{told}");
    assert!(told.ends_with("\r\n\r\n{}\n"), "{told}");

    let without = Probes { certificate: None, ..probes() };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = WebServer::start_with(address, None, told_never, (without, None), limits()).expect("a free port");
    assert!(answer_to(&server, &request("GET", "/certificate")).starts_with("HTTP/1.1 404 "));
}
