//! `byname fleet` and `byname agent`: many routers with one intent, in etcd. docs/fleet.md has the keys.

mod agent;
mod builder;
mod change;
mod copy;
mod lines;
mod show;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use byname_fleet::block_on;
use byname_fleet::etcd::{Connection, Endpoints, Login};
use byname_fleet::key::Space;
use byname_fleet::label::Label;
use byname_fleet::writer::{Building, Nodes, Write, WriteError, Writer};
use clap::{Args, Subcommand};

use crate::exit::{self, Failure};
pub use agent::{AgentArgs, run as run_agent};
pub use builder::{BuilderArgs, run as run_builder};

const EXAMPLES: &str = "\
Examples:
  byname fleet link add r1 to-r2 udp4://192.0.2.2:6363    a name for an address, as node r1 reaches it
  byname fleet group set west r1 to-r2:10 to-r3:20        links of the group west at r1, with costs
  byname fleet route add /example/video west              at all nodes where the group has links
  byname fleet link down r1 to-r2                         one key, for all routes over this link
  byname fleet status                                     how far each node is
  byname fleet show > intent.txt                          the whole intent, as `load` takes it
  byname fleet load intent.txt
  byname fleet table load world rules.txt                 a million prefixes with their groups, as chunks
  byname fleet table load world rules.txt --built         a hundred million, which `byname builder` makes a file of

`byname agent --node r1` follows the intent beside the router of r1. docs/fleet.md says what happens when etcd, an agent
or a writer fails.";

/// Options of `byname fleet`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Wait so many seconds for another writer to end
    #[arg(long, value_name = "SECONDS", default_value_t = 10, global = true)]
    wait: u64,
    /// Wait so many seconds for all live nodes to have the new routes, before old ones go
    #[arg(long, value_name = "SECONDS", default_value_t = 5, global = true)]
    patience: u64,
    /// Folder with the chunks of tables that this host has written [default: fleet-FLEET.chunks in the folder for byname's
    /// state]
    #[arg(long, value_name = "FOLDER", global = true)]
    chunks: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// Where etcd is.
#[derive(Debug, Clone, Args)]
pub struct EtcdArgs {
    /// Endpoints of etcd, separated by commas; when one fails, the next is used
    #[arg(long, value_name = "URLS", value_delimiter = ',', default_value = "http://127.0.0.1:2379", global = true)]
    etcd: Vec<String>,
    /// Name of the fleet; its keys are below /byname/FLEET/
    #[arg(long, value_name = "FLEET", default_value = "main", value_parser = parse_label, global = true)]
    fleet: Label,
    /// User of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file", global = true)]
    etcd_user: Option<String>,
    /// File with the password of that user
    #[arg(long, value_name = "FILE", requires = "etcd_user", global = true)]
    etcd_password_file: Option<PathBuf>,
    /// Certificates that https:// endpoints are checked with, in PEM
    #[arg(long, value_name = "FILE", global = true)]
    etcd_ca: Option<PathBuf>,
    /// Certificate of this client, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key", global = true)]
    etcd_certificate: Option<PathBuf>,
    /// Private key of this client, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certificate", global = true)]
    etcd_key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show how far each node is
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the whole intent, as `load` takes it
    Show,
    #[command(flatten)]
    Change(change::Change),
    /// Make many changes at once: one on each line, such as `route add /a west`; `#` begins a comment, and after a line
    /// `wait`, changes are made when all live nodes have those before
    Load {
        /// The file (-: standard input)
        file: PathBuf,
    },
    /// Tables that are too large for keys: their rules travel as chunks
    #[command(subcommand)]
    Table(table::TableCommand),
    /// Serve the chunks of tables through this host's router, until Ctrl-C
    Serve {
        /// The network: chunks are below /NETWORK/32=fleet [default: /FLEET]
        #[arg(long, value_name = "NAME", value_parser = crate::tools::parse_name)]
        network: Option<byname_wire::Name>,
    },
    /// Copy the chunks of `--chunks` to an object store, from which agents and builders can take them (`--chunks-from`)
    Copy {
        /// s3://BUCKET/PATH, gs://…, az://…, https://… (PUT), file:///PATH or a folder; keys come from the environment, such as
        /// AWS_ACCESS_KEY_ID
        #[arg(value_name = "URL")]
        to: String,
        /// Go on with chunks that come later, until Ctrl-C
        #[arg(long)]
        follow: bool,
    },
}

