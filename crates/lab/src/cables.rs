//! Two virtual cables between a generator and the device under test.

use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use byname_face::frames::interface::{Found, Interface};

/// Two virtual cables (veth pairs). Dropping this removes them.
pub struct Cables;

/// The generator's ends: the consumer's first.
pub const OURS: [&str; 2] = ["bynamelab0", "bynamelab1"];
/// The ends of the device under test.
pub const THEIRS: [&str; 2] = ["byname0", "byname1"];

impl Cables {
    /// Creates the cables.
    pub fn lay() -> anyhow::Result<Self> {
        let cables = Cables;
        for (ours, theirs) in OURS.into_iter().zip(THEIRS) {
            ip(&["link", "add", "dev", ours, "type", "veth", "peer", "name", theirs])?;
            for end in [ours, theirs] {
                // The kernel must not send IPv6 frames of its own between the measured ones.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
                ip(&["link", "set", end, "up"])?;
            }
        }
        Ok(cables)
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        for ours in OURS {
            let _ = ip(&["link", "del", ours]);
        }
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let done = Command::new("ip").args(arguments).output().context("cannot run ip (of iproute2)")?;
    let told = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "ip {}: {} (virtual cables need root)", arguments.join(" "), told.trim());
    Ok(())
}

/// Finds an Ethernet interface by name.
pub fn interface(name: &str) -> anyhow::Result<Interface> {
    match Interface::find(name)? {
        Found::Ethernet(interface) => Ok(interface),
        _ => bail!("there is no Ethernet interface {name}"),
    }
}
