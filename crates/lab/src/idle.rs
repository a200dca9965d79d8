//! CPU time and memory of a router without traffic.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::peer::{Peer, PeerOptions};
use crate::record::Recorder;

/// Options of `byname-lab idle`.
#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    peer: PeerOptions,
    /// Time to watch the router, in seconds.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Time before that in which the router may finish its start, in seconds.
    #[arg(long, default_value_t = 3.0)]
    settle: f64,
    /// Print the record as JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

#[derive(Serialize)]
struct Record {
    forwarder: String,
    seconds: f64,
    /// Milliseconds of CPU time in a second.
    cpu_ms_per_s: f64,
    rss_mb: f64,
}

/// Runs the experiment.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut recorder = Recorder::new("idle", options.json)?;
    let peer = Peer::start(&options.peer)?;
    std::thread::sleep(Duration::from_secs_f64(options.settle));
    let (before, start) = (peer.usage(), Instant::now());
    std::thread::sleep(Duration::from_secs_f64(options.seconds));
    let (after, seconds) = (peer.usage(), start.elapsed().as_secs_f64());
    let record = Record {
        forwarder: options.peer.label.clone(),
        seconds,
        cpu_ms_per_s: (after.cpu_s - before.cpu_s) * 1e3 / seconds,
        rss_mb: after.rss_mb,
    };
    println!("{}: {:.2} ms of CPU a second, {:.1} MB", record.forwarder, record.cpu_ms_per_s, record.rss_mb);
    recorder.add(options, &record)
}
