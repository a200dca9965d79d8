//! What a browser needs of the network: a page that links all routers, and ways to the HTTP ports of routers in
//! namespaces.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::folder::Record;

/// How long a browser may take to ask, and to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a question.
const QUESTION_MAX: usize = 8192;
/// Most connections of one router at a time. Further ones are closed.
const CONNECTIONS_MAX: usize = 32;
/// Stack of a thread that copies bytes.
const STACK_BYTES: usize = 128 << 10;

/// Opens a port on the loopback interface.
pub fn listen() -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a port for HTTP")
}

/// Answers every question with the page. The thread ends with the process.
pub fn serve(listener: TcpListener, record: &Record, title: &str) -> anyhow::Result<()> {
    let page = page(record, title);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n{page}",
        page.len()
    );
    start("page", move || {
        for connection in listener.incoming().flatten() {
            // A browser that goes away gets nothing.
            let _ = answer_one(connection, answer.as_bytes());
        }
    })
}

fn answer_one(mut connection: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let (mut question, mut part) = (Vec::new(), [0; 1024]);
    while !question.windows(4).any(|end| end == b"\r\n\r\n") && question.len() < QUESTION_MAX {
        match connection.read(&mut part)? {
            0 => return Ok(()),
            len => question.extend_from_slice(&part[..len]),
        }
    }
    connection.write_all(answer)
}

/// The page. All texts in it are plain: `topology` lets nothing else into labels.
fn page(record: &Record, title: &str) -> String {
    let row = |router: &super::folder::Entry| {
        let (name, label, http) = (&router.name, &router.label, &router.http);
        format!(
            "<tr><td><b>{name}</b></td><td>{label}</td><td><a href=\"{http}/\">{http}</a></td>\
             <td><a href=\"{http}/metrics\">metrics</a></td><td><code>byname demo net shell {name}</code></td></tr>\n"
        )
    };
    let rows: String = record.routers.iter().map(row).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>:root{{color-scheme:light dark}}body{{font-family:sans-serif;margin:2em}}td{{padding:.2em 1em .2em 0}}\
         </style>\n<h1>{title}</h1>\n<table>\n{rows}</table>\n\
         <p>Each router answers pings: <code>byname demo net shell r1 -- byname ping /net/r2</code>.\n</html>\n"
    )
}

/// Passes connections to a port on to the same port in a namespace, which this process keeps open.
pub fn pass_on(listener: TcpListener, namespace: u32) -> anyhow::Result<()> {
    let port = listener.local_addr()?.port();
    let namespace = File::open(format!("/proc/{namespace}/ns/net")).context("cannot open the namespace")?;
    start("pass-on", move || {
        // The listener stays in the namespace that it was opened in. What this thread opens from now on is in the other.
        if let Err(error) = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)) {
            tracing::warn!(%error, "no way to the HTTP port of a router");
            return;
        }
        let open = Arc::new(AtomicUsize::new(0));
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), PATIENCE) else { continue };
            if open.load(Ordering::Relaxed) < CONNECTIONS_MAX {
                // If there is no thread for it, the connection is closed.
                let _ = join(near, far, &open);
            }
        }
    })
}

/// Copies bytes in both directions until both are at their end.
fn join(near: TcpStream, far: TcpStream, open: &Arc<AtomicUsize>) -> anyhow::Result<()> {
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        let counted = Counted::new(open);
        start("copy", move || {
            copy(&from, &to);
            drop(counted);
        })?;
    }
    Ok(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut part = [0; 8192];
    loop {
        match from.read(&mut part) {
            Ok(len @ 1..) if to.write_all(&part[..len]).is_ok() => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    // The other side may be gone already.
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

/// Half a connection that is open.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Counted {
        open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::net::folder::Entry;

    fn record() -> Record {
        let entry = |name: &str| Entry {
            name: name.into(),
            label: "Zurich".into(),
            socket: "/tmp/r.sock".into(),
            http: "http://127.0.0.1:4711".into(),
            namespace: None,
        };
        Record { process: 1, page: String::new(), routers: vec![entry("r1"), entry("r2")] }
    }

    #[test]
    fn the_page_links_all_routers_and_slow_browsers_do_not_keep_it() {
        let listener = listen().expect("a port");
        let address = listener.local_addr().expect("an address");
        serve(listener, &record(), "Two routers").expect("a thread");
        let _silent = TcpStream::connect(address).expect("connected");
        let mut browser = TcpStream::connect(address).expect("connected");
        browser.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
        let mut answer = String::new();
        browser.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        for part in ["<h1>Two routers</h1>", "<b>r2</b>", "http://127.0.0.1:4711/metrics", "byname demo net shell r1"] {
            assert!(answer.contains(part), "{part} in {answer}");
        }
    }

    #[test]
    fn connections_are_copied_both_ways_until_their_end() {
        let (inner, outer) = (listen().expect("a port"), listen().expect("a port"));
        let (to_inner, to_outer) = (inner.local_addr().expect("one"), outer.local_addr().expect("one"));
        let server = std::thread::spawn(move || {
            let (mut connection, _) = inner.accept().expect("one comes");
            let mut question = Vec::new();
            connection.read_to_end(&mut question).expect("its end");
            connection.write_all(&question.repeat(3)).expect("written");
        });
        let open = Arc::new(AtomicUsize::new(0));
        let mut client = TcpStream::connect(to_outer).expect("connected");
        let (near, _) = outer.accept().expect("one comes");
        join(near, TcpStream::connect(to_inner).expect("connected"), &open).expect("threads");
        client.write_all(&[7; 100_000]).expect("written");
        client.shutdown(Shutdown::Write).expect("open");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("its end");
        server.join().expect("no panic");
        assert_eq!(answer.len(), 300_000);
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while open.load(Ordering::Relaxed) > 0 {
            assert!(std::time::Instant::now() < end, "a connection is not given back");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
