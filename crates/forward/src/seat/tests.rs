use std::sync::Arc;

use byname_lookup::Control;
use byname_lookup::oracle::Oracle;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Name, NameHashKey, PitToken};

use super::*;
use crate::face_table::{LinkType, Scope};
use crate::tables::Tables;
use crate::worker::WorkerConfig;
use crate::{LinkFields, Packet};

/// Faces of a flood, and one of somebody else.
const FLOOD: std::ops::Range<u64> = 1000..1399;
const CALM: FaceId = FaceId(300);

fn seats(threads: usize, ring_packets: usize) -> Vec<Seat> {
    let key = NameHashKey::new([5, 6]);
    let make = |_| {
        let tables = Arc::new(Tables::new(Oracle::default().query()));
        Worker::try_new(WorkerConfig::default(), key, tables, 1)
    };
    let workers = Workers::make(Dispatcher::new(key, threads, 0, 77), ring_packets, false, make);
    workers.expect("there is memory").seats().expect("there is memory")
}

#[test]
fn each_worker_is_made_on_a_thread_of_its_own_and_the_first_error_counts() {
    let key = NameHashKey::new([5, 6]);
    let made_by = std::sync::Mutex::new(Vec::new());
    let make = |fails: fn(usize) -> bool| {
        Workers::make(Dispatcher::new(key, 4, 0, 77), 16, false, |number| {
            made_by.lock().expect("nobody panics").push(std::thread::current().id());
            let tables = Arc::new(Tables::new(Oracle::default().query()));
            if fails(number) { Err(number) } else { Ok(Worker::new(WorkerConfig::default(), key, tables, 1)) }
        })
    };
    assert_eq!(make(|_| false).map(|workers| workers.len()), Ok(4));
    let threads: std::collections::HashSet<_> = made_by.lock().expect("nobody panics").drain(..).collect();
    assert!(threads.len() == 4 && !threads.contains(&std::thread::current().id()));
    assert_eq!(make(|number| number >= 2).err(), Some(2));
}

fn name(nonce: u32) -> Name {
    format!("/{nonce}").parse().expect("a name")
}

fn received(face: FaceId, nonce: u32) -> Received {
    let packet = Packet::copy_from(&InterestBuilder::new(name(nonce), nonce).encode());
    Received { face, fields: LinkFields::default(), packet }
}

/// Floods the ring to a thread that does not work, in bursts with few packets of somebody else. Returns how many
/// packets of the flood and of the other face were handled, of how many of the other face.
fn handled(place: impl Fn(u64) -> Whereabouts) -> (u64, u64, u64) {
    let mut seats = seats(2, 1024);
    let calm: Whereabouts = Whereabouts::Host("198.51.100.1:1".parse().expect("an address"));
    let faces = FLOOD.map(|face| (FaceId(face), place(face))).chain([(CALM, calm)]);
    for (face, place) in faces {
        seats[0].enter_face(face, &place);
        seats[0].tell_all(move |worker| worker.face_up_at(face, Scope::NonLocal, LinkType::PointToPoint, place));
    }
    let (mut nonce, mut of_calm, mut outgoing) = (0, 0, Vec::new());
    for burst in 0..100 {
        let mut next = |face| {
            nonce += 1;
            received(face, nonce)
        };
        let mut packets: Vec<Received> = FLOOD.step_by(7).map(|face| next(FaceId(face + burst % 7))).collect();
        packets.push(next(CALM));
        of_calm += 1;
        seats[0].poll(Ticks::from_ms(burst), &mut packets, &mut outgoing, &mut Stopwatch::default());
    }
    while seats[1].has_input() {
        seats[1].poll(Ticks::from_ms(200), &mut Vec::new(), &mut outgoing, &mut Stopwatch::default());
    }
    let drops: u64 = seats[0].rings().expect("there are two").input_drops;
    let count = |face: FaceId| -> u64 {
        seats.iter().filter_map(|seat| seat.worker.face_counters(face)).map(|counters| counters.in_interests).sum()
    };
    let flood = FLOOD.map(|face| count(FaceId(face))).sum();
    assert_eq!(flood + count(CALM) + drops, u64::from(nonce), "what is not handled is counted");
    (flood, count(CALM), of_calm)
}

#[test]
fn a_source_with_many_faces_takes_nothing_from_another_at_a_full_ring() {
    let one_source =
        |face: u64| Whereabouts::Host(format!("192.0.2.{}:{face}", face % 256).parse().expect("an address"));
    let (flood, calm, of_calm) = handled(one_source);
    assert_eq!(calm, of_calm);
    // Its faces have half of the ring, and as much again as one source may.
    assert!(flood > 512, "{flood}");
    // If each face were a source of its own, the flood would leave no room.
    let alone = handled(|_| Whereabouts::Alone);
    assert!(alone.1 < alone.2, "{alone:?}");
}

/// The threads that must be woken after a round, each as often as it is told.
fn given(seat: &mut Seat) -> Vec<usize> {
    let mut given = Vec::new();
    seat.take_given(|thread| given.push(thread));
    given
}

