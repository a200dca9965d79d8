//! The routers of a network: processes, the namespaces that they are in, and producers that answer pings.

use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use byname_client::management::{RegisterOptions, register};
use byname_client::{Fields, Link, Transport};
use byname_wire::data::DataBuilder;
use byname_wire::{Component, Name};
use rustix::process::{Pid, Signal};

use super::messages::Messages;
use super::plan::{NETWORK, Place, Plan, keys, name, prefix};
use crate::demo::PATIENCE;
use crate::demo::namespace::Namespace;
use crate::key::NewType;
use crate::key::folder::Folder as Keys;
use crate::key::network::{new_anchor, of_router};
use crate::manage::routing::report::{RouterSeen, Status};
use crate::manage::routing::{ask_routers, ask_status};

/// How long routers may take to end before they are killed.
const END_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Pause between two questions about the ways that routers have found.
const WAYS_PAUSE: Duration = Duration::from_millis(100);
/// For how many days keys are valid.
const KEY_DAYS: u32 = 30;

/// Running routers. Dropping this ends them.
pub struct Routers {
    folder: PathBuf,
    pub namespaces: Vec<Namespace>,
    processes: Vec<Child>,
    messages: Messages,
}

impl Routers {
    /// Makes keys, namespaces and links, if the plan has them.
    pub fn prepare(plan: &Plan, folder: &Path) -> anyhow::Result<Routers> {
        let messages = Messages::new()?;
        let mut routers =
            Routers { folder: folder.to_owned(), namespaces: Vec::new(), processes: Vec::new(), messages };
        if plan.has_routing {
            make_keys(plan, folder)?;
        }
        if matches!(plan.place, Place::Loopback(_)) {
            return Ok(routers);
        }
        for _ in 0..plan.shape.graph.nodes() {
            let namespace = Namespace::new()?;
            namespace.run("ip link set lo up")?;
            routers.namespaces.push(namespace);
        }
        for (link, (a, b)) in plan.shape.links().enumerate() {
            let ([near, far], [first, second]) = ([b, a].map(name), Plan::addresses(link));
            let (here, there) = (&routers.namespaces[a], &routers.namespaces[b]);
            // Each end has the name of the router at the other.
            here.run(&format!("ip link add {near} type veth peer name {far} netns {}", there.process()))?;
            for (namespace, end, address) in [(here, near, first), (there, far, second)] {
                namespace.run(&format!("ip address add {address}/30 dev {end}"))?;
                namespace.run(&format!("ip link set {end} up"))?;
            }
        }
        Ok(routers)
    }

    /// Starts a router.
    pub fn start(&mut self, plan: &Plan, router: usize) -> anyhow::Result<()> {
        let path = self.folder.join(format!("{}.toml", name(router)));
        std::fs::write(&path, plan.configuration(router, &self.folder))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = match self.namespaces.get(router) {
            Some(namespace) => {
                let mut command = namespace.command("");
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["run", "--ephemeral", "--config"]).arg(&path);
        // In a group of its own, so that Ctrl-C reaches only this process, which ends all in order.
        let command =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.messages.stderr()?).process_group(0);
        self.processes.push(command.spawn().context("cannot start a router")?);
        Ok(())
    }

