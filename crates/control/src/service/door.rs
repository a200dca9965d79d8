//! The door for other threads of this process, such as that of the dashboard: questions, and commands.
//!
//! A question reads management's tables between two batches of commands, and never waits for the disk. A command takes
//! the way of an application's: it is a signed Interest, from a face with a reserved number. So it needs the same
//! rights, has a line in the audit log, and its answer waits for the disk like all others. Only the last step differs:
//! the answer goes to the asker and not to a face.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byname_forward::{FaceId, Packet};
use byname_trust::Moment;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name};
use crossbeam_channel::Sender;

use super::{Request, Service};
use crate::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use crate::mgmt::{Command, Management};
use crate::security::Signer;

/// Number of guests: each has a face of its own, and so may have a trace of its own.
pub const GUESTS: usize = 3;
/// Number of the first guest's face. It is below all faces of ports.
const FIRST_GUEST: u64 = 240;
/// Lifetime of a command. It bounds how long the connection of a new face may take.
const LIFETIME_MS: u64 = 8000;
/// How long an answer is waited for.
const PATIENCE_MS: u64 = 20_000;
/// Most commands without an answer.
const WAITING_MAX: usize = 64;

/// The face of a guest.
///
/// # Panics
/// If there is no such guest.
pub fn guest_face(guest: usize) -> FaceId {
    assert!(guest < GUESTS, "there are {GUESTS} guests");
    FaceId(FIRST_GUEST + guest as u64)
}

/// Receives the answer to a command.
pub type TellAnswer = Box<dyn FnOnce(ControlResponse) + Send>;

/// Asks the control thread, without waiting for it.
#[derive(Clone)]
pub struct Door {
    requests: Sender<Request>,
}

impl Door {
    pub(super) fn new(requests: Sender<Request>) -> Self {
        Door { requests }
    }

    /// Lets the control thread run `question`, which must be short. Returns false if its queue is full or it has ended;
    /// `question` then never runs.
    pub fn ask(&self, question: impl FnOnce(&Management, Moment) + Send + 'static) -> bool {
        let question = |service: &mut Service| question(&service.management, service.clock.now());
        self.requests.try_send(Box::new(question)).is_ok()
    }

    /// Sends a command of this guest. `tell` gets the answer, if there is one. Returns false if the control thread's
    /// queue is full, or it has ended.
    pub fn command(&self, guest: usize, command: Command, parameters: ControlParameters, tell: TellAnswer) -> bool {
        let face = guest_face(guest);
        let request = move |service: &mut Service| service.carry_out(face, (command, &parameters), tell);
        self.requests.try_send(Box::new(request)).is_ok()
    }
}

/// A command whose answer is awaited.
struct Awaited {
    name: Name,
    until_ms: u64,
    tell: TellAnswer,
}

/// The guests' commands that have no answer yet.
#[derive(Default)]
pub(super) struct Guests {
    awaited: Mutex<Vec<Awaited>>,
    /// Their number. Most answers are for applications, and need no lock while it is zero.
    count: AtomicUsize,
}

impl Guests {
    fn await_answer(&self, name: Name, now_ms: u64, tell: TellAnswer) {
        let mut awaited = self.lock();
        awaited.retain(|one| one.until_ms > now_ms);
        if awaited.len() < WAITING_MAX {
            awaited.push(Awaited { name, until_ms: now_ms.saturating_add(PATIENCE_MS), tell });
        }
        self.count.store(awaited.len(), Ordering::Release);
    }

    /// Gives an answer to the guest who awaits it. Returns false if it is for somebody else.
    pub fn take(&self, answer: &Packet) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let Ok(data) = Data::decode(answer) else { return false };
        let mut awaited = self.lock();
        let Some(place) = awaited.iter().position(|one| one.name.as_ref() == data.name) else { return false };
        let Awaited { tell, .. } = awaited.swap_remove(place);
        self.count.store(awaited.len(), Ordering::Release);
        drop(awaited);
        if let Ok(response) = ControlResponse::decode(data.content) {
            tell(response);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the guests' faces known, which no port announces.
pub(super) fn welcome_guests(management: &mut Management) -> Arc<Guests> {
    (0..GUESTS).for_each(|guest| management.welcome_guest(guest_face(guest)));
    Arc::default()
}

impl Service {
    fn carry_out(&mut self, face: FaceId, (command, parameters): (Command, &ControlParameters), tell: TellAnswer) {
        let now = self.clock.now();
        let words = command.name().split('/').map(|word| Component::generic(word.as_bytes()));
        let name = words.fold(self.management.own_name(), |name, word| name.join(word));
        let name = name.join(Component::generic(&parameters.encode()));
        let interest = InterestBuilder::new(name, now.ms as u32).lifetime_ms(LIFETIME_MS);
        // Signing can fail only if the system has no randomness. There is no answer then.
        let Ok(wire) = Signer::digest().sign_command(&interest, now.unix_ms) else { return };
        let Ok(signed) = Interest::decode(&wire) else { return };
        self.guests.await_answer(signed.name.to_name(), now.ms, tell);
        let answer = self.management.answer(&wire, face, now);
        self.answer(answer, now);
    }
}
