//! Exchanges through a forwarder process, from another core: rate, latency, CPU time and memory.
//!
//! One thread is both consumer and producer, as in the benchmarks of NDN-DPDK and NFD. It keeps a window of Interests
//! for distinct names outstanding, answers those that reach its producer side, and times each exchange. UDP is sent
//! with GSO and received with GRO, or one datagram at a time with `--plain`. A Unix stream gets one write per burst.
//! Ethernet frames go over two virtual cables that the experiment creates, between packet sockets with rings or between
//! AF_XDP sockets. Packets in shared memory go through two memif interfaces. The forwarder, or DPDK's driver in it,
//! listens on their sockets.
//!
//! The same generator with a plain reflector (receive, send) on the forwarder's core shows the cost of the sockets
//! alone.

mod endpoint;
mod ethernet;
mod generator;
mod memif;
mod packets;
mod reflector;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use byname_face::frames::frame::GROUP;
use byname_face::frames::ring::PacketSocket;
use byname_face::frames::socket::FrameSocket;
use byname_face::frames::xdp::XdpSocket;
use byname_face::memif::Framing;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cables::{self, Cables, OURS, THEIRS};
use crate::peer::{Management, Peer, PeerOptions};
use crate::record::Recorder;
use ethernet::Station;

pub use endpoint::Endpoint;
pub use generator::{Exchanges, Generator, Pace};
pub use memif::MemifEnd;
pub use packets::Names;

/// Sockets of the generator.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
enum Port {
    /// UDP on loopback.
    Udp,
    /// The forwarder's Unix stream socket.
    Unix,
    /// Ethernet frames to the forwarder's interfaces byname0 (consumer) and byname1 (producer), which are created
    /// before it starts.
    PacketMmap,
    /// Like packet-mmap, by AF_XDP: the forwarder's [[faces.ethernet]] have `port = "xdp"`.
    Xdp,
    /// Shared memory: the forwarder is the server of two [[faces.memif]], whose `socket` is /tmp/byname-lab-memif0.sock
    /// for the consumer and /tmp/byname-lab-memif1.sock for the producer.
    Memif,
    /// Like memif, by DPDK's driver for shared memory. The forwarder has two [[faces.ethernet]] with `port = "dpdk"`,
    /// and `eal = ["--no-huge"]` in [faces.dpdk]. The first has `interface = "byname0"` and dpdk_device =
    /// "net_memif0,role=server,socket=/tmp/byname-lab-memif0.sock,socket-abstract=no". The second has 1 instead of 0 in
    /// each place.
    Dpdk,
}

/// Kinds of names.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// A new name for each Interest: the content store never answers.
    Miss,
    /// Names that were asked for before: the content store always answers.
    Hit,
}

/// Options of `byname-lab wire`.
#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    peer: PeerOptions,
    /// Socket of the generator.
    #[arg(long, value_enum, default_value = "udp")]
    port: Port,
    /// Number of Interests outstanding at once; several are measured one after the other.
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    window: Vec<usize>,
    /// Whether the content store can answer.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "miss,hit")]
    mode: Vec<Mode>,
    /// Measuring time for each combination, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Bytes of content in each Data.
    #[arg(long, default_value_t = 1000)]
    payload: usize,
    /// Number of names in the hit mode.
    #[arg(long, default_value_t = 10_000)]
    names: u32,
    /// UDP address of the forwarder.
    #[arg(long, default_value = "127.0.0.1:6363")]
    forwarder: SocketAddr,
    /// Number of prefixes for the names: /ndn/siteNNNNNNN/app with NNNNNNN below this number, which `byname-lab routes`
    /// must have registered; 0: a single prefix.
    #[arg(long, default_value_t = 0)]
    prefixes: u32,
    /// UDP port of the consumer; the producer uses the next one.
    #[arg(long, default_value_t = 7000)]
    local_port: u16,
    /// Use one system call per datagram, as simple applications do.
    #[arg(long)]
    plain: bool,
    /// Also measure a plain reflector instead of the forwarder.
    #[arg(long)]
    reflector: bool,
    /// Print each record as JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// One measurement.
