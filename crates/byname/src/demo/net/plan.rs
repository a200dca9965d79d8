//! Addresses and routes of a network, and its routers' configurations.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::topology::Shape;

/// The UDP port of a router in its own namespace.
const PORT: u16 = 6363;
/// The first address of links between namespaces. Each link has four addresses.
const LINKS: u32 = u32::from_be_bytes([10, 77, 0, 0]);
/// The network whose routers find their ways themselves.
pub const NETWORK: &str = "/net";

/// What is wrong with links on purpose.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Time that a packet takes.
    pub delay: Duration,
    /// Share of packets that are lost.
    pub loss: f64,
}

/// Where routers are.
#[derive(Debug, Clone)]
pub enum Place {
    /// Each in a namespace.
    Namespaces,
    /// All on the loopback interface, with these UDP ports.
    Loopback(Vec<u16>),
}

/// A network to be.
#[derive(Debug, Clone)]
pub struct Plan {
    pub shape: Shape,
    pub place: Place,
    pub faults: Faults,
    /// Whether routers find their ways themselves. If not, routes are computed here.
    pub has_routing: bool,
    /// Packet threads of each router.
    pub threads: u16,
    /// HTTP port of each router, on the loopback interface.
    pub http: Vec<u16>,
}

/// The name of a router.
pub fn name(router: usize) -> String {
    format!("r{}", router + 1)
}

/// The prefix below which a router answers pings, and its name in routing.
pub fn prefix(router: usize) -> String {
    format!("{NETWORK}/{}", name(router))
}

/// The folder of a router's keys for routing.
pub fn keys(folder: &Path, router: usize) -> PathBuf {
    folder.join("keys").join(name(router))
}

impl Plan {
    /// The addresses of a link, of its first end and its second one.
    pub fn addresses(link: usize) -> [Ipv4Addr; 2] {
        let first = LINKS + 4 * link as u32;
        [1, 2].map(|end| Ipv4Addr::from_bits(first + end))
    }

    /// The URI by which one router reaches its neighbour.
    fn uri(&self, from: usize, to: usize) -> String {
        match &self.place {
            Place::Loopback(ports) => format!("udp4://127.0.0.1:{}", ports[to]),
            Place::Namespaces => {
                let link = self.shape.links().position(|ends| ends == (from.min(to), from.max(to)));
                let addresses = Plan::addresses(link.expect("they are neighbours"));
                format!("udp4://{}:{PORT}", addresses[usize::from(from < to)])
            }
        }
    }

    /// The configuration of a router whose files are in `folder`.
    pub fn configuration(&self, router: usize, folder: &Path) -> String {
        let port = match &self.place {
            Place::Namespaces => PORT,
            Place::Loopback(ports) => ports[router],
        };
        // Packets meet the faults of both routers.
        let (loss, delay) = (1.0 - (1.0 - self.faults.loss).sqrt(), self.faults.delay / 2);
        let mut text = format!(
            "[faces.udp]\nport = {port}\nipv6 = false\n[faces.tcp]\nlisten = false\n[faces.websocket]\nlisten = false\n\
             [faces.unix]\npath = {:?}\n[metrics]\nlisten = \"127.0.0.1:{}\"\n[log]\nlevel = \"warn\"\n\
             [threads]\ncount = {}\n[tables]\npit_entries = 16384\ndead_nonces = 65536\ncs_packets = 8192\n\
             cs_bytes = \"16 MiB\"\n[faults]\nloss = {loss:?}\ndelay = \"{} us\"\nseed = {}\n",
            folder.join(format!("{}.sock", name(router))),
            self.http[router],
            self.threads,
            delay.as_micros(),
            router + 1,
        );
        if self.has_routing {
            text += &self.routing(router, folder);
            return text;
        }
        for &neighbor in self.shape.graph.neighbors(router) {
            let uri = self.uri(router, neighbor as usize);
            let _ = write!(text, "[[face]]\nremote = \"{uri}\"\npersistency = \"permanent\"\n");
        }
        for (to, neighbor, cost) in self.routes(router) {
            let uri = self.uri(router, neighbor);
            let _ = write!(text, "[[route]]\nprefix = \"{}\"\nface = \"{uri}\"\ncost = {cost}\n", prefix(to));
        }
        text
    }

