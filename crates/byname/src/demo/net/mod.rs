//! `byname demo net`: a network of routers to try things in, each in a network namespace, or all on the loopback
//! interface. Routes are computed from the topology when it starts, or found by byname's routing.
//!
//! It leaves nothing behind, whatever ends it: namespaces end with this process, and the next network ends the routers
//! that a killed one has left ([`folder`]).

mod folder;
mod graphml;
mod messages;
mod page;
mod plan;
mod running;
mod topology;

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Subcommand};

use self::folder::{Entry, Folder, Record};
use self::plan::{Faults, Place, Plan, name};
use self::running::Routers;
use self::topology::Shape;
use super::namespace::Namespace;
use crate::exit::{self, Failure};

/// Pause between two looks at signals and routers.
const PAUSE: Duration = Duration::from_millis(100);

/// Options of `byname demo net`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Each router answers pings below /net/ and its name, and knows the way to all others. As root, each is in a \
                  network namespace of its own; otherwise all are on the loopback interface.\n\nExamples:\n  \
                  byname demo net 5 --topology ring --delay 10ms --loss 0.01\n  \
                  byname demo net 20 --topology Geant2012.gml\n  \
                  byname demo net 9 --topology grid --routing\n  \
                  byname demo net shell r2\n  \
                  byname demo net shell r1 -- byname ping /net/r5"
)]
pub struct NetArgs {
    #[command(subcommand)]
    command: Option<NetCommand>,
    /// Number of routers [default: 5, 9 in a grid, or all of the file]
    #[arg(value_name = "N")]
    count: Option<usize>,
    /// line, ring, grid, or a file: GML or GraphML (as in the Topology Zoo), or lines with the names of two routers
    #[arg(long, value_name = "SHAPE", default_value = "line")]
    topology: String,
    /// Time that a packet takes on a link
    #[arg(long, value_name = "TIME", value_parser = parse_delay, default_value = "0ms")]
    delay: Duration,
    /// Share of packets that a link loses, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = parse_loss, default_value = "0")]
    loss: f64,
    /// Put all routers on the loopback interface, also as root
    #[arg(long)]
    loopback: bool,
    /// Let the routers find their ways themselves, by byname's routing, instead of computing routes at the start
    #[arg(long)]
    routing: bool,
    /// Packet threads of each router
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
}

#[derive(Debug, Subcommand)]
enum NetCommand {
    /// Open a shell where byname's commands speak to a router, or run a command there
    Shell {
        /// The router: r2, or its label
        router: String,
        /// The command, after --
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// List the routers of the network that runs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End the network that runs, or what a killed one has left
    Stop,
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if delay <= Duration::from_secs(10) { Ok(delay) } else { Err("must be at most 10s".into()) }
}

fn parse_loss(text: &str) -> Result<f64, String> {
    let loss = text.parse().ok().filter(|loss| (0.0..=1.0).contains(loss));
    loss.ok_or_else(|| "must be a number from 0 (no packet) to 1 (all packets)".into())
}

/// Runs `byname demo net`.
pub fn run(args: NetArgs) -> anyhow::Result<u8> {
    match args.command {
        Some(NetCommand::Shell { router, command }) => shell(&router, &command),
        Some(NetCommand::List { json }) => list(json),
        Some(NetCommand::Stop) => {
            let was_there = folder::stop()?;
            println!("{}", if was_there { "the network has ended" } else { "there is no network" });
            Ok(exit::OK)
        }
        None => {
            let shape = Shape::new(&args.topology, args.count);
            let shape = shape.map_err(|error| Failure::new(exit::USAGE, exit::message_of(&error)))?;
            let ended = Arc::new(AtomicBool::new(false));
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
                signal_hook::flag::register(signal, Arc::clone(&ended)).context("cannot catch signals")?;
            }
            network(&args, shape, &ended)
        }
    }
}

/// Starts a network, and keeps it until a signal ends it.
fn network(args: &NetArgs, shape: Shape, ended: &AtomicBool) -> anyhow::Result<u8> {
    let (folder, left) = Folder::take()?;
    if left > 0 {
        println!("An earlier network had left {left} routers; they are ended.");
    }
    let count = shape.graph.nodes();
    let in_namespaces = !args.loopback && has_namespaces();
    let place = if in_namespaces { Place::Namespaces } else { Place::Loopback(running::free_ports(count)?) };
    let listeners = (0..count).map(|_| page::listen()).collect::<anyhow::Result<Vec<_>>>()?;
    let http = listeners.iter().map(|listener| Ok(listener.local_addr()?.port()));
    let http = http.collect::<std::io::Result<Vec<u16>>>()?;
    let faults = Faults { delay: args.delay, loss: args.loss };
    let plan = Plan { shape, place, faults, has_routing: args.routing, threads: args.threads, http };
    let mut routers = Routers::prepare(&plan, folder.path())?;
    // A router without a namespace opens its port itself. One in a namespace has the same port there.
    let listeners: Vec<TcpListener> = listeners.into_iter().filter(|_| in_namespaces).collect();
    for router in 0..count {
        if ended.load(Ordering::Relaxed) {
            return Ok(exit::INTERRUPTED);
        }
        routers.start(&plan, router)?;
    }
    for router in 0..count {
        let client = routers.await_one(router)?;
        running::answer_pings(client, router, args.routing)?;
    }
    if args.routing && !await_ways(&mut routers, &plan, ended)? {
        return Ok(exit::INTERRUPTED);
    }
    for (listener, namespace) in listeners.into_iter().zip(&routers.namespaces) {
        page::pass_on(listener, namespace.process().parse()?)?;
    }
    let listener = page::listen()?;
    let record = record(&plan, &routers, listener.local_addr()?.port());
    let title = title(args, count, in_namespaces);
    page::serve(listener, &record, &title)?;
    folder.write_record(&record)?;
    print(&record, &title)?;
    keep(&mut routers, ended)?;
    // Nobody may read this any more.
    let _ = writeln!(std::io::stdout(), "\nThe routers end.");
    routers.end();
    Ok(exit::OK)
}

