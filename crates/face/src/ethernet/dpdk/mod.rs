//! Frames by drivers that run in this process: devices of DPDK, network cards and virtual ones.
//!
//! For servers whose cards are given to DPDK, and then are no interfaces of the kernel's any more: all that such a
//! card hears comes here. [`Environment::start`] starts DPDK in this process, [`Device::open`] a device, which goes
//! into [`EthernetConfig::device`]. A frame is copied once when it comes, from the driver's buffer into one of
//! the packet pool's, and once when it goes, as it is with the other kinds of sockets.
//!
//! Drivers are asked for frames over and over ([`FrameSocket::POLLED`]): a router that has nothing else to do
//! sleeps all the same, but for one look each millisecond, which the first packet after a pause may wait for.
//! A longer `spin` in `[general]` has it look all the time instead.
//!
//! With the cargo feature `dpdk` only; needs Debian's `libdpdk-dev` to build, or DPDK 22.11 or newer from elsewhere.

mod device;

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;

use super::config::{EthernetConfig, OpenError};
use super::frame::HEADER_BYTES;
use super::interface::Interface;
use super::socket::{Arrival, Descriptors, FrameSocket, Pushed};
use crate::mac_address::MacAddress;
use device::{BURST, Queues};
pub use device::{Device, Environment};

/// Octets that a frame of the usual length takes in DPDK's pools.
const BUFFER_BYTES: usize = 2304;
/// Fewest and most slots of a queue.
const SLOTS: [usize; 2] = [64, 1 << 14];

/// What a device is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// DPDK's name for it, and what its driver is to know: `0000:01:00.0`, `net_memif0,role=client`.
    pub device: String,
    /// Longest payload of a frame, in octets.
    pub mtu: u16,
    /// Frames that can wait for us.
    pub receive_slots: u16,
    /// Frames that can wait for the device.
    pub transmit_slots: u16,
    /// Takes frames for other stations, too.
    pub promiscuous: bool,
    /// The group that it hears.
    pub group: Option<MacAddress>,
    /// Hears all groups, among which are those where IPv6 asks for addresses.
    pub all_groups: bool,
}

impl Settings {
    /// Of a device of this name, for an Ethernet port with these settings.
    pub fn new(device: impl Into<String>, mtu: u16, config: &EthernetConfig) -> Self {
        let slots = |bytes: usize| 1 << (bytes / BUFFER_BYTES).clamp(SLOTS[0], SLOTS[1]).ilog2();
        Settings {
            device: device.into(),
            mtu,
            receive_slots: slots(config.receive_ring_bytes),
            transmit_slots: slots(config.transmit_ring_bytes),
            promiscuous: config.promiscuous,
            group: config.group,
            all_groups: config.datagrams.iter().any(|peer| peer.path.here.is_ipv6()),
        }
    }
}

/// Why there is no device.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// DPDK cannot run in this process.
    #[error(
        "DPDK does not start ({error}); what it says is above. It wants huge pages (once, as root: \
         `echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`) and the right to use them, or, for \
         virtual devices, eal = [\"--no-huge\"] under [faces.dpdk]"
    )]
    Start {
        /// What it said.
        error: io::Error,
    },
    /// It does not understand an argument.
    #[error("DPDK does not take these arguments: {0}; it says above which there are. See `eal` under [faces.dpdk]")]
    Arguments(String),
    /// The device cannot be used.
    #[error(
        "DPDK cannot use the device \"{device}\" ({error}); what it says is above. `dpdk-devbind.py --status` lists \
         network cards, and `dpdk-devbind.py --bind=vfio-pci ADDRESS`, as root, gives one to DPDK; virtual ones are \
         written as \"net_memif0,role=client\""
    )]
    Device {
        /// Its name.
        device: String,
        /// What DPDK said.
        error: io::Error,
    },
}

