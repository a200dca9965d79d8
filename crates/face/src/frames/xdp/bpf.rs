//! Programs in the kernel: the few calls of bpf(2) that a port needs. Their results are descriptors, and closing these
//! undoes everything.
//!
//! A loader library is not used: loaders read the object files of compilers, and a port's program has two dozen
//! instructions that depend on the interface's address (`program`).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

/// Name that `bpftool` shows.
const NAME: [u8; 16] = *b"byname\0\0\0\0\0\0\0\0\0\0";

/// An instruction in the kernel's format of eight bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination in the lower four bits, source in the upper four.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) value: i32,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    /// Padding to a multiple of the union's alignment.
    rest: u32,
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    rest: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Map from the number of a receive queue to the socket that takes its frames.
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        let four = size_of::<u32>() as u32;
        let request = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_size: four,
            value_size: four,
            max_entries: queues,
            map_flags: 0,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: NAME,
            rest: 0,
        };
        // SAFETY: this command takes such a request, which points to nothing.
        unsafe { create(MAP_CREATE, &request) }.map(SocketMap)
    }

    /// Passes a queue's frames to a socket.
    pub(super) fn set(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let socket = socket as u32;
        let request = MapUpdate {
            map_fd: self.as_raw_fd() as u32,
            rest: 0,
            key: (&raw const queue).addr() as u64,
            value: (&raw const socket).addr() as u64,
            flags: 0,
        };
        // SAFETY: this command takes such a request. It reads a key and a value of four bytes each, as the map was
        // created, and both live here.
        unsafe { command(MAP_UPDATE_ELEM, &request) }.map(drop)
    }
}

impl AsRawFd for SocketMap {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A program that runs for each frame that an interface hears, until this is dropped.
pub(super) struct Attached {
    _link: OwnedFd,
}

impl Attached {
    /// Loads a program and attaches it, in the driver (`native`) or after it.
    pub(super) fn new(instructions: &[Instruction], interface: u32, native: bool) -> io::Result<Self> {
        // The kernel's name for our licence.
        let license = c"Dual MIT/GPL";
        let request = ProgramLoad {
            prog_type: PROG_TYPE_XDP,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr().addr() as u64,
            license: license.as_ptr().addr() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: 0,
            prog_name: NAME,
            prog_ifindex: 0,
            expected_attach_type: ATTACH_TYPE_XDP,
        };
        // SAFETY: this command takes such a request. It reads the given number of instructions, and the licence up to
        // its zero. All live here.
        let program = unsafe { create(PROG_LOAD, &request) }?;
        let request = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: interface,
            attach_type: ATTACH_TYPE_XDP,
            flags: if native { FLAG_NATIVE } else { FLAG_GENERIC },
        };
        // SAFETY: this command takes such a request, which points to nothing.
        unsafe { create(LINK_CREATE, &request) }.map(|link| Attached { _link: link })
    }
}

/// Runs a command that creates a descriptor.
///
/// # Safety
/// As for [`command`], and the command must create a descriptor.
unsafe fn create<T>(number: c_int, request: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees the conditions of `command`.
    let fd = unsafe { command(number, request) }?;
    // SAFETY: the call has succeeded, and has created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs a command of bpf(2).
///
/// # Safety
/// `T` must be this command's request or the start of it, and what it points to must live.
unsafe fn command<T>(number: c_int, request: &T) -> io::Result<c_int> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes, which live here, and takes the rest as zeros. The caller
    // guarantees what they point to.
    let done = unsafe { libc::syscall(libc::SYS_bpf, number, std::ptr::from_ref(request), size_of::<T>() as c_uint) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as c_int) }
}
