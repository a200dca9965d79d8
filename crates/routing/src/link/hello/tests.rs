//! Tests of hellos.

use super::*;

struct Side {
    session: Session,
    boot: u64,
    number: u64,
}

impl Side {
    fn new(discriminator: u64, boot: u64) -> Self {
        Side { session: Session::new(discriminator, 0), boot, number: 0 }
    }

    fn send(&mut self, now_ms: u64) -> Option<Hello> {
        self.number += 1;
        self.session.send(&Settings::default(), (self.boot, self.number), 0.5, now_ms)
    }
}

/// Runs both sides until a time, with hellos lost where `loses` says so. Returns when each side first saw a change to
/// Down, if it did.
fn run(sides: &mut [Side; 2], from_ms: u64, to_ms: u64, loses: impl Fn(usize) -> bool) -> [Option<u64>; 2] {
    let mut downs = [None; 2];
    for now_ms in from_ms..to_ms {
        for from in [0, 1] {
            if sides[from].session.expire(&Settings::default(), now_ms) {
                downs[from].get_or_insert(now_ms);
            }
            let Some(hello) = sides[from].send(now_ms) else { continue };
            if !loses(from) {
                let to = &mut sides[1 - from].session;
                let before = to.state();
                to.receive(&hello, &Settings::default(), now_ms);
                if to.state() == HelloState::Down && before != HelloState::Down {
                    downs[1 - from].get_or_insert(now_ms);
                }
            }
        }
    }
    downs
}

fn states(sides: &[Side; 2]) -> [HelloState; 2] {
    [sides[0].session.state(), sides[1].session.state()]
}

#[test]
fn hellos_round_trip() {
    let hello = Hello {
        state: HelloState::Up,
        my_discriminator: u64::MAX,
        your_discriminator: 0,
        interval_ms: 80,
        multiplier: 3,
        boot: 1_700_000_000,
        number: 300,
        receiver: Some("/net/b".parse().unwrap()),
        uris: vec!["udp4://192.0.2.1:6363".to_owned()],
    };
    let content = hello.encode();
    assert_eq!(Hello::decode(&content), Ok(hello.clone()));
    // Without the last two elements, or one, it is a hello, too.
    for cut in 0..content.len() - 37 {
        assert!(Hello::decode(&content[..cut]).is_err(), "{cut}");
    }
    let refused = [
        Hello { my_discriminator: 0, ..hello.clone() },
        Hello { multiplier: 0, ..hello.clone() },
        Hello { interval_ms: 0, ..hello.clone() },
        Hello { interval_ms: 60_001, ..hello.clone() },
        Hello { uris: vec!["a".repeat(129)], ..hello.clone() },
    ];
    refused.iter().for_each(|hello| assert!(Hello::decode(&hello.encode()).is_err(), "{hello:?}"));
    let many = Hello { uris: vec!["udp4://192.0.2.1:6363".to_owned(); 9], ..hello };
    assert_eq!(Hello::decode(&many.encode()).unwrap().uris.len(), URIS_MAX);
}

#[test]
fn a_cut_is_seen_in_less_than_300_ms_and_healed() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    assert_eq!(run(&mut sides, 0, 2000, |_| false), [None, None]);
    assert_eq!(states(&sides), [HelloState::Up, HelloState::Up]);
    assert_eq!(run(&mut sides, 2000, 2300, |_| true), [None, None], "the other nexthops come first");
    assert!(sides.iter().all(|side| side.session.is_late(&Settings::default(), 2300)));
    let downs = run(&mut sides, 2300, 2420, |_| true);
    assert!(downs.iter().all(|at| at.is_some_and(|at| at < 2420)), "{downs:?}");
    run(&mut sides, 2420, 10_000, |_| true);
    assert_eq!(states(&sides), [HelloState::Down, HelloState::Down]);
    run(&mut sides, 10_000, 12_000, |_| false);
    assert_eq!(states(&sides), [HelloState::Up, HelloState::Up]);
}