    /// Waits until a router answers.
    pub fn await_one(&mut self, router: usize) -> anyhow::Result<Link> {
        let (end, socket) = (Instant::now() + PATIENCE, self.socket(router));
        loop {
            if let Ok(client) = Link::connect(&[Transport::Unix(socket.clone())]) {
                return Ok(client);
            }
            if let Some(status) = self.processes[router].try_wait()? {
                bail!("the router {} does not run ({status}); its message is above", name(router));
            }
            ensure!(Instant::now() < end, "the router {} does not answer", name(router));
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until each router knows the way to all that the topology links it to. Returns whether that was in time.
    ///
    /// # Errors
    /// If a router ends.
    pub fn await_ways(&mut self, plan: &Plan, is_interrupted: impl Fn() -> bool) -> anyhow::Result<bool> {
        let end = Instant::now() + PATIENCE;
        for router in 0..plan.shape.graph.nodes() {
            let others = plan.shape.distances(router).into_iter().flatten().count() - 1;
            let mut client = self.await_one(router)?;
            while !knows_all(&mut client, others) {
                if Instant::now() > end || is_interrupted() {
                    return Ok(false);
                }
                std::thread::sleep(WAYS_PAUSE);
            }
        }
        Ok(true)
    }

    /// The Unix socket of a router.
    pub fn socket(&self, router: usize) -> PathBuf {
        self.folder.join(format!("{}.sock", name(router)))
    }

    /// Ends the routers. What they say from now on is not shown.
    pub fn end(self) {
        self.messages.silence();
    }

    /// Routers that have ended since the last question.
    pub fn take_ended(&mut self, known: &mut Vec<usize>) -> Vec<usize> {
        let ended = |(router, process): (usize, &mut Child)| match process.try_wait() {
            Ok(Some(_)) if !known.contains(&router) => Some(router),
            _ => None,
        };
        let new: Vec<usize> = self.processes.iter_mut().enumerate().filter_map(ended).collect();
        known.extend(&new);
        new
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        for process in &self.processes {
            if let Some(pid) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
        }
        let end = Instant::now() + END_PATIENCE;
        for process in &mut self.processes {
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(PAUSE);
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        self.messages.end();
    }
}

/// Makes the anchor of the network, and a folder of keys for each router. All are of this network only: they go with the
/// folder.
fn make_keys(plan: &Plan, folder: &Path) -> anyhow::Result<()> {
    let anchor = Keys::new(Some(folder.join("anchor")))?;
    let anchor = new_anchor(&anchor, &NETWORK.parse()?, NewType::Ed25519)?;
    for router in 0..plan.shape.graph.nodes() {
        let own = Keys::new(Some(keys(folder, router)))?;
        of_router(&own, &prefix(router).parse()?, &anchor, (NewType::Ed25519, KEY_DAYS), None)?;
    }
    Ok(())
}

/// Whether a router has routes to what so many others serve. Routing that has not begun yet does not answer.
fn knows_all(client: &mut Link, others: usize) -> bool {
    let is_known = |router: &RouterSeen| router.cost.is_some() && router.prefixes > 0;
    let knows = |routers: Vec<RouterSeen>| routers.iter().filter(|router| is_known(router)).count() >= others;
    ask_routers(client).is_ok_and(knows) && ask_status(client).is_ok_and(|status: Status| status.settled)
}

/// Answers pings at a router until the connection ends. The thread ends with the process. `announce`: its routing tells the
/// network.
pub fn answer_pings(mut client: Link, router: usize, announce: bool) -> anyhow::Result<()> {
    let base: Name = prefix(router).parse::<Name>()?.join(Component::generic(b"ping"));
    register(&mut client, &base, RegisterOptions { announce })?;
    let serve = move || {
        client.serve(|interest, incoming, outbox| {
            if base.as_ref().is_prefix_of(&interest.name) {
                let data = DataBuilder::new(interest.name.to_name()).freshness_ms(1000).encode();
                outbox.push(&data, Fields { pit_token: incoming.pit_token, ..Fields::default() });
            }
            true
        })
    };
    std::thread::Builder::new().name(format!("pings-{}", name(router))).stack_size(256 << 10).spawn(serve)?;
    Ok(())
}

/// UDP ports that are free on the loopback interface.
pub fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    // All are open at once, so that no port is given out twice.
    let sockets = (0..count).map(|_| UdpSocket::bind(("127.0.0.1", 0))).collect::<Result<Vec<_>, _>>();
    let ports = sockets.context("cannot open UDP ports")?;
    Ok(ports.iter().map(|socket| Ok(socket.local_addr()?.port())).collect::<std::io::Result<Vec<u16>>>()?)
}
