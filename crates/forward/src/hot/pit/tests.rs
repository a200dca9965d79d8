//! Helpers for tests and models, and tests of one thread.

use crate::packet::NameRange;

use super::*;

pub(super) const LATER: Ticks = Ticks(1000);

pub(super) fn digest(name: u8) -> Digest {
    Digest { hash: u64::from(name), check: u64::from(name) << 32 }
}

pub(super) fn pending(name: &[u8]) -> Pending<'_> {
    Pending { name, must_be_fresh: false, quiet_until: LATER, expiry: LATER }
}

pub(super) fn open(pit: &SharedPit, name: u8) -> Option<PlaceId> {
    let downstream = Downstream { face: FaceId(1), nonce: 1, expiry: Ticks(100) };
    pit.open(digest(name), &pending(&[name]), [downstream].into_iter(), [90].into_iter())
}

pub(super) fn asking(name: &[u8], face: u64, expiry: u64) -> Asking<'_> {
    Asking { name, must_be_fresh: false, face: FaceId(face), now: Ticks(10), expiry: Ticks(expiry) }
}

/// Joins an Interest whose nonce is the number of its face.
pub(super) fn join(pit: &SharedPit, name: u8, face: u64) -> Result<Option<Verdict>, Busy> {
    join_as(pit, name, &asking(&[name], face, 200), face as u32)
}

fn join_as(pit: &SharedPit, name: u8, asking: &Asking<'_>, nonce: u32) -> Result<Option<Verdict>, Busy> {
    pit.with(digest(name), asking, |mut opened| {
        let verdict = opened.verdict(nonce, true);
        if verdict == Verdict::Joins {
            let Asking { face, now, expiry, .. } = *asking;
            let waiting = Waiting { face, nonce, arrived: now, expiry, pit_token: PitToken::NONE };
            opened.join(waiting, Packet::copy_from(&[name]), info(nonce));
        }
        verdict
    })
}

fn info(nonce: u32) -> InterestInfo {
    InterestInfo {
        name: NameRange { start: 0, len: 1 },
        can_be_prefix: false,
        must_be_fresh: false,
        has_forwarding_hint: false,
        nonce: Some(nonce),
        lifetime_ms: 4000,
        hop_limit: None,
        is_hot: false,
    }
}

/// Closes an entry whose lock is free. Returns the faces that have joined.
pub(super) fn closed(pit: &SharedPit, place: PlaceId) -> Vec<u64> {
    let mut joined = Joined::default();
    assert_eq!(pit.close(place, &mut joined), Ok(()));
    assert_eq!(joined.latest.is_some(), !joined.waiting.is_empty());
    joined.waiting.iter().map(|waiting| waiting.face.0).collect()
}

#[cfg(not(loom))]
mod of_one_thread {
    use super::*;

    const JOINS: Result<Option<Verdict>, Busy> = Ok(Some(Verdict::Joins));
    const LOOPS: Result<Option<Verdict>, Busy> = Ok(Some(Verdict::Loops));
    const GOES_HOME: Result<Option<Verdict>, Busy> = Ok(None);

    #[test]
    fn what_joined_comes_out_once() {
        let pit = SharedPit::new(1);
        assert_eq!((join(&pit, 7, 2), pit.len()), (GOES_HOME, 0));
        let place = open(&pit, 7).expect("there is room");
        assert!(pit.contains(digest(7)) && pit.len() == 1);
        assert_eq!([join(&pit, 7, 2), join(&pit, 7, 3), join(&pit, 7, 2)], [JOINS; 3]);
        assert_eq!(join(&pit, 8, 2), GOES_HOME);
        assert_eq!(closed(&pit, place), [2, 3]);
        assert!(!pit.contains(digest(7)) && pit.len() == 0);
        assert_eq!(join(&pit, 7, 2), GOES_HOME);
        let place = open(&pit, 7).expect("there is room again");
        assert!(closed(&pit, place).is_empty(), "nothing is left of the first time");
    }

