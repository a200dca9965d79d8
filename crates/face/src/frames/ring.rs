//! A packet socket with a receive ring and a transmit ring in memory shared with the kernel.
//!
//! Both rings have slots of one size (TPACKET_V2): a status word, a header and a frame. The status says whether the
//! kernel or the port owns the slot. So receiving a burst costs no system call, and sending one costs one. TPACKET_V3
//! would pack frames of all lengths into blocks. But it hands a block over only when the block is full or a millisecond
//! has passed, and peers would wait for that at each hop.
//!
//! A socket for all frames must show them as they would be on a wire, but senders on this host leave work to their
//! network card. A virtio header before each frame (`PACKET_VNET_HDR`) tells of checksums that are not computed yet,
//! and of frames that are not cut into several yet. The socket completes these checksums.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{TP_STATUS_AVAILABLE, TP_STATUS_KERNEL, TP_STATUS_SEND_REQUEST, TP_STATUS_USER, tpacket_req, tpacket2_hdr};
use memmap2::{MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};
use smallvec::{SmallVec, smallvec};

use super::OpenError;
use super::datagram::Path;
use super::fanout;
use super::filter;
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use super::interface::Interface;
use super::offload::{VIRTIO_HEADER_BYTES, finish};
use super::socket::{Arrival, Descriptors, FrameSocket, SocketConfig, VLAN_TAG_BYTES};
use crate::mac_address::MacAddress;
use crate::port::Pushed;
use crate::system::{self, LinkAddress};

/// Bytes of the blocks from which slots are cut. Each block is contiguous in the kernel.
const BLOCK_BYTES: usize = 1 << 16;
const SLOT_BYTES_MIN: usize = 1 << 11;
const SLOT_BYTES_MAX: usize = 1 << 14;
/// Offset of the frame in a slot to send, and of the sender's address in a received slot.
const TRANSMIT_OFFSET: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Largest offset of the Ethernet payload in a received slot.
const RECEIVE_OFFSET: usize =
    (TRANSMIT_OFFSET + size_of::<libc::sockaddr_ll>() + 16).next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Passes frames that fit into no slot through the socket itself too; from <linux/if_packet.h>.
const PACKET_COPY_THRESH: c_int = 7;
/// Maximum bytes of a frame that its sender has not cut.
const LONG_BYTES: usize = (1 << 16) + 64;

/// EtherTypes of VLANs, whose tag is not counted in an interface's MTU.
const VLAN_ETHER_TYPES: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// Selects the frames that a socket takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// NDN frames to the interface's address and to a group.
    Ndn {
        /// The group.
        group: Option<MacAddress>,
    },
    /// All frames on the interface.
    All,
}

/// Smallest offset of a received frame in its slot.
const RECEIVE_FRAME_MIN: usize = TRANSMIT_OFFSET + size_of::<libc::sockaddr_ll>() + VIRTIO_HEADER_BYTES;
/// Frames shown at once without heap memory.
const ARRIVALS: usize = 64;

/// Settings of a socket.
#[derive(Debug, Clone)]
pub struct RingConfig {
    /// Frames that it takes.
    pub frames: Frames,
    /// Paths whose plain datagrams to the interface's address it takes, besides NDN frames.
    pub paths: Vec<Path>,
    /// Whether to put the interface into promiscuous mode.
    pub promiscuous: bool,
    /// Whether frames bypass the queueing discipline.
    pub qdisc_bypass: bool,
    /// Memory of the receive ring, in bytes.
    pub receive_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_bytes: usize,
}

impl RingConfig {
    fn group(&self) -> Option<MacAddress> {
        match self.frames {
            Frames::Ndn { group } => group,
            Frames::All => None,
        }
    }
}

/// EtherType of the frames that the kernel shows to the filter.
fn ether_type(config: &RingConfig) -> u16 {
    if config.frames == Frames::All || !config.paths.is_empty() { libc::ETH_P_ALL as u16 } else { ETHER_TYPE }
}

/// Settings of a port's packet socket that other kinds of sockets do not have.
#[derive(Debug, Clone, Default)]
pub struct RingOptions {
    /// Whether frames bypass the queueing discipline, and the captures of other programs.
    pub qdisc_bypass: bool,
}

