//! The dataset `traffic/prefixes`.

use super::*;
use crate::mgmt::tlv::traffic::Traffic;

const QUESTION: &str = "/localhost/nfd/traffic/prefixes";

impl Router {
    fn traffic(&mut self) -> Traffic {
        let content = self.dataset(QUESTION);
        self.now.unix_ms += 1;
        Traffic::decode_value(&content).expect("encoded as it is decoded")
    }
}

fn interests(traffic: &Traffic, uri: &str) -> u64 {
    traffic.prefixes.iter().filter(|prefix| prefix.name == name(uri)).map(|prefix| prefix.n_interests).sum()
}

#[test]
fn prefixes_are_counted_on_all_threads_while_somebody_asks() {
    for threads in [1, 3] {
        let mut router = Router::with_threads(100, Authorizer::local_only(), threads);
        router.express(&["/early/1".to_owned()]);
        assert_eq!(router.traffic().window_ms, 0, "nobody had asked");
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let mut sent = 0;
        let traffic = loop {
            assert!(std::time::Instant::now() < deadline, "{sent} sent");
            let uris: Vec<String> = (0..20).map(|i| format!("/much/{}/{}", i % 2, sent + i)).collect();
            router.express(&uris);
            sent += uris.len();
            let traffic = router.traffic();
            if interests(&traffic, "/much") > 0 {
                break traffic;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let much = interests(&traffic, "/much");
        assert!(much <= sent as u64 && traffic.window_ms >= 2000, "{much} of {sent} in {} ms", traffic.window_ms);
        let parts = interests(&traffic, "/much/0") + interests(&traffic, "/much/1");
        // Threads have windows of different lengths, and each count is rounded.
        assert!(parts.abs_diff(much) <= 8, "{parts}, {much}");
        assert_eq!(interests(&traffic, "/early"), 0);
        assert!(traffic.n_packets >= much && traffic.n_samples > 0);
        assert_eq!(traffic.prefixes[0].name, name("/much"), "the most popular first");

        // Nobody asks for a while: the threads forget all.
        router.advance(9_000);
        assert!(router.traffic().window_ms > 0, "it still counts");
        router.advance(10_000);
        assert_eq!(router.management.next_deadline_ms().filter(|at| *at <= router.now.ms), None);
        assert_eq!(router.traffic().window_ms, 0, "it begins again");
    }
}

#[test]
fn only_local_faces_may_ask() {
    let mut router = Router::new(10);
    let wire = InterestBuilder::new(name("/localhop/nfd/traffic/prefixes"), 7).can_be_prefix(true).must_be_fresh(true);
    assert!(router.management.answer(&wire.encode(), NEIGHBOUR, router.now).is_none());
    assert!(router.management.answer(&wire.encode(), APP, router.now).is_some());
}
