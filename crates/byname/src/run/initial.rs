//! The faces and routes that the configuration has made: at the start, and by reloads.
//!
//! A reload changes and removes only these. Faces and routes that management has made are not the configuration's.

use byname_control::config::{Config, InitialFace, InitialRoute};
use byname_control::mgmt::reload::RouteChange;
use byname_control::mgmt::tlv::{Element, origin, route_flags};
use byname_control::rib::Route;
use byname_control::service::{ControlError, ControlHandle};
use byname_control::state::records::{RouteRecord, Snapshot, VERSION, layer};
use byname_face::face::{CreateFaceError, FaceChange};
use byname_face::{FaceRequest, FaceUri, ForwarderHandle};
use byname_forward::FaceId;
use byname_wire::Name;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Origin of routes from the configuration, as for static routes in NFD.
const ORIGIN_STATIC: u64 = origin::STATIC;

/// A face of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnFace {
    /// As the configuration has it.
    pub wanted: InitialFace,
    /// Its id.
    pub id: FaceId,
    /// Whether the configuration made it. Otherwise it existed before.
    pub is_made: bool,
}

/// Faces and routes of the configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Initial {
    /// The faces.
    pub faces: Vec<OwnFace>,
    /// The routes.
    pub routes: Vec<(Name, Route)>,
}

/// What the configuration of the process before this one had made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Former {
    /// Ids of faces.
    faces: Vec<u64>,
    /// Routes: a `Snapshot`.
    routes: ByteBuf,
}

impl Initial {
    /// What another process must know.
    pub fn former(&self) -> Former {
        let faces = self.faces.iter().filter(|face| face.is_made).map(|face| face.id.0).collect();
        let record = |(name, route): &(Name, Route)| RouteRecord {
            name: name.clone(),
            face: route.face.0,
            layer: layer::RIB,
            origin: route.origin,
            cost: route.cost,
            flags: route.flags,
            ..RouteRecord::default()
        };
        let routes = self.routes.iter().map(record).collect();
        Former { faces, routes: Snapshot { version: VERSION, routes, ..Snapshot::default() }.encode().into() }
    }

    /// Closes faces and removes routes that the former configuration had made, and that this one does not have. Faces
    /// that both have get the settings of this one.
    ///
    /// # Errors
    /// If the control thread has ended.
    pub fn follow(
        &mut self,
        former: &Former,
        handle: &ForwarderHandle,
        control: &ControlHandle,
    ) -> Result<(), ControlError> {
        // An older version does not tell them. Then they stay.
        let routes = Snapshot::read(&former.routes).map(|snapshot| snapshot.routes).unwrap_or_default();
        let gone = routes.into_iter().filter(|record| {
            let is_it = |(name, route): &(Name, Route)| {
                (name, route.face.0, route.origin) == (&record.name, record.face, record.origin)
            };
            !self.routes.iter().any(is_it)
        });
        let change = |record: RouteRecord| {
            let RouteRecord { name, face, origin, cost, flags, .. } = record;
            let route = Route { face: FaceId(face), origin, cost, flags, expires_at_ms: None };
            tracing::info!(%name, face, "a route is removed: it is not in the configuration any more");
            RouteChange { name, route, adds: false }
        };
        let changes: Vec<RouteChange> = gone.map(change).collect();
        if !changes.is_empty() {
            control.set_routes(changes)?;
        }
        for &id in &former.faces {
            match self.faces.iter_mut().find(|face| face.id.0 == id) {
                Some(face) => {
                    face.is_made = true;
                    let FaceRequest { persistency, mtu, flags, .. } = face.wanted.request();
                    let change =
                        FaceChange { persistency: Some(persistency), mtu, flags: Some(flags), ..FaceChange::default() };
                    if let Err(error) = handle.update_face(face.id, change) {
                        tracing::warn!(face = id, remote = %face.wanted.remote, "keeps its settings: {error}");
                    }
                }
                None => {
                    tracing::info!(face = id, "a face is closed: it is not in the configuration any more");
                    handle.destroy_face(FaceId(id));
                }
            }
        }
        Ok(())
    }

    /// Creates the faces and routes of the configuration; failures go to `notes`.
    pub fn set_up(
        config: &Config,
        handle: &ForwarderHandle,
        control: &ControlHandle,
        notes: &mut Vec<String>,
    ) -> Initial {
        let mut initial = Initial::default();
        let mut problems: Vec<(FaceUri, CreateFaceError)> = Vec::new();
        for face in faces(config) {
            match create_or_find(handle, &face) {
                Ok((id, is_made)) => initial.faces.push(OwnFace { wanted: face, id, is_made }),
                Err(problem) => problems.push((face.remote, problem)),
            }
        }
        for face in &config.initial_faces {
            if let Some((remote, problem)) = problems.iter().find(|(remote, _)| *remote == face.remote) {
                notes.push(format!("no face to {remote}: {problem}"));
            }
        }
        for route in routes(config) {
            let Some(face) = initial.face_to(&route.face) else {
                let problem = problems.iter().find(|(remote, _)| *remote == route.face);
                let problem = problem.map(|(_, problem)| problem.to_string()).unwrap_or_default();
                notes.push(format!("no route {}: no face to {}: {problem}", route.prefix, route.face));
                continue;
            };
            let change = RouteChange { name: route.prefix.clone(), route: with_face(&route, face), adds: true };
            match control.set_routes(vec![change.clone()]) {
                Ok(_) => initial.routes.push((change.name, change.route)),
                Err(problem) => notes.push(format!("no route {}: {problem}", route.prefix)),
            }
        }
        initial
    }

    /// The numbers of faces and routes.
    pub fn counts(&self) -> (usize, usize) {
        (self.faces.len(), self.routes.len())
    }

    /// The face to this peer.
    pub fn face_to(&self, remote: &FaceUri) -> Option<FaceId> {
        self.faces.iter().find(|face| face.wanted.remote == *remote).map(|face| face.id)
    }
}

/// The faces that a configuration wants: those that it lists, and those that its routes lead to.
pub fn faces(config: &Config) -> Vec<InitialFace> {
    let mut faces = config.initial_faces.clone();
    for route in routes(config) {
        if !faces.iter().any(|face| face.remote == route.face) {
            faces.push(InitialFace::new(route.face));
        }
    }
    faces
}

/// The routes that a configuration wants.
pub fn routes(config: &Config) -> Vec<InitialRoute> {
    config.initial_routes.iter().cloned().chain(config.rib.propagate.hub_route()).collect()
}

/// The route through this face.
pub fn with_face(route: &InitialRoute, face: FaceId) -> Route {
    let inherit = if route.child_inherit { route_flags::CHILD_INHERIT } else { 0 };
    let capture = if route.capture { route_flags::CAPTURE } else { 0 };
    Route { face, origin: ORIGIN_STATIC, cost: route.cost, flags: inherit | capture, expires_at_ms: None }
}

/// Creates a face. Returns its id, and whether it is new.
pub fn create_or_find(handle: &ForwarderHandle, face: &InitialFace) -> Result<(FaceId, bool), CreateFaceError> {
    match handle.create_face(face.request()) {
        Ok(status) => Ok((status.id, true)),
        Err(CreateFaceError::Exists(status)) => Ok((status.id, false)),
        Err(error) => Err(error),
    }
}
