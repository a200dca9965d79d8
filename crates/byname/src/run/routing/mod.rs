//! Routing in `byname run`: a thread with an application that speaks ndn-dv's protocol.
//!
//! The application has a face of its own, like any other. It has no back door into the tables: it registers prefixes and
//! creates faces by management commands, and hears of this host's prefixes by readvertisement.
//!
//! - [`application`]: the loop, packets and time. [`acting`]: what the protocol wants done, and the router's answers.
//! - [`registrations`] and [`commands`]: how routes get into the router. [`suspensions`]: how it leaves dead neighbours at
//!   once. [`faces`]: what becomes of faces.
//! - [`identity`] and [`checks`]: this router's keys, and whom to believe.
//! - [`answers`]: what `byname routing` shows.

mod acting;
mod answers;
mod application;
mod checks;
mod commands;
mod faces;
mod identity;
mod link;
mod links;
mod measures;
mod options;
mod places;
mod registrations;
mod settings;
mod suspensions;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use byname_control::config::{Config, Finding};
use byname_control::security::{Authorizer, Module, Rule, Signer, TrustedSigner, VerifyingKey};
use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{ForwarderHandle, LinkFlags};
use byname_routing::Router;
use byname_routing::event::NeighbourSettings;
use byname_wire::{Component, Name, digest};

use self::application::{Application, Clock, Parts, Request, unix_ms};
use self::checks::Checks;
use self::commands::Commands;
use self::identity::Identity;
use self::link::Link;
pub use self::links::network_keys;
pub use self::measures::Measures;
pub use self::options::RoutingArgs;

/// Name of the thread, in messages.
pub const THREAD: &str = "routing thread";
/// Path in the local URI of the application's face. There is no such file.
const FACE_PATH: &str = "/byname/routing";
/// Modules of management that routing commands.
const MODULES: [Module; 5] = [Module::Faces, Module::Rib, Module::Cs, Module::StrategyChoice, Module::Tags];
/// How long the thread may take to end.
const ENDING_TIME: Duration = Duration::from_secs(2);

/// Problems of `[routing]` that show only with the files that it names.
pub fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = settings::findings(config);
    findings.extend(identity::findings(config, unix_ms()));
    findings
}

/// A secret of this process, with which routing signs its commands if not everybody on this host may command the router.
/// Nobody else has it.
fn secret() -> &'static [u8; 32] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(rand::random)
}

/// The name of that secret, which no other start has.
fn secret_name() -> Name {
    let id = digest::sha256(&[secret()]);
    let words = ["localhost", "byname", "routing", "KEY"];
    let name = Name::from_components(words.iter().map(|word| Component::generic(word.as_bytes())));
    name.join(Component::generic(&id[..8]))
}

/// Lets routing command the router, if the configuration wants routing and does not let everybody on this host do it.
pub fn admitted(authorizer: Authorizer, config: &Config) -> Authorizer {
    if !config.routing.is_on() || authorizer.lets_all_use(&MODULES) {
        return authorizer;
    }
    let signer = TrustedSigner::Hmac { key_name: secret_name(), key: VerifyingKey::from_hmac_secret(secret()) };
    authorizer.with_rule(Rule { remote: false, signer, modules: MODULES.to_vec(), prefixes: None })
}

/// Signs routing's commands. If everybody on this host may command the router, a digest is enough.
fn commander(config: &Config) -> anyhow::Result<Signer> {
    let problem = || anyhow::anyhow!("the rights in the configuration cannot be read");
    let authorizer = config.authorizer().map_err(|_| problem())?;
    Ok(match authorizer.lets_all_use(&MODULES) {
        true => Signer::digest(),
        false => Signer::hmac(secret_name(), secret()),
    })
}

/// Routing of this router, on or off.
#[derive(Default)]
pub struct Routing {
    running: Option<Running>,
    measures: Measures,
    /// The start of the last thread, in seconds since the Unix epoch. The next one must be later.
    boot: u64,
}

struct Running {
    requests: Sender<Request>,
    /// Wakes the thread.
    bell: UnixStream,
    /// Is closed when the thread has ended.
    ended: Receiver<()>,
}

impl Running {
    fn tell(&mut self, request: Request) {
        // A thread that has ended needs no requests; a bell that is full wakes it anyway.
        let _ = self.requests.send(request);
        let _ = self.bell.write(&[0]);
    }
}

