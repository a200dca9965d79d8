//! Configuration files of a flat switch and of its controller.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use byname_control::config::{ConfigError, Log, at_least_1, exposure, ring_bytes, thread_count};
use byname_wire::MacAddress;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::Engine;
use super::session::Secret;
use crate::key::{Key, KeyKind, VLAN_MAX};
use crate::segments::{Numbers, Outer, PortSegments};

/// Length of the shortest accepted secret, in bytes.
const SECRET_BYTES_MIN: usize = 16;
/// Most numbers in the `tagged` lists for the ports of one switch, so that its plan fits into one message.
const TAGGED_MAX: usize = 16_384;
/// VLAN of frames without a tag, unless the configuration says otherwise.
const DEFAULT_VLAN: u16 = 1;

/// Address on which a controller listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerAddress {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControllerAddress::Unix(path) => write!(f, "unix://{}", path.display()),
            ControllerAddress::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl<'de> Deserialize<'de> for ControllerAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let unix = text.strip_prefix("unix://").filter(|path| path.starts_with('/'));
        let tcp = text.strip_prefix("tcp://").and_then(|address| address.parse().ok());
        let unix = unix.map(|path| ControllerAddress::Unix(path.into()));
        unix.or(tcp.map(ControllerAddress::Tcp)).ok_or_else(|| {
            D::Error::custom(format!(
                "\"{text}\" is not the address of a controller; write for example \"unix:///run/byname/switches.sock\" or \
                 \"tcp://192.0.2.1:6364\""
            ))
        })
    }
}

/// A port of a switch, written `"s1:eth0"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortName {
    /// Name of the switch.
    pub switch: String,
    /// Name of the interface.
    pub port: String,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.port)
    }
}

impl<'de> Deserialize<'de> for PortName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parts = text.split_once(':').filter(|(switch, port)| !switch.is_empty() && !port.is_empty());
        let (switch, port) = parts.ok_or_else(|| {
            D::Error::custom(format!(
                "\"{text}\" is not a port of a switch; write the names of the switch and of the interface, for example \
                 \"s1:eth0\""
            ))
        })?;
        Ok(PortName { switch: switch.to_owned(), port: port.to_owned() })
    }
}

/// Configuration of a switch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Name of the switch in the controller's file.
    pub name: String,
    /// Address of the controller.
    pub controller: ControllerAddress,
    /// File with the secret that it shares with the controller.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// What it forwards by, as its controller does.
    #[serde(default)]
    pub key: KeyKind,
    /// Names of its interfaces.
    pub ports: Vec<String>,
    /// Number of threads that move frames. Each owns its share of the ports, so no more than these are started.
    #[serde(default = "one_thread", deserialize_with = "thread_count")]
    pub threads: usize,
    /// Socket that answers `byname switch --status`. Empty: none.
    #[serde(default)]
    pub status: PathBuf,
    /// Memory of each port's receive ring, in bytes.
    #[serde(default = "ring_default", deserialize_with = "ring_bytes")]
    pub receive_ring: usize,
    /// Memory of each port's transmit ring, in bytes.
    #[serde(default = "ring_default", deserialize_with = "ring_bytes")]
    pub transmit_ring: usize,
    /// Logging.
    #[serde(default)]
    pub log: Log,
    /// Folder that file names are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A link between two switches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchLink {
    /// The port at each end.
    pub ends: [PortName; 2],
}

/// A host at a fixed port.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchHost {
    /// What the host is known by, written as [`KeyKind::parse`] reads it.
    pub address: String,
    /// Port to which the host is attached.
    pub at: PortName,
}

/// A VLAN, or a VXLAN network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSegment {
    /// Its number.
    pub id: u32,
    /// Ports whose frames without a tag or header are of this segment.
    #[serde(default)]
    pub plain: Vec<PortName>,
    /// Ports whose frames of this segment have a VLAN tag or a VXLAN header.
    #[serde(default)]
    pub tagged: Vec<PortName>,
}

