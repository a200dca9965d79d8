//! Frames on two virtual cables [Concise §6.4.2]: a generator and a sink at one end of each, the threads of `byname
//! switch` at the other ends. The generator has a core, and the switch another. With `--threads 2`, a switch of one
//! thread and one of two take turns. The latter's threads share the core, and each frame crosses from one to the other.
//! So its rate shows what crossing costs, and not what a second core would give.
//!
//! The rate is measured with a window of frames under way. The rings can hold this window, so no frame is lost for lack
//! of room. Delays are measured with frames at random times with a given mean rate, whether or not earlier frames have
//! arrived. A delay counts from the time at which the frame should have left. A plain reflector with the same rings
//! shows the limit of the cables themselves; switches and reflector take turns.
//!
//! Differs: the paper uses a virtual machine with four network cards, on DPDK, and reads the system's counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use byname_face::frames::frame::HEADER_BYTES;
use byname_face::frames::ring::{Frames, PacketSocket, RingConfig};
use byname_face::frames::socket::FrameSocket;
use byname_face::port::Pushed;
use byname_face::system::enter_new_network;
use byname_switch::key::KeyKind;
use byname_switch::ports::{SwitchEvent, SwitchHandle, SwitchPort, SwitchPortConfig, start};
use byname_switch::switch::{Plan, Role};
use byname_wire::NameHashKey;
use hdrhistogram::Histogram;

use super::ends::{DELAY_NS_MAX, Ends, Passed};
use super::options::{From, Options};
use super::record::{Passage, Tried, WireRecord};
use super::stations::{Addresses, Stations};
use super::tables::{self, Named, Table};
use crate::cables::{Cables, OURS, THEIRS, interface};
use crate::harness::in_turn;
use crate::machine::cores;
use crate::progress::Progress;
use crate::timing::median;

/// Core of the device under test, and core of generator and sink.
const THEIR_CORE: usize = 0;
const OUR_CORE: usize = 1;
/// Memory of each ring, as in `byname switch`: 1,024 frames.
const RING_BYTES: usize = 2 << 20;
/// Memory of the rings of generator and sink.
pub const OUR_RING_BYTES: usize = 8 << 20;
/// Frames that the reflector takes at once.
const BURST: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
/// Time before frames are counted.
const WARM_UP: Duration = Duration::from_millis(200);
/// Name of the reflector that replaces the switch.
const REFLECTOR: &str = "reflector";

/// Measures all tables at each size, in turn. Returns one record of each, and one of a reflector.
///
/// # Errors
/// If virtual cables cannot be made, which needs root.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<WireRecord>> {
    options.measuring.ensure_possible()?;
    let names_max = options.names.iter().max().copied().unwrap_or_default();
    crate::options::ensure_addresses_fit(names_max)?;
    allowed()?;
    ensure!((1..=THEIRS.len()).contains(&options.measuring.threads), "on the wire, a switch has two ports (--threads)");
    ensure!(options.draws > 0 && options.rate > 0, "there must be at least one frame (--draws, --rate)");
    let benches = options.names.iter().map(|&names| Bench::build(options, names, progress));
    let benches = benches.collect::<anyhow::Result<Vec<_>>>()?;
    in_namespace(|| {
        let _cables = Cables::lay()?;
        let mut records = Vec::new();
        for &bytes in &options.bytes {
            records.extend(pass(options, &benches, bytes.into(), progress)?);
        }
        Ok(records)
    })
}

/// Checks whether virtual cables can be made here.
///
/// # Errors
/// The reason if they cannot.
pub fn allowed() -> anyhow::Result<()> {
    cores::ensure_enough(2, "a switch beside a generator (--on wire)")?;
    in_namespace(|| Cables::lay().map(drop))
}

/// Runs `work` in a network namespace of its own. Nothing else sends frames there, and the namespace ends with the
/// thread.
fn in_namespace<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            enter_new_network().context("cannot make a network namespace (it needs root)")?;
            work()
        });
        done.join().map_err(|_| anyhow::anyhow!("the measuring thread has failed"))?
    })
}