/// Hellos of the first side are lost for so long, from a time when all is well. Returns when the second side took it for
/// dead.
fn silence(sides: &mut [Side; 2], from_ms: u64, for_ms: u64) -> Option<u64> {
    let downs = run(sides, from_ms, from_ms + for_ms, |from| from == 0);
    run(sides, from_ms + for_ms, from_ms + 3000, |_| false);
    assert_eq!(states(sides), [HelloState::Up, HelloState::Up], "it is forgiven");
    downs[1].map(|at| at - from_ms)
}

#[test]
fn a_silence_that_ended_makes_the_next_one_count_later() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    run(&mut sides, 0, 3000, |_| false);
    assert!(silence(&mut sides, 3000, 430).is_some_and(|after| after <= 400), "it is a surprise");
    assert_eq!(silence(&mut sides, 6000, 430), None, "it is no surprise any more");
    // A longer silence counts, however often there was one: a link that is dead is found.
    for round in 3..8 {
        let after = silence(&mut sides, round * 3000, 900);
        assert!(after.is_some_and(|after| (400..=800).contains(&after)), "{after:?}");
    }
    // All is forgotten after a while.
    run(&mut sides, 24_000, 24_000 + 3 * GAP_MEMORY_MS, |_| false);
    assert!(silence(&mut sides, 24_000 + 3 * GAP_MEMORY_MS, 430).is_some_and(|after| after <= 400));
}

#[test]
fn a_lost_answer_does_not_make_a_link_wait_for_a_second() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    run(&mut sides, 0, 3000, |_| false);
    run(&mut sides, 3000, 3430, |_| true);
    assert_eq!(states(&sides), [HelloState::Down, HelloState::Down]);
    run(&mut sides, 3430, 3660, |_| false);
    assert_eq!(states(&sides), [HelloState::Up, HelloState::Up]);
}

#[test]
fn a_cut_of_one_direction_is_seen_by_both() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    run(&mut sides, 0, 2000, |_| false);
    let downs = run(&mut sides, 2000, 2420, |from| from == 0);
    assert!(downs.iter().all(Option::is_some), "{downs:?}");
    assert_eq!(sides[0].session.down_reason(), DownReason::Told);
    assert_eq!(sides[1].session.down_reason(), DownReason::Hello);
    run(&mut sides, 2420, 9000, |from| from == 0);
    assert!(states(&sides).iter().all(|state| *state != HelloState::Up), "{:?}", states(&sides));
}

#[test]
fn a_neighbour_without_hellos_is_left_in_peace() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    assert_eq!(run(&mut sides, 0, 20_000, |from| from == 1), [None, None]);
    assert_eq!(sides[0].session.state(), HelloState::Silent);
}

#[test]
fn old_hellos_change_nothing() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    let first = sides[1].send(0).unwrap();
    run(&mut sides, 0, 2000, |_| false);
    let session = &mut sides[0].session;
    // Its sender was down then: whoever repeats it would take the link down.
    assert_eq!((first.state, first.your_discriminator), (HelloState::Down, 0));
    assert!(!session.receive(&first, &Settings::default(), 2001));
    let of_earlier_start = Hello { boot: 99, number: 1_000_000, ..first.clone() };
    assert!(!session.receive(&of_earlier_start, &Settings::default(), 2001));
    let for_others = Hello { number: 1_000_000, your_discriminator: 9, ..first.clone() };
    assert!(!session.receive(&for_others, &Settings::default(), 2001));
    let without_echo = Hello { number: 1_000_000, state: HelloState::Up, ..first };
    assert!(!session.receive(&without_echo, &Settings::default(), 2001));
    assert_eq!(session.state(), HelloState::Up);
}

#[test]
fn a_quick_restart_does_not_take_the_link_down() {
    let mut sides = [Side::new(7, 100), Side::new(8, 100)];
    run(&mut sides, 0, 2000, |_| false);
    sides[1] = Side { session: Session::new(9, 2100), boot: 101, number: 0 };
    assert_eq!(run(&mut sides, 2100, 4000, |_| false), [None, None]);
    assert_eq!(states(&sides), [HelloState::Up, HelloState::Up]);
}
