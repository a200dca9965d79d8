//! A packet socket with a receive ring and a transmit ring in memory that the kernel shares.
//!
//! Both rings have slots of one size (TPACKET_V2): a word of status, a header, a frame. The kernel
//! gives a slot over by its status, and gets it back the same way, so that a burst costs no system
//! call to receive and one to send. TPACKET_V3 would pack frames of all lengths into blocks, but
//! hands a block over only when it is full or a millisecond has passed, which a forwarder's peers
//! would wait for at each hop.
//!
//! A socket for all frames has them as they would be on a wire, whatever senders on this host leave to
//! their network card: a header of virtio's before each (`PACKET_VNET_HDR`) tells of checksums that are
//! not computed yet, which are completed here, and of frames that are still to be cut into several.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{TP_STATUS_AVAILABLE, TP_STATUS_KERNEL, TP_STATUS_SEND_REQUEST, TP_STATUS_USER, tpacket_req, tpacket2_hdr};
use memmap2::{MmapOptions, MmapRaw};
use smallvec::{SmallVec, smallvec};
use socket2::{Domain, Socket, Type};

use super::config::{EthernetConfig, OpenError};
use super::datagram::Path;
use super::filter;
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use super::interface::Interface;
use super::offload::{VIRTIO_HEADER_BYTES, finish};
use super::socket::{Arrival, Descriptors, FrameSocket, Pushed, VLAN_TAG_BYTES};
use crate::mac_address::MacAddress;

/// Slots are cut from blocks of this size, which the kernel has in one piece each.
const BLOCK_BYTES: usize = 1 << 16;
const SLOT_BYTES_MIN: usize = 1 << 11;
const SLOT_BYTES_MAX: usize = 1 << 14;
/// Where the frame begins in a slot to send; and in one that was received, the sender's address.
const TRANSMIT_OFFSET: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Where, at the latest, the Ethernet payload begins in a slot that was received.
const RECEIVE_OFFSET: usize =
    (TRANSMIT_OFFSET + size_of::<libc::sockaddr_ll>() + 16).next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Has frames that fit into no slot come by the socket itself, too; of <linux/if_packet.h>.
const PACKET_COPY_THRESH: c_int = 7;
/// Octets that the longest frame may have that a sender has not cut.
const LONG_BYTES: usize = (1 << 16) + 64;

/// EtherTypes of VLANs, whose tag comes on top of what an interface's MTU counts.
const VLAN_ETHER_TYPES: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// Which frames a socket takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// Those of NDN, to the interface's address and to a group.
    Ndn {
        /// The group.
        group: Option<MacAddress>,
    },
    /// All that the interface hears.
    All,
}

/// Where a frame that was received begins at the earliest.
const RECEIVE_FRAME_MIN: usize = TRANSMIT_OFFSET + size_of::<libc::sockaddr_ll>() + VIRTIO_HEADER_BYTES;
/// Frames shown at once without memory from the heap.
const ARRIVALS: usize = 64;

/// Settings of a socket.
#[derive(Debug, Clone)]
pub struct RingConfig {
    /// Which frames it takes.
    pub frames: Frames,
    /// Besides those of NDN: plain datagrams to the interface's address that come on these paths.
    pub paths: Vec<Path>,
    /// Puts the interface into promiscuous mode.
    pub promiscuous: bool,
    /// Frames pass the queueing discipline by.
    pub qdisc_bypass: bool,
    /// Memory of the receive ring, in bytes.
    pub receive_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_bytes: usize,
}

/// One ring: where its slots are in the memory shared with the kernel, and whose turn is next.
struct Ring {
    offset: usize,
    slots: usize,
    next: usize,
}

impl Ring {
    fn advance(&mut self) {
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }
}

/// The socket.
pub struct PacketSocket {
    socket: Socket,
    map: MmapRaw,
    slot_bytes: usize,
    receive: Ring,
    transmit: Ring,
    /// Octets of virtio's header before each frame.
    virtio_bytes: usize,
    /// Longest payload of a frame, in octets.
    mtu: usize,
    /// For a frame that fits into no slot.
    long: Vec<u8>,
    /// Frames in the ring that the kernel was not told of.
    unsent: bool,
}

