//! Executes authorized commands.

use byname_face::{ThreadStatus, imbalance};
use byname_forward::FaceId;
use byname_forward::face_table::Scope;
use byname_forward::stages::{self, Stage, StageTimes};
use byname_forward::worker::CsInfo;
use byname_wire::{Interest, Name, NameRef};

use super::announcement::Announcement;
use super::faces::{change_request, face_not_found, face_of, moved, updated};
use super::news::Change;
use super::tlv::{self, ControlParameters, ControlResponse, cs_flags, origin, route_flags};
use super::{Command, Management, Moment};
use crate::rib::{ROUTE_COMPONENTS_MAX, Rib, RibError, Route};
use crate::security::{Authorized, Refusal};
use crate::state::records::ContentStoreRecord;
use byname_trust::validator::Outcome;

/// Cost of routes from prefix announcements, as in NFD.
pub(super) const ANNOUNCED_COST: u64 = 2048;
/// Most packets that one `cs/erase` removes, as in NFD.
const ERASE_MAX: usize = 256;
/// Longest time for which a face is not used.
const SUSPENDED_MAX_MS: u64 = 60_000;
/// Lifetimes from this value on mean forever. It is the largest lifetime that ndn-cxx can express.
const FOR_EVER_MS: u64 = i64::MAX as u64;

impl Management {
    /// Checks a signer's rights for the name and the face in a command's parameters.
    pub(super) fn check_rights(
        &self,
        command: Command,
        parameters: &ControlParameters,
        signer: &Authorized,
        incoming: FaceId,
    ) -> Result<(), Refusal> {
        let face = face_of(parameters, incoming);
        let root = Name::default();
        let name = parameters.name.as_ref().unwrap_or(&root);
        match command {
            Command::FaceUpdate | Command::FaceDestroy | Command::FaceMove if face < FaceId::FIRST => {
                Err(Refusal::Management)
            }
            Command::RibRegister | Command::RibUnregister | Command::FibAddNexthop | Command::FibRemoveNexthop => {
                let is_rib = matches!(command, Command::RibRegister | Command::RibUnregister);
                let names_hub = is_rib && self.is_hub_route(name, face) && signer.lists(name.as_ref());
                if names_hub { Ok(()) } else { self.check_route(name.as_ref(), face, signer, incoming) }
            }
            // All names are affected.
            Command::RibSuspend | Command::RibResume => self.check_route(root.as_ref(), face, signer, incoming),
            // Through its label, a flat name may lead wherever routes do.
            Command::FlatSet | Command::FlatReset => {
                let label = parameters.label.as_ref().unwrap_or(&root);
                if self.rib.own_prefix_of(name.as_ref()).is_some() {
                    Err(Refusal::Management)
                } else if !signer.covers(name.as_ref())
                    || (parameters.label.is_some() && !signer.covers(label.as_ref()))
                {
                    Err(Refusal::OutsidePrefixes)
                } else {
                    Ok(())
                }
            }
            Command::StrategySet | Command::StrategyUnset | Command::CsErase | Command::TraceStart
                if !signer.covers(name.as_ref()) =>
            {
                Err(Refusal::OutsidePrefixes)
            }
            _ => Ok(()),
        }
    }

    /// Checks a signer's rights to change routes for `name` that lead to `face`.
    pub(super) fn check_route(
        &self,
        name: NameRef<'_>,
        face: FaceId,
        signer: &Authorized,
        incoming: FaceId,
    ) -> Result<(), Refusal> {
        if face < FaceId::FIRST || self.rib.own_prefix_of(name).is_some() {
            return Err(Refusal::Management);
        }
        if !signer.covers(name) {
            return Err(Refusal::OutsidePrefixes);
        }
        // Otherwise, a neighbour could lead a name to another peer that did not ask for it.
        let is_others = face != incoming && self.scope_of(incoming) == Scope::NonLocal;
        if is_others { Err(Refusal::OthersFace) } else { Ok(()) }
    }

    /// Whether this is a route to a hub. The hub must be on another host: a local application in its place could answer
    /// other applications' commands to the hub.
    pub(super) fn is_hub_route(&self, name: &Name, face: FaceId) -> bool {
        *name == self.prefixes[1] && face >= FaceId::FIRST && self.scope_of(face) == Scope::NonLocal
    }

