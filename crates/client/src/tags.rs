//! The API of a TagNet application [TagNet §2.1]: advertise descriptors, obtain addresses, and send by descriptor or by
//! locator.
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
//! The network may lose packets, as with datagrams: an application that wants an answer must repeat its request.
//! Messages that arrive during [`Application::advertise`] and the other commands are dropped.

use std::io;
use std::num::NonZeroU16;
use std::time::Duration;

use byname_mgmt::tags::{DescriptorList, decode_locators};
use byname_wire::Descriptor;
use byname_wire::tagnet::{Address, LocatorPacket, LocatorPacketBuilder, TagPacket, TagPacketBuilder};

use crate::link::Link;
use crate::management::{ManagementError, command_with};
use crate::outbox::Fields;

/// Number of applications that a packet may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanOutLimit {
    /// One: the application with the largest matching subset.
    One,
    /// All applications that advertise a subset.
    All,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Destination of an answer.
    pub source: Option<Address>,
    /// Content of the packet.
    pub payload: Vec<u8>,
    /// Whether the packet was addressed by tags, and not by locator.
    pub by_tags: bool,
}

/// An application with addresses from a router.
pub struct Application {
    client: Link,
}

impl Application {
    /// Creates an application that has advertised nothing.
    pub fn new(client: Link) -> Self {
        Application { client }
    }

    /// Advertises descriptors, until they are withdrawn or the connection ends.
    ///
    /// # Errors
    /// The router refuses. It may have accepted some descriptors before.
    pub fn advertise(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command("advertise", descriptors)
    }

    /// Withdraws descriptors.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn withdraw(&mut self, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        self.command("withdraw", descriptors)
    }

    /// Returns this application's addresses, one on each of the router's trees.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub fn addresses(&mut self) -> Result<Vec<Address>, ManagementError> {
        let body = command_with(&mut self.client, "tags", "locators", &[])?;
        decode_locators(&body)
            .map_err(|error| ManagementError::Malformed { command: "tags/locators".to_owned(), error })
    }

    /// Sends to the applications that advertised a subset of `descriptor`, on the tree of `source`. Answers go to
    /// `source`.
    ///
    /// # Errors
    /// The connection has ended.
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
    /// The connection has ended.
    pub fn send_to(&mut self, destination: Address, source: Address, payload: &[u8]) -> io::Result<()> {
        self.send(&LocatorPacketBuilder::new(destination).source(source).payload(payload).encode())
    }

    /// Returns the messages that arrive within `wait`. Returns early when some have arrived.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn receive(&mut self, wait: Duration) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        self.client.receive(wait, |incoming, _| {
            let message = |source, payload: &[u8], by_tags| Message { source, payload: payload.to_vec(), by_tags };
            if let Ok(packet) = LocatorPacket::decode(incoming.packet) {
                messages.push(message(packet.source, packet.payload, false));
            } else if let Ok(packet) = TagPacket::decode(incoming.packet) {
                messages.push(message(packet.source, packet.payload, true));
            }
        })?;
        Ok(messages)
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.client.outbox().push(packet, Fields::default());
        Ok(self.client.flush()?)
    }

    /// Sends a command about descriptors, in as many parts as necessary.
    fn command(&mut self, verb: &str, descriptors: &[Descriptor]) -> Result<(), ManagementError> {
        let mut list = DescriptorList::default();
        for descriptor in descriptors {
            if !list.push(descriptor) {
                command_with(&mut self.client, "tags", verb, list.bytes())?;
                list = DescriptorList::default();
                list.push(descriptor);
            }
        }
        command_with(&mut self.client, "tags", verb, list.bytes()).map(drop)
    }
}
