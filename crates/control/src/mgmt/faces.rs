//! The module `faces`.

use byname_face::face::{CreateFaceError, FaceChange, MoveFaceError, UpdateFaceError};
use byname_face::uri::canonize_numeric;
use byname_face::{FaceRequest, FaceStatus, FaceUri, LinkFlags};
use byname_forward::FaceId;
use byname_forward::face_table::{LinkType, Persistency, Scope};
use byname_wire::{Interest, PACKET_BYTES_MAX};

use super::tlv::{self, ControlParameters, ControlResponse, Element, FaceQueryFilter};

/// Flag of a face: NextHopFaceId and IncomingFaceId are enabled.
const LOCAL_FIELDS: u64 = 1;
/// Flag of a face: congested queues mark packets.
const CONGESTION_MARKING: u64 = 4;
/// Smallest MTU, as in NFD. Smaller frames have no room for a fragment header and a useful payload.
const MTU_MIN: u64 = 64;
/// URI schemes of faces that can be created.
const SCHEMES: [&str; 9] = ["udp4", "udp6", "tcp4", "tcp6", "ws", "wss", "quic", "ether", "memif"];

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

/// The persistency with this number, which has been validated.
pub(super) fn persistency(number: u64) -> Persistency {
    match number {
        1 => Persistency::OnDemand,
        2 => Persistency::Permanent,
        _ => Persistency::Persistent,
    }
}

/// Parses a URI in a command.
///
/// Clients should send canonical URIs. But ndn-dv passes on what its users write, which is `udp://192.0.2.1:6363` in
/// its own documentation.
fn parse_uri(uri: &str, which: &str) -> Result<FaceUri, ControlResponse> {
    uri.parse().or_else(|error| canonize_numeric(uri).ok_or(error)).map_err(|error| match uri.split_once("://") {
        None => ControlResponse::new(400, "Malformed command"),
        Some((scheme, _)) if scheme == "udp" || scheme == "tcp" || SCHEMES.contains(&scheme) => {
            ControlResponse::new(400, format!("Non-canonical {which} URI: {error}"))
        }
        Some(_) => ControlResponse::new(406, "Unsupported protocol"),
    })
}

/// The face that `faces/create` requests.
pub(super) fn create_request(parameters: &ControlParameters) -> Result<FaceRequest, ControlResponse> {
    let remote = parse_uri(parameters.uri.as_deref().unwrap_or_default(), "remote")?;
    let local = parameters.local_uri.as_deref().map(|uri| parse_uri(uri, "local")).transpose()?;
    let uri = remote.to_string();
    if !uri.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme)) {
        return Err(ControlResponse::new(406, "Unsupported protocol"));
    }
    let persistency = persistency(parameters.face_persistency.unwrap_or(0));
    // As in NFD, checked even if the face exists already.
    let kind = match remote {
        FaceUri::Udp(_) => "UDP",
        FaceUri::Tcp(_) => "TCP",
        FaceUri::WebSocket(_) | FaceUri::SecureWebSocket(_) => "WebSocket",
        FaceUri::Quic(_) => "QUIC",
        _ => "such",
    };
    let is_stream = remote.connects_to().is_some();
    let why_not = if local.is_some() && (is_stream || matches!(remote, FaceUri::Udp(_))) {
        format!("Unicast {kind} faces cannot be created with a LocalUri")
    } else if persistency == Persistency::OnDemand {
        format!("Outgoing {kind} faces do not support on-demand persistency")
    } else if is_stream && parameters.mtu.is_some() {
        format!("{kind} faces do not support MTU overrides")
    } else if parameters.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
        format!("Override MTU cannot be less than {MTU_MIN}")
    } else {
        String::new()
    };
    if !why_not.is_empty() {
        return Err(ControlResponse::new(406, why_not));
    }
    // Congestion marking is on by default.
    let default = LinkFlags::default().masked(CONGESTION_MARKING, CONGESTION_MARKING);
    Ok(FaceRequest {
        remote,
        local,
        persistency,
        connect_within: None,
        mtu: parameters.mtu,
        flags: default.masked(parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0)),
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval_ns,
        default_congestion_threshold_bytes: parameters.default_congestion_threshold_bytes,
    })
}

/// The answer to `faces/create`.
pub(super) fn created(outcome: Result<FaceStatus, CreateFaceError>) -> ControlResponse {
    match outcome {
        Ok(status) => ControlResponse::ok(&create_body(&status)),
        Err(CreateFaceError::Exists(status)) => {
            ControlResponse::new(409, "Face with remote URI already exists").with_body(&create_body(&status))
        }
        Err(CreateFaceError::Unacceptable(why)) => ControlResponse::new(406, why),
        Err(CreateFaceError::Failed(why)) => ControlResponse::new(504, why),
    }
}

