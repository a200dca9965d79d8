//! Checks whether a configuration fits this machine, for `byname check` and before `byname run` starts. Reports all
//! problems at once.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use byname_control::config::{
    Config, ConfigError, ConfiguredPlace, EthernetPort, Finding, MemifRole, RightsError, Source,
};
use byname_control::security::{Authorizer, Signer};
use tracing_subscriber::EnvFilter;

use super::machine::{self, Obstacle};
use super::socket_path::Surroundings;

/// A configuration that fits this machine, and the contents of the files that it names.
pub struct Good {
    /// Decides who may send commands.
    pub authorizer: Authorizer,
    /// Signs the announcements to the hub; `None`: the router tells no hub.
    pub propagate_signer: Option<Signer>,
    /// This router's places on its trees.
    pub places: Vec<ConfiguredPlace>,
    /// Warnings, each with its place in the configuration.
    pub warnings: Vec<String>,
}

/// Checks whether a configuration fits this machine.
///
/// # Errors
/// All problems that keep the router from running with this configuration.
pub fn examine(
    config: &Config,
    source: &Source,
    file: &Path,
    surroundings: &Surroundings,
) -> Result<Good, ConfigError> {
    let mut findings = Vec::new();
    if let Some(room) = machine::room() {
        findings.extend(config.memory_findings(&room, |key| source.has(key)));
    }
    look_at_interfaces(config, &mut findings);
    look_at_sockets(config, surroundings, &mut findings);
    look_at_files(config, &mut findings);
    findings.extend(config.exposed_secrets(file));
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    findings.extend(config.expiring_certificates(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)));
    findings.extend(super::routing::findings(config));
    let authorizer = config.authorizer().map_err(|problems| findings.extend(problems)).ok();
    let authorizer = authorizer.map(|authorizer| super::routing::admitted(authorizer, config));
    let signer = config.propagate_signer();
    let mut note = |error: RightsError| {
        findings.push(Finding::fatal(format!("rib.propagate.{}", error.setting()), error.to_string()));
    };
    let signer = signer.map_err(&mut note).ok();
    let places = config.places().map_err(|error| findings.push(Finding::fatal("tags.graph", error.to_string()))).ok();
    match (source.errors(&findings), authorizer, signer, places) {
        (None, Some(authorizer), Some(propagate_signer), Some(places)) => {
            let warnings = findings.iter().map(|finding| source.place(finding).to_string()).collect();
            Ok(Good { authorizer, propagate_signer, places, warnings })
        }
        (Some(error), ..) => Err(error),
        (None, ..) => unreachable!("what is missing has a fatal finding"),
    }
}

fn look_at_interfaces(config: &Config, findings: &mut Vec<Finding>) {
    let interfaces = machine::interfaces();
    let is_missing = |name: &String| interfaces.as_ref().is_some_and(|there| !there.contains(name));
    for (n, ethernet) in config.faces.ethernet.iter().enumerate() {
        let name = &ethernet.interface;
        let is_dpdk = ethernet.port == EthernetPort::Dpdk;
        if is_dpdk && !cfg!(feature = "dpdk") {
            let text = format!(
                "{name} needs DPDK, but this byname was built without it: build one with `cargo build --release -p \
                 byname --features dpdk` (on Debian, first `apt install libdpdk-dev`), or set port = \"xdp\""
            );
            findings.push(Finding::fatal(format!("faces.ethernet.{n}.port"), text));
        }
        if !is_dpdk && is_missing(name) {
            let text = format!("there is no interface {name} here; `ip link` lists the interfaces");
            findings.push(Finding::fatal(format!("faces.ethernet.{n}.interface"), text));
        }
    }
    let multicast = &config.faces.udp.multicast;
    for (n, name) in multicast.interfaces.iter().enumerate().filter(|_| multicast.enabled) {
        if is_missing(name) {
            let text =
                format!("there is no interface {name} here, so no multicast on it; `ip link` lists the interfaces");
            findings.push(Finding::warning(format!("faces.udp.multicast.interfaces.{n}"), text));
        }
    }
    if !config.metrics.otlp.is_empty() && !cfg!(feature = "opentelemetry") {
        let text = "this byname was built without OpenTelemetry: build one with `cargo build --release -p byname --features \
                    opentelemetry`, or let a collector scrape /metrics, and write otlp = \"\"";
        findings.push(Finding::fatal("metrics.otlp", text));
    }
    let listen = config.metrics.listen;
    if config.metrics.enabled
        && let Err(error) = TcpListener::bind((listen.ip(), 0))
        && error.kind() == ErrorKind::AddrNotAvailable
    {
        let text = format!(
            "no interface here has the address {}, so no metrics; `ip address` lists the addresses",
            listen.ip()
        );
        findings.push(Finding::warning("metrics.listen", text));
    }
}

