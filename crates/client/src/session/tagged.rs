//! Descriptors, addresses and messages [TagNet §2.1], and groups that synchronize.

use byname_mgmt::ControlResponse;
use byname_mgmt::tags::DescriptorList;
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::tagnet::Address;
use byname_wire::{Data, Descriptor, Interest, Name};

use super::{CommandId, Event, GroupId, Now, Outbox, Session, SignerError};
use crate::management::{ManagementError, RegisterOptions};
use crate::outbox::{Fields, PacketTooLarge};
use crate::sync::{Group, StateVector, SyncOptions};
use crate::tags::FanOutLimit;
use crate::verify::Verdict;

impl Session {
    /// Advertises descriptors at every router, until they are withdrawn. For each of the commands that this takes there
    /// is an [`Event::Commanded`].
    ///
    /// # Errors
    /// The session's key cannot sign.
    pub fn advertise(
        &mut self,
        descriptors: &[Descriptor],
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<Vec<CommandId>, SignerError> {
        for descriptor in descriptors {
            if !self.advertised.contains(descriptor) {
                self.advertised.push(descriptor.clone());
            }
        }
        self.command_about("advertise", descriptors, now, outbox)
    }

    /// Withdraws descriptors.
    ///
    /// # Errors
    /// The session's key cannot sign.
    pub fn withdraw(
        &mut self,
        descriptors: &[Descriptor],
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<Vec<CommandId>, SignerError> {
        self.advertised.retain(|advertised| !descriptors.contains(advertised));
        self.command_about("withdraw", descriptors, now, outbox)
    }

    /// Asks for this application's addresses, one on each of the router's trees. The body of the answer is read by
    /// [`byname_mgmt::tags::decode_locators`]. Addresses end with the connection.
    ///
    /// # Errors
    /// The session's key cannot sign.
    pub fn ask_addresses(&mut self, now: Now, outbox: &mut Outbox) -> Result<CommandId, SignerError> {
        self.has_addresses = true;
        self.command("tags", "locators", &[], now, outbox)
    }

    /// Sends to the applications that advertised a subset of `descriptor`, on the tree of `source`. Answers go to
    /// `source`. Without a connection, the message is lost.
    ///
    /// # Errors
    /// The packet is too large.
    pub fn send_to_tags(
        &mut self,
        descriptor: &Descriptor,
        limit: FanOutLimit,
        source: Address,
        payload: &[u8],
        outbox: &mut Outbox,
    ) -> Result<(), PacketTooLarge> {
        self.send(&limit.packet(descriptor, source, payload), outbox)
    }

    /// Sends to one application. Without a connection, the message is lost.
    ///
    /// # Errors
    /// The packet is too large.
    pub fn send_to(
        &mut self,
        destination: Address,
        source: Address,
        payload: &[u8],
        outbox: &mut Outbox,
    ) -> Result<(), PacketTooLarge> {
        let packet = byname_wire::tagnet::LocatorPacketBuilder::new(destination).source(source).payload(payload);
        self.send(&packet.encode(), outbox)
    }

    /// Becomes a member of a group, as `node`. What others publish comes as [`Event::Updates`].
    pub fn join(&mut self, group: Name, node: Name, options: SyncOptions, now: Now, outbox: &mut Outbox) -> GroupId {
        let id = GroupId(self.new_id());
        let group = Group::new(group, node, options, now);
        self.produce(group.prefix.clone(), RegisterOptions::default(), now, outbox);
        self.groups.insert(id, group);
        id
    }

    /// Leaves a group.
    pub fn leave(&mut self, id: GroupId, now: Now, outbox: &mut Outbox) {
        let Some(group) = self.groups.remove(&id) else { return };
        group.checks.into_iter().for_each(|(check, _)| self.checker.forget(check));
        if !self.groups.values().any(|other| other.prefix == group.prefix) {
            self.withdraw_prefix(&group.prefix, now, outbox);
        }
    }

    /// Tells a group of a new publication of this member. Returns its sequence number. `None`: there is no such group.
    pub fn publish_in(&mut self, id: GroupId, now: Now, outbox: &mut Outbox) -> Option<u64> {
        let sequence = self.groups.get_mut(&id)?.sync.publish(now.elapsed);
        if self.peer.is_some() {
            self.poll_groups(now, outbox);
        }
        Some(sequence)
    }

    /// A group's state. `None`: there is no such group.
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    fn send(&mut self, packet: &[u8], outbox: &mut Outbox) -> Result<(), PacketTooLarge> {
        PacketTooLarge::check(packet)?;
        if self.peer.is_some() {
            outbox.push(packet, Fields::default());
        }
        Ok(())
    }

    /// Sends a command about descriptors, in as many parts as necessary.
    fn command_about(
        &mut self,
        verb: &str,
        descriptors: &[Descriptor],
        now: Now,
        outbox: &mut Outbox,
    ) -> Result<Vec<CommandId>, SignerError> {
        let lists = DescriptorList::split(descriptors);
        lists.iter().map(|list| self.command("tags", verb, list.bytes(), now, outbox)).collect()
    }

    /// Tells a new router what the earlier one knew.
    pub(super) fn advertise_again(&mut self, now: Now, outbox: &mut Outbox) {
        let advertised = self.advertised.clone();
        // What cannot be signed now could not be signed before.
        if !advertised.is_empty() {
            let _ = self.command_about("advertise", &advertised, now, outbox);
        }
        if self.has_addresses {
            let _ = self.command("tags", "locators", &[], now, outbox);
        }
        self.repeat_at = self.next_refresh(now);
    }

    /// Repeats over datagrams what the router should know. Nobody waits for the answers.
    pub(super) fn repeat_descriptors(&mut self, now: Now, outbox: &mut Outbox) {
        if self.repeat_at.is_none_or(|at| at > now.elapsed) {
            return;
        }
        for list in DescriptorList::split(&self.advertised) {
            let _ = self.send_command(None, ("tags", "advertise"), list.bytes(), now, outbox);
        }
        if self.has_addresses {
            let _ = self.send_command(None, ("tags", "locators"), &[], now, outbox);
        }
        self.repeat_at = self.next_refresh(now);
    }

    pub(super) fn on_commanded(&mut self, id: CommandId, result: Result<ControlResponse, ManagementError>) {
        self.events.push_back(Event::Commanded { id, result });
    }

    /// Takes the state of another member. Returns whether the Interest belongs to a group.
    pub(super) fn on_sync_interest(&mut self, interest: &Interest<'_>, now: Now) -> bool {
        let mut is_sync = false;
        for (id, group) in &mut self.groups {
            if !group.prefix.as_ref().is_prefix_of(&interest.name) {
                continue;
            }
            is_sync = true;
            let data = interest.application_parameters.map(Data::decode);
            let Some(Ok(data)) = data.filter(|_| interest.parameters_digest_matches()) else { continue };
            match self.checker.check(&data, now.moment()) {
                Verdict::Known(Ok(())) => self.events.extend(updates(*id, group, &data, now)),
                Verdict::Known(Err(_)) => group.rejected += 1,
                Verdict::Waiting(check) => {
                    if let Some(oldest) = group.hold(check, data.wire.to_vec()) {
                        self.checker.forget(oldest);
                    }
                }
            }
        }
        is_sync
    }

    /// Goes on with states that have waited for certificates.
    pub(super) fn check_groups_again(&mut self, now: Now) {
        for (id, group) in &mut self.groups {
            for (check, packet) in std::mem::take(&mut group.checks) {
                match self.checker.take(check) {
                    None => group.checks.push_back((check, packet)),
                    Some(Err(_)) => group.rejected += 1,
                    Some(Ok(())) => {
                        if let Ok(data) = Data::decode(&packet) {
                            self.events.extend(updates(*id, group, &data, now));
                        }
                    }
                }
            }
        }
    }

    /// Sends the states of groups that are due.
    pub(super) fn poll_groups(&mut self, now: Now, outbox: &mut Outbox) {
        let due: Vec<(Name, Vec<u8>)> = self
            .groups
            .values_mut()
            .filter_map(|group| {
                group.sync.poll(now.elapsed).then(|| (group.prefix.clone(), group.sync.state().encode()))
            })
            .collect();
        for (prefix, content) in due {
            let unix_us = u64::try_from(now.unix.as_micros()).unwrap_or(u64::MAX);
            let name = prefix.as_ref().prefix(prefix.as_ref().len() - 1).to_name();
            let name = name.join_number(component_type::VERSION, unix_us);
            // A key that cannot sign fails at the application's own packets, too.
            let Ok(data) = self.signer.sign_data(&DataBuilder::new(name).content(content)) else { continue };
            let interest = crate::interest(&prefix).lifetime_ms(SYNC_LIFETIME_MS).application_parameters(data);
            outbox.push(&interest.encode(), Fields::default());
        }
    }
}

/// Lifetime of sync Interests, which nobody answers.
const SYNC_LIFETIME_MS: u64 = 1000;

/// What is new in the state of another member.
fn updates(id: GroupId, group: &mut Group, data: &Data<'_>, now: Now) -> Option<Event> {
    let Ok(vector) = StateVector::decode(data.content) else {
        group.rejected += 1;
        return None;
    };
    let updates = group.sync.on_vector(&vector, now);
    (!updates.is_empty()).then_some(Event::Updates { group: id, updates })
}
