//! The module `faces`.

use byname_face::face::{CreateFaceError, FaceChange, UpdateFaceError};
use byname_face::uri::canonize_numeric;
use byname_face::{FaceRequest, FaceStatus, FaceUri, LinkFlags};
use byname_forward::FaceId;
use byname_forward::face_table::{LinkType, Persistency, Scope};
use byname_wire::PACKET_BYTES_MAX;

use super::tlv::{self, ControlParameters, ControlResponse, FaceQueryFilter};

/// Bit of a face's flags: NextHopFaceId and IncomingFaceId pass.
const LOCAL_FIELDS: u64 = 1;
/// Bit of a face's flags: congested queues mark packets.
const CONGESTION_MARKING: u64 = 4;
/// Smaller frames hold no fragment header and payload worth sending, as in NFD.
const MTU_MIN: u64 = 64;
/// Schemes of URIs that a face can be created to.
const SCHEMES: [&str; 7] = ["udp4", "udp6", "tcp4", "tcp6", "ws", "ether", "memif"];

pub(super) fn scope_number(scope: Scope) -> u64 {
    u64::from(scope == Scope::Local)
}

pub(super) fn link_type_number(link_type: LinkType) -> u64 {
    match link_type {
        LinkType::PointToPoint => 0,
        LinkType::MultiAccess => 1,
        LinkType::AdHoc => 2,
    }
}

pub(super) fn persistency_number(persistency: Persistency) -> u64 {
    match persistency {
        Persistency::Persistent => 0,
        Persistency::OnDemand => 1,
        Persistency::Permanent => 2,
    }
}

/// The persistency of a number that was checked to be known.
fn persistency(number: u64) -> Persistency {
    match number {
        1 => Persistency::OnDemand,
        2 => Persistency::Permanent,
        _ => Persistency::Persistent,
    }
}

/// A URI of a command.
///
/// That it is canonical is the client's duty; but ndn-dv hands on what its users write, which is
/// `udp://192.0.2.1:6363` in its own documentation.
fn parse_uri(uri: &str, which: &str) -> Result<FaceUri, ControlResponse> {
    uri.parse().or_else(|error| canonize_numeric(uri).ok_or(error)).map_err(|error| match uri.split_once("://") {
        None => ControlResponse::new(400, "Malformed command"),
        Some((scheme, _)) if scheme == "udp" || scheme == "tcp" || SCHEMES.contains(&scheme) => {
            ControlResponse::new(400, format!("Non-canonical {which} URI: {error}"))
        }
        Some(_) => ControlResponse::new(406, "Unsupported protocol"),
    })
}

/// What `faces/create` asks for.
pub(super) fn create_request(parameters: &ControlParameters) -> Result<FaceRequest, ControlResponse> {
    let remote = parse_uri(parameters.uri.as_deref().unwrap_or_default(), "remote")?;
    let local = parameters.local_uri.as_deref().map(|uri| parse_uri(uri, "local")).transpose()?;
    let uri = remote.to_string();
    if !uri.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme)) {
        return Err(ControlResponse::new(406, "Unsupported protocol"));
    }
    let persistency = persistency(parameters.face_persistency.unwrap_or(0));
    if persistency == Persistency::OnDemand {
        return Err(ControlResponse::new(406, "Outgoing faces do not support on-demand persistency"));
    }
    if parameters.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        return Err(ControlResponse::new(406, format!("Override MTU is too small, the least is {MTU_MIN}")));
    }
    // Congestion marking is on unless the command says otherwise.
    let default = LinkFlags::default().masked(CONGESTION_MARKING, CONGESTION_MARKING);
    Ok(FaceRequest {
        remote,
        local,
        persistency,
        mtu: parameters.mtu,
        flags: default.masked(parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0)),
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: parameters.default_congestion_threshold_bytes,
    })
}

/// The answer to `faces/create`.
pub(super) fn created(outcome: Result<FaceStatus, CreateFaceError>, asked: &ControlParameters) -> ControlResponse {
    match outcome {
        Ok(status) => ControlResponse::ok(&without_unasked(create_body(&status), asked)),
        Err(CreateFaceError::Exists(status)) => {
            ControlResponse::new(409, "Face with remote URI already exists").with_body(&create_body(&status))
        }
        Err(CreateFaceError::Unacceptable(why)) => ControlResponse::new(406, why),
        Err(CreateFaceError::Failed(why)) => ControlResponse::new(504, why),
    }
}

/// What `faces/update` asks to change of `status`; or the answer, if that cannot be.
pub(super) fn change_request(
    status: &FaceStatus,
    parameters: &ControlParameters,
) -> Result<FaceChange, ControlResponse> {
    let (flags, mask) = (parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0));
    let mut offending = ControlParameters::default();
    if flags & mask & LOCAL_FIELDS != 0 && status.scope != Scope::Local {
        (offending.flags, offending.mask) = (Some(LOCAL_FIELDS), Some(LOCAL_FIELDS));
    }
    if let Some(mtu) = parameters.mtu.filter(|&mtu| mtu < MTU_MIN) {
        offending.mtu = Some(mtu);
    }
    if offending != ControlParameters::default() {
        return Err(invalid_properties().with_body(&offending));
    }
    Ok(FaceChange {
        persistency: parameters.face_persistency.map(persistency),
        mtu: parameters.mtu,
        flags: parameters.mask.map(|mask| status.flags.masked(flags, mask)),
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: parameters.default_congestion_threshold_bytes,
    })
}

