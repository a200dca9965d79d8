//! Two virtual cables between a generator and what it measures.

use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use byname_face::ethernet::interface::{Found, Interface};

/// Two cables, until this is dropped.
pub struct Cables;

/// The generator's ends, consumer's first.
pub const OURS: [&str; 2] = ["bynamelab0", "bynamelab1"];
/// Those of what is measured.
pub const THEIRS: [&str; 2] = ["byname0", "byname1"];

impl Cables {
    /// Lays the cables.
    pub fn lay() -> anyhow::Result<Self> {
        let cables = Cables;
        for (ours, theirs) in OURS.into_iter().zip(THEIRS) {
            ip(&["link", "add", "dev", ours, "type", "veth", "peer", "name", theirs])?;
            for end in [ours, theirs] {
                // Nothing but the measured frames is to pass.
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
    ensure!(done.status.success(), "ip {}: {} (cables need root)", arguments.join(" "), told.trim());
    Ok(())
}

/// The interface of this name, which must be there.
pub fn interface(name: &str) -> anyhow::Result<Interface> {
    match Interface::find(name)? {
        Found::Ethernet(interface) => Ok(interface),
        _ => bail!("there is no Ethernet interface {name}"),
    }
}
