//! The steps of a reload.

use std::io::ErrorKind;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use byname_control::config::{Config, InitialFace, InitialRoute};
use byname_control::mgmt::Management;
use byname_control::mgmt::reload::{RouteChange, StrategyChange};
use byname_control::readvertise::Destination;
use byname_control::service::Limits;
use byname_face::FaceUri;
use byname_face::face::{FaceChange, FaceStatus};
use byname_forward::FaceId;
use byname_web::WebServer;

use super::super::initial::{Initial, OwnFace, create_or_find, faces, routes, with_face};
use super::super::ports::{adds_certificate, encryption_of, tells_certificate};
use super::super::trees::Joining;
use super::super::{dashboard, push, routing, state};
use super::{Router, Target};
use crate::process::Process;

/// Name of the thread that serves HTTP, in messages.
pub const WEB_THREAD: &str = "web thread";
/// Name of the thread that serves encrypted faces, in messages.
pub const SECURE_THREAD: &str = "thread for encrypted faces";
/// How long to wait until the earlier server has closed its socket.
const CLOSING_TIME: Duration = Duration::from_secs(2);

type Undo = Box<dyn FnOnce(&mut Router)>;

/// A reload in progress.
pub(super) struct Steps<'a> {
    pub(super) router: &'a mut Router,
    target: Target,
    /// What undoes the steps so far, the first step first.
    pub(super) undo: Vec<Undo>,
    /// Whether to leave out faces and metrics that fail, and go on.
    lenient: bool,
    /// Faces and routes of the new configuration.
    initial: Initial,
    /// Faces to close at the end.
    closing: Vec<FaceId>,
    /// Whether interfaces were closed and opened anew. Their faces are gone.
    pub(super) has_reopened: bool,
    /// Interfaces to close at the end.
    pub(super) unwanted: Vec<String>,
    /// Trees to join at the end.
    joining: Option<Joining>,
}

impl Router {
    /// Changes to another configuration. Returns the one before.
    ///
    /// # Errors
    /// A step has failed. The earlier ones are undone.
    pub(super) fn change_to(&mut self, target: Target, process: &mut Process, lenient: bool) -> anyhow::Result<Target> {
        let initial = self.setup.initial.clone();
        let mut steps = Steps {
            router: self,
            target,
            undo: Vec::new(),
            lenient,
            initial,
            closing: Vec::new(),
            has_reopened: false,
            unwanted: Vec::new(),
            joining: None,
        };
        if let Err(error) = steps.take_all(process) {
            let Steps { router, undo, .. } = steps;
            undo.into_iter().rev().for_each(|undo| undo(router));
            return Err(error);
        }
        let before = steps.finish()?;
        let after = self.setup.config.clone();
        self.change_routing(&before.config, &after, process);
        Ok(before)
    }

    fn old(&self) -> &Config {
        &self.setup.config
    }

    fn limits(config: &Config) -> Limits {
        Limits {
            routes_max: config.rib.routes_max,
            announcements_max: config.rib.announcements_max,
            tag_limits: config.tag_limits(),
            balance_period: config.threads.balance,
        }
    }

    fn build_tag_fib(&self, config: &Config) -> anyhow::Result<()> {
        // Here, since the control thread need not wait for a file.
        let fib = config.build_tag_fib(self.setup.secrets.tags).context("the descriptors' FIB")?;
        self.control.rebuild_tag_fib(fib).context("the descriptors' FIB")
    }

    fn start_web(&mut self, config: &Config, process: &mut Process) -> anyhow::Result<Option<WebServer>> {
        if !config.metrics.enabled {
            return Ok(None);
        }
        let snapshots = self.control.snapshots(config.metrics.faces);
        let mut notes = Vec::new();
        let measures = self.setup.routing.measures();
        let dashboard = dashboard::wanted(config, &self.control, measures.map(), &mut notes);
        let ask = measures.added_to(move |tell| snapshots.ask(tell));
        let ask = adds_certificate(self.setup.secure.as_ref(), ask);
        let mut probes = self.setup.health.probes();
        probes.certificate = self.setup.secure.as_ref().map(tells_certificate);
        let mut web = WebServer::start_on(config.metrics.listen, None, ask, probes, dashboard)?;
        if let Some(thread) = web.take_thread() {
            process.watch(WEB_THREAD, thread)?;
        }
        Ok(Some(web))
    }

