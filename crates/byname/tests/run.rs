//! The forwarder as a process: start-up, a second instance, signals, rights, metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_control::security::Signer;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::{push_nested, push_nni, push_tlv, types};
use byname_wire::{Component, Data, LpPacket, Name};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");
const PATIENCE: Duration = Duration::from_secs(30);
/// Any free ports. The start-up table shows them.
const CONFIG: &str = "\
[faces.udp]\nport = 0\nipv6 = false\n\
[faces.tcp]\nport = 0\nipv6 = false\n\
[faces.websocket]\nport = 0\nipv6 = false\n\
[faces.unix]\npath = \"SOCKET\"\n\
[metrics]\nlisten = \"127.0.0.1:0\"\n";

struct Running {
    folder: TempDir,
    process: Child,
}

impl Running {
    fn start(config: &str) -> Running {
        Running::start_in(tempfile::tempdir().expect("a folder"), config)
    }

    fn start_in(folder: TempDir, config: &str) -> Running {
        let config = config.replace("SOCKET", &folder.path().join("nfd.sock").display().to_string());
        std::fs::write(folder.path().join("byname.toml"), config).expect("written");
        let process = spawn(folder.path());
        let mut running = Running { folder, process };
        let deadline = Instant::now() + PATIENCE;
        while !running.log().contains("Ctrl-C ends it.\n") {
            let ended = running.process.try_wait().expect("a child");
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}: {}", running.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The last address in a row of the start-up table.
    fn address(&self, row: &str) -> SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.trim_start().starts_with(row)).expect("such a row");
        let text = line.split_whitespace().last().expect("an address").trim_start_matches("http://");
        let address: SocketAddr = text.trim_end_matches("/metrics").parse().expect("an address");
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.address("Metrics")).expect("metrics listen");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    fn client(&self, line: &str) -> Output {
        Command::new(PROGRAM)
            .args(line.split_whitespace())
            .env("NDN_CLIENT_TRANSPORT", format!("unix://{}", self.folder.path().join("nfd.sock").display()))
            .output()
            .expect("byname")
    }

    fn send(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    /// Sends a signal and returns the exit status.
    fn end(&mut self, signal: &str) -> Option<i32> {
        self.send(signal);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(folder: &Path) -> Child {
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    Command::new(PROGRAM)
        .args(["run", "--config"])
        .arg(folder.join("byname.toml"))
        .env_remove("RUST_LOG")
        .env("STATE_DIRECTORY", folder.join("state"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("byname")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn signals_end_it_with_status_0_and_it_starts_again() {
    for signal in ["-TERM", "-INT"] {
        let mut running = Running::start(CONFIG);
        let socket = running.folder.path().join("nfd.sock");
        assert!(socket.exists());
        assert!(running.client("status").status.success());
        assert_eq!(running.end(signal), Some(0), "{}", running.log());
        assert!(!socket.exists(), "the socket file is removed");
        assert!(!running.log().contains("panic"), "{}", running.log());
    }
}

#[test]
fn signals_that_ask_for_no_end_do_not_end_it() {
    let mut running = Running::start(CONFIG);
    for signal in ["-HUP", "-PIPE", "-HUP"] {
        running.send(signal);
    }
    let deadline = Instant::now() + PATIENCE;
    while running.log().matches("SIGHUP changes nothing").count()
        + running.log().matches("the configuration is reloaded: 0 changes").count()
        == 0
    {
        assert!(Instant::now() < deadline, "{}", running.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(running.client("status").status.success());
    assert_eq!(running.end("-TERM"), Some(0), "SIGHUP does not count as a first SIGTERM");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut running = Running::start(CONFIG);
    // The process may have handled the first signal by then, or not.
    running.send("-INT");
    let status = running.end("-INT");
    assert!(matches!(status, Some(0 | 130)), "{status:?}");
}

#[test]
fn it_goes_on_when_nobody_reads_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("nfd.sock");
    let file = folder.path().join("byname.toml");
    std::fs::write(&file, CONFIG.replace("SOCKET", &socket.display().to_string())).expect("written");
    let mut process = Command::new(PROGRAM)
        .args(["run", "--config"])
        .arg(&file)
        .env("RUST_LOG", "info")
        .env("STATE_DIRECTORY", folder.path().join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("byname");
    // As if the terminal or `head` had gone.
    drop((process.stdout.take(), process.stderr.take()));
    let deadline = Instant::now() + PATIENCE;
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < deadline, "{:?}", process.try_wait());
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut running = Running { folder, process };
    for _ in 0..3 {
        running.send("-HUP");
        // Time to write a log line.
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(running.client("status").status.success());
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn the_table_shows_what_to_export() {
    let running = Running::start(CONFIG);
    let export = format!("export NDN_CLIENT_TRANSPORT=unix://{}\n", running.folder.path().join("nfd.sock").display());
    assert!(running.log().contains(&export), "{}", running.log());
    assert!(TcpStream::connect(running.address("TCP")).is_ok());
    assert!(TcpStream::connect(running.address("WebSocket")).is_ok());
}

#[test]
fn a_second_instance_says_what_holds_the_port() {
    let running = Running::start(CONFIG);
    let pid = running.process.id().to_string();
    let holds = |config: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("byname.toml");
        let socket = folder.path().join("nfd.sock").display().to_string();
        std::fs::write(&file, config.replace("OTHER", &socket)).expect("written");
        let second =
            Command::new(PROGRAM).args(["run", "--ephemeral", "--config"]).arg(&file).output().expect("byname");
        assert_ne!(second.status.code(), Some(0));
        text(&second.stderr)
    };
    let socket = running.folder.path().join("nfd.sock").display().to_string();
    let said = holds(&CONFIG.replace("SOCKET", &socket));
    assert!(said.contains(&socket) && said.contains("in use") && said.contains(&pid), "{said}");
    let udp =
        CONFIG.replace("SOCKET", "OTHER").replacen("port = 0", &format!("port = {}", running.address("UDP").port()), 1);
    let said = holds(&udp);
    assert!(said.contains("UDP port") && said.contains(&format!("process {pid}")), "{said}");
    let tcp = format!("[faces.tcp]\nport = {}", running.address("TCP").port());
    let said = holds(&CONFIG.replace("SOCKET", "OTHER").replace("[faces.tcp]\nport = 0", &tcp));
    assert!(said.contains("TCP port") && said.contains(&format!("process {pid}")), "{said}");
    assert!(running.client("status").status.success(), "the first is not disturbed");
}

#[test]
fn errors_in_the_configuration_have_a_place_and_a_suggestion() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("byname.toml");
    std::fs::write(&file, "[faces.udp]\nprot = 6363\n").expect("written");
    for command in [vec!["check"], vec!["run", "--config"]] {
        let done = Command::new(PROGRAM).args(&command).arg(&file).output().expect("byname");
        assert_eq!(done.status.code(), Some(2));
        let said = text(&done.stderr);
        assert!(said.contains("byname.toml:2:1: unknown word `prot`"), "{said}");
        assert!(said.contains("did you mean `port`?"), "{said}");
    }
    std::fs::write(&file, "[rib]\nlocalhop_anchors = [\"gone.ndncert\"]\n").expect("written");
    let done = Command::new(PROGRAM).arg("check").arg(&file).output().expect("byname");
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("gone.ndncert"));
}

#[test]
fn the_default_configuration_is_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("byname.toml");
    let printed = Command::new(PROGRAM).arg("default-config").output().expect("byname");
    assert!(printed.status.success());
    std::fs::write(&file, &printed.stdout).expect("written");
    let done = Command::new(PROGRAM).arg("check").arg(&file).output().expect("byname");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).ends_with("byname.toml: good\n"));
}

#[test]
fn faces_and_routes_of_the_configuration_are_there() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let uri = format!("udp4://{}", peer.local_addr().expect("bound"));
    let config = format!(
        "{CONFIG}[[face]]\nremote = \"{uri}\"\n[[route]]\nprefix = \"/far\"\nface = \"{uri}\"\ncost = 7\n\
         [[route]]\nprefix = \"/farther\"\nface = \"udp4://127.0.0.1:9\"\n\
         [tables.strategies]\n\"/\" = \"best-route\"\n\"/far\" = \"multicast\"\n"
    );
    let running = Running::start(&config);
    assert!(running.log().contains("2 faces and 2 routes"), "{}", running.log());
    let faces = text(&running.client("face list").stdout);
    assert!(faces.contains(&uri) && faces.contains("permanent"), "{faces}");
    let routes = text(&running.client("route list").stdout);
    assert!(routes.contains("/far") && routes.contains("cost=7"), "{routes}");
    let strategies = text(&running.client("strategy list").stdout);
    assert!(strategies.contains("/far"), "{strategies}");
    assert!(strategies.contains("multicast"), "{strategies}");
}

#[test]
fn a_busy_metrics_port_is_a_note() {
    let busy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = busy.local_addr().expect("bound").to_string();
    let running = Running::start(&CONFIG.replace("127.0.0.1:0", &address));
    let log = running.log();
    assert!(log.contains("Metrics     off"), "{log}");
    assert!(log.contains(&format!("cannot serve HTTP on {address}")), "{log}");
    assert!(running.client("status").status.success());
}

/// Writes a certificate file for `/alice/KEY/1` and returns its signer.
fn alice(folder: &Path) -> Signer {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).expect("a key");
    // SubjectPublicKeyInfo of P-256: only the point differs between keys.
    let mut spki =
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"
            .to_vec();
    spki.extend(pair.public_key().as_ref());
    let name = |uri: &str| uri.parse::<Name>().expect("a name");
    let mut packet = Vec::new();
    push_nested(&mut packet, types::DATA, |out| {
        push_tlv(out, types::NAME, name("/alice/KEY/1/self/v=1").value());
        push_nested(out, types::META_INFO, |out| {
            push_nni(out, types::CONTENT_TYPE, 2);
            push_nni(out, types::FRESHNESS_PERIOD, 3_600_000);
        });
        push_tlv(out, types::CONTENT, &spki);
        push_nested(out, types::SIGNATURE_INFO, |out| {
            push_nni(out, types::SIGNATURE_TYPE, 3);
            push_nested(out, types::KEY_LOCATOR, |out| push_tlv(out, types::NAME, name("/alice/KEY/1").value()));
            push_nested(out, types::VALIDITY_PERIOD, |out| {
                push_tlv(out, 0xfe, b"20200101T000000");
                push_tlv(out, 0xff, b"20990101T000000");
            });
        });
        push_tlv(out, types::SIGNATURE_VALUE, &[0; 70]);
    });
    std::fs::write(folder.join("alice.ndncert"), packet).expect("written");
    Signer::from_pkcs8(name("/alice/KEY/1"), pkcs8.as_ref()).expect("a key")
}