    /// Logs that a route was added, or counts it.
    pub(super) fn tell_added(&mut self, prefix: NameRef<'_>, route: &Route) {
        if self.news.lists(Change::RouteAdded) {
            let (face, origin, cost) = (route.face.0, route.origin, route.cost);
            tracing::info!(prefix = %prefix.to_name(), face, origin, cost, "a route was added");
        }
    }

    /// Adds a route that was checked before.
    pub(super) fn insert_route(&mut self, name: &Name, route: &Route) -> Result<(), RibError> {
        let register = if self.is_hub_route(name, route.face) { Rib::register_hub } else { Rib::register };
        register(&mut self.rib, &mut self.fib, name.as_ref(), route)
    }

    /// Adds a route of the configuration. The store does not keep it, because the file does.
    pub(super) fn insert_configured_route(&mut self, name: &Name, route: &Route) -> Result<(), RibError> {
        let register = if self.is_hub_route(name, route.face) { Rib::register_hub } else { Rib::register };
        self.rib.unrecorded(|rib| register(rib, &mut self.fib, name.as_ref(), route))?;
        self.tell_added(name.as_ref(), route);
        Ok(())
    }

    /// Executes a command with validated parameters.
    pub(super) fn execute(
        &mut self,
        command: Command,
        parameters: ControlParameters,
        incoming: FaceId,
        now: Moment,
    ) -> ControlResponse {
        match command {
            Command::FaceUpdate => self.face_update(&parameters, incoming, now),
            Command::FaceMove => self.face_move(parameters, incoming),
            Command::FaceDestroy => {
                let face = face_of(&parameters, incoming);
                self.forwarder.destroy_face(face);
                self.durable.face_gone(face);
                ControlResponse::ok(&parameters)
            }
            Command::FibAddNexthop => self.fib_add_nexthop(parameters, incoming),
            Command::FibRemoveNexthop => self.fib_remove_nexthop(parameters, incoming),
            Command::RibRegister => self.rib_register(parameters, incoming, now),
            Command::RibUnregister => self.rib_unregister(parameters, incoming),
            Command::RibSuspend => self.rib_suspend(parameters, incoming, now),
            Command::RibResume => {
                let face = face_of(&parameters, incoming);
                let groups = self.rib.resume(&mut self.fib, face);
                tracing::debug!(face = face.0, groups, "a face is used again");
                ControlResponse::ok(&ControlParameters { count: Some(groups as u64), ..parameters })
            }
            Command::FaceCreate
            | Command::ConfigReload
            | Command::ConfigConfirm
            | Command::ConfigAddNeighbor
            | Command::ConfigRemoveNeighbor => {
                unreachable!("its answer may come later")
            }
            Command::RibAnnounce
            | Command::RibBatch
            | Command::FlatBatch
            | Command::TagsAdvertise
            | Command::TagsWithdraw
            | Command::TagsLocators
            | Command::TagsPlace => {
                unreachable!("what these are about is no ControlParameters")
            }
            Command::TraceStart => self.trace_start(&parameters, incoming, now),
            Command::TraceRead => self.trace_read(&parameters, incoming, now),
            Command::TraceStop => self.trace_stop(&parameters, incoming),
            Command::CsConfig => self.cs_config(&parameters),
            Command::CsErase => self.cs_erase(parameters),
            Command::FlatSet => self.flat_set(parameters),
            Command::FlatReset => self.flat_reset(&parameters),
            Command::StrategySet => self.strategy_set(parameters),
            Command::StrategyUnset => {
                let prefix = name_of(&parameters);
                self.durable.strategy(&prefix, None);
                if self.strategies.unset(&prefix) && self.news.lists(Change::StrategyUnset) {
                    tracing::info!(%prefix, "a strategy was unset");
                }
                ControlResponse::ok(&parameters)
            }
        }
    }

    fn face_update(&mut self, parameters: &ControlParameters, incoming: FaceId, now: Moment) -> ControlResponse {
        let face = face_of(parameters, incoming);
        let Some(status) = self.forwarder.face(face) else { return face_not_found() };
        match change_request(&status, parameters) {
            Ok(change) => {
                let outcome = self.forwarder.update_face(face, change);
                if let Ok(status) = &outcome {
                    self.keep_face(status, parameters, now);
                }
                updated(outcome, parameters)
            }
            Err(response) => response,
        }
    }

