//! Packets and their buffers.

use super::*;

#[test]
fn a_dropped_buffer_is_used_again() {
    let first = Packet::copy_from(b"one");
    let address = first.as_ptr();
    drop(first);
    assert_eq!(Packet::copy_from(b"two").as_ptr(), address);
}

#[test]
fn a_shared_buffer_is_read_only_until_the_last_share() {
    let mut packet = Packet::copy_from(b"abcdef");
    let share = packet.clone().slice(1..3);
    assert_eq!(&*share, b"bc");
    assert!(packet.unshared_mut().is_none());
    drop(share);
    packet.unshared_mut().expect("the only share")[0] = b'x';
    assert_eq!(&*packet, b"xbcdef");
}

#[test]
fn a_packet_is_cloned_more_often_than_it_has_parts() {
    let mut packet = Packet::copy_from(b"abcdef");
    let mut clones: Vec<Packet> = (0..100_000).map(|_| packet.clone()).collect();
    // The last has the fewest parts, and clones of clones have fewer still.
    let last = clones.pop().expect("there are many");
    clones.extend((0..100).scan(last, |last, _| {
        *last = last.clone();
        Some(last.clone())
    }));
    assert!(clones.iter().all(|clone| clone[..] == *b"abcdef"));
    while let Some(clone) = clones.pop() {
        assert!(packet.unshared_mut().is_none());
        drop(clone);
    }
    assert!(packet.unshared_mut().is_some());
}

#[test]
fn every_size_has_a_buffer_and_a_stretch_of_a_stretch_is_right() {
    for len in [0, 1, 240, 241, 624, 1264, 2288, 2289, 4592, 4593, 9216] {
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let packet = Packet::copy_from(&bytes);
        assert_eq!(*packet, *bytes);
        assert!(packet.memory_bytes() >= len + HEADER_BYTES);
        let stretch = packet.slice(len / 4..len - len / 4);
        let inner = len / 4..len - len / 4 - len / 8;
        assert_eq!(*stretch.slice(len / 8..inner.len()), bytes[inner][len / 8..]);
    }
    assert!(std::panic::catch_unwind(|| Packet::build(9217, |_| ())).is_err());
    assert_eq!((Packet::empty().len(), Packet::empty().clone().memory_bytes()), (0, 0));
}

#[test]
fn shares_are_dropped_in_many_threads() {
    for round in 0..200_u32 {
        let packet = Packet::copy_from(&round.to_le_bytes());
        std::thread::scope(|scope| {
            for clones in 1..4 {
                let share = packet.clone();
                scope.spawn(move || {
                    let more: Vec<Packet> = (0..clones).map(|_| share.clone()).collect();
                    assert!(more.iter().all(|more| **more == round.to_le_bytes()));
                });
            }
            drop(packet);
        });
    }
}

/// Each thread's stock overflows with what another has built, and runs out of its own.
#[test]
fn buffers_go_round_in_many_threads() {
    const THREADS: usize = 4;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::sync_channel(4)).unzip();
    std::thread::scope(|scope| {
        for (thread, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(thread + 1) % THREADS].clone();
            scope.spawn(move || {
                for round in 0..40_u8 {
                    let byte = round * THREADS as u8 + thread as u8;
                    let build = |i: usize| Packet::build(i * 7919 % 9217, |bytes| bytes.fill(byte));
                    next.send((byte, (0..500).map(build).collect::<Vec<_>>())).expect("the next receives");
                    let (byte, packets) = receiver.recv().expect("the one before sends");
                    assert!(packets.iter().all(|packet| packet.iter().all(|found| *found == byte)));
                }
            });
        }
    });
}
