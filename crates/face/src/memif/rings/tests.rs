//! Rings of two ends in this process, and memory in which one end lies.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::ring::{SLOT_BYTES, SLOTS_AT};
use super::*;

/// A client and a server that have agreed.
fn pair(slots_log2: u8, buffer_bytes: u32) -> (Rings, Rings) {
    let (client, mut offer) = Rings::create(slots_log2, buffer_bytes, 1).expect("memory");
    let Ok([mut client]) = <[Rings; 1]>::try_from(client) else { panic!("one pair") };
    let memory = SharedMemory::map(&offer.memory, offer.bytes).expect("sealed");
    let [from_client, to_client] = offer.rings.remove(0);
    let mut server = Rings::join(vec![memory], from_client, to_client).expect("sound");
    server.begin();
    client.begin();
    (client, server)
}

fn received(rings: &mut Rings, frames_max: usize) -> Result<Vec<Vec<u8>>, Breach> {
    let mut frames = Vec::new();
    rings.receive(frames_max, |frame| frames.push(frame.to_vec())).map(|()| frames)
}

/// The parts of a frame, as the ring takes them.
fn parts(frame: &[u8]) -> [&[u8]; 3] {
    let (a, rest) = frame.split_at(frame.len() / 3);
    let (b, c) = rest.split_at(rest.len() / 2);
    [a, b, c]
}

