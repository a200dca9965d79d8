//! What arrives: Interests, Data, Nacks and messages of tags.

use byname_wire::tagnet::is_tagnet;
use byname_wire::tlv::types;
use byname_wire::{Data, Interest, NackReason};

use super::{Event, Request, Session};
use crate::clock::Now;
use crate::link::{DataPacket, ExchangeError};
use crate::outbox::{Fields, Outbox};
use crate::reassembly::Incoming;
use crate::tags::Message;
use crate::verify::Verdict;

impl Session {
    /// Takes a packet that has arrived. Malformed ones are ignored.
    pub fn on_packet(&mut self, incoming: &Incoming<'_>, now: Now, outbox: &mut Outbox) {
        self.has_heard = true;
        if is_tagnet(incoming.packet) {
            self.events.extend(Message::decode(incoming.packet).map(Event::Message));
        } else if let Some(reason) = incoming.nack {
            if let Ok(interest) = Interest::decode(incoming.packet) {
                self.on_nack(&interest, reason, now, outbox);
            }
        } else if incoming.packet.first() == Some(&(types::INTEREST as u8)) {
            if let Ok(interest) = Interest::decode(incoming.packet) {
                self.on_interest(&interest, incoming, now);
            }
        } else if let Ok(data) = Data::decode(incoming.packet) {
            self.on_data(&data, incoming.congestion_mark > 0, now, outbox);
        }
    }

    fn on_interest(&mut self, interest: &Interest<'_>, incoming: &Incoming<'_>, now: Now) {
        if self.on_sync_interest(interest, now) {
            return;
        }
        if let Some(prefix) = self.producers.prefix_of(interest.name) {
            let fields = Fields { pit_token: incoming.pit_token, congestion_mark: incoming.congestion_mark };
            self.events.push_back(Event::Request(Request { prefix, packet: incoming.packet.to_vec(), fields }));
        }
    }

    fn on_data(&mut self, data: &Data<'_>, is_marked: bool, now: Now, outbox: &mut Outbox) {
        self.checker.on_data(data, now.moment());
        // The router sends Data once, although a transfer and an Interest may both want it.
        self.transfers.values_mut().for_each(|transfer| transfer.on_data(data, is_marked, now.elapsed));
        for id in self.interests.answered_by(data) {
            // The digest of a command's answer is all that a router signs with. It comes over the router's socket.
            let is_own = self.interests.is_to_router(id);
            let verdict = if is_own { Verdict::Known(Ok(())) } else { self.checker.check(data, now.moment()) };
            match verdict {
                Verdict::Known(outcome) => {
                    if let Some(pending) = self.interests.remove(id) {
                        let name = data.name.to_name();
                        let result = outcome.map(|()| DataPacket::copy(data));
                        let result = result.map_err(|doubt| ExchangeError::Untrusted { name, doubt });
                        self.finish(id, pending.purpose, result, now, outbox);
                    }
                }
                Verdict::Waiting(check) => self.interests.hold(id, DataPacket::copy(data), check),
            }
        }
        self.check_again(now, outbox);
    }

    fn on_nack(&mut self, interest: &Interest<'_>, reason: NackReason, now: Now, outbox: &mut Outbox) {
        // Who has the answer may come back later than this application. The next try is soon enough.
        let may_come = reason == NackReason::NoRoute && now.elapsed < self.settled_at;
        if !may_come {
            self.checker.on_nack(interest.name, now.moment());
        }
        self.transfers.values_mut().for_each(|transfer| transfer.on_nack(interest.name, reason, now.elapsed));
        for id in self.interests.named(interest.name) {
            if may_come && self.interests.has_tries(id) {
                continue;
            }
            // The network has seen this nonce.
            if reason == NackReason::Duplicate {
                self.sign_again(id, now);
            }
            if reason == NackReason::Duplicate
                && let Some(wire) = self.interests.try_again(id, now.elapsed)
            {
                outbox.push(&wire, Fields::default());
                continue;
            }
            if self.interests.check_of(id).is_none()
                && let Some(pending) = self.interests.remove(id)
            {
                let error = ExchangeError::Nack { name: pending.name, reason };
                self.finish(id, pending.purpose, Err(error), now, outbox);
            }
        }
    }
}
