//! `rib/batch` and `flat/batch`: many changes in one command.
//!
//! Each change needs the rights of the same command alone, has its code, and a line of its own in the audit log. A batch saves
//! the rest: a signature, an Interest and an answer for each.

use byname_forward::FaceId;
use byname_mgmt::batch::{BATCH_CHANGES_MAX, BatchChange, BatchOutcome, decode_batch};
use byname_wire::{Descriptor, Interest, Name};

use super::audit::Entry;
use super::tlv::{ControlParameters, ControlResponse, Element};
use super::{Command, Management, Moment, faces, tags};
use crate::security::Authorized;

/// What was asked, and from where.
struct Batch<'a> {
    interest: &'a Interest<'a>,
    signer: &'a Authorized,
    incoming: FaceId,
    now: Moment,
}

impl Management {
    /// Executes `rib/batch` or `flat/batch`.
    pub(super) fn batch(
        &mut self,
        command: Command,
        interest: &Interest<'_>,
        signer: &Authorized,
        incoming: FaceId,
        now: Moment,
    ) -> ControlResponse {
        let changes = match decode_batch(interest.application_parameters.unwrap_or_default()) {
            Ok(Some(changes)) => changes,
            Ok(None) => {
                return ControlResponse::new(413, format!("A batch has at most {BATCH_CHANGES_MAX} changes"));
            }
            Err(error) => return ControlResponse::new(400, format!("Malformed batch: {error}")),
        };
        let is_of_flat = |change: &BatchChange| matches!(change, BatchChange::FlatSet(_) | BatchChange::FlatReset(_));
        if changes.iter().any(|change| is_of_flat(change) != (command == Command::FlatBatch)) {
            // The rights that were checked are those of one module.
            return ControlResponse::new(
                400,
                "Changes of routes and descriptors are for rib/batch, those of flat names for flat/batch",
            );
        }
        let batch = Batch { interest, signer, incoming, now };
        let mut outcome = BatchOutcome::default();
        for (index, change) in changes.into_iter().enumerate() {
            match self.change_of_batch(&batch, change) {
                Ok(()) => outcome.count += 1,
                Err(response) => outcome.refuse(index, response.code, response.text),
            }
        }
        ControlResponse { body: outcome.encode(), ..ControlResponse::new(200, "OK") }
    }

    fn change_of_batch(&mut self, batch: &Batch<'_>, change: BatchChange) -> Result<(), ControlResponse> {
        let (command, parameters) = match change {
            BatchChange::Register(parameters) => (Command::RibRegister, parameters),
            BatchChange::Unregister(parameters) => (Command::RibUnregister, parameters),
            BatchChange::FlatSet(parameters) => (Command::FlatSet, parameters),
            BatchChange::FlatReset(parameters) => (Command::FlatReset, parameters),
            BatchChange::Advertise { face_id, descriptor } => {
                return self.tags_of_batch(batch, Command::TagsAdvertise, face_id, descriptor);
            }
            BatchChange::Withdraw { face_id, descriptor } => {
                return self.tags_of_batch(batch, Command::TagsWithdraw, face_id, descriptor);
            }
        };
        let entry = self.entry_of_batch(batch, command, &parameters);
        let done = self.carry_out_of_batch(batch, command, parameters);
        self.note_of_batch(entry, &done);
        done
    }

    fn carry_out_of_batch(
        &mut self,
        batch: &Batch<'_>,
        command: Command,
        parameters: ControlParameters,
    ) -> Result<(), ControlResponse> {
        command.validate(&parameters).map_err(|why| ControlResponse::new(400, why))?;
        if let Err(refusal) = self.check_rights(command, &parameters, batch.signer, batch.incoming) {
            return Err(ControlResponse::new(403, self.authorizer.refuse(refusal).to_string()));
        }
        match command {
            Command::RibRegister => {
                if faces::face_of(&parameters, batch.incoming) == batch.incoming {
                    let prefix = parameters.name.clone().unwrap_or_default();
                    self.note_registration(batch.interest, prefix, batch.incoming);
                }
                self.add_route(&parameters, batch.incoming, batch.now).map(drop)
            }
            Command::RibUnregister => {
                self.remove_route(&parameters, batch.incoming);
                Ok(())
            }
            command => {
                let response = self.execute(command, parameters, batch.incoming, batch.now);
                if response.code == 200 { Ok(()) } else { Err(response) }
            }
        }
    }

    /// Advertises or withdraws a descriptor for a face that does not do so itself.
    fn tags_of_batch(
        &mut self,
        batch: &Batch<'_>,
        command: Command,
        face_id: u64,
        descriptor: Descriptor,
    ) -> Result<(), ControlResponse> {
        let named = ControlParameters { face_id: Some(face_id), ..ControlParameters::default() };
        let entry = self.entry_of_batch(batch, command, &named);
        let done = self.carry_out_tags(batch, command, faces::face_of(&named, batch.incoming), descriptor);
        self.note_of_batch(entry, &done);
        done
    }

    fn carry_out_tags(
        &mut self,
        batch: &Batch<'_>,
        command: Command,
        face: FaceId,
        descriptor: Descriptor,
    ) -> Result<(), ControlResponse> {
        // Packets of all names may have these tags.
        if let Err(refusal) = self.check_route(Name::default().as_ref(), face, batch.signer, batch.incoming) {
            return Err(ControlResponse::new(403, self.authorizer.refuse(refusal).to_string()));
        }
        if !self.face_exists(face) {
            return Err(ControlResponse::new(410, "Face not found"));
        }
        if self.tags.is_neighbor(face) {
            // It tells its descriptors itself, and would take these back.
            return Err(ControlResponse::new(409, "The face leads to a neighbour on a tree"));
        }
        if command == Command::TagsWithdraw {
            self.tags.withdraw(face, vec![descriptor.clone()]);
            self.keep_withdrawn(face, vec![descriptor]);
            return Ok(());
        }
        self.advertise(face, vec![descriptor]).map_err(tags::refused)
    }

    /// The beginning of a change's line in the audit log.
    fn entry_of_batch(
        &self,
        batch: &Batch<'_>,
        command: Command,
        parameters: &ControlParameters,
    ) -> Option<Box<Entry>> {
        let mut entry = self.entry(batch.interest, command, batch.incoming, Some(batch.signer), batch.now)?;
        entry.parameters = parameters.encode().into();
        Some(entry)
    }

    fn note_of_batch(&mut self, entry: Option<Box<Entry>>, done: &Result<(), ControlResponse>) {
        match done {
            Ok(()) => self.audit(entry, &ControlResponse::new(200, "OK")),
            Err(response) => self.audit(entry, response),
        }
    }
}