/// Sends a command over UDP, which is not local. Returns the code of the answer.
fn command_from_afar(socket: &UdpSocket, wire: &[u8]) -> Option<u64> {
    socket.send(wire).expect("sent");
    let mut frame = [0; 9000];
    let len = socket.recv(&mut frame).ok()?;
    let packet = LpPacket::decode(&frame[..len]).expect("a frame");
    if packet.nack.is_some() {
        return None;
    }
    let data = Data::decode(packet.fragment.expect("a packet")).expect("Data");
    Some(ControlResponse::decode(data.content).expect("a response").code)
}

#[test]
fn neighbours_register_by_trust_anchor_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let signer = alice(folder.path());
    let config = format!("{CONFIG}[rib]\nlocalhop_anchors = [\"alice.ndncert\"]\n");
    let mut running = Running::start_in(folder, &config);
    assert!(running.log().contains("1 key from the network"), "{}", running.log());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(running.address("UDP")).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");

    let parameters = ControlParameters { name: "/alice/site".parse().ok(), ..Default::default() }.encode();
    let named = |prefix: &str| {
        let prefix: Name = prefix.parse().expect("a name");
        InterestBuilder::new(prefix.join(Component::generic(&parameters)), rand::random())
    };
    let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let signed = |signer: &Signer, prefix: &str| signer.sign_command(&named(prefix), unix_ms).expect("signed");

    let register = "/localhop/nfd/rib/register";
    assert_eq!(command_from_afar(&socket, &signed(&Signer::digest(), register)), Some(403));
    let stranger = alice(tempfile::tempdir().expect("a folder").path());
    assert_eq!(command_from_afar(&socket, &signed(&stranger, register)), Some(403));
    let good = signed(&signer, register);
    assert_eq!(command_from_afar(&socket, &good), Some(200));
    let interest = byname_wire::Interest::decode(&good).expect("an Interest");
    let replay = byname_wire::interest::with_nonce(&interest, 99);
    assert_eq!(command_from_afar(&socket, &replay), Some(403));
    assert!(text(&running.client("route list").stdout).contains("/alice/site"));

    // The router ignores remote commands under /localhost, whoever signs them.
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    assert_eq!(command_from_afar(&socket, &signed(&signer, "/localhost/nfd/rib/unregister")), None);
    let metrics = running.metrics();
    assert!(metrics.contains("byname_command_refusals_total{reason=\"untrusted_signer\"} 1"), "{metrics}");
    assert!(metrics.contains("byname_command_refusals_total{reason=\"bad_signature\"} 1"), "{metrics}");
    assert!(metrics.contains("byname_command_refusals_total{reason=\"replayed\"} 1"), "{metrics}");
    assert!(metrics.contains("byname_drops_total{reason=\"scope\"} 1"), "{metrics}");
    assert_eq!(running.end("-TERM"), Some(0));
}

