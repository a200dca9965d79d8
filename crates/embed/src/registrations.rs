//! Registrations: the management commands that every application sends before it produces.
//!
//! A forwarder that was built with [`Builder::registrations`](crate::Builder::registrations) answers `rib/register` and
//! `rib/unregister` from its local faces, as NFD does. It believes them: they are of its own process. A registration is
//! a nexthop of exactly that prefix, and lasts until it is taken back or its face is gone.

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received};
use byname_mgmt::{ControlParameters, ControlResponse, Element, origin, route_flags};
use byname_wire::data::DataBuilder;
use byname_wire::{Interest, Name};

use crate::forwarder::Forwarder;

/// The names of management, for local applications and for others.
const PREFIXES: [&str; 2] = ["/localhost/nfd", "/localhop/nfd"];
/// Number of components before a command's parameters: `/localhost/nfd/rib/register`.
const VERB_END: usize = 4;
/// FreshnessPeriod of answers, as in NFD.
const FRESHNESS_MS: u64 = 1000;

/// The names of management.
pub(crate) fn prefixes() -> impl Iterator<Item = Name> {
    PREFIXES.iter().map(|prefix| prefix.parse().expect("a literal name"))
}

/// The answer to what the forwarder sent to [`FaceId::INTERNAL`]. `None`: it is no Interest.
pub(crate) fn answer(forwarder: &mut Forwarder, sent: &Outgoing) -> Option<Received> {
    let interest = Interest::decode(&sent.packet).ok().filter(|_| sent.fields.nack.is_none())?;
    let response = carry_out(forwarder, &interest, sent.fields.incoming_face_id.unwrap_or(FaceId::NONE));
    let data = DataBuilder::new(interest.name.to_name()).freshness_ms(FRESHNESS_MS).content(response.encode());
    let fields = LinkFields { pit_token: sent.fields.pit_token, ..LinkFields::default() };
    Some(Received { face: FaceId::INTERNAL, fields, packet: Packet::copy_from(&data.encode()) })
}

fn carry_out(forwarder: &mut Forwarder, interest: &Interest<'_>, incoming: FaceId) -> ControlResponse {
    let component = |at: usize| interest.name.components().nth(at).map_or(&[][..], |component| component.value);
    let is_register = match (component(VERB_END - 2), component(VERB_END - 1)) {
        (b"rib", b"register") => true,
        (b"rib", b"unregister") => false,
        _ => return ControlResponse::new(501, "this forwarder only answers rib/register and rib/unregister"),
    };
    let Ok(parameters) = ControlParameters::decode(component(VERB_END)) else {
        return ControlResponse::new(400, "failed to decode ControlParameters");
    };
    let Some(prefix) = parameters.name.clone() else {
        return ControlResponse::new(400, "a registration needs a name");
    };
    let face = parameters.face_id.filter(|face| *face != 0).map_or(incoming, FaceId);
    if !forwarder.is_local(incoming) || prefixes().any(|own| own.as_ref().is_prefix_of(&prefix.as_ref())) {
        return ControlResponse::new(403, "authorization rejected");
    }
    if is_register && !forwarder.has_face(face) {
        return ControlResponse::new(410, "Face not found");
    }
    let cost = parameters.cost.unwrap_or(0);
    let mut nexthops: Vec<_> = forwarder.route(&prefix).iter().map(|nexthop| (nexthop.face, nexthop.cost)).collect();
    nexthops.retain(|(other, _)| *other != face);
    if is_register {
        nexthops.push((face, cost));
    }
    if let Err(error) = forwarder.set_route(&prefix, &nexthops) {
        return ControlResponse::new(500, error.to_string());
    }
    let origin = Some(parameters.origin.unwrap_or(origin::APP));
    let done = ControlParameters { name: Some(prefix), face_id: Some(face.0), origin, ..ControlParameters::default() };
    ControlResponse::ok(&match is_register {
        true => {
            let flags = Some(parameters.flags.unwrap_or(route_flags::CHILD_INHERIT));
            ControlParameters { cost: Some(cost), flags, ..done }
        }
        false => done,
    })
}
