//! Interfaces by name.

use std::io;

use nix::net::if_::InterfaceFlags;

use super::config::OpenError;
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

    /// The Ethernet interface of this name, up or down.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn ethernet(name: &str) -> Result<Interface, OpenError> {
        match Interface::find(name).map_err(|error| OpenError::of_system(name, error))? {
            Found::Ethernet(found) => Ok(found),
            Found::Other => Err(OpenError::NotEthernet(name.to_owned())),
            Found::Nothing => Err(OpenError::NoInterface(name.to_owned())),
        }
    }
}