/// A client on the Unix socket.
struct Local {
    stream: std::os::unix::net::UnixStream,
    rest: Vec<u8>,
}

impl Local {
    fn connect(running: &Running) -> Local {
        let socket = running.folder.path().join("nfd.sock");
        let stream = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Local { stream, rest: Vec::new() }
    }

    fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).expect("sent");
    }

    /// The next network packet.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Ok(Some(len)) = byname_wire::tlv::element_len(&self.rest, 9000)
                && self.rest.len() >= len
            {
                let frame: Vec<u8> = self.rest.drain(..len).collect();
                let packet = LpPacket::decode(&frame).expect("a frame");
                assert_eq!(packet.nack, None);
                return packet.fragment.expect("a packet").to_vec();
            }
            let mut bytes = [0; 9000];
            let len = self.stream.read(&mut bytes).expect("an answer in time");
            assert_ne!(len, 0, "the connection ended");
            self.rest.extend(&bytes[..len]);
        }
    }

    /// Sends a command of the `rib` module, which must succeed.
    fn rib(&mut self, verb: &str, prefix: &str, origin: u64) {
        let origin = Some(origin);
        let parameters = ControlParameters { name: prefix.parse().ok(), origin, ..Default::default() }.encode();
        let name: Name = format!("/localhost/nfd/rib/{verb}").parse().expect("a name");
        let interest = InterestBuilder::new(name.join(Component::generic(&parameters)), rand::random());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        self.send(&Signer::digest().sign_command(&interest, now).expect("signed"));
        let answer = self.receive();
        let data = Data::decode(&answer).expect("Data");
        assert_eq!(ControlResponse::decode(data.content).expect("a response").code, 200);
    }

    /// Answers a readvertisement command. Returns its verb and prefix.
    fn answer_readvertisement(&mut self) -> (String, String) {
        let wire = self.receive();
        let interest = byname_wire::Interest::decode(&wire).expect("an Interest");
        assert_eq!(interest.name.len(), 6, "{}", interest.name);
        let component = |i| interest.name.component(i).expect("six components").value;
        let parameters = ControlParameters::decode(component(4)).expect("parameters");
        let said = (text(component(3)), parameters.name.expect("a prefix").to_string());
        let response = ControlResponse::new(200, "OK").encode();
        let data = byname_wire::data::DataBuilder::new(interest.name.to_name()).content(response);
        self.send(&data.encode());
        said
    }
}