    fn face_move(&self, parameters: ControlParameters, incoming: FaceId) -> ControlResponse {
        let (face, to) = (face_of(&parameters, incoming), parameters.thread.unwrap_or_default());
        let outcome = self.forwarder.move_face(face, to);
        match &outcome {
            Ok(status) => {
                tracing::info!(face = face.0, remote = %status.remote, thread = to, "a command moved a face");
            }
            Err(error) => tracing::info!(face = face.0, thread = to, %error, "a command moved no face"),
        }
        moved(outcome)
    }

    fn fib_add_nexthop(&mut self, mut parameters: ControlParameters, incoming: FaceId) -> ControlResponse {
        let face = face_of(&parameters, incoming);
        let name = name_of(&parameters);
        let cost = parameters.cost.unwrap_or(0);
        if name.as_ref().len() > ROUTE_COMPONENTS_MAX {
            let text = format!("FIB entry prefix cannot exceed {ROUTE_COMPONENTS_MAX} components");
            return ControlResponse::new(414, text);
        }
        if !self.face_exists(face) {
            return ControlResponse::new(410, "Face not found");
        }
        self.know_face(face);
        if let Err(error) = self.rib.add_nexthop(&mut self.fib, name.as_ref(), face, cost) {
            return refused(error);
        }
        if self.news.lists(Change::RouteAdded) {
            tracing::info!(prefix = %name, face = face.0, cost, "a nexthop was added to the FIB");
        }
        (parameters.face_id, parameters.cost) = (Some(face.0), Some(cost));
        ControlResponse::ok(&parameters)
    }

    fn fib_remove_nexthop(&mut self, mut parameters: ControlParameters, incoming: FaceId) -> ControlResponse {
        let face = face_of(&parameters, incoming);
        self.durable.concerns(face);
        let (prefix, routes) = (name_of(&parameters), self.rib.len());
        self.rib.remove_nexthop(&mut self.fib, prefix.as_ref(), face);
        if self.rib.len() < routes && self.news.lists(Change::RouteRemoved) {
            tracing::info!(%prefix, face = face.0, "a nexthop was removed from the FIB");
        }
        parameters.face_id = Some(face.0);
        ControlResponse::ok(&parameters)
    }

    fn rib_register(&mut self, parameters: ControlParameters, incoming: FaceId, now: Moment) -> ControlResponse {
        match self.add_route(&parameters, incoming, now) {
            Ok(route) => ControlResponse::ok(&ControlParameters {
                name: Some(name_of(&parameters)),
                face_id: Some(route.face.0),
                origin: Some(route.origin),
                cost: Some(route.cost),
                flags: Some(route.flags),
                ..parameters
            }),
            Err(refused) => refused,
        }
    }

    /// Adds the route that these parameters of `rib/register` describe.
    pub(super) fn add_route(
        &mut self,
        parameters: &ControlParameters,
        incoming: FaceId,
        now: Moment,
    ) -> Result<Route, ControlResponse> {
        let face = face_of(parameters, incoming);
        let route = Route {
            face,
            origin: parameters.origin.unwrap_or(origin::APP),
            cost: parameters.cost.unwrap_or(0),
            flags: parameters.flags.unwrap_or(route_flags::CHILD_INHERIT),
            expires_at_ms: deadline(parameters.expiration_period_ms, now),
        };
        if !self.face_exists(face) {
            return Err(ControlResponse::new(410, "Face not found"));
        }
        self.know_face(face);
        let name = name_of(parameters);
        let is_new = !self.rib.has_route(name.as_ref(), &route);
        self.insert_route(&name, &route).map_err(refused)?;
        if is_new {
            self.tell_added(name.as_ref(), &route);
        }
        Ok(route)
    }

    fn rib_unregister(&mut self, parameters: ControlParameters, incoming: FaceId) -> ControlResponse {
        let (face, origin) = self.remove_route(&parameters, incoming);
        ControlResponse::ok(&ControlParameters { face_id: Some(face.0), origin: Some(origin), ..parameters })
    }