impl PacketSocket {
    /// Opens a socket on an interface. The kernel drops frames that it does not take before they reach
    /// the ring.
    pub fn open(interface: &Interface, config: &RingConfig) -> io::Result<Self> {
        // Of protocol 0 it receives nothing until it is bound, when all else is in place.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        let mtu = mtu(&socket, &interface.name)?;
        let virtio_bytes = if config.frames == Frames::All { VIRTIO_HEADER_BYTES } else { 0 };
        let overhead = RECEIVE_OFFSET + virtio_bytes;
        let slot_bytes = (overhead + mtu).next_power_of_two().clamp(SLOT_BYTES_MIN, SLOT_BYTES_MAX);
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
        // A frame that cannot be sent is skipped; else it would hold up those behind it.
        set(&socket, libc::PACKET_LOSS, &1)?;
        set(&socket, libc::PACKET_QDISC_BYPASS, &c_int::from(config.qdisc_bypass))?;
        // Frames of other sockets here are not for us; unknown before Linux 4.20, where the bound
        // protocol does it.
        let _ = set(&socket, libc::PACKET_IGNORE_OUTGOING, &1);
        if virtio_bytes > 0 {
            set(&socket, libc::PACKET_VNET_HDR, &1)?;
        }
        let rings = [(libc::PACKET_RX_RING, config.receive_bytes), (libc::PACKET_TX_RING, config.transmit_bytes)];
        let mut slots = [0; 2];
        for ((option, bytes), slots) in rings.into_iter().zip(&mut slots) {
            let blocks = (bytes / BLOCK_BYTES).max(1);
            *slots = blocks * (BLOCK_BYTES / slot_bytes);
            let request = tpacket_req {
                tp_block_size: BLOCK_BYTES as u32,
                tp_block_nr: u32::try_from(blocks).map_err(|_| io::ErrorKind::OutOfMemory)?,
                tp_frame_size: slot_bytes as u32,
                tp_frame_nr: u32::try_from(*slots).map_err(|_| io::ErrorKind::OutOfMemory)?,
            };
            set(&socket, option, &request)?;
        }
        // What waits in the ring counts against this, too.
        let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBufForce, &config.transmit_bytes);
        let map = MmapOptions::new().len((slots[0] + slots[1]) * slot_bytes).map_raw(&socket)?;
        match config.frames {
            Frames::Ndn { group } => {
                socket.attach_filter(&filter::filter(interface.address, group, &config.paths))?;
                if config.paths.is_empty() {
                    bind(&socket, interface.index, ETHER_TYPE)?;
                } else {
                    // A run of datagrams that nobody has cut yet comes by the socket itself, as it fits into no slot.
                    set(&socket, PACKET_COPY_THRESH, &1)?;
                    let bytes = &config.receive_bytes;
                    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, bytes);
                    bind(&socket, interface.index, libc::ETH_P_ALL as u16)?;
                }
                if let Some(group) = group {
                    join(&socket, interface.index, libc::PACKET_MR_MULTICAST, group)?;
                }
            }
            Frames::All => bind(&socket, interface.index, libc::ETH_P_ALL as u16)?,
        }
        if config.promiscuous {
            join(&socket, interface.index, libc::PACKET_MR_PROMISC, interface.address)?;
        }
        Ok(PacketSocket {
            socket,
            map,
            slot_bytes,
            receive: Ring { offset: 0, slots: slots[0], next: 0 },
            transmit: Ring { offset: slots[0] * slot_bytes, slots: slots[1], next: 0 },
            virtio_bytes,
            mtu: mtu.min(slot_bytes - overhead),
            long: if config.paths.is_empty() { Vec::new() } else { vec![0; LONG_BYTES] },
            unsent: false,
        })
    }

    /// Shows frames, up to `frames_max` or the first that fits into no slot, for which `long` is; says how many.
    fn receive_some(&mut self, frames_max: usize, long: &mut [u8], visit: &mut impl FnMut(&[Arrival<'_>])) -> usize {
        let mut arrivals = SmallVec::<[Arrival<'_>; ARRIVALS]>::new();
        let (first, mut taken) = (self.receive.next, 0);
        // No slot twice, however many are asked for.
        while taken < frames_max.min(self.receive.slots) && self.has_input() {
            let slot = self.slot(&self.receive);
            // SAFETY: the slot is `slot_bytes` long (see `slot`) and begins with this header and this
            // address; any octets are such. Its status says that the kernel has given it over, and until that is
            // changed below, which `&mut self` leaves to us alone, nobody else reads or writes the slot.
            let (header, from) = unsafe {
                let from = slot.add(TRANSMIT_OFFSET).cast::<libc::sockaddr_ll>().read();
                (slot.cast::<tpacket2_hdr>().read(), from)
            };
            self.receive.advance();
            taken += 1;
            if from.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
            let start = start.clamp(RECEIVE_FRAME_MIN, self.slot_bytes);
            let len = len.min(self.slot_bytes - start);
            // SAFETY: as above; the range begins behind header, address and virtio's header, and ends with
            // the slot. No other slice of it is made: no slot is met twice.
            let octets = unsafe { std::slice::from_raw_parts_mut(slot.add(start), len) };
            let mut offloaded = false;
            if self.virtio_bytes > 0 {
                // SAFETY: as above; these octets end where those of the frame begin.
                let virtio =
                    unsafe { slot.add(start - VIRTIO_HEADER_BYTES).cast::<[u8; VIRTIO_HEADER_BYTES]>().read() };
                offloaded = finish(octets, virtio);
            }
            // The tag of a VLAN is gone by now; this is what is left of it.
            let elsewhere = from.sll_pkttype >= libc::PACKET_OTHERHOST;
            let vlan = vlan_tag(&header);
            if header.tp_status & libc::TP_STATUS_COPY != 0 {
                let len = (&self.socket).read(long).unwrap_or_default();
                let cut = len < header.tp_len as usize;
                arrivals.push(Arrival { octets: &long[..len], cut, elsewhere, vlan, offloaded });
                break;
            }
            let cut = header.tp_snaplen < header.tp_len;
            arrivals.push(Arrival { octets, cut, elsewhere, vlan, offloaded });
        }
        visit(&arrivals);
        self.receive.next = first;
        for _ in 0..taken {
            self.status(&self.receive).store(TP_STATUS_KERNEL, Ordering::Release);
            self.receive.advance();
        }
        taken
    }

    /// The slot of a ring whose turn it is: `slot_bytes` octets of the mapping.
    fn slot(&self, ring: &Ring) -> *mut u8 {
        let at = ring.offset + ring.next * self.slot_bytes;
        debug_assert!(at + self.slot_bytes <= self.map.len());
        // SAFETY: the mapping has all slots of both rings, one ring after the other, and `next` is
        // below the number of the ring's; so this stays within it.
        unsafe { self.map.as_mut_ptr().add(at) }
    }

    /// The status of the slot whose turn it is.
    fn status(&self, ring: &Ring) -> &AtomicU32 {
        let status = self.slot(ring).wrapping_add(offset_of!(tpacket2_hdr, tp_status));
        // SAFETY: slots are aligned to `SLOT_BYTES_MIN`, the mapping to pages, and the status is the
        // first word of a slot, aligned therefore. It lives as long as the mapping, which `self` owns; the kernel
        // and we read and write it as one word, and nobody by other means while this is borrowed.
        unsafe { AtomicU32::from_ptr(status.cast()) }
    }
}

impl FrameSocket for PacketSocket {
    const KERNEL_HEARS: bool = true;

    fn for_port(interface: &Interface, config: &EthernetConfig) -> Result<Self, OpenError> {
        PacketSocket::open(interface, &config.ring()).map_err(|error| OpenError::of_system(&interface.name, error))
    }

    fn descriptors(&self) -> Descriptors {
        smallvec![self.socket.as_raw_fd()]
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    fn has_input(&self) -> bool {
        self.status(&self.receive).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    fn receive(&mut self, frames_max: usize, mut visit: impl FnMut(&[Arrival<'_>])) {
        let mut long = std::mem::take(&mut self.long);
        let mut left = frames_max;
        while left > 0 {
            match self.receive_some(left, &mut long, &mut visit) {
                0 => break,
                taken => left -= taken,
            }
        }
        self.long = long;
    }

    fn has_room(&mut self) -> bool {
        let waits = TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;
        self.status(&self.transmit).load(Ordering::Acquire) & waits == TP_STATUS_AVAILABLE
    }

    fn push(&mut self, header: &[u8], payload: (&[u8], &[u8])) -> Pushed {
        let parts = [header, payload.0, payload.1];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let is_of_vlan = header.get(12..14).is_some_and(|typ| VLAN_ETHER_TYPES.iter().any(|vlan| vlan == typ));
        if len > HEADER_BYTES + self.mtu + if is_of_vlan { VLAN_TAG_BYTES } else { 0 } {
            return Pushed::TooLong;
        }
        if !self.has_room() {
            return Pushed::Full;
        }
        let slot = self.slot(&self.transmit);
        // SAFETY: the slot is `slot_bytes` long (see `slot`). Its status says that the kernel is
        // done with it, and until that is changed below, which `&mut self` leaves to us alone,
        // nobody else reads or writes what follows the status.
        let (frame_len, frame) = unsafe {
            let frame = slot.add(TRANSMIT_OFFSET);
            let frame_len = slot.add(offset_of!(tpacket2_hdr, tp_len)).cast::<u32>();
            (&mut *frame_len, std::slice::from_raw_parts_mut(frame, self.slot_bytes - TRANSMIT_OFFSET))
        };
        *frame_len = (self.virtio_bytes + len) as u32;
        // In bounds: a slot holds `mtu` octets behind an offset that is above this one by a header's.
        let (virtio, mut rest) = frame.split_at_mut(self.virtio_bytes);
        // Nothing is left to the card.
        virtio.fill(0);
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        self.status(&self.transmit).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.transmit.advance();
        self.unsent = true;
        Pushed::Done
    }

    fn has_unsent(&self) -> bool {
        self.unsent
    }

    fn send(&mut self) -> io::Result<bool> {
        if !self.unsent {
            return Ok(true);
        }
        match self.socket.send_with_flags(&[], libc::MSG_DONTWAIT) {
            Ok(_) => self.unsent = false,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        Ok(!self.unsent)
    }

    fn take_drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both pointers are to what `len` says, and to `len` itself, which live here.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        if done == 0 { u64::from(statistics.tp_drops) } else { 0 }
    }
}

/// The tag of a VLAN that the kernel has taken out of a frame.
fn vlan_tag(header: &tpacket2_hdr) -> Option<[u8; VLAN_TAG_BYTES]> {
    let is = |flag| header.tp_status & flag != 0;
    let typ = if is(libc::TP_STATUS_VLAN_TPID_VALID) { header.tp_vlan_tpid.to_be_bytes() } else { VLAN_ETHER_TYPES[0] };
    let [high, low] = header.tp_vlan_tci.to_be_bytes();
    is(libc::TP_STATUS_VLAN_VALID).then_some([typ[0], typ[1], high, low])
}

/// Sets an option of packet sockets, whose value is a `T`.
fn set<T: Copy>(socket: &Socket, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to `size_of::<T>()` octets that live here; the kernel reads them only.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has a socket's interface hear a group, or all frames, as long as the socket lives.
pub(super) fn join(socket: &Socket, index: u32, kind: c_int, address: MacAddress) -> io::Result<()> {
    let mut octets = [0; 8];
    octets[..6].copy_from_slice(&address.0);
    let request =
        libc::packet_mreq { mr_ifindex: index as c_int, mr_type: kind as u16, mr_alen: 6, mr_address: octets };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Binds a socket to the interface, and to an EtherType.
pub(super) fn bind(socket: &Socket, index: u32, ether_type: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ether_type.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer is to an address of the length given, which lives here.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A request to the kernel about an interface of this name.
pub(super) fn interface_request(interface: &str) -> io::Result<libc::ifreq> {
    let mut request =
        libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 } };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The interface's MTU: octets of payload in a frame.
pub(super) fn mtu(socket: &Socket, interface: &str) -> io::Result<usize> {
    let mut request = interface_request(interface)?;
    // SAFETY: the request lives here, has a name that ends with a zero, and is what this call takes
    // and fills in.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has set this member; any octets are a number.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}
