//! What a worker counts of popular prefixes, and when.

use super::*;
use crate::popular::{Counts, Traffic, WINDOW};

impl Bench {
    fn traffic(&mut self) -> Traffic {
        self.now = self.now + WINDOW;
        self.worker.popular(self.now)
    }
}

fn counts(traffic: &Traffic, uri: &str) -> Option<Counts> {
    traffic.prefixes.iter().find(|(prefix, _)| *prefix == name(uri)).map(|(_, counts)| *counts)
}

#[test]
fn interests_and_data_are_counted_while_somebody_asks() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/before", 1).encode());
    assert!(b.worker.popular(b.now).time.is_zero(), "nobody has asked");
    b.worker.count_popular(b.now, true);
    assert!(b.worker.popular(b.now).time.is_zero(), "no window is over");
    for nonce in 0..3u32 {
        b.receive(APP, &interest(&format!("/a/b/{nonce}"), nonce).encode());
    }
    b.now = b.now + Duration::from_millis(30);
    b.receive(HOST, &data("/a/b/0"));
    b.receive(APP, &interest("/localhost/nfd/status/general", 9).encode());
    let traffic = b.traffic();
    assert_eq!((traffic.packets, traffic.samples), (4, 4), "management's packets are not counted");
    let bytes = data("/a/b/0").len() as u64;
    let expected = Counts { interests: 3, data: 1, data_bytes: bytes, excess: 0 };
    assert_eq!((counts(&traffic, "/a"), counts(&traffic, "/a/b")), (Some(expected), Some(expected)));
    assert_eq!(counts(&traffic, "/a/before"), None);
    assert_eq!(traffic.answers.count(), 1);
    assert_eq!(traffic.answers.sum, 30_000_000, "the Interest had waited for 30 ms");

    // Asking again goes on with the same window.
    b.worker.count_popular(b.now, true);
    assert_eq!(b.worker.popular(b.now).packets, 4);
    b.worker.count_popular(b.now, false);
    assert!(b.worker.popular(b.now).time.is_zero());
    b.receive(APP, &interest("/a/after", 10).encode());
    b.worker.count_popular(b.now, true);
    assert_eq!(b.traffic().packets, 0);
}

#[test]
fn counting_changes_nothing_that_is_sent() {
    let (mut counted, mut plain) = (bench(), bench());
    counted.worker.count_popular(counted.now, true);
    for b in [&mut counted, &mut plain] {
        b.route("/a", &[HOST, HOST_2]);
    }
    for step in 0..200u32 {
        let uri = format!("/a/{}", step % 7);
        let (from, packet) = match step % 3 {
            0 => (HOST, data(&uri)),
            1 => (APP, interest(&uri, step).encode()),
            _ => (APP_2, interest(&uri, step).can_be_prefix(true).encode()),
        };
        let sent = [&mut counted, &mut plain].map(|b| {
            b.now = b.now + Duration::from_millis(20);
            shape(&b.receive(from, &packet))
        });
        assert_eq!(sent[0], sent[1], "step {step}");
    }
}
