//! `byname switch` and `byname switch-controller`: Ethernet by flat names, in processes that find each
//! other over Unix sockets or TCP.

mod agent;
mod controller;
mod status;
mod stream;

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::Context;
use byname_control::config::{ConfigError, SwitchConfig, SwitchNetwork};
use byname_face::switch::{SwitchPort, SwitchPortConfig};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{exit, run};

/// What waits for the agent: reports of the switch beyond these are made again.
const EVENTS_MAX: usize = 4096;

const SWITCH_EXAMPLE: &str = r#"The configuration of a switch (TOML):
  name = "s1"                                          # in the controller's file
  controller = "unix:///run/byname/switches.sock"      # or "tcp://192.0.2.1:6364"
  ports = ["eth1", "eth2", "eth3"]                     # interfaces; the controller says what each is for
  status = "/run/byname/s1.sock"                       # optional: where it answers --status
  secret_file = "switches.secret"                      # needed with TCP; the same file at both ends
  receive_ring = "2 MiB"                               # of each port
  transmit_ring = "2 MiB"

It needs CAP_NET_RAW: run as root, or once, as root, `setcap cap_net_raw+ep` on the program. Links between
switches need an MTU 4 above that of hosts' ports. Hosts on virtual cables must not leave it to their card to
cut long frames: `ethtool -K eth0 tso off gso off`, and on cards `ethtool -K eth1 gro off lro off`."#;

const CONTROLLER_EXAMPLE: &str = r#"The configuration (TOML):
  listen = ["unix:///run/byname/switches.sock"]        # and "tcp://192.0.2.1:6364"
  switches = ["s1", "s2"]
  secret_file = "switches.secret"                      # needed with TCP; the same file at both ends
  learn = true                                         # hosts, from the frames that they send
  hosts_file = "hosts.txt"                             # optional: what was learned, for the next start
  hosts_max = 1048576
  hosts_per_port_max = 1024                            # the one learned first goes
  hop_limit = 16                                       # links between switches that a frame may cross
  engine = "othello"                                   # or "line": smaller tables
  [[link]]                                             # ports that lead from switch to switch
  ends = ["s1:eth3", "s2:eth3"]
  [[host]]                                             # optional: hosts that stay where they are
  address = "08:00:27:01:02:03"
  at = "s1:eth1""#;

/// Options of `byname switch`.
#[derive(Debug, Args)]
#[command(after_help = SWITCH_EXAMPLE)]
pub struct SwitchArgs {
    /// Configuration file (TOML), see below
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Show what the running switch of this file does, and end
    #[arg(long)]
    status: bool,
    /// With --status: as JSON
    #[arg(long, requires = "status")]
    json: bool,
}

/// Options of `byname switch-controller`.
#[derive(Debug, Args)]
#[command(after_help = CONTROLLER_EXAMPLE)]
pub struct ControllerArgs {
    /// Configuration file (TOML), see below
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
}

fn usage(error: ConfigError) -> exit::Failure {
    exit::Failure::new(exit::USAGE, error.to_string())
}

fn no_secret(error: String) -> exit::Failure {
    exit::Failure::new(exit::USAGE, error)
}

/// `byname switch`: returns when a signal has ended it.
pub fn run(args: SwitchArgs) -> anyhow::Result<u8> {
    let config = SwitchConfig::load(&args.config).map_err(usage)?;
    if args.status {
        return status::show(&config, args.json);
    }
    run::start_log(&config.log)?;
    let secret = config.secret().map_err(no_secret)?;
    let signals = Signals::new([SIGTERM, SIGINT]).context("cannot watch for signals")?;
    let ports = config.ports.iter().map(|interface| {
        SwitchPort::open(SwitchPortConfig {
            interface: interface.clone(),
            receive_ring_bytes: config.receive_ring,
            transmit_ring_bytes: config.transmit_ring,
        })
    });
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let (events, receiver) = mpsc::sync_channel(EVENTS_MAX);
    let of_switch = events.clone();
    let told = move |event| of_switch.try_send(agent::Event::Switch(event)).is_ok();
    let (handle, thread) = byname_face::switch::start(ports, told).context("cannot start the switch")?;
    let state = status::AgentState::default();
    let _socket = status::serve(&config, handle.clone(), state.clone())?;
    let agent = agent::Task::new(&config, secret, handle.clone(), state, events);
    std::thread::Builder::new()
        .name("byname-agent".into())
        .spawn(move || agent.run(&receiver))
        .context("cannot start the agent")?;
    // A closed standard output is no reason not to forward.
    let _ = writeln!(
        std::io::stdout(),
        "byname switch {}, process {}: ports {}; controller {}",
        config.name,
        std::process::id(),
        config.ports.join(", "),
        config.controller
    );
    let ended = run::wait_for_end(signals, thread);
    handle.shutdown();
    ended.join()?;
    Ok(exit::OK)
}

/// `byname switch-controller`: returns when a signal has ended it.
pub fn run_controller(args: ControllerArgs) -> anyhow::Result<u8> {
    let network = SwitchNetwork::load(&args.config).map_err(usage)?;
    run::start_log(&network.log)?;
    let secret = network.secret().map_err(no_secret)?;
    let signals = Signals::new([SIGTERM, SIGINT]).context("cannot watch for signals")?;
    controller::run(network, secret, signals)?;
    Ok(exit::OK)
}