/// All tables of `names` names.
struct Bench<'a> {
    key: NameHashKey,
    draws: Vec<Addresses>,
    names: u64,
    tables: Vec<(&'a str, Table)>,
}

/// The device between the cables.
#[derive(Clone, Copy)]
struct Subject<'a> {
    bench: &'a Bench<'a>,
    /// `None` for a reflector.
    table: Option<&'a (&'a str, Table)>,
    threads: usize,
}

/// Results of one device.
struct Found {
    delays: Histogram<u64>,
    passed: Passed,
}

impl<'a> Bench<'a> {
    fn build(options: &'a Options, names: u64, progress: Progress) -> anyhow::Result<Self> {
        let seed = options.measuring.seed;
        let stations = Stations::new(names, OURS.len() as u8, seed)?;
        let key = super::key(options);
        let spinner = progress.spinner("drawing frames");
        let draws = stations.draw(options.trace.as_deref(), options.draws, seed)?;
        let mut tables = Vec::new();
        for engine in &options.compare {
            spinner.set_message(format!("building {engine} of {names} names"));
            tables.push((engine.as_str(), tables::build(engine, Named { stations: &stations, key: &key })?));
        }
        spinner.finish_and_clear();
        Ok(Bench { key, draws, names, tables })
    }
}

/// Measures frames of one size with all devices.
fn pass(options: &Options, benches: &[Bench<'_>], bytes: usize, progress: Progress) -> anyhow::Result<Vec<WireRecord>> {
    let reflector = benches.iter().take(1).map(|bench| Subject { bench, table: None, threads: 1 });
    let counts = 1..=options.measuring.threads;
    let tables = benches.iter().flat_map(|bench| bench.tables.iter().map(move |table| (bench, table)));
    let switches = tables
        .flat_map(|(bench, table)| counts.clone().map(move |threads| Subject { bench, table: Some(table), threads }));
    let subjects: Vec<_> = reflector.chain(switches).collect();
    let nothing = || Histogram::new_with_bounds(1, DELAY_NS_MAX, 3).expect("these bounds are allowed");
    let found = || Found { delays: nothing(), passed: Passed::default() };
    let mut found: Vec<_> = subjects.iter().map(|_| found()).collect();
    let spinner = progress.spinner(&format!("frames of {bytes} bytes"));
    let mut tried: Vec<_> = subjects.iter().zip(&mut found).collect();
    let rates = in_turn(&mut tried, &options.measuring, |(subject, found), duration| {
        spinner.set_message(format!("frames of {bytes} bytes: {}, {} names", subject.name(), subject.bench.names));
        let _between = subject.start(options)?;
        let mut ends = Ends::open(&subject.bench.draws, bytes, options.from)?;
        let window = options.window.into();
        ends.stream(window, WARM_UP)?;
        let rate = ends.stream(window, duration)?;
        ends.pace(options.rate as f64, options.measuring.seed, duration, &mut found.delays)?;
        found.passed += ends.passed();
        Ok(rate)
    })?;
    spinner.finish_and_clear();
    let limit = median(&rates[0]);
    let results = subjects.iter().zip(&found).zip(&rates);
    Ok(results.map(|((subject, found), rates)| record(options, bytes, subject, found, rates, limit)).collect())
}

impl Subject<'_> {
    fn name(&self) -> &str {
        self.table.map_or(REFLECTOR, |(name, _)| name)
    }

    /// Starts the device on its core, and leaves this thread on the generator's core.
    fn start(&self, options: &Options) -> anyhow::Result<Between> {
        pin(THEIR_CORE);
        // A new thread starts on the core of the thread that creates it.
        let started = match self.table {
            Some((_, table)) => Between::switch(options, &self.bench.key, table, self.threads),
            None => Between::reflector(),
        };
        pin(OUR_CORE);
        started
    }
}

