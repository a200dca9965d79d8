//! Stations of the generator on virtual cables, and the reflector between them.

use anyhow::bail;
use byname_face::ethernet::EthernetConfig;
use byname_face::frames::frame::{EthernetFrame, HEADER_BYTES, header};
use byname_face::frames::socket::FrameSocket;
use byname_face::port::Pushed;

use crate::cables::{OURS, THEIRS, interface};

/// Number of frames taken from a ring at once.
const BURST: usize = 64;

/// A socket with rings at one end of a cable.
pub struct Station<S> {
    socket: S,
    header: [u8; HEADER_BYTES],
}

impl<S: FrameSocket<Config: Default>> Station<S> {
    /// Opens a socket at `here` that sends to the station at `there`.
    pub fn new(here: &str, there: &str) -> anyhow::Result<Self> {
        let (here, there) = (interface(here)?, interface(there)?);
        let config = EthernetConfig { group: None, ..EthernetConfig::new(&here.name) };
        let socket = S::wait_for(&here, &config.socket(), &S::Config::default())?;
        Ok(Station { socket, header: header(there.address, here.address) })
    }
}

impl<S: FrameSocket> Station<S> {
    /// Queues a frame.
    pub fn push(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        loop {
            match self.socket.push(&self.header, (payload, &[])) {
                Pushed::Done => return Ok(()),
                Pushed::TooLong => bail!("{} bytes do not fit in a frame: lower --payload", payload.len()),
                Pushed::Full => self.flush()?,
            }
        }
    }

    /// Sends the queued frames.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.socket.send()?;
        Ok(())
    }

    /// Calls `each` for the payload of every frame that has arrived. Returns the number of frames.
    pub fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> usize {
        let mut frames = 0;
        self.socket.receive(BURST, |arrivals| {
            for frame in arrivals.iter().filter_map(|arrival| EthernetFrame::parse(arrival.bytes)) {
                each(frame.payload);
                frames += 1;
            }
        });
        frames
    }
}

/// Starts a reflector in the forwarder's place, on core 0: what arrives at one of its ends leaves
/// at the other. It runs until the program ends.
pub fn start_reflector<S: FrameSocket<Config: Default> + 'static>() -> anyhow::Result<()> {
    reflect_between(Station::<S>::new(THEIRS[0], OURS[0])?, Station::new(THEIRS[1], OURS[1])?)
}

/// Like [`start_reflector`], with DPDK devices in shared memory, to which the generator connects.
#[cfg(feature = "dpdk")]
pub fn start_dpdk_reflector() -> anyhow::Result<()> {
    use byname_face::frames::dpdk::{Device, DpdkSocket, Environment, Settings};

    let environment = Environment::start(&["--no-huge".to_owned()])?;
    let station = |end: usize| -> anyhow::Result<_> {
        let config = EthernetConfig::new(THEIRS[end]).socket();
        let socket = super::memif::SOCKETS[end];
        let name = format!("net_memif{end},role=server,socket={socket},socket-abstract=no");
        let device = Device::open(environment, &Settings::new(name, 1500, &config, 1))?;
        let found = DpdkSocket::find(THEIRS[end], &device)?;
        let header = header(byname_face::frames::frame::GROUP, found.address);
        Ok(Station { socket: DpdkSocket::wait_for(&found, &config, &device)?, header })
    };
    reflect_between(station(0)?, station(1)?)
}

fn reflect_between<S: FrameSocket + 'static>(mut consumer: Station<S>, mut producer: Station<S>) -> anyhow::Result<()> {
    std::thread::Builder::new().name("reflector".into()).spawn(move || -> anyhow::Result<()> {
        core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
        loop {
            reflect(&mut consumer, &mut producer)?;
            reflect(&mut producer, &mut consumer)?;
        }
    })?;
    Ok(())
}

fn reflect<S: FrameSocket>(from: &mut Station<S>, to: &mut Station<S>) -> anyhow::Result<()> {
    let mut pushed = Ok(());
    from.socket.receive(BURST, |arrivals| {
        let mut payloads = arrivals.iter().filter_map(|arrival| arrival.bytes.get(HEADER_BYTES..));
        pushed = payloads.try_for_each(|payload| to.push(payload));
    });
    pushed?;
    to.flush()
}
