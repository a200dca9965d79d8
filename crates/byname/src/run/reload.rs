//! A running router, and how it takes over a changed configuration file.
//!
//! A reload happens whole or not at all. It first checks the new file as `byname check` does. Then it does all that may
//! fail: it creates faces, listens for metrics, builds tables, adds routes. Each of these steps leaves behind what undoes
//! it. If one fails, the earlier ones are undone in reverse order, and the router runs as before. What cannot fail comes
//! last, and so does what cannot be undone: faces that the file no longer has are closed.

mod apply;
mod interfaces;
mod tables;

pub use apply::{SECURE_THREAD, WEB_THREAD};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_control::config::{Changes, Config, ConfiguredPlace, Source, changes};
use byname_control::mgmt::reload::{ReloadOptions, ReloadRequest, ReloadWish, report};
use byname_control::mgmt::tlv::ControlResponse;
use byname_control::security::Authorizer;
use byname_control::service::ControlHandle;
use byname_face::ForwarderHandle;
use byname_face::pcap::Capture;
use byname_forward::FaceId;
use byname_lookup::file::Checked;
use byname_web::WebServer;

use super::descriptor_store::DescriptorStore;
use super::examine::{Good, examine};
use super::handover::Program;
use super::health::Health;
use super::initial::Initial;
use super::push::Push;
use super::routing::{Routing, RoutingArgs};
use super::socket_path::Surroundings;
use super::takeover::Departing;
use super::{LogLevels, Secrets, count, takeover};
use crate::process::{Process, Wanted};
use tables::Leaving;

/// What the start of a router leaves behind.
pub struct Setup {
    /// The configuration.
    pub config: Config,
    /// Its text.
    pub source: Source,
    /// Its file; `None` if the router has the defaults.
    pub file: Option<PathBuf>,
    /// Faces and routes of the configuration.
    pub initial: Initial,
    /// The server of metrics. Its thread is watched.
    pub web: Option<WebServer>,
    /// Serves encrypted faces. Its thread is watched.
    pub secure: Option<byname_secure::Secure>,
    /// Sends metrics to a collector.
    pub push: Option<Push>,
    /// What it tells supervisors.
    pub health: Arc<Health>,
    /// How much is logged.
    pub levels: LogLevels,
    /// Whether the authorizer remembers commands of keys across restarts.
    pub has_marks: bool,
    /// Secrets of the tables.
    pub secrets: Secrets,
    /// Files of tables that were read: only their changes are new.
    pub checked: Checked,
    /// The file that gets all packets, if there is one.
    pub capture: Option<Capture>,
    /// Places on trees.
    pub places: Vec<ConfiguredPlace>,
    /// Faces that were made for these.
    pub tree_faces: Vec<FaceId>,
    /// The service manager's descriptor store, if it offers one.
    pub store: Option<DescriptorStore>,
    /// Routing.
    pub routing: Routing,
    /// What the command line says of routing. It overrides the file.
    pub options: RoutingArgs,
}

/// A reload that is undone unless it is confirmed in time.
struct Unconfirmed {
    until: Instant,
    within: Duration,
    before: Target,
}

impl Unconfirmed {
    /// Why nothing else may change meanwhile.
    fn refused(&self) -> Refused {
        Refused::Unconfirmed(self.until.saturating_duration_since(Instant::now()))
    }
}

/// A configuration to change to.
struct Target {
    config: Config,
    source: Source,
    rules: Authorizer,
    places: Vec<ConfiguredPlace>,
}

/// A running router.
pub struct Router {
    handle: ForwarderHandle,
    control: ControlHandle,
    setup: Setup,
    unconfirmed: Option<Unconfirmed>,
    /// Tables that the packet threads are leaving.
    leaving: Leaving,
}

/// Why a reload changed nothing.
enum Refused {
    /// There is no such file, or a mistake is in it.
    File(String),
    /// Another reload waits for its confirmation.
    Unconfirmed(Duration),
    /// Some changes need a restart.
    NeedsRestart(Box<Changes>),
    /// The system or a table refuses.
    Failed(anyhow::Error),
}

/// What a reload has changed, or would change.
struct Reloaded {
    changes: Changes,
    warnings: Vec<String>,
}

