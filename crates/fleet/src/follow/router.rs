//! The agent's side towards its router: management commands, as of any application.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_client::management::{LIFETIME, ManagementError};
use byname_client::{AsyncClient, CallError, ClientOptions, ConnectError, MakeFaceError, RouterFaces};
use byname_mgmt::batch::BatchChange;
use byname_mgmt::{ControlParameters, RibEntry, StrategyChoice, StrategyName, origin};
use byname_wire::{Descriptor, Name};
use thiserror::Error;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::batch::Batch;
use super::strategies::{SetByFleet, SetOnce};
use super::told::Told;
use super::{PAUSE, Shared};
use crate::agent::{Change, Existing, SUSPENDED_MS, Ticket};
use crate::intent::Attributes;

/// The reason why the router did not do something.
#[derive(Debug, Error)]
pub(super) enum RouterError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Face(#[from] MakeFaceError),
    #[error("{0}")]
    NoFace(String),
    #[error("cannot write the state file: {0}")]
    State(#[from] std::io::Error),
    #[error("{0}")]
    Files(String),
    #[error("the connection was closed")]
    Closed,
}

impl RouterError {
    /// Whether the connection is gone.
    pub(super) fn is_lost(&self) -> bool {
        let ended = |error: &CallError| matches!(error, CallError::Ended(_));
        match self {
            RouterError::Closed => true,
            RouterError::Call(error) | RouterError::Face(MakeFaceError::Call(error)) => ended(error),
            _ => false,
        }
    }

    fn code(&self) -> Option<u64> {
        match self {
            RouterError::Call(CallError::Management(ManagementError::Refused { code, .. })) => Some(*code),
            _ => None,
        }
    }
}

/// A change that was made or not, and the face that was made for it.
pub(super) type Made = (Ticket, Change, Result<Option<u64>, RouterError>);

/// Keeps the router as the agent wants it, for ever.
pub(super) async fn serve(shared: &Shared, strategies: &mut SetByFleet, told: &mut Told) {
    let mut said = String::new();
    let mut pause = PAUSE.0;
    loop {
        let begun = Instant::now();
        let result = session(shared, strategies, told, &mut said).await;
        *shared.client.borrow_mut() = None;
        shared.tell(|agent, _| agent.router_lost());
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        if let Err(error) = result {
            let text = error.to_string();
            if text != said {
                warn!("the router: {text}; trying again");
                said = text;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// One connection to the router.
async fn session(
    shared: &Shared,
    strategies: &mut SetByFleet,
    told: &mut Told,
    said: &mut String,
) -> Result<(), RouterError> {
    let mut options = ClientOptions::new(shared.options.router.clone());
    options.reconnect = None;
    options.session.outage_max = Duration::ZERO;
    let client = AsyncClient::connect(options).await?;
    told.begin();
    let (mut faces, existing) = what_is(shared, &client, strategies, told).await?;
    let (routes, tags, set) = (existing.routes.len(), existing.tags.len(), existing.strategies.len());
    info!("connected to the router: {routes} routes of the fleet, {tags} of tags, {set} strategies");
    said.clear();
    shared.tell(|agent, now| agent.router_connected(now, existing));
    let mut revision = 0;
    *shared.client.borrow_mut() = Some(client.clone());
    // Ends with this session.
    let mut serving = JoinSet::new();
    serving.spawn(super::tables::serve(Arc::new(shared.options.chunks.clone()), client.clone()));
    let mut compared = Instant::now();
    let mut under_way: JoinSet<Vec<Made>> = JoinSet::new();
    let mut creating = Creating::default();
    loop {
        let mut batch = Batch::default();
        loop {
            let next = creating.back.pop().or_else(|| shared.agent.borrow_mut().next_change(shared.now()));
            let Some((ticket, change)) = next else { break };
            match change {
                Change::SetStrategy { .. } | Change::RestoreStrategy { .. } => {
                    // One by one, since each is on the disk first. There are few.
                    let result = strategy(&client, strategies, &change).await;
                    finish(shared, &mut faces, told, (ticket, change, result.map(|()| None)))?;
                }
                Change::UseFiles { files, policy } => {
                    let (options, client) = (shared.options.files.clone(), client.clone());
                    under_way.spawn(async move {
                        let result = super::files::take_over(options, &client, (&files, &policy)).await;
                        vec![(ticket, Change::UseFiles { files, policy }, result.map(|()| None))]
                    });
                }
                change => {
                    if let Change::Advertise { tags, uri } = &change {
                        if !told.has_asked() {
                            // Somebody else may have told the router the same.
                            super::tags::list(&client, &faces, told).await?;
                        }
                        if let Err(error) = told.note(tags, uri) {
                            finish(shared, &mut faces, told, (ticket, change, Err(error.into())))?;
                            continue;
                        }
                    }
                    if let Change::Withdraw { tags, uri } = &change
                        && !told.is_own(tags, uri)
                    {
                        finish(shared, &mut faces, told, (ticket, change, Ok(None)))?;
                        continue;
                    }
                    let ids = faces_of(&faces, &change);
                    if let (Some(uri), true) = (face_for(&change), ids.is_empty()) {
                        let uri = uri.clone();
                        if let Some((ticket, change)) = creating.begin(&uri, (ticket, change)) {
                            under_way.spawn(Batch::alone((ticket, change, ids)).make(client.clone()));
                        }
                        continue;
                    }
                    let Err(wanted) = batch.push((ticket, change, ids)) else { continue };
                    // It is full, or this change is of another kind.
                    under_way.spawn(std::mem::take(&mut batch).make(client.clone()));
                    if let Err(wanted) = batch.push(wanted) {
                        under_way.spawn(Batch::alone(wanted).make(client.clone()));
                    }
                }
            }
        }
        if !batch.is_empty() {
            under_way.spawn(batch.make(client.clone()));
        }
        shared.news.notify_one();
        let applied = shared.agent.borrow().applied();
        if applied != revision {
            revision = applied;
            debug!("the router has revision {applied}");
        }
        let wake = shared.agent.borrow().next_wake().map_or(u64::MAX, |at| at.saturating_sub(shared.now()));
        let compare_in = shared.options.compare.saturating_sub(compared.elapsed());
        let idle = shared.agent.borrow().is_idle();
        tokio::select! {
            Some(made) = under_way.join_next(), if !under_way.is_empty() => {
                let mut next = Some(made);
                // All that has come, before the agent looks for more.
                while let Some(made) = next {
                    for made in made.map_err(|_| RouterError::Closed)? {
                        let failed = creating.made(&made);
                        for made in std::iter::once(made).chain(failed) {
                            finish(shared, &mut faces, told, made)?;
                        }
                    }
                    next = under_way.try_join_next();
                }
            }
            () = shared.work.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(wake.max(1))) => {}
            () = tokio::time::sleep(compare_in), if idle => {
                compared = Instant::now();
                let (now_faces, existing) = what_is(shared, &client, strategies, told).await?;
                faces = now_faces;
                shared.tell(|agent, _| agent.compared(existing));
            }
            ended = client.ended() => return Err(CallError::from(ended).into()),
        }
    }
}

/// Faces that are being made, and the changes that wait for each: one command makes it for all of them.
#[derive(Default)]
struct Creating {
    waiting: HashMap<Arc<str>, Vec<(Ticket, Change)>>,
    /// Changes that have waited.
    back: Vec<(Ticket, Change)>,
}

impl Creating {
    /// Returns the change if it is the first that needs a face with this address: it makes the face. Others wait.
    fn begin(&mut self, uri: &Arc<str>, wanted: (Ticket, Change)) -> Option<(Ticket, Change)> {
        match self.waiting.entry(uri.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(wanted);
                None
            }
            Entry::Vacant(first) => {
                first.insert(Vec::new());
                Some(wanted)
            }
        }
    }

    /// When a change has made a face, those that wait for it are due. If it could not, they could not, either: returns these.
    fn made(&mut self, (_, change, result): &Made) -> Vec<Made> {
        let Some(uri) = face_for(change) else { return Vec::new() };
        let waiting = self.waiting.remove(uri).unwrap_or_default();
        match result {
            Ok(_) => {
                self.back.extend(waiting);
                Vec::new()
            }
            Err(error) => {
                let why = error.to_string();
                let failed = |(ticket, change)| (ticket, change, Err(RouterError::NoFace(why.clone())));
                waiting.into_iter().map(failed).collect()
            }
        }
    }
}

/// The address of the face that a change makes if there is none.
fn face_for(change: &Change) -> Option<&Arc<str>> {
    match change {
        Change::Register { uri, .. } | Change::Advertise { uri, .. } => Some(uri),
        _ => None,
    }
}

fn finish(
    shared: &Shared,
    faces: &mut RouterFaces,
    told: &mut Told,
    (ticket, change, result): Made,
) -> Result<(), RouterError> {
    let result = match result {
        Ok(created) => {
            if let (Some(id), Some(uri)) = (created, face_for(&change)) {
                faces.set(uri.clone(), id);
            }
            match &change {
                Change::Withdraw { tags, uri } => {
                    told.forget(tags, uri).map_err(|error| format!("{}: {}", words(&change), RouterError::State(error)))
                }
                Change::UseFiles { files, .. } => {
                    super::files::remove_old(shared, files);
                    Ok(())
                }
                _ => Ok(()),
            }
        }
        Err(error) if error.is_lost() => return Err(error),
        Err(error) => Err(format!("{}: {error}", words(&change))),
    };
    // Not `tell`: the caller looks at once.
    shared.agent.borrow_mut().done(shared.now(), ticket, result);
    Ok(())
}

fn words(change: &Change) -> String {
    match change {
        Change::Register { prefix, uri, .. } => format!("route {prefix} to {uri}"),
        Change::Unregister { prefix, uri } => format!("removal of route {prefix} to {uri}"),
        Change::Advertise { uri, .. } => format!("tags to {uri}"),
        Change::Withdraw { uri, .. } => format!("removal of tags to {uri}"),
        Change::Suspend { uri } => format!("suspension of {uri}"),
        Change::Resume { uri } => format!("use of {uri}"),
        Change::SetStrategy { prefix, strategy } => format!("strategy {strategy} of {prefix}"),
        Change::RestoreStrategy { prefix } => format!("strategy of {prefix} as it was"),
        Change::UseFiles { files, policy } => match files.last() {
            Some(file) => format!("use of {}", file.kept.name),
            None if !policy.is_empty() => "rules of routing".to_owned(),
            None => "end of the use of files".to_owned(),
        },
    }
}

fn faces_of(faces: &RouterFaces, change: &Change) -> Vec<u64> {
    match change {
        Change::Register { uri, .. }
        | Change::Unregister { uri, .. }
        | Change::Advertise { uri, .. }
        | Change::Withdraw { uri, .. }
        | Change::Suspend { uri }
        | Change::Resume { uri } => faces.of(uri).to_vec(),
        Change::SetStrategy { .. } | Change::RestoreStrategy { .. } | Change::UseFiles { .. } => Vec::new(),
    }
}

/// Makes a change of routes or faces, given the faces with its address. Returns a face that it made.
pub(super) async fn make(client: &AsyncClient, change: &Change, ids: &[u64]) -> Result<Option<u64>, RouterError> {
    match change {
        Change::Register { uri, .. } | Change::Advertise { uri, .. } => {
            if let Some(id) = ids.first() {
                match add(client, change, *id).await {
                    // The face is gone.
                    Err(error) if error.code() == Some(410) => {}
                    other => return other.map(|()| None),
                }
            }
            let id = client.make_face(uri).await?;
            add(client, change, id).await.map(|()| Some(id))
        }
        Change::Withdraw { tags, .. } => {
            for id in ids {
                let withdraw = BatchChange::Withdraw { face_id: *id, descriptor: Descriptor::clone(tags) };
                match super::tags::change(client, withdraw).await {
                    // They went with the face, or when it became a neighbour on a tree, which tells tags itself.
                    Err(error) if matches!(error.code(), Some(409 | 410)) => {}
                    other => other?,
                }
            }
            Ok(None)
        }
        Change::Unregister { prefix, .. } => {
            for id in ids {
                let parameters = ControlParameters {
                    name: Some(prefix.clone()),
                    face_id: Some(*id),
                    origin: Some(origin::FLEET),
                    ..ControlParameters::default()
                };
                match client.manage("rib", "unregister", &parameters, LIFETIME).await.map_err(RouterError::from) {
                    // Its routes went with it.
                    Err(error) if error.code() == Some(410) => {}
                    other => drop(other?),
                }
            }
            Ok(None)
        }
        Change::Suspend { .. } | Change::Resume { .. } => {
            let suspends = matches!(change, Change::Suspend { .. });
            for id in ids {
                let parameters = ControlParameters {
                    face_id: Some(*id),
                    expiration_period_ms: suspends.then_some(SUSPENDED_MS),
                    ..ControlParameters::default()
                };
                let verb = if suspends { "suspend" } else { "resume" };
                client.manage("rib", verb, &parameters, LIFETIME).await?;
            }
            Ok(None)
        }
        // Made by `strategy` and by `take_over`.
        Change::SetStrategy { .. } | Change::RestoreStrategy { .. } | Change::UseFiles { .. } => Ok(None),
    }
}

/// Adds a route, or a way of tags, to a face.
async fn add(client: &AsyncClient, change: &Change, face: u64) -> Result<(), RouterError> {
    match change {
        Change::Register { prefix, attributes, .. } => register(client, prefix, face, attributes).await,
        Change::Advertise { tags, .. } => {
            let advertise = BatchChange::Advertise { face_id: face, descriptor: Descriptor::clone(tags) };
            super::tags::change(client, advertise).await
        }
        _ => Ok(()),
    }
}

async fn register(client: &AsyncClient, prefix: &Name, face: u64, attributes: &Attributes) -> Result<(), RouterError> {
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(face),
        origin: Some(origin::FLEET),
        cost: Some(attributes.cost),
        flags: Some(attributes.flags),
        ..ControlParameters::default()
    };
    Ok(client.manage("rib", "register", &parameters, LIFETIME).await.map(drop)?)
}

async fn strategy(client: &AsyncClient, noted: &mut SetByFleet, change: &Change) -> Result<(), RouterError> {
    match change {
        Change::SetStrategy { prefix, strategy } => {
            let before = match noted.of(prefix) {
                Some(set) => set.before.clone(),
                None => choices(client).await?.get(prefix).map(ToString::to_string),
            };
            let set = SetOnce { before, asked: strategy.to_string(), got: None };
            noted.note(prefix, set.clone())?;
            let got = choose(client, prefix, strategy).await?;
            noted.note(prefix, SetOnce { got: Some(got), ..set })?;
        }
        Change::RestoreStrategy { prefix } => {
            let before = noted.of(prefix).and_then(|set| set.before.clone()).and_then(|text| text.parse().ok());
            match before {
                Some(before) => drop(choose(client, prefix, &before).await?),
                None => {
                    let parameters = ControlParameters { name: Some(prefix.clone()), ..ControlParameters::default() };
                    client.manage("strategy-choice", "unset", &parameters, LIFETIME).await?;
                }
            }
            noted.forget(prefix)?;
        }
        _ => {}
    }
    Ok(())
}

/// Sets a strategy, and returns how the router calls it.
async fn choose(client: &AsyncClient, prefix: &Name, strategy: &Name) -> Result<String, RouterError> {
    let parameters = ControlParameters {
        name: Some(prefix.clone()),
        strategy: Some(StrategyName(strategy.clone())),
        ..ControlParameters::default()
    };
    let answer = client.manage("strategy-choice", "set", &parameters, LIFETIME).await?;
    Ok(answer.strategy.map_or_else(|| strategy.to_string(), |strategy| strategy.0.to_string()))
}

async fn choices(client: &AsyncClient) -> Result<BTreeMap<Name, Name>, RouterError> {
    let list: Vec<StrategyChoice> = client.list("strategy-choice").await?;
    Ok(list.into_iter().map(|choice| (choice.name, choice.strategy.0)).collect())
}

/// Faces by address, and what the router has of the fleet.
async fn what_is(
    shared: &Shared,
    client: &AsyncClient,
    strategies: &mut SetByFleet,
    told: &mut Told,
) -> Result<(RouterFaces, Existing), RouterError> {
    let faces = client.faces().await?;
    let rib: Vec<RibEntry> = client.list("rib").await?;
    let mut routes = Vec::new();
    for entry in rib {
        for route in entry.routes.iter().filter(|route| route.origin == origin::FLEET) {
            if let Some(uri) = faces.uri(route.face_id) {
                let attributes = Attributes { cost: route.cost, flags: route.flags };
                routes.push((entry.name.clone(), uri.clone(), attributes));
            }
        }
    }
    let strategies = strategies.still_set(&choices(client).await?)?;
    // Applications may have very many.
    let needs_tags = !told.is_empty() || shared.agent.borrow().wants_tags();
    let tags = if needs_tags { super::tags::list(client, &faces, told).await? } else { Vec::new() };
    let settings_changed = match (&shared.options.files, shared.agent.borrow().used()) {
        (Some(options), Some(used)) => !super::files::are_as_written(options, used),
        _ => false,
    };
    Ok((faces, Existing { routes, tags, strategies, settings_changed }))
}