    /// The settings with which a router finds its ways. Many routers may share a processor, and links may lose hellos, so
    /// there are fewer hellos than usual, and more of them may be missing.
    fn routing(&self, router: usize, folder: &Path) -> String {
        let mut text = format!(
            "[routing]\nnetwork = \"{NETWORK}\"\nname = \"{}\"\nkeys = {:?}\nmulticast = false\n\
             hello_interval = \"200 ms\"\nhello_misses = 5\nadvertise_interval = \"1 s\"\n",
            prefix(router),
            keys(folder, router),
        );
        for &neighbor in self.shape.graph.neighbors(router) {
            let _ = write!(text, "[[routing.neighbor]]\nface = \"{}\"\n", self.uri(router, neighbor as usize));
        }
        text
    }

    /// The routes of a router: the destination, the neighbour, and the length of the way. All shortest ways, and each
    /// way around a neighbour that is no farther from the destination than the router itself.
    fn routes(&self, router: usize) -> Vec<(usize, usize, u32)> {
        let own = self.shape.distances(router);
        let neighbors = self.shape.graph.neighbors(router);
        let mut routes = Vec::new();
        for &neighbor in neighbors {
            let theirs = self.shape.distances(neighbor as usize);
            for to in (0..theirs.len()).filter(|to| *to != router) {
                if let (Some(mine), Some(its)) = (own[to], theirs[to])
                    && its <= mine
                {
                    routes.push((to, neighbor as usize, its + 1));
                }
            }
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_control::config::Config;

    fn plan(topology: &str, count: usize, place: Place) -> Plan {
        Plan {
            shape: Shape::new(topology, Some(count)).expect("a shape"),
            place,
            faults: Faults { delay: Duration::from_millis(10), loss: 0.19 },
            has_routing: false,
            threads: 1,
            http: (0..count as u16).map(|router| 40_000 + router).collect(),
        }
    }

    #[test]
    fn configurations_are_valid_and_neighbours_agree_on_addresses() {
        for place in [Place::Namespaces, Place::Loopback(vec![5001, 5002, 5003, 5004])] {
            let plan = plan("ring", 4, place);
            for router in 0..4 {
                let text = plan.configuration(router, Path::new("/tmp/net"));
                let config: Config =
                    Config::parse(&text, Path::new("r.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!((config.initial_faces.len(), config.faults.loss), (2, 1.0 - 0.81f64.sqrt()));
                assert_eq!(config.faults.delay, Duration::from_millis(5));
            }
        }
        let plan = Plan { has_routing: true, ..plan("line", 3, Place::Namespaces) };
        let text = plan.configuration(1, Path::new("/tmp/net"));
        let config = Config::parse(&text, Path::new("r.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((config.routing.neighbors.len(), config.initial_faces.len()), (2, 0));
        assert_eq!(config.routing.keys, Path::new("/tmp/net/keys/r2"));
        assert_eq!((plan.uri(0, 1), plan.uri(1, 0)), ("udp4://10.77.0.2:6363".into(), "udp4://10.77.0.1:6363".into()));
        assert_eq!((plan.uri(1, 2), plan.uri(2, 1)), ("udp4://10.77.0.6:6363".into(), "udp4://10.77.0.5:6363".into()));
    }

    #[test]
    fn routes_lead_along_shortest_ways() {
        let plan = plan("ring", 4, Place::Namespaces);
        assert_eq!(plan.routes(0), [(1, 1, 1), (2, 1, 2), (2, 3, 2), (3, 3, 1)]);
        let line = self::plan("line", 4, Place::Namespaces);
        assert_eq!(line.routes(1), [(0, 0, 1), (2, 2, 1), (3, 2, 2)]);
    }
}
