//! Commands about descriptors and locators [TagNet §2.1], and updates from neighbours on trees.

use std::collections::BTreeSet;

use byname_forward::{FaceId, Packet};
use byname_wire::{Descriptor, Interest};

use super::tlv::ControlResponse;
use super::{Command, Management, Moment, packet_of, respond, response_data};
use crate::tags::message::{Update, decode_descriptors, encode_locators, encode_session};
use crate::tags::{OwnTree, TagRouting, TagRoutingError};

impl Management {
    /// Routing by tags.
    pub fn tags(&self) -> &TagRouting {
        &self.tags
    }

    /// Routing by tags, for its driver.
    pub fn tags_mut(&mut self) -> &mut TagRouting {
        &mut self.tags
    }

    /// Puts this router on these trees, and on no others.
    pub fn join_trees(&mut self, own: Vec<OwnTree>) {
        self.tags.replace_trees(own);
        self.advertise_again();
    }

    /// Advertises descriptors of an application that another process had.
    pub fn take_over_tags(&mut self, face: FaceId, list: &[u8]) {
        let refused = match decode_descriptors(list) {
            Ok(descriptors) => self.advertise(face, descriptors).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = refused {
            tracing::warn!(%face, why, "descriptors of an application stay behind");
        }
    }

    fn advertise(&mut self, face: FaceId, descriptors: Vec<Descriptor>) -> Result<(), TagRoutingError> {
        let before: BTreeSet<Descriptor> = self.tags.advertised_by(face).into_iter().collect();
        self.tags.advertise(face, descriptors.clone())?;
        let new = descriptors.iter().filter(|one| !before.contains(*one)).cloned().collect();
        self.keep_advertised(face, &descriptors, new);
        Ok(())
    }

    /// Executes a tag command of an application.
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
                if let Err(error) = self.advertise(incoming, descriptors) {
                    return refused(error);
                }
            }
            Command::TagsWithdraw => {
                self.tags.withdraw(incoming, descriptors.clone());
                self.keep_withdrawn(incoming, descriptors);
            }
            _ => {
                self.forwarder.set_endpoint(incoming);
                let body = encode_locators(&self.tags.addresses(incoming));
                return ControlResponse { body, ..ControlResponse::new(200, "OK") };
            }
        }
        ControlResponse::new(200, "OK")
    }

    /// Answers an update from a neighbour on a tree.
    pub(super) fn answer_tag_update(
        &mut self,
        interest: &Interest<'_>,
        incoming: FaceId,
        now: Moment,
    ) -> Option<Packet> {
        let parameters = interest.application_parameters.filter(|_| interest.parameters_digest_matches())?;
        let heeded = match Update::decode(parameters).map(|update| self.tags.hear(incoming, (interest, update), now)) {
            Ok(Ok(heeded)) => heeded,
            Ok(Err(error)) => return respond(interest.name, &refused(error)),
            Err(error) => {
                return respond(interest.name, &ControlResponse::new(400, format!("Malformed update: {error}")));
            }
        };
        let (code, text) = if heeded.is_taken { (200, "OK") } else { (409, "Begin a new session that echoes mine") };
        let response = ControlResponse { body: encode_session(heeded.session), ..ControlResponse::new(code, text) };
        match heeded.keys {
            Some(keys) => packet_of(&keys.sign_answer(&response_data(interest.name, &response)).ok()?),
            None => respond(interest.name, &response),
        }
    }
}

fn refused(error: TagRoutingError) -> ControlResponse {
    let code = match error {
        TagRoutingError::NoNeighbor { .. } | TagRoutingError::Unsigned => 403,
        TagRoutingError::NoTree | TagRoutingError::TooMany => 503,
        TagRoutingError::Full { .. } | TagRoutingError::FaceFull { .. } => 507,
    };
    ControlResponse::new(code, error.to_string())
}
