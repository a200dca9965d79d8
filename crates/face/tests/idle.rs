//! An idle router sleeps. Alone in its process, so that no other packet thread is mistaken for it.

mod common;

use std::time::Duration;

use common::*;

/// CPU time of the packet thread so far.
fn packet_thread_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads are listed");
    let named = |dir: &std::path::Path| {
        std::fs::read_to_string(dir.join("comm")).is_ok_and(|name| name.trim() == "byname-packets")
    };
    let dir = tasks.filter_map(|t| Some(t.ok()?.path())).find(|dir| named(dir)).expect("the packet thread");
    let schedstat = std::fs::read_to_string(dir.join("schedstat")).expect("times of the thread");
    let ns = schedstat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of ns");
    Duration::from_nanos(ns)
}

#[test]
fn an_idle_router_uses_less_than_half_a_percent_of_a_core() {
    let mut router = Router::udp(|_| {});
    let (consumer, producer) = (socket(), socket());
    let to_producer = router.face(producer.local_addr().unwrap());
    router.route("/a", to_producer.id);
    // Faces, a PIT entry and an on-demand timer are there while it idles.
    consumer.send_to(&interest("/a/b", 1), router.udp).unwrap();
    producer.recv(&mut [0; 9000]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let before = packet_thread_time();
    std::thread::sleep(Duration::from_secs(4));
    let used = packet_thread_time() - before;
    assert!(used < Duration::from_millis(20), "{used:?} in 4 s");
    router.stop();
}