/// A port behind which another VXLAN endpoint is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTunnel {
    /// The port.
    pub at: PortName,
    /// IP address of the switch at this port.
    pub local: IpAddr,
    /// IP address of the other endpoint.
    pub remote: IpAddr,
    /// MAC address of the other endpoint, or of the router towards it.
    #[serde(deserialize_with = "station")]
    pub station: MacAddress,
    /// MAC address of the switch at this port.
    #[serde(deserialize_with = "station")]
    pub local_station: MacAddress,
}

/// Configuration of a controller.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchNetwork {
    /// Addresses to listen on.
    pub listen: Vec<ControllerAddress>,
    /// File with the secret that it shares with all switches.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// What the switches forward by.
    #[serde(default)]
    pub key: KeyKind,
    /// With the key `vlan-mac`: VLAN of frames without a tag at ports that no segment names. 1 if it is not set.
    #[serde(default)]
    pub default_vlan: Option<u16>,
    /// VLANs or VXLAN networks, and the ports that carry them.
    #[serde(default, rename = "segment")]
    pub segments: Vec<SwitchSegment>,
    /// Ports to other VXLAN endpoints.
    #[serde(default, rename = "tunnel")]
    pub tunnels: Vec<SwitchTunnel>,
    /// Addresses from which switches connect. Strangers cannot take the connections reserved for these addresses.
    #[serde(default)]
    pub switch_addresses: Vec<IpAddr>,
    /// Links between switches.
    #[serde(default, rename = "link")]
    pub links: Vec<SwitchLink>,
    /// Hosts at fixed ports.
    #[serde(default, rename = "host")]
    pub hosts: Vec<SwitchHost>,
    /// Whether to learn hosts from the frames that they send.
    #[serde(default = "yes")]
    pub learn: bool,
    /// File that keeps the learned hosts across restarts. Empty: none.
    #[serde(default)]
    pub hosts_file: PathBuf,
    /// Most hosts in the network.
    #[serde(default = "hosts_max", deserialize_with = "at_least_1")]
    pub hosts_max: usize,
    /// Most hosts learned at one port.
    #[serde(default = "hosts_per_port_max", deserialize_with = "at_least_1")]
    pub hosts_per_port_max: usize,
    /// Most links between switches that a frame may cross.
    #[serde(default = "hop_limit", deserialize_with = "hops")]
    pub hop_limit: u8,
    /// Structure of the forwarding tables.
    #[serde(default)]
    pub engine: Engine,
    /// Logging.
    #[serde(default)]
    pub log: Log,
    /// Folder that file names are relative to.
    #[serde(skip)]
    pub folder: PathBuf,
}

fn yes() -> bool {
    true
}

fn one_thread() -> usize {
    1
}

fn ring_default() -> usize {
    2 << 20
}

fn hosts_max() -> usize {
    1 << 20
}

fn hosts_per_port_max() -> usize {
    1024
}

fn hop_limit() -> u8 {
    16
}

fn hops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    match i64::deserialize(deserializer)? {
        hops @ 1..=255 => Ok(hops as u8),
        hops => Err(D::Error::custom(format!("a hop limit of {hops} is not possible; write 1 to 255"))),
    }
}

fn station<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Option<MacAddress> = text.parse().ok();
    address.filter(|address| !address.is_group() && !address.is_zero()).ok_or_else(|| {
        D::Error::custom(format!(
            "\"{text}\" is not the MAC address of a host; write for example \"08:00:27:01:02:03\""
        ))
    })
}

impl SwitchConfig {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The first problem, with its place and remedy.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read(path)?, path)
    }

    /// Parses a configuration. `path` appears in messages. File names are relative to its folder.
    ///
    /// # Errors
    /// As [`SwitchConfig::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| ConfigError::from_toml(&error, text, path))?;
        config.folder = folder(path);
        let wrong = |problem: String| Err(ConfigError::of_file(problem, path));
        if config.ports.is_empty() {
            return wrong("a switch needs ports: write the names of interfaces, `ports = [\"eth0\", \"eth1\"]`".into());
        }
        if let Some(twice) = twice(&config.ports) {
            return wrong(format!("`ports` has {twice} twice: leave one out"));
        }
        if matches!(config.controller, ControllerAddress::Tcp(_)) && config.secret_file.is_none() {
            return wrong(NO_SECRET.to_owned());
        }
        Ok(config)
    }

    /// Reads the secret that it shares with the controller. Empty if `secret_file` is not set.
    ///
    /// # Errors
    /// If the file cannot be read, or the secret is too short.
    pub fn secret(&self) -> Result<Secret, String> {
        secret(&self.folder, self.secret_file.as_deref())
    }
}

