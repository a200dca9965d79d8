//! `byname switch` and `byname switch-controller`: Ethernet by flat names. The processes connect over Unix sockets or
//! TCP.

mod status;

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::Context;
use byname_control::config::ConfigError;
use byname_switch::control::{SwitchConfig, SwitchNetwork};
use byname_switch::ports::{self, SwitchPort, SwitchPortConfig};
use byname_switch::run::{AgentEvent, AgentState, AgentTask, ControllerProcess};
use clap::Args;

use crate::process::{self, Process};
use crate::{exit, run};

/// Events that may wait for the agent. When there are more, the switch drops its report and makes it again later.
const EVENTS_MAX: usize = 4096;

const SWITCH_EXAMPLE: &str = r#"The configuration of a switch (TOML):
  name = "s1"                                          # in the controller's file
  controller = "unix:///run/byname/switches.sock"      # or "tcp://192.0.2.1:6364"
  ports = ["eth1", "eth2", "eth3"]                     # interfaces; the controller knows what each connects to
  key = "mac"                                          # or "vlan-mac", "vxlan", "ipv6", "gtp": as its controller
  threads = 1                                          # that move frames; or "auto", one for each processor
  status = "/run/byname/s1.sock"                       # optional: socket that answers --status
  secret_file = "switches.secret"                      # needed with TCP; the same file at both ends
  receive_ring = "2 MiB"                               # of each port
  transmit_ring = "2 MiB"

The switch needs CAP_NET_RAW: run it as root, or once run `setcap cap_net_raw+ep` on the program as root. The MTU
of links between switches must be at least 4 bytes larger than that of hosts' ports, 8 with the key "vlan-mac",
and 54 with "vxlan". On hosts behind virtual
cables, turn segmentation offload off: `ethtool -K eth0 tso off gso off`. On the switch's network cards, turn
receive offload off: `ethtool -K eth1 gro off lro off`."#;

const CONTROLLER_EXAMPLE: &str = r#"The configuration (TOML):
  listen = ["unix:///run/byname/switches.sock"]        # and "tcp://192.0.2.1:6364"
  switches = ["s1", "s2"]
  secret_file = "switches.secret"                      # needed with TCP; the same file at both ends
  switch_addresses = ["192.0.2.11", "192.0.2.12"]      # optional: strangers cannot keep these from connecting
  learn = true                                         # hosts, from the frames that they send
  hosts_file = "hosts.txt"                             # optional: keeps learned hosts for the next start
  hosts_max = 1048576
  hosts_per_port_max = 1024                            # a new host replaces the one learned first
  hop_limit = 16                                       # links between switches that a frame may cross
  engine = "othello"                                   # or "line": smaller tables
  key = "mac"                                          # or "vlan-mac", "vxlan", "ipv6", "gtp": as all switches
  [[link]]                                             # ports that lead from switch to switch
  ends = ["s1:eth3", "s2:eth3"]
  [[host]]                                             # optional: hosts that never move
  address = "08:00:27:01:02:03"
  at = "s1:eth1"

With the keys "vlan-mac" and "vxlan", ports of hosts carry VLANs or networks (documentation: docs/switch.md):
  default_vlan = 1                                     # vlan-mac: of frames without a tag
  [[segment]]
  id = 7
  plain = ["s1:eth1"]                                  # frames have no tag or VXLAN header here
  tagged = ["s2:eth1"]                                 # and have one here
  [[tunnel]]                                           # vxlan: another endpoint at a tagged port
  at = "s2:eth1"
  local = "192.0.2.1"
  local_station = "02:00:00:00:00:01"
  remote = "192.0.2.7"
  station = "02:00:00:00:00:07""#;

/// Options of `byname switch`.
#[derive(Debug, Args)]
#[command(after_help = SWITCH_EXAMPLE)]
pub struct SwitchArgs {
    /// Configuration file (TOML), see below
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// Show the state of the running switch of this file, and exit
    #[arg(long)]
    status: bool,
    /// With --status: print JSON
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
    process::end_on_panic();
    run::start_log(&config.log)?;
    let secret = config.secret().map_err(no_secret)?;
    let mut process = Process::begin()?;
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
    let told = move |event| of_switch.try_send(AgentEvent::Switch(event)).is_ok();
    let (handle, threads) = ports::start(config.key, ports, config.threads, told).context("cannot start the switch")?;
    for thread in threads {
        process.watch("switch's thread", thread)?;
    }
    let state = AgentState::default();
    let _socket = status::serve(&config, handle.clone(), state.clone())?;
    let agent = AgentTask::new(&config, secret, handle.clone(), state, events);
    std::thread::Builder::new()
        .name("byname-agent".into())
        .spawn(move || agent.run(&receiver))
        .context("cannot start the agent")?;
    // A closed standard output must not stop forwarding.
    let _ = writeln!(
        std::io::stdout(),
        "byname switch {}, process {}: ports {}; controller {}",
        config.name,
        std::process::id(),
        config.ports.join(", "),
        config.controller
    );
    process.wait()?;
    handle.shutdown();
    process.join();
    Ok(exit::OK)
}

/// `byname switch-controller`: returns when a signal has ended it.
pub fn run_controller(args: ControllerArgs) -> anyhow::Result<u8> {
    let network = SwitchNetwork::load(&args.config).map_err(usage)?;
    process::end_on_panic();
    run::start_log(&network.log)?;
    let secret = network.secret().map_err(no_secret)?;
    let addresses: Vec<_> = network.listen.iter().map(ToString::to_string).collect();
    let controller = ControllerProcess::start(network, secret)?;
    let ending = controller.ending();
    process::on_signal(move || ending.end(), process::ignore_hang_up)?;
    // A closed standard output must not end the controller.
    let _ = writeln!(
        std::io::stdout(),
        "byname switch-controller, process {}: listens on {}; waits for {} switches",
        std::process::id(),
        addresses.join(", "),
        controller.switches()
    );
    controller.run()?;
    Ok(exit::OK)
}
