//! Checks that compare settings with each other: each value may be valid while the combination is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Config, Ethernet, Finding, Memif, MemifRole};
use crate::fib_writer::FibEngineKind;
use crate::own_names::{is_own_name, localhop_prefix};

/// A setting that makes the router listen on a port.
struct Listener {
    /// Key of the port setting.
    key: &'static str,
    /// Table of the setting, for messages.
    table: &'static str,
    addresses: Vec<SocketAddr>,
}

impl Listener {
    fn new(key: &'static str, table: &'static str, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Listener { key, table, addresses: addresses.into_iter().collect() }
    }

    /// A port on which both would listen.
    fn shared_port(&self, other: &Listener) -> Option<u16> {
        let pairs = self.addresses.iter().flat_map(|a| other.addresses.iter().map(move |b| (a, b)));
        let same =
            |a: IpAddr, b: IpAddr| a.is_ipv4() == b.is_ipv4() && (a == b || a.is_unspecified() || b.is_unspecified());
        let mut shared = pairs.filter(|(a, b)| a.port() == b.port() && a.port() != 0 && same(a.ip(), b.ip()));
        shared.next().map(|(a, _)| a.port())
    }
}

/// The wildcard addresses of the enabled families.
fn any(listen: bool, port: u16, ipv4: bool, ipv6: bool) -> impl Iterator<Item = SocketAddr> {
    let v4 = (listen && ipv4).then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let v6 = (listen && ipv6).then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    v4.into_iter().chain(v6).map(move |ip| SocketAddr::new(ip, port))
}

impl Config {
    /// All contradictions between settings.
    pub fn contradictions(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_reach(&mut findings);
        self.check_ports(&mut findings);
        self.check_ethernet(&mut findings);
        self.check_sockets(&mut findings);
        self.check_routes(&mut findings);
        if self.bulk_table().is_some() && self.tables.fib != FibEngineKind::Compact {
            findings.push(Finding::fatal(
                "tables.bulk",
                "only the engine \"compact\" has such files: set `fib = \"compact\"`",
            ));
        }
        self.check_flat(&mut findings);
        if self.threads.shared_pit && !self.threads.heavy_hitters {
            findings.push(Finding::warning(
                "threads.shared_pit",
                "threads share PIT entries only of hot names, which are turned off: set `heavy_hitters = true`",
            ));
        }
        findings.extend(self.rib.propagate.check().err().map(|problem| Finding::fatal("rib.propagate", problem)));
        self.check_routing(&mut findings);
        self.check_tls(&mut findings);
        findings.extend(self.check_tags().err().map(|problem| Finding::fatal("tags", problem)));
        findings
    }

    /// Checks that the router is reachable by some transport.
    fn check_reach(&self, findings: &mut Vec<Finding>) {
        let faces = &self.faces;
        let any = faces.unix.listen || faces.udp.listen || faces.tcp.listen || faces.websocket.listen;
        let any = any || faces.wss.listen || faces.quic.listen;
        let any = any || faces.ethernet.iter().any(|e| e.listen || e.multicast || !e.udp.is_empty());
        if !any && faces.memif.is_empty() && self.initial_faces.is_empty() {
            findings.push(Finding::fatal(
                "faces",
                "no transport listens and there is no [[face]]: nobody could reach this router; \
                 set `listen = true` under [faces.unix]",
            ));
        }
        for (transport, listen, v4, v6) in [
            ("udp", faces.udp.listen, faces.udp.ipv4, faces.udp.ipv6),
            ("tcp", faces.tcp.listen, faces.tcp.ipv4, faces.tcp.ipv6),
            ("websocket", faces.websocket.listen, faces.websocket.ipv4, faces.websocket.ipv6),
            ("wss", faces.wss.listen, faces.wss.ipv4, faces.wss.ipv6),
            ("quic", faces.quic.listen, faces.quic.ipv4, faces.quic.ipv6),
        ] {
            if listen && !v4 && !v6 {
                let text = format!(
                    "[faces.{transport}] listens, but neither on ipv4 nor on ipv6: set `listen = false`, \
                     or one of `ipv4` and `ipv6` to true"
                );
                findings.push(Finding::fatal(format!("faces.{transport}"), text));
            }
        }
    }