/// One ring: its slots in the memory shared with the kernel, and the next slot to use.
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

/// A packet socket with its two rings.
pub struct PacketSocket {
    socket: OwnedFd,
    map: MmapRaw,
    slot_bytes: usize,
    receive: Ring,
    transmit: Ring,
    /// Bytes of the virtio header before each frame.
    virtio_bytes: usize,
    /// Longest payload of a frame, in bytes.
    mtu: usize,
    /// Buffer for a frame that fits into no slot.
    long: Vec<u8>,
    /// Whether the ring holds frames of which the kernel was not told.
    unsent: bool,
}

impl PacketSocket {
    /// Opens a socket on an interface. The kernel drops unwanted frames before they reach the ring.
    pub fn open(interface: &Interface, config: &RingConfig) -> io::Result<Self> {
        let socket = PacketSocket::unbound(interface, config)?;
        if let Frames::Ndn { .. } = config.frames {
            socket.admit(interface, config)?;
        }
        bind(&socket.socket, interface.index, ether_type(config))?;
        socket.join(interface, config)?;
        Ok(socket)
    }

    /// Opens sockets that share the NDN frames of an interface, which must be up, and the memory for their rings. Each
    /// frame comes to one of them ([`fanout`]).
    pub(super) fn open_several(interface: &Interface, config: &RingConfig, count: usize) -> io::Result<Vec<Self>> {
        let (receive_bytes, transmit_bytes) = (config.receive_bytes / count, config.transmit_bytes / count);
        let config = RingConfig { receive_bytes, transmit_bytes, ..config.clone() };
        let sockets = (0..count).map(|_| PacketSocket::unbound(interface, &config)).collect::<io::Result<Vec<_>>>()?;
        for socket in &sockets {
            // Only a bound socket can join the others. Until then it must receive nothing.
            system::attach_filter(&socket.socket, &filter::NOTHING)?;
            bind(&socket.socket, interface.index, ether_type(&config))?;
        }
        let members: Vec<&OwnedFd> = sockets.iter().map(|socket| &socket.socket).collect();
        fanout::join(&members, interface.address, &config.paths)?;
        for socket in &sockets {
            socket.admit(interface, &config)?;
            socket.join(interface, &config)?;
        }
        Ok(sockets)
    }

