//! Restarts by a service manager that keeps descriptors, as systemd does: the old process ends before the new one starts.
//! The service manager is a socket of the test.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_wire::{Data, Interest, Name};
use rustix::fs::{FileType, MemfdFlags, fstat, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tempfile::TempDir;

use super::common::{PROGRAM, Router};
use super::{Elements, answer, content, interest, network_packet, newest_face};

/// Descriptors of the test's own have lower numbers.
const PASSED_FROM: i32 = 400;

/// A service manager with a descriptor store.
struct Manager {
    folder: TempDir,
    store: Arc<Mutex<Vec<(String, OwnedFd)>>>,
    _reader: JoinHandle<()>,
}

impl Manager {
    fn new() -> Manager {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let store = Arc::<Mutex<Vec<_>>>::default();
        let reader = std::thread::spawn({
            let store = Arc::clone(&store);
            move || {
                while let Some((text, descriptors)) = receive(&socket) {
                    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
                    let name = value("FDNAME=").unwrap_or("stored").to_owned();
                    let mut store = store.lock().expect("no panic");
                    if value("FDSTOREREMOVE=") == Some("1") {
                        store.retain(|(other, _): &(String, OwnedFd)| *other != name);
                    } else if value("FDSTORE=") == Some("1") {
                        store.extend(descriptors.into_iter().map(|descriptor| (name.clone(), descriptor)));
                    }
                    // The descriptor of a barrier is closed here.
                }
            }
        });
        Manager { folder, store, _reader: reader }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("notify")
    }

    /// Starts a router as its service.
    fn start(&self, configuration: &str) -> Router {
        Router::start_by(self.command("exec \"$@\"", &[]), configuration)
    }

    /// Starts the service again with what is in the store.
    fn start_again(&self, router: Router) -> Router {
        // As systemd does, the store keeps its descriptors until it is told otherwise. The order is the reverse one.
        let (names, copies): (Vec<String>, Vec<OwnedFd>) = {
            let store = self.store.lock().expect("no panic");
            let copy = |(name, descriptor): &(String, OwnedFd)| {
                (name.clone(), fcntl_dupfd_cloexec(descriptor, PASSED_FROM).expect("a descriptor"))
            };
            store.iter().rev().map(copy).unzip()
        };
        let numbers: Vec<String> = copies.iter().map(|copy| copy.as_raw_fd().to_string()).collect();
        let script = format!(
            "i=3; for fd in {}; do eval \"exec $i<&$fd $fd<&-\"; i=$((i+1)); done; \
             export LISTEN_PID=$$ LISTEN_FDS={}; exec \"$@\"",
            numbers.join(" "),
            copies.len()
        );
        router.start_again_with(self.command(&script, &names), copies)
    }

    fn command(&self, script: &str, names: &[String]) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash", PROGRAM]);
        bash.env("NOTIFY_SOCKET", self.path()).env("FDSTORE", "200").env("LISTEN_FDNAMES", names.join(":"));
        bash
    }

    /// How many descriptors of files, of sockets that listen or get datagrams, and of connections it has.
    fn kept(&self) -> (usize, usize) {
        let store = self.store.lock().expect("no panic");
        let is_file = |descriptor: &OwnedFd| {
            FileType::from_raw_mode(fstat(descriptor).expect("open").st_mode) == FileType::RegularFile
        };
        let files = store.iter().filter(|(_, descriptor)| is_file(descriptor)).count();
        (files, store.len() - files)
    }

    fn await_kept(&self, kept: (usize, usize)) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.kept() != kept {
            assert!(Instant::now() < deadline, "{:?} instead of {kept:?}", self.kept());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A message and its descriptors.
fn receive(socket: &UnixDatagram) -> Option<(String, Vec<OwnedFd>)> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    Some((String::from_utf8_lossy(&bytes[..received.bytes]).into_owned(), descriptors))
}

fn patient<S: Read>(stream: S, set: impl FnOnce(&S)) -> Elements<S> {
    set(&stream);
    Elements { stream, bytes: Vec::new() }
}

fn unix(path: &Path) -> Elements<UnixStream> {
    patient(UnixStream::connect(path).expect("it listens"), |stream| {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    })
}

fn tcp(port: u16) -> Elements<TcpStream> {
    patient(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens"), |stream| {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    })
}

fn ask(client: &mut impl Write, name: &str) {
    client.write_all(&interest(&name.parse().expect("a name"), 7)).expect("the connection stays");
}

fn assert_answer(wire: &[u8], name: &str) {
    let (data, name): (_, Name) = (Data::decode(network_packet(wire)).expect("Data"), name.parse().expect("a name"));
    assert_eq!((data.name.to_name(), data.content.to_vec()), (name.clone(), content(&name)));
}

/// Answers one Interest.
fn answer_next(producer: &mut Elements<UnixStream>, name: &str) {
    let wire = producer.next().expect("an Interest");
    assert_eq!(Interest::decode(network_packet(&wire)).expect("an Interest").name.to_string(), name);
    producer.stream.write_all(&answer(&wire)).expect("the connection stays");
}

fn is_closed(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0; 100]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn connections_outlive_a_restart_by_the_service_manager() {
    let manager = Manager::new();
    let mut router = manager.start("");
    let mut producer = unix(&router.socket());
    let face = newest_face(&router, "fd://");
    router.ok(&format!("route add /kept {face} --cost 3"));
    let (mut near, mut far) = (unix(&router.socket()), tcp(router.port));
    ask(&mut far.stream, "/kept/first");
    answer_next(&mut producer, "/kept/first");
    assert_answer(&far.next().expect("an answer"), "/kept/first");
    // UDP, TCP, WebSocket and Unix.
    manager.await_kept((1, 4));
    for round in 0..2 {
        router.end("-TERM");
        // And three connections.
        manager.await_kept((1, 7));
        // Nobody is there, and nobody is refused.
        let (early, late) = (format!("/kept/early/{round}"), format!("/kept/late/{round}"));
        ask(&mut far.stream, &early);
        let mut new = tcp(router.port);
        ask(&mut new.stream, &late);
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        datagrams.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let old = "/kept/first".parse().expect("a name");
        datagrams.send_to(&interest(&old, 9), (Ipv4Addr::LOCALHOST, router.port)).expect("sent");
        router = manager.start_again(router);
        assert!(router.log().contains("Taken over"), "{}", router.log());
        for _ in 0..2 {
            let wire = producer.next().expect("an Interest");
            producer.stream.write_all(&answer(&wire)).expect("the connection stays");
        }
        assert_answer(&far.next().expect("an answer"), &early);
        assert_answer(&new.next().expect("an answer"), &late);
        let mut buffer = [0; 9_000];
        let len = datagrams.recv(&mut buffer).expect("an answer from the content store");
        assert_answer(&buffer[..len], "/kept/first");
        let shown = router.json("route show /kept");
        assert_eq!((shown[0]["face_id"].as_u64(), shown[0]["cost"].as_u64()), (Some(face), Some(3)), "{shown}");
        ask(&mut near.stream, &format!("/kept/near/{round}"));
        answer_next(&mut producer, &format!("/kept/near/{round}"));
        near.next().expect("an answer");
        drop(new);
        // The connections are the new process's alone.
        manager.await_kept((1, 4));
    }
    router.hand_over();
    manager.await_kept((1, 4));
    // The service is stopped for good.
    router.end("-TERM");
    manager.store.lock().expect("no panic").clear();
    assert!(is_closed(&mut producer.stream) && is_closed(&mut near.stream));
}

#[test]
fn listeners_outlive_a_crash() {
    let manager = Manager::new();
    let mut router = manager.start("");
    let mut producer = unix(&router.socket());
    manager.await_kept((1, 4));
    // The router has accepted it. A connection that waits for that would outlive the crash, like its listener.
    newest_face(&router, "fd://");
    router.end("-KILL");
    assert!(is_closed(&mut producer.stream));
    let mut client = unix(&router.socket());
    ask(&mut client.stream, "/nobody/has/this");
    let router = manager.start_again(router);
    assert!(client.next().is_some(), "the client that came in between gets a Nack");
    assert!(!router.log().contains("Taken over"));
    manager.await_kept((1, 4));
}

#[test]
fn what_does_not_fit_does_not_keep_the_router_from_starting() {
    let manager = Manager::new();
    let mut router = manager.start("");
    let mut client = unix(&router.socket());
    manager.await_kept((1, 4));
    router.end("-TERM");
    manager.await_kept((1, 5));
    let config = router.path("byname.toml");
    let text = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, format!("{text}[threads]\ncount = 2\n")).expect("written");
    let mut router = manager.start_again(router);
    assert!(router.log().contains("connections of the former process are closed"), "{}", router.log());
    assert!(is_closed(&mut client.stream));
    router.end("-TERM");
    let mut damaged = File::from(memfd_create("damaged", MemfdFlags::CLOEXEC).expect("memory"));
    damaged.write_all(b"bynamefd and then something else that is no message at all").expect("written");
    {
        let mut store = manager.store.lock().expect("no panic");
        store.clear();
        store.push(("byname".to_owned(), damaged.into()));
        store.push(("other".to_owned(), UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket").into()));
    }
    let router = manager.start_again(router);
    assert_eq!(router.run("status").code, 0, "{}", router.log());
}
