//! Clients of peers that are no routers.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::interest;

/// A peer that does this with each connection. Returns its transport and the number of connections so far.
fn peer(folder: &tempfile::TempDir, serve: impl Fn(&mut UnixStream) + Send + 'static) -> (Transport, Arc<AtomicUsize>) {
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let count = Arc::new(AtomicUsize::new(0));
    let connections = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            connections.fetch_add(1, Ordering::Relaxed);
            serve(&mut stream.expect("a connection"));
        }
    });
    (Transport::Unix(path), count)
}

#[test]
fn a_peer_that_closes_each_connection_is_not_asked_ever_faster() {
    let folder = tempfile::tempdir().expect("a folder");
    let (transport, count) = peer(&folder, |_| ());
    let mut client = Client::connect(ClientOptions::new(vec![transport])).expect("a connection");
    client.run(Duration::from_millis(1500)).expect("it goes on");
    // Pauses of about 0.1, 0.2, 0.4 and 0.8 s.
    assert!((2..=7).contains(&count.load(Ordering::Relaxed)), "{count:?}");
    assert!(!client.session().is_connected() || !client.session().has_heard());
}

#[test]
fn a_peer_that_speaks_something_else_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (transport, _) = peer(&folder, |stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        std::thread::sleep(Duration::from_secs(1));
    });
    let options = ClientOptions { reconnect: None, ..ClientOptions::new(vec![transport]) };
    let mut client = Client::connect(options).expect("a connection");
    let name = "/a".parse().expect("a name");
    let error = client.express(&interest(&name), 1).expect_err("no Data");
    assert!(matches!(error, ExchangeError::Lost(_)), "{error}");
}

#[test]
fn a_flag_ends_all_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let (transport, _) = peer(&folder, |_| std::thread::sleep(Duration::from_secs(60)));
    let mut client = Client::connect(ClientOptions::new(vec![transport])).expect("a connection");
    let flag = client.interrupt_flag();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        flag.store(true, Ordering::Relaxed);
    });
    let name = "/a".parse().expect("a name");
    let error = client.express(&interest(&name), 1).expect_err("no Data");
    assert!(matches!(error, ExchangeError::Interrupted), "{error}");
    assert!(matches!(client.fetch(&name, 10), Err(crate::fetch::FetchError::NotFound { .. })));
}

#[test]
fn messages_that_nobody_takes_are_counted_when_they_are_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (transport, _) = peer(&folder, |stream| {
        let to = "1:05:256".parse().expect("an address");
        for number in 0..UNCLAIMED_MAX as u32 + 3 {
            let packet = byname_wire::tagnet::LocatorPacketBuilder::new(to).payload(&number.to_be_bytes()).encode();
            stream.write_all(&packet).expect("written");
        }
        std::thread::sleep(Duration::from_secs(60));
    });
    let mut client = Client::connect(ClientOptions::new(vec![transport])).expect("a connection");
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while client.counters().messages_dropped < 3 {
        assert!(std::time::Instant::now() < end, "{:?}", client.counters());
        client.run(Duration::from_millis(10)).expect("it goes on");
    }
    assert_eq!(client.counters(), ClientCounters { messages_dropped: 3, ..ClientCounters::default() });
    let messages = client.messages(Duration::ZERO).expect("a connection");
    assert_eq!((messages.len(), &messages[0].payload[..]), (UNCLAIMED_MAX, &3u32.to_be_bytes()[..]));
}
