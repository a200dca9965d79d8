//! Popular prefixes: whom the summary keeps, how samples stand for the rest, and what a worker counts.

use super::*;

fn name(uri: &str) -> Name {
    uri.parse().expect("a name in a test")
}

fn one(interests: u64) -> Counts {
    Counts { interests, ..Counts::default() }
}

/// Counts of a prefix.
fn of<'a>(traffic: &'a Traffic, uri: &str) -> Option<&'a Counts> {
    traffic.prefixes.iter().find(|(prefix, _)| *prefix == name(uri)).map(|(_, counts)| counts)
}

/// Counts Interests in 1 s, then ends the window.
fn window(counting: &mut Counting, from: Ticks, uris: impl Iterator<Item = String>) -> Traffic {
    for uri in uris {
        if counting.is_sample() {
            counting.count(name(&uri).as_ref(), false, 100);
        }
    }
    counting.advance(from + WINDOW);
    counting.last.clone()
}

#[test]
fn a_frequent_prefix_stays_among_many_rare_ones() {
    let mut summary = Summary::default();
    for round in 0..20_000u32 {
        summary.count(name(&format!("/rare/{round}")).value(), &one(1));
        if round % 10 == 0 {
            summary.count(name("/often").value(), &one(1));
        }
    }
    let told: HashMap<Name, Counts> = summary.told().collect();
    assert_eq!(told.len(), PREFIXES_MAX);
    let often = told[&name("/often")];
    assert!(often.interests <= 2000 && often.interests + often.excess >= 2000, "{often:?}");
    assert!(often.interests > 1800, "it keeps its place: {often:?}");
    assert_eq!(summary.places.len(), PREFIXES_MAX);
}

#[test]
fn few_packets_are_counted_exactly_at_all_depths() {
    let mut counting = Counting::new(Ticks(0), 1);
    let uris = (0..300).map(|i| format!("/a/{}/{i}", i % 3));
    let traffic = window(&mut counting, Ticks(0), uris);
    assert_eq!((traffic.packets, traffic.samples, traffic.time), (300, 300, WINDOW));
    assert_eq!(of(&traffic, "/a"), Some(&one(300)));
    assert_eq!(of(&traffic, "/a/1"), Some(&one(100)));
    let deepest = traffic.prefixes.iter().filter(|(prefix, _)| prefix.as_ref().len() == 3).count();
    assert_eq!(deepest, TOLD_MAX, "all are equal, and so many are told");
    let forgotten = window(&mut counting, Ticks(0) + WINDOW, std::iter::empty());
    assert_eq!((forgotten.packets, forgotten.prefixes.len()), (0, 0), "the window before is forgotten");
}

#[test]
fn samples_stand_for_all_packets() {
    let mut counting = Counting::new(Ticks(0), 7);
    let many = 40 * SAMPLES;
    let uris = || (0..many).map(|i| if i % 4 == 0 { "/a/x".to_owned() } else { format!("/b/{}", i % 1000) });
    for round in 0..2 {
        let at = Ticks(round * WINDOW.as_nanos() as u64);
        let traffic = window(&mut counting, at, uris());
        assert_eq!(traffic.packets, many);
        assert!(traffic.samples < 13 * SAMPLES, "{}", traffic.samples);
        let a = of(&traffic, "/a/x").expect("a quarter of all").interests;
        assert!((many / 4).abs_diff(a) < many / 40, "{a} of {}", many / 4);
        let all: u64 = ["/a", "/b"].map(|uri| of(&traffic, uri).expect("a half").interests).iter().sum();
        assert!(many.abs_diff(all) < many / 20, "{all} of {many}");
    }
    // The second window knows how many packets to expect.
    assert!(counting.last.samples < 2 * SAMPLES, "{}", counting.last.samples);
}

#[test]
fn long_and_deep_names_are_counted_by_their_short_prefixes() {
    let mut counting = Counting::new(Ticks(0), 1);
    let deep = (0..20).map(|i| format!("/{i}")).collect::<String>();
    let long = format!("/long/{}", "x".repeat(BYTES_MAX));
    let traffic = window(&mut counting, Ticks(0), [deep, long].into_iter());
    let depth = traffic.prefixes.iter().map(|(prefix, _)| prefix.as_ref().len()).max();
    assert_eq!(depth, Some(DEPTH_MAX));
    assert!(traffic.prefixes.iter().all(|(prefix, _)| prefix.value().len() <= BYTES_MAX));
    assert_eq!(of(&traffic, "/long"), Some(&one(1)));
}

#[test]
fn threads_are_added_by_their_rates() {
    let traffic = |seconds, interests| Traffic {
        time: Duration::from_secs(seconds),
        packets: interests,
        samples: interests,
        prefixes: vec![(name("/a"), one(interests))],
        answers: AnswerTimes::default(),
    };
    let none_yet = Traffic::default();
    let sum = Traffic::sum([traffic(2, 100), traffic(4, 100), none_yet]);
    assert_eq!((sum.time, sum.packets, sum.samples), (Duration::from_secs(4), 300, 200));
    assert_eq!(sum.prefixes, [(name("/a"), one(300))]);
    assert!(Traffic::sum([]).time.is_zero());
}
