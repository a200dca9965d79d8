//! Registrations from other hosts: recorded commands, keys, and end hosts with a hub.

mod common;

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_control::security::Signer;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, LpPacket, Name};
use common::{Router, command_at, finish};

const PATIENCE: Duration = Duration::from_secs(40);
const SECRET: &[u8] = b"a secret that alice and the router share";

/// Waits until `is_so` returns true.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A registration of `/net/alice` with alice's key, dated `ahead_s` seconds ahead of the clock.
fn registration(ahead_s: u64) -> Vec<u8> {
    let parameters = ControlParameters { name: "/net/alice".parse().ok(), ..Default::default() }.encode();
    let name: Name = "/localhop/nfd/rib/register".parse().expect("a name");
    let interest = InterestBuilder::new(name.join(Component::generic(&parameters)), 7).lifetime_ms(4_000);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let signer = Signer::hmac("/net/alice/KEY/1".parse().expect("a name"), SECRET);
    signer.sign_command(&interest, now + 1_000 * ahead_s).expect("signed")
}

/// A client that the router takes for one on another host.
struct Neighbour {
    socket: UdpSocket,
    nonce: u32,
}

impl Neighbour {
    fn of(router: &Router) -> Neighbour {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(("127.0.0.1", router.port)).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Neighbour { socket, nonce: 1 }
    }

    /// The code of the router's answer.
    fn sends(&mut self, command: &[u8]) -> u64 {
        self.nonce += 1;
        // The nonce is not signed. A new one keeps a recorded command from being dropped as a loop.
        let interest = byname_wire::Interest::decode(command).expect("an Interest");
        self.socket.send(&byname_wire::interest::with_nonce(&interest, self.nonce)).expect("sent");
        let mut buffer = [0; 9000];
        let len = self.socket.recv(&mut buffer).expect("an answer in time");
        let frame = LpPacket::decode(&buffer[..len]).expect("a frame");
        let data = Data::decode(frame.fragment.expect("a packet")).expect("Data");
        ControlResponse::decode(data.content).expect("a response").code
    }
}

fn has_route(router: &Router, prefix: &str) -> bool {
    router.run(&format!("route show {prefix}")).code == 0
}

#[test]
fn a_recorded_command_is_refused_from_every_face_before_and_after_a_restart() {
    [1, 2, 3].into_iter().for_each(records_commands);
}

/// A stranger records alice's commands to a router with this many threads, and replays them.
fn records_commands(threads: usize) {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), SECRET).expect("written");
    let mut router = Router::start_with(&format!(
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"faces\", \"rib\"]\n\
         [[authorization]]\nfrom = \"network\"\nmodules = [\"rib\"]\n\
         hmac_key = \"/net/alice/KEY/1\"\nhmac_secret_file = \"{}\"\n[threads]\ncount = {threads}\n",
        secret.path().display()
    ));
    let (mut alice, mut stranger) = (Neighbour::of(&router), Neighbour::of(&router));
    let recorded = [registration(0), registration(1_800)];
    for command in &recorded {
        assert_eq!(alice.sends(command), 200);
        assert_eq!(stranger.sends(command), 403);
    }
    assert!(has_route(&router, "/net/alice"));
    for signal in ["-KILL", "-TERM"] {
        router = router.restart(signal);
        for command in &recorded {
            assert_eq!(stranger.sends(command), 403, "after {signal}");
        }
        assert!(!has_route(&router, "/net/alice"), "after {signal}");
    }
    // Alice registers again. After SIGKILL this may take seconds.
    wait_until("a new command is accepted", || alice.sends(&registration(0)) == 200);
    router = router.restart("-KILL");
    wait_until("a new command is accepted", || alice.sends(&registration(0)) == 200);
    router = router.restart("-TERM");
    assert_eq!(alice.sends(&registration(0)), 200, "a router that ended in good order knows the exact time");
    assert!(has_route(&router, "/net/alice"));
}

/// Creates a key and a certificate of `/net/host` in this folder. Returns the key's name.
fn keygen(folder: &Path) -> String {
    let line = format!(
        "keygen /net/host --key {} --certificate {}",
        folder.join("host.key").display(),
        folder.join("host.ndncert").display()
    );
    let done = finish(command_at("unix:///nonexistent", &line));
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(finish(command_at("unix:///nonexistent", &line)).code != 0, "it overwrites no key");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(folder.join("host.key")).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "nobody else reads the key");
    let name = done.stdout.split_whitespace().find(|word| word.starts_with("/net/host/KEY/"));
    name.expect("the key's name").to_owned()
}

