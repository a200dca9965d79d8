//! Hosts and switches in network namespaces, with virtual cables between them. All of them end with this process.
//!
//! All switches share one namespace with their ends of cables. Each host has its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use byname_switch::frame::trunk_bytes;
use byname_switch::key::KeyKind;
use serde_json::Value;

use crate::demo::PATIENCE;
use crate::demo::namespace::Namespace;

/// MTU of hosts.
const HOST_MTU: usize = 1500;
/// The port whose hosts are in another VLAN than all others. With the key `vxlan`, an endpoint of two networks is there.
pub const OTHER_SEGMENT: &str = "s1-h2";
/// Number of the host there.
pub const GUEST: u8 = 4;
/// The VLAN or network of all others, and that of the guest.
const SEGMENT: u32 = 7;
const GUEST_SEGMENT: u32 = 8;
/// MAC address of the switch towards the endpoint.
const TUNNEL_STATION: &str = "02:00:00:00:01:01";

/// A host: a namespace with one interface, `eth0`, while it is plugged in.
pub struct Host {
    pub name: &'static str,
    pub namespace: Namespace,
    /// The IP address, its prefix, and the MAC address stay the same when the host moves.
    pub address: String,
    prefix: &'static str,
    station: String,
    /// The port where the host is plugged in.
    at: Option<&'static str>,
}