    /// Removes the route that these parameters of `rib/unregister` describe, if it exists. Returns its face and origin.
    pub(super) fn remove_route(&mut self, parameters: &ControlParameters, incoming: FaceId) -> (FaceId, u64) {
        let face = face_of(parameters, incoming);
        let origin = parameters.origin.unwrap_or(origin::APP);
        self.durable.concerns(face);
        let routes = self.rib.len();
        self.rib.unregister(&mut self.fib, name_of(parameters).as_ref(), face, origin);
        if self.rib.len() < routes && self.news.lists(Change::RouteRemoved) {
            tracing::info!(prefix = %name_of(parameters), face = face.0, origin, "a route was removed");
        }
        if origin == origin::PREFIX_ANNOUNCEMENT {
            self.announced.forget(name_of(parameters), face);
        }
        (face, origin)
    }

    fn rib_suspend(&mut self, parameters: ControlParameters, incoming: FaceId, now: Moment) -> ControlResponse {
        let face = face_of(&parameters, incoming);
        if !self.face_exists(face) {
            return ControlResponse::new(410, "Face not found");
        }
        let period_ms = parameters.expiration_period_ms.unwrap_or(SUSPENDED_MAX_MS).min(SUSPENDED_MAX_MS);
        let groups = self.rib.suspend(&mut self.fib, face, now.ms.saturating_add(period_ms));
        tracing::debug!(face = face.0, groups, "a face is not used where there are others");
        let (count, expiration_period_ms) = (Some(groups as u64), Some(period_ms));
        ControlResponse::ok(&ControlParameters { count, expiration_period_ms, ..parameters })
    }

    /// `None`: the answer comes when the certificates of the announcement's signer are there.
    pub(super) fn rib_announce(
        &mut self,
        interest: &Interest<'_>,
        signer: Authorized,
        incoming: FaceId,
        now: Moment,
    ) -> Option<ControlResponse> {
        let announcement = match Announcement::in_parameters(interest.application_parameters.unwrap_or_default()) {
            Ok(announcement) => announcement,
            Err(error) => return Some(ControlResponse::new(400, format!("Malformed prefix announcement: {error}"))),
        };
        let scope = self.scope_of(incoming);
        match self.authorizer.chain_of_announcement(&announcement.data, scope, incoming, now).outcome() {
            Ok(chain) => Some(self.announce_with_chain(interest, &announcement, &signer, incoming, chain, now)),
            Err(id) => {
                self.waiting.park_announce(id, interest, signer, incoming);
                None
            }
        }
    }

    /// Goes on with an announcement when its signer's chain is known, if one is needed.
    pub(super) fn announce_with_chain(
        &mut self,
        interest: &Interest<'_>,
        announcement: &Announcement<'_>,
        signer: &Authorized,
        incoming: FaceId,
        chain: Option<Outcome>,
        now: Moment,
    ) -> ControlResponse {
        let rejected = |words: String| ControlResponse::new(403, format!("Prefix announcement rejected: {words}"));
        let (scope, data) = (self.scope_of(incoming), &announcement.data);
        let announcer = match self.authorizer.authorize_announcement(data, scope, now.unix_ms, chain.as_ref()) {
            Ok(announcer) => announcer,
            Err(refusal) => return rejected(super::waiting::words(refusal, chain.as_ref())),
        };
        // Announcements are passed on by others. The sender of the command needs the right, too.
        for signer in [signer, &announcer] {
            if let Err(refusal) = self.check_route(announcement.prefix, incoming, signer, incoming) {
                return rejected(self.authorizer.refuse(refusal).to_string());
            }
        }
        if !self.face_exists(incoming) {
            return ControlResponse::new(410, "Face not found");
        }
        self.note_registration(interest, announcement.prefix.to_name(), incoming);
        let (route, lifetime_ms) = match self.announce(announcement, incoming, false, now) {
            Ok(announced) => announced,
            Err(error) => return refused(error),
        };
        ControlResponse::ok(&ControlParameters {
            name: Some(announcement.prefix.to_name()),
            face_id: Some(incoming.0),
            origin: Some(route.origin),
            cost: Some(route.cost),
            flags: Some(route.flags),
            expiration_period_ms: Some(lifetime_ms),
            ..ControlParameters::default()
        })
    }

