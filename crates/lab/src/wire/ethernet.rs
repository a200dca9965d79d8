//! Stations of the generator on virtual cables, and the reflector between them.

use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use byname_face::ethernet::EthernetConfig;
use byname_face::ethernet::frame::{EthernetFrame, HEADER_BYTES, header};
use byname_face::ethernet::interface::{Found, Interface};
use byname_face::ethernet::ring::{PacketSocket, Pushed};

/// Frames taken from a ring at once.
const BURST: usize = 64;

/// Two cables between the generator and a forwarder, until this is dropped.
pub struct Cables;

/// The generator's ends, consumer's first.
pub const OURS: [&str; 2] = ["bynamelab0", "bynamelab1"];
/// The forwarder's.
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

/// A socket with rings at one end of a cable.
pub struct Station {
    socket: PacketSocket,
    header: [u8; HEADER_BYTES],
}

impl Station {
    /// At `here`, towards the station at `there`.
    pub fn new(here: &str, there: &str) -> anyhow::Result<Self> {
        let (here, there) = (interface(here)?, interface(there)?);
        let config = EthernetConfig { group: None, ..EthernetConfig::new(&here.name) };
        let socket = PacketSocket::open(&here, &config.ring()).context("cannot open a packet socket")?;
        Ok(Station { socket, header: header(there.address, here.address) })
    }

    /// Queues a frame.
    pub fn push(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        loop {
            match self.socket.push(&self.header, (payload, &[])) {
                Pushed::Done => return Ok(()),
                Pushed::TooLong => bail!("{} octets are more than a frame takes: lower --payload", payload.len()),
                Pushed::Full => self.flush()?,
            }
        }
    }

    /// Sends what is queued.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.socket.send()?;
        Ok(())
    }

    /// Hands over the payloads of the frames that have arrived; returns how many.
    pub fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> usize {
        let mut frames = 0;
        self.socket.receive(BURST, |arrivals| {
            for frame in arrivals.iter().filter_map(|arrival| EthernetFrame::parse(arrival.octets)) {
                each(frame.payload);
                frames += 1;
            }
        });
        frames
    }
}

/// The interface of this name, which must be there.
pub fn interface(name: &str) -> anyhow::Result<Interface> {
    match Interface::find(name)? {
        Found::Ethernet(interface) => Ok(interface),
        _ => bail!("there is no Ethernet interface {name}"),
    }
}

/// Starts a reflector in the forwarder's place, on core 0: what arrives at one of its ends leaves
/// at the other. It runs until the program ends.
pub fn start_reflector() -> anyhow::Result<()> {
    let mut consumer = Station::new(THEIRS[0], OURS[0])?;
    let mut producer = Station::new(THEIRS[1], OURS[1])?;
    std::thread::Builder::new().name("reflector".into()).spawn(move || -> anyhow::Result<()> {
        core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
        loop {
            reflect(&mut consumer, &mut producer)?;
            reflect(&mut producer, &mut consumer)?;
        }
    })?;
    Ok(())
}

fn reflect(from: &mut Station, to: &mut Station) -> anyhow::Result<()> {
    let mut pushed = Ok(());
    from.socket.receive(BURST, |arrivals| {
        let mut payloads = arrivals.iter().filter_map(|arrival| arrival.octets.get(HEADER_BYTES..));
        pushed = payloads.try_for_each(|payload| to.push(payload));
    });
    pushed?;
    to.flush()
}
