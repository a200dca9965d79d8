use super::measure::{Turn, summarize};
use super::options::{Options, Port};
use super::router::config;
use crate::options::defaults;

fn turn(cpu_us: f64, p50_us: f64) -> Turn {
    Turn { exchanges_per_s: 1000.0, cpu_us_per_exchange: cpu_us, p50_us, p99_us: 2.0 * p50_us, cpu_share: 0.1, lost: 1 }
}

#[test]
fn ratios_are_those_of_one_round_and_the_median_counts() {
    let options = defaults::<Options>();
    // The machine becomes slower from round to round. The second router always takes half as much again, but once.
    let fast = [[1.0, 1.5], [2.0, 3.0], [4.0, 20.0]].map(|[one, two]| vec![turn(one, 9.0), turn(two, 9.0)]);
    let slow = [[10.0, 11.0], [20.0, 22.0], [10.0, 90.0]].map(|[one, two]| vec![turn(1.0, one), turn(1.0, two)]);
    let records = summarize(&options, Port::Udp, 64, &fast, &slow);
    assert_eq!((records.len(), records[0].threads, records[1].threads), (2, 1, 2));
    assert_eq!((records[0].cpu_times, records[1].cpu_times), (1.0, 1.5));
    assert_eq!(records[1].cpu_times_range, [1.5, 5.0]);
    assert_eq!((records[1].cpu_us_per_exchange, records[1].p50_us, records[1].p99_us), (3.0, 22.0, 44.0));
    assert!((records[1].p50_times - 1.1).abs() < 1e-9 && (records[1].p99_times - 1.1).abs() < 1e-9);
    assert_eq!(records[1].lost, 6);
}

#[test]
fn the_routers_configuration_is_one_that_routers_take() {
    let text = config(2, "rest = false", 26_360, std::path::Path::new("/tmp/lab"));
    let config = byname_control::config::Config::parse(&text, std::path::Path::new("/tmp/lab/byname.toml"));
    assert!(config.is_ok(), "{:?}", config.err());
}