/// The change that `faces/update` requests of `status`. An error is the answer to the command.
pub(super) fn change_request(
    status: &FaceStatus,
    parameters: &ControlParameters,
) -> Result<FaceChange, ControlResponse> {
    let (flags, mask) = (parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0));
    let mut offending = ControlParameters::default();
    let mut reasons = Vec::new();
    if flags & mask & LOCAL_FIELDS != 0 && status.scope != Scope::Local {
        (offending.flags, offending.mask) = (Some(LOCAL_FIELDS), Some(LOCAL_FIELDS));
        reasons.push("local fields need a face of local scope".to_owned());
    }
    if let Some(mtu) = parameters.mtu.filter(|&mtu| mtu < MTU_MIN) {
        offending.mtu = Some(mtu);
        reasons.push(format!("the MTU cannot be less than {MTU_MIN}"));
    }
    if !reasons.is_empty() {
        return Err(invalid_properties(&reasons.join(", ")).with_body(&offending));
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
        Ok(status) => ControlResponse::ok(&update_body(&status)),
        Err(UpdateFaceError::NotFound) => face_not_found(),
        Err(UpdateFaceError::Unacceptable(why)) => invalid_properties(&why).with_body(&ControlParameters {
            face_persistency: parameters.face_persistency,
            mtu: parameters.mtu,
            ..ControlParameters::default()
        }),
    }
}

/// The answer to `faces/move`.
pub(super) fn moved(outcome: Result<FaceStatus, MoveFaceError>) -> ControlResponse {
    match outcome {
        Ok(status) => ControlResponse::ok(&ControlParameters {
            face_id: Some(status.id.0),
            uri: Some(status.remote.to_string()),
            local_uri: Some(status.local.to_string()),
            thread: Some(status.thread as u64),
            ..ControlParameters::default()
        }),
        Err(MoveFaceError::NotFound) => face_not_found(),
        Err(error @ MoveFaceError::NoThread { .. }) => ControlResponse::new(406, error.to_string()),
        Err(MoveFaceError::Stays(why)) => ControlResponse::new(409, why),
    }
}

pub(super) fn face_not_found() -> ControlResponse {
    ControlResponse::new(404, "Specified face does not exist")
}

fn invalid_properties(why: &str) -> ControlResponse {
    ControlResponse::new(409, format!("Invalid properties specified: {why}"))
}

/// For management, no MTU exceeds the largest packet.
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

fn create_body(status: &FaceStatus) -> ControlParameters {
    ControlParameters {
        uri: Some(status.remote.to_string()),
        local_uri: Some(status.local.to_string()),
        ..update_body(status)
    }
}

/// Order of the parameters in an answer, chosen so that the client that sent the command can decode it.
///
/// Clients disagree about the link settings (marking interval, threshold and MTU). NDNts does not find flags and
/// persistency after them. python-ndn 0.5.2 refuses an answer with flags and persistency before them. ndn-cxx and ndnd
/// accept any order. Therefore the client is guessed from its command:
///
/// - CanBePrefix or MustBeFresh is set: python-ndn's tools, or ndnd. Link settings come first.
/// - There is no InterestLifetime: ndn-cxx. Link settings come last.
/// - There is an InterestLifetime: NDNts, or a program with python-ndn. The answer has only the link settings that are
///   in the command.
pub(super) enum AnswerForm {
    /// Link settings first.
    SettingsFirst,
    /// Link settings last.
    SettingsLast,
    /// Only those link settings that the command has.
    OnlyAsked(Box<ControlParameters>),
}

impl AnswerForm {
    /// The form that the sender of this command can decode.
    pub(super) fn of(command: &Interest<'_>) -> AnswerForm {
        if command.can_be_prefix || command.must_be_fresh {
            AnswerForm::SettingsFirst
        } else if command.lifetime_ms.is_some() {
            AnswerForm::OnlyAsked(Box::new(super::parameters(command).unwrap_or_default()))
        } else {
            AnswerForm::SettingsLast
        }
    }

    /// Applies this form to an answer.
    pub(super) fn apply(&self, response: &mut ControlResponse) {
        let Ok(mut answer) = response.parameters() else { return };
        match self {
            AnswerForm::SettingsFirst => response.body = answer.encode_link_settings_first(),
            AnswerForm::SettingsLast => {}
            AnswerForm::OnlyAsked(asked) => {
                let interval = &mut answer.base_congestion_marking_interval_ns;
                *interval = interval.filter(|_| asked.base_congestion_marking_interval_ns.is_some());
                let threshold = &mut answer.default_congestion_threshold_bytes;
                *threshold = threshold.filter(|_| asked.default_congestion_threshold_bytes.is_some());
                answer.mtu = answer.mtu.filter(|_| asked.mtu.is_some());
                response.body = answer.encode();
            }
        }
    }
}