    #[test]
    fn only_an_interest_for_the_same_data_joins_in_time() {
        let pit = SharedPit::new(1);
        let place = open(&pit, 7).expect("there is room");
        let other_name = asking(&[8], 2, 200);
        let fresh = Asking { must_be_fresh: true, ..asking(&[7], 2, 200) };
        let late = Asking { now: LATER, ..asking(&[7], 2, 2000) };
        // The face of the first downstream, which waits until 100.
        let shorter = asking(&[7], 1, 99);
        for asking in [&other_name, &fresh, &late, &shorter] {
            assert_eq!(join_as(&pit, 7, asking, 5), GOES_HOME);
        }
        assert_eq!(join_as(&pit, 7, &asking(&[7], 1, 100), 5), JOINS);
        // It renewed its downstream, so its first nonce counts no more.
        assert_eq!(join_as(&pit, 7, &asking(&[7], 2, 100), 1), JOINS);
        assert_eq!(closed(&pit, place), [1, 2]);
    }

    #[test]
    fn nonces_of_other_downstreams_and_of_upstreams_loop() {
        let pit = SharedPit::new(1);
        open(&pit, 7).expect("there is room");
        assert_eq!(join_as(&pit, 7, &asking(&[7], 2, 200), 1), LOOPS, "of face 1");
        assert_eq!(join_as(&pit, 7, &asking(&[7], 2, 200), 90), LOOPS, "sent upstream");
        assert_eq!(join_as(&pit, 7, &asking(&[7], 1, 200), 1), JOINS, "sent again by the same peer");
        assert_eq!(join(&pit, 7, 2), JOINS);
        assert_eq!(join_as(&pit, 7, &asking(&[7], 3, 200), 2), LOOPS, "of an Interest that joined");
    }

    #[test]
    fn a_full_entry_and_a_full_set_send_everybody_home() {
        let pit = SharedPit::new(1);
        let places: Vec<_> = (1..=WAYS as u8).map(|name| open(&pit, name).expect("there is room")).collect();
        assert_eq!((open(&pit, 100), pit.len()), (None, WAYS as u64));
        for face in 0..JOINED_MAX as u64 {
            assert_eq!(join(&pit, 1, 100 + face), JOINS);
        }
        assert_eq!((join(&pit, 1, 99), join(&pit, 1, 100)), (GOES_HOME, JOINS));
        assert_eq!(closed(&pit, places[0]).len(), JOINED_MAX);
        assert_eq!(open(&pit, 100), Some(places[0]));
    }

    #[test]
    fn an_entry_with_all_downstreams_takes_only_those() {
        let pit = SharedPit::new(1);
        let downstream = |n| Downstream { face: FaceId(n), nonce: n as u32, expiry: Ticks(100) };
        let all = (0..DOWNSTREAMS_MAX as u64).map(downstream);
        pit.open(digest(7), &pending(&[7]), all, [].into_iter()).expect("there is room");
        assert_eq!((join(&pit, 7, 1000), join(&pit, 7, 5)), (GOES_HOME, JOINS));
    }

    /// Threads join as fast as they can while a home opens and closes. Each Interest comes out once, or goes home.
    #[test]
    fn threads_lose_and_double_nothing() {
        const ROUNDS: u64 = 20_000;
        let pit = SharedPit::new(1);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (joined, mut taken) = std::thread::scope(|scope| {
            let joining: Vec<_> = (0..2u64)
                .map(|thread| {
                    let (pit, stop) = (&pit, &stop);
                    scope.spawn(move || {
                        let (mut joined, mut face) = (Vec::new(), 2 + thread);
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            face += 2;
                            if join(pit, 7, face) == JOINS {
                                joined.push(face);
                            }
                        }
                        joined
                    })
                })
                .collect();
            let mut taken = Vec::new();
            for _ in 0..ROUNDS {
                let place = loop {
                    if let Some(place) = open(&pit, 7) {
                        break place;
                    }
                };
                let mut joined = Joined::default();
                while pit.close(place, &mut joined) == Err(Busy) {
                    std::thread::yield_now();
                }
                taken.extend(joined.waiting.iter().map(|waiting| waiting.face.0));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let joined: Vec<u64> = joining.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
            (joined, taken)
        });
        let mut joined = joined;
        joined.sort_unstable();
        taken.sort_unstable();
        assert_eq!(joined, taken);
    }
}