impl SwitchNetwork {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The first problem, with its place and remedy.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read(path)?, path)
    }

    /// Parses a configuration. `path` appears in messages. File names are relative to its folder.
    ///
    /// # Errors
    /// As [`SwitchNetwork::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut network: Self = toml::from_str(text).map_err(|error| ConfigError::from_toml(&error, text, path))?;
        network.folder = folder(path);
        network.check().map_err(|problem| ConfigError::of_file(problem, path))?;
        Ok(network)
    }

    /// Reads the secret that it shares with all switches. Empty if `secret_file` is not set.
    ///
    /// # Errors
    /// If the file cannot be read, or the secret is too short.
    pub fn secret(&self) -> Result<Secret, String> {
        secret(&self.folder, self.secret_file.as_deref())
    }

    /// The segments that a port to hosts carries.
    pub fn segments_of(&self, at: &PortName) -> PortSegments {
        let default_vlan = Some(self.default_vlan.unwrap_or(DEFAULT_VLAN).into());
        let is_vlan = self.key == KeyKind::VlanMac;
        if is_vlan && self.segments.is_empty() {
            return PortSegments { plain: default_vlan, tagged: Numbers::All, outer: None };
        }
        let plain = self.segments.iter().find(|segment| segment.plain.contains(at)).map(|segment| segment.id);
        let tagged = self.segments.iter().filter(|segment| segment.tagged.contains(at));
        let mut tagged: Vec<_> = tagged.map(|segment| segment.id).collect();
        tagged.sort_unstable();
        let is_unnamed = plain.is_none() && tagged.is_empty();
        let outer = self.tunnels.iter().find(|tunnel| tunnel.at == *at).map(|tunnel| Outer {
            source: tunnel.local,
            destination: tunnel.remote,
            source_station: tunnel.local_station,
            station: tunnel.station,
        });
        let plain = if is_vlan && is_unnamed { default_vlan } else { plain };
        PortSegments { plain, tagged: Numbers::Only(tagged), outer }
    }

    /// What a host of the configuration is known by.
    ///
    /// # Errors
    /// What to write instead.
    pub fn key_of(&self, host: &SwitchHost) -> Result<Key, String> {
        self.key.parse(&host.address)
    }

    /// The ports of the configuration that are not ends of links.
    pub(super) fn host_ports(&self) -> impl Iterator<Item = &PortName> {
        let segments = self.segments.iter().flat_map(|segment| segment.plain.iter().chain(&segment.tagged));
        let hosts = self.hosts.iter().map(|host| &host.at);
        segments.chain(self.tunnels.iter().map(|tunnel| &tunnel.at)).chain(hosts)
    }

    fn check_segments(&self) -> Result<(), String> {
        let kind = self.key;
        if !kind.has_segments() && !self.segments.is_empty() {
            return Err(format!("[[segment]] needs the key \"vlan-mac\" or \"vxlan\", and `key` is \"{kind}\""));
        }
        if kind != KeyKind::Vxlan && !self.tunnels.is_empty() {
            return Err(format!("[[tunnel]] needs the key \"vxlan\", and `key` is \"{kind}\""));
        }
        match self.default_vlan {
            Some(_) if kind != KeyKind::VlanMac => {
                return Err(format!("`default_vlan` needs the key \"vlan-mac\", and `key` is \"{kind}\""));
            }
            Some(vlan) if !(1..=VLAN_MAX).contains(&vlan) => {
                return Err(format!("a default VLAN of {vlan} is not possible; write 1 to {VLAN_MAX}"));
            }
            _ => {}
        }
        let min = u32::from(kind == KeyKind::VlanMac);
        let ids: Vec<_> = self.segments.iter().map(|segment| segment.id).collect();
        if let Some(id) = ids.iter().find(|id| !(min..=kind.segment_max()).contains(*id)) {
            return Err(format!("a segment {id} is not possible; write {min} to {}", kind.segment_max()));
        }
        if let Some(id) = twice(&ids) {
            return Err(format!("two [[segment]] have the id {id}: put their ports into one"));
        }
        let plain: Vec<_> = self.segments.iter().flat_map(|segment| &segment.plain).collect();
        if let Some(port) = twice(&plain) {
            return Err(format!("{port} is twice among `plain` ports, but frames without a tag are of one segment"));
        }
        for segment in &self.segments {
            if let Some(port) = twice(&segment.tagged) {
                return Err(format!("`tagged` of segment {} has {port} twice: leave one out", segment.id));
            }
        }
        for switch in &self.switches {
            let tagged = self.segments.iter().flat_map(|segment| &segment.tagged);
            let count = tagged.filter(|port| port.switch == *switch).count();
            if count > TAGGED_MAX {
                return Err(format!(
                    "the `tagged` lists name ports of {switch} {count} times; {TAGGED_MAX} are possible"
                ));
            }
        }
        self.check_tunnels(&plain)
    }

    fn check_tunnels(&self, plain: &[&PortName]) -> Result<(), String> {
        let tunnels: Vec<_> = self.tunnels.iter().map(|tunnel| &tunnel.at).collect();
        if let Some(port) = twice(&tunnels) {
            return Err(format!("two [[tunnel]] are at {port}: leave one out"));
        }
        for tunnel in &self.tunnels {
            if tunnel.local.is_ipv4() != tunnel.remote.is_ipv4() {
                return Err(format!("the tunnel at {} needs two IPv4 or two IPv6 addresses", tunnel.at));
            }
            if plain.contains(&&tunnel.at) {
                return Err(format!(
                    "{} has a [[tunnel]], so all its frames have VXLAN headers: name it in `tagged`, not in `plain`",
                    tunnel.at
                ));
            }
            if !self.segments.iter().any(|segment| segment.tagged.contains(&tunnel.at)) {
                return Err(format!(
                    "the tunnel at {0} has no networks: name {0} in `tagged` of a [[segment]]",
                    tunnel.at
                ));
            }
        }
        let mut tagged = self.segments.iter().flat_map(|segment| &segment.tagged);
        match tagged.find(|port| self.key == KeyKind::Vxlan && !tunnels.contains(port)) {
            Some(port) => Err(format!("{port} is in `tagged`, but no [[tunnel]] says to whom its VXLAN packets go")),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.listen.is_empty() {
            return Err(
                "nobody could reach this controller: write `listen = [\"unix:///run/byname/switches.sock\"]`".into()
            );
        }
        let is_tcp = |address: &ControllerAddress| matches!(address, ControllerAddress::Tcp(_));
        if self.listen.iter().any(is_tcp) && self.secret_file.is_none() {
            return Err(NO_SECRET.to_owned());
        }
        if self.switches.is_empty() {
            return Err("a network needs switches: write their names, `switches = [\"s1\", \"s2\"]`".into());
        }
        if let Some(twice) = twice(&self.switches) {
            return Err(format!("`switches` has {twice} twice: leave one out"));
        }
        let ends: Vec<_> = self.links.iter().flat_map(|link| &link.ends).collect();
        for port in ends.iter().copied().chain(self.host_ports()) {
            if !self.switches.contains(&port.switch) {
                return Err(format!("{port} names a switch that is not in `switches`: add \"{}\"", port.switch));
            }
        }
        if let Some(twice) = twice(&ends) {
            return Err(format!("{twice} is an end of two links, but a port can have only one"));
        }
        if let Some(link) = self.links.iter().find(|link| link.ends[0].switch == link.ends[1].switch) {
            return Err(format!("the link from {} leads to the same switch: leave it out", link.ends[0]));
        }
        if let Some(host) = self.hosts.iter().find(|host| ends.contains(&&host.at)) {
            return Err(format!("the host {} is at {}, a port that leads to another switch", host.address, host.at));
        }
        if let Some(port) = self.host_ports().find(|port| ends.contains(port)) {
            return Err(format!("{port} leads to another switch, and carries all segments: leave it out of the lists"));
        }
        self.check_segments()?;
        let addresses = self.hosts.iter().map(|host| self.key_of(host)).collect::<Result<Vec<_>, _>>()?;
        for (host, key) in self.hosts.iter().zip(&addresses) {
            if let Some(segment) = key.segment().filter(|segment| !self.segments_of(&host.at).carry(*segment)) {
                return Err(format!(
                    "the host {key} is at {}, which does not carry {segment}: name the port in a [[segment]]",
                    host.at
                ));
            }
        }
        match twice(&addresses) {
            Some(address) => Err(format!("two [[host]] have the address {address}: leave one out")),
            None if addresses.len() > self.hosts_max => {
                Err(format!("there are {} [[host]], and hosts_max is {}", addresses.len(), self.hosts_max))
            }
            None => Ok(()),
        }
    }
}

