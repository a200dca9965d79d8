//! Finds the process that holds an address, as far as /proc shows it.
//!
//! /proc/net lists sockets with their inodes. ``/proc/PID/fd`` shows which process has an inode open, for the processes
//! that this user may inspect.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// A kind of socket that is bound to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP, listening.
    Tcp,
}

impl Protocol {
    fn tables(self) -> [&'static str; 2] {
        match self {
            Protocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
            Protocol::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        }
    }

    /// A command that shows the process even if this user may not inspect it.
    fn command(self, port: u16) -> String {
        let option = match self {
            Protocol::Udp => 'u',
            Protocol::Tcp => 't',
        };
        format!("sudo ss -l{option}np 'sport = :{port}'")
    }
}

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Returns the process that holds the port on an address that overlaps with `wanted`.
pub fn holder_of(protocol: Protocol, wanted: SocketAddr) -> Option<Process> {
    let tables = protocol.tables().into_iter().filter_map(|path| fs::read_to_string(path).ok());
    let inode = tables.into_iter().find_map(|table| inode_in(&table, protocol, wanted))?;
    process_with(inode, Path::new("/proc"))
}

/// Tells the user why `wanted` is not available, and what to do.
pub fn explain(protocol: Protocol, wanted: SocketAddr) -> String {
    let what = match protocol {
        Protocol::Udp => "UDP",
        Protocol::Tcp => "TCP",
    };
    let port = wanted.port();
    match holder_of(protocol, wanted) {
        Some(Process { pid, name }) if name == "byname" => format!(
            "{what} port {port} is in use by another byname (process {pid}): `byname status` shows it, \
             `kill {pid}` ends it; to run two, give this one a configuration with other ports (`byname default-config`)"
        ),
        Some(Process { pid, name }) => format!(
            "{what} port {port} is in use by {name} (process {pid}): end it, or choose another port in a \
             configuration (`byname default-config`)"
        ),
        None => format!(
            "{what} port {port} is in use by a process that this user may not see; `{}` shows it",
            protocol.command(port)
        ),
    }
}

/// The inode of the socket in a /proc/net table that overlaps with `wanted`.
fn inode_in(table: &str, protocol: Protocol, wanted: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let local = parse_address(fields.nth(1)?)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        // A TCP socket blocks a listener only in state LISTEN.
        let holds = protocol == Protocol::Udp || state == "0A";
        let same = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
        (holds && local.port() == wanted.port() && same(local.ip(), wanted.ip())).then_some(inode)
    })
}

/// Parses an address as the kernel writes it: hexadecimal 32-bit words in this machine's byte order.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |i: usize| u32::from_str_radix(address.get(i..i + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes: [u8; 16] = [word(0)?, word(8)?, word(16)?, word(24)?].concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// The process that has the socket with this inode open.
fn process_with(inode: u64, proc: &Path) -> Option<Process> {
    let wanted = format!("socket:[{inode}]");
    fs::read_dir(proc).ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let descriptors = fs::read_dir(entry.path().join("fd")).ok()?;
        let has_it = descriptors
            .flatten()
            .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == &*wanted));
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        has_it.then(|| Process { pid, name: name.trim_end().to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        if cfg!(target_endian = "little") {
            assert_eq!(parse_address("0100007F:18DB"), Some("127.0.0.1:6363".parse().expect("an address")));
            assert_eq!(
                parse_address("00000000000000000000000001000000:25E0"),
                Some("[::1]:9696".parse().expect("an address"))
            );
        }
        assert_eq!(parse_address("0100007F"), None);
        assert_eq!(parse_address("zz00007F:1"), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id();
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let tcp = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let udp_port = udp.local_addr().expect("bound").port();
        let tcp_port = tcp.local_addr().expect("bound").port();
        let wanted = |port| SocketAddr::from(([0, 0, 0, 0], port));
        assert_eq!(holder_of(Protocol::Udp, wanted(udp_port)).map(|p| p.pid), Some(me));
        assert_eq!(holder_of(Protocol::Tcp, wanted(tcp_port)).map(|p| p.pid), Some(me));
        assert!(explain(Protocol::Udp, wanted(udp_port)).contains(&format!("process {me}")));
    }

    #[test]
    fn another_address_is_not_in_the_way() {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let other = SocketAddr::from(([127, 0, 0, 2], udp.local_addr().expect("bound").port()));
        assert_eq!(holder_of(Protocol::Udp, other), None);
    }
}