impl Environment {
    /// Starts DPDK, unless it was started before. Its memory is this process's own, and it leaves nothing behind.
    ///
    /// `eal` are arguments besides those that byname gives itself: it uses one processor, and no device
    /// but those that are opened.
    ///
    /// # Errors
    /// There is no memory for it, or it does not take the arguments. It cannot be tried a second time.
    pub fn start(eal: &[String]) -> Result<Self, DpdkError> {
        // Without huge pages it knows no other way to keep its files to itself.
        let private = if eal.iter().any(|word| word == "--no-huge") { "--no-shconf" } else { "--in-memory" };
        // The first device of a bus is no network card; where one is allowed all others are left alone, until
        // they are asked for by name.
        let own = ["byname", private, "--no-telemetry", "--log-level=warning", "-a", "0000:00:00.0"];
        let words = own.into_iter().chain(eal.iter().map(String::as_str));
        let not_taken = || DpdkError::Arguments(eal.join(" "));
        let arguments: Option<Vec<CString>> = words.map(|word| CString::new(word).ok()).collect();
        let started = Environment::with_arguments(arguments.ok_or_else(not_taken)?);
        started.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => not_taken(),
            _ => DpdkError::Start { error },
        })
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// There is none of that name, or no driver for it, or it cannot do what the settings ask for.
    pub fn open(environment: Environment, settings: &Settings) -> Result<Arc<Self>, DpdkError> {
        let failed = |error| DpdkError::Device { device: settings.device.clone(), error };
        Device::with_settings(environment, settings).map(Arc::new).map_err(failed)
    }
}

/// The frames of a device.
pub struct DpdkSocket {
    /// Whoever asks whether there is input asks the driver.
    queues: RefCell<Queues>,
    /// Frames that were missed when this was asked for last.
    missed: Cell<u64>,
}

impl DpdkSocket {
    fn device(config: &EthernetConfig) -> Result<&Arc<Device>, OpenError> {
        let none = || OpenError::of_system(&config.interface, ErrorKind::NotFound.into());
        config.device.as_ref().ok_or_else(none)
    }
}

impl FrameSocket for DpdkSocket {
    const POLLED: bool = true;
    const HEARS_ALL: bool = true;

    fn find(config: &EthernetConfig) -> Result<Interface, OpenError> {
        let device = DpdkSocket::device(config)?;
        let up = device.is_up();
        Ok(Interface { name: config.interface.clone(), index: 0, address: device.address(), up, carrier: up })
    }

    fn for_port(interface: &Interface, config: &EthernetConfig) -> Result<Self, OpenError> {
        let device = DpdkSocket::device(config)?;
        let busy = || OpenError::of_system(&interface.name, ErrorKind::ResourceBusy.into());
        let queues = Queues::take(device).ok_or_else(busy)?.into();
        Ok(DpdkSocket { queues, missed: Cell::new(device.missed()) })
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new()
    }

    fn mtu(&self) -> usize {
        self.queues.borrow().device().mtu()
    }

    fn take_error(&self) -> Option<io::Error> {
        let is_up = self.queues.borrow().device().is_up();
        (!is_up).then(|| ErrorKind::NetworkDown.into())
    }

    fn has_input(&self) -> bool {
        self.queues.borrow_mut().poll() > 0
    }

    fn receive(&mut self, frames_max: usize, mut visit: impl FnMut(&[Arrival<'_>])) {
        let queues = self.queues.get_mut();
        let mut left = frames_max;
        while left > 0 && queues.poll() > 0 {
            let arrivals: SmallVec<[_; BURST]> = queues.frames().take(left).collect();
            visit(&arrivals);
            let taken = arrivals.len();
            drop(arrivals);
            queues.free(taken);
            left -= taken;
        }
    }

    fn has_room(&mut self) -> bool {
        self.queues.get_mut().has_room()
    }

    fn push(&mut self, header: &[u8], payload: (&[u8], &[u8])) -> Pushed {
        let parts = [header, payload.0, payload.1];
        let queues = self.queues.get_mut();
        if parts.iter().map(|part| part.len()).sum::<usize>() > HEADER_BYTES + queues.device().mtu() {
            return Pushed::TooLong;
        }
        match queues.has_room() {
            false => Pushed::Full,
            true if queues.put(parts) => Pushed::Done,
            true => Pushed::TooLong,
        }
    }

    fn has_unsent(&self) -> bool {
        self.queues.borrow().unsent() > 0
    }

    fn send(&mut self) -> io::Result<bool> {
        Ok(self.queues.get_mut().send() == 0)
    }

    fn take_drops(&self) -> u64 {
        let missed = self.queues.borrow().device().missed();
        missed.saturating_sub(self.missed.replace(missed))
    }
}