#[derive(Serialize)]
struct Record {
    forwarder: String,
    port: Port,
    mode: Mode,
    plain: bool,
    window: usize,
    payload: usize,
    prefixes: u32,
    seconds: f64,
    exchanges_per_s: f64,
    exchanges_per_cpu_s: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    lost: u64,
    nacks: u64,
    rss_mb: f64,
}

/// Runs the experiment.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut recorder = Recorder::new("wire", options.json)?;
    println!(
        "{:<12} {:>10} {:>5} {:>7} {:>12} {:>12} {:>9} {:>9} {:>7} {:>8}",
        "forwarder", "port", "mode", "window", "exchanges/s", "per CPU-s", "p50 us", "p99 us", "lost", "RSS MB"
    );
    let _cables = matches!(options.port, Port::PacketMmap | Port::Xdp).then(Cables::lay).transpose()?;
    let peer = Peer::start(&options.peer)?;
    let mut generator = connect(options)?;
    for &mode in &options.mode {
        for &window in &options.window {
            let progress = spinner(&format!("{} {mode:?} window {window}", options.peer.label));
            let before_warm_up = Duration::from_secs_f64(0.5);
            match mode {
                Mode::Miss => drop(generator.run(Pace::Window(window), before_warm_up, None)?),
                Mode::Hit => generator.fill(options.names)?,
            }
            let names = (mode == Mode::Hit).then_some(options.names);
            let start = peer.usage();
            let measured = generator.run(Pace::Window(window), Duration::from_secs_f64(options.seconds), names)?;
            let end = peer.usage();
            progress.finish_and_clear();
            let cpu_s = end.cpu_s - start.cpu_s;
            report(options, &mut recorder, &options.peer.label, mode, window, measured, cpu_s, end.rss_mb)?;
        }
    }
    drop(peer);
    if options.reflector {
        drop(generator);
        let Some(mut generator) = connect_to_reflector(options)? else { return Ok(()) };
        for &window in &options.window {
            let measured = generator.run(Pace::Window(window), Duration::from_secs_f64(options.seconds), None)?;
            report(options, &mut recorder, "reflector", Mode::Miss, window, measured, 0.0, 0.0)?;
        }
    }
    Ok(())
}

/// Connects consumer and producer to a reflector; `None` for ports without a reflector.
fn connect_to_reflector(options: &Options) -> anyhow::Result<Option<Generator>> {
    let (consumer, producer) = match options.port {
        Port::Udp => {
            let reflector = reflector::start(options.local_port)?;
            let consumer = Endpoint::udp(options.local_port, reflector.address, options.plain)?;
            (consumer, Endpoint::udp(options.local_port + 1, reflector.address, options.plain)?)
        }
        Port::Unix => return Ok(None),
        Port::PacketMmap => {
            ethernet::start_reflector::<PacketSocket>()?;
            stations()?.map(Endpoint::PacketMmap).into()
        }
        Port::Xdp => {
            ethernet::start_reflector::<XdpSocket>()?;
            stations()?.map(Endpoint::Xdp).into()
        }
        Port::Memif => {
            memif::start_reflector()?;
            memif_ends(Framing::Packets)?
        }
        #[cfg(feature = "dpdk")]
        Port::Dpdk => {
            ethernet::start_dpdk_reflector()?;
            memif_ends(Framing::Ethernet)?
        }
        #[cfg(not(feature = "dpdk"))]
        Port::Dpdk => anyhow::bail!(
            "a reflector on DPDK's drivers needs a byname-lab built with them: \
             `cargo build --release -p byname-lab --features dpdk`"
        ),
    };
    Ok(Some(Generator::new(consumer, producer, Names::new("/ndn/bench", 0)?, options.payload)))
}

/// Consumer and producer at their ends of the cables.
fn stations<S: FrameSocket<Config: Default>>() -> anyhow::Result<[Box<Station<S>>; 2]> {
    let station = |end: usize| Station::new(OURS[end], THEIRS[end]).map(Box::new);
    Ok([station(0)?, station(1)?])
}

/// Connects consumer and producer to their ends of the interfaces.
fn memif_ends(framing: Framing) -> anyhow::Result<(Endpoint, Endpoint)> {
    let end = |socket| MemifEnd::connect(socket, framing).map(|end| Endpoint::Memif(Box::new(end)));
    Ok((end(memif::SOCKETS[0])?, end(memif::SOCKETS[1])?))
}

