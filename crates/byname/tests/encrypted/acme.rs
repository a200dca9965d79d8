//! Certificates from an authority, in a router.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::programs::get;
use super::{Identity, Router, eventually, free_port};

/// A router that asks an authority at this port for a certificate. Returns the port of its metrics, too.
fn asking(authority: u16, answers: u16, roots: &Identity) -> (Router, u16) {
    let (quic, http) = (free_port(), free_port());
    let router = Router::start_with(&format!(
        "[faces.quic]\nlisten = true\nipv6 = false\nport = {quic}\n[metrics]\nlisten = \"127.0.0.1:{http}\"\n\
         [tls]\nnames = [\"127.0.0.1\"]\n[tls.acme]\ndirectory = \"https://127.0.0.1:{authority}/dir\"\n\
         listen = \"127.0.0.1:{answers}\"\nroots = \"{}\"\nfolder = \"acme\"\n",
        roots.folder.path().join("certificate.pem").display()
    ));
    (router, http)
}

/// Ends with this.
struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_authority_gives_a_router_its_certificate() {
    let Some(program) = std::env::var_os("PEBBLE_BIN") else {
        println!("skipped: PEBBLE_BIN names no Pebble, the authority for tests");
        return;
    };
    let identity = Identity::for_names(&["127.0.0.1"]);
    let (port, answers) = (free_port(), free_port());
    let file = |name: &str| identity.folder.path().join(name).display().to_string();
    let settings = serde_json::json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{port}"),
        "certificate": file("certificate.pem"), "privateKey": file("key.pem"),
        "httpPort": answers, "tlsPort": 1, "externalAccountBindingRequired": false,
        "retryAfter": { "authz": 1, "order": 1 }, "keyAlgorithm": "ecdsa",
        "profiles": { "default": { "description": "for tests", "validityPeriod": 86_400 } },
    }});
    std::fs::write(file("pebble.json"), settings.to_string()).expect("a file");
    let mut pebble = Command::new(PathBuf::from(program));
    pebble.args(["-config", &file("pebble.json")]).env("PEBBLE_VA_NOSLEEP", "1");
    let _pebble = Pebble(pebble.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Pebble starts"));
    eventually("Pebble listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let (router, http) = asking(port, answers, &identity);
    let said = "the authority has given another certificate";
    eventually("there is a certificate", || router.log().contains(said));
    let told: serde_json::Value = serde_json::from_str(&get(http, "/certificate")).expect("JSON");
    // The next process has it from the start, without a question.
    let router = router.start_again();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&get(http, "/certificate")).expect("JSON"), told);
    assert!(get(http, "/metrics").contains("byname_tls_certificate_failures_total 0"));
    drop(router);
}

#[test]
fn a_router_without_its_authority_uses_the_certificate_that_it_makes() {
    let identity = Identity::new();
    let (router, http) = asking(free_port(), free_port(), &identity);
    eventually("the failure is counted", || get(http, "/metrics").contains("byname_tls_certificate_failures_total 1"));
    assert!(router.log().contains("tries again in 15 minutes"), "{}", router.log());
    assert!(get(http, "/metrics").contains("byname_tls_certificate_ends_seconds"));
    let told: serde_json::Value = serde_json::from_str(&get(http, "/certificate")).expect("JSON");
    assert_eq!(told["fingerprint"].as_str().map(str::len), Some(64));
}
