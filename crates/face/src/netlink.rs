//! Interfaces and their addresses, as the kernel lists them by rtnetlink(7).

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use libc::{IFA_ADDRESS, IFA_LABEL, IFA_LOCAL, IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, NLM_F_DUMP, NLM_F_REQUEST};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Bytes of the header of a message: `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Bytes of the header of an attribute: `struct rtattr`.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Multiple at which messages and attributes begin.
const ALIGNMENT: usize = 4;
/// The kernel puts at most this many bytes of a list into a buffer.
const BUFFER_BYTES: usize = 32 << 10;

/// An interface.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub index: u32,
    pub name: String,
    /// `IFF_UP` and the like.
    flags: u32,
    /// Its kind: `ARPHRD_ETHER` and the like.
    pub hardware: u16,
    /// Its address on the link. The length depends on the kind.
    pub address: Vec<u8>,
    /// Payload bytes of a frame.
    pub mtu: u32,
}

impl Link {
    /// Whether all these flags are set.
    pub fn is(&self, flags: libc::c_int) -> bool {
        self.flags & flags as u32 == flags as u32
    }
}

/// An IP address of an interface.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// Number of the interface.
    pub index: u32,
    /// Name that the address gives the interface, such as `eth0:1`. IPv6 has none.
    pub label: Option<String>,
    pub ip: IpAddr,
    /// Length of its network's prefix, in bits.
    pub prefix_len: u8,
}

/// Opens a socket for rtnetlink.
pub(crate) fn open(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags | SocketFlags::CLOEXEC, None)?)
}

/// All interfaces of this thread's network namespace.
pub(crate) fn links() -> io::Result<Vec<Link>> {
    list(libc::RTM_GETLINK, libc::RTM_NEWLINK, link)
}

/// All IP addresses of this thread's network namespace.
pub(crate) fn addresses() -> io::Result<Vec<Address>> {
    list(libc::RTM_GETADDR, libc::RTM_NEWADDR, address)
}

/// The IP addresses of this host, in this thread's network namespace.
///
/// # Errors
/// If the system does not tell them.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    Ok(addresses()?.into_iter().map(|address| address.ip).collect())
}

/// Requests a list, and reads its entries. Entries that cannot be read are left out.
fn list<T>(request: u16, answer: u16, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
    let socket = open(SocketFlags::empty())?;
    // A header, then `struct rtgenmsg`, which asks for all address families.
    const REQUEST_BYTES: usize = HEADER_BYTES + ALIGNMENT;
    let mut message = [0; REQUEST_BYTES];
    message[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&((NLM_F_REQUEST | NLM_F_DUMP) as u16).to_ne_bytes());
    send(&socket, &message, SendFlags::empty())?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let mut found = Vec::new();
    loop {
        let (_, len) = retry_on_intr(|| recv(&socket, &mut buffer[..], RecvFlags::empty()))?;
        for (kind, body) in messages(&buffer[..len]) {
            match i32::from(kind) {
                libc::NLMSG_DONE | libc::NLMSG_ERROR => {
                    return match body.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
                        Some(code @ ..0) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                        _ => Ok(found),
                    };
                }
                _ if kind == answer => found.extend(read(body)),
                _ => {}
            }
        }
    }
}

/// Splits messages into their types and bodies. Ends at one that does not fit.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let body = bytes.get(HEADER_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Splits attributes into their types and values. Ends at one that does not fit.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [len, kind] = bytes.first_chunk::<ATTRIBUTE_HEADER_BYTES>()?.as_chunks::<2>().0 else { return None };
        let len = usize::from(u16::from_ne_bytes(*len));
        let kind = u16::from_ne_bytes(*kind);
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn text(value: &[u8]) -> Option<String> {
    CStr::from_bytes_until_nul(value).ok().map(|text| text.to_string_lossy().into_owned())
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

/// Reads `struct ifinfomsg` and its attributes.
fn link(body: &[u8]) -> Option<Link> {
    let (&[_, _, kind_0, kind_1, rest @ ..], bytes) = body.split_first_chunk::<16>()?;
    let [index, flags, _] = rest.as_chunks::<4>().0 else { return None };
    let mut link = Link {
        index: u32::from_ne_bytes(*index),
        flags: u32::from_ne_bytes(*flags),
        hardware: u16::from_ne_bytes([kind_0, kind_1]),
        ..Link::default()
    };
    for (kind, value) in attributes(bytes) {
        match kind {
            IFLA_IFNAME => link.name = text(value)?,
            IFLA_ADDRESS => link.address = value.to_vec(),
            IFLA_MTU => link.mtu = u32::from_ne_bytes(*value.first_chunk()?),
            _ => {}
        }
    }
    Some(link)
}

/// Reads `struct ifaddrmsg` and its attributes.
fn address(body: &[u8]) -> Option<Address> {
    let (&[_, prefix_len, _, _, index @ ..], bytes) = body.split_first_chunk::<8>()?;
    let (mut label, mut local, mut other) = (None, None, None);
    for (kind, value) in attributes(bytes) {
        match kind {
            IFA_LABEL => label = text(value),
            IFA_LOCAL => local = ip(value),
            // The peer's address, if there is a local one too.
            IFA_ADDRESS => other = ip(value),
            _ => {}
        }
    }
    Some(Address { index: u32::from_ne_bytes(*index.first_chunk()?), label, ip: local.or(other)?, prefix_len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed_with_its_address() {
        let link = links().expect("a list").into_iter().find(|link| link.name == "lo").expect("a loopback interface");
        assert!(link.is(libc::IFF_UP | libc::IFF_LOOPBACK) && !link.is(libc::IFF_UP | libc::IFF_BROADCAST));
        assert_eq!((link.hardware, link.address), (libc::ARPHRD_LOOPBACK, vec![0; 6]));
        assert!(link.mtu >= 1500);
        let addresses = addresses().expect("a list");
        let is_local = |address: &&Address| address.ip == IpAddr::from([127, 0, 0, 1]);
        let address = addresses.iter().find(is_local).expect("it has an address");
        assert_eq!((address.index, address.label.as_deref(), address.prefix_len), (link.index, Some("lo"), 8));
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = ATTRIBUTE_HEADER_BYTES + value.len();
        let mut bytes = [(len as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(len.next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn of_two_addresses_the_local_one_counts() {
        let header = [vec![2, 24, 0, 0], 7u32.to_ne_bytes().to_vec()].concat();
        let peer = attribute(IFA_ADDRESS, &[192, 0, 2, 9]);
        let alone = address(&[header.clone(), peer.clone()].concat()).expect("an address");
        assert_eq!((alone.index, alone.prefix_len, alone.ip), (7, 24, [192, 0, 2, 9].into()));
        let local = [attribute(IFA_LABEL, b"eth0:1\0"), attribute(IFA_LOCAL, &[192, 0, 2, 1])].concat();
        let both = [header, peer, local].concat();
        let found = address(&both).expect("an address");
        assert_eq!((found.label.as_deref(), found.ip), (Some("eth0:1"), [192, 0, 2, 1].into()));
        for len in 0..both.len() {
            let found = address(&both[..len]);
            assert!(found.is_none_or(|found| found.ip == IpAddr::from([192, 0, 2, 9])), "{len} bytes");
        }
    }

    #[test]
    fn a_message_that_does_not_fit_ends_the_list() {
        let message = |kind: u16, body: &[u8]| {
            let len = (HEADER_BYTES + body.len()) as u32;
            let header = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
            [&header[..], body].concat()
        };
        let both = [message(1, &[1; 4]), message(2, &[2; 8])].concat();
        assert_eq!(messages(&both).collect::<Vec<_>>(), [(1, &[1; 4][..]), (2, &[2; 8][..])]);
        for len in 0..both.len() {
            assert_eq!(messages(&both[..len]).count(), usize::from(len >= HEADER_BYTES + 4), "{len} bytes");
        }
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }
}
