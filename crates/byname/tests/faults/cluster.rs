//! Three members of etcd, each in a network namespace of its own with two cables: one to clients, and one to other members.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use byname_fleet::etcd::Login;

/// Number of members.
pub const MEMBERS: usize = 3;
/// Size of the file system of each member: etcd makes files of 64 MB beforehand.
const DISK: &str = "size=160m";

/// Runs a program that must succeed.
pub fn run(words: &[&str]) {
    let output = try_run(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn try_run(words: &[&str]) -> Output {
    Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Why there can be no such cluster here, if so.
pub fn missing() -> Option<String> {
    for (program, package, argument) in
        [("etcd", "etcd-server", "--version"), ("etcdctl", "etcd-client", "version"), ("ip", "iproute2", "-V")]
    {
        if Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Some(format!("{program} is missing (on Debian: apt install {package})"));
        }
    }
    let bridge =
        ["unshare", "--net", "--mount", "--pid", "--fork", "ip", "link", "add", "dev", "clients", "type", "bridge"];
    let output = Command::new(bridge[0]).args(&bridge[1..]).output();
    let allowed = output.is_ok_and(|output| output.status.success());
    (!allowed).then(|| "network namespaces with bridges need root".to_owned())
}

/// A member of etcd.
struct Member {
    number: usize,
    folder: PathBuf,
    process: Option<Child>,
    /// How far its monotonic clock is moved, in s.
    clock_s: u64,
}

/// All members.
pub struct Cluster {
    members: Vec<Member>,
}

impl Cluster {
    /// Starts all members, with their data below this folder. The caller is alone in its namespaces.
    pub fn start(folder: &Path) -> Cluster {
        // `ip netns` has files there.
        run(&["mount", "-t", "tmpfs", "none", "/run"]);
        run(&["ip", "link", "set", "lo", "up"]);
        for bridge in ["clients", "peers"] {
            run(&["ip", "link", "add", "dev", bridge, "type", "bridge"]);
            run(&["ip", "link", "set", bridge, "up"]);
        }
        run(&["ip", "addr", "add", "10.77.1.254/24", "dev", "clients"]);
        let members = (1..=MEMBERS).map(|number| {
            let name = format!("m{number}");
            run(&["ip", "netns", "add", &name]);
            run(&["ip", "-n", &name, "link", "set", "lo", "up"]);
            for (net, bridge) in [(1, "clients"), (2, "peers")] {
                let (here, address) = (format!("{bridge}{number}"), format!("10.77.{net}.{number}/24"));
                run(&["ip", "link", "add", "dev", &here, "type", "veth", "peer", "name", bridge, "netns", &name]);
                run(&["ip", "link", "set", &here, "master", bridge, "up"]);
                run(&["ip", "-n", &name, "addr", "add", &address, "dev", bridge]);
                run(&["ip", "-n", &name, "link", "set", bridge, "up"]);
            }
            let folder = folder.join(&name);
            std::fs::create_dir(&folder).expect("a folder");
            run(&["mount", "-t", "tmpfs", "-o", DISK, "none", &folder.display().to_string()]);
            Member { number, folder, process: None, clock_s: 0 }
        });
        let mut cluster = Cluster { members: members.collect() };
        (0..MEMBERS).for_each(|member| cluster.begin(member));
        cluster
    }

    /// Starts a member that is not there.
    pub fn begin(&mut self, member: usize) {
        self.members[member].begin();
    }

    /// Ends a member at once.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self, member: usize) -> bool {
        self.members[member]
            .process
            .as_mut()
            .is_none_or(|process| process.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Sends a signal to a member.
    pub fn signal(&self, member: usize, signal: &str) {
        if let Some(process) = &self.members[member].process {
            run(&["kill", signal, &process.id().to_string()]);
        }
    }

    /// Pulls a cable of a member out, or puts it back.
    pub fn cable(&self, member: usize, bridge: &str, state: &str) {
        run(&["ip", "link", "set", &format!("{bridge}{}", member + 1), state]);
    }

    /// Starts a member again, with another monotonic clock. Returns whether this system can do so.
    pub fn move_clock(&mut self, member: usize, clock_s: u64) -> bool {
        self.kill(member);
        self.members[member].clock_s = clock_s;
        self.begin(member);
        std::thread::sleep(std::time::Duration::from_millis(200));
        let of = |process: String| std::fs::read_link(format!("/proc/{process}/ns/time")).ok();
        let id = self.members[member].process.as_ref().map(|process| process.id().to_string());
        of(id.unwrap_or_default()) != of("self".to_owned())
    }

    /// Fills the disk of a member.
    pub fn fill_disk(&self, member: usize) {
        let mut file = File::create(self.filling(member)).expect("a file");
        while file.write_all(&[1; 65_536]).is_ok() {}
    }

    /// Makes room again.
    pub fn free_disk(&self, member: usize) {
        std::fs::remove_file(self.filling(member)).expect("remove the file");
    }

    fn filling(&self, member: usize) -> PathBuf {
        self.members[member].folder.join("filling")
    }

    /// The endpoint of a member.
    pub fn url(member: usize) -> String {
        format!("http://10.77.1.{}:2379", member + 1)
    }

    /// All endpoints, from this member on.
    pub fn login(first: usize) -> Login {
        Login { endpoints: (0..MEMBERS).map(|at| Cluster::url((first + at) % MEMBERS)).collect(), ..Login::default() }
    }

    /// The member that leads, if one says so.
    pub fn leader(&self) -> Option<usize> {
        (0..MEMBERS).find(|member| {
            let output = self.etcdctl(*member, &["endpoint", "status", "--write-out", "json"]);
            let Ok(status) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else { return false };
            let status = &status[0]["Status"];
            status["leader"].is_u64() && status["leader"] == status["header"]["member_id"]
        })
    }

    /// Runs etcdctl for a member.
    pub fn etcdctl(&self, member: usize, words: &[&str]) -> Output {
        Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &Cluster::url(member), "--command-timeout", "2s", "--dial-timeout", "1s"])
            .args(words)
            .output()
            .expect("etcdctl")
    }

    /// The last lines of a member's log.
    pub fn log(&self, member: usize) -> String {
        let log = std::fs::read_to_string(self.members[member].log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Member {
    fn begin(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).expect("a log");
        let name = format!("m{}", self.number);
        let (client, peer) =
            (format!("http://10.77.1.{}:2379", self.number), format!("http://10.77.2.{}:2380", self.number));
        let all: Vec<String> = (1..=MEMBERS).map(|member| format!("m{member}=http://10.77.2.{member}:2380")).collect();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name]);
        if self.clock_s != 0 {
            let clock = self.clock_s.to_string();
            command.args(["unshare", "--time", "--monotonic", &clock, "--boottime", &clock]);
        }
        let process = command
            .args(["etcd", "--name", &name, "--data-dir"])
            .arg(self.folder.join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(","), "--logger", "zap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start etcd");
        self.process = Some(process);
    }

    fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..MEMBERS).for_each(|member| self.kill(member));
    }
}
