//! Frames through drivers that run in this process: devices of DPDK, which are network cards or virtual.
//!
//! For servers whose cards are given to DPDK. The kernel then has no interface for such a card, and all frames that it
//! hears come here. [`Environment::start`] starts DPDK in this process, and [`Device::open`] a device, which goes into
//! the port's settings. A frame is copied once when it comes, from the driver's buffer into one of the packet
//! pool's, and once when it leaves. The other kinds of sockets do the same.
//!
//! Drivers are polled for frames ([`FrameSocket::POLLED`]). Nevertheless an idle router sleeps, and polls once each
//! millisecond. The first packet after a pause may wait for that. With a longer `spin` in `[general]` it polls all the
//! time instead.
//!
//! Only with the cargo feature `dpdk`. Building needs Debian's `libdpdk-dev`, or DPDK 22.11 or newer from elsewhere.

mod device;

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;

use super::OpenError;
use super::frame::HEADER_BYTES;
use super::interface::Interface;
use super::socket::{Arrival, Descriptors, FrameSocket, SocketConfig};
use crate::mac_address::MacAddress;
use crate::port::Pushed;
use device::{BURST, Queues};
pub use device::{Device, Environment};

/// Bytes that a frame of usual length takes in DPDK's pools.
const BUFFER_BYTES: usize = 2304;
/// Minimum and maximum number of slots of a queue.
const SLOTS: [usize; 2] = [64, 1 << 14];

/// Settings of a device.
#[derive(Debug, Clone)]
pub struct Settings {
    /// DPDK's name for the device, with arguments for its driver: `0000:01:00.0`, `net_memif0,role=client`.
    pub device: String,
    /// Longest payload of a frame, in bytes.
    pub mtu: u16,
    /// Frames that can wait for the port.
    pub receive_slots: u16,
    /// Frames that can wait for the device.
    pub transmit_slots: u16,
    /// Pairs of queues that are wanted, each with so many slots. The device may have fewer.
    pub queues: u16,
    /// Whether it takes frames for other stations too.
    pub promiscuous: bool,
    /// Group that it hears.
    pub group: Option<MacAddress>,
    /// Whether it hears all groups, including those in which IPv6 asks for addresses.
    pub all_groups: bool,
}

impl Settings {
    /// Creates the settings of a device for Ethernet ports with so many pairs of queues.
    pub fn new(device: impl Into<String>, mtu: u16, config: &SocketConfig, queues: usize) -> Self {
        let queues = queues.clamp(1, usize::from(u8::MAX));
        let slots = |bytes: usize| 1 << (bytes / queues / BUFFER_BYTES).clamp(SLOTS[0], SLOTS[1]).ilog2();
        Settings {
            device: device.into(),
            mtu,
            receive_slots: slots(config.receive_ring_bytes),
            transmit_slots: slots(config.transmit_ring_bytes),
            queues: queues as u16,
            promiscuous: config.promiscuous,
            group: config.group,
            all_groups: config.paths.iter().any(|path| path.here.is_ipv6()),
        }
    }
}

/// Reason why there is no device.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// DPDK cannot run in this process.
    #[error(
        "DPDK does not start ({error}); what it says is above. It wants huge pages (once, as root: \
         `echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`) and the right to use them, or, for \
         virtual devices, eal = [\"--no-huge\"] under [faces.dpdk]"
    )]
    Start {
        /// Error of DPDK.
        error: io::Error,
    },
    /// DPDK does not understand an argument.
    #[error("DPDK does not take these arguments: {0}; it says above which there are. See `eal` under [faces.dpdk]")]
    Arguments(String),
    /// The device cannot be used.
    #[error(
        "DPDK cannot use the device \"{device}\" ({error}); what it says is above. `dpdk-devbind.py --status` lists \
         network cards, and `dpdk-devbind.py --bind=vfio-pci ADDRESS`, as root, gives one to DPDK; virtual ones are \
         written as \"net_memif0,role=client\""
    )]
    Device {
        /// Name of the device.
        device: String,
        /// Error of DPDK.
        error: io::Error,
    },
}

impl Environment {
    /// Starts DPDK, unless it was started before. Its memory is private to this process, and it leaves no files behind.
    ///
    /// `eal` are arguments in addition to those of byname, which limit DPDK to one processor and to the devices that
    /// are opened.
    ///
    /// # Errors
    /// If there is no memory for it, or it does not take the arguments. It cannot be tried a second time.
    pub fn start(eal: &[String]) -> Result<Self, DpdkError> {
        // Without huge pages DPDK has no other way to keep its files private.
        let private = if eal.iter().any(|word| word == "--no-huge") { "--no-shconf" } else { "--in-memory" };
        // The first device of a bus is no network card. Allowing one device makes DPDK ignore all others until they are
        // named.
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
    /// If there is no device of that name, no driver for it, or it cannot do what the settings ask for.
    pub fn open(environment: Environment, settings: &Settings) -> Result<Arc<Self>, DpdkError> {
        let failed = |error| DpdkError::Device { device: settings.device.clone(), error };
        let device = Device::with_settings(environment, settings).map_err(failed)?;
        if device.queues() < usize::from(settings.queues) {
            let (has, wanted) = (device.queues(), settings.queues);
            tracing::warn!(device = settings.device, has, wanted, "the device has fewer queues than packet threads");
        }
        Ok(Arc::new(device))
    }
}

/// The frames of a device, or those of one of its pairs of queues.
pub struct DpdkSocket {
    /// A `RefCell`: `has_input` takes `&self`, and must ask the driver.
    queues: RefCell<Queues>,
    /// Number of missed frames of the device at the last request. Only the first pair tells.
    missed: Cell<u64>,
}

impl DpdkSocket {
    fn of_pair(interface: &Interface, device: &Arc<Device>, pair: u16) -> Result<Self, OpenError> {
        let busy = || OpenError::of_system(&interface.name, ErrorKind::ResourceBusy.into());
        let queues = Queues::take(device, pair).ok_or_else(busy)?.into();
        Ok(DpdkSocket { queues, missed: Cell::new(device.missed()) })
    }
}

impl FrameSocket for DpdkSocket {
    /// The device whose frames it takes. The interface has the name only.
    type Config = Arc<Device>;
    const POLLED: bool = true;
    const HEARS_ALL: bool = true;

    fn find(name: &str, device: &Arc<Device>) -> Result<Interface, OpenError> {
        let (address, mtu, up) = (device.address(), device.mtu(), device.is_up());
        Ok(Interface { name: name.to_owned(), index: 0, address, mtu, up, carrier: up })
    }

    fn for_port(interface: &Interface, _: &SocketConfig, device: &Arc<Device>) -> Result<Self, OpenError> {
        DpdkSocket::of_pair(interface, device, 0)
    }

    fn count(_: &Interface, device: &Arc<Device>, wanted: usize) -> usize {
        wanted.min(device.queues())
    }

    /// The card deals frames out to all its queues. So `count` must be the number of the device's queues.
    fn for_threads(
        interface: &Interface,
        _: &SocketConfig,
        device: &Arc<Device>,
        count: usize,
    ) -> Result<Vec<Self>, OpenError> {
        (0..count as u16).map(|pair| DpdkSocket::of_pair(interface, device, pair)).collect()
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
        let queues = self.queues.borrow();
        if !queues.is_first() {
            return 0;
        }
        let missed = queues.device().missed();
        missed.saturating_sub(self.missed.replace(missed))
    }
}
