use super::queue::Queue;
use super::*;

fn moving(give_ns: f64) -> Moving {
    Moving { receive_ns: 30.0, give_ns, take_ns: -15.0, push_output_ns: 25.0, pop_output_ns: 20.0, send_ns: 10.0 }
}

/// Costs of the size of real ones.
fn costs() -> Costs {
    let forwarding = |parsing_ns: f64| Forwarding {
        new_ns: 200.0 + parsing_ns,
        pending_ns: 100.0 + parsing_ns,
        hit_ns: 120.0 + parsing_ns,
        hot_hit_ns: 90.0 + parsing_ns,
        data_ns: 150.0 + parsing_ns,
    };
    Costs {
        round_ns: 100.0,
        rings_ns: 5.0,
        count_ns: 20.0,
        interest: moving(100.0),
        data: moving(60.0),
        alone: forwarding(50.0),
        joined: forwarding(60.0),
    }
}

fn setting(cores: usize, exponent: f64, hot_window: Option<u32>) -> Setting {
    Setting {
        cores,
        hot_window,
        exponent,
        names: 20_000,
        cs: 2000,
        load: Load::Window(128),
        interests: 20_000,
        rtt_ns: 5000,
        burst: 64,
        ring: 4096,
        costs: costs(),
        seed: 3,
    }
}

fn simulated(setting: &Setting) -> Outcome {
    simulate(setting).expect("nothing is lost unseen")
}

fn per_s(outcome: &Outcome) -> f64 {
    outcome.answered as f64 / outcome.elapsed_ns as f64 * 1e9
}

#[test]
fn one_thread_takes_the_sum_of_its_costs() {
    let mut of_one = setting(1, 0.0, None);
    // So many names that none is asked for twice.
    (of_one.names, of_one.cs, of_one.costs.round_ns) = (1 << 40, 1, 0.0);
    let found = simulated(&of_one);
    let exchange_ns = found.elapsed_ns as f64 / found.answered as f64;
    assert_eq!((found.cs_hits, found.crossed, found.lost_in_all), (0, 0, 0));
    let sum_ns = 2.0 * (30.0 + 10.0) + 250.0 + 200.0;
    assert!((exchange_ns / sum_ns - 1.0).abs() < 0.01, "{exchange_ns} and {sum_ns}");
    of_one.load = Load::Open(0.01);
    let idle = simulated(&of_one).latencies.value_at_quantile(0.5) as f64;
    // An exchange that meets no other takes two rounds of one packet each.
    assert!((idle / (sum_ns + 5000.0) - 1.0).abs() < 0.01, "{idle}");
}

#[test]
fn more_threads_are_at_most_as_many_times_faster() {
    for exponent in [0.0, 1.0] {
        let one = per_s(&simulated(&setting(1, exponent, None)));
        let mut before = one;
        for cores in [2, 4, 8] {
            for hot_window in [None, Some(4096)] {
                let mut of_several = setting(cores, exponent, hot_window);
                of_several.interests *= cores as u64;
                let found = simulated(&of_several);
                let rate = per_s(&found);
                assert!(rate < one * cores as f64, "{cores}, {exponent}, {hot_window:?}: {rate} and {one}");
                assert!(found.crossed > 0 && found.lost_in_all == 0);
                if hot_window.is_some() {
                    assert!(rate > before, "{cores} threads, {exponent}: {rate}, and fewer {before}");
                    before = rate;
                }
            }
        }
    }
}

#[test]
fn the_hottest_name_limits_threads_that_do_not_spread_it() {
    let (cores, service_ns) = (8, 200.0);
    let of_all = (1..=20_000).map(|rank| f64::from(rank).powf(-1.4)).sum::<f64>();
    // All Interests for the most popular name go to one core.
    let bound = 1e9 / (service_ns / of_all);
    let rate = |hot_window| {
        let mut hot = setting(cores, 1.4, hot_window);
        (hot.costs, hot.interests, hot.cs) = (Costs::flat(service_ns), 100_000, 20_000);
        per_s(&simulated(&hot))
    };
    let at_home = rate(None);
    // The core also has its part of all other names, and the Data that are new.
    assert!(at_home < bound && at_home > 0.5 * bound, "{at_home} and {bound}");
    let spread = rate(Some(4096));
    assert!(spread > 1.3 * bound, "{spread} and {bound}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let run = |seed| {
        let found = simulated(&Setting { seed, ..setting(4, 1.0, Some(4096)) });
        let handled: Vec<_> = found.counts.iter().map(|core| (core.handled, core.busy_ns)).collect();
        (found.elapsed_ns, handled, found.latencies.value_at_quantile(0.99), found.crossed, found.strays)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn every_interest_is_answered_or_a_drop_is_counted() {
    for (load, ring) in [(Load::Window(64), 4096), (Load::Open(0.7), 4096), (Load::Open(1.5), 32)] {
        for hot_window in [None, Some(4096)] {
            let found = simulated(&Setting { load, ring, ..setting(4, 1.2, hot_window) });
            assert_eq!(found.sent_in_all, found.answered_in_all + found.lost_in_all);
            let drops = found.port_drops + found.input_drops + found.output_drops;
            assert_eq!(drops > 0, ring == 32, "{load:?}: {drops}");
            assert_eq!(found.lost_in_all > 0, ring == 32, "{load:?}");
            assert!(found.depth_max <= ring);
        }
    }
}

#[test]
fn a_consumer_that_lost_an_answer_asks_again() {
    let found = simulated(&Setting { load: Load::Window(128), ring: 16, ..setting(4, 1.4, None) });
    assert!(found.lost_in_all > 0 && found.answered > 0);
}

#[test]
fn other_cores_see_an_item_when_the_round_has_ended() {
    let mut queue = Queue::new(2);
    assert!(queue.push('a') && queue.push('b') && !queue.push('c'));
    assert_eq!((queue.next_at(), queue.pop(u64::MAX - 1)), (None, None));
    assert!(queue.publish(10) && !queue.publish(20));
    assert_eq!((queue.next_at(), queue.pop(9), queue.pop(10)), (Some(10), None, Some('a')));
    assert!(queue.push('c'));
    assert_eq!((queue.pop(10), queue.pop(10)), (Some('b'), None));
    assert!(queue.publish(20));
    assert_eq!((queue.pop(20), queue.depth(), queue.depth_max), (Some('c'), 0, 2));
}