    /// Changes who is told of routes.
    fn set_destinations(&self, config: &Config) -> anyhow::Result<()> {
        let (old, new) = (&self.old().rib, &config.rib);
        if old.readvertise != new.readvertise {
            let daemon = new.readvertise.enabled.then(|| Destination::daemon(new.readvertise.clone()));
            self.control.set_destination(Destination::DAEMON, daemon)?;
        }
        if old.propagate != new.propagate {
            match config.propagate_signer() {
                Ok(signer) => {
                    let hub = signer.map(|signer| Destination::hub(&new.propagate, signer));
                    self.control.set_destination(Destination::HUB, hub)?;
                }
                // It was good when the file was read.
                Err(error) => tracing::error!("[rib.propagate]: {error}"),
            }
        }
        Ok(())
    }

    /// Those of these faces that no route leads to. Commands may have made routes to the others, which stay with them.
    fn without_routes(&self, faces: Vec<FaceId>) -> anyhow::Result<Vec<FaceId>> {
        let has_none = move |management: &mut Management| {
            let (kept, closing): (Vec<FaceId>, Vec<FaceId>) =
                faces.into_iter().partition(|face| management.rib().has_routes(*face));
            for face in kept {
                tracing::info!(%face, "a face stays although the configuration has it no more: it has other routes");
            }
            closing
        };
        Ok(self.control.with_management(has_none)?)
    }

    /// Lets routing follow a new configuration. It may have to begin anew.
    fn change_routing(&mut self, old: &Config, new: &Config, process: &mut Process) {
        if self.setup.routing.is_on() && new.routing.is_on() && routing::can_follow(old, new) {
            return self.setup.routing.configure(new);
        }
        self.stop_routing(process);
        let started = self.setup.routing.start(new, &self.handle);
        let watched = started.and_then(|thread| thread.map_or(Ok(()), |thread| process.watch(routing::THREAD, thread)));
        if let Err(error) = watched {
            // The keys were good when the file was read.
            tracing::error!("no routing any more: {error:#}");
        }
    }

    pub(super) fn stop_routing(&mut self, process: &mut Process) {
        if self.setup.routing.is_on() {
            process.release(routing::THREAD);
            self.setup.routing.end();
        }
    }

    fn stop_web(&mut self, process: &mut Process) {
        if self.setup.web.take().is_some() {
            process.release(WEB_THREAD);
        }
    }
}

/// Reports a failure while a reload is undone.
pub(super) fn log_failure<T, E: std::fmt::Display>(what: &str, outcome: Result<T, E>) {
    if let Err(error) = outcome {
        tracing::error!("the reload is not undone entirely: {what}: {error:#}");
    }
}

