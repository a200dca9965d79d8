//! An idle router sleeps. This test has a process of its own, because it measures all threads of routers.

mod common;

use std::time::{Duration, Instant};

use byname_face::memif::{MemifConfig, MemifPort, Role};
use byname_face::{FaceUri, Port};
use common::*;

/// CPU time of the router's threads so far, and their number.
fn router_time() -> (Duration, usize) {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads are listed");
    let named =
        |dir: &std::path::Path| std::fs::read_to_string(dir.join("comm")).is_ok_and(|name| name.starts_with("byname-"));
    let time = |dir: std::path::PathBuf| {
        let schedstat = std::fs::read_to_string(dir.join("schedstat")).expect("times of the thread");
        Duration::from_nanos(schedstat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of ns"))
    };
    let times: Vec<_> = tasks.filter_map(|t| Some(t.ok()?.path())).filter(|dir| named(dir)).map(time).collect();
    (times.iter().sum(), times.len())
}

#[test]
fn an_idle_router_uses_less_than_half_a_percent_of_a_core() {
    for (threads, rests) in [(1, true), (2, true), (2, false)] {
        let folder = tempfile::tempdir().unwrap();
        let memif = |role| -> Box<dyn Port> {
            Box::new(MemifPort::open(MemifConfig::new(folder.path().join("memif.sock"), role)).unwrap())
        };
        let ports = vec![memif(Role::Server), memif(Role::Client)];
        idle(Router::of(threads, 1024, Router::config(rests), ports, |_| {}), threads);
    }
}

fn idle(mut router: Router, threads: usize) {
    let (consumer, producer) = (socket(), socket());
    let to_producer = router.face(producer.local_addr().unwrap());
    router.route("/a", to_producer.id);
    // An interface in shared memory, from the router to itself.
    let faces = |router: &Router| router.running.handle.faces();
    let memif: Vec<_> =
        faces(&router).into_iter().filter(|face| matches!(face.remote, FaceUri::Memif { .. })).collect();
    assert_eq!(memif.len(), 2);
    let memif = [memif[0].id, memif[1].id];
    wait_until("both ends have agreed", || faces(&router).iter().filter(|f| memif.contains(&f.id)).all(|face| face.up));
    router.route("/m", memif[0]);
    consumer.send_to(&interest("/m/b", 1), router.udp).unwrap();
    let has_crossed = || faces(&router).iter().any(|f| f.id == memif[1] && f.counters.in_interests == 1);
    wait_until("an Interest crosses the memory", has_crossed);
    // Faces, a PIT entry and an on-demand timer exist while the router idles.
    consumer.send_to(&interest("/a/b", 1), router.udp).unwrap();
    producer.recv(&mut [0; 9000]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let before = router_time();
    std::thread::sleep(Duration::from_secs(4));
    let used = router_time().0 - before.0;
    assert!(used < Duration::from_millis(20), "{used:?} in 4 s");
    assert_eq!(before.1, threads);
    router.stop();
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