/// Waits until the routers have found their ways, and tells how long that took. Returns whether nobody has interrupted it.
/// Routers that take too long are left to go on: links may lose most packets.
fn await_ways(routers: &mut Routers, plan: &Plan, ended: &AtomicBool) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let is_interrupted = || ended.load(Ordering::Relaxed);
    if routers.await_ways(plan, is_interrupted)? {
        println!("The routers have found their ways in {:.1} s.", begun.elapsed().as_secs_f64());
    } else if !is_interrupted() {
        println!("Some routers still look for their ways; `byname routing` in a shell of one shows what it knows.");
    }
    Ok(!is_interrupted())
}

/// Waits for a signal. Tells of routers that end by themselves.
fn keep(routers: &mut Routers, ended: &AtomicBool) -> anyhow::Result<()> {
    let mut known = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        for router in routers.take_ended(&mut known) {
            // Nobody may read this any more.
            let _ = writeln!(std::io::stdout(), "The router {} has ended.", name(router));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether this process may make namespaces and links.
fn has_namespaces() -> bool {
    let has_ip = Command::new("ip").arg("-V").output().is_ok_and(|done| done.status.success());
    has_ip && Namespace::new().is_ok()
}

fn record(plan: &Plan, routers: &Routers, page: u16) -> Record {
    let entry = |router: usize| Entry {
        name: name(router),
        label: plan.shape.labels[router].clone(),
        socket: routers.socket(router),
        http: format!("http://127.0.0.1:{}", plan.http[router]),
        namespace: routers.namespaces.get(router).and_then(|namespace| namespace.process().parse().ok()),
    };
    Record {
        process: std::process::id(),
        page: format!("http://127.0.0.1:{page}/"),
        routers: (0..plan.shape.graph.nodes()).map(entry).collect(),
    }
}

fn title(args: &NetArgs, count: usize, in_namespaces: bool) -> String {
    let place = if in_namespaces { "each in a network namespace" } else { "all on the loopback interface" };
    let mut title = match args.topology.as_str() {
        "line" | "ring" | "grid" => format!("{count} routers in a {}, {place}", args.topology),
        _ => format!("{count} routers of a file, {place}"),
    };
    if args.routing {
        title += ", which find their ways themselves";
    }
    if !args.delay.is_zero() {
        title += &format!("; links take {}", humantime::format_duration(args.delay));
    }
    if args.loss > 0.0 {
        title += &format!("; links lose {} % of packets", args.loss * 100.0);
    }
    title
}

fn print(record: &Record, title: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{title}")?;
    for router in &record.routers {
        let label = if router.label.is_empty() { String::new() } else { format!("  {}", router.label) };
        writeln!(out, "  {:<5} {:<24} byname demo net shell {}{label}", router.name, router.http, router.name)?;
    }
    let [first, .., last] = &record.routers[..] else { unreachable!("a network has at least two routers") };
    writeln!(out, "All on one page: {}", record.page)?;
    writeln!(out, "Try: byname demo net shell {} -- byname ping /net/{}", first.name, last.name)?;
    writeln!(out, "Ctrl-C ends it.")?;
    Ok(out.flush()?)
}

fn running() -> anyhow::Result<Record> {
    folder::running().map_err(|error| Failure::new(exit::NO_FORWARDER, exit::message_of(&error)).into())
}

fn list(json: bool) -> anyhow::Result<u8> {
    let record = running()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print(&record, &format!("{} routers (process {})", record.routers.len(), record.process))?;
    }
    Ok(exit::OK)
}

/// Becomes a shell, or another program, in the place of a router.
fn shell(router: &str, command: &[String]) -> anyhow::Result<u8> {
    let record = running()?;
    let is_it = |entry: &&Entry| entry.name == router || entry.label.eq_ignore_ascii_case(router);
    let entry = record.routers.iter().find(is_it).ok_or_else(|| {
        Failure::new(exit::NOT_FOUND, format!("no router is called {router}; `byname demo net list` shows all"))
    })?;
    let mut words = command.to_vec();
    if words.is_empty() {
        words.push(std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned()));
        // Standard error, as standard output is the shell's.
        eprintln!("a shell at {}: byname's commands speak to it; `exit` leaves it", entry.name);
    }
    // `byname` means this program, wherever it is.
    if words[0] == "byname" {
        words[0] = std::env::current_exe().context("cannot find this program")?.display().to_string();
    }
    let mut place = Command::new("nsenter");
    let mut program = match entry.namespace {
        Some(process) => {
            place.args(["--target", &process.to_string(), "--net", "--"]).args(&words);
            place
        }
        None => {
            let mut program = Command::new(&words[0]);
            program.args(&words[1..]);
            program
        }
    };
    let folder = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths(folder.into_iter().chain(std::env::split_paths(&paths)))?;
    program.env("NDN_CLIENT_TRANSPORT", format!("unix://{}", entry.socket.display()));
    let error = program.env("BYNAME_ROUTER", &entry.name).env("PATH", paths).exec();
    Err(error).with_context(|| format!("cannot run {}", words[0]))
}
