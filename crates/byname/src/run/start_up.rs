//! The table that `byname run` prints after its start.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::handover::Taken;
use super::socket_path::SYSTEM_SOCKET;

/// The contents of the table.
#[derive(Debug, Clone, Default)]
pub struct StartUp {
    /// Process id.
    pub pid: u32,
    /// Path of the configuration; `None`: defaults.
    pub config: Option<PathBuf>,
    /// UDP addresses.
    pub udp: Vec<SocketAddr>,
    /// Multicast groups.
    pub multicast: Vec<SocketAddr>,
    /// Ethernet interfaces.
    pub ethernet: Vec<String>,
    /// Shared-memory interfaces.
    pub memif: Vec<String>,
    /// TCP addresses.
    pub tcp: Vec<SocketAddr>,
    /// WebSocket addresses.
    pub websocket: Vec<SocketAddr>,
    /// Addresses of WebSocket over TLS.
    pub wss: Vec<SocketAddr>,
    /// Addresses of WebTransport.
    pub quic: Vec<SocketAddr>,
    /// SHA-256 fingerprint of the certificate of these, in Base64.
    pub certificate: Option<String>,
    /// The Unix socket.
    pub unix: Option<PathBuf>,
    /// Who may send commands.
    pub management: String,
    /// Maximum number of pending Interests.
    pub pit_entries: usize,
    /// Maximum number of packets in the content store.
    pub cs_packets: usize,
    /// Maximum memory of the content store, in bytes.
    pub cs_bytes: usize,
    /// Maximum number of routes.
    pub routes_max: usize,
    /// Address of the metrics server.
    pub metrics: Option<SocketAddr>,
    /// Whether this server has the dashboard, too.
    pub dashboard: bool,
    /// Numbers of faces and routes from the configuration.
    pub initial: (usize, usize),
    /// What came from another process.
    pub taken: Option<Taken>,
    /// The file of the state that survives a restart.
    pub state: Option<PathBuf>,
    /// The router's name, if it takes part in routing.
    pub routing: Option<String>,
    /// Failures that are not fatal.
    pub notes: Vec<String>,
}

