//! `faces/create`, whose answer may have to wait for a connection.
//!
//! A persistent face over TCP or WebSocket is created when its connection is established, as in NFD. The command is
//! answered then. If the connection fails or takes too long, the answer is 504 with the system's reason. The limit is
//! eight seconds, or shorter if the Interest's lifetime ends earlier: nobody would receive a later answer. The default
//! lifetime leaves three and a half seconds. Other commands are handled meanwhile. The packet thread limits how many
//! creations are pending. A permanent face is created at once, as in ndnd, where NFD may answer 504: ndn-dv creates
//! such faces to neighbours that may start later.

use std::collections::HashMap;
use std::time::Duration;

use byname_face::face::Creation;
use byname_forward::Packet;
use byname_wire::{Interest, Name};
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::Management;
use super::audit::Entry;
use super::faces::{AnswerForm, create_request, created};
use super::tlv::{ControlParameters, ControlResponse};

/// Part of an Interest's lifetime that is left for sending the answer.
const ANSWER_TIME_MS: u64 = 500;

/// Outcome of a command that had to wait.
pub struct Created {
    /// The command's name.
    name: Name,
    form: AnswerForm,
    parameters: Box<ControlParameters>,
    outcome: Creation,
    /// Number of the command among those that had to wait.
    number: u64,
}

/// Channel for outcomes from the packet thread.
pub(super) struct Creations {
    sender: Sender<Created>,
    receiver: Receiver<Created>,
    /// Commands so far that might have to wait.
    count: u64,
    /// Lines of the audit log that lack the outcome, by the number of the command.
    entries: HashMap<u64, Box<Entry>>,
}

impl Default for Creations {
    fn default() -> Self {
        // Bounded: the packet thread limits the pending creations, and sends one outcome for each.
        let (sender, receiver) = unbounded();
        Creations { sender, receiver, count: 0, entries: HashMap::new() }
    }
}

impl Management {
    /// Creates a face. `None` if the answer must wait; `entry` is then kept until it comes.
    pub(super) fn face_create(
        &mut self,
        command: &Interest<'_>,
        parameters: &ControlParameters,
        entry: &mut Option<Box<Entry>>,
    ) -> Option<ControlResponse> {
        let mut request = match create_request(parameters) {
            Ok(request) => request,
            Err(response) => return Some(response),
        };
        let lifetime_ms = command.lifetime_or_default_ms();
        let left_ms = lifetime_ms.saturating_sub(ANSWER_TIME_MS).max(lifetime_ms / 2);
        request.connect_within = Some(Duration::from_millis(left_ms));
        let asked = Box::new(parameters.clone());
        let (sender, name, form) = (self.creations.sender.clone(), command.name.to_name(), AnswerForm::of(command));
        self.creations.count += 1;
        let number = self.creations.count;
        let later = move |outcome| {
            // Fails if management has ended; the answer is then not needed.
            let _ = sender.send(Created { name, form, parameters: asked, outcome, number });
        };
        let decided = self.forwarder.begin_face(request, later);
        self.counters.commands_deferred += u64::from(decided.is_none());
        if decided.is_none()
            && let Some(entry) = entry.take()
        {
            self.creations.entries.insert(number, entry);
        }
        let outcome = decided?;
        if let Ok(status) = &outcome {
            self.durable.face_made(status, parameters);
        }
        Some(created(outcome))
    }

    /// Outcomes of commands that had to wait. Pass them to [`Management::face_created`].
    pub fn creations(&self) -> &Receiver<Created> {
        &self.creations.receiver
    }

    /// The answer to a command that had to wait.
    pub fn face_created(&mut self, created: Created) -> Option<Packet> {
        if let Ok(status) = &created.outcome {
            self.durable.face_made(status, &created.parameters);
        }
        let mut response = self::created(created.outcome);
        created.form.apply(&mut response);
        let entry = self.creations.entries.remove(&created.number);
        self.audit(entry, &response);
        self.respond_to_command(created.name.as_ref(), &response)
    }
}