impl Router {
    /// A router that has been set up.
    pub fn new(handle: ForwarderHandle, control: ControlHandle, setup: Setup) -> Self {
        Router { handle, control, setup, unconfirmed: None, leaving: Leaving::default() }
    }

    /// Lets management pass commands of the module `config` to `process`.
    pub fn take_requests(&self, process: &Process) -> anyhow::Result<()> {
        Ok(self.control.on_reload(process.requests())?)
    }

    /// Lets the service manager keep the listening sockets, for a process that starts after a crash.
    pub fn keep_sockets(&self) {
        takeover::keep_sockets(self.setup.store, &self.departing());
    }

    /// Ends the process, and leaves sockets and faces to the service manager if it keeps them. Returns if it does not.
    pub fn leave_to_manager(&self) {
        takeover::leave_to_manager(self.setup.store, self.departing());
    }

    fn departing(&self) -> Departing<'_> {
        let Setup { config, initial, web, secure, .. } = &self.setup;
        let (web, secure) = (web.as_ref(), secure.as_ref());
        Departing { config, initial, web, secure, handle: &self.handle, control: &self.control }
    }

    /// Carries out reloads and restarts until a signal ends the process. A restart starts `program`; it returns only if
    /// no new process has taken over.
    ///
    /// # Errors
    /// A thread has ended by itself.
    pub fn serve(&mut self, process: &mut Process, program: &Program) -> anyhow::Result<()> {
        loop {
            let until = self.unconfirmed.as_ref().map(|unconfirmed| unconfirmed.until);
            match process.next(until.into_iter().chain(self.leaving.next_look()).min())? {
                Wanted::End => return Ok(()),
                Wanted::Nothing => {
                    self.leaving.look(&self.handle);
                    if until.is_some_and(|until| until <= Instant::now()) {
                        self.undo(process);
                    }
                }
                Wanted::Restart => self.restart(program),
                Wanted::Reload => match self.reload(ReloadOptions::default(), process) {
                    Ok(reloaded) => reloaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}")),
                    Err(refused) => tracing::error!("SIGHUP changes nothing: {}", refused.text()),
                },
                Wanted::Request(request) => self.carry_out(request, process),
            }
            // A reload may have moved the server of metrics, and an attempt to restart has emptied the store.
            self.keep_sockets();
        }
    }

    /// Hands over to a new process, which ends this one. Returns only if that failed, or is refused.
    fn restart(&self, program: &Program) {
        match &self.unconfirmed {
            // The new process would not know what to go back to.
            Some(unconfirmed) => takeover::report_no_restart(&self.control, unconfirmed.refused().text()),
            None => takeover::restart(program, self.setup.store, self.departing()),
        }
    }

    /// Ends all threads.
    ///
    /// # Errors
    /// The control thread has ended by itself.
    pub fn end(mut self, process: &mut Process) -> anyhow::Result<()> {
        self.stop_routing(process);
        drop(self.setup.web);
        let _ends_here = self.setup.push;
        // Before the faces end: they must stay in the store.
        self.control.close_state()?;
        self.handle.shutdown();
        drop((self.control, self.setup.secure));
        Ok(())
    }

    fn carry_out(&mut self, request: ReloadRequest, process: &mut Process) {
        let response = match request.wish.clone() {
            ReloadWish::AddNeighbor { uri, cost, mtu } => match byname_control::config::parse_remote(&uri) {
                Ok(face) => routed(self.setup.routing.add_neighbor(face.to_string(), cost, mtu)),
                Err(error) => ControlResponse::new(400, error),
            },
            ReloadWish::RemoveNeighbor { uri } => routed(self.setup.routing.remove_neighbor(uri)),
            ReloadWish::Confirm => match self.unconfirmed.take() {
                Some(_) => {
                    tracing::info!("the reload is confirmed");
                    ControlResponse::new(200, "OK")
                }
                None => ControlResponse::new(404, "no reload waits for a confirmation"),
            },
            ReloadWish::Reload(options) => match self.reload(options, process) {
                Ok(Reloaded { changes, warnings }) => {
                    ControlResponse { body: report(&changes), ..ControlResponse::new(200, warnings.join("\n")) }
                }
                Err(refused) => {
                    tracing::warn!("a reload changes nothing: {}", refused.text());
                    let body = match &refused {
                        Refused::NeedsRestart(changes) => report(changes),
                        _ => Vec::new(),
                    };
                    ControlResponse { body, ..ControlResponse::new(refused.code(), refused.text()) }
                }
            },
        };
        self.control.answer(request, response);
    }

    /// Reads the file and takes it over.
    fn reload(&mut self, options: ReloadOptions, process: &mut Process) -> Result<Reloaded, Refused> {
        if let Some(unconfirmed) = self.unconfirmed.as_ref().filter(|_| !options.dry_run) {
            return Err(unconfirmed.refused());
        }
        let (changes, good, source) = self.read().map_err(Refused::File)?;
        let Good { authorizer: rules, places, warnings, .. } = good;
        let restarts = changes.needing_restart().count();
        if options.dry_run {
            return Ok(Reloaded { changes, warnings });
        }
        if restarts > 0 && !options.partial {
            return Err(Refused::NeedsRestart(Box::new(changes)));
        }
        let target = Target { config: changes.applicable.clone(), source, rules, places };
        let before = self.change_to(target, process, false).map_err(Refused::Failed)?;
        for change in changes.list.iter().filter(|change| change.restart.is_none()) {
            tracing::info!("reloaded {}: {}", change.setting, change.text);
        }
        let applied = count(changes.list.len() - restarts, "change");
        match options.confirm_within {
            None => tracing::info!("the configuration is reloaded: {applied}"),
            Some(within) => {
                tracing::info!(?within, "the configuration is reloaded: {applied}, undone unless confirmed");
                self.unconfirmed = Some(Unconfirmed { until: Instant::now() + within, within, before });
            }
        }
        Ok(Reloaded { changes, warnings })
    }

    /// Reads and checks the file.
    fn read(&self) -> Result<(Changes, Good, Source), String> {
        let Some(file) = &self.setup.file else {
            return Err("this router was started without a configuration file (`byname run --config FILE`)".to_owned());
        };
        let source = Source::load(file).map_err(|error| error.to_string())?;
        let mut config = source.config().map_err(|error| error.to_string())?;
        self.setup.options.override_in(&mut config, &source).map_err(|error| error.to_string())?;
        let good = examine(&config, &source, file, &Surroundings::of_process()).map_err(|error| error.to_string())?;
        let changes = changes((&self.setup.config, &self.setup.source), (&config, &source));
        // Some values are the old ones, and may contradict the new ones.
        match source.errors(&changes.applicable.contradictions()) {
            None => Ok((changes, good, source)),
            Some(error) => Err(format!("without what needs a restart: {error}")),
        }
    }

    /// Goes back to the configuration before the last reload, as far as possible.
    fn undo(&mut self, process: &mut Process) {
        let Some(Unconfirmed { before, within, .. }) = self.unconfirmed.take() else { return };
        match self.change_to(before, process, true) {
            Ok(_) => tracing::warn!(?within, "the reload is undone: nobody has confirmed it in time"),
            Err(error) => tracing::error!("the reload cannot be undone: {error:#}"),
        }
    }
}

/// The answer to a command about a neighbour.
fn routed(is_on: bool) -> ControlResponse {
    match is_on {
        true => ControlResponse::new(200, "OK"),
        false => ControlResponse::new(404, "this router takes no part in routing; see [routing] in the configuration"),
    }
}

impl Refused {
    fn code(&self) -> u64 {
        match self {
            Refused::File(_) => 400,
            Refused::Unconfirmed(_) | Refused::NeedsRestart(_) => 409,
            Refused::Failed(_) => 503,
        }
    }

    fn text(&self) -> String {
        match self {
            Refused::File(error) => error.clone(),
            Refused::Unconfirmed(left) => {
                let left = left.as_secs() + 1;
                format!(
                    "the last reload waits for its confirmation, and is undone in {left} s: `byname reload --confirm`"
                )
            }
            Refused::NeedsRestart(changes) => {
                let settings: Vec<&str> = changes.needing_restart().map(|change| change.setting.as_str()).collect();
                format!("a restart is needed for {}; --partial leaves that out", settings.join(", "))
            }
            Refused::Failed(error) => format!("{error:#}"),
        }
    }
}
