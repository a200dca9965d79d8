//! Faces that are lent to other threads, and faces of other threads that are borrowed: see [`crate::lent`].

use std::sync::Arc;

use byname_forward::{FaceId, Outgoing, Received, Ticks};

use super::{PeerFace, Peers, Transport};
use crate::face::LinkCounters;
use crate::lent::{Accounts, Counted};
use crate::link::{LinkConfig, LinkService};

/// What a face has to do with other threads.
#[derive(Default)]
pub(super) enum Share {
    /// Nothing.
    #[default]
    Alone,
    /// Other threads may send on it.
    Lent(Arc<Accounts>),
    /// It is another thread's.
    Borrowed(Loan),
}

/// A borrowed face.
pub(super) struct Loan {
    accounts: Arc<Accounts>,
    /// Number of this thread.
    thread: usize,
    /// What this thread had counted on the face in earlier loans.
    before: Counted,
}

impl<T: Transport> PeerFace<T> {
    /// Whether it is another thread's.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self.share, Share::Borrowed(_))
    }

    /// Whether a borrowed face can send this packet without its owner.
    #[inline]
    pub(crate) fn needs_no_owner(&self, outgoing: &Outgoing) -> bool {
        match &self.share {
            Share::Borrowed(loan) => !loan.accounts.has_ended() && self.link.sends_whole(outgoing),
            Share::Alone | Share::Lent(_) => true,
        }
    }

    /// Receives Data or a Nack on a borrowed face. Returns false, and does nothing, if only the owner can receive the
    /// frame.
    pub(crate) fn receive_answer(&mut self, now: Ticks, id: FaceId, frame: &[u8], out: &mut Vec<Received>) -> bool {
        let Share::Borrowed(loan) = &self.share else { return false };
        let is_received = !loan.accounts.has_ended() && self.link.receive_answer(id, frame, out);
        if is_received {
            self.heard = now;
        }
        is_received
    }

    /// When the peer was last heard, on any thread.
    pub(super) fn last_heard(&self) -> Ticks {
        match &self.share {
            Share::Lent(accounts) => self.heard.max(accounts.heard()),
            Share::Alone | Share::Borrowed(_) => self.heard,
        }
    }

    /// Tells the owner of a borrowed face what was counted here.
    pub(crate) fn settle_account(&self) {
        if let Share::Borrowed(Loan { accounts, thread, before }) = &self.share {
            let LinkCounters { in_bytes, out_bytes, out_drops, congestion_marks, .. } = self.link.counters;
            let answers = self.link.conversation.answered();
            let counted = Counted { in_bytes, out_bytes, out_drops, congestion_marks, answers };
            accounts.write(*thread, before.plus(counted), self.heard);
        }
    }

    /// Counters of this face on all threads.
    pub(crate) fn link_counters(&self) -> LinkCounters {
        let mut counters = self.link.counters;
        if let Share::Lent(accounts) = &self.share {
            counters.add(&accounts.counters());
        }
        counters
    }

    /// Answers that other threads have sent to the peer.
    pub(super) fn answers_elsewhere(&self) -> u64 {
        match &self.share {
            Share::Lent(accounts) => accounts.answers(),
            Share::Alone | Share::Borrowed(_) => 0,
        }
    }

    /// Takes note of answers by other threads, if that may matter for the run of packets that begins.
    pub(super) fn hear_of_answers(&mut self, now: Ticks) {
        if let Share::Lent(accounts) = &self.share
            && self.link.conversation.may_change(now)
        {
            self.link.conversation.note_answers_elsewhere(accounts.answers());
        }
    }

    /// The face ends.
    pub(super) fn end(&self) {
        if let Share::Lent(accounts) = &self.share {
            accounts.end();
        }
    }
}

impl<T: Transport> Peers<T> {
    /// Lends a face to the other ones of `threads` threads. Returns the peer, the settings of the link service, and the
    /// accounts of these threads. `None` if the link service must know of each packet.
    pub(crate) fn lend(&mut self, id: FaceId, threads: usize) -> Option<(&T, &LinkConfig, Arc<Accounts>)> {
        let face = self.faces.get_mut(&id)?;
        let flags = face.link.config().flags;
        if flags.reliability || flags.local_fields {
            return None;
        }
        let accounts = match &face.share {
            Share::Lent(accounts) => Arc::clone(accounts),
            Share::Alone | Share::Borrowed(_) => Arc::new(Accounts::new(threads)),
        };
        face.share = Share::Lent(Arc::clone(&accounts));
        Some((&face.transport, face.link.config(), accounts))
    }

    /// Borrows a face from another thread, or learns of its new settings. `thread` is the number of this one.
    pub(crate) fn borrow(
        &mut self,
        id: FaceId,
        config: LinkConfig,
        accounts: &Arc<Accounts>,
        thread: usize,
        transport: impl FnOnce() -> T,
    ) {
        if let Some(face) = self.borrowed.get_mut(&id) {
            return face.link.set_config(config);
        }
        let link = LinkService::new(config, self.budget.clone());
        let mut face = PeerFace::new(transport(), super::Persistency::Persistent, link, accounts.heard());
        let (accounts, before) = (Arc::clone(accounts), accounts.of(thread));
        face.share = Share::Borrowed(Loan { accounts, thread, before });
        self.borrowed_by_address.insert(face.transport.address(), id);
        self.borrowed.insert(id, face);
    }

    /// Gives a borrowed face back, with all that waits to be sent there.
    pub(crate) fn give_back(&mut self, id: FaceId) -> Option<PeerFace<T>> {
        let face = self.borrowed.remove(&id)?;
        // The peer may have another face by now.
        if self.find_borrowed(&face.transport.address()) == Some(id) {
            self.borrowed_by_address.remove(&face.transport.address());
        }
        Some(face)
    }

    /// The borrowed face of a peer.
    pub(crate) fn find_borrowed(&self, address: &T::Address) -> Option<FaceId> {
        self.borrowed_by_address.get(address).copied()
    }
}