impl EtcdArgs {
    fn space(&self) -> Space {
        Space::new(&self.fleet)
    }

    fn login(&self) -> anyhow::Result<Login> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        for endpoint in &self.etcd {
            if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
                let message = format!("'{endpoint}' is no endpoint of etcd: try http://{endpoint}");
                return Err(Failure::new(exit::USAGE, message).into());
            }
            if endpoint.starts_with("https://") && self.etcd_ca.is_none() {
                let message = "https:// needs --etcd-ca: the certificates that the endpoint is checked with";
                return Err(Failure::new(exit::USAGE, message).into());
            }
        }
        let user = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(user), Some(path)) => {
                let password = std::fs::read_to_string(path);
                let password = password.with_context(|| format!("cannot read {}", path.display()))?;
                Some((user.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
            }
            _ => None,
        };
        let identity_pem: Option<(Vec<u8>, Vec<u8>)> = match (&self.etcd_certificate, &self.etcd_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let ca_pem = self.etcd_ca.as_ref().map(read).transpose()?;
        for (path, pem) in
            [(&self.etcd_ca, ca_pem.as_ref()), (&self.etcd_certificate, identity_pem.as_ref().map(|(pem, _)| pem))]
        {
            if let (Some(path), Some(pem)) = (path, pem) {
                let is_pem = pem.windows(27).any(|text| text == b"-----BEGIN CERTIFICATE-----");
                anyhow::ensure!(is_pem, "{} has no certificate in PEM", path.display());
            }
        }
        Ok(Login { endpoints: self.etcd.clone(), user, ca_pem, identity_pem })
    }

    /// The network whose name is not given.
    fn network(&self, given: Option<byname_wire::Name>) -> byname_wire::Name {
        let component = byname_wire::Component::generic(self.fleet.as_str().as_bytes());
        given.unwrap_or_else(|| byname_wire::Name::default().join(component))
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        Ok(Endpoints::new(self.login()?).connect_any().await?)
    }
}

/// Runs `byname fleet`.
pub fn run(args: FleetArgs, connection: &crate::Connection) -> anyhow::Result<u8> {
    block_on(carry_out(args, connection)).context("cannot start the runtime")?
}

async fn carry_out(args: FleetArgs, router: &crate::Connection) -> anyhow::Result<u8> {
    let FleetArgs { etcd, wait, patience, chunks, command } = args;
    let space = etcd.space();
    let store = || table::store(chunks.as_deref(), &etcd.fleet);
    let times = (Duration::from_secs(wait), Duration::from_secs(patience));
    // Files and arguments first, so that mistakes are told even without etcd.
    let (changes, checks) = match command {
        Command::Status { json } => return show::status(&etcd.connect().await?, &space, json).await,
        Command::Show => return show::intent(&etcd.connect().await?, &space).await,
        Command::Serve { network } => return table::serve(&store()?, &etcd.network(network), router).await,
        Command::Copy { to, follow } => return copy::copy(&store()?, &to, follow).await,
        Command::Table(command) => {
            return match command.ready(store)? {
                table::Ready::List => table::list(&etcd.connect().await?, &space).await,
                table::Ready::Show(name) => table::show(&etcd.connect().await?, &space, &store()?, &name).await,
                table::Ready::Write(write) => {
                    let (store, connection) = (store()?, etcd.connect().await?);
                    let mut writer = Writer::begin(connection, space, who(), times.0).await?;
                    let written = write_table(&mut writer, write, &store, times.1).await;
                    end(writer, &etcd, written.is_ok()).await;
                    let (text, revision, nodes) = written?;
                    println!("{text}, revision {revision}");
                    print_nodes(&nodes);
                    Ok(exit::OK)
                }
            };
        }
        Command::Change(change) => (vec![vec![change]], true),
        Command::Load { file } => (change::from_file(&file)?, false),
    };
    let steps = changes.iter().map(|step| step.iter().map(change::Change::write).collect());
    let steps = steps.collect::<anyhow::Result<Vec<Vec<_>>>>()?;
    let connection = etcd.connect().await?;
    if checks {
        for change in changes.iter().flatten() {
            change.check(&connection, &space).await?;
        }
    }
    if steps.is_empty() {
        return Ok(exit::OK);
    }
    let mut writer = Writer::begin(connection, space, who(), times.0).await?;
    let written = write_steps(&mut writer, steps, times.1).await;
    end(writer, &etcd, !written.as_ref().is_err_and(|error| error.is::<WriteError>())).await;
    written.map(|()| exit::OK)
}

