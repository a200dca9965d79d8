//! Routers in a row. Each is a process with UDP to its neighbours and a Unix socket for applications.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use byname_client::management::command;
use byname_client::{Client, ClientOptions, Link, Transport};
use byname_control::mgmt::tlv::ControlParameters;
use byname_wire::Name;

use super::PATIENCE;
use crate::manage::face::create_for_route;

/// File with the secret that neighbours share, in the routers' folder.
const SECRET_FILE: &str = "neighbors.secret";

/// Running routers. Dropping this ends them.
pub struct Network {
    folder: PathBuf,
    /// Number of packet threads of each router.
    threads: u16,
    routers: Vec<Router>,
}

struct Router {
    name: &'static str,
    /// UDP port of this router.
    port: u16,
    process: Child,
}

impl Network {
    /// Starts a router for each name and links it to the previous one.
    pub fn start(names: &[&'static str], threads: u16) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("byname-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut network = Network { folder, threads, routers: Vec::new() };
        let edges: String = names.windows(2).fold(String::new(), |text, pair| text + &pair.join(" ") + "\n");
        std::fs::write(network.folder.join("network.txt"), edges)?;
        network.write_secret()?;
        // Bind all sockets at once, so that no port is given out twice.
        let sockets = names.iter().map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port()));
        let ports = ports.collect::<std::io::Result<Vec<u16>>>()?;
        drop(sockets);
        println!("Three routers, each a process, with UDP between them: {}", names.join(" - "));
        if threads > 1 {
            println!("Each router has {threads} packet threads.");
        }
        for (i, name) in names.iter().enumerate() {
            network.start_router(i, name, names, &ports)?;
        }
        Ok(network)
    }

    /// Writes the secret with which neighbours sign their updates.
    fn write_secret(&self) -> anyhow::Result<()> {
        let secret: [u64; 4] = rand::random();
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(self.folder.join(SECRET_FILE))?;
        Ok(file.write_all(format!("{secret:x?}").as_bytes())?)
    }

    /// Connects an application to a router.
    pub fn application(&self, router: &str) -> anyhow::Result<Client> {
        let options = ClientOptions::new(vec![Transport::Unix(self.socket(router))]);
        Ok(Client::over(self.client(router)?, options))
    }

    /// Connects a client to a router, for applications that use names.
    pub fn client(&self, router: &str) -> anyhow::Result<Link> {
        Ok(Link::connect(&[Transport::Unix(self.socket(router))])?)
    }

    /// The first router and the last.
    pub fn ends(&self) -> (&'static str, &'static str) {
        let [first, .., last] = &self.routers[..] else { unreachable!("three routers were started") };
        (first.name, last.name)
    }

    /// Makes every router send Interests under a prefix to the next router, on the existing face.
    pub fn route_to_last(&self, prefix: &Name) -> anyhow::Result<()> {
        for pair in self.routers.windows(2) {
            let mut client = self.client(pair[0].name)?;
            let uri = format!("udp4://127.0.0.1:{}", pair[1].port);
            let face_id = Some(create_for_route(&mut client, &uri, false)?);
            let parameters = ControlParameters { name: Some(prefix.clone()), face_id, ..ControlParameters::default() };
            command(&mut client, "rib", "register", &parameters)?;
        }
        Ok(())
    }

    /// The folder of the routers' files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// UDP port of a router.
    pub fn port(&self, name: &str) -> anyhow::Result<u16> {
        let router = self.routers.iter().find(|router| router.name == name);
        Ok(router.with_context(|| format!("there is no router {name}"))?.port)
    }

    /// Unix socket of a router.
    pub fn socket(&self, router: &str) -> PathBuf {
        self.folder.join(format!("{router}.sock"))
    }

    fn start_router(&mut self, i: usize, name: &'static str, names: &[&str], ports: &[u16]) -> anyhow::Result<()> {
        let socket = self.socket(name);
        let mut config = format!(
            "[faces.udp]\nport = {}\nipv6 = false\n[faces.tcp]\nlisten = false\n[faces.websocket]\nlisten = false\n\
             [faces.unix]\npath = {:?}\n[metrics]\nenabled = false\n[log]\nlevel = \"warn\"\n[threads]\ncount = {}\n\
             [fleet]\ntables = \"{name}.tables/fleet.toml\"\n\
             [tags]\ngraph = \"network.txt\"\nnode = {name:?}\n[[tags.tree]]\nid = 1\nroot = {:?}\n",
            ports[i], socket, self.threads, names[0],
        );
        for neighbor in [i.checked_sub(1), Some(i + 1).filter(|&next| next < names.len())].into_iter().flatten() {
            let (node, port) = (names[neighbor], ports[neighbor]);
            write!(
                config,
                "[[tags.neighbor]]\nnode = {node:?}\nface = \"udp4://127.0.0.1:{port}\"\n\
                 hmac_key = \"/demo\"\nhmac_secret_file = \"{SECRET_FILE}\"\n"
            )?;
        }
        let path = self.folder.join(format!("{name}.toml"));
        std::fs::write(&path, config)?;
        let process = Command::new(std::env::current_exe().context("cannot find this program")?)
            .args(["run", "--ephemeral", "--config"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start a router")?;
        self.routers.push(Router { name, port: ports[i], process });
        let end = Instant::now() + PATIENCE;
        while Link::connect(&[Transport::Unix(socket.clone())]).is_err() {
            let ended = self.routers.last_mut().and_then(|router| router.process.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > end {
                bail!("the router {name} does not run");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for router in &mut self.routers {
            // A router that has ended by itself has reported its error.
            let _ = router.process.kill();
            if let Err(error) = router.process.wait() {
                eprintln!("the router {} did not end: {error}", router.name);
            }
        }
        // Files that remain in the temporary folder are not a failure.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