const NO_SECRET: &str = "a controller on TCP needs `secret_file`, with the same secret here and at the other end; \
                         `head -c 32 /dev/urandom | base64 > switches.secret` makes one";

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| ConfigError::of_file(format!("cannot read the file: {error}"), path))
}

fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

fn secret(folder: &Path, file: Option<&Path>) -> Result<Secret, String> {
    let Some(file) = file else { return Ok(Secret::new(b"")) };
    let path = folder.join(file);
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read secret_file {}: {error}", path.display()))?;
    if let Some(exposure) = exposure(&path) {
        tracing::warn!("{exposure}");
    }
    let bytes = bytes.trim_ascii_end();
    if bytes.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "secret_file {} has {} bytes; it needs at least {SECRET_BYTES_MIN}",
            path.display(),
            bytes.len()
        ));
    }
    Ok(Secret::new(bytes))
}

/// The first element that occurs twice.
fn twice<T: Eq + Hash>(all: &[T]) -> Option<&T> {
    let mut seen = HashSet::new();
    all.iter().find(|one| !seen.insert(*one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name = \"s1\"\ncontroller = \"unix:///run/c.sock\"\nports = [\"eth0\"]\n";
    const NETWORK: &str = "listen = [\"unix:///run/c.sock\"]\nswitches = [\"s1\", \"s2\"]\n";

    fn network(more: &str) -> Result<SwitchNetwork, String> {
        SwitchNetwork::parse(&format!("{NETWORK}{more}"), Path::new("net.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_read() {
        let config = SwitchConfig::parse(SWITCH, Path::new("/etc/s1.toml")).expect("good");
        assert_eq!(config.controller.to_string(), "unix:///run/c.sock");
        assert_eq!((config.folder.as_path(), config.receive_ring), (Path::new("/etc"), 2 << 20));
        let network = network(
            "engine = \"line\"\n[[link]]\nends = [\"s1:a\", \"s2:b\"]\n[[host]]\naddress = \"02:00:00:00:00:01\"\nat = \"s2:c\"\n",
        );
        let network = network.expect("good");
        assert_eq!((network.engine, network.hop_limit, network.learn), (Engine::Line, 16, true));
        assert_eq!((config.key, network.key), (KeyKind::Mac, KeyKind::Mac));
        assert_eq!(network.links[0].ends[1].to_string(), "s2:b");
    }

    fn port(text: &str) -> PortName {
        let (switch, port) = text.split_once(':').expect("a port");
        PortName { switch: switch.into(), port: port.into() }
    }

    #[test]
    fn ports_carry_the_segments_that_name_them() {
        let open = network("key = \"vlan-mac\"\ndefault_vlan = 9\n").expect("good");
        let all = PortSegments { plain: Some(9), tagged: Numbers::All, outer: None };
        assert_eq!(open.segments_of(&port("s1:a")), all);
        let vlans = network(
            "key = \"vlan-mac\"\n[[segment]]\nid = 30\ntagged = [\"s1:a\"]\n[[segment]]\nid = 7\nplain = [\"s1:b\"]\n\
             tagged = [\"s1:a\"]\n[[host]]\naddress = \"7/02:00:00:00:00:01\"\nat = \"s1:a\"\n",
        );
        let vlans = vlans.expect("good");
        let of = |at| vlans.segments_of(&port(at));
        assert_eq!(of("s1:a"), PortSegments { plain: None, tagged: Numbers::Only(vec![7, 30]), outer: None });
        assert_eq!(of("s1:b"), PortSegments { plain: Some(7), ..PortSegments::default() });
        assert_eq!(of("s2:a"), PortSegments { plain: Some(1), ..PortSegments::default() }, "the default VLAN only");
        let vxlan = network(
            "key = \"vxlan\"\n[[segment]]\nid = 5000\nplain = [\"s1:a\"]\ntagged = [\"s2:t\"]\n[[tunnel]]\nat = \"s2:t\"\n\
             local = \"192.0.2.1\"\nremote = \"192.0.2.7\"\nstation = \"02:00:00:00:00:07\"\n\
             local_station = \"02:00:00:00:00:08\"\n",
        );
        let vxlan = vxlan.expect("good");
        assert_eq!(vxlan.segments_of(&port("s1:b")), PortSegments::default(), "no network has it");
        let tunnel = vxlan.segments_of(&port("s2:t"));
        assert_eq!((tunnel.plain, tunnel.tagged), (None, Numbers::Only(vec![5000])));
        assert_eq!(tunnel.outer.map(|outer| outer.destination.to_string()), Some("192.0.2.7".into()));
    }

    #[test]
    fn wrong_segments_are_told_with_what_to_do() {
        let vlan = |more: &str| format!("key = \"vlan-mac\"\n{more}");
        let segment = |id: u32, lists: &str| format!("[[segment]]\nid = {id}\n{lists}\n");
        let tunnel = |at: &str, remote: &str| {
            format!(
                "[[tunnel]]\nat = \"{at}\"\nlocal = \"192.0.2.1\"\nremote = \"{remote}\"\n\
                 station = \"02:00:00:00:00:07\"\nlocal_station = \"02:00:00:00:00:08\"\n"
            )
        };
        let vxlan = |more: String| format!("key = \"vxlan\"\n{more}");
        let host = |address: &str| format!("[[host]]\naddress = \"{address}\"\nat = \"s2:c\"\n");
        let link = "[[link]]\nends = [\"s1:a\", \"s2:b\"]\n";
        for (more, told) in [
            ("key = \"ip\"\n".into(), "unknown word `ip`"),
            (segment(7, ""), "[[segment]] needs the key \"vlan-mac\" or \"vxlan\", and `key` is \"mac\""),
            (tunnel("s1:a", "192.0.2.7"), "[[tunnel]] needs the key \"vxlan\""),
            ("default_vlan = 7\n".into(), "`default_vlan` needs the key \"vlan-mac\""),
            (vlan("default_vlan = 4095\n"), "write 1 to 4094"),
            (vlan(&segment(0, "")), "a segment 0 is not possible; write 1 to 4094"),
            (vxlan(segment(1 << 24, "")), "write 0 to 16777215"),
            (vlan(&(segment(7, "") + &segment(7, ""))), "two [[segment]] have the id 7"),
            (
                vlan(&(segment(7, "plain = [\"s1:a\"]") + &segment(8, "plain = [\"s1:a\"]"))),
                "s1:a is twice among `plain` ports",
            ),
            (vlan(&segment(7, "tagged = [\"s1:a\", \"s1:a\"]")), "`tagged` of segment 7 has s1:a twice"),
            (vlan(&segment(7, "plain = [\"s9:a\"]")), "add \"s9\""),
            (
                vlan(&(segment(7, "plain = [\"s1:a\"]") + link)),
                "s1:a leads to another switch, and carries all segments",
            ),
            (vxlan(segment(7, "tagged = [\"s1:a\"]")), "no [[tunnel]] says to whom its VXLAN packets go"),
            (vxlan(tunnel("s1:a", "192.0.2.7")), "name s1:a in `tagged` of a [[segment]]"),
            (vxlan(tunnel("s1:a", "fe80::1")), "needs two IPv4 or two IPv6 addresses"),
            (
                vxlan(segment(7, "plain = [\"s1:a\"]") + &tunnel("s1:a", "192.0.2.7")),
                "all its frames have VXLAN headers",
            ),
            (
                vxlan(segment(7, "tagged = [\"s1:a\"]") + &tunnel("s1:a", "192.0.2.7") + &tunnel("s1:a", "192.0.2.7")),
                "two [[tunnel]] are at s1:a",
            ),
            (vlan(&host("02:00:00:00:00:01")), "write for example \"7/08:00:27:01:02:03\""),
            (
                vlan(&(segment(7, "") + &host("7/02:00:00:00:00:01"))),
                "the host 7/02:00:00:00:00:01 is at s2:c, which does not carry 7",
            ),
        ] {
            let error = network(&more).expect_err(&more);
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let link = "[[link]]\nends = [\"s1:a\", \"s2:b\"]\n";
        let host = "[[host]]\naddress = \"02:00:00:00:00:01\"\nat = \"s2:c\"\n";
        for (more, told) in [
            (String::new() + link + "[[link]]\nends = [\"s1:a\", \"s2:c\"]\n", "s1:a is an end of two links"),
            ("[[link]]\nends = [\"s1:a\", \"s3:b\"]\n".into(), "add \"s3\""),
            ("[[link]]\nends = [\"s1:a\", \"s1:b\"]\n".into(), "leads to the same switch"),
            ("[[link]]\nends = [\"s1\", \"s2:b\"]\n".into(), "write the names of the switch and of the interface"),
            (String::new() + host + host, "two [[host]] have the address 02:00:00:00:00:01"),
            (String::new() + link + &host.replace("s2:c", "s2:b"), "a port that leads to another switch"),
            (host.replace("02:00", "03:00"), "is not the MAC address of a host"),
            ("hop_limit = 0\n".into(), "write 1 to 255"),
            ("hops = 3\n".into(), "unknown word `hops`"),
        ] {
            let error = network(&more).expect_err(&more);
            assert!(error.contains(told), "{error}");
        }
        let error = SwitchNetwork::parse("listen = [\"tcp://0.0.0.0:1\"]\nswitches = [\"s1\"]", Path::new("net.toml"));
        assert!(error.expect_err("no secret").to_string().contains("head -c 32"));
        for (line, told) in [
            ("ports = []", "write the names of interfaces"),
            ("ports = [\"a\", \"a\"]", "`ports` has a twice"),
            ("ports = [\"a\"]\ncontroller = \"udp://\"", "is not the address of a controller"),
            ("ports = [\"a\"]\nthreads = 0", "a number of threads is 1 to 64"),
        ] {
            let base = if line.contains("controller") {
                "name = \"s1\"\n"
            } else {
                "name = \"s1\"\ncontroller = \"unix:///c\"\n"
            };
            let error =
                SwitchConfig::parse(&format!("{base}{line}"), Path::new("s1.toml")).expect_err(line).to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_switch_has_one_thread_unless_it_is_told() {
        let threads = |more: &str| SwitchConfig::parse(&format!("{SWITCH}{more}"), Path::new("s1.toml"));
        assert_eq!(threads("").expect("good").threads, 1);
        assert_eq!(threads("threads = 3\n").expect("good").threads, 3);
        assert!(threads("threads = \"auto\"\n").expect("good").threads >= 1);
    }

    #[test]
    fn secrets_are_long_enough() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = SwitchConfig::parse(SWITCH, &folder.path().join("s1.toml")).expect("good");
        assert!(config.secret().is_ok(), "none is needed on this host");
        config.secret_file = Some("secret".into());
        assert!(config.secret().err().expect("no file").contains("cannot read secret_file"));
        std::fs::write(folder.path().join("secret"), "too short\n").expect("written");
        assert!(config.secret().err().expect("too short").contains("has 9 bytes; it needs at least 16"));
        std::fs::write(folder.path().join("secret"), "0123456789abcdef\n").expect("written");
        assert!(config.secret().is_ok());
    }
}
