//! Loom models: a home and other workers race for an entry.

use std::sync::Arc;

use super::tests::{closed, digest, join, open};
use super::*;
use crate::sync::{Mutex, yield_now};

const NAME: u8 = 7;

/// Closes an entry as a home does, which tries again in its next round. Returns the faces that have joined.
fn settle(pit: &SharedPit, place: PlaceId) -> Vec<u64> {
    let mut joined = Joined::default();
    while pit.close(place, &mut joined) == Err(Busy) {
        yield_now();
    }
    joined.waiting.iter().map(|waiting| waiting.face.0).collect()
}

/// An Interest from another thread: it joins, or goes home by a queue.
fn ask(pit: &SharedPit, queue: &Mutex<Vec<u64>>, face: u64) {
    if join(pit, NAME, face) != Ok(Some(Verdict::Joins)) {
        queue.lock().expect("nobody panics").push(face);
    }
}

/// Two workers ask while the home answers (or expires) the pending Interest. Each Interest is with the home exactly
/// once: as a downstream of what it answers, or in its queue.
#[test]
fn each_interest_is_answered_once_or_goes_home() {
    loom::model(|| {
        let (pit, queue) = (SharedPit::new(1), Arc::new(Mutex::new(Vec::new())));
        let place = open(&pit, NAME).expect("there is room");
        let asking = [2, 3].map(|face| {
            let (pit, queue) = (Arc::clone(&pit), Arc::clone(&queue));
            loom::thread::spawn(move || ask(&pit, &queue, face))
        });
        let mut with_home = settle(&pit, place);
        for thread in asking {
            thread.join().expect("no panic");
        }
        with_home.append(&mut queue.lock().expect("nobody panics"));
        with_home.sort_unstable();
        assert_eq!(with_home, [2, 3]);
        assert!(pit.len() == 0 && !pit.contains(digest(NAME)));
    });
}

/// The home closes the entry, and opens it again for the next Interest of the name. A worker that asks meanwhile joins
/// the one or the other.
#[test]
fn an_interest_joins_one_of_two_entries_of_its_name() {
    loom::model(|| {
        let (pit, queue) = (SharedPit::new(1), Arc::new(Mutex::new(Vec::new())));
        let first = open(&pit, NAME).expect("there is room");
        let asking = loom::thread::spawn({
            let (pit, queue) = (Arc::clone(&pit), Arc::clone(&queue));
            move || {
                ask(&pit, &queue, 2);
                ask(&pit, &queue, 3);
            }
        });
        let mut with_home = settle(&pit, first);
        let second = open(&pit, NAME);
        asking.join().expect("no panic");
        with_home.extend(second.into_iter().flat_map(|place| closed(&pit, place)));
        with_home.append(&mut queue.lock().expect("nobody panics"));
        with_home.sort_unstable();
        assert_eq!(with_home, [2, 3]);
        assert_eq!(pit.len(), 0);
    });
}

/// Two homes want the only place for their names, while a third worker asks for one of these names.
#[test]
fn two_homes_never_share_a_place() {
    loom::model(|| {
        let pit = SharedPit::new(1);
        let other = loom::thread::spawn({
            let pit = Arc::clone(&pit);
            move || open(&pit, NAME + 1).map(|place| settle(&pit, place))
        });
        let asking = loom::thread::spawn({
            let pit = Arc::clone(&pit);
            move || join(&pit, NAME, 2) == Ok(Some(Verdict::Joins))
        });
        let place = open(&pit, NAME);
        let of_other = other.join().expect("no panic");
        let has_joined = asking.join().expect("no panic");
        let of_first = place.map(|place| closed(&pit, place)).unwrap_or_default();
        assert_eq!(of_first, if has_joined { vec![2] } else { vec![] });
        assert!(of_other.is_none_or(|joined| joined.is_empty()), "nobody asked for its name");
        assert_eq!(pit.len(), 0);
    });
}