#[test]
fn a_burst_concerns_only_the_threads_that_it_has_work_for() {
    const THREADS: usize = 5;
    const HERE: usize = 1;
    let mut seats = seats(THREADS, 1024);
    seats[HERE].tell_all(|worker| worker.face_up(CALM, Scope::NonLocal, LinkType::PointToPoint));
    given(&mut seats[HERE]);
    let mut outgoing = Vec::new();
    for seat in &mut seats {
        seat.poll(Ticks::from_ms(0), &mut Vec::new(), &mut outgoing, &mut Stopwatch::default());
    }
    let mut nonces = 0..;
    // Each burst has packets for a set of threads.
    for homes in 0..1 << THREADS {
        let is_among = |home: usize| homes >> home & 1 == 1;
        let mut burst: Vec<Received> = nonces
            .by_ref()
            .filter(|nonce| is_among(seats[HERE].home(name(*nonce).as_ref())))
            .take(if homes == 0 { 0 } else { 200 })
            .map(|nonce| received(CALM, nonce))
            .collect();
        seats[HERE].poll(Ticks::from_ms(1), &mut burst, &mut outgoing, &mut Stopwatch::default());
        let concerned: Vec<usize> = (0..THREADS).filter(|thread| *thread != HERE && is_among(*thread)).collect();
        assert_eq!(given(&mut seats[HERE]), concerned, "{homes:b}");
        assert!((0..THREADS).filter(|thread| *thread != HERE).all(|at| seats[at].has_input() == is_among(at)));
        // The others answer with Nacks, which only concern the owner of the face.
        for at in concerned {
            outgoing.clear();
            seats[at].poll(Ticks::from_ms(1), &mut Vec::new(), &mut outgoing, &mut Stopwatch::default());
            assert_eq!(given(&mut seats[at]), [], "its own output is not given yet");
            outgoing.iter_mut().for_each(|nack| seats[at].send_to(HERE, nack));
            seats[at].publish_output();
            assert_eq!(given(&mut seats[at]), [HERE]);
        }
        outgoing.clear();
        seats[HERE].poll(Ticks::from_ms(1), &mut Vec::new(), &mut outgoing, &mut Stopwatch::default());
        assert_eq!(given(&mut seats[HERE]), [], "what is sent here concerns nobody");
    }
}

/// Data comes to thread 0, and its home is thread 1, which gets no token that says so.
#[test]
fn data_that_nobody_asked_for_is_dropped_by_its_hash_as_it_would_be_by_its_name() {
    const UPSTREAM: FaceId = FaceId(302);
    let mut seats = seats(2, 1024);
    let away = |prefix: &str| -> Name {
        let mut names = (0..).map(|number| format!("{prefix}/{number}").parse().expect("a name"));
        names.find(|name: &Name| seats[0].home(name.as_ref()) == 1).expect("every second name")
    };
    let (asked, local) = (away("/a"), away("/localhost"));
    for face in [CALM, UPSTREAM] {
        seats[0].tell_all(move |worker| worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint));
    }
    let mut outgoing = Vec::new();
    let mut take = |seats: &mut Vec<Seat>, face, fields: LinkFields, bytes: &[u8]| {
        outgoing.clear();
        let mut received = vec![Received { face, fields, packet: Packet::copy_from(bytes) }];
        seats[0].poll(Ticks::from_ms(1), &mut received, &mut outgoing, &mut Stopwatch::default());
        seats[1].poll(Ticks::from_ms(1), &mut Vec::new(), &mut outgoing, &mut Stopwatch::default());
        outgoing.iter().map(|sent| (sent.face, sent.fields.pit_token)).collect::<Vec<_>>()
    };
    let data = |name: &Name| DataBuilder::new(name.clone()).encode();
    let token = |bytes: &[u8]| LinkFields { pit_token: PitToken::new(bytes).expect("short"), ..LinkFields::default() };

    // With and without a token of somebody else, with rare fields, below the scope of this host, from an unknown face.
    for fields in [
        LinkFields::default(),
        token(b"theirs, and longer than a word"),
        LinkFields { congestion_mark: 1, ..LinkFields::default() },
    ] {
        assert!(take(&mut seats, UPSTREAM, fields, &data(&asked)).is_empty());
    }
    assert!(take(&mut seats, UPSTREAM, LinkFields::default(), &data(&local)).is_empty());
    assert!(take(&mut seats, FaceId(999), LinkFields::default(), &data(&asked)).is_empty());
    let home = &seats[1].worker;
    assert_eq!(home.face_counters(UPSTREAM).map(|counters| counters.in_data), Some(4));
    let dropped: Vec<_> = home.shard.drops.all().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(dropped, [("unknown-face", 1), ("scope", 1), ("unsolicited-data", 3)]);

    // The same Data answers who waits for it.
    let next_hop = LinkFields { next_hop_face_id: Some(UPSTREAM), ..token(b"mine") };
    seats[0].tell_all(move |worker| worker.set_local_fields(CALM, true));
    let interest = InterestBuilder::new(asked.clone(), 7).encode();
    let sent = take(&mut seats, CALM, next_hop, &interest);
    assert_eq!(sent.iter().map(|(face, _)| *face).collect::<Vec<_>>(), [UPSTREAM]);
    let answered = take(&mut seats, UPSTREAM, token(b"theirs"), &data(&asked));
    assert_eq!(answered, [(CALM, PitToken::new(b"mine").expect("short"))]);
    assert_eq!(seats[1].worker.counters().satisfied_interests, 1);
}
