//! What an application produces: prefixes, and answers to Interests.

use std::time::Duration;

use byname_mgmt::Element;
use byname_wire::data::DataBuilder;
use byname_wire::{Component, NackReason, Name};

use super::interests::Purpose;
use super::{Event, Request, Session};
use crate::clock::Now;
use crate::failure::ReplyError;
use crate::management::{ManagementError, RegisterOptions, management_name, registration, scope, signed_by};
use crate::outbox::{Fields, Outbox, PacketTooLarge};
use crate::publish::Publication;
use crate::transport::Peer;

impl Session {
    /// Wants the Interests below a prefix, and registers it at every router. They come as [`Event::Request`]. Returns
    /// false if the prefix is wanted already.
    pub fn produce(&mut self, prefix: Name, options: RegisterOptions, now: Now, outbox: &mut Outbox) -> bool {
        let is_new = self.producers.add(prefix, options, now.elapsed);
        self.register_due(now, outbox);
        is_new
    }

    /// Wants no Interests below this prefix any more. The router is told, and its answer does not matter.
    pub fn withdraw_prefix(&mut self, prefix: &Name, now: Now, outbox: &mut Outbox) {
        let was_registered = self.producers.is_registered(prefix);
        if self.producers.remove(prefix) && was_registered {
            let parameters = registration(prefix, RegisterOptions::default()).encode();
            let name = management_name(scope(self.is_local()), "rib", "unregister");
            let name = name.join(Component::generic(&parameters));
            if let Ok(interest) = signed_by(&self.signer, name, Vec::new(), None, now.unix_ms()) {
                outbox.push(&interest, Fields::default());
            }
        }
    }

    /// Whether a prefix is registered at the router.
    pub fn is_registered(&self, prefix: &Name) -> bool {
        self.peer.is_some() && self.producers.is_registered(prefix)
    }

    /// Answers an Interest with Data, signed by the session's key.
    ///
    /// # Errors
    /// The key cannot sign, or the packet is too large.
    pub fn reply(&mut self, request: &Request, data: &DataBuilder, outbox: &mut Outbox) -> Result<(), ReplyError> {
        let packet = self.signer.sign_data(data)?;
        Ok(self.reply_with(request, &packet, outbox)?)
    }

    /// Answers an Interest with a Data packet that is signed already.
    ///
    /// # Errors
    /// The packet is too large.
    pub fn reply_with(&mut self, request: &Request, packet: &[u8], outbox: &mut Outbox) -> Result<(), PacketTooLarge> {
        PacketTooLarge::check(packet)?;
        if self.peer.is_some() {
            outbox.push(packet, request.fields);
        }
        Ok(())
    }

    /// Answers an Interest with what a publication has for it, if anything.
    ///
    /// # Errors
    /// The object cannot be read or signed, or its segments are too large for a packet.
    pub fn reply_from(
        &mut self,
        request: &Request,
        publication: &mut Publication,
        outbox: &mut Outbox,
    ) -> Result<(), ReplyError> {
        match publication.answer(&request.interest(), &self.signer)? {
            Some(packet) => Ok(self.reply_with(request, packet, outbox)?),
            None => Ok(()),
        }
    }

    /// Refuses an Interest with a Nack.
    pub fn refuse(&mut self, request: &Request, reason: NackReason, outbox: &mut Outbox) {
        if self.peer.is_some() {
            outbox.push_nack(&request.packet, reason, request.fields.pit_token);
        }
    }

    pub(super) fn register_due(&mut self, now: Now, outbox: &mut Outbox) {
        let Some(Peer { is_local, .. }) = self.peer else { return };
        while let Some((prefix, options)) = self.producers.next_due(now.elapsed) {
            let name = management_name(scope(is_local), "rib", "register");
            let name = name.join(Component::generic(&registration(&prefix, options).encode()));
            match signed_by(&self.signer, name, Vec::new(), None, now.unix_ms()) {
                Ok(interest) => {
                    self.ask_for(Purpose::Registration(prefix), interest, 1, now, outbox);
                }
                Err(error) => {
                    self.producers.on_answer(&prefix, false, None, now.elapsed);
                    let error = ManagementError::Unsigned { command: "rib/register".to_owned(), error };
                    self.events.push_back(Event::NotRegistered { prefix, error });
                }
            }
        }
    }

    /// When to repeat what the router has just been told. `None`: this connection ends with the router.
    pub(super) fn next_refresh(&self, now: Now) -> Option<Duration> {
        // A part is random, so that many applications of a router do not repeat all at the same moment.
        let longest = self.refresh.max(Duration::from_secs(1));
        let pause = longest - (longest / 4).mul_f64(rand::random());
        self.peer.filter(|peer| peer.is_datagram).map(|_| now.elapsed.saturating_add(pause))
    }
}