proptest! {
    #[test]
    fn frames_arrive_as_they_were_sent(
        slots_log2 in 1u8..7,
        buffer_bytes in 1u32..300,
        from_server: bool,
        lens in vec(1usize..1000, 1..200),
        frames_max in 1usize..20,
    ) {
        let (mut client, mut server) = pair(slots_log2, buffer_bytes);
        let (from, to) = if from_server { (&mut server, &mut client) } else { (&mut client, &mut server) };
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for (n, len) in lens.into_iter().enumerate() {
            let frame = vec![n as u8; len];
            let fits = len <= (buffer_bytes as usize) << slots_log2;
            loop {
                match from.push(parts(&frame)).expect("an honest peer") {
                    Pushed::Done => {
                        prop_assert!(fits);
                        sent.push(frame);
                        break;
                    }
                    Pushed::TooLong => {
                        prop_assert!(!fits);
                        break;
                    }
                    Pushed::Full => {
                        from.send();
                        let frames = received(to, frames_max).expect("an honest peer");
                        prop_assert!(!frames.is_empty(), "full, and nothing comes");
                        got.extend(frames);
                    }
                }
            }
        }
        from.send();
        prop_assert!(!from.has_unsent());
        while to.has_input() {
            got.extend(received(to, frames_max).expect("an honest peer"));
        }
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn whatever_a_peer_writes_is_caught_or_harmless(
        steps in vec((any::<prop::sample::Index>(), any::<[u8; 4]>(), 0u8..6), 1..60),
        slots_log2 in 1u8..5,
        server_lies: bool,
    ) {
        let (client, server) = pair(slots_log2, 256);
        let (mut victim, mut liar) = if server_lies { (client, server) } else { (server, client) };
        let bytes = liar.memory().bytes();
        // Most lies go where words have a meaning.
        let headers = 2 * ring_bytes(1 << slots_log2);
        for (place, lie, what) in &steps {
            let frame = vec![1; usize::from(lie[0]) * 4];
            let done = match what {
                0..=2 => {
                    let end = if *what < 2 { headers } else { bytes };
                    liar.memory().write(place.index(end - 4), lie).expect("within");
                    Ok(())
                }
                3 => {
                    // The liar may fail on its own lies.
                    let _ = liar.push(parts(&frame));
                    liar.send();
                    Ok(())
                }
                4 => victim.push(parts(&frame)).map(|_| victim.send()),
                _ => received(&mut victim, 4).map(|frames| {
                    assert!(frames.len() <= 4 && frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
                }),
            };
            if let Err(breach) = done {
                prop_assert!(matches!(breach, Breach::Index | Breach::Buffer | Breach::Chain), "{breach}");
                break;
            }
        }
    }
}

/// A lie, and the breach that must be found.
type Case = (fn(&mut Rings), fn(&Breach) -> bool);

/// Changes a slot of a ring of 8 slots. Ring 0 is the one on which the client sends.
fn lie_in_slot(rings: &Rings, ring: usize, slot: usize, lie: impl FnOnce(&mut Slot)) {
    let at = ring * ring_bytes(8) + SLOTS_AT + slot * SLOT_BYTES;
    let mut told = Slot::load(rings.memory(), at);
    lie(&mut told);
    told.store(rings.memory(), at);
}

#[test]
fn a_client_that_lies_is_caught() {
    let lies: [Case; 11] = [
        (|c| c.memory().u16_at(HEAD_AT).store(10, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
        (|c| c.memory().u16_at(HEAD_AT).store(u16::MAX, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
        (|c| lie_in_slot(c, 0, 0, |s| s.region = 1), |b| matches!(b, Breach::Buffer)),
        (|c| lie_in_slot(c, 0, 0, |s| s.offset = u32::MAX), |b| matches!(b, Breach::Buffer)),
        (|c| lie_in_slot(c, 0, 0, |s| s.bytes = 9216), |b| matches!(b, Breach::Buffer)),
        (|c| lie_in_slot(c, 0, 0, |s| s.flags = NEXT), |b| matches!(b, Breach::Chain)),
        (
            |c| {
                (0..8).for_each(|slot| lie_in_slot(c, 0, slot, |s| s.flags = NEXT));
                c.memory().u16_at(HEAD_AT).store(8, Ordering::Relaxed);
            },
            |b| matches!(b, Breach::Chain),
        ),
        (|c| c.memory().u16_at(ring_bytes(8) + HEAD_AT).store(9, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
        (
            |c| c.memory().u16_at(ring_bytes(8) + HEAD_AT).store(u16::MAX, Ordering::Relaxed),
            |b| matches!(b, Breach::Index),
        ),
        (|c| lie_in_slot(c, 1, 0, |s| s.region = 1), |b| matches!(b, Breach::Buffer)),
        (|c| lie_in_slot(c, 1, 0, |s| s.offset = u32::MAX - 1), |b| matches!(b, Breach::Buffer)),
    ];
    for (n, (lie, is_expected)) in lies.into_iter().enumerate() {
        let (mut client, mut server) = pair(3, 2048);
        client.push([b"frame", &[], &[]]).expect("room");
        client.send();
        lie(&mut client);
        let offset = client.memory().bytes() as u32 - 1000;
        if n == 4 {
            lie_in_slot(&client, 0, 0, |s| s.offset = offset);
        }
        let breach = received(&mut server, 64).and_then(|_| server.push([&[1; 100], &[], &[]]));
        assert!(breach.as_ref().is_err_and(is_expected), "lie {n}: {breach:?}");
    }
}

#[test]
fn a_server_that_lies_is_caught() {
    let lies: [Case; 5] = [
        (|s| s.memory().u16_at(ring_bytes(8) + TAIL_AT).store(9, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
        (|s| lie_in_slot(s, 1, 0, |slot| slot.bytes = 2049), |b| matches!(b, Breach::Buffer)),
        (|s| lie_in_slot(s, 1, 0, |slot| slot.flags = NEXT), |b| matches!(b, Breach::Chain)),
        (|s| s.memory().u16_at(TAIL_AT).store(20, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
        (|s| s.memory().u16_at(TAIL_AT).store(u16::MAX, Ordering::Relaxed), |b| matches!(b, Breach::Index)),
    ];
    for (n, (lie, is_expected)) in lies.into_iter().enumerate() {
        let (mut client, mut server) = pair(3, 2048);
        server.push([b"frame", &[], &[]]).expect("room");
        server.send();
        lie(&mut server);
        let mut breach = received(&mut client, 64).map(|_| Pushed::Done);
        for _ in 0..9 {
            breach = breach.and_then(|_| client.push([b"x", &[], &[]]));
        }
        assert!(breach.as_ref().is_err_and(is_expected), "lie {n}: {breach:?}");
    }
}

#[test]
fn a_server_cannot_say_where_our_buffers_are() {
    let (mut client, mut server) = pair(3, 2048);
    server.push([b"frame", &[], &[]]).expect("room");
    server.send();
    lie_in_slot(&server, 1, 0, |slot| (slot.region, slot.offset) = (9, u32::MAX));
    assert_eq!(received(&mut client, 64).expect("harmless"), [b"frame"]);
}

#[test]
fn what_an_earlier_long_frame_left_is_no_part_of_a_short_one() {
    // DPDK's driver leaves the flag in place.
    let (mut client, mut server) = pair(3, 64);
    client.push([&[1; 100], &[], &[]]).expect("room");
    client.send();
    assert_eq!(received(&mut server, 1).expect("honest")[0].len(), 100);
    let slot = Slot::load(client.memory(), SLOTS_AT);
    assert_eq!(slot.flags, 0);
}

#[test]
fn rings_that_are_not_in_the_memory_are_refused() {
    let changes: [fn(&mut AddRing); 7] = [
        |r| r.slots_log2 = 0,
        |r| r.slots_log2 = 15,
        |r| r.region = 1,
        |r| r.offset = u32::MAX,
        |r| r.offset += 4,
        |r| r.offset += 8,
        |r| r.private_header_bytes = 8,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let (_client, mut offer) = Rings::create(3, 64, 1).expect("memory");
        let memory = SharedMemory::map(&offer.memory, offer.bytes).expect("sealed");
        let [(mut from_client, interrupt), to_client] = offer.rings.remove(0);
        change(&mut from_client);
        let joined = Rings::join(vec![memory], (from_client, interrupt), to_client);
        assert!(matches!(joined, Err(Breach::Ring)), "change {n}");
    }
}

#[test]
fn a_full_counter_makes_nobody_wait() {
    let (mut client, server) = pair(3, 64);
    rustix::io::write(server.interrupt(), &(u64::MAX - 1).to_ne_bytes()).expect("counted");
    // A client could do this, because both ends share the file.
    rustix::fs::fcntl_setfl(server.interrupt(), rustix::fs::OFlags::empty()).expect("set");
    server.ask_interrupts();
    client.push([b"x", &[], &[]]).expect("room");
    client.send();
    assert!(server.has_input());
}

#[test]
fn only_an_eventfd_is_one() {
    let eventfd = rustix::event::eventfd(0, EventfdFlags::empty()).expect("an eventfd");
    assert!(is_eventfd(&eventfd));
    let file: OwnedFd = tempfile::tempfile().expect("a file").into();
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    assert!(!is_eventfd(&file) && !is_eventfd(&socket.into()));
}

#[test]
fn nobody_sleeps_through_a_frame() {
    const ROUNDS: u32 = 20_000;
    let (client, server) = pair(3, 64);
    // Each end waits for the other's frame as a loop does: it checks, asks for interrupts, checks again, and sleeps.
    let play = |mut rings: Rings, begins: bool| {
        let answer = |rings: &mut Rings, round: u32| {
            assert_eq!(rings.push([&round.to_ne_bytes(), &[], &[]]).expect("honest"), Pushed::Done);
            rings.send();
        };
        if begins {
            answer(&mut rings, 0);
        }
        for round in 0..ROUNDS {
            rings.stop_interrupts();
            if !rings.has_input() {
                rings.ask_interrupts();
            }
            while !rings.has_input() {
                let interrupt = rings.interrupt().try_clone().expect("a copy");
                let mut fds = [PollFd::new(&interrupt, PollFlags::IN)];
                let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
                let woken = rustix::event::poll(&mut fds, Some(&patience)).expect("polled");
                assert!(woken == 1 || rings.has_input(), "slept through round {round}");
                let _ = rustix::io::read(&interrupt, &mut [0u8; 8]);
            }
            let frames = received(&mut rings, 8).expect("honest");
            assert_eq!(frames, [round.to_ne_bytes()]);
            answer(&mut rings, round + u32::from(begins));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(server, false));
        play(client, true);
    });
}
