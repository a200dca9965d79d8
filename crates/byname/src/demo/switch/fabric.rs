//! Hosts and switches in network namespaces, with virtual cables between them, all of which end with this
//! process.
//!
//! A namespace lives as long as a process in it that waits for its input to end. One has all switches and
//! their ends of cables; each host has one of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::demo::PATIENCE;

/// MTU of links between switches: hosts' 1500, and a tag.
const TRUNK_MTU: usize = 1504;

/// A network namespace.
pub struct Namespace(Child);

impl Namespace {
    /// A new one.
    pub fn new() -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut namespace = Namespace(command.spawn().context("cannot run `unshare` (package util-linux)")?);
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        let end = Instant::now() + PATIENCE;
        let process = namespace.process();
        while of(&process)? == of("self")? {
            if namespace.0.try_wait()?.is_some() || Instant::now() > end {
                bail!("network namespaces are not allowed here: run this as root");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(namespace)
    }

    fn process(&self) -> String {
        self.0.id().to_string()
    }

    /// A command to be run in it.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process(), "--net", "--"]).args(line.split_whitespace()).stdin(Stdio::null());
        command
    }

    /// Runs a command in it that must succeed; returns what it prints.
    pub fn run(&self, line: &str) -> anyhow::Result<String> {
        let done = self.command(line).output().with_context(|| format!("cannot run {line}"))?;
        if !done.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host: a namespace with one interface, `eth0`, when it is plugged in.
pub struct Host {
    pub name: &'static str,
    pub namespace: Namespace,
    /// Its address, and its station's, which stay the same wherever it is.
    pub address: String,
    station: String,
    /// The port that it is at.
    at: Option<&'static str>,
}

/// Switches, their controller, and where hosts may be plugged in.
pub struct Fabric {
    folder: PathBuf,
    namespace: Namespace,
    switches: Vec<(&'static str, Child)>,
    controller: Option<Child>,
}

impl Fabric {
    /// Starts three switches in a ring, each with two ports for hosts (`s1-h1`, `s1-h2`), and a controller.
    pub fn start() -> anyhow::Result<Self> {
        let namespace = Namespace::new()?;
        let folder = std::env::temp_dir().join(format!("byname-switch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut fabric = Fabric { folder, namespace, switches: Vec::new(), controller: None };
        let ring = [("s1", "s2"), ("s2", "s3"), ("s3", "s1")];
        for (a, b) in ring {
            fabric.cable(&format!("{a}-{b}"), &format!("{b}-{a}"), TRUNK_MTU)?;
        }
        for (switch, _) in ring {
            for port in ["h1", "h2"] {
                fabric.cable(&format!("{switch}-{port}"), &format!("{switch}-{port}-end"), 1500)?;
            }
        }
        let link = |(a, b): &(&str, &str)| format!("[[link]]\nends = [\"{a}:{a}-{b}\", \"{b}:{b}-{a}\"]\n");
        let links: String = ring.iter().map(link).collect();
        let listen = format!("listen = [\"unix://{}\"]\n", fabric.path("controller.sock").display());
        let network = format!(
            "{listen}hosts_file = \"hosts.txt\"\nswitches = [\"s1\", \"s2\", \"s3\"]\nlog.level = \"error\"\n{links}"
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

    /// A cable in the switches' namespace; its near end is a port.
    fn cable(&self, near: &str, far: &str, mtu: usize) -> anyhow::Result<()> {
        self.namespace.run(&format!("ip link add dev {near} mtu {mtu} type veth peer name {far} mtu {mtu}"))?;
        // The ports' own system is to say nothing on them.
        for end in [near, far] {
            self.namespace.run(&format!("ip link set dev {end} addrgenmode none"))?;
            self.namespace.run(&format!("ip link set dev {end} up"))?;
        }
        Ok(())
    }

    /// Starts the controller, or starts it again.
    pub fn start_controller(&mut self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("where this program is")?;
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
            "name = \"{name}\"\ncontroller = \"unix://{}\"\nports = [{}]\nstatus = \"{name}.sock\"\nlog.level = \"error\"\n",
            self.path("controller.sock").display(),
            ports.join(", ")
        );
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, config)?;
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = self.namespace.command("");
        command.arg(program).args(["switch", "--config"]).arg(path).stdout(Stdio::null());
        self.switches.push((name, command.spawn().context("cannot start a switch")?));
        Ok(())
    }

    /// Waits until the controller has told each switch what its ports are for.
    pub fn wait_for_plans(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        for at in 0..self.switches.len() {
            let name = self.switches[at].0;
            // A ring is a tree but for one link: two switches have a trunk that groups do not go along.
            while !self.status(name).is_some_and(|status| has_plan(&status)) {
                if self.switches[at].1.try_wait()?.is_some() || Instant::now() > end {
                    bail!("the switch {name} does not run: {:?}", self.status(name));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// What a switch says of itself; `None`: it does not answer.
    fn status(&self, switch: &str) -> Option<Value> {
        serde_json::from_str(&self.show(switch, &["--json"]).ok()?).ok()
    }

    /// `byname switch --status`
    pub fn show(&self, switch: &str, more: &[&str]) -> anyhow::Result<String> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = Command::new(program);
        command.args(["switch", "--status", "--config"]).arg(self.path(&format!("{switch}.toml"))).args(more);
        let done = command.output()?;
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// A host that is plugged in nowhere. Numbers tell hosts apart.
    pub fn host(&self, name: &'static str, number: u8) -> anyhow::Result<Host> {
        let namespace = Namespace::new()?;
        namespace.run("ip link set lo up")?;
        // Whoever is plugged in says so, as systems do that are to be found at once.
        let notify = ["-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_notify"];
        namespace.command("sh").args(notify).status().context("cannot run sh")?;
        let (address, station) = (format!("10.0.0.{number}"), format!("02:00:00:00:00:{number:02x}"));
        Ok(Host { name, namespace, address, station, at: None })
    }

    /// Plugs a host in at a port, which must be free; takes it off where it was.
    pub fn plug(&self, host: &mut Host, port: &'static str) -> anyhow::Result<()> {
        if let Some(before) = host.at.take() {
            let process = self.namespace.process();
            host.namespace.run(&format!("ip link set eth0 netns {process} name {before}-end"))?;
        }
        let process = host.namespace.process();
        // A cable is no card: nobody cuts frames into several for the host.
        self.namespace.run(&format!("ip link set dev {port}-end gso_max_segs 1"))?;
        self.namespace.run(&format!("ip link set dev {port}-end netns {process} name eth0"))?;
        host.namespace.run(&format!("ip link set eth0 address {}", host.station))?;
        host.namespace.run(&format!("ip address add {}/24 dev eth0", host.address))?;
        host.namespace.run("ip link set eth0 up")?;
        host.at = Some(port);
        Ok(())
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
            // One that has ended by itself has said why.
            let _ = process.kill();
            let _ = process.wait();
        }
        remove(&self.folder);
    }
}

/// What is left in the folder for temporary files is no failure.
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}
