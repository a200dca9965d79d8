//! An application's side of TagNet [TagNet §2.1]: advertise descriptors, obtain one's addresses, and
//! send by descriptor or by locator.
//!
//! ```ignore
//! let mut player = Application::new(client);
//! let here = player.addresses()?[0];
//! let song = Descriptor::of(["classical", "Beethoven", "ninth", "concert", "360bps"])?;
//! player.send_to_tags(&song, FanOutLimit::One, here, b"first")?;
//! for message in player.receive(Duration::from_secs(1))? {
//!     // Whoever answered is asked for the rest by locator.
//!     player.send_to(message.source.unwrap(), here, b"more")?;
//! }
//! ```
//!
//! Packets may be lost, as datagrams are: who wants an answer asks again. So is what arrives while
//! [`Application::advertise`] and the like wait for theirs.

use std::io;
use std::num::NonZeroU16;
use std::time::Duration;

use byname_control::tags::message::{DescriptorList, decode_locators};
use byname_wire::Descriptor;
use byname_wire::tagnet::{Address, LocatorPacket, LocatorPacketBuilder, TagPacket, TagPacketBuilder};

use super::management::{ManagementError, command_with};
use super::{Client, Fields};

/// How many applications a packet may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanOutLimit {
    /// One: that of the largest subset.
    One,
    /// All that advertise a subset.
    All,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where an answer goes to.
    pub source: Option<Address>,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// An application that a router gives addresses to.
pub struct Application {
    client: Client,
}

impl Application {
    /// An application that has advertised nothing.
    pub fn new(client: Client) -> Self {
        Application { client }
    }

    /// Advertises descriptors, until they are withdrawn or the connection ends.
    ///
    /// # Errors
    /// If the router refuses, or takes some and then refuses.
    pub fn advertise(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command("advertise", descriptors)
    }

    /// Withdraws descriptors.
    ///
    /// # Errors
    /// If the router does not answer.
    pub fn withdraw(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command("withdraw", descriptors)
    }

    /// This application's addresses, one on each of the router's trees.
    ///
    /// # Errors
    /// If the router does not answer.
    pub fn addresses(&mut self) -> Result<Vec<Address>, ManagementError> {
        let body = command_with(&mut self.client, "tags", "locators", &[])?;
        decode_locators(&body)
            .map_err(|error| ManagementError::Malformed { command: "tags/locators".to_owned(), error })
    }

    /// Sends to whoever advertised a subset of `descriptor`, on the tree of `source`, where answers
    /// go to.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send_to_tags(
        &mut self,
        descriptor: &Descriptor,
        limit: FanOutLimit,
        source: Address,
        payload: &[u8],
    ) -> io::Result<()> {
        let packet = TagPacketBuilder::new(source.locator.tree, descriptor).source(source).payload(payload);
        let packet = match limit {
            FanOutLimit::One => packet.fan_out(NonZeroU16::MIN),
            FanOutLimit::All => packet,
        };
        self.send(&packet.encode())
    }

    /// Sends to one application.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send_to(&mut self, destination: Address, source: Address, payload: &[u8]) -> io::Result<()> {
        self.send(&LocatorPacketBuilder::new(destination).source(source).payload(payload).encode())
    }

    /// What arrives within a time; returns as soon as something does.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn receive(&mut self, wait: Duration) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        self.client.receive(wait, |incoming, _| {
            let message = |source, payload: &[u8]| Message { source, payload: payload.to_vec() };
            if let Ok(packet) = LocatorPacket::decode(incoming.packet) {
                messages.push(message(packet.source, packet.payload));
            } else if let Ok(packet) = TagPacket::decode(incoming.packet) {
                messages.push(message(packet.source, packet.payload));
            }
        })?;
        Ok(messages)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.client.outbox().push(packet, Fields::default());
        self.client.flush()
    }

    /// Sends a command about descriptors, in as many parts as it takes.
    fn command(&mut self, verb: &str, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        let mut list = DescriptorList::default();
        for descriptor in descriptors {
            if !list.push(descriptor) {
                command_with(&mut self.client, "tags", verb, list.octets())?;
                list = DescriptorList::default();
                list.push(descriptor);
            }
        }
        command_with(&mut self.client, "tags", verb, list.octets()).map(drop)
    }
}