    /// A socket with its rings that receives nothing until it is bound.
    fn unbound(interface: &Interface, config: &RingConfig) -> io::Result<Self> {
        // With protocol 0.
        let socket = open_raw(AddressFamily::PACKET)?;
        let virtio_bytes = if config.frames == Frames::All { VIRTIO_HEADER_BYTES } else { 0 };
        let overhead = RECEIVE_OFFSET + virtio_bytes;
        let slot_bytes = (overhead + interface.mtu).next_power_of_two().clamp(SLOT_BYTES_MIN, SLOT_BYTES_MAX);
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as c_int))?;
        // Skip a frame that cannot be sent. Otherwise it would block the frames behind it.
        set(&socket, libc::PACKET_LOSS, &1)?;
        set(&socket, libc::PACKET_QDISC_BYPASS, &c_int::from(config.qdisc_bypass))?;
        // Do not receive frames that other sockets here send. The option is unknown before Linux 4.20; there the bound
        // protocol does this.
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
        // Frames that wait in the ring count against this limit too.
        let _ = set_socket_send_buffer_size_force(&socket, config.transmit_bytes);
        let map = MmapOptions::new().len((slots[0] + slots[1]) * slot_bytes).map_raw(&socket)?;
        if !config.paths.is_empty() {
            // A run of datagrams that is not cut yet fits into no slot, so it comes through the socket itself.
            set(&socket, PACKET_COPY_THRESH, &1)?;
            let _ = set_socket_recv_buffer_size_force(&socket, config.receive_bytes);
        }
        Ok(PacketSocket {
            socket,
            map,
            slot_bytes,
            receive: Ring { offset: 0, slots: slots[0], next: 0 },
            transmit: Ring { offset: slots[0] * slot_bytes, slots: slots[1], next: 0 },
            virtio_bytes,
            mtu: interface.mtu.min(slot_bytes - overhead),
            long: if config.paths.is_empty() { Vec::new() } else { vec![0; LONG_BYTES] },
            unsent: false,
        })
    }

    /// Lets the frames in that the settings ask for.
    fn admit(&self, interface: &Interface, config: &RingConfig) -> io::Result<()> {
        system::attach_filter(&self.socket, &filter::filter(interface.address, config.group(), &config.paths))
    }

    /// Makes the interface receive the frames that the settings ask for.
    fn join(&self, interface: &Interface, config: &RingConfig) -> io::Result<()> {
        if let Some(group) = config.group() {
            join(&self.socket, interface.index, libc::PACKET_MR_MULTICAST, group)?;
        }
        if config.promiscuous {
            join(&self.socket, interface.index, libc::PACKET_MR_PROMISC, interface.address)?;
        }
        Ok(())
    }

    /// Shows frames, up to `frames_max` or up to the first that fits into no slot and so goes into `long`. Returns the
    /// number of frames taken.
    fn receive_some(&mut self, frames_max: usize, long: &mut [u8], visit: &mut impl FnMut(&[Arrival<'_>])) -> usize {
        let mut arrivals = SmallVec::<[Arrival<'_>; ARRIVALS]>::new();
        let (first, mut taken) = (self.receive.next, 0);
        // Use no slot twice, whatever `frames_max` is.
        while taken < frames_max.min(self.receive.slots) && self.has_input() {
            let slot = self.slot(&self.receive);
            // SAFETY: the slot is `slot_bytes` long (see `slot`), and begins with this header and this address, for
            // which any bytes are valid. Its status says that the kernel has handed it over. Until the status changes
            // below, which only `&mut self` can do, nobody else reads or writes the slot.
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
            // SAFETY: as above. The range begins after the header, the address and the virtio header, and ends within
            // the slot. There is no other slice of it, because no slot is used twice.
            let bytes = unsafe { std::slice::from_raw_parts_mut(slot.add(start), len) };
            let mut offloaded = false;
            if self.virtio_bytes > 0 {
                // SAFETY: as above. These bytes end where the frame begins.
                let virtio =
                    unsafe { slot.add(start - VIRTIO_HEADER_BYTES).cast::<[u8; VIRTIO_HEADER_BYTES]>().read() };
                offloaded = finish(bytes, virtio);
            }
            // The kernel has removed the VLAN tag; the header still describes it.
            let elsewhere = from.sll_pkttype >= libc::PACKET_OTHERHOST;
            let vlan = vlan_tag(&header);
            if header.tp_status & libc::TP_STATUS_COPY != 0 {
                let received = rustix::net::recv(&self.socket, &mut *long, RecvFlags::empty());
                let len = received.map_or(0, |(_, len)| len);
                let cut = len < header.tp_len as usize;
                arrivals.push(Arrival { bytes: &long[..len], cut, elsewhere, vlan, offloaded });
                break;
            }
            let cut = header.tp_snaplen < header.tp_len;
            arrivals.push(Arrival { bytes, cut, elsewhere, vlan, offloaded });
        }
        visit(&arrivals);
        self.receive.next = first;
        for _ in 0..taken {
            self.status(&self.receive).store(TP_STATUS_KERNEL, Ordering::Release);
            self.receive.advance();
        }
        taken
    }

    /// The next slot of a ring: `slot_bytes` bytes of the mapping.
    fn slot(&self, ring: &Ring) -> *mut u8 {
        let at = ring.offset + ring.next * self.slot_bytes;
        debug_assert!(at + self.slot_bytes <= self.map.len());
        // SAFETY: the mapping holds all slots of both rings, one ring after the other, and `next` is less than the
        // ring's number of slots. So the result is within the mapping.
        unsafe { self.map.as_mut_ptr().add(at) }
    }

    /// Status of the next slot.
    fn status(&self, ring: &Ring) -> &AtomicU32 {
        let status = self.slot(ring).wrapping_add(offset_of!(tpacket2_hdr, tp_status));
        // SAFETY: slots are aligned to `SLOT_BYTES_MIN`, and the mapping to pages. The status is the first word of a
        // slot, and so it is aligned. It lives as long as the mapping, which `self` owns. The kernel and we access it
        // as one word, and nobody accesses it otherwise during this borrow.
        unsafe { AtomicU32::from_ptr(status.cast()) }
    }
}

impl FrameSocket for PacketSocket {
    type Config = RingOptions;
    const KERNEL_HEARS: bool = true;
    const STEERS: bool = true;

    fn for_port(interface: &Interface, config: &SocketConfig, own: &RingOptions) -> Result<Self, OpenError> {
        let opened = PacketSocket::open(interface, &of_port(config, own));
        opened.map_err(|error| OpenError::of_system(&interface.name, error))
    }

    fn count(_: &Interface, _: &RingOptions, wanted: usize) -> usize {
        wanted
    }

    fn for_threads(
        interface: &Interface,
        config: &SocketConfig,
        own: &RingOptions,
        count: usize,
    ) -> Result<Vec<Self>, OpenError> {
        let opened = PacketSocket::open_several(interface, &of_port(config, own), count);
        opened.map_err(|error| OpenError::of_system(&interface.name, error))
    }

    fn descriptors(&self) -> Descriptors {
        smallvec![self.socket.as_raw_fd()]
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn take_error(&self) -> Option<io::Error> {
        take_error(&self.socket)
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
        // SAFETY: the slot is `slot_bytes` long (see `slot`). Its status says that the kernel is done with it. Until
        // the status changes below, which only `&mut self` can do, nobody else reads or writes the bytes after the
        // status.
        let (frame_len, frame) = unsafe {
            let frame = slot.add(TRANSMIT_OFFSET);
            let frame_len = slot.add(offset_of!(tpacket2_hdr, tp_len)).cast::<u32>();
            (&mut *frame_len, std::slice::from_raw_parts_mut(frame, self.slot_bytes - TRANSMIT_OFFSET))
        };
        *frame_len = (self.virtio_bytes + len) as u32;
        // In bounds: a slot holds `mtu` bytes after an offset that is larger than this one by a frame's header.
        let (virtio, mut rest) = frame.split_at_mut(self.virtio_bytes);
        // All zero: nothing is left to the card.
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
        match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
            Ok(_) => self.unsent = false,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(!self.unsent)
    }

    fn take_drops(&self) -> u64 {
        let statistics = system::option::<libc::tpacket_stats>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        statistics.map_or(0, |statistics| u64::from(statistics.tp_drops))
    }
}

/// Settings of a port's socket.
fn of_port(config: &SocketConfig, own: &RingOptions) -> RingConfig {
    RingConfig {
        frames: Frames::Ndn { group: config.group },
        paths: config.paths.clone(),
        promiscuous: config.promiscuous,
        qdisc_bypass: own.qdisc_bypass,
        receive_bytes: config.receive_ring_bytes,
        transmit_bytes: config.transmit_ring_bytes,
    }
}

/// The VLAN tag that the kernel has removed from a frame.
fn vlan_tag(header: &tpacket2_hdr) -> Option<[u8; VLAN_TAG_BYTES]> {
    let is = |flag| header.tp_status & flag != 0;
    let typ = if is(libc::TP_STATUS_VLAN_TPID_VALID) { header.tp_vlan_tpid.to_be_bytes() } else { VLAN_ETHER_TYPES[0] };
    let [high, low] = header.tp_vlan_tci.to_be_bytes();
    is(libc::TP_STATUS_VLAN_VALID).then_some([typ[0], typ[1], high, low])
}

/// Sets an option of packet sockets.
fn set(socket: &OwnedFd, option: c_int, value: &impl system::Numbers) -> io::Result<()> {
    system::set_option(socket, libc::SOL_PACKET, option, value)
}

/// Opens a socket for frames, which never blocks.
pub(super) fn open_raw(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}

/// The error that made a socket ready, if any.
pub(super) fn take_error(socket: &OwnedFd) -> Option<io::Error> {
    socket_error(socket).flatten().err().map(io::Error::from)
}

/// Makes a socket's interface receive a group, or all frames, as long as the socket lives.
pub(super) fn join(socket: &OwnedFd, index: u32, kind: c_int, address: MacAddress) -> io::Result<()> {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&address.0);
    let request = libc::packet_mreq { mr_ifindex: index as c_int, mr_type: kind as u16, mr_alen: 6, mr_address: bytes };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Binds a socket to an interface and an EtherType.
pub(super) fn bind(socket: &OwnedFd, index: u32, ether_type: u16) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &LinkAddress::new(index, ether_type))?)
}
