//! `byname demo fleet`: three routers that follow one intent in etcd, which then fails, and a builder that makes a table for all of them.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::PATIENCE;
use super::network::Network;
use crate::exit::{self, Failure};

const NODES: [&str; 3] = ["geneva", "lugano", "zurich"];
const PREFIX: &str = "/demo/news";
/// A rule of the table, and how many it has.
const ARCHIVED: &str = "/demo/archive/7";
const RULES: usize = 100_000;

/// A process that ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// etcd, with its data in the folder of the routers.
struct Etcd {
    folder: PathBuf,
    url: String,
    peer_url: String,
    process: Option<Running>,
}

/// Runs the demonstration.
pub fn run() -> anyhow::Result<()> {
    if Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        let message = "this demonstration needs etcd in the path: on Debian, `apt install etcd-server`";
        return Err(Failure::new(exit::FAILED, message).into());
    }
    let network = Network::start(&NODES, 1)?;
    let mut etcd = Etcd::new(&network)?;
    etcd.start()?;
    let agents = NODES.map(|node| agent(&network, &etcd, node));
    let _agents: Vec<Running> = agents.into_iter().collect::<anyhow::Result<_>>()?;
    println!("Beside each router runs `byname agent`, which follows an intent in etcd at {}.", etcd.url);

    let end = Instant::now() + PATIENCE;
    loop {
        let status: serde_json::Value = serde_json::from_str(&etcd.fleet(&["status", "--json"])?.1)?;
        let nodes = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        if nodes.iter().filter(|node| node["connected"] == true).count() == NODES.len() {
            break;
        }
        ensure!(Instant::now() < end, "the agents do not report");
        std::thread::sleep(Duration::from_millis(50));
    }

    let port = |node| network.port(node);
    let intent = format!(
        "link add geneva direct udp4://127.0.0.1:{zurich}\nlink add geneva detour udp4://127.0.0.1:{lugano}\n\
         link add lugano on udp4://127.0.0.1:{zurich}\n\
         group set to-zurich geneva direct:0 detour:10\ngroup set to-zurich lugano on:0\n\
         route add {PREFIX} to-zurich\n",
        zurich = port("zurich")?,
        lugano = port("lugano")?,
    );
    println!("\nThe intent:\n{}", intent.lines().map(|line| format!("  {line}\n")).collect::<String>());
    let file = network.folder().join("intent");
    std::fs::write(&file, &intent)?;
    let (took, said) = etcd.fleet(&["load", &file.display().to_string()])?;
    println!("After {} ms: {}", took.as_millis(), said.trim_end().replace('\n', "; "));

    let _server = byname(&network, "zurich", &["ping-server", PREFIX])?.spawn().map(Running)?;
    answered(&network, PREFIX, "a ping from geneva is answered by zurich")?;

    println!("\nThe link between geneva and zurich fails: one key, for all routes over it.");
    let (took, _) = etcd.fleet(&["link", "down", "geneva", "direct"])?;
    println!("After {} ms, geneva uses the way over lugano.", took.as_millis());
    answered(&network, PREFIX, "a ping is answered over lugano")?;

    let _builder = builder(&network, &etcd)?;
    let _archive = byname(&network, "zurich", &["ping-server", ARCHIVED])?.spawn().map(Running)?;
    println!(
        "\nA table of {RULES} rules is loaded. `byname builder` makes a file of it, for routers without the names."
    );
    let rules: String = (0..RULES).map(|number| format!("/demo/archive/{number} to-zurich\n")).collect();
    let file = network.folder().join("rules");
    std::fs::write(&file, rules)?;
    let (took, _) =
        etcd.fleet(&["table", "load", "archive", "--built", &file.display().to_string(), "--patience", "60"])?;
    println!("After {} ms, all routers have it. {}", took.as_millis(), etcd.fleet(&["table", "list"])?.1.trim_end());
    answered(&network, ARCHIVED, "a ping is answered by a rule of the table")?;

    println!("\netcd is killed, all of it.");
    etcd.process = None;
    answered(&network, PREFIX, "a ping is answered without etcd")?;
    answered(&network, ARCHIVED, "so is one by the table")?;

    println!("\netcd comes back, and the route is removed.");
    etcd.start()?;
    etcd.fleet(&["route", "remove", PREFIX])?;
    let end = Instant::now() + PATIENCE;
    while pings(&network, PREFIX)? {
        ensure!(Instant::now() < end, "the route is still there");
    }
    println!("Agents have followed: geneva has no route any more.\n");
    print!("{}", etcd.fleet(&["status"])?.1);
    Ok(())
}