    /// Checks that no two listeners use one port.
    fn check_ports(&self, findings: &mut Vec<Finding>) {
        let (tcp, websocket, wss) = (&self.faces.tcp, &self.faces.websocket, &self.faces.wss);
        let (udp, quic) = (&self.faces.udp, &self.faces.quic);
        if udp.listen && quic.listen && udp.port == quic.port {
            let text = format!("[faces.udp] and [faces.quic] both use UDP port {}: change one", udp.port);
            findings.push(Finding::fatal("faces.quic.port", text));
        }
        let metrics = self.metrics.enabled.then_some(self.metrics.listen);
        let listeners = [
            Listener::new("faces.tcp.port", "[faces.tcp]", any(tcp.listen, tcp.port, tcp.ipv4, tcp.ipv6)),
            Listener::new(
                "faces.websocket.port",
                "[faces.websocket]",
                any(websocket.listen, websocket.port, websocket.ipv4, websocket.ipv6),
            ),
            Listener::new("faces.wss.port", "[faces.wss]", any(wss.listen, wss.port, wss.ipv4, wss.ipv6)),
            Listener::new("metrics.listen", "[metrics]", metrics),
        ];
        for (n, listener) in listeners.iter().enumerate() {
            for other in &listeners[..n] {
                if let Some(port) = other.shared_port(listener) {
                    let text = format!("{} and {} both use TCP port {port}: change one", other.table, listener.table);
                    findings.push(Finding::fatal(listener.key, text));
                }
            }
        }
    }

    /// Checks that no route takes names of management.
    fn check_routes(&self, findings: &mut Vec<Finding>) {
        for (n, route) in self.initial_routes.iter().enumerate() {
            if is_own_name(route.prefix.as_ref()) && route.prefix != localhop_prefix() {
                let text = format!(
                    "the [[route]] {} is for names of this router's management: leave it out; \
                     only /localhop/nfd itself may lead to another router, the hub",
                    route.prefix
                );
                findings.push(Finding::fatal(format!("route.{n}.prefix"), text));
            }
        }
    }

    fn check_ethernet(&self, findings: &mut Vec<Finding>) {
        for (n, ethernet) in self.faces.ethernet.iter().enumerate() {
            let name = &ethernet.interface;
            let key = format!("faces.ethernet.{n}.interface");
            if self.faces.ethernet[..n].iter().any(|other| other.interface == *name) {
                findings.push(Finding::fatal(&key, format!("{name} has two [[faces.ethernet]]: leave one out")));
            }
            findings.extend(Ethernet::check(ethernet).err().map(|problem| Finding::fatal(key, problem)));
        }
    }

    /// Checks that no two users share one socket path.
    fn check_sockets(&self, findings: &mut Vec<Finding>) {
        let memif = &self.faces.memif;
        for (n, one) in memif.iter().enumerate() {
            let key = format!("faces.memif.{n}.socket");
            let socket = one.socket.display();
            let is_server = one.role == MemifRole::Server;
            let taken = |other: &Memif| {
                other.socket == one.socket && other.role == one.role && (is_server || other.id == one.id)
            };
            if memif[..n].iter().any(taken) {
                let text = match one.role {
                    MemifRole::Server => {
                        format!("two [[faces.memif]] listen on {socket}: give each server a `socket` of its own")
                    }
                    MemifRole::Client => {
                        format!("two [[faces.memif]] are client {} of {socket}: give each its own `id`", one.id)
                    }
                };
                findings.push(Finding::fatal(&key, text));
            }
            if self.faces.unix.listen && self.faces.unix.path == one.socket {
                let text = format!("[faces.unix] and [[faces.memif]] both use the socket {socket}: change one");
                findings.push(Finding::fatal(&key, text));
            }
            findings.extend(Memif::check(one).err().map(|problem| Finding::fatal(key, problem)));
        }
    }
}