/// The answer to `faces/update`.
pub(super) fn updated(outcome: Result<FaceStatus, UpdateFaceError>, parameters: &ControlParameters) -> ControlResponse {
    match outcome {
        Ok(status) => ControlResponse::ok(&without_unasked(update_body(&status), parameters)),
        Err(UpdateFaceError::NotFound) => face_not_found(),
        Err(UpdateFaceError::Unacceptable(_)) => invalid_properties().with_body(&ControlParameters {
            face_persistency: parameters.face_persistency,
            mtu: parameters.mtu,
            ..ControlParameters::default()
        }),
    }
}

pub(super) fn face_not_found() -> ControlResponse {
    ControlResponse::new(404, "Specified face does not exist")
}

fn invalid_properties() -> ControlResponse {
    ControlResponse::new(409, "Invalid properties specified")
}

/// Management knows no MTU beyond the largest packet.
fn mtu_number(status: &FaceStatus) -> Option<u64> {
    let largest = PACKET_BYTES_MAX as u64;
    Some(status.mtu.map_or(largest, |mtu| mtu.min(largest)))
}

fn update_body(status: &FaceStatus) -> ControlParameters {
    ControlParameters {
        face_id: Some(status.id.0),
        face_persistency: Some(persistency_number(status.persistency)),
        flags: Some(status.flags.bits()),
        base_congestion_marking_interval_ns: Some(status.base_congestion_marking_interval_ns),
        default_congestion_threshold_bytes: Some(status.default_congestion_threshold_bytes),
        mtu: mtu_number(status),
        ..ControlParameters::default()
    }
}

/// Leaves out link settings that the command did not name: python-ndn expects them elsewhere than
/// where ndn-cxx puts them, and rejects the whole answer.
fn without_unasked(mut body: ControlParameters, asked: &ControlParameters) -> ControlParameters {
    body.base_congestion_marking_interval_ns =
        body.base_congestion_marking_interval_ns.filter(|_| asked.base_congestion_marking_interval_ns.is_some());
    body.default_congestion_threshold_bytes =
        body.default_congestion_threshold_bytes.filter(|_| asked.default_congestion_threshold_bytes.is_some());
    body.mtu = body.mtu.filter(|_| asked.mtu.is_some());
    body
}

fn create_body(status: &FaceStatus) -> ControlParameters {
    ControlParameters {
        uri: Some(status.remote.to_string()),
        local_uri: Some(status.local.to_string()),
        ..update_body(status)
    }
}

/// An entry of `faces/list` and `faces/query`.
pub(super) fn dataset_entry(status: &FaceStatus) -> tlv::FaceStatus {
    tlv::FaceStatus {
        face_id: status.id.0,
        uri: status.remote.to_string(),
        local_uri: status.local.to_string(),
        expiration_period_ms: status.expires_in_ms,
        face_scope: scope_number(status.scope),
        face_persistency: persistency_number(status.persistency),
        link_type: link_type_number(status.link_type),
        base_congestion_marking_interval_ns: Some(status.base_congestion_marking_interval_ns),
        default_congestion_threshold_bytes: Some(status.default_congestion_threshold_bytes),
        mtu: mtu_number(status),
        n_in_interests: status.counters.in_interests,
        n_in_data: status.counters.in_data,
        n_in_nacks: status.counters.in_nacks,
        n_out_interests: status.counters.out_interests,
        n_out_data: status.counters.out_data,
        n_out_nacks: status.counters.out_nacks,
        n_in_bytes: status.link.in_bytes,
        n_out_bytes: status.link.out_bytes,
        flags: status.flags.bits(),
        n_in_malformed: Some(status.link.in_malformed),
        n_reassembly_timeouts: Some(status.link.in_reassembly_timeouts),
        n_out_drops: Some(status.link.out_drops),
        n_congestion_marks: Some(status.link.congestion_marks),
        n_retransmissions: Some(status.link.retransmissions),
    }
}

/// Whether `faces/query` is to list this face.
pub(super) fn matches(filter: &FaceQueryFilter, entry: &tlv::FaceStatus) -> bool {
    let scheme = |uri: &str| uri.split_once("://").map(|(scheme, _)| scheme.to_owned());
    let agrees = |wanted: Option<u64>, is: u64| wanted.is_none_or(|wanted| wanted == is);
    agrees(filter.face_id, entry.face_id)
        && filter.uri_scheme.as_ref().is_none_or(|wanted| {
            [&entry.uri, &entry.local_uri].into_iter().any(|uri| scheme(uri).as_ref() == Some(wanted))
        })
        && filter.uri.as_ref().is_none_or(|uri| *uri == entry.uri)
        && filter.local_uri.as_ref().is_none_or(|uri| *uri == entry.local_uri)
        && agrees(filter.face_scope, entry.face_scope)
        && agrees(filter.face_persistency, entry.face_persistency)
        && agrees(filter.link_type, entry.link_type)
}

/// The face that a command is about: the one it names, or the one it came in on.
pub(super) fn face_of(parameters: &ControlParameters, incoming: FaceId) -> FaceId {
    parameters.face_id.filter(|&id| id != 0).map_or(incoming, FaceId)
}