impl Etcd {
    fn new(network: &Network) -> anyhow::Result<Self> {
        let sockets = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let urls = sockets.into_iter().map(|socket| Ok(format!("http://{}", socket?.local_addr()?)));
        let urls = urls.collect::<std::io::Result<Vec<_>>>()?;
        let [url, peer_url] = <[String; 2]>::try_from(urls).expect("two sockets");
        Ok(Etcd { folder: network.folder().to_owned(), url, peer_url, process: None })
    }

    /// Starts it, and waits until it answers.
    fn start(&mut self) -> anyhow::Result<()> {
        let (url, peer_url) = (&self.url, &self.peer_url);
        let log = File::options().create(true).append(true).open(self.folder.join("etcd.log"))?;
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", url, "--advertise-client-urls", url])
            .args(["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start etcd")?;
        self.process = Some(Running(process));
        let end = Instant::now() + PATIENCE;
        while self.fleet(&["status"]).is_err() {
            ensure!(Instant::now() < end, "etcd does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// `byname fleet …`: how long it took, and what it said.
    fn fleet(&self, words: &[&str]) -> anyhow::Result<(Duration, String)> {
        let begun = Instant::now();
        let output = program()?
            .args(["fleet", "--etcd", &self.url, "--chunks"])
            .arg(self.folder.join("chunks"))
            .args(words)
            .output()?;
        if !output.status.success() {
            bail!("byname fleet {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok((begun.elapsed(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

fn agent(network: &Network, etcd: &Etcd, node: &str) -> anyhow::Result<Running> {
    let mut command = byname(network, node, &["agent", "--node", node, "--etcd", &etcd.url])?;
    command.arg("--state").arg(network.folder().join(format!("{node}.agent.json")));
    command.arg("--chunks").arg(network.folder().join(format!("{node}.chunks"))).env("RUST_LOG", "error");
    command.arg("--tables").arg(network.folder().join(format!("{node}.tables/fleet.toml")));
    // In a network of hosts, agents fetch blocks through their routers.
    command.arg("--chunks-from").arg(network.folder().join("built"));
    Ok(Running(command.spawn().context("cannot start an agent")?))
}

fn builder(network: &Network, etcd: &Etcd) -> anyhow::Result<Running> {
    let mut command = byname(network, "geneva", &["builder", "--etcd", &etcd.url, "--pause", "100"])?;
    command.arg("--chunks").arg(network.folder().join("built")).arg("--chunks-from").arg(etcd.folder.join("chunks"));
    Ok(Running(command.env("RUST_LOG", "error").spawn().context("cannot start the builder")?))
}

fn program() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.stdin(Stdio::null());
    Ok(command)
}

/// A command at a router.
fn byname(network: &Network, node: &str, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = program()?;
    command.args(words).args(["--transport", &format!("unix://{}", network.socket(node).display())]);
    command.stdout(Stdio::null());
    Ok(command)
}

/// Whether a ping from geneva is answered.
fn pings(network: &Network, prefix: &str) -> anyhow::Result<bool> {
    let mut ping = byname(network, "geneva", &["ping", prefix, "-c", "1", "--timeout", "500"])?;
    Ok(ping.stderr(Stdio::null()).status()?.success())
}

fn answered(network: &Network, prefix: &str, what: &str) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !pings(network, prefix)? {
        ensure!(Instant::now() < end, "not in time: {what}");
    }
    println!("  {what}");
    Ok(())
}