impl StartUp {
    /// Formats the table.
    pub fn render(&self) -> String {
        let mut out = format!("byname {} runs (process {})\n\n", env!("BYNAME_VERSION"), self.pid);
        let mut row = |label: &str, value: String| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "  {label:<12}{value}");
        };
        row("UDP", list(&self.udp));
        if !self.multicast.is_empty() {
            row("Multicast", list(&self.multicast));
        }
        if !self.ethernet.is_empty() {
            row("Ethernet", self.ethernet.join(", "));
        }
        if !self.memif.is_empty() {
            row("memif", self.memif.join(", "));
        }
        row("TCP", list(&self.tcp));
        row("WebSocket", list(&self.websocket));
        if !self.wss.is_empty() {
            row("wss", list(&self.wss));
        }
        if !self.quic.is_empty() {
            row("QUIC", list(&self.quic));
        }
        if let Some(fingerprint) = &self.certificate {
            row("Certificate", format!("SHA-256 {fingerprint}"));
        }
        row("Unix", self.unix.as_ref().map_or_else(|| "off".to_owned(), |path| path.display().to_string()));
        row("Management", self.management.clone());
        row("Tables", format!("{} pending Interests, {} routes", grouped(self.pit_entries), grouped(self.routes_max)));
        row("Cache", format!("{} packets, {}", grouped(self.cs_packets), bytesize(self.cs_bytes)));
        row("Metrics", self.metrics.map_or_else(|| "off".to_owned(), |at| format!("http://{at}/metrics")));
        if let Some(address) = self.metrics.filter(|_| self.dashboard) {
            row("Dashboard", format!("http://{address}/ (`byname dashboard` opens it)"));
        }
        row("State", self.state.as_ref().map_or_else(|| "not kept".to_owned(), |path| path.display().to_string()));
        if let Some(router) = &self.routing {
            row("Routing", format!("as {router}"));
        }
        row(
            "Config",
            match &self.config {
                Some(path) => path.display().to_string(),
                None => "defaults (`byname default-config` prints them)".to_owned(),
            },
        );
        if self.initial != (0, 0) {
            row("Start", format!("{} faces and {} routes from the configuration", self.initial.0, self.initial.1));
        }
        for (label, value) in self.taken.iter().flat_map(Taken::rows) {
            row(label, value);
        }
        for note in &self.notes {
            row("Note", note.clone());
        }
        out.push_str("\nTry next, in another terminal:\n");
        if let Some(path) = self.unix.as_ref().filter(|path| path.as_os_str() != SYSTEM_SOCKET) {
            let _ = writeln!(out, "  export NDN_CLIENT_TRANSPORT=unix://{}", path.display());
        }
        out.push_str(
            "  byname ping-server /demo          answer pings\n\
             \x20 byname ping /demo                 and send some\n\
             \x20 byname status                     see what the router does\n\
             \x20 byname route add /ndn udp://HOST  forward /ndn to another router\n\
             \nCtrl-C ends it.\n",
        );
        out
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    match addresses {
        [] => "off".to_owned(),
        _ => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// `65536` as `65,536`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a size in the largest unit that fits into it.
fn bytesize(bytes: usize) -> String {
    let units = [("GiB", 1usize << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_up() -> StartUp {
        let both = |port| {
            let v4: SocketAddr = ([0, 0, 0, 0], port).into();
            vec![v4, SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), port)]
        };
        StartUp {
            pid: 4711,
            udp: both(6363),
            tcp: both(6363),
            websocket: both(9696),
            wss: Vec::new(),
            quic: Vec::new(),
            certificate: None,
            unix: Some(SYSTEM_SOCKET.into()),
            management: "this host only".to_owned(),
            pit_entries: 65_536,
            cs_packets: 65_536,
            cs_bytes: 128 << 20,
            routes_max: 4_000_000,
            metrics: Some(([127, 0, 0, 1], 9626).into()),
            dashboard: true,
            ..StartUp::default()
        }
    }

    #[test]
    fn the_table_without_configuration() {
        let expected = format!(
            "\
byname {} runs (process 4711)

  UDP         0.0.0.0:6363, [::]:6363
  TCP         0.0.0.0:6363, [::]:6363
  WebSocket   0.0.0.0:9696, [::]:9696
  Unix        /run/nfd/nfd.sock
  Management  this host only
  Tables      65,536 pending Interests, 4,000,000 routes
  Cache       65,536 packets, 128 MiB
  Metrics     http://127.0.0.1:9626/metrics
  Dashboard   http://127.0.0.1:9626/ (`byname dashboard` opens it)
  State       not kept
  Config      defaults (`byname default-config` prints them)

Try next, in another terminal:
  byname ping-server /demo          answer pings
  byname ping /demo                 and send some
  byname status                     see what the router does
  byname route add /ndn udp://HOST  forward /ndn to another router

Ctrl-C ends it.
",
            env!("BYNAME_VERSION")
        );
        assert_eq!(start_up().render(), expected);
    }

    #[test]
    fn a_socket_elsewhere_is_to_be_exported() {
        let mut elsewhere = start_up();
        elsewhere.unix = Some("/run/user/1000/nfd/nfd.sock".into());
        elsewhere.udp.clear();
        elsewhere.metrics = None;
        elsewhere.notes.push("no TCP over IPv6".to_owned());
        let text = elsewhere.render();
        assert!(text.contains("\n  export NDN_CLIENT_TRANSPORT=unix:///run/user/1000/nfd/nfd.sock\n"), "{text}");
        assert!(text.contains("\n  UDP         off\n"));
        assert!(text.contains("\n  Metrics     off\n"));
        assert!(text.contains("\n  Note        no TCP over IPv6\n"));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(grouped(1), "1");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytesize(1 << 30), "1 GiB");
        assert_eq!(bytesize(1_500_000), "1.4 MiB");
        assert_eq!(bytesize(12), "12 bytes");
    }
}
