//! Devices that drivers of DPDK move frames of, by way of a shim in C (`shim.c`).
//!
//! A device has a receive queue and a transmit queue, which one thread at a time may use: whoever has its
//! [`Queues`]. Frames are in buffers of the device's own pool; each is in one place at a time: with the driver,
//! or in one of the two bursts of `Queues`, or free.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::io;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Settings;
use crate::ethernet::socket::Arrival;
use crate::mac_address::MacAddress;

/// Most frames that pass in one call; as in the shim.
pub(super) const BURST: usize = 64;

/// A pool of the shim's, or a buffer.
enum Opaque {}

#[repr(C)]
struct RawSettings {
    mtu: u16,
    receive_slots: u16,
    transmit_slots: u16,
    promiscuous: bool,
    all_groups: bool,
    has_group: bool,
    group: [u8; 6],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct RawDevice {
    pool: *mut Opaque,
    port: u16,
    mtu: u16,
    address: [u8; 6],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct RawFrame {
    buffer: *mut Opaque,
    octets: *mut u8,
    len: u32,
    is_whole: bool,
    is_tagged: bool,
}

const NO_FRAME: RawFrame =
    RawFrame { buffer: null_mut(), octets: null_mut(), len: 0, is_whole: false, is_tagged: false };

// SAFETY: as `shim.c` has them.
unsafe extern "C" {
    fn byname_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    safe fn byname_dpdk_enter();
    safe fn byname_dpdk_leave();
    fn byname_dpdk_open(name: *const c_char, settings: *const RawSettings, device: *mut RawDevice) -> c_int;
    fn byname_dpdk_close(device: *mut RawDevice);
    fn byname_dpdk_is_up(port: u16) -> c_int;
    fn byname_dpdk_missed(port: u16) -> u64;
    fn byname_dpdk_receive(port: u16, frames: *mut RawFrame) -> u32;
    fn byname_dpdk_allocate(pool: *mut Opaque, frame: *mut RawFrame) -> c_int;
    fn byname_dpdk_transmit(port: u16, frames: *const RawFrame, count: u32) -> u32;
    fn byname_dpdk_free(frames: *const RawFrame, count: u32);
}

/// Whether DPDK's environment runs; or the error number with which it could not be started. That can be tried
/// once in a process.
static STARTED: OnceLock<Result<(), i32>> = OnceLock::new();
/// Held where devices come and go.
static DEVICES: Mutex<()> = Mutex::new(());

/// DPDK's environment, which runs until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Environment(());

impl Environment {
    /// Starts it with these arguments, the first of which is its name for the program; says how it went if it was
    /// started before.
    pub(super) fn with_arguments(arguments: Vec<CString>) -> io::Result<Self> {
        let started = STARTED.get_or_init(|| {
            // For ever, as EAL keeps what it was given.
            let pointers = Vec::leak(arguments.into_iter().map(CString::into_raw).collect::<Vec<*mut c_char>>());
            // SAFETY: so many pointers to strings that nobody else has, and that live on.
            match unsafe { byname_dpdk_start(pointers.len() as c_int, pointers.as_mut_ptr()) } {
                0 => Ok(()),
                error => Err(-error),
            }
        });
        started.map(Environment).map_err(io::Error::from_raw_os_error)
    }
}

/// A device that is open. It is closed when the last who has it lets go of it.
pub struct Device {
    raw: RawDevice,
    /// Somebody has its queues.
    taken: AtomicBool,
}

// SAFETY: what the pointer in `raw` leads to is DPDK's, which allows its use by any thread; who may use the queues
// is settled by `taken`.
unsafe impl Send for Device {}
// SAFETY: as above; `raw` does not change.
unsafe impl Sync for Device {}

impl Device {
    /// Finds and starts a device.
    pub(super) fn with_settings(_: Environment, settings: &Settings) -> io::Result<Self> {
        let name = CString::new(settings.device.as_str())?;
        let group = settings.group.unwrap_or(MacAddress([0; 6])).0;
        let wanted = RawSettings {
            mtu: settings.mtu,
            receive_slots: settings.receive_slots,
            transmit_slots: settings.transmit_slots,
            promiscuous: settings.promiscuous,
            all_groups: settings.all_groups,
            has_group: settings.group.is_some(),
            group,
        };
        let mut raw = RawDevice { pool: null_mut(), port: 0, mtu: 0, address: [0; 6] };
        let _guard = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the environment runs, as we were shown; all three pointers are to what lives here.
        match unsafe { byname_dpdk_open(name.as_ptr(), &raw const wanted, &raw mut raw) } {
            0 => Ok(Device { raw, taken: AtomicBool::new(false) }),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// Its MAC address.
    pub fn address(&self) -> MacAddress {
        MacAddress(self.raw.address)
    }

    /// Longest payload of a frame, in octets.
    pub fn mtu(&self) -> usize {
        usize::from(self.raw.mtu)
    }

    /// Whether there is somebody at its other end, as far as its driver can tell.
    pub fn is_up(&self) -> bool {
        // SAFETY: the device is open as long as this lives.
        unsafe { byname_dpdk_is_up(self.raw.port) == 1 }
    }

    /// Frames that it heard and that nobody took in time, since it was opened.
    pub fn missed(&self) -> u64 {
        // SAFETY: as above.
        unsafe { byname_dpdk_missed(self.raw.port) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _guard = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the device is open, and nobody uses its queues: `Queues` would hold it.
        unsafe { byname_dpdk_close(&raw mut self.raw) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("port", &self.raw.port).finish_non_exhaustive()
    }
}

/// A thread that DPDK knows, and gives a cache of buffers of its own.
struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        byname_dpdk_leave();
    }
}

thread_local! {
    static ENTERED: Entered = {
        byname_dpdk_enter();
        Entered
    };
}

/// The queues of a device, for whoever has this.
pub(super) struct Queues {
    device: Arc<Device>,
    input: [RawFrame; BURST],
    /// Which of `input` are frames that were received.
    first: usize,
    end: usize,
    output: [RawFrame; BURST],
    /// How many of `output` are to be sent.
    filled: usize,
    /// The one behind these is a new buffer.
    has_spare: bool,
}

// SAFETY: buffers are no thread's in particular, and these are held by nobody else.
unsafe impl Send for Queues {}

impl Queues {
    /// The queues, unless somebody has them.
    pub(super) fn take(device: &Arc<Device>) -> Option<Self> {
        let is_free = !device.taken.swap(true, Ordering::Acquire);
        is_free.then(|| Queues {
            device: Arc::clone(device),
            input: [NO_FRAME; BURST],
            first: 0,
            end: 0,
            output: [NO_FRAME; BURST],
            filled: 0,
            has_spare: false,
        })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Asks the driver for frames, if none is left of those that it gave before; how many are here now.
    pub(super) fn poll(&mut self) -> usize {
        if self.first == self.end {
            ENTERED.with(|_| {});
            // SAFETY: there is room for `BURST` frames, none of which holds a buffer any more. The queue is ours
            // (`taken`), and the device open as long as we hold it.
            self.end = unsafe { byname_dpdk_receive(self.device.raw.port, self.input.as_mut_ptr()) } as usize;
            self.first = 0;
        }
        self.end - self.first
    }

    /// The frames that are here.
    pub(super) fn frames(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.input[self.first..self.end].iter().map(|frame| Arrival {
            // SAFETY: the shim gives each with its octets, which are in a buffer that nobody else has, until
            // `free` gives it back; that takes `&mut self`.
            octets: unsafe { slice::from_raw_parts(frame.octets, frame.len as usize) },
            cut: !frame.is_whole,
            elsewhere: frame.is_tagged,
            vlan: None,
            offloaded: false,
        })
    }

    /// Gives the first `count` frames back.
    pub(super) fn free(&mut self, count: usize) {
        let (frames, _) = self.input[self.first..self.end].split_at(count);
        // SAFETY: these hold buffers, which are not met again, as `first` moves behind them.
        unsafe { byname_dpdk_free(frames.as_ptr(), count as u32) };
        self.first += count;
    }

    /// Whether another frame can be written.
    pub(super) fn has_room(&mut self) -> bool {
        if self.filled == BURST {
            self.send();
        }
        if self.filled < BURST && !self.has_spare {
            ENTERED.with(|_| {});
            let spare = &raw mut self.output[self.filled];
            // SAFETY: the pool is the device's, and lives as long; the frame written to holds no buffer.
            self.has_spare = unsafe { byname_dpdk_allocate(self.device.raw.pool, spare) == 1 };
        }
        self.has_spare
    }

    /// Writes a frame to be sent, in parts; false if it is too long for a buffer.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn put(&mut self, parts: [&[u8]; 3]) -> bool {
        assert!(self.has_spare, "whoever puts has asked for room");
        let frame = &mut self.output[self.filled];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > frame.len as usize {
            return false;
        }
        let mut to = frame.octets;
        for part in parts {
            // SAFETY: the parts together are no longer than what there is room for, in a buffer that nobody else
            // has.
            unsafe {
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                to = to.add(part.len());
            }
        }
        frame.len = len as u32;
        self.filled += 1;
        self.has_spare = false;
        true
    }

    /// How many frames wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.filled
    }

    /// Has the driver take what waits; how many are left.
    pub(super) fn send(&mut self) -> usize {
        if self.filled > 0 {
            ENTERED.with(|_| {});
            // SAFETY: these hold buffers with octets that were written. The driver has those that it takes, which
            // are overwritten here. The queue is ours, and the device open.
            let taken = unsafe { byname_dpdk_transmit(self.device.raw.port, self.output.as_ptr(), self.filled as u32) };
            let held = self.filled + usize::from(self.has_spare);
            self.output.copy_within(taken as usize..held, 0);
            self.filled -= taken as usize;
        }
        self.filled
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.free(self.end - self.first);
        let held = self.filled + usize::from(self.has_spare);
        // SAFETY: these hold buffers, and are not met again.
        unsafe { byname_dpdk_free(self.output.as_ptr(), held as u32) };
        self.device.taken.store(false, Ordering::Release);
    }
}
