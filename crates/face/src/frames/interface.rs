//! Finds interfaces by name.

use std::io;

use super::OpenError;
use crate::mac_address::MacAddress;
use crate::netlink;

/// An interface as the system knows it.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Number of the interface. No later device gets the same.
    pub index: u32,
    /// MAC address of the interface.
    pub address: MacAddress,
    /// Longest payload of a frame, in bytes.
    pub mtu: usize,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a link, as far as the device can tell.
    pub carrier: bool,
}

/// Result of looking up a name.
pub enum Found {
    /// An Ethernet interface, or one that looks like it.
    Ethernet(Interface),
    /// An interface without MAC addresses.
    Other,
    /// No interface.
    Nothing,
}

impl Interface {
    /// Looks for the interface of this name.
    pub fn find(name: &str) -> io::Result<Found> {
        let Some(link) = netlink::links()?.into_iter().find(|link| link.name == name) else {
            return Ok(Found::Nothing);
        };
        let Ok(address) = <[u8; 6]>::try_from(&link.address[..]) else { return Ok(Found::Other) };
        if link.hardware != libc::ARPHRD_ETHER {
            return Ok(Found::Other);
        }
        Ok(Found::Ethernet(Interface {
            index: link.index,
            address: MacAddress(address),
            mtu: link.mtu as usize,
            up: link.is(libc::IFF_UP),
            carrier: link.is(libc::IFF_RUNNING),
            name: link.name,
        }))
    }

    /// Finds the Ethernet interface of this name, up or down.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn ethernet(name: &str) -> Result<Interface, OpenError> {
        match Interface::find(name).map_err(|error| OpenError::of_system(name, error))? {
            Found::Ethernet(found) => Ok(found),
            Found::Other => Err(OpenError::NotEthernet(name.to_owned())),
            Found::Nothing => Err(OpenError::NoInterface(name.to_owned())),
        }
    }
}
