//! The generator's ends of two interfaces in shared memory, and the reflector between them.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use byname_face::frames::frame::GROUP;
use byname_face::frames::frame::{EthernetFrame, header};
use byname_face::mac_address::MacAddress;
use byname_face::memif::connection::{Connection, Listener};
use byname_face::memif::rings::{Pushed, Rings};
use byname_face::memif::{Framing, MemifConfig, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Number of frames taken from a ring at once.
const BURST: usize = 64;
/// Maximum time for the other end to agree.
const PATIENCE: Duration = Duration::from_secs(5);
/// After this many polls of an empty ring, the control socket is polled once.
const LOOKS_PER_ADVANCE: u32 = 1 << 20;

/// The sockets on which the forwarder listens: the consumer's first.
pub const SOCKETS: [&str; 2] = ["/tmp/byname-lab-memif0.sock", "/tmp/byname-lab-memif1.sock"];

/// One end of an interface that is up.
pub struct MemifEnd {
    connection: Connection,
    framing: Framing,
    empty_looks: u32,
}

/// Source address of Ethernet frames from here. They are multicast.
const STATION: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x01]);

impl MemifEnd {
    /// Connects to the forwarder's socket.
    pub fn connect(socket: &str, framing: Framing) -> anyhow::Result<Self> {
        let terms = MemifConfig::new(socket, Role::Client).terms();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Connection::connect(Path::new(socket), terms.clone()) {
                Ok(connection) => return MemifEnd::agree(connection, framing),
                Err(error) => ensure!(
                    Instant::now() < deadline,
                    "no forwarder listens on {socket} ({error}): see `byname-lab wire --help` for its configuration"
                ),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for somebody who connects.
    fn accept(listener: &Listener) -> anyhow::Result<Self> {
        loop {
            if let Some(connection) = listener.accept(MemifConfig::new("", Role::Server).terms())? {
                return MemifEnd::agree(connection, Framing::Packets);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn agree(mut connection: Connection, framing: Framing) -> anyhow::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        while connection.rings().is_none() {
            connection.advance().context("the other end of an interface does not agree")?;
            ensure!(Instant::now() < deadline, "the other end of an interface does not answer");
            std::thread::yield_now();
        }
        Ok(MemifEnd { connection, framing, empty_looks: 0 })
    }

    fn rings(&mut self) -> &mut Rings {
        self.connection.rings().expect("there once both ends have agreed")
    }

    /// Queues a frame.
    pub fn push(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let header: &[u8] = match self.framing {
            Framing::Packets => &[],
            Framing::Ethernet => &header(GROUP, STATION),
        };
        loop {
            match self.rings().push([header, frame, &[]])? {
                Pushed::Done => return Ok(()),
                Pushed::TooLong => bail!("{} bytes do not fit in the ring's buffers: lower --payload", frame.len()),
                Pushed::Full => {
                    self.flush();
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// Sends the queued frames.
    pub fn flush(&mut self) {
        self.rings().send();
    }

    /// Asks for an interrupt when frames come. Returns its descriptor. `None`: frames have come already.
    pub(super) fn ask_wake_up(&self) -> Option<BorrowedFd<'_>> {
        let rings = self.connection.rings_ref()?;
        rings.ask_interrupts();
        (!rings.has_input()).then(|| rings.interrupt().as_fd())
    }

    /// Wants no more interrupts, and forgets those that came.
    pub(super) fn wake_up(&mut self) -> anyhow::Result<()> {
        let rings = self.rings();
        rings.stop_interrupts();
        let mut interrupt = [PollFd::new(rings.interrupt(), PollFlags::IN)];
        if poll(&mut interrupt, Some(&Timespec::default()))? > 0 {
            // Does not block: it is readable, and nobody else reads it.
            rustix::io::read(rings.interrupt(), &mut [0; 8])?;
        }
        Ok(())
    }

    /// Calls `each` for every frame that has arrived. Returns the number of frames.
    pub fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> anyhow::Result<usize> {
        let (mut frames, framing) = (0, self.framing);
        self.rings().receive(BURST, |frame| {
            match framing {
                Framing::Packets => each(&frame),
                Framing::Ethernet => match EthernetFrame::parse(&frame) {
                    Some(frame) => each(frame.payload),
                    None => return,
                },
            }
            frames += 1;
        })?;
        self.empty_looks = if frames == 0 { self.empty_looks + 1 } else { 0 };
        if self.empty_looks == LOOKS_PER_ADVANCE {
            self.empty_looks = 0;
            self.connection.advance()?;
        }
        Ok(frames)
    }
}

/// Starts a reflector instead of the forwarder, on core 0. It sends frames that arrive on one interface out of the
/// other, and runs until the program ends.
pub fn start_reflector() -> anyhow::Result<()> {
    let listeners = SOCKETS.map(|socket| Listener::bind(Path::new(socket)));
    std::thread::Builder::new().name("reflector".into()).spawn(move || -> anyhow::Result<()> {
        core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
        let mut ends = Vec::new();
        for listener in listeners {
            ends.push(MemifEnd::accept(&listener?)?);
        }
        let [consumer, producer] = &mut ends[..] else { bail!("there are two sockets") };
        loop {
            reflect(consumer, producer)?;
            reflect(producer, consumer)?;
        }
    })?;
    Ok(())
}

fn reflect(from: &mut MemifEnd, to: &mut MemifEnd) -> anyhow::Result<()> {
    let mut pushed = Ok(());
    from.receive(&mut |frame| {
        if pushed.is_ok() {
            pushed = to.push(frame);
        }
    })?;
    to.flush();
    pushed
}

/// Two ends of one interface.
#[cfg(test)]
pub(super) fn pair() -> anyhow::Result<(MemifEnd, MemifEnd)> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let listener = Listener::bind(&socket)?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| MemifEnd::accept(&listener));
        let near = MemifEnd::connect(&socket.display().to_string(), Framing::Packets)?;
        Ok((near, serving.join().expect("the server does not panic")?))
    })
}
