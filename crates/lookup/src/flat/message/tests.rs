use super::*;

const KEY: NameHashKey = NameHashKey::new([3, 4]);

fn flips() -> Vec<Vec<Flip>> {
    let flip = |block, word, flip| Flip { block, word, flip };
    vec![
        vec![flip(3, 9000, 0xff00)],
        vec![flip(0, 0, u64::MAX), flip(0, 7, 1 << 63), flip(70_000, 2, 0x0100_0000_0001), flip(2, u32::MAX, 5)],
        vec![],
        vec![flip(u32::MAX, 1, 0)],
    ]
}

fn blocks() -> Vec<Block> {
    let block = |number, words: usize| Block { number, header: vec![7; 3], words: vec![u64::MAX / 3; words] };
    vec![block(0, 300), block(5, 0), block(1, 7)]
}

/// All messages that a sender makes of these, in order.
fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut sender = Sender::new(KEY, MESSAGE_BYTES_MIN);
    sender.blocks(true, b"whole", blocks().into_iter(), |message| messages.push(message.to_vec()));
    sender.changes(flips().iter().map(Vec::as_slice), |message| messages.push(message.to_vec()));
    sender.blocks(false, b"some", blocks().into_iter().skip(1), |message| messages.push(message.to_vec()));
    sender.beat(|message| messages.push(message.to_vec()));
    messages
}

#[test]
fn what_is_sent_is_delivered() {
    let mut receiver = Receiver::new(KEY, 10_000);
    assert!(receiver.is_stale());
    let messages = messages();
    assert!(messages.iter().all(|message| message.len() <= MESSAGE_BYTES_MIN));
    let delivered: Vec<_> = messages.iter().filter_map(|m| receiver.receive(m).expect("in order")).collect();
    let some = blocks().split_off(1);
    let right = [
        Delivery::Blocks { is_whole: true, header: b"whole".into(), blocks: blocks() },
        Delivery::Changes(flips()),
        Delivery::Blocks { is_whole: false, header: b"some".into(), blocks: some },
        Delivery::Changes(vec![]),
    ];
    assert_eq!(delivered, right);
    assert!(!receiver.is_stale());
}

#[test]
fn a_change_that_is_too_long_does_not_fit() {
    let sender = Sender::new(KEY, MESSAGE_BYTES_MIN);
    let change: Vec<_> = (0..40).map(|word| Flip { block: 1, word, flip: u64::MAX }).collect();
    assert!(sender.fits(&change[..20]));
    assert!(!sender.fits(&change));
}

#[test]
fn a_gap_makes_stale_and_a_repeat_changes_nothing() {
    let messages = messages();
    for lost in 0..messages.len() - 1 {
        let mut receiver = Receiver::new(KEY, 10_000);
        for (at, message) in messages.iter().enumerate().filter(|&(at, _)| at != lost) {
            let received = receiver.receive(message);
            assert_eq!(received.is_err(), at > lost, "message {at} of those without {lost}");
            let sequence = at as u64 + 1;
            let was_stale = receiver.is_stale();
            assert_eq!(receiver.receive(message), Err(Refusal::Repeated { sequence }));
            assert_eq!(receiver.is_stale(), was_stale);
        }
        assert!(receiver.is_stale());
    }
}

#[test]
fn no_bit_may_change_and_no_byte_be_lost() {
    let messages = messages();
    let mut receiver = Receiver::new(KEY, 10_000);
    for message in &messages {
        for bit in 0..8 * message.len() {
            let mut corrupt = message.clone();
            corrupt[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(receiver.receive(&corrupt), Err(Refusal::Corrupt));
        }
        for len in 0..message.len() {
            assert_eq!(receiver.receive(&message[..len]), Err(Refusal::Corrupt));
        }
        receiver.receive(message).expect("corrupt messages are as if they had not come");
    }
}

/// Bytes with a valid seal that our sender never makes, as a broken sender might.
#[test]
fn sealed_nonsense_is_refused_without_memory() {
    let mut random = 1u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as u8
    };
    let (mut sender, mut refused) = (Sender::new(KEY, 1000), 0);
    let mut receiver = Receiver::new(KEY, 1 << 20);
    for round in 0..20_000 {
        sender.blocks(true, b"", std::iter::empty(), |message| drop(receiver.receive(message).expect("a table")));
        let body: Vec<_> = (0..round % 40).map(|_| next()).collect();
        let message = sender.message(round as u8 % 4, &body);
        refused += usize::from(receiver.receive(&message).is_err());
    }
    assert!(refused > 10_000);
    // A block of 2^60 words, changes of 2^63 words, a table of 2^62 bytes.
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
    for (kind, body) in [(BEGIN, [&[1][..], &[12, 0, 5, 0], &huge[..]].concat()), (CHANGES, huge.to_vec())] {
        let message = sender.message(kind, &body);
        assert_eq!(receiver.receive(&message), Err(Refusal::Corrupt));
        assert!(receiver.is_stale());
        sender.blocks(true, b"", std::iter::empty(), |message| drop(receiver.receive(message).expect("a table")));
    }
    let message = sender.message(BEGIN, &[&[1][..], &huge[..]].concat());
    assert!(matches!(receiver.receive(&message), Err(Refusal::TooLarge { .. })));
}