/// Starts a host that registers prefixes at this hub, with the key that [`keygen`] left in this folder.
fn host_of(hub: &Router, threads: usize, folder: &Path, key_name: &str) -> Router {
    Router::start_with(&format!(
        "[threads]\ncount = {threads}\n[rib.propagate]\nenabled = true\nhub = \"udp4://127.0.0.1:{}\"\n\
         key_name = \"{key_name}\"\nkey_file = \"{}\"\n",
        hub.port,
        folder.join("host.key").display()
    ))
}

#[test]
fn a_host_registers_what_its_applications_serve_at_its_hub() {
    [1, 2, 3].into_iter().for_each(propagates);
}

/// Runs a host and a hub with this many threads each.
fn propagates(threads: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let key_name = keygen(folder.path());
    let anchor = folder.path().join("host.ndncert");
    let hub = Router::start_with(&format!(
        "[rib]\nlocalhop_anchors = [\"{}\"]\n[threads]\ncount = {threads}\n",
        anchor.display()
    ));
    let host = host_of(&hub, threads, folder.path(), &key_name);
    let app = host.serve("ping-server /net/host/app", "/net/host/app/ping", b"");
    let other = host.serve("ping-server /elsewhere", "/elsewhere/ping", b"");
    wait_until("the hub has the route", || has_route(&hub, "/net/host"));
    let routes = hub.json("route show /net/host");
    assert_eq!((&routes[0]["origin"], routes[0]["cost"].as_u64()), (&"client".into(), Some(15)));
    assert!(hub.reaches("/net/host/app"), "through the hub");
    assert!(!has_route(&hub, "/elsewhere") && !has_route(&hub, "/net/host/app/ping"), "the identity, nothing else");

    assert_eq!(app.interrupt(), 0);
    wait_until("the hub has no route any more", || !has_route(&hub, "/net/host"));
    drop(other);
}

#[test]
fn a_hub_that_does_not_trust_the_host_refuses_and_applications_still_reach_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let key_name = keygen(folder.path());
    let secret = folder.path().join("secret");
    std::fs::write(&secret, SECRET).expect("written");
    // The hub trusts alice, an application on the host. It does not trust the host.
    let hub = Router::start_with(&format!(
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"faces\", \"rib\"]\n\
         [[authorization]]\nfrom = \"network\"\nmodules = [\"rib\"]\n\
         hmac_key = \"/net/alice/KEY/1\"\nhmac_secret_file = \"{}\"\n",
        secret.display()
    ));
    let host = host_of(&hub, 1, folder.path(), &key_name);
    let _app = host.serve("ping-server /net/host/app", "/net/host/app/ping", b"");
    let refused = || host.log().contains("the hub refuses to register a prefix");
    wait_until("the hub's refusal is in the log", refused);
    assert!(!has_route(&hub, "/net/host"));

    // Commands of local applications to /localhop/nfd go to the hub, which answers.
    assert_eq!(local_command(&host, &registration(0)), 200);
    assert!(has_route(&hub, "/net/alice") && !has_route(&host, "/net/alice"));
    // The host's own management answers under /localhost. It protects the hub's prefix.
    let taken = host.run("route add /localhop/nfd udp4://127.0.0.1:9");
    assert!(taken.code != 0 && taken.stderr.contains("/localhop/nfd"), "{} {}", taken.code, taken.stderr);
    // Commands of the host's neighbours reach the host's management, which refuses them. They do not reach the hub.
    assert_eq!(Neighbour::of(&host).sends(&registration(0)), 403);
}

/// Sends a command as an application of this host. Returns the code of the answer.
fn local_command(router: &Router, command: &[u8]) -> u64 {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(router.socket()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(command).expect("sent");
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 9000];
        let len = stream.read(&mut buffer).expect("an answer in time");
        assert_ne!(len, 0, "the connection ended");
        bytes.extend_from_slice(&buffer[..len]);
        if let Ok(Some(len)) = byname_wire::tlv::element_len(&bytes, 9000)
            && bytes.len() >= len
        {
            let frame = LpPacket::decode(&bytes[..len]).expect("a frame");
            let data = Data::decode(frame.fragment.expect("a packet")).expect("Data");
            return ControlResponse::decode(data.content).expect("a response").code;
        }
    }
}