impl Routing {
    /// Starts the thread, if the configuration wants it. Returns it, to be watched.
    ///
    /// # Errors
    /// If the keys cannot be used, or the system refuses.
    pub fn start(&mut self, config: &Config, handle: &ForwarderHandle) -> anyhow::Result<Option<JoinHandle<()>>> {
        if !config.routing.is_on() {
            return Ok(None);
        }
        let now_ms = unix_ms();
        let identity = Identity::load(config, now_ms).context("[routing] keys")?;
        if identity.certificate.is_none() {
            tracing::warn!("routing believes everybody: it is `insecure`");
        }
        self.boot = (now_ms / 1_000).max(self.boot + 1);
        let clock = Clock::start();
        let settings = settings::of_protocol(config, self.boot, settings::own_uris(config))?;
        let settings = byname_routing::Config { rights: identity.own_rights(), ..settings };
        let core = Router::new(settings, identity.signer()?, clock.now()).context("[routing]")?;
        let validator = match config.routing.insecure {
            true => None,
            false => Some(identity.validator()),
        };
        // Congestion marks are for those who can slow down. Local fields are asked for by a command, as others do.
        let mut stream = StreamConfig::default();
        stream.link.flags = LinkFlags::default();
        let (port, application) = StreamPort::pair(Path::new(FACE_PATH), stream).context("no sockets for routing")?;
        handle.add_ports(0, vec![Box::new(port)])?;
        let (near, far) = UnixStream::pair().context("no sockets for routing")?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let parts = Parts {
            link: Link::new(application)?,
            core,
            commands: Commands::new(commander(config)?),
            checks: Checks::new(validator),
            measures: self.measures.clone(),
            config: config.clone(),
            identity,
            clock,
        };
        let (requests, receiver) = channel();
        let (ending, ended) = channel();
        let run = move || {
            let _ending = ending;
            if let Err(error) = Application::new(parts).run(&receiver, &far) {
                tracing::error!("routing has lost the router: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("byname-routing".into()).spawn(run);
        self.running = Some(Running { requests, bell: near, ended });
        tracing::info!(network = %config.routing.network, router = %config.routing.name, "routing begins");
        Ok(Some(thread.context("cannot start routing")?))
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Takes over another configuration. The network, this router's name and the intervals must be the same.
    pub fn configure(&mut self, config: &Config) {
        if let Some(running) = &mut self.running {
            running.tell(Request::Configure(Box::new(config.clone())));
        }
    }

    /// Makes a link to a neighbour. Returns whether routing is on.
    pub fn add_neighbor(&mut self, uri: String, cost: u64, mtu: Option<u64>) -> bool {
        self.ask(Request::AddNeighbour(NeighbourSettings { uri, cost, mtu }))
    }

    /// Leaves a neighbour. Returns whether routing is on.
    pub fn remove_neighbor(&mut self, uri: String) -> bool {
        self.ask(Request::RemoveNeighbour(uri))
    }

    fn ask(&mut self, request: Request) -> bool {
        self.running.as_mut().map(|running| running.tell(request)).is_some()
    }

    /// Says farewell to the network, and ends the thread.
    pub fn end(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.tell(Request::Stop);
        // The other end is dropped, and nothing is ever sent.
        let _ = running.ended.recv_timeout(ENDING_TIME);
        self.measures.clear();
    }

    /// Where its counters are.
    pub fn measures(&self) -> Measures {
        self.measures.clone()
    }
}

/// Whether a running thread can take over the change between two configurations.
pub fn can_follow(old: &Config, new: &Config) -> bool {
    let rest = |config: &Config| {
        let mut routing = config.routing.clone();
        routing.neighbors.clear();
        routing.policy.clear();
        routing.keys = PathBuf::new();
        routing.schema = PathBuf::new();
        routing.tree_priority = 0;
        routing
    };
    // A change of the rights may change how routing signs its commands.
    rest(old) == rest(new) && old.authorizations == new.authorizations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neighbors_rules_keys_and_the_rank_as_a_root_change_while_it_runs() {
        let parse = |text: &str| {
            let on = format!("[routing]\nnetwork = \"/n\"\nname = \"/n/a\"\n{text}");
            Config::parse(&on, Path::new("byname.toml")).expect("good")
        };
        let old = parse("");
        for text in [
            "keys = \"/k\"",
            "schema = \"/s\"",
            "tree_priority = 7",
            "policy = [\"accept deny origin /n/b\"]",
            "[[routing.neighbor]]\nface = \"udp4://192.0.2.1:6363\"",
        ] {
            assert!(can_follow(&old, &parse(text)), "{text}");
        }
        for text in ["insecure = true", "hello_misses = 5", "multicast = false"] {
            assert!(!can_follow(&old, &parse(text)), "{text}");
        }
    }
}