    fn cs_config(&mut self, parameters: &ControlParameters) -> ControlResponse {
        let (flags, mask) = (parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0));
        let flag = |bit| (mask & bit != 0).then_some(flags & bit != 0);
        let (admit, serve) = (flag(cs_flags::ADMIT), flag(cs_flags::SERVE));
        self.set_content_store(&ContentStoreRecord {
            capacity_packets: parameters.capacity,
            admit: admit.map(u64::from),
            serve: serve.map(u64::from),
        });
        self.durable.content_store(parameters.capacity, admit, serve);
        let info = cs_info(&self.forwarder.cs_info());
        ControlResponse::ok(&ControlParameters {
            capacity: Some(info.capacity),
            flags: Some(info.flags),
            ..ControlParameters::default()
        })
    }

    fn cs_erase(&self, parameters: ControlParameters) -> ControlResponse {
        let count = parameters.count.unwrap_or(u64::MAX);
        let count_max = usize::try_from(count).unwrap_or(usize::MAX).min(ERASE_MAX);
        let (erased, more) = self.forwarder.cs_erase(name_of(&parameters), count_max);
        let stopped_short = more && count > ERASE_MAX as u64;
        ControlResponse::ok(&ControlParameters {
            count: Some(erased as u64),
            capacity: stopped_short.then_some(ERASE_MAX as u64),
            ..parameters
        })
    }

    fn strategy_set(&mut self, parameters: ControlParameters) -> ControlResponse {
        let strategy = parameters.strategy.clone().unwrap_or_default();
        let prefix = name_of(&parameters);
        match self.strategies.set(&prefix, strategy.0.as_ref()) {
            Ok(instance) => {
                self.durable.strategy(&prefix, Some(&instance));
                if self.news.lists(Change::StrategySet) {
                    tracing::info!(%prefix, strategy = %instance, "a strategy was set");
                }
                ControlResponse::ok(&ControlParameters { strategy: Some(tlv::StrategyName(instance)), ..parameters })
            }
            Err(response) => response,
        }
    }

    /// The content of `status/general`.
    pub(super) fn general_status(&self, now: Moment) -> tlv::ForwarderStatus {
        let counters = self.forwarder.counters();
        let links = self.forwarder.link_totals(&self.forwarder.faces());
        let threads = self.forwarder.thread_statuses();
        tlv::ForwarderStatus {
            nfd_version: format!("byname {}", env!("CARGO_PKG_VERSION")),
            start_timestamp_ms: self.started_unix_ms,
            current_timestamp_ms: now.unix_ms,
            n_name_tree_entries: self.fib.len() as u64 + counters.pit_entries,
            n_fib_entries: self.fib.len() as u64,
            n_pit_entries: counters.pit_entries,
            n_measurements_entries: counters.measurements,
            n_cs_entries: counters.cs.packets,
            n_in_interests: counters.faces.in_interests,
            n_in_data: counters.faces.in_data,
            n_in_nacks: counters.faces.in_nacks,
            n_out_interests: counters.faces.out_interests,
            n_out_data: counters.faces.out_data,
            n_out_nacks: counters.faces.out_nacks,
            n_satisfied_interests: Some(counters.satisfied_interests),
            n_unsatisfied_interests: Some(counters.unsatisfied_interests),
            n_descriptors: Some(self.tags.len() as u64),
            n_in_tag_packets: Some(counters.faces.in_tag_packets),
            n_in_locator_packets: Some(counters.faces.in_locator_packets),
            n_out_tag_packets: Some(counters.faces.out_tag_packets),
            n_out_locator_packets: Some(counters.faces.out_locator_packets),
            threads: threads.iter().map(thread_status).collect(),
            imbalance_percent: imbalance(&threads).map(|imbalance| (100.0 * imbalance).round() as u64),
            n_hot_names: Some(counters.hot_names),
            n_shared_pit_entries: Some(counters.shared_pit_entries),
            drops: drop_counts(&counters.drops),
            n_in_malformed: Some(links.counters.in_malformed),
            n_reassembly_timeouts: Some(links.counters.in_reassembly_timeouts),
            n_out_drops: Some(links.counters.out_drops),
            n_congestion_marks: Some(links.counters.congestion_marks),
            n_retransmissions: Some(links.counters.retransmissions),
            closed: close_counts(&links.closed),
            n_failed_restarts: Some(self.failed_restarts.0),
            restart_failure: self.failed_restarts.1.clone(),
            taken_over: self.taken_over.clone(),
            state: Some(self.state.clone()),
        }
    }
}

