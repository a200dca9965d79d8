//! Lists the interfaces that a multicast port can use, and reports when they may have changed.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use byname_forward::Network;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SocketFlags, bind, recv};

use super::multicast::MulticastConfig;
use crate::netlink;

/// An interface as the system lists it.
pub(super) struct Interface {
    pub name: String,
    pub index: u32,
    pub address: IpAddr,
    /// Networks of its addresses.
    pub networks: Vec<Network>,
}

/// Interfaces that are up, can multicast, and have an address of the group's family.
pub(super) fn interfaces(config: &MulticastConfig) -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    let links = netlink::links()?;
    for netlink::Address { index, label, ip: address, prefix_len } in netlink::addresses()? {
        // It may be newer than the list.
        let Some(link) = links.iter().find(|link| link.index == index) else { continue };
        let name = label.unwrap_or_else(|| link.name.clone());
        let able = link.is(libc::IFF_UP | libc::IFF_MULTICAST);
        let wanted = match &config.interfaces {
            Some(names) => names.contains(&name),
            None => able && !link.is(libc::IFF_LOOPBACK),
        };
        if !wanted || address.is_ipv4() != config.group.is_ipv4() {
            continue;
        }
        let network = Network { address, prefix_len, zone: if is_link_local_v6(&address) { index } else { 0 } };
        match found.iter_mut().find(|i| i.index == index) {
            Some(known) => {
                // Other hosts on the link know us by our link-local address.
                if is_link_local_v6(&address) {
                    known.address = address;
                }
                known.networks.push(network);
            }
            None => found.push(Interface { name, index, address, networks: vec![network] }),
        }
    }
    Ok(found)
}

fn is_link_local_v6(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// A socket on which the system reports changes of interfaces and addresses.
pub(super) struct Watch(OwnedFd);

impl Watch {
    /// Watches this thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let socket = netlink::open(SocketFlags::NONBLOCK)?;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
        Ok(Watch(socket))
    }

    pub fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether something has changed since the last call. The caller lists all interfaces, so the messages are not
    /// read.
    pub fn has_changed(&self) -> bool {
        let (mut changed, mut message) = (false, [0u8; 4096]);
        loop {
            match recv(&self.0, &mut message, RecvFlags::empty()) {
                // NOBUFS: the socket could not hold all messages.
                Ok((_, 1..)) | Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Ok((_, 0)) | Err(_) => return changed,
            }
        }
    }
}
