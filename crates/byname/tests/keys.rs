//! `byname key`: a network's keys, and a router that trusts them.

mod common;

use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_trust::{Certificate, Signer, read_private_key};
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::types;
use byname_wire::{Component, Data, Interest, LpPacket, Name};
use common::{Router, assert_documented};

const PATIENCE: Duration = Duration::from_secs(40);

fn key(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byname"));
    command.arg("key").args(line.split(' ')).arg("--folder").arg(folder).stdin(Stdio::null());
    command.output().expect("byname starts")
}

fn ok(folder: &Path, line: &str) -> String {
    let output = key(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn fails(folder: &Path, line: &str) -> String {
    let output = key(folder, line);
    assert!(!output.status.success(), "{line}");
    String::from_utf8(output.stderr).expect("text")
}

/// The files with this extension.
fn files(folder: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut found: Vec<_> = all.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    found.sort();
    found
}

#[test]
fn keys_are_made_listed_moved_renewed_and_revoked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (keys, other) = (folder.path().join("keys"), folder.path().join("other"));
    assert!(fails(&keys, "make /example/r1").contains("byname key anchor"));
    ok(&keys, "anchor /example");
    ok(&keys, "make /example/r1 --router --days 10");
    ok(&keys, "make /example/alice --type ed25519");
    assert_eq!(std::fs::metadata(&keys).expect("a folder").mode() & 0o777, 0o700);
    for file in files(&keys, "key") {
        assert_eq!(std::fs::metadata(&file).expect("a file").mode() & 0o777, 0o600, "{}", file.display());
    }
    let listed = ok(&keys, "list");
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.contains("/example/r1/32=DV/KEY/") && listed.contains("Ed25519"), "{listed}");
    assert!(!listed.contains("PRIVATE"));
    let json: serde_json::Value = serde_json::from_str(&ok(&keys, "list --json")).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    assert_documented("key", &json[0]);
    assert!(json.as_array().expect("an array").iter().all(|key| key["valid"] == true && key["private_key"] == true));

    // A request of another host, signed here, and installed there.
    let request = folder.path().join("bob.req");
    std::fs::write(&request, ok(&other, "request /example/bob")).expect("written");
    let certificate = folder.path().join("bob.ndncert");
    std::fs::write(&certificate, ok(&keys, &format!("sign {}", request.display()))).expect("written");
    ok(&other, &format!("install {}", certificate.display()));
    let shown = ok(&other, "show /example/bob");
    assert!(shown.contains("signed by    /example/KEY/"), "{shown}");
    assert_eq!(ok(&other, "show /example/bob --certificate"), std::fs::read_to_string(&certificate).expect("a file"));
    std::fs::write(&request, ok(&other, "request /elsewhere/eve")).expect("written");
    let line = format!("sign {} --signer /example", request.display());
    assert!(fails(&keys, &line).contains("not below /example"));
    // A certificate that another key signed is no request.
    assert!(fails(&keys, &format!("sign {}", certificate.display())).contains("has not signed it"));

    // Export and import.
    let (bag, passphrase) = (folder.path().join("bag"), folder.path().join("passphrase"));
    std::fs::write(&passphrase, "correct horse\nmore").expect("written");
    let with = format!("--passphrase-file {}", passphrase.display());
    std::fs::write(&bag, ok(&keys, &format!("export /example/alice {with}"))).expect("written");
    let third = folder.path().join("third");
    ok(&third, &format!("import {} {with}", bag.display()));
    assert!(fails(&third, &format!("import {} {with}", bag.display())).contains("File exists"), "it is not replaced");
    std::fs::write(&passphrase, "wrong\n").expect("written");
    assert!(fails(&other, &format!("import {} {with}", bag.display())).contains("passphrase is wrong"));

    // What ends within 30 days is renewed: that of the router.
    let renewed = ok(&keys, "renew --days 100");
    assert!(renewed.lines().count() == 1 && renewed.contains("/example/r1/32=DV/KEY/"), "{renewed}");
    assert_eq!(ok(&keys, "renew"), "");
    assert!(fails(&other, "renew /example/bob --within 1000").contains("byname key request"));

    // Revoking names it once.
    for _ in 0..2 {
        ok(&keys, "revoke /example/alice");
    }
    assert_eq!(std::fs::read_to_string(keys.join("revoked")).expect("a list"), "/example/alice\n");
    assert!(fails(&keys, "revoke /").contains("every key"));
}