impl Steps<'_> {
    /// All steps that may fail.
    fn take_all(&mut self, process: &mut Process) -> anyhow::Result<()> {
        let (old, new) = (self.router.setup.config.clone(), self.target.config.clone());
        self.interfaces(&old, &new)?;
        self.faces(&old, &new)?;
        let marks = match self.target.rules.knows_keys() && !self.router.setup.has_marks {
            false => None,
            true => state::marks(&self.target.rules, &new, SystemTime::now(), &mut Vec::new())?,
        };
        self.tables(&old, &new)?;
        let of_tags = |config: &Config| {
            let tags = &config.tags;
            (tags.engine, tags.steps_max, tags.descriptors_max, tags.bulk.clone())
        };
        if of_tags(&old) != of_tags(&new) {
            self.router.build_tag_fib(&new)?;
            let old = old.clone();
            self.undo.push(Box::new(move |router| log_failure("the descriptors' FIB", router.build_tag_fib(&old))));
        }
        let limits = Router::limits(&old);
        self.router.control.set_limits(Router::limits(&new)).context("[rib] routes_max")?;
        self.undo.push(Box::new(move |router| log_failure("limits", router.control.set_limits(limits))));
        self.strategies(&old, &new)?;
        self.routes(&old, &new)?;
        self.trees(&new)?;
        self.web(&old, &new, process)?;
        self.certificate(&old, &new)?;
        if marks.is_some() {
            // The rules follow. Marks without keys change nothing.
            self.router.setup.has_marks = true;
        }
        let rules = std::mem::replace(&mut self.target.rules, byname_control::security::Authorizer::local_only());
        self.target.rules = self.router.control.set_rights(rules, marks)?;
        Ok(())
    }

    /// Creates new faces and changes others. Those that the new configuration does not want are closed later.
    fn faces(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let (before, after) = (faces(old), faces(new));
        let same = |a: &InitialFace, b: &InitialFace| (&a.remote, &a.local) == (&b.remote, &b.local);
        self.initial.faces.retain(|face| after.iter().any(|wanted| same(wanted, &face.wanted)));
        for OwnFace { wanted, id, is_made } in &self.router.setup.initial.faces {
            if *is_made && !after.iter().any(|face| same(face, wanted)) {
                self.closing.push(*id);
            }
        }
        for wanted in after {
            let outcome = match before.iter().find(|face| same(face, &wanted)) {
                Some(unchanged) if *unchanged == wanted => self.keep_face(&wanted),
                Some(earlier) => self.change_face(earlier, &wanted),
                None => self.create_face(&wanted),
            };
            self.allow(outcome.with_context(|| format!("[[face]] {}", wanted.remote)))?;
        }
        Ok(())
    }

    /// Logs a failure if failures do not end the reload.
    pub(super) fn allow(&self, outcome: anyhow::Result<()>) -> anyhow::Result<()> {
        match outcome {
            Err(error) if self.lenient => {
                tracing::error!("{error:#}");
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn create_face(&mut self, wanted: &InitialFace) -> anyhow::Result<()> {
        let (id, is_made) = create_or_find(&self.router.handle, wanted)?;
        if is_made {
            self.undo.push(Box::new(move |router| {
                router.handle.destroy_face(id);
            }));
        }
        self.initial.faces.push(OwnFace { wanted: wanted.clone(), id, is_made });
        Ok(())
    }

    /// Makes a face anew if it has gone with its interface.
    fn keep_face(&mut self, wanted: &InitialFace) -> anyhow::Result<()> {
        let own = self.initial.faces.iter().find(|face| face.wanted == *wanted);
        let is_gone = |face: &OwnFace| self.has_reopened && self.router.handle.face(face.id).is_none();
        let Some(gone) = own.filter(|face| is_gone(face)).map(|face| face.id) else { return Ok(()) };
        self.initial.faces.retain(|face| face.id != gone);
        self.create_face(wanted)
    }

    fn change_face(&mut self, earlier: &InitialFace, wanted: &InitialFace) -> anyhow::Result<()> {
        let Some(own) = self.initial.faces.iter_mut().find(|face| face.wanted == *earlier) else {
            return self.create_face(wanted);
        };
        let (handle, id) = (&self.router.handle, own.id);
        let Some(status) = handle.face(id) else {
            self.initial.faces.retain(|face| face.id != id);
            return self.create_face(wanted);
        };
        if earlier.mtu.is_some() && wanted.mtu.is_none() {
            bail!("the MTU of a face cannot return to its default while it exists: write `mtu`");
        }
        let request = wanted.request();
        let change = FaceChange {
            persistency: Some(request.persistency),
            mtu: request.mtu,
            flags: Some(request.flags),
            ..FaceChange::default()
        };
        handle.update_face(id, change)?;
        own.wanted = wanted.clone();
        self.undo.push(Box::new(move |router| log_failure("a face", router.handle.update_face(id, undoing(&status)))));
        Ok(())
    }

    /// Changes the FIB and the tables of packet threads.
    fn tables(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let before = self.router.worker_configs(old, old);
        let after = self.router.worker_configs(old, new);
        self.router.change_tables((old, &before), (new, &after))?;
        let (old, new) = (old.clone(), new.clone());
        self.undo.push(Box::new(move |router| {
            log_failure("the tables", router.change_tables((&new, &after), (&old, &before)));
        }));
        Ok(())
    }

    fn strategies(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let (before, after) = (&old.tables.strategies, &new.tables.strategies);
        let gone = before.keys().filter(|prefix| !after.contains_key(prefix)).map(|prefix| (prefix.clone(), None));
        let set = after.iter().filter(|(prefix, strategy)| before.get(*prefix) != Some(*strategy));
        let set = set.map(|(prefix, strategy)| (prefix.clone(), Some(strategy.clone())));
        let changes: Vec<StrategyChange> = gone.chain(set).collect();
        if !changes.is_empty() {
            let undo = self.router.control.set_strategies(changes).context("[tables.strategies]")?;
            let configured = |config: &Config| config.tables.strategies.clone().into_iter().collect::<Vec<_>>();
            let (earlier, later) = (configured(old), configured(new));
            self.router.control.with_management(|management| management.set_configured_strategies(later))?;
            self.undo.push(Box::new(|router| {
                log_failure("strategies", router.control.set_strategies(undo));
                let configured =
                    router.control.with_management(|management| management.set_configured_strategies(earlier));
                log_failure("strategies", configured);
            }));
        }
        Ok(())
    }

    /// Removes the routes that the new configuration does not have, and adds those that are new or have changed.
    fn routes(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let (before, after) = (routes(old), routes(new));
        let mut changes = Vec::new();
        let closing = &self.closing;
        let face_before = |uri: &FaceUri| self.router.setup.initial.face_to(uri);
        let anew: Vec<bool> =
            after.iter().map(|route| self.initial.face_to(&route.face) != face_before(&route.face)).collect();
        let faces: Vec<(FaceUri, FaceId)> =
            self.initial.faces.iter().map(|face| (face.wanted.remote.clone(), face.id)).collect();
        let face_now = |uri: &FaceUri| faces.iter().find(|(remote, _)| remote == uri).map(|(_, id)| *id);
        self.initial.routes.retain(|(name, route)| {
            let is_wanted = |wanted: &&InitialRoute| {
                let leads_there = face_now(&wanted.face) == Some(route.face);
                wanted.prefix == *name && leads_there && !closing.contains(&route.face)
            };
            let stays = after.iter().find(is_wanted).is_some_and(|wanted| with_face(wanted, route.face) == *route);
            if !stays {
                changes.push(RouteChange { name: name.clone(), route: *route, adds: false });
            }
            stays
        });
        let is_new = |(wanted, anew): &(&InitialRoute, &bool)| **anew || !before.contains(*wanted);
        for (wanted, _) in after.iter().zip(&anew).filter(is_new) {
            let Some(face) = self.initial.face_to(&wanted.face) else {
                let missing = Err(anyhow::anyhow!("[[route]] {}: there is no face to {}", wanted.prefix, wanted.face));
                self.allow(missing)?;
                continue;
            };
            let (name, route) = (wanted.prefix.clone(), with_face(wanted, face));
            self.initial.routes.push((name.clone(), route));
            changes.push(RouteChange { name, route, adds: true });
        }
        if !changes.is_empty() {
            let undo = self.router.control.set_routes(changes).context("[[route]]")?;
            self.undo.push(Box::new(|router| log_failure("routes", router.control.set_routes(undo))));
        }
        Ok(())
    }

    /// Creates the faces to neighbours on trees. The files of graph and keys may have changed, too.
    fn trees(&mut self, new: &Config) -> anyhow::Result<()> {
        if self.router.old().tags.trees.is_empty() && new.tags.trees.is_empty() {
            return Ok(());
        }
        let mut notes = Vec::new();
        let joining = Joining::prepare(&self.target.places, &self.router.handle, &mut notes);
        let made = joining.made.clone();
        self.undo.push(Box::new(move |router| {
            for face in made {
                router.handle.destroy_face(face);
            }
        }));
        self.joining = Some(joining);
        // As at the start, a neighbour that cannot be reached does not keep the router from its trees.
        notes.iter().for_each(|note| tracing::warn!("{note}"));
        Ok(())
    }

    /// Moves the server of metrics. This is the last step that may fail, so nothing undoes it.
    fn web(&mut self, old: &Config, new: &Config, process: &mut Process) -> anyhow::Result<()> {
        if old.metrics == new.metrics && old.dashboard == new.dashboard {
            return Ok(());
        }
        let mut started = self.router.start_web(new, process);
        let is_in_use = |error: &anyhow::Error| {
            let error = error.downcast_ref::<byname_web::StartError>();
            error.is_some_and(|start| start.error.kind() == ErrorKind::AddrInUse)
        };
        let has_port =
            self.router.setup.web.as_ref().is_some_and(|web| web.address().port() == new.metrics.listen.port());
        if has_port && started.as_ref().is_err_and(is_in_use) {
            // The earlier server may hold the port, on another address.
            self.router.stop_web(process);
            started = again(CLOSING_TIME, || self.router.start_web(new, process));
            if started.is_err() {
                match again(CLOSING_TIME, || self.router.start_web(old, process)) {
                    Ok(web) => self.router.setup.web = web,
                    Err(error) => tracing::error!("no metrics any more: {error:#}"),
                }
            }
        }
        let pushing = || {
            let setup = &self.router.setup;
            push::start(new, &self.router.control, setup.routing.measures(), setup.secure.as_ref())
        };
        match started.and_then(|web| Ok((web, pushing()?))).context("[metrics]") {
            Ok((web, push)) => {
                self.router.stop_web(process);
                self.router.setup.web = web;
                self.router.setup.push = push;
                Ok(())
            }
            Err(error) => self.allow(Err(error)),
        }
    }

    /// Reads the certificate again, also if its files have the same names.
    fn certificate(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let reload = |router: &Router, config: &Config| {
            let Some(secure) = &router.setup.secure else { return Ok(()) };
            let (files, trusted) = encryption_of(config);
            secure.reload(files, trusted)
        };
        reload(self.router, new).context("[tls]")?;
        let old = old.clone();
        self.undo.push(Box::new(move |router| log_failure("the certificate", reload(router, &old))));
        Ok(())
    }

    /// What cannot fail. Returns the configuration before.
    fn finish(self) -> anyhow::Result<Target> {
        let Steps { router, target, initial, mut closing, unwanted, joining, .. } = self;
        let Target { config, source, rules, places } = target;
        let (tables, old) = (&config.tables, &router.setup.config.tables);
        let changed = |is: bool, was: bool| (is != was).then_some(is);
        let admit = changed(tables.cs_admit, old.cs_admit);
        let serve = changed(tables.cs_serve, old.cs_serve);
        if admit.is_some() || serve.is_some() {
            router.handle.cs_config(None, admit, serve);
        }
        let (regions, unasked) = (&config.network.producer_regions, tables.accept_unasked_data);
        if (regions, unasked) != (&router.old().network.producer_regions, old.accept_unasked_data) {
            router.handle.set_rules(regions.clone(), unasked);
        }
        router.handle.set_pace(config.general.spin, config.general.burst_packets);
        if let Some(joining) = joining {
            let neighbors: Vec<FaceId> = joining.faces().collect();
            let is_own = |face: &FaceId| initial.faces.iter().any(|own| own.id == *face);
            let mut made = joining.join(&router.control)?;
            for face in std::mem::take(&mut router.setup.tree_faces) {
                match neighbors.contains(&face) {
                    true => made.push(face),
                    false if is_own(&face) => {}
                    false => closing.push(face),
                }
            }
            closing.retain(|face| !neighbors.contains(face));
            router.setup.tree_faces = made;
        }
        let places = std::mem::replace(&mut router.setup.places, places);
        router.set_destinations(&config)?;
        if config.log != router.old().log {
            router.setup.levels.set(&config.log);
        }
        for face in router.without_routes(closing)? {
            router.handle.destroy_face(face);
        }
        for interface in unwanted {
            router.close(&interface);
        }
        router.setup.initial = initial;
        let config = std::mem::replace(&mut router.setup.config, config);
        let source = std::mem::replace(&mut router.setup.source, source);
        Ok(Target { config, source, rules, places })
    }
}

/// The change of a face back to this status.
fn undoing(status: &FaceStatus) -> FaceChange {
    FaceChange {
        persistency: Some(status.persistency),
        mtu: status.mtu,
        flags: Some(status.flags),
        ..FaceChange::default()
    }
}

/// Tries for some time.
fn again<T>(time: Duration, mut attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let until = Instant::now() + time;
    loop {
        match attempt() {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            outcome => return outcome,
        }
    }
}