/// The entries of `faces/list`, sorted by id: `statuses`, which are sorted already, and the two reserved faces without
/// a status.
pub(super) fn dataset(statuses: &[FaceStatus]) -> impl Iterator<Item = tlv::FaceStatus> {
    let (internal, others) = statuses.split_at(statuses.partition_point(|status| status.id < FaceId::CONTENT_STORE));
    let reserved = [(FaceId::CONTENT_STORE, FaceUri::ContentStore), (FaceId::NULL, FaceUri::Null)]
        .map(|(id, uri)| FaceStatus::plain(id, uri, Scope::Local));
    let own = internal.iter().cloned().chain(reserved).map(|status| tlv::FaceStatus {
        // The forwarder's own faces do not mark packets.
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold_bytes: None,
        thread: None,
        ..dataset_entry(&status)
    });
    own.chain(others.iter().map(dataset_entry))
}

fn dataset_entry(status: &FaceStatus) -> tlv::FaceStatus {
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
        thread: Some(status.thread as u64),
    }
}

/// Whether the answer to `faces/query` lists this face.
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

/// The face in a command's parameters, or else the command's incoming face.
pub(super) fn face_of(parameters: &ControlParameters, incoming: FaceId) -> FaceId {
    parameters.face_id.filter(|&id| id != 0).map_or(incoming, FaceId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Name;
    use byname_wire::interest::InterestBuilder;

    /// Some fields in the answer to a `faces/create`, in their order.
    fn answered(tool: bool, lifetime_ms: Option<u64>, asked: ControlParameters) -> Vec<&'static str> {
        let name: Name = "/localhost/nfd/faces/create".parse().expect("a literal name");
        let name = name.join(byname_wire::Component::generic(&asked.encode()));
        let mut builder = InterestBuilder::new(name, 7).can_be_prefix(tool);
        if let Some(ms) = lifetime_ms {
            builder = builder.lifetime_ms(ms);
        }
        let wire = builder.encode();
        let uri: FaceUri = "udp4://192.0.2.1:6363".parse().expect("a literal URI");
        let mut response = created(Ok(FaceStatus::plain(FaceId(300), uri, Scope::NonLocal)));
        AnswerForm::of(&Interest::decode(&wire).expect("a command")).apply(&mut response);
        let mut order = Vec::new();
        let body = byname_wire::tlv::decode_only(&response.body, tlv::types::CONTROL_PARAMETERS).expect("a body");
        let mut reader = byname_wire::tlv::Reader::new(body);
        while let Some(element) = reader.next_tlv().expect("elements") {
            order.extend(match element.typ {
                tlv::types::MTU => Some("mtu"),
                tlv::types::BASE_CONGESTION_MARKING_INTERVAL => Some("interval"),
                tlv::types::FLAGS => Some("flags"),
                _ => None,
            });
        }
        order
    }

    #[test]
    fn each_client_gets_link_settings_where_it_reads_them() {
        let nothing = ControlParameters::default;
        assert_eq!(answered(true, Some(1000), nothing()), ["interval", "mtu", "flags"], "pynfdc");
        assert_eq!(answered(false, None, nothing()), ["flags", "interval", "mtu"], "nfdc");
        assert_eq!(answered(false, Some(3999), nothing()), ["flags"], "NDNts, or a program that uses python-ndn");
        let mtu = ControlParameters { mtu: Some(1400), ..nothing() };
        assert_eq!(answered(false, Some(3999), mtu), ["flags", "mtu"]);
    }

    #[test]
    fn refused_changes_say_why_and_which() {
        let status = FaceStatus::plain(FaceId(300), FaceUri::Null, Scope::NonLocal);
        let asked = ControlParameters { mtu: Some(63), flags: Some(1), mask: Some(1), ..ControlParameters::default() };
        let refused = change_request(&status, &asked).expect_err("neither is possible");
        let why =
            "Invalid properties specified: local fields need a face of local scope, the MTU cannot be less than 64";
        assert_eq!((refused.code, refused.text.as_str()), (409, why));
        assert_eq!(refused.parameters(), Ok(asked.clone()));
        let of_port = updated(Err(UpdateFaceError::Unacceptable("a stream has no MTU".into())), &asked);
        assert_eq!((of_port.code, of_port.text.as_str()), (409, "Invalid properties specified: a stream has no MTU"));
    }
}