#[test]
fn schemas_are_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, compiled) = (folder.path().join("s.trust"), folder.path().join("s.tlv"));
    std::fs::write(&text, "#a: \"a\"/_ <= #k\n#k: \"a\"/\"KEY\"/_/_/_\n").expect("written");
    ok(folder.path(), &format!("schema {} -o {}", text.display(), compiled.display()));
    let [of_text, of_binary] = [&text, &compiled].map(|path| ok(folder.path(), &format!("schema {}", path.display())));
    assert_eq!(of_text, of_binary);
    std::fs::write(&text, "#a: \n").expect("written");
    assert!(fails(folder.path(), &format!("schema {}", text.display())).contains("line 2"));
}

/// A host that registers at a router, and has the certificate of its own key.
struct Host {
    socket: UdpSocket,
    signer: Signer,
    certificate: Certificate,
}

impl Host {
    fn new(router: &Router, keys: &Path, identity: &str) -> Host {
        let name: Name = identity.parse().expect("a name");
        let certificates = files(keys, "ndncert").into_iter();
        let mut certificates = certificates.map(|path| (Certificate::load(&path).expect("a certificate"), path));
        let (certificate, path) = certificates.find(|(found, _)| found.identity() == name).expect("it was made");
        let pkcs8 = read_private_key(&path.with_extension("key")).expect("a key");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(("127.0.0.1", router.port)).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let signer = Signer::from_pkcs8(certificate.key_name.clone(), &pkcs8).expect("a signer");
        Host { socket, signer, certificate }
    }

    /// Registers a prefix. Answers Interests for its certificate meanwhile, and counts them.
    fn registers(&self, prefix: &str) -> (ControlResponse, usize) {
        let parameters = ControlParameters { name: prefix.parse().ok(), ..Default::default() }.encode();
        let uri: Name = "/localhop/nfd/rib/register".parse().expect("a name");
        let command =
            InterestBuilder::new(uri.join(Component::generic(&parameters)), rand::random()).lifetime_ms(10_000);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        self.socket.send(&self.signer.sign_command(&command, now).expect("signed")).expect("sent");
        let (mut buffer, mut asked) = ([0; 9000], 0);
        loop {
            let len = self.socket.recv(&mut buffer).expect("an answer in time");
            let frame = LpPacket::decode(&buffer[..len]).expect("a frame");
            let packet = frame.fragment.expect("a packet");
            if packet.first() == Some(&(types::DATA as u8)) {
                let data = Data::decode(packet).expect("Data");
                return (ControlResponse::decode(data.content).expect("a response"), asked);
            }
            let interest = Interest::decode(packet).expect("an Interest");
            if interest.name.is_prefix_of(&self.certificate.name.as_ref()) {
                asked += 1;
                self.socket.send(&self.certificate.packet).expect("sent");
            }
        }
    }
}

#[test]
fn a_network_of_three_commands_lets_its_hosts_register() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    for line in ["anchor /net", "make /net/r1", "make /net/alice", "make /net/eve"] {
        ok(&keys, line);
    }
    let file = |start: &str| {
        let is_it =
            |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        files(&keys, "ndncert").into_iter().find(is_it).expect("it was made").display().to_string()
    };
    ok(&keys, "revoke /net/eve");
    let configuration = format!(
        "[trust]\nanchors = [\"{}\"]\ncertificates = [\"{}\"]\nrevoked = \"{}\"\n\
         [[authorization]]\nsigner = \"any\"\nmodules = [\"faces\", \"rib\"]\n\
         [[authorization]]\nfrom = \"network\"\nsigner = \"trusted\"\nmodules = [\"rib\"]\n",
        file("net-"),
        file("net_r1-"),
        keys.join("revoked").display(),
    );
    let router = Router::start_with(&configuration);
    let alice = Host::new(&router, &keys, "/net/alice");
    let (response, asked) = alice.registers("/net/alice/app");
    assert_eq!((response.code, asked), (200, 1), "{}", response.text);
    assert!(router.ok("route show /net/alice/app").contains("/net/alice/app"));
    let (response, asked) = alice.registers("/net/alice");
    assert_eq!((response.code, asked), (200, 0), "its chain is known: {}", response.text);
    let (response, _) = alice.registers("/net/bob");
    assert_eq!(response.code, 403);
    let (response, _) = Host::new(&router, &keys, "/net/eve").registers("/net/eve");
    assert!(response.code == 403 && response.text.contains("revoked"), "{}", response.text);
    // The router's own certificate is there for everybody.
    let own = Certificate::load(Path::new(&file("net_r1-"))).expect("a certificate");
    let fetched = router.ok(&format!("peek {} --prefix --payload", own.key_name));
    assert!(!fetched.is_empty());
}