fn thread_status(status: &ThreadStatus) -> tlv::ThreadStatus {
    let ThreadStatus { activity, counters, rings, faces, faces_come, faces_left, node, rounds: _ } = status;
    let counted = Some(counters.fib_lines).filter(|lines| lines.lookups > 0);
    tlv::ThreadStatus {
        n_pit_entries: counters.pit_entries,
        n_cs_entries: counters.cs.packets,
        n_in_interests: counters.faces.in_interests,
        n_in_data: counters.faces.in_data,
        n_in_nacks: counters.faces.in_nacks,
        n_satisfied_interests: counters.satisfied_interests,
        n_unsatisfied_interests: counters.unsatisfied_interests,
        input_depth: rings.map(|rings| rings.input_depth),
        input_drops: rings.map(|rings| rings.input_drops),
        output_depth: rings.map(|rings| rings.output_depth),
        output_drops: rings.map(|rings| rings.output_drops),
        n_spread_interests: Some(counters.spread_interests),
        n_spread_hits: Some(counters.spread_hits),
        n_spread_joins: Some(counters.spread_joins),
        n_spread_busy: Some(counters.spread_busy),
        drops: drop_counts(&counters.drops),
        stages: stage_times(&counters.stages),
        n_fib_lookups_counted: counted.map(|lines| lines.lookups),
        n_fib_lines_read: counted.map(|lines| lines.lines),
        load_permille: Some((1000.0 * activity.load).round() as u64),
        busy_ns: Some(activity.busy_ns),
        n_sleeps: Some(activity.sleeps),
        n_rests: Some(activity.rests),
        n_home_packets: rings.map(|rings| rings.home),
        n_foreign_packets: rings.map(|rings| rings.foreign),
        n_taken_packets: rings.map(|rings| rings.taken),
        n_faces: Some(*faces),
        n_faces_come: rings.map(|_| *faces_come),
        n_faces_left: rings.map(|_| *faces_left),
        node: node.map(u64::from),
    }
}

fn drop_counts(drops: &[(&str, u64)]) -> Vec<tlv::DropCount> {
    occurred(drops).map(|(reason, n_packets)| tlv::DropCount { reason, n_packets }).collect()
}

fn close_counts(closed: &[(&str, u64)]) -> Vec<tlv::CloseCount> {
    occurred(closed).map(|(reason, n_faces)| tlv::CloseCount { reason, n_faces }).collect()
}

fn occurred(counts: &[(&str, u64)]) -> impl Iterator<Item = (String, u64)> {
    counts.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| ((*reason).to_owned(), *count))
}

fn stage_times(times: &StageTimes) -> Vec<tlv::StageTime> {
    let element = |(stage, time): (Stage, stages::StageTime)| tlv::StageTime {
        stage: stage.label().to_owned(),
        n_packets: time.packets,
        time_ns: time.ns,
    };
    times.all().map(element).collect()
}

/// The content of `cs/info`.
pub(super) fn cs_info(info: &CsInfo) -> tlv::CsInfo {
    let flag = |set, bit| if set { bit } else { 0 };
    tlv::CsInfo {
        capacity: info.packets_max,
        flags: flag(info.admit, cs_flags::ADMIT) | flag(info.serve, cs_flags::SERVE),
        n_cs_entries: info.packets,
        n_hits: info.hits,
        n_misses: info.misses,
    }
}

/// The prefix in a command's parameters, which has been validated.
pub(super) fn name_of(parameters: &ControlParameters) -> Name {
    parameters.name.clone().unwrap_or_default()
}

pub(super) fn deadline(lifetime_ms: Option<u64>, now: Moment) -> Option<u64> {
    let lifetime_ms = lifetime_ms.filter(|&ms| ms < FOR_EVER_MS)?;
    now.ms.checked_add(lifetime_ms).filter(|&at| at < FOR_EVER_MS)
}

fn refused(error: RibError) -> ControlResponse {
    match error {
        RibError::TooDeep => {
            ControlResponse::new(414, format!("Route prefix cannot exceed {ROUTE_COMPONENTS_MAX} components"))
        }
        RibError::OwnName { .. } | RibError::ReservedFace { .. } => ControlResponse::new(403, error.to_string()),
        RibError::Full { .. } | RibError::FibFull => ControlResponse::new(507, error.to_string()),
    }
}
