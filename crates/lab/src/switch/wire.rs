//! Frames on two virtual cables [Concise §6.4.2]: a generator and a sink at one end of each, the thread of
//! `byname switch` at the others, a core each.
//!
//! The rate is taken with a window of frames on their way, which the rings hold, so that none is lost for
//! want of room. Delays are taken with frames at random times of a given rate, whether or not those before
//! have arrived, from when each should have left. A plain reflector with the same rings, in the switch's
//! place, is what the cables themselves allow; switches and reflector take turns.
//!
//! Differs: the paper has a virtual machine with four network cards, on DPDK, and counts with the
//! system's counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use byname_face::ethernet::frame::HEADER_BYTES;
use byname_face::ethernet::ring::{Frames, PacketSocket, RingConfig};
use byname_face::ethernet::socket::{FrameSocket, Pushed};
use byname_face::switch::{SwitchEvent, SwitchHandle, SwitchPort, SwitchPortConfig, start};
use byname_forward::switch::{Plan, Role};
use byname_wire::NameHashKey;
use hdrhistogram::Histogram;
use nix::sched::{CloneFlags, unshare};

use super::ends::{DELAY_NS_MAX, Ends, Passed};
use super::options::{From, Options};
use super::record::{Passage, Tried, WireRecord};
use super::stations::{Addresses, Stations};
use super::tables::{self, Named, Table};
use crate::cables::{Cables, OURS, THEIRS, interface};
use crate::machine::cores;
use crate::progress::Progress;
use crate::timing::median;

/// Cores of what is measured, and of generator and sink.
const THEIR_CORE: usize = 0;
const OUR_CORE: usize = 1;
/// Memory of each ring, as `byname switch` has it: 1,024 frames.
const RING_BYTES: usize = 2 << 20;
/// Memory of the rings of generator and sink.
pub const OUR_RING_BYTES: usize = 8 << 20;
/// Frames that the reflector takes at once.
const BURST: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames before those that count.
const WARM_UP: Duration = Duration::from_millis(200);
/// What there is in a switch's place.
const REFLECTOR: &str = "reflector";

/// Measures all tables at each size, in turn; a record of each, and of a reflector.
///
/// # Errors
/// If cables cannot be laid, which needs root.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<WireRecord>> {
    options.measuring.ensure_possible()?;
    allowed()?;
    ensure!(options.measuring.threads == 1, "there is one switch on the wire (--threads)");
    ensure!(options.draws > 0 && options.rate > 0, "there must be frames (--draws, --rate)");
    let benches = options.names.iter().map(|&names| Bench::build(options, names, progress));
    let benches = benches.collect::<anyhow::Result<Vec<_>>>()?;
    in_namespace(|| {
        let _cables = Cables::lay()?;
        let mut records = Vec::new();
        for &octets in &options.octets {
            records.extend(pass(options, &benches, octets.into(), progress)?);
        }
        Ok(records)
    })
}

/// Whether cables can be laid here; why not, if so.
///
/// # Errors
/// If they cannot.
pub fn allowed() -> anyhow::Result<()> {
    cores::ensure_enough(2, "a switch beside a generator (--on wire)")?;
    in_namespace(|| Cables::lay().map(drop))
}

/// Does something in a network namespace of a thread's own: nobody else speaks there, and it ends with the
/// thread.
fn in_namespace<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace (it needs root)")?;
            work()
        });
        done.join().map_err(|_| anyhow::anyhow!("what measures has failed"))?
    })
}

/// All tables of so many names.
struct Bench<'a> {
    key: NameHashKey,
    draws: Vec<Addresses>,
    names: u64,
    tables: Vec<(&'a str, Table)>,
}

/// What stands between the cables.
#[derive(Clone, Copy)]
struct Subject<'a> {
    bench: &'a Bench<'a>,
    /// `None`: a reflector.
    table: Option<&'a (&'a str, Table)>,
}

