//! Turns of all routers, and what comes out of them.

use std::time::Duration;

use super::options::{Options, Port};
use super::record::Record;
use super::router::Router;
use crate::progress::Progress;
use crate::timing::{Spread, median};
use crate::wire::{Exchanges, Generator, Pace};

/// Share of a turn that is run before the first round, with results that are dropped.
const WARM_UP: f64 = 0.5;

/// One turn of a router.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub exchanges_per_s: f64,
    pub cpu_us_per_exchange: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Share of a processor.
    pub cpu_share: f64,
    pub lost: u64,
}

/// Measures all routers over all kinds of sockets.
pub(super) fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    options.ensure_possible()?;
    core_affinity::set_for_current(core_affinity::CoreId { id: options.generator_core });
    let folder = std::env::temp_dir().join(format!("byname-lab-threads-{}", std::process::id()));
    let records = measure_in(options, progress, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    records
}

fn measure_in(options: &Options, progress: Progress, folder: &std::path::Path) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for &port in &options.ports {
        let spinner = progress.spinner(&format!("{port:?}"));
        // New routers for each kind of socket: no route or face is left from the one before.
        let start = |place| Router::start(options, place, folder.join(format!("{port:?}-{place}")));
        let routers = (0..options.threads.len()).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let connect = |router: Router| Ok((router.connect(port, options.payload)?, router));
        let mut sides = routers.into_iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        let slow = rounds(options, &mut sides, Pace::PerSecond(options.rate))?;
        for &window in &options.windows {
            let fast = rounds(options, &mut sides, Pace::Window(window))?;
            records.extend(summarize(options, port, window, &fast, &slow));
        }
        spinner.finish_and_clear();
    }
    Ok(records)
}

/// Lets all routers have their turns, round by round. Returns the turns of each round, in the order of the routers.
fn rounds(options: &Options, sides: &mut [(Generator, Router)], pace: Pace) -> anyhow::Result<Vec<Vec<Turn>>> {
    for (generator, router) in &mut *sides {
        turn(generator, router, pace, options.seconds * WARM_UP)?;
    }
    let round =
        |_| sides.iter_mut().map(|(generator, router)| turn(generator, router, pace, options.seconds)).collect();
    (0..options.repetitions).map(round).collect()
}

fn turn(generator: &mut Generator, router: &Router, pace: Pace, seconds: f64) -> anyhow::Result<Turn> {
    let before = router.processor_time()?;
    let measured = generator.run(pace, Duration::from_secs_f64(seconds), None)?;
    let cpu = router.processor_time()?.saturating_sub(before).as_secs_f64();
    let Exchanges { answered, lost, seconds, latency_ns, .. } = measured;
    let us = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Turn {
        exchanges_per_s: answered as f64 / seconds,
        cpu_us_per_exchange: cpu * 1e6 / answered.max(1) as f64,
        p50_us: us(0.5),
        p99_us: us(0.99),
        cpu_share: cpu / seconds,
        lost,
    })
}

/// A record for each router. `fast` are the rounds with a window, `slow` those at a low rate.
pub(super) fn summarize(
    options: &Options,
    port: Port,
    window: usize,
    fast: &[Vec<Turn>],
    slow: &[Vec<Turn>],
) -> Vec<Record> {
    let record = |(place, &threads): (usize, &usize)| {
        let of = |rounds: &[Vec<Turn>], value: fn(&Turn) -> f64| -> Vec<f64> {
            rounds.iter().map(|turns| value(&turns[place])).collect()
        };
        let times = |rounds: &[Vec<Turn>], value: fn(&Turn) -> f64| -> Spread {
            let ratio = |turns: &Vec<Turn>| value(&turns[place]) / value(&turns[0]).max(f64::MIN_POSITIVE);
            Spread::of(&rounds.iter().map(ratio).collect::<Vec<_>>())
        };
        let cpu_times = times(fast, |turn| turn.cpu_us_per_exchange);
        Record {
            port,
            threads,
            window,
            exchanges_per_s: median(&of(fast, |turn| turn.exchanges_per_s)),
            cpu_us_per_exchange: median(&of(fast, |turn| turn.cpu_us_per_exchange)),
            cpu_times: cpu_times.median,
            cpu_times_range: [cpu_times.min, cpu_times.max],
            rate: options.rate,
            p50_us: median(&of(slow, |turn| turn.p50_us)),
            p50_times: times(slow, |turn| turn.p50_us).median,
            p99_us: median(&of(slow, |turn| turn.p99_us)),
            p99_times: times(slow, |turn| turn.p99_us).median,
            low_rate_cpu_share: median(&of(slow, |turn| turn.cpu_share)),
            lost: fast.iter().chain(slow).map(|turns| turns[place].lost).sum(),
        }
    };
    options.threads.iter().enumerate().map(record).collect()
}