fn look_at_sockets(config: &Config, surroundings: &Surroundings, findings: &mut Vec<Finding>) {
    if config.faces.unix.listen {
        // One usable path is enough.
        let candidates = surroundings.candidates(&config.faces.unix.path);
        let problems: Vec<Finding> =
            candidates.iter().filter_map(|path| problem_with_socket("faces.unix.path", path)).collect();
        if problems.len() == candidates.len() {
            findings.extend(problems);
        }
    }
    let servers = config.faces.memif.iter().enumerate().filter(|(_, memif)| memif.role == MemifRole::Server);
    findings.extend(
        servers.filter_map(|(n, memif)| problem_with_socket(&format!("faces.memif.{n}.socket"), &memif.socket)),
    );
}

/// The reason why the router cannot listen at `path`, if there is one.
fn problem_with_socket(key: &str, path: &Path) -> Option<Finding> {
    let at = path.display();
    if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket()) {
        let text = format!("{at} exists and is not a socket: set another path, or move the file away");
        return Some(Finding::fatal(key, text));
    }
    machine::obstacle(path, true).map(|obstacle| tell(obstacle, key, path))
}

fn look_at_files(config: &Config, findings: &mut Vec<Finding>) {
    if !config.capture.file.as_os_str().is_empty() {
        let path: PathBuf = config.folder.join(&config.capture.file);
        if path.is_dir() {
            let text = format!("{} is a folder: set the path of a file", path.display());
            findings.push(Finding::fatal("capture.file", text));
        } else if let Some(obstacle) = machine::obstacle(&path, false) {
            findings.push(tell(obstacle, "capture.file", &path));
        }
    }
    let state = &config.general.state_folder;
    if !state.as_os_str().is_empty() {
        let inside = config.folder.join(state).join("file");
        findings.extend(machine::obstacle(&inside, true).map(|it| tell(it, "general.state_folder", &inside)));
    }
    let store = &config.state.file;
    if config.state.enabled && !store.as_os_str().is_empty() {
        let path = config.folder.join(store);
        findings.extend(machine::obstacle(&path, true).map(|it| tell(it, "state.file", &path)));
    }
    findings.extend(config.bulk_findings());
    findings.extend(config.tag_table_findings());
    findings.extend(config.flat_findings());
    findings.extend(config.partition_findings());
    if let Err(error) = EnvFilter::try_new(config.log.filter()) {
        findings.push(Finding::fatal("log.modules", format!("not a valid log filter: {error}")));
    }
}

/// An obstacle to creating a file, in words. A missing permission is only a warning: the router may later run as
/// another user.
fn tell(obstacle: Obstacle, key: &str, path: &Path) -> Finding {
    let at = path.display();
    match obstacle {
        Obstacle::Missing(folder) => {
            let folder = folder.display();
            Finding::fatal(
                key,
                format!("cannot create {at}: there is no folder {folder}; create it with `mkdir -p {folder}`"),
            )
        }
        Obstacle::NoFolder(no_folder) => {
            let text = format!("cannot create {at}: {} is not a folder; set another path", no_folder.display());
            Finding::fatal(key, text)
        }
        Obstacle::Forbidden(folder) => {
            let text = format!("cannot create {at}: this user may not write to {}", folder.display());
            Finding::warning(key, text)
        }
    }
}