/// Switches, their controller, and ports for hosts.
pub struct Fabric {
    folder: PathBuf,
    namespace: Namespace,
    switches: Vec<(&'static str, Child)>,
    controller: Option<Child>,
    /// Threads of each switch.
    threads: u16,
    key: KeyKind,
}

impl Fabric {
    /// Starts three switches in a ring, each with two ports for hosts (`s1-h1`, `s1-h2`), and a controller.
    pub fn start(threads: u16, key: KeyKind) -> anyhow::Result<Self> {
        let namespace = Namespace::new()?;
        let folder = std::env::temp_dir().join(format!("byname-switch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut fabric = Fabric { folder, namespace, switches: Vec::new(), controller: None, threads, key };
        let ring = [("s1", "s2"), ("s2", "s3"), ("s3", "s1")];
        for (a, b) in ring {
            fabric.cable(&format!("{a}-{b}"), &format!("{b}-{a}"), HOST_MTU + trunk_bytes(key))?;
        }
        for (switch, _) in ring {
            for port in ["h1", "h2"] {
                fabric.cable(&format!("{switch}-{port}"), &format!("{switch}-{port}-end"), HOST_MTU)?;
            }
        }
        let link = |(a, b): &(&str, &str)| format!("[[link]]\nends = [\"{a}:{a}-{b}\", \"{b}:{b}-{a}\"]\n");
        let links: String = ring.iter().map(link).collect();
        let listen = format!("listen = [\"unix://{}\"]\n", fabric.path("controller.sock").display());
        let network = format!(
            "{listen}hosts_file = \"hosts.txt\"\nswitches = [\"s1\", \"s2\", \"s3\"]\nlog.level = \"error\"\nkey = \"{key}\"\n\
             {}{links}",
            segments(key)
        );
        std::fs::write(fabric.path("network.toml"), network)?;
        fabric.start_controller()?;
        for (switch, others) in [("s1", ["s2", "s3"]), ("s2", ["s3", "s1"]), ("s3", ["s1", "s2"])] {
            fabric.start_switch(switch, others)?;
        }
        fabric.wait_for_plans()?;
        Ok(fabric)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates a cable in the switches' namespace. Its near end is a port.
    fn cable(&self, near: &str, far: &str, mtu: usize) -> anyhow::Result<()> {
        self.namespace.run(&format!("ip link add dev {near} mtu {mtu} type veth peer name {far} mtu {mtu}"))?;
        // Keep the namespace's own IP stack from sending on the cable.
        for end in [near, far] {
            self.namespace.run(&format!("ip link set dev {end} addrgenmode none"))?;
            self.namespace.run(&format!("ip link set dev {end} up"))?;
        }
        Ok(())
    }

    /// Starts or restarts the controller.
    pub fn start_controller(&mut self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["switch-controller", "--config"]).arg(self.path("network.toml"));
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start the controller")?;
        self.controller = Some(process);
        Ok(())
    }

    /// Ends the controller.
    pub fn kill_controller(&mut self) -> anyhow::Result<()> {
        if let Some(mut controller) = self.controller.take() {
            controller.kill()?;
            controller.wait()?;
        }
        Ok(())
    }

    fn start_switch(&mut self, name: &'static str, others: [&str; 2]) -> anyhow::Result<()> {
        let ports = ["h1", "h2", others[0], others[1]].map(|port| format!("\"{name}-{port}\""));
        let config = format!(
            "name = \"{name}\"\ncontroller = \"unix://{}\"\nports = [{}]\nstatus = \"{name}.sock\"\nthreads = {}\n\
             key = \"{}\"\nlog.level = \"error\"\n",
            self.path("controller.sock").display(),
            ports.join(", "),
            self.threads,
            self.key
        );
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, config)?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = self.namespace.command("");
        command.arg(program).args(["switch", "--config"]).arg(path).stdout(Stdio::null());
        self.switches.push((name, command.spawn().context("cannot start a switch")?));
        Ok(())
    }

    /// Waits until the controller has given each switch the roles of its ports.
    pub fn wait_for_plans(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        for at in 0..self.switches.len() {
            let name = self.switches[at].0;
            // Broadcasts use a spanning tree, which leaves out one link of the ring. So two switches have a trunk that
            // is not flooded.
            while !self.status(name).is_some_and(|status| has_plan(&status)) {
                if self.switches[at].1.try_wait()?.is_some() || Instant::now() > end {
                    bail!("the switch {name} does not run: {:?}", self.status(name));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// The status of a switch; `None` if the switch does not answer.
    fn status(&self, switch: &str) -> Option<Value> {
        serde_json::from_str(&self.show(switch, &["--json"]).ok()?).ok()
    }

    /// Output of `byname switch --status`.
    pub fn show(&self, switch: &str, more: &[&str]) -> anyhow::Result<String> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["switch", "--status", "--config"]).arg(self.path(&format!("{switch}.toml"))).args(more);
        let done = command.output()?;
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Creates a host that is not plugged in. `number` must be unique.
    pub fn host(&self, name: &'static str, number: u8) -> anyhow::Result<Host> {
        let namespace = Namespace::new()?;
        namespace.run("ip link set lo up")?;
        // The host announces its address when it is plugged in, so that the switches learn its place at once.
        let notify = ["-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_notify"];
        namespace.command("sh").args(notify).status().context("cannot run sh")?;
        let (address, prefix) = match self.key {
            KeyKind::Ipv6 => (format!("fd00::{number}"), "64 nodad"),
            _ => (format!("10.0.0.{number}"), "24"),
        };
        Ok(Host { name, namespace, address, prefix, station: station(number), at: None })
    }

    /// Plugs a host in at a free port, and unplugs it from its old one.
    pub fn plug(&self, host: &mut Host, port: &'static str) -> anyhow::Result<()> {
        if let Some(before) = host.at.take() {
            let process = self.namespace.process();
            host.namespace.run(&format!("ip link set eth0 netns {process} name {before}-end"))?;
        }
        let process = host.namespace.process();
        // A virtual cable does not segment large frames for the host, as a network card would.
        self.namespace.run(&format!("ip link set dev {port}-end gso_max_segs 1"))?;
        self.namespace.run(&format!("ip link set dev {port}-end netns {process} name eth0"))?;
        host.namespace.run(&format!("ip link set eth0 address {}", host.station))?;
        host.namespace.run(&format!("ip address add dev eth0 {}/{}", host.address, host.prefix))?;
        host.namespace.run("ip link set eth0 up")?;
        if self.key == KeyKind::Ipv6 {
            // Systems announce an IPv6 address after a second. A question for one that nobody has tells it at once.
            let _ = host.namespace.run("ping -c 1 -W 0.1 fd00::ffff");
        }
        host.at = Some(port);
        Ok(())
    }
}

/// All ports of hosts in one VLAN or network, except for one. With the key `vxlan`, an endpoint of both is there.
fn segments(key: KeyKind) -> String {
    if !key.has_segments() {
        return String::new();
    }
    let ports = ["s1", "s2", "s3"].into_iter().flat_map(|switch| ["h1", "h2"].map(|port| format!("{switch}-{port}")));
    let ports = ports.filter(|port| port != OTHER_SEGMENT).map(|port| format!("\"{}:{port}\"", &port[..2]));
    let plain = ports.collect::<Vec<_>>().join(", ");
    let other = format!("\"s1:{OTHER_SEGMENT}\"");
    if key == KeyKind::VlanMac {
        return format!(
            "[[segment]]\nid = {SEGMENT}\nplain = [{plain}]\n[[segment]]\nid = {GUEST_SEGMENT}\nplain = [{other}]\n"
        );
    }
    format!(
        "[[segment]]\nid = {SEGMENT}\nplain = [{plain}]\ntagged = [{other}]\n[[segment]]\nid = {GUEST_SEGMENT}\n\
         tagged = [{other}]\n[[tunnel]]\nat = {other}\nlocal = \"192.0.2.1\"\nlocal_station = \"{TUNNEL_STATION}\"\n\
         remote = \"192.0.2.7\"\nstation = \"{}\"\n",
        station(GUEST)
    )
}

/// MAC address of a host.
fn station(number: u8) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

impl Host {
    /// Makes the host a VXLAN endpoint of the system's own: its IP address is that of an interface in the network of all
    /// others, or in its own one.
    pub fn tunnel(&self, is_guest: bool) -> anyhow::Result<()> {
        let network = if is_guest { GUEST_SEGMENT } else { SEGMENT };
        for line in [
            "ip address flush dev eth0".to_owned(),
            "ip address add 192.0.2.7/24 dev eth0".to_owned(),
            // The switch answers no questions for its address.
            format!("ip neighbour replace 192.0.2.1 lladdr {TUNNEL_STATION} dev eth0"),
            format!(
                "ip link add inside mtu 1450 type vxlan id {network} local 192.0.2.7 remote 192.0.2.1 dstport 4789 dev eth0"
            ),
            "ip link set inside up".to_owned(),
            format!("ip address add {}/{} dev inside", self.address, self.prefix),
        ] {
            self.namespace.run(&line)?;
        }
        Ok(())
    }

    /// Removes what [`Host::tunnel`] has made.
    pub fn end_tunnel(&self) -> anyhow::Result<()> {
        self.namespace.run("ip link delete inside").map(drop)
    }
}

fn has_plan(status: &Value) -> bool {
    let ports = status["ports"].as_array().into_iter().flatten();
    let roles: Vec<_> = ports.filter_map(|port| port["role"].as_str()).collect();
    status["controller"]["connected"] == true && roles.contains(&"host") && roles.contains(&"trunk")
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let switches = self.switches.iter_mut().map(|(_, process)| process);
        for process in switches.chain(&mut self.controller) {
            // A process that has ended by itself has reported its error.
            let _ = process.kill();
            let _ = process.wait();
        }
        remove(&self.folder);
    }
}

/// Files that remain in the temporary folder are not a failure.
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}