/// What it did.
struct Found {
    rates: Vec<f64>,
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

/// Frames of one size through all of them.
fn pass(
    options: &Options,
    benches: &[Bench<'_>],
    octets: usize,
    progress: Progress,
) -> anyhow::Result<Vec<WireRecord>> {
    let reflector = benches.iter().take(1).map(|bench| Subject { bench, table: None });
    let switches =
        benches.iter().flat_map(|bench| bench.tables.iter().map(move |table| Subject { bench, table: Some(table) }));
    let subjects: Vec<_> = reflector.chain(switches).collect();
    let nothing = || Histogram::new_with_bounds(1, DELAY_NS_MAX, 3).expect("these bounds are allowed");
    let found = || Found { rates: Vec::new(), delays: nothing(), passed: Passed::default() };
    let mut found: Vec<_> = subjects.iter().map(|_| found()).collect();
    let spinner = progress.spinner(&format!("frames of {octets} octets"));
    let step = options.measuring.repetition();
    for _ in 0..options.measuring.repetitions {
        for (subject, found) in subjects.iter().zip(&mut found) {
            spinner.set_message(format!(
                "frames of {octets} octets: {}, {} names",
                subject.name(),
                subject.bench.names
            ));
            let _between = subject.start(options)?;
            let mut ends = Ends::open(&subject.bench.draws, octets, options.from)?;
            let window = options.window.into();
            ends.stream(window, WARM_UP)?;
            found.rates.push(ends.stream(window, step)?);
            ends.pace(options.rate as f64, options.measuring.seed, step, &mut found.delays)?;
            found.passed += ends.passed();
        }
    }
    spinner.finish_and_clear();
    let limit = median(&found[0].rates);
    Ok(subjects.iter().zip(&found).map(|(subject, found)| record(options, octets, subject, found, limit)).collect())
}

impl Subject<'_> {
    fn name(&self) -> &str {
        self.table.map_or(REFLECTOR, |(name, _)| name)
    }

    /// Starts it on its core, and leaves this thread on the generator's.
    fn start(&self, options: &Options) -> anyhow::Result<Between> {
        pin(THEIR_CORE);
        // Threads begin on the core of those that start them.
        let started = match self.table {
            Some((_, table)) => Between::switch(options, &self.bench.key, table),
            None => Between::reflector(),
        };
        pin(OUR_CORE);
        started
    }
}

fn pin(core: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// What runs between the cables, until it is dropped.
enum Between {
    Switch(SwitchHandle, Option<JoinHandle<()>>),
    Reflector(Arc<AtomicBool>, Option<JoinHandle<()>>),
}

impl Between {
    fn switch(options: &Options, key: &NameHashKey, table: &Table) -> anyhow::Result<Self> {
        let port = |interface: &str| {
            SwitchPort::open(SwitchPortConfig {
                interface: interface.to_owned(),
                receive_ring_bytes: RING_BYTES,
                transmit_ring_bytes: RING_BYTES,
            })
        };
        let ports = THEIRS.iter().map(|name| port(name)).collect::<Result<Vec<_>, _>>()?;
        let (sender, events) = mpsc::channel();
        let (handle, thread) = start(ports, move |event| sender.send(event).is_ok())?;
        let switch = Between::Switch(handle.clone(), Some(thread));
        let mut up = HashMap::new();
        while !THEIRS.iter().enumerate().all(|(port, _)| up.get(&port) == Some(&true)) {
            let event = events.recv_timeout(PATIENCE).context("the switch's ports do not come up")?;
            if let SwitchEvent::Link { port, up: is_up } = event {
                up.insert(port, is_up);
            }
        }
        handle.set_table(*key, table.fib.clone());
        let first = match options.from {
            From::Hosts => Role::Host,
            From::Switch => Role::Trunk { floods: false },
        };
        handle.set_plan(Plan { epoch: 1, hop_limit: 16, roles: vec![first, Role::Host] });
        // Commands are carried out in order.
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
        Ok(Between::Reflector(is_over, Some(thread)))
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let thread = match self {
            Between::Switch(handle, thread) => {
                handle.shutdown();
                thread.take()
            }
            Between::Reflector(is_over, thread) => {
                is_over.store(true, Ordering::Relaxed);
                thread.take()
            }
        };
        if thread.is_some_and(|thread| thread.join().is_err()) {
            eprintln!("what stood between the cables has failed");
        }
    }
}

/// A socket for all frames at this end of a cable.
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

/// As a switch does it: what finds no room is lost.
fn reflect(from: &mut PacketSocket, to: &mut PacketSocket) {
    from.receive(BURST, |arrivals| {
        for (header, rest) in arrivals.iter().filter_map(|arrival| arrival.octets.split_at_checked(HEADER_BYTES)) {
            if to.push(header, (rest, &[])) == Pushed::Full {
                let _ = to.send();
                let _ = to.push(header, (rest, &[]));
            }
        }
    });
    // What could not be sent is tried again in the next round; a cable does not end meanwhile.
    let _ = to.send();
}

fn record(options: &Options, octets: usize, subject: &Subject<'_>, found: &Found, limit: f64) -> WireRecord {
    let us = |quantile: f64| found.delays.value_at_quantile(quantile) as f64 / 1000.0;
    let table = Tried {
        engine: subject.name(),
        names: if subject.table.is_some() { subject.bench.names } else { 0 },
        bytes: subject.table.map_or(0, |(_, table)| table.fib.memory_bytes()),
    };
    let counts = [found.passed.arrived, found.passed.wrong, found.passed.lost];
    let prepared = subject.bench.draws.len();
    WireRecord {
        passage: Passage::new(options, octets, prepared, &table, &found.rates, limit, counts),
        window: options.window,
        rate: options.rate,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: us(1.0),
    }
}
