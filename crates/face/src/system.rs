//! Calls of the system for which rustix has no safe function: sockets of IP, some options, addresses of packet
//! sockets, network namespaces, memory nodes and the allocator.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{sock_filter, sock_fprog, sockaddr_ll};
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves this thread into a new network namespace, which has no interface but a loopback. Its sockets and the processes
/// that it starts are there too. Experiments and tests lay virtual cables in it.
///
/// # Errors
/// If the process may not.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: only the network namespace changes. All threads share one table of descriptors as before.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Descriptors that this process was started with, from number 3 on: `count` of them, `None` in the place of each that is
/// not open. Only the first call returns any.
pub fn passed_descriptors(count: usize) -> Vec<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let take = |number: c_int| {
        // SAFETY: this only asks for flags.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            return None;
        }
        // SAFETY: the descriptor is open. The standard library, and all code of this process, opens descriptors that end
        // with an exec. This one did not, so it was open when the process began, and nothing here owns it. No second
        // call takes it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        // On failure a child may get it, too.
        let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
        Some(descriptor)
    };
    (3..c_int::MAX).take(count).map(take).collect()
}

/// The processors that this process may use, in order. Empty if the system does not say.
#[cfg(target_os = "linux")]
pub(crate) fn processors() -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Empty: other systems choose themselves.
#[cfg(not(target_os = "linux"))]
pub(crate) fn processors() -> Vec<usize> {
    Vec::new()
}

/// Words in a set of memory nodes.
#[cfg(target_os = "linux")]
const NODE_WORDS: usize = 16;

/// Puts memory that this thread writes for the first time on this node, if the node has room. With `None`, memory is
/// where the thread is.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_node(node: Option<u32>) -> io::Result<()> {
    let mut nodes = [0 as libc::c_ulong; NODE_WORDS];
    let word_bits = libc::c_ulong::BITS;
    if let Some(node) = node {
        let word = nodes.get_mut((node / word_bits) as usize).ok_or(io::ErrorKind::InvalidInput)?;
        *word = 1 << (node % word_bits);
    }
    let policy = if node.is_some() { libc::MPOL_PREFERRED } else { libc::MPOL_DEFAULT };
    // The kernel reads one bit fewer than it is told.
    let bits = (nodes.len() as libc::c_ulong) * libc::c_ulong::from(word_bits) + 1;
    // SAFETY: the pointer is to a set of this many bits, less one. It lives here, and the kernel only reads it.
    let done = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), bits) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fails: other systems choose themselves.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_node(_node: Option<u32>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a socket of an address' family. A socket of IPv6 has no part in IPv4.
pub fn ip_socket(address: &SocketAddr, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, flags | SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Values of options that are numbers only: any bytes are valid, and none is a pointer.
pub(crate) trait Numbers: Copy {}
impl Numbers for c_int {}
impl Numbers for u32 {}
impl Numbers for libc::packet_mreq {}
impl Numbers for libc::tpacket_req {}
impl Numbers for libc::tpacket_stats {}

/// Sets an option that rustix does not know.
pub(crate) fn set_option<T: Numbers>(socket: impl AsFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value has no pointers.
    unsafe { set_any_option(socket, level, option, value) }
}

/// Reads an option that rustix does not know.
pub(crate) fn option<T: Numbers>(socket: impl AsFd, level: c_int, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointers are to `value`, whose length `len` holds, and to `len`. Both live here.
    let done = unsafe { libc::getsockopt(fd, level, option, value.as_mut_ptr().cast(), &raw mut len) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the value was zero, and the kernel has written part or all of it. Any bytes are valid.
    Ok(unsafe { value.assume_init() })
}

/// Makes a socket use only the interface of this name.
pub(crate) fn bind_to_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    // SAFETY: the value is a name, without pointers.
    unsafe { set_any_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes()) }
}

/// Lets a socket receive only what this program passes.
pub(crate) fn attach_filter(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Lets a program choose which of the sockets that share this socket's address gets a packet: it returns the number of
/// the socket in the order of their binding.
pub(crate) fn steer(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Lets a program choose which packet socket of this socket's fanout group gets a frame: it returns the number of the
/// socket in the order of their joining.
pub(crate) fn steer_frames(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    attach(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, program)
}

/// Attaches a program. `option` must be one that takes a program.
fn attach(socket: impl AsFd, level: c_int, option: c_int, program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the pointer is to `len` instructions that live during the call, and the kernel only reads them.
    unsafe { set_any_option(socket, level, option, &program) }
}

/// Sets an option.
///
/// # Safety
/// If the value has pointers, the option must take such a value, and what they point to must live.
unsafe fn set_any_option<T: ?Sized>(socket: impl AsFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (at, len) = (std::ptr::from_ref(value), size_of_val(value) as libc::socklen_t);
    // SAFETY: the pointer is to `len` bytes that live here, and the kernel only reads them. The caller guarantees what
    // they point to.
    let done = unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, at.cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Address of a packet socket: an interface and an EtherType.
pub(crate) struct LinkAddress(sockaddr_ll);

impl LinkAddress {
    pub(crate) fn new(interface: u32, ether_type: u16) -> Self {
        LinkAddress(sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ether_type.to_be(),
            sll_ifindex: interface as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        })
    }
}

// SAFETY: the pointer is to an address of this length, which lives as long as `self`.
unsafe impl SocketAddrArg for LinkAddress {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f((&raw const self.0).cast(), size_of_val(&self.0) as SocketAddrLen)
    }
}

/// Gives free memory back to the system, where the allocator offers that. It takes milliseconds for hundreds of MiB.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call malloc_trim(3) at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
