//! Commands about descriptors and locators [TagNet §2.1], and what neighbours on trees tell.

use byname_forward::{FaceId, Packet};
use byname_wire::Interest;

use super::tlv::ControlResponse;
use super::{Command, Management, Moment, respond};
use crate::tags::message::{Update, decode_descriptors, encode_locators, encode_session};
use crate::tags::{TagRouting, TagRoutingError};

impl Management {
    /// Routing by tags.
    pub fn tags(&self) -> &TagRouting {
        &self.tags
    }

    /// Routing by tags, to be driven.
    pub fn tags_mut(&mut self) -> &mut TagRouting {
        &mut self.tags
    }

    /// Carries out one of the commands of applications that are about tags.
    pub(super) fn tag_command(
        &mut self,
        command: Command,
        interest: &Interest<'_>,
        incoming: FaceId,
    ) -> ControlResponse {
        let parameters = interest.application_parameters.unwrap_or_default();
        let descriptors = match decode_descriptors(parameters) {
            Ok(descriptors) => descriptors,
            Err(error) => return ControlResponse::new(400, format!("Malformed descriptors: {error}")),
        };
        if !self.face_exists(incoming) {
            return ControlResponse::new(410, "Face not found");
        }
        match command {
            Command::TagsAdvertise => {
                if let Err(error) = self.tags.advertise(incoming, descriptors) {
                    return refused(error);
                }
            }
            Command::TagsWithdraw => self.tags.withdraw(incoming, descriptors),
            _ => {
                self.forwarder.set_endpoint(incoming);
                let body = encode_locators(&self.tags.addresses(incoming));
                return ControlResponse { body, ..ControlResponse::new(200, "OK") };
            }
        }
        ControlResponse::new(200, "OK")
    }

    /// Answers what a neighbour on a tree tells. It is believed by its face, which the operator
    /// named; nothing is signed.
    pub(super) fn answer_tag_update(
        &mut self,
        interest: &Interest<'_>,
        incoming: FaceId,
        now: Moment,
    ) -> Option<Packet> {
        let parameters = interest.application_parameters.filter(|_| interest.parameters_digest_matches())?;
        let response = match Update::decode(parameters).map(|update| self.tags.hear(incoming, update, now.ms)) {
            Ok(Ok(session)) => ControlResponse { body: encode_session(session), ..ControlResponse::new(200, "OK") },
            Ok(Err(error)) => refused(error),
            Err(error) => ControlResponse::new(400, format!("Malformed update: {error}")),
        };
        respond(interest, &response)
    }
}

fn refused(error: TagRoutingError) -> ControlResponse {
    let code = match error {
        TagRoutingError::NoNeighbor { .. } => 403,
        TagRoutingError::NoTree => 503,
        TagRoutingError::Full { .. } | TagRoutingError::FaceFull { .. } => 507,
    };
    ControlResponse::new(code, error.to_string())
}
