//! Groups, descriptors, addresses and messages, for the blocking client.

use std::time::Duration;

use byname_mgmt::tags::decode_locators;
use byname_trust::SignerError;
use byname_wire::tagnet::Address;
use byname_wire::{Descriptor, Name};

use super::Client;
use crate::clock::Now;
use crate::failure::SendError;
use crate::link::ConnectionLost;
use crate::management::ManagementError;
use crate::outbox::Outbox;
use crate::session::{CommandId, Event, GroupId, Session};
use crate::sync::{Group, SyncOptions, Update};
use crate::tags::{FanOutLimit, Message};

impl Client {
    /// Becomes a member of a group, as `node`. Routers must send the group's Interests to all members, by the strategy
    /// multicast.
    pub fn join(&mut self, group: &Name, node: &Name, options: SyncOptions) -> GroupId {
        self.with(|session, now, outbox| session.join(group.clone(), node.clone(), options, now, outbox))
    }

    /// Leaves a group.
    pub fn leave(&mut self, id: GroupId) {
        self.with(|session, now, outbox| session.leave(id, now, outbox));
    }

    /// Tells a group of a new publication. Returns its number. `None`: there is no such group.
    pub fn publish_in(&mut self, id: GroupId) -> Option<u64> {
        self.with(|session, now, outbox| session.publish_in(id, now, outbox))
    }

    /// A group's state. `None`: there is no such group.
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.session.group(id)
    }

    /// What members of a group have published. Waits for it at most `wait`.
    ///
    /// # Errors
    /// The connection is gone, and the client was told not to connect again.
    pub fn updates(&mut self, id: GroupId, wait: Duration) -> Result<Vec<Update>, ConnectionLost> {
        let updates = self.collect(wait, |event| match event {
            Event::Updates { group, updates } if group == id => Ok(updates),
            other => Err(other),
        })?;
        Ok(updates.into_iter().flatten().collect())
    }

    /// Advertises descriptors, until they are withdrawn. After a lost connection they are advertised again.
    ///
    /// # Errors
    /// The router refuses. It may have accepted some descriptors before.
    pub fn advertise(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command_about("tags/advertise", |session, now, outbox| session.advertise(descriptors, now, outbox))
    }

    /// Withdraws descriptors.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn withdraw(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command_about("tags/withdraw", |session, now, outbox| session.withdraw(descriptors, now, outbox))
    }

    /// Returns this application's addresses, one on each of the router's trees. They end with the connection.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn addresses(&mut self) -> Result<Vec<Address>, ManagementError> {
        let command = "tags/locators".to_owned();
        let begun = self.with(|session, now, outbox| session.ask_addresses(now, outbox));
        let id = begun.map_err(|error| ManagementError::Unsigned { command: command.clone(), error })?;
        let response = self.response(id, &command)?;
        if response.code != 200 {
            let (code, text) = (response.code, response.text);
            return Err(ManagementError::Refused { command, code, text, body: None });
        }
        decode_locators(&response.body).map_err(|error| ManagementError::Malformed { command, error })
    }

    /// Sends to the applications that advertised a subset of `descriptor`, on the tree of `source`. Answers go to
    /// `source`.
    ///
    /// # Errors
    /// The packet is too large, or the connection is gone, and the client was told not to connect again.
    pub fn send_to_tags(
        &mut self,
        descriptor: &Descriptor,
        limit: FanOutLimit,
        source: Address,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.with(|session, _, outbox| session.send_to_tags(descriptor, limit, source, payload, outbox))?;
        Ok(self.flush()?)
    }

    /// Sends to one application.
    ///
    /// # Errors
    /// The packet is too large, or the connection is gone, and the client was told not to connect again.
    pub fn send_to(&mut self, destination: Address, source: Address, payload: &[u8]) -> Result<(), SendError> {
        self.with(|session, _, outbox| session.send_to(destination, source, payload, outbox))?;
        Ok(self.flush()?)
    }

    /// The messages that have arrived. Waits for one at most `wait`.
    ///
    /// # Errors
    /// The connection is gone, and the client was told not to connect again.
    pub fn messages(&mut self, wait: Duration) -> Result<Vec<Message>, ConnectionLost> {
        self.collect(wait, |event| match event {
            Event::Message(message) => Ok(message),
            other => Err(other),
        })
    }

    /// Sends what waits.
    fn flush(&mut self) -> Result<(), ConnectionLost> {
        match &mut self.link {
            Some(link) => link.flush().or_else(|lost| self.on_lost(lost)),
            None => Ok(()),
        }
    }

    /// The events that `claim` takes. Waits for one at most `wait`.
    fn collect<T>(
        &mut self,
        wait: Duration,
        mut claim: impl FnMut(Event) -> Result<T, Event>,
    ) -> Result<Vec<T>, ConnectionLost> {
        let end = self.clock.now().elapsed.saturating_add(wait);
        let mut claimed = Vec::new();
        loop {
            for _ in 0..self.unclaimed.len() {
                let Some(event) = self.unclaimed.pop_front() else { break };
                match claim(event) {
                    Ok(one) => claimed.push(one),
                    Err(event) => self.unclaimed.push_back(event),
                }
            }
            let left = end.saturating_sub(self.clock.now().elapsed);
            if !claimed.is_empty() || left.is_zero() || self.interrupted() {
                return Ok(claimed);
            }
            self.step(left)?;
        }
    }

    /// Waits for the answers to commands about descriptors.
    fn command_about(
        &mut self,
        command: &str,
        begin: impl FnOnce(&mut Session, Now, &mut Outbox) -> Result<Vec<CommandId>, SignerError>,
    ) -> Result<(), ManagementError> {
        let begun = self.with(begin);
        let ids = begun.map_err(|error| ManagementError::Unsigned { command: command.to_owned(), error })?;
        let mut outcome = Ok(());
        for id in ids {
            let response = self.response(id, command);
            let answered = response.and_then(|response| match response.code {
                200 => Ok(()),
                code => {
                    let (command, text) = (command.to_owned(), response.text);
                    Err(ManagementError::Refused { command, code, text, body: None })
                }
            });
            outcome = outcome.and(answered);
        }
        outcome
    }
}
