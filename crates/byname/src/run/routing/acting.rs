//! Carries out what the protocol wants done, and takes the router's answers.

use std::time::{Duration, Instant};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, RibEntry, StrategyName, decode_list, origin};
use byname_routing::note::Level;
use byname_routing::{Action, Event, Note, Validity};
use byname_trust::validator::Signed;
use byname_wire::{Component, Data, FaceId, Name};

use super::application::Application;
use super::commands::{Answer, Dataset, Purpose};
use super::link::Fields;

/// How long to wait before a setting that was refused is asked for again.
const SETTING_PAUSE: Duration = Duration::from_secs(2);
/// FacePersistency of permanent faces.
const PERMANENT: u64 = 2;

impl Application {
    /// Does all that the protocol wants done.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.core.next_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        let now = Instant::now();
        let own = |face: Option<FaceId>| face.map_or(0, |face| face.0);
        match action {
            Action::SendInterest { wire, face } => {
                self.link.send(&wire, Fields { next_hop: face.map(|face| face.0), ..Fields::default() });
            }
            Action::SendData { wire } => self.link.send(&wire, Fields::default()),
            Action::Validate { id, wire, judged_name, face } => {
                let Ok(data) = Data::decode(&wire) else {
                    let validity = Validity::Refused("it is no Data packet".to_owned());
                    return self.tell(Event::Validated { id, validity });
                };
                let signed = Signed { name: judged_name.as_ref(), ..Signed::data(&data) };
                self.check(&signed, data.name, face, id);
            }
            Action::Register { prefix, face, cost } => self.registrations.want((prefix, own(face)), Some(cost)),
            Action::Unregister { prefix, face } => self.registrations.want((prefix, own(face)), None),
            Action::SetMulticastStrategy { prefix } => {
                let strategy = Some(StrategyName(multicast()));
                let parameters = ControlParameters { name: Some(prefix), strategy, ..ControlParameters::default() };
                self.set(("strategy-choice", "set"), parameters, now);
            }
            Action::CreateFace { uri, mtu } => {
                let parameters = ControlParameters {
                    uri: Some(uri.clone()),
                    face_persistency: Some(PERMANENT),
                    mtu,
                    ..ControlParameters::default()
                };
                let wire = self.commands.command(("faces", "create"), &parameters, Purpose::CreateFace { uri }, now);
                self.link.send(&wire, Fields::default());
            }
            Action::DestroyFace { face } => {
                let parameters = ControlParameters { face_id: Some(face.0), ..ControlParameters::default() };
                let wire = self.commands.command(("faces", "destroy"), &parameters, Purpose::DestroyFace, now);
                self.link.send(&wire, Fields::default());
            }
            // At once: routes may wait for others.
            Action::Suspend { face } => {
                self.suspensions.want(face.0, true);
                self.suspend(now);
            }
            Action::Resume { face } => {
                self.suspensions.want(face.0, false);
                self.suspend(now);
            }
            Action::SetPlace(place) => self.places.want(&place, now),
            Action::Note(note) => log(&note),
        }
    }

    /// Sends the commands about suspended faces that are due.
    pub(super) fn suspend(&mut self, now: Instant) {
        for command in self.suspensions.due(now) {
            let parameters = ControlParameters { face_id: Some(command.face), ..ControlParameters::default() };
            let verb = if command.suspends { "suspend" } else { "resume" };
            let wire = self.commands.command(("rib", verb), &parameters, Purpose::Suspension(command), now);
            self.link.send(&wire, Fields::default());
        }
    }

    /// Makes the content store forget a certificate.
    pub(super) fn erase(&mut self, name: Name) {
        tracing::debug!(%name, "a certificate leaves the content store");
        let parameters = ControlParameters { name: Some(name.clone()), count: Some(1), ..ControlParameters::default() };
        let wire = self.commands.command(("cs", "erase"), &parameters, Purpose::Erase { name }, Instant::now());
        self.link.send(&wire, Fields::default());
    }

    /// Sends the commands about places on trees that are due.
    pub(super) fn place(&mut self, now: Instant) {
        for command in self.places.due(now) {
            let parameters = command.parameters.clone();
            let wire = self.commands.command_with(("tags", "place"), parameters, Purpose::Place(command), now);
            self.link.send(&wire, Fields::default());
        }
    }

    /// Sends the commands about routes that are due.
    pub(super) fn register(&mut self, now: Instant) {
        for command in self.registrations.due(now) {
            let (prefix, face) = &command.key;
            let parameters = ControlParameters {
                name: Some(prefix.clone()),
                face_id: Some(*face).filter(|face| *face != 0),
                origin: Some(origin::NLSR),
                cost: command.cost,
                ..ControlParameters::default()
            };
            let verb = if command.cost.is_some() { "register" } else { "unregister" };
            let wire = self.commands.command(("rib", verb), &parameters, Purpose::Route(command), now);
            self.link.send(&wire, Fields::default());
        }
    }

    /// Takes an answer of the router.
    pub(super) fn on_answer(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Incomplete => {}
            Answer::Response(purpose, response) => self.on_response(purpose, &response, now),
            Answer::Dataset(Dataset::Faces, content) => {
                self.faces.list(&content).into_iter().for_each(|news| self.on_face(news));
            }
            Answer::Dataset(Dataset::Routes, content) => {
                self.on_routes(&content);
                self.look_for_neighbours(now);
            }
            Answer::FaceEvent(seq, content) => {
                let (news, has_missed) = self.faces.event(seq, &content);
                news.into_iter().for_each(|news| self.on_face(news));
                if has_missed {
                    let wire = self.commands.dataset(Dataset::Faces, now);
                    self.link.send(&wire, Fields::default());
                }
                let wire = self.commands.face_event(Some(seq), now);
                self.link.send(&wire, Fields::default());
            }
        }
    }

    fn on_response(&mut self, purpose: Purpose, response: &ControlResponse, now: Instant) {
        let is_done = response.code == 200;
        match purpose {
            Purpose::Route(command) => {
                if !is_done {
                    let (prefix, face) = &command.key;
                    let (code, text) = (response.code, &response.text);
                    tracing::debug!(%prefix, face, code, text, "the router refuses a route");
                }
                self.registrations.answered(&command, is_done, now);
            }
            Purpose::Suspension(command) => self.suspensions.answered(command, is_done),
            Purpose::Place(command) => {
                if !is_done {
                    let (code, text) = (response.code, &response.text);
                    tracing::warn!(tree = command.tree.0, code, text, "the router refuses a place on a tree");
                }
                self.places.answered(&command, is_done, now);
            }
            Purpose::CreateFace { uri } => {
                // 409: the face exists.
                let face = response.parameters().ok().and_then(|parameters| parameters.face_id);
                match face.filter(|_| matches!(response.code, 200 | 409)) {
                    Some(face) => self.tell(Event::FaceCreated { uri: &uri, face: FaceId(face), is_new: is_done }),
                    None => self.tell(Event::FaceFailed { uri: &uri, why: &response.text }),
                }
                self.act();
            }
            Purpose::Setting { what, parameters } if !is_done => {
                let (code, text) = (response.code, &response.text);
                tracing::warn!(code, text, "the router refuses {}/{}, which routing needs", what.0, what.1);
                self.refused.push((now + SETTING_PAUSE, what, *parameters));
            }
            Purpose::Erase { name } if is_done => self.checks.on_erased(name.as_ref(), self.clock.now()),
            Purpose::Erase { .. } => {
                let (code, text) = (response.code, &response.text);
                tracing::debug!(code, text, "the router keeps a wrong certificate");
            }
            Purpose::DestroyFace | Purpose::Setting { .. } => {}
            // These are no commands.
            Purpose::Segment { .. } | Purpose::FaceEvent(_) => {}
        }
    }

    /// Nothing has answered an Interest.
    pub(super) fn unanswered(&mut self, purpose: Purpose) {
        let now = Instant::now();
        match purpose {
            // Routes, places and suspensions have times of their own.
            Purpose::Route(_) | Purpose::Place(_) | Purpose::Suspension(_) => {}
            Purpose::DestroyFace | Purpose::Erase { .. } => {}
            Purpose::CreateFace { uri } => {
                self.tell(Event::FaceFailed { uri: &uri, why: "the router does not answer" });
                self.act();
            }
            Purpose::Setting { what, parameters } => self.set(what, *parameters, now),
            Purpose::Segment { of, .. } => {
                let wire = self.commands.dataset(of, now);
                self.link.send(&wire, Fields::default());
            }
            // After a long silence, perhaps an event was missed: the latest one tells.
            Purpose::FaceEvent(_) => {
                let wire = self.commands.face_event(None, now);
                self.link.send(&wire, Fields::default());
            }
        }
    }

    /// Routes that an earlier process of this router has left.
    fn on_routes(&mut self, content: &[u8]) {
        let Ok(entries) = decode_list::<RibEntry>(content) else { return };
        for RibEntry { name, routes } in entries {
            for route in routes.iter().filter(|route| route.origin == origin::NLSR) {
                self.registrations.found((name.clone(), route.face_id), route.cost);
                self.tell(Event::Installed { prefix: name.clone(), face: FaceId(route.face_id), cost: route.cost });
            }
        }
        self.act();
    }
}

/// The strategy that sends Interests to all nexthops.
fn multicast() -> Name {
    let components = ["localhost", "nfd", "strategy", "multicast"];
    Name::from_components(components.iter().map(|component| Component::generic(component.as_bytes())))
}

fn log(note: &Note) {
    match note.level() {
        Level::Debug => tracing::debug!("{note}"),
        Level::Info => tracing::info!("{note}"),
        Level::Warn => tracing::warn!("{note}"),
    }
}
