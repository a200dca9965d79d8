//! `byname demo`: the paper's applications [TagNet §2.1] over three routers, each in a process; three switches
//! [Concise §3.1] with hosts that move; a fleet that follows etcd ([`fleet`]); and networks of any shape to try things in ([`net`]).

mod fleet;
mod named;
mod namespace;
mod net;
mod network;
mod pull;
mod push;
mod switch;

use std::time::{Duration, Instant};

use anyhow::bail;
use byname_switch::key::KeyKind;
use byname_wire::Descriptor;
use clap::{Args, Subcommand};

use byname_client::tags::Message;
use byname_client::{Client, SendError};
use network::Network;

/// Time limit for each step.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of `byname demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, Subcommand)]
enum Demo {
    /// A music player requests a song by tags, and the rest of it by locator; a consumer fetches Data by name meanwhile
    Pull(RouterArgs),
    /// News reaches all listeners that want a subset of its tags; a consumer fetches Data by name meanwhile
    Push(RouterArgs),
    /// Three routers follow one intent in etcd; a link fails, and then etcd itself (needs etcd in the path)
    Fleet,
    /// A network of routers to try things in: a line, a ring, a grid, or one from a file
    Net(net::NetArgs),
    /// Hosts in network namespaces on three Ethernet switches; a host moves while ping and iperf3 run (needs root)
    Switch(SwitchArgs),
}

#[derive(Debug, Args)]
struct RouterArgs {
    /// Packet threads of each router
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u16,
}

#[derive(Debug, Args)]
struct SwitchArgs {
    /// Threads of each switch
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u16,
    /// What the switches forward by
    #[arg(long, value_name = "KEY", default_value = "mac", value_parser = key_kind)]
    key: KeyKind,
}

fn key_kind(word: &str) -> Result<KeyKind, String> {
    KeyKind::ALL
        .into_iter()
        .find(|kind| kind.word() == word)
        .ok_or_else(|| format!("the keys are {}", KeyKind::ALL.map(KeyKind::word).join(", ")))
}

/// Starts the routers and runs a demonstration on them.
pub fn run(args: DemoArgs) -> anyhow::Result<u8> {
    let routers = |args: RouterArgs| Network::start(&["geneva", "lugano", "zurich"], args.threads);
    match args.demo {
        Demo::Pull(args) => {
            let network = routers(args)?;
            named::beside(&network, || pull::run(&network))?;
        }
        Demo::Push(args) => {
            let network = routers(args)?;
            named::beside(&network, || push::run(&network))?;
        }
        Demo::Fleet => fleet::run()?,
        Demo::Net(args) => return net::run(args),
        Demo::Switch(args) => switch::run(args.threads, args.key)?,
    }
    Ok(crate::exit::OK)
}

fn tags(all: &[&str]) -> anyhow::Result<Descriptor> {
    Ok(Descriptor::of(all)?)
}

/// Formats tags as `{classical, concert}`.
fn set(all: &[&str]) -> String {
    format!("{{{}}}", all.join(", "))
}

/// Repeats `ask` until `wanted` returns a value for a received message.
fn ask_until<T>(
    application: &mut Client,
    mut ask: impl FnMut(&mut Client) -> Result<(), SendError>,
    mut wanted: impl FnMut(Message) -> Option<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        ask(application)?;
        let again = Instant::now() + Duration::from_millis(250);
        while Instant::now() < again {
            let wait = again.saturating_duration_since(Instant::now());
            if let Some(found) = application.messages(wait)?.into_iter().find_map(&mut wanted) {
                return Ok(found);
            }
        }
    }
    bail!("no answer within {} s", PATIENCE.as_secs())
}