fn pin(core: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// The running device between the cables. Dropping this stops it.
enum Between {
    Switch(SwitchHandle, Vec<JoinHandle<()>>),
    Reflector(Arc<AtomicBool>, Vec<JoinHandle<()>>),
}

impl Between {
    fn switch(options: &Options, key: &NameHashKey, table: &Table, threads: usize) -> anyhow::Result<Self> {
        let port = |interface: &str| {
            SwitchPort::open(SwitchPortConfig {
                interface: interface.to_owned(),
                receive_ring_bytes: RING_BYTES,
                transmit_ring_bytes: RING_BYTES,
            })
        };
        let ports = THEIRS.iter().map(|name| port(name)).collect::<Result<Vec<_>, _>>()?;
        let (sender, events) = mpsc::channel();
        let (handle, threads) = start(KeyKind::Mac, ports, threads, move |event| sender.send(event).is_ok())?;
        let switch = Between::Switch(handle.clone(), threads);
        let mut up = HashMap::new();
        while !THEIRS.iter().enumerate().all(|(port, _)| up.get(&port) == Some(&true)) {
            let event = events.recv_timeout(PATIENCE).context("the switch's ports did not come up")?;
            if let SwitchEvent::Link { port, up: is_up } = event {
                up.insert(port, is_up);
            }
        }
        handle.set_table(*key, table.fib.clone());
        let first = match options.from {
            From::Hosts => Role::Host,
            From::Switch => Role::Trunk { floods: false },
        };
        handle.set_plan(Plan { epoch: 1, hop_limit: 16, roles: vec![first, Role::Host], ..Plan::default() });
        // Commands run in order, so the table and the plan are set when this returns.
        handle.status().context("the switch has ended")?;
        Ok(switch)
    }

    fn reflector() -> anyhow::Result<Self> {
        let [mut from, mut to] = [socket(THEIRS[0], RING_BYTES)?, socket(THEIRS[1], RING_BYTES)?];
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let reflect = move || {
            while !told.load(Ordering::Relaxed) {
                reflect(&mut from, &mut to);
                reflect(&mut to, &mut from);
            }
        };
        let thread = std::thread::Builder::new().name("reflector".into()).spawn(reflect)?;
        Ok(Between::Reflector(is_over, vec![thread]))
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let threads = match self {
            Between::Switch(handle, threads) => {
                handle.shutdown();
                threads
            }
            Between::Reflector(is_over, threads) => {
                is_over.store(true, Ordering::Relaxed);
                threads
            }
        };
        if threads.drain(..).any(|thread| thread.join().is_err()) {
            eprintln!("the device between the cables has failed");
        }
    }
}

/// Opens a socket for all frames at this end of a cable.
pub fn socket(name: &str, ring_bytes: usize) -> anyhow::Result<PacketSocket> {
    let config = RingConfig {
        frames: Frames::All,
        paths: Vec::new(),
        promiscuous: true,
        qdisc_bypass: false,
        receive_bytes: ring_bytes,
        transmit_bytes: ring_bytes,
    };
    PacketSocket::open(&interface(name)?, &config).context("cannot open a packet socket")
}

/// Forwards frames like a switch: a frame without room is lost.
fn reflect(from: &mut PacketSocket, to: &mut PacketSocket) {
    from.receive(BURST, |arrivals| {
        for (header, rest) in arrivals.iter().filter_map(|arrival| arrival.bytes.split_at_checked(HEADER_BYTES)) {
            if to.push(header, (rest, &[])) == Pushed::Full {
                let _ = to.send();
                let _ = to.push(header, (rest, &[]));
            }
        }
    });
    // The next round tries again to send what could not be sent. The cable stays up meanwhile.
    let _ = to.send();
}

fn record(
    options: &Options,
    bytes: usize,
    subject: &Subject<'_>,
    found: &Found,
    rates: &[f64],
    limit: f64,
) -> WireRecord {
    let us = |quantile: f64| found.delays.value_at_quantile(quantile) as f64 / 1000.0;
    let table = Tried {
        engine: subject.name(),
        names: if subject.table.is_some() { subject.bench.names } else { 0 },
        bytes: subject.table.map_or(0, |(_, table)| table.fib.memory_bytes()),
    };
    let counts = [found.passed.arrived, found.passed.wrong, found.passed.lost];
    let prepared = subject.bench.draws.len();
    WireRecord {
        passage: Passage::new(options, bytes, prepared, &table, rates, limit, counts),
        threads: subject.threads,
        window: options.window,
        rate: options.rate,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: us(1.0),
    }
}