/// Writes each step when all live nodes have the one before.
async fn write_steps(writer: &mut Writer, steps: Vec<Vec<Write>>, patience: Duration) -> anyhow::Result<()> {
    let count = steps.len();
    for (number, writes) in steps.into_iter().enumerate() {
        let changes = writes.len();
        let revision = writer.write(writes).await?;
        let nodes = writer.settle(revision, patience).await?;
        println!("{changes} {} written, revision {revision}", if changes == 1 { "change" } else { "changes" });
        print_nodes(&nodes);
        let left = count - number - 1;
        let is_late = left > 0 && !nodes.late.is_empty();
        anyhow::ensure!(
            !is_late,
            "not all live nodes have this, so {} not written: wait longer (--patience), or load the rest later",
            if left == 1 { "the step after `wait` was" } else { "the steps after `wait` were" }
        );
    }
    Ok(())
}

/// Lets others write. If this fails, the writer's lease ends by itself.
async fn end(writer: Writer, etcd: &EtcdArgs, is_connected: bool) {
    if is_connected {
        let _ = writer.end().await;
    } else if let Ok(connection) = etcd.connect().await {
        let _ = writer.end_over(&connection).await;
    }
}

fn print_nodes(nodes: &Nodes) {
    println!("{} of {} live nodes have it", nodes.ready.len(), nodes.ready.len() + nodes.late.len());
    for (node, report) in &nodes.late {
        println!("  {node} has not: {}", show::why_late(report));
    }
}

async fn write_table(
    writer: &mut Writer,
    write: table::TableWrite,
    store: &byname_fleet::table::store::Store,
    patience: Duration,
) -> anyhow::Result<(String, i64, Nodes)> {
    let table = write.table().clone();
    let (mut text, mut revision) = write.write(writer, store).await?;
    match writer.wait_built(&table, patience).await? {
        Building::Needless => {}
        Building::Done(since) => {
            text += ", built";
            revision = revision.max(since);
        }
        Building::Late => text += ", not built yet (see `byname fleet table list` and `byname builder`)",
    }
    Ok((text, revision, writer.settle(revision, patience).await?))
}

/// A folder in which this user may write, for the state of commands that are no router.
fn state_folder(option: &str) -> anyhow::Result<PathBuf> {
    let folders = crate::run::state::folders(&byname_control::config::Config::default());
    let is_writable = |folder: &Path| {
        std::fs::create_dir_all(folder).is_ok() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
    };
    let none = || Failure::new(exit::FAILED, format!("there is no folder for byname's state: name one with {option}"));
    Ok(folders.into_iter().find(|folder| is_writable(folder)).ok_or_else(none)?)
}

/// Who writes, for others who would like to.
fn who() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "somebody".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host} (process {})", std::process::id())
}

fn parse_label(text: &str) -> Result<Label, String> {
    text.parse().map_err(|error: byname_fleet::label::BadLabel| error.to_string())
}