/// Connects consumer and producer to the forwarder, and registers a route to the producer.
fn connect(options: &Options) -> anyhow::Result<Generator> {
    let names = Names::new("/ndn/bench", options.prefixes)?;
    let mut management = Management::connect(&options.peer.socket)?;
    let (consumer, producer) = match options.port {
        Port::Udp => {
            let consumer = Endpoint::udp(options.local_port, options.forwarder, options.plain)?;
            let producer = Endpoint::udp(options.local_port + 1, options.forwarder, options.plain)?;
            let face = management.face(&format!("udp4://127.0.0.1:{}", options.local_port + 1), None)?;
            management.route("/ndn", Some(face)).context("cannot register the route from /ndn to the producer")?;
            (consumer, producer)
        }
        Port::Unix => {
            management.route("/ndn", None).context("cannot register the route from /ndn to the producer")?;
            let consumer = Endpoint::unix(Management::connect(&options.peer.socket)?.into_stream())?;
            (consumer, Endpoint::unix(management.into_stream())?)
        }
        Port::PacketMmap | Port::Xdp => {
            let ends = match options.port {
                Port::Xdp => stations()?.map(Endpoint::Xdp).into(),
                _ => stations()?.map(Endpoint::PacketMmap).into(),
            };
            let producer = cables::interface(OURS[1])?.address;
            let local = format!("dev://{}", THEIRS[1]);
            let face = management.face(&format!("ether://[{producer}]"), Some(&local))?;
            management.route("/ndn", Some(face)).context("cannot register the route from /ndn to the producer")?;
            ends
        }
        Port::Memif => {
            let ends = memif_ends(Framing::Packets)?;
            let face = management.face(&format!("memif://{}?id=0", memif::SOCKETS[1]), None)?;
            management.route("/ndn", Some(face)).context("cannot register the route from /ndn to the producer")?;
            ends
        }
        Port::Dpdk => {
            // An answer shows that the forwarder has started its devices.
            let face = management.face(&format!("ether://[{GROUP}]"), Some(&format!("dev://{}", THEIRS[1])))?;
            let ends = memif_ends(Framing::Ethernet)?;
            management.route("/ndn", Some(face)).context("cannot register the route from /ndn to the producer")?;
            ends
        }
    };
    Ok(Generator::new(consumer, producer, names, options.payload))
}

#[allow(clippy::too_many_arguments)]
fn report(
    options: &Options,
    recorder: &mut Recorder,
    forwarder: &str,
    mode: Mode,
    window: usize,
    measured: Exchanges,
    cpu_s: f64,
    rss_mb: f64,
) -> anyhow::Result<()> {
    let us = |q: f64| measured.latency_ns.value_at_quantile(q) as f64 / 1000.0;
    let record = Record {
        forwarder: forwarder.to_owned(),
        port: options.port,
        mode,
        plain: options.plain,
        window,
        payload: options.payload,
        prefixes: options.prefixes,
        seconds: measured.seconds,
        exchanges_per_s: measured.answered as f64 / measured.seconds,
        exchanges_per_cpu_s: if cpu_s > 0.0 { measured.answered as f64 / cpu_s } else { 0.0 },
        p50_us: us(0.5),
        p99_us: us(0.99),
        max_us: us(1.0),
        lost: measured.lost,
        nacks: measured.nacks,
        rss_mb,
    };
    println!(
        "{:<12} {:>10} {:>5} {:>7} {:>12.0} {:>12.0} {:>9.1} {:>9.1} {:>7} {:>8.1}",
        record.forwarder,
        record.port.to_possible_value().map_or_else(String::new, |port| port.get_name().to_owned()),
        format!("{:?}", record.mode).to_lowercase(),
        record.window,
        record.exchanges_per_s,
        record.exchanges_per_cpu_s,
        record.p50_us,
        record.p99_us,
        record.lost,
        record.rss_mb
    );
    recorder.add(options, &record)
}

fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a literal template"));
    // Redraws rarely: a busy terminal would disturb the measurement.
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
