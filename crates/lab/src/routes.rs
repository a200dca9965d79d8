//! Registers many routes through the management protocol: measures the rate and the memory per route.

use std::time::Instant;

use byname_control::mgmt::tlv::ControlParameters;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::peer::{Management, Peer, PeerOptions};
use crate::record::Recorder;

/// Options of `byname-lab routes`.
#[derive(Args, Serialize)]
pub struct Options {
    #[command(flatten)]
    peer: PeerOptions,
    /// Number of routes to register: /ndn/siteNNNNNNN/app.
    #[arg(long, default_value_t = 1_000_000)]
    count: u32,
    /// Maximum number of commands without a response.
    #[arg(long, default_value_t = 256)]
    window: u32,
    /// Face to which the routes lead; it is made if it does not exist.
    #[arg(long, default_value = "udp4://127.0.0.1:7001")]
    face: String,
    /// Unregister the routes instead.
    #[arg(long)]
    remove: bool,
    /// Print the record as JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

#[derive(Serialize)]
struct Record {
    forwarder: String,
    routes: u32,
    window: u32,
    remove: bool,
    seconds: f64,
    routes_per_s: f64,
    /// Growth of resident memory per route in bytes, including the name.
    bytes_per_route: f64,
    name_bytes: usize,
    refused: u64,
    cpu_s: f64,
}

/// Runs the experiment.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut recorder = Recorder::new("routes", options.json)?;
    let peer = Peer::start(&options.peer)?;
    let mut management = Management::connect(&options.peer.socket)?;
    let face_id = Some(management.face(&options.face, None)?);
    let verb = if options.remove { "rib/unregister" } else { "rib/register" };
    let bar = ProgressBar::new(options.count.into());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}").expect("a literal template"));
    let before = peer.usage();
    let start = Instant::now();
    let (mut sent, mut answered, mut refused) = (0, 0, 0);
    let mut batch = Vec::new();
    while answered < options.count {
        while sent < options.count && sent - answered < options.window {
            let name = Some(format!("/ndn/site{sent:07}/app").parse()?);
            let parameters = ControlParameters { name, face_id, ..Default::default() };
            batch.extend_from_slice(&management.command(verb, &parameters)?);
            sent += 1;
        }
        management.send(&batch)?;
        batch.clear();
        anyhow::ensure!(management.read(true)?, "the forwarder closed the connection");
        while let Some(response) = management.next_response() {
            answered += 1;
            refused += u64::from(response.code != 200);
        }
        bar.set_position(answered.into());
    }
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let after = peer.usage();
    let record = Record {
        forwarder: options.peer.label.clone(),
        routes: options.count,
        window: options.window,
        remove: options.remove,
        seconds,
        routes_per_s: f64::from(options.count) / seconds,
        bytes_per_route: (after.rss_mb - before.rss_mb) * 1e6 / f64::from(options.count),
        name_bytes: "/ndn/site0000000/app".parse::<byname_wire::Name>()?.value().len(),
        refused,
        cpu_s: after.cpu_s - before.cpu_s,
    };
    println!(
        "{} {verb} {}: {:.2} s, {:.0}/s, {:.0} bytes a route (its name: {} bytes), {} refused, {:.2} s of CPU",
        record.forwarder,
        record.routes,
        record.seconds,
        record.routes_per_s,
        record.bytes_per_route,
        record.name_bytes,
        record.refused,
        record.cpu_s
    );
    recorder.add(options, &record)
}
