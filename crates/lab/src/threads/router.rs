//! A router with a number of packet threads, and a generator that is connected to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use byname_face::memif::Framing;

use super::options::{Options, Port};
use crate::peer::Management;
use crate::wire::{Endpoint, Generator, MemifEnd, Names};

/// Maximum time until a router answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running router. Dropping it ends the process.
pub struct Router {
    child: Child,
    folder: PathBuf,
    /// Its UDP port. The generator has the next two.
    udp_port: u16,
}

impl Router {
    /// Starts the router with this place among all routers, and waits until it answers. Its files are in `folder`.
    pub fn start(options: &Options, place: usize, folder: PathBuf) -> anyhow::Result<Self> {
        let threads = options.threads[place];
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let udp_port = options.first_port + 3 * place as u16;
        let file = folder.join("byname.toml");
        std::fs::write(&file, config(threads, &options.settings, udp_port, &folder))?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new(&options.byname);
        command.arg("run").arg("--ephemeral").arg("--config").arg(&file);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", options.byname.display()))?;
        let mut router = Router { child, folder, udp_port };
        router.wait_until_it_answers()?;
        Ok(router)
    }

    fn wait_until_it_answers(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(self.path("sock")).is_err() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("the router ended ({status}):\n{}", log());
            }
            ensure!(Instant::now() < deadline, "the router does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Connects a generator to it by two faces, and registers the route to its producer.
    pub fn connect(&self, port: Port, payload: usize) -> anyhow::Result<Generator> {
        let names = Names::new("/ndn/bench", 0)?;
        let mut management = Management::connect(&self.path("sock"))?;
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (consumer, producer) = match port {
            Port::Udp => {
                let end = |port| Endpoint::udp(port, loopback(self.udp_port), false);
                let face = management.face(&format!("udp4://{}", loopback(self.udp_port + 2)), None)?;
                management.route("/ndn", Some(face))?;
                (end(self.udp_port + 1)?, end(self.udp_port + 2)?)
            }
            Port::Unix => {
                management.route("/ndn", None)?;
                let consumer = Management::connect(&self.path("sock"))?.into_stream();
                (Endpoint::unix(consumer)?, Endpoint::unix(management.into_stream())?)
            }
            Port::Memif => {
                let end = |socket: PathBuf| -> anyhow::Result<Endpoint> {
                    let end = MemifEnd::connect(&socket.display().to_string(), Framing::Packets)?;
                    Ok(Endpoint::Memif(Box::new(end)))
                };
                let ends = (end(self.path("consumer"))?, end(self.path("producer"))?);
                let face = management.face(&format!("memif://{}?id=0", self.path("producer").display()), None)?;
                management.route("/ndn", Some(face))?;
                ends
            }
        };
        Ok(Generator::new(consumer, producer, names, payload))
    }

    /// Processor time of all its threads so far.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let mut ns = 0;
        for task in std::fs::read_dir(&tasks).with_context(|| format!("cannot read {}", tasks.display()))? {
            // A thread may end meanwhile. Its time is then lost, and threads of a router that end do little.
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
            ns += run_time_ns(&text).context("this system has no times of threads (schedstat)")?;
        }
        Ok(Duration::from_nanos(ns))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first number of a thread's `schedstat`: nanoseconds on a processor.
fn run_time_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// A configuration with this number of threads, and nothing that could disturb.
pub(super) fn config(threads: usize, settings: &str, udp_port: u16, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"[general]
state_folder = "{folder}"

[threads]
count = {threads}
{settings}

[faces.unix]
path = "{folder}/sock"

[faces.udp]
port = {udp_port}
ipv6 = false

[faces.tcp]
listen = false

[faces.websocket]
listen = false

[[faces.memif]]
role = "server"
socket = "{folder}/consumer"

[[faces.memif]]
role = "server"
socket = "{folder}/producer"
"#
    )
}
