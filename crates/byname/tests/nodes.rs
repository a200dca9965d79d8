//! A router whose threads are on several memory nodes, which are injected.

mod common;

use common::Router;
use serde_json::Value;

/// Routes are registered and used on each node, and `byname status` shows the nodes.
#[test]
fn threads_on_several_nodes_forward_by_their_replicas() {
    for (nodes, threads, shown) in [("0;1", 2, [0, 1]), ("0-1", 2, [0, 0]), ("0;1;2;3", 4, [0, 1])] {
        let router = Router::start_on_nodes(nodes, &format!("[threads]\ncount = {threads}\nrest = false\n"));
        let status = router.json("status");
        let of_threads: Vec<_> = status["general"]["threads"].as_array().into_iter().flatten().collect();
        assert_eq!(of_threads.len(), threads);
        assert_eq!(of_threads[..2].iter().map(|thread| &thread["node"]).collect::<Vec<_>>(), shown, "{status}");
        let text = router.ok("status");
        assert_eq!(text.contains("thread=1 node=1 "), shown[1] == 1, "{text}");
        // Names and clients are dealt out, so all threads look up routes.
        let server = router.serve("ping-server /demo", "/demo/ping", b"");
        for _ in 0..4 {
            let text = router.ok("ping /demo -c 40 -i 2");
            assert!(text.contains("40 transmitted") && text.contains("40 received"), "{text}");
        }
        drop(server);
    }
}

#[test]
fn without_bound_threads_there_are_no_nodes() {
    for (nodes, configuration) in [("0;1", "[threads]\ncount = 2\npin = false\n"), ("0;1", ""), ("nonsense", "")] {
        let router = Router::start_on_nodes(nodes, configuration);
        let status = router.json("status");
        let all: Vec<_> = status["general"]["threads"].as_array().into_iter().flatten().collect();
        assert!(!all.is_empty() && all.iter().all(|thread| thread["node"] == Value::Null), "{status}");
        assert!(!router.log().contains("BYNAME_NODES"), "nobody needs to know: {}", router.log());
    }
}
