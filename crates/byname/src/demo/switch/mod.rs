//! Hosts on three switches: the controller learns them, they move while traffic runs, and the controller may be
//! restarted.

mod fabric;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::namespace::Namespace;
use byname_switch::key::KeyKind;
use fabric::{Fabric, GUEST, Host, OTHER_SEGMENT};

/// Explains why no namespace could be created.
const NEEDS_ROOT: &str = "this demo creates network namespaces and virtual cables, and needs root for that: \
                          run `sudo byname demo switch`";
/// Duration of the traffic, and the delay until the host moves.
const TRAFFIC_SECONDS: u64 = 6;
const MOVE_AFTER: Duration = Duration::from_millis(1500);

/// Runs the demonstration. Each switch has so many threads, and forwards by a kind of key.
pub fn run(threads: u16, key: KeyKind) -> anyhow::Result<()> {
    // Check rights first: a missing program does not matter to a user who may not run this demo.
    Namespace::new().context(NEEDS_ROOT)?;
    require("ip", "iproute2")?;
    require("ping", "iputils-ping")?;
    let mut fabric = Fabric::start(threads, key)?;
    println!("Three switches in a ring, each a process, and their controller: s1 - s2 - s3 - s1.");
    if key != KeyKind::Mac {
        println!("They forward by the key \"{key}\".");
    }
    if threads > 1 {
        println!("Each switch has {threads} threads.");
    }
    let mut hosts = [fabric.host("ann", 1)?, fabric.host("bob", 2)?, fabric.host("eve", 3)?];
    for (host, port) in hosts.iter_mut().zip(["s1-h1", "s2-h1", "s3-h1"]) {
        fabric.plug(host, port)?;
        println!("  {} ({}) is at port {port}", host.name, host.address);
    }
    let [ann, mut bob, eve] = hosts;
    println!("\nThe controller knows no hosts yet: it learns them from their first frames.");
    for (from, to) in [(&ann, &bob), (&bob, &eve), (&eve, &ann)] {
        ping(from, to)?;
    }
    if key.has_segments() {
        apart(&fabric, &ann, key)?;
    }
    println!("\nbob moves from s2 to s3 while ann pings him. Then he moves back while ann sends him TCP.");
    let pings = background(&ann, &format!("ping -i 0.05 -c 80 -W 1 {}", bob.address))?;
    std::thread::sleep(MOVE_AFTER);
    fabric.plug(&mut bob, "s3-h2")?;
    println!("  ping   {}", summary(&finish(pings)?)?);
    match require("iperf3", "iperf3") {
        Ok(()) => traffic(&fabric, &ann, &mut bob)?,
        Err(missing) => println!("  skipped: {missing}"),
    }
    println!("\nThe controller is killed: the switches keep forwarding.");
    fabric.kill_controller()?;
    ping(&ann, &bob)?;
    ping(&bob, &eve)?;
    println!("The controller starts again and knows the hosts from its file.");
    fabric.start_controller()?;
    fabric.wait_for_plans()?;
    for (from, to) in [(&bob, &ann), (&eve, &bob)] {
        ping(from, to)?;
    }
    println!("\nFrames that the switches have forwarded and dropped:");
    for switch in ["s1", "s2", "s3"] {
        print!("{}", fabric.show(switch, &[])?);
    }
    Ok(())
}

/// Checks that a host in another VLAN or network is not reached, though its IP address is of the same subnet. With the key
/// `vxlan`, the host is an endpoint of the system's own, and is reached in the network of all others.
fn apart(fabric: &Fabric, ann: &Host, key: KeyKind) -> anyhow::Result<()> {
    let mut guest = fabric.host("guest", GUEST)?;
    fabric.plug(&mut guest, OTHER_SEGMENT)?;
    if key == KeyKind::Vxlan {
        println!("guest is at port {OTHER_SEGMENT}, and writes VXLAN headers itself, with an interface of its system.");
        guest.tunnel(false)?;
        ping(&guest, ann)?;
        ping(ann, &guest)?;
        guest.end_tunnel()?;
        guest.tunnel(true)?;
    }
    if guest.namespace.run(&format!("ping -c 2 -i 0.2 -W 1 {}", ann.address)).is_ok() {
        bail!("a host in another segment is reached");
    }
    println!("  guest ({}) is at port {OTHER_SEGMENT}, in another segment: it reaches nobody", guest.address);
    Ok(())
}

/// Checks that a program is installed.
fn require(program: &str, package: &str) -> anyhow::Result<()> {
    let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).with_context(|| format!("there is no program {program}; `apt install {package}` installs it"))
}

/// Checks that `to` answers all of five pings. Earlier pings may be lost: a host that has not been heard yet may be
/// learned a moment too late.
fn ping(from: &Host, to: &Host) -> anyhow::Result<()> {
    from.namespace.run(&format!("ping -c 3 -i 0.2 -W 2 {}", to.address)).map(drop).or_else(|error| {
        // The first pings may have taught the switches the way back.
        from.namespace.run(&format!("ping -c 1 -W 2 {}", to.address)).map(drop).map_err(|_| error)
    })?;
    let told = from.namespace.run(&format!("ping -c 5 -i 0.05 -W 2 {}", to.address))?;
    let told = summary(&told)?;
    println!("  {} -> {}   {told}", from.name, to.name);
    if !told.contains(" 0% packet loss") { bail!("frames are lost") } else { Ok(()) }
}

/// Extracts the statistics from ping's output.
fn summary(told: &str) -> anyhow::Result<String> {
    let counts =
        told.lines().find(|line| line.contains("packets transmitted")).context("ping printed no statistics")?;
    let times = told.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = ")).unwrap_or("");
    Ok(format!("{}; {times}", counts.split(", time").next().unwrap_or(counts)))
}

/// Runs TCP to a host that moves meanwhile. The connection must survive.
fn traffic(fabric: &Fabric, from: &Host, to: &mut Host) -> anyhow::Result<()> {
    let server = background(to, "iperf3 --server --one-off")?;
    // Wait until the server listens.
    std::thread::sleep(Duration::from_millis(300));
    let client =
        background(from, &format!("iperf3 --client {} --time {TRAFFIC_SECONDS} --interval 0.2 --json", to.address))?;
    std::thread::sleep(MOVE_AFTER);
    fabric.plug(to, "s2-h2")?;
    let told = finish(client)?;
    finish(server)?;
    let told: Value = serde_json::from_str(&told).context("cannot read the output of iperf3")?;
    if let Some(error) = told["error"].as_str() {
        bail!("iperf3: {error}");
    }
    let rate = told["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 printed no rate")?;
    let intervals = told["intervals"].as_array().into_iter().flatten();
    let rates: Vec<_> = intervals.filter_map(|interval| interval["sum"]["bits_per_second"].as_f64()).collect();
    let silent = rates.iter().filter(|rate| **rate == 0.0).count();
    let last = rates.last().copied().unwrap_or(0.0);
    println!(
        "  iperf3 {:.0} Mbit/s over {TRAFFIC_SECONDS} s, silent for about {:.1} s of it; bob is at s2-h2 now",
        rate / 1e6,
        silent as f64 * 0.2
    );
    if last > 0.0 { Ok(()) } else { bail!("the connection did not survive the move: {rates:?}") }
}

fn background(host: &Host, line: &str) -> anyhow::Result<Child> {
    let mut command = host.namespace.command(line);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("cannot run {line}"))
}

/// Waits for a command to end, and returns its output.
fn finish(process: Child) -> anyhow::Result<String> {
    let done = process.wait_with_output()?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
