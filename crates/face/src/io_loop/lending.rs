//! Faces that a thread lends to others, and faces that it borrows from them: see [`crate::lent`].
//!
//! A loan ends while an application on the face waits for the answer to a registration. Interests may have to wait for
//! that answer, and only the owner knows ([`super::registrations`]).

use std::sync::Arc;

use byname_forward::face_table::FaceMap;
use byname_forward::loans::Loan;
use byname_forward::{FaceId, Whereabouts};

use super::{ForwarderHandle, IoLoop, Registration};
use crate::face::{FaceEvent, FaceStatus};
use crate::lent::{Accounts, Lent};
use crate::pulse::Doing;

/// The loans of one thread.
#[derive(Default)]
pub(super) struct Loans {
    /// The accounts of this thread's faces that are lent, or were.
    accounts: FaceMap<Arc<Accounts>>,
    /// Index of the port of each borrowed face.
    pub borrowed: FaceMap<usize>,
    /// Faces of this thread that are not lent until a registration has its answer.
    recalled: Vec<FaceId>,
}

/// A face that has ended, but not for all workers.
pub(super) struct Leaving {
    status: FaceStatus,
    /// Number of workers that still have to forget it.
    pub workers: usize,
    accounts: Option<Arc<Accounts>>,
}

impl ForwarderHandle {
    /// Makes Interests below a prefix wait on their way to the face that registers it, until the answer to the command
    /// is on its way there. Must be called before the route works.
    pub fn answer_before_interests(&self, registration: Registration) {
        let face = registration.face;
        // The face does not move meanwhile.
        let owners = self.owners();
        let owner = self.line(owners.of(face));
        // After the end there is nothing to wait for.
        let _ = owner.registrations.send(registration);
        let is_recalled = self.threads() > 1 && owner.call(move |io_loop| io_loop.recall(face)) == Some(true);
        drop(owners);
        if is_recalled {
            self.call_all(IoLoop::hear_of_loans);
        }
    }
}

impl IoLoop {
    /// What other threads need to send on a face of this one. `None` if they cannot.
    pub(super) fn lend(&mut self, face: FaceId) -> Option<Loan> {
        if self.seat.threads() == 1 || self.loans.recalled.contains(&face) {
            return None;
        }
        let lent = self.ports[*self.faces.get(&face)?].lend_face(face)?;
        self.loans.accounts.insert(face, Arc::clone(&lent.accounts));
        Some(lent)
    }

    /// Takes note of faces that other threads have lent, or lend no longer.
    pub(super) fn hear_of_loans(&mut self) {
        self.seat.ask(|_| ());
        for (face, loan) in self.seat.worker.take_loans() {
            match loan.and_then(|loan| loan.downcast::<Lent>().ok()) {
                Some(lent) => self.borrow(face, &lent),
                None => {
                    if let Some(port) = self.loans.borrowed.remove(&face) {
                        self.seat.leave_face(face);
                        self.with_port(Doing::Command, port, |port, _| port.give_back_face(face));
                    }
                }
            }
        }
    }

    fn borrow(&mut self, face: FaceId, lent: &Lent) {
        if self.faces.contains_key(&face) {
            return;
        }
        let ports = 0..self.ports.len();
        let mut borrows =
            |port: &usize| self.with_port(Doing::Command, *port, |port, cx| port.borrow_face(cx, face, lent));
        if let Some(port) = ports.into_iter().find(&mut borrows) {
            self.loans.borrowed.insert(face, port);
            // This thread may receive from the peer, too.
            self.seat.enter_face(face, &Whereabouts::Host(lent.remote));
        }
    }

    /// This thread owned a face, which now is another's.
    pub(super) fn go_on_sending(&mut self, face: FaceId, loan: Option<Loan>) {
        self.loans.accounts.remove(&face);
        self.loans.recalled.retain(|recalled| *recalled != face);
        if let Some(lent) = loan.and_then(|loan| loan.downcast::<Lent>().ok()) {
            self.borrow(face, &lent);
        }
    }

    /// A face has come to this thread.
    pub(super) fn own(&mut self, face: FaceId) {
        self.loans.borrowed.remove(&face);
        if self.registrations.concern(self.now, face) {
            self.loans.recalled.push(face);
        } else {
            self.lend_again(face);
        }
    }

    /// Ends the loan of a face, if there is one.
    fn recall(&mut self, face: FaceId) -> bool {
        if !self.loans.accounts.contains_key(&face) {
            return false;
        }
        self.loans.recalled.push(face);
        self.seat.tell_all(move |worker| worker.lend_face(face, None));
        true
    }

    /// Lends faces again whose registrations have been answered.
    pub(super) fn end_recalls(&mut self) {
        if self.loans.recalled.is_empty() {
            return;
        }
        let mut recalled = std::mem::take(&mut self.loans.recalled);
        let answered = recalled.extract_if(.., |face| !self.registrations.concern(self.now, *face));
        let answered: Vec<FaceId> = answered.collect();
        self.loans.recalled = recalled;
        answered.into_iter().for_each(|face| self.lend_again(face));
    }

    fn lend_again(&mut self, face: FaceId) {
        let loan = self.lend(face);
        self.seat.tell_all(move |worker| worker.lend_face(face, loan));
    }

    /// A face of this thread has ended.
    pub(super) fn leaves(&mut self, status: FaceStatus) -> Leaving {
        let accounts = self.loans.accounts.remove(&status.id);
        self.loans.recalled.retain(|recalled| *recalled != status.id);
        Leaving { status, workers: self.seat.threads(), accounts }
    }

    /// All workers have forgotten a face, and no thread sends there any more.
    pub(super) fn has_left(&mut self, leaving: Leaving) {
        let Leaving { mut status, accounts, .. } = leaving;
        if let Some(accounts) = accounts {
            let late = accounts.after_end();
            status.link.add(&late);
            self.gone_links.add(&late);
        }
        self.event_queue.push(FaceEvent::Destroyed(status));
    }
}

impl Leaving {
    /// Adds what a worker has counted on the face.
    pub fn count(&mut self, counters: &byname_forward::face_table::FaceCounters) {
        self.status.counters.add(counters);
        self.workers -= 1;
    }
}
