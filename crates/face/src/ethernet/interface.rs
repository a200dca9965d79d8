//! Interfaces by name.

use std::io::{self, ErrorKind};

use nix::net::if_::InterfaceFlags;

use super::config::OpenError;
use super::ring::{PacketSocket, RingConfig};
use crate::mac_address::MacAddress;

/// An interface as the system knows it.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number, which no other device gets after it.
    pub index: u32,
    /// Its address.
    pub address: MacAddress,
    /// Whether it was switched on.
    pub up: bool,
    /// Whether there is somebody at the other end, as far as the device can tell.
    pub carrier: bool,
}

/// What is to be found under a name.
pub enum Found {
    /// An Ethernet, or what looks like one.
    Ethernet(Interface),
    /// An interface without MAC addresses.
    Other,
    /// None.
    Nothing,
}

impl Interface {
    /// Looks for the interface of this name.
    pub fn find(name: &str) -> io::Result<Found> {
        let mut found = Found::Nothing;
        for entry in nix::ifaddrs::getifaddrs()?.filter(|entry| entry.interface_name == name) {
            found = Found::Other;
            let Some(link) = entry.address.as_ref().and_then(|a| a.as_link_addr()) else { continue };
            let (Some(octets), Ok(index)) = (link.addr(), u32::try_from(link.ifindex())) else { continue };
            if link.hatype() == libc::ARPHRD_ETHER && link.halen() == octets.len() {
                return Ok(Found::Ethernet(Interface {
                    name: name.to_owned(),
                    index,
                    address: MacAddress(octets),
                    up: entry.flags.contains(InterfaceFlags::IFF_UP),
                    carrier: entry.flags.contains(InterfaceFlags::IFF_RUNNING),
                }));
            }
        }
        Ok(found)
    }

    /// Opens a socket on the Ethernet interface of this name, up or down: to learn now whether this
    /// process may.
    ///
    /// # Errors
    /// There is no such interface, or the process may not use it.
    pub fn open(name: &str, ring: &RingConfig) -> Result<(Interface, PacketSocket), OpenError> {
        let system = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => OpenError::NotPermitted(name.to_owned()),
            _ => OpenError::System { interface: name.to_owned(), error },
        };
        let found = match Interface::find(name).map_err(system)? {
            Found::Ethernet(found) => found,
            Found::Other => return Err(OpenError::NotEthernet(name.to_owned())),
            Found::Nothing => return Err(OpenError::NoInterface(name.to_owned())),
        };
        let socket = PacketSocket::open(&found, ring).map_err(system)?;
        Ok((found, socket))
    }
}