#[test]
fn a_routing_daemon_hears_of_client_routes() {
    let running = Running::start(CONFIG);
    let mut app = Local::connect(&running);
    app.rib("register", "/app/early", 65);
    app.rib("register", "/app/static", 255);
    // The daemon starts later. It hears of existing client routes, and of client routes only.
    let mut daemon = Local::connect(&running);
    daemon.rib("register", "/localhost/nlsr", 128);
    assert_eq!(daemon.answer_readvertisement(), ("register".to_owned(), "/app/early".to_owned()));
    app.rib("register", "/app/late", 65);
    assert_eq!(daemon.answer_readvertisement(), ("register".to_owned(), "/app/late".to_owned()));
    app.rib("unregister", "/app/early", 65);
    assert_eq!(daemon.answer_readvertisement(), ("unregister".to_owned(), "/app/early".to_owned()));
    // The application ends, and its routes disappear with its face.
    drop(app);
    assert_eq!(daemon.answer_readvertisement(), ("unregister".to_owned(), "/app/late".to_owned()));
}

#[test]
fn congestion_marking_of_faces_that_peers_make_is_a_setting() {
    for (setting, marks) in [("true", true), ("false", false)] {
        let running = Running::start(&format!("[faces]\ncongestion_marking = {setting}\n{CONFIG}"));
        // An Interest that gets an answer creates a UDP face. The client itself has a face on the Unix socket.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let interest = InterestBuilder::new("/nobody".parse().expect("a name"), 1).encode();
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket.send_to(&interest, running.address("UDP")).expect("sent");
        assert_ne!(socket.recv(&mut [0; 9000]).expect("a Nack"), 0);
        let faces = text(&running.client("face list").stdout);
        for scheme in ["remote=udp4://", "remote=fd://"] {
            let face = faces.lines().find(|line| line.contains(scheme)).expect("such a face");
            assert_eq!(face.contains("congestion-marking}"), marks, "{face}");
        }
    }
}
