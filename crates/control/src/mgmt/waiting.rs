//! Commands and announcements whose signers' certificates are being fetched, and certificates that this router serves.
//!
//! A command waits until its signer's chain is known, and is answered then. The validator bounds how many wait, and for
//! how long. Its Interests go out by the router's own face. A host can fetch the certificates of this router in the same
//! way: the router answers Interests for those that the configuration lists.

use std::collections::BTreeMap;

use byname_forward::learning::{Notice, Taught};
use byname_forward::{FaceId, Packet};
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::types;
use byname_wire::{Data, Interest};

use super::announcement::Announcement;
use super::{Command, Management, Moment, VERB_END};
use crate::security::{Authorized, Refusal};
use byname_trust::validator::{Counters, Outcome, RequestId, Wanted};

/// What goes on when a chain is known.
enum Parked {
    /// A command of this signer.
    Command { wire: Packet, incoming: FaceId },
    /// The announcement in a command, whose own signer is known already.
    Announce { wire: Packet, signer: Box<Authorized>, incoming: FaceId },
    /// An announcement that came with Data.
    Notice(Box<Notice>),
}

/// Everything that waits for certificates.
#[derive(Default)]
pub(super) struct Waiting {
    parked: BTreeMap<RequestId, Parked>,
    /// Number of commands that had to wait so far.
    count: u64,
}

impl Waiting {
    /// Number of commands that had to wait so far.
    pub(super) fn parked(&self) -> u64 {
        self.count
    }

    pub(super) fn park_command(&mut self, id: RequestId, interest: &Interest<'_>, incoming: FaceId) {
        self.count += 1;
        self.parked.insert(id, Parked::Command { wire: Packet::copy_from(interest.wire), incoming });
    }

    pub(super) fn park_announce(
        &mut self,
        id: RequestId,
        interest: &Interest<'_>,
        signer: Authorized,
        incoming: FaceId,
    ) {
        self.count += 1;
        let (wire, signer) = (Packet::copy_from(interest.wire), Box::new(signer));
        self.parked.insert(id, Parked::Announce { wire, signer, incoming });
    }

    pub(super) fn park_notice(&mut self, id: RequestId, notice: &Notice) {
        let announcement = notice.announcement.as_deref().map(Packet::copy_from);
        let copy = Notice { taught: Taught::Announced, name: notice.name.clone(), face: notice.face, announcement };
        self.parked.insert(id, Parked::Notice(Box::new(copy)));
    }
}

/// A refusal in words, with the reason why a chain leads to no anchor.
pub(super) fn words(refusal: Refusal, chain: Option<&Outcome>) -> String {
    match chain {
        Some(Err(rejection)) if refusal == Refusal::UntrustedChain => format!("{refusal}: {rejection}"),
        _ => refusal.to_string(),
    }
}

impl Management {
    /// The Interests for certificates that are due, each with the face to send it to, if it must not go by routes.
    pub fn certificate_interests(&mut self, now: Moment) -> Vec<(Option<FaceId>, Vec<u8>)> {
        let wanted = self.authorizer.validator_mut().poll(now);
        let interest = |wanted: Wanted| {
            let nonce = rand_nonce();
            let interest = InterestBuilder::new(wanted.name, nonce)
                .can_be_prefix(true)
                .must_be_fresh(true)
                .lifetime_ms(wanted.lifetime_ms)
                .forwarding_hint(wanted.forwarding_hint);
            (wanted.face.map(FaceId), interest.encode())
        };
        wanted.into_iter().map(interest).collect()
    }

    /// Takes a packet that may be a certificate, or a Nack for an Interest for one. Returns whether it is.
    pub fn certificate_news(&mut self, packet: &[u8], now: Moment) -> bool {
        if packet.first() == Some(&(types::INTEREST as u8)) {
            let interest = Interest::decode(packet);
            return interest.is_ok_and(|interest| self.authorizer.validator_mut().on_nack(interest.name, now));
        }
        let is_wanted = Data::decode(packet).is_ok_and(|data| self.authorizer.validator_mut().on_data(&data, now));
        for name in self.authorizer.validator_mut().take_poisoned() {
            tracing::debug!(%name, "a certificate is wrong, and leaves the content store");
            self.forwarder.cs_erase(name, 1);
        }
        is_wanted
    }

    /// Goes on with what waited for certificates, and yields its answers.
    pub fn go_on(&mut self, now: Moment) -> Vec<Option<Packet>> {
        let mut answers = Vec::new();
        for (id, outcome) in self.authorizer.validator_mut().take_done() {
            if let Err(rejection) = &outcome {
                tracing::debug!(%rejection, "a chain of certificates leads to no anchor");
            }
            match self.waiting.parked.remove(&id) {
                Some(Parked::Command { wire, incoming }) => {
                    answers.push(self.command_goes_on(&wire, incoming, outcome, now))
                }
                Some(Parked::Announce { wire, signer, incoming }) => {
                    answers.push(self.announce_goes_on(&wire, &signer, incoming, outcome, now));
                }
                Some(Parked::Notice(notice)) => self.learn(&notice, Some(outcome), now),
                None => {}
            }
        }
        answers
    }

    fn command_goes_on(&mut self, wire: &[u8], incoming: FaceId, chain: Outcome, now: Moment) -> Option<Packet> {
        let interest = Interest::decode(wire).ok()?;
        let mut components = interest.name.components().skip(VERB_END - 2);
        let (module, verb) = (components.next()?.value, components.next()?.value);
        let command = Command::from_names(module, verb)?;
        self.answer_with_chain(&interest, command, incoming, Some(chain), now)
    }

    fn announce_goes_on(
        &mut self,
        wire: &[u8],
        signer: &Authorized,
        incoming: FaceId,
        chain: Outcome,
        now: Moment,
    ) -> Option<Packet> {
        let interest = Interest::decode(wire).ok()?;
        let announcement = Announcement::in_parameters(interest.application_parameters.unwrap_or_default()).ok()?;
        let entry = self.entry(&interest, Command::RibAnnounce, incoming, Some(signer), now);
        let response = self.announce_with_chain(&interest, &announcement, signer, incoming, Some(chain), now);
        self.audit(entry, &response);
        self.respond_to_command(interest.name, &response)
    }

    /// The validator's counters, the packets that wait, and the certificates that it keeps.
    pub(super) fn trust_counters(&self) -> (Counters, u64, u64) {
        let validator = self.authorizer.validator();
        (validator.counters(), validator.waiting() as u64, validator.cached() as u64)
    }

    /// Makes Interests for the certificates that this router serves come to management.
    pub(super) fn serve_certificates(&mut self) {
        let keys: Vec<_> = self.authorizer.served().iter().map(|served| served.key_name.clone()).collect();
        for key in keys {
            if self.rib.own_prefix_of(key.as_ref()).is_none()
                && let Err(error) = self.rib.keep_own(&mut self.fib, key.clone())
            {
                tracing::error!(%key, %error, "the certificate of this key is not served");
            }
        }
    }

    /// The certificate that an Interest asks for, if this router serves it: the latest version.
    pub(super) fn answer_with_certificate(&self, interest: &Interest<'_>) -> Option<Packet> {
        let is_asked_for = |name: byname_wire::NameRef<'_>| {
            interest.name == name || interest.can_be_prefix && interest.name.is_prefix_of(&name)
        };
        let served = self.authorizer.served().iter().filter(|served| is_asked_for(served.name.as_ref()));
        served.max_by(|a, b| a.name.cmp(&b.name)).map(|served| Packet::copy_from(&served.packet))
    }
}

/// A number that no other Interest has lately.
fn rand_nonce() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}
