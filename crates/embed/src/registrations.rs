//! Registrations: the management commands that every application sends before it produces.
//!
//! A forwarder that was built with [`Builder::registrations`](crate::Builder::registrations) answers `rib/register` and
//! `rib/unregister` from its local faces, as NFD does. It believes them: they are of its own process. A registration is
//! a nexthop of exactly that prefix, and lasts until it is taken back or its face is gone.

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Received};
use byname_mgmt::{ControlParameters, ControlResponse, Element, origin, route_flags};
use byname_wire::data::DataBuilder;
use byname_wire::{Interest, Name};

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

/// A command to carry out.
pub(crate) struct Registration {
    pub is_register: bool,
    pub prefix: Name,
    pub face: FaceId,
    pub cost: u64,
    parameters: ControlParameters,
}

impl Registration {
    /// The command in an Interest from this face, or the answer to what is none.
    pub fn of(interest: &Interest<'_>, incoming: FaceId) -> Result<Registration, ControlResponse> {
        let component = |at: usize| interest.name.components().nth(at).map_or(&[][..], |component| component.value);
        let is_register = match (component(VERB_END - 2), component(VERB_END - 1)) {
            (b"rib", b"register") => true,
            (b"rib", b"unregister") => false,
            _ => {
                let text = "this forwarder only answers rib/register and rib/unregister";
                return Err(ControlResponse::new(501, text));
            }
        };
        let parameters = ControlParameters::decode(component(VERB_END))
            .map_err(|_| ControlResponse::new(400, "failed to decode ControlParameters"))?;
        let prefix = parameters.name.clone().ok_or_else(|| ControlResponse::new(400, "a registration needs a name"))?;
        if prefixes().any(|own| own.as_ref().is_prefix_of(&prefix.as_ref())) {
            return Err(unauthorized());
        }
        let face = parameters.face_id.filter(|face| *face != 0).map_or(incoming, FaceId);
        Ok(Registration { is_register, prefix, face, cost: parameters.cost.unwrap_or(0), parameters })
    }

    /// The answer when it has been carried out.
    pub fn done(self) -> ControlResponse {
        let Registration { is_register, prefix, face, cost, parameters } = self;
        let origin = Some(parameters.origin.unwrap_or(origin::APP));
        let flags = parameters.flags.unwrap_or(route_flags::CHILD_INHERIT);
        let done =
            ControlParameters { name: Some(prefix), face_id: Some(face.0), origin, ..ControlParameters::default() };
        ControlResponse::ok(&match is_register {
            true => ControlParameters { cost: Some(cost), flags: Some(flags), ..done },
            false => done,
        })
    }
}

/// The answer to those who may not register.
pub(crate) fn unauthorized() -> ControlResponse {
    ControlResponse::new(403, "authorization rejected")
}

/// The packet that answers a command which the forwarder sent to [`FaceId::INTERNAL`].
pub(crate) fn packet(sent: &Outgoing, interest: &Interest<'_>, response: &ControlResponse) -> Received {
    let data = DataBuilder::new(interest.name.to_name()).freshness_ms(FRESHNESS_MS).content(response.encode());
    let fields = LinkFields { pit_token: sent.fields.pit_token, ..LinkFields::default() };
    Received { face: FaceId::INTERNAL, fields, packet: Packet::copy_from(&data.encode()) }
}
