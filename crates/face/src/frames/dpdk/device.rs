//! Devices whose frames DPDK drivers move, through a shim in C (`shim.c`).
//!
//! A device has pairs of a receive queue and a transmit queue. Only one thread at a time may use a pair: the owner of
//! its [`Queues`]. Frames are in buffers of the device's own pool. Each buffer is always in one place: with the driver,
//! in one of the two bursts of `Queues`, or free.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::io;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Settings;
use crate::frames::socket::Arrival;
use crate::mac_address::MacAddress;

/// Maximum number of frames in one call; the same as in the shim.
pub(super) const BURST: usize = 64;

/// A pool or a buffer of the shim.
enum Opaque {}

#[repr(C)]
struct RawSettings {
    mtu: u16,
    receive_slots: u16,
    transmit_slots: u16,
    queues: u16,
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
    queues: u16,
    address: [u8; 6],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct RawFrame {
    buffer: *mut Opaque,
    bytes: *mut u8,
    len: u32,
    is_whole: bool,
    is_tagged: bool,
}

const NO_FRAME: RawFrame =
    RawFrame { buffer: null_mut(), bytes: null_mut(), len: 0, is_whole: false, is_tagged: false };

// SAFETY: the declarations match those in `shim.c`.
unsafe extern "C" {
    fn byname_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    safe fn byname_dpdk_enter();
    safe fn byname_dpdk_leave();
    fn byname_dpdk_open(name: *const c_char, settings: *const RawSettings, device: *mut RawDevice) -> c_int;
    fn byname_dpdk_close(device: *mut RawDevice);
    fn byname_dpdk_is_up(port: u16) -> c_int;
    fn byname_dpdk_missed(port: u16) -> u64;
    fn byname_dpdk_receive(port: u16, queue: u16, frames: *mut RawFrame) -> u32;
    fn byname_dpdk_allocate(pool: *mut Opaque, frame: *mut RawFrame) -> c_int;
    fn byname_dpdk_transmit(port: u16, queue: u16, frames: *const RawFrame, count: u32) -> u32;
    fn byname_dpdk_free(frames: *const RawFrame, count: u32);
}

/// Result of starting DPDK's environment, or the error number. It can be tried only once in a process.
static STARTED: OnceLock<Result<(), i32>> = OnceLock::new();
/// Locked while devices are opened or closed.
static DEVICES: Mutex<()> = Mutex::new(());

/// DPDK's environment, which runs until the process ends.
#[derive(Debug, Clone, Copy)]
pub struct Environment(());

impl Environment {
    /// Starts the environment with these arguments. The first is the program's name for it. If it was started before,
    /// returns that result.
    pub(super) fn with_arguments(arguments: Vec<CString>) -> io::Result<Self> {
        let started = STARTED.get_or_init(|| {
            // Leaked, because EAL keeps its arguments.
            let pointers = Vec::leak(arguments.into_iter().map(CString::into_raw).collect::<Vec<*mut c_char>>());
            // SAFETY: the pointers are to strings that nobody else holds and that are never freed, and their number is
            // right.
            match unsafe { byname_dpdk_start(pointers.len() as c_int, pointers.as_mut_ptr()) } {
                0 => Ok(()),
                error => Err(-error),
            }
        });
        started.map(Environment).map_err(io::Error::from_raw_os_error)
    }
}

/// An open device. It is closed when its last holder drops it.
pub struct Device {
    raw: RawDevice,
    /// For each pair of queues, whether somebody holds it.
    taken: Box<[AtomicBool]>,
}

// SAFETY: the pointer in `raw` leads to DPDK's data, which any thread may use. `taken` decides who may use the queues.
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
            queues: settings.queues,
            promiscuous: settings.promiscuous,
            all_groups: settings.all_groups,
            has_group: settings.group.is_some(),
            group,
        };
        let mut raw = RawDevice { pool: null_mut(), port: 0, mtu: 0, queues: 0, address: [0; 6] };
        let _guard = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the environment runs, as the argument proves. All three pointers are to values that live here.
        match unsafe { byname_dpdk_open(name.as_ptr(), &raw const wanted, &raw mut raw) } {
            0 => Ok(Device { raw, taken: (0..raw.queues).map(|_| AtomicBool::new(false)).collect() }),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    /// MAC address of the device.
    pub fn address(&self) -> MacAddress {
        MacAddress(self.raw.address)
    }

    /// Longest payload of a frame, in bytes.
    pub fn mtu(&self) -> usize {
        usize::from(self.raw.mtu)
    }

    /// Number of its pairs of queues.
    pub fn queues(&self) -> usize {
        self.taken.len()
    }

    /// Whether the device has a link, as far as its driver can tell.
    pub fn is_up(&self) -> bool {
        // SAFETY: the device is open as long as `self` lives.
        unsafe { byname_dpdk_is_up(self.raw.port) == 1 }
    }

    /// Frames that were lost since it was opened, because nobody took them in time.
    pub fn missed(&self) -> u64 {
        // SAFETY: as above.
        unsafe { byname_dpdk_missed(self.raw.port) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _guard = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the device is open, and nobody uses its queues: each `Queues` would hold the device.
        unsafe { byname_dpdk_close(&raw mut self.raw) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("port", &self.raw.port).finish_non_exhaustive()
    }
}

/// Registers a thread with DPDK, which gives it a cache of buffers.
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

/// Exclusive access to a pair of queues of a device.
pub(super) struct Queues {
    device: Arc<Device>,
    /// Number of the pair.
    pair: u16,
    input: [RawFrame; BURST],
    /// Range of `input` that holds received frames.
    first: usize,
    end: usize,
    output: [RawFrame; BURST],
    /// Number of frames in `output` that wait to be sent.
    filled: usize,
    /// Whether a new buffer follows these frames.
    has_spare: bool,
}

// SAFETY: buffers belong to no particular thread, and nobody else holds these.
unsafe impl Send for Queues {}

impl Queues {
    /// Takes a pair of queues, unless somebody holds it or there is no such pair.
    pub(super) fn take(device: &Arc<Device>, pair: u16) -> Option<Self> {
        let is_free = !device.taken.get(usize::from(pair))?.swap(true, Ordering::Acquire);
        is_free.then(|| Queues {
            device: Arc::clone(device),
            pair,
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

    /// Whether this is the first pair.
    pub(super) fn is_first(&self) -> bool {
        self.pair == 0
    }

    /// Asks the driver for frames if none of the earlier ones is left. Returns the number of frames here.
    pub(super) fn poll(&mut self) -> usize {
        if self.first == self.end {
            ENTERED.with(|_| {});
            let (port, pair) = (self.device.raw.port, self.pair);
            // SAFETY: there is room for `BURST` frames, none of which still holds a buffer. The queue is ours
            // (`taken`), and the device is open as long as we hold it.
            self.end = unsafe { byname_dpdk_receive(port, pair, self.input.as_mut_ptr()) } as usize;
            self.first = 0;
        }
        self.end - self.first
    }

    /// The received frames.
    pub(super) fn frames(&self) -> impl Iterator<Item = Arrival<'_>> {
        self.input[self.first..self.end].iter().map(|frame| Arrival {
            // SAFETY: the shim gives each frame with its bytes. They are in a buffer that nobody else holds, until
            // `free` gives it back, which takes `&mut self`.
            bytes: unsafe { slice::from_raw_parts(frame.bytes, frame.len as usize) },
            cut: !frame.is_whole,
            elsewhere: frame.is_tagged,
            vlan: None,
            offloaded: false,
        })
    }

    /// Gives the first `count` frames back.
    pub(super) fn free(&mut self, count: usize) {
        let (frames, _) = self.input[self.first..self.end].split_at(count);
        // SAFETY: these frames hold buffers, and are not used again because `first` moves past them.
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
            // SAFETY: the pool belongs to the device and lives as long. The frame that is overwritten holds no buffer.
            self.has_spare = unsafe { byname_dpdk_allocate(self.device.raw.pool, spare) == 1 };
        }
        self.has_spare
    }

    /// Writes a frame to be sent, in parts. Returns false if it is too long for a buffer.
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
        let mut to = frame.bytes;
        for part in parts {
            // SAFETY: the parts together fit into the buffer, which nobody else holds.
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

    /// Number of frames that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.filled
    }

    /// Makes the driver take waiting frames. Returns how many are left.
    pub(super) fn send(&mut self) -> usize {
        if self.filled > 0 {
            ENTERED.with(|_| {});
            let port = self.device.raw.port;
            // SAFETY: these frames hold buffers with written bytes. The driver owns those that it takes, and their
            // entries are overwritten here. The queue is ours, and the device is open.
            let taken = unsafe { byname_dpdk_transmit(port, self.pair, self.output.as_ptr(), self.filled as u32) };
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
        // SAFETY: these frames hold buffers, and are not used again.
        unsafe { byname_dpdk_free(self.output.as_ptr(), held as u32) };
        self.device.taken[usize::from(self.pair)].store(false, Ordering::Release);
    }
}
